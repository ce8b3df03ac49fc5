"""What users' functions may do with the arrays they are given, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import retrograd
from retrograd.adapters.arrays import Problem
from retrograd.errors import InvalidArgument, NonFinite, NotSupported
from tests.adapters.toys import (
    Toy,
    run_tiny,
    same_bits,
    summing,
    tiny_memory,
)

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
