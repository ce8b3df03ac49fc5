"""What the forward writes besides its wavefields, and how a recomputation leaves it alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from devito.types.dense import SubFunction
from numpy.typing import NDArray

from retrograd.adapters.devito.binding import BoundOperator
from retrograd.adapters.devito.findings import Findings

Operator = Any


class RecomputedOutputs:
    """Lets a bound forward write its outputs on the first run of a step only.

    A recomputed step repeats receivers that were written already, and would add to accumulators
    a second time. Loops over receivers alone are switched off; other outputs go to scratch
    memory of the same size, which counts in the budget and is kept in ``scratch`` for the next
    gradient.
    """

    def __init__(
        self,
        bound: BoundOperator,
        operator: Operator,
        findings: Findings,
        scratch: dict[str, NDArray[Any]],
    ) -> None:
        self._bound = bound
        skipped = _own_loops(operator, findings)
        self._loops = {name: bound.value(name) for name in skipped.values()}
        self._scratch = scratch
        self._owners = {
            name: bound.address(name)
            for name in (*findings.outputs, *findings.forward_accumulators)
            if name not in skipped
        }
        self._first = True

    def switch(self, *, first: bool) -> None:
        """Let the next calls write the user's outputs, or none."""
        if first == self._first:
            return
        self._first = first
        for loop, last in self._loops.items():
            self._bound.set(loop, last if first else -1)
        for name, address in self._owners.items():
            if first:
                self._bound.point(name, address)
                continue
            if name not in self._scratch:
                self._scratch[name] = np.zeros_like(self._bound.array(name))
            self._bound.point(name, self._scratch[name].ctypes.data)


def scratch_nbytes(operator: Operator, findings: Findings) -> int:
    """Bytes of the scratch memory that recomputation writes to."""
    skipped = _own_loops(operator, findings)
    functions = {p.name: p for p in operator.parameters}
    return sum(
        int(np.prod(functions[name].shape_allocated)) * np.dtype(functions[name].dtype).itemsize
        for name in (*findings.outputs, *findings.forward_accumulators)
        if name not in skipped
    )


def _own_loops(operator: Operator, findings: Findings) -> dict[str, str]:
    """For outputs with a loop that nothing else uses: the name of that loop's upper bound."""
    functions = {p.name: p for p in operator.parameters if p.is_AbstractFunction}
    names = {p.name for p in operator.parameters}
    loops = {}
    for output in findings.outputs:
        dimension = functions[output]._sparse_dim
        others = (f for f in functions.values() if not isinstance(f, SubFunction))
        sharing = {f.name for f in others if dimension in f.dimensions}
        if sharing == {output} and dimension.max_name in names:
            loops[output] = dimension.max_name
    return loops
