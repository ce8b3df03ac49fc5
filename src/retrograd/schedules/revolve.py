"""Binomial checkpointing: the fewest forward steps when only restarts are kept."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from math import comb

from retrograd.actions import INITIAL, MEMORY, Action, Advance, Record, Restore, Reverse, Save
from retrograd.arguments import flag, whole
from retrograd.errors import BudgetTooSmall


@dataclass(frozen=True, slots=True)
class Revolve:
    """Griewank & Walther's schedule: `slots` restarts in memory, each step turned on its own.

    Choose it when a record is no smaller than a restart, or when there are too many steps for
    the table of `Mixed`: it needs no table and any number of steps. Where a record is smaller
    than a restart, `Mixed` runs fewer steps in the same memory.

    Parameters
    ----------
    steps : at least 1.
    slots : restarts that fit into memory, the one of the initial state included.
    record_in_state : the record of a step is part of the state at its start, so that
        reversing it needs no forward step of its own.
    free_start : the initial state can be returned to at no cost in memory and takes no slot.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign.
    BudgetTooSmall : no slot, more than one step, and an initial state that needs a slot.

    Notes
    -----
    With s = `slots` (one more if `free_start`), β(s, r) = C(s + r, s) and r the least number
    with β(s, r) ≥ l, the forward runs t(l, s) = r·l − β(s + 1, r − 1) steps besides those that
    record. Iterating takes O(1) an action and O(s) memory.

    References
    ----------
    Griewank & Walther 2000, Algorithm 799, doi 10.1145/347837.347846.

    Examples
    --------
    >>> for action in Revolve(3, slots=1, record_in_state=True):
    ...     print(action)
    Save(step=0, tier='memory')
    Advance(start=0, stop=2)
    Record(start=2, stop=3, tier='memory')
    Reverse(stop=3, start=2, keep=False)
    Restore(step=0, tier='memory', last=False)
    Advance(start=0, stop=1)
    Reverse(stop=2, start=1, keep=False)
    Restore(step=0, tier='memory', last=True)
    Reverse(stop=1, start=0, keep=False)
    >>> Revolve(10**6, slots=50).forward_steps
    5658945
    """

    steps: int
    slots: int
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", whole("steps", self.steps, least=1))
        object.__setattr__(self, "slots", whole("slots", self.slots, least=0))
        flag("record_in_state", self.record_in_state)
        flag("free_start", self.free_start)
        if self.steps > 1 and self.slots + self.free_start == 0:
            raise BudgetTooSmall(
                f"{self.steps} steps cannot be reversed with 0 slots: the initial state must be "
                "saved. Give slots=1 or more, free_start=True if it costs nothing to return to, "
                "or use KeepAll()",
                smallest_nbytes=1,
            )

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        recording = 1 if self.record_in_state else self.steps
        return advances(self.steps, self._useful_slots()) + recording

    def __iter__(self) -> Iterator[Action]:
        pending: list[tuple[int, int, int, int, int]] = []
        start, length, slots, saved = 0, self.steps, self._useful_slots(), self.free_start
        sweeps, reach = repetition(length, slots)
        while True:
            while length > 1:
                if not saved:
                    yield Save(start)
                # The least r with β(s, r) ≥ l, from that of the range this one is part of.
                while (fewer := reach * sweeps // (slots + sweeps)) >= length:
                    sweeps, reach = sweeps - 1, fewer
                # Both parts need at most as many repetitions as the formula for t counts:
                # β(s, r−2) ≤ left ≤ β(s, r−1) and β(s−1, r−1) ≤ right ≤ β(s−1, r).
                right_most = reach - fewer
                right_least = right_most * sweeps // (slots + sweeps - 1)
                left = min(fewer, length - right_least)
                yield Advance(start, start + left)
                pending.append((start, left, slots, sweeps - 1, fewer))
                start, length, slots, reach = start + left, length - left, slots - 1, right_most
                saved = False
            if not self.record_in_state or start + 1 == self.steps:
                yield Record(start, start + 1)
            yield Reverse(start + 1, start)
            if not pending:
                return
            start, length, slots, sweeps, reach = pending.pop()
            saved = True
            if start == 0 and self.free_start:
                yield Restore(0, INITIAL)
            else:
                yield Restore(start, MEMORY, last=length == 1)

    def _useful_slots(self) -> int:
        # With a restart at every step but the last, no step is advanced over twice.
        return max(1, min(self.slots + self.free_start, self.steps - 1))


def repetition(length: int, slots: int) -> tuple[int, int]:
    """Return r(l, s), the least r with β(s, r) ≥ l, and β(s, r)."""
    if slots == 1:
        return length - 1, length
    enough = 1
    while comb(slots + enough, slots) < length:
        enough *= 2
    sweeps = bisect_left(range(enough), length, key=lambda r: comb(slots + r, slots))
    return sweeps, comb(slots + sweeps, slots)


def advances(length: int, slots: int) -> int:
    """Return t(l, s), the steps advanced over with `slots` restarts, recording ones left out."""
    sweeps, reach = repetition(length, slots)
    # β(s + 1, r − 1) = β(s, r) · r / (s + 1).
    return sweeps * length - reach * sweeps // (slots + 1)
