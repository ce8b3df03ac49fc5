"""The abstract machine accepts every legal schedule, counts it, and refuses every other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd
from retrograd.actions import (
    DISK,
    INITIAL,
    Action,
    Advance,
    BeginSweep,
    Drop,
    Forget,
    Load,
    Record,
    Restore,
    Reverse,
    Save,
)
from retrograd.errors import IllegalAction, InvalidArgument
from retrograd.schedules import KeepAll, Mixed, Revolve
from retrograd.verify import verify
from tests.random_schedules import RANDOMS, random_schedule


@dataclass(frozen=True)
class Rules:
    """What a schedule is replayed with."""

    steps: int
    restart_nbytes: int = 1
    record_nbytes: int = 1
    memory: int = 10**9
    record_in_state: bool = False
    free_start: bool = False

    def verify(self, actions: Iterable[Action]) -> retrograd.Counts:
        return verify(
            actions,
            steps=self.steps,
            restart_nbytes=self.restart_nbytes,
            record_nbytes=self.record_nbytes,
            budgets={"memory": self.memory},
            record_in_state=self.record_in_state,
            free_start=self.free_start,
        )


def naive_counts(actions: Iterable[Action], rules: Rules) -> tuple[int, int, int] | None:
    """Forward steps, reverse calls and peak bytes, or None if illegal; step by step, on sets.

    An oracle that shares no code with `verify`: one condition a line, no ranges, no budgets by
    tier. Only the memory, records on a disk and the free initial state are known to it.
    """
    live, furthest, adjoint, sweep = 0, 0, rules.steps, 0
    saved: set[int] = set()
    kept: set[int] = set()
    away: dict[int, range] = {}
    forward_steps = reverse_calls = peak = 0
    for action in actions:
        ok, passing = True, 0
        match action:
            case Record(start, stop, "disk"):
                ok = start == live and start < stop <= adjoint
                new = range(start, stop)
                ok = ok and not kept & {*new} and not any({*r} & {*new} for r in away.values())
                live, furthest = stop, max(furthest, stop)
                forward_steps += stop - start
                away[start] = new
                passing = (len(new) - 1) * rules.record_nbytes
            case Load(start, stop, "disk"):
                ok = away.get(start) == range(start, stop) and start < adjoint
                ok = ok and not kept & {*range(start, stop)}
                kept |= {*away.pop(start, ())}
                live = -1
            case Forget(start, stop, "disk"):
                ok = start < stop and all(
                    any(k in r for r in away.values()) for k in range(start, stop)
                )
                rest = [(r.start, min(r.stop, start)) for r in away.values()]
                rest += [(max(r.start, stop), r.stop) for r in away.values()]
                away = {low: range(low, high) for low, high in rest if low < high}
            case Advance(start, stop) | Record(start, stop, "memory"):
                ok = start == live and start < stop <= adjoint
                fresh = set(range(start, stop)) if isinstance(action, Record) else set()
                ok = ok and not fresh & kept
                kept |= fresh
                live, furthest = stop, max(furthest, stop)
                forward_steps += stop - start
            case Save(step, "memory"):
                ok = step == live < adjoint and step not in saved
                saved.add(step)
            case Restore(step, "memory", last):
                ok = step in saved and step < adjoint
                live = step
                saved -= {step} if last else set()
            case Restore(0, "initial"):
                ok = rules.free_start and adjoint > 0
                live = 0
            case Drop(step, "memory"):
                ok = step in saved
                saved -= {step}
            case Forget(start, stop, "memory"):
                ok = start < stop and set(range(start, stop)) <= kept
                kept -= set(range(start, stop))
            case Reverse(stop, start, keep):
                ok = start < stop == adjoint and furthest == rules.steps
                needed = set(range(start, stop))
                if rules.record_in_state and live == stop - 1:
                    needed -= {live}
                ok = ok and needed <= kept
                kept -= set() if keep else set(range(start, stop))
                adjoint = start
                reverse_calls += 1
            case BeginSweep(index):
                ok = adjoint == 0 and index == sweep + 1
                sweep, adjoint = index, rules.steps
            case _:
                ok = False
        nbytes = len(saved) * rules.restart_nbytes + len(kept - {live - 1}) * rules.record_nbytes
        nbytes += passing
        peak = max(peak, nbytes)
        if not ok or nbytes > rules.memory:
            return None
    return None if adjoint or saved or kept or away else (forward_steps, reverse_calls, peak)


def verified_counts(actions: Iterable[Action], rules: Rules) -> tuple[int, int, int] | None:
    try:
        counts = rules.verify(actions)
    except IllegalAction:
        return None
    return counts.forward_steps, counts.reverse_calls, counts.peak_nbytes.get("memory", 0)


def schedules_of(steps: int) -> Iterator[tuple[Any, Rules]]:
    """Schedules of every family, each with the tightest rules that it keeps."""
    for in_state in (False, True):
        for free in (False, True):
            flags = {"record_in_state": in_state, "free_start": free}
            yield KeepAll(steps), Rules(steps, 2, 1, steps - 1, **flags)
            for slots in range(1, 4):
                revolve = Revolve(steps, slots, in_state, free)
                yield revolve, Rules(steps, 2, 3, 2 * slots, **flags)
            for memory in range(2, steps + 2):
                mixed = Mixed(steps, 2, 1, memory, in_state, free)
                yield mixed, Rules(steps, 2, 1, memory, **flags)


@pytest.mark.parametrize("steps", range(1, 10))
def test_legal_schedules_pass_with_the_counts_of_a_naive_replay(steps: int) -> None:
    for schedule, rules in schedules_of(steps):
        counts = rules.verify(schedule)
        naive = naive_counts(schedule, rules)
        assert naive is not None
        assert verified_counts(schedule, rules) == naive
        assert counts.forward_steps == schedule.forward_steps
        assert counts.reversed_steps == steps


def test_everything_is_counted() -> None:
    counts = verify(
        [
            Save(0),
            Record(0, 2, DISK),
            Save(2, DISK),
            Advance(2, 3),
            Restore(2, DISK),
            Record(2, 3),
            Reverse(3, 2),
            Load(0, 2, DISK),
            Reverse(2, 0),
            Drop(0),
            Drop(2, DISK),
        ],
        steps=3,
        restart_nbytes=5,
        record_nbytes=7,
    )
    assert (counts.actions, counts.forward_steps, counts.recorded_steps) == (11, 4, 3)
    assert (counts.reversed_steps, counts.reverse_calls) == (3, 2)
    assert (counts.loads, counts.loaded_steps) == ({DISK: 1}, {DISK: 2})
    assert counts.saves == {"memory": 1, DISK: 1}
    assert counts.restores == {DISK: 1}
    assert counts.drops == {"memory": 1, DISK: 1}
    # Memory holds the restart, and both records when they are back: no state is live then. The
    # record that a step has just made lies in the live rows; a disk has none of them.
    assert counts.peak_nbytes == {"memory": 19, DISK: 19}


@pytest.mark.parametrize("in_state", [False, True])
@pytest.mark.parametrize("free", [False, True])
@given(random=RANDOMS, steps=st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_schedules_that_nobody_would_write_are_counted_alike(
    in_state: bool, free: bool, random: Random, steps: int
) -> None:
    rules = Rules(steps, 3, 2, record_in_state=in_state, free_start=free)
    actions = random_schedule(random, steps, record_in_state=in_state, free_start=free)
    naive = naive_counts(actions, rules)
    assert naive is not None
    assert verified_counts(actions, rules) == naive


# Mutations: whatever the naive replay refuses, `verify` refuses, and nothing else.


def neighbours_of(action: Action) -> Iterator[Action]:
    """The action with one thing changed: a bound moved by one, a tier, a flag."""
    for name in ("start", "stop", "step", "index"):
        value = getattr(action, name, None)
        if value is not None:
            yield replace(action, **{name: value + 1})
            yield replace(action, **{name: value - 1})
    if hasattr(action, "tier"):
        yield from (replace(action, tier=t) for t in (DISK, INITIAL, "memory") if t != action.tier)
    for name in ("last", "keep"):
        if hasattr(action, name):
            yield replace(action, **{name: not getattr(action, name)})


def mutations_of(actions: list[Action]) -> Iterator[list[Action]]:
    """Every schedule that differs in one place."""
    for i, action in enumerate(actions):
        yield actions[:i] + actions[i + 1 :]
        yield actions[: i + 1] + actions[i:]
        yield from (actions[:i] + [other] + actions[i + 1 :] for other in neighbours_of(action))
        if i + 1 < len(actions):
            yield actions[:i] + [actions[i + 1], action] + actions[i + 2 :]


def test_mutated_schedules_are_refused_or_legal_and_counted_anew() -> None:
    refused = legal = 0
    for steps in range(1, 7):
        for schedule, rules in schedules_of(steps):
            for mutated in mutations_of(list(schedule)):
                if any(getattr(action, "tier", None) == DISK for action in mutated):
                    continue
                naive = naive_counts(mutated, rules)
                assert verified_counts(mutated, rules) == naive, mutated
                refused += naive is None
                legal += naive is not None
    # Most mutations break a rule. The rest are other ways of doing the same, such as a restart
    # that is saved a step later.
    assert refused > 10 * legal > 0


def test_a_tier_that_nothing_was_put_in_gives_nothing() -> None:
    for schedule, rules in schedules_of(5):
        actions = list(schedule)
        for i, action in enumerate(actions):
            if isinstance(action, Restore):
                mutated = actions[:i] + [replace(action, tier=DISK)] + actions[i + 1 :]
                with pytest.raises(IllegalAction, match="no restart at") as caught:
                    rules.verify(mutated)
                assert caught.value.index == i


@given(data=st.data(), steps=st.integers(2, 9))
@settings(max_examples=200, deadline=None)
def test_two_mutations_do_not_hide_each_other(data: st.DataObject, steps: int) -> None:
    rules = Rules(steps, 3, 2, free_start=True)
    random = data.draw(RANDOMS)
    actions = random_schedule(random, steps, record_in_state=False, free_start=True)
    once = list(random.choice(list(mutations_of(actions))))
    twice = random.choice(list(mutations_of(once))) if once else once
    if not any(getattr(action, "tier", None) == DISK for action in twice):
        assert verified_counts(twice, rules) == naive_counts(twice, rules)


RULES = {
    "unlike the live state": ([Advance(1, 2)], "the live state is at 0"),
    "empty forward": ([Advance(0, 0)], "the range is empty"),
    "backwards": ([Record(0, -1)], "the range is empty"),
    "past the end": ([Advance(0, 5)], "passes the adjoint, which is at 4"),
    "past the adjoint": (
        [Save(0), Record(0, 4), Reverse(4, 2), Restore(0), Advance(0, 3)],
        "passes the adjoint, which is at 2",
    ),
    "recorded twice": ([Save(0), Record(0, 2), Restore(0), Record(0, 1)], "recorded already"),
    "recorded in part": (
        [Save(0), Advance(0, 1), Record(1, 2), Restore(0), Record(0, 2)],
        "recorded",
    ),
    "records in the initial tier": ([Record(0, 1, INITIAL)], "nothing can be kept"),
    "restarts in the initial tier": ([Save(0, INITIAL)], "nothing can be kept"),
    "saved elsewhere": ([Save(1)], "the live state is at 0"),
    "saved twice": ([Save(0), Save(0)], "saved already"),
    "saved at the adjoint": ([Record(0, 4), Save(4)], "useless: the adjoint is at 4"),
    "never saved": ([Restore(2)], "no restart at 2 in memory"),
    "saved in another tier": ([Save(0), Restore(0, DISK)], "no restart at 0 in disk"),
    "given up already": ([Save(0), Restore(0, last=True), Restore(0)], "no restart at 0"),
    "dropped already": ([Save(0), Drop(0), Drop(0)], "no restart at 0"),
    "start not free": ([Restore(0, INITIAL)], "there is no free initial state"),
    "restored for nothing": ([Save(0), Record(0, 4), Reverse(4, 0), Restore(0)], "useless"),
    "forgotten, never kept": ([Record(0, 2), Forget(1, 3)], "not all of them are in memory"),
    "nothing forgotten": ([Record(0, 2), Forget(1, 1)], "the range is empty"),
    "forgotten in another tier": (
        [Record(0, 2), Forget(0, 1, DISK)],
        "not all of them are in disk",
    ),
    "nothing reversed": ([Record(0, 4), Reverse(4, 4)], "the range is empty"),
    "reversed out of order": ([Record(0, 4), Reverse(3, 2)], "the adjoint is at 4"),
    "reversed twice": ([Record(0, 4), Reverse(4, 2, keep=True), Reverse(4, 2)], "adjoint is at 2"),
    "reversed too early": ([Record(0, 3), Reverse(4, 0)], "the forward has not run to the end"),
    "no record": ([Record(0, 2), Advance(2, 4), Reverse(4, 0)], "step 3 has no record"),
    "a hole in the records": (
        [Record(0, 1), Advance(1, 2), Record(2, 4), Reverse(4, 0)],
        "step 1 has no record",
    ),
    "reversed beyond the start": ([Record(0, 4), Reverse(4, -1)], "step -1 has no record"),
    "swept before the end": ([Record(0, 4), Reverse(4, 1), BeginSweep(1)], "still at 1"),
    "sweeps miscounted": (
        [Record(0, 4), Reverse(4, 0, keep=True), BeginSweep(2)],
        "the sweep under way is number 0",
    ),
    "over budget": ([Save(0), Advance(0, 1), Save(1), Advance(1, 2), Save(2)], "takes 6 bytes"),
    "loaded, never put there": ([Record(0, 2), Load(0, 2, DISK)], "not in disk, or not as one"),
    "loaded in part": ([Record(0, 2, DISK), Load(0, 1, DISK)], "not in disk, or not as one item"),
    "loaded from memory": ([Record(0, 2), Load(0, 2, "memory")], "memory is where"),
    "loaded twice": ([Record(0, 2, DISK), Load(0, 2, DISK), Load(0, 2, DISK)], "not in disk"),
    "loaded for nothing": (
        [Save(0), Record(0, 2, DISK), Restore(0), Record(0, 4), Reverse(4, 0), Load(0, 2, DISK)],
        "useless",
    ),
    "not an action": (["Advance"], "not an action"),
}


@pytest.mark.parametrize(("actions", "reason"), RULES.values(), ids=RULES)
def test_a_broken_rule_is_named_with_action_and_index(actions: list[Any], reason: str) -> None:
    rules = Rules(steps=4, restart_nbytes=2, memory=5)
    with pytest.raises(IllegalAction, match=reason) as caught:
        rules.verify(actions)
    assert (caught.value.index, caught.value.action) == (len(actions) - 1, actions[-1])
    assert f"action {len(actions) - 1}, {actions[-1]}" in str(caught.value)


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ([], "after 0 actions: ends with the adjoint at 2, not at 0"),
        ([Record(0, 2), Reverse(2, 1)], "after 2 actions: ends with the adjoint at 1, not at 0"),
        ([Save(0), Record(0, 2), Reverse(2, 0)], r"leaves restarts \[0\] in memory"),
        ([Record(0, 2), Reverse(2, 0, keep=True)], "leaves 2 records in memory"),
    ],
)
def test_what_a_schedule_leaves_over_is_named(actions: list[Action], reason: str) -> None:
    with pytest.raises(IllegalAction, match=reason) as caught:
        verify(actions, steps=2)
    assert (caught.value.index, caught.value.action) == (len(actions), None)


def test_the_record_in_the_live_state_serves_its_own_step_only() -> None:
    to_step_one = [Advance(0, 2), Restore(0, INITIAL), Advance(0, 1)]
    rules = Rules(2, record_in_state=True, free_start=True)
    rest = [Restore(0, INITIAL), Reverse(1, 0)]
    assert rules.verify([*to_step_one, Reverse(2, 1), *rest]).recorded_steps == 0
    with pytest.raises(IllegalAction, match="step 0 has no record"):
        rules.verify([*to_step_one, Reverse(2, 0)])
    with pytest.raises(IllegalAction, match="step 1 has no record"):
        replace(rules, record_in_state=False).verify([*to_step_one, Reverse(2, 1), *rest])


def test_records_elsewhere_are_of_use_once_they_are_loaded() -> None:
    away = [Record(0, 2, DISK), Record(2, 3, DISK)]
    load = [Load(2, 3, DISK), Load(0, 2, DISK)]
    assert verify([*away, *load, Reverse(3, 0)], steps=3).reverse_calls == 1
    with pytest.raises(IllegalAction, match="step 1 has no record in memory"):
        verify([*away, load[0], Reverse(3, 0)], steps=3)
    with pytest.raises(IllegalAction, match="leaves 2 records in disk"):
        verify(
            [*away, load[0], Reverse(3, 2), Restore(0, INITIAL), Record(0, 2), Reverse(2, 0)],
            steps=3,
            free_start=True,
        )


def test_after_loading_the_forward_needs_a_restart() -> None:
    with pytest.raises(IllegalAction, match="there is no live state"):
        verify([Record(0, 2, DISK), Load(0, 2, DISK), Advance(2, 3)], steps=3)


def test_records_that_leave_memory_pass_through_it() -> None:
    actions = [Record(0, 3, DISK), Load(0, 3, DISK), Reverse(3, 0)]
    assert verify(actions, steps=3, budgets={"memory": 3, DISK: 3}).peak_nbytes[DISK] == 3
    with pytest.raises(IllegalAction, match="takes 3 bytes in disk"):
        verify(actions, steps=3, budgets={DISK: 2})
    with pytest.raises(IllegalAction, match="action 0, .*takes 2 bytes in memory"):
        verify(actions, steps=3, budgets={"memory": 1})


def test_a_further_sweep_needs_records_again() -> None:
    sweep = [Record(0, 2), Reverse(2, 0, keep=True), BeginSweep(1)]
    assert verify([*sweep, Reverse(2, 0)], steps=2).reversed_steps == 4
    with pytest.raises(IllegalAction, match="step 1 has no record"):
        verify([Record(0, 2), Reverse(2, 0), BeginSweep(1), Reverse(2, 0)], steps=2)


@pytest.mark.parametrize("steps", [-1, 0, None, 1.5, "3"])
def test_a_number_of_steps_that_cannot_be_is_refused(steps: Any) -> None:
    with pytest.raises(InvalidArgument, match="give a whole number of at least 1"):
        verify([], steps=steps)


@pytest.mark.parametrize("steps", [1, True, np.int64(1)])
def test_numbers_of_any_kind_are_welcome(steps: Any) -> None:
    assert verify([Record(0, 1), Reverse(1, 0)], steps=steps).forward_steps == 1


def test_a_million_steps_in_one_action_are_not_counted_one_by_one() -> None:
    steps = 10**15
    assert verify(KeepAll(steps), steps=steps).peak_nbytes == {"memory": steps - 1}
