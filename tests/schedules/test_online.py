"""Schedules without a number of steps: legal wherever they stop, and close to the optimum."""

from __future__ import annotations

import pickle
from itertools import islice, pairwise, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrograd.actions import MEMORY, Drop, Forget, Record, Restore, Reverse, Save
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.layout import StateRows
from retrograd.schedules import Mixed, Revolve
from retrograd.schedules.online import OnlineMixed, OnlineRevolve, Stopped
from retrograd.schedules.online_restarts import Room, held_after, saves
from retrograd.schedules.revolve import advances, repetition
from retrograd.verify import verify

FLAGS = list(product((False, True), repeat=2))


def advances_along(slots: int, most_steps: int):
    """What stopping after 1, 2, … steps would advance: the restarts are followed here, and each gap
    costs what Griewank & Walther's formula says."""
    held, steps = [], 0
    for action in OnlineRevolve(slots).forward():
        match action:
            case Save(step):
                held.append(step)
            case Drop(step):
                held.remove(step)
            case Record(_, stop):
                steps = stop
                ends = [*held[1:], steps - 1]
                gaps = [end - start for start, end in zip(held, ends, strict=True)]
                yield (
                    steps
                    - 1
                    + sum(advances(gap, slots - before) for before, gap in enumerate(gaps) if gap)
                )
        if steps == most_steps:
            return


# OnlineRevolve.


@pytest.mark.parametrize("slots", range(1, 9))
def test_advances_are_close_to_the_offline_optimum(slots) -> None:
    worst = {1: 1.0, 2: 1.273, 3: 1.2, 4: 1.167, 5: 1.143, 6: 1.125, 7: 1.112, 8: 1.1}[slots]
    for steps, advanced in enumerate(advances_along(slots, 600), start=1):
        least = advances(steps, slots)
        sweeps, reach = repetition(steps, slots)
        assert least <= advanced <= max(0, sweeps * steps - 1)
        assert advanced <= worst * least
        if steps <= (slots + 1) * (slots + 2) // 2:
            assert advanced <= least + 1
        if steps == reach:
            assert advanced == least


@pytest.mark.parametrize("slots", [2, 3, 5, 10, 15])
def test_a_handful_more_where_no_step_is_repeated_more_than_thrice(slots) -> None:
    most_steps = (slots + 1) * (slots + 2) * (slots + 3) // 6
    for steps, advanced in enumerate(advances_along(slots, most_steps), start=1):
        assert advanced <= advances(steps, slots) + 5


@pytest.mark.parametrize(("slots", "most"), [(15, 1.02), (40, 1.006)])
def test_more_slots_come_closer(slots, most) -> None:
    for steps, advanced in enumerate(advances_along(slots, 2500), start=1):
        if steps > 2 * slots:
            least = advances(steps, slots)
            assert advanced <= max(least + 1, most * least)


def best_worst_ratio(slots: int, most_steps: int) -> float:
    """The smallest number that some rule keeps advances/optimum below at every number of steps.

    All rules are tried: before each step, save or not, and give any restart up for it.
    """
    ratios = {(0,): 1.0}
    for steps in range(1, most_steps + 1):
        reached: dict[tuple[int, ...], float] = {}
        for held, ratio in ratios.items():
            for choice in _choices(held, steps - 1, slots):
                gaps = [end - start for start, end in pairwise((*choice, steps - 1))]
                advanced = (
                    steps
                    - 1
                    + sum(advances(gap, slots - before) for before, gap in enumerate(gaps) if gap)
                )
                now = max(ratio, advanced / max(1, advances(steps, slots)))
                reached[choice] = min(now, reached.get(choice, now))
        ratios = reached
    return min(ratios.values())


def _choices(held, step, slots):
    yield held
    if step and len(held) < slots:
        yield (*held, step)
    elif step:
        yield from ((*held[:i], *held[i + 1 :], step) for i in range(1, slots))


@pytest.mark.parametrize(("slots", "steps", "more"), [(2, 50, 1.0), (3, 22, 1.04)])
def test_hardly_any_rule_does_better(slots, steps, more) -> None:
    found = enumerate(advances_along(slots, steps), start=1)
    worst = max(advanced / max(1, advances(n, slots)) for n, advanced in found)
    assert best_worst_ratio(slots, steps) <= worst <= more * best_worst_ratio(slots, steps)


@pytest.mark.parametrize(("record_in_state", "free_start"), FLAGS)
def test_legal_wherever_it_stops(record_in_state, free_start) -> None:
    for slots in (1, 2, 3, 5):
        schedule = OnlineRevolve(slots - free_start, record_in_state, free_start)
        for steps, advanced in enumerate(advances_along(slots, 45), start=1):
            counts = verify(
                schedule.actions(steps),
                steps=steps,
                restart_nbytes=1,
                record_nbytes=slots + 1,
                budgets={MEMORY: slots - free_start},
                record_in_state=record_in_state,
                free_start=free_start,
            )
            recorded = 1 if record_in_state else steps
            assert counts.forward_steps == schedule.forward_steps(steps) == advanced + recorded
            assert counts.peak_nbytes.get(MEMORY, 0) <= slots - free_start


@pytest.mark.parametrize("steps", [1, 2, 9, 40, 100])
def test_takes_a_row_for_each_slot_where_the_record_is_the_state(steps) -> None:
    counts = verify(
        OnlineRevolve(5, record_in_state=True, free_start=True).actions(steps),
        steps=steps,
        record_nbytes=1,
        state_rows=StateRows(1, 0),
        budgets={MEMORY: 5 + 2},
        free_start=True,
    )
    assert counts.reversed_steps == steps


def test_holds_the_binomial_restarts_where_these_are_best() -> None:
    """At C(s + r, s) steps the offline optimum is one set of restarts only."""
    for slots, sweeps in product((2, 3, 5), (2, 3, 4)):
        room = OnlineRevolve(slots).room
        gaps = [comb(slots - j + sweeps - 1, slots - j) for j in range(slots - 1)]
        expected = tuple(sum(gaps[:j]) for j in range(slots))
        assert held_after(room, comb(slots + sweeps, slots)) == expected


def test_ten_thousand_steps_are_counted_fast() -> None:
    for slots, most in ((10, 1.003), (100, 1.0002), (10**9, 1.0)):
        online = OnlineRevolve(slots).forward_steps(10_000)
        assert online <= most * Revolve(10_000, slots).forward_steps


def test_all_restarts_are_kept_as_long_as_there_are_slots() -> None:
    for steps in range(1, 30):
        assert OnlineRevolve(29, record_in_state=True).forward_steps(steps) == steps
        assert OnlineRevolve(29).forward_steps(steps) == 2 * steps - 1


# OnlineMixed.

SIZES = [(1, 1), (2, 1), (3, 1), (10, 1), (3, 2), (5, 3), (1, 2), (2, 3)]


def least_repetition(room: Room, steps: int) -> int:
    """r of the docstring of `OnlineMixed`."""
    reach = [room.window(restarts) for restarts in range(room.most_restarts + 1)]
    if steps <= reach[1]:
        return 1
    sweeps = 1
    while sweeps == 1 or reach[0] < steps:
        reach, sweeps = [sum(reach[j:]) for j in range(len(reach))], sweeps + 1
    return sweeps


@pytest.mark.parametrize(("record_in_state", "free_start"), FLAGS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_mixed_is_legal_wherever_it_stops(sizes, record_in_state, free_start) -> None:
    restart, record = sizes
    for memory in (restart, 3 * restart + record, 7 * restart + 3 * record):
        schedule = OnlineMixed(restart, record, memory, record_in_state, free_start)
        for steps in (*range(1, 12), 17, 26, 40, 61):
            counts = verify(
                schedule.actions(steps),
                steps=steps,
                restart_nbytes=restart,
                record_nbytes=record,
                budgets={MEMORY: memory},
                record_in_state=record_in_state,
                free_start=free_start,
            )
            assert counts.forward_steps == schedule.forward_steps(steps)
            assert counts.forward_steps <= least_repetition(schedule.room, steps) * steps


CASES = st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(30, 200))


@settings(deadline=None, max_examples=60)
@given(case=CASES, steps=st.integers(1, 300), flags=st.sampled_from(FLAGS))
def test_mixed_runs_no_step_more_often_than_it_must(case, steps, flags) -> None:
    schedule = OnlineMixed(*case, *flags)
    found = schedule.forward_steps(steps)
    assert Mixed(steps, *case, *flags).forward_steps <= found
    assert found <= least_repetition(schedule.room, steps) * steps


@pytest.mark.parametrize("free_start", [False, True])
def test_all_records_are_kept_as_long_as_they_fit_beside_the_start(free_start) -> None:
    schedule = OnlineMixed(3, 2, 23, free_start=free_start)
    most = 12 if free_start else 11
    for steps in range(1, most + 1):
        assert schedule.forward_steps(steps) == steps
        kinds = {type(action) for action in schedule.actions(steps)}
        assert kinds <= {Save, Record, Reverse, Drop}
    assert schedule.forward_steps(most + 1) > most + 1


def test_the_last_records_are_kept_in_what_the_restarts_leave() -> None:
    schedule = OnlineMixed(4, 1, memory_units=40)
    for steps in (60, 100, 150, 200):
        actions = list(schedule.actions(steps))
        saved = sum(isinstance(a, Save) for a in actions[: actions.index(_reverse(actions))])
        first = _reverse(actions)
        assert first.stop - first.start == 40 - 4 * saved + 1


def _reverse(actions):
    return next(action for action in actions if isinstance(action, Reverse))


@pytest.mark.parametrize("free_start", [False, True])
@pytest.mark.parametrize(
    ("case", "most", "typical"),
    [
        ((2, 1, 30), 1.07, 1.02),
        ((2, 1, 201), 1.02, 1.005),
        ((1, 1, 25), 1.06, 1.02),
        ((3, 2, 60), 1.07, 1.025),
        ((10, 1, 200), 1.06, 1.03),
        ((1, 3, 30), 1.1, 1.03),
    ],
)
def test_mixed_is_close_to_the_offline_optimum(case, free_start, most, typical) -> None:
    schedule = OnlineMixed(*case, free_start=free_start)
    ratios = []
    for steps in range(3, 1700, 97):
        best = Mixed(steps, *case, free_start=free_start).forward_steps
        ratios.append(schedule.forward_steps(steps) / best)
    assert max(ratios) <= most
    assert sum(ratios) / len(ratios) <= typical


def test_mixed_without_recomputing_twice_costs_a_few_restarts_more() -> None:
    """2 : 1, and memory for one recomputation: what is saved too early is all that it loses."""
    for steps in range(110, 1600, 70):
        found = OnlineMixed(2, 1, 200).forward_steps(steps)
        assert found - Mixed(steps, 2, 1, 200).forward_steps <= 6


def test_mixed_is_revolve_where_records_are_no_use() -> None:
    assert OnlineMixed(2, 2, 9, record_in_state=True).room == OnlineRevolve(4, True).room
    assert OnlineMixed(2, 7, 9, record_in_state=True).room == OnlineRevolve(4, True).room
    one, other = OnlineMixed(2, 10, 9), OnlineRevolve(4)
    assert list(one.actions(50)) == list(other.actions(50))


def test_a_million_steps() -> None:
    best = Mixed(10**6, 2, 1, 3000).forward_steps
    assert best <= OnlineMixed(2, 1, 3000).forward_steps(10**6) < 1.01 * best


# What the two have in common.

VALUES = [
    OnlineRevolve(3),
    OnlineRevolve(0, True, True),
    OnlineRevolve(10**9),
    OnlineMixed(2, 1, 9),
    OnlineMixed(3, 5, 0, False, True),
    OnlineMixed(2, 2, 9, True, True),
]


@pytest.mark.parametrize("schedule", VALUES, ids=repr)
def test_is_a_value(schedule) -> None:
    again = eval(repr(schedule))
    assert again == schedule
    assert hash(again) == hash(schedule)
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert len(set(VALUES)) == len(VALUES)
    with pytest.raises(AttributeError):
        schedule.free_start = True
    stopped = Stopped(schedule, 9)
    assert pickle.loads(pickle.dumps(stopped)) == stopped
    assert list(stopped) == list(stopped) == list(schedule.actions(9))


@pytest.mark.parametrize("schedule", VALUES, ids=repr)
def test_going_forward_does_not_depend_on_where_it_stops(schedule) -> None:
    endless = list(islice(schedule.forward(), 80))
    for steps in (1, 2, 7, 13):
        actions = list(schedule.actions(steps))
        ends = next(i for i, a in enumerate(actions) if isinstance(a, Record) and a.stop == steps)
        assert actions[: ends + 1] == endless[: ends + 1]
        assert actions[ends + 1 :] == list(schedule.reverse(steps))


@pytest.mark.parametrize("schedule", VALUES, ids=repr)
def test_each_step_is_a_record_of_its_own(schedule) -> None:
    forward = list(islice(schedule.forward(), 200))
    records = [action for action in forward if isinstance(action, Record)]
    assert records == [Record(step, step + 1) for step in range(len(records))]
    assert {type(action) for action in forward} <= {Record, Save, Drop, Forget}
    assert not any(isinstance(action, Restore) and action.last for action in forward)


NOT_WHOLE = [True, 2.0, "2", None, -1, [3], np.float64(2)]


@pytest.mark.parametrize("wrong", NOT_WHOLE, ids=repr)
def test_refuses_what_is_not_whole(wrong) -> None:
    calls = {
        "slots": lambda: OnlineRevolve(wrong),
        "restart_units": lambda: OnlineMixed(wrong, 1, 5),
        "record_units": lambda: OnlineMixed(1, wrong, 5),
        "memory_units": lambda: OnlineMixed(1, 1, wrong),
        "steps": lambda: OnlineRevolve(3).reverse(wrong),
    }
    for name, call in calls.items():
        with pytest.raises(InvalidArgument, match=name) as caught:
            call()
        assert repr(wrong) in str(caught.value)
        assert "write" in str(caught.value)


@pytest.mark.parametrize("wrong", [1, 0, None, "yes", np.bool_(True)], ids=repr)
@pytest.mark.parametrize("name", ["record_in_state", "free_start"])
def test_refuses_flags_that_are_not_bool(name, wrong) -> None:
    with pytest.raises(InvalidArgument, match=name):
        OnlineRevolve(3, **{name: wrong})
    with pytest.raises(InvalidArgument, match=name):
        OnlineMixed(2, 1, 5, **{name: wrong})


def test_takes_numpy_integers_and_keeps_python_ones() -> None:
    assert type(OnlineRevolve(np.int64(3)).slots) is int
    schedule = OnlineMixed(np.int32(2), np.uint8(1), np.int64(7))
    assert all(type(n) is int for n in (schedule.restart_units, schedule.memory_units))
    assert list(schedule.actions(np.int64(20))) == list(OnlineMixed(2, 1, 7).actions(20))


def test_zero_where_one_is_the_least() -> None:
    for call in (
        lambda: OnlineMixed(0, 1, 5),
        lambda: OnlineMixed(1, 0, 5),
        lambda: OnlineRevolve(3).actions(0),
        lambda: OnlineRevolve(3).forward_steps(0),
    ):
        with pytest.raises(InvalidArgument, match="at least 1"):
            call()


@pytest.mark.parametrize(
    ("make", "smallest"),
    [
        (lambda: OnlineRevolve(0), 1),
        (lambda: OnlineMixed(2, 1, 1), 2),
        (lambda: OnlineMixed(20, 7, 19, True), 20),
    ],
)
def test_names_the_smallest_memory(make, smallest) -> None:
    with pytest.raises(BudgetTooSmall, match=f"={smallest} or more") as caught:
        make()
    assert caught.value.smallest_nbytes == smallest


def test_one_free_state_is_enough() -> None:
    assert OnlineRevolve(0, free_start=True).forward_steps(50) == 50 * 51 // 2
    assert OnlineMixed(9, 9, 0, free_start=True).forward_steps(50) == 50 * 51 // 2
    assert list(saves(OnlineRevolve(1).room)) == []
