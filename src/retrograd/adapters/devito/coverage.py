"""Whether each step writes all of its row, or rows must be zeroed before they are used again.

Devito's own wavefields start as zeros, so a point that only injection adds to starts from zero
at every sample. A row of the arena holds an earlier sample; where the update does not overwrite
it, injection would add to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from retrograd.adapters.devito.binding import BoundOperator
from retrograd.adapters.devito.findings import Findings

Operator = Any


def rows_need_zeroing(
    operator: Operator, bound: BoundOperator, arguments: Mapping[str, Any], findings: Findings
) -> bool:
    """Whether some point of a row may be read or added to that the update has not written."""
    return (
        not findings.covered
        or not _is_whole_domain_asked_for(bound, findings)
        or any(
            _reaches_outside(arguments.get(p.name, p))
            for p in operator.parameters
            if p.is_AbstractFunction and p.is_SparseFunction and p.name not in findings.outputs
        )
    )


def _is_whole_domain_asked_for(bound: BoundOperator, findings: Findings) -> bool:
    """Whether the space loops run over every point, as they do unless the user limits them."""
    for function in findings.own_functions.values():
        for dimension, size in zip(function.dimensions, function.shape, strict=True):
            limits = bound.value(dimension.min_name), bound.value(dimension.max_name)
            if dimension.is_Space and limits not in ((0, size - 1), (None, None)):
                return False
    return True


def _reaches_outside(points: Any) -> bool:
    """Whether the points around any position, to which it injects, lie outside the domain."""
    coordinates = getattr(points, "coordinates", None)
    if coordinates is None:
        return True  # an array, or positions given as grid points: nothing is known about them
    grid = points.grid
    cells = np.floor((np.array(coordinates.data) - grid.origin) / grid.spacing)
    radius = int(points.r)
    inside = (cells - radius + 1 >= 0) & (cells + radius <= np.array(grid.shape) - 1)
    return not bool(inside.all())
