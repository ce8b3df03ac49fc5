"""Two stores as one: every item comes back from where it is."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd.errors import StoreFailed, StoreFull
from retrograd.stores.spilling import Spilling
from retrograd.stores.tier import HeldStore, Item, Rows


def rows(value: int) -> list[np.ndarray]:
    return [np.full(25, value, np.float32)]


def value_of(store: Spilling, item: Item) -> float:
    out = rows(-1)
    store.restore(item, out)
    assert (out[0] == out[0][0]).all()
    return float(out[0][0])


def test_the_first_is_filled_and_the_rest_spills() -> None:
    first, then = HeldStore(250), HeldStore(400)
    store = Spilling(first, then)
    for step in range(6):
        store.save(Item(step), rows(step))
    assert (first.nbytes, then.nbytes, store.spilled) == (200, 400, 4)
    with pytest.raises(StoreFull):
        store.save(Item(6), rows(6))
    assert store.spilled == 4
    assert [value_of(store, Item(step)) for step in range(6)] == list(range(6))


def test_room_that_is_given_up_is_used_again() -> None:
    first, then = HeldStore(100), HeldStore()
    store = Spilling(first, then)
    store.save(Item(0), rows(0))
    store.save(Item(1, 5), rows(1))
    store.drop(Item(0))
    store.save(Item(2), rows(2))
    assert (first.nbytes, then.nbytes, store.spilled) == (100, 100, 1)
    assert [value_of(store, item) for item in (Item(1, 5), Item(2))] == [1, 2]
    store.drop(Item(1, 5))
    store.drop(Item(2))
    assert (first.nbytes, then.nbytes) == (0, 0)
    assert store.spilled == 1


def test_a_new_run_begins_with_nothing() -> None:
    first, then = HeldStore(100), HeldStore()
    store = Spilling(first, then)
    for step in range(3):
        store.save(Item(step), rows(step))
    store.clear()
    assert (first.nbytes, then.nbytes, store.spilled) == (0, 0, 0)
    store.save(Item(0), rows(8))
    assert value_of(store, Item(0)) == 8


def test_other_failures_do_not_spill() -> None:
    class Broken(HeldStore):
        def save(self, item: Item, rows: Rows) -> None:
            raise StoreFailed("a disk that is broken", item)

    then = HeldStore()
    store = Spilling(Broken(), then)
    with pytest.raises(StoreFailed, match="broken"):
        store.save(Item(0), rows(0))
    assert (then.nbytes, store.spilled) == (0, 0)


def test_an_earlier_item_that_had_no_room_is_not_mistaken_for_this_one() -> None:
    """A store that writes in the background tells of it at the next call."""

    class Late(HeldStore):
        def save(self, item: Item, rows: Rows) -> None:
            raise StoreFull("full since before", Item(0))

    then = HeldStore()
    store = Spilling(Late(), then)
    with pytest.raises(StoreFull, match="since before"):
        store.save(Item(1), rows(1))
    assert (then.nbytes, store.spilled) == (0, 0)


def test_both_are_closed_even_if_one_fails() -> None:
    class Broken(HeldStore):
        def close(self) -> None:
            raise StoreFailed("a disk that is broken", None)

    then = HeldStore()
    store = Spilling(Broken(0), then)
    store.save(Item(0), rows(0))
    with pytest.raises(StoreFailed):
        store.close()
    assert then.nbytes == 0
    whole = Spilling(HeldStore(), HeldStore())
    whole.close()
    whole.close()
