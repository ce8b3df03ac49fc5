"""Schedules for a number of steps that is known only when the forward has ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from retrograd.actions import Action, Record
from retrograd.arguments import flag, whole
from retrograd.errors import BudgetTooSmall
from retrograd.schedules import online_walk
from retrograd.schedules.online_restarts import Room


class OnlineSchedule(ABC):
    """A schedule in two parts: forward until someone says stop, and back from there."""

    __slots__ = ()

    @property
    @abstractmethod
    def room(self) -> Room:
        """What restarts and records take, and the memory there is for them."""

    def forward(self) -> Iterator[Action]:
        """Yield actions without end. Stop after any ``Record``: each of them is one step."""
        return online_walk.forward(self.room)

    def reverse(self, steps: int) -> Iterator[Action]:
        """Yield the rest for a forward that was stopped after `steps` steps."""
        return online_walk.reverse(self.room, whole("steps", steps, least=1))

    def actions(self, steps: int) -> Iterator[Action]:
        """Yield all actions for a forward that is stopped after `steps` steps."""
        return iter(Stopped(self, steps))

    def forward_steps(self, steps: int) -> int:
        """Forward steps that run for `steps` steps, each counted as often as it runs."""
        return Stopped(self, steps).forward_steps


@dataclass(frozen=True, slots=True)
class Stopped:
    """What an online schedule was, once the number of steps is known: a schedule like others.

    Parameters
    ----------
    schedule : the online schedule.
    steps : how many steps its forward made, at least 1.
    """

    schedule: OnlineSchedule
    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", whole("steps", self.steps, least=1))

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        return online_walk.forward_steps(self.schedule.room, self.steps)

    def __iter__(self) -> Iterator[Action]:
        for action in self.schedule.forward():
            yield action
            if isinstance(action, Record) and action.stop == self.steps:
                break
        yield from self.schedule.reverse(self.steps)


@dataclass(frozen=True, slots=True)
class OnlineRevolve(OnlineSchedule):
    """`Revolve` for an unknown number of steps: `slots` restarts in memory.

    Choose it when the forward finds out as it runs how many steps it makes, and a record is no
    smaller than a restart. If records are smaller, `OnlineMixed` keeps those of the last steps.

    Parameters
    ----------
    slots : restarts that fit into memory, the one of the initial state included.
    record_in_state : the record of a step is part of the state at its start, so that
        reversing it needs no forward step of its own.
    free_start : the initial state can be returned to at no cost in memory and takes no slot.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign.
    BudgetTooSmall : no slot, and an initial state that needs one.

    Notes
    -----
    With s = `slots` (one more if `free_start`) and r, t(N, s) as in `Revolve`, N steps advance

    * at most t(N, s) + 1 steps if N ≤ (s + 1)(s + 2)/2, where r ≤ 2,
    * less than r·N for every N,

    besides those that record. Up to N = (s + 1)(s + 2)(s + 3)/6, where r = 3, it is at most 5 above
    t(N, s) as far as we have counted, s ≤ 40; for N = C(s + r, s) it is t(N, s) itself. The largest
    ratio for any N is 1.28 with two slots, which no rule can better, 1.2 with 3 and 1.1 with 8.

    Every step of the first sweep is recorded, since the newest record is free and the step may be
    the last. Where restarts are saved, and which is given up for a new one, is in
    `online_restarts`. When the forward has ended, each gap between restarts is reversed by an
    optimal schedule, in the slots that are free then.

    References
    ----------
    The same bounds, restarts placed otherwise: up to (s + 1)(s + 2)(s + 3)/6 steps, Stumm &
    Walther 2010, doi 10.1137/080742439; any number of steps, Wang, Moin & Iaccarino 2009,
    doi 10.1137/080727890.

    Examples
    --------
    >>> for action in OnlineRevolve(slots=1, record_in_state=True).actions(steps=2):
    ...     print(action)
    Save(step=0, tier='memory')
    Record(start=0, stop=1, tier='memory')
    Forget(start=0, stop=1, tier='memory')
    Record(start=1, stop=2, tier='memory')
    Reverse(stop=2, start=1, keep=False)
    Restore(step=0, tier='memory', last=True)
    Reverse(stop=1, start=0, keep=False)
    >>> OnlineRevolve(100).forward_steps(10_000)  # Revolve(10_000, 100) runs 34747
    34750
    """

    slots: int
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", whole("slots", self.slots, least=0))
        flag("record_in_state", self.record_in_state)
        flag("free_start", self.free_start)
        if self.slots + self.free_start == 0:
            raise BudgetTooSmall(
                "an unknown number of steps cannot be reversed with 0 slots: the initial state "
                "must be saved. Give slots=1 or more, or free_start=True if it costs nothing to "
                "return to",
                smallest_nbytes=1,
            )

    @property
    def room(self) -> Room:
        """A restart takes a unit; a record takes more than there are."""
        return Room(1, self.slots + 1, self.slots, self.record_in_state, self.free_start)


@dataclass(frozen=True, slots=True)
class OnlineMixed(OnlineSchedule):
    """`Mixed` for an unknown number of steps: restarts, and the records of the last steps.

    Choose it when the forward finds out as it runs how many steps it makes. As long as all
    records fit beside the restart of the initial state, all are kept and no step runs twice.
    From then on the records of the last steps are kept, a window that moves along with the
    forward: its memory is what the restarts leave, so that it shrinks with each new restart.
    Where the record is part of the state and no smaller than a restart, it is `OnlineRevolve`.

    Parameters
    ----------
    restart_units, record_units : what a restart and a record take, in any common unit.
    memory_units : what there is. The record of the step just taken is part of the live state
        and takes none.
    record_in_state : the record of a step is part of the state at its start, so that
        reversing it needs no forward step of its own.
    free_start : the initial state can be returned to at no cost in memory.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign.
    BudgetTooSmall : the memory does not hold the restart of the initial state.

    Notes
    -----
    With C(d) = ⌊(m − d·a)/b⌋ + 1 for a, b and m units, no step runs more than r times, r being
    the least number with B(0, r) ≥ N, where B(d, 1) = C(d) and B(d, r) is the sum of
    B(j, r − 1) over j ≥ d: the least repetition with which N steps can be reversed in this memory
    at all. So N steps run at most r·N (and for C(1) < N ≤ C(0), 2·N) forward steps.

    The restart of the initial state must be held from the beginning, and a further one is saved
    C(d) steps after the one before it, long before it is needed. That takes ⌈a/b⌉ records each
    from the window: the forward steps beyond `Mixed` are a few times ⌈a/b⌉ as long as no step
    runs more than twice. Where a restart replaces another, a few per cent are added.

    References
    ----------
    See `OnlineRevolve` and `Mixed`; the window of records is this project's own.

    Examples
    --------
    >>> OnlineMixed(2, 1, memory_units=200).forward_steps(1615)
    3047
    >>> for action in OnlineMixed(2, 1, memory_units=4, free_start=True).actions(steps=7):
    ...     print(action)
    Record(start=0, stop=1, tier='memory')
    Record(start=1, stop=2, tier='memory')
    Record(start=2, stop=3, tier='memory')
    Record(start=3, stop=4, tier='memory')
    Record(start=4, stop=5, tier='memory')
    Forget(start=0, stop=3, tier='memory')
    Save(step=5, tier='memory')
    Record(start=5, stop=6, tier='memory')
    Forget(start=3, stop=4, tier='memory')
    Record(start=6, stop=7, tier='memory')
    Reverse(stop=7, start=4, keep=False)
    Drop(step=5, tier='memory')
    Restore(step=0, tier='initial', last=False)
    Record(start=0, stop=4, tier='memory')
    Reverse(stop=4, start=0, keep=False)
    """

    restart_units: int
    record_units: int
    memory_units: int
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        least = {"restart_units": 1, "record_units": 1, "memory_units": 0}
        for name, smallest in least.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), least=smallest))
        flag("record_in_state", self.record_in_state)
        flag("free_start", self.free_start)
        if self.memory_units < self.restart_units and not self.free_start:
            raise BudgetTooSmall(
                f"an unknown number of steps cannot be reversed in {self.memory_units} units: the "
                f"initial state must be saved. Give memory_units={self.restart_units} or more, or "
                "free_start=True if it costs nothing to return to",
                smallest_nbytes=self.restart_units,
            )

    @property
    def room(self) -> Room:
        """The sizes as they are given; or those of `OnlineRevolve` where records are no use."""
        if self.record_in_state and self.record_units >= self.restart_units:
            slots = self.memory_units // self.restart_units
            return OnlineRevolve(slots, self.record_in_state, self.free_start).room
        return Room(
            self.restart_units,
            self.record_units,
            self.memory_units,
            self.record_in_state,
            self.free_start,
        )
