"""Each check accepts what is right and refuses what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd
from retrograd import testing
from retrograd.actions import Advance, Record, Reverse
from retrograd.errors import IllegalAction
from retrograd.schedules import Levels, Mixed, Revolve

RNG = np.random.default_rng(1)


@given(data=st.data(), case=testing.sizes(most_steps=40), flag=st.booleans())
@settings(deadline=None, max_examples=60)
def test_schedules_of_ours_pass(data: Any, case: tuple[int, int, int], flag: bool) -> None:
    steps, restart, record = case
    units = data.draw(testing.memories(*case))
    counts = testing.check_schedule(
        Mixed(*case, units, record_in_state=flag),
        steps=steps,
        restart_nbytes=restart,
        record_nbytes=record,
        budgets={"memory": units},
        record_in_state=flag,
    )
    assert counts.reversed_steps == steps


def test_rows_and_lists_pass() -> None:
    testing.check_schedule(
        Levels(30, 2, 1, 9, free_start=True),
        steps=30,
        free_start=True,
        state_rows=retrograd.StateRows(2, 1),
        budgets={"memory": 9},
    )
    testing.check_schedule([Record(0, 3), Reverse(3, 0)], steps=3)


@dataclass(frozen=True)
class Liar:
    """Says that it runs fewer steps than it does."""

    forward_steps: int = 2

    def __iter__(self) -> Any:
        return iter([Record(0, 3), Reverse(3, 0)])


def test_schedules_that_are_wrong_are_refused() -> None:
    with pytest.raises(IllegalAction, match="action 1"):
        testing.check_schedule([Advance(0, 3), Reverse(3, 0)], steps=3)
    with pytest.raises(IllegalAction, match="are allowed"):
        testing.check_schedule(Revolve(10, 3), steps=10, budgets={"memory": 2})
    with pytest.raises(AssertionError, match="not an iterator"):
        testing.check_schedule(iter(Revolve(10, 3)), steps=10)
    with pytest.raises(AssertionError, match="claims 2 forward steps and runs 3"):
        testing.check_schedule(Liar(), steps=3)


def problem(step: Any, adjoint_step: Any) -> retrograd.arrays.Problem:
    return retrograd.arrays.Problem(
        step, adjoint_step, np.linspace(0, 1, 20), 24, terminal=lambda u: u
    )


def test_a_problem_that_is_right_passes() -> None:
    right = problem(lambda u, k: u + 0.1 * np.sin(u), lambda a, u, k: a * (1 + 0.1 * np.cos(u)))
    assert testing.check_problem(right) == 12
    assert testing.check_problem(right, memory=["1/3", 1], schedules=["mixed"]) == 1
    with pytest.raises(AssertionError, match="none of the budgets"):
        testing.check_problem(right, memory=[1])


def test_problems_that_are_wrong_are_refused() -> None:
    calls = []

    def counting(a: np.ndarray, u: np.ndarray, k: int) -> np.ndarray:
        calls.append(k)
        return a + len(calls)

    with pytest.raises(AssertionError, match="does not reproduce itself"):
        testing.check_problem(problem(lambda u, k: u, counting))

    class Drifting(retrograd.arrays.Problem):
        """Its adjoint depends on how many steps a call reverses."""

        def reverse(self, stop: int, start: int, rows: Any) -> None:
            super().reverse(stop, start, rows)
            self._adjoint = self._adjoint + 1

    drifting = Drifting(lambda u, k: u, lambda a, u, k: a, np.ones(4), 24, terminal=lambda u: u)
    with pytest.raises(AssertionError, match=r"memory='1/2' gives another gradient"):
        testing.check_problem(drifting)


def test_an_adjoint_and_one_that_is_none() -> None:
    matrix = RNG.standard_normal((5, 3)) + 1j * RNG.standard_normal((5, 3))
    x, y = RNG.standard_normal(3) + 0j, RNG.standard_normal(5) + 0j
    assert testing.dot_test(lambda x: matrix @ x, lambda y: matrix.conj().T @ y, x, y) < 1e-14
    with pytest.raises(AssertionError, match="does not belong"):
        testing.dot_test(lambda x: matrix @ x, lambda y: matrix.T @ y, x, y)
    pairs = testing.dot_test(
        lambda x: (x[1], {"a": 2 * x[0]}), lambda y: (2 * y[1]["a"], y[0]), (x, y), (y, {"a": x})
    )
    assert pairs < 1e-14


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_gradient_and_ones_that_are_none(scale: float) -> None:
    m, d = RNG.standard_normal(6), RNG.standard_normal(6)

    def value(m: np.ndarray) -> float:
        return scale * float(np.sum(np.sin(m) ** 2))

    right = scale * np.sin(2 * m)
    orders = testing.taylor_test(value, right, m, 0.1 * d)
    assert min(orders) > 1.9
    for wrong in (1.01 * right, 0 * right, right[::-1]):
        with pytest.raises(AssertionError, match="the gradient is wrong"):
            testing.taylor_test(value, wrong, m, 0.1 * d)


def test_a_linear_function_has_no_remainder() -> None:
    m, d, g = RNG.standard_normal((3, 6))
    assert testing.taylor_test(lambda m: float(g @ m), g, m, d) == [2.0, 2.0, 2.0]
    both = testing.taylor_test(
        lambda m: float(g @ m["a"] + m["b"] ** 2),
        {"a": g, "b": 6.0},
        {"a": m, "b": 3.0},
        {"a": d, "b": 1.0},
    )
    assert min(both) > 1.9
