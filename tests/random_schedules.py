"""Legal schedules that nobody would write: every action, in any order that the rules allow."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from retrograd.actions import (
    DISK,
    INITIAL,
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
)

RANDOMS = st.integers(0, 2**32 - 1).map(Random)
"""Sources of chance. Hypothesis' own draws subnormal floats, which compiled operators of other
tests have switched off for the whole process."""


@dataclass
class _Walk:
    """Chooses among the legal actions until it has had enough, and then finishes."""

    random: Random
    steps: int
    record_in_state: bool
    free_start: bool
    live: int = 0
    furthest: int = 0
    adjoint: int = 0
    restarts: set[int] = field(default_factory=set)
    records: set[int] = field(default_factory=set)
    away: dict[int, int] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.adjoint = self.steps
        if not self.free_start:
            self.save()

    def save(self) -> None:
        self.restarts.add(self.live)
        self.actions.append(Save(self.live))

    def forward(self, stop: int, *, record: bool) -> None:
        self.actions.append((Record if record else Advance)(self.live, stop))
        if record:
            self.records.update(range(self.live, stop))
        self.live, self.furthest = stop, max(self.furthest, stop)

    def record_away(self, stop: int) -> None:
        self.actions.append(Record(self.live, stop, DISK))
        self.away[self.live] = stop
        self.live, self.furthest = stop, max(self.furthest, stop)

    def load(self, start: int, restart: int) -> None:
        stop = self.away.pop(start)
        self.actions.append(Load(start, stop, DISK))
        self.records.update(range(start, stop))
        self.restore(restart)

    def is_away(self, step: int) -> bool:
        return any(start <= step < stop for start, stop in self.away.items())

    def restore(self, step: int) -> None:
        if self.free_start and step == 0 and 0 not in self.restarts:
            self.actions.append(Restore(0, INITIAL))
        else:
            last = step > 0 and self.random.random() < 0.5
            self.actions.append(Restore(step, last=last))
            if last:
                self.restarts.remove(step)
        self.live = step

    def reverse(self, start: int, *, keep: bool = False) -> None:
        self.actions.append(Reverse(self.adjoint, start, keep))
        if not keep:
            self.records.difference_update(range(start, self.adjoint))
        self.adjoint = start

    def lowest_reversible(self) -> int:
        at = self.adjoint
        if self.furthest < self.steps:
            return at
        if self.record_in_state and self.live == at - 1:
            at -= 1
        while at - 1 in self.records:
            at -= 1
        return at

    def returnable(self) -> list[int]:
        return sorted(self.restarts | ({0} if self.free_start else set()))

    def wander(self) -> None:
        choice = self.random.choice
        unrecorded = self.live
        while unrecorded < self.adjoint and unrecorded not in self.records:
            unrecorded += 1
        below = [step for step in self.returnable() if step < self.adjoint]
        lowest = self.lowest_reversible()
        moves = []
        if self.live < self.adjoint:
            moves.append(
                lambda: self.forward(choice(range(self.live, self.adjoint)) + 1, record=False)
            )
            if self.live not in self.restarts:
                moves.append(self.save)
        if unrecorded > self.live:
            moves.append(
                lambda: self.forward(choice(range(self.live, unrecorded)) + 1, record=True)
            )
            unkept = self.live
            while unkept < unrecorded and not self.is_away(unkept):
                unkept += 1
            if unkept > self.live:
                moves.append(lambda: self.record_away(choice(range(self.live, unkept)) + 1))
        loadable = [
            start
            for start, stop in self.away.items()
            if start < self.adjoint and not self.records & set(range(start, stop))
        ]
        if loadable and below:
            moves.append(lambda: self.load(choice(loadable), choice(below)))
        if below:
            moves.append(lambda: self.restore(choice(below)))
        if self.restarts - {0}:
            moves.append(lambda: self.drop(choice(sorted(self.restarts - {0}))))
        if self.records:
            moves.append(lambda: self.forget(choice(sorted(self.records))))
        if lowest < self.adjoint:
            moves.append(lambda: self.reverse(choice(range(lowest, self.adjoint))))
        if moves:
            choice(moves)()

    def drop(self, step: int) -> None:
        self.restarts.remove(step)
        self.actions.append(Drop(step))

    def forget(self, start: int) -> None:
        stop = start + 1
        while stop in self.records and self.random.random() < 0.7:
            stop += 1
        self.records.difference_update(range(start, stop))
        self.actions.append(Forget(start, stop))

    def sweep(self, *, keep: bool = False) -> None:
        """Bring the adjoint to 0 by the shortest way."""
        while self.adjoint:
            lowest = self.lowest_reversible()
            if self.furthest < self.steps and self.live == self.furthest:
                self.forward(self.steps, record=False)
            elif lowest < self.adjoint:
                self.reverse(lowest, keep=keep)
            elif self.live >= self.adjoint or self.adjoint - 1 in self.records:
                self.restore(max(s for s in self.returnable() if s < self.adjoint))
            elif self.live < self.adjoint - 1:
                self.forward(self.adjoint - 1, record=False)
            else:
                self.forward(self.adjoint, record=True)

    def tidy(self) -> None:
        for step in sorted(self.restarts):
            self.drop(step)
        for step in sorted(self.records):
            self.records.remove(step)
            self.actions.append(Forget(step, step + 1))
        for start, stop in self.away.items():
            self.actions.append(Forget(start, stop, DISK))


def random_schedule(
    random: Random, steps: int, *, record_in_state: bool, free_start: bool
) -> list[Action]:
    """A legal schedule of one or two sweeps."""
    walk = _Walk(random, steps, record_in_state, free_start)
    for _ in range(random.randrange(4 * steps)):
        walk.wander()
    sweeps = random.choice((1, 1, 2))
    walk.sweep(keep=sweeps == 2)
    if sweeps == 2:
        walk.actions.append(BeginSweep(1))
        walk.adjoint = steps
        walk.sweep()
    walk.tidy()
    return walk.actions
