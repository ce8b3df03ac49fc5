"""Where rows lie that are handed out one by one: a memory map in which any free row will do.

A row of a layout that is not contiguous packs all arrays of a state, and no row need lie beside
another. So restarts and records may be given up in any order, as a schedule does that does not
know how many steps there will be, and what is free is used again, the lowest first. Rows of
record-only fields grow down from the far end of the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush

from retrograd.errors import BudgetTooSmall
from retrograd.layout import Layout
from retrograd.placement import Move, Piece, Span


class PackedPlacement:
    """As `retrograd.placement.Placement`, for a layout whose rows are packed.

    Raises
    ------
    BudgetTooSmall
        from any method, when the rows do not fit; ``smallest_nbytes`` is what this action
        would have needed, which is a lower bound of what the schedule needs.
    """

    def __init__(self, layout: Layout, capacity_nbytes: int) -> None:
        self._layout = layout
        self._capacity = capacity_nbytes
        self._states, self._apart = _Rows(), _Rows()
        self._restarts: dict[int, int] = {}
        self._records: dict[int, int] = {}
        self._step = 0
        self._live = self._states.take()
        self.peak_nbytes = 0
        self._account()

    @property
    def step(self) -> int:
        """The step of the live state."""
        return self._step

    @property
    def origin(self) -> int:
        """The physical row at which row 0 would lie, by the live state's position."""
        return self._live - self._step

    def _account(self) -> None:
        nbytes = self._states.end * self._layout.row_nbytes
        nbytes += self._apart.end * self._layout.record_row_nbytes
        if nbytes > self._capacity:
            raise BudgetTooSmall(
                f"the rows of step {self._step} end at byte {nbytes} of an arena of "
                f"{self._capacity} bytes: give at least {nbytes}",
                nbytes,
            )
        self.peak_nbytes = max(self.peak_nbytes, nbytes)

    def advance(self, start: int, stop: int) -> Iterator[Span | Move]:
        """Run to ``stop``; the last state takes the place of the first, unless that is kept."""
        source = self._live
        self.enter(stop)
        yield Span(start, stop, source - start, self.origin, 0, recording=False)

    def enter(self, step: int) -> None:
        """Make room for a live state at ``step``."""
        self._states.give(self._live)
        self._live = self._states.take()
        self._step = step
        self._account()

    def load(self, start: int, stop: int) -> None:
        """Make room for records that come from elsewhere."""
        rows = self._apart if self._layout.records else self._states
        for step in range(start, stop):
            self._records[step] = rows.take()
        self._step = stop
        self._account()

    def record(self, start: int, stop: int) -> Iterator[Span | Move]:
        """Run to ``stop`` and keep every step's record, in one span where the rows allow it."""
        make = self._record_apart if self._layout.records else self._record_state
        spans: list[Span] = []
        for step in range(start, stop):
            span = make(step)
            if spans and self._continue(spans[-1], span):
                spans[-1] = replace(spans[-1], stop=span.stop, target=span.target)
            else:
                spans.append(span)
        yield from spans

    def _record_state(self, step: int) -> Span:
        """Keep the state that the step begins with."""
        source = self._records[step] = self._live
        self._states.hold(source)
        self.enter(step + 1)
        return Span(step, step + 1, source - step, self.origin, 0, recording=True)

    def _record_apart(self, step: int) -> Span:
        """Keep a row of the record-only fields; of the states only the last is wanted."""
        source = self._live
        row = self._records[step] = self._apart.take()
        self.enter(step + 1)
        return Span(step, step + 1, source - step, self.origin, row - step, recording=True)

    def _continue(self, one: Span, other: Span) -> bool:
        """Whether two spans are one, since what they keep lies in the order of the steps."""
        if self._layout.records:
            return one.record_origin == other.record_origin
        return one.origin == one.target == other.origin == other.target

    def save(self, step: int) -> Iterator[Move]:
        """Keep the live state where it lies."""
        self._restarts[step] = self._live
        self._states.hold(self._live)
        return iter(())

    def restore(self, step: int, *, last: bool) -> Iterator[Move]:
        """Go on from a restart where it lies."""
        row = self._restarts[step]
        self._states.hold(row)
        self._states.give(self._live)
        self._step, self._live = step, row
        if last:
            self.drop(step)
        return iter(())

    def drop(self, step: int) -> None:
        """Give up a restart."""
        self._states.give(self._restarts.pop(step))

    def forget(self, start: int, stop: int) -> None:
        """Give up the records of steps ``start`` … ``stop - 1``."""
        rows = self._apart if self._layout.records else self._states
        for step in range(start, stop):
            if step in self._records:
                rows.give(self._records.pop(step))

    def reverse(self, stop: int, start: int, *, keep: bool = False) -> Iterator[Piece]:
        """Where the records of steps ``stop - 1`` … ``start`` lie, latest first."""
        pieces: list[Piece] = []
        for step in range(stop - 1, start - 1, -1):
            origin = self._records.get(step, self._live) - step
            origins = (0, origin) if self._layout.records else (origin, 0)
            if pieces and (pieces[-1].origin, pieces[-1].record_origin) == origins:
                pieces[-1] = replace(pieces[-1], start=step)
            else:
                pieces.append(Piece(step + 1, step, *origins))
        if not keep:
            self.forget(start, stop)
        yield from pieces


class _Rows:
    """Rows in use, each by one or more holders; the lowest free one is taken next."""

    def __init__(self) -> None:
        self._holders: Counter[int] = Counter()
        self._free: list[int] = []
        self._highest: list[int] = []
        self._count = 0

    def take(self) -> int:
        """A free row, with one holder."""
        if self._free:
            row = heappop(self._free)
        else:
            row, self._count = self._count, self._count + 1
        heappush(self._highest, -row)
        self.hold(row)
        return row

    def hold(self, row: int) -> None:
        """Add a holder."""
        self._holders[row] += 1

    def give(self, row: int) -> None:
        """Take a holder away."""
        self._holders[row] -= 1
        if not self._holders[row]:
            del self._holders[row]
            heappush(self._free, row)

    @property
    def held(self) -> int:
        """How many rows are in use."""
        return len(self._holders)

    def is_shared(self, row: int) -> bool:
        """Whether the row has more than one holder."""
        return self._holders[row] > 1

    def move_together(self) -> dict[int, int]:
        """Put the outermost rows in the place of free ones; return where each of them goes."""
        end = self.held
        free = sorted(row for row in self._free if row < end)
        moved = dict(zip(sorted(row for row in self._holders if row >= end), free, strict=True))
        self._holders = Counter({moved.get(row, row): n for row, n in self._holders.items()})
        self._free, self._count = [], end
        self._highest = list(range(1 - end, 1))
        return moved

    @property
    def end(self) -> int:
        """The first row above all that are in use."""
        while self._highest and -self._highest[0] not in self._holders:
            heappop(self._highest)
        return 1 - self._highest[0] if self._highest else 0
