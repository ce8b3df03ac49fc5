"""A bound on every tree at once: pay each step the same price.

Pay `price` for each step that a tree reverses, and let it pay its cost. What a tree at
(depth d, level l) can earn at most, over all sizes, is::

    H(d, l) = max( leaf:   max over w ≤ C(d) of  price·w − cost(w, l),
                   node:   H(d, l + 1) + H(d + 1, l)  and what its own steps earn )

since at the right price the two parts of a node need not know of each other. No tree of n steps
costs less than price·n − H(0, 0): Lagrange's bound, largest at the price where n lies between
the least and the most steps that earn H. It holds for every part of a tree as well.

The cost is ``(steps + 1)·forward + windows``: the fewest forward steps and, among those trees,
the fewest windows, thus the fewest restores. Prices are fractions; all is kept times `scale`, in
whole numbers, so nothing is rounded.

Reference: Everett 1963, doi 10.1287/opre.11.3.399.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from retrograd.schedules.mixed_tree import Shape


@dataclass(frozen=True, slots=True)
class Priced:
    """What the parts of a tree earn at a price, indexed ``[level][depth]``.

    Attributes
    ----------
    price, scale : the price of a step is price/scale.
    unit : the cost of a forward step, times scale.
    bonus : what is taken off a window's cost, times scale.
    gain : H, times scale; levels beyond the last earn by the smallest window, see `earned`.
    least, most : the fewest and the most steps that earn H.
    """

    shape: Shape
    price: int
    scale: int
    unit: int
    bonus: int
    gain: list[list[int]]
    least: list[list[int]]
    most: list[list[int]]

    def cost(self, steps: int) -> int:
        """The cost of `steps` steps if they earn H, and a lower bound on it if not."""
        return -((self.gain[0][0] - self.price * steps) // self.scale)

    def margin(self, level: int) -> int:
        """What one more step in a window at `level` earns, times scale."""
        return self.price - (level + 1) * self.unit

    def earned(self, depth: int, level: int) -> int:
        """H, times scale."""
        if level < len(self.gain):
            return self.gain[level][depth]
        return self.margin(level) * self.shape.smallest + self.bonus

    def forgone(self, depth: int, level: int) -> int:
        """The excess of a node itself: H less what it and its parts earn at most, times scale."""
        parts = self.earned(depth, level + 1) + self.earned(depth + 1, level)
        return self.earned(depth, level) - parts - self.shape.taken * self.margin(level)

    def window_forgone(self, steps: int, depth: int, level: int) -> int:
        """The excess of a window of `steps` steps: H less what it earns, times scale."""
        return self.earned(depth, level) - self.bonus - self.margin(level) * steps


def at_price(shape: Shape, price: int, scale: int) -> Priced:
    """Return what can be earned, in O(depths · levels).

    At the first level where a step costs its price or more, the smallest window earns most: k ≥ 2
    windows lie at this level once and at higher ones k − 1 times, and each costs at least
    1 − z forward steps more than it is paid, or is a window more than needed.
    """
    weight, rows = shape.steps + 1, len(shape.windows)
    unit, bonus = weight * scale, (shape.spared * weight - 1) * scale
    last = max(0, -((unit - price) // unit))
    priced = Priced(shape, price, scale, unit, bonus, [], [], [])
    level_margin = priced.margin(last)
    gain = [level_margin * shape.smallest + bonus] * rows
    least = [shape.smallest] * rows
    most = list(shape.windows) if level_margin == 0 else least
    for level in range(last, -1, -1):
        if level < last:
            gain, least, most = _one_level_up(priced, priced.margin(level), (gain, least, most))
        priced.gain.append(gain)
        priced.least.append(least)
        priced.most.append(most)
    for table in (priced.gain, priced.least, priced.most):
        table.reverse()
    return priced


def _one_level_up(
    priced: Priced, margin: int, above: tuple[list[int], list[int], list[int]]
) -> tuple[list[int], list[int], list[int]]:
    windows, taken = priced.shape.windows, priced.shape.taken
    gain = [margin * window + priced.bonus for window in windows]
    least, most = list(windows), list(windows)
    for depth in range(len(windows) - 2, -1, -1):
        split = above[0][depth] + gain[depth + 1] + taken * margin
        if split < gain[depth]:
            continue
        most[depth] = above[2][depth] + most[depth + 1] + taken
        if split > gain[depth]:
            gain[depth] = split
            least[depth] = above[1][depth] + least[depth + 1] + taken
    return gain, least, most


def best_price(shape: Shape) -> Priced:
    """Return what is earned at the price at which ``shape.steps`` is among the best sizes.

    A chord through a smaller and a larger best size gives the next price; each time one of the
    two comes closer, so the search ends.
    """
    price, scale = 2 * (shape.steps + 1), 1
    below = (1, (shape.steps + 1) * (1 - shape.spared) + 1)
    above: tuple[int, int] | None = None
    while True:
        priced = at_price(shape, price, scale)
        least, most = priced.least[0][0], priced.most[0][0]
        if least <= shape.steps <= most:
            return priced
        if most < shape.steps:
            below = (most, priced.cost(most))
        else:
            above = (least, priced.cost(least))
        if above is None:
            price *= 2
        else:
            price, scale = above[1] - below[1], above[0] - below[0]
            common = gcd(price, scale)
            price, scale = price // common, scale // common
