"""A schedule or a run as geometry: which steps ran when, and what was held in the meantime.

Pure data: nothing here draws. Pictures put time across and steps downwards.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from retrograd.actions import (
    INITIAL,
    MEMORY,
    Action,
    Advance,
    Drop,
    Forget,
    Load,
    Record,
    Restore,
    Reverse,
    Save,
    Tier,
)
from retrograd.events import Event, Kind

STEPS_EXECUTED: Final = "steps executed"
SECONDS: Final = "seconds"

_TRANSFERS: Final = (Kind.SAVE, Kind.RESTORE)


@dataclass(frozen=True, slots=True)
class Stroke:
    """Steps that run one after the other: a slanted line.

    Attributes
    ----------
    kind : forward, recompute or reverse.
    start, stop : where the line begins and ends; a reverse one has ``stop < start``.
    began, ended : when.
    """

    kind: Kind
    start: int
    stop: int
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A restart from its save to its last use: a level line.

    Attributes
    ----------
    restores : when it was returned to.
    """

    step: int
    tier: Tier
    began: float
    ended: float
    restores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """Records of steps ``start`` … ``stop - 1``: what lies between making and using them.

    Attributes
    ----------
    made, freed : each a pair: when the edge at ``start`` and when that at ``stop`` was passed.
    """

    start: int
    stop: int
    tier: Tier
    made: tuple[float, float]
    freed: tuple[float, float]

    @property
    def corners(self) -> tuple[tuple[float, int], ...]:
        """The four corners as (time, step), in order around the window."""
        return (
            (self.made[0], self.start),
            (self.made[1], self.stop),
            (self.freed[1], self.stop),
            (self.freed[0], self.start),
        )


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything a picture of a schedule shows.

    Attributes
    ----------
    steps : how many steps the forward makes.
    unit : what times are counted in, `STEPS_EXECUTED` or `SECONDS`.
    duration : the time at the end.
    strokes, restarts, windows : each in the order of their beginning or of their end.
    most_restarts, most_records : the most that are held at once, by tier; the record of the step
        just taken is counted, the initial state that costs nothing is not.
    """

    steps: int
    unit: str
    duration: float
    strokes: tuple[Stroke, ...]
    restarts: tuple[Lifetime, ...]
    windows: tuple[Window, ...]
    most_restarts: Mapping[Tier, int]
    most_records: Mapping[Tier, int]

    @property
    def forward_steps(self) -> int:
        """Forward steps executed, first sweep included."""
        return sum(abs(s.stop - s.start) for s in self.strokes if s.kind is not Kind.REVERSE)


def from_actions(actions: Iterable[Action], steps: int) -> Timeline:
    """The timeline of a schedule: every step takes one unit of time, forward or reverse.

    >>> from retrograd.schedules import KeepAll
    >>> timeline = from_actions(KeepAll(4), 4)
    >>> timeline.duration, len(timeline.strokes), timeline.windows[0].corners
    (8.0, 2, ((0.0, 0), (4.0, 4), (4.0, 4), (8.0, 0)))
    """
    builder = _Builder()
    clock = 0.0
    for action in actions:
        began = clock
        match action:
            case Advance(start, stop) | Record(start, stop):
                clock += stop - start
                builder.forward(start, stop, began)
            case Reverse(stop, start):
                clock += stop - start
                builder.stroke(Kind.REVERSE, stop, start, began, clock)
            case _:
                pass
        builder.hold(action, began, clock)
    return builder.finish(steps, STEPS_EXECUTED)


def from_events(events: Iterable[Event], steps: int) -> Timeline:
    """The timeline of a run, in seconds since it began.

    Nothing reports that a restart or a record is given up unused. A restart is therefore shown
    until its last use, or until the end where the adjoint has not passed it yet; a record until
    its step is recorded again, or the end.
    """
    builder = _Builder()
    for _, group in groupby(events, key=lambda event: event.index):
        parts = list(group)
        moving = [part for part in parts if part.kind not in _TRANSFERS]
        for part in moving:
            low, high = sorted((part.start, part.stop))
            start, stop = (high, low) if part.kind is Kind.REVERSE else (low, high)
            builder.stroke(part.kind, start, stop, part.began, part.began + part.seconds)
        first, last = (moving or parts)[0], (moving or parts)[-1]
        builder.hold(first.action, first.began, last.began + last.seconds)
    return builder.finish(steps, SECONDS)


@dataclass(slots=True)
class _Restart:
    """A restart that is held."""

    began: float
    restores: list[float]


@dataclass(frozen=True, slots=True)
class _Records:
    """Records that are held, and when they were made."""

    start: int
    stop: int
    began: float
    ended: float

    def between(self, start: int, stop: int) -> _Records:
        return _Records(start, stop, self.at(start), self.at(stop))

    def at(self, step: int) -> float:
        share = (step - self.start) / (self.stop - self.start)
        return self.began + (self.ended - self.began) * share


class _Builder:
    """Takes strokes and actions in order, and remembers what is held."""

    def __init__(self) -> None:
        self._strokes: list[Stroke] = []
        self._lifetimes: list[Lifetime] = []
        self._windows: list[Window] = []
        self._restarts: dict[tuple[Tier, int], _Restart] = {}
        self._records: dict[Tier, list[_Records]] = defaultdict(list)
        self._furthest = 0
        self._adjoint: int | None = None
        self._restarts_held: Counter[Tier] = Counter()
        self._records_held: Counter[Tier] = Counter()
        self._most_restarts: dict[Tier, int] = {}
        self._most_records: dict[Tier, int] = {}

    def stroke(self, kind: Kind, start: int, stop: int, began: float, ended: float) -> None:
        self._strokes.append(Stroke(kind, start, stop, began, ended))

    def forward(self, start: int, stop: int, began: float) -> None:
        """Steps of one unit each, cut where they pass the furthest one so far."""
        middle = min(max(self._furthest, start), stop)
        turn = began + middle - start
        if start < middle:
            self.stroke(Kind.RECOMPUTE, start, middle, began, turn)
        if middle < stop:
            self.stroke(Kind.FORWARD, middle, stop, turn, turn + stop - middle)
            self._furthest = stop

    def hold(self, action: Action, began: float, ended: float) -> None:
        """Note what an action saves, uses or gives up."""
        match action:
            case Save(step, tier):
                self._save(step, tier, ended)
            case Restore(step, tier, last):
                self._restore(step, tier, began)
                if last and tier != INITIAL:
                    self._close(step, tier, began)
            case Drop(step, tier):
                self._close(step, tier, ended)
            case Record(start, stop, tier):
                self._record(start, stop, tier, began, ended)
            case Load(start, stop, tier):
                self._free(start, stop, tier, ended, ended)
                self._record(start, stop, MEMORY, began, ended)
            case Forget(start, stop, tier):
                self._free(start, stop, tier, ended, ended)
            case Reverse(stop, start, keep):
                self._adjoint = start
                if not keep:
                    self._free(start, stop, MEMORY, ended, began)
            case _:
                pass

    def _save(self, step: int, tier: Tier, time: float) -> None:
        if (tier, step) in self._restarts:
            self._close(step, tier, time)
        self._restarts[tier, step] = _Restart(time, [])
        self._restarts_held[tier] += 1
        held = self._restarts_held[tier]
        self._most_restarts[tier] = max(held, self._most_restarts.get(tier, 0))

    def _restore(self, step: int, tier: Tier, time: float) -> None:
        # One that nobody saved was there from the beginning, as the free initial state is.
        self._restarts.setdefault((tier, step), _Restart(0.0, [])).restores.append(time)

    def _close(self, step: int, tier: Tier, time: float) -> None:
        restart = self._restarts.pop((tier, step), None)
        if restart is not None:
            restores = tuple(restart.restores)
            self._lifetimes.append(Lifetime(step, tier, restart.began, time, restores))
            self._restarts_held[tier] -= 1

    def _record(self, start: int, stop: int, tier: Tier, began: float, ended: float) -> None:
        self._free(start, stop, tier, began, began)
        held = self._records[tier]
        held.insert(bisect_left(held, start, key=_first), _Records(start, stop, began, ended))
        self._records_held[tier] += stop - start
        most = self._most_records.get(tier, 0)
        self._most_records[tier] = max(most, self._records_held[tier])

    def _free(self, start: int, stop: int, tier: Tier, at_start: float, at_stop: float) -> None:
        """Cut records out of those held; the edges of the range are passed at the given times."""
        held = self._records[tier]
        low, high = bisect_right(held, start, key=_last), bisect_left(held, stop, key=_first)
        passing = _Records(start, stop, at_start, at_stop)
        left: list[_Records] = []
        for records in held[low:high]:
            cut = records.between(max(start, records.start), min(stop, records.stop))
            self._show(cut, tier, (passing.at(cut.start), passing.at(cut.stop)))
            if records.start < start:
                left.append(records.between(records.start, start))
            if records.stop > stop:
                left.append(records.between(stop, records.stop))
        held[low:high] = left

    def _show(self, records: _Records, tier: Tier, freed: tuple[float, float]) -> None:
        made = (records.began, records.ended)
        self._windows.append(Window(records.start, records.stop, tier, made, freed))
        self._records_held[tier] -= records.stop - records.start

    def finish(self, steps: int, unit: str) -> Timeline:
        """End what is still held, and return it all."""
        end = self._strokes[-1].ended if self._strokes else 0.0
        for (tier, step), restart in list(self._restarts.items()):
            passed = self._adjoint is not None and step >= self._adjoint
            self._close(step, tier, restart.restores[-1] if passed and restart.restores else end)
        for tier, held in self._records.items():
            for records in held:
                self._show(records, tier, (end, end))
        return Timeline(
            steps,
            unit,
            end,
            tuple(self._strokes),
            tuple(self._lifetimes),
            tuple(self._windows),
            self._most_restarts,
            self._most_records,
        )


def _first(records: _Records) -> int:
    return records.start


def _last(records: _Records) -> int:
    return records.stop
