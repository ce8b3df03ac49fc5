"""Two stores as one: what the first has no room for goes to the second."""

from __future__ import annotations

from retrograd.errors import StoreFull
from retrograd.stores.tier import Item, Rows, Store


class Spilling:
    """Keep items in `first`, and in `then` while `first` is full.

    To compress, wrap this store rather than `first` and `then`: items are then encoded once, and
    not again when they go to the second.

    Parameters
    ----------
    first : the store to fill, often the faster one.
    then : the store for what it has no room for.

    Attributes
    ----------
    spilled : how many items went to `then` since the run began.
    """

    def __init__(self, first: Store, then: Store) -> None:
        self.first = first
        self.then = then
        self.spilled = 0
        self._where: dict[Item, Store] = {}

    def save(self, item: Item, rows: Rows) -> None:
        """Keep an item in the first store with room for it."""
        try:
            self.first.save(item, rows)
            self._where[item] = self.first
        except StoreFull as full:
            if full.items != (item,):  # an earlier item, whose rows are gone
                raise
            self.then.save(item, rows)
            self._where[item] = self.then
            self.spilled += 1

    def restore(self, item: Item, rows: Rows) -> None:
        """Write an item into rows, from where it is."""
        self._where[item].restore(item, rows)

    def drop(self, item: Item) -> None:
        """Give an item up."""
        self._where.pop(item).drop(item)

    def clear(self) -> None:
        """Give everything up, and count from nothing."""
        self._where.clear()
        self.spilled = 0
        self.first.clear()
        self.then.clear()

    def close(self) -> None:
        """Close both stores."""
        self._where.clear()
        try:
            self.first.close()
        finally:
            self.then.close()
