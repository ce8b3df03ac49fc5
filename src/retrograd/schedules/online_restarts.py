"""Where restarts are saved while the number of steps is still unknown.

Let C(d) be the most steps recorded together beside d restarts, and B(d, r) the most steps that
can be reversed beside d restarts with no step run more than r times::

    B(d, 1) = C(d)        B(d, r) = B(d, r − 1) + B(d + 1, r) = Σ over j ≥ d of B(j, r − 1)

With C = 1 for up to s restarts, B(0, r + 1) = C(s + r, s) is Griewank & Walther's β(s, r).

**The rule.** A gap is what lies between a restart and the next one; it is reversed beside the
restarts before it. While N ≤ B(0, r), the gap beside j restarts has at most B(j, r − 1) steps: a
restart is saved when the last gap has that many. As long as r ≤ 2 there is memory for it. From
then on it takes the place of the one whose loss costs least, leaving two kinds alone:

* the **anchors** B(0, r − 1), B(0, r − 1) + B(1, r − 1), … which are saved in any case;
* those between two gaps that together have more steps than a gap may have there.

**One can always be found** unless there are anchors alone. The first restart that is none lies
between an anchor and the next one, with anchors alone before it; so what lies around it is part of
a gap that is allowed. Losing a restart moves the gaps behind it to fewer restarts, where more is
allowed. With anchors alone, B(0, r) steps are full when the next restart is due, and r grows.

**So no step runs more than r times**: once before the end is known, and r − 1 times in its gap.

**What a loss costs** is measured by the least forward steps that g steps beside d restarts take,
g + Σ over i ≥ 1 of max(0, g − B(d, i)): at most B(d, i) steps run no more than i times.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from retrograd.schedules.mixed_tree import Shape, make_shape

_Counts: TypeAlias = NDArray[np.int64]

_ENDLESS: Final = 1 << 40
"""Reaches are cut here: a sum of a million of them still fits in int64."""

_NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Room:
    """What restarts and records take, and the memory there is for them."""

    restart_units: int
    record_units: int
    memory_units: int
    record_in_state: bool
    free_start: bool

    @property
    def most_restarts(self) -> int:
        """Restarts that fit, a free one at the start included."""
        return self.memory_units // self.restart_units + self.free_start

    def window(self, restarts: int) -> int:
        """C: the most steps recorded together beside so many restarts, the newest being free."""
        return self._beside(restarts) // self.record_units + 1

    def windows(self) -> _Counts:
        """C for every number of restarts from 0 on."""
        return np.array([self.window(restarts) for restarts in range(self.most_restarts + 1)])

    def shape(self, steps: int, restarts: int) -> Shape:
        """What a schedule of a gap beside so many restarts may hold."""
        sizes = self.restart_units, self.record_units, self._beside(restarts)
        return make_shape(steps, sizes, self.record_in_state, self.free_start and not restarts)

    def _beside(self, restarts: int) -> int:
        paid = max(0, restarts - self.free_start)
        return self.memory_units - paid * self.restart_units


def saves(room: Room) -> Iterator[tuple[int, int | None]]:
    """Yield the steps after 0 at which a restart is saved, each with the one that it replaces."""
    held = array("q", [0])
    while len(held) < room.most_restarts:
        held.append(held[-1] + room.window(len(held) - 1))
        yield held[-1], None
    if len(held) > 1:
        yield from _replacements(room, held)


@lru_cache(maxsize=8)
def held_after(room: Room, steps: int) -> tuple[int, ...]:
    """Return the restarts that are held when the forward has made so many steps."""
    held = [0]
    for step, lost in saves(room):
        if step >= steps:
            break
        if lost is not None:
            held.remove(lost)
        held.append(step)
    return tuple(held)


def _replacements(room: Room, held: array[int]) -> Iterator[tuple[int, int]]:
    reaches = [room.windows()]
    while True:
        reaches.append(np.minimum(np.cumsum(reaches[-1][::-1])[::-1], _ENDLESS))
        limits = reaches[-1]
        anchors = list(accumulate(limits[: len(held) - 1].tolist(), initial=0))
        kept, ahead = set(anchors), iter(anchors[1:])
        anchor = next(ahead)
        while True:
            step = min(anchor, held[-1] + int(limits[len(held) - 1]))
            held.append(step)
            at = _cheapest(held, kept, reaches)
            if at is None:
                held.pop()
                break
            yield step, held.pop(at)
            if step == anchor:
                anchor = next(ahead, _NEVER)


def _cheapest(held: array[int], kept: set[int], reaches: list[_Counts]) -> int | None:
    """Return the position of the restart to give up for the last one; the latest if several tie."""
    steps = np.frombuffer(held, dtype=np.int64)
    gaps = steps[1:] - steps[:-1]
    merged = gaps[:-1] + gaps[1:]
    cost = _cost(merged, 0, reaches)
    cost[1:] += np.cumsum(_cost(gaps, 0, reaches))[:-2]  # of the gaps before the merged one
    cost[:-1] += np.cumsum(_cost(gaps[2:], 1, reaches)[::-1])[::-1]  # of those behind it
    cost[merged > reaches[-1][: len(merged)]] = _NEVER
    while True:
        at = len(cost) - 1 - int(np.argmin(cost[::-1]))
        if cost[at] == _NEVER:
            return None
        if held[at + 1] not in kept:
            return at + 1
        cost[at] = _NEVER


def _cost(gaps: _Counts, beside: int, reaches: list[_Counts]) -> _Counts:
    """Return the least recomputation of gaps beside so many restarts, one more for each next gap.

    What steps cost that run no more than once is left out, as is the reach of the gaps that are
    allowed: they are within it.
    """
    cost = np.zeros_like(gaps)
    for reach in reaches[:-1]:
        cost += np.maximum(0, gaps - reach[beside : beside + len(gaps)])
    return cost
