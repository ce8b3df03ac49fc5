"""How a run goes on when a tier has failed: another schedule, in the memory that there is."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from retrograd.actions import DISK, Action, Drop, Tier
from retrograd.errors import (
    BudgetTooSmall,
    InvalidArgument,
    ItemLost,
    Recovered,
    StoreFailed,
    StoreFull,
)
from retrograd.families import Schedule, in_room, room_of
from retrograd.plans import Plan
from retrograd.position import Position
from retrograd.schedules import Rest

_TRUSTED: Final = 3
"""A tier that failed so often is not written to again."""


def rest_of(plan: Plan, position: Position, failures: Sequence[StoreFailed]) -> Iterable[Action]:
    """The actions that reverse what is left after a failure, the last of those that there were.

    Without a failure, what is left is that of a run that another process has begun.

    A tier that cannot be written to takes no more. One that is full gives restarts up, so that
    those that are left can be spread over all steps; where an item was lost, others may take its
    place, but not again and again.

    Raises
    ------
    StoreFailed
        the last one again, where nothing is left to compute the first steps from, or memory alone
        does not hold what is needed.
    """
    error = failures[-1] if failures else None
    demand = replace(plan.demand, free_start=False)
    kept = sorted(one for one in position.restarts if one[1] == DISK)
    dropped: list[Drop] = []
    free = 0
    if error is None or (isinstance(error, ItemLost) and len(failures) < _TRUSTED):
        slots = plan.prediction.disk_nbytes // demand.on_disk(demand.restart_item_nbytes)
        free = max(0, slots - len(kept) - len(position.records))
    elif isinstance(error, StoreFull) and position.live is not None:
        dropped, free = _thinned(kept, position.live, position.adjoint, plan.demand.free_start)
    budget = replace(plan.budget, memory_nbytes=plan.prediction.memory_nbytes)
    room = replace(room_of(demand, budget, plan.costs, waited=0.0), disk_slots=free)

    def part(steps: int, restarts: int) -> Schedule:
        nbytes = room.memory_nbytes - restarts * demand.restart_nbytes
        return in_room(replace(demand, steps=steps), replace(room, memory_nbytes=nbytes))

    gone = {(one.step, one.tier) for one in dropped}
    try:
        rest = Rest(
            position.adjoint,
            position.live,
            tuple(position.restarts - gone),
            tuple(position.records),
            part,
            plan.demand.free_start,
        )
        actions = [*dropped, *rest]
    except (InvalidArgument, BudgetTooSmall) as reason:
        if error is None:
            raise
        error.add_note(
            f"retrograd: and there is no other way to go on: {reason}; run it again, with more "
            "memory= or another scratch="
        )
        raise error from None
    if error is not None:
        warnings.warn(Recovered(f"{error}; the run goes on without"), stacklevel=2)
    return actions


def _thinned(
    kept: list[tuple[int, Tier]], live: int, end: int, free_start: bool
) -> tuple[list[Drop], int]:
    """Which restarts to give up so that others find room above ``live``, and how many do.

    As many as there are now is what the tier holds. They are shared between the steps below and
    those above; a little is left free, since what compresses well now may not do so later.
    """
    below = [one for one in kept if one[0] < live]
    many = len(kept)
    stay = min(len(below), -(-many * live // end))
    spread = {below[index * len(below) // stay] for index in range(stay)} if stay else set()
    if below and not free_start:
        spread.add(below[0])
    dropped = [Drop(*one) for one in kept if one not in spread]
    return dropped, max(0, len(dropped) - 1 - len(dropped) // 8)
