"""The schedules that a plan chooses from: each kind made for a demand, or why it cannot be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from retrograd.cost import Costs
from retrograd.demand import Budget, Demand
from retrograd.errors import InvalidArgument
from retrograd.families import Family, Room, Schedule, room_of
from retrograd.plans import Alternative
from retrograd.prediction import Prediction, predict
from retrograd.sizes import format_nbytes

_ANY: Final = 1 << 62
"""More bytes than any disk has."""

_MANY: Final = 5_000
"""Steps for which a table is worth making once, and not several times."""

_RECORDS_LESS: Final = 8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kind of schedule, made for a demand, or what stands against it."""

    name: str
    demand: Demand
    schedule: Schedule | None
    prediction: Prediction | None
    hindrance: str = ""

    @property
    def rank(self) -> float:
        """What is to be as small as possible: seconds where they are known, else steps."""
        assert self.schedule is not None
        if self.prediction is None or self.prediction.seconds is None:
            return self.schedule.forward_steps
        return self.prediction.seconds

    def alternative(self, best: Candidate) -> Alternative:
        """What the plan says of it."""
        if self.schedule is None:
            return Alternative(self.name, None, None, self.hindrance)
        verdict = "chosen" if self is best else self._against(best)
        return Alternative(self.name, self.schedule.forward_steps, self.prediction, verdict)

    def _against(self, best: Candidate) -> str:
        """Why it was not chosen."""
        assert self.schedule is not None and best.schedule is not None
        steps = self.schedule.forward_steps - best.schedule.forward_steps
        words = []
        if self.prediction is not None and self.prediction.seconds is not None:
            words = _difference(self.rank - best.rank, "s", "less")
        words += _difference(steps, "forward steps", "fewer")
        return ", ".join(words) or "the same"


def _difference(by: float, unit: str, less: str) -> list[str]:
    if not by:
        return []
    return [f"{abs(by):.6g} more {unit}" if by > 0 else f"{abs(by):.6g} {less} {unit}"]


def made_for(
    family: Family, demand: Demand, budget: Budget, costs: Costs | None, room: Room
) -> Candidate:
    """Make a schedule, and predict what it takes if that is wanted."""
    smallest = smallest_nbytes(family, demand, room)
    if budget.memory_nbytes < smallest:
        hindrance = f"impossible: needs {format_nbytes(smallest)}"
        return Candidate(family.name, demand, None, None, hindrance)
    if costs is None:
        return Candidate(family.name, demand, family.make(demand, room), None)
    made = [
        _predicted(family, buffered, replace(budget, memory_nbytes=nbytes), costs, waited)
        for buffered in _buffered(family, demand, room)
        for nbytes in _memories(family, buffered, budget, costs)
        if nbytes >= buffered.live_nbytes + family.smallest(buffered, room.disk_slots)
        for waited in _shares_waited(family, buffered)
    ]
    return min(made, key=lambda one: one.rank if one.schedule is not None else math.inf)


def _buffered(family: Family, demand: Demand, room: Room) -> Iterator[Demand]:
    """The demand, with each size of buffers that is worth a try."""
    if not family.needs_disk or not demand.buffers + demand.codec_buffers:
        yield demand
        return
    for nbytes in family.items(demand, room.memory_nbytes):
        yield demand.with_room_for(nbytes)


def smallest_nbytes(family: Family, demand: Demand, room: Room) -> int:
    """The fewest bytes of memory for which a kind of schedule can be made."""
    return min(
        one.live_nbytes + family.smallest(one, room.disk_slots)
        for one in _buffered(family, demand, room)
    )


def _shares_waited(family: Family, demand: Demand) -> tuple[float, ...]:
    """The shares of transfers to assume that are waited for; for many steps only the first."""
    if not demand.buffers:
        return (1.0,)
    return family.waited if demand.steps <= _MANY else family.waited[:1]


def _memories(family: Family, demand: Demand, budget: Budget, costs: Costs) -> Iterator[int]:
    """The memory there is; where calls cost more than steps, a little less may be faster.

    A schedule that runs the fewest steps may make a few more calls than one in less memory.
    """
    yield budget.memory_nbytes
    if family.shares_memory and costs.forward_call + costs.reverse_call > costs.forward_step:
        for records in range(1, _RECORDS_LESS + 1):
            yield budget.memory_nbytes - records * demand.record_nbytes


def _predicted(
    family: Family, demand: Demand, budget: Budget, costs: Costs, waited: float
) -> Candidate:
    try:
        schedule = family.make(demand, room_of(demand, budget, costs, waited=waited))
    except InvalidArgument as error:  # more than can be tabulated
        return Candidate(family.name, demand, None, None, f"impossible: {error}")
    found = predict(schedule, demand, replace(budget, disk_nbytes=_ANY), costs)
    if found.disk_nbytes > budget.disk_nbytes:
        needed = format_nbytes(found.disk_nbytes)
        return Candidate(family.name, demand, None, None, f"impossible: needs {needed} of disk")
    return Candidate(family.name, demand, schedule, found)
