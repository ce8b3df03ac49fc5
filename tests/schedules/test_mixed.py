"""Mixed against published counts, the recurrence, and a search of all action sequences."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrograd.errors import BudgetTooSmall
from retrograd.schedules import KeepAll, Mixed, Revolve, smallest_memory_units
from retrograd.verify import verify
from tests import oracles

FLAGS = list(product((False, True), repeat=2))
SIZES = [(1, 1), (2, 1), (3, 1), (5, 1), (3, 2), (5, 3), (7, 4), (1, 2), (1, 3), (2, 3), (3, 7)]


def forward_steps(steps, sizes, units, spared, free) -> int:
    """What F or P counts, or `oracles.IMPOSSIBLE`."""
    try:
        return Mixed(steps, *sizes, units, spared, free).forward_steps - spared
    except BudgetTooSmall:
        return oracles.IMPOSSIBLE


def test_counts_of_the_table() -> None:
    cases = oracles.published()["cases"]
    assert len(cases) > 2000
    for case, free in product(cases, (False, True)):
        expected = case["free0" if free else "saved0"]
        found = forward_steps(case["n"], (case["a"], case["b"]), case["m"], not case["rec"], free)
        assert found == (oracles.IMPOSSIBLE if expected is None else expected), case


@pytest.mark.parametrize(("spared", "free"), FLAGS)
def test_counts_of_the_paper(spared, free) -> None:
    column = f"{'free' if free else 'saved'}0_rec{0 if spared else 1}"
    for case in oracles.published()["paper_size"]:
        sizes = (case["a"], case["b"])
        assert forward_steps(case["n"], sizes, case["m"], spared, free) == case[column]
        if not spared:
            assert case[column] < case["pyrevolve"]


@pytest.mark.parametrize(
    ("steps", "units", "expected"),
    [(10, 3, 19), (20, 5, 38), (50, 5, 138), (100, 5, 352), (250, 25, 486)],
)
def test_equal_sizes_as_published_by_maddison(steps, units, expected) -> None:
    assert Mixed(steps, 1, 1, units).forward_steps == expected


@pytest.mark.parametrize(
    ("units", "saved", "free"), [(12, 9577, 8299), (50, 4213, 4154), (20, 6238, 5948)]
)
def test_counts_at_1615_steps(units, saved, free) -> None:
    assert Mixed(1615, 2, 1, units).forward_steps == saved
    assert Mixed(1615, 2, 1, units, free_start=True).forward_steps == free


@pytest.mark.parametrize(("spared", "free"), FLAGS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_counts_are_the_recurrence(sizes, spared, free) -> None:
    """All splits, and records before restarts, at 34 × 26 sizes."""
    table = oracles.fewest(34, 25, *sizes, spared=spared, free=free)
    for units, steps in product(range(26), range(1, 35)):
        assert forward_steps(steps, sizes, units, spared, free) == table[units][steps]


@pytest.mark.parametrize(("spared", "free"), FLAGS)
@pytest.mark.parametrize("sizes", [(2, 1), (1, 1), (9, 5)], ids=str)
def test_counts_are_the_recurrence_at_length(sizes, spared, free) -> None:
    units = 12 * max(sizes)
    table = oracles.fewest(160, units, *sizes, spared=spared, free=free)
    for budget, steps in product({units // 4, units // 2, units}, range(1, 161)):
        assert forward_steps(steps, sizes, budget, spared, free) == table[budget][steps]


@pytest.mark.parametrize(("spared", "free"), FLAGS)
@pytest.mark.parametrize("sizes", [(1, 1), (2, 1), (3, 2), (1, 2), (5, 3)], ids=str)
def test_no_sequence_of_actions_runs_fewer(sizes, spared, free) -> None:
    for steps, units in product(range(1, 7), range(7)):
        found = oracles.search(steps, units, *sizes, spared=spared, free=free)
        expected = forward_steps(steps, sizes, units, spared, free)
        assert expected == (oracles.IMPOSSIBLE if found is None else found - spared)


@pytest.mark.parametrize("spared", [False, True])
def test_no_sequence_of_actions_runs_fewer_at_eight_steps(spared) -> None:
    for units in (2, 4):
        found = oracles.search(8, units, 2, 1, spared=spared, free=False)
        assert found == Mixed(8, 2, 1, units, spared).forward_steps


CASES = st.tuples(
    st.integers(1, 300), st.integers(1, 12), st.integers(1, 12), st.integers(0, 150)
).filter(lambda case: case[3] >= smallest_memory_units(*case[:3]))


@settings(deadline=None)
@given(case=CASES, flags=st.sampled_from(FLAGS))
def test_runs_what_it_counts_and_keeps_to_its_memory(case, flags) -> None:
    steps, restart, record, units = case
    spared, free = flags
    schedule = Mixed(*case, *flags)
    seen = oracles.replay(schedule, steps, restart=restart, record=record, spared=spared, free=free)
    assert seen.forward_steps == schedule.forward_steps
    assert seen.peak_units <= units
    assert not seen.record_before_save
    assert seen.kinds["Drop"] == 0
    assert seen.kinds["Reverse"] == seen.kinds["Restore"] + 1
    verify(
        schedule,
        steps=steps,
        restart_nbytes=restart,
        record_nbytes=record,
        budgets={"memory": units},
        record_in_state=spared,
        free_start=free,
    )


@settings(deadline=None)
@given(case=CASES, flags=st.sampled_from(FLAGS))
def test_more_memory_never_runs_more_steps(case, flags) -> None:
    more = Mixed(*case[:3], case[3] + 1, *flags).forward_steps
    assert more <= Mixed(*case, *flags).forward_steps


@settings(deadline=None)
@given(case=CASES, flags=st.sampled_from(FLAGS))
def test_the_unit_does_not_matter(case, flags) -> None:
    steps, *units = case
    assert list(Mixed(steps, *(3 * size for size in units), *flags)) == list(Mixed(*case, *flags))


@settings(deadline=None)
@given(case=CASES, flags=st.sampled_from(FLAGS))
def test_never_more_steps_than_revolve(case, flags) -> None:
    steps, restart, _, units = case
    if steps > 1 and units // restart + flags[1] == 0:
        return
    assert (
        Mixed(*case, *flags).forward_steps <= Revolve(steps, units // restart, *flags).forward_steps
    )


def test_is_revolve_where_no_record_fits() -> None:
    assert list(Mixed(60, 2, 100, 9)) == list(Revolve(60, 4))


def test_keeps_all_where_all_fits() -> None:
    assert list(Mixed(60, 2, 1, 59)) == list(KeepAll(60))
    assert list(Mixed(60, 2, 1, 10**9)) == list(KeepAll(60))


def test_beats_keeping_less_by_what_fits() -> None:
    """No schedule with one memory runs less than twice the steps less the records that fit."""
    for units in range(60, 1615, 50):
        assert Mixed(1615, 2, 1, units, free_start=True).forward_steps >= 2 * 1615 - (units + 1)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_smallest_memory_is_the_smallest(sizes, free) -> None:
    for steps in range(1, 12):
        smallest = smallest_memory_units(steps, *sizes, free)
        Mixed(steps, *sizes, smallest, free_start=free)
        if smallest:
            with pytest.raises(BudgetTooSmall):
                Mixed(steps, *sizes, smallest - 1, free_start=free)


def test_no_memory_at_all() -> None:
    assert Mixed(50, 2, 1, 0, record_in_state=True, free_start=True).forward_steps == 1226
    assert Mixed(50, 2, 1, 0, free_start=True).forward_steps == 50 * 51 // 2


@pytest.mark.parametrize("units", [20, 50, 284, 1000, 8000])
@pytest.mark.parametrize("sizes", [(2, 1), (1, 1), (3, 2), (20, 7)], ids=str)
def test_ten_thousand_steps_are_counted_right(sizes, units) -> None:
    schedule = Mixed(10_000, *sizes, units)
    counted = schedule.forward_steps
    if counted < 60_000:
        seen = oracles.replay(schedule, 10_000, restart=sizes[0], record=sizes[1])
        assert seen.forward_steps == counted
        assert seen.peak_units <= units


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("case", [(10**6, 2, 1, 300), (10**6, 20, 7, 5000), (10**9, 2, 1, 500)])
def test_a_million_steps_and_more(case, flags) -> None:
    counted = Mixed(*case, *flags).forward_steps
    assert counted <= Mixed(*case[:3], case[3] - 1, *flags).forward_steps
    assert counted < Revolve(case[0], case[3] // case[1], *flags).forward_steps


def test_is_as_long_as_its_windows() -> None:
    """Actions grow with the windows, not with the steps."""
    kinds = Counter(type(action).__name__ for action in Mixed(1615, 2, 1, 201, free_start=True))
    assert kinds == Counter(Record=9, Reverse=9, Advance=8, Restore=8, Save=7)
