"""Restarts in a bounded memory and on an unlimited disk: the least time, and nearly that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import comb, floor, fsum
from typing import Final

import numpy as np

from retrograd.actions import DISK, INITIAL, Action, Advance, Record, Restore, Save
from retrograd.arguments import flag, whole
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.schedules.revolve import Revolve, advances, repetition
from retrograd.schedules.tier_table import (
    Curve,
    Expense,
    Grid,
    TierTable,
    cost,
    expense,
    make_grid,
    only_one_step,
    walk,
)
from retrograd.schedules.two_level import shifted

MOST_STEPS: Final = 50_000
"""The most steps that `DiskRevolve` takes, in some seconds."""


@dataclass(frozen=True, slots=True)
class DiskRevolve:
    """The least time with `slots` restarts in memory and any number on disk.

    Choose it when the disk is large and the forward waits for it: transfers have a cost then,
    and this schedule weighs them against steps. `PeriodicDiskRevolve` needs no table and takes
    any number of steps. Where the disk's room is bounded, or there are more tiers, use
    `HRevolve`; where transfers run while the forward computes, `Streaming`. Where a record is
    smaller than a restart, `TieredMixed` keeps records in memory as well.

    Parameters
    ----------
    steps : from 1 to 50,000.
    slots : restarts that fit into memory, the one of the initial state included.
    write_cost, read_cost : the time of writing a restart to disk and of reading it, in units of
        one forward step. Memory costs nothing.
    record_in_state : the record of a step is part of the state at its start, so that
        reversing it needs no forward step of its own.
    free_start : the initial state can be returned to at no cost: it is neither written to disk
        nor takes a slot.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign, or too many steps.

    Notes
    -----
    With t(n, s) as in `Revolve`, the costs of n steps, those that record left out, are D(n) if
    the state at the start lies on disk and C(n) if not::

        D(n) = min(t(n, s), read_cost + min over i of  i + D(i) + C(n − i))
        C(n) = min(t(n, s), write_cost + D(n))

    A third row of this kind is for the free start. The table takes time and memory in proportion
    to the steps. The published recurrences let only the first sweep write to disk; their minimum
    is the same.

    References
    ----------
    Aupy, Herrmann, Hovland & Robert 2016, doi 10.1137/15M1019222.

    Examples
    --------
    >>> for action in DiskRevolve(4, slots=1, write_cost=1, read_cost=0.5, record_in_state=True):
    ...     print(action)
    Save(step=0, tier='disk')
    Advance(start=0, stop=1)
    Save(step=1, tier='memory')
    Advance(start=1, stop=3)
    Record(start=3, stop=4, tier='memory')
    Reverse(stop=4, start=3, keep=False)
    Restore(step=1, tier='memory', last=False)
    Advance(start=1, stop=2)
    Reverse(stop=3, start=2, keep=False)
    Restore(step=1, tier='memory', last=True)
    Reverse(stop=2, start=1, keep=False)
    Restore(step=0, tier='disk', last=True)
    Reverse(stop=1, start=0, keep=False)
    >>> DiskRevolve(60, slots=3, write_cost=10, read_cost=1).cost
    243.0
    """

    steps: int
    slots: int
    write_cost: float
    read_cost: float
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        _check(self)
        if self.steps > MOST_STEPS:
            raise InvalidArgument(
                f"{self.steps} steps are more than the {MOST_STEPS} whose costs are tabulated: use "
                "PeriodicDiskRevolve, which needs no table"
            )

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        return _expense(self).forward_steps

    @property
    def cost(self) -> float:
        """`forward_steps`, those that record included, and the costs of all disk transfers."""
        return _expense(self).cost

    def __iter__(self) -> Iterator[Action]:
        tables = _tables(self.steps, self.slots, self.write_cost, self.read_cost, self.free_start)
        return walk(tables, self.steps, self._in_memory)

    def _in_memory(self, start: int, stop: int) -> Iterator[Action]:
        return _in_memory(self, start, stop, free_start=False)


@lru_cache(maxsize=4)
def _tables(
    steps: int, slots: int, write_cost: float, read_cost: float, free_start: bool
) -> tuple[TierTable, ...]:
    grid = make_grid(steps, write_cost, read_cost)
    transfers = grid.round(write_cost), grid.round(read_cost)
    tables = [TierTable(DISK, None, transfers, _memory_costs(steps, slots, grid))]
    if free_start:
        tables.append(TierTable(INITIAL, 1, (0.0, 0.0), tables[0].top))
    return tuple(tables)


def _memory_costs(steps: int, slots: int, grid: Grid) -> Curve:
    if slots == 0:
        return only_one_step(steps, grid)
    return np.array([0] + [advances(n, slots) for n in range(1, steps + 1)], dtype=np.float64)


@lru_cache(maxsize=16)
def _expense(schedule: DiskRevolve) -> Expense:
    return expense(schedule, {DISK: (schedule.write_cost, schedule.read_cost)})


@dataclass(frozen=True, slots=True)
class PeriodicDiskRevolve:
    """A restart on disk every `period` steps, each read once; each period reversed as `Revolve`.

    Choose it where you would choose `DiskRevolve` but there are too many steps for its table:
    it takes any number of steps, and next to no time and memory to plan. With five slots or
    more, and the period left out, it cost at most 3 % more in all cases tried. With one or two
    slots, and writing much dearer than reading, `DiskRevolve` gains a lot by reading a restart
    several times. `Streaming` is the same idea for transfers that run while the forward
    computes: it wants the shortest period that the disk keeps up with, where this schedule
    weighs transfers against steps.

    Parameters
    ----------
    steps : at least 1.
    slots : restarts that fit into memory, that of the period's start included.
    write_cost, read_cost : the time of writing a restart to disk and of reading it, in units of
        one forward step. Memory costs nothing.
    record_in_state : the record of a step is part of the state at its start, so that
        reversing it needs no forward step of its own.
    free_start : the initial state can be returned to at no cost: it is neither written to disk
        nor takes a slot.
    period : steps from one restart on disk to the next; `best_period` if left out.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign.
    BudgetTooSmall : no slot, and a period of more than one step.

    Notes
    -----
    With n = `steps`, p the period, s = `slots` and t as in `Revolve`, k restarts on disk cost

        k·(p + t(p, s) + write_cost + read_cost) + t(n − kp, s),

    the n steps that record left out (or all but one of them). The range after the last restart
    on disk is reversed when the forward first gets there. It saves a sweep and the transfers, so
    it is worth more steps than a period: k minimises the cost, which is convex in k. A free start
    is one slot more for the first period.

    References
    ----------
    Aupy & Herrmann 2017, doi 10.1080/10556788.2016.1230612.

    Examples
    --------
    >>> schedule = PeriodicDiskRevolve(10**6, slots=20, write_cost=5, read_cost=5)
    >>> schedule.steps_per_period
    21
    >>> schedule.cost
    3428451.0
    >>> for action in PeriodicDiskRevolve(3, 1, 0, 0, record_in_state=True, period=1):
    ...     print(action)
    Save(step=0, tier='disk')
    Advance(start=0, stop=1)
    Save(step=1, tier='memory')
    Advance(start=1, stop=2)
    Record(start=2, stop=3, tier='memory')
    Reverse(stop=3, start=2, keep=False)
    Restore(step=1, tier='memory', last=True)
    Reverse(stop=2, start=1, keep=False)
    Restore(step=0, tier='disk', last=True)
    Reverse(stop=1, start=0, keep=False)
    """

    steps: int
    slots: int
    write_cost: float
    read_cost: float
    record_in_state: bool = False
    free_start: bool = False
    period: int | None = None

    def __post_init__(self) -> None:
        _check(self)
        if self.period is not None:
            object.__setattr__(self, "period", whole("period", self.period, least=1))
        if self.slots == 0 and self.steps_per_period > 1:
            raise BudgetTooSmall(
                f"periods of {self.period} steps cannot be reversed with 0 slots: the state at "
                "the start of each must be held. Give slots=1 or more, or period=1",
                smallest_nbytes=1,
            )

    @property
    def steps_per_period(self) -> int:
        """Steps from one restart on disk to the next: `period`, or the best one."""
        return self.period or best_period(self.slots, self.write_cost, self.read_cost)

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        return self._forward_steps(self._periods())

    @property
    def cost(self) -> float:
        """`forward_steps`, those that record included, and the costs of all disk transfers."""
        return self._cost(self._periods())

    def __iter__(self) -> Iterator[Action]:
        period, periods = self.steps_per_period, self._periods()
        starts = range(0, periods * period, period)
        for start in starts:
            if start > 0 or not self.free_start:
                yield Save(start, DISK)
            yield Advance(start, start + period)
        yield from self._in_memory(periods * period, self.steps)
        for start in reversed(starts):
            if start == 0 and self.free_start:
                yield Restore(0, INITIAL)
            else:
                yield Restore(start, DISK, last=True)
            yield from self._in_memory(start, start + period)

    def _in_memory(self, start: int, stop: int) -> Iterator[Action]:
        return _in_memory(self, start, stop, free_start=self.free_start and start == 0)

    def _periods(self) -> int:
        """Return how many periods come before the last range."""
        fewest, most = 0, (self.steps - 1) // self.steps_per_period
        if self.slots == 0:
            fewest = most
        while fewest < most:
            middle = (fewest + most) // 2
            fewest, most = (fewest, middle) if self._is_enough(middle) else (middle + 1, most)
        return min(most, 0, key=self._cost) if self.free_start else most

    def _is_enough(self, periods: int) -> bool:
        """Whether a further period would cost more than it spares in the last range."""
        period = self.steps_per_period
        rest = self.steps - periods * period
        spared = advances(rest, self.slots) - advances(rest - period, self.slots)
        needed = period + advances(period, self.slots)
        return spared <= needed + self.write_cost + self.read_cost

    def _forward_steps(self, periods: int) -> int:
        period, first_slots = self.steps_per_period, self.slots + self.free_start
        recording = 1 if self.record_in_state else self.steps
        if periods == 0:
            return advances(self.steps, first_slots) + recording
        first_sweep = periods * period
        again = advances(period, first_slots) + (periods - 1) * advances(period, self.slots)
        return first_sweep + again + advances(self.steps - first_sweep, self.slots) + recording

    def _cost(self, periods: int) -> float:
        on_disk = periods - (self.free_start and periods > 0)
        transfers = self.write_cost * on_disk, self.read_cost * on_disk
        return fsum((self._forward_steps(periods), *transfers))


def best_period(slots: int, write_cost: float, read_cost: float) -> int:
    """Return the period of `PeriodicDiskRevolve` that costs least a step in a long run.

    With s = `slots` and β(s, r) = C(s + r, s), it is β(s, r) for the least r such that
    β(s + 1, r) > write_cost + read_cost: steps run one time more often after β(s, r) of them,
    which costs more than the transfers of a further restart from there on.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign.

    References
    ----------
    Aupy & Herrmann 2017, doi 10.1080/10556788.2016.1230612.

    Examples
    --------
    >>> best_period(slots=3, write_cost=10, read_cost=1)
    10
    """
    slots = whole("slots", slots, least=0)
    transfers = cost("write_cost", write_cost) + cost("read_cost", read_cost)
    sweeps, _ = repetition(floor(transfers) + 1, slots + 1)
    return comb(slots + sweeps, slots)


def _in_memory(
    schedule: DiskRevolve | PeriodicDiskRevolve, start: int, stop: int, *, free_start: bool
) -> Iterator[Action]:
    """Reverse a range from the live state with the slots in memory alone."""
    revolve = Revolve(stop - start, schedule.slots, schedule.record_in_state, free_start)
    # Revolve records the last step for its output. Only that of the whole run is wanted.
    needless = schedule.record_in_state and stop < schedule.steps
    for action in shifted(revolve, start):
        if not (needless and isinstance(action, Record)):
            yield action


def _check(schedule: DiskRevolve | PeriodicDiskRevolve) -> None:
    """Turn the arguments that both have into plain numbers, or raise InvalidArgument."""
    for name, least in {"steps": 1, "slots": 0}.items():
        object.__setattr__(schedule, name, whole(name, getattr(schedule, name), least=least))
    for name in ("write_cost", "read_cost"):
        object.__setattr__(schedule, name, cost(name, getattr(schedule, name)))
    flag("record_in_state", schedule.record_in_state)
    flag("free_start", schedule.free_start)
