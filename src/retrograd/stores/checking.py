"""Whether a store does what schedules rely on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.stores.tier import Item, Store

_ROUNDS = 3
_DTYPES = ("float32", "float64", "complex64", "int32", "uint8")


def check_store(store: Store) -> None:
    """Save, restore and give up items as a run does, and compare every bit.

    Restarts and records, of several dtypes and of odd sizes; the same name with other data after
    it was given up; a restart that is read twice; what is left when everything is given up. The
    store is empty afterwards and not closed. For a store that loses nothing, with room for 100 kB.

    Raises
    ------
    AssertionError
        saying which item came back differently.
    Whatever the store raises.

    >>> from retrograd.stores import HeldStore
    >>> check_store(HeldStore())
    """
    random = np.random.default_rng(1)
    items = [Item(0), Item(7), Item(8, 12), Item(12, 13), Item(2**40)]
    for round_ in range(_ROUNDS):
        kept = {item: _rows(random, size) for size, item in enumerate(items, 1)}
        for item, rows in kept.items():
            given = [row.copy() for row in rows]
            store.save(item, given)
            for row in given:
                row[...] = 0  # the arena writes its rows again
        for item in (*reversed(items), items[0]):
            _compare(store, item, kept[item])
        if round_ < _ROUNDS - 1:
            for item in items[round_::2] + items[1 - round_ :: 2]:
                store.drop(item)
    store.clear()


def _rows(random: np.random.Generator, size: int) -> list[NDArray[Any]]:
    """Rows of noise, each of another dtype and with a number of bytes that nothing divides."""
    return [
        random.integers(0, 256, (size, 37, np.dtype(dtype).itemsize), np.uint8)
        .view(dtype)
        .reshape(size, 37)
        for dtype in _DTYPES
    ]


def _compare(store: Store, item: Item, rows: list[NDArray[Any]]) -> None:
    back = [np.empty_like(row) for row in rows]
    store.restore(item, back)
    for index, (row, came) in enumerate(zip(rows, back, strict=True)):
        if row.tobytes() != came.tobytes():
            raise AssertionError(
                f"{type(store).__name__} gave row {index} ({row.dtype}) of {item} back differently"
            )
