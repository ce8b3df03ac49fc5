"""Time loops written as plain functions on NumPy arrays."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retrograd.arguments import flag, whole
from retrograd.durable.nested import put_together, taken_apart
from retrograd.errors import InvalidArgument, NonFinite, NotSupported
from retrograd.layout import Field, Layout
from retrograd.problem import Rows, Steps

Array: TypeAlias = NDArray[Any]
State: TypeAlias = Any
"""One array, or a tuple of arrays: whichever the initial state is."""

_MOST_CHECKSUMS: Final = 4096


class Problem:
    """A time loop whose forward and adjoint are functions of arrays.

    Parameters
    ----------
    step : ``step(state, k)`` returns state ``k + 1``. States are given as read-only arrays and
        returned as new ones with the same shapes and dtypes. It must depend on its arguments
        alone, since it is called again: a state that comes out differently then is refused.
    adjoint_step : ``adjoint_step(adjoint, state, k)`` returns the adjoint before step ``k``,
        given state ``k`` (with ``recording_step``: the record of step ``k``). The adjoint is
        whatever you make it, say a tuple of the adjoint state and a sum of gradients. Parts of
        the given state or record may be returned in tuples, lists and dicts; whoever keeps them
        elsewhere must copy them.
    initial : state 0, an array or a tuple of arrays. It is copied.
    steps : how many steps to make; with `until`, the most that it may take to come true.
    terminal : ``terminal(state)`` returns the adjoint at the end, from the last state. Without
        it the adjoint starts as zeros of the state's form. For several reverse sweeps, a
        sequence of such functions, one for each.
    recording_step : ``recording_step(state, k)`` returns state ``k + 1`` and a record, for an
        adjoint that needs less or other data than the state.
    record_like : an array or tuple of arrays of a record's shapes and dtypes.
    free_start : whether going back to the initial state costs no memory of the budget. The
        copy of `initial` is the problem's own.
    until : ``until(state, k)`` says whether the loop ends at state ``k``, in place of a number of
        steps that is known beforehand. It is asked at every state, and never when steps are
        computed again. A step size that is chosen on the way belongs in the state: then every
        step is repeated with the size that it had.

    Examples
    --------
    A number of steps that is known:

    >>> import numpy as np, retrograd
    >>> def step(u, k):
    ...     return u + 0.1 * np.sin(u)
    >>> def adjoint_step(a, u, k):
    ...     return a * (1 + 0.1 * np.cos(u))
    >>> problem = Problem(step, adjoint_step, np.ones(4), 50, terminal=lambda u: u)
    >>> retrograd.gradient(problem, memory="1/4").gradient.shape
    (4,)

    A time that is reached in steps of a size that depends on the state, ``while t < 2``:

    >>> def step(state, k):
    ...     u, t, dt = state
    ...     u, t = u - dt * u * u, t + dt
    ...     return u, t, np.minimum(0.02 / (0.1 + u), 2.0 - t)
    >>> def adjoint_step(adjoint, state, k):  # of u at the end; the steps' sizes are held fixed
    ...     u, t, dt = state
    ...     return adjoint * (1 - dt * 2 * u)
    >>> start = (np.array(1.0), np.array(0.0), np.array(0.01))
    >>> problem = Problem(
    ...     step, adjoint_step, start, until=lambda state, k: state[1] >= 2, terminal=lambda _: 1.0)
    >>> few, all_kept = (retrograd.gradient(problem, memory=size) for size in (2000, 200_000))
    >>> few.steps, few.tally.forward_steps, all_kept.tally.forward_steps
    (66, 134, 66)
    >>> bool(few.gradient == all_kept.gradient)
    True
    """

    def __init__(
        self,
        step: Callable[[State, int], State],
        adjoint_step: Callable[[Any, State, int], Any],
        initial: ArrayLike | tuple[ArrayLike, ...],
        steps: int | None = None,
        *,
        terminal: Callable[[State], Any] | Sequence[Callable[[State], Any]] | None = None,
        recording_step: Callable[[State, int], tuple[State, Any]] | None = None,
        record_like: ArrayLike | tuple[ArrayLike, ...] | None = None,
        free_start: bool = True,
        until: Callable[[State, int], bool] | None = None,
    ) -> None:
        if (recording_step is None) != (record_like is None):
            raise InvalidArgument("recording_step and record_like go together: give both or none")
        self._step = step
        self._adjoint_step = adjoint_step
        self._terminals = (terminal,) if terminal is None or callable(terminal) else tuple(terminal)
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
        self._until = until
        self._most_steps = _checked_steps(steps, open_end=until is not None)
        self._free_start = flag("free_start", free_start)
        self._end = 0 if until is not None else self._most_steps
        """The step at which the forward ends, as far as that is known."""
        self._adjoint: Any = None
        self._ends: list[Any] = []
        self.compares_replays = True
        """Whether a state that comes out differently when it is computed again is refused; it may
        where restarts are compressed with loss."""
        self._checksums = _Checksums()

    @property
    def steps(self) -> int | None:
        """How many steps the forward makes; None where `until` says when it ends."""
        return None if self._until is not None else self._most_steps

    @property
    def most_steps(self) -> int:
        """How many steps the forward may make at most."""
        return self._most_steps

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
        """The record of every step; with `until`, of those that the last forward made."""
        return self._end * self._layout.record_nbytes

    @property
    def fixed_nbytes(self) -> int:
        """The copy of the initial state; the adjoint comes on top, as large as it is made."""
        return sum(part.nbytes for part in self._initial)

    @property
    def scratch_nbytes(self) -> int:
        """None: the user's functions allocate what they return."""
        return 0

    def begin(self) -> None:
        """Forget the last run's adjoint and states."""
        self._end = 0 if self._until is not None else self._most_steps
        self._adjoint = None
        self._checksums = _Checksums()

    def initialize(self, rows: Rows) -> None:
        """Write the initial state."""
        for index, part in enumerate(self._initial):
            rows.row(index, 0)[...] = part

    def held(self, step: int) -> tuple[()]:
        """None: all arrays of a state lie in rows."""
        return ()

    def forward(self, call: Steps, *, first: bool) -> None:
        """Call the user's step function for each step, writing its state to a row."""
        rows = self._row_views(call.source, call.start)
        keep_states = call.recording and not self._layout.records
        for k in range(call.start, call.stop):
            if k == call.stop - 1 or (k > call.start and not first):
                self._check_replay(rows, k, first=first)
            with _noting(f"step {k}"):
                returned = self._call_step(call, rows, k)
                rows = self._row_views(call.target, k + 1 if keep_states else call.stop)
                _write(rows, returned, "step", "the initial state", k)
        self._check_replay(rows, call.stop, first=first)
        if first:
            self._check_finite(rows, call)

    def _call_step(self, call: Steps, rows: tuple[Array, ...], k: int) -> State:
        given = _read_only(rows, single=self._single)
        if self._recording_step is None or not call.recording:
            return self._step(given, k)
        returned, record = self._recording_step(given, k)
        _write(self._record_views(call.target, k), record, "recording_step", "record_like", k)
        return returned

    def _check_replay(self, rows: tuple[Array, ...], step: int, *, first: bool) -> None:
        """Compare a recomputed state with the first one; calls' last two states are remembered.

        A call that runs again ends where a first one ended, or, where the record is in the
        state, one step before.
        """
        if first:
            self._checksums.remember(step, rows)
        elif self.compares_replays and self._checksums.differ(step, rows):
            raise NotSupported(
                f"state {step} came out differently when it was computed again: step() must "
                "depend on its arguments alone; put whatever it changes into the state"
            )

    def _row_views(self, window: Rows, row: int) -> tuple[Array, ...]:
        return tuple(window.row(index, row) for index in range(len(self._layout.state)))

    def _record_views(self, window: Rows, step: int) -> tuple[Array, ...]:
        return tuple(window.record(index, step) for index in range(len(self._layout.records)))

    def _check_finite(self, rows: tuple[Array, ...], call: Steps) -> None:
        for row, was_finite, field in zip(rows, self._finite, self._layout.state, strict=True):
            if was_finite and not _is_finite(row):
                raise NonFinite(
                    f"{field.name} is not finite after step {call.stop - 1}, and was at the "
                    f"start: the forward blew up by steps {call.start} … {call.stop - 1}"
                )

    def is_over(self, rows: Rows, step: int) -> bool:
        """Ask `until` about the state at ``step``."""
        if self._until is None:
            return step == self._most_steps
        with _noting(f"until(state, {step})"):
            state = _read_only(self._row_views(rows, step), single=self._single)
            over = _as_flag(self._until(state, step))
            if over and not step:
                raise InvalidArgument(
                    "until(state, 0) is true, and without a step there is nothing to reverse: "
                    "write until such that it is false for the initial state"
                )
            if not over and step == self._most_steps:
                raise InvalidArgument(
                    f"until was not true once in the steps={step} that are allowed: give more "
                    "steps, or write until such that it comes true"
                )
        self._end = step
        return over

    def finish_forward(self, rows: Rows) -> None:
        """Take the adjoint's end value from the last state, for each reverse sweep."""
        last = self._row_views(rows, self._end)
        self._ends = [self._end_value(last, terminal) for terminal in self._terminals]

    def _end_value(self, last: tuple[Array, ...], terminal: Callable[[State], Any] | None) -> Any:
        if terminal is None:
            zeros = tuple(np.zeros_like(row) for row in last)
            return zeros[0] if self._single else zeros
        return _copied(terminal(_read_only(last, single=self._single)))

    def begin_reverse(self) -> None:
        """Begin at the next end value that `finish_forward` took."""
        if not self._ends:
            raise NotSupported(
                "there are more reverse sweeps than end values: give a sequence of functions as "
                "terminal, one for each sweep"
            )
        self._adjoint = self._ends.pop(0)

    def reverse(self, stop: int, start: int, rows: Rows) -> None:
        """Call the user's adjoint function for each step, latest first."""
        for k in range(stop - 1, start - 1, -1):
            if self._layout.records:
                views, single = self._record_views(rows, k), self._single_record
            else:
                views, single = self._row_views(rows, k), self._single
            with _noting(f"step {k}"):
                adjoint = self._adjoint_step(self._adjoint, _read_only(views, single=single), k)
            self._adjoint = _copied(adjoint, arena_of=views[0])

    def identity(self) -> dict[str, Any]:
        """The functions' names, the state's form and checksums of what it begins with."""
        functions = (self._step, self._adjoint_step, self._recording_step, *self._terminals)
        return {
            "kind": "arrays",
            "steps": self._most_steps,
            "functions": [getattr(f, "__qualname__", type(f).__name__) for f in functions],
            "state": [f"{f.dtype}{list(f.shape)}" for f in self._layout.state],
            "records": [f"{f.dtype}{list(f.shape)}" for f in self._layout.records],
            "initial": _checksum(self._initial),
        }

    def outputs(self) -> dict[str, Array]:
        """Nothing: a step returns all that it makes."""
        return {}

    def resume_forward(self, outputs: Mapping[str, Array]) -> None:
        """Nothing to do."""

    def reverse_state(self) -> dict[str, Array]:
        """The adjoint, taken apart."""
        return taken_apart(self._adjoint)

    def resume_reverse(self, state: Mapping[str, Array]) -> None:
        """Go on with an adjoint; `terminal` is not asked."""
        self._ends = []
        self._adjoint = put_together(state)

    def gradient(self) -> Any:
        """A copy of the adjoint before step 0, as the user's function returned it."""
        return _copied(self._adjoint)


class _Checksums:
    """Of states that ran for the first time: of all, or evenly spread where they are many."""

    def __init__(self) -> None:
        self._by_step: dict[int, int] = {}
        self._stride = 1

    def remember(self, step: int, rows: tuple[Array, ...]) -> None:
        if step % self._stride or step in self._by_step:
            return
        self._by_step[step] = _checksum(rows)
        if len(self._by_step) > _MOST_CHECKSUMS:
            self._stride *= 2
            spread = {k: value for k, value in self._by_step.items() if not k % self._stride}
            self._by_step = spread

    def differ(self, step: int, rows: tuple[Array, ...]) -> bool:
        return step in self._by_step and self._by_step[step] != _checksum(rows)


def _checked_steps(steps: int | None, *, open_end: bool) -> int:
    """The most steps that there may be."""
    if steps is not None:
        return whole("steps", steps, least=1)
    if open_end:
        return sys.maxsize
    raise InvalidArgument(
        "steps=None is not a whole number of at least 1: write an int, such as steps=1, or "
        "until=a function of (state, k) that says when the loop ends"
    )


def _as_flag(answer: Any) -> bool:
    """What `until` returned, a flag of Python's or of an array with one element."""
    flags = np.asarray(answer)
    if flags.dtype != np.bool_ or flags.size != 1:
        raise InvalidArgument(f"until returned {answer!r}: write it such that it is True or False")
    return bool(flags.item())


@contextmanager
def _noting(place: str) -> Iterator[None]:
    """Add the place to whatever a user's function raises."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"retrograd: in {place}")
        raise


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


def _write(rows: tuple[Array, ...], returned: Any, who: str, like: str, k: int) -> None:
    """Copy what a user's function returned to its rows; nothing is cast or broadcast."""
    arrays = tuple(np.asarray(part) for part in _as_tuple(returned))
    wanted = [(row.shape, row.dtype) for row in rows]
    got = [(array.shape, array.dtype) for array in arrays]
    if got != wanted:
        raise InvalidArgument(
            f"{who} at step {k} returned {_forms(got)}, and {_forms(wanted)} is expected: "
            f"return arrays of the same shapes and dtypes as those of {like}"
        )
    # A function may return (views of) the arrays it was given, and the rows may be those very
    # arrays: without a copy, writing one row could change what is written to the next.
    for row, array in zip(rows, _copied(arrays, arena_of=rows[0]), strict=True):
        row[...] = array


def _forms(forms: list[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in forms)


def _copied(value: Any, *, arena_of: Array | None = None) -> Any:
    """The value with copies of its arrays; with a row given, of those in the row's arena only."""
    if isinstance(value, dict):
        return {key: _copied(part, arena_of=arena_of) for key, part in value.items()}
    if isinstance(value, list):
        return [_copied(part, arena_of=arena_of) for part in value]
    if isinstance(value, tuple):  # a named one keeps its type
        return tuple.__new__(type(value), (_copied(part, arena_of=arena_of) for part in value))
    if not isinstance(value, np.ndarray):
        return value
    if arena_of is None or np.may_share_memory(value, _owner(arena_of)):
        return value.copy()
    return value


def _owner(row: Array) -> Array:
    return row.base if isinstance(row.base, np.ndarray) else row


def _checksum(rows: tuple[Array, ...]) -> int:
    value = 0
    for row in rows:
        value = zlib.crc32(row.reshape(-1).view(np.uint8).data, value)
    return value
