"""Proof that the state is complete: what a recomputation makes is what was there the first time."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.adapters.devito.problem import Problem
from retrograd.errors import ReplayMismatch
from retrograd.problem import Rows, Steps


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of one forward call."""

    start: int
    stop: int
    source: Rows
    target: Rows
    recording: bool


class CheckedProblem(Problem):
    """Runs step by step and compares whatever is made again with a checksum of the first time.

    Every step's wavefields are compared, those that the gradient does not read too, and each
    record before it is read. What was left out of the restarts is compared after the first step
    that was run without it.

    Raises
    ------
    ReplayMismatch
        naming the field and the step that differ first.
    """

    def begin(self) -> None:
        """As `Problem.begin`; nothing is known yet."""
        super().begin()
        self._known: dict[tuple[str, int, int], int] = {}
        self.compared = 0

    def forward(self, call: Steps, *, first: bool) -> None:
        """Run the forward operator once a step."""
        start, depth = call.start, self.layout.depth
        self._compare_held(start, with_omitted=first)
        self._compare_rows(call.source, start, start + depth)
        part = _Part(start, start, call.source, call.target, call.recording)
        for step in range(start, call.stop):
            part = replace(part, start=step, stop=step + 1)
            super().forward(part, first=first)
            self._compare_held(step + 1, with_omitted=True)
            self._compare_rows(call.target, step + depth, step + depth + 1)

    def reverse(self, stop: int, start: int, rows: Rows) -> None:
        """Compare the records, and run the gradient operator."""
        low, high = self.layout.record_rows
        self._compare_rows(rows, start + low, stop - 1 + high)
        super().reverse(stop, start, rows)

    def _compare_held(self, step: int, *, with_omitted: bool) -> None:
        for held in sorted(self.live, key=lambda held: held.name not in self.omitted):
            if with_omitted or held.name not in self.omitted:
                for index, array in enumerate(held.arrays(self.timeline.begin(step))):
                    self._compare(held.name, step, index, array)

    def _compare_rows(self, rows: Rows, low: int, high: int) -> None:
        for index, name in enumerate(self._windows):
            for row in range(low, high):
                self._compare(name, row + 1 - self.layout.depth, 0, rows.row(index, row))

    def _compare(self, name: str, step: int, index: int, array: NDArray[Any]) -> None:
        same = self.comparable(self._own[name], array)
        checksum = zlib.crc32(np.ascontiguousarray(same).data)
        known = self._known.setdefault((name, step, index), checksum)
        self.compared += 1
        if known != checksum:
            raise ReplayMismatch(
                f"{name} at step {step} is not what it was the first time: the state that "
                f"restarts are made of is incomplete{self._suspects()}, or the forward depends "
                "on something that changed meanwhile",
                name,
                step,
            )

    def _suspects(self) -> str:
        return f" ({', '.join(sorted(self.omitted))} was left out)" if self.omitted else ""
