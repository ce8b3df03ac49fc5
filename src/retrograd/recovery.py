"""How a run goes on when a tier has failed: another schedule, in the memory that there is."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace

from retrograd.actions import MEMORY, Action
from retrograd.errors import BudgetTooSmall, InvalidArgument, Recovered, StoreFailed, StoreFull
from retrograd.families import Schedule, in_room, room_of
from retrograd.plans import Plan
from retrograd.position import Position
from retrograd.schedules import Rest


def rest_of(plan: Plan, position: Position, error: StoreFailed) -> Iterable[Action]:
    """The actions that reverse what is left, without what a tier has lost.

    A tier that is full takes no more; where an item was lost, others may take its place.

    Raises
    ------
    StoreFailed
        the same error, where nothing is left to compute the first steps from, or memory alone
        does not hold what is needed.
    """
    demand = replace(plan.demand, free_start=False)
    kept = sum(tier != MEMORY for _, tier in position.restarts) + len(position.records)
    slots = plan.prediction.disk_nbytes // demand.restart_item_nbytes
    free = 0 if isinstance(error, StoreFull) else max(0, slots - kept)
    budget = replace(plan.budget, memory_nbytes=plan.peak_nbytes)
    room = replace(room_of(demand, budget, plan.costs, waited=0.0), disk_slots=free)

    def part(steps: int, restarts: int) -> Schedule:
        nbytes = room.memory_nbytes - restarts * demand.restart_nbytes
        return in_room(replace(demand, steps=steps), replace(room, memory_nbytes=nbytes))

    try:
        rest = Rest(
            position.adjoint,
            position.live,
            tuple(position.restarts),
            tuple(position.records),
            part,
            plan.demand.free_start,
        )
        actions = list(rest)
    except (InvalidArgument, BudgetTooSmall) as reason:
        error.add_note(f"retrograd: and there is no other way to go on: {reason}")
        raise error from None
    warnings.warn(Recovered(f"{error}; the run goes on without"), stacklevel=2)
    return actions
