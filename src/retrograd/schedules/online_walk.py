"""The actions of a schedule whose number of steps is unknown until the forward has ended."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from retrograd.actions import (
    INITIAL,
    Action,
    Drop,
    Forget,
    Record,
    Restore,
    Reverse,
    Save,
)
from retrograd.schedules.mixed_best import best_tree
from retrograd.schedules.mixed_walk import walk, walk_from_restart
from retrograd.schedules.online_restarts import Room, held_after, saves


def forward(room: Room) -> Iterator[Action]:
    """Yield actions without end; each ``Record`` is one step, after which one may stop."""
    if not room.free_start:
        yield Save(0)
    coming = saves(room)
    due, lost = next(coming, (None, None))
    restarts, oldest, window = 1, 0, room.window(1)
    for step in count():
        if step == due and lost is None:
            restarts += 1
            window = room.window(restarts)
        if oldest < step + 1 - window:
            yield Forget(oldest, step + 1 - window)
            oldest = step + 1 - window
        if step == due:
            if lost is not None:
                yield Drop(lost)
            yield Save(step)
            due, lost = next(coming)
        yield Record(step, step + 1)


def reverse(room: Room, steps: int) -> Iterator[Action]:
    """Yield what follows when the forward was stopped after `steps` steps."""
    held = held_after(room, steps)
    adjoint = _oldest_record(room, steps, len(held))
    yield Reverse(steps, adjoint)
    for beside, start in reversed(list(enumerate(held))):
        if start < adjoint:
            yield from _reverse_gap(room, start, adjoint, beside, steps)
            adjoint = start
        elif start > 0 or not room.free_start:
            yield Drop(start)


def forward_steps(room: Room, steps: int) -> int:
    """Return how many forward steps `steps` steps take, each counted as often as it runs."""
    held = held_after(room, steps)
    stop = _oldest_record(room, steps, len(held))
    total = steps
    for beside, start in reversed(list(enumerate(held))):
        if start < stop:
            total += best_tree(room.shape(stop - start, beside)).forward_steps
            stop = start
    return total


def _oldest_record(room: Room, steps: int, restarts: int) -> int:
    return max(0, steps - room.window(restarts))


def _reverse_gap(room: Room, start: int, stop: int, beside: int, steps: int) -> Iterator[Action]:
    """Reverse from the restart at `start`, as if the number of steps had been known there."""
    tree = best_tree(room.shape(stop - start, beside))
    flag = room.record_in_state
    if start > 0 or not room.free_start:
        yield from walk_from_restart(tree, start=start, end=steps, record_in_state=flag)
    else:
        yield Restore(0, INITIAL)
        yield from walk(tree, end=steps, record_in_state=flag, base=INITIAL)
