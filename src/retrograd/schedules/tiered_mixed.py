"""Restarts and records in one memory, and further restarts on disk: the least time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from retrograd.actions import DISK, INITIAL, MEMORY, Action, Record, Reverse
from retrograd.arguments import flag, whole
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.schedules.mixed import smallest_memory_units
from retrograd.schedules.mixed_tree import make_shape
from retrograd.schedules.tier_table import (
    Curve,
    Expense,
    Grid,
    TierTable,
    cost,
    expense,
    make_grid,
    walk,
)

_MOST_CELLS: Final = 2_000_000
"""The most costs in the tables: some five seconds."""


@dataclass(frozen=True, slots=True)
class TieredMixed:
    """The optimal schedule for restarts and records in memory, and restarts on disk.

    Choose it wherever there is a disk besides the memory and the forward waits for transfers: it
    costs no more than `Mixed`, `HRevolve` or `Multistage` with the same slots. Records stay in
    memory, where they are made faster than a disk reads them. Without a disk it is `Mixed`.

    Parameters
    ----------
    steps : at least 1.
    restart_units, record_units : what a restart and a record take in memory, in any common unit.
    memory_units : what memory there is. The record of the step just taken takes none.
    disk_slots : restarts that fit on disk.
    write_cost, read_cost : the time that writing and reading a restart takes, in forward steps.
    record_in_state : the record of a step is part of the state at its start, so that
        reversing it needs no forward step of its own.
    free_start : the initial state can be returned to at no cost and takes no memory.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign, or more steps than can be tabulated.
    BudgetTooSmall : nothing fits in memory and there is no slot on disk.

    Notes
    -----
    With m units of memory, c slots on disk, w and r the costs of a transfer, let F(n) be the least
    steps from a live state in memory alone (`Mixed`, all m units), V(n, c) the least cost with
    the disk, and D(n, c) the same where the start is on disk already, in one more slot::

        V(n, c) = min( F(n),  w + D(n, c − 1) )
        D(n, c) = min( F(n),  min over i of  i + V(n − i, c) + r + D(i, c) )

    So a restart on disk never lies above one in memory. This is H-Revolve's recurrence
    (`tier_table`) with windows of records at its bottom, and F itself is its lowest tier, in which
    the room for records shrinks with each restart. No sequence of actions costs less, as far as
    exhaustive search goes: 7 steps, 5 units, 3 slots, sizes 1 to 3, costs 0 to 5. The tables take
    two million costs at most; where steps times restarts are more, it makes do with fewer slots.

    References
    ----------
    The recurrence is this project's own. It joins Maddison 2024, doi 10.1016/j.jocs.2024.102405,
    and Herrmann & Pallez 2020, doi 10.1145/3378672.

    Examples
    --------
    >>> for action in TieredMixed(6, 2, 1, 1, disk_slots=2, write_cost=0.5, read_cost=0.5):
    ...     print(action)
    Save(step=0, tier='disk')
    Advance(start=0, stop=2)
    Save(step=2, tier='disk')
    Advance(start=2, stop=4)
    Record(start=4, stop=6, tier='memory')
    Reverse(stop=6, start=4, keep=False)
    Restore(step=2, tier='disk', last=True)
    Record(start=2, stop=4, tier='memory')
    Reverse(stop=4, start=2, keep=False)
    Restore(step=0, tier='disk', last=True)
    Record(start=0, stop=2, tier='memory')
    Reverse(stop=2, start=0, keep=False)
    """

    steps: int
    restart_units: int
    record_units: int
    memory_units: int
    disk_slots: int
    write_cost: float
    read_cost: float
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        least = {"steps": 1, "restart_units": 1, "record_units": 1, "memory_units": 0}
        least["disk_slots"] = 0
        for name, smallest in least.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), least=smallest))
        for name in ("write_cost", "read_cost"):
            object.__setattr__(self, name, cost(name, getattr(self, name)))
        flag("record_in_state", self.record_in_state)
        flag("free_start", self.free_start)
        sizes = self.steps, self.restart_units, self.record_units
        needed = 0 if self.disk_slots else smallest_memory_units(*sizes, self.free_start)
        if self.memory_units < needed:
            raise BudgetTooSmall(
                f"{self.steps} steps cannot be reversed in {self.memory_units} units of memory "
                f"and no slot on disk: give memory_units={needed} or more, or disk_slots=1",
                smallest_nbytes=needed,
            )
        if self.steps * (len(self._windows()) + 1) > _MOST_CELLS:
            raise InvalidArgument(
                f"{self.steps} steps with {len(self._windows())} restarts in memory need a table "
                f"of more than {_MOST_CELLS} costs: use Mixed without a disk, or "
                "PeriodicDiskRevolve, which needs no table"
            )

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        return _expense(self).forward_steps

    @property
    def cost(self) -> float:
        """`forward_steps` and the costs of all transfers."""
        return _expense(self).cost

    def _windows(self) -> tuple[int, ...]:
        """The most steps of a window, by the restarts beneath it in memory."""
        memory = self.restart_units, self.record_units, self.memory_units
        shape = make_shape(self.steps, memory, self.record_in_state, free_start=False)
        if self.record_in_state and self.record_units > self.restart_units:
            return (1,) * (self.memory_units // self.restart_units + 1)
        return shape.windows

    def _useful_slots(self) -> int:
        """How many slots may be filled; beyond, more are as good as any number.

        Of two restarts next to each other, one is of no use if one window holds what lies above
        both, unless its transfers cost no more than the step that a second window spares.
        """
        if self.write_cost + self.read_cost <= self.record_in_state:
            return self.steps - 1
        return min(self.steps - 1, 2 * -(-self.steps // self._windows()[0]) + 1)

    def _table_slots(self) -> int | None:
        """Slots in the table of the disk: None, which takes one row, where there are enough."""
        if self.disk_slots >= self._useful_slots():
            return None
        return min(self.disk_slots, _MOST_CELLS // self.steps - len(self._windows()))

    def __iter__(self) -> Iterator[Action]:
        return walk(_tables(self), self.steps, self._turn)

    def _turn(self, start: int, stop: int) -> Iterator[Action]:
        recorded = stop - (self.record_in_state and stop < self.steps)
        if recorded > start:
            yield Record(start, recorded)
        yield Reverse(stop, start)


@lru_cache(maxsize=4)
def _tables(schedule: TieredMixed) -> tuple[TierTable, ...]:
    steps, transfers = schedule.steps, (schedule.write_cost, schedule.read_cost)
    grid = make_grid(steps, *transfers)
    windows = schedule._windows()
    below = _in_windows(steps, windows, schedule.record_in_state, grid)
    tables = [TierTable(MEMORY, len(windows) - 1, (0.0, 0.0), below)] if len(windows) > 1 else []
    top = tables[-1].top if tables else below[0]
    slots = schedule._table_slots()
    if slots != 0:
        write, read = (grid.round(transfer) for transfer in transfers)
        tables.append(TierTable(DISK, slots, (write, read), top))
        top = tables[-1].top
    if schedule.free_start:
        tables.append(TierTable(INITIAL, 1, (0.0, 0.0), top))
    return tuple(tables)


def _in_windows(steps: int, windows: tuple[int, ...], spared: bool, grid: Grid) -> Curve:
    """Return the forward steps of one window, by the slots that are left and the steps."""
    sizes = np.arange(steps + 1)
    rows = [np.where(sizes <= window, sizes - spared, grid.impossible) for window in windows]
    return np.array(rows[::-1])


@lru_cache(maxsize=16)
def _expense(schedule: TieredMixed) -> Expense:
    transfers = schedule.write_cost, schedule.read_cost
    return expense(schedule, {DISK: transfers})
