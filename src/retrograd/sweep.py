"""One walk forward and back, as a run makes it for each gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final, TypeAlias

from retrograd.actions import Action, Advance, BeginSweep, Drop, Forget, Record, Save, Tier
from retrograd.errors import StoreFailed
from retrograd.events import Event, Kind, Observer
from retrograd.executor import Executor
from retrograd.foresight import foreseen
from retrograd.position import Position
from retrograd.problem import OpenProblem, Problem
from retrograd.stores.arena import Arena
from retrograd.stores.tier import Item, Store

EVENTS_KEPT: Final = 100_000
"""A run remembers this many events; counts and seconds cover all of them."""


@dataclass(slots=True)
class Tally:
    """What the events of a run add up to.

    Attributes
    ----------
    steps, calls, seconds : by kind of event.
    events : the events themselves, up to `EVENTS_KEPT`.
    """

    steps: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    calls: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    seconds: dict[Kind, float] = field(default_factory=lambda: dict.fromkeys(Kind, 0.0))
    events: list[Event] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        self.steps[event.kind] += event.stop - event.start
        self.calls[event.kind] += 1
        self.seconds[event.kind] += event.seconds
        if len(self.events) < EVENTS_KEPT:
            self.events.append(event)

    @property
    def forward_steps(self) -> int:
        """Forward steps that were executed, first sweep included."""
        return self.steps[Kind.FORWARD] + self.steps[Kind.RECOMPUTE]


Rest: TypeAlias = Callable[[Position, Sequence[StoreFailed]], Iterable[Action]]
"""How to go on from a position after failures of a tier; raises where that cannot be."""


class Sweep:
    """One walk forward, and one or more back.

    Where a tier fails, what it lost is forgotten, and ``rest`` says how to go on from what is left:
    the actions are others then, and the result is the same.
    """

    def __init__(
        self,
        problem: Problem,
        arena: Arena,
        actions: Iterator[Action],
        observers: Sequence[Observer],
        stores: Mapping[Tier, Store],
        rest: Rest | None = None,
    ) -> None:
        self._problem = problem
        self._arena = arena
        self._stores = stores
        self._actions = foreseen(actions, stores)
        self._rest = rest
        self._position = Position(adjoint=problem.steps or 0)
        self.failures: list[StoreFailed] = []
        """What went wrong in a tier and was made good."""
        self.tally = Tally()
        self.seconds = 0.0
        self.is_over = False
        self._executor = Executor(problem, arena, (self.tally, *observers), stores)

    def forward(self) -> None:
        """Run forward to the end."""
        began = perf_counter()
        self._executor.begin()
        self._perform(self._to_the_end)
        self._problem.finish_forward(self._arena.live())
        self.seconds += perf_counter() - began

    def _perform(self, part: Callable[[], Iterable[Action]]) -> None:
        while True:
            try:
                self._executor.run(part())
                return
            except StoreFailed as error:
                self._go_on_after(error)

    def _go_on_after(self, error: StoreFailed) -> None:
        """Forget what is lost, and all records in memory, and make another schedule of the rest."""
        if self._rest is None:
            raise error
        position = self._position
        for item in error.items:
            position.lose(item.start, item.stop) if isinstance(item, Item) else None
        if not isinstance(self._executor.action, Save | Drop | Forget):
            position.live = None  # its rows are not what they were
        self._arena.forget(0, self._problem.steps or 0)
        self.failures.append(error)
        self._actions = foreseen(self._rest(position, self.failures), self._stores)

    def _followed(self) -> Iterator[Action]:
        for action in self._actions:
            yield action
            self._position.follow(action)

    def _to_the_end(self) -> Iterable[Action]:
        """The actions up to the one that reaches the last step, whose state is the last one."""
        for action in self._followed():
            yield action
            if isinstance(action, Advance | Record) and self._ends_at(action.stop):
                return

    def _ends_at(self, step: int) -> bool:
        return step == self._problem.steps

    def reverse(self) -> None:
        """Run a reverse sweep; `is_over` says whether it was the last."""
        began = perf_counter()
        self._problem.begin_reverse()
        self._perform(self._one_sweep)
        self.seconds += perf_counter() - began

    def _one_sweep(self) -> Iterator[Action]:
        for action in self._followed():
            if isinstance(action, BeginSweep):
                return
            yield action
        self.is_over = True


class OpenSweep(Sweep):
    """A walk that finds out as it goes forward where it turns."""

    def __init__(
        self,
        problem: OpenProblem,
        arena: Arena,
        actions: Iterator[Action],
        observers: Sequence[Observer],
    ) -> None:
        super().__init__(problem, arena, actions, observers, {})
        self._open = problem
        self.steps = 0

    def go_back(self, actions: Iterator[Action]) -> None:
        """Take these actions for the way back."""
        self._actions = actions

    def _to_the_end(self) -> Iterable[Action]:
        if not self._ends_at(0):
            yield from super()._to_the_end()

    def _ends_at(self, step: int) -> bool:
        self.steps = step
        return self._open.is_over(self._arena.live(), step)
