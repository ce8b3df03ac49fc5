"""Several reverse sweeps: legal at every size, and as many steps as claimed."""

from __future__ import annotations

import pickle
from itertools import product

import pytest

from retrograd.actions import BeginSweep, Record, Reverse
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.schedules import Mixed, Sweeps
from retrograd.verify import verify

FLAGS = list(product((False, True), repeat=2))


@pytest.mark.parametrize(("spared", "free"), FLAGS)
@pytest.mark.parametrize("sizes", [(2, 1), (1, 1), (3, 2), (1, 2)], ids=str)
def test_every_size_is_legal_and_counted_right(sizes, spared, free) -> None:
    for steps, units, sweeps in product(range(1, 13), range(13), (1, 2, 4)):
        try:
            schedule = Sweeps(steps, *sizes, units, sweeps, spared, free)
        except BudgetTooSmall as error:
            Sweeps(steps, *sizes, error.smallest_nbytes, sweeps, spared, free)
            continue
        counts = verify(
            schedule,
            steps=steps,
            restart_nbytes=sizes[0],
            record_nbytes=sizes[1],
            budgets={"memory": units},
            record_in_state=spared,
            free_start=free,
        )
        assert counts.forward_steps == schedule.forward_steps
        assert counts.reversed_steps == sweeps * steps
        assert schedule.forward_steps <= schedule.forward_steps_repeating
        assert sum(isinstance(a, BeginSweep) for a in schedule) == sweeps - 1


@pytest.mark.parametrize(("spared", "free"), FLAGS)
def test_one_sweep_is_mixed(spared, free) -> None:
    for units in (4, 9, 30, 100):
        once = Sweeps(100, 2, 1, units, 1, spared, free)
        assert list(once) == list(Mixed(100, 2, 1, units, spared, free))


def test_where_all_fits_no_later_sweep_runs_a_step() -> None:
    assert list(Sweeps(9, 2, 1, 8, 3)) == [
        Record(0, 9),
        Reverse(9, 0, keep=True),
        BeginSweep(1),
        Reverse(9, 0, keep=True),
        BeginSweep(2),
        Reverse(9, 0),
    ]


@pytest.mark.parametrize(("units", "most"), [(25, 0.93), (100, 0.8), (400, 0.8)])
def test_restarts_that_stay_are_worth_it(units, most) -> None:
    schedule = Sweeps(1615, 2, 1, units, 2, True, True)
    assert schedule.forward_steps < most * schedule.forward_steps_repeating


def test_it_is_a_value() -> None:
    schedule = Sweeps(40, 2, 1, 12, 3)
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert list(schedule) == list(schedule)
    assert hash(schedule) == hash(Sweeps(40, 2, 1, 12, 3))


@pytest.mark.parametrize("sweeps", [0, -1, 1.5, "3", None, True])
def test_what_is_no_number_of_sweeps(sweeps) -> None:
    with pytest.raises(InvalidArgument, match="sweeps"):
        Sweeps(40, 2, 1, 12, sweeps)
