"""Operators from equations: whatever the gradient reads of the forward keeps all its samples.

Users of Devito declare such wavefields with ``save=nt``. With equations they need not: a
wavefield in a buffer is replaced by one of the same name that keeps all samples, in both lists,
and is never allocated. Wavefields that the gradient does not read stay in their buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import devito
from devito.operations.interpolators import Injection, Interpolation
from devito.symbolics import retrieve_functions

from retrograd.errors import InvalidArgument

Equation: TypeAlias = Any
Function = Any


def are_equations(given: Any) -> bool:
    """Whether these are equations and not an operator."""
    return not isinstance(given, devito.Operator)


def operators(
    forward: Iterable[Equation], gradient: Iterable[Equation], nt: int | None
) -> tuple[devito.Operator, devito.Operator]:
    """Operators of these equations.

    Parameters
    ----------
    forward, gradient : ``Eq``, ``Inc``, injections and interpolations, in their order.
    nt : samples of each wavefield; those of the wavefields with ``save=`` and of the sparse
        functions if None.

    Raises
    ------
    InvalidArgument
        for anything else in the lists, or if the number of samples is not known.
    """
    lists = [_checked(forward, "forward"), _checked(gradient, "gradient")]
    written = {f for e in lists[0] for f in _written(e) if f.is_TimeFunction}
    wanted = {f for f in written if f in {g for e in lists[1] for g in _functions(e)}}
    short = {f for f in wanted if not isinstance(f.save, int)}
    known = _samples(lists, nt) if short else 0
    whole = {f: _with_all_samples(f, known) for f in short}
    # Only the default language is C alone, without threads.
    language = "openmp" if devito.configuration["language"] == "C" else None
    made = [
        devito.Operator(
            [_replaced(equation, whole) for equation in equations],
            name=name,
            **({} if language is None else {"language": language}),
        )
        for equations, name in zip(lists, ("Forward", "Gradient"), strict=True)
    ]
    return made[0], made[1]


def _with_all_samples(function: Function, nt: int) -> Function:
    """The same function, but for the memory; it has none yet."""
    dimensions = (function.grid.time_dim, *function.dimensions[1:])
    own = {"dimensions": dimensions, "shape_global": None, "allocator": None, "initializer": None}
    return function._rebuild(function=None, save=nt, **own)


def _checked(given: Iterable[Equation], name: str) -> list[Equation]:
    found = list(given) if isinstance(given, Iterable) else [given]
    flat = [one for part in found for one in (part if isinstance(part, list | tuple) else [part])]
    for one in flat:
        if not isinstance(one, devito.Eq | Injection | Interpolation):
            raise InvalidArgument(
                f"{name}: {type(one).__name__} among the equations: give an Operator, or a list of "
                "Eq, Inc, injections and interpolations"
            )
    if not flat:
        raise InvalidArgument(f"{name}: an empty list of equations")
    return flat


def _written(equation: Equation) -> set[Function]:
    if isinstance(equation, Injection):
        return {f.function for f in devito.tools.as_tuple(equation.field)}
    if isinstance(equation, Interpolation):
        return set()
    return {f.function for f in retrieve_functions(equation.lhs, mode="all")}


def _functions(equation: Equation) -> set[Function]:
    parts: Sequence[Any]
    if isinstance(equation, Injection):
        parts = [*devito.tools.as_tuple(equation.field), *devito.tools.as_tuple(equation.expr)]
    elif isinstance(equation, Interpolation):
        parts = [equation.expr]
    else:
        parts = [equation.lhs, equation.rhs]
    return {f.function for part in parts for f in retrieve_functions(part, mode="all")}


def _samples(lists: Iterable[Iterable[Equation]], nt: int | None) -> int:
    if nt is not None:
        return nt
    sizes = {
        function.shape[function._time_position]
        for equations in lists
        for equation in equations
        for function in _functions(equation) | _sparse(equation)
        if getattr(function, "is_SparseTimeFunction", False)
        or (function.is_TimeFunction and isinstance(function.save, int))
    }
    if not sizes:
        raise InvalidArgument(
            "how many time steps there are follows neither from a source nor from a wavefield with "
            "save=: give nt="
        )
    return int(min(sizes))


def _sparse(equation: Equation) -> set[Function]:
    return {equation.interpolator.sfunction} if hasattr(equation, "interpolator") else set()


def _replaced(equation: Equation, whole: dict[Function, Function]) -> Equation:
    """The equation with other functions in place of some."""
    if isinstance(equation, Injection):
        fields = tuple(_moved(f, whole) for f in devito.tools.as_tuple(equation.field))
        values = tuple(_moved(e, whole) for e in devito.tools.as_tuple(equation.expr))
        return equation._rebuild(field=fields, expr=values)
    if isinstance(equation, Interpolation):
        return equation._rebuild(expr=_moved(equation.expr, whole))
    return _moved(equation, whole)


def _moved(expression: Any, whole: dict[Function, Function]) -> Any:
    """Time indices of the replaced functions count all samples, and not those of a buffer."""
    expression = getattr(expression, "evaluate", expression)
    places = {}
    for found in retrieve_functions(expression, mode="all"):
        new = whole.get(found.function)
        if new is not None:
            steps = {found.function.time_dim: new.time_dim}
            at = (argument.subs(steps) for argument in found.args)
            places[found] = new.subs(dict(zip(new.args, at, strict=True)))
    return expression.subs(places) if places else expression
