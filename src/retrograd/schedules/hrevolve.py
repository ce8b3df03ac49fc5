"""H-Revolve: the least time when restarts lie on several tiers whose transfers cost time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from retrograd.actions import DISK, INITIAL, MEMORY, Action, Record, Reverse, Tier
from retrograd.arguments import flag, whole
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.schedules.tier_table import (
    MOST_CELLS,
    Expense,
    TierTable,
    cost,
    expense,
    make_grid,
    only_one_step,
    walk,
)


@dataclass(frozen=True, slots=True)
class TierSlots:
    """A tier, the restarts that fit into it, and what moving one costs.

    Parameters
    ----------
    slots : restarts that fit.
    write_cost, read_cost : the time of a `Save` and of a `Restore`, in units of one forward step.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign, or the initial tier's name.
    """

    tier: Tier
    slots: int
    write_cost: float = 0.0
    read_cost: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.tier, str) or self.tier in ("", INITIAL):
            raise InvalidArgument(
                f"tier={self.tier!r} is not the name of a tier for restarts: write a string such "
                f"as {MEMORY!r} or {DISK!r}; free_start=True is for an initial state that costs "
                "nothing to return to"
            )
        object.__setattr__(self, "slots", whole("slots", self.slots, least=0))
        for name in ("write_cost", "read_cost"):
            object.__setattr__(self, name, cost(name, getattr(self, name)))


@dataclass(frozen=True, slots=True)
class HRevolve:
    """Herrmann & Pallez's schedule: the least time with restarts on any number of tiers.

    Choose it when each tier holds a bounded number of restarts and the forward waits for
    transfers whose cost is known: device, host, and disk, say. Where the disk holds as many
    restarts as one likes, `DiskRevolve` needs no number of slots, and `PeriodicDiskRevolve` takes
    any number of steps. Where transfers run while the forward computes, `Streaming` runs fewer
    steps; where their cost is unknown, `Multistage` minimises their number for as few steps as
    `Revolve`. Where a record is smaller than a restart, `TieredMixed` keeps records in memory as
    well, or `Mixed` if there is no other tier.

    Parameters
    ----------
    steps : at least 1.
    tiers : fastest first; no cost may fall from a tier to the next.
    record_in_state : the record of a step is part of the state at its start, so that
        reversing it needs no forward step of its own.
    free_start : the initial state can be returned to at no cost and takes no slot.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign, tiers of one name or out of order, or
        more steps times slots than can be tabulated.
    BudgetTooSmall : no slot, more than one step, and an initial state that needs a slot.

    Notes
    -----
    The recurrences are in `tier_table`. A free initial state is one more tier, the last, with one
    slot, which holds step 0 from the start. Steps that record are a fixed number, so that
    `record_in_state` changes neither splits nor tiers.

    Where no cost falls from a tier to the next, no sequence of saves, advances and restores costs
    less: so an exhaustive search says for up to 7 steps and 3 tiers. For tiers out of order it
    finds better ones, and they are refused.

    The tables take time and memory in proportion to steps times slots; slots beyond ``steps − 1``
    are not counted. 1615 steps with 20 and 200 slots take a quarter of a second.

    References
    ----------
    Herrmann & Pallez 2020, doi 10.1145/3378672.

    Examples
    --------
    >>> tiers = TierSlots("memory", 1), TierSlots("disk", 1, write_cost=0.5, read_cost=0.5)
    >>> for action in HRevolve(4, tiers, record_in_state=True):
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
    >>> HRevolve(8, tiers).cost
    23.5
    """

    steps: int
    tiers: tuple[TierSlots, ...]
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", whole("steps", self.steps, least=1))
        object.__setattr__(self, "tiers", _in_order(self.tiers))
        flag("record_in_state", self.record_in_state)
        flag("free_start", self.free_start)
        slots = sum(min(tier.slots, self.steps - 1) for tier in self.tiers)
        if self.steps > 1 and slots + self.free_start == 0:
            raise BudgetTooSmall(
                f"{self.steps} steps cannot be reversed with 0 slots: the initial state must be "
                "saved. Give a tier slots=1 or more, free_start=True if it costs nothing to "
                "return to, or use KeepAll()",
                smallest_nbytes=1,
            )
        if self.steps * slots > MOST_CELLS:
            raise InvalidArgument(
                f"{self.steps} steps with {slots} slots need a table of {self.steps * slots} "
                f"costs, and {MOST_CELLS} are allowed: give fewer slots, or use "
                "PeriodicDiskRevolve or Multistage, which need no table"
            )

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        return _expense(self).forward_steps

    @property
    def cost(self) -> float:
        """`forward_steps`, those that record included, and the costs of all saves and restores."""
        return _expense(self).cost

    def __iter__(self) -> Iterator[Action]:
        return walk(_tables(self.steps, self.tiers, self.free_start), self.steps, self._turn)

    def _turn(self, start: int, stop: int) -> Iterator[Action]:
        if not self.record_in_state or stop == self.steps:
            yield Record(start, stop)
        yield Reverse(stop, start)


def _in_order(tiers: object) -> tuple[TierSlots, ...]:
    """Return the tiers as a tuple.

    Raises
    ------
    InvalidArgument : for anything but tiers of different names, no cost falling.
    """
    if not isinstance(tiers, list | tuple) or not all(isinstance(t, TierSlots) for t in tiers):
        raise InvalidArgument(
            f"tiers={tiers!r} is not a tuple of TierSlots: write "
            "tiers=(TierSlots('memory', slots=10),), the fastest tier first"
        )
    names = [tier.tier for tier in tiers]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgument(
                f"two tiers are named {name!r}: add their slots up, or give them different names"
            )
    for faster, slower in pairwise(tiers):
        for kind in ("write_cost", "read_cost"):
            least, found = getattr(faster, kind), getattr(slower, kind)
            if found < least:
                raise InvalidArgument(
                    f"tier {slower.tier!r} comes after {faster.tier!r} and has the smaller "
                    f"{kind}, {found} instead of {least}: list the fastest tier first; if "
                    f"neither is the faster one throughout, give {slower.tier!r} {kind}={least}"
                )
    return tuple(tiers)


@lru_cache(maxsize=2)
def _tables(steps: int, tiers: tuple[TierSlots, ...], free_start: bool) -> tuple[TierTable, ...]:
    grid = make_grid(steps, *(c for tier in tiers for c in (tier.write_cost, tier.read_cost)))
    tables: list[TierTable] = []
    below = only_one_step(steps, grid)
    for tier in tiers:
        transfers = grid.round(tier.write_cost), grid.round(tier.read_cost)
        if slots := min(tier.slots, steps - 1):
            tables.append(TierTable(tier.tier, slots, transfers, below))
            below = tables[-1].top
    if free_start:
        tables.append(TierTable(INITIAL, 1, (0.0, 0.0), below))
    return tuple(tables)


@lru_cache(maxsize=16)
def _expense(schedule: HRevolve) -> Expense:
    return expense(
        schedule, {tier.tier: (tier.write_cost, tier.read_cost) for tier in schedule.tiers}
    )
