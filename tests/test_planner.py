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


COSTS = retrograd.Costs(0.02, 0.03, 1e-4, 2e-4, write_rate=1e9, read_rate=2e9)
WAVE = {"restart_nbytes": 10**7, "record_nbytes": 5 * 10**6, "free_start": True}
ROWS = retrograd.StateRows(2, 1)


@pytest.mark.parametrize("rows", [None, ROWS])
@pytest.mark.parametrize("disk", [0, "2 GB", "50 GB"])
@pytest.mark.parametrize("memory", ["1/64", "1/8", "2/1"])
@pytest.mark.parametrize("background", [True, False])
def test_the_chosen_one_is_the_fastest_and_takes_what_is_said(
    memory: str, disk: Any, rows: Any, background: bool
) -> None:
    options = {"disk": disk, "costs": COSTS, "record_in_state": True, "state_rows": rows}
    plan = retrograd.plan(300, **WAVE, memory=memory, background=background, **options)
    compared = {a.name: a.prediction for a in plan.alternatives if a.prediction is not None}
    assert min(p.seconds for p in compared.values()) == plan.seconds
    assert compared[plan.name] == plan.prediction
    assert plan.prediction.disk_nbytes <= plan.budget.disk_nbytes
    assert {"tiered-mixed", "h-revolve", "multistage"} <= compared.keys() or not disk
    counts = verify(
        plan.schedule,
        steps=300,
        restart_nbytes=10**7,
        record_nbytes=5 * 10**6,
        budgets={"disk": plan.budget.disk_nbytes},
        record_in_state=True,
        free_start=True,
        state_rows=rows,
    )
    assert counts.forward_steps == plan.forward_steps
    assert counts.peak_nbytes.get("disk", 0) == plan.prediction.disk_nbytes
    saves, restores = counts.saves.get("disk", 0), counts.restores.get("disk", 0)
    records = counts.loaded_steps.get("disk", 0) * 5 * 10**6
    assert (saves + restores) * 10**7 + 2 * records == plan.prediction.traffic_nbytes
    waited = (saves * 10**7 + records) / 1e9 + (restores * 10**7 + records) / 2e9
    steps = COSTS.seconds(counts)
    if background:
        assert steps <= plan.seconds <= steps + waited
    else:
        assert plan.seconds == pytest.approx(steps + waited)


@pytest.mark.parametrize("disk", [0, 6 * 10**7])
@pytest.mark.parametrize("rows", [None, ROWS])
@pytest.mark.parametrize("call", [1e-4, 0.05])
def test_more_memory_never_predicts_more_seconds(disk: int, rows: Any, call: float) -> None:
    costs = retrograd.Costs(0.02, 0.03, call, 2 * call, write_rate=1e9, read_rate=2e9)
    options = {"disk": disk, "costs": costs, "record_in_state": True, "state_rows": rows}
    seconds = [
        retrograd.plan(60, **WAVE, memory=units * 5 * 10**6, **options).seconds
        for units in range(0 if disk else 2, 66)
    ]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] == pytest.approx(60 * 0.05 + 3 * call)


def test_a_disk_is_used_only_where_it_pays() -> None:
    slow = retrograd.Costs(0.02, write_rate=1e6, read_rate=1e6)
    for costs, used in ((COSTS, True), (slow, False)):
        plan = retrograd.plan(300, **WAVE, memory="1/64", disk="1 GB", costs=costs)
        assert (plan.name == "tiered-mixed") == used
        assert (plan.prediction.disk_nbytes > 0) == used


def test_the_table_says_what_each_takes_and_why_it_lost() -> None:
    plan = retrograd.plan(300, **WAVE, memory="1/64", disk="100 MB", costs=COSTS)
    text = plan.explain()
    for words in ("tiered-mixed", "more s", "of disk", "seconds", "traffic", "impossible: needs"):
        assert words in text
    assert "schedule" not in plan.summary()


@pytest.mark.parametrize("rows", [None, ROWS])
def test_several_sweeps_and_what_repeating_would_cost(rows: Any) -> None:
    options = {"state_rows": rows, "record_in_state": True, "sweeps": 3}
    plan = retrograd.plan(200, **WAVE, memory="1/5", costs=COSTS, **options)
    ours, repeating = plan.alternatives
    assert (plan.name, ours.forward_steps) == ("sweeps", plan.forward_steps)
    assert repeating.forward_steps > 1.2 * plan.forward_steps
    assert "returns to the initial state" in plan.explain()
    assert plan.peak_nbytes <= plan.memory_nbytes
    assert plan.seconds > 3 * 200 * COSTS.reverse_step
    with pytest.raises(InvalidArgument, match="one reverse sweep"):
        retrograd.plan(200, **WAVE, memory="1/5", sweeps=2, schedule="mixed")
    with pytest.raises(BudgetTooSmall):
        retrograd.plan(200, 2, 1, 1, sweeps=2)


def test_levels_where_states_are_rows() -> None:
    plan = retrograd.plan(1615, **WAVE, memory=25 * 5 * 10**6, state_rows=ROWS)
    assert (plan.name, plan.forward_steps) == ("levels", 4868)
    assert plan.peak_nbytes <= 25 * 5 * 10**6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "at least 1"),
        ({"steps": -1}, "at least 1"),
        ({"steps": 1.5}, "whole number"),
        ({"steps": True}, "whole number"),
        ({"steps": "3"}, "whole number"),
        ({"steps": None}, "OnlineMixed"),
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
        ({"disk": 100}, "depends on what steps and transfers cost"),
        ({"disk": "many"}, "not a budget"),
        ({"disk": -1}, "not a size"),
        ({"disk": 1, "costs": COSTS, "schedule": "multistage"}, "holds no restart"),
        ({"disk": 2, "costs": COSTS, "schedule": "disk-revolve", "background": False}, "of disk"),
        ({"schedule": "levels"}, "does not consist of records"),
        ({"schedule": "h-revolve"}, "holds no restart"),
        ({"state_rows": retrograd.StateRows(3, 0)}, "is not 3 records"),
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


def test_what_cannot_be_tabulated_is_refused_by_name() -> None:
    sizes = {"restart_nbytes": 16 * 10**6, "record_nbytes": 8 * 10**6, "live_nbytes": 24 * 10**6}
    options = {"disk": "200 GB", "costs": COSTS, "state_rows": ROWS, "schedule": "tiered-mixed"}
    with pytest.raises(
        InvalidArgument, match="impossible: 20000 steps .* use Mixed without a disk"
    ):
        retrograd.plan(20_000, **sizes, memory="2 GB", free_start=True, **options)
