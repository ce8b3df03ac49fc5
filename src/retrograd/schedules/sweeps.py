"""Several reverse sweeps over one forward run, in one memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Final, TypeAlias

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
from retrograd.arguments import whole
from retrograd.schedules.mixed import Mixed
from retrograd.schedules.two_level import shifted


@dataclass(frozen=True, slots=True)
class Sweeps:
    """One forward run and `sweeps` reverse sweeps over it, each from the end to the start.

    Choose it where several adjoints of one run must follow each other: because each depends on
    the one before, or because their states do not fit side by side. Where they do, reverse them
    together, in one sweep. For one sweep this is `Mixed`.

    Parameters
    ----------
    steps : at least 1.
    restart_units, record_units : what a restart and a record take, in any common unit.
    memory_units : what there is. The record of the step just taken is part of the live state
        and takes none.
    sweeps : how many reverse sweeps, at least 1.
    record_in_state : the record of a step is part of the state at its start, so that
        reversing it needs no forward step of its own.
    free_start : the initial state can be returned to at no cost in memory.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign.
    BudgetTooSmall : the memory holds neither all records nor one restart.

    Notes
    -----
    Some things are held from the first sweep to the last. The run is divided into parts of equal
    length, steps whose records are held, and a tail::

        | part 0 | part 1 | … | held records | tail |

    A restart at the start of each part and of the tail is held. What is left of the memory, m′
    units, serves one part after the other: `Mixed` reverses it from its restart in P(length, m′)
    forward steps, as from a free start. The first sweep turns in the tail, which therefore does
    not run twice. In the last sweep, restarts and records that the adjoint has passed are given
    up, and part j is reversed in F(length, mⱼ) steps, its own restart being part of the larger
    memory mⱼ. With n steps, K sweeps and a tail of T steps the forward runs::

        n − T + (K − 1) · Σ P(lengthⱼ, m′) + Σ F(lengthⱼ, mⱼ)

    steps (one more if `record_in_state`, since the last step of the run is wanted). Where all
    records fit, all are held and it runs n. Where the initial state is all that is held, each
    sweep repeats `Mixed` from there (`forward_steps_repeating`).

    The number of parts, that of held records and the tail's length come from a search in tens
    of milliseconds for thousands of steps, and up to seconds for millions. It does not always
    find the minimum: for up to 120 steps it ran at most 4 % more steps, or one, than the best of
    all such divisions, and mostly as few. Nor are such divisions always best: where memory holds
    a few records only, and these are almost all, other sequences of actions run down to half as
    many steps, by going on from where a sweep has ended.

    Examples
    --------
    >>> for action in Sweeps(3, restart_units=2, record_units=1, memory_units=2, sweeps=2):
    ...     print(action)
    Record(start=0, stop=3, tier='memory')
    Reverse(stop=3, start=0, keep=True)
    BeginSweep(index=1)
    Reverse(stop=3, start=0, keep=False)
    >>> three = Sweeps(1615, 2, 1, memory_units=201, sweeps=3, free_start=True)
    >>> three.forward_steps, three.forward_steps_repeating
    (6120, 9126)
    """

    steps: int
    restart_units: int
    record_units: int
    memory_units: int
    sweeps: int
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        once = self._once()
        for name in Mixed.__slots__:
            object.__setattr__(self, name, getattr(once, name))
        object.__setattr__(self, "sweeps", whole("sweeps", self.sweeps, least=1))

    @property
    def forward_steps(self) -> int:
        """Forward steps that run in all sweeps, each counted as often as it runs."""
        return self._once().forward_steps if self.sweeps == 1 else _best(self).forward_steps

    @property
    def forward_steps_repeating(self) -> int:
        """What returning to the initial state for each sweep, and nothing else, would run."""
        if self.sweeps == 1 or self._keeps_all():
            return self.forward_steps
        return _Held(self, 0, 0, self.steps).forward_steps

    def __iter__(self) -> Iterator[Action]:
        return iter(self._once()) if self.sweeps == 1 else self._walk(_best(self))

    def _keeps_all(self) -> bool:
        return (self.steps - 1) * self.record_units <= self.memory_units

    def _once(self) -> Mixed:
        return Mixed(*(getattr(self, name) for name in Mixed.__slots__))

    def _walk(self, held: _Held) -> Iterator[Action]:
        yield from self._first_pass(held)
        for sweep in range(self.sweeps):
            if sweep > 0:
                yield BeginSweep(sweep)
            if held.tail:
                yield from self._reverse(held, held.parts, sweep)
            if held.records:
                stop = self.steps - held.tail
                yield Reverse(stop, stop - held.records, keep=sweep < self.sweeps - 1)
            for part in reversed(range(held.parts)):
                yield from self._reverse(held, part, sweep)

    def _first_pass(self, held: _Held) -> Iterator[Action]:
        """Run up to the tail, making what is held on the way."""
        for part in range(held.parts):
            start, stop = held.bounds(part)
            if start > 0 or not self.free_start:
                yield Save(start)
            yield Advance(start, stop)
        tail = self.steps - held.tail
        if held.records:
            yield Record(tail - held.records, tail)
        if held.tail and (tail > 0 or not self.free_start):
            yield Save(tail)

    def _reverse(self, held: _Held, part: int, sweep: int) -> Iterator[Action]:
        """Reverse a part from its restart; in the last sweep the restart is given up."""
        start, stop = held.bounds(part)
        last_sweep = sweep == self.sweeps - 1
        schedule = Mixed(*held.case(part, last_sweep=last_sweep))
        tier = INITIAL if start == 0 and self.free_start else MEMORY
        arriving = sweep == 0 and part == held.parts
        if not arriving:
            used_again = schedule.free_start or isinstance(next(iter(schedule)), Save)
            yield Restore(start, tier, last=not used_again)
        for action in shifted(schedule, start):
            match action:
                case Save(step) if step == start:
                    pass  # it is held already
                case Restore(_, source) if source == INITIAL:
                    yield Restore(start, tier)
                case Record(first, end) if end == stop and self.record_in_state and not arriving:
                    if first < end - 1:  # the last step is run for its output alone: not again
                        yield Record(first, end - 1)
                case _:
                    yield action


_Case: TypeAlias = tuple[int, int, int, int, bool, bool]
"""The arguments of a `Mixed`."""


@dataclass(frozen=True, slots=True)
class _Held:
    """What is held through all sweeps: a restart for each of `parts` and the tail, and records.

    The tail counts as the part after the last. If it has no steps, it has no restart either.
    """

    run: Sweeps
    parts: int
    records: int
    tail: int

    def bounds(self, part: int) -> tuple[int, int]:
        """The first step of a part, and the one after its last; the first parts are longer."""
        if part == self.parts:
            return self.run.steps - self.tail, self.run.steps
        length, longer = divmod(self.run.steps - self.records - self.tail, self.parts)
        start = part * length + min(part, longer)
        return start, start + length + (part < longer)

    @property
    def room(self) -> int:
        """The units that are left for reversing a part; negative if too much is held."""
        run = self.run
        restarts = self._restarts_before(self.parts)
        if self.tail and (self.tail < run.steps or not run.free_start):
            restarts += 1
        held = restarts * run.restart_units + self.records * run.record_units
        return run.memory_units - held

    def case(self, part: int, *, last_sweep: bool) -> _Case:
        """How a part is reversed."""
        run, (start, stop) = self.run, self.bounds(part)
        units, free = self.room, True
        if last_sweep:
            units = run.memory_units - self._restarts_before(part) * run.restart_units
            units -= (part == self.parts) * self.records * run.record_units
            free = start == 0 and run.free_start
        sizes = run.restart_units, run.record_units
        return stop - start, *sizes, units, run.record_in_state, free

    def _restarts_before(self, part: int) -> int:
        return max(0, part - self.run.free_start)

    @property
    def forward_steps(self) -> int:
        """Forward steps of all sweeps."""
        parts = range(self.parts + (self.tail > 0))
        last = sum(_fewest(self.case(part, last_sweep=True)) for part in parts)
        return self._first_pass() + (self.run.sweeps - 1) * self._sweep() + last

    @property
    def most_forward_steps(self) -> int:
        """Forward steps of all sweeps if the last one gave nothing up; faster to count."""
        return self._first_pass() + self.run.sweeps * self._sweep()

    def _first_pass(self) -> int:
        wanted = self.tail > 0 and self.run.record_in_state  # the last step, for its output
        return self.run.steps - self.tail + wanted

    def _sweep(self) -> int:
        forward_steps = _fewest(self.case(self.parts, last_sweep=False)) if self.tail else 0
        if self.parts:
            longer = (self.run.steps - self.records - self.tail) % self.parts
            for part, like_it in ((0, longer), (self.parts - 1, self.parts - longer)):
                forward_steps += like_it * _fewest(self.case(part, last_sweep=False))
        return forward_steps


@lru_cache(maxsize=1 << 14)
def _fewest(case: _Case) -> int:
    """Return the forward steps of a part, the output of its last step not being wanted."""
    steps, _, record, units, in_state, _ = case
    if (steps - 1) * record <= units:
        return steps - in_state
    return Mixed(*case).forward_steps - in_state


_Point: TypeAlias = tuple[int, int, int]
"""How many parts with the tail, held records, and by how much the tail is longer than a part."""

_FEW_PARTS: Final = 8
"""Fewer parts are compared exactly, more of them as if the last sweep gave nothing up."""


@lru_cache(maxsize=64)
def _best(run: Sweeps) -> _Held:
    """Return the best division found, by descent from good ones.

    These hold either no records, or as many as leave just enough room for recording each part.
    """
    if run._keeps_all():
        return _Held(run, 0, run.steps, 0)
    starts = _scan(run, lambda _: 0) + _scan(run, lambda parts: _records_beside(run, parts))
    promising = 1.25 * min(_cost(run, start) for start in starts)
    ends = [_descend(run, start) for start in starts if _cost(run, start) <= promising]
    found = [held for end in ends if (held := _divide(run, end))]
    return min(found, key=lambda held: held.forward_steps)


def _scan(run: Sweeps, records: Callable[[int], int]) -> list[_Point]:
    """Return the two best points among ever more parts, until they get bad."""
    points: list[_Point] = []
    lowest = inf
    most = min(run.steps, run.memory_units // run.restart_units + run.free_start)
    for parts in _ever_more(most):
        points.append((parts, records(parts), 0))
        cost = _cost(run, points[-1])
        lowest = min(lowest, cost)
        if 1.5 * lowest < cost < inf:
            break
    return sorted(points, key=lambda point: _cost(run, point))[:2]


def _ever_more(most: int) -> Iterator[int]:
    """Yield 1, 2, …, later in steps of a tenth, and `most` at last."""
    parts = 1
    while parts < most:
        yield parts
        parts += 1 + parts // 10
    yield most


def _records_beside(run: Sweeps, parts: int) -> int:
    """Return the most records that can be held such that the room left records a part at once.

    Records and room take what fits beside the restarts, and records + parts · (room + 1) ≥ steps.
    One part alone gets room for the records that are lacking.
    """
    restarts = max(0, parts - run.free_start)
    fitting = (run.memory_units - restarts * run.restart_units) // run.record_units
    lacking = run.steps - parts - fitting
    room = max(0, -(-lacking // max(1, parts - 1)))
    return max(0, min(fitting - room, run.steps - parts))


def _descend(run: Sweeps, point: _Point) -> _Point:
    """Return a point that no step to one side improves, down to 1 in 4,096 steps."""
    stride = 1 << run.steps.bit_length() >> 2
    while stride > run.steps >> 12:
        parts, records, longer = point
        near = [(parts + by, records, longer) for by in (-stride, stride)]
        near += [(parts, records + by, longer) for by in (-stride, stride)]
        near += [(parts, records, longer + by) for by in (-stride, stride)]
        best = min(near, key=lambda point: _cost(run, point))
        if _cost(run, best) < _cost(run, point):
            point = best
        else:
            stride //= 2
    return point


def _cost(run: Sweeps, point: _Point) -> float:
    """Return the forward steps of a point; infinite where it is no division that fits."""
    held = _divide(run, point)
    return _compared(held) if held else inf


def _compared(held: _Held) -> int:
    return held.forward_steps if held.parts < _FEW_PARTS else held.most_forward_steps


def _divide(run: Sweeps, point: _Point) -> _Held | None:
    parts, records, longer = point
    rest = run.steps - records
    if parts < 1 or records < 0 or rest < parts:
        return None
    if parts == 1:  # the tail alone or, behind a free start, the part before the records
        choices = [_Held(run, 0, records, rest)]
        if records and run.free_start:
            choices.append(_Held(run, 1, records, 0))
    else:
        tail = -(-rest // parts) + longer
        choices = [_Held(run, parts - 1, records, tail)] if 0 < tail <= rest - parts + 1 else []
    return min((held for held in choices if held.room >= 0), key=_compared, default=None)
