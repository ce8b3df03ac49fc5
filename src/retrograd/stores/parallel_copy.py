"""Copies rows within one buffer, with more than one thread where that pays."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

_THREADED_NBYTES: Final = 1 << 20
"""Below this handing work to a thread costs more than it saves."""


def copy_rows(
    region: NDArray[np.uint8], source: int, target: int, count: int, row_nbytes: int
) -> None:
    """Copy ``count`` rows of ``region`` down from row ``source`` to row ``target < source``.

    Rows are copied in ascending order, so the two ranges may overlap.
    """
    for row in range(count):
        lower = region[(target + row) * row_nbytes :][:row_nbytes]
        upper = region[(source + row) * row_nbytes :][:row_nbytes]
        copy(lower, upper)


def copy(target: NDArray[np.uint8], source: NDArray[np.uint8]) -> None:
    """Copy bytes between two ranges that do not overlap."""
    if target.nbytes < _THREADED_NBYTES:
        target[:] = source
        return
    half = target.nbytes // 2
    other = _pool().submit(np.copyto, target[half:], source[half:])
    target[:half] = source[:half]
    other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(1, thread_name_prefix="retrograd-copy")
    os.register_at_fork(after_in_child=_pool.cache_clear)
    return pool
