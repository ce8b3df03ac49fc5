"""A mixed schedule as a tree, and why a tree is enough.

Let F(n, m) be the fewest forward steps that reverse n steps with m units of memory, a restart
of a units, a record of b, and z = 1 where the last step before a turn need not run (the record
is in the state), else 0. Either the first step is recorded, or the state is saved, the forward
advances over i steps, reverses the rest, returns, and reverses the first i::

    F(1, m) = 1 − z
    F(n, m) = min(1 + F(n − 1, m − b),  min over i of  i + F(i, m) + F(n − i, m − a))

**A record before a restart never helps.** Where everything fits, n ≤ m/b + 1, all is recorded
and F = n − z, its lower bound. Otherwise, if recording first were best, the rest would be more
than its memory holds, so by induction it would start with a restart, and cost
1 + i + F(i, m − b) + F(n − 1 − i, m − b − a). Placing the restart first and the record behind it
costs i + F(i, m) + 1 + F(n − 1 − i, m − a − b), which is no more, since F falls with m.

So a schedule is a binary tree. Its leaves are **windows**, runs of steps recorded together; an
inner node is a restart, its left part what lies before the place where the forward first went
on from there, and its right part the rest. A node's **depth** counts the restarts held beneath
it (right turns), its **level** how often its steps have run before (left turns). A window at
depth d holds up to C(d) = ⌊(m − d·a)/b⌋ + 1 steps and, at level l, w steps of it cost
w·(l + 1) − z. A free initial state adds a row: C(0) twice, since its first restart costs none.

**Depth is bounded** where C(0) + … + C(k) ≥ n: k restarts are enough. With all of them on the
first way up, no step runs more than twice, and further ones take more from the windows than
they spare. With fewer, the restart at depth ≥ k (its level is 1 at least) can be moved to the
end of the first way up: the steps that it bought now run at least once less each, and C falls
from one depth to the next by amounts that differ by 1 at most. This needs C(d) − C(d + 1) ≥ z,
so a ≥ b or z = 0; where a < b and z = 1, records are useless and `Mixed` is `Revolve`.

**Nodes that take steps themselves.** Where a restart consists of records (`levels.py`), going back
to it turns some steps at once. Each inner node then has `taken` steps of its own, between its left
part and its right one; at level l they cost l + 1 each. A part may be empty then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Node: TypeAlias = tuple[int, int, int]
"""Steps, depth and level of a node; equal nodes are reversed alike."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a tree must cover and may hold.

    Attributes
    ----------
    steps : steps to reverse.
    windows : the most steps of a window at depth 0, 1, …: C of this module's docstring.
    spared : z, the forward steps that each window spares.
    taken : steps that a restart turns by itself.
    """

    steps: int
    windows: tuple[int, ...]
    spared: int
    taken: int = 0

    @property
    def smallest(self) -> int:
        """The fewest steps of a part."""
        return 0 if self.taken else 1


@dataclass(frozen=True, slots=True)
class Tree:
    """The inner nodes, each with the steps of its left part, and the forward steps of them all."""

    shape: Shape
    lefts: dict[Node, int]
    forward_steps: int


def make_shape(
    steps: int, memory: tuple[int, int, int], record_in_state: bool, free_start: bool
) -> Shape:
    """Return the shape for `memory` = units of a restart, of a record, and of the whole."""
    restart, record, units = memory
    windows: list[int] = []
    reach = 0
    for depth in range(units // restart + 1):
        windows.append((units - depth * restart) // record + 1)
        reach += windows[-1]
        if reach >= steps:
            break
    if free_start:
        windows.insert(0, windows[0])
    return Shape(steps, tuple(windows), int(record_in_state))


def grow(shape: Shape, split: Callable[[Node], int]) -> Tree:
    """Return the tree that `split`, which gives a node's left part, makes from the root down.

    Equal nodes are visited once, however often they occur, level by level and, in a level, by
    depth: both parts of a node come later than the node.
    """
    lefts: dict[Node, int] = {}
    forward_steps, level = 0, 0
    rows = {0: Counter({shape.steps: 1})}
    while rows:
        following: dict[int, Counter[int]] = {}
        for depth in range(min(rows), len(shape.windows)):
            for steps, count in rows.get(depth, Counter()).items():
                if steps <= shape.windows[depth]:
                    forward_steps += count * (steps * (level + 1) - shape.spared)
                    continue
                left = lefts[steps, depth, level] = split((steps, depth, level))
                forward_steps += count * shape.taken * (level + 1)
                rows.setdefault(depth + 1, Counter())[steps - left - shape.taken] += count
                following.setdefault(depth, Counter())[left] += count
        rows, level = following, level + 1
    return Tree(shape, lefts, forward_steps)
