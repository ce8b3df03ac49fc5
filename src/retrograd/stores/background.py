"""A store that works in the background: it writes behind and reads ahead, in bounded memory."""

from __future__ import annotations

import weakref
from typing import Protocol, runtime_checkable

from retrograd.errors import InvalidArgument
from retrograd.stores.tier import Item, Rows, Store
from retrograd.stores.transfer_thread import Transfers, TransferThread


@runtime_checkable
class Foreseeing(Protocol):
    """A store that can make use of knowing which items will be restored next."""

    def expect(self, item: Item) -> None:
        """The item will be restored after those that were expected before it."""
        ...

    def expect_nothing(self) -> None:
        """What was expected may not come."""
        ...


class Background:
    """Lets one thread do the transfers of another store while the computation goes on.

    `save` copies an item to a buffer and returns; the buffer is written afterwards. What is said
    to be restored next (`expect`) is read into free buffers beforehand. Where all buffers are
    full, `save` waits, so that a slow store slows the computation down and takes no more memory.
    An item that is larger than a buffer is transferred while the caller waits.

    Parameters
    ----------
    inner : the store that is worked for; from now on only the thread may use it.
    buffer_nbytes : bytes of one buffer, enough for the largest item; a multiple of the page size
        lets a disk store take items from where they are.
    buffers : how many there are, at least 1.

    Raises
    ------
    InvalidArgument
        for less than one buffer.
    StoreFailed
        from the next `save`, `restore` or `drop`, if a transfer failed in the background. This
        call has then done nothing; what was written since has ended, and all items that are lost
        are named. What was given up before it was written is not lost.
    """

    def __init__(self, inner: Store, buffer_nbytes: int, buffers: int = 2) -> None:
        if buffers < 1:
            raise InvalidArgument(f"buffers={buffers}: at least one is needed, such as buffers=2")
        self.inner = inner
        self._thread = TransferThread(inner, buffer_nbytes, buffers)
        # The thread must not keep this object alive: it ends when nobody else has it.
        self._end = weakref.finalize(self, self._thread.stop)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return self._thread.memory.nbytes

    @property
    def transfers(self) -> Transfers:
        """What was done since `clear`."""
        return self._thread.transfers

    def save(self, item: Item, rows: Rows) -> None:
        """Copy an item to a buffer, to be written afterwards."""
        self._thread.save(item, rows)

    def restore(self, item: Item, rows: Rows) -> None:
        """Copy an item from the buffer that holds it, or wait for it."""
        self._thread.restore(item, rows)

    def expect(self, item: Item) -> None:
        """The item will be restored after those that were expected before it."""
        self._thread.expect(item)

    def expect_nothing(self) -> None:
        """What was expected may not come; what was read ahead gives way to anything else."""
        self._thread.expect_nothing()

    def drop(self, item: Item) -> None:
        """Give an item up; if it was not written yet, it never will be."""
        self._thread.drop(item)

    def clear(self) -> None:
        """Stop all transfers and give everything up."""
        self._thread.clear()

    def close(self) -> None:
        """Stop the thread, give the buffers back, and close the store within."""
        self._end()
