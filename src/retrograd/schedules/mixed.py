"""Restarts and records of different sizes in one memory: the fewest forward steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from retrograd.actions import INITIAL, Action
from retrograd.arguments import flag, whole
from retrograd.errors import BudgetTooSmall
from retrograd.schedules.mixed_best import best_tree
from retrograd.schedules.mixed_tree import Tree, make_shape
from retrograd.schedules.mixed_walk import walk
from retrograd.schedules.revolve import Revolve


@dataclass(frozen=True, slots=True)
class Mixed:
    """The optimal schedule for restarts and records that share one memory.

    Choose it whenever a record is smaller than a restart, or there is memory for more than a
    few records: restarts where the forward must return to, and all steps recorded once the rest
    fits, so that a window of records is reversed in one call. Where the record is part of the
    state and larger than a restart, it is `Revolve`.

    Parameters
    ----------
    steps : at least 1.
    restart_units, record_units : what a restart and a record take, in any common unit.
    memory_units : what there is. The record of the step just taken is part of the live state
        and takes none.
    record_in_state : the record of a step is part of the state at its start, so that
        reversing it needs no forward step of its own.
    free_start : the initial state can be returned to at no cost in memory.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign.
    BudgetTooSmall : the memory holds neither all records nor one restart.

    Notes
    -----
    With a, b and m units, and z = 1 if `record_in_state`, else 0, the forward runs F(n, m) steps
    (one more if z, since the last step of the first sweep is wanted)::

        F(1, m) = 1 − z
        F(n, m) = min(1 + F(n − 1, m − b),  min over i of  i + F(i, m) + F(n − i, m − a))

    This is the minimum up to 20,000 steps, found in milliseconds to tenths of a second without
    tabulating F (see `mixed_exact`). Beyond, it is at most a few times ⌈a/b⌉ forward steps more
    in all, and takes time in proportion to restarts times repetitions (see `mixed_near`). No
    record is taken before a restart (see `mixed_tree`): restarts and records are a stack.

    References
    ----------
    Equal sizes, and the data of the adjoint beside that of the forward: Maddison 2024,
    doi 10.1016/j.jocs.2024.102405. Smaller states beside full ones: Anderson, Tan & Wang 2012,
    doi 10.1190/geo2011-0114.1; patent application WO 2011/146161 on the same idea, whose status
    is unknown to us.

    Examples
    --------
    >>> for action in Mixed(4, restart_units=2, record_units=1, memory_units=2):
    ...     print(action)
    Save(step=0, tier='memory')
    Advance(start=0, stop=3)
    Record(start=3, stop=4, tier='memory')
    Reverse(stop=4, start=3, keep=False)
    Restore(step=0, tier='memory', last=True)
    Record(start=0, stop=3, tier='memory')
    Reverse(stop=3, start=0, keep=False)
    >>> Mixed(1615, 2, 1, memory_units=201, free_start=True).forward_steps
    3042
    """

    steps: int
    restart_units: int
    record_units: int
    memory_units: int
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        least = {"steps": 1, "restart_units": 1, "record_units": 1, "memory_units": 0}
        for name, smallest in least.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), least=smallest))
        flag("record_in_state", self.record_in_state)
        flag("free_start", self.free_start)
        needed = smallest_memory_units(
            self.steps, self.restart_units, self.record_units, self.free_start
        )
        if self.memory_units < needed:
            raise BudgetTooSmall(
                f"{self.steps} steps cannot be reversed in {self.memory_units} units, a restart "
                f"being {self.restart_units} and a record {self.record_units}: give "
                f"memory_units={needed} or more, or free_start=True if the initial state costs "
                "nothing to return to",
                smallest_nbytes=needed,
            )

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        if revolve := self._as_revolve():
            return revolve.forward_steps
        # The last step must run once for its output, even if its adjoint does not need that.
        return self._tree().forward_steps + self.record_in_state

    def __iter__(self) -> Iterator[Action]:
        if revolve := self._as_revolve():
            return iter(revolve)
        return walk(
            self._tree(),
            end=self.steps,
            record_in_state=self.record_in_state,
            base=INITIAL if self.free_start else None,
        )

    def _as_revolve(self) -> Revolve | None:
        """`Revolve` where records are no use.

        None fits, or a restart of the step's start takes less and holds the record as well.
        """
        dearer = self.record_in_state and self.record_units > self.restart_units
        if self.steps > 1 and (dearer or self.memory_units < self.record_units):
            slots = self.memory_units // self.restart_units
            return Revolve(self.steps, slots, self.record_in_state, self.free_start)
        return None

    def _tree(self) -> Tree:
        memory = (self.restart_units, self.record_units, self.memory_units)
        return best_tree(make_shape(self.steps, memory, self.record_in_state, self.free_start))


def smallest_memory_units(
    steps: int, restart_units: int, record_units: int, free_start: bool = False
) -> int:
    """Return the smallest memory in which `steps` can be reversed at all.

    Either one restart, at the initial state, or the records of all steps but the last.
    """
    return 0 if free_start else min(restart_units, (steps - 1) * record_units)
