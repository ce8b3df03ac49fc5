"""Disk-Revolve against published costs and recurrences; the periodic one against it."""

from __future__ import annotations

import math
import pickle
from itertools import islice, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrograd.actions import DISK, MEMORY, Restore, Save
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.schedules.disk_revolve import (
    MOST_STEPS,
    DiskRevolve,
    PeriodicDiskRevolve,
    best_period,
)
from retrograd.schedules.hrevolve import HRevolve, TierSlots
from retrograd.schedules.keep_all import KeepAll
from retrograd.schedules.revolve import Revolve
from retrograd.verify import Counts, verify
from tests import oracles

FLAGS = list(product((False, True), repeat=2))
BOTH = [DiskRevolve, PeriodicDiskRevolve]

COSTS = st.sampled_from([0, 0.5, 1, 2, 5, 10, 30, 100])
"""Dyadic, so that sums are exact."""
CASES = st.tuples(st.integers(1, 80), st.integers(1, 6), COSTS, COSTS)


def in_memory(steps: int, slots: int) -> float:
    if slots == 0:
        return 0 if steps == 1 else math.inf
    return oracles.advances(steps, slots)


def published_cost(steps: int, slots: int, write: float, read: float) -> float:
    """Opt∞ of Aupy et al., in which only the first sweep writes to disk, as if uf = ub = 1."""
    from_disk = [math.inf]  # Opt1D, by number of steps
    fresh = [math.inf]
    for n in range(1, steps + 1):
        memory = in_memory(n, slots)
        splits = [i + in_memory(n - i, slots) + read + from_disk[i] for i in range(1, n)]
        from_disk.append(min([memory, *splits]))
        splits = [write + i + fresh[n - i] + read + from_disk[i] for i in range(1, n)]
        fresh.append(min([memory, *splits]))
    return steps + fresh[steps]


def replay(schedule: DiskRevolve | PeriodicDiskRevolve) -> Counts:
    return verify(
        schedule,
        steps=schedule.steps,
        record_nbytes=0,
        budgets={MEMORY: schedule.slots},
        record_in_state=schedule.record_in_state,
        free_start=schedule.free_start,
    )


def counted_cost(schedule: DiskRevolve | PeriodicDiskRevolve, counts: Counts) -> float:
    writes = schedule.write_cost * counts.saves.get(DISK, 0)
    reads = schedule.read_cost * counts.restores.get(DISK, 0)
    return math.fsum((counts.forward_steps, writes, reads))


@pytest.mark.parametrize(("write", "read", "expected"), [(10, 1, 243), (20, 0.1, 263.6)])
def test_published_costs(write, read, expected) -> None:
    assert DiskRevolve(60, 3, write, read).cost == expected


@settings(deadline=None, max_examples=60)
@given(case=CASES)
def test_costs_what_the_recurrences_say(case) -> None:
    assert DiskRevolve(*case).cost == published_cost(*case)


@settings(deadline=None, max_examples=60)
@given(
    case=st.tuples(st.integers(1, 80), st.integers(0, 6), COSTS, COSTS),
    flags=st.sampled_from(FLAGS),
)
def test_is_hrevolve_with_enough_slots_on_disk(case, flags) -> None:
    steps, slots, *costs = case
    schedule = DiskRevolve(*case, *flags)
    tiers = TierSlots(MEMORY, slots), TierSlots(DISK, steps, *costs)
    assert schedule.cost == HRevolve(steps, tiers, *flags).cost


@pytest.mark.parametrize("kind", BOTH)
@settings(deadline=None, max_examples=50)
@given(
    steps=st.integers(1, 300),
    slots=st.integers(1, 12),
    costs=st.tuples(*[st.integers(0, 5000).map(lambda n: n / 97)] * 2),
    flags=st.sampled_from(FLAGS),
)
def test_costs_what_its_actions_cost(kind, steps, slots, costs, flags) -> None:
    schedule = kind(steps, slots, *costs, *flags)
    counts = replay(schedule)
    assert schedule.cost == counted_cost(schedule, counts)
    assert schedule.forward_steps == counts.forward_steps
    assert not any(counts.drops.values())
    assert counts.reversed_steps == counts.reverse_calls == steps


@pytest.mark.parametrize("kind", BOTH)
@settings(deadline=None, max_examples=60)
@given(case=CASES)
def test_costs_no_more_than_memory_alone(kind, case) -> None:
    assert kind(*case).cost <= Revolve(*case[:2]).forward_steps
    assert kind(*case, free_start=True).cost <= kind(*case).cost


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("flags", FLAGS)
def test_is_revolve_where_the_disk_is_too_slow(kind, flags) -> None:
    for steps, slots in product((1, 2, 3, 40), (1, 4)):
        schedule = kind(steps, slots, 10**6, 10**6, *flags)
        assert schedule.cost == Revolve(steps, slots, *flags).forward_steps
        assert DISK not in replay(schedule).saves


@pytest.mark.parametrize("kind", BOTH)
def test_without_memory_all_states_lie_on_disk(kind) -> None:
    schedule = kind(9, 0, 1, 1)
    assert {action.step for action in schedule if isinstance(action, Save)} == set(range(8))
    assert schedule.cost == 9 + 8 + 8 + 8
    assert list(kind(1, 0, 1, 1)) == list(KeepAll(1))


def test_a_restart_is_read_several_times_where_that_pays() -> None:
    counts = replay(DiskRevolve(60, 3, 20, 0.1))
    assert counts.restores[DISK] > counts.saves[DISK] > 0


def test_1615_steps() -> None:
    schedule = DiskRevolve(1615, 20, 2, 2)
    assert schedule.cost == counted_cost(schedule, replay(schedule)) == 5021


def test_refuses_more_steps_than_it_tabulates() -> None:
    with pytest.raises(InvalidArgument, match=f"{MOST_STEPS}.*PeriodicDiskRevolve"):
        DiskRevolve(MOST_STEPS + 1, 3, 1, 1)
    DiskRevolve(MOST_STEPS, 3, 1, 1)


def cost_of_a_step(period: int, slots: int, transfers: float) -> float:
    """In the long run, the step that records left out."""
    return 1 + (oracles.advances(period, slots) + transfers) / period


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
@pytest.mark.parametrize("transfers", [0, 0.5, 1, 3.5, 11, 20, 40])
def test_best_period_is_the_best(slots, transfers) -> None:
    best = best_period(slots, transfers, 0)
    assert best == best_period(slots, transfers / 2, transfers / 2)
    others = range(1, 2 * best + 20)
    least = min(cost_of_a_step(period, slots, transfers) for period in others)
    assert cost_of_a_step(best, slots, transfers) == pytest.approx(least, rel=1e-12)


def test_best_periods() -> None:
    assert best_period(0, 5, 5) == 1
    assert best_period(3, 10, 1) == 10  # β(4, 1) = 5, β(4, 2) = 15, and β(3, 2) = 10
    assert best_period(10**9, 5, 5) == 10**9 + 1


@settings(deadline=None, max_examples=60)
@given(case=CASES, period=st.none() | st.integers(1, 30))
def test_runs_the_best_number_of_periods(case, period) -> None:
    steps, slots, write, read = case
    schedule = PeriodicDiskRevolve(*case, period=period)
    period = schedule.steps_per_period
    every = period + oracles.advances(period, slots) + write + read
    least = min(
        k * every + oracles.advances(steps - k * period, slots)
        for k in range((steps - 1) // period + 1)
    )
    assert schedule.cost == steps + least


@pytest.mark.parametrize("free_start", [False, True])
def test_each_restart_on_disk_is_at_a_multiple_and_read_once(free_start) -> None:
    actions = list(PeriodicDiskRevolve(100, 2, 3, 3, free_start=free_start))
    saved = [action.step for action in actions if isinstance(action, Save) and action.tier == DISK]
    read = [action for action in actions if isinstance(action, Restore) and action.tier == DISK]
    assert saved == list(range(6 * free_start, saved[-1] + 1, 6))
    assert read == [Restore(step, DISK, last=True) for step in reversed(saved)]
    assert len(saved) > 10


def test_periods_cost_little_more_than_the_best() -> None:
    for steps, slots in product((20, 100, 300), (5, 10)):
        for write, read in product((0, 1, 3, 10, 50), repeat=2):
            least = DiskRevolve(steps, slots, write, read).cost
            assert least <= PeriodicDiskRevolve(steps, slots, write, read).cost <= 1.03 * least


def test_any_number_of_steps() -> None:
    schedule = PeriodicDiskRevolve(10**6, 20, 5, 5, record_in_state=True)
    assert schedule.cost == 2428452
    assert len(list(islice(schedule, 50_000))) == 50_000
    larger = PeriodicDiskRevolve(10**40, 1000, 5.5, 5)
    assert len(list(islice(larger, 1000))) == 1000
    assert larger.forward_steps > 10**40


def test_periods_need_a_slot() -> None:
    for free_start in (False, True):
        with pytest.raises(BudgetTooSmall, match="slots=1 or more, or period=1") as caught:
            PeriodicDiskRevolve(9, 0, 1, 1, free_start=free_start, period=2)
        assert caught.value.smallest_nbytes == 1
    far = PeriodicDiskRevolve(9, 0, 100, 100, free_start=True)
    assert replay(far).forward_steps == 9 * 10 // 2


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("kind", BOTH)
def test_is_a_value(kind, flags) -> None:
    schedule = kind(30, 3, 1.5, 2, *flags)
    again = eval(repr(schedule))
    assert again == schedule
    assert hash(again) == hash(schedule)
    assert list(again) == list(schedule) == list(schedule)
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert len(pickle.dumps(schedule)) < 250
    assert schedule != kind(30, 3, 1.5, 2.5, *flags)
    with pytest.raises(AttributeError):
        schedule.steps = 3


@pytest.mark.parametrize("kind", BOTH)
def test_takes_numpy_numbers_and_keeps_plain_ones(kind) -> None:
    schedule = kind(np.int64(30), np.uint8(3), np.float32(1.5), np.int64(2))
    assert repr(schedule) == repr(kind(30, 3, 1.5, 2.0))


@pytest.mark.parametrize("wrong", [True, 2.0, "2", None, -1, [3]], ids=repr)
@pytest.mark.parametrize("kind", BOTH)
def test_refuses_what_is_not_whole(kind, wrong) -> None:
    with pytest.raises(InvalidArgument, match="steps=.*write"):
        kind(wrong, 3, 1, 1)
    with pytest.raises(InvalidArgument, match="slots=.*write"):
        kind(9, wrong, 1, 1)
    with pytest.raises(InvalidArgument, match="steps=.*at least 1"):
        kind(0, 3, 1, 1)
    if wrong is not None:
        with pytest.raises(InvalidArgument, match="period=.*write"):
            PeriodicDiskRevolve(9, 3, 1, 1, period=wrong)


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, "1", None, True, 1e7], ids=repr)
@pytest.mark.parametrize("kind", [*BOTH, best_period])
def test_refuses_costs_that_are_none(kind, wrong) -> None:
    arguments = {"slots": 3} if kind is best_period else {"steps": 9, "slots": 3}
    for name, other in (("write_cost", "read_cost"), ("read_cost", "write_cost")):
        with pytest.raises(InvalidArgument, match=name):
            kind(**arguments, **{name: wrong, other: 1})


@pytest.mark.parametrize("name", ["record_in_state", "free_start"])
@pytest.mark.parametrize("wrong", [1, None, "yes", np.bool_(True)], ids=repr)
@pytest.mark.parametrize("kind", BOTH)
def test_refuses_flags_that_are_not_bool(kind, name, wrong) -> None:
    with pytest.raises(InvalidArgument, match=name):
        kind(9, 3, 1, 1, **{name: wrong})
