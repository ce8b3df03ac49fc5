"""Splits long calls, so that progress moves and Ctrl-C is heard, without changing a result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from retrograd.errors import InvalidArgument

_SLOWEST_BYTES_PER_SECOND: Final = 2e8
"""Assumed before the first call is timed: no kernel seen so far is slower."""


class Pace:
    """Learns how many steps take about ``seconds`` and cuts ranges of steps accordingly.

    Parameters
    ----------
    seconds : the longest that one call should take.
    row_nbytes : bytes that a step writes, for a first guess on the safe side.
    """

    def __init__(self, seconds: float, row_nbytes: int) -> None:
        if not seconds > 0:
            raise InvalidArgument(f"calls of {seconds!r} s: give a positive number of seconds")
        self._seconds = seconds
        self._limit = max(1, int(seconds * _SLOWEST_BYTES_PER_SECOND / max(1, row_nbytes)))

    def learn(self, steps: int, seconds: float) -> None:
        """Take a timed call into account."""
        if seconds > 0:
            self._limit = max(1, min(int(self._seconds * steps / seconds), 8 * self._limit))

    def up(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut ``start`` … ``stop`` into ranges in forward order."""
        while start < stop:
            end = min(stop, start + self._limit)
            yield start, end
            start = end

    def down(self, stop: int, start: int) -> Iterator[tuple[int, int]]:
        """Cut ``start`` … ``stop`` into ranges in reverse order, each as (stop, start)."""
        while stop > start:
            end = max(start, stop - self._limit)
            yield stop, end
            stop = end
