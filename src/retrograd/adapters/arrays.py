"""Time loops written as plain functions on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retrograd.errors import InvalidArgument, NonFinite
from retrograd.layout import Field, Layout
from retrograd.problem import Rows, Steps
from retrograd.sizes import parse_count

Array: TypeAlias = NDArray[Any]
State: TypeAlias = Any
"""One array, or a tuple of arrays: whichever the initial state is."""


class Problem:
    """A time loop whose forward and adjoint are functions of arrays.

    Parameters
    ----------
    step : ``step(state, k)`` returns state ``k + 1``. States are given as read-only arrays and
        returned as new ones with the same shapes and dtypes.
    adjoint_step : ``adjoint_step(adjoint, state, k)`` returns the adjoint before step ``k``,
        given state ``k`` (with ``recording_step``: the record of step ``k``). The adjoint is
        whatever you make it, say a tuple of the adjoint state and a sum of gradients.
    initial : state 0, an array or a tuple of arrays. It is copied.
    steps : how many steps to make.
    terminal : ``terminal(state)`` returns the adjoint at the end, from the last state. Without
        it the adjoint starts as zeros of the state's form.
    recording_step : ``recording_step(state, k)`` returns state ``k + 1`` and a record, for an
        adjoint that needs less or other data than the state.
    record_like : an array or tuple of arrays of a record's shapes and dtypes.
    free_start : whether going back to the initial state costs no memory of the budget. The
        copy of `initial` is the problem's own.

    Examples
    --------
    >>> import numpy as np, retrograd
    >>> def step(u, k):
    ...     return u + 0.1 * np.sin(u)
    >>> def adjoint_step(a, u, k):
    ...     return a * (1 + 0.1 * np.cos(u))
    >>> problem = Problem(step, adjoint_step, np.ones(4), 50, terminal=lambda u: u)
    >>> retrograd.gradient(problem, memory="1/4").gradient.shape
    (4,)
    """

    def __init__(
        self,
        step: Callable[[State, int], State],
        adjoint_step: Callable[[Any, State, int], Any],
        initial: ArrayLike | tuple[ArrayLike, ...],
        steps: int,
        *,
        terminal: Callable[[State], Any] | None = None,
        recording_step: Callable[[State, int], tuple[State, Any]] | None = None,
        record_like: ArrayLike | tuple[ArrayLike, ...] | None = None,
        free_start: bool = True,
    ) -> None:
        if (recording_step is None) != (record_like is None):
            raise InvalidArgument("recording_step and record_like go together: give both or none")
        self._step = step
        self._adjoint_step = adjoint_step
        self._terminal = terminal
        self._recording_step = recording_step
        self._single = not isinstance(initial, tuple)
        self._initial = tuple(np.array(part) for part in _as_tuple(initial))
        self._finite = [_is_finite(part) for part in self._initial]
        self._single_record = not isinstance(record_like, tuple)
        records = () if record_like is None else _as_tuple(record_like)
        self._layout = Layout(
            state=_fields("state", self._initial),
            records=_fields("record", tuple(np.asarray(part) for part in records)),
        )
        self._steps = parse_count(steps, "steps")
        self._free_start = free_start
        self._adjoint: Any = None

    @property
    def steps(self) -> int:
        """How many steps the forward makes."""
        return self._steps

    @property
    def layout(self) -> Layout:
        """One row of all arrays of the state, and one of all arrays of a record."""
        return self._layout

    @property
    def free_start(self) -> bool:
        """Whether going back to the initial state costs no memory of the budget."""
        return self._free_start

    @property
    def keep_all_nbytes(self) -> int:
        """The record of every step."""
        return self._steps * self._layout.record_nbytes

    @property
    def fixed_nbytes(self) -> int:
        """The copy of the initial state; the adjoint comes on top, as large as it is made."""
        return sum(part.nbytes for part in self._initial)

    @property
    def scratch_nbytes(self) -> int:
        """None: the user's functions allocate what they return."""
        return 0

    def begin(self) -> None:
        """Forget the last run's adjoint."""
        self._adjoint = None

    def initialize(self, rows: Rows) -> None:
        """Write the initial state."""
        for index, part in enumerate(self._initial):
            rows.row(index, 0)[...] = part

    def forward(self, call: Steps, *, first: bool) -> None:
        """Call the user's step function for each step, writing its state to a row."""
        rows = self._row_views(call.source, call.start)
        keep_states = call.recording and not self._layout.records
        for k in range(call.start, call.stop):
            given = self._given(rows)
            if call.recording and self._recording_step is not None:
                returned, record = self._recording_step(given, k)
                self._write_record(call.target, record, k)
            else:
                returned = self._step(given, k)
            rows = self._row_views(call.target, k + 1 if keep_states else call.stop)
            _write(rows, returned, "step", k)
        if first:
            self._check_finite(rows, call)

    def _row_views(self, window: Rows, row: int) -> tuple[Array, ...]:
        return tuple(window.row(index, row) for index in range(len(self._layout.state)))

    def _record_views(self, window: Rows, step: int) -> tuple[Array, ...]:
        return tuple(window.record(index, step) for index in range(len(self._layout.records)))

    def _given(self, rows: tuple[Array, ...]) -> State:
        return _read_only(rows, single=self._single)

    def _write_record(self, window: Rows, record: Any, k: int) -> None:
        _write(self._record_views(window, k), record, "recording_step's record", k)

    def _check_finite(self, rows: tuple[Array, ...], call: Steps) -> None:
        for row, was_finite, field in zip(rows, self._finite, self._layout.state, strict=True):
            if was_finite and not _is_finite(row):
                raise NonFinite(
                    f"{field.name} is not finite after step {call.stop - 1}, and was at the "
                    f"start: the forward blew up by steps {call.start} … {call.stop - 1}"
                )

    def finish_forward(self, rows: Rows) -> None:
        """Take the adjoint's end value from the last state."""
        last = self._row_views(rows, self._steps)
        if self._terminal is None:
            zeros = tuple(np.zeros_like(row) for row in last)
            self._adjoint = zeros[0] if self._single else zeros
        else:
            self._adjoint = _detached(self._terminal(self._given(last)), last[0])

    def begin_reverse(self) -> None:
        """Nothing to do: `finish_forward` has set the adjoint."""

    def reverse(self, stop: int, start: int, rows: Rows) -> None:
        """Call the user's adjoint function for each step, latest first."""
        for k in range(stop - 1, start - 1, -1):
            if self._layout.records:
                views = self._record_views(rows, k)
                given = _read_only(views, single=self._single_record)
            else:
                views = self._row_views(rows, k)
                given = self._given(views)
            self._adjoint = _detached(self._adjoint_step(self._adjoint, given, k), views[0])

    def gradient(self) -> Any:
        """The adjoint before step 0, as the user's function returned it."""
        return self._adjoint


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _fields(name: str, arrays: tuple[Array, ...]) -> tuple[Field, ...]:
    for array in arrays:
        if array.dtype.hasobject:
            raise InvalidArgument(f"{name} holds Python objects: give arrays of numbers")
    return tuple(Field(f"{name}[{i}]", a.shape, a.dtype) for i, a in enumerate(arrays))


def _is_finite(array: Array) -> bool:
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def _read_only(rows: tuple[Array, ...], *, single: bool) -> State:
    for row in rows:
        row.flags.writeable = False
    return rows[0] if single else rows


def _write(rows: tuple[Array, ...], returned: Any, what: str, k: int) -> None:
    """Copy what a user's function returned to its rows; nothing is cast or broadcast."""
    arrays = tuple(np.asarray(part) for part in _as_tuple(returned))
    wanted = [(row.shape, row.dtype) for row in rows]
    got = [(array.shape, array.dtype) for array in arrays]
    if got != wanted:
        raise InvalidArgument(
            f"{what} at step {k} returned {_forms(got)}, and {_forms(wanted)} is expected: "
            "return arrays of the same shapes and dtypes as the initial state's"
        )
    # A function may return (views of) the arrays it was given, and the rows may be those very
    # arrays: without a copy, writing one row could change what is written to the next.
    for row, array in zip(rows, _detached(arrays, rows[0]), strict=True):
        row[...] = array


def _forms(forms: list[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in forms)


def _detached(value: Any, row: Array) -> Any:
    """The value, with every array that lies in the arena of ``row`` replaced by a copy."""
    if isinstance(value, tuple):
        return tuple(_detached(part, row) for part in value)
    if isinstance(value, np.ndarray) and np.may_share_memory(value, _owner(row)):
        return value.copy()
    return value


def _owner(row: Array) -> Array:
    return row.base if isinstance(row.base, np.ndarray) else row
