"""How an operator touches its functions: reads, writes and time offsets, from its loops.

Operators do not keep their equations, so all is taken from the lowered expressions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from devito.ir.iet import Conditional, Expression, FindNodes, MapNodes
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
