"""Which parts of a file are in use."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import TypeAlias

Extent: TypeAlias = tuple[int, int]
"""Where a part of a file begins, and how many bytes it has."""


class Extents:
    """Hands out parts of a file in whole pages, the first free ones first.

    What is asked for may come in several parts, so that no free page is ever of no use.

    >>> extents = Extents(budget_nbytes=40, page=10)
    >>> first, second = extents.take(10), extents.take(15)
    >>> extents.give(first)
    >>> extents.take(11), extents.take(1)
    ([(0, 10), (30, 10)], None)
    """

    def __init__(self, budget_nbytes: int | None, page: int) -> None:
        self._page = page
        self._end = 0
        self._budget = None if budget_nbytes is None else budget_nbytes // page * page
        self._free: list[Extent] = []
        self.used_nbytes = 0

    def take(self, nbytes: int) -> list[Extent] | None:
        """Parts that hold so many bytes, or None if the budget has no room for them."""
        wanted = -(-nbytes // self._page) * self._page
        if self._budget is not None and self.used_nbytes + wanted > self._budget:
            return None
        self.used_nbytes += wanted
        taken: list[Extent] = []
        while wanted and self._free:
            start, room = self._free.pop(0)
            if room > wanted:
                self._free.insert(0, (start + wanted, room - wanted))
            taken.append((start, min(room, wanted)))
            wanted -= taken[-1][1]
        if wanted:
            taken.append((self._end, wanted))
            self._end += wanted
        return _joined(taken)

    def give(self, extents: Iterable[Extent]) -> None:
        """Take parts back."""
        for extent in extents:
            insort(self._free, extent)
            self.used_nbytes -= extent[1]
        self._free = _joined(self._free)


def _joined(extents: Iterable[Extent]) -> list[Extent]:
    """The same parts, those that touch as one."""
    joined: list[Extent] = []
    for start, size in extents:
        if joined and sum(joined[-1]) == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + size)
        else:
            joined.append((start, size))
    return joined
