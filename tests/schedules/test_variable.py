"""Steps that differ in cost and size: against exhaustive search, Mixed, and a count of its own."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from retrograd.actions import Advance, Record
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.schedules import Mixed, Variable
from retrograd.testing import check_schedule
from tests import oracles

FLAGS = list(product((False, True), repeat=2))


def counted(schedule: Variable) -> float:
    """The cost of what runs, in a schedule that is legal and keeps to its memory."""
    check_schedule(
        schedule,
        steps=schedule.steps,
        restart_nbytes=schedule.restart_units,
        record_nbytes=schedule.record_units,
        budgets={"memory": schedule.memory_units},
        record_in_state=schedule.record_in_state,
        free_start=schedule.free_start,
    )
    runs = (action for action in schedule if isinstance(action, Advance | Record))
    return sum(sum(schedule.step_costs[run.start : run.stop]) for run in runs)


def drawn(random: Random, steps: int) -> tuple[list[int], list[int], list[int]]:
    costs = [random.randint(0, 9) for _ in range(steps)]
    restarts, records = ([random.randint(1, 4) for _ in range(steps)] for _ in range(2))
    return costs, restarts, records


@pytest.mark.parametrize(("spared", "free"), FLAGS)
def test_no_sequence_of_actions_costs_less(spared, free) -> None:
    random = Random(5)
    for _ in range(60):
        costs, restarts, records = drawn(random, random.randint(1, 5))
        units = random.randint(0, 8)
        found = oracles.search_variable(costs, restarts, records, units, spared=spared, free=free)
        if found is None:
            with pytest.raises(BudgetTooSmall):
                Variable(costs, restarts, records, units, spared, free)
            continue
        schedule = Variable(costs, restarts, records, units, spared, free)
        assert schedule.cost == found
        assert schedule.is_exact
        assert schedule.gap == 0


@pytest.mark.parametrize(("spared", "free"), FLAGS)
def test_runs_what_it_claims(spared, free) -> None:
    random = Random(7)
    for _ in range(60):
        costs, restarts, records = drawn(random, random.randint(1, 14))
        units = random.randint(4, 20)
        try:
            schedule = Variable(costs, restarts, records, units, spared, free)
        except BudgetTooSmall as error:
            schedule = Variable(costs, restarts, records, error.smallest_nbytes, spared, free)
        assert counted(schedule) == pytest.approx(schedule.cost)


@pytest.mark.parametrize(("spared", "free"), FLAGS)
@pytest.mark.parametrize("sizes", [(2, 1), (1, 1), (3, 2), (1, 2)], ids=str)
def test_equal_steps_are_mixed(sizes, spared, free) -> None:
    for steps, units in product((1, 2, 5, 13, 30), range(0, 26, 4)):
        try:
            mixed = Mixed(steps, *sizes, units, spared, free)
        except BudgetTooSmall:
            with pytest.raises(BudgetTooSmall):
                Variable([1.0] * steps, *sizes, units, spared, free)
            continue
        schedule = Variable([1.0] * steps, *sizes, units, spared, free)
        assert schedule.cost == schedule.forward_steps == mixed.forward_steps


def test_a_record_before_a_restart_can_help() -> None:
    """A dear first step is recorded, though not everything fits."""
    kinds = [type(action).__name__ for action in Variable([99, *[1] * 12], 2, 1, 6)]
    assert kinds[:2] == ["Record", "Save"]


def test_too_many_steps_are_near_optimal_and_say_how_near() -> None:
    costs = np.linspace(1, 3, 700)
    schedule = Variable(costs, 2, 1, 80, free_start=True)
    assert not schedule.is_exact
    assert 0 < schedule.gap < 0.05
    assert counted(schedule) == pytest.approx(schedule.cost)
    bytes_of_all_sizes = [10**8 + 7 * k for k in range(700)]
    schedule = Variable(costs, bytes_of_all_sizes, 5 * 10**7, 8 * 10**9, free_start=True)
    assert not schedule.is_exact
    assert counted(schedule) == pytest.approx(schedule.cost)


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "1", None, True, 1j])
def test_costs_that_cannot_be_right(wrong) -> None:
    with pytest.raises(InvalidArgument, match="step_costs"):
        Variable([1.0, wrong, 2.0], 2, 1, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, 2, 1, 4), "use Mixed"),
        (([1.0, 2.0], [1, 2, 3], 1, 4), "lengths"),
        (([], 2, 1, 4), "at least 1"),
        (([1.0, 1.0], [2, 0], 1, 4), "restart_units"),
        (([1.0, 1.0], 2, [1, 1.5], 4), "record_units"),
        (([1.0, 1.0], 2, 1, -1), "memory_units"),
    ],
)
def test_arguments_that_cannot_be_right(arguments, message) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Variable(*arguments)
