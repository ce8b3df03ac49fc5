"""The arena: one allocation that holds restarts, records and the live state as a stack of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.layout import ALIGNMENT, Field, Layout
from retrograd.placement import Move, Placement, Span
from retrograd.placements import placement_of
from retrograd.stores.pages import zeros
from retrograd.stores.parallel_copy import copy_pieces, copy_rows


@dataclass(frozen=True, slots=True)
class Window:
    """A handle on rows: where in the arena row ``r`` of each field lies.

    Only the rows that the action at hand speaks of are there; any other row number points at
    someone else's rows or outside the arena.
    """

    arena: Arena
    origin: int
    record_origin: int = 0

    def address(self, field: int) -> int:
        """The address of row 0 of a contiguous state field, which may lie outside the arena."""
        return self.arena.address(field) + self.origin * self.arena.layout.state[field].nbytes

    def row(self, field: int, row: int) -> NDArray[Any]:
        """Row ``row`` of a state field, as a view."""
        return self.arena.row(field, self.origin + row)

    def state(self, step: int) -> list[NDArray[Any]]:
        """The rows of the state at a step, field by field."""
        layout, rows = self.arena.layout, range(step, step + self.arena.layout.depth)
        return [self.row(field, row) for field in range(len(layout.state)) for row in rows]

    def record(self, field: int, step: int) -> NDArray[Any]:
        """The row that step ``step`` makes of a record-only field, as a view."""
        return self.arena.record_row(field, self.record_origin + step)


@dataclass(frozen=True, slots=True)
class ForwardCall:
    """Forward steps ``start`` … ``stop - 1`` with the rows they read and write.

    ``source`` holds the state at ``start``. With ``recording``, or in a contiguous layout,
    ``target`` is the same window and takes every row in between; otherwise it takes the state
    at ``stop`` alone and may lie over the source.
    """

    start: int
    stop: int
    source: Window
    target: Window
    recording: bool

    def part(self, begin: int, end: int) -> ForwardCall:
        """The steps ``begin`` … ``end - 1`` of this call, to be made after those before them."""
        if self.source.origin == self.target.origin:
            return replace(self, start=begin, stop=end)
        source = self.source if begin == self.start else self._ending(begin)
        return ForwardCall(begin, end, source, self._ending(end), self.recording)

    def _ending(self, step: int) -> Window:
        """The target, but its last row takes the state at ``step``."""
        return replace(self.target, origin=self.target.origin + self.stop - step)


@dataclass(frozen=True, slots=True)
class ReverseCall:
    """Reverse steps ``stop - 1`` … ``start`` with the window that holds their records."""

    stop: int
    start: int
    window: Window


def _as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


class Arena:
    """Rows of a layout in one private allocation, kept from gradient to gradient.

    Parameters
    ----------
    layout : the fields and which rows are restarts and records.
    nbytes : bytes of the allocation; a plan's ``arena_nbytes``.

    Rows are zero when the arena is made. :meth:`reset` forgets what is saved and leaves the
    bytes, so that memory is touched only once. Saved rows are never written: each method hands
    out windows that the placement proved free.
    """

    def __init__(self, layout: Layout, nbytes: int) -> None:
        self.layout = layout
        self.nbytes = nbytes
        self._bytes = zeros(nbytes + ALIGNMENT * len(layout.state) * bool(layout.held))
        self._regions = self._place_regions()
        self._placement = placement_of(layout, nbytes)
        self.moves = 0
        """How often live rows had to be copied to another place so far."""

    def _place_regions(self) -> tuple[int, ...]:
        """Byte offset of each state field: its own region if contiguous, else within a row."""
        if not self.layout.contiguous:
            return self.layout.offsets(self.layout.state)
        rows = self.nbytes // self.layout.row_nbytes
        offsets, at = {}, 0
        # Wide dtypes first keeps every region aligned to its own items without padding.
        for field in sorted(self.layout.state, key=lambda field: -field.dtype.itemsize):
            offsets[field.name], at = at, at + rows * field.nbytes
            if self.layout.held:
                end = offsets[field.name] + self.nbytes * field.nbytes // self.layout.row_nbytes
                at = -(-end // ALIGNMENT) * ALIGNMENT
        return tuple(offsets[field.name] for field in self.layout.state)

    def reset(self) -> None:
        """Forget everything saved; state 0 is live again, its rows not yet written."""
        if isinstance(self._placement, Placement):
            for slot in self._placement.slots():
                self._clear(slot)
        self._placement = placement_of(self.layout, self.nbytes)

    def address(self, field: int) -> int:
        """The address of the region of a state field."""
        return self._bytes.ctypes.data + self._regions[field]

    def row(self, field: int, physical: int) -> NDArray[Any]:
        """A physical row of a state field, as a view."""
        spec = self.layout.state[field]
        self._check(spec, physical, self.layout.row_nbytes)
        stride = spec.nbytes if self.layout.contiguous else self.layout.row_nbytes
        return self._view(spec, self._regions[field] + physical * stride)

    def record_row(self, field: int, physical: int) -> NDArray[Any]:
        """A physical row of a record-only field, as a view; these grow down from the end."""
        offset = self.layout.offsets(self.layout.records)[field]
        spec = self.layout.records[field]
        self._check(spec, physical, self.layout.record_row_nbytes)
        start = self.nbytes - (physical + 1) * self.layout.record_row_nbytes
        return self._view(spec, start + offset)

    def _check(self, field: Field, physical: int, row_nbytes: int) -> None:
        rows = self.nbytes // row_nbytes
        if not 0 <= physical < rows:
            raise IndexError(f"row {physical} of {field.name!r}: the arena has {rows} rows")

    def _view(self, field: Field, start: int) -> NDArray[Any]:
        return self._bytes[start : start + field.nbytes].view(field.dtype).reshape(field.shape)

    @property
    def step(self) -> int:
        """The step of the live state."""
        return self._placement.step

    def live(self) -> Window:
        """The window whose rows ``step`` … hold the live state."""
        return Window(self, self._placement.origin)

    def advance(self, start: int, stop: int) -> Iterator[ForwardCall]:
        """Calls that run the forward from ``start`` to ``stop`` and keep nothing."""
        return self._calls(self._placement.advance(start, stop))

    def record(self, start: int, stop: int) -> Iterator[ForwardCall]:
        """Calls that run the forward and keep the record of every step."""
        return self._calls(self._placement.record(start, stop))

    def _calls(self, placed: Iterator[Span | Move]) -> Iterator[ForwardCall]:
        for item in placed:
            if isinstance(item, Move):
                self._move(item)
                continue
            source = Window(self, item.origin, item.record_origin)
            target = Window(self, item.target, item.record_origin)
            yield ForwardCall(item.start, item.stop, source, target, item.recording)

    def save(self, step: int, held: Sequence[NDArray[Any]] = ()) -> None:
        """Make the live state a restart where it lies; of held arrays, take a copy."""
        for move in self._placement.save(step):
            self._move(move)
        if held:
            copy_pieces(self._copies(step), [_as_bytes(array) for array in held])

    def restore(self, step: int, *, last: bool, held: Sequence[NDArray[Any]] = ()) -> None:
        """Go on from the rows of a restart; with ``last`` they may be written afterwards."""
        if held:
            copy_pieces([_as_bytes(array) for array in held], self._copies(step))
            if last:
                self._clear(self._slot_number(step))
        for move in self._placement.restore(step, last=last):
            self._move(move)

    def _copies(self, step: int) -> list[NDArray[np.uint8]]:
        """Where a restart's copies of held arrays lie."""
        return self._slot(self._slot_number(step))

    def _slot_number(self, step: int) -> int:
        assert isinstance(self._placement, Placement)
        return self._placement.slot(step)

    def _clear(self, slot: int) -> None:
        """Leave zeros where rows may follow: what no step writes of a row, as its halo, is zero."""
        for piece in self._slot(slot):
            piece[:] = 0

    def _slot(self, slot: int) -> list[NDArray[np.uint8]]:
        """A slot: a piece of each region, counted from its far end."""
        layout, below, pieces = self.layout, slot + 1, []
        for field, share, region in zip(
            layout.state, layout.held_shares, self._regions, strict=True
        ):
            end = region + self.nbytes * field.nbytes // layout.row_nbytes
            start = end - below * share
            pieces.append(self._bytes[start : start + share])
        return pieces

    def enter(self, step: int) -> Window:
        """Room for a state at ``step`` that comes from outside the arena; it becomes live."""
        self._placement.enter(step)
        return self.live()

    def load(self, start: int, stop: int) -> list[NDArray[Any]]:
        """Room for records that come from outside the arena, as `records` gives it."""
        self._placement.load(start, stop)
        return self.records(start, stop)

    def records(self, start: int, stop: int) -> list[NDArray[Any]]:
        """What the adjoint of the steps reads: a block a field if contiguous, else step by step."""
        calls = list(self.reverse(stop, start, keep=True))
        return [rows for call in reversed(calls) for rows in self._of(call)]

    def _of(self, call: ReverseCall) -> Iterator[NDArray[Any]]:
        layout, window, steps = self.layout, call.window, range(call.start, call.stop)
        if layout.contiguous:
            first, last = call.start + layout.record_rows[0], call.stop - 1 + layout.record_rows[1]
            for field in range(len(layout.state)):
                yield self._block(field, window.origin + first, last - first)
        elif layout.records:
            for step in steps:
                yield from (window.record(field, step) for field in range(len(layout.records)))
        else:
            for step in steps:
                yield from (window.row(field, step) for field in range(len(layout.state)))

    def _block(self, field: int, physical: int, count: int) -> NDArray[Any]:
        """Adjacent rows of a contiguous field, as one array."""
        spec = self.layout.state[field]
        start = self._regions[field] + physical * spec.nbytes
        rows = self._bytes[start : start + count * spec.nbytes]
        return rows.view(spec.dtype).reshape(count, *spec.shape)

    def drop(self, step: int) -> None:
        """Give up a restart."""
        if self.layout.held:
            self._clear(self._slot_number(step))
        self._placement.drop(step)

    def forget(self, start: int, stop: int) -> None:
        """Give up records without using them."""
        self._placement.forget(start, stop)

    def reverse(self, stop: int, start: int, *, keep: bool = False) -> Iterator[ReverseCall]:
        """Calls that reverse the steps; one call unless their rows lie apart."""
        for piece in self._placement.reverse(stop, start, keep=keep):
            window = Window(self, piece.origin, piece.record_origin)
            yield ReverseCall(piece.stop, piece.start, window)

    def _move(self, move: Move) -> None:
        self.moves += 1
        for region, field in zip(self._regions, self.layout.state, strict=True):
            rows = self._bytes[region:]
            copy_rows(rows, move.source, move.target, move.count, field.nbytes)
