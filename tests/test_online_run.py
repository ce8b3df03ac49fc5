"""Runs whose number of steps is found out on the way: the bits of keeping everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import arrays
from retrograd.actions import Record, Save
from retrograd.errors import (
    BudgetTooSmall,
    InvalidArgument,
    NonFinite,
    NotSupported,
    OutOfOrder,
)
from retrograd.events import Kind
from retrograd.executor import Executor
from retrograd.online_plan import plan_online
from retrograd.replay import replay_rows
from retrograd.schedules.online import OnlineMixed, OnlineRevolve
from retrograd.stores.sliding import RecordMove, SlidingArena, SlidingPlacement
from retrograd.verify import verify
from tests.adapters.toys import TOYS, Toy, logistic, same_bits, summing
from tests.counting import LAYOUTS, CountingProblem, expected_gradient

PACKED = [name for name, layout in LAYOUTS.items() if not layout.contiguous]


def opened(toy: Toy, steps: int, **options: Any) -> arrays.Problem:
    """A toy that stops after so many steps without having said so."""
    return toy.problem(None, until=lambda state, k: k >= steps, **options)


def budgets(problem: arrays.Problem) -> list[int]:
    layout = problem.layout
    least = layout.live_nbytes + (0 if problem.free_start else layout.restart_nbytes)
    units = (layout.restart_nbytes, layout.record_nbytes)
    return sorted({least + i * units[0] + j * units[1] for i in (0, 1, 2, 5) for j in (0, 2)})


@pytest.mark.parametrize("free_start", [True, False])
@pytest.mark.parametrize("name", TOYS)
def test_bits_of_keep_all_wherever_it_stops(name: str, free_start: bool) -> None:
    for steps in (*range(1, 9), 13, 22, 37):
        toy = TOYS[name]()
        expected = toy.keep_all(steps)
        problem = opened(toy, steps, free_start=free_start)
        for memory in budgets(problem):
            toy.calls.clear()
            result = retrograd.gradient(problem, memory=memory)
            assert same_bits(result.gradient, expected)
            assert result.steps == result.plan.steps == steps
            forward_steps = result.plan.forward_steps
            assert toy.calls == {"step": forward_steps, "adjoint": steps}
            assert result.tally.forward_steps == forward_steps
            assert result.tally.steps[Kind.FORWARD] == result.tally.steps[Kind.REVERSE] == steps
            assert result.tally.steps[Kind.RECOMPUTE] == forward_steps - steps
            assert result.arena_nbytes <= memory


@pytest.mark.parametrize("name", TOYS)
def test_no_step_runs_twice_where_all_fits(name: str) -> None:
    toy = TOYS[name]()
    problem = opened(toy, 12, free_start=False)
    layout = problem.layout
    memory = layout.live_nbytes + layout.restart_nbytes + 11 * layout.record_nbytes
    assert retrograd.gradient(problem, memory=memory).tally.forward_steps == 12


def test_the_plan_is_an_ordinary_one_afterwards() -> None:
    problem = opened(logistic(), 30)
    memory = problem.layout.live_nbytes + 4 * problem.layout.restart_nbytes
    run = retrograd.Run(problem, memory=memory)
    with pytest.raises(OutOfOrder, match="call forward"):
        run.plan.summary()
    assert run.online_plan is not None
    assert "online" in run.online_plan.summary()
    assert run.online_plan.schedule.room.most_restarts == 5  # four that fit and a free one
    run.forward()
    plan = run.plan
    result = run.reverse()
    assert result.plan == plan
    counts = verify(plan.schedule, steps=30, record_in_state=True, free_start=True)
    assert counts.forward_steps == plan.forward_steps == result.tally.forward_steps
    assert counts.reverse_calls == plan.reverse_calls
    assert plan.peak_nbytes == result.arena_nbytes
    assert "30" in plan.explain()
    assert f"{plan.forward_steps} forward steps for 30" in result.report()


def test_a_run_can_be_used_again_for_another_number_of_steps() -> None:
    toy, wanted = logistic(), 0
    problem = toy.problem(None, until=lambda state, k: k == wanted)
    run = retrograd.Run(problem, memory=problem.layout.live_nbytes * 3)
    for wanted in (17, 3, 40, 1, 17):
        run.forward()
        assert same_bits(run.reverse().gradient, toy.keep_all(wanted))
        assert run.plan.steps == wanted


def test_a_forward_alone_stores_nothing() -> None:
    toy = logistic()
    problem = opened(toy, 23)
    run = retrograd.Run(problem, memory=problem.layout.live_nbytes * 20)
    tally = run.forward(keep=False)
    assert toy.calls["step"] == 23 == tally.forward_steps
    assert not any(isinstance(event.action, Save | Record) for event in tally.events)
    assert run.arena_nbytes <= problem.layout.live_nbytes + problem.layout.row_nbytes
    with pytest.raises(OutOfOrder):
        run.reverse()
    run.forward()
    assert same_bits(run.reverse().gradient, toy.keep_all(23))


# Steps of a size that is chosen on the way.


def falling(end: float) -> Toy:
    """A ball in air, with steps as the speed allows: state (height and speed, time, step size)."""

    def step(state: Any, k: int) -> Any:
        u, t, dt = state
        u = u + dt * np.array([u[1], -9.81 + 0.1 * u[1] ** 2])
        t = t + dt
        return u, t, np.minimum(0.2 / (0.2 + abs(u[1])), end - t)

    def adjoint_step(adjoint: Any, state: Any, k: int) -> Any:
        (a, b), by_step = adjoint
        (_, v), _, dt = state
        return (a, b + dt * (a + 0.2 * v * b)), [(k, dt.tobytes()), *by_step]

    initial = (np.array([100.0, 0.0]), np.array(0.0), np.array(0.01))
    return Toy(initial, step, adjoint_step, lambda state: ((1.0, 0.0), []))


@pytest.mark.parametrize("end", [0.01, 0.5, 2.0])
def test_adaptive_steps_are_repeated_with_the_sizes_they_had(end: float) -> None:
    toy = falling(end)
    problem = toy.problem(None, until=lambda state, k: state[1] >= end)
    row = problem.layout.row_nbytes
    all_kept = retrograd.gradient(problem, memory=10_000 * row)
    assert all_kept.tally.forward_steps == all_kept.steps
    sizes = [np.frombuffer(size)[0] for _, size in all_kept.gradient[1]]
    assert sum(sizes) == pytest.approx(end)
    assert len(set(sizes)) > 1 or end < 0.02
    for rows in (2, 3, 5, 12):
        result = retrograd.gradient(problem, memory=rows * row)
        assert repr(result.gradient) == repr(all_kept.gradient)
        assert result.steps == all_kept.steps


# What may go wrong.


def test_a_loop_without_a_step_is_refused() -> None:
    problem = logistic().problem(None, until=lambda u, k: u[0] < 1e9)
    run = retrograd.Run(problem, memory=4000)
    for keep in (True, False):
        with pytest.raises(InvalidArgument, match="until.state, 0. is true.*write until") as caught:
            run.forward(keep=keep)
        assert "retrograd: in until(state, 0)" in caught.value.__notes__


def test_the_initial_state_is_asked_about_too() -> None:
    asked = []
    problem = logistic().problem(None, until=lambda u, k: asked.append(k) or k == 9)
    retrograd.gradient(problem, memory=3 * problem.layout.live_nbytes)
    assert asked == list(range(10))


@pytest.mark.parametrize("memory", [200, 100_000])
def test_a_loop_that_does_not_end_is_stopped_at_the_most_steps(memory: int) -> None:
    problem = logistic().problem(20, until=lambda u, k: False)
    with pytest.raises(InvalidArgument, match="not true once in the steps=20.*give more") as caught:
        retrograd.gradient(problem, memory=memory)
    assert "retrograd: in until(state, 20)" in caught.value.__notes__
    at_the_last = logistic().problem(20, until=lambda u, k: k == 20)
    assert retrograd.gradient(at_the_last, memory=memory).steps == 20


def test_no_more_memory_is_taken_than_the_most_steps_need() -> None:
    problem = logistic().problem(20, until=lambda u, k: k == 10, free_start=False)
    result = retrograd.gradient(problem, memory="1 GiB")
    assert result.arena_nbytes <= 24 * problem.layout.row_nbytes
    assert result.tally.forward_steps == 10


@pytest.mark.parametrize("answer", [None, 1, 0.0, "yes", np.array([True, False]), np.zeros(1)])
def test_until_must_say_true_or_false(answer: Any) -> None:
    problem = logistic().problem(None, until=lambda u, k: answer)
    with pytest.raises(InvalidArgument, match="until returned .* True or False"):
        retrograd.gradient(problem, memory=4000)


@pytest.mark.parametrize("yes", [True, np.bool_(True), np.array(True), np.array([[True]])])
def test_until_may_be_a_comparison_of_arrays(yes: Any) -> None:
    problem = logistic().problem(None, until=lambda u, k: yes if k == 4 else not yes)
    assert retrograd.gradient(problem, memory=4000).steps == 4


def test_until_gets_the_state_as_it_is_and_may_not_write_it() -> None:
    def spoils(u: Any, k: int) -> bool:
        u[0] = 1.0
        return k == 3

    problem = logistic().problem(None, until=spoils)
    with pytest.raises(ValueError, match="read-only"):
        retrograd.gradient(problem, memory=4000)
    pair = Toy((np.ones(2), np.array(3)), lambda s, k: (s[0], s[1] + 1), summing, lambda s: 1.0)
    problem = pair.problem(None, until=lambda s, k: s[1] == 8)
    assert retrograd.gradient(problem, memory=4000).steps == 5


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["until", "forward", "recompute", "reverse"])
def test_failures_say_where_and_leave_a_run_that_can_be_used_again(
    where: str, error: type[BaseException]
) -> None:
    toy = logistic()
    calls, fails = [], {"on": True}

    def failing(name: str, function: Any, at: int) -> Any:
        def call(*arguments: Any) -> Any:
            calls.append(name)
            if fails["on"] and where == name and calls.count(name) == at:
                raise error("on purpose")
            return function(*arguments)

        return call

    forward = "recompute" if where == "recompute" else "forward"
    problem = arrays.Problem(
        failing(forward, toy.step, 40 if forward == "recompute" else 7),
        failing("reverse", toy.adjoint_step, 7),
        toy.initial,
        terminal=toy.terminal,
        until=failing("until", lambda u, k: k == 30, 7),
    )
    run = retrograd.Run(problem, memory=problem.layout.live_nbytes * 2)
    with pytest.raises(error, match="on purpose") as caught:
        run.forward()
        run.reverse()
    notes = " ".join(caught.value.__notes__)
    assert ("in until(state, 6)" if where == "until" else "in step ") in notes
    assert ("recomputing action" in notes) == (where == "recompute")
    with pytest.raises(OutOfOrder):
        run.reverse()
    fails["on"] = False
    run.forward()
    assert same_bits(run.reverse().gradient, toy.keep_all(30))


def test_a_forward_that_blows_up_is_found_before_until_waits_for_ever() -> None:
    problem = arrays.Problem(
        lambda u, k: u * (np.nan if k == 5 else 1), summing, np.ones(2), until=lambda u, k: u[0] > 2
    )
    with pytest.raises(NonFinite, match=r"state\[0\] is not finite after step 5"):
        retrograd.gradient(problem, memory=4000)


def test_a_state_that_is_not_complete_is_refused_on_replay() -> None:
    calls = iter(range(10**6))
    problem = arrays.Problem(
        lambda u, k: u + next(calls), summing, np.ones(3), until=lambda u, k: k == 30
    )
    with pytest.raises(NotSupported, match="came out differently when it was computed again"):
        retrograd.gradient(problem, memory=problem.layout.live_nbytes)


@pytest.mark.parametrize("strides", [3, 100])
def test_states_are_compared_in_a_bounded_memory(
    strides: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrograd.adapters.arrays._MOST_CHECKSUMS", strides)
    toy = logistic()
    problem = opened(toy, 200)
    memory = 2 * problem.layout.live_nbytes
    assert same_bits(retrograd.gradient(problem, memory=memory).gradient, toy.keep_all(200))
    assert len(problem._checksums._by_step) <= strides
    drifting = iter(range(10**6))
    problem = arrays.Problem(
        lambda u, k: u + next(drifting), summing, np.ones(3), until=lambda u, k: k == 200
    )
    with pytest.raises(NotSupported, match="came out differently"):
        retrograd.gradient(problem, memory=memory)


# Budgets and arguments.


@pytest.mark.parametrize("memory", ["1/16", "1/1", " 1 / 2 "])
def test_a_fraction_of_what_is_not_known_is_refused(memory: str) -> None:
    with pytest.raises(InvalidArgument, match="fraction of keeping everything.*give bytes"):
        retrograd.gradient(opened(logistic(), 9), memory=memory)


def test_budgets_of_other_kinds_work() -> None:
    toy = logistic()
    for memory in ("auto", "1 kB", "0.5 MiB"):
        result = retrograd.gradient(opened(toy, 9), memory=memory)
        assert same_bits(result.gradient, toy.keep_all(9))


def test_memory_is_taken_as_it_is_needed() -> None:
    run = retrograd.Run(opened(logistic(), 9), memory="auto")
    before = resident_nbytes()
    run.forward()
    assert resident_nbytes() - before < min(2**26, run.arena_nbytes // 4)
    assert run.reverse().tally.forward_steps == 9


def resident_nbytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


@pytest.mark.parametrize("free_start", [True, False])
@pytest.mark.parametrize("name", TOYS)
def test_the_smallest_budget_is_named_and_works(name: str, free_start: bool) -> None:
    toy = TOYS[name]()
    problem = opened(toy, 9, free_start=free_start)
    with pytest.raises(BudgetTooSmall, match="give at least") as caught:
        retrograd.Run(problem, memory=0)
    smallest = caught.value.smallest_nbytes
    with pytest.raises(BudgetTooSmall):
        retrograd.Run(problem, memory=smallest - 1)
    assert same_bits(retrograd.gradient(problem, memory=smallest).gradient, toy.keep_all(9))


@pytest.mark.parametrize("choice", ["mixed", "onlin", [], retrograd.KeepAll(9)])
def test_schedules_for_a_known_number_of_steps_are_refused(choice: Any) -> None:
    with pytest.raises(InvalidArgument, match="leave it out, or give an OnlineRevolve"):
        retrograd.gradient(opened(logistic(), 9), memory=4000, schedule=choice)


def test_an_online_schedule_of_ones_own_is_run() -> None:
    toy = logistic()
    problem = opened(toy, 50)
    mine = OnlineRevolve(3, record_in_state=True, free_start=True)
    result = retrograd.gradient(problem, memory=5 * problem.layout.row_nbytes, schedule=mine)
    assert same_bits(result.gradient, toy.keep_all(50))
    assert result.tally.forward_steps == mine.forward_steps(50)
    with pytest.raises(BudgetTooSmall) as caught:
        retrograd.gradient(problem, memory=4 * problem.layout.row_nbytes, schedule=mine)
    assert caught.value.smallest_nbytes == 5 * problem.layout.row_nbytes


def test_a_disk_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="Leave disk= out"):
        retrograd.gradient(opened(logistic(), 9), memory=4000, disk="1 GiB")


def test_rows_of_compiled_code_are_refused() -> None:
    with pytest.raises(NotSupported, match="give the number of steps"):
        plan_online(LAYOUTS["depth 2, reads (0,1)"], 100, 10**6)


def test_a_problem_that_cannot_say_when_it_is_over_is_refused() -> None:
    problem = CountingProblem(LAYOUTS["packed"], 5)
    problem.steps = None
    with pytest.raises(NotSupported, match="has no is_over"):
        retrograd.Run(problem, memory=4000)


def test_neither_steps_nor_until_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="steps=None.*or until="):
        arrays.Problem(lambda u, k: u, summing, np.ones(3))


def test_a_known_number_of_steps_is_none_of_this() -> None:
    problem = logistic().problem(9)
    run = retrograd.Run(problem, memory="2/1")
    assert run.online_plan is None
    assert run.plan.steps == problem.steps == problem.most_steps == 9
    assert opened(logistic(), 9).steps is None


# Rows that are given up in any order.


@pytest.mark.parametrize("free_start", [True, False])
@pytest.mark.parametrize("name", PACKED)
def test_what_fits_in_units_fits_in_rows(name: str, free_start: bool) -> None:
    """No row is read or written in the wrong place, and no byte is taken beyond the budget."""
    layout = LAYOUTS[name]
    restart, record = layout.restart_nbytes, layout.record_nbytes
    for extra in (0, restart, 2 * restart + record, 3 * restart + 9 * record):
        memory = (0 if free_start else restart) + extra
        schedule = OnlineMixed(restart, record, memory, layout.record_in_state, free_start)
        for steps in (*range(1, 13), 20, 33, 64):
            problem = CountingProblem(layout, steps, free_start=free_start)
            loop = Executor(problem, SlidingArena(layout, layout.live_nbytes + memory))
            loop.begin()
            loop.run(schedule.actions(steps))
            assert problem.gradient() == expected_gradient(layout, steps)
            assert problem.first == list(range(steps))
            assert len(problem.ran) == schedule.forward_steps(steps)


def test_rows_are_moved_seldom() -> None:
    layout = LAYOUTS["packed, small record"]
    memory = 12 * layout.restart_nbytes
    schedule = OnlineMixed(layout.restart_nbytes, layout.record_nbytes, memory)
    for steps in (30, 100, 300):
        arena = SlidingArena(layout, layout.live_nbytes + memory)
        problem = CountingProblem(layout, steps, free_start=False)
        loop = Executor(problem, arena)
        loop.begin()
        loop.run(schedule.actions(steps))
        assert arena.moves < 40


def test_rows_are_moved_only_for_want_of_room() -> None:
    layout = LAYOUTS["packed, small record"]
    row, record = layout.row_nbytes, layout.record_row_nbytes
    placement = SlidingPlacement(layout, 4 * row + 3 * record)
    list(placement.save(0))
    list(placement.record(0, 1))
    list(placement.save(1))
    list(placement.record(1, 3))
    list(placement.save(3))  # rows 0, 1 and 2 are restarts, the last of them live
    placement.drop(0)
    placement.forget(0, 1)
    (span,) = placement.record(3, 4)
    assert (span.origin + 3, span.target + 4, span.record_origin + 3) == (2, 0, 0)


def test_records_make_room_for_a_restart() -> None:
    layout = LAYOUTS["packed, small record"]
    placement = SlidingPlacement(layout, 2 * layout.row_nbytes + 2 * layout.record_row_nbytes)
    for step in range(3):
        list(placement.record(step, step + 1))
    placement.forget(0, 2)  # the one that is left is the farthest from the end of the arena
    list(placement.save(3))
    move, span = placement.record(3, 4)
    assert move == RecordMove(2, 0, 1)
    assert (span.target + 4, span.record_origin + 3) == (1, 1)
    assert next(placement.reverse(4, 2)).record_origin + 3 == 1
    assert placement.peak_nbytes <= 2 * layout.row_nbytes + 2 * layout.record_row_nbytes


def test_plain_rows_need_no_moving() -> None:
    """Where the record is the state, restarts and the newest record are rows alike."""
    layout = LAYOUTS["packed"]
    for slots in (1, 3, 6):
        schedule = OnlineRevolve(slots, record_in_state=True, free_start=True)
        for steps in (1, 2, 9, 40, 90):
            counted = replay_rows(schedule.actions(steps), layout, 10**6)
            assert counted.peak_nbytes <= min(slots + 2, steps + 1) * layout.row_nbytes
            assert counted.moved_nbytes == 0
        assert counted.peak_nbytes == (slots + 2) * layout.row_nbytes
