"""Binomial checkpointing over memory and disk: the busiest slots lie in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from retrograd.actions import (
    DISK,
    INITIAL,
    MEMORY,
    Action,
    Advance,
    Record,
    Restore,
    Reverse,
    Save,
    Tier,
)
from retrograd.arguments import flag, whole
from retrograd.errors import BudgetTooSmall
from retrograd.schedules.revolve import advances, repetition


class Traffic(NamedTuple):
    """How often a slot is written and read."""

    writes: int
    reads: int


@dataclass(frozen=True, slots=True)
class Multistage:
    """Stumm & Walther's schedule: as few steps as `Revolve`, its restarts on two tiers.

    Choose it when memory holds too few restarts, the disk holds the missing ones, and the
    forward waits for it. The number of steps depends on the sum of the slots alone; which tier a
    slot lies in decides how often the disk is used. Where the disk holds as many restarts as one
    likes, or works while the forward runs, `Streaming` runs fewer steps.

    Parameters
    ----------
    steps : at least 1.
    memory_slots, disk_slots : restarts that fit into each tier, the one of the initial state
        included.
    record_in_state : the record of a step is part of the state at its start, so that
        reversing it needs no forward step of its own.
    free_start : the initial state can be returned to at no cost and takes no slot.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign.
    BudgetTooSmall : no slot, more than one step, and an initial state that needs a slot.

    Notes
    -----
    The restarts held are a stack, and the slot of a restart is the number of restarts beneath
    it. Each slot is written and read a number of times that is known beforehand; those with the
    most writes and reads lie in memory, which is the best that can be done with these splits.

    Several splits run the fewest steps and differ in writes and reads. This schedule uses those
    of Algorithm 799. With d free slots and r repetitions, β(d, r) = C(d + r, d) and β(−1, r) =
    β(−2, r) = 0, the forward advances over l steps to::

        β(d, r−2)                      if l ≤ β(d, r−1) + β(d−2, r−1)
        β(d, r−1)                      if l ≥ β(d, r) − β(d−3, r)
        l − β(d−1, r−1) − β(d−2, r−1)  otherwise

    but over one step at least. Iterating takes O(1) an action and O(slots) memory.

    References
    ----------
    Stumm & Walther 2009, doi 10.1137/080718036. Griewank & Walther 2000, Algorithm 799,
    doi 10.1145/347837.347846.

    Examples
    --------
    >>> for action in Multistage(4, memory_slots=1, disk_slots=1, record_in_state=True):
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
    >>> Multistage(24, memory_slots=2, disk_slots=2).slot_traffic[3]
    Traffic(writes=4, reads=9)
    """

    steps: int
    memory_slots: int
    disk_slots: int
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        for name, least in {"steps": 1, "memory_slots": 0, "disk_slots": 0}.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), least=least))
        flag("record_in_state", self.record_in_state)
        flag("free_start", self.free_start)
        if self.steps > 1 and self.memory_slots + self.disk_slots + self.free_start == 0:
            raise BudgetTooSmall(
                f"{self.steps} steps cannot be reversed with 0 slots: the initial state must be "
                "saved. Give memory_slots=1 or disk_slots=1 or more, free_start=True if it costs "
                "nothing to return to, or use KeepAll()",
                smallest_nbytes=1,
            )

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        recording = 1 if self.record_in_state else self.steps
        return advances(self.steps, self._useful_slots()) + recording

    @property
    def slot_traffic(self) -> tuple[Traffic, ...]:
        """Writes and reads of each slot that is used, the one at the bottom of the stack first."""
        return count_traffic(self.steps, self._useful_slots())[self.free_start :]

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """The tier of each slot, in the order of `slot_traffic`.

        Of equally busy slots the one whose restarts are held for less long lies in memory.
        """
        traffic = self.slot_traffic
        busiest = sorted(range(len(traffic)), key=lambda slot: (sum(traffic[slot]), slot))
        in_memory = set(busiest[max(0, len(traffic) - self.memory_slots) :])
        return tuple(MEMORY if slot in in_memory else DISK for slot in range(len(traffic)))

    def __iter__(self) -> Iterator[Action]:
        useful = self._useful_slots()
        tiers = (INITIAL,) * self.free_start + self.tiers
        pending: list[tuple[int, int, int, int, int]] = []
        start, length, slots, saved = 0, self.steps, useful, self.free_start
        sweeps, reach = repetition(length, slots)
        while True:
            while length > 1:
                if not saved:
                    yield Save(start, tiers[useful - slots])
                while (fewer := reach * sweeps // (slots + sweeps)) >= length:
                    sweeps, reach = sweeps - 1, fewer
                left = _left(length, slots, sweeps, reach)
                yield Advance(start, start + left)
                pending.append((start, left, slots, sweeps - 1, fewer))
                start, length, slots, reach = start + left, length - left, slots - 1, reach - fewer
                saved = False
            if not self.record_in_state or start + 1 == self.steps:
                yield Record(start, start + 1)
            yield Reverse(start + 1, start)
            if not pending:
                return
            start, length, slots, sweeps, reach = pending.pop()
            saved = True
            tier = tiers[useful - slots]
            yield Restore(start, tier, last=length == 1 and tier != INITIAL)

    def _useful_slots(self) -> int:
        # With a restart at every step but the last, no step is advanced over twice.
        slots = self.memory_slots + self.disk_slots + self.free_start
        return max(1, min(slots, self.steps - 1))


def _left(length: int, slots: int, sweeps: int, reach: int) -> int:
    """Return how far to advance, with d = `slots`, r = `sweeps` and β(d, r) = `reach`."""
    fewer = reach * sweeps // (slots + sweeps)  # β(d, r−1)
    one_less = fewer * slots // (slots + sweeps - 1) if slots > 1 else 1  # β(d−1, r−1)
    two_less = one_less * (slots - 1) // (slots + sweeps - 2) if slots > 2 else slots - 1
    if length <= fewer + two_less:
        return max(1, one_less * (sweeps - 1) // slots)  # β(d, r−2)
    three_less = two_less * (slots - 2) // sweeps if slots > 3 else max(0, slots - 2)
    if length >= reach - three_less:
        return fewer
    return length - one_less - two_less


@lru_cache(maxsize=64)
def count_traffic(length: int, slots: int) -> tuple[Traffic, ...]:
    """Return the writes and reads of each slot for `length` steps.

    Parts of equal length at one depth are split alike and counted together: their number grows
    with the slots and repetitions, not with the steps.
    """
    counted: list[Traffic] = []
    fresh = {length: 1}  # how many parts of each length begin with a save at this depth
    for free in range(slots, 0, -1):
        if max(fresh) == 1:
            break  # no part is left that saves anything
        fresh, traffic = _one_slot(fresh, free)
        counted.append(traffic)
    return tuple(counted)


def _one_slot(fresh: dict[int, int], free: int) -> tuple[dict[int, int], Traffic]:
    """Return the parts that begin one slot higher, and what the slot beneath `free` does."""
    writes = sum(number for length, number in fresh.items() if length > 1)
    if free == 1:  # the slot is read for every step but the last of each part
        return {}, Traffic(writes, sum((length - 1) * n for length, n in fresh.items()))
    reads, parts, higher = 0, dict(fresh), dict[int, int]()
    longest_first = [-length for length in parts]
    heapify(longest_first)
    while longest_first and (length := -heappop(longest_first)) > 1:
        number = parts[length]
        reads += number
        left = _left(length, free, *repetition(length, free))
        if left not in parts:
            heappush(longest_first, -left)
        parts[left] = parts.get(left, 0) + number
        higher[length - left] = higher.get(length - left, 0) + number
    return higher, Traffic(writes, reads)
