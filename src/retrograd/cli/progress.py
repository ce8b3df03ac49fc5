"""A progress bar with the time left, on a terminal only."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as Bar,
)

from retrograd.events import Event, Kind
from retrograd.plans import Plan

_REVERSE_WEIGHT = 1.5
"""A reverse step takes about this many times a forward step; it also sums up the gradient."""

_WEIGHTS = {Kind.FORWARD: 1.0, Kind.RECOMPUTE: 1.0, Kind.REVERSE: _REVERSE_WEIGHT}
_NAMES = {Kind.FORWARD: "forward", Kind.RECOMPUTE: "reverse", Kind.REVERSE: "reverse"}


class Progress:
    """An observer of events that draws a bar on standard error."""

    def __init__(self, plan: Plan, *, shots: int, quiet: bool) -> None:
        console = Console(stderr=True)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=quiet or not console.is_terminal,
            transient=True,
        )
        self._shots = shots
        # Each shot also runs forward once in the true model, to make the data.
        total = shots * (plan.steps + plan.forward_steps + _REVERSE_WEIGHT * plan.steps)
        self._task = self._bar.add_task("compiling", total=total)

    def __call__(self, event: Event) -> None:
        if event.kind in _WEIGHTS:
            steps = event.stop - event.start
            self._bar.update(
                self._task, advance=_WEIGHTS[event.kind] * steps, description=_NAMES[event.kind]
            )

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
