"""Restarts stream to disk and back while the computation runs: no waiting, no first sweep twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf
from numbers import Real

from retrograd.actions import DISK, INITIAL, Action, Advance, Record, Restore, Save
from retrograd.arguments import flag, whole
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.schedules.revolve import Revolve, advances
from retrograd.schedules.two_level import shifted


@dataclass(frozen=True, slots=True)
class Streaming:
    """A restart to disk every `period` steps, each read once; each period reversed as `Revolve`.

    Choose it where a slow tier works while the forward computes, as a background thread, a GPU's
    copy engine or NVMe does, and holds as many restarts as there are periods. The time a step
    takes does not grow with the number of steps then. `shortest_period` gives the period.

    Two relatives differ in what they assume. `PeriodicDiskRevolve` takes transfers to stop the
    computation and chooses the period that minimises computing plus transfers; here transfers
    cost no time, and the shorter the period the better, down to what the tier's speed allows.
    `TwoLevel` is the older scheme: it reads each restart several times and runs the last period
    once more.

    Parameters
    ----------
    steps : at least 1.
    slots : restarts that fit into memory, that of the period's start included.
    period : steps from one restart on disk to the next; the last period may be shorter.
    record_in_state : the record of a step is part of the state at its start, so that
        reversing it needs no forward step of its own.
    free_start : the initial state can be returned to at no cost and takes no slot.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign.
    BudgetTooSmall : no slot, and a period of more than one step whose start needs a slot.

    Notes
    -----
    With I = `period`, s = `slots` and t as in `Revolve`, the last period is reversed as soon as
    the forward arrives there. Every other one runs once before that, and t(I, s) steps in
    reverse, besides those that record. Let T_F be the time of a forward step, and T_B that of an
    adjoint step with the forward step that records it. For n steps the time is

        T/n → (1 + t(I, s)/I)·T_F + T_B,

    whatever n is, provided that the tier keeps up: a write in T_write ≤ I·T_F, and a read in
    T_read ≤ t(I, s)·T_F + I·T_B (`reads_stall`).

    In the order of the actions a period's restart is read when it is needed; it can be fetched
    while the period after it is reversed, with room for one restart more than `slots`. A write
    needs no room of its own: the slots are empty until the last period.

    References
    ----------
    Kukreja, Hückelheim & Gorman 2018, arXiv 1806.01117.

    Examples
    --------
    >>> for action in Streaming(4, slots=1, period=2, record_in_state=True):
    ...     print(action)
    Save(step=0, tier='disk')
    Advance(start=0, stop=2)
    Save(step=2, tier='memory')
    Advance(start=2, stop=3)
    Record(start=3, stop=4, tier='memory')
    Reverse(stop=4, start=3, keep=False)
    Restore(step=2, tier='memory', last=True)
    Reverse(stop=3, start=2, keep=False)
    Restore(step=0, tier='disk', last=True)
    Save(step=0, tier='memory')
    Advance(start=0, stop=1)
    Reverse(stop=2, start=1, keep=False)
    Restore(step=0, tier='memory', last=True)
    Reverse(stop=1, start=0, keep=False)
    >>> period = shortest_period(write_seconds=2.0, forward_step_seconds=0.1)
    >>> schedule = Streaming(10**6, slots=5, period=period)
    >>> schedule.forward_steps / schedule.steps
    3.64998
    >>> schedule.reads_stall(
    ...     read_seconds=1.5, forward_step_seconds=0.1, reverse_step_seconds=0.2
    ... )
    False
    """

    steps: int
    slots: int
    period: int
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        for name, least in {"steps": 1, "slots": 0, "period": 1}.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), least=least))
        flag("record_in_state", self.record_in_state)
        flag("free_start", self.free_start)
        first_saved = self.period if self.free_start else 0
        longest = min(self.period, self.steps - first_saved)
        if self.slots == 0 and longest > 1:
            raise BudgetTooSmall(
                f"periods of {longest} steps cannot be reversed with 0 slots: the state at the "
                "start of each must be held. Give slots=1 or more, or period=1",
                smallest_nbytes=1,
            )

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        starts = self._starts()
        recording = 1 if self.record_in_state else self.steps
        advanced = advances(self.steps - starts[-1], self._slots_at(starts[-1]))
        if len(starts) > 1:
            advanced += starts[-1] + advances(self.period, self._slots_at(0))
        if len(starts) > 2:
            advanced += (len(starts) - 2) * advances(self.period, self.slots)
        return advanced + recording

    def reads_stall(
        self, *, read_seconds: float, forward_step_seconds: float, reverse_step_seconds: float
    ) -> bool:
        """Whether reading a restart takes longer than reversing the period after it.

        If the last period is shorter than the others, the first read may wait all the same.

        Parameters
        ----------
        reverse_step_seconds : of a step of the adjoint, and of the forward step that records it
            if there is one.
        """
        if len(self._starts()) - self.free_start < 2:
            return False  # nothing is read
        advanced = advances(self.period, self.slots) * _seconds(
            "forward_step_seconds", forward_step_seconds
        )
        reversed_ = self.period * _seconds("reverse_step_seconds", reverse_step_seconds)
        return _seconds("read_seconds", read_seconds) > advanced + reversed_

    def __iter__(self) -> Iterator[Action]:
        *earlier, last = self._starts()
        for start in earlier:
            if start > 0 or not self.free_start:
                yield Save(start, DISK)
            yield Advance(start, start + self.period)
        yield from shifted(self._revolve(last), last)
        for start in reversed(earlier):
            if start == 0 and self.free_start:
                yield Restore(0, INITIAL)
            else:
                yield Restore(start, DISK, last=True)
            for action in shifted(self._revolve(start), start):
                # What it records of the last step, for its output, the first sweep has made.
                if not (self.record_in_state and isinstance(action, Record)):
                    yield action

    def _starts(self) -> range:
        return range(0, self.steps, self.period)

    def _revolve(self, start: int) -> Revolve:
        length = min(self.period, self.steps - start)
        free = self.free_start and start == 0
        return Revolve(length, self.slots, self.record_in_state, free)

    def _slots_at(self, start: int) -> int:
        return self.slots + (self.free_start and start == 0)


def shortest_period(*, write_seconds: float, forward_step_seconds: float) -> int:
    """Return the fewest steps during which a restart can be written, ⌈T_write / T_F⌉.

    Raises
    ------
    InvalidArgument : a time that is not positive and finite.
    """
    write = _seconds("write_seconds", write_seconds)
    return ceil(write / _seconds("forward_step_seconds", forward_step_seconds))


def _seconds(name: str, value: float) -> Fraction:
    """Return the time as an exact number, which cannot overflow."""
    if isinstance(value, Real) and not isinstance(value, bool) and 0 < value < inf:
        return Fraction(float(value))
    raise InvalidArgument(
        f"{name}={value!r} is not a positive, finite number: write a time in seconds, such as "
        f"{name}=0.5"
    )
