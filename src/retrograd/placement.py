"""Where rows lie: the memory map of an arena, as integers only.

A :class:`Placement` follows the actions of a schedule and says where each row goes. It moves no
bytes; :class:`retrograd.stores.arena.Arena` does that, and :mod:`retrograd.verify` replays a
schedule on a placement alone to know the bytes it takes. Both therefore agree by construction.

The rows of a contiguous layout, which compiled code works on, form one stack. Restarts and records
protect the rows they lie in, from the bottom up to ``top``; the live state lies at or above the
rows it was restored to, and a step writes the next row above it. A restart is saved by protecting
the live rows where they are, and restored by going on from them. Rows that are handed out one by
one have a map of their own, :mod:`retrograd.placement_packed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from retrograd.errors import BudgetTooSmall
from retrograd.layout import Layout


@dataclass(frozen=True, slots=True)
class Move:
    """Copy ``count`` rows from physical row ``source`` to physical row ``target``.

    The target lies below the source, or else so far above that the two do not overlap.
    """

    source: int
    target: int
    count: int


@dataclass(frozen=True, slots=True)
class Span:
    """Forward steps ``start`` … ``stop - 1``, and where their rows lie.

    Row ``r`` lies at physical row ``origin + r``. The state at ``stop`` goes to rows counted
    from ``target``, which differs from ``origin`` only where no row in between is wanted. The
    record-only row of step ``k`` is physical record row ``record_origin + k``.
    """

    start: int
    stop: int
    origin: int
    target: int
    record_origin: int
    recording: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """Reverse steps ``stop - 1`` … ``start`` whose rows share one origin."""

    stop: int
    start: int
    origin: int
    record_origin: int


@dataclass(frozen=True, slots=True)
class _Kept:
    """A restart (``stop is None``) or the records of ``start`` … ``stop - 1``, and their rows."""

    start: int
    stop: int | None
    origin: int
    slot: int = -1


class Placement:
    """Follows a schedule and says where each row of a contiguous layout lies.

    All is within ``capacity_nbytes``.

    Raises
    ------
    BudgetTooSmall
        from any method, when the rows do not fit; ``smallest_nbytes`` is what this action
        would have needed, which is a lower bound of what the schedule needs.
    """

    def __init__(self, layout: Layout, capacity_nbytes: int) -> None:
        self._layout = layout
        self._capacity = capacity_nbytes
        self._kept: list[_Kept] = []
        self._step = 0
        self._origin = 0
        self.peak_nbytes = 0
        self.copied_nbytes = 0
        """Bytes of held arrays that were copied to and from slots."""
        self._use(layout.depth)

    @property
    def step(self) -> int:
        """The step of the live state."""
        return self._step

    @property
    def origin(self) -> int:
        """The physical row at which row 0 would lie, by the live state's position."""
        return self._origin

    def _top(self) -> int:
        """The first physical row above every protected one."""
        return max(map(self._end, self._kept), default=0)

    def _end(self, kept: _Kept) -> int:
        if kept.stop is None:
            return kept.origin + kept.start + self._layout.depth
        return kept.origin + kept.stop - 1 + self._layout.record_rows[1]

    def _use(self, end: int) -> None:
        """Account for the rows below ``end``."""
        nbytes = end * self._layout.row_nbytes + self._slots_nbytes()
        if nbytes > self._capacity:
            raise BudgetTooSmall(
                f"the rows of step {self._step} end at byte {nbytes} of an arena of "
                f"{self._capacity} bytes: give at least {nbytes}",
                nbytes,
            )
        self.peak_nbytes = max(self.peak_nbytes, nbytes)

    def _slots_nbytes(self) -> int:
        """Bytes at the far end, down to the lowest slot in use."""
        if not self._layout.held:
            return 0
        return (1 + max((kept.slot for kept in self._kept), default=-1)) * self._layout.held_nbytes

    def _rows(self) -> int:
        """How many rows there is room for."""
        return (self._capacity - self._slots_nbytes()) // self._layout.row_nbytes

    def advance(self, start: int, stop: int) -> Iterator[Span | Move]:
        """Run to ``stop`` without keeping anything, in the free rows above the stack."""
        depth = self._layout.depth
        rows = self._rows()
        while start < stop:
            room = rows - (self._origin + start + depth)
            if room <= 0:
                if self._origin + start <= self._top():
                    self._use(self._origin + start + depth + 1)
                yield self._slide()
                continue
            end = min(stop, start + room)
            yield self._run(start, end, recording=False)
            start = end

    def _run(self, start: int, stop: int, *, recording: bool) -> Span:
        self._step = stop
        self._use(self._origin + stop + self._layout.depth)
        return Span(start, stop, self._origin, self._origin, 0, recording)

    def _slide(self) -> Move:
        """Bring the live rows down to the top of the stack."""
        source, target = self._origin + self._step, self._top()
        self._origin = target - self._step
        return Move(source, target, self._layout.depth)

    def record(self, start: int, stop: int) -> Iterator[Span | Move]:
        """Run to ``stop`` and protect the rows of every step's record."""
        ahead = start
        unused = self._layout.record_rows[0]
        is_tight = not self._fits(stop) and self._origin + start + unused > self._top()
        if self._origin + start > self._top() or is_tight:
            # The rows below the first record are dead once the steps that read them have run:
            # run those first, so that the move brings the first record down to the top.
            ahead = min(start + unused, stop)
            if not self._fits(ahead) and self._origin + start > self._top():
                yield self._slide()
            if self._fits(ahead):
                if start < ahead:
                    yield self._run(start, ahead, recording=True)
            else:
                ahead = start
            if self._origin + ahead > self._top():
                yield self._slide()
        self._kept.append(_Kept(start, stop, self._origin))
        if ahead < stop:
            yield self._run(ahead, stop, recording=True)

    def _fits(self, stop: int) -> bool:
        return self._origin + stop + self._layout.depth <= self._rows()

    def save(self, step: int) -> Iterator[Move]:
        """Protect the live rows as a restart, after bringing them down to the top."""
        if self._origin + step > self._top():
            yield self._slide()
        self._kept.append(_Kept(step, None, self._origin, self._take_slot()))
        self._use(self._origin + step + self._layout.depth)

    def _take_slot(self) -> int:
        if not self._layout.held:
            return -1
        self.copied_nbytes += self._layout.held_nbytes
        taken = self.slots()
        return next(slot for slot in range(len(self._kept) + 1) if slot not in taken)

    def slots(self) -> set[int]:
        """The slots in use, counted from the far end."""
        return {kept.slot for kept in self._kept if kept.slot >= 0}

    def slot(self, step: int) -> int:
        """The slot of the restart at ``step``, counted from the far end."""
        return self._restart(step).slot

    def _restart(self, step: int) -> _Kept:
        return next(k for k in reversed(self._kept) if k.stop is None and k.start == step)

    def restore(self, step: int, *, last: bool) -> Iterator[Move]:
        """Go on from the rows of the restart at ``step``, or above whatever lies on top of it."""
        kept = self._restart(step)
        if self._layout.held:
            self.copied_nbytes += self._layout.held_nbytes
        self._step, self._origin = step, kept.origin
        if last:
            self._kept.remove(kept)
        if self._end(kept) < self._top():
            source = kept.origin + step
            self.enter(step)
            yield Move(source, self._origin + step, self._layout.depth)

    def enter(self, step: int) -> None:
        """Make room on top of the stack for a state at ``step`` that comes from elsewhere."""
        self._step, self._origin = step, self._top() - step
        self._use(self._top() + self._layout.depth)

    def load(self, start: int, stop: int) -> None:
        """Make room on top of the stack for records that come from elsewhere; no state is live."""
        first, last = self._layout.record_rows
        origin = self._top() - (start + first)
        self._kept.append(_Kept(start, stop, origin))
        self._step, self._origin = stop, origin
        self._use(origin + stop - 1 + last)

    def drop(self, step: int) -> None:
        """Stop protecting the restart at ``step``."""
        self._kept = [k for k in self._kept if k.stop is not None or k.start != step]

    def forget(self, start: int, stop: int) -> None:
        """Stop protecting the records of steps ``start`` … ``stop - 1``."""
        kept = []
        for item in self._kept:
            if item.stop is None or item.stop <= start or item.start >= stop:
                kept.append(item)
                continue
            if item.start < start:
                kept.append(replace(item, stop=start))
            if item.stop > stop:
                kept.append(replace(item, start=stop))
        self._kept = kept

    def reverse(self, stop: int, start: int, *, keep: bool = False) -> Iterator[Piece]:
        """Where the records of steps ``stop - 1`` … ``start`` lie, latest first."""
        pieces: list[Piece] = []
        at = stop
        while at > start:
            found = self._holder(at - 1)
            low = max(found.start, start)
            if pieces and found.origin == pieces[-1].origin:
                pieces[-1] = replace(pieces[-1], start=low)
            else:
                pieces.append(Piece(at, low, found.origin, 0))
            at = low
        if not keep:
            self.forget(start, stop)
        yield from pieces

    def _holder(self, step: int) -> _Kept:
        """What holds the record of ``step``: kept records, or else the live state."""
        for kept in reversed(self._kept):
            if kept.stop is not None and kept.start <= step < kept.stop:
                return kept
        return _Kept(step, step + 1, self._origin)
