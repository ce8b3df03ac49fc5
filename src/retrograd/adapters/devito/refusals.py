"""What cannot be run rightly, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from devito.ir.iet import Expression, FindNodes, Iteration
from devito.symbolics import retrieve_indexed

from retrograd.adapters.devito.accesses import Access
from retrograd.adapters.devito.findings import Buffered, Findings, HeldField
from retrograd.errors import InvalidArgument, NotSupported

if TYPE_CHECKING:
    from retrograd.adapters.devito.binding import BoundOperator

Operator = Any
Function = Any


def refuse_buffered(theirs: Mapping[str, Access], names: Mapping[str, str]) -> None:
    """Refuse a gradient operator that was built without all samples."""
    for name in names.values():
        if not theirs[name].is_saved:
            raise NotSupported(
                f"the gradient operator has only the latest samples of {name!r}: build it with "
                "save=nt, as the forward; it will not be allocated"
            )


def refuse_other_shapes(
    ours: Mapping[str, Access], theirs: Mapping[str, Access], names: Mapping[str, str]
) -> None:
    """Refuse wavefields that cannot lie in the same memory in both operators."""
    for outer, inner in names.items():
        mine, other = ours[outer].function, theirs[inner].function
        if _memory_of(mine) != _memory_of(other):
            raise NotSupported(
                f"a sample of {outer!r} is {_described(mine)} in the forward, and "
                f"{_described(other)} in the gradient operator: declare both on one grid, with "
                "one space_order"
            )


def _memory_of(function: Function) -> tuple[Any, ...]:
    """What must agree for two functions to share memory."""
    axes = zip(function.halo, function.padding, strict=True)
    return tuple(function.shape_allocated)[1:], np.dtype(function.dtype), tuple(axes)[1:]


def _described(function: Function) -> str:
    points = " x ".join(str(size) for size in function.shape[1:])
    return f"{points} points of {np.dtype(function.dtype)} with halo {tuple(function.halo[1:])}"


def refuse_unkept(held: tuple[HeldField, ...], read: set[str]) -> None:
    """Refuse to record what the forward keeps in a buffer."""
    for item in held:
        if item.function.name in read:
            raise NotSupported(
                f"the gradient reads {item.function.name!r}, of which the forward keeps only the "
                "latest samples: build both operators with save=nt for it; it will not be "
                "allocated"
            )


def refuse_late_updates(forward: Operator, held: tuple[HeldField, ...]) -> None:
    """Devito may run one equation over all iterations before it begins with the next one."""
    loops = _time_loops(forward)
    timeless = [f.function.name for f in held if not f.function.is_TimeFunction]
    if timeless and len(loops) > 1:
        raise NotSupported(
            f"{forward.name} has {len(loops)} time loops one after the other, so that "
            f"{timeless[0]!r}, which it both reads and writes, is not updated from step to step: "
            "make it a TimeFunction, which can be restored"
        )


def _time_loops(operator: Operator) -> list[Any]:
    return [loop for loop in FindNodes(Iteration).visit(operator) if loop.dim.is_Time]


def refuse_split_updates(operator: Operator) -> None:
    """Refuse time loops that Devito 4.8 has split between a sample's update and a later change."""
    seen: set[str] = set()
    for loop in _time_loops(operator):
        touched, written = set(), set()
        for node in FindNodes(Expression).visit(loop):
            written |= {i.function.name for i in retrieve_indexed(node.expr.lhs) if _steps(i)}
            touched |= {i.function.name for i in retrieve_indexed(node.expr) if _steps(i)}
        if late := written & seen:
            name = min(late)
            raise NotSupported(
                f"{operator.name}: Devito runs several time loops one after the other, and changes "
                f"{name!r} in a later one than that which steps it, so that apply gives wrong "
                f"numbers as well: put what is added to {name!r} directly after its update, before "
                "other equations"
            )
        seen |= touched


def _steps(indexed: Any) -> bool:
    return bool(getattr(indexed.function, "is_TimeFunction", False))


def refuse_unknown_names(
    names: Mapping[str, str], theirs: Mapping[str, Access], known: set[str]
) -> None:
    """Refuse ``names`` that nobody has."""
    for inner, outer in names.items():
        if inner not in theirs or outer not in known:
            raise NotSupported(
                f"names={{{inner!r}: {outer!r}}}: the gradient operator has the functions "
                f"{sorted(theirs)} and the forward the wavefields {sorted(known)}"
            )


def refuse_swapped(ours: Mapping[str, Access], theirs: Mapping[str, Access]) -> None:
    """The forward writes wavefields that keep every sample, and the gradient only reads them."""
    for name, access in theirs.items():
        if access.writes and access.is_saved and name in ours:
            raise NotSupported(
                f"the gradient operator writes the wavefield {name!r}: are the forward and the "
                "gradient operator swapped? The first one writes the wavefield with save=nt, "
                "the second one reads it"
            )
    if not any(access.writes and access.function.is_TimeFunction for access in ours.values()):
        raise NotSupported(
            "the forward operator writes no time function: build its wavefield with save=nt"
        )


def refuse_other_dt(forward: BoundOperator, gradient: BoundOperator) -> None:
    """Refuse a time step that differs between the sweeps."""
    ours, theirs = forward.value("dt"), gradient.value("dt")
    if ours is not None and theirs is not None and ours != theirs:
        raise InvalidArgument(
            f"the forward ran with dt={ours} and the reverse sweep is asked to run with "
            f"dt={theirs}: pass the same dt to both"
        )


def refuse_other_rates(bound: BoundOperator, windows: Mapping[str, Any], last: int) -> None:
    """Refuse another factor of a ConditionalDimension, and iterations without a sample."""
    for function in windows.values():
        dimension = function.time_dim
        if not getattr(dimension, "is_Conditional", False):
            continue
        name, factor = dimension.symbolic_factor.name, int(dimension.factor)
        if bound.value(name) not in (None, factor):
            raise InvalidArgument(
                f"{name}={bound.value(name)}: {function.name} was built with factor {factor}; "
                "build the ConditionalDimension with the one you want"
            )
        if last // factor >= function.shape[0]:
            raise InvalidArgument(
                f"iteration {last} is to keep sample {last // factor} of {function.name}, which "
                f"has {function.shape[0]}: give save={last // factor + 1} or more, or "
                f"time_M={function.shape[0] * factor - 1}"
            )


def refuse_to_omit(names: frozenset[str], findings: Findings) -> None:
    """Refuse to leave out what the gradient reads, or what is not there."""
    if names:
        held = sorted(found.function.name for found in findings.held)
        raise InvalidArgument(
            f"omit={sorted(names)}: only functions that the gradient does not read can be left out "
            f"of restarts, which are {held or 'none'} here"
        )


def refuse_uncovered(zero_rows: bool, findings: Findings) -> None:
    """Refuse buffers of which some points would keep what they held before."""
    for found in findings.held:
        count = int(getattr(found.function, "_time_size", 0) or 0)
        if zero_rows and isinstance(found, Buffered) and len(found.offsets) < count:
            raise NotSupported(
                f"some points of {found.function.name!r} are written by injection or not at every "
                "iteration, and its buffer would go on from what it held before: build it with "
                "save=nt; it will not be allocated"
            )
