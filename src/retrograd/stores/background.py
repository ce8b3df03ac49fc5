"""A store that works in the background: it writes behind and reads ahead, in bounded memory."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from threading import Condition, Thread
from time import perf_counter
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from retrograd.errors import StoreFailed
from retrograd.sizes import PAGE
from retrograd.stores.pages import zeros
from retrograd.stores.parallel_copy import copy
from retrograd.stores.tier import Item, Rows, Store


@runtime_checkable
class Foreseeing(Protocol):
    """A store that can make use of knowing which items will be restored next."""

    def expect(self, item: Item) -> None:
        """The item will be restored after those that were expected before it."""
        ...


@dataclass(slots=True)
class Transfers:
    """What a background store has done since it was cleared.

    Attributes
    ----------
    written_nbytes, read_nbytes : bytes of items that went to the store within, and came back.
    write_seconds, read_seconds : how long that took, in the background.
    waited_seconds : how long the caller stood still for it.
    """

    written_nbytes: int = 0
    read_nbytes: int = 0
    write_seconds: float = 0.0
    read_seconds: float = 0.0
    waited_seconds: float = 0.0


class Background:
    """Lets one thread do the transfers of another store while the computation goes on.

    `save` copies an item to a buffer and returns; the buffer is written afterwards. What is said
    to be restored next (`expect`) is read into free buffers beforehand. Where all buffers are
    full, `save` waits, so that a slow store slows the computation down and takes no more memory.
    An item that is larger than a buffer is transferred while the caller waits.

    Parameters
    ----------
    inner : the store that is worked for; from now on only the thread may use it.
    buffer_nbytes : bytes of one buffer, enough for the largest item.
    buffers : how many there are, at least 1.

    Raises
    ------
    StoreFailed
        from the next call of any method, if a transfer failed in the background; what was written
        since has ended by then, and all items that are lost are named.
    """

    def __init__(self, inner: Store, buffer_nbytes: int, buffers: int = 2) -> None:
        self.inner = inner
        self._worker = _Worker(inner, buffer_nbytes, buffers)
        # The thread must not keep this object alive: it ends when nobody else has it.
        self._end = weakref.finalize(self, self._worker.stop)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return self._worker.memory.nbytes

    @property
    def transfers(self) -> Transfers:
        """What was done since `clear`."""
        return self._worker.transfers

    def save(self, item: Item, rows: Rows) -> None:
        """Copy an item to a buffer, to be written afterwards."""
        self._worker.save(item, rows)

    def restore(self, item: Item, rows: Rows) -> None:
        """Copy an item from the buffer that holds it, or wait for it."""
        self._worker.restore(item, rows)

    def expect(self, item: Item) -> None:
        """The item will be restored after those that were expected before it."""
        self._worker.expect(item)

    def drop(self, item: Item) -> None:
        """Give an item up; if it was not written yet, it never will be."""
        self._worker.drop(item)

    def clear(self) -> None:
        """Stop all transfers and give everything up."""
        self._worker.clear()

    def close(self) -> None:
        """Stop the thread, give the buffers back, and close the store within."""
        self._end()


class _State(Enum):
    FREE = "free"
    DIRTY = "to be written"
    WRITING = "being written"
    READING = "being read"
    READY = "the same as in the store within"


_LEFT_TO_WRITES: Final = 1
"""Buffers that reading ahead leaves free, where there are more than two."""

_UNWRITTEN: Final = (_State.DIRTY, _State.WRITING)


@dataclass(frozen=True, slots=True)
class _Form:
    """How the rows of an item lie in a buffer: their offsets, shapes and dtypes."""

    rows: tuple[tuple[int, tuple[int, ...], np.dtype[Any]], ...]
    nbytes: int

    @classmethod
    def of(cls, rows: Rows) -> _Form:
        placed, at = [], 0
        for row in rows:
            at = -(-at // row.dtype.itemsize) * row.dtype.itemsize
            placed.append((at, row.shape, row.dtype))
            at += row.nbytes
        return cls(tuple(placed), at)

    def views(self, memory: NDArray[np.uint8]) -> list[NDArray[Any]]:
        return [
            np.ndarray(shape, dtype, buffer=memory.data, offset=at)
            for at, shape, dtype in self.rows
        ]


@dataclass(slots=True, eq=False)
class _Buffer:
    """Room for an item. A stale one was given up while it was being transferred."""

    memory: NDArray[np.uint8]
    state: _State = _State.FREE
    item: Item | None = None
    form: _Form | None = None
    is_stale: bool = False

    def rows(self) -> list[NDArray[Any]]:
        assert self.form is not None
        return self.form.views(self.memory)

    def take(self, state: _State, item: Item, form: _Form) -> None:
        self.state, self.item, self.form, self.is_stale = state, item, form, False

    def free(self) -> None:
        self.state, self.item, self.form, self.is_stale = _State.FREE, None, None, False


@dataclass(slots=True, eq=False)
class _Errand:
    """Something for the thread to do that is no transfer of a buffer."""

    work: Callable[[], None]
    is_awaited: bool
    is_done: bool = False
    error: BaseException | None = None


class _Worker:
    """The thread, and all that it shares with the caller.

    Whatever is shared is looked at and changed under one lock, which the caller holds while it
    copies, and the thread does not hold while it transfers.
    """

    def __init__(self, inner: Store, buffer_nbytes: int, buffers: int) -> None:
        room = -(-buffer_nbytes // PAGE) * PAGE
        self.memory = zeros(room * buffers)
        self.transfers = Transfers()
        self._inner = inner
        self._room = room
        self._buffers = [_Buffer(self.memory[n * room : (n + 1) * room]) for n in range(buffers)]
        self._changed = Condition()
        self._forms: dict[Item, _Form] = {}
        self._errands: deque[_Buffer | _Errand] = deque()
        self._expected: deque[Item] = deque()
        self._failures: list[StoreFailed] = []
        self._thread: Thread | None = None
        self._is_busy = self._is_stopped = False

    # What the caller does.

    def save(self, item: Item, rows: Rows) -> None:
        form = _Form.of(rows)
        with self._changed:
            self._raise_failures()
            if form.nbytes > self._room:
                self._run(lambda: self._timed_save(item, rows))
            else:
                self._wait(lambda: bool(self._failures) or self._roomy() is not None)
                self._raise_failures()
                buffer = self._roomy()
                assert buffer is not None
                buffer.free()
                _copy_all(form.views(buffer.memory), rows)
                buffer.take(_State.DIRTY, item, form)
                self._begin(buffer)
            self._forms[item] = form

    def _roomy(self) -> _Buffer | None:
        """A free buffer; where no write will free one, that which was read ahead the furthest."""
        for buffer in self._buffers:
            if buffer.state is _State.FREE:
                return buffer
        if any(buffer.state in _UNWRITTEN for buffer in self._buffers):
            return None
        ready = (self._holder(item) for item in reversed(self._expected))
        return next((b for b in ready if b is not None and b.state is _State.READY), None)

    def restore(self, item: Item, rows: Rows) -> None:
        with self._changed:
            self._raise_failures()
            if item in self._expected:
                self._expected.remove(item)
            buffer = self._holder(item)
            if buffer is None:
                self._run(lambda: self._timed_restore(item, rows))
                return
            self._wait(lambda: buffer.state is not _State.READING)
            self._raise_failures()
            _copy_all(rows, buffer.rows())
            if buffer.state is _State.READY:
                buffer.free()
                self._changed.notify_all()

    def expect(self, item: Item) -> None:
        with self._changed:
            self._expected.append(item)
            self._begin()

    def drop(self, item: Item) -> None:
        with self._changed:
            self._raise_failures()
            del self._forms[item]
            buffer = self._holder(item)
            if buffer is not None and buffer.state is _State.DIRTY:
                self._errands.remove(buffer)
                buffer.free()
                self._changed.notify_all()
                return
            if buffer is not None and buffer.state is _State.READY:
                buffer.free()
            elif buffer is not None:
                buffer.is_stale = True
            self._begin(_Errand(lambda: self._inner.drop(item), is_awaited=False))

    def clear(self) -> None:
        with self._changed:
            self._errands.clear()
            self._expected.clear()
            self._changed.wait_for(lambda: not self._is_busy)
            self._failures.clear()
            self._forms.clear()
            for buffer in self._buffers:
                buffer.free()
            self.transfers = Transfers()
            self._inner.clear()

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._buffers.clear()
        self.memory = zeros(0)
        self._inner.close()

    def _raise_failures(self) -> None:
        if self._failures:
            self._wait(lambda: not self._is_busy and not self._errands)
            failures, self._failures = self._failures, []
            failures[0].items = tuple(item for failure in failures for item in failure.items)
            raise failures[0]

    def _run(self, work: Callable[[], None]) -> None:
        """Let the thread do something, and wait for it."""
        errand = _Errand(work, is_awaited=True)
        self._begin(errand)
        self._wait(lambda: errand.is_done)
        if errand.error is not None:
            raise errand.error

    def _wait(self, for_what: Callable[[], bool]) -> None:
        began = perf_counter()
        self._changed.wait_for(for_what)
        self.transfers.waited_seconds += perf_counter() - began

    def _begin(self, *tasks: _Buffer | _Errand) -> None:
        self._errands.extend(tasks)
        if self._thread is None:
            self._thread = Thread(target=self._work, name="retrograd-transfers", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _holder(self, item: Item) -> _Buffer | None:
        """The buffer that holds an item, or is going to."""
        held = (b for b in self._buffers if b.item == item and not b.is_stale)
        return next(held, None)

    # What the thread does.

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._is_stopped or bool(self._errands) or self._queue_reading()
                )
                if self._is_stopped:
                    return
                task = self._errands.popleft()
                self._is_busy = True
                if isinstance(task, _Buffer) and task.state is _State.DIRTY:
                    task.state = _State.WRITING
            error: BaseException | None = None
            try:
                self._transfer(task) if isinstance(task, _Buffer) else task.work()
            except BaseException as failure:
                error = failure
            with self._changed:
                self._is_busy = False
                self._conclude(task, error)
                self._changed.notify_all()

    def _queue_reading(self) -> bool:
        """Let a free buffer take the next expected item that is in the store within."""
        free = [buffer for buffer in self._buffers if buffer.state is _State.FREE]
        spare = _LEFT_TO_WRITES if len(self._buffers) > 2 else 0
        if len(free) <= spare or self._failures:
            return False
        for item in self._expected:
            form = self._forms.get(item)
            if form is not None and form.nbytes <= self._room and self._holder(item) is None:
                free[0].take(_State.READING, item, form)
                self._errands.append(free[0])
                return True
        return False

    def _transfer(self, buffer: _Buffer) -> None:
        assert buffer.item is not None
        run = self._timed_save if buffer.state is _State.WRITING else self._timed_restore
        run(buffer.item, buffer.rows())

    def _timed_save(self, item: Item, rows: Rows) -> None:
        began = perf_counter()
        self._inner.save(item, rows)
        self.transfers.write_seconds += perf_counter() - began
        self.transfers.written_nbytes += sum(row.nbytes for row in rows)

    def _timed_restore(self, item: Item, rows: Rows) -> None:
        began = perf_counter()
        self._inner.restore(item, rows)
        self.transfers.read_seconds += perf_counter() - began
        self.transfers.read_nbytes += sum(row.nbytes for row in rows)

    def _conclude(self, task: _Buffer | _Errand, error: BaseException | None) -> None:
        if isinstance(task, _Errand):
            task.error, task.is_done = error, True
            if error is not None and not task.is_awaited:
                self._failures.append(_as_failure(error))
            return
        if error is not None:
            self._failures.append(_as_failure(error, task.item))
            if task.item is not None and not task.is_stale:
                self._forms.pop(task.item, None)
        is_wanted = task.state is _State.READING or task.item in self._expected
        if error is None and is_wanted and not task.is_stale:
            task.state = _State.READY
        else:
            task.free()


def _as_failure(error: BaseException, *items: object) -> StoreFailed:
    if isinstance(error, StoreFailed):
        return error
    failure = StoreFailed(f"a transfer in the background failed: {error!r}", *items)
    failure.__cause__ = error
    return failure


def _copy_all(targets: Rows, sources: Rows) -> None:
    for target, source in zip(targets, sources, strict=True):
        copy(_flat(target), _flat(source))


def _flat(row: NDArray[Any]) -> NDArray[np.uint8]:
    return row.reshape(-1).view(np.uint8)
