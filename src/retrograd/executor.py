"""The one loop: makes the moves of any iterable of actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final

from numpy.typing import NDArray

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
from retrograd.errors import IllegalAction
from retrograd.events import Event, Kind, Observer
from retrograd.pace import Pace
from retrograd.problem import Problem
from retrograd.stores.arena import Arena, ForwardCall, Window
from retrograd.stores.tier import Item, Store

LONGEST_CALL_SECONDS: Final = 1.0


class Executor:
    """Runs actions on a problem whose rows live in an arena.

    The executor knows no schedule: legality is :func:`retrograd.verify.verify`'s business, and
    it takes whatever iterable it is given. It knows the furthest step reached, and so tells the
    problem whether a step runs for the first time.

    Parameters
    ----------
    problem, arena : what runs, and the memory that its rows lie in.
    observers : called with every event.
    stores : what keeps the restarts and records of other tiers than memory.
    furthest : the step that the forward reached before; outputs are written from there on.
    after : called after each call of the problem that ran steps for the first time, or reversed
        some, with the step reached and the window that holds its rows.
    """

    def __init__(
        self,
        problem: Problem,
        arena: Arena,
        observers: Sequence[Observer] = (),
        stores: Mapping[Tier, Store] | None = None,
        *,
        furthest: int = 0,
        after: Callable[[Kind, int, Window], None] | None = None,
    ) -> None:
        self._problem = problem
        self._arena = arena
        self._observers = observers
        self._stores = {} if stores is None else stores
        self._index = -1
        self._action: Action = Advance(0, 0)
        self.furthest = furthest
        self._after = after
        self._began = perf_counter()
        row_nbytes = problem.layout.row_nbytes
        self._forward_pace = Pace(LONGEST_CALL_SECONDS, row_nbytes)
        self._reverse_pace = Pace(LONGEST_CALL_SECONDS, row_nbytes)

    @property
    def action(self) -> Action:
        """The action under way, or the last one."""
        return self._action

    def begin(self) -> None:
        """Make state 0 the live state, with nothing saved."""
        self._arena.reset()
        for store in self._stores.values():
            store.clear()
        self._problem.begin()
        self._problem.initialize(self._arena.live())

    def run(self, actions: Iterable[Action]) -> None:
        """Perform the actions in order.

        Raises
        ------
        Whatever the problem raises, with a note that names the action and its index.
        """
        for action in actions:
            self._index += 1
            self._action = action
            again = getattr(action, "start", 0) < self.furthest
            try:
                self._perform(action)
            except BaseException as error:
                doing = "recomputing" if isinstance(action, Advance | Record) and again else "in"
                error.add_note(f"retrograd: while {doing} action {self._index}, {action}")
                raise

    def _perform(self, action: Action) -> None:
        arena = self._arena
        match action:
            case Advance(start, stop):
                self._forward(arena.advance(start, stop))
            case Record(start, stop, tier):
                self._forward(arena.record(start, stop))
                if tier != MEMORY:
                    with self._timed(Kind.SAVE, stop, stop):
                        rows = arena.records(start, stop)
                        self._store(tier).save(Item(start, stop), rows)
                    arena.forget(start, stop)
            case Load(start, stop, tier):
                with self._timed(Kind.RESTORE, stop, stop):
                    store, item = self._store(tier), Item(start, stop)
                    store.restore(item, arena.load(start, stop))
                    store.drop(item)
            case Save(step, tier):
                with self._timed(Kind.SAVE, step, step):
                    if tier == MEMORY:
                        arena.save(step, self._held(step))
                    else:
                        self._store(tier).save(Item(step), self._live_rows(step))
            case Restore(step, tier, last):
                with self._timed(Kind.RESTORE, step, step):
                    self._restore(step, tier, last=last)
            case Drop(step, tier):
                if tier == MEMORY:
                    arena.drop(step)
                else:
                    self._store(tier).drop(Item(step))
            case Forget(start, stop, tier):
                if tier == MEMORY:
                    arena.forget(start, stop)
                else:
                    self._store(tier).drop(Item(start, stop))
            case Reverse(stop, start, keep):
                self._reverse(stop, start, keep=keep)
            case BeginSweep():
                self._problem.begin_reverse()

    def _restore(self, step: int, tier: Tier, *, last: bool) -> None:
        if tier == MEMORY:
            self._arena.restore(step, last=last, held=self._held(step))
        elif tier == INITIAL:
            self._problem.initialize(self._arena.enter(step))
        else:
            store = self._store(tier)
            self._arena.enter(step)
            store.restore(Item(step), self._live_rows(step))
            if last:
                store.drop(Item(step))

    def _live_rows(self, step: int) -> list[NDArray[Any]]:
        return [*self._arena.live().state(step), *self._held(step)]

    def _held(self, step: int) -> Sequence[NDArray[Any]]:
        return self._problem.held(step) if self._problem.layout.held else ()

    def _store(self, tier: Tier) -> Store:
        if tier not in self._stores:
            raise IllegalAction(f"there is no store for tier {tier!r}", self._index, self._action)
        return self._stores[tier]

    def _forward(self, calls: Iterator[ForwardCall]) -> None:
        for call in self._moving(calls):
            for begin, end in self._cuts(call.start, call.stop):
                first = begin >= self.furthest
                kind = Kind.FORWARD if first else Kind.RECOMPUTE
                part = call.part(begin, end)
                with self._timed(kind, begin, end) as clock:
                    self._problem.forward(part, first=first)
                self._forward_pace.learn(end - begin, clock.seconds)
                self.furthest = max(self.furthest, end)
                if first and self._after is not None:
                    self._after(kind, end, part.target)

    def _cuts(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut forward steps where they pass the furthest one or would take too long."""
        middle = min(max(self.furthest, start), stop)
        yield from self._forward_pace.up(start, middle)
        yield from self._forward_pace.up(middle, stop)

    def _moving(self, calls: Iterator[ForwardCall]) -> Iterator[ForwardCall]:
        """The calls, with the time that the arena spends on moving live rows reported."""
        while True:
            moves, began = self._arena.moves, perf_counter()
            call = next(calls, None)
            if self._arena.moves > moves:
                step = self._arena.step
                self._report(Kind.SAVE, step, step, began, perf_counter() - began)
            if call is None:
                return
            yield call

    def _reverse(self, stop: int, start: int, *, keep: bool) -> None:
        for call in self._arena.reverse(stop, start, keep=keep):
            for high, low in self._reverse_pace.down(call.stop, call.start):
                with self._timed(Kind.REVERSE, low, high) as clock:
                    self._problem.reverse(high, low, call.window)
                self._reverse_pace.learn(high - low, clock.seconds)
                if self._after is not None:
                    self._after(Kind.REVERSE, low, call.window)

    @contextmanager
    def _timed(self, kind: Kind, start: int, stop: int) -> Iterator[_Clock]:
        clock = _Clock()
        began = perf_counter()
        yield clock
        clock.seconds = perf_counter() - began
        self._report(kind, start, stop, began, clock.seconds)

    def _report(self, kind: Kind, start: int, stop: int, began: float, seconds: float) -> None:
        if self._observers:
            event = Event(
                self._index, self._action, kind, start, stop, began - self._began, seconds
            )
            for observe in self._observers:
                observe(event)


class _Clock:
    """Holds the seconds of a timed block once it has ended."""

    seconds = 0.0
