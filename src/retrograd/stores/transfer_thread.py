"""The thread that transfers items in the background, and what it shares with its caller."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, RLock, Thread, current_thread
from time import perf_counter
from typing import Final

from retrograd.errors import ItemLost, StoreFailed
from retrograd.stores.buffers import Buffer, Form, State, copy_all
from retrograd.stores.pages import zeros
from retrograd.stores.tier import Item, Rows, Store

_LEFT_TO_WRITES: Final = 1
"""Buffers that reading ahead leaves free, where there are more than two."""

_UNWRITTEN: Final = (State.DIRTY, State.WRITING)

_IN_TRANSFER: Final = (State.WRITING, State.READING)


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


class TransferThread:
    """The thread, and all that it shares with the caller.

    Whatever is shared is looked at and changed under one lock, which the caller holds while it
    copies, and the thread does not hold while it transfers. Errands and writes are done in the
    order in which they were asked for; the thread reads ahead when there are none.
    """

    def __init__(self, inner: Store, buffer_nbytes: int, buffers: int) -> None:
        room = buffer_nbytes
        self.memory = zeros(room * buffers)
        self.transfers = Transfers()
        self._inner = inner
        self._room = room
        self._buffers = [Buffer(self.memory[n * room : (n + 1) * room]) for n in range(buffers)]
        # An interrupt can come within a Condition's own __enter__ and __exit__, and leave it
        # locked; not within those of its lock.
        self._lock = RLock()
        self._changed = Condition(self._lock)
        self._forms: dict[Item, Form] = {}
        self._errands: deque[Buffer | _Errand] = deque()
        self._expected: deque[Item] = deque()
        self._failures: list[StoreFailed] = []
        self._closing = _Errand(inner.close, is_awaited=True)
        self._is_busy = self._is_stopped = self._is_room_wanted = False
        self._thread = Thread(target=self._work, name="retrograd-transfers", daemon=True)
        self._thread.start()

    # What the caller does.

    def save(self, item: Item, rows: Rows) -> None:
        form = Form.of(rows)
        with self._lock:
            self._raise_failures()
            if form.nbytes > self._room:
                self._run(lambda: self._timed_save(item, rows))
            else:
                buffer = self._wait_for_room()
                copy_all(form.views(buffer.memory), rows)
                buffer.take(State.DIRTY, item, form)
                self._begin(buffer)
            self._forms[item] = form

    def _wait_for_room(self) -> Buffer:
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

    def _roomy(self) -> Buffer | None:
        """A free buffer; where no write will free one, that which was read ahead the furthest."""
        for buffer in self._buffers:
            if buffer.state is State.FREE:
                return buffer
        if any(buffer.state in _UNWRITTEN for buffer in self._buffers):
            return None
        return self._furthest()

    def _furthest(self) -> Buffer | None:
        """Of the buffers that hold what is in the store within, the one wanted last."""
        ready = (buffer for buffer in self._buffers if buffer.state is State.READY)
        return max(ready, key=self._distance, default=None)

    def _distance(self, buffer: Buffer) -> int:
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
            if Form.of(rows) != buffer.form:
                raise ItemLost(f"{item} was saved in other shapes than it is asked for", item)
            copy_all(rows, buffer.rows())
            if buffer.state is State.READY and item not in self._expected:
                buffer.free()
            self._changed.notify_all()

    def expect(self, item: Item) -> None:
        with self._lock:
            self._expected.append(item)
            self._changed.notify_all()

    def expect_nothing(self) -> None:
        with self._lock:
            self._expected.clear()

    def drop(self, item: Item) -> None:
        with self._lock:
            self._raise_failures()
            del self._forms[item]
            buffer = self._holder(item)
            if buffer is not None and buffer.state in _IN_TRANSFER:
                buffer.is_stale = True
                return
            if buffer is not None and buffer.state is State.DIRTY:
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

    def _begin(self, task: Buffer | _Errand) -> None:
        self._errands.append(task)
        self._changed.notify_all()

    def _dropping(self, item: Item) -> _Errand:
        return _Errand(lambda: self._inner.drop(item), is_awaited=False)

    def _holder(self, item: Item) -> Buffer | None:
        """The buffer that holds an item, or is going to."""
        held = (b for b in self._buffers if b.item == item and not b.is_stale)
        return next(held, None)

    def _is_being_read(self, item: Item) -> bool:
        buffer = self._holder(item)
        return buffer is not None and buffer.state is State.READING

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

    def _next(self) -> Buffer | _Errand | None:
        """Wait for something to do; None at the end."""
        with self._lock:
            self._changed.wait_for(
                lambda: self._is_stopped or bool(self._errands) or self._queue_reading()
            )
            if self._is_stopped:
                return None
            task = self._errands.popleft()
            self._is_busy = True
            if isinstance(task, Buffer) and task.state is State.DIRTY:
                task.state = State.WRITING
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
                    buffer.take(State.READING, item, form)
                    self._errands.append(buffer)
                return buffer is not None
        return False

    def _spare(self, distance: int) -> Buffer | None:
        """A buffer that is free, or holds what is expected later than the item at `distance`."""
        free = [buffer for buffer in self._buffers if buffer.state is State.FREE]
        if len(free) > (_LEFT_TO_WRITES if len(self._buffers) > 2 else 0):
            return free[0]
        furthest = self._furthest()
        return furthest if furthest is not None and self._distance(furthest) > distance else None

    def _attempt(self, task: Buffer | _Errand) -> BaseException | None:
        try:
            self._transfer(task) if isinstance(task, Buffer) else task.work()
        except BaseException as error:
            return error
        return None

    def _transfer(self, buffer: Buffer) -> None:
        assert buffer.item is not None
        run = self._timed_save if buffer.state is State.WRITING else self._timed_restore
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

    def _conclude(self, task: Buffer | _Errand, error: BaseException | None) -> None:
        if isinstance(task, _Errand):
            task.error, task.is_done = error, True
            if error is not None and not task.is_awaited:
                self._failures.append(_as_failure(error))
        else:
            self._conclude_transfer(task, error)

    def _conclude_transfer(self, buffer: Buffer, error: BaseException | None) -> None:
        item, is_read = buffer.item, buffer.state is State.READING
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
            buffer.state = State.READY
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
