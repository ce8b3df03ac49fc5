"""Devito's own checkpointing on our executor, unchanged: solvers, breaks, indices that align."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import devito
import numpy as np
import pytest

pytest.importorskip("examples.seismic", reason="Devito's examples are not installed")

from examples.seismic import demo_model, setup_geometry
from examples.seismic.acoustic import AcousticWaveSolver
from examples.seismic.tti import AnisotropicWaveSolver
from examples.seismic.viscoacoustic import ViscoacousticWaveSolver

from retrograd.adapters import pyrevolve

OPENMP = {"language": "openmp"}
ONE_THREAD = {"nthreads": 1, "nthreads_nonaffine": 1}


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    pyrevolve.install()
    yield
    pyrevolve.uninstall()


def made(kind: type, preset: str, shape: tuple[int, ...], **options: Any) -> Any:
    model = demo_model(preset, shape=shape, spacing=(10.0,) * len(shape), nbl=3, space_order=4)
    geometry = setup_geometry(model, 49.5 * model.critical_dt)
    return kind(model, geometry, space_order=4, **OPENMP, **options)


def equal_enough(ours: Any, theirs: Any) -> bool:
    """Buffered and saved operators are compiled apart, and need not agree to the last bit."""
    return float(np.abs(ours - theirs).max()) <= 2e-6 * float(np.abs(theirs).max()) > 0


@pytest.mark.parametrize("shape", [(17, 15), pytest.param((9, 10, 8), marks=pytest.mark.slow)])
def test_an_acoustic_gradient(shape: tuple[int, ...]) -> None:
    solver = made(AcousticWaveSolver, "layers-isotropic", shape)
    rec, u, _ = solver.forward(save=True, **ONE_THREAD)
    theirs, _ = solver.jacobian_adjoint(rec, u, **ONE_THREAD)
    ours, result = solver.jacobian_adjoint(rec, u, checkpointing=True, **ONE_THREAD)
    assert equal_enough(ours.data, theirs.data)
    assert result.plan.name == "keep-all"


def test_a_budget_for_all_of_devito() -> None:
    solver = made(AcousticWaveSolver, "layers-isotropic", (17, 15))
    rec, u, _ = solver.forward(save=True, **ONE_THREAD)
    theirs, _ = solver.jacobian_adjoint(rec, u, **ONE_THREAD)
    pyrevolve.install(memory="100 kB")
    ours, result = solver.jacobian_adjoint(rec, u, checkpointing=True, **ONE_THREAD)
    assert equal_enough(ours.data, theirs.data)
    assert result.plan.forward_steps > result.plan.steps
    assert result.plan.arena_nbytes <= 100_000


def test_a_gradient_of_two_coupled_fields() -> None:
    solver = made(AnisotropicWaveSolver, "layers-tti", (17, 15))
    rec, u, v, _ = solver.forward(save=True, **ONE_THREAD)
    theirs, _ = solver.jacobian_adjoint(rec, u, v, **ONE_THREAD)
    ours, _ = solver.jacobian_adjoint(rec, u, v, checkpointing=True, **ONE_THREAD)
    assert equal_enough(ours.data, theirs.data)


@pytest.mark.parametrize("time_order", [1, 2])
def test_a_viscoacoustic_gradient(time_order: int) -> None:
    solver = made(
        ViscoacousticWaveSolver,
        "layers-viscoacoustic",
        (17, 15),
        kernel="sls",
        time_order=time_order,
    )
    rec, p, _, _ = solver.forward(save=True, **ONE_THREAD)
    theirs, _ = solver.jacobian_adjoint(rec, p, **ONE_THREAD)
    ours, _ = solver.jacobian_adjoint(rec, p, checkpointing=True, **ONE_THREAD)
    assert equal_enough(ours.data, theirs.data)


@pytest.mark.parametrize("shape", [(17, 15), pytest.param((9, 10, 8), marks=pytest.mark.slow)])
def test_a_forward_with_breaks_equals_the_plain_one(shape: tuple[int, ...]) -> None:
    solver = made(AcousticWaveSolver, "layers-isotropic", shape)
    rec, u, _ = solver.forward(save=False, **ONE_THREAD)
    plain, data = np.array(u.data), np.array(rec.data)
    u.data_with_halo[:] = 0.0
    rec.data[:] = 0.0
    arguments = {"dt": solver.dt, **solver.model.physical_params(), **ONE_THREAD}
    forward = devito.CheckpointOperator(
        solver.op_fwd(save=False), rec=rec, src=solver.geometry.src, u=u, **arguments
    )
    reverse = devito.CheckpointOperator(
        solver.op_grad(save=False), u=u, rec=rec, **_adjoint(solver), **arguments
    )
    revolver = devito.Revolver(
        devito.DevitoCheckpoint([u]), forward, reverse, 3, rec.data.shape[0] - 2
    )
    revolver.apply_forward()
    assert np.array_equal(u.data, plain)
    assert np.array_equal(rec.data, data)
    assert revolver.plan.forward_steps > revolver.plan.steps


def _adjoint(solver: Any) -> dict[str, Any]:
    grid = solver.model.grid
    return {
        "v": devito.TimeFunction(name="v", grid=grid, time_order=2, space_order=4),
        "grad": devito.Function(name="grad", grid=grid),
    }


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("checkpoints", [1, 2, 5])
def test_indices_align(dimensions: int, checkpoints: int) -> None:
    """Forward adds one, reverse takes one away, and the sum of products says that both agree."""
    steps = 20
    grid = devito.Grid(shape=(3,) * dimensions, dtype=np.float64)
    u, v = (devito.TimeFunction(name=n, grid=grid, time_order=1) for n in ("u", "v"))
    total = devito.Function(name="total", grid=grid)
    forward = devito.Operator([devito.Eq(u.forward, u + 1.0)])
    reverse = devito.Operator([devito.Eq(v.backward, v - 1.0), devito.Inc(total, u * v)])
    u.data[:] = 0.0
    v.data[:] = float(steps)
    options = {"time_m": 0, "time_M": steps - 1}
    revolver = devito.Revolver(
        devito.DevitoCheckpoint([u]),
        devito.CheckpointOperator(forward, u=u, **options),
        devito.CheckpointOperator(reverse, u=u, v=v, total=total, **options),
        checkpoints,
        steps,
    )
    revolver.apply_forward()
    revolver.apply_reverse()
    # Step t finds u = t, and v = t + 1.
    assert (total.data == sum(t * (t + 1) for t in range(steps))).all()


def test_modules_that_came_before_are_changed_and_changed_back() -> None:
    wavesolver = sys.modules["examples.seismic.acoustic.wavesolver"]
    assert wavesolver.Revolver is devito.Revolver is pyrevolve.Revolver
    assert issubclass(wavesolver.DevitoCheckpoint, pyrevolve.Checkpoint)
    pyrevolve.uninstall()
    assert devito.Revolver is not pyrevolve.Revolver
    assert wavesolver.Revolver is devito.Revolver
    assert wavesolver.CheckpointOperator is devito.CheckpointOperator
    pyrevolve.install()
