"""Waves whose operators are compiled once for all tests, and Devito's own gradient as oracle."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import devito
import numpy as np
import pytest

devito.configuration["log-level"] = "ERROR"

SHAPES = {1: (41,), 2: (13, 18), 3: (7, 9, 8)}  # odd ones, so that rows are not aligned
NT = 40
ONE_THREAD = {"nthreads": 1, "nthreads_nonaffine": 1}


@dataclass(eq=False)
class Wave:
    """A forward and a gradient operator, with data that differ at every point and sample."""

    u: Any
    v: Any
    m: Any
    grad: Any
    src: Any
    rec: Any
    residual: Any
    forward: Any
    gradient: Any
    dt: float = 1.0

    @property
    def sample_nbytes(self) -> int:
        return int(np.prod(self.u.shape_allocated[1:])) * np.dtype(self.u.dtype).itemsize

    def reset(self) -> None:
        """Leave nothing of another test behind but dirt where a run must clean up itself."""
        self.rec.data[:] = np.nan
        self.v.data_with_halo[:] = 7.0
        self.grad.data_with_halo[:] = 0.0

    def outputs(self) -> tuple[np.ndarray, ...]:
        """Receivers, gradient and adjoint state."""
        return tuple(np.array(f.data) for f in (self.rec, self.grad, self.v))

    def keep_all(self, last: int | None = None) -> tuple[np.ndarray, ...]:
        """What Devito's own ``apply`` gives, with all samples in fresh memory."""
        self.reset()
        options = {"dt": self.dt, **ONE_THREAD, **({} if last is None else {"time_M": last})}
        u = devito.TimeFunction(
            name="u",
            grid=self.u.grid,
            time_order=self.u.time_order,
            space_order=self.u.space_order,
            save=self.u.save,
        )
        self.forward.apply(u=u, **options)
        self.v.data_with_halo[:] = 0.0
        self.gradient.apply(u=u, **options)
        return self.outputs()

    def run(self, run: Any, last: int | None = None, **options: Any) -> tuple[np.ndarray, ...]:
        """The same through a checkpointed run."""
        self.reset()
        options |= {"dt": self.dt, **ONE_THREAD, **({} if last is None else {"time_M": last})}
        ours = ("initial", "resume", "interval")
        forward_only = {name: options.pop(name) for name in ours if name in options}
        run.forward(**forward_only, **options)
        run.reverse(**options)
        return self.outputs()


def _laplacian(field: Any, m: Any, kernel: str) -> Any:
    if kernel != "OT4":
        return field.laplace
    dt = field.grid.stepping_dim.spacing
    return field.laplace + dt**2 / 12 * (field.laplace / m).laplace


def _mirror(field: Any, target: Any) -> list[Any]:
    """Zero pressure on the first row of the last axis, on the sample that is being written."""
    depth = field.grid.dimensions[-1]
    return [devito.Eq(target.subs({depth: 0}), 0)]


def build(dimensions: int, dtype: str = "float32", kernel: str = "OT2", order: int = 4) -> Wave:
    """A wave in a random model, with two receivers in one grid cell."""
    rng = np.random.default_rng(dimensions)
    shape = SHAPES[dimensions]
    grid = devito.Grid(
        shape=shape, extent=tuple(10.0 * (n - 1) for n in shape), dtype=np.dtype(dtype).type
    )
    space = {"grid": grid, "space_order": order}
    u = devito.TimeFunction(name="u", time_order=2, save=NT, **space)
    v = devito.TimeFunction(name="v", time_order=2, **space)
    m, damp = (devito.Function(name=name, **space) for name in ("m", "damp"))
    grad = devito.Function(name="grad", **space)
    src = devito.SparseTimeFunction(name="src", grid=grid, npoint=2, nt=NT)
    rec = devito.SparseTimeFunction(name="rec", grid=grid, npoint=5, nt=NT)
    residual = devito.SparseTimeFunction(name="residual", grid=grid, npoint=5, nt=NT)
    m.data[:] = rng.uniform(2.0, 3.0, shape) ** -2
    damp.data[:] = rng.uniform(0.0, 0.02, shape)
    src.coordinates.data[:] = rng.uniform(0.1, 0.9, (2, dimensions)) * grid.extent
    positions = rng.uniform(0.0, 1.0, (5, dimensions)) * grid.extent
    positions[1] = positions[0] + 0.1
    for receivers in (rec, residual):
        receivers.coordinates.data[:] = positions
    src.data[:] = rng.standard_normal((NT, 2))
    residual.data[:] = rng.standard_normal((NT, 5))
    dt = grid.stepping_dim.spacing
    update = devito.solve(m * u.dt2 - _laplacian(u, m, kernel) + damp * u.dt, u.forward)
    back = devito.solve(m * v.dt2 - _laplacian(v, m, kernel) + damp * v.dt.T, v.backward)
    free = kernel == "free"
    forward = devito.Operator(
        [devito.Eq(u.forward, update)]
        + src.inject(field=u.forward, expr=src * dt**2 / m)
        + (_mirror(u, u.forward) if free else [])
        + rec.interpolate(expr=u),
        subs=grid.spacing_map,
        language="openmp",
    )
    gradient = devito.Operator(
        [devito.Eq(v.backward, back)]
        + residual.inject(field=v.backward, expr=residual * dt**2 / m)
        + (_mirror(v, v.backward) if free else [])
        + [devito.Inc(grad, -u * v.dt2)],
        subs=grid.spacing_map,
        language="openmp",
    )
    return Wave(u, v, m, grad, src, rec, residual, forward, gradient)


@pytest.fixture(scope="session")
def make_wave() -> Callable[..., Wave]:
    """`build`, which makes each wave once."""
    return functools.cache(build)


@pytest.fixture
def wave(make_wave: Callable[..., Wave]) -> Wave:
    """The wave that most tests use: 2D, float32, second order in time."""
    wave = make_wave(2)
    wave.reset()
    return wave
