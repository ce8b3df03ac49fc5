"""What two operators compute: state, records, adjoint state, accumulators, outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Function = Any


@dataclass(frozen=True, slots=True)
class StateField:
    """A wavefield of the forward: kept with ``save=nt``, written by every step.

    ``written`` is the time offset that a step writes, ``depth`` how many samples before it the
    forward reads.
    """

    function: Function
    written: int
    depth: int


@dataclass(frozen=True, slots=True)
class HeldField:
    """A function that belongs to the state and that the gradient does not read."""

    function: Function


@dataclass(frozen=True, slots=True)
class Unread(HeldField):
    """One with ``save=nt``; see `StateField`."""

    written: int
    depth: int


@dataclass(frozen=True, slots=True)
class Buffered(HeldField):
    """One of which Devito keeps a few samples.

    ``offsets`` are those of the samples that an iteration, or one after it, reads before they are
    written again.
    """

    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found in a forward and a gradient operator.

    Attributes
    ----------
    state : wavefields of the forward.
    records : for each wavefield that the gradient reads, by its name in the forward, the time
        offsets at which it does; and its name in the gradient operator.
    outputs : names of sparse functions that the forward writes (receivers).
    forward_accumulators : names of functions without time that the forward writes.
    adjoint : names of time functions that the gradient writes.
    accumulators : names of functions without time that the gradient writes.
    reverse_outputs : names of sparse functions that the gradient writes.
    covered : whether every step writes every point of each wavefield's domain.
    held : what else belongs to the state.
    every : how many iterations of the time loop make a step.
    """

    state: tuple[StateField, ...]
    records: Mapping[str, tuple[int, ...]]
    gradient_names: Mapping[str, str]
    outputs: tuple[str, ...]
    forward_accumulators: tuple[str, ...]
    adjoint: tuple[str, ...]
    accumulators: tuple[str, ...]
    reverse_outputs: tuple[str, ...]
    covered: bool
    held: tuple[HeldField, ...] = ()
    every: int = 1

    @property
    def own_functions(self) -> dict[str, Function]:
        """The forward's functions that retrograd places itself, by name."""
        functions = [f.function for f in self.state] + [f.function for f in self.held]
        return {function.name: function for function in functions}
