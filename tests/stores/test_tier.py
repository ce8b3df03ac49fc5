"""Tiers beyond the arena: the same bits, no store no run, nothing left from one run to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.actions import DISK, MEMORY, Advance, Record, Restore, Reverse, Save
from retrograd.errors import IllegalAction
from retrograd.schedules import (
    DiskRevolve,
    HRevolve,
    Multistage,
    PeriodicDiskRevolve,
    Streaming,
    TieredMixed,
    TierSlots,
    TwoLevel,
)
from retrograd.stores.tier import HeldStore

STEPS = 40


def problem(*, free_start: bool) -> retrograd.arrays.Problem:
    def step(state: Any, k: int) -> Any:
        u, calls = state
        return u + np.float32(0.01) * np.sin(u + k), calls + 1

    def adjoint_step(a: Any, state: Any, k: int) -> Any:
        u, _ = state
        return a[0] * (1 + np.float32(0.01) * np.cos(u + k)), a[1]

    initial = np.linspace(0, 1, 50, dtype=np.float32), np.zeros(3, dtype=np.int64)
    return retrograd.arrays.Problem(
        step, adjoint_step, initial, STEPS, terminal=lambda s: s, free_start=free_start
    )


def schedules(free: bool) -> list[Any]:
    flags = True, free
    return [
        HRevolve(STEPS, (TierSlots(MEMORY, 2), TierSlots(DISK, 3, 1.0, 1.0)), *flags),
        TieredMixed(STEPS, 1, 1, 4, 5, 1.0, 2.0, *flags),
        Multistage(STEPS, 2, 3, *flags),
        DiskRevolve(STEPS, 2, 1.0, 1.0, *flags),
        PeriodicDiskRevolve(STEPS, 2, 1.0, 1.0, *flags),
        TwoLevel(STEPS, 7, 2, *flags),
        Streaming(STEPS, 2, 6, *flags),
    ]


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("index", range(7))
def test_the_gradient_is_that_of_keeping_everything(index: int, free: bool) -> None:
    case, store = problem(free_start=free), HeldStore()
    expected = retrograd.gradient(case, memory="2/1", schedule="keep-all").gradient
    schedule = schedules(free)[index]
    costs = retrograd.Costs(1.0)
    run = retrograd.Run(
        case, memory="1/3", disk="1/1", costs=costs, schedule=schedule, stores={DISK: store}
    )
    for _ in range(2):
        run.forward()
        kept = store.nbytes
        result = run.reverse()
        assert [part.tobytes() for part in result.gradient] == [p.tobytes() for p in expected]
        assert result.tally.forward_steps == schedule.forward_steps
        assert 0 < kept <= run.plan.prediction.disk_nbytes
        assert store.nbytes == 0


def test_a_store_of_ones_own_is_planned_without_buffers() -> None:
    case, costs = problem(free_start=False), retrograd.Costs(1.0)
    run = retrograd.Run(case, memory="1/20", disk="1/1", costs=costs, stores={DISK: HeldStore()})
    assert run.plan.name == "tiered-mixed"
    assert run.plan.demand.buffers == 0


def test_an_action_without_a_store_is_refused() -> None:
    case = problem(free_start=False)
    actions = [Save(0, "tape"), Advance(0, 39), Record(39, 40), Reverse(40, 39)]
    for step in range(38, -1, -1):
        actions += [Restore(0, "tape", last=step == 0)]
        actions += [Advance(0, step)] * (step > 0)
        actions += [Record(step, step + 1), Reverse(step + 1, step)]
    run = retrograd.Run(case, memory="1/3", schedule=actions)
    with pytest.raises(IllegalAction, match=r"action 0.*no store for tier 'tape'"):
        run.forward()
    expected = retrograd.gradient(case, memory="2/1").gradient
    run = retrograd.Run(case, memory="1/3", schedule=actions, stores={"tape": HeldStore()})
    run.forward()
    assert np.array_equal(run.reverse().gradient[0], expected[0])


def test_what_an_interrupted_run_left_is_given_up() -> None:
    case, store = problem(free_start=False), HeldStore()
    schedule = TwoLevel(STEPS, 7, 2, True, False)
    costs = retrograd.Costs(1.0)
    run = retrograd.Run(
        case, memory="1/3", disk="1/1", costs=costs, schedule=schedule, stores={DISK: store}
    )
    run.forward()
    held = store.nbytes
    run.forward()
    assert store.nbytes == held
    run.reverse()
    assert store.nbytes == 0
