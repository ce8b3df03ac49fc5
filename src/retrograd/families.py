"""The kinds of schedules that a planner chooses from, each made for a demand and a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from retrograd.actions import DISK, MEMORY, Action
from retrograd.cost import Costs
from retrograd.demand import Budget, Demand
from retrograd.schedules import (
    DiskRevolve,
    HRevolve,
    KeepAll,
    Levels,
    Mixed,
    Multistage,
    Revolve,
    TieredMixed,
    TierSlots,
    TwoLevel,
    smallest_memory_rows,
    smallest_memory_units,
)


class Schedule(Protocol):
    """What a plan needs of a schedule: its actions, and how many forward steps they run."""

    def __iter__(self) -> Iterator[Action]: ...
    @property
    def forward_steps(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Room:
    """A budget as schedules count it, live bytes taken off.

    Attributes
    ----------
    memory_nbytes : bytes for restarts and records.
    memory_slots, disk_slots : restarts that fit, at most one for each step.
    write_steps, read_steps : forward steps that take as long as one transfer to or from disk.
    """

    memory_nbytes: int
    memory_slots: int
    disk_slots: int
    write_steps: float
    read_steps: float


def room_of(demand: Demand, budget: Budget, costs: Costs | None) -> Room:
    """What a budget holds."""
    nbytes = budget.memory_nbytes - demand.live_nbytes
    write = read = 0.0
    if costs is not None and costs.forward_step > 0:
        write, read = (s / costs.forward_step for s in costs.transfers(demand.restart_nbytes))
    return Room(
        nbytes,
        min(max(0, nbytes) // demand.restart_nbytes, demand.steps),
        min(budget.disk_nbytes // demand.restart_nbytes, demand.steps),
        write,
        read,
    )


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of schedule.

    Attributes
    ----------
    name : what the user writes.
    make : the schedule for a demand and the room there is, which is enough.
    smallest : the fewest bytes of memory besides the live ones, given the restarts on disk.
    needs_disk : whether it is of use only with a disk.
    shares_memory : whether restarts and records share the memory, as it is best for steps.
    longest : beyond so many steps it is not considered unless it is asked for.
    most_cells : as `longest`, for steps times restarts, where all these are tabulated.
    """

    name: str
    make: Callable[[Demand, Room], Schedule]
    smallest: Callable[[Demand, int], int]
    needs_disk: bool = False
    shares_memory: bool = False
    longest: int = 10**12
    most_cells: int = 10**12

    def is_quick(self, demand: Demand, room: Room) -> bool:
        """Whether it can be compared with others without a long wait."""
        cells = demand.steps * (room.memory_slots + room.disk_slots)
        return demand.steps <= self.longest and cells <= self.most_cells

    def refusal(self, demand: Demand) -> str | None:
        """Why this kind cannot be right for what is to be reversed, or None."""
        if self.name == "levels" and demand.state_rows is None:
            return "the state does not consist of records"
        return None


def _keep_all(demand: Demand, room: Room) -> Schedule:
    return KeepAll(demand.steps)


def _levels(demand: Demand, room: Room) -> Schedule:
    state = demand.state_rows
    assert state is not None
    rows = demand.live_rows + room.memory_nbytes // demand.record_nbytes
    rows = min(rows, demand.steps + state.depth)
    return Levels(demand.steps, state.depth, state.record_row, rows, demand.free_start)


def _mixed(demand: Demand, room: Room) -> Schedule:
    dearer = demand.record_in_state and demand.record_nbytes > demand.restart_nbytes
    if demand.steps > 1 and (dearer or room.memory_nbytes < demand.record_nbytes):
        return _revolve(demand, room)  # records are no use: the same, and priced by a formula
    return Mixed(*_sizes(demand, room), demand.record_in_state, demand.free_start)


def _sizes(demand: Demand, room: Room) -> tuple[int, int, int, int]:
    nbytes = min(room.memory_nbytes, (demand.steps - 1) * demand.record_nbytes)
    return demand.steps, demand.restart_nbytes, demand.record_nbytes, nbytes


def _revolve(demand: Demand, room: Room) -> Schedule:
    return Revolve(demand.steps, room.memory_slots, demand.record_in_state, demand.free_start)


def _tiered_mixed(demand: Demand, room: Room) -> Schedule:
    costs = room.disk_slots, room.write_steps, room.read_steps
    return TieredMixed(*_sizes(demand, room), *costs, demand.record_in_state, demand.free_start)


def _h_revolve(demand: Demand, room: Room) -> Schedule:
    tiers = (
        TierSlots(MEMORY, room.memory_slots),
        TierSlots(DISK, room.disk_slots, room.write_steps, room.read_steps),
    )
    return HRevolve(demand.steps, tiers, demand.record_in_state, demand.free_start)


def _multistage(demand: Demand, room: Room) -> Schedule:
    slots = room.memory_slots, room.disk_slots
    return Multistage(demand.steps, *slots, demand.record_in_state, demand.free_start)


def _disk_revolve(demand: Demand, room: Room) -> Schedule:
    costs = room.write_steps, room.read_steps
    flags = demand.record_in_state, demand.free_start
    return DiskRevolve(demand.steps, room.memory_slots, *costs, *flags)


def _two_level(demand: Demand, room: Room) -> Schedule:
    period = -(-demand.steps // room.disk_slots)
    flags = demand.record_in_state, demand.free_start
    return TwoLevel(demand.steps, period, room.memory_slots, *flags)


def _all_records(demand: Demand, disk_slots: int) -> int:
    return (demand.steps - 1) * demand.record_nbytes


def _some_rows(demand: Demand, disk_slots: int) -> int:
    state = demand.state_rows
    if state is None:
        return 0
    rows = smallest_memory_rows(demand.steps, state.depth, state.record_row, demand.free_start)
    return max(0, rows - demand.live_rows) * demand.record_nbytes


def _restart_or_records(demand: Demand, disk_slots: int) -> int:
    if disk_slots:
        return 0
    sizes = demand.restart_nbytes, demand.record_nbytes
    return smallest_memory_units(demand.steps, *sizes, demand.free_start)


def _restart(demand: Demand, disk_slots: int) -> int:
    free = demand.free_start or demand.steps == 1 or disk_slots > 0
    return 0 if free else demand.restart_nbytes


def _restart_beside_disk(demand: Demand, disk_slots: int) -> int:
    return demand.restart_nbytes


def _mixed_smallest(demand: Demand, disk_slots: int) -> int:
    return _restart_or_records(demand, 0)


def _revolve_smallest(demand: Demand, disk_slots: int) -> int:
    return _restart(demand, 0)


FAMILIES: Final = (
    Family("keep-all", _keep_all, _all_records),
    Family("levels", _levels, _some_rows, shares_memory=True),
    Family("mixed", _mixed, _mixed_smallest, shares_memory=True),
    Family("revolve", _revolve, _revolve_smallest),
    Family("tiered-mixed", _tiered_mixed, _restart_or_records, needs_disk=True, longest=20_000),
    Family("h-revolve", _h_revolve, _restart, needs_disk=True, most_cells=400_000),
    Family("multistage", _multistage, _restart, needs_disk=True, longest=20_000),
    Family("disk-revolve", _disk_revolve, _restart_beside_disk, needs_disk=True, longest=2_000),
    Family("two-level", _two_level, _restart_beside_disk, needs_disk=True, longest=20_000),
)

NAMES: Final = ("auto", *(family.name for family in FAMILIES))
