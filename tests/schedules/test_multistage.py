"""Multistage against the published traffic, a replay of the stack, and all placements."""

from __future__ import annotations

import tracemalloc
from itertools import combinations, islice, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrograd.actions import DISK, INITIAL, MEMORY, Restore, Save
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.schedules.multistage import Multistage
from retrograd.schedules.revolve import Revolve
from retrograd.verify import verify
from tests import oracles

FLAGS = list(product((False, True), repeat=2))


def replayed_traffic(actions) -> tuple[list[list[int]], set[tuple[int, str]]]:
    """Writes and reads by depth on the stack of held restarts, and each depth's tier."""
    traffic: list[list[int]] = []
    placed = set()
    held: list[int] = []
    for action in actions:
        match action:
            case Save(step, tier):
                placed.add((len(held), tier))
                held.append(step)
                traffic += [[0, 0]] * (len(held) > len(traffic))
                traffic[len(held) - 1][0] += 1
            case Restore(step, tier, last) if tier != INITIAL:
                assert held[-1] == step
                placed.add((len(held) - 1, tier))
                traffic[len(held) - 1][1] += 1
                if last:
                    held.pop()
    return traffic, placed


@pytest.mark.parametrize(
    ("steps", "writes", "reads"),
    [
        (10, (1, 2, 3), (2, 3, 4)),
        (20, (1, 2, 3, 4), (2, 3, 6, 8)),
        (24, (1, 2, 3, 4), (2, 5, 7, 9)),
        (50, (1, 3, 6, 9, 10), (3, 6, 10, 14, 16)),
        (100, (1, 3, 6, 10, 15, 21), (3, 6, 10, 17, 26, 37)),
    ],
)
@pytest.mark.parametrize("in_memory", [0, 1, 2])
def test_published_traffic(steps, writes, reads, in_memory) -> None:
    schedule = Multistage(steps, in_memory, len(writes) - in_memory)
    assert tuple(zip(*schedule.slot_traffic, strict=True)) == (writes, reads)
    traffic, _ = replayed_traffic(schedule)
    assert [tuple(pair) for pair in traffic] == list(schedule.slot_traffic)


@pytest.mark.parametrize(("record_in_state", "free_start"), FLAGS)
def test_runs_no_more_steps_than_one_tier(record_in_state, free_start) -> None:
    for steps, slots in product(range(1, 45), range(1, 9)):
        schedule = Multistage(steps, slots // 2, slots - slots // 2, record_in_state, free_start)
        counts = verify(
            schedule,
            steps=steps,
            record_nbytes=0,
            budgets={MEMORY: slots // 2, DISK: slots - slots // 2},
            record_in_state=record_in_state,
            free_start=free_start,
        )
        advanced = oracles.advances(steps, slots + free_start)
        assert counts.forward_steps == advanced + (1 if record_in_state else steps)
        assert counts.forward_steps == schedule.forward_steps


def test_no_sequence_of_actions_runs_fewer() -> None:
    for steps, slots in product(range(2, 7), range(1, 4)):
        fewest = oracles.search(steps, slots, 1, slots + 1, spared=False, free=False)
        assert Multistage(steps, slots - 1, 1).forward_steps == fewest


@pytest.mark.parametrize("free_start", [False, True])
def test_no_placement_uses_the_disk_less(free_start) -> None:
    for steps, memory_slots, disk_slots in product(range(2, 40, 3), range(4), range(1, 4)):
        schedule = Multistage(steps, memory_slots, disk_slots, free_start=free_start)
        traffic, placed = replayed_traffic(schedule)
        assert [tuple(pair) for pair in traffic] == list(schedule.slot_traffic)
        assert placed == set(enumerate(schedule.tiers))
        counts = verify(schedule, steps=steps, record_nbytes=0, free_start=free_start)
        used = counts.saves.get(DISK, 0) + counts.restores.get(DISK, 0)
        busy = [writes + reads for writes, reads in traffic]
        kept = min(memory_slots, len(busy))
        assert used == min(sum(busy) - sum(some) for some in combinations(busy, kept))


@settings(deadline=None)
@given(
    case=st.tuples(st.integers(1, 400), st.integers(0, 30), st.integers(0, 30)),
    flags=st.sampled_from(FLAGS),
)
def test_is_legal_and_counted_right(case, flags) -> None:
    steps, memory_slots, disk_slots = case
    if steps > 1 and memory_slots + disk_slots + flags[1] == 0:
        return
    schedule = Multistage(*case, *flags)
    counts = verify(
        schedule,
        steps=steps,
        record_nbytes=0,
        budgets={MEMORY: memory_slots, DISK: disk_slots},
        record_in_state=flags[0],
        free_start=flags[1],
    )
    assert counts.forward_steps == schedule.forward_steps
    assert counts.forward_steps == Revolve(steps, memory_slots + disk_slots, *flags).forward_steps
    traffic, _ = replayed_traffic(schedule)
    assert [tuple(pair) for pair in traffic] == list(schedule.slot_traffic)


def test_one_tier_may_be_empty() -> None:
    assert set(Multistage(30, 3, 0).tiers) == {MEMORY}
    assert set(Multistage(30, 0, 3).tiers) == {DISK}
    assert Multistage(30, 0, 0, free_start=True).tiers == ()
    assert Multistage(1, 0, 0).forward_steps == 1


def test_slots_beyond_use_change_nothing() -> None:
    assert len(Multistage(20, 10**9, 10**9).slot_traffic) == 19
    assert set(Multistage(20, 10**9, 10**9).tiers) == {MEMORY}


def test_a_million_steps_come_lazily() -> None:
    tracemalloc.start()
    actions = sum(1 for _ in islice(Multistage(10**6, 25, 25), 50_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert actions == 50_000
    assert peak < 500_000


@pytest.mark.parametrize("slots", [1, 2, 3, 1000])
def test_counts_the_traffic_of_a_million_steps(slots) -> None:
    """Each step but one is turned after a read of some slot."""
    traffic = Multistage(10**6, slots - 1, 1).slot_traffic
    assert sum(reads for _, reads in traffic) == 10**6 - 1
    assert all(writes <= reads for writes, reads in traffic)


@pytest.mark.parametrize("wrong", [True, 2.0, "2", None, -1, 1.5])
@pytest.mark.parametrize("name", ["steps", "memory_slots", "disk_slots"])
def test_refuses_what_is_not_whole(name, wrong) -> None:
    arguments = {"steps": 9, "memory_slots": 2, "disk_slots": 1} | {name: wrong}
    with pytest.raises(InvalidArgument, match=f"{name}={wrong!r}.*write"):
        Multistage(**arguments)


def test_takes_numpy_integers() -> None:
    assert Multistage(np.int64(9), np.int32(2), np.uint8(1)) == Multistage(9, 2, 1)


def test_refuses_no_slot_at_all() -> None:
    with pytest.raises(BudgetTooSmall, match="memory_slots=1 or disk_slots=1") as caught:
        Multistage(9, 0, 0)
    assert caught.value.smallest_nbytes == 1
