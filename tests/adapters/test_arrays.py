"""Plain time loops: the gradient of keeping everything, to the last bit, or a clear refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.actions import BeginSweep, Forget, Record, Reverse
from retrograd.adapters.arrays import Problem
from retrograd.errors import BudgetTooSmall, InvalidArgument, NotSupported
from tests.adapters.toys import (
    TOYS,
    budgets,
    logistic,
    run_tiny,
    same_bits,
    summing,
)
from tests.oracles import fewest, fewest_rows


@pytest.mark.parametrize("free_start", [True, False])
@pytest.mark.parametrize("name", TOYS)
def test_every_number_of_steps_at_every_memory(name: str, free_start: bool) -> None:
    """Bits of keep-all, calls and counts of the oracle, bytes of the plan, no silent keep-all."""
    for steps in range(1, 31):
        toy = TOYS[name]()
        expected = toy.keep_all(steps)
        problem = toy.problem(steps, free_start=free_start)
        layout = problem.layout
        unit = int(np.gcd(layout.restart_nbytes, layout.record_nbytes))
        a, b = layout.restart_nbytes // unit, layout.record_nbytes // unit
        spared = layout.record_in_state
        oracle = fewest(steps, steps * b + a, a, b, spared=spared, free=free_start)
        for memory in budgets(problem):
            units = (memory - layout.live_nbytes) // unit
            if units < 0 or oracle[units][steps] > 10**6:
                with pytest.raises(BudgetTooSmall):
                    retrograd.Run(problem, memory=memory)
                continue
            if _is_repetition(memory, steps, name):
                continue
            toy.calls.clear()
            result = retrograd.gradient(problem, memory=memory)
            assert same_bits(result.gradient, expected)
            forward_steps = oracle[units][steps] + spared
            if state := layout.state_rows:
                rows = memory // layout.row_nbytes
                by_rows = fewest_rows(steps, rows, state.depth, state.record_row, free=free_start)
                forward_steps = by_rows[steps]
            assert toy.calls == {"step": forward_steps, "adjoint": steps}
            assert result.plan.forward_steps == result.tally.forward_steps == forward_steps
            assert result.arena_nbytes == result.plan.peak_nbytes <= memory
            kept_all = units >= (steps - 1) * b
            assert (result.plan.name == "keep-all") == kept_all
            assert forward_steps == steps or not kept_all


def _is_repetition(memory: int, steps: int, name: str) -> bool:
    """Whether to leave a case out, to keep the suite short: large records at many memories."""
    return name == "large record" and steps > 8 and memory // 64 % 7 != steps % 7


@pytest.mark.parametrize("schedule", ["keep-all", "mixed", "revolve"])
@pytest.mark.parametrize("name", TOYS)
def test_every_schedule_gives_the_same_bits(name: str, schedule: str) -> None:
    toy = TOYS[name]()
    problem = toy.problem(20)
    memory = "2/1" if schedule == "keep-all" else problem.layout.live_nbytes * 3
    result = retrograd.gradient(problem, memory=memory, schedule=schedule)
    assert result.plan.name == schedule
    assert same_bits(result.gradient, toy.keep_all(20))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "i4", "u1", "i8", "?", ">f8", "f2"])
def test_states_of_any_dtype_come_back_bit_for_bit(dtype: str) -> None:
    rng = np.random.default_rng(0)
    states = [rng.integers(0, 2, (3, 5)).astype(dtype) for _ in range(11)]

    def adjoint_step(seen: Any, u: Any, k: int) -> Any:
        return [(u.dtype.str, u.shape, u.tobytes()), *seen]

    problem = Problem(
        lambda u, k: states[k + 1], adjoint_step, states[0], 10, terminal=lambda u: []
    )
    result = retrograd.gradient(problem, memory=problem.layout.live_nbytes)
    assert result.gradient == [(s.dtype.str, s.shape, s.tobytes()) for s in states[:10]]


def test_a_state_may_be_a_single_number() -> None:
    problem = Problem(lambda u, k: u * 1.5, lambda a, u, k: a * 1.5 + u, 2.0, 9, terminal=float)
    result = retrograd.gradient(problem, memory=problem.layout.live_nbytes)
    a, states = 2.0 * 1.5**9, [2.0 * 1.5**k for k in range(9)]
    for u in reversed(states):
        a = a * 1.5 + u
    assert result.gradient == pytest.approx(a, rel=1e-14)


# Construction.


@pytest.mark.parametrize("steps", [-1, 0, None, 1.5, "3", True])
def test_a_number_of_steps_that_cannot_be_is_refused(steps: Any) -> None:
    with pytest.raises(InvalidArgument, match="steps=.* is not a whole number of at least 1"):
        Problem(lambda u, k: u, summing, np.ones(3), steps)


@pytest.mark.parametrize("steps", [1, 2, 3, np.int64(2)])
def test_the_smallest_numbers_of_steps_work(steps: Any) -> None:
    toy = logistic()
    assert same_bits(run_tiny(toy.problem(steps)), toy.keep_all(int(steps)))


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        (np.array([None]), r"state holds Python objects: give arrays of numbers"),
        (np.zeros(0), r"state\[0\] has shape \(0,\): it holds no bytes"),
        ((np.zeros(2), np.zeros((3, 0))), r"state\[1\] has shape \(3, 0\)"),
        ((), "at least one state field"),
    ],
)
def test_a_state_that_holds_nothing_usable_is_refused(initial: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Problem(lambda u, k: u, summing, initial, 5)


@pytest.mark.parametrize("options", [{"recording_step": print}, {"record_like": np.zeros(1)}])
def test_half_a_recording_step_is_refused(options: Any) -> None:
    with pytest.raises(InvalidArgument, match="go together: give both or none"):
        Problem(lambda u, k: u, summing, np.ones(3), 5, **options)


def test_a_flag_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="free_start='no' is neither True nor False"):
        Problem(lambda u, k: u, summing, np.ones(3), 5, free_start="no")


def test_a_misspelt_option_is_refused() -> None:
    with pytest.raises(TypeError, match="termnal"):
        Problem(lambda u, k: u, summing, np.ones(3), 5, termnal=sum)


# The adjoint.


def test_without_a_terminal_function_the_adjoint_starts_at_zero() -> None:
    def adjoint_step(a: Any, state: Any, k: int) -> Any:
        return tuple(part + u for part, u in zip(a, state, strict=True))

    initial = (np.ones(2), np.ones(3, dtype="f4"))
    problem = Problem(lambda s, k: s, adjoint_step, initial, 6)
    gradient = run_tiny(problem)
    assert [(g.dtype.str, set(g)) for g in gradient] == [("<f8", {6.0}), ("<f4", {6.0})]


def test_a_second_sweep_over_the_same_forward_is_no_gradient() -> None:
    toy = logistic()
    sweeps = [Record(0, 3), Reverse(3, 0, keep=True), BeginSweep(1), Reverse(3, 0, keep=True)]
    schedule = [*sweeps, Forget(0, 3)]
    with pytest.raises(NotSupported, match="several reverse sweeps"):
        retrograd.gradient(toy.problem(3), memory="2/1", schedule=schedule)
    run = retrograd.Run(toy.problem(3), memory="2/1", schedule=schedule)
    run.forward()
    run.reverse()
    assert not run.is_over
    with pytest.raises(NotSupported, match="one for each sweep"):
        run.reverse()


def wave_problem(model: Any, steps: int = 30) -> tuple[Problem, Callable[[Any], float]]:
    """J(m) = ½ Σ uᵀ² at the end of a nonlinear wave equation; the gradient is by m."""
    n = len(model)
    force = np.sin(np.arange(steps))[:, None] * np.linspace(0, 1, n)

    def laplacian(u: Any) -> Any:
        return np.roll(u, 1) + np.roll(u, -1) - 2 * u

    def step(state: Any, k: int) -> Any:
        old, u = state
        return u, 2 * u - old + 0.2 * model * laplacian(u) - 0.05 * u**3 + 0.1 * force[k]

    def adjoint_step(adjoint: Any, state: Any, k: int) -> Any:
        (b_old, b), by_model = adjoint
        u = state[1]
        by_model = by_model + 0.2 * b * laplacian(u)
        new = b_old + 2 * b + 0.2 * laplacian(model * b) - 0.15 * u**2 * b
        return (-b, new), by_model

    def terminal(state: Any) -> Any:
        return (np.zeros(n), state[1].copy()), np.zeros(n)

    def misfit(other: Any) -> float:
        nonlocal model
        kept, model = model, other
        state = (np.zeros(n), np.zeros(n))
        for k in range(steps):
            state = step(state, k)
        model = kept
        return 0.5 * float(state[1] @ state[1])

    start = (np.zeros(n), np.zeros(n))
    return Problem(step, adjoint_step, start, steps, terminal=terminal), misfit


def test_the_gradient_passes_a_taylor_test() -> None:
    rng = np.random.default_rng(3)
    model, direction = 1 + 0.1 * rng.normal(size=12), rng.normal(size=12)
    problem, misfit = wave_problem(model)
    _, gradient = run_tiny(problem)
    sizes = 0.1 / 2.0 ** np.arange(5)
    rests = [
        abs(misfit(model + h * direction) - misfit(model) - h * gradient @ direction) for h in sizes
    ]
    assert np.polyfit(np.log(sizes), np.log(rests), 1)[0] >= 1.9


def test_the_adjoint_passes_a_dot_test() -> None:
    """⟨J'(m) d, 1⟩ by the linearised forward and by the adjoint agree to rounding."""
    rng = np.random.default_rng(4)
    n, steps = 6, 25
    matrices = rng.normal(size=(steps, n, n)) * 0.4
    problem = Problem(
        lambda u, k: matrices[k] @ u,
        lambda a, u, k: matrices[k].T @ a,
        rng.normal(size=n),
        steps,
        terminal=lambda u: weight,
    )
    weight, direction = rng.normal(size=n), rng.normal(size=n)
    forward = direction
    for matrix in matrices:
        forward = matrix @ forward
    assert run_tiny(problem) @ direction == pytest.approx(weight @ forward, rel=1e-12)
