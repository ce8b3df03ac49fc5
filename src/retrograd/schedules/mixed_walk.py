"""From a tree to actions."""

from __future__ import annotations

from collections.abc import Iterator

from retrograd.actions import MEMORY, Action, Advance, Record, Restore, Reverse, Save, Tier
from retrograd.schedules.mixed_tree import Tree


def walk(
    tree: Tree, *, end: int, record_in_state: bool, start: int = 0, base: Tier | None = None
) -> Iterator[Action]:
    """Reverse the tree's steps from the live state at `start` on.

    Parameters
    ----------
    end : the last step of the whole run, which is run even if its adjoint does not need that.
    record_in_state : the record of a step is part of the state at its start.
    base : the tier in which the state at `start` is held throughout, if it is.
    """
    windows, lefts = tree.shape.windows, tree.lefts
    pending: list[tuple[int, int, int, int]] = []
    first, steps, depth, level, saved = start, tree.shape.steps, 0, 0, base is not None
    while True:
        while steps > windows[depth]:
            if not saved:
                yield Save(start)
            left = lefts[steps, depth, level]
            yield Advance(start, start + left)
            pending.append((start, left, depth, level + 1))
            start, steps, depth, saved = start + left, steps - left, depth + 1, False
        stop = start + steps
        recorded = stop - (record_in_state and stop < end)
        if recorded > start:
            yield Record(start, recorded)
        yield Reverse(stop, start)
        if not pending:
            return
        start, steps, depth, level = pending.pop()
        saved = True
        if start == first and base is not None:
            yield Restore(start, base)
        else:
            yield Restore(start, MEMORY, last=steps <= windows[depth])


def walk_from_restart(
    tree: Tree, *, start: int, end: int, record_in_state: bool
) -> Iterator[Action]:
    """As `walk`, from a restart at `start` in memory, which is given up once it has served."""
    actions = walk(tree, start=start, end=end, record_in_state=record_in_state)
    first = next(actions)
    serves_again = isinstance(first, Save)
    yield Restore(start, MEMORY, last=not serves_again)
    if not serves_again:
        yield first
    yield from actions
