"""Levels against published counts and a search of all ways to hold rows; replayed row by row."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.layout import Field, Layout, StateRows
from retrograd.replay import replay_rows
from retrograd.schedules import KeepAll, Levels, Mixed, smallest_memory_rows
from retrograd.verify import verify
from tests import oracles

STATES = [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]


def layout(depth: int, record_row: int, *, contiguous: bool = True) -> Layout:
    field = Field("u", (8,), np.dtype("f8"))
    return Layout((field,), depth, (record_row, record_row + 1), contiguous=contiguous)


@pytest.mark.parametrize(
    ("steps", "units", "free", "expected"),
    [(6, 2, True, 6), (8, 2, True, 10), (10, 4, True, 12), (6, 2, False, 7), (8, 4, False, 9)],
)
def test_counts_found_by_exhaustive_search(steps, units, free, expected) -> None:
    """Units are rows besides the live ones; the last step, which is no record, comes on top."""
    assert Levels(steps, 2, 1, units + 3, free).forward_steps == expected + 1
    assert (
        Levels(steps, 2, 1, units + 3, free).forward_steps
        < Mixed(steps, 2, 1, units, record_in_state=True, free_start=free).forward_steps
    )


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(("depth", "record_row", "most"), [(1, 0, 9), (2, 0, 7), (2, 1, 8)])
def test_no_way_to_hold_rows_runs_fewer(depth, record_row, most, free) -> None:
    for steps, rows in product(range(1, most), range(depth + 1, depth + 5)):
        found = oracles.search_rows(steps, rows, depth, record_row, free=free)
        if found is None:
            assert rows < smallest_memory_rows(steps, depth, record_row, free)
            continue
        assert Levels(steps, depth, record_row, rows, free).forward_steps == found


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(("depth", "record_row"), [(1, 0), (2, 0), (2, 1)])
def test_counts_are_the_recurrence(depth, record_row, free) -> None:
    for rows in range(2 * depth + 1, 24):
        table = oracles.fewest_rows(40, rows, depth, record_row, free=free)
        for steps in range(1, 41):
            found = Levels(steps, depth, record_row, rows, free).forward_steps
            assert found == table[steps], (steps, rows)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(("depth", "record_row"), STATES)
def test_every_length_and_memory_is_legal_and_fits(depth, record_row, free) -> None:
    state, rows_of = StateRows(depth, record_row), layout(depth, record_row)
    for steps in (*range(1, 21), 60):
        smallest = smallest_memory_rows(steps, depth, record_row, free)
        with pytest.raises(BudgetTooSmall):
            Levels(steps, depth, record_row, smallest - 1, free)
        for rows in range(smallest, steps + depth + 2):
            schedule = Levels(steps, depth, record_row, rows, free)
            counts = verify(
                schedule,
                steps=steps,
                budgets={"memory": rows},
                free_start=free,
                state_rows=state,
            )
            assert counts.forward_steps == schedule.forward_steps
            touched = replay_rows(schedule, rows_of, rows * rows_of.row_nbytes).peak_nbytes
            assert counts.peak_nbytes["memory"] * rows_of.row_nbytes <= touched


@pytest.mark.parametrize("free", [False, True])
def test_fits_where_rows_are_packed(free) -> None:
    rows_of = layout(1, 0, contiguous=False)
    for steps in range(1, 26):
        for rows in range(smallest_memory_rows(steps, 1, 0, free), steps + 2):
            schedule = Levels(steps, 1, 0, rows, free)
            replay_rows(schedule, rows_of, rows * rows_of.row_nbytes)


@pytest.mark.parametrize(("units", "expected"), [(12, 6930), (25, 4868), (50, 4011), (201, 3026)])
def test_counts_at_1615_steps(units, expected) -> None:
    """The recurrence, tabulated; Mixed runs 7986, 5230, 4109 and 3034 in the same memory."""
    assert Levels(1615, 2, 1, units + 3, free_start=True).forward_steps == expected


@pytest.mark.parametrize("depth", [1, 2])
def test_never_more_steps_than_mixed(depth) -> None:
    for steps, units, free in product((5, 30, 200), range(depth, 60, 3), (False, True)):
        mixed = Mixed(steps, depth, 1, units, record_in_state=True, free_start=free)
        levels = Levels(steps, depth, depth - 1, units + depth + 1, free)
        assert levels.forward_steps <= mixed.forward_steps


def test_keeps_all_where_all_fits() -> None:
    assert list(Levels(60, 2, 1, 62)) == list(KeepAll(60))
    assert list(Levels(60, 2, 1, 10**9)) == list(KeepAll(60))


def test_a_million_steps() -> None:
    schedule = Levels(10**6, 2, 1, 303, free_start=True)
    mixed = Mixed(10**6, 2, 1, 300, record_in_state=True, free_start=True)
    assert 10**6 < schedule.forward_steps < mixed.forward_steps


def test_a_record_outside_the_state_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="use Mixed"):
        Levels(10, 2, 2, 10)
