"""The best tree: all trees that stay close to the bound, and no others.

At the best price (`mixed_price`) each tree's cost is the bound plus an **excess** ≥ 0, and the
excess of a node is that of its two parts plus the node's own, H(d, l) − H(d, l + 1) −
H(d + 1, l). So if the best tree's excess is at most E, that of each of its parts is too, and for
every (depth, level) only the sizes with an excess ≤ E matter: a few hundred instead of all.
E is tried upwards, from the bound to what the tree of `mixed_near` needs. The tree that turns up
is the best, because one with less excess would have turned up as well; if none does, that of
`mixed_near` is the best.

The sizes of two parts combine as a min-plus convolution, X(n) = min over i of Y(i) + Z(n − i).
Where both terms bend downwards or not at all, moving i to one side or the other does not raise
the sum; so only those i count at which Y bends upwards at i or Z at n − i, or one of them ends.
There are few such kinks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from retrograd.schedules.mixed_price import Priced
from retrograd.schedules.mixed_tree import Node, Tree, grow

_NONE: Final = 1 << 60
"""The excess of a size that no tree within the allowance has; twice it must fit in int64."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Excesses, times the price's scale, of the sizes ``low``, ``low + 1``, …"""

    low: int
    excess: NDArray[np.int64]

    @property
    def high(self) -> int:
        return self.low + len(self.excess) - 1


def exact_tree(priced: Priced, near: Tree) -> Tree:
    """Return a tree with the fewest forward steps: `near`, unless a better one exists.

    The price bounds the forward steps from below; what lies between is searched.
    """
    steps, weight = priced.shape.steps, priced.shape.steps + 1
    bound = priced.price * steps - priced.gain[0][0]
    fewest, more = priced.cost(steps) // weight, 1
    while fewest < near.forward_steps:
        # A tree has at most one window a step.
        last = min(fewest + more, near.forward_steps) - 1
        search = _Search(priced, (last * weight + steps) * priced.scale - bound)
        if search.found():
            return grow(priced.shape, search.split)
        fewest, more = last + 1, 2 * more
    return near


class _Search:
    def __init__(self, priced: Priced, allowance: int) -> None:
        self._priced = priced
        self._allowance = allowance
        self._rows: dict[int, list[_Sizes | None]] = {}
        depths = range(len(priced.shape.windows) - 1, -1, -1)
        for level in range(self._last_level(), -1, -1):
            self._rows[level] = [None] * len(depths)
            for depth in depths:
                self._rows[level][depth] = _join(
                    self._windows(depth, level), self._nodes(depth, level)
                )

    def found(self) -> bool:
        root, steps = self._rows[0][0], self._priced.shape.steps
        return root is not None and root.low <= steps <= root.high

    def split(self, node: Node) -> int:
        """Return the left part's steps; the longest of several that are best."""
        steps, depth, level = node
        left, right = self._rows[level + 1][depth], self._rows[level][depth + 1]
        assert left is not None and right is not None
        steps -= self._priced.shape.taken
        first, last = max(left.low, steps - right.high), min(left.high, steps - right.low)
        total = (
            left.excess[first - left.low : last - left.low + 1][::-1]
            + (right.excess[steps - last - right.low : steps - first - right.low + 1])
        )
        return last - int(total.argmin())

    def _last_level(self) -> int:
        """The first level, a step not being worth its price there, at which nodes exceed."""
        level = len(self._priced.gain) - 1
        while self._priced.forgone(0, level) <= self._allowance:
            level += 1
        return level

    def _windows(self, depth: int, level: int) -> _Sizes | None:
        priced = self._priced
        margin = priced.margin(level)
        rest = priced.window_forgone(0, depth, level)
        low, high = priced.shape.smallest, min(priced.shape.windows[depth], priced.shape.steps)
        if margin > 0:
            low = max(low, -((self._allowance - rest) // margin))
        elif margin < 0:
            high = min(high, (self._allowance - rest) // -margin)
        elif rest > self._allowance:
            return None
        if low > high:
            return None
        sizes = np.arange(high - low + 1, dtype=np.int64)
        return _Sizes(low, rest - margin * low - margin * sizes)

    def _nodes(self, depth: int, level: int) -> _Sizes | None:
        shape = self._priced.shape
        windows, steps, taken = shape.windows, shape.steps, shape.taken
        if level + 1 not in self._rows or depth + 1 == len(windows):
            return None
        left, right = self._rows[level + 1][depth], self._rows[level][depth + 1]
        own = self._priced.forgone(depth, level)
        if left is None or right is None or own > self._allowance:
            return None
        low = max(left.low + right.low + taken, windows[depth] + 1)
        high = min(left.high + right.high + taken, steps)
        if depth == level == 0:
            low = steps
        if low > high:
            return None
        excess = _least_sums(left, right, low - taken, high - taken) + own
        near = np.flatnonzero(excess <= self._allowance)
        if not near.size:
            return None
        excess[excess > self._allowance] = _NONE
        first, last = int(near[0]), int(near[-1])
        return _Sizes(low + first, excess[first : last + 1])


def _join(windows: _Sizes | None, nodes: _Sizes | None) -> _Sizes | None:
    if windows is None or nodes is None:
        return windows or nodes
    excess = np.full(nodes.high - windows.low + 1, _NONE, dtype=np.int64)
    excess[: len(windows.excess)] = windows.excess
    excess[nodes.low - windows.low :] = nodes.excess
    return _Sizes(windows.low, excess)


def _least_sums(left: _Sizes, right: _Sizes, low: int, high: int) -> NDArray[np.int64]:
    """Return min over i of left(i) + right(n − i), for n from `low` to `high`."""
    least = np.full(high - low + 1, 2 * _NONE, dtype=np.int64)
    for one, other in ((left, right), (right, left)):
        for kink in _kinks(one.excess):
            shift = one.low + int(kink)
            first, last = max(low, shift + other.low), min(high, shift + other.high)
            if first <= last:
                part = least[first - low : last - low + 1]
                moved = other.excess[first - shift - other.low : last - shift - other.low + 1]
                np.minimum(part, moved + one.excess[kink], out=part)
    return least


def _kinks(excess: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where the curve bends upwards or ends."""
    bent = np.ones(len(excess), dtype=np.bool_)
    bent[1:-1] = excess[2:] + excess[:-2] > 2 * excess[1:-1]
    return np.flatnonzero(bent & (excess < _NONE))
