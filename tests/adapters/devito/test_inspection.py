"""What is found in a pair of operators, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import devito
import numpy as np
import pytest

import retrograd
from retrograd.adapters.devito.inspection import inspect
from retrograd.errors import NotSupported

from .conftest import ONE_THREAD, Wave

Fields = dict[str, Any]


@pytest.fixture(scope="module")
def fields() -> Fields:
    """Small fields of every kind that the operators below are built from."""
    grid = devito.Grid(shape=(4,), extent=(3.0,))
    return {
        "grid": grid,
        "u": devito.TimeFunction(name="u", grid=grid, time_order=1, save=14),
        "u2": devito.TimeFunction(name="u2", grid=grid, time_order=2, save=14),
        "w": devito.TimeFunction(name="w", grid=grid, time_order=1),
        "v": devito.TimeFunction(name="v", grid=grid, time_order=1),
        "sums": devito.Function(name="sums", grid=grid),
        "grad": devito.Function(name="grad", grid=grid),
    }


def test_an_acoustic_pair(wave: Wave) -> None:
    findings = inspect(wave.forward, wave.gradient, {})
    (state,) = findings.state
    assert (state.function.name, state.written, state.depth) == ("u", 1, 2)
    assert findings.records == {"u": (0,)}
    assert findings.outputs == ("rec",)
    assert findings.adjoint == ("v",)
    assert findings.accumulators == ("grad",)
    assert findings.forward_accumulators == ()
    assert findings.covered


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_a_plain_update_covers_its_row(make_wave: Callable[..., Wave], dimensions: int) -> None:
    """Also where loops are blocked; or else every row would be zeroed, at great cost."""
    wave = make_wave(dimensions)
    run = retrograd.devito.checkpointed(wave.forward, wave.gradient, memory="1/4")
    run.forward(keep=False, dt=1.0, **ONE_THREAD)
    assert run._problem.findings.covered
    assert not run._problem._zero_rows


def test_an_update_of_a_subdomain_does_not_cover_its_row() -> None:
    class Inner(devito.SubDomain):  # type: ignore[misc]
        name = "inner"

        def define(self, dimensions: Any) -> Any:
            return dict.fromkeys(dimensions, ("middle", 2, 2))

    grid = devito.Grid(shape=(9, 9, 9))
    inner = Inner(grid=grid)
    u = devito.TimeFunction(name="u", grid=grid, save=6)
    v = devito.TimeFunction(name="v", grid=grid)
    forward = devito.Operator(devito.Eq(u.forward, u + 1, subdomain=inner))
    gradient = devito.Operator(devito.Eq(v.backward, v + u))
    assert not inspect(forward, gradient, {}).covered


@pytest.mark.parametrize("order", [1, 2])
def test_indices_align(fields: Fields, order: int) -> None:
    """A counting model: the forward adds one, the reverse takes one away, products add up.

    Every number of steps from 1 to 12, at every memory.
    """
    u, v, grad = fields["u" if order == 1 else "u2"], fields["v"], fields["grad"]
    forward = devito.Operator(devito.Eq(u.forward, u + 1))
    gradient = devito.Operator([devito.Eq(v.backward, v - 1), devito.Inc(grad, u * v)])
    sample = int(np.prod(u.shape_allocated[1:])) * 4
    for steps in range(1, 13):
        first = order - 1
        last = first + steps - 1
        for samples in range(order + 1, steps + order + 2):
            run = retrograd.devito.checkpointed(forward, gradient, memory=samples * sample)
            run.forward(time_m=first, time_M=last)
            v.data[:] = 5.0
            grad.data[:] = 0.0
            run.reverse(time_m=first, time_M=last)
            # sample first + k of u is k, or 0 where the start is; v falls from 0 by one a step
            expected = sum(k * -(steps - 1 - k) for k in range(steps))
            assert (grad.data == expected).all(), (steps, samples)


def test_other_names_in_the_gradient(wave: Wave) -> None:
    u0 = devito.TimeFunction(name="u0", grid=wave.u.grid, time_order=2, space_order=4, save=40)
    v, grad = wave.v, wave.grad
    equations = [devito.Eq(v.backward, v * 0.5 + u0), devito.Inc(grad, u0 * v)]
    gradient = devito.Operator(equations, language="openmp")
    with pytest.raises(NotSupported, match="names="):
        retrograd.devito.checkpointed(wave.forward, gradient, memory="1/4")
    with pytest.raises(NotSupported, match="names="):
        retrograd.devito.checkpointed(wave.forward, gradient, memory="1/4", names={"u1": "u"})
    found = {}
    for memory in ("1/1", "1/8"):
        run = retrograd.devito.checkpointed(
            wave.forward, gradient, memory=memory, names={"u0": "u"}
        )
        wave.reset()
        run.forward(dt=1.0, **ONE_THREAD)
        run.reverse(nthreads=1)
        found[memory] = np.array(grad.data)
    assert np.array_equal(found["1/1"], found["1/8"])
    assert np.abs(found["1/1"]).max() > 0
    assert "there called u0" in run.describe()


def test_sums_of_the_forward_are_not_added_to_twice(fields: Fields) -> None:
    u, v, sums, grad = (fields[name] for name in ("u", "v", "sums", "grad"))
    forward = devito.Operator([devito.Eq(u.forward, u + 1), devito.Inc(sums, u * u)])
    gradient = devito.Operator([devito.Eq(v.backward, v - 1), devito.Inc(grad, u * v)])
    expected = sum(k * k for k in range(13))
    for memory in ("1/4", "1/2", "1/1"):
        run = retrograd.devito.checkpointed(forward, gradient, memory=memory)
        sums.data[:] = 0.0
        run.forward()
        run.reverse()
        assert (sums.data == expected).all()
        if memory != "1/1":
            assert run.result.tally.forward_steps > 13
        assert run.arena_nbytes + run.plan.demand.scratch_nbytes <= run.plan.memory_nbytes
        assert run.plan.demand.scratch_nbytes == 6 * 4


def test_points_that_only_injection_writes_start_at_zero() -> None:
    """A source beyond the domain's last cell injects into the halo, which no update covers."""
    grid = devito.Grid(shape=(5, 6), extent=(4.0, 5.0))
    nt = 12
    u = devito.TimeFunction(name="u", grid=grid, time_order=1, space_order=2, save=nt)
    v = devito.TimeFunction(name="v", grid=grid, time_order=1, space_order=2)
    grad = devito.Function(name="grad", grid=grid)
    src = devito.SparseTimeFunction(name="src", grid=grid, npoint=1, nt=nt)
    src.coordinates.data[:] = (4.3, 2.5)
    src.data[:, 0] = np.arange(1.0, nt + 1)
    forward = devito.Operator(
        [devito.Eq(u.forward, 0.5 * u + 0.1 * u.dx2)] + src.inject(field=u.forward, expr=src)
    )
    gradient = devito.Operator([devito.Eq(v.backward, 0.5 * v + u), devito.Inc(grad, u * v)])
    saved = devito.TimeFunction(name="u", grid=grid, time_order=1, space_order=2, save=nt)
    options = {"nthreads_nonaffine": 1} if "nthreads_nonaffine" in _names(forward) else {}
    forward.apply(u=saved, **options)
    gradient.apply(u=saved)
    truth = np.array(grad.data)
    for memory in ("1/1", "1/2", "1/3"):
        run = retrograd.devito.checkpointed(forward, gradient, memory=memory)
        for _ in range(3):
            grad.data[:] = 0
            run.forward()
            run.reverse()
            assert np.array_equal(grad.data, truth)
    assert np.abs(truth).max() > 0


def test_points_outside_the_asked_for_range_start_at_zero(wave: Wave) -> None:
    """With ``x_m`` the update leaves points out; they are zero, and not an older sample."""
    options = {"dt": 1.0, "x_m": 4, **ONE_THREAD}
    u = devito.TimeFunction(name="u", grid=wave.u.grid, time_order=2, space_order=4, save=40)
    wave.reset()
    wave.forward.apply(u=u, **options)
    wave.v.data_with_halo[:] = 0
    wave.gradient.apply(u=u, dt=1.0, **ONE_THREAD)
    truth = wave.outputs()
    run = retrograd.devito.checkpointed(wave.forward, wave.gradient, memory="1/8")
    for _ in range(2):
        wave.reset()
        run.forward(**options)
        run.reverse(dt=1.0, **ONE_THREAD)
        for ours, theirs in zip(wave.outputs(), truth, strict=True):
            assert np.array_equal(ours, theirs, equal_nan=True)


def _names(operator: Any) -> set[str]:
    return {parameter.name for parameter in operator.parameters}


def test_a_buffered_wavefield_that_the_gradient_reads_is_refused(fields: Fields) -> None:
    w, v, grad = fields["w"], fields["v"], fields["grad"]
    forward = devito.Operator(devito.Eq(w.forward, w + 1))
    gradient = devito.Operator([devito.Eq(v.backward, v - 1), devito.Inc(grad, w * v)])
    with pytest.raises(NotSupported, match="save=nt"):
        retrograd.devito.checkpointed(forward, gradient, memory="1/4")


def test_a_gradient_that_looks_too_far_back_is_refused(fields: Fields) -> None:
    u, v, grad = fields["u"], fields["v"], fields["grad"]
    time = u.time_dim
    forward = devito.Operator(devito.Eq(u.forward, u + 1))
    far = u.subs({time: time - 3 * time.spacing})
    gradient = devito.Operator([devito.Eq(v.backward, v - 1), devito.Inc(grad, far * v)])
    with pytest.raises(NotSupported, match="imaging condition"):
        retrograd.devito.checkpointed(forward, gradient, memory="1/4")


def test_samples_by_index_arrive_at_their_step(make_wave: Callable[..., Wave]) -> None:
    """Source samples are all different; shifting them by one changes every receiver."""
    wave = make_wave(2)
    truth = wave.keep_all()[0]
    wave.src.data[:] = np.roll(np.array(wave.src.data), 1, axis=0)
    try:
        shifted = wave.keep_all()[0]
        run = retrograd.devito.checkpointed(wave.forward, wave.gradient, memory="1/4")
        assert np.array_equal(wave.run(run)[0], shifted, equal_nan=True)
    finally:
        wave.src.data[:] = np.roll(np.array(wave.src.data), -1, axis=0)
    assert not np.array_equal(truth[3:-1], shifted[3:-1])
