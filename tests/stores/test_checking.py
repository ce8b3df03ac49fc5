"""Every store passes the check for stores, and a store that forgets a byte does not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from retrograd.stores import (
    Background,
    Compressed,
    DiskStore,
    HeldStore,
    Item,
    Lossless,
    Spilling,
    Store,
    check_store,
)

STORES: dict[str, Callable[[], Store]] = {
    "held": HeldStore,
    "disk": DiskStore,
    "compressed": lambda: Compressed(HeldStore(), Lossless()),
    "spilling": lambda: Spilling(HeldStore(5000), DiskStore()),
    "background": lambda: Background(DiskStore(), 2000, 2),
    "all": lambda: Background(
        Compressed(Spilling(HeldStore(5000), DiskStore()), Lossless()), 4000, 3
    ),
}


@pytest.mark.parametrize("name", STORES)
def test_all_stores_keep_every_bit(name: str) -> None:
    with closing(STORES[name]()) as store:
        check_store(store)
        check_store(store)


class Forgetful(HeldStore):
    def restore(self, item: Item, rows: Any) -> None:
        super().restore(item, rows)
        if item == Item(8, 12):
            rows[1].reshape(-1).view("u1")[-1] ^= 1


class Late(HeldStore):
    """Keeps what it was given, and not a copy of it."""

    def save(self, item: Item, rows: Any) -> None:
        super().save(item, rows)
        self._items[item] = rows


def test_a_store_that_forgets_is_found_out() -> None:
    with pytest.raises(AssertionError, match="Forgetful gave row 1 .float64. of the records of"):
        check_store(Forgetful())
    with pytest.raises(AssertionError, match="Late gave row 0 .float32."):
        check_store(Late())
