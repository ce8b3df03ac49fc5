"""A pair of Devito operators as a problem: whole segments in one compiled call, without copies."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import devito
import numpy as np
from numpy.typing import NDArray

from retrograd.adapters.devito.accesses import Access, accesses
from retrograd.adapters.devito.binding import BoundOperator, refuse_unrunnable
from retrograd.adapters.devito.coverage import rows_need_zeroing
from retrograd.adapters.devito.findings import Findings, Unread
from retrograd.adapters.devito.held import make_held
from retrograd.adapters.devito.inspection import inspect
from retrograd.adapters.devito.neighbours import LateHalo, late_halo, refuse_early_exchanges
from retrograd.adapters.devito.outputs import RecomputedOutputs, scratch_nbytes
from retrograd.adapters.devito.ranks import ranks_of
from retrograd.adapters.devito.refusals import (
    refuse_other_dt,
    refuse_other_rates,
    refuse_to_omit,
    refuse_uncovered,
)
from retrograd.adapters.devito.start import Start, domain, reaches_halo
from retrograd.adapters.devito.timeline import (
    Timeline,
    checked_steps,
    default_range,
    make_layout,
    sample_of_row_zero,
)
from retrograd.errors import InvalidArgument, OutOfOrder
from retrograd.layout import Layout
from retrograd.problem import Rows, Steps

Operator = Any

CHUNK: Final = 16
"""Iterations without a move of wavefields that the gradient does not read, if memory allows."""


class Problem:
    """A forward and a gradient operator, run on windows of the arena.

    The wavefields of the forward (``save=nt``) are never allocated: the operators are handed a
    pointer at which the window's samples lie where the absolute time index expects them. It is
    the same machine code on the same numbers as keeping everything, so the result is the same to
    the last bit.

    Parameters
    ----------
    forward, gradient : operators as for keeping everything.
    forward_arguments, gradient_arguments : what one would pass to ``apply``, less the wavefields.
    between : called when the forward has ended, to make the residual from the receivers.
    names : names of wavefields in the gradient operator, where they differ from the forward's.
    chunk : how many iterations run without copying wavefields that the gradient does not read,
        which takes memory for as many samples of them; 0 keeps them as those that it reads.
    omit : names of functions that the gradient does not read, to be left out of restarts all the
        same; only `CheckedProblem` tells whether the result is right without them.
    accumulate : add to what the gradient's accumulators hold, as ``apply`` does, instead of
        starting them at zero.

    Raises
    ------
    NotSupported
        for operators that cannot be run rightly in segments, with the reason.
    """

    compared = 0
    """How many arrays were compared with those of the first time; see `CheckedProblem`."""

    def __init__(
        self,
        forward: Operator,
        gradient: Operator,
        forward_arguments: Mapping[str, Any] | None = None,
        gradient_arguments: Mapping[str, Any] | None = None,
        *,
        between: Callable[[], object] | None = None,
        names: Mapping[str, str] | None = None,
        chunk: int = CHUNK,
        omit: Sequence[str] = (),
        accumulate: bool = False,
    ) -> None:
        refuse_unrunnable(forward)
        refuse_unrunnable(gradient)
        self.findings: Findings = inspect(forward, gradient, names or {}, apart=chunk > 0)
        self.ranks = ranks_of(forward, gradient)
        self.live = tuple(make_held(found, chunk) for found in self.findings.held)
        self.omitted = frozenset(omit)
        refuse_to_omit(self.omitted - {held.name for held in self.live}, self.findings)
        self.forward_arguments = dict(forward_arguments or {})
        self.gradient_arguments = dict(gradient_arguments or {})
        self.initial: dict[str, Any] = {}
        self.operators = (forward, gradient)
        self._between = between
        self._accumulate = accumulate
        self._windows = {field.function.name: field.function for field in self.findings.state}
        self._own = self.findings.own_functions
        ours, theirs = accesses(forward), accesses(gradient)
        self._late_halos = self._find_late_halos(ours, theirs) if self.ranks is not None else {}
        self._gradient_range = default_range(theirs)
        first, last = default_range(ours)
        low, high = self._gradient_range
        self._set_timeline(self._timeline(first, last, max(low, first), min(high, last)))
        self._zero_rows = False
        self._is_freshly_bound = False
        self._forward: BoundOperator | None = None
        self._gradient: BoundOperator | None = None
        self._outputs: RecomputedOutputs | None = None
        self._scratch: dict[str, NDArray[Any]] = {}
        self._checksums: dict[str, int] = {}
        if forward_arguments is not None:
            self.bind_forward()

    def _find_late_halos(
        self, ours: Mapping[str, Access], theirs: Mapping[str, Access]
    ) -> dict[int, LateHalo]:
        """Those that must be made up before the gradient operator runs, by field."""
        for operator in self.operators:
            refuse_early_exchanges(operator)
        names = self.findings.gradient_names
        found = {
            index: late_halo(ours[name], theirs[names[name]])
            for index, name in enumerate(self._windows)
            if name in names
        }
        return {index: late for index, late in found.items() if late is not None}

    def _timeline(self, first: int, last: int, low: int, high: int) -> Timeline:
        return Timeline(first, last, low, high, self.findings.every)

    def _set_timeline(self, timeline: Timeline) -> None:
        checked_steps(timeline)
        self.timeline = timeline
        kept = (one for one in self.live if one.name not in self.omitted)
        held = tuple(field for one in kept for field in one.fields)
        self._layout = make_layout(self.findings, timeline, held)
        self._row_zero = tuple(
            sample_of_row_zero(field, self._layout, timeline) for field in self.findings.state
        )

    @property
    def steps(self) -> int:
        """Iterations of the forward's time loop, or what there are of `Findings.every` of them."""
        return self.timeline.steps

    @property
    def layout(self) -> Layout:
        """One region for each wavefield, a row a sample, halo and padding included."""
        return self._layout

    @property
    def free_start(self) -> bool:
        """Always: the wavefield starts at zero or from the user's own arrays."""
        return True

    @property
    def keep_all_nbytes(self) -> int:
        """Bytes of all samples of every saved wavefield, as Devito would allocate them."""
        return sum(_nbytes(field) for field in self._own.values())

    @property
    def unread_nbytes(self) -> int:
        """Bytes of a sample of the ``save=nt`` wavefields that the gradient does not read."""
        found = (f.function for f in self.findings.held if isinstance(f, Unread))
        return sum(_nbytes(function) // int(function.shape_allocated[0]) for function in found)

    @property
    def fixed_nbytes(self) -> int:
        """Bytes of all other fields of both operators: model, adjoint, receivers, gradient."""
        placed = self._own, self.findings.gradient_names.values()
        fields = {
            p.name: p
            for operator, names in zip(self.operators, placed, strict=True)
            for p in operator.parameters
            if p.is_AbstractFunction and p.name not in names
        }
        return sum(_nbytes(field) for field in fields.values())

    @property
    def scratch_nbytes(self) -> int:
        """Memory that takes what recomputed steps would write besides the wavefields."""
        return scratch_nbytes(self.operators[0], self.findings) + sum(
            held.nbytes for held in self.live
        )

    def bind_forward(self) -> None:
        """Check the forward's arguments and take steps and range from them."""
        forward = self.operators[0]
        self._gradient = None
        timeless = {n for n, function in self._own.items() if not function.is_TimeFunction}
        given = {n: v for n, v in self.forward_arguments.items() if n not in timeless}
        self._forward = BoundOperator(forward, given, self._own)
        first, last = self._forward.time_range
        low, high = self._gradient_range
        self._set_timeline(self._timeline(first, last, max(low, first), min(high, last)))
        refuse_other_rates(self._forward, self._windows, last)
        self._zero_rows = rows_need_zeroing(
            forward, self._forward, self.forward_arguments, self.findings
        )
        refuse_uncovered(self._zero_rows, self.findings)
        self._zero_rows |= first % self.findings.every > 0 or self._starts_in_halo()
        self._outputs = RecomputedOutputs(self._forward, forward, self.findings, self._scratch)
        self._is_freshly_bound = True

    def begin(self) -> None:
        """Bind the forward's arguments and remember what its inputs and start look like."""
        if not self._is_freshly_bound:
            self._bind_as_planned()
        self._is_freshly_bound = False
        assert self._forward is not None
        self._checksums = self._input_checksums(self._forward)

    def _bind_as_planned(self) -> None:
        planned = self.steps
        self.bind_forward()
        if self.steps != planned:
            raise InvalidArgument(
                f"the run was planned for {planned} steps and its arguments ask for {self.steps}: "
                "make a new run for another time range"
            )

    def _input_checksums(self, bound: BoundOperator) -> dict[str, int]:
        """Checksums of everything that the forward reads and does not write."""
        skipped = {*self._own, *self.findings.outputs, *self.findings.forward_accumulators}
        arrays = {
            name: self.comparable(function, bound.array(name))
            for name, function in bound.arrays().items()
            if name not in skipped
        }
        arrays |= {f"initial {name}": samples for name, samples in self._starts().items()}
        return {name: _checksum(array) for name, array in arrays.items()}

    def comparable(self, function: Any, array: NDArray[Any]) -> NDArray[Any]:
        """The part of an array that is the same whenever it is computed.

        Not the halo where MPI ranks exchange it: they do when it is read.
        """
        return array if self.ranks is None else array[domain(function, array.ndim)]

    def initialize(self, rows: Rows) -> None:
        """What the user's own functions hold or ``initial`` says, or zero."""
        starts, depth = self._starts(), self._layout.depth
        for index, name in enumerate(self._windows):
            samples = [rows.row(index, row) for row in range(depth)]
            _fill(samples, starts.get(name))
        for held in self.live:
            held.clear()
            _fill(held.arrays(self.timeline.first), starts.get(held.name))
            held.ran(self.timeline.first, clean=self._zero_rows)

    def _starts(self) -> dict[str, NDArray[Any]]:
        """The last samples before the first step, by name, where they are not zero."""
        start = Start(self._own, self.forward_arguments, self.initial)
        start.refuse_unknown()
        indices: dict[str, Sequence[int]] = {}
        for state, zero in zip(self.findings.state, self._row_zero, strict=True):
            end = zero + self._layout.depth
            indices[state.function.name] = range(max(0, end - max(1, state.depth)), end)
        indices |= {held.name: held.indices(self.timeline.first) for held in self.live}
        found = {name: start.samples(name, i) for name, i in indices.items()}
        return {name: samples for name, samples in found.items() if samples is not None}

    def _starts_in_halo(self) -> bool:
        """Whether rows that are used again would bring along what no step overwrites."""
        return any(reaches_halo(self._own[n], samples) for n, samples in self._starts().items())

    def held(self, step: int) -> list[NDArray[Any]]:
        """Samples of wavefields that the gradient does not read, and functions without time."""
        iteration = self.timeline.begin(step)
        kept = (one for one in self.live if one.name not in self.omitted)
        return [array for one in kept for array in one.arrays(iteration)]

    def forward(self, call: Steps, *, first: bool) -> None:
        """Run the forward operator once over the whole segment."""
        assert self._forward is not None and self._outputs is not None
        self._point(self._forward, call.source, {})
        if self._zero_rows:
            self._zero_written(call)
        self._outputs.switch(first=first)
        iteration, end = self.timeline.begin(call.start), self.timeline.begin(call.stop)
        for held in self.live:
            held.arrays(iteration)  # brings one that was not restored to where it belongs
        while iteration < end:
            for held in self.live:
                if held.room(iteration) < 1:
                    held.make_room(iteration)
                    held.ran(iteration, clean=self._zero_rows)
                self._forward.point(held.name, held.address)
            until = min(end, *(iteration + held.room(iteration) for held in self.live), end)
            self._forward.run(iteration, until - 1)
            iteration = until
            for held in self.live:
                held.ran(iteration, clean=False)

    def _zero_written(self, call: Steps) -> None:
        depth = self._layout.depth
        for index in range(len(self._layout.state)):
            for row in range(call.start + depth, call.stop + depth):
                call.target.row(index, row)[...] = 0

    def _point(self, bound: BoundOperator, rows: Rows, names: Mapping[str, str]) -> None:
        for index, (name, zero) in enumerate(zip(self._windows, self._row_zero, strict=True)):
            if not names or name in names:
                shift = zero * self._layout.state[index].nbytes
                bound.point(names.get(name, name), rows.address(index) - shift)

    def finish_forward(self, rows: Rows) -> None:
        """Gather the receivers' data from other MPI ranks."""
        assert self._forward is not None
        self._forward.collect()

    def begin_reverse(self) -> None:
        """Bind the gradient's arguments; zero the adjoint state, and what the sweep sums up."""
        if self._between is not None:
            self._between()
        assert self._forward is not None
        self._refuse_changed_inputs(self._forward)
        windows = {
            theirs: self._windows[ours] for ours, theirs in self.findings.gradient_names.items()
        }
        gradient = BoundOperator(self.operators[1], self.gradient_arguments, windows)
        refuse_other_dt(self._forward, gradient)
        first, last = gradient.time_range
        refuse_other_rates(gradient, windows, last)
        self._set_timeline(self._timeline(self.timeline.first, self.timeline.last, first, last))
        zeroed = self.findings.adjoint
        for name in zeroed if self._accumulate else zeroed + self.findings.accumulators:
            gradient.array(name)[...] = 0
        self._gradient = gradient

    def _refuse_changed_inputs(self, bound: BoundOperator) -> None:
        for name, checksum in self._input_checksums(bound).items():
            if checksum != self._checksums.get(name):
                raise OutOfOrder(
                    f"{name} was changed between forward and reverse, and recomputed steps would "
                    "differ from the first ones: change it after reverse(), or pass another "
                    "object to the gradient"
                )

    def reverse(self, stop: int, start: int, rows: Rows) -> None:
        """Run the gradient operator once over the whole segment."""
        assert self._gradient is not None
        first, last = self.timeline.reverse_range(stop, start)
        for index, late in self._late_halos.items():
            for iteration in range(min(last, self.timeline.last), first - 1, -1):
                sample = rows.row(index, iteration + late.offset - self._row_zero[index])
                if iteration == self.timeline.last:
                    late.clear(sample)  # the forward ends before anybody would read it
                else:
                    late.exchange(sample)
        if first <= last:
            self._point(self._gradient, rows, self.findings.gradient_names)
            self._gradient.run(first, last)

    def identity(self) -> dict[str, Any]:
        """Both operators, the time range, and checksums of all that the forward reads."""
        assert self._forward is not None
        first, last = self._forward.time_range
        fields = (f"{f.name} {f.dtype}{list(f.shape)}" for f in self._layout.state)
        return {
            "kind": "devito",
            "devito": devito.__version__,
            "forward operator": zlib.crc32(str(self.operators[0]).encode()),
            "gradient operator": zlib.crc32(str(self.operators[1]).encode()),
            "time": [first, last],
            "dt": float(self._forward.value("dt") or 0),
            "wavefields": list(fields),
            "held": [f"{f.name} {f.dtype}{list(f.shape)}" for f in self._layout.held],
            **{f"input {n}": crc for n, crc in self._input_checksums(self._forward).items()},
        }

    def outputs(self) -> dict[str, NDArray[Any]]:
        """Receivers, and what the forward has summed up."""
        assert self._forward is not None and self._outputs is not None
        self._outputs.switch(first=True)
        names = (*self.findings.outputs, *self.findings.forward_accumulators)
        return {name: self._forward.array(name) for name in names}

    def resume_forward(self, outputs: Mapping[str, NDArray[Any]]) -> None:
        """Put the outputs where the user looks for them."""
        for name, array in self.outputs().items():
            array[...] = outputs[name]

    def reverse_state(self) -> dict[str, NDArray[Any]]:
        """The adjoint wavefields, whatever the sweep sums up, and what it puts out."""
        gradient, found = self._gradient, self.findings
        assert gradient is not None
        names = (*found.adjoint, *found.accumulators, *found.reverse_outputs)
        return {name: gradient.array(name) for name in names}

    def resume_reverse(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Bind the gradient's arguments, and go on from a state."""
        self.begin_reverse()
        for name, array in self.reverse_state().items():
            array[...] = state[name]

    @property
    def compiled_seconds(self) -> float:
        """Spent inside the compiled functions since the last forward began."""
        bound = (self._forward, self._gradient)
        return sum(operator.seconds for operator in bound if operator is not None)

    def gradient(self) -> dict[str, NDArray[Any]]:
        """What the gradient operator has summed up, by name, without halo."""
        assert self._gradient is not None
        self._gradient.collect()
        arguments = self.gradient_arguments
        defaults = {p.name: p for p in self.operators[1].parameters}
        found = {n: arguments.get(n, defaults[n]) for n in self.findings.accumulators}
        return {name: np.array(getattr(value, "data", value)) for name, value in found.items()}


def chunk_within(problem: Problem, memory_nbytes: int) -> int:
    """The chunk for a budget: 0 if all samples fit, else what an eighth of it holds."""
    if memory_nbytes >= problem.keep_all_nbytes:
        return 0
    return max(1, min(CHUNK, memory_nbytes // 8 // problem.unread_nbytes))


def _fill(samples: Sequence[NDArray[Any]], values: NDArray[Any] | None) -> None:
    """Zero, and the values in the last ones."""
    for sample in samples:
        sample[...] = 0
    if values is not None:
        for sample, value in zip(reversed(samples), reversed(values), strict=False):
            sample[...] = value


def _nbytes(function: Any) -> int:
    shape = (int(size) for size in function.shape_allocated)
    return int(math.prod(shape) * np.dtype(function.dtype).itemsize)


def _checksum(array: NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(array).data)
