"""A run: forward and reverse apart, order kept, failures survived, nothing left behind."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.actions import Record, Save
from retrograd.errors import (
    BudgetTooSmall,
    IllegalAction,
    InvalidArgument,
    NotSupported,
    OutOfOrder,
)
from retrograd.events import Kind

STEPS = 23


class Growth:
    """A nonlinear loop that counts its calls and fails when asked to."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.fails_at_call: int | None = None
        self.adjoint_fails_at: int | None = None
        self.error: type[BaseException] = ZeroDivisionError

    def step(self, u: np.ndarray, k: int) -> np.ndarray:
        if len(self.calls) == self.fails_at_call:
            raise self.error("on purpose")
        self.calls.append(k)
        return u + 0.01 * np.sin(u + k)

    def adjoint_step(self, a: np.ndarray, u: np.ndarray, k: int) -> np.ndarray:
        if k == self.adjoint_fails_at:
            raise self.error("on purpose")
        return a * (1 + 0.01 * np.cos(u + k))

    def problem(self) -> retrograd.arrays.Problem:
        return retrograd.arrays.Problem(
            self.step, self.adjoint_step, np.linspace(0, 1, 50), STEPS, terminal=lambda u: u
        )


@pytest.fixture
def growth() -> Growth:
    return Growth()


@pytest.fixture
def truth() -> np.ndarray:
    return retrograd.gradient(Growth().problem(), memory="2/1", schedule="keep-all").gradient


def small(problem: retrograd.arrays.Problem) -> int:
    """A budget that makes everything happen: saves, restores, recomputation."""
    return problem.layout.live_nbytes + 3 * problem.layout.restart_nbytes


def test_forward_and_reverse_apart_equal_the_one_call(growth: Growth, truth: np.ndarray) -> None:
    problem = growth.problem()
    run = retrograd.Run(problem, memory=small(problem))
    tally = run.forward()
    assert tally.steps[Kind.FORWARD] == STEPS
    assert tally.steps[Kind.RECOMPUTE] == 0
    result = run.reverse()
    assert np.array_equal(result.gradient, truth)
    assert result.tally.forward_steps == len(growth.calls) == result.plan.forward_steps > STEPS
    assert result.tally.steps[Kind.REVERSE] == STEPS
    assert result.seconds >= sum(result.tally.seconds.values())


def test_a_run_can_be_used_again(growth: Growth, truth: np.ndarray) -> None:
    problem = growth.problem()
    run = retrograd.Run(problem, memory=small(problem))
    for _ in range(3):
        run.forward()
        assert np.array_equal(run.reverse().gradient, truth)


def test_reverse_without_a_forward_is_refused(growth: Growth) -> None:
    run = retrograd.Run(growth.problem(), memory="1/2")
    with pytest.raises(OutOfOrder, match="call forward"):
        run.reverse()
    run.forward()
    run.reverse()
    with pytest.raises(OutOfOrder, match="call forward"):
        run.reverse()


def test_a_forward_alone_stores_nothing(growth: Growth) -> None:
    problem = growth.problem()
    run = retrograd.Run(problem, memory="2/1")
    tally = run.forward(keep=False)
    assert len(growth.calls) == STEPS == tally.forward_steps
    assert not any(isinstance(event.action, Save | Record) for event in tally.events)
    assert run.arena_nbytes < problem.layout.live_nbytes + 2 * problem.layout.row_nbytes
    with pytest.raises(OutOfOrder):
        run.reverse()


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["forward", "recompute", "reverse"])
def test_failures_name_action_and_step_and_can_be_run_again(
    growth: Growth, truth: np.ndarray, where: str, error: type[BaseException]
) -> None:
    problem = growth.problem()
    run = retrograd.Run(problem, memory=small(problem))
    growth.error = error
    growth.fails_at_call = {"forward": 7, "recompute": STEPS + 2, "reverse": None}[where]
    growth.adjoint_fails_at = 7 if where == "reverse" else None
    with pytest.raises(error, match="on purpose") as caught:
        run.forward()
        run.reverse()
    notes = " ".join(caught.value.__notes__)
    assert "in step " in notes
    assert ("recomputing action" if where == "recompute" else "in action") in notes
    with pytest.raises(OutOfOrder):
        run.reverse()
    growth.fails_at_call = growth.adjoint_fails_at = None
    run.forward()
    assert np.array_equal(run.reverse().gradient, truth)


def test_memory_does_not_grow(growth: Growth) -> None:
    problem = growth.problem()
    run = retrograd.Run(problem, memory=small(problem))
    resident = {}
    for number in range(1, 51):
        run.forward()
        run.reverse()
        if number in (5, 50):
            gc.collect()
            status = Path("/proc/self/status").read_text()
            resident[number] = int(status.split("VmRSS:")[1].split()[0])
    assert resident[50] < 1.01 * resident[5]


def test_more_memory_than_useful_is_not_taken(growth: Growth) -> None:
    problem = growth.problem()
    run = retrograd.Run(problem, memory="8 GiB")
    run.forward()
    assert run.arena_nbytes == (STEPS + 1) * problem.layout.row_nbytes
    assert run.plan.name == "keep-all"
    assert run.reverse().tally.forward_steps == STEPS


def test_a_schedule_of_ones_own_is_run(growth: Growth, truth: np.ndarray) -> None:
    problem = growth.problem()
    mine = list(retrograd.Revolve(STEPS, 3, record_in_state=True, free_start=True))
    result = retrograd.gradient(problem, memory=small(problem), schedule=mine)
    assert np.array_equal(result.gradient, truth)
    with pytest.raises(IllegalAction):
        retrograd.gradient(problem, memory=small(problem), schedule=mine[:-1])
    with pytest.raises(InvalidArgument, match="twice"):
        retrograd.gradient(problem, memory=small(problem), schedule=iter(mine))
    with pytest.raises((IllegalAction, BudgetTooSmall)):
        retrograd.gradient(problem, memory=problem.layout.live_nbytes, schedule=mine)


def test_a_plan_for_other_steps_is_refused(growth: Growth) -> None:
    with pytest.raises(IllegalAction):
        retrograd.gradient(growth.problem(), schedule=retrograd.KeepAll(STEPS - 1))


def test_misspelt_options_are_refused(growth: Growth) -> None:
    with pytest.raises(TypeError, match="memroy"):
        retrograd.gradient(growth.problem(), memroy="1/2")  # type: ignore[call-arg]


def test_observers_see_every_step(growth: Growth) -> None:
    problem = growth.problem()
    seen: list[Any] = []
    result = retrograd.gradient(problem, memory=small(problem), observers=[seen.append])
    assert seen == result.tally.events
    assert sum(e.stop - e.start for e in seen if e.kind is Kind.REVERSE) == STEPS
    assert all(e.seconds >= 0 and e.began >= 0 for e in seen)


def test_a_report_says_what_was_done(growth: Growth) -> None:
    result = retrograd.gradient(growth.problem(), memory="1/2")
    for kind in Kind:
        assert kind.value in result.report()
    assert f"{result.tally.forward_steps} forward steps for {STEPS}" in result.report()
    assert pickle.loads(pickle.dumps(result.plan)) == result.plan


def both_ends(u: np.ndarray) -> np.ndarray:
    return u[::-1].copy()


@pytest.mark.parametrize("memory", ["2/1", "1/3", "1/8"])
def test_several_reverse_sweeps_over_one_forward(growth: Growth, memory: str) -> None:
    """Each as if the forward had been run for it, which it has not."""
    terminals = [lambda u: u, both_ends, lambda u: u * 0 + 1]
    initial = np.linspace(0, 1, 50)
    several = retrograd.arrays.Problem(
        growth.step, growth.adjoint_step, initial, STEPS, terminal=terminals
    )
    run = retrograd.Run(several, memory=memory, sweeps=3)
    for _ in range(2):
        growth.calls.clear()
        run.forward()
        found = [run.reverse() for _ in terminals]
        assert len(growth.calls) == run.plan.forward_steps == found[-1].tally.forward_steps
        with pytest.raises(OutOfOrder, match="sweeps=2"):
            run.reverse()
        for result, terminal in zip(found, terminals, strict=True):
            alone = retrograd.arrays.Problem(
                growth.step, growth.adjoint_step, initial, STEPS, terminal=terminal
            )
            expected = retrograd.gradient(alone, memory="2/1").gradient
            assert np.array_equal(result.gradient, expected)
    assert run.plan.forward_steps == STEPS or memory != "2/1"


def test_more_sweeps_than_end_values(growth: Growth) -> None:
    run = retrograd.Run(growth.problem(), memory="1/3", sweeps=2)
    run.forward()
    run.reverse()
    with pytest.raises(NotSupported, match="one for each sweep"):
        run.reverse()
