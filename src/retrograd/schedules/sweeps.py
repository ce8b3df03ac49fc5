"""Several reverse sweeps over one forward: keep what the next sweep needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final

from retrograd.actions import (
    INITIAL,
    MEMORY,
    Action,
    Advance,
    BeginSweep,
    Record,
    Restore,
    Reverse,
    Save,
)
from retrograd.arguments import flag, whole
from retrograd.errors import BudgetTooSmall
from retrograd.schedules.mixed import Mixed
from retrograd.schedules.mixed_best import best_tree
from retrograd.schedules.mixed_tree import Tree, make_shape
from retrograd.schedules.mixed_walk import walk, walk_from_restart

_LONGER: Final = (1.0, 1.15, 1.4, 1.8, 2.5)
"""How much longer than the others the last segment may be: the first sweep runs it once less."""

_STRIDE: Final = 1.08


@dataclass(frozen=True, slots=True)
class Sweeps:
    """`Mixed` for several adjoint right-hand sides, one reverse sweep after the other.

    Some restarts stay for all sweeps; in between, each sweep uses the rest of the memory as `Mixed`
    does. The last sweep gives them up as it passes them, and has their memory for what lies before.
    Where all records fit, they are kept, and no later sweep runs a forward step.

    Choose it when one sweep cannot begin before another has ended. Right-hand sides that are known
    together need one sweep only, with an adjoint that carries all of them.

    Parameters
    ----------
    steps : at least 1.
    restart_units, record_units, memory_units, record_in_state, free_start : as for `Mixed`.
    sweeps : reverse sweeps, at least 1.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign.
    BudgetTooSmall : the memory holds neither all records nor the restart of the initial state.

    Notes
    -----
    With segments of l_0, … l_R steps between the restarts that stay, m_R units left beside all R
    of them, and P(l, m) the forward steps of `Mixed` for l steps whose start is held, k sweeps run

        N − l_R + (k − 1) Σ P(l_j, m_R) + Σ F(l_j, m_j)

    steps, F being those of `Mixed` where the start need not stay, and m_j what is left beside the
    restarts before the segment. R is tried in steps of 8 %, or of 1, with segments of equal
    length but for the last, which may be longer. So it is the best of these, and no worse than
    repeating `Mixed` from the initial state, which is R = 0.

    References
    ----------
    This project's own; for one sweep see `Mixed`.

    Examples
    --------
    >>> twice = Sweeps(100, 2, 1, memory_units=30, sweeps=2, free_start=True)
    >>> twice.forward_steps, twice.forward_steps_repeating
    (275, 346)
    """

    steps: int
    restart_units: int
    record_units: int
    memory_units: int
    sweeps: int
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        least = {"steps": 1, "restart_units": 1, "record_units": 1, "memory_units": 0, "sweeps": 1}
        for name, smallest in least.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), least=smallest))
        flag("record_in_state", self.record_in_state)
        flag("free_start", self.free_start)
        needed = 0 if self.free_start else min(self.restart_units, self._all_records())
        if self.memory_units < needed:
            raise BudgetTooSmall(
                f"{self.steps} steps cannot be reversed in {self.memory_units} units, a restart "
                f"being {self.restart_units} and a record {self.record_units}: give "
                f"memory_units={needed} or more, or free_start=True if the initial state costs "
                "nothing to return to",
                smallest_nbytes=needed,
            )

    def _all_records(self) -> int:
        return (self.steps - 1) * self.record_units

    @property
    def forward_steps(self) -> int:
        """Forward steps of all sweeps, each counted as often as it runs."""
        if self._keeps_all():
            return self.steps
        if self.sweeps == 1:
            return self._mixed().forward_steps
        return _forward_steps(self, _best_segments(self)) + self.record_in_state

    @property
    def forward_steps_repeating(self) -> int:
        """What returning to the initial state for each sweep, and nothing else, would run."""
        if self._keeps_all() or self.sweeps == 1:
            return self.forward_steps
        return _forward_steps(self, (self.steps,)) + self.record_in_state

    def _mixed(self) -> Mixed:
        sizes = self.restart_units, self.record_units, self.memory_units
        return Mixed(self.steps, *sizes, self.record_in_state, self.free_start)

    def _keeps_all(self) -> bool:
        return self.memory_units >= self._all_records()

    def _units_beside(self, restarts: int) -> int:
        """Units left beside so many restarts."""
        return self.memory_units - restarts * self.restart_units

    def _tree(self, steps: int, restarts: int, *, is_held: bool) -> Tree:
        """How to reverse a segment beside so many restarts.

        Its own start is one of them if it is held; if not, the segment has that memory too, and
        may keep the start as long as it serves.
        """
        units = self._units_beside(restarts)
        memory = self.restart_units, self.record_units, units
        if self.record_in_state and self.record_units > self.restart_units:
            memory = self.restart_units, units + 1, units  # records are no use
        return best_tree(make_shape(steps, memory, self.record_in_state, is_held))

    def __iter__(self) -> Iterator[Action]:
        if self._keeps_all():
            yield Record(0, self.steps)
            for sweep in range(1, self.sweeps):
                yield Reverse(self.steps, 0, keep=True)
                yield BeginSweep(sweep)
            yield Reverse(self.steps, 0)
            return
        if self.sweeps == 1:
            yield from self._mixed()
            return
        starts = [0, *accumulate(_best_segments(self))]
        yield from self._first_forward(starts)
        for sweep in range(self.sweeps):
            if sweep:
                yield BeginSweep(sweep)
            yield from self._sweep(starts, sweep)

    def _first_forward(self, starts: list[int]) -> Iterator[Action]:
        if not self.free_start:
            yield Save(0)
        for start, stop in pairwise(starts[:-1]):
            yield Advance(start, stop)
            yield Save(stop)

    def _sweep(self, starts: list[int], sweep: int) -> Iterator[Action]:
        """One reverse sweep: segment by segment, the last one first."""
        # The last step's output is wanted once; where that is not for the adjoint, no sweep
        # after the first one runs it.
        end = self.steps if sweep == 0 else self.steps + 1
        is_last = sweep == self.sweeps - 1
        segments = len(starts) - 1
        for index in range(segments - 1, -1, -1):
            start, steps = starts[index], starts[index + 1] - starts[index]
            tree = _trees(self, steps, index, segments)[is_last]
            base = INITIAL if start == 0 and self.free_start else MEMORY
            in_state = self.record_in_state
            if is_last and base == MEMORY:
                yield from walk_from_restart(tree, start=start, end=end, record_in_state=in_state)
                continue
            if sweep or index < segments - 1:
                yield Restore(start, base)
            yield from walk(tree, start=start, end=end, record_in_state=in_state, base=base)


def _trees(schedule: Sweeps, steps: int, index: int, segments: int) -> tuple[Tree, Tree]:
    """How to reverse a segment, the one at `index` of several, in all sweeps but the last, and
    in the last."""
    paid = not schedule.free_start
    early = schedule._tree(steps, segments - 1 + paid, is_held=True)
    if index == 0 and not paid:
        return early, schedule._tree(steps, 0, is_held=True)
    return early, schedule._tree(steps, index - 1 + paid, is_held=False)


@lru_cache(maxsize=64)
def _best_segments(schedule: Sweeps) -> tuple[int, ...]:
    """The segments with the fewest forward steps among those that are tried."""
    best: tuple[int, ...] = (schedule.steps,)
    fewest = _forward_steps(schedule, best)
    paid = not schedule.free_start
    restarts = 0
    while True:
        restarts = max(restarts + 1, int(restarts * _STRIDE))
        if restarts >= schedule.steps or schedule._units_beside(restarts + paid) < 0:
            return best
        for longer in _LONGER:
            segments = _cut(schedule.steps, restarts, longer)
            found = _forward_steps(schedule, segments)
            if found < fewest:
                best, fewest = segments, found


def _cut(steps: int, restarts: int, longer: float) -> tuple[int, ...]:
    """Equal segments, the last one `longer` times as long as the others."""
    last = max(1, min(steps - restarts, round(steps * longer / (restarts + longer))))
    each, rest = divmod(steps - last, restarts)
    return (*(each + (j < rest) for j in range(restarts)), last)


def _forward_steps(schedule: Sweeps, segments: tuple[int, ...]) -> int:
    """Forward steps, without the very last one where its record is in the state."""
    total = schedule.steps - segments[-1]
    for index, steps in enumerate(segments):
        early, late = _trees(schedule, steps, index, len(segments))
        total += (schedule.sweeps - 1) * early.forward_steps + late.forward_steps
    return total
