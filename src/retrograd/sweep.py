"""One walk forward and back, as a run makes it for each gradient."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final, TypeAlias

from numpy.typing import NDArray

from retrograd.actions import Action, Advance, BeginSweep, Drop, Forget, Record, Save, Tier
from retrograd.durable.keeper import DURABLE, Keeper, Kept
from retrograd.errors import NotSupported, Recovered, StoreFailed
from retrograd.events import Event, Kind, Observer
from retrograd.executor import Executor
from retrograd.foresight import foreseen
from retrograd.position import Position
from retrograd.problem import OpenProblem, Problem, ResumableProblem
from retrograd.stores.arena import Arena, Window
from retrograd.stores.background import Foreseeing
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
        keeper: Callable[[], Keeper] | None = None,
    ) -> None:
        self._problem = problem
        self._arena = arena
        self._stores = dict(stores)
        self._actions = foreseen(actions, stores)
        self._rest = rest
        self._open_keeper = keeper
        self._keeper: Keeper | None = None
        self._position = Position(adjoint=problem.steps or 0)
        self.failures: list[StoreFailed] = []
        """What went wrong in a tier and was made good."""
        self.tally = Tally()
        self.seconds = 0.0
        self.is_over = False
        observers = (self.tally, *observers)
        after = None if keeper is None else self._keep
        self._executor = Executor(problem, arena, observers, self._stores, after=after)

    def forward(self) -> None:
        """Run forward to the end."""
        began = perf_counter()
        self._executor.begin()
        if self._open_keeper is not None:
            self._begin_keeping(self._open_keeper())
        if self._keeper is None or self._keeper.adjoint is None:
            self._perform(self._to_the_end)
            self._problem.finish_forward(self._arena.live())
        self.seconds += perf_counter() - began

    def _begin_keeping(self, keeper: Keeper) -> None:
        """Go on where an earlier process was, if there was one."""
        self._keeper = keeper
        self._stores[DURABLE] = keeper
        problem = resumable(self._problem)
        if keeper.is_new:
            if not problem.free_start:
                keeper.keep_forward(0, self._state(self._arena.live(), 0), problem.outputs())
            return
        assert self._rest is not None
        problem.resume_forward(keeper.outputs())
        self._executor.furthest = keeper.furthest
        self._position = keeper.position(problem.steps or 0)
        self._actions = foreseen(self._rest(self._position, ()), self._stores)

    def _keep(self, kind: Kind, step: int, window: Window) -> None:
        """Put a snapshot on disk if it is time for one; the run goes on if that fails."""
        keeper, problem = self._keeper, resumable(self._problem)
        if keeper is None or not (keeper.is_due or step in (0, problem.steps)):
            return
        try:
            if kind is Kind.REVERSE:
                keeper.keep_reverse(step, problem.reverse_state())
            elif step == problem.steps:
                keeper.keep_outputs(step, problem.outputs())
            else:
                keeper.keep_forward(step, self._state(window, step), problem.outputs())
        except StoreFailed as error:
            warnings.warn(Recovered(f"{error}; the run goes on, and may be lost"), stacklevel=2)
            keeper.postpone()

    def _state(self, window: Window, step: int) -> list[NDArray[Any]]:
        held = self._problem.held(step) if self._problem.layout.held else ()
        return [*window.state(step), *held]

    @property
    def resumed(self) -> str:
        """Where an earlier process had left the run; empty if there was none."""
        keeper = self._keeper
        return "" if keeper is None else keeper.resumed

    @property
    def kept(self) -> Kept | None:
        """What was put on disk to be gone on with, if that was wanted."""
        return None if self._keeper is None else self._keeper.kept

    def close(self) -> None:
        """Let another process use the directory."""
        if self._keeper is not None:
            self._keeper.close()

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
            if isinstance(item, Item):
                position.lose(item.start, item.stop)
        if not isinstance(self._executor.action, Save | Drop | Forget):
            position.live = None  # its rows are not what they were
        self._arena.forget(0, self._problem.steps or 0)
        self.failures.append(error)
        for store in self._stores.values():
            if isinstance(store, Foreseeing):
                store.expect_nothing()
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
                self._position.follow(action)
                return

    def _ends_at(self, step: int) -> bool:
        return step == self._problem.steps

    def reverse(self) -> None:
        """Run a reverse sweep; `is_over` says whether it was the last."""
        began = perf_counter()
        if self._keeper is None or self._keeper.adjoint is None:
            self._problem.begin_reverse()
        else:
            resumable(self._problem).resume_reverse(self._keeper.reverse_state())
        self._perform(self._one_sweep)
        self.seconds += perf_counter() - began

    def _one_sweep(self) -> Iterator[Action]:
        for action in self._followed():
            if isinstance(action, BeginSweep):
                return
            yield action
        self.is_over = True


def resumable(problem: Problem) -> ResumableProblem:
    """The problem, if another process can go on with it."""
    if isinstance(problem, ResumableProblem):
        return problem
    raise NotSupported(
        f"{type(problem).__name__} cannot be gone on with by another process: write identity, "
        "outputs, resume_forward, reverse_state and resume_reverse, or leave resume= out"
    )


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
