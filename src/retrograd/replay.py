"""Replays a schedule on the memory map of an arena: the bytes that it takes and moves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from retrograd.actions import (
    MEMORY,
    Action,
    Advance,
    Drop,
    Forget,
    Load,
    Record,
    Restore,
    Reverse,
    Save,
)
from retrograd.layout import Layout
from retrograd.placement import Move, Placement
from retrograd.placements import MemoryMap, placement_of


@dataclass(frozen=True, slots=True)
class RowCounts:
    """What a schedule does to an arena, exactly.

    Attributes
    ----------
    peak_nbytes : bytes of the arena that it touches.
    moved_nbytes : bytes of live rows that it copies from one place of the arena to another, and
        of held arrays to and from the arena.
    """

    peak_nbytes: int
    moved_nbytes: int


def replay_rows(actions: Iterable[Action], layout: Layout, capacity_nbytes: int) -> RowCounts:
    """Replay a legal schedule on the memory map of an arena.

    Raises
    ------
    BudgetTooSmall
        if the rows do not fit in ``capacity_nbytes``.
    """
    placement = placement_of(layout, capacity_nbytes)
    moved = 0
    for action in actions:
        rows = _moved_rows(placement, action)
        moved += sum(item.count for item in rows if isinstance(item, Move))
    copied = placement.copied_nbytes if isinstance(placement, Placement) else 0
    return RowCounts(placement.peak_nbytes, moved * layout.row_nbytes + copied)


def _moved_rows(placement: MemoryMap, action: Action) -> Iterable[object]:
    """Perform an action on a memory map, and return what it is made of."""
    match action:
        case Advance(start, stop):
            return placement.advance(start, stop)
        case Record(start, stop, tier) if tier == MEMORY:
            return placement.record(start, stop)
        case Record(start, stop):
            rows = list(placement.record(start, stop))
            placement.forget(start, stop)
            return rows
        case Load(start, stop):
            placement.load(start, stop)
        case Save(step, tier) if tier == MEMORY:
            return placement.save(step)
        case Restore(step, tier, last) if tier == MEMORY:
            return placement.restore(step, last=last)
        case Restore(step):
            placement.enter(step)
        case Drop(step, tier) if tier == MEMORY:
            placement.drop(step)
        case Forget(start, stop, tier) if tier == MEMORY:
            placement.forget(start, stop)
        case Reverse(stop, start, keep):
            return placement.reverse(stop, start, keep=keep)
        case _:
            pass
    return ()
