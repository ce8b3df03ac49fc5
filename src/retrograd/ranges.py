"""A set of integers kept as ranges, for millions of steps in few of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Ranges:
    """A set of integers; takes and gives half-open ranges, in O(log n) of their number.

    >>> held = Ranges()
    >>> held.add(2, 10)
    >>> held.discard(4, 6)
    >>> len(held), held.count(0, 5), held.first_of(7), held.first_of(4)
    (6, 2, 6, None)
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, item: int) -> bool:
        return self.first_of(item) is not None

    def first_of(self, item: int) -> int | None:
        """The least integer from which all up to ``item`` were added together and are held."""
        at = bisect_right(self._starts, item) - 1
        return self._starts[at] if at >= 0 and item < self._stops[at] else None

    def pairs(self) -> Iterator[tuple[int, int]]:
        """The ranges, in order."""
        return zip(self._starts, self._stops, strict=True)

    def count(self, start: int, stop: int) -> int:
        """How many of ``start`` … ``stop - 1`` are held."""
        first, end = self._overlapping(start, stop)
        pairs = zip(self._starts[first:end], self._stops[first:end], strict=True)
        return sum(min(high, stop) - max(low, start) for low, high in pairs)

    def add(self, start: int, stop: int) -> None:
        """Add ``start`` … ``stop - 1``, of which none may be held."""
        at = bisect_left(self._starts, start)
        self._starts.insert(at, start)
        self._stops.insert(at, stop)
        self._size += stop - start

    def discard(self, start: int, stop: int) -> None:
        """Remove ``start`` … ``stop - 1`` as far as they are held."""
        self._size -= self.count(start, stop)
        first, end = self._overlapping(start, stop)
        if first == end:
            return
        low, high = self._starts[first], self._stops[end - 1]
        rest = [pair for pair in ((low, start), (stop, high)) if pair[0] < pair[1]]
        self._starts[first:end] = [pair[0] for pair in rest]
        self._stops[first:end] = [pair[1] for pair in rest]

    def _overlapping(self, start: int, stop: int) -> tuple[int, int]:
        return bisect_right(self._stops, start), bisect_left(self._starts, stop)
