"""Plain time loops: the gradient of keeping everything, to the last bit, or a clear refusal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import retrograd
from retrograd.actions import BeginSweep, Forget, Record, Reverse
from retrograd.adapters.arrays import Problem
from retrograd.errors import BudgetTooSmall, InvalidArgument, NonFinite, NotSupported
from tests.oracles import fewest

SAMPLES = np.random.default_rng(1).normal(size=40)


@dataclass
class Toy:
    """A time loop with its adjoint, and a count of the calls of each step."""

    initial: Any
    step: Callable[[Any, int], Any]
    adjoint_step: Callable[[Any, Any, int], Any]
    terminal: Callable[[Any], Any] | None = None
    recording: Callable[[Any, int], Any] | None = None
    like: Any = None
    calls: Counter[str] = field(default_factory=Counter)

    def problem(self, steps: int, **options: Any) -> Problem:
        def counted(name: str, function: Any) -> Any:
            def call(*arguments: Any) -> Any:
                self.calls[name] += 1
                return function(*arguments)

            return function and call

        return Problem(
            counted("step", self.step),
            counted("adjoint", self.adjoint_step),
            self.initial,
            steps,
            terminal=self.terminal,
            recording_step=counted("step", self.recording),
            record_like=self.like,
            **options,
        )

    def keep_all(self, steps: int) -> Any:
        """The gradient with all states in a list, without the library."""
        state, kept = _frozen(self.initial), []
        for k in range(steps):
            if self.recording is None:
                kept.append(state)
                state = _frozen(self.step(state, k))
            else:
                state, record = self.recording(state, k)
                state = _frozen(state)
                kept.append(_frozen(record))
        zeros = tuple(map(np.zeros_like, state)) if isinstance(state, tuple) else state * 0
        adjoint = self.terminal(state) if self.terminal else zeros
        for k in reversed(range(steps)):
            adjoint = self.adjoint_step(adjoint, kept[k], k)
        return adjoint


def _frozen(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_frozen, value))
    return np.array(value)


def logistic() -> Toy:
    """One array, a nonlinear step."""
    return Toy(
        np.linspace(0.1, 0.4, 5),
        lambda u, k: u + 0.3 * u * (1 - u),
        lambda a, u, k: a * (1 + 0.3 * (1 - 2 * u)),
        lambda u: 2 * u,
    )


def driven() -> Toy:
    """A body that reads data by step index; the adjoint also sums the derivatives by them."""

    def adjoint_step(adjoint: Any, u: Any, k: int) -> Any:
        a, by_sample = adjoint
        by_sample[k] += a.sum()
        return a * (1 - 0.2 * np.sin(u * SAMPLES[k]) * SAMPLES[k]), by_sample

    return Toy(
        np.linspace(0.5, 1.0, 3),
        lambda u, k: u + 0.2 * np.cos(u * SAMPLES[k]) + SAMPLES[k],
        adjoint_step,
        lambda u: (u.copy(), np.zeros(40)),
    )


def mixed_dtypes() -> Toy:
    """Five arrays of different shapes and dtypes in one state."""

    def step(state: Any, k: int) -> Any:
        p, v, z, n, flags = state
        return (
            (p + np.float32(0.1) * v[:3].astype("f4")).astype("f4"),
            v - 0.1 * np.sin(v) - 0.01 * p.sum(),
            (z * np.complex64(0.6 + 0.8j)).astype("c8"),
            n * np.int32(3) + np.int32(k),
            ~flags,
        )

    def adjoint_step(adjoint: Any, state: Any, k: int) -> Any:
        p, v, z, n, flags = state
        a, total = adjoint
        total = total + float(abs(z).sum()) * int(n[0] % 7) + int(flags.sum()) + float(p @ p)
        return a * (1 - 0.1 * np.cos(v)) + 0.01 * k, total

    initial = (
        np.arange(3, dtype="f4"),
        np.linspace(0, 1, 7),
        np.array([[1 + 1j, 2]], dtype="c8"),
        np.array([1, -(2**31) + 5], dtype="i4"),
        np.array([True, False, True]),
    )
    return Toy(initial, step, adjoint_step, lambda state: (state[1] * 1.0, 0.0))


def recording(*, large: bool) -> Toy:
    """A step that makes a record of its own, smaller or larger than a restart."""
    count = 70 if large else 2

    def step(u: Any, k: int) -> Any:
        return u + 0.1 * np.tanh(u) * SAMPLES[k]

    def recording_step(u: Any, k: int) -> Any:
        slope = 1 + 0.1 * SAMPLES[k] / np.cosh(u) ** 2
        return step(u, k), (np.tile(slope, count)[:count], np.array([k], dtype="i8"))

    def adjoint_step(a: Any, record: Any, k: int) -> Any:
        assert record[1][0] == k
        return a * record[0][: len(a)].mean() + record[0].sum()

    return Toy(
        np.linspace(-1, 1, 33),
        step,
        adjoint_step,
        lambda u: u[:2] * 1.0,
        recording_step,
        (np.zeros(count), np.zeros(1, dtype="i8")),
    )


TOYS = {
    "one array": logistic,
    "reads data by step": driven,
    "several dtypes": mixed_dtypes,
    "small record": lambda: recording(large=False),
    "large record": lambda: recording(large=True),
}


def same_bits(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same_bits, one, other))
    one, other = np.asarray(one), np.asarray(other)
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


def budgets(problem: Problem) -> Iterator[int]:
    """Every memory that can make a difference: one row more each time, and more than is useful."""
    layout = problem.layout
    most = layout.live_nbytes + problem.steps * layout.record_nbytes
    unit = np.gcd(layout.restart_nbytes, layout.record_nbytes)
    yield from range(int(unit), most + int(unit), int(unit))


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


# What user's functions may do with the arrays they are given.


def tiny_memory(problem: Problem) -> int:
    return problem.layout.live_nbytes + 2 * problem.layout.restart_nbytes


def run_tiny(problem: Problem) -> Any:
    return retrograd.gradient(problem, memory=tiny_memory(problem)).gradient


def summing(a: Any, state: Any, k: int) -> Any:
    """An adjoint that notices every wrong state."""
    parts = state if isinstance(state, tuple) else (state,)
    return a * 0.9 + sum((k + 2 + i) * float(np.sum(part)) for i, part in enumerate(parts))


SWAPPED = Toy(
    (np.array([1.0, 2.0]), np.array([3.0, 4.0])),
    lambda s, k: (s[1], s[0]) if k % 3 else (s[1], s[0] + s[1]),
    summing,
    lambda s: 1.0,
)
UNCHANGED = Toy(np.arange(4.0), lambda u, k: u if k % 2 else u + k, summing, lambda u: 0.5)
SHIFTED = Toy(np.arange(5.0), lambda u, k: u[::-1], summing, lambda u: 0.5)


@pytest.mark.parametrize("toy", [SWAPPED, UNCHANGED, SHIFTED], ids=["swapped", "same", "reversed"])
@pytest.mark.parametrize("memory", ["tiny", "1/2", "2/1"])
def test_a_step_may_return_what_it_was_given(toy: Toy, memory: str) -> None:
    problem = toy.problem(13)
    budget = tiny_memory(problem) if memory == "tiny" else memory
    assert same_bits(retrograd.gradient(problem, memory=budget).gradient, toy.keep_all(13))


def test_a_step_may_return_the_same_buffer_each_time() -> None:
    buffer = np.empty(4)

    def step(u: Any, k: int) -> Any:
        buffer[:] = u * 0.7 + k
        return buffer

    toy = Toy(np.arange(4.0), step, summing, lambda u: 0.5)
    assert same_bits(run_tiny(toy.problem(13)), toy.keep_all(13))


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda u: u,
        lambda u: (u, u[1:]),
        lambda u: [u, {"part": u[:2]}],
        lambda u: NamedTuple("Adjoint", [("u", Any)])(u),
    ],
    ids=["array", "tuple", "list and dict", "named tuple"],
)
def test_an_adjoint_may_be_a_view_of_the_state(wrapped: Callable[[Any], Any]) -> None:
    """It is copied, so that rows written later do not change it."""

    def adjoint_step(a: Any, u: Any, k: int) -> Any:
        return wrapped(u) if k == 5 else a

    problem = Problem(
        lambda u, k: u + 1.0, adjoint_step, np.zeros(3), 9, terminal=lambda u: wrapped(u)
    )
    expected = wrapped(np.full(3, 5.0))
    got = run_tiny(problem)
    assert type(got).__name__ == type(expected).__name__
    assert str(got) == str(expected)


def test_gradients_do_not_share_memory_with_the_next_run() -> None:
    buffer = np.zeros(3)

    def adjoint_step(a: Any, u: Any, k: int) -> Any:
        a += u
        return a

    problem = Problem(lambda u, k: u + 1.0, adjoint_step, np.zeros(3), 7, terminal=lambda u: buffer)
    run = retrograd.Run(problem, memory=tiny_memory(problem))
    gradients = []
    for _ in range(3):
        run.forward()
        gradients.append(run.reverse().gradient)
    assert [set(g) for g in gradients] == [{21.0}] * 3
    assert not buffer.any()  # the terminal value is the user's own array


def test_the_initial_state_is_copied() -> None:
    initial = np.ones(3)
    problem = Problem(lambda u, k: u * 2, summing, initial, 5, terminal=lambda u: 0.0)
    before = run_tiny(problem)
    initial[:] = 7.0
    assert run_tiny(problem) == before


@pytest.mark.parametrize("where", ["step", "recording_step", "adjoint_step", "terminal"])
def test_writing_into_a_given_array_is_refused(where: str) -> None:
    def spoil(name: str, u: Any) -> None:
        if name == where:
            u[0] = 1.0

    def recording_step(u: Any, k: int) -> Any:
        spoil("recording_step", u)
        return u + 1, u * 2

    def step(u: Any, k: int) -> Any:
        spoil("step", u)
        return u + 1

    def adjoint_step(a: Any, u: Any, k: int) -> Any:
        spoil("adjoint_step", u)
        return a

    def terminal(u: Any) -> Any:
        spoil("terminal", u)
        return 0.0

    options = {"recording_step": recording_step, "record_like": np.zeros(3)}
    problem = Problem(
        step,
        adjoint_step,
        np.zeros(3),
        6,
        terminal=terminal,
        **(options if where == "recording_step" else {}),
    )
    with pytest.raises(ValueError, match="read-only"):
        run_tiny(problem)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros(4), r"float64\[4\], and float64\[3\] is expected"),
        (np.zeros(3, dtype="f4"), r"float32\[3\], and float64\[3\] is expected"),
        (np.zeros((3, 1)), r"float64\[3, 1\], and"),
        (0.0, r"float64\[\], and float64\[3\]"),
        ((np.zeros(3), np.zeros(3)), r"float64\[3\], float64\[3\], and float64\[3\]"),
        (None, r"object\[\], and"),
    ],
)
def test_states_of_another_form_are_refused(returned: Any, message: str) -> None:
    problem = Problem(lambda u, k: returned if k == 2 else u, summing, np.zeros(3), 6)
    with pytest.raises(InvalidArgument, match=f"^step at step 2 returned {message}") as caught:
        run_tiny(problem)
    assert "same shapes and dtypes as those of the initial state" in str(caught.value)


def test_records_of_another_form_are_refused() -> None:
    problem = Problem(
        lambda u, k: u,
        summing,
        np.zeros(3),
        6,
        recording_step=lambda u, k: (u, np.zeros(2, dtype="f4")),
        record_like=np.zeros(2),
    )
    with pytest.raises(InvalidArgument, match="recording_step at step .* those of record_like"):
        run_tiny(problem)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_forward_that_blows_up_is_found(bad: float) -> None:
    problem = Problem(lambda u, k: u * bad if k == 7 else u + 1, summing, np.ones(3), 20)
    with pytest.raises(NonFinite, match=r"state\[0\] is not finite after step"):
        run_tiny(problem)


def test_a_start_that_is_not_finite_is_the_users_business() -> None:
    initial = (np.array([np.nan, 1.0]), np.ones(2))
    problem = Problem(lambda s, k: (s[0], s[1] + 1), lambda a, s, k: a + s[1].sum(), initial, 9)
    problem_two = Problem(lambda s, k: (s[0], s[1] * np.nan), summing, initial, 9)
    with pytest.raises(NonFinite, match=r"state\[1\]"):
        run_tiny(problem_two)
    assert problem.layout.state[0].name == "state[0]"


@pytest.mark.parametrize("hidden", ["array", "counter", "random"])
def test_a_state_that_is_not_complete_is_refused_on_replay(hidden: str) -> None:
    """Something that the forward changes is kept from the library: no number comes out."""
    memory = np.zeros(3)
    calls = iter(range(10**6))
    random = np.random.default_rng(0)

    def step(u: Any, k: int) -> Any:
        if hidden == "array":
            memory[:] = memory * 0.5 + u
            return u + 0.1 * memory
        return u + (next(calls) if hidden == "counter" else random.normal())

    for steps in (3, 5, 13, 40):
        problem = Problem(step, summing, np.ones(3), steps, terminal=lambda u: 0.0)
        with pytest.raises(NotSupported, match="came out differently when it was computed again"):
            retrograd.gradient(problem, memory=problem.layout.live_nbytes)


def test_a_recording_step_that_steps_otherwise_is_refused() -> None:
    problem = Problem(
        lambda u, k: u * 1.1,
        summing,
        np.ones(3),
        20,
        recording_step=lambda u, k: (u * 1.1 + 1e-16 * k, u),
        record_like=np.ones(3),
    )
    with pytest.raises(NotSupported, match="put whatever it changes into the state"):
        run_tiny(problem)


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


def test_a_second_sweep_over_the_same_forward_is_refused() -> None:
    toy = logistic()
    sweeps = [Record(0, 3), Reverse(3, 0, keep=True), BeginSweep(1), Reverse(3, 0, keep=True)]
    with pytest.raises(NotSupported, match="once for each forward") as caught:
        retrograd.gradient(toy.problem(3), memory="2/1", schedule=[*sweeps, Forget(0, 3)])
    assert "BeginSweep(index=1)" in "".join(caught.value.__notes__)


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
