"""Faults that people hit elsewhere: each is impossible here."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path
from typing import Any

import devito
import numpy as np
import pytest

import retrograd
from retrograd.errors import (
    BudgetTooSmall,
    CompiledCodeFailed,
    InvalidArgument,
    NotSupported,
    OutOfOrder,
)
from retrograd.events import Kind

from .conftest import ONE_THREAD, Wave


@pytest.fixture
def run(wave: Wave) -> Any:
    return retrograd.devito.checkpointed(wave.forward, wave.gradient, memory="1/4")


def test_a_second_model_leaves_nothing_behind(wave: Wave, run: Any) -> None:
    """g(m1), g(m2), g(m1): the first and third equal, the second a fresh object's."""
    first_model = np.array(wave.m.data)
    try:
        first = wave.run(run)[1]
        wave.m.data[:] = first_model * 1.1
        second = wave.run(run)[1]
        fresh = retrograd.devito.checkpointed(wave.forward, wave.gradient, memory="1/4")
        assert np.array_equal(second, wave.run(fresh)[1])
        assert np.array_equal(second, wave.keep_all()[1])
    finally:
        wave.m.data[:] = first_model
    assert np.array_equal(first, wave.run(run)[1])
    assert not np.array_equal(first, second)


def test_shots_sum_up_as_with_apply(wave: Wave, run: Any) -> None:
    once = wave.run(run)[1].astype(np.float64)
    options = {"dt": 1.0, **ONE_THREAD}
    run.forward(**options)
    run.reverse(**options)
    assert np.allclose(wave.grad.data, 2 * once, rtol=1e-5, atol=1e-5 * np.abs(once).max())


def test_gradient_function_starts_from_zero(wave: Wave) -> None:
    truth = wave.keep_all()[1]
    wave.grad.data_with_halo[:] = 99.0
    options = {"dt": 1.0, **ONE_THREAD}
    called = []
    problem = retrograd.devito.Problem(
        wave.forward, wave.gradient, options, options, between=lambda: called.append(1)
    )
    result = retrograd.gradient(problem, memory="1/4")
    assert np.array_equal(result.gradient["grad"], truth)
    assert called == [1]


def test_reverse_needs_a_forward_of_its_own(wave: Wave, run: Any) -> None:
    with pytest.raises(OutOfOrder, match="call forward"):
        run.reverse(dt=1.0)
    run.forward(dt=1.0, **ONE_THREAD)
    run.reverse(dt=1.0, **ONE_THREAD)
    with pytest.raises(OutOfOrder, match="call forward"):
        run.reverse(dt=1.0)
    run.forward(keep=False, dt=1.0, **ONE_THREAD)
    with pytest.raises(OutOfOrder, match="call forward"):
        run.reverse(dt=1.0)


def test_forward_alone_stores_nothing(wave: Wave, run: Any) -> None:
    truth = wave.keep_all()[0]
    wave.reset()
    tally = run.forward(keep=False, dt=1.0, **ONE_THREAD)
    assert np.array_equal(wave.rec.data, truth, equal_nan=True)
    assert tally.steps[Kind.FORWARD] == 38
    assert tally.steps[Kind.RECOMPUTE] == 0
    assert not any(isinstance(e.action, retrograd.actions.Save) for e in tally.events)


def test_nothing_is_allocated_or_compiled_for_a_second_gradient(
    wave: Wave, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wave.run(run)
    arena = run._run._arena
    monkeypatch.setattr(
        "retrograd.stores.arena.zeros", lambda *_: pytest.fail("the arena was allocated again")
    )
    monkeypatch.setattr(
        devito.Operator, "_jit_compile", lambda _: pytest.fail("an operator was compiled again")
    )
    wave.run(run)
    assert run._run._arena is arena


def test_memory_does_not_grow(wave: Wave, run: Any) -> None:
    resident = {}
    for number in range(1, 51):
        wave.run(run)
        if number in (5, 50):
            gc.collect()
            status = Path("/proc/self/status").read_text()
            resident[number] = int(status.split("VmRSS:")[1].split()[0])
    assert resident[50] < 1.01 * resident[5]


def test_receivers_are_not_written_by_recomputation(wave: Wave, run: Any) -> None:
    """The user may put the residual into the very receivers that the forward wrote."""
    run.forward(dt=1.0, **ONE_THREAD)
    wave.rec.data[:] = 5.0
    run.reverse(dt=1.0, **ONE_THREAD)
    assert (wave.rec.data == 5.0).all()


@pytest.mark.parametrize("field", ["m", "src"])
def test_inputs_that_change_in_between_are_noticed(wave: Wave, run: Any, field: str) -> None:
    data = getattr(wave, field).data
    before = np.array(data)
    run.forward(dt=1.0, **ONE_THREAD)
    try:
        data[:] *= 1.5
        with pytest.raises(OutOfOrder, match=f"{field} was changed between"):
            run.reverse(dt=1.0, **ONE_THREAD)
    finally:
        data[:] = before


def test_a_start_that_changes_in_between_is_noticed(wave: Wave, run: Any) -> None:
    rows = np.ones((2, *wave.u.shape[1:]), dtype=np.float32)
    run.forward(dt=1.0, initial={"u": rows}, **ONE_THREAD)
    rows[0] = 2
    with pytest.raises(OutOfOrder, match="initial"):
        run.reverse(dt=1.0, **ONE_THREAD)


def test_another_dt_for_the_reverse_is_refused(run: Any) -> None:
    run.forward(dt=1.0, **ONE_THREAD)
    with pytest.raises(InvalidArgument, match="same dt"):
        run.reverse(dt=0.5, **ONE_THREAD)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "dt"),
        ({"dt": 1.0, "sorce": 1}, 'did you mean "src"'),
        ({"dt": 1.0, "u": np.zeros(3)}, "places itself"),
        ({"dt": 1.0, "time_M": 400}, "time"),
        ({"dt": 1.0, "time_m": 9, "time_M": 8}, "no step"),
        ({"dt": 1.0, "initial": {"w": 1}}, "no wavefield 'w'"),
        ({"dt": 1.0, "initial": {"u": np.zeros((3, 4))}}, "shape"),
    ],
)
def test_wrong_arguments_are_refused(run: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        run.forward(**arguments)


def test_misspelt_options_are_refused(wave: Wave) -> None:
    with pytest.raises(TypeError, match="memroy"):
        retrograd.devito.checkpointed(wave.forward, wave.gradient, memroy="1/4")
    with pytest.raises(InvalidArgument, match='did you mean "mixed"'):
        retrograd.devito.checkpointed(wave.forward, wave.gradient, memory="1/4", schedule="mixd")


def test_too_small_a_budget_names_the_smallest(wave: Wave) -> None:
    with pytest.raises(BudgetTooSmall) as caught:
        retrograd.devito.checkpointed(
            wave.forward, wave.gradient, memory=3 * wave.sample_nbytes - 1
        )
    assert caught.value.smallest_nbytes == 3 * wave.sample_nbytes
    retrograd.devito.checkpointed(wave.forward, wave.gradient, memory=caught.value.smallest_nbytes)


def test_swapped_operators_are_refused(wave: Wave) -> None:
    with pytest.raises(NotSupported, match="swapped"):
        retrograd.devito.checkpointed(wave.gradient, wave.forward, memory="1/4")


def test_a_failing_compiled_function_is_not_lost(
    wave: Wave, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = wave.keep_all()
    wave.reset()
    run.forward(dt=1.0, **ONE_THREAD)
    bound = run._problem._forward
    monkeypatch.setattr(bound, "_call", lambda *_: 100)
    with pytest.raises(CompiledCodeFailed, match="nan/inf") as caught:
        run.reverse(dt=1.0, **ONE_THREAD)
    assert "recomputing action" in caught.value.__notes__[0]
    for ours, theirs in zip(wave.run(run), truth, strict=True):
        assert np.array_equal(ours, theirs, equal_nan=True)


@pytest.mark.parametrize("kind", list(Kind)[:3])
def test_an_interrupted_run_can_be_run_again(wave: Wave, run: Any, kind: Kind) -> None:
    truth = wave.keep_all()

    def interrupt(event: Any) -> None:
        if event.kind is kind:
            raise KeyboardInterrupt

    run.observers.append(interrupt)
    with pytest.raises(KeyboardInterrupt):
        wave.run(run)
    run.observers.clear()
    with pytest.raises(OutOfOrder):
        run.reverse(dt=1.0)
    for ours, theirs in zip(wave.run(run), truth, strict=True):
        assert np.array_equal(ours, theirs, equal_nan=True)


def test_plans_and_findings_are_readable(wave: Wave, run: Any) -> None:
    assert pickle.loads(pickle.dumps(run.plan)) == run.plan
    text = run.describe()
    for word in ("38", "u", "adjoint state", "v", "accumulators", "grad", "receivers", "rec"):
        assert word in text
    wave.run(run)
    assert "forward steps for 38" in run.report()
    assert "chosen" in run.plan.explain()


def test_the_fixed_part_is_all_fields_but_the_wavefield(wave: Wave, run: Any) -> None:
    fields = {**{p.name: p for p in wave.forward.parameters if p.is_AbstractFunction}}
    fields |= {p.name: p for p in wave.gradient.parameters if p.is_AbstractFunction}
    expected = sum(
        int(np.prod(f.shape_allocated)) * np.dtype(f.dtype).itemsize
        for name, f in fields.items()
        if name != "u"
    )
    assert run.plan.demand.fixed_nbytes == expected
