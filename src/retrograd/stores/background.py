"""A store that works in the background: it writes behind and reads ahead, in bounded memory."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from threading import Condition, RLock, Thread, current_thread
from time import perf_counter
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from retrograd.errors import InvalidArgument, ItemLost, StoreFailed
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

_IN_TRANSFER: Final = (_State.WRITING, _State.READING)


@dataclass(frozen=True, slots=True)
class _Form:
    """How the rows of an item lie in a buffer: their offsets, shapes and dtypes."""

    rows: tuple[tuple[int, tuple[int, ...], np.dtype[Any]], ...]
    nbytes: int

    @classmethod
    def of(cls, rows: Rows) -> _Form:
        placed, at = [], 0
        for row in rows:
            if not row.flags.c_contiguous:  # its bytes would be those of a copy
                raise InvalidArgument("the rows of an item must be C-contiguous arrays")
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

    def check(self) -> None:
        """Raise what went wrong, and forget it: it would keep all that its frames hold."""
        error, self.error = self.error, None
        try:
            if error is not None:
                raise error
        finally:
            del error


class _Worker:
    """The thread, and all that it shares with the caller.

    Whatever is shared is looked at and changed under one lock, which the caller holds while it
    copies, and the thread does not hold while it transfers. Errands and writes are done in the
    order in which they were asked for; the thread reads ahead when there are none.
    """

    def __init__(self, inner: Store, buffer_nbytes: int, buffers: int) -> None:
        room = -(-buffer_nbytes // PAGE) * PAGE
        self.memory = zeros(room * buffers)
        self.transfers = Transfers()
        self._inner = inner
        self._room = room
        self._buffers = [_Buffer(self.memory[n * room : (n + 1) * room]) for n in range(buffers)]
        # An interrupt can come within a Condition's own __enter__ and __exit__, and leave it
        # locked; not within those of its lock.
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._forms: dict[Item, _Form] = {}
        self._errands: deque[_Buffer | _Errand] = deque()
        self._expected: deque[Item] = deque()
        self._failures: list[StoreFailed] = []
        self._closing = _Errand(inner.close, is_awaited=True)
        self._is_busy = self._is_stopped = self._is_room_wanted = False
        self._thread = Thread(target=self._work, name="retrograd-transfers", daemon=True)
        self._thread.start()

    # What the caller does.

    def save(self, item: Item, rows: Rows) -> None:
        form = _Form.of(rows)
        with self._lock:
            self._raise_failures()
            if form.nbytes > self._room:
                self._run(lambda: self._timed_save(item, rows))
            else:
                buffer = self._wait_for_room()
                _copy_all(form.views(buffer.memory), rows)
                buffer.take(_State.DIRTY, item, form)
                self._begin(buffer)
            self._forms[item] = form

    def _wait_for_room(self) -> _Buffer:
        self._is_room_wanted = True
        try:
            self._wait(lambda: bool(self._failures) or self._roomy() is not None)
        finally:
            self._is_room_wanted = False
        self._raise_failures()
        buffer = self._roomy()
        assert buffer is not None
        buffer.free()
        return buffer

    def _roomy(self) -> _Buffer | None:
        """A free buffer; where no write will free one, that which was read ahead the furthest."""
        for buffer in self._buffers:
            if buffer.state is _State.FREE:
                return buffer
        if any(buffer.state in _UNWRITTEN for buffer in self._buffers):
            return None
        return self._furthest()

    def _furthest(self) -> _Buffer | None:
        """Of the buffers that hold what is in the store within, the one wanted last."""
        ready = (buffer for buffer in self._buffers if buffer.state is _State.READY)
        return max(ready, key=self._distance, default=None)

    def _distance(self, buffer: _Buffer) -> int:
        """How many items are expected before that of a buffer."""
        distances = (n for n, item in enumerate(self._expected) if item == buffer.item)
        return next(distances, len(self._expected))

    def restore(self, item: Item, rows: Rows) -> None:
        with self._lock:
            self._raise_failures()
            self._wait(lambda: not self._is_being_read(item))
            self._raise_failures()
            if item in self._expected:  # until now, or its buffer would be the first to give way
                self._expected.remove(item)
            buffer = self._holder(item)
            if buffer is None:
                self._run(lambda: self._read_directly(item, rows))
                return
            if _Form.of(rows) != buffer.form:
                raise ItemLost(f"{item} was saved in other shapes than it is asked for", item)
            _copy_all(rows, buffer.rows())
            if buffer.state is _State.READY and item not in self._expected:
                buffer.free()
            self._changed.notify_all()

    def expect(self, item: Item) -> None:
        with self._lock:
            self._expected.append(item)
            self._changed.notify_all()

    def drop(self, item: Item) -> None:
        with self._lock:
            self._raise_failures()
            del self._forms[item]
            buffer = self._holder(item)
            if buffer is not None and buffer.state in _IN_TRANSFER:
                buffer.is_stale = True
                return
            if buffer is not None and buffer.state is _State.DIRTY:
                self._errands.remove(buffer)
            else:
                self._begin(self._dropping(item))
            if buffer is not None:
                buffer.free()
            self._changed.notify_all()

    def clear(self) -> None:
        with self._lock:
            if self._is_stopped:
                return
            self._errands.clear()
            self._expected.clear()
            self._forms.clear()
            for buffer in self._buffers:
                if buffer.state in _IN_TRANSFER:
                    buffer.is_stale = True
                else:
                    buffer.free()
            self._wait(lambda: not self._is_busy)
            self._errands.clear()  # what was in transfer need not be dropped
            self._failures.clear()
            self.transfers = Transfers()
            self._inner.clear()

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            self._changed.notify_all()
        if current_thread() is self._thread:  # which has just collected garbage
            return
        self._thread.join()
        self._closing.check()

    def _raise_failures(self) -> None:
        if self._is_stopped:
            raise StoreFailed("the store is closed: make another one")
        if self._failures:
            self._wait(lambda: not self._is_busy and not self._errands)
            self._changed.notify_all()  # reading ahead goes on
            raise self._take_failures()

    def _take_failures(self) -> StoreFailed:
        """All failures as one."""
        failures, self._failures = self._failures, []
        failures[0].items = tuple(item for failure in failures for item in failure.items)
        return failures[0]

    def _run(self, work: Callable[[], None]) -> None:
        """Let the thread do something, and wait for it."""
        errand = _Errand(work, is_awaited=True)
        self._begin(errand)
        try:
            self._wait(lambda: errand.is_done)
        except BaseException:  # the thread must leave the rows alone when the caller has gone on
            if errand in self._errands:
                self._errands.remove(errand)
            else:
                self._wait(lambda: errand.is_done)
            raise
        errand.check()

    def _wait(self, for_what: Callable[[], bool]) -> None:
        began = perf_counter()
        self._changed.wait_for(for_what)
        self.transfers.waited_seconds += perf_counter() - began

    def _begin(self, task: _Buffer | _Errand) -> None:
        self._errands.append(task)
        self._changed.notify_all()

    def _dropping(self, item: Item) -> _Errand:
        return _Errand(lambda: self._inner.drop(item), is_awaited=False)

    def _holder(self, item: Item) -> _Buffer | None:
        """The buffer that holds an item, or is going to."""
        held = (b for b in self._buffers if b.item == item and not b.is_stale)
        return next(held, None)

    def _is_being_read(self, item: Item) -> bool:
        buffer = self._holder(item)
        return buffer is not None and buffer.state is _State.READING

    # What the thread does.

    def _work(self) -> None:
        while (task := self._next()) is not None:
            error = self._attempt(task)
            with self._lock:
                self._is_busy = False
                self._conclude(task, error)
                self._changed.notify_all()
            del task, error  # while there is nothing to do, nobody's rows are kept alive
        self._end()

    def _next(self) -> _Buffer | _Errand | None:
        """Wait for something to do; None at the end."""
        with self._lock:
            self._changed.wait_for(
                lambda: self._is_stopped or bool(self._errands) or self._queue_reading()
            )
            if self._is_stopped:
                return None
            task = self._errands.popleft()
            self._is_busy = True
            if isinstance(task, _Buffer) and task.state is _State.DIRTY:
                task.state = _State.WRITING
            return task

    def _queue_reading(self) -> bool:
        """Let a buffer take the next expected item that is only in the store within."""
        if self._failures or self._is_room_wanted:
            return False
        for distance, item in enumerate(self._expected):
            form = self._forms.get(item)
            if form is not None and form.nbytes <= self._room and self._holder(item) is None:
                buffer = self._spare(distance)
                if buffer is not None:
                    buffer.take(_State.READING, item, form)
                    self._errands.append(buffer)
                return buffer is not None
        return False

    def _spare(self, distance: int) -> _Buffer | None:
        """A buffer that is free, or holds what is expected later than the item at `distance`."""
        free = [buffer for buffer in self._buffers if buffer.state is _State.FREE]
        if len(free) > (_LEFT_TO_WRITES if len(self._buffers) > 2 else 0):
            return free[0]
        furthest = self._furthest()
        return furthest if furthest is not None and self._distance(furthest) > distance else None

    def _attempt(self, task: _Buffer | _Errand) -> BaseException | None:
        try:
            self._transfer(task) if isinstance(task, _Buffer) else task.work()
        except BaseException as error:
            return error
        return None

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
        try:
            self._inner.restore(item, rows)
        except ItemLost:  # it was given up within
            raise
        except BaseException:
            self._inner.drop(item)
            raise
        self.transfers.read_seconds += perf_counter() - began
        self.transfers.read_nbytes += sum(row.nbytes for row in rows)

    def _read_directly(self, item: Item, rows: Rows) -> None:
        try:
            self._timed_restore(item, rows)
        except BaseException:
            self._forms.pop(item, None)
            raise

    def _conclude(self, task: _Buffer | _Errand, error: BaseException | None) -> None:
        if isinstance(task, _Errand):
            task.error, task.is_done = error, True
            if error is not None and not task.is_awaited:
                self._failures.append(_as_failure(error))
        else:
            self._conclude_transfer(task, error)

    def _conclude_transfer(self, buffer: _Buffer, error: BaseException | None) -> None:
        item, is_read = buffer.item, buffer.state is _State.READING
        assert item is not None
        if buffer.is_stale:
            buffer.free()
            if error is None:  # before the item's name is used again
                self._errands.appendleft(self._dropping(item))
        elif error is not None:
            buffer.free()
            self._failures.append(_as_failure(error, item))
            del self._forms[item]
        elif is_read or item in self._expected:
            buffer.state = _State.READY
        else:
            buffer.free()

    def _end(self) -> None:
        """Give everything up, here because nobody may be left who waits for the thread."""
        with self._lock:
            for kept in (self._buffers, self._errands, self._expected, self._forms):
                kept.clear()
            self._failures.clear()
            self.memory = zeros(0)
        self._closing.error = self._attempt(self._closing)


def _as_failure(error: BaseException, *items: object) -> StoreFailed:
    if isinstance(error, StoreFailed):
        error.items += tuple(item for item in items if item not in error.items)
        return error
    failure = StoreFailed(f"a transfer in the background failed: {error!r}", *items)
    failure.__cause__ = error
    return failure


def _copy_all(targets: Rows, sources: Rows) -> None:
    for target, source in zip(targets, sources, strict=True):
        copy(_flat(target), _flat(source))


def _flat(row: NDArray[Any]) -> NDArray[np.uint8]:
    return row.reshape(-1).view(np.uint8)
