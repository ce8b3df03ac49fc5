"""Copies rows within one buffer, with more than one thread where that pays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

_THREADED_NBYTES: Final = 32 << 20
"""Below this a second thread saves nothing: after a compiled call OpenMP's own threads spin for
a while on the other cores, in wait for the next one."""


def copy_rows(
    region: NDArray[np.uint8], source: int, target: int, count: int, row_nbytes: int
) -> None:
    """Copy ``count`` rows of ``region`` from row ``source`` to another row ``target``.

    The two ranges may overlap where the target is below: rows are copied in ascending order, as
    many at once as the distance allows.
    """
    together = min(count, abs(source - target))
    for row in range(0, count, together or 1):
        nbytes = min(together, count - row) * row_nbytes
        lower = region[(target + row) * row_nbytes :][:nbytes]
        upper = region[(source + row) * row_nbytes :][:nbytes]
        copy(lower, upper)


def copy_pieces(targets: Sequence[NDArray[np.uint8]], sources: Sequence[NDArray[np.uint8]]) -> None:
    """Copy bytes from pieces to pieces, as if each side were one array; the shorter one ends it."""
    at = 0
    source = iter(sources)
    piece = next(source)
    for target in targets:
        filled = 0
        while filled < target.nbytes:
            if at == piece.nbytes:
                following = next(source, None)
                if following is None:
                    return
                piece, at = following, 0
            count = min(target.nbytes - filled, piece.nbytes - at)
            copy(target[filled : filled + count], piece[at : at + count])
            filled, at = filled + count, at + count


def copy(target: NDArray[np.uint8], source: NDArray[np.uint8]) -> None:
    """Copy bytes between two ranges that do not overlap."""
    if target.nbytes < _THREADED_NBYTES:
        target[:] = source
        return
    half = target.nbytes // 2
    other = _pool().submit(np.copyto, target[half:], source[half:])
    try:
        target[:half] = source[:half]
    finally:
        other.result()  # whatever interrupts this, nothing is copied afterwards


@cache
def _pool() -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(1, thread_name_prefix="retrograd-copy")
    os.register_at_fork(after_in_child=_pool.cache_clear)
    return pool
