"""What a tier beyond the arena must be able to do, and the simplest one there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from retrograd.errors import StoreFull
from retrograd.sizes import format_nbytes

Rows = Sequence[NDArray[Any]]
"""The rows of an item, field by field: C-contiguous arrays, views of the arena."""


@dataclass(frozen=True, slots=True)
class Item:
    """What a store keeps under one name: a restart, or the records of adjacent steps.

    Attributes
    ----------
    start : the step of a restart, or the first step of the records.
    stop : the step after the last one of the records; None for a restart.
    """

    start: int
    stop: int | None = None

    def __str__(self) -> str:
        if self.stop is None:
            return f"the restart at step {self.start}"
        return f"the records of steps {self.start} … {self.stop - 1}"


class Store(Protocol):
    """Keeps items outside the arena.

    A store copies: the rows it is given belong to the arena and are written again afterwards. It
    knows nothing of schedules. Stores wrap one another, as a compressing one or one that works in
    the background does; a store of its own is used by one thread at a time.
    """

    def save(self, item: Item, rows: Rows) -> None:
        """Keep an item.

        Raises
        ------
        StoreFull
            if there is no room for it; what was kept before is still there.
        StoreFailed
            if it cannot be written for another reason.
        """
        ...

    def restore(self, item: Item, rows: Rows) -> None:
        """Write an item into rows of the shapes and dtypes that were saved.

        Raises
        ------
        ItemLost
            if it cannot be read back as it was saved; the store has given it up then.
        """
        ...

    def drop(self, item: Item) -> None:
        """Give an item up."""
        ...

    def clear(self) -> None:
        """Give everything up: another run begins."""
        ...

    def close(self) -> None:
        """Give everything up for good: files, threads and memory. May be called twice."""
        ...


class HeldStore:
    """Copies in ordinary memory, for a tier that is memory of another kind, and for tests.

    Parameters
    ----------
    budget_nbytes : the most bytes that may be kept; None for as many as there are.
    """

    def __init__(self, budget_nbytes: int | None = None) -> None:
        self.budget_nbytes = budget_nbytes
        self.nbytes = 0
        """Bytes of what is kept."""
        self._items: dict[Item, list[NDArray[Any]]] = {}

    def save(self, item: Item, rows: Rows) -> None:
        """Keep a copy."""
        nbytes = _nbytes(rows)
        if self.budget_nbytes is not None and self.nbytes + nbytes > self.budget_nbytes:
            raise StoreFull(
                f"{item} takes {format_nbytes(nbytes)}, and of {format_nbytes(self.budget_nbytes)} "
                f"{format_nbytes(self.nbytes)} are in use",
                item,
            )
        self._items[item] = [np.array(row) for row in rows]
        self.nbytes += nbytes

    def restore(self, item: Item, rows: Rows) -> None:
        """Copy back."""
        for row, kept in zip(rows, self._items[item], strict=True):
            row[...] = kept

    def drop(self, item: Item) -> None:
        """Forget a copy."""
        self.nbytes -= _nbytes(self._items.pop(item))

    def clear(self) -> None:
        """Forget all copies."""
        self._items.clear()
        self.nbytes = 0

    def close(self) -> None:
        """Forget all copies."""
        self.clear()


def _nbytes(rows: Rows) -> int:
    return sum(row.nbytes for row in rows)
