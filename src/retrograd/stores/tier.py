"""What a tier beyond the arena must be able to do, and the simplest one there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Rows = Sequence[NDArray[Any]]
"""The rows of a state, field by field: views of the arena."""


class Store(Protocol):
    """Keeps restarts outside the arena, each under its step.

    A store copies: the rows it is given belong to the arena and are written again afterwards. It
    knows nothing of schedules. Stores may wrap one another, as a compressing one or one that works
    in the background does.
    """

    def save(self, step: int, rows: Rows) -> None:
        """Keep a restart."""
        ...

    def restore(self, step: int, rows: Rows) -> None:
        """Write the restart at ``step`` into rows of the shapes and dtypes that were saved."""
        ...

    def drop(self, step: int) -> None:
        """Give the restart at ``step`` up."""
        ...

    def clear(self) -> None:
        """Give everything up: another run begins."""
        ...


class HeldStore:
    """Copies in ordinary memory, for a tier that is memory of another kind, and for tests."""

    def __init__(self) -> None:
        self._restarts: dict[int, list[NDArray[Any]]] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept."""
        return sum(row.nbytes for rows in self._restarts.values() for row in rows)

    def save(self, step: int, rows: Rows) -> None:
        """Keep a copy."""
        self._restarts[step] = [np.array(row) for row in rows]

    def restore(self, step: int, rows: Rows) -> None:
        """Copy back."""
        for row, kept in zip(rows, self._restarts[step], strict=True):
            row[...] = kept

    def drop(self, step: int) -> None:
        """Forget a copy."""
        del self._restarts[step]

    def clear(self) -> None:
        """Forget all copies."""
        self._restarts.clear()
