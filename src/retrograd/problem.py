"""What a computation must be able to do to be reversed: the border to user code and adapters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from retrograd.layout import Layout


class Rows(Protocol):
    """A handle on the rows of an action, as the store gives it out."""

    def address(self, field: int) -> int:
        """The address of row 0 of a contiguous state field, for compiled code."""
        ...

    def row(self, field: int, row: int) -> NDArray[Any]:
        """Row ``row`` of a state field, as a view."""
        ...

    def record(self, field: int, step: int) -> NDArray[Any]:
        """The row that step ``step`` makes of a record-only field, as a view."""
        ...


class Steps(Protocol):
    """One forward call: steps ``start`` … ``stop - 1`` from ``source`` to ``target``."""

    @property
    def start(self) -> int: ...
    @property
    def stop(self) -> int: ...
    @property
    def source(self) -> Rows:
        """Rows ``start`` … hold the state to begin with."""
        ...

    @property
    def target(self) -> Rows:
        """Rows ``stop`` … take the state at the end. With ``recording``, or in a contiguous
        layout, the same window as ``source``, and every row in between is to be written."""
        ...

    @property
    def recording(self) -> bool:
        """Whether the records of these steps are wanted."""
        ...


class Problem(Protocol):
    """A time-stepping computation with its adjoint.

    A problem owns no checkpoint memory: it declares a :class:`~retrograd.layout.Layout` and is
    handed rows. Every method may be called again after :meth:`begin`.
    """

    @property
    def steps(self) -> int | None:
        """How many steps the forward makes; None where `OpenProblem.is_over` says when it ends."""
        ...

    @property
    def layout(self) -> Layout:
        """What restarts and records consist of."""
        ...

    @property
    def free_start(self) -> bool:
        """Whether :meth:`initialize` can make the initial state again at any time."""
        ...

    @property
    def keep_all_nbytes(self) -> int:
        """What keeping everything takes: the measure of budgets such as ``"1/16"``."""
        ...

    @property
    def fixed_nbytes(self) -> int:
        """Bytes that are in use whatever the budget: the user's fields, the adjoint state."""
        ...

    @property
    def scratch_nbytes(self) -> int:
        """Bytes that the problem allocates for its own work; they count in the budget."""
        ...

    def begin(self) -> None:
        """A forward run is about to start."""
        ...

    def initialize(self, rows: Rows) -> None:
        """Write the initial state, rows 0 … ``depth - 1`` of every state field."""
        ...

    def held(self, step: int) -> Sequence[NDArray[Any]]:
        """The live arrays of ``layout.held`` as they belong to the state at ``step``.

        They are read where that state is live, and else written to make it so. Only asked where
        the layout has some.
        """
        ...

    def forward(self, call: Steps, *, first: bool) -> None:
        """Run forward steps. Outputs of the forward are written only if ``first``."""
        ...

    def finish_forward(self, rows: Rows) -> None:
        """The forward has run to the end; ``rows`` hold its last state."""
        ...

    def begin_reverse(self) -> None:
        """A reverse sweep is about to start: the adjoint state takes its end value."""
        ...

    def reverse(self, stop: int, start: int, rows: Rows) -> None:
        """Run the adjoint of steps ``stop - 1`` … ``start``, whose records ``rows`` hold."""
        ...

    def gradient(self) -> Any:
        """What the last reverse sweep produced."""
        ...


@runtime_checkable
class ResumableProblem(Problem, Protocol):
    """A computation that another process can go on with, from arrays on disk."""

    def identity(self) -> Mapping[str, Any]:
        """What must be the same in both: names with text, numbers or lists of them.

        Asked after `begin`.
        """
        ...

    def outputs(self) -> Mapping[str, NDArray[Any]]:
        """What the forward has written so far besides its state: arrays, to be kept at once."""
        ...

    def resume_forward(self, outputs: Mapping[str, NDArray[Any]]) -> None:
        """Called after `begin`: the forward goes on where these were its outputs."""
        ...

    def reverse_state(self) -> Mapping[str, NDArray[Any]]:
        """What the reverse sweep has changed so far: arrays, to be kept at once."""
        ...

    def resume_reverse(self, state: Mapping[str, NDArray[Any]]) -> None:
        """As `begin_reverse`, but the sweep goes on where this was its state."""
        ...


@runtime_checkable
class OpenProblem(Problem, Protocol):
    """A computation that finds out as it runs how many steps it makes."""

    @property
    def most_steps(self) -> int:
        """How many steps the forward may make at most."""
        ...

    def is_over(self, rows: Rows, step: int) -> bool:
        """Whether the forward ends at ``step``, whose state ``rows`` hold.

        Asked at every step of the first sweep, from 0 on; at 0 the answer can only be no.
        """
        ...
