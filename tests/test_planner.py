"""Plans: the oracle's counts, budgets in every form, and errors that say what to write."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.verify import verify
from tests.oracles import fewest

# Exhaustive dynamic programming: 1615 steps, a restart of 2 and a record of 1 units.
PAPER = {12: 7985, 25: 5229, 50: 4108, 100: 3145, 201: 3033, 410: 2819}


@pytest.mark.parametrize(("units", "steps"), PAPER.items())
def test_the_papers_size(units: int, steps: int) -> None:
    sizes = {"restart_nbytes": 2 * 48_668_000, "record_nbytes": 48_668_000}
    plan = retrograd.plan(
        1615, **sizes, memory=units * 48_668_000, free_start=True, record_in_state=True
    )
    assert plan.forward_steps == steps + 1
    assert plan.recompute_factor == (steps + 1) / 1615
    assert plan.peak_nbytes <= plan.memory_nbytes


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("in_state", [False, True])
@pytest.mark.parametrize(("a", "b"), [(1, 1), (2, 1), (5, 3), (1, 2)])
def test_counts_and_bytes_are_what_a_replay_finds(
    a: int, b: int, in_state: bool, free: bool
) -> None:
    """Every number of steps up to 12, every memory; live rows are in the budget."""
    table = fewest(12, 30, a, b, spared=in_state, free=free)
    for steps in range(1, 13):
        for units in range(31):
            options = {"live_nbytes": 4, "record_in_state": in_state, "free_start": free}
            best = table[units][steps]
            if best > 10**6:
                with pytest.raises(BudgetTooSmall) as caught:
                    retrograd.plan(steps, a, b, units + 4, **options)
                retrograd.plan(steps, a, b, caught.value.smallest_nbytes, **options)
                continue
            plan = retrograd.plan(steps, a, b, units + 4, **options)
            assert plan.forward_steps == best + in_state
            counts = verify(
                plan.schedule,
                steps=steps,
                restart_nbytes=a,
                record_nbytes=b,
                budgets={"memory": units},
                record_in_state=in_state,
                free_start=free,
            )
            assert counts.forward_steps == plan.forward_steps
            assert counts.reverse_calls == plan.reverse_calls
            assert counts.peak_nbytes.get("memory", 0) + 4 == plan.peak_nbytes


def test_more_memory_never_costs_more_steps() -> None:
    steps = [retrograd.plan(200, 5, 3, memory).forward_steps for memory in range(5, 700, 3)]
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] == 200


def test_budgets_in_every_form() -> None:
    same = ["1 kB", 1000, "1000", "1/10", "0.001 MB"]
    plans = [retrograd.plan(100, 200, 100, memory) for memory in same]
    assert len({plan.forward_steps for plan in plans}) == 1
    assert {plan.memory_nbytes for plan in plans} == {1000}
    assert retrograd.plan(100, 200, 100, "auto").name == "keep-all"


def test_schedules_by_name() -> None:
    plans = {
        name: retrograd.plan(100, 2, 1, 40, schedule=name) for name in ("auto", "mixed", "revolve")
    }
    assert plans["auto"].name == "mixed"
    assert plans["mixed"].forward_steps < plans["revolve"].forward_steps
    with pytest.raises(BudgetTooSmall) as caught:
        retrograd.plan(100, 2, 1, 40, schedule="keep-all")
    assert caught.value.smallest_nbytes == 99
    assert retrograd.plan(100, 2, 1, 99, schedule="keep-all").forward_steps == 100


def test_an_explanation_names_the_alternatives() -> None:
    text = retrograd.plan(1615, "97MB", "48.7MB", "10GB").explain()
    for words in ("mixed: 3040 forward steps", "impossible: needs 78.6 GB", "more forward steps"):
        assert words in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "at least 1"),
        ({"steps": -1}, "at least 1"),
        ({"steps": 1.5}, "whole number"),
        ({"steps": True}, "whole number"),
        ({"steps": "3"}, "whole number"),
        ({"restart_nbytes": 0}, "at least 1"),
        ({"record_nbytes": "0 B"}, "at least 1"),
        ({"restart_nbytes": -3}, "not a size"),
        ({"record_nbytes": None}, "not a size"),
        ({"memory": "ten"}, "not a budget"),
        ({"memory": "1/0"}, "fraction"),
        ({"memory": 2.5}, "not a size"),
        ({"live_nbytes": "-1"}, "not a size"),
        ({"schedule": "revolv"}, 'did you mean "revolve"'),
        ({"free_start": 1}, "True"),
    ],
    ids=str,
)
def test_what_cannot_be_right_is_refused(change: dict[str, Any], message: str) -> None:
    right = {"steps": 10, "restart_nbytes": 2, "record_nbytes": 1, "memory": 5}
    retrograd.plan(**right)
    with pytest.raises(InvalidArgument, match=message):
        retrograd.plan(**(right | change))


def test_a_million_steps_do_not_recurse() -> None:
    plan = retrograd.plan(10**6, 2, 1, 1000)
    assert 10**6 < plan.forward_steps < 3 * 10**6
    assert plan.peak_nbytes <= 1000
