"""For tests of your own schedules and problems: checks that raise `AssertionError`, and strategies.

The strategies need Hypothesis; everything else needs NumPy alone.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from retrograd.actions import Action, Tier
from retrograd.errors import BudgetTooSmall, MissingExtra
from retrograd.layout import StateRows
from retrograd.problem import Problem
from retrograd.run import gradient
from retrograd.verify import Counts, verify

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Array = NDArray[Any]
Vector = Any
"""An array, a number, or a tuple, list or dict of these."""

__all__ = [
    "check_problem",
    "check_schedule",
    "dot_test",
    "memories",
    "sizes",
    "taylor_test",
]


def check_schedule(
    schedule: Iterable[Action],
    *,
    steps: int,
    restart_nbytes: int | Sequence[int] = 1,
    record_nbytes: int | Sequence[int] = 1,
    budgets: Mapping[Tier, int] | None = None,
    record_in_state: bool = False,
    free_start: bool = False,
    state_rows: StateRows | None = None,
) -> Counts:
    """Check that a schedule is legal, and a value that says of itself what is true.

    Parameters
    ----------
    schedule : what to check. If it is a dataclass, it must survive pickling; if it has
        `forward_steps`, these must be the ones that are counted.
    steps, restart_nbytes, record_nbytes, budgets, record_in_state, free_start, state_rows : as
        for `retrograd.verify`.

    Returns
    -------
    Counts
        what it does and takes.

    Raises
    ------
    AssertionError
        naming what is not as it should be.
    IllegalAction
        naming the action that breaks a rule.

    Examples
    --------
    >>> from retrograd.schedules import Revolve
    >>> check_schedule(Revolve(10, 3), steps=10, budgets={"memory": 3}).forward_steps
    25
    """
    first, second = list(schedule), list(schedule)
    _require(
        first == second,
        f"{schedule!r} gives {len(first)} actions the first time it is iterated over and others, "
        f"{len(second)}, the second time: make it a value, not an iterator",
    )
    counts = verify(
        first,
        steps=steps,
        restart_nbytes=restart_nbytes,
        record_nbytes=record_nbytes,
        budgets=budgets,
        record_in_state=record_in_state,
        free_start=free_start,
        state_rows=state_rows,
    )
    claimed = getattr(schedule, "forward_steps", counts.forward_steps)
    _require(
        claimed == counts.forward_steps,
        f"{schedule!r} claims {claimed} forward steps and runs {counts.forward_steps}",
    )
    if is_dataclass(schedule):
        again = pickle.loads(pickle.dumps(schedule))
        _require(
            again == schedule,
            f"{schedule!r} is not what it was after pickling",
        )
        _require(
            hash(again) == hash(schedule),
            f"{schedule!r} and an equal one differ in hash",
        )
        _require(
            list(again) == first,
            f"{schedule!r} gives other actions after pickling",
        )
    return counts


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def check_problem(
    problem: Problem,
    *,
    memory: Sequence[int | str] = ("1/2", "1/4", "1/8"),
    schedules: Sequence[str] = ("auto", "levels", "mixed", "revolve"),
) -> int:
    """Check that a problem's gradient has the same bits however it is checkpointed.

    Parameters
    ----------
    problem : as for `retrograd.gradient`.
    memory : budgets to try; those that hold no schedule are left out.
    schedules : names to try; those that are of no use to the problem are left out.

    Returns
    -------
    int
        how many combinations were compared, at least 1.

    Raises
    ------
    AssertionError
        naming schedule and budget, or that keeping everything does not reproduce itself.

    Examples
    --------
    >>> import retrograd
    >>> problem = retrograd.arrays.Problem(
    ...     lambda u, k: u * 1.01, lambda a, u, k: a * 1.01, np.ones(3), 20, terminal=lambda u: u)
    >>> check_problem(problem)
    12
    """
    everything = 2 * problem.keep_all_nbytes + problem.layout.live_nbytes + problem.scratch_nbytes
    expected = gradient(problem, memory=everything, schedule="keep-all").gradient
    again = gradient(problem, memory=everything, schedule="keep-all").gradient
    difference = _difference(expected, again)
    _require(
        difference is None,
        f"keeping everything gives another gradient the second time ({difference}): the problem "
        "does not reproduce itself, and no schedule can",
    )
    compared = 0
    for budget in memory:
        for name in schedules:
            if name == "levels" and problem.layout.state_rows is None:
                continue
            try:
                found = gradient(problem, memory=budget, schedule=name).gradient
            except BudgetTooSmall:
                continue
            difference = _difference(expected, found)
            _require(
                difference is None,
                f"schedule {name!r} in memory={budget!r} gives another gradient than keeping "
                f"everything: {difference}",
            )
            compared += 1
    _require(
        compared > 0,
        f"none of the budgets {list(memory)} holds any of {list(schedules)}",
    )
    return compared


def _difference(one: Any, other: Any, name: str = "gradient") -> str | None:
    """The first place where two gradients differ, bit for bit, or None."""
    if isinstance(one, dict | list | tuple):
        if type(one) is not type(other) or len(one) != len(other):
            return f"{name} is of another form"
        keys = list(one) if isinstance(one, dict) else range(len(one))
        found = (_difference(one[key], other[key], f"{name}[{key!r}]") for key in keys)
        return next((place for place in found if place is not None), None)
    a, b = np.asarray(one), np.asarray(other)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"{name} is {b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}"
    if a.tobytes() == b.tobytes():
        return None
    return f"{name} differs in {int(np.sum(a != b))} numbers"


def dot_test(
    forward: Callable[[Vector], Vector],
    adjoint: Callable[[Vector], Vector],
    x: Vector,
    y: Vector,
    *,
    rtol: float = 1e-10,
) -> float:
    """Check that a linear function and its adjoint belong together: ⟨F x, y⟩ = ⟨x, F* y⟩.

    Parameters
    ----------
    forward, adjoint : F and F*.
    x, y : what to apply them to; random ones find most mistakes. Sums are made in double
        precision, and the first factor is conjugated.
    rtol : the largest |⟨F x, y⟩ − ⟨x, F* y⟩| that is right, over |F x|·|y| and |x|·|F* y|, the
        larger of them. For single precision give 1e-5, say.

    Returns
    -------
    float
        the relative difference.

    Raises
    ------
    AssertionError
        if it is larger than `rtol`.

    Examples
    --------
    >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> dot_test(lambda x: a @ x, lambda y: a.T @ y, np.ones(2), np.arange(2.0)) < 1e-15
    True
    """
    fx, fy = forward(x), adjoint(y)
    left, right = _dot(fx, y), _dot(x, fy)
    scale = max(_norm(fx) * _norm(y), _norm(x) * _norm(fy))
    error = abs(left - right) / scale if scale else abs(left - right)
    _require(
        error <= rtol,
        f"<F x, y> = {left:.15g} and <x, F* y> = {right:.15g} differ by {error:.3g}, and "
        f"{rtol:.3g} is allowed: the adjoint does not belong to the forward",
    )
    return float(error)


def taylor_test(
    value: Callable[[Vector], float],
    derivative: Vector,
    point: Vector,
    direction: Vector,
    *,
    steps: Sequence[float] = (1e-1, 5e-2, 2.5e-2, 1.25e-2),
    order: float = 1.9,
) -> list[float]:
    """Check a gradient by Taylor's theorem: J(m + h d) − J(m) − h ⟨g, d⟩ falls with h².

    Parameters
    ----------
    value : J, a function of what `point` is.
    derivative : g, its gradient at `point`.
    point, direction : m and d; the steps h are relative to d.
    steps : falling values of h, at least two.
    order : the least order at which the remainder may fall from one step to the next.

    Returns
    -------
    list of float
        the orders, 2 where all is right. A remainder that is nothing but rounding, as that of a
        linear function, counts as 2.

    Raises
    ------
    AssertionError
        if an order is smaller; names the remainders.

    References
    ----------
    Farrell, Ham, Funke & Rognes 2013, doi 10.1137/120873558.

    Examples
    --------
    >>> m = np.array([1.0, 2.0])
    >>> orders = taylor_test(lambda m: float(m @ m), 2 * m, m, np.ones(2))
    >>> [round(order, 6) for order in orders]
    [2.0, 2.0, 2.0]
    """
    at_point, slope = float(value(point)), _dot(derivative, direction).real
    remainders, floor = [], 0.0
    for step in steps:
        moved = float(value(_moved(point, direction, step)))
        remainders.append(abs(moved - at_point - step * slope))
        largest = max(abs(moved), abs(at_point), abs(step * slope))
        floor = max(floor, _ROUNDING * np.finfo(float).eps * largest)
    orders = [
        2.0 if after <= floor else float(np.log(before / after) / np.log(large / small))
        for before, after, large, small in zip(
            remainders, remainders[1:], steps, steps[1:], strict=False
        )
    ]
    _require(
        bool(orders) and min(orders) >= order,
        f"the remainders {[f'{r:.3g}' for r in remainders]} at steps {list(steps)} fall with order "
        f"{min(orders, default=0.0):.3g}, and {order} is wanted: the gradient is wrong, or the "
        "steps are too long or too short",
    )
    return orders


_ROUNDING: Final = 100.0


def _parts(vector: Vector) -> list[Array]:
    if isinstance(vector, dict):
        return [part for key in sorted(vector) for part in _parts(vector[key])]
    if isinstance(vector, tuple | list):
        return [part for item in vector for part in _parts(item)]
    array = np.asarray(vector)
    return [array.astype(complex if array.dtype.kind == "c" else float)]


def _dot(one: Vector, other: Vector) -> complex:
    return complex(sum(np.vdot(a, b) for a, b in zip(_parts(one), _parts(other), strict=True)))


def _norm(vector: Vector) -> float:
    return float(abs(_dot(vector, vector)) ** 0.5)


def _moved(point: Vector, direction: Vector, step: float) -> Vector:
    if isinstance(point, dict):
        return {key: _moved(point[key], direction[key], step) for key in point}
    if isinstance(point, tuple | list):
        return type(point)(_moved(p, d, step) for p, d in zip(point, direction, strict=True))
    return point + step * direction


def sizes(*, most_steps: int = 60, most_units: int = 8) -> SearchStrategy[tuple[int, int, int]]:
    """A Hypothesis strategy for (steps, restart units, record units).

    Raises
    ------
    MissingExtra
        where Hypothesis is not installed.
    """
    st = _strategies()
    unit = st.integers(1, most_units)
    found: SearchStrategy[tuple[int, int, int]] = st.tuples(st.integers(1, most_steps), unit, unit)
    return found


def memories(steps: int, restart_units: int, record_units: int) -> SearchStrategy[int]:
    """A Hypothesis strategy for memory in units: from one restart to more than all records.

    Raises
    ------
    MissingExtra
        where Hypothesis is not installed.
    """
    most = restart_units + steps * record_units
    found: SearchStrategy[int] = _strategies().integers(restart_units, most)
    return found


def _strategies() -> Any:
    try:
        from hypothesis import strategies
    except ImportError as error:
        raise MissingExtra("strategies need Hypothesis: pip install hypothesis") from error
    return strategies
