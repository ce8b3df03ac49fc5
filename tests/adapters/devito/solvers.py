"""Devito's example solvers, unmodified: their operators for us, their own methods as oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import devito
import numpy as np
from examples.seismic import setup_geometry
from examples.seismic.acoustic import AcousticWaveSolver
from examples.seismic.self_adjoint import SaIsoAcousticWaveSolver
from examples.seismic.tti import AnisotropicWaveSolver
from examples.seismic.tti.operators import kernels as tti_kernels
from examples.seismic.viscoacoustic import ViscoacousticWaveSolver

Arrays = list[np.ndarray]
OPENMP = {"language": "openmp"}
ONE_THREAD = {"nthreads": 1, "nthreads_nonaffine": 1}


@dataclass(eq=False)
class Solver:
    """Two operators of a solver, what each is given, and its own way of keeping everything.

    ``keep_all`` returns the receivers' data and the gradient, as ``run`` does; ``peer`` is the
    solver's own checkpointing, where it has one.
    """

    forward: Any
    gradient: Any
    rec: Any
    total: Any
    forward_arguments: Mapping[str, Any]
    gradient_arguments: Mapping[str, Any]
    stock: Callable[[], Any]
    names: Mapping[str, str] = field(default_factory=dict)
    peer: Callable[[], Any] | None = None

    def reset(self) -> None:
        self.rec.data[:] = np.nan
        self.total.data_with_halo[:] = 0.0

    def found(self) -> Arrays:
        return [np.array(self.rec.data), np.array(self.total.data)]

    def keep_all(self) -> Arrays:
        self.reset()
        self.stock()
        return self.found()

    def run(self, run: Any) -> Arrays:
        self.reset()
        run.forward(**self.forward_arguments)
        run.reverse(**self.gradient_arguments)
        return self.found()


def geometry(model: Any, samples: int) -> Any:
    """One source and a line of receivers for ``samples`` samples."""
    return setup_geometry(model, (samples - 1.5) * model.critical_dt)


def residual(solver: Any) -> Any:
    """Receivers whose data differ at every sample, to be injected in reverse."""
    given = solver.geometry.new_rec(name="rec")
    given.data[:] = np.random.default_rng(1).standard_normal(given.data.shape)
    return given


def acoustic(model: Any, samples: int, kernel: str = "OT2", **threads: Any) -> Solver:
    threads = threads or ONE_THREAD
    solver = AcousticWaveSolver(
        model, geometry(model, samples), kernel=kernel, space_order=model.space_order, **OPENMP
    )
    src, rec, given = solver.geometry.src, solver.geometry.rec, residual(solver)
    grad = devito.Function(name="grad", grid=model.grid)
    v = devito.TimeFunction(name="v", grid=model.grid, time_order=2, space_order=solver.space_order)

    def stock() -> None:
        u = solver.forward(src=src, rec=rec, save=True, **threads)[1]
        solver.jacobian_adjoint(given, u, grad=grad, **threads)

    common = {"dt": solver.dt, **model.physical_params(), **threads}
    return Solver(
        solver.op_fwd(save=True),
        solver.op_grad(save=True),
        rec,
        grad,
        {"src": src, "rec": rec, **common},
        {"rec": given, "grad": grad, "v": v, **common},
        stock,
        peer=lambda: solver.jacobian_adjoint(given, None, grad=grad, checkpointing=True, **threads),
    )


def self_adjoint(model: Any, samples: int, **threads: Any) -> Solver:
    threads = threads or ONE_THREAD
    solver = SaIsoAcousticWaveSolver(
        model, geometry(model, samples), space_order=model.space_order, **OPENMP
    )
    src, rec, given = solver.geometry.src, solver.geometry.rec, residual(solver)
    dm = devito.Function(name="dm", grid=model.grid, space_order=solver.space_order)
    du = devito.TimeFunction(
        name="du", grid=model.grid, time_order=2, space_order=solver.space_order
    )

    def stock() -> None:
        u = solver.forward(src=src, rec=rec, save=True, **threads)[1]
        solver.jacobian_adjoint(given, u, dm=dm, **threads)

    common = {"dt": solver.dt, **model.physical_params(), **threads}
    return Solver(
        solver.op_fwd(save=True),
        solver.op_jacadj(save=True),
        rec,
        dm,
        {"src": src, "rec": rec, **common},
        {"rec": given, "dm": dm, "du": du, **common},
        stock,
        {"u0": "u"},
    )


def tti(model: Any, samples: int, **threads: Any) -> Solver:
    threads = threads or ONE_THREAD
    solver = AnisotropicWaveSolver(
        model, geometry(model, samples), space_order=model.space_order, **OPENMP
    )
    src, rec, given = solver.geometry.src, solver.geometry.rec, residual(solver)
    dm = devito.Function(name="dm", grid=model.grid)
    du, dv = (
        devito.TimeFunction(name=n, grid=model.grid, time_order=2, space_order=model.space_order)
        for n in ("du", "dv")
    )

    def stock() -> None:
        u, v = solver.forward(src=src, rec=rec, save=True, **threads)[1:3]
        solver.jacobian_adjoint(given, u, v, dm=dm, **threads)

    common = {"dt": solver.dt, **_tti_parameters(model), **threads}
    return Solver(
        solver.op_fwd(save=True),
        solver.op_jacadj(save=True),
        rec,
        dm,
        {"src": src, "rec": rec, **common},
        {"rec": given, "dm": dm, "du": du, "dv": dv, **common},
        stock,
        {"u0": "u", "v0": "v"},
        lambda: solver.jacobian_adjoint(given, None, None, dm=dm, checkpointing=True, **threads),
    )


def tti_staggered(model: Any, samples: int, **threads: Any) -> Solver:
    """The solver's own forward; it has no gradient, so its adjoint kernel is given an image."""
    threads = threads or ONE_THREAD
    solver = AnisotropicWaveSolver(
        model,
        geometry(model, samples),
        space_order=model.space_order,
        kernel="staggered",
        **OPENMP,
    )
    src, rec, given = solver.geometry.src, solver.geometry.rec, residual(solver)
    forward = solver.op_fwd(save=True)
    stored = {f.name: f for f in forward.parameters if f.name in ("u", "v")}
    space = {"grid": model.grid, "time_order": 1, "space_order": model.space_order}
    p, r = (
        devito.TimeFunction(name=name, staggered=stored[like].staggered, **space)
        for name, like in (("p", "u"), ("r", "v"))
    )
    dm = devito.Function(name="dm", grid=model.grid)
    dt = model.grid.stepping_dim.spacing
    kernel = tti_kernels["staggered", model.dim]
    gradient = devito.Operator(
        kernel(model, p, r, forward=False)
        + given.inject(field=(p.backward, r.backward), expr=given * dt / model.m)
        + [devito.Inc(dm, stored["u"].dt * p + stored["v"].dt * r)],
        subs=model.spacing_map,
        name="GradientOfStaggeredTTI",
        **OPENMP,
    )
    common = {"dt": solver.dt, **_tti_parameters(model), **threads}

    def stock() -> None:
        u, v = solver.forward(src=src, rec=rec, save=True, **threads)[1:3]
        reverse = _fresh_velocities(gradient, space)
        gradient.apply(rec=given, u=u, v=v, dm=dm, **_zeros(p, r), **reverse, **common)

    return Solver(
        forward,
        gradient,
        rec,
        dm,
        {"src": src, "rec": rec, **common},
        {"rec": given, "dm": dm, **_fresh_velocities(gradient, space), **common},
        stock,
    )


def viscoacoustic(
    model: Any, samples: int, kernel: str = "sls", time_order: int = 2, **threads: Any
) -> Solver:
    """The solver's operators; its ``jacobian_adjoint`` gives ``r`` to kernels without one."""
    threads = threads or ONE_THREAD
    solver = ViscoacousticWaveSolver(
        model,
        geometry(model, samples),
        kernel=kernel,
        time_order=time_order,
        space_order=model.space_order,
        **OPENMP,
    )
    src, rec, given = solver.geometry.src, solver.geometry.rec, residual(solver)
    gradient = solver.op_grad(save=True)
    grad = devito.Function(name="grad", grid=model.grid)
    space = {"grid": model.grid, "time_order": time_order, "space_order": model.space_order}
    first = {"time_m": 0} if time_order == 1 else {}
    common = {"dt": solver.dt, **model.physical_params(), **threads}

    def state(operator: Any, pressure: str) -> dict[str, Any]:
        names = {parameter.name for parameter in operator.parameters}
        made = [
            devito.TimeFunction(name=n, staggered=devito.NODE, **space)
            for n in (pressure, "r")
            if n in names
        ]
        if time_order == 1:
            made = [*made, *devito.VectorTimeFunction(name="va", **space)]
        return {function.name: function for function in made}

    def stock() -> None:
        p = solver.forward(src=src, rec=rec, save=True, **threads)[1]
        arguments = {"rec": given, "grad": grad, "p": p, **state(gradient, "pa"), **first}
        gradient.apply(**arguments, **common)

    return Solver(
        solver.op_fwd(save=True),
        gradient,
        rec,
        grad,
        {"src": src, "rec": rec, **common},
        {"rec": given, "grad": grad, **state(gradient, "pa"), **first, **common},
        stock,
        peer=(
            lambda: solver.jacobian_adjoint(given, None, grad=grad, checkpointing=True, **threads)
        )
        if kernel == "sls"
        else None,
    )


def _tti_parameters(model: Any) -> dict[str, Any]:
    """A dip in a plane has no azimuth."""
    given = dict(model.physical_params())
    if model.dim < 3:
        given.pop("phi", None)
    return given


def _zeros(*functions: Any) -> dict[str, Any]:
    for function in functions:
        function.data_with_halo[:] = 0.0
    return {function.name: function for function in functions}


def _fresh_velocities(operator: Any, space: Mapping[str, Any]) -> dict[str, Any]:
    """Particle velocities of an operator, as the staggered solver makes them: on cell faces."""
    return {
        p.name: devito.TimeFunction(name=p.name, staggered=p.staggered, **space)
        for p in operator.parameters
        if p.name in ("vx", "vy", "vz")
    }
