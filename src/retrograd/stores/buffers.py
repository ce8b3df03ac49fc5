"""Room for items on their way between memory and a store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.errors import InvalidArgument
from retrograd.stores.parallel_copy import copy
from retrograd.stores.tier import Item, Rows


class State(Enum):
    """What a buffer holds."""

    FREE = "free"
    DIRTY = "to be written"
    WRITING = "being written"
    READING = "being read"
    READY = "the same as in the store within"


@dataclass(frozen=True, slots=True)
class Form:
    """How the rows of an item lie in a buffer: their offsets, shapes and dtypes."""

    rows: tuple[tuple[int, tuple[int, ...], np.dtype[Any]], ...]
    nbytes: int

    @classmethod
    def of(cls, rows: Rows) -> Form:
        """Of rows that follow each other as closely as their dtypes allow."""
        placed, at = [], 0
        for row in rows:
            if not row.flags.c_contiguous:  # its bytes would be those of a copy
                raise InvalidArgument("the rows of an item must be C-contiguous arrays")
            at = -(-at // row.dtype.itemsize) * row.dtype.itemsize
            placed.append((at, row.shape, row.dtype))
            at += row.nbytes
        return cls(tuple(placed), at)

    def views(self, memory: NDArray[np.uint8]) -> list[NDArray[Any]]:
        """The rows, as views of a buffer's memory."""
        return [
            np.ndarray(shape, dtype, buffer=memory.data, offset=at)
            for at, shape, dtype in self.rows
        ]


@dataclass(slots=True, eq=False)
class Buffer:
    """Room for an item. A stale one was given up while it was being transferred."""

    memory: NDArray[np.uint8]
    state: State = State.FREE
    item: Item | None = None
    form: Form | None = None
    is_stale: bool = False

    def rows(self) -> list[NDArray[Any]]:
        """The rows of the item."""
        assert self.form is not None
        return self.form.views(self.memory)

    def take(self, state: State, item: Item, form: Form) -> None:
        """Hold an item from now on."""
        self.state, self.item, self.form, self.is_stale = state, item, form, False

    def free(self) -> None:
        """Hold nothing."""
        self.state, self.item, self.form, self.is_stale = State.FREE, None, None, False


def copy_all(targets: Rows, sources: Rows) -> None:
    """Copy rows to rows of the same shapes and dtypes."""
    for target, source in zip(targets, sources, strict=True):
        copy(_flat(target), _flat(source))


def _flat(row: NDArray[Any]) -> NDArray[np.uint8]:
    return row.reshape(-1).view(np.uint8)
