"""A tree close to the best, for any number of steps.

At the best price (`mixed_price`) a tree costs the bound plus its excess, and a part whose size is
`least` or `most` has none. So the tree is sought among those in which all parts have such sizes
but for one path from the root: at every node on it one part has the size `least` or `most`, or is
a window that is full, and the other takes what is left.

The path with the least excess is found by Dijkstra's method. Excesses that differ by less than a
grain count as equal, and the path with fewer steps left goes first, or else a great many that tie
would be followed side by side. A tree found so is within a grain of the best such tree; if that
takes long, the grain is made coarser.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import pairwise
from typing import TypeAlias

from retrograd.schedules.mixed_price import Priced
from retrograd.schedules.mixed_tree import Node, Tree, grow

_Choice: TypeAlias = tuple[int, Node, int]
"""An excess, the part of a node that is on the path then, and the steps of the left part."""


def near_tree(priced: Priced) -> Tree:
    """Return a tree close to the best, in O(depths · levels).

    Mostly it is the best; wherever both were found, it ran at most 2·⌈a/b⌉ forward steps more.
    """
    shape = priced.shape
    path = _path(priced)

    def split(node: Node) -> int:
        if node in path:
            return path[node]
        steps, depth, level = node
        lefts = priced.most if steps == priced.most[level][depth] else priced.least
        return lefts[level + 1][depth]

    return grow(shape, split)


def _path(priced: Priced) -> dict[Node, int]:
    """Return the left parts of the nodes on a path with little excess."""
    charge = max(1, *(wide - narrow for wide, narrow in pairwise(priced.shape.windows)))
    patience = 500 + 4 * len(priced.shape.windows) * len(priced.gain)
    for grain in (priced.unit // 8, charge * priced.unit):
        lefts = _follow(priced, max(1, grain), patience)
        if lefts is not None:
            return lefts
        patience *= 8
    while lefts is None:
        grain *= 4
        lefts = _follow(priced, grain, patience)
    return lefts


def _follow(priced: Priced, grain: int, patience: int) -> dict[Node, int] | None:
    root = (priced.shape.steps, 0, 0)
    heap: list[tuple[int, Node, int, Node, int]] = [(0, root, 0, root, 0)]
    came: dict[Node, tuple[Node, int]] = {}
    while len(came) < patience:
        _, node, excess, parent, left = heappop(heap)
        if node in came:
            continue
        came[node] = parent, left
        if _is_settled(priced, node):
            lefts: dict[Node, int] = {}
            while node != root:
                node, left = came[node]
                lefts[node] = left
            return lefts
        for further, part, own_left in _choices(priced, node):
            total = excess + further
            heappush(heap, (total // grain, part, total, node, own_left))
    return None


def _is_settled(priced: Priced, node: Node) -> bool:
    steps, depth, level = node
    bests = priced.least[level][depth], priced.most[level][depth]
    return steps <= priced.shape.windows[depth] or steps in bests


def _choices(priced: Priced, node: Node) -> list[_Choice]:
    """Return the ways on, those alone that can do without more excess if there are any."""
    choices = list(_all_choices(priced, node))
    good = [choice for choice in choices if _is_between(priced, choice[1])]
    return good or choices


def _is_between(priced: Priced, node: Node) -> bool:
    steps, depth, level = node
    if steps <= priced.shape.windows[depth]:
        return True
    return priced.least[level][depth] <= steps <= priced.most[level][depth]


def _all_choices(priced: Priced, node: Node) -> Iterator[_Choice]:
    steps, depth, level = node
    own = priced.forgone(depth, level)
    places = (depth, level + 1), (depth + 1, level)
    steps -= priced.shape.taken
    for side in (0, 1):
        for other, excess in _simple(priced, *places[1 - side]):
            part = (steps - other, *places[side])
            if priced.shape.smallest <= part[0] <= _reach(priced, *places[side]):
                if part[0] <= priced.shape.windows[part[1]]:
                    excess += priced.window_forgone(*part)
                yield own + excess, part, other if side else part[0]


def _simple(priced: Priced, depth: int, level: int) -> Iterator[tuple[int, int]]:
    """Yield the sizes of a part that is off the path, and their excesses."""
    window = priced.shape.windows[depth]
    yield window, priced.window_forgone(window, depth, level)
    if level < len(priced.gain):
        yield priced.least[level][depth], 0
        yield priced.most[level][depth], 0


def _reach(priced: Priced, depth: int, level: int) -> int:
    window = priced.shape.windows[depth]
    return max(window, priced.most[level][depth]) if level < len(priced.gain) else window
