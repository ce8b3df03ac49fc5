"""TieredMixed against a search of all action sequences, its recurrence, and what it contains."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from random import Random

import pytest

from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.schedules import HRevolve, Mixed, TieredMixed, TierSlots
from retrograd.verify import verify
from tests import oracles

FLAGS = list(product((False, True), repeat=2))
SIZES = [(2, 1), (1, 1), (3, 1), (3, 2), (1, 2)]
COSTS = [(0.5, 0.5), (2.0, 2.0), (3.0, 0.25), (0.25, 3.0), (0.0, 0.0)]


def counted(schedule: TieredMixed) -> float:
    """The cost, by a replay that refuses what breaks a rule or a budget."""
    found = verify(
        schedule,
        steps=schedule.steps,
        restart_nbytes=schedule.restart_units,
        record_nbytes=schedule.record_units,
        budgets={
            "memory": schedule.memory_units,
            "disk": schedule.disk_slots * schedule.restart_units,
        },
        record_in_state=schedule.record_in_state,
        free_start=schedule.free_start,
    )
    assert found.forward_steps == schedule.forward_steps
    transfers = schedule.write_cost * found.saves.get("disk", 0)
    return found.forward_steps + transfers + schedule.read_cost * found.restores.get("disk", 0)


def recurrence(
    table: list[int], write: float, read: float, *, free: bool
) -> Callable[[int, int], float]:
    """The least cost of so many steps with so many slots on disk, all splits tried."""

    @cache
    def on_disk(n: int, slots: int) -> float:
        return min(
            [table[n]] + [i + live(n - i, slots) + read + on_disk(i, slots) for i in range(1, n)]
        )

    @cache
    def live(n: int, slots: int) -> float:
        return min(table[n], write + on_disk(n, slots - 1)) if slots else table[n]

    @cache
    def initial(n: int, slots: int) -> float:
        return min([table[n]] + [i + live(n - i, slots) + initial(i, slots) for i in range(1, n)])

    return initial if free else live


@pytest.mark.parametrize(("spared", "free"), FLAGS)
def test_no_sequence_of_actions_costs_less(spared, free) -> None:
    random = Random(3)
    for sizes, (write, read) in product(SIZES, COSTS):
        steps, units, slots = random.randint(2, 6), random.randint(0, 4), random.randint(0, 3)
        disk = (slots, write, read)
        found = oracles.search_with_disk(steps, units, *sizes, disk, spared=spared, free=free)
        if found is None:
            with pytest.raises(BudgetTooSmall):
                TieredMixed(steps, *sizes, units, *disk, spared, free)
            continue
        assert counted(TieredMixed(steps, *sizes, units, *disk, spared, free)) == found


@pytest.mark.parametrize(("spared", "free"), FLAGS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_costs_are_the_recurrence(sizes, spared, free) -> None:
    for (write, read), units in product(COSTS, (0, 2, 5)):
        table = oracles.fewest(14, units, *sizes, spared=spared, free=False)[units]
        cost = recurrence(table, write, read, free=free)
        for steps, slots in product((1, 2, 3, 5, 8, 11, 14), (0, 1, 2, 9)):
            expected = cost(steps, slots)
            if expected >= oracles.IMPOSSIBLE:
                continue
            schedule = TieredMixed(steps, *sizes, units, slots, write, read, spared, free)
            assert counted(schedule) == expected + spared == schedule.cost


@pytest.mark.parametrize(("spared", "free"), FLAGS)
def test_without_a_disk_it_is_mixed(spared, free) -> None:
    for steps, units in product((1, 9, 40), (4, 7, 20)):
        mixed = Mixed(steps, 2, 1, units, spared, free)
        tiered = TieredMixed(steps, 2, 1, units, 0, 1.0, 1.0, spared, free)
        assert tiered.cost == tiered.forward_steps == mixed.forward_steps


@pytest.mark.parametrize(("units", "slots"), [(25, 50), (100, 200), (12, 100)])
def test_costs_no_more_than_what_it_contains(units, slots) -> None:
    costs = 2.0, 3.0
    tiered = TieredMixed(1615, 2, 1, units, slots, *costs, True, True)
    assert tiered.cost == counted(tiered)
    tiers = TierSlots("memory", units // 2), TierSlots("disk", slots, *costs)
    assert tiered.cost <= HRevolve(1615, tiers, True, True).cost
    assert tiered.cost <= Mixed(1615, 2, 1, units, True, True).forward_steps


def test_a_dear_disk_is_left_alone() -> None:
    assert list(TieredMixed(60, 2, 1, 20, 9, 1000.0, 1000.0)) == list(
        TieredMixed(60, 2, 1, 20, 0, 1.0, 1.0)
    )


def test_more_of_anything_never_costs_more() -> None:
    def cost(units: int, slots: int, write: float) -> float:
        return TieredMixed(80, 2, 1, units, slots, write, 1.0, True, True).cost

    for units, slots, write in product((2, 7, 15), (0, 2, 5), (0.5, 2.0)):
        assert cost(units + 1, slots, write) <= cost(units, slots, write)
        assert cost(units, slots + 1, write) <= cost(units, slots, write)
        assert cost(units, slots, write) <= cost(units, slots, write + 0.5)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), "1", None, True])
def test_costs_that_cannot_be_right(wrong) -> None:
    with pytest.raises(InvalidArgument, match="write_cost"):
        TieredMixed(10, 2, 1, 4, 2, wrong, 1.0)


def test_what_is_too_large_for_a_table_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="PeriodicDiskRevolve"):
        TieredMixed(10**6, 2, 1, 100, 10**6, 1.0, 1.0)


@pytest.mark.parametrize("flags", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("cost", [0.0, 1e-12, 0.5])
def test_transfers_that_cost_nothing_take_no_more_slots(
    cost: float, flags: tuple[bool, bool]
) -> None:
    for steps in range(1, 31, 3):
        for units, slots in product((1, 3, 5), (1, 2, 4, 6, 9)):
            schedule = TieredMixed(steps, 1, 1, units, slots, cost, cost, *flags)
            budgets = {"disk": slots}
            verify(
                schedule,
                steps=steps,
                budgets=budgets,
                record_in_state=flags[0],
                free_start=flags[1],
            )
