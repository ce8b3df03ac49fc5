"""The arena: saved rows are never written, and it is exactly as large as what it holds."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrograd import executor
from retrograd.actions import DISK, Action, Reverse
from retrograd.errors import BudgetTooSmall
from retrograd.executor import Executor
from retrograd.layout import Field, Layout
from retrograd.planner import plan_layout
from retrograd.plans import Plan
from retrograd.replay import replay_rows
from retrograd.schedules import KeepAll
from retrograd.stores.arena import Arena
from retrograd.stores.tier import HeldStore
from tests.counting import LAYOUTS, CountingProblem, expected_gradient
from tests.guarded import GuardedArena
from tests.random_schedules import RANDOMS, random_schedule

STEPS = range(1, 13)


def plans(problem: CountingProblem, name: str) -> Iterable[Plan]:
    """A plan for every memory that differs: from the smallest that works to more than useful."""
    layout = problem.layout
    unit = min(layout.row_nbytes, layout.record_nbytes)
    most = layout.live_nbytes + problem.steps * layout.record_nbytes + unit
    most += 2 * layout.held_nbytes  # a restart may be larger than all records
    for memory in range(unit // 3, most + unit, unit):
        try:
            yield plan_layout(
                layout,
                problem.steps,
                memory,
                free_start=problem.free_start,
                schedule=name,
                keep_all_nbytes=problem.keep_all_nbytes,
            )
        except BudgetTooSmall as error:
            assert error.smallest_nbytes > memory


def run(problem: CountingProblem, actions: Iterable[Action], nbytes: int) -> GuardedArena:
    arena = GuardedArena(problem.layout, nbytes)
    loop = Executor(problem, arena, stores={DISK: HeldStore()})
    loop.begin()
    loop.run(actions)
    arena.check()
    return arena


@pytest.mark.parametrize("free_start", [True, False])
@pytest.mark.parametrize("schedule", ["keep-all", "mixed", "revolve"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_number_of_steps_at_every_memory(name: str, schedule: str, free_start: bool) -> None:
    layout = LAYOUTS[name]
    for steps in STEPS:
        expected = expected_gradient(layout, steps)
        tried = 0
        for plan in plans(CountingProblem(layout, steps, free_start=free_start), schedule):
            problem = CountingProblem(layout, steps, free_start=free_start)
            arena = run(problem, plan.schedule, plan.arena_nbytes)
            assert problem.gradient() == expected
            assert problem.turned == list(range(steps))[::-1]
            assert problem.first == list(range(steps))
            assert len(problem.ran) == plan.forward_steps
            assert arena.most_nbytes == arena.nbytes == plan.peak_nbytes <= plan.memory_nbytes
            tried += 1
        assert tried > 0


@pytest.mark.parametrize("name", LAYOUTS)
def test_calls_that_are_cut_into_single_steps_change_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "LONGEST_CALL_SECONDS", 1e-12)
    layout = LAYOUTS[name]
    for steps in (5, 12):
        for plan in plans(CountingProblem(layout, steps), "mixed"):
            problem = CountingProblem(layout, steps)
            calls: list[int] = []
            watched = Executor(
                problem,
                arena := GuardedArena(layout, plan.arena_nbytes),
                [lambda event, calls=calls: calls.append(event.stop - event.start)],
            )
            watched.begin()
            watched.run(plan.schedule)
            assert max(calls) == 1
            assert problem.gradient() == expected_gradient(layout, steps)
            assert arena.most_nbytes == plan.arena_nbytes


@pytest.mark.parametrize("name", LAYOUTS)
@given(random=RANDOMS, steps=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_schedules_that_nobody_would_write(name: str, random: Random, steps: int) -> None:
    layout = LAYOUTS[name]
    actions = random_schedule(
        random, steps, record_in_state=layout.record_in_state, free_start=True
    )
    for nbytes in {
        replay_rows(actions, layout, 10**9).peak_nbytes,
        smallest_arena(actions, layout),
    }:
        problem = CountingProblem(layout, steps)
        arena = run(problem, actions, nbytes)
        assert problem.gradient() == expected_gradient(layout, steps)
        assert arena.most_nbytes == arena.nbytes


def smallest_arena(actions: list[Action], layout: Layout) -> int:
    """The smallest capacity that a schedule fits in, by trying; live rows slide most in it."""
    step = min(layout.row_nbytes, layout.record_row_nbytes or layout.row_nbytes)
    nbytes = layout.depth * layout.row_nbytes
    while True:
        try:
            return replay_rows(actions, layout, nbytes).peak_nbytes
        except BudgetTooSmall as error:
            nbytes = max(nbytes + step, error.smallest_nbytes)


def test_memory_is_used_again_without_being_touched_anew() -> None:
    layout = LAYOUTS["depth 2, reads (1,2)"]
    arena = GuardedArena(layout, replay_rows(KeepAll(8), layout, 10**6).peak_nbytes)
    addresses = [arena.address(field) for field in range(len(layout.state))]
    gradients = []
    for _ in range(3):
        problem = CountingProblem(layout, 8)
        loop = Executor(problem, arena)
        loop.begin()
        loop.run(KeepAll(8))
        gradients.append(problem.gradient())
    assert gradients == [expected_gradient(layout, 8)] * 3
    assert [arena.address(field) for field in range(len(layout.state))] == addresses


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_arena_is_zero_at_the_start(name: str) -> None:
    layout = LAYOUTS[name]
    arena = Arena(layout, layout.live_nbytes + 3 * layout.record_nbytes)
    assert not arena.row(0, 0).any()
    assert not np.frombuffer(arena.row(0, 0).base, dtype=np.uint8).any()


@pytest.mark.parametrize("name", [name for name, layout in LAYOUTS.items() if layout.contiguous])
def test_addresses_are_those_of_the_rows(name: str) -> None:
    layout = LAYOUTS[name]
    arena = Arena(layout, layout.row_nbytes * 7)
    window = arena.live()
    for field, spec in enumerate(layout.state):
        for row in (0, 5):
            view = window.row(field, row)
            assert view.ctypes.data == window.address(field) + row * spec.nbytes
            assert view.ctypes.data % spec.dtype.itemsize == 0


@pytest.mark.parametrize("name", LAYOUTS)
def test_no_two_rows_share_a_byte(name: str) -> None:
    layout = LAYOUTS[name]
    rows = 4
    arena = Arena(layout, rows * (layout.row_nbytes + layout.record_row_nbytes))
    views = [arena.row(f, row) for f in range(len(layout.state)) for row in range(rows)]
    views += [arena.record_row(f, row) for f in range(len(layout.records)) for row in range(rows)]
    ranges = sorted((v.ctypes.data, v.ctypes.data + v.nbytes) for v in views)
    assert all(one[1] <= other[0] for one, other in zip(ranges, ranges[1:], strict=False))
    assert ranges[-1][1] - ranges[0][0] <= arena.nbytes


@pytest.mark.parametrize("physical", [-1, 3])
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_row_outside_its_region_is_refused(name: str, physical: int) -> None:
    layout = LAYOUTS[name]
    arena = Arena(layout, 3 * layout.row_nbytes)
    for field, spec in enumerate(layout.state):
        with pytest.raises(IndexError, match=f"row {physical} of '{spec.name}': the arena has 3"):
            arena.row(field, physical)
    for field, spec in enumerate(layout.records):
        rows = arena.nbytes // layout.record_row_nbytes
        with pytest.raises(IndexError, match=f"row {rows} of '{spec.name}': the arena has {rows}"):
            arena.record_row(field, rows)


def test_live_rows_that_overlap_their_target_are_moved_whole() -> None:
    layout = Layout((Field("u", (1000,), np.dtype("f8")),), 3, (0, 1), contiguous=True)
    arena = Arena(layout, 8 * layout.row_nbytes)
    list(arena.advance(0, 2))
    for row in range(2, 5):
        arena.live().row(0, row)[...] = row
    arena.save(2)  # rows 2 … 4 go to 0 … 2
    assert arena.moves == 1
    assert [set(arena.row(0, physical)) for physical in range(3)] == [{2.0}, {3.0}, {4.0}]


def test_reversing_reads_saved_rows_where_they_lie() -> None:
    layout = LAYOUTS["packed"]
    problem = CountingProblem(layout, 4)
    arena = GuardedArena(layout, replay_rows(KeepAll(4), layout, 10**6).peak_nbytes)
    loop = Executor(problem, arena)
    loop.begin()
    loop.run(action for action in KeepAll(4) if not isinstance(action, Reverse))
    saved = [arena.row(0, row).ctypes.data for row in range(4)]
    (call,) = arena.reverse(4, 0)
    assert [call.window.row(0, k).ctypes.data for k in range(4)] == saved
