"""How a pair of operators' time loops map to steps, and their samples to rows.

Iteration ``first + k`` of the forward's time loop is step ``k``. Rows are counted such that every
step writes row ``k + depth`` of every wavefield, whatever the offset that it is written at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from retrograd.adapters.devito.accesses import Access
from retrograd.adapters.devito.findings import Findings, StateField
from retrograd.errors import InvalidArgument, NotSupported
from retrograd.layout import Field, Layout


@dataclass(frozen=True, slots=True)
class Timeline:
    """The iterations of both time loops, as absolute time indices, both ends included.

    A step is one iteration; or, where samples are kept ``every`` few iterations, those from one
    multiple of it to the next.
    """

    first: int
    last: int
    reverse_first: int
    reverse_last: int
    every: int = 1

    @property
    def steps(self) -> int:
        """How many steps the forward makes."""
        return self.last // self.every - self.first // self.every + 1

    def begin(self, step: int) -> int:
        """The first iteration of a step; after the last step, the one that would follow."""
        iteration = (self.first // self.every + step) * self.every
        return min(max(iteration, self.first), self.last + 1)

    def reverse_range(self, stop: int, start: int) -> tuple[int, int]:
        """The gradient's iterations that reverse steps ``stop - 1`` … ``start``.

        The range is empty (its end lies below its beginning) where the gradient has none. The
        gradient's iterations after the forward's last one belong to the last step.
        """
        low = max(self.begin(start), self.reverse_first) if start else self.reverse_first
        high = self.reverse_last if stop == self.steps else self.begin(stop) - 1
        return low, min(high, self.reverse_last)


def default_range(found: Mapping[str, Access]) -> tuple[int, int]:
    """The iterations that touch only samples that exist, as Devito derives them.

    Devito takes the offsets of all functions together, buffered ones included.
    """
    timed = [a for a in found.values() if a.is_timed and a.reads | a.writes]
    offsets = set[int]().union(*(a.reads | a.writes for a in timed))
    samples = [a.samples for a in timed if a.samples is not None]
    return max(0, -min(offsets, default=0)), min(samples, default=0) - 1 - max(offsets, default=0)


def make_layout(findings: Findings, timeline: Timeline, held: tuple[Field, ...] = ()) -> Layout:
    """The layout of the forward's wavefields, with the rows that the gradient reads.

    Raises
    ------
    NotSupported
        where the gradient reads samples that a step neither starts with nor makes, or runs over
        iterations for which there are none.
    """
    depth = max(0 if held else 1, *(field.depth for field in findings.state))
    rows = [
        offset - field.written + depth
        for field in findings.state
        for offset in findings.records.get(field.function.name, ())
    ]
    record_rows = (min(rows), max(rows) + 1)
    if record_rows[0] < 0 or record_rows[1] > depth + 1:
        raise NotSupported(
            f"the gradient reads the wavefields at the time offsets {dict(findings.records)}, "
            f"and a step of the forward touches only the {depth + 1} samples up to the one it "
            "writes: write the imaging condition with samples among these"
        )
    every = timeline.every
    extra = timeline.reverse_last // every - timeline.last // every
    if extra > 0 and record_rows[1] + extra > depth + 1:
        raise NotSupported(
            f"the gradient runs to iteration {timeline.reverse_last} and the forward only to "
            f"{timeline.last}: pass time_M={timeline.last} to the reverse sweep"
        )
    if timeline.reverse_first // every < timeline.first // every:
        raise NotSupported(
            f"the gradient runs from iteration {timeline.reverse_first} and the forward only "
            f"from {timeline.first}: pass time_m={timeline.first} to the reverse sweep"
        )
    return Layout(
        state=tuple(_field(field) for field in findings.state),
        depth=depth,
        record_rows=record_rows,
        contiguous=True,
        held=held,
    )


def _field(field: StateField) -> Field:
    function = field.function
    shape = tuple(int(size) for size in function.shape_allocated[1:])
    return Field(function.name, shape, np.dtype(function.dtype))


def sample_of_row_zero(field: StateField, layout: Layout, timeline: Timeline) -> int:
    """The absolute time index of the sample that row 0 of a wavefield holds."""
    return timeline.first // timeline.every + field.written - layout.depth


def checked_steps(timeline: Timeline) -> None:
    """Refuse time ranges without a step."""
    if timeline.steps < 1:
        raise InvalidArgument(
            f"the time loop runs from iteration {timeline.first} to {timeline.last}, which is no "
            "step at all: give the wavefields more samples (save=nt) or another time_m and time_M"
        )
