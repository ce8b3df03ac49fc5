"""Receivers, gradient and adjoint state equal those of keeping everything, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.stores.tier import HeldStore

CASES = [
    *((dimensions, dtype, "OT2") for dimensions in (1, 2, 3) for dtype in ("float32", "float64")),
    (2, "float32", "OT4"),
    (3, "float64", "OT4"),
    (1, "float64", "free"),
    (2, "float32", "free"),
    (3, "float32", "free"),
]
LAST_ITERATIONS = (1, 2, 3, 20, 37, 38)  # 1 to 38 steps, odd and even
SAMPLES = (3, 4, 5, 6, 8, 11, 17, 25)  # 3 is the smallest budget there is


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}D-{case[1]}-{case[2]}")
def any_wave(request: pytest.FixtureRequest, make_wave: Callable[..., Any]) -> Any:
    return make_wave(*request.param)


def equal(ours: tuple[np.ndarray, ...], theirs: tuple[np.ndarray, ...]) -> bool:
    """Whether all arrays are equal; what no run has written is NaN on both sides."""
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("last", LAST_ITERATIONS)
def test_equals_keep_all(any_wave: Any, last: int) -> None:
    wave, truth = any_wave, any_wave.keep_all(last)
    for samples in SAMPLES:
        for schedule in ("auto", "mixed", "revolve"):
            run = retrograd.devito.checkpointed(
                wave.forward,
                wave.gradient,
                memory=samples * wave.sample_nbytes,
                schedule=schedule,
            )
            assert equal(wave.run(run, last), truth), (samples, schedule)
            assert run.arena_nbytes <= samples * wave.sample_nbytes
            assert run.result.tally.forward_steps == run.plan.forward_steps
            assert run.plan.steps == last
    assert wave.u._data is None


@pytest.mark.parametrize("samples", [3, 5, 8])
def test_restarts_in_a_store_change_no_bit(any_wave: Any, samples: int) -> None:
    wave, store = any_wave, HeldStore()
    run = retrograd.devito.checkpointed(
        wave.forward,
        wave.gradient,
        memory=samples * wave.sample_nbytes,
        disk=8 * wave.sample_nbytes,
        costs=retrograd.Costs(1.0),
        stores={"disk": store},
    )
    assert run.plan.name == "tiered-mixed"
    assert equal(wave.run(run), wave.keep_all())
    assert run.result.tally.forward_steps == run.plan.forward_steps
    assert run.plan.prediction.disk_nbytes == 8 * wave.sample_nbytes
    assert store.nbytes == 0


@pytest.mark.parametrize("samples", [6, 17, 50])
def test_two_reverse_sweeps_over_one_forward(wave: Any, samples: int) -> None:
    run = retrograd.devito.checkpointed(
        wave.forward, wave.gradient, memory=samples * wave.sample_nbytes, sweeps=2
    )
    truth = wave.keep_all()
    wave.reset()
    arguments = {"dt": wave.dt, "nthreads": 1, "nthreads_nonaffine": 1}
    run.forward(**arguments)
    for _ in range(2):
        wave.grad.data_with_halo[:] = 0.0
        run.reverse(**arguments)
        assert equal(wave.outputs(), truth)
    assert run.result.tally.forward_steps == run.plan.forward_steps
    assert run.plan.name == "sweeps"


def test_keep_all_by_name_takes_every_sample_once(wave: Any) -> None:
    run = retrograd.devito.checkpointed(
        wave.forward, wave.gradient, memory="1/1", schedule="keep-all"
    )
    assert equal(wave.run(run), wave.keep_all())
    assert run.plan.forward_steps == run.plan.steps == 38
    assert run.arena_nbytes == 40 * wave.sample_nbytes == run.plan.keep_all_nbytes


def test_two_threads_give_the_same_bits(wave: Any) -> None:
    truth = wave.keep_all()
    run = retrograd.devito.checkpointed(wave.forward, wave.gradient, memory="1/4")
    assert equal(wave.run(run, nthreads=2, nthreads_nonaffine=1), truth)


def test_a_gradient_is_not_trivial(wave: Any) -> None:
    receivers, gradient, adjoint = wave.keep_all()
    assert np.abs(gradient).max() > 0
    assert np.abs(adjoint).max() > 0
    assert np.abs(receivers[1:-1]).max() > 0


def test_long_calls_are_split_without_changing_a_bit(
    wave: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = wave.keep_all()
    monkeypatch.setattr("retrograd.executor.LONGEST_CALL_SECONDS", 1e-9)
    run = retrograd.devito.checkpointed(wave.forward, wave.gradient, memory="1/4")
    assert equal(wave.run(run), truth)
    assert max(event.stop - event.start for event in run.result.tally.events) == 1


def test_an_iteration_range_that_does_not_start_at_the_first(wave: Any) -> None:
    """The samples before it are the start: zero, as in fresh memory."""
    import devito

    options = {"dt": 1.0, "nthreads": 1, "nthreads_nonaffine": 1, "time_m": 5, "time_M": 30}
    wave.reset()
    u = devito.TimeFunction(name="u", grid=wave.u.grid, time_order=2, space_order=4, save=40)
    wave.forward.apply(u=u, **options)
    wave.v.data_with_halo[:] = 0
    wave.gradient.apply(u=u, **options)
    truth = wave.outputs()
    wave.reset()
    run = retrograd.devito.checkpointed(wave.forward, wave.gradient, memory="1/4")
    run.forward(**options)
    run.reverse(**options)
    assert equal(wave.outputs(), truth)
    assert run.plan.steps == 26


def test_a_start_that_is_not_zero(wave: Any) -> None:
    import devito

    rng = np.random.default_rng(3)
    rows = rng.standard_normal((2, *wave.u.shape[1:])).astype(np.float32)
    options = {"dt": 1.0, "nthreads": 1, "nthreads_nonaffine": 1}
    wave.reset()
    u = devito.TimeFunction(name="u", grid=wave.u.grid, time_order=2, space_order=4, save=40)
    u.data[:2] = rows
    wave.forward.apply(u=u, **options)
    wave.v.data_with_halo[:] = 0
    wave.gradient.apply(u=u, **options)
    truth = wave.outputs()
    for memory in ("1/8", "1/4", "1/1"):
        run = retrograd.devito.checkpointed(wave.forward, wave.gradient, memory=memory)
        assert equal(wave.run(run, initial={"u": rows}), truth)
