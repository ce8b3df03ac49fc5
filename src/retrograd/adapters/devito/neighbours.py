"""The halos of samples that the gradient reads, where the domain is split over MPI ranks.

Devito exchanges the halo of a sample in the iteration of the forward that reads its neighbouring
points, and the gradient operator counts on it. The latest sample of a record has not come that
far when it is recorded anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from devito.ir.iet import Expression, FindNodes
from devito.mpi.routines import HaloUpdateCall
from devito.symbolics import retrieve_indexed
from numpy.typing import NDArray

from retrograd.adapters.devito.accesses import Access, is_centre
from retrograd.errors import NotSupported

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class LateHalo:
    """A wavefield whose samples' halos are exchanged one iteration after they are made.

    Attributes
    ----------
    function : the wavefield in the forward.
    offset : of the latest sample whose neighbouring points the gradient reads in an iteration.
    """

    function: Any
    offset: int

    def exchange(self, sample: Array) -> None:
        """Fill the parts of a sample's halo that other ranks own. All ranks must take part."""
        comm = self.function.grid.distributor.comm
        for axis, left, right in self._sides():
            for to, source, owned, halo in (
                (left, right, *self._parts(axis, upwards=False)),
                (right, left, *self._parts(axis, upwards=True)),
            ):
                received = np.empty_like(sample[halo])
                comm.Sendrecv(np.ascontiguousarray(sample[owned]), to, 0, received, source, 0)
                if source >= 0:
                    sample[halo] = received

    def clear(self, sample: Array) -> None:
        """Zero the parts of a sample's halo that other ranks own."""
        for axis, left, right in self._sides():
            for source, upwards in ((right, False), (left, True)):
                if source >= 0:
                    sample[self._parts(axis, upwards=upwards)[1]] = 0

    def _sides(self) -> Iterator[tuple[int, int, int]]:
        """Each axis of a sample that is split, and the ranks on its two sides, or negative."""
        distributor = self.function.grid.distributor
        for axis, dimension in enumerate(self.function.dimensions[1:]):
            if dimension in distributor.dimensions:
                left, right = distributor.neighborhood[dimension].values()
                yield axis, int(left), int(right)

    def _parts(self, axis: int, *, upwards: bool) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """What a rank sends up or down an axis, and the halo that what it receives goes to."""
        halo, padding = self.function.halo[axis + 1], self.function.padding[axis + 1]
        begin = halo[0] + padding[0]
        end = begin + self.function.shape[axis + 1]
        if upwards:
            parts = slice(end - halo[0], end), slice(begin - halo[0], begin)
        else:
            parts = slice(begin, begin + halo[1]), slice(end, end + halo[1])
        before = (slice(None),) * axis
        return (*before, parts[0]), (*before, parts[1])


def late_halo(ours: Access, theirs: Access) -> LateHalo | None:
    """What has to be made up for a wavefield, by how the forward and the gradient access it.

    Raises
    ------
    NotSupported
        if the gradient looks further ahead than the sample that the forward has just made.
    """
    if not ours.around or not theirs.around or max(theirs.around) <= max(ours.around):
        return None
    if max(theirs.around) > max(ours.around) + 1:
        raise NotSupported(
            f"the gradient reads neighbouring points of {ours.function.name!r} at time offset "
            f"{max(theirs.around)}, and the forward at {max(ours.around)} at the latest: with more "
            "than one MPI rank it must not be more than one sample later"
        )
    return LateHalo(ours.function, max(theirs.around))


def refuse_early_exchanges(operator: Any) -> None:
    """Refuse operators in which ranks exchange the halo of a sample before it is made.

    Devito 4.8 does this where it puts two updates into one loop, of which one reads the other's
    new sample along another axis. Its own ``apply`` then reads what was there before.
    """
    exchanged: set[tuple[str, Any]] = set()
    early: set[tuple[str, Any]] = set()
    for node in FindNodes((HaloUpdateCall, Expression)).visit(operator):
        if isinstance(node, HaloUpdateCall):
            exchanged |= {(node.functions[0].name, argument) for argument in node.arguments}
            continue
        early |= exchanged & {_sample(i) for i in retrieve_indexed(node.expr.lhs)}
        for indexed in retrieve_indexed(node.expr.rhs):
            axis = _split_axis_read_across(indexed) if _sample(indexed) in early else None
            if axis is not None:
                raise NotSupported(
                    f"{operator.name} exchanges the halo of {indexed.function.name!r} between MPI "
                    "ranks before it computes it, which gives wrong numbers beside other ranks, "
                    "with apply as well: give the grid a topology= that does not split "
                    f"{axis}"
                )


def _sample(indexed: Any) -> tuple[str, Any] | None:
    function = indexed.function
    if not getattr(function, "is_TimeFunction", False):
        return None
    return function.name, indexed.indices[function._time_position]


def _split_axis_read_across(indexed: Any) -> Any:
    """A split axis along which it is not the point at hand that is read, or None."""
    function = indexed.function
    distributor = function.grid.distributor
    split = dict(zip(distributor.dimensions, distributor.topology, strict=True))
    for index, dimension in zip(indexed.indices, function.dimensions, strict=True):
        if split.get(dimension, 1) > 1 and not is_centre(index, function, dimension):
            return dimension
    return None
