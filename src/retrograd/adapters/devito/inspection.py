"""What a pair of Devito operators computes: state, records, adjoint state, accumulators.

Operators do not keep their equations, so reads, writes and time offsets are taken from the
lowered expressions. A step of the forward is one iteration of its time loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from devito.ir.iet import Expression, FindNodes
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
    covers : whether some plain write (not an increment) runs over the whole domain.
    """

    function: Function
    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    elsewhere: bool = False
    covers: bool = False

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
        return int(self.function.shape[self.function._time_position])

    @property
    def is_sparse(self) -> bool:
        """Whether it holds sources or receivers."""
        return bool(self.function.is_SparseFunction)


def accesses(operator: Operator) -> dict[str, Access]:
    """How an operator touches each function that it is given, by name."""
    given = {p.name: p for p in operator.parameters if p.is_AbstractFunction}
    found = {name: Access(function) for name, function in given.items()}
    for expression in _expressions(operator):
        _note(expression, found)
    return found


def _expressions(operator: Operator) -> Iterator[Any]:
    yield from FindNodes(Expression).visit(operator)
    for entry in operator._func_table.values():
        yield from FindNodes(Expression).visit(entry.root)


def _note(node: Any, found: Mapping[str, Access]) -> None:
    written = [i for i in retrieve_indexed(node.expr.lhs) if i.function.name in found]
    target = written[0].function.name if written else None
    for indexed in retrieve_indexed(node.expr.rhs):
        access = found.get(indexed.function.name)
        if access is not None:
            access.reads.add(_time_offset(indexed))
            access.elsewhere |= target != indexed.function.name
    for indexed in written:
        access = found[indexed.function.name]
        access.writes.add(_time_offset(indexed))
        access.covers |= not node.is_reduction and _is_whole_domain(indexed)


def _time_offset(indexed: Any) -> int:
    """The offset of an access in time, relative to the iteration; 0 if it has no time."""
    function = indexed.function
    if not getattr(function, "is_TimeFunction", False) and not getattr(
        function, "is_SparseTimeFunction", False
    ):
        return 0
    index = indexed.indices[function._time_position]
    if getattr(index, "is_Modulo", False):
        index = index.offset
    times = [s for s in index.free_symbols if getattr(s, "is_Time", False)]
    offset = index - times[0].root if len(times) == 1 else index
    if len(times) != 1 or not offset.is_Integer:
        raise NotSupported(
            f"{function.name} is accessed at time index {index}: only whole offsets from the "
            "time loop's own index can be run in segments"
        )
    return int(offset)


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


def inspect(forward: Operator, gradient: Operator, names: Mapping[str, str]) -> Findings:
    """Find state, records and outputs in two operators, or say why they cannot be run.

    Parameters
    ----------
    forward, gradient : operators as users build them, with ``save=nt`` wavefields.
    names : names of wavefields in the gradient operator, mapped to those in the forward.

    Raises
    ------
    NotSupported
        with the reason and what can be done.
    """
    ours, theirs = accesses(forward), accesses(gradient)
    _refuse_swapped(ours, theirs)
    state = tuple(_state(ours))
    known = {item.function.name for item in state}
    _refuse_unknown_names(names, theirs, known)
    inner = {name: names.get(name, name) for name in theirs}
    records = {
        inner[name]: tuple(sorted(access.reads))
        for name, access in theirs.items()
        if inner[name] in known and access.reads
    }
    if not records:
        raise NotSupported(
            f"the gradient operator reads none of the forward's wavefields {sorted(known)}: if "
            'they have other names there, pass names={"name there": "name in the forward"}'
        )
    return Findings(
        state=state,
        records=records,
        gradient_names={inner[name]: name for name in theirs if inner[name] in records},
        outputs=tuple(n for n, a in ours.items() if a.writes and a.is_sparse),
        forward_accumulators=tuple(_timeless_outputs(ours, known)),
        adjoint=tuple(n for n, a in theirs.items() if a.writes and a.function.is_TimeFunction),
        accumulators=tuple(
            n
            for n, a in theirs.items()
            if a.writes and not a.function.is_TimeFunction and not a.is_sparse
        ),
        reverse_outputs=tuple(n for n, a in theirs.items() if a.writes and a.is_sparse),
        covered=all(ours[name].covers for name in known),
    )


def _state(found: Mapping[str, Access]) -> Iterator[StateField]:
    for name, access in found.items():
        if not access.writes or not access.function.is_TimeFunction:
            continue
        if not access.is_saved:
            raise NotSupported(
                f"the forward writes {name!r}, which keeps only {access.function._time_size} "
                "samples: build both operators with save=nt for every time function that the "
                "forward writes; it will not be allocated"
            )
        if len(access.writes) != 1:
            raise NotSupported(
                f"the forward writes {name!r} at the time offsets {sorted(access.writes)}: a "
                "step must write one new sample of each wavefield"
            )
        (written,) = access.writes
        if max(access.reads, default=written) > written:
            raise NotSupported(f"the forward reads {name!r} at a later sample than it writes")
        yield StateField(access.function, written, max(1, written - min(access.reads | {written})))


def _timeless_outputs(found: Mapping[str, Access], known: set[str]) -> Iterator[str]:
    for name, access in found.items():
        if not access.writes or name in known or access.is_sparse:
            continue
        if access.elsewhere:
            raise NotSupported(
                f"the forward both writes and reads {name!r}, which has no time dimension: make "
                "it a TimeFunction with save=nt, so that it can be restored"
            )
        yield name


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
