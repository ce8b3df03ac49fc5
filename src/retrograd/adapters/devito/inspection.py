"""What a pair of Devito operators computes: state, records, adjoint state, accumulators.

Operators do not keep their equations, so reads, writes and time offsets are taken from the
lowered expressions. A step of the forward is one iteration of its time loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from devito.ir.iet import Conditional, Expression, FindNodes, Iteration, MapNodes
from devito.mpi.routines import MPICallable
from devito.symbolics import retrieve_indexed

from retrograd.errors import NotSupported

Operator = Any
Function = Any


@dataclass(slots=True)
class Access:
    """How an operator touches one function.

    Attributes
    ----------
    reads, writes : time offsets, relative to the iteration, at which it is read and written;
        0 for functions without time. A read by the increment that writes the same value does
        not count.
    elsewhere : whether an expression that writes another function reads it.
    covers : whether some plain write (not an increment) runs over the whole domain at every
        iteration.
    early : offsets that may be read before such a write of the same iteration.
    around : offsets at which other points than the one at hand are read.
    """

    function: Function
    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    elsewhere: bool = False
    covers: bool = False
    early: set[int] = field(default_factory=set)
    around: set[int] = field(default_factory=set)

    @property
    def every(self) -> int:
        """How many iterations there are to one of its samples."""
        if not self.function.is_TimeFunction:
            return 1
        dimension = self.function.time_dim
        return int(dimension.factor) if getattr(dimension, "is_Conditional", False) else 1

    @property
    def is_saved(self) -> bool:
        """Whether it keeps every sample, as ``save=nt`` makes it."""
        return bool(self.function.is_TimeFunction) and not self.function._time_buffering

    @property
    def is_timed(self) -> bool:
        """Whether it has a time dimension."""
        return bool(self.function.is_TimeFunction) or bool(
            getattr(self.function, "is_SparseTimeFunction", False)
        )

    @property
    def samples(self) -> int | None:
        """How many samples it keeps, or None if it is a buffer that is used again and again."""
        if not self.is_timed or (self.function.is_TimeFunction and not self.is_saved):
            return None
        return int(self.function.shape[self.function._time_position]) * self.every

    @property
    def is_sparse(self) -> bool:
        """Whether it holds sources or receivers."""
        return bool(self.function.is_SparseFunction)


def accesses(operator: Operator) -> dict[str, Access]:
    """How an operator touches each function that it is given, by name.

    What MPI ranks exchange is their neighbours' values of the same samples.
    """
    given = {p.name: p for p in operator.parameters if p.is_AbstractFunction}
    found = {name: Access(function) for name, function in given.items()}
    callables = (entry.root for entry in operator._func_table.values())
    for root in (operator, *(c for c in callables if not isinstance(c, MPICallable))):
        guarded = _guarded(root)
        for expression in FindNodes(Expression).visit(root):
            _note(expression, found, in_order=root is operator, guarded=expression in guarded)
    return found


def _guarded(root: Any) -> set[Any]:
    """The expressions that some iterations leave out."""
    found = MapNodes(Conditional, Expression).visit(root)
    return {expression for expressions in found.values() for expression in expressions}


def _note(node: Any, found: Mapping[str, Access], *, in_order: bool, guarded: bool) -> None:
    written = [i for i in retrieve_indexed(node.expr.lhs) if i.function.name in found]
    target = written[0].function.name if written else None
    for indexed in retrieve_indexed(node.expr.rhs):
        access = found.get(indexed.function.name)
        if access is not None:
            offset = _time_offset(indexed)
            access.reads.add(offset)
            access.elsewhere |= target != indexed.function.name
            if not (in_order and access.covers):
                access.early.add(offset)
            if not _is_at_the_point(indexed):
                access.around.add(offset)
    for indexed in written:
        access = found[indexed.function.name]
        access.writes.add(_time_offset(indexed))
        is_whole = not node.is_reduction and _is_whole_domain(indexed)
        access.covers |= is_whole and (not guarded or access.every > 1)


def _time_offset(indexed: Any) -> int:
    """The offset of an access in time, relative to the iteration; 0 if there is only one sample."""
    function = indexed.function
    if not getattr(function, "is_TimeFunction", False) and not getattr(
        function, "is_SparseTimeFunction", False
    ):
        return 0
    if function.is_TimeFunction and function._time_size == 1:
        return 0
    index = indexed.indices[function._time_position]
    if getattr(index, "is_Modulo", False):
        index = index.offset
    if function.is_TimeFunction and getattr(function.time_dim, "is_Conditional", False):
        return _snapshot_offset(indexed, index)
    times = [s for s in index.free_symbols if getattr(s, "is_Time", False)]
    offset = index - times[0].root if len(times) == 1 else index
    if len(times) != 1 or not offset.is_Integer:
        raise NotSupported(
            f"{function.name} is accessed at time index {index}: only whole offsets from the "
            "time loop's own index can be run in segments"
        )
    return int(offset)


def _snapshot_offset(indexed: Any, index: Any) -> int:
    """0 for a sample that is kept every few iterations and belongs to the current ones."""
    function = indexed.function
    dimension = function.time_dim
    expected = dimension.parent, dimension.symbolic_factor
    if function._time_buffering or tuple(getattr(index, "args", ())) != expected:
        raise NotSupported(
            f"{function.name} lies on the conditional dimension {dimension.name} and is accessed "
            f"at {index}: only fields with save= can, and only at their current sample"
        )
    return 0


def _is_at_the_point(indexed: Any) -> bool:
    """Whether the space indices are those of the point at hand."""
    function = indexed.function
    return all(
        is_centre(index, function, dimension)
        for index, dimension in zip(indexed.indices, function.dimensions, strict=True)
        if dimension.is_Space
    )


def is_centre(index: Any, function: Function, dimension: Any) -> bool:
    """Whether an index along an axis is that of the point at hand, which lies behind the halo."""
    return bool((index - function._size_nodomain[dimension].left).is_Symbol)


def _is_whole_domain(indexed: Any) -> bool:
    """Whether the space indices run over the grid's own dimensions, in blocks or not."""
    function = indexed.function
    for index, dimension in zip(indexed.indices, function.dimensions, strict=True):
        if dimension.is_Space and dimension not in map(_unblocked, index.free_symbols):
            return False
    return True


def _unblocked(symbol: Any) -> Any:
    """The dimension that a loop over blocks runs over; other symbols are themselves."""
    while getattr(symbol, "is_Block", False):
        symbol = symbol.parent
    return symbol


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


def inspect(
    forward: Operator, gradient: Operator, names: Mapping[str, str], *, apart: bool = True
) -> Findings:
    """Find state, records and outputs in two operators, or say why they cannot be run.

    Parameters
    ----------
    forward, gradient : operators as users build them, with ``save=nt`` wavefields.
    names : names of wavefields in the gradient operator, mapped to those in the forward.
    apart : keep wavefields that the gradient does not read out of the records.

    Raises
    ------
    NotSupported
        with the reason and what can be done.
    """
    for operator in (forward, gradient):
        _refuse_split_updates(operator)
    ours, theirs = accesses(forward), accesses(gradient)
    _refuse_swapped(ours, theirs)
    foreign = {name: access for name, access in theirs.items() if not _is_adjoint(access)}
    inner = {name: names.get(name, name) for name in foreign}
    read = {inner[name] for name, access in foreign.items() if access.reads}
    saved = tuple(_state(ours))
    written = {name for name, access in ours.items() if access.writes}
    _refuse_unknown_names(names, foreign, written)
    state = tuple(f for f in saved if f.function.name in read or not apart)
    known = {item.function.name for item in state}
    held = (
        *(Unread(f.function, f.written, max(1, f.depth)) for f in saved if f not in state),
        *_buffered(ours),
        *_timeless_state(ours),
    )
    _refuse_unkept(held, read)
    _refuse_late_updates(forward, held)
    records = {
        inner[name]: tuple(sorted(access.reads))
        for name, access in foreign.items()
        if inner[name] in known and access.reads
    }
    gradient_names = {inner[name]: name for name in foreign if inner[name] in records}
    if not records:
        raise NotSupported(
            f"the gradient operator reads none of the forward's wavefields {sorted(known)}: if "
            'they have other names there, pass names={"name there": "name in the forward"}'
        )
    _refuse_buffered(foreign, gradient_names)
    _refuse_other_shapes(ours, foreign, gradient_names)
    return Findings(
        state=state,
        records=records,
        gradient_names=gradient_names,
        outputs=tuple(n for n, a in ours.items() if a.writes and a.is_sparse),
        forward_accumulators=tuple(_timeless_outputs(ours)),
        adjoint=tuple(n for n, a in theirs.items() if a.writes and a.function.is_TimeFunction),
        accumulators=tuple(
            n
            for n, a in theirs.items()
            if a.writes and not a.function.is_TimeFunction and not a.is_sparse
        ),
        reverse_outputs=tuple(n for n, a in theirs.items() if a.writes and a.is_sparse),
        covered=all(ours[item.function.name].covers for item in saved),
        held=held,
        every=_common_rate([ours[name] for name in known]),
    )


def _common_rate(accesses: list[Access]) -> int:
    rates = {access.every for access in accesses}
    if len(rates) == 1:
        return rates.pop()
    names = sorted(access.function.name for access in accesses)
    raise NotSupported(
        f"the gradient reads wavefields {names} that are kept every {sorted(rates)} iterations: "
        "keep all that it reads at one rate, on one ConditionalDimension"
    )


def _state(found: Mapping[str, Access]) -> Iterator[StateField]:
    for name, access in found.items():
        if not access.writes or not access.is_saved:
            continue
        if len(access.writes) != 1:
            raise NotSupported(
                f"the forward writes {name!r} at the time offsets {sorted(access.writes)}: a "
                "step must write one new sample of each wavefield"
            )
        (written,) = access.writes
        if max(access.reads, default=written) > written:
            raise NotSupported(f"the forward reads {name!r} at a later sample than it writes")
        yield StateField(access.function, written, written - min(access.reads | {written}))


def _buffered(found: Mapping[str, Access]) -> Iterator[Buffered]:
    for access in found.values():
        function = access.function
        if access.writes and function.is_TimeFunction and not access.is_saved:
            yield Buffered(function, tuple(needed_samples(access, int(function._time_size))))


def needed_samples(access: Access, count: int) -> Iterator[int]:
    """The offsets of the samples, of ``count`` that are used in turn, that a restart must have.

    Before iteration t, sample ``x`` is next written by iteration t + i with x = written + i
    modulo ``count``. It is needed if an iteration up to that one reads it. Offsets are known
    modulo ``count`` only, which is all that this needs.
    """
    (written, *others) = sorted(access.writes)
    for until in range(count):
        sample = written + until - count
        delays = {offset: (sample - offset) % count for offset in access.reads}
        if (
            others
            or not access.covers
            or any(
                delay < until or (delay == until and offset in access.early)
                for offset, delay in delays.items()
            )
        ):
            yield sample


def _timeless_state(found: Mapping[str, Access]) -> Iterator[HeldField]:
    for access in found.values():
        if _is_timeless(access) and access.elsewhere:
            yield HeldField(access.function)


def _is_timeless(access: Access) -> bool:
    """Whether it is written and has no time, and is neither source nor receiver."""
    return bool(access.writes) and not access.function.is_TimeFunction and not access.is_sparse


def _timeless_outputs(found: Mapping[str, Access]) -> Iterator[str]:
    for name, access in found.items():
        if _is_timeless(access) and not access.elsewhere:
            yield name


def _is_adjoint(access: Access) -> bool:
    """Whether it is the gradient operator's own, also if the forward has one of its name."""
    return bool(access.writes) and bool(access.function.is_TimeFunction) and not access.is_saved


def _refuse_buffered(theirs: Mapping[str, Access], names: Mapping[str, str]) -> None:
    for name in names.values():
        if not theirs[name].is_saved:
            raise NotSupported(
                f"the gradient operator has only the latest samples of {name!r}: build it with "
                "save=nt, as the forward; it will not be allocated"
            )


def _refuse_other_shapes(
    ours: Mapping[str, Access], theirs: Mapping[str, Access], names: Mapping[str, str]
) -> None:
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


def _refuse_unkept(held: tuple[HeldField, ...], read: set[str]) -> None:
    for item in held:
        if item.function.name in read:
            raise NotSupported(
                f"the gradient reads {item.function.name!r}, of which the forward keeps only the "
                "latest samples: build both operators with save=nt for it; it will not be "
                "allocated"
            )


def _refuse_late_updates(forward: Operator, held: tuple[HeldField, ...]) -> None:
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


def _refuse_split_updates(operator: Operator) -> None:
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


def _refuse_unknown_names(
    names: Mapping[str, str], theirs: Mapping[str, Access], known: set[str]
) -> None:
    for inner, outer in names.items():
        if inner not in theirs or outer not in known:
            raise NotSupported(
                f"names={{{inner!r}: {outer!r}}}: the gradient operator has the functions "
                f"{sorted(theirs)} and the forward the wavefields {sorted(known)}"
            )


def _refuse_swapped(ours: Mapping[str, Access], theirs: Mapping[str, Access]) -> None:
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
