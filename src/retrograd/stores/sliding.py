"""An arena in which saved rows may be moved: for restarts and records that come and go.

Where records are rows of their own, restarts grow up from one end of the arena and records down
from the other. A schedule that does not know where it ends gives them up in any order, and what is
free then lies scattered, so that neither side can have what it needs although there is enough.
Then the outermost rows are moved into free ones: a few rows each time that a restart is saved or
has served, and none where there is room.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from retrograd.layout import Layout
from retrograd.placement import Move, Span
from retrograd.placement_packed import PackedPlacement
from retrograd.stores.arena import Arena
from retrograd.stores.parallel_copy import copy


class RecordMove(Move):
    """A `Move` among the rows of record-only fields."""

    __slots__ = ()


class SlidingPlacement(PackedPlacement):
    """As `PackedPlacement`; it takes no more bytes than there are rows held at once."""

    def record(self, start: int, stop: int) -> Iterator[Span | Move]:
        """Run to ``stop`` and keep every step's record, after making room if need be."""
        if self._layout.records and not self._has_room(stop - start):
            yield from self._move_together()
        yield from super().record(start, stop)

    def _has_room(self, records: int) -> bool:
        states = max(self._states.end, self._states.held + self._states.is_shared(self._live))
        apart = max(self._apart.end, self._apart.held + records)
        row_nbytes, record_nbytes = self._layout.row_nbytes, self._layout.record_row_nbytes
        return states * row_nbytes + apart * record_nbytes <= self._capacity

    def _move_together(self) -> Iterator[Move]:
        moved = self._states.move_together()
        self._restarts = {step: moved.get(row, row) for step, row in self._restarts.items()}
        self._live = moved.get(self._live, self._live)
        yield from (Move(source, target, 1) for source, target in moved.items())
        moved = self._apart.move_together()
        self._records = {step: moved.get(row, row) for step, row in self._records.items()}
        yield from (RecordMove(source, target, 1) for source, target in moved.items())


class SlidingArena(Arena):
    """As `Arena`, for packed rows of which nobody knows beforehand how many there will be.

    Its memory is taken page by page as rows are first written. A saved row may be moved by the
    next call that runs the forward; until then its views are good.
    """

    def __init__(self, layout: Layout, nbytes: int) -> None:
        self.layout = layout
        self.nbytes = nbytes
        self.moves = 0
        self._bytes = np.zeros(nbytes, dtype=np.uint8)
        self._regions = self._place_regions()
        self.reset()

    def reset(self) -> None:
        """Forget everything saved; state 0 is live again, its rows not yet written."""
        self._placement = SlidingPlacement(self.layout, self.nbytes)

    def _move(self, move: Move) -> None:
        self.moves += 1
        copy(self._row_bytes(move, move.target), self._row_bytes(move, move.source))

    def _row_bytes(self, move: Move, row: int) -> NDArray[np.uint8]:
        if isinstance(move, RecordMove):
            width = self.layout.record_row_nbytes
            return self._bytes[self.nbytes - (row + 1) * width :][:width]
        width = self.layout.row_nbytes
        return self._bytes[row * width :][:width]
