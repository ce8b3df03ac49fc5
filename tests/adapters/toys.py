"""Time loops with their adjoints, for the tests of plain arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import retrograd
from retrograd.adapters.arrays import Problem

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


def tiny_memory(problem: Problem) -> int:
    return problem.layout.live_nbytes + 2 * problem.layout.restart_nbytes


def run_tiny(problem: Problem) -> Any:
    return retrograd.gradient(problem, memory=tiny_memory(problem)).gradient


def summing(a: Any, state: Any, k: int) -> Any:
    """An adjoint that notices every wrong state."""
    parts = state if isinstance(state, tuple) else (state,)
    return a * 0.9 + sum((k + 2 + i) * float(np.sum(part)) for i, part in enumerate(parts))
