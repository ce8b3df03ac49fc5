"""How a computation's arrays lie along time: what a restart, a record and the live state hold.

Everything is counted in *rows*: row ``r`` of a field is one array of the field's shape. State
``k`` is rows ``k`` … ``k + depth - 1`` of every state field, and step ``k`` writes row
``k + depth``. A second-order wave equation has depth 2, a first-order equation depth 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from retrograd.errors import InvalidArgument

ALIGNMENT = 64
"""Bytes at whose multiples the arrays of a packed row begin (one cache line)."""


@dataclass(frozen=True, slots=True)
class Field:
    """One array of the computation: its name, and the shape and dtype of one row."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class StateRows:
    """A state of adjacent rows of which each is a record, as in second-order time stepping.

    State ``k`` is rows ``k`` … ``k + depth - 1``, step ``k`` makes row ``k + depth``, and the
    record of step ``k`` is row ``k + record_row``, a row of the state at its start.
    """

    depth: int
    record_row: int

    def __post_init__(self) -> None:
        if not 0 <= self.record_row < self.depth:
            raise InvalidArgument(
                f"record_row is {self.record_row}: give one of the rows 0 … {self.depth - 1} of "
                f"a state of depth {self.depth}"
            )

    def records(self, step: int) -> range:
        """The steps whose records the state at ``step`` holds."""
        first = step - self.record_row
        return range(first, first + self.depth)


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a problem, and which of their rows are restarts and records.

    Parameters
    ----------
    state : the fields that the forward steps from row to row.
    depth : rows of a restart.
    record_rows : half-open range of rows, relative to the step, that its adjoint reads.
    records : further arrays, one row a step, that only a recording step makes. A layout with
        such fields keeps them *instead of* state rows.
    contiguous : for compiled code: the rows of each field lie next to each other, and every
        step writes its row. Otherwise the fields of a row are packed together and a step
        needs no memory but the state that it ends with.
    held : arrays that belong to the state and lie where the problem keeps them. A restart has a
        copy of them; no record has. Such a layout is contiguous, and its depth may be 0.
    """

    state: tuple[Field, ...]
    depth: int = 1
    record_rows: tuple[int, int] = (0, 1)
    records: tuple[Field, ...] = ()
    contiguous: bool = False
    held: tuple[Field, ...] = ()

    def __post_init__(self) -> None:
        first, stop = self.record_rows
        if self.held and not self.contiguous:
            raise InvalidArgument("only a contiguous layout has held arrays")
        if not self.state or self.depth < (not self.held):
            raise InvalidArgument(
                "a layout needs at least one state field and a depth of at least 1"
            )
        for field in (*self.state, *self.records, *self.held):
            if not field.nbytes:
                raise InvalidArgument(f"{field.name} has shape {field.shape}: it holds no bytes")
        if not 0 <= first < stop <= self.depth + 1:
            raise InvalidArgument(
                f"the adjoint of a step reads rows {first} … {stop - 1} relative to it, but a step "
                f"touches rows 0 … {self.depth} only: record_rows must lie within them"
            )
        if not self.contiguous and (self.depth, self.record_rows) != (1, (0, 1)):
            raise InvalidArgument("packed rows have depth 1 and record_rows (0, 1)")
        if self.contiguous and self.records:
            raise InvalidArgument(
                "a contiguous layout records state rows only: leave records empty"
            )

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row of all state fields."""
        return self._packed(self.state)

    @property
    def record_row_nbytes(self) -> int:
        """Bytes of one row of the record-only fields; 0 if there are none."""
        return self._packed(self.records)

    @property
    def restart_nbytes(self) -> int:
        """Bytes of one restart."""
        return self.depth * self.row_nbytes + self.held_nbytes

    @property
    def held_shares(self) -> tuple[int, ...]:
        """How many bytes of the copies of the held arrays lie in each state field's region.

        In proportion to the bytes of a row, so that copies and rows trade places exactly.
        """
        total = sum(field.nbytes for field in self.held)
        return tuple(-(-total * field.nbytes // self.row_nbytes) for field in self.state)

    @property
    def held_nbytes(self) -> int:
        """Bytes that the copies of the held arrays take in an arena."""
        return max(
            -(-share * self.row_nbytes // field.nbytes)
            for share, field in zip(self.held_shares, self.state, strict=True)
        )

    @property
    def record_nbytes(self) -> int:
        """Bytes that one more record takes."""
        return self.record_row_nbytes or self.row_nbytes

    @property
    def record_in_state(self) -> bool:
        """Whether the record of a step is part of the state at its start."""
        return not self.records and self.record_rows[1] <= self.depth

    @property
    def state_rows(self) -> StateRows | None:
        """How a state consists of records, if it does."""
        first, stop = self.record_rows
        if self.record_in_state and stop == first + 1 and not self.held:
            return StateRows(self.depth, first)
        return None

    @property
    def live_nbytes(self) -> int:
        """Bytes in use besides restarts and records: the live state and what a step makes."""
        return self.depth * self.row_nbytes + self.record_nbytes

    @property
    def restart_item_nbytes(self) -> int:
        """Bytes of a restart outside the arena: without what aligns packed rows."""
        held = sum(field.nbytes for field in self.held)
        return self.depth * sum(field.nbytes for field in self.state) + held

    def records_item_nbytes(self, steps: int) -> int:
        """Bytes of the records of adjacent steps outside the arena."""
        first, stop = self.record_rows
        fields = self.records or self.state
        return (steps - 1 + stop - first) * sum(field.nbytes for field in fields)

    def offsets(self, fields: tuple[Field, ...]) -> tuple[int, ...]:
        """Byte offsets of the fields within a packed row."""
        starts, total = [], 0
        for field in fields:
            starts.append(total)
            total += self._padded(field)
        return tuple(starts)

    def _packed(self, fields: tuple[Field, ...]) -> int:
        return sum(self._padded(field) for field in fields)

    def _padded(self, field: Field) -> int:
        if self.contiguous:
            return field.nbytes
        return -(-field.nbytes // ALIGNMENT) * ALIGNMENT
