"""A problem whose rows hold their own index, so that any row in the wrong place is noticed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from retrograd.layout import Field, Layout
from retrograd.problem import Rows, Steps

State = list[list[int]]
"""A number for every row of a state, oldest first, and every field."""

_WIDE = Field("wide", (2, 3), np.dtype("f8"))
_SMALL = Field("small", (5,), np.dtype("i4"))
_COMPLEX = Field("complex", (3,), np.dtype("c8"))
_NARROW = Field("narrow", (4,), np.dtype("f4"))

LAYOUTS = {
    "depth 1, reads (0,1)": Layout((_NARROW,), 1, (0, 1), contiguous=True),
    "depth 1, reads (1,2)": Layout((_NARROW, _WIDE), 1, (1, 2), contiguous=True),
    "depth 1, reads (0,2)": Layout((_SMALL,), 1, (0, 2), contiguous=True),
    "depth 2, reads (0,1)": Layout((_WIDE,), 2, (0, 1), contiguous=True),
    "depth 2, reads (1,2)": Layout((_SMALL, _WIDE, _COMPLEX), 2, (1, 2), contiguous=True),
    "depth 2, reads (2,3)": Layout((_NARROW,), 2, (2, 3), contiguous=True),
    "depth 2, reads (0,3)": Layout((_SMALL, _NARROW), 2, (0, 3), contiguous=True),
    "depth 2, reads (1,3)": Layout((_WIDE,), 2, (1, 3), contiguous=True),
    "held, depth 0": Layout((_WIDE,), 0, (0, 1), contiguous=True, held=(_SMALL,)),
    "held, depth 0, two regions": Layout(
        (_NARROW, _WIDE), 0, (0, 1), contiguous=True, held=(_COMPLEX, _SMALL, _NARROW)
    ),
    "held, depth 1": Layout((_NARROW, _WIDE, _SMALL), 1, (0, 2), contiguous=True, held=(_SMALL,)),
    "held, depth 2": Layout((_NARROW,), 2, (0, 1), contiguous=True, held=(_WIDE, _COMPLEX)),
    "packed": Layout((_SMALL, _WIDE, _NARROW)),
    "packed, small record": Layout((_WIDE, _SMALL), records=(_SMALL,)),
    "packed, large record": Layout((_NARROW,), records=(_WIDE, _COMPLEX, _SMALL, _WIDE)),
}
"""Every kind of layout: compiled code's and Python's, all rows that an adjoint may read."""


class CountingProblem:
    """Integers that depend on all integers before them, written to every kind of row.

    The first element of a row is the row's index, the others its number. Reading a row that has
    another index, or two numbers, fails. Like a compiled operator, which writes no halo, it never
    writes the last element of a contiguous layout's rows, and finds it zero. The gradient is a
    number that depends on the order of the reversed steps and on every record.
    """

    fixed_nbytes = 0
    scratch_nbytes = 0

    def __init__(self, layout: Layout, steps: int, *, free_start: bool = True) -> None:
        self.layout = layout
        self.steps = steps
        self.free_start = free_start
        self.keep_all_nbytes = steps * layout.record_nbytes
        self._held = [np.zeros(field.shape, field.dtype) for field in layout.held]
        self.ran: list[int] = []
        self.first: list[int] = []
        self.begin_reverse()

    def begin(self) -> None:
        self.ran, self.first = [], []

    def initialize(self, rows: Rows) -> None:
        for row in range(self.layout.depth):
            self._write_row(rows, row, [row + field for field in range(self._fields)])

        for index, array in enumerate(self._held):
            _write(array, 0, index + 1)

    def held(self, step: int) -> list[np.ndarray]:
        return self._held

    @property
    def _fields(self) -> int:
        return len(self.layout.state)

    def forward(self, call: Steps, *, first: bool) -> None:
        depth = self.layout.depth
        state = [
            [self._read_row(call.source, field, call.start + age) for field in self.all]
            for age in range(depth)
        ]
        in_between = self.layout.contiguous or (call.recording and not self.layout.records)
        for k in range(call.start, call.stop):
            if call.recording:
                for field in range(len(self.layout.records)):
                    _write(call.target.record(field, k), k, _record(state, k, field))
            held = [_read(array, k) for array in self._held]
            state = state + [[(_next(state, k, f) + sum(held)) % 97 for f in self.all]]
            state = state[-depth:] if depth else state[-1:]
            new = state[-1]
            state = state if depth else []
            for index, array in enumerate(self._held):
                _write(array, k + 1, (3 * held[index] + new[0] + k + index) % 89)
            if in_between or k + 1 == call.stop:
                self._write_row(call.target, k + depth, new)
            self.ran.append(k)
            if first:
                self.first.append(k)

    @property
    def all(self) -> range:
        return range(self._fields)

    def _write_row(self, rows: Rows, row: int, values: list[int]) -> None:
        for field, value in enumerate(values):
            _write(self._inner(rows.row(field, row)), row, value)

    def _read_row(self, rows: Rows, field: int, row: int) -> int:
        view = rows.row(field, row)
        halo = view.ravel()[-1]
        assert halo == 0 or not self.layout.contiguous, f"the halo of row {row} is {halo}"
        return _read(self._inner(view), row)

    def _inner(self, view: np.ndarray) -> np.ndarray:
        return view.reshape(-1)[:-1] if self.layout.contiguous else view

    def finish_forward(self, rows: Rows) -> None:
        for age in range(self.layout.depth):
            self._read_row(rows, 0, self.steps + age)

    def begin_reverse(self) -> None:
        self.adjoint = 1
        self.turned: list[int] = []

    def reverse(self, stop: int, start: int, rows: Rows) -> None:
        for k in range(stop - 1, start - 1, -1):
            for value in self._read_record(rows, k):
                self.adjoint = (31 * self.adjoint + value) % 1_000_003
            self.turned.append(k)

    def _read_record(self, rows: Rows, k: int) -> Iterable[int]:
        if self.layout.records:
            return [_read(rows.record(f, k), k) for f in range(len(self.layout.records))]
        reads = range(k + self.layout.record_rows[0], k + self.layout.record_rows[1])
        return [self._read_row(rows, field, row) for row in reads for field in self.all]

    def gradient(self) -> int:
        return self.adjoint


def expected_gradient(layout: Layout, steps: int) -> int:
    """The gradient with every row in a dictionary: no arena, no schedule."""
    rows = _Everything(layout)
    problem = CountingProblem(layout, steps)
    problem.initialize(rows)
    problem.forward(_WholeRun(steps, rows), first=True)
    problem.reverse(steps, 0, rows)
    return problem.gradient()


class _Everything(dict[Any, Any]):
    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def row(self, field: int, row: int) -> Any:
        spec = self._layout.state[field]
        return self.setdefault(("row", field, row), np.zeros(spec.shape, spec.dtype))

    def record(self, field: int, step: int) -> Any:
        spec = self._layout.records[field]
        return self.setdefault(("record", field, step), np.zeros(spec.shape, spec.dtype))


class _WholeRun:
    def __init__(self, steps: int, rows: _Everything) -> None:
        self.start, self.stop, self.recording = 0, steps, True
        self.source = self.target = rows


def _next(state: State, k: int, field: int) -> int:
    weighted = sum(
        (2 * age + f + 2) * v for age, row in enumerate(state) for f, v in enumerate(row)
    )
    return (weighted + 5 * k + field) % 97


def _record(state: State, k: int, field: int) -> int:
    return (7 * _next(state, k, 0) + field) % 89


def _write(view: np.ndarray, index: int, value: int) -> None:
    view[...] = value
    view[(0,) * view.ndim] = index


def _read(view: np.ndarray, index: int) -> int:
    numbers = view.ravel()
    assert numbers[0] == index, f"row {index} was asked for and row {numbers[0]} is there"
    assert (numbers[1:] == numbers[1]).all(), f"row {index} is damaged"
    return int(numbers[1].real)
