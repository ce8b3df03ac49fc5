"""The kinds of schedules that a planner chooses from, each made for a demand and a budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from retrograd.actions import DISK, MEMORY, Action
from retrograd.cost import Costs
from retrograd.demand import Budget, Demand
from retrograd.overlap import standstill
from retrograd.schedules import (
    Blocks,
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

_LONGEST_TABLE: Final = 20_000


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
    write_steps, read_steps : forward steps for which one transfer to or from disk is waited for.
    disk_nbytes : bytes of items that fit on disk, before they are compressed.
    costs : what steps and transfers cost, if that is known.
    """

    memory_nbytes: int
    memory_slots: int
    disk_slots: int
    write_steps: float
    read_steps: float
    disk_nbytes: int = 0
    costs: Costs | None = None


def room_of(demand: Demand, budget: Budget, costs: Costs | None, *, waited: float = 1.0) -> Room:
    """What a budget holds, if a share ``waited`` of each transfer is waited for.

    In the background a transfer takes the computation at least the time of copying it to a buffer.
    """
    nbytes = budget.memory_nbytes - demand.live_nbytes
    disk_nbytes = int(budget.disk_nbytes * (1.0 if costs is None else costs.disk_ratio))
    write = read = 0.0
    if costs is not None and costs.forward_step > 0:
        item = demand.restart_item_nbytes
        copying = item / costs.copy_rate if demand.buffers else 0.0
        stands = (max(copying, waited * seconds) for seconds in costs.transfers(item))
        write, read = (seconds / costs.forward_step for seconds in stands)
    return Room(
        nbytes,
        min(max(0, nbytes) // demand.restart_nbytes, demand.steps),
        min(disk_nbytes // demand.on_disk(demand.restart_item_nbytes), demand.steps),
        write,
        read,
        disk_nbytes,
        costs,
    )


def _restart_items(demand: Demand, nbytes: int) -> Iterable[int]:
    return (demand.restart_item_nbytes,)


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
    items : bytes of one item on its way to disk, as large as there may be, given the bytes of
        memory for it all; of those that are possible, each is tried.
    waited : the shares of a transfer in the background to assume that are waited for; each is
        tried. On a fast disk it is none of them; on a slow one those that are too many.
    """

    name: str
    make: Callable[[Demand, Room], Schedule]
    smallest: Callable[[Demand, int], int]
    needs_disk: bool = False
    shares_memory: bool = False
    longest: int = 10**12
    most_cells: int = 10**12
    items: Callable[[Demand, int], Iterable[int]] = _restart_items
    waited: tuple[float, ...] = (0.0,)

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


def _blocks(demand: Demand, room: Room) -> Schedule:
    """As large as the buffers allow, or memory if no records pass through them."""
    in_memory = room.memory_nbytes // demand.record_nbytes
    block = min(_most_steps(demand, demand.buffer_nbytes), in_memory, demand.steps)
    restart = demand.on_disk(demand.restart_item_nbytes)
    more = demand.on_disk(demand.records_item_nbytes(max(1, block))) - restart
    if block < 1 or more <= 0:  # the newest record needs no room where none is loaded
        return _kept_blocks(demand, room, min(1 + in_memory, demand.steps), most_kept=0)
    earlier = (demand.steps - 1) // block
    left = room.disk_nbytes - earlier * restart
    return _kept_blocks(demand, room, block, min(earlier, max(0, left // more)))


def _kept_blocks(demand: Demand, room: Room, block: int, most_kept: int) -> Blocks:
    """How many blocks to keep whole: as many as the disk takes without being waited for."""
    flags = demand.record_in_state, demand.free_start
    costs = room.costs
    assert costs is not None

    def seconds(kept: int) -> float:
        schedule = Blocks(demand.steps, block, kept, *flags)
        return schedule.forward_steps * costs.forward_step + standstill(schedule, demand, costs)

    low, high = 0, most_kept
    while high - low > max(2, most_kept // 64):  # the seconds fall and then rise
        third = (high - low) // 3
        if seconds(low + third) <= seconds(high - third):
            high -= third
        else:
            low += third
    return Blocks(demand.steps, block, min(range(low, high + 1), key=seconds), *flags)


def _most_steps(demand: Demand, nbytes: int) -> int:
    """How many adjacent steps' records an item of so many bytes holds."""
    one = demand.records_item_nbytes(1)
    return (
        0
        if nbytes < one
        else bisect_right(range(1, demand.steps + 1), nbytes, key=demand.records_item_nbytes)
    )


def _block_items(demand: Demand, nbytes: int) -> Iterable[int]:
    """A restart, where no records are kept; and blocks of which memory holds three, or six."""
    yield demand.restart_item_nbytes
    for share in (3, 6, 12):
        block = max(1, (nbytes + demand.record_nbytes) // (share * demand.record_nbytes))
        item = demand.records_item_nbytes(min(block, demand.steps))
        if item > demand.restart_item_nbytes:
            yield item


def in_room(demand: Demand, room: Room) -> Schedule:
    """The least steps in what room there is, on disk as well if it has any.

    Raises
    ------
    BudgetTooSmall
        if there is not enough.
    """
    if room.disk_slots and demand.steps <= _LONGEST_TABLE:
        return _tiered_mixed(demand, room)
    return _mixed(demand, room)


def _all_records(demand: Demand, disk_slots: int) -> int:
    return (demand.steps - 1) * demand.record_nbytes


def _some_rows(demand: Demand, disk_slots: int) -> int:
    state = demand.state_rows
    if state is None:
        return 0
    rows = smallest_memory_rows(demand.steps, state.depth, state.record_row, demand.free_start)
    return max(0, rows - demand.live_rows) * demand.record_nbytes


def _nothing(demand: Demand, disk_slots: int) -> int:
    return 0


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
    Family(
        "tiered-mixed",
        _tiered_mixed,
        _restart_or_records,
        needs_disk=True,
        longest=_LONGEST_TABLE,
        waited=(0.0, 0.1, 0.4, 1.0),
    ),
    Family("blocks", _blocks, _nothing, needs_disk=True, longest=20_000, items=_block_items),
    Family("h-revolve", _h_revolve, _restart, needs_disk=True, most_cells=400_000),
    Family("multistage", _multistage, _restart, needs_disk=True, longest=20_000),
    Family("disk-revolve", _disk_revolve, _restart_beside_disk, needs_disk=True, longest=2_000),
    Family("two-level", _two_level, _restart_beside_disk, needs_disk=True, longest=20_000),
)

NAMES: Final = ("auto", *(family.name for family in FAMILIES))
