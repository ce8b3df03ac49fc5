"""The abstract machine: replays a schedule on sets of integers and refuses illegal ones.

This is the one place that knows which sequences of actions are legal, and it counts what they
cost. It runs nothing and needs no problem.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from numbers import Integral
from typing import Protocol

from retrograd.actions import (
    INITIAL,
    MEMORY,
    Action,
    Advance,
    BeginSweep,
    Drop,
    Forget,
    Load,
    Record,
    Restore,
    Reverse,
    Save,
    Tier,
)
from retrograd.errors import IllegalAction, InvalidArgument
from retrograd.layout import StateRows
from retrograd.ranges import Ranges


@dataclass(frozen=True, slots=True)
class Counts:
    """What a schedule does and takes.

    Attributes
    ----------
    actions : how many actions there are.
    forward_calls : how many of them run the forward.
    forward_steps : forward steps executed, first sweep included.
    recorded_steps : those of them that keep a record.
    reversed_steps, reverse_calls : steps reversed, in how many ``Reverse`` actions.
    saves, restores, drops, loads : how many there are, by tier.
    loaded_steps : steps whose records were brought back to memory, by tier that they were in.
    peak_nbytes : the most bytes that restarts and records take at once, by tier. In memory the
        record of the step just taken is part of the live rows and not counted (see `verify`);
        with `state_rows` memory is counted in rows, the live ones included.
    """

    actions: int
    forward_calls: int
    forward_steps: int
    recorded_steps: int
    reversed_steps: int
    reverse_calls: int
    saves: Mapping[Tier, int]
    restores: Mapping[Tier, int]
    drops: Mapping[Tier, int]
    loads: Mapping[Tier, int]
    loaded_steps: Mapping[Tier, int]
    peak_nbytes: Mapping[Tier, int]


def verify(
    actions: Iterable[Action],
    *,
    steps: int,
    restart_nbytes: int | Sequence[int] = 1,
    record_nbytes: int | Sequence[int] = 1,
    budgets: Mapping[Tier, int] | None = None,
    record_in_state: bool = False,
    free_start: bool = False,
    state_rows: StateRows | None = None,
) -> Counts:
    """Replay a schedule and count; raise if any action is illegal or anything is left over.

    The run begins with state 0 live and nothing saved. The newest record, which is that of the
    step just taken, lies in the live rows and is charged to no budget until the forward goes on
    from there. With ``record_in_state`` the step at whose start the state is live needs no
    record to be reversed.

    Parameters
    ----------
    actions : any iterable of actions.
    steps : how many steps the forward makes.
    restart_nbytes, record_nbytes : bytes of one restart and of one record; or, where they differ,
        those of the restart at each step and of the record of each step.
    budgets : the most bytes allowed in a tier; tiers that are not named are unlimited.
    free_start : whether ``Restore(0, INITIAL)`` is possible.
    state_rows : the state consists of rows of ``record_nbytes`` which are records. Then a restart
        or the live state holds the records of ``depth`` steps, and memory is counted row by row:
        rows of restarts, of records and of the live state, each once however many hold it, and
        the row that a step makes. ``restart_nbytes`` and ``record_in_state`` are not looked at.

    Raises
    ------
    IllegalAction
        naming the action, its index and the rule that it breaks.
    """
    if not isinstance(steps, Integral) or steps < 1:
        raise InvalidArgument(f"a schedule of {steps!r} steps: give a whole number of at least 1")
    memory: _Memory
    if state_rows is None:
        restarts, records = (_sizes(size, steps) for size in (restart_nbytes, record_nbytes))
        memory = _Units(restarts, records, record_in_state)
    elif isinstance(record_nbytes, Sequence):
        raise InvalidArgument("rows of a state are of one size: give record_nbytes as one number")
    else:
        memory = _Rows(state_rows, record_nbytes)
    machine = _Machine(steps, memory, dict(budgets or {}), free_start)
    if state_rows is not None:
        machine.peak_nbytes[MEMORY] = 0
    for index, action in enumerate(actions):
        machine.index, machine.action = index, action
        machine.perform(action)
    return machine.finish()


def _sizes(nbytes: int | Sequence[int], steps: int) -> int | tuple[int, ...]:
    """One size for all steps, or the sum of the sizes before each step."""
    if not isinstance(nbytes, Sequence):
        return nbytes
    if len(nbytes) != steps:
        raise InvalidArgument(f"{len(nbytes)} sizes for {steps} steps: give one for each step")
    return tuple(accumulate(nbytes, initial=0))


class _Memory(Protocol):
    """What restarts and records take, and which records the live state holds."""

    def records(self, live: int | None) -> range: ...
    def held_nbytes(self, tier: Tier, machine: _Machine) -> int: ...


@dataclass(frozen=True, slots=True)
class _Units(_Memory):
    """Restarts and records are separate things."""

    restarts: int | tuple[int, ...]
    """Bytes of one, or where they differ the sums of those of all steps before each."""
    kept_records: int | tuple[int, ...]
    record_in_state: bool

    def records(self, live: int | None) -> range:
        return range(0) if live is None else range(live, live + self.record_in_state)

    def held_nbytes(self, tier: Tier, machine: _Machine) -> int:
        records, restarts = machine.records[tier], machine.restarts[tier]
        newest = -1 if machine.live is None else machine.live - 1
        if isinstance(self.restarts, int):
            nbytes = len(restarts) * self.restarts
        else:
            nbytes = sum(self.restarts[step + 1] - self.restarts[step] for step in restarts)
        if isinstance(self.kept_records, int):
            charged = len(records) - (tier == MEMORY and newest in records)
            return nbytes + charged * self.kept_records
        sums = self.kept_records
        nbytes += sum(sums[stop] - sums[start] for start, stop in records.pairs())
        if tier == MEMORY and newest in records:
            nbytes -= sums[newest + 1] - sums[newest]
        return nbytes


@dataclass(frozen=True, slots=True)
class _Rows(_Memory):
    """Restarts and records are rows, which may be the same ones."""

    state: StateRows
    row_nbytes: int

    def records(self, live: int | None) -> range:
        return range(0) if live is None else self.state.records(live)

    def held_nbytes(self, tier: Tier, machine: _Machine) -> int:
        records, restarts = machine.records[tier], machine.restarts[tier]
        if tier != MEMORY:  # rows are shared only where the live state is
            return (len(records) + len(restarts) * self.state.depth) * self.row_nbytes
        most = (len(records) + (len(restarts) + 2) * self.state.depth) * self.row_nbytes
        if most <= machine.peak_nbytes[tier]:
            return most  # no new peak, however the rows overlap
        states = set(restarts) if machine.live is None else restarts | {machine.live}
        if isinstance(machine.action, Advance | Record) and machine.live is not None:
            states.add(machine.live - 1)  # the state that the last step started from
        held = {step for state in states for step in self.state.records(state)}
        return (len(records) + sum(step not in records for step in held)) * self.row_nbytes


@dataclass(slots=True)
class _Machine:
    steps: int
    memory: _Memory
    budgets: dict[Tier, int]
    free_start: bool
    index: int = -1
    action: Action | None = None
    live: int | None = 0
    furthest: int = 0
    adjoint: int = field(init=False)
    sweep: int = 0
    restarts: dict[Tier, set[int]] = field(default_factory=lambda: defaultdict(set))
    records: dict[Tier, Ranges] = field(default_factory=lambda: defaultdict(Ranges))
    forward_calls: int = 0
    forward_steps: int = 0
    recorded_steps: int = 0
    reversed_steps: int = 0
    reverse_calls: int = 0
    saves: Counter[Tier] = field(default_factory=Counter)
    restores: Counter[Tier] = field(default_factory=Counter)
    drops: Counter[Tier] = field(default_factory=Counter)
    loads: Counter[Tier] = field(default_factory=Counter)
    loaded_steps: Counter[Tier] = field(default_factory=Counter)
    peak_nbytes: dict[Tier, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.adjoint = self.steps

    def perform(self, action: Action) -> None:
        match action:
            case Advance(start, stop):
                self.run_forward(start, stop)
            case Record(start, stop, tier):
                self.record(start, stop, tier)
            case Load(start, stop, tier):
                self.load(start, stop, tier)
            case Save(step, tier):
                self.save(step, tier)
            case Restore(step, tier, last):
                self.restore(step, tier, last=last)
            case Drop(step, tier):
                self.require(step in self.restarts[tier], f"no restart at {step} in {tier}")
                self.restarts[tier].remove(step)
                self.drops[tier] += 1
            case Forget(start, stop, tier):
                self.forget(start, stop, tier)
            case Reverse(stop, start, keep):
                self.reverse(stop, start, keep=keep)
            case BeginSweep(index):
                self.begin_sweep(index)
            case _:
                self.require(False, "not an action")
        self.measure()

    def require(self, condition: bool, rule: str) -> None:
        if not condition:
            raise IllegalAction(rule, self.index, self.action)

    def run_forward(self, start: int, stop: int) -> None:
        self.require(start < stop, "the range is empty")
        self.require_live(start)
        self.require(stop <= self.adjoint, f"passes the adjoint, which is at {self.adjoint}")
        self.live = stop
        self.furthest = max(self.furthest, stop)
        self.forward_calls += 1
        self.forward_steps += stop - start

    def require_live(self, step: int) -> None:
        where = (
            "there is no live state" if self.live is None else f"the live state is at {self.live}"
        )
        self.require(step == self.live, where)

    def record(self, start: int, stop: int, tier: Tier) -> None:
        self.require(tier != INITIAL, "nothing can be kept in the initial tier")
        self.run_forward(start, stop)
        self.keep(start, stop, MEMORY)
        if tier != MEMORY:
            self.measure()
            self.records[MEMORY].discard(start, stop)
            self.keep(start, stop, tier)
        self.recorded_steps += stop - start

    def keep(self, start: int, stop: int, tier: Tier) -> None:
        kept = self.records[tier]
        self.require(kept.count(start, stop) == 0, "a step is recorded already")
        kept.add(start, stop)
        self.peak_nbytes.setdefault(tier, 0)

    def load(self, start: int, stop: int, tier: Tier) -> None:
        kept = self.records[tier]
        self.require(tier != MEMORY, "memory is where records are loaded to")
        self.require((start, stop) in kept.pairs(), f"they are not in {tier}, or not as one item")
        self.require(start < self.adjoint, f"useless: the adjoint is at {self.adjoint}")
        kept.discard(start, stop)
        self.live = None
        self.keep(start, stop, MEMORY)
        self.loads[tier] += 1
        self.loaded_steps[tier] += stop - start

    def save(self, step: int, tier: Tier) -> None:
        self.require(tier != INITIAL, "nothing can be kept in the initial tier")
        self.require_live(step)
        self.require_use(step)
        kept = self.restarts[tier]
        self.require(step not in kept, "saved already")
        kept.add(step)
        self.peak_nbytes.setdefault(tier, 0)
        self.saves[tier] += 1

    def restore(self, step: int, tier: Tier, *, last: bool) -> None:
        if tier == INITIAL:
            self.require(self.free_start and step == 0, "there is no free initial state here")
        else:
            self.require(step in self.restarts[tier], f"no restart at {step} in {tier}")
        self.require_use(step)
        self.live = step
        self.restores[tier] += 1
        if last and tier != INITIAL:
            self.restarts[tier].remove(step)

    def require_use(self, step: int) -> None:
        first = self.memory.records(step).start
        self.require(first < self.adjoint, f"useless: the adjoint is at {self.adjoint}")

    def forget(self, start: int, stop: int, tier: Tier) -> None:
        kept = self.records[tier]
        self.require(start < stop, "the range is empty")
        self.require(kept.count(start, stop) == stop - start, f"not all of them are in {tier}")
        kept.discard(start, stop)

    def reverse(self, stop: int, start: int, *, keep: bool) -> None:
        self.require(start < stop, "the range is empty")
        self.require(stop == self.adjoint, f"the adjoint is at {self.adjoint}")
        self.require(self.furthest == self.steps, "the forward has not run to the end")
        live = self.memory.records(self.live)
        if stop - 1 in live:
            self.require_records(max(live.start, start), start)
        else:
            self.require_records(stop, start)
        if not keep:
            self.records[MEMORY].discard(start, stop)
        self.adjoint = start
        self.reversed_steps += stop - start
        self.reverse_calls += 1

    def require_records(self, stop: int, start: int) -> None:
        while stop > start:
            first = self.records[MEMORY].first_of(stop - 1)
            if first is None:
                raise IllegalAction(
                    f"step {stop - 1} has no record in memory", self.index, self.action
                )
            stop = first

    def begin_sweep(self, index: int) -> None:
        self.require(self.adjoint == 0, f"the adjoint is still at {self.adjoint}")
        self.require(index == self.sweep + 1, f"the sweep under way is number {self.sweep}")
        self.sweep = index
        self.adjoint = self.steps

    def measure(self) -> None:
        for tier, peak in self.peak_nbytes.items():
            nbytes = self.memory.held_nbytes(tier, self)
            if nbytes <= peak:
                continue
            self.peak_nbytes[tier] = nbytes
            budget = self.budgets.get(tier, nbytes)
            self.require(
                nbytes <= budget, f"takes {nbytes} bytes in {tier}, and {budget} are allowed"
            )

    def finish(self) -> Counts:
        self.index, self.action = self.index + 1, None
        self.require(self.adjoint == 0, f"ends with the adjoint at {self.adjoint}, not at 0")
        for tier, restarts in self.restarts.items():
            self.require(not restarts, f"leaves restarts {sorted(restarts)} in {tier}")
        for tier, records in self.records.items():
            self.require(not records, f"leaves {len(records)} records in {tier}")
        return Counts(
            actions=self.index,
            forward_calls=self.forward_calls,
            forward_steps=self.forward_steps,
            recorded_steps=self.recorded_steps,
            reversed_steps=self.reversed_steps,
            reverse_calls=self.reverse_calls,
            saves=dict(self.saves),
            restores=dict(self.restores),
            drops=dict(self.drops),
            loads=dict(self.loads),
            loaded_steps=dict(self.loaded_steps),
            peak_nbytes=dict(self.peak_nbytes),
        )
