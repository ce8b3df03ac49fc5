"""Timelines of schedules and of runs: what stands where, counted."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import numpy as np
import pytest

import retrograd
from retrograd.actions import (
    DISK,
    INITIAL,
    MEMORY,
    Advance,
    BeginSweep,
    Drop,
    Forget,
    Record,
    Restore,
    Reverse,
    Save,
)
from retrograd.events import Event, Kind
from retrograd.schedules import KeepAll, Mixed, Revolve
from retrograd.timeline import SECONDS, STEPS_EXECUTED, Lifetime, Stroke, Window, from_actions
from retrograd.timeline import from_events as of_events
from retrograd.verify import verify
from tests.random_schedules import random_schedule

SCHEDULES = [
    KeepAll(1),
    KeepAll(30),
    Revolve(8, 3),
    Revolve(30, 4, record_in_state=True),
    Revolve(30, 3, free_start=True),
    Mixed(30, 2, 1, 10),
    Mixed(40, 3, 1, 9, record_in_state=True, free_start=True),
]


def test_keep_all_is_one_window() -> None:
    timeline = from_actions(KeepAll(8), 8)
    assert timeline.unit == STEPS_EXECUTED
    assert timeline.strokes == (
        Stroke(Kind.FORWARD, 0, 8, 0, 8),
        Stroke(Kind.REVERSE, 8, 0, 8, 16),
    )
    assert timeline.windows == (Window(0, 8, MEMORY, (0, 8), (16, 8)),)
    assert timeline.windows[0].corners == ((0, 0), (8, 8), (8, 8), (16, 0))
    assert timeline.restarts == ()
    assert (timeline.most_restarts, timeline.most_records) == ({}, {MEMORY: 8})


def test_two_restarts_and_a_free_start() -> None:
    actions = [
        *(Advance(0, 2), Save(2, DISK), Advance(2, 4), Save(4), Record(4, 6), Reverse(6, 4)),
        *(Drop(4), Restore(2, DISK, last=True), Record(2, 4), Reverse(4, 3), Reverse(3, 2)),
        *(Restore(0, INITIAL), Advance(0, 1), Record(1, 2), Reverse(2, 1)),
        *(Restore(0, INITIAL), Record(0, 1), Reverse(1, 0)),
    ]
    timeline = from_actions(actions, 6)
    kinds = [stroke.kind for stroke in timeline.strokes]
    assert kinds.count(Kind.FORWARD) == 3
    assert kinds.count(Kind.RECOMPUTE) == 4
    assert kinds.count(Kind.REVERSE) == 5
    assert set(timeline.restarts) == {
        Lifetime(4, MEMORY, 4, 8, ()),
        Lifetime(2, DISK, 2, 8, (8,)),
        Lifetime(0, INITIAL, 0, 15, (12, 15)),
    }
    assert timeline.windows[1:3] == (  # one record, reversed in two pieces
        Window(3, 4, MEMORY, (9, 10), (11, 10)),
        Window(2, 3, MEMORY, (8, 9), (12, 11)),
    )
    assert (timeline.most_restarts, timeline.most_records) == ({DISK: 1, MEMORY: 1}, {MEMORY: 2})


def test_a_range_that_passes_the_furthest_step_is_cut() -> None:
    actions = [Save(0), Advance(0, 3), Restore(0), Record(0, 5)]
    strokes = from_actions(actions, 5).strokes
    assert strokes[1:] == (
        Stroke(Kind.RECOMPUTE, 0, 3, 3, 6),
        Stroke(Kind.FORWARD, 3, 5, 6, 8),
    )


def test_records_that_are_forgotten_in_the_middle() -> None:
    actions = [Record(0, 6), Forget(2, 4), Reverse(6, 4), Advance(6, 7)]
    windows = from_actions(actions, 7).windows
    assert windows == (
        Window(2, 4, MEMORY, (2, 4), (6, 6)),
        Window(4, 6, MEMORY, (4, 6), (8, 6)),
        Window(0, 2, MEMORY, (0, 2), (9, 9)),  # never given up: it lasts to the end
    )


def test_records_that_are_kept_for_another_sweep() -> None:
    actions = [Record(0, 4), Reverse(4, 0, keep=True), BeginSweep(1), Reverse(4, 0)]
    timeline = from_actions(actions, 4)
    assert timeline.windows == (Window(0, 4, MEMORY, (0, 4), (12, 8)),)
    assert len(timeline.strokes) == 3


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_counts_are_those_of_the_replay(schedule) -> None:
    counts = verify(
        schedule,
        steps=schedule.steps,
        restart_nbytes=1,
        record_nbytes=0,
        record_in_state=getattr(schedule, "record_in_state", False),
        free_start=getattr(schedule, "free_start", False),
    )
    timeline = from_actions(schedule, schedule.steps)
    assert timeline.forward_steps == counts.forward_steps == schedule.forward_steps
    assert timeline.duration == counts.forward_steps + counts.reversed_steps
    assert sum(window.stop - window.start for window in timeline.windows) == counts.recorded_steps
    saved = [life for life in timeline.restarts if life.tier != INITIAL]
    assert len(saved) == counts.saves.get(MEMORY, 0)
    restored = sum(len(life.restores) for life in timeline.restarts)
    assert restored == sum(counts.restores.values())
    assert timeline.most_restarts.get(MEMORY, 0) == counts.peak_nbytes.get(MEMORY, 0)


@pytest.mark.parametrize("seed", range(60))
def test_any_legal_schedule_has_a_timeline(seed) -> None:
    random = Random(seed)
    steps, flags = random.randrange(1, 12), {"record_in_state": seed % 2 == 0, "free_start": False}
    actions = random_schedule(random, steps, **flags)
    counts = verify(actions, steps=steps, restart_nbytes=1, record_nbytes=0, **flags)
    timeline = from_actions(actions, steps)
    assert timeline.forward_steps == counts.forward_steps
    assert timeline.most_restarts.get(MEMORY, 0) == counts.peak_nbytes.get(MEMORY, 0)
    windows = sum(window.stop - window.start for window in timeline.windows)
    assert windows == counts.recorded_steps + sum(counts.loaded_steps.values())
    for before, after in pairwise(timeline.strokes):
        assert before.ended == after.began
    for life in timeline.restarts:
        assert 0 <= life.began <= life.ended <= timeline.duration
        assert list(life.restores) == sorted(life.restores)
    for window in timeline.windows:
        assert window.made[0] <= window.made[1] <= min(window.freed)


class Clocked:
    """Events of a schedule as a run would report them, `pieces` to a call, a second a step."""

    def __init__(self, actions, pieces=1) -> None:
        self.events, self.clock, self.furthest = [], 0.0, 0
        for index, action in enumerate(actions):
            self.index, self.action = index, action
            match action:
                case Advance(start, stop) | Record(start, stop):
                    for low in range(start, stop, pieces):
                        high = min(low + pieces, stop)
                        again = low < self.furthest
                        self.call(Kind.RECOMPUTE if again else Kind.FORWARD, low, high)
                        self.furthest = max(self.furthest, high)
                case Reverse(stop, start):
                    for high in range(stop, start, -pieces):
                        self.call(Kind.REVERSE, max(high - pieces, start), high)
                case Save(step):
                    self.call(Kind.SAVE, step, step)
                case Restore(step):
                    self.call(Kind.RESTORE, step, step)

    def call(self, kind, start, stop) -> None:
        seconds = float(stop - start)
        event = Event(self.index, self.action, kind, start, stop, self.clock, seconds)
        self.events.append(event)
        self.clock += seconds


@pytest.mark.parametrize(("schedule", "pieces"), list(product(SCHEDULES, (1, 50))), ids=str)
def test_a_run_of_a_second_a_step_has_the_schedules_timeline(schedule, pieces) -> None:
    planned = from_actions(schedule, schedule.steps)
    run = of_events(Clocked(schedule, pieces).events, schedule.steps)
    assert run.unit == SECONDS
    assert run.windows == planned.windows
    assert run.restarts == planned.restarts
    assert run.duration == planned.duration
    assert run.forward_steps == planned.forward_steps
    if pieces == 1:
        assert all(abs(stroke.stop - stroke.start) == 1 for stroke in run.strokes)
    else:
        assert run.strokes == planned.strokes


def test_a_run_that_is_cut_off_shows_what_was_held() -> None:
    schedule = Mixed(30, 2, 1, 10)
    whole = Clocked(schedule).events
    reverse = next(index for index, event in enumerate(whole) if event.kind is Kind.REVERSE)
    cut = of_events(whole[: reverse + 1], 30)
    assert {life.ended for life in cut.restarts} == {31.0}
    assert len(cut.restarts) == 3


def test_restarts_dropped_out_of_sight_end_with_their_last_use() -> None:
    actions = [Save(0), Advance(0, 2), Restore(0), Record(0, 2), Reverse(2, 0), Drop(0)]
    run = of_events(Clocked(actions).events, 2)
    assert run.restarts == (Lifetime(0, MEMORY, 0, 2, (2,)),)


@pytest.mark.parametrize("schedule", ["keep-all", "mixed", "revolve"])
def test_a_real_run(schedule) -> None:
    problem = retrograd.arrays.Problem(
        lambda u, k: u * 0.9, lambda v, u, k: v * 0.9, initial=np.ones(50), steps=40
    )
    memory = 50 * 8 * (60 if schedule == "keep-all" else 10)
    result = retrograd.gradient(problem, memory=memory, schedule=schedule)
    run = of_events(result.tally.events, 40)
    planned = from_actions(result.plan.schedule, 40)
    assert run.forward_steps == planned.forward_steps == result.tally.forward_steps
    assert sum(s.start - s.stop for s in run.strokes if s.kind is Kind.REVERSE) == 40
    assert 0 < run.duration <= result.seconds + 1
    assert [(w.start, w.stop) for w in run.windows] == [(w.start, w.stop) for w in planned.windows]
    assert [life.step for life in run.restarts] == [life.step for life in planned.restarts]
    for before, after in pairwise(run.strokes):
        assert before.began <= before.ended <= after.began


def test_a_hundred_thousand_actions() -> None:
    schedule = Revolve(20_000, 30)
    timeline = from_actions(schedule, 20_000)
    assert timeline.forward_steps == schedule.forward_steps
    assert len(timeline.windows) == 20_000


def test_a_keep_all_of_many_calls() -> None:
    timeline = of_events(Clocked(KeepAll(20_000)).events, 20_000)
    assert len(timeline.strokes) == 40_000
    assert len(timeline.windows) == 1
