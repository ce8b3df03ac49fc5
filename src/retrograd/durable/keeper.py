"""Keeps enough of a run on disk, now and then, that it can go on after its process was killed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from numpy.typing import NDArray

from retrograd.actions import Tier
from retrograd.durable.journal import Journal
from retrograd.errors import ItemLost, NotSupported
from retrograd.position import Position
from retrograd.stores.tier import Item, Rows

DURABLE: Final[Tier] = "durable"
"""The tier of restarts that survive the process."""

_MOST_RESTARTS: Final = 16
_MOST_COST: Final = 0.02
"""The share of the time that keeping may take."""

Arrays = Mapping[str, NDArray[Any]]


@dataclass(slots=True)
class Kept:
    """What a process put on disk to be gone on with.

    Attributes
    ----------
    snapshots : how many.
    seconds : how long the computation stood still for them.
    """

    snapshots: int = 0
    seconds: float = 0.0


class Keeper:
    """What is on disk of one gradient, and when to put more there.

    Each snapshot is told of by one entry of the journal. In the forward sweep it is a restart
    with the outputs up to its step; at the end the outputs; in the reverse sweep the adjoint.

    Parameters
    ----------
    directory : a new one, or one that an earlier process left.
    identity : what must be the same for the run to be gone on with.
    interval : seconds from one snapshot to the next, at least; where they take long, it is longer.

    Attributes
    ----------
    adjoint : the step that the adjoint on disk stands at; None if there is none.
    furthest : the step up to which the outputs on disk are complete.
    kept : what this process has added.
    """

    def __init__(
        self, directory: str | os.PathLike[str], identity: Mapping[str, Any], interval: float
    ) -> None:
        self._journal = Journal(directory, identity)
        self._interval = interval
        self._due = perf_counter() + interval
        self._restarts: list[int] = []
        self.adjoint: int | None = None
        self.furthest = 0
        self.kept = Kept()
        for entry in self._journal.entries:
            self._restarts = list(entry["restarts"])
            self.adjoint, self.furthest = entry["adjoint"], entry["furthest"]
        self.resumed = self._told()
        """Where an earlier process had left the run, in words; empty if there was none."""

    @property
    def is_new(self) -> bool:
        """Whether the run begins from nothing."""
        return not self._journal.entries

    def _told(self) -> str:
        if self.is_new:
            return ""
        if self.adjoint == 0:
            return "it had been finished before, and nothing was run"
        if self.adjoint is None:
            return f"it went on from step {self.furthest} of the forward"
        return f"it went on from step {self.adjoint} of the reverse sweep"

    def postpone(self) -> None:
        """Try again when the next snapshot is due."""
        self._due = perf_counter() + self._interval

    @property
    def is_due(self) -> bool:
        """Whether it is time for a snapshot."""
        return perf_counter() >= self._due

    def position(self, steps: int) -> Position:
        """Where the run stands, by what is on disk."""
        at = steps if self.adjoint is None else self.adjoint
        restarts = {(step, DURABLE) for step in self._restarts if step < at}
        return Position(at, None, restarts)

    def outputs(self) -> dict[str, NDArray[Any]]:
        """The forward's outputs up to `furthest`."""
        return self._journal.read("outputs")

    def reverse_state(self) -> dict[str, NDArray[Any]]:
        """What the reverse sweep has made down to `adjoint`."""
        return self._journal.read("adjoint")

    def keep_forward(self, step: int, rows: Rows, outputs: Arrays) -> None:
        """Keep the state at a step, and what the forward has put out until there."""
        began = perf_counter()
        self._journal.write(_name(step), {str(n): row for n, row in enumerate(rows)})
        self._restarts = [*self._thinned(), step]
        self._keep("outputs", outputs, began, furthest=step)

    def _thinned(self) -> list[int]:
        """The restarts, every other one given up where there are many."""
        if len(self._restarts) < _MOST_RESTARTS:
            return self._restarts
        for step in self._restarts[1::2]:
            self._journal.forget(_name(step))
        return self._restarts[::2]

    def keep_outputs(self, steps: int, outputs: Arrays) -> None:
        """Keep what the forward has put out, at its end."""
        self._keep("outputs", outputs, perf_counter(), furthest=steps)

    def keep_reverse(self, adjoint: int, state: Arrays) -> None:
        """Keep the adjoint at a step, with all that the reverse sweep sums up."""
        began = perf_counter()
        for step in self._restarts:
            if step >= adjoint:
                self._journal.forget(_name(step))
        self._restarts = [step for step in self._restarts if step < adjoint]
        self.adjoint = adjoint
        self._keep("adjoint", state, began, furthest=self.furthest)

    def _keep(self, name: str, arrays: Arrays, began: float, *, furthest: int) -> None:
        self._journal.write(name, arrays)
        self.furthest = furthest
        entry = {"restarts": self._restarts, "adjoint": self.adjoint, "furthest": furthest}
        self._journal.append(entry)
        now = perf_counter()
        self.kept.snapshots += 1
        self.kept.seconds += now - began
        self._due = now + max(self._interval, (now - began) / _MOST_COST)

    def close(self) -> None:
        """Let another run use the directory."""
        self._journal.close()

    # As a store: restarts are read; the keeper itself decides when they are given up.

    def save(self, item: Item, rows: Rows) -> None:
        """Refused: what is put here is chosen by time, not by a schedule.

        Raises
        ------
        NotSupported
            always.
        """
        raise NotSupported(
            f"{item} cannot be saved in tier {DURABLE!r}, which the run itself fills: save it in "
            "another tier"
        )

    def restore(self, item: Item, rows: Rows) -> None:
        """Read a restart."""
        try:
            into = {str(n): row for n, row in enumerate(rows)}
            self._journal.read(_name(item.start), into=into)
        except ItemLost as error:
            raise ItemLost(f"{item} is lost: {error}", item) from error

    def drop(self, item: Item) -> None:
        """Nothing: it stays until the adjoint on disk has passed it."""

    def clear(self) -> None:
        """Nothing: what is on disk is what the run begins with."""


def _name(step: int) -> str:
    return f"restart-{step}"
