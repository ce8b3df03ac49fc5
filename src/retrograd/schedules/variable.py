"""Steps that differ in cost and in size: the least cost of forward steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any, Final

import numpy as np

from retrograd.actions import INITIAL, MEMORY, Action, Advance, Record, Restore, Reverse, Save
from retrograd.arguments import flag, whole
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.schedules.variable_table import IMPOSSIBLE, RECORD, Sizes, Table, tabulate

MOST_WORK: Final = 300_000_000
"""The most additions in a table, steps³ · units / 6: some five seconds."""

_FEWEST_UNITS: Final = 48


@dataclass(frozen=True, slots=True)
class Variable:
    """The optimal schedule where steps differ in cost, or restarts and records in size.

    Choose it where the differences are known before the run: a mesh that is refined on the way,
    a solver that takes longer at some times. Where all are equal, `Mixed` is the same, at once and
    for any number of steps.

    Parameters
    ----------
    step_costs : what each step takes, in any unit; one number if all take the same.
    restart_units, record_units : what the restart at the start of each step and the record of each
        step take, in any common unit; one number where all are equal.
    memory_units : what there is. The record of the step just taken takes none.
    record_in_state : the record of a step is part of the state at its start, so that reversing it
        needs no forward step of its own.
    free_start : the initial state can be returned to at no cost in memory.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind, sign or length.
    BudgetTooSmall : the memory holds neither all records nor the restarts that are needed.

    Notes
    -----
    With C(i, k) the cost of steps i … k − 1, R(i, j) the records of steps i … j − 2, and a_i, b_i
    the restart and the record of step i, the steps i … j − 1 take ::

        V(i, j, m) = min( C(i, j)                                                if R(i, j) ≤ m,
                          C(i, i + 1) + V(i + 1, j, m − b_i)                     if b_i ≤ m,
                          min over k of  C(i, k) + V(k, j, m − a_i) + V(i, k, m)  if a_i ≤ m )

    C(i, j) being less the cost of step j − 1 in the first line if `record_in_state`. The second
    line keeps a record and goes on, the third saves a restart. Where sizes or costs
    differ, a record kept before a restart can help, as it never does in `Mixed`. No sequence of
    actions costs less, as far as exhaustive search goes (5 steps, random costs and sizes).

    The table takes steps³ · units / 6 additions. Where that is more than `MOST_WORK`, units are
    made coarser, sizes being rounded up, and then restarts are saved between blocks of steps only:
    then `is_exact` is False, and `gap` bounds what is lost.

    References
    ----------
    The recurrence of `Mixed`, with indices: this project's own.

    Examples
    --------
    >>> dear_in_the_middle = [1, 1, 9, 9, 1, 1]
    >>> schedule = Variable(dear_in_the_middle, 1, 1, memory_units=3)
    >>> schedule.cost, schedule.forward_steps, schedule.is_exact
    (33.0, 9, True)
    """

    step_costs: Any
    restart_units: Any
    record_units: Any
    memory_units: int
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        steps = _common_length(self.step_costs, self.restart_units, self.record_units)
        costs = tuple(_cost(value) for value in _spread(self.step_costs, steps))
        object.__setattr__(self, "step_costs", costs)
        for name in ("restart_units", "record_units"):
            values = _spread(getattr(self, name), steps)
            sizes = tuple(whole(name, value, least=1) for value in values)
            object.__setattr__(self, name, sizes)
        object.__setattr__(self, "memory_units", whole("memory_units", self.memory_units, least=0))
        flag("record_in_state", self.record_in_state)
        flag("free_start", self.free_start)
        if self._solved().cost >= IMPOSSIBLE:
            raise BudgetTooSmall(
                f"{self.steps} steps cannot be reversed in {self.memory_units} units: give "
                f"memory_units={self._enough()}, which is enough, or free_start=True if the "
                "initial state costs nothing to return to",
                smallest_nbytes=self._enough(),
            )

    def _enough(self) -> int:
        one_restart = max(self.restart_units) + max(self.record_units)
        return int(min(one_restart, sum(self.record_units[:-1])))

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return len(self.step_costs)

    @property
    def cost(self) -> float:
        """The cost of all forward steps, each counted as often as it runs."""
        last = self.step_costs[-1] if self.record_in_state else 0.0
        return float(self._solved().cost + last)

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        return sum(a.stop - a.start for a in self if isinstance(a, Advance | Record))

    @property
    def is_exact(self) -> bool:
        """Whether no schedule costs less."""
        return self._solved().is_exact

    @property
    def gap(self) -> float:
        """What an optimal schedule can cost less at most, as a fraction; 0 if this one is.

        Whatever is not kept from the first sweep runs again, and what can be kept is bounded by
        filling the memory with the records that are dearest for their size.
        """
        if self.is_exact:
            return 0.0
        return max(0.0, 1 - self._lower_bound() / self.cost)

    def _lower_bound(self) -> float:
        total, room = sum(self.step_costs), float(self.memory_units)
        kept = self.step_costs[-1]
        pairs = zip(self.step_costs[:-1], self.record_units[:-1], strict=True)
        for cost, size in sorted(pairs, key=lambda pair: -pair[0] / pair[1]):
            share = min(1.0, room / size)
            kept += share * cost
            room -= share * size
        return float(2 * total - kept)

    def _solved(self) -> Table:
        costs, restarts, records = self.step_costs, self.restart_units, self.record_units
        return _table(
            costs, restarts, records, self.memory_units, self.record_in_state, self.free_start
        )

    def __iter__(self) -> Iterator[Action]:
        return _merged(self._walk())

    def _walk(self) -> Iterator[Action]:
        table = self._solved()
        borders = table.sizes.borders
        # (first block, last block, units, whether its start is held), or a record to be used.
        pending: list[tuple[int, int, int, bool] | tuple[int, int]] = []
        part: tuple[int, int, int, bool] = (0, len(borders) - 1, table.units, self.free_start)
        while True:
            first, last, units, held = part
            start, stop = borders[first], borders[last]
            choice = table.choice(first, last, units, self.free_start and first == 0)
            if choice > 0:
                if not held:
                    yield Save(start)
                middle = first + choice
                yield Advance(start, borders[middle])
                pending.append((first, middle, units, True))
                is_free = self.free_start and first == 0
                part = (
                    middle,
                    last,
                    units - (0 if is_free else table.sizes.restarts[first]),
                    False,
                )
                continue
            if choice == RECORD:
                yield Record(start, borders[first + 1])
                pending.append((start, borders[first + 1]))
                part = (first + 1, last, units - table.sizes.records[first], False)
                continue
            recorded = stop - (self.record_in_state and stop < self.steps)
            if start < recorded:
                yield Record(start, recorded)
            yield Reverse(stop, start)
            while pending and len(pending[-1]) == 2:
                start, stop = pending.pop()[:2]
                yield Reverse(stop, start)
            if not pending:
                return
            following = pending.pop()
            assert len(following) == 4
            part = following
            yield self._restore(table, part)

    def _restore(self, table: Table, part: tuple[int, int, int, bool]) -> Restore:
        first, last, units, _ = part
        if first == 0 and self.free_start:
            return Restore(0, INITIAL)
        again = table.choice(first, last, units, False) > 0
        return Restore(table.sizes.borders[first], MEMORY, last=not again)


def _common_length(*values: Any) -> int:
    lengths = {len(value) for value in values if _is_sequence(value)}
    if len(lengths) > 1:
        raise InvalidArgument(
            f"step_costs, restart_units and record_units have lengths {sorted(lengths)}: give "
            "each one entry for each step, or one number"
        )
    if not lengths:
        raise InvalidArgument(
            "all steps are alike, and their number is not said: use Mixed, or give one entry for "
            "each step"
        )
    (length,) = lengths
    return whole("the number of steps", length, least=1)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)


def _spread(value: Any, steps: int) -> Sequence[Any]:
    return list(value) if _is_sequence(value) else [value] * steps


def _cost(value: Any) -> float:
    is_number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if not is_number or not 0 <= float(value) < math.inf:
        raise InvalidArgument(
            f"step_costs holds {value!r}: give a finite number of at least 0 for each step"
        )
    return float(value)


@lru_cache(maxsize=8)
def _table(
    costs: tuple[float, ...],
    restarts: tuple[int, ...],
    records: tuple[int, ...],
    memory: int,
    record_in_state: bool,
    free_start: bool,
) -> Table:
    """Tabulate, exactly or in coarser units and blocks."""
    steps, common = len(costs), math.gcd(*restarts, *records)
    units = min(memory, sum(records)) // common
    allowed = int(6 * MOST_WORK / steps**3)
    unit, block = common, 1
    if units > allowed:
        coarse = min(units, max(allowed, _FEWEST_UNITS))
        unit = -(-min(memory, sum(records)) // coarse)
        block = max(1, math.ceil(steps / (6 * MOST_WORK / coarse) ** (1 / 3)))
    borders = (*range(0, steps, block), steps)
    sizes = Sizes(costs, restarts, records, borders, unit, record_in_state)
    return tabulate(sizes, min(memory, sum(records)) // unit, free_start)


def _merged(actions: Iterable[Action]) -> Iterator[Action]:
    """Make one call of those that follow one another."""
    waiting: Action | None = None
    for action in actions:
        match waiting, action:
            case Record(start, middle), Record(again, stop) if middle == again:
                waiting = Record(start, stop)
            case Reverse(stop, middle), Reverse(again, start) if middle == again:
                waiting = Reverse(stop, start)
            case _:
                if waiting is not None:
                    yield waiting
                waiting = action
    if waiting is not None:
        yield waiting
