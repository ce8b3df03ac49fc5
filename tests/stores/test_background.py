"""A store in the background: the same bits in any order, bounded memory, and no failure unsaid."""

from __future__ import annotations

import gc
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from threading import Event, Lock, Thread, Timer
from typing import Any

import numpy as np
import pytest

from retrograd.errors import InvalidArgument, ItemLost, StoreFailed, StoreFull
from retrograd.stores.background import Background, Foreseeing
from retrograd.stores.disk import DiskStore
from retrograd.stores.tier import HeldStore, Item, Rows, Store

ROOM = 4096
"""Bytes of a buffer in most tests; buffers have whole pages."""

A, B, C, D = Item(0), Item(1), Item(2, 5), Item(3)
BIG = Item(90)
"""An item that is larger than a buffer, and so waited for."""


class Inner(HeldStore):
    """Writes down what is done with it, waits where it is told to, and fails where it is told to.

    It refuses what no legal sequence does: two things at once, and an item kept twice.
    """

    opened: Event

    def __init__(self, budget_nbytes: int | None = None) -> None:
        super().__init__(budget_nbytes)
        self.log: list[tuple[str, Item]] = []
        self.gate = Event()
        self.gate.set()
        self.fails: dict[tuple[str, Item], BaseException] = {}
        self.pause: Callable[[], float] = lambda: 0.0
        self.closings = 0
        self._alone = Lock()
        GATES.append(self.gate)

    def _do(self, what: str, item: Item, work: Callable[[], None]) -> None:
        assert self._alone.acquire(blocking=False), "two things at once"
        try:
            self.log.append((what, item))
            self.gate.wait()
            time.sleep(self.pause())
            if (what, item) in self.fails:
                if isinstance(self.fails[what, item], ItemLost):
                    HeldStore.drop(self, item)
                raise self.fails[what, item]
            work()
        finally:
            self._alone.release()

    def save(self, item: Item, rows: Rows) -> None:
        assert item not in self._items, "kept twice"
        save = super().save
        self._do("save", item, lambda: save(item, rows))

    def restore(self, item: Item, rows: Rows) -> None:
        restore = super().restore
        self._do("restore", item, lambda: restore(item, rows))

    def drop(self, item: Item) -> None:
        drop = super().drop
        self._do("drop", item, lambda: drop(item))

    def close(self) -> None:
        self.closings += 1
        super().close()

    def did(self, what: str) -> list[Item]:
        return [item for did, item in self.log if did == what]


GATES: list[Event] = []


@pytest.fixture(autouse=True)
def _nothing_hangs() -> Iterator[None]:
    """Fail after ten seconds, and let no thread wait for ever."""

    def too_late(*_: object) -> None:
        raise TimeoutError("this hangs")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    for gate in GATES:
        gate.set()
    GATES.clear()


def rows(value: int, nbytes: int = 1000) -> list[Any]:
    return [np.full(nbytes, value, np.uint8)]


def value_of(store: Store, item: Item, nbytes: int = 1000) -> int:
    out = rows(255, nbytes)
    store.restore(item, out)
    assert (out[0] == out[0][0]).all()
    return int(out[0][0])


def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that the thread does."""
    end = time.monotonic() + 5
    while not is_so():
        assert time.monotonic() < end, "this never happens"
        time.sleep(0.0005)


def finish(store: Background) -> None:
    """Wait until all that was asked for is done."""
    worker = store._thread

    def is_idle() -> bool:
        with worker._lock:
            return not worker._errands and not worker._is_busy

    until(is_idle)


def mixed_rows(rng: np.random.Generator, count: int) -> list[Any]:
    dtypes = ["f4", "f8", "c8", "i2", "?", "u1", "c16", "f2", "i8"]
    shapes = [(3, 5, 7), (), (11,), (1, 2), (0, 4), (257,)]
    result = []
    for index in range(count):
        shape, dtype = shapes[rng.integers(len(shapes))], np.dtype(dtypes[index])
        flat = rng.integers(0, 2, int(np.prod(shape)) * dtype.itemsize, dtype=np.uint8)
        result.append(flat.view(dtype).reshape(shape))
    return result


# What comes back.


@pytest.mark.parametrize("buffers", [1, 2, 3])
@pytest.mark.parametrize("kind", [HeldStore, DiskStore])
def test_items_come_back(kind: Any, buffers: int, tmp_path: Any) -> None:
    rng = np.random.default_rng(buffers)
    inner = DiskStore(tmp_path) if kind is DiskStore else HeldStore()
    store = Background(inner, 20_000, buffers)
    items = {Item(n, None if n % 2 else n + 3): mixed_rows(rng, 1 + n) for n in range(9)}
    for item, kept in items.items():
        store.save(item, kept)
    for item in reversed(items):
        store.expect(item)
    for item, kept in reversed(items.items()):
        out = [np.ones_like(row) for row in kept]
        store.restore(item, out)
        assert [row.tobytes() for row in out] == [row.tobytes() for row in kept]
        store.drop(item)
    finish(store)
    store.close()
    assert inner.nbytes == 0


def test_it_is_a_store_that_foresees() -> None:
    store = Background(HeldStore(), ROOM)
    assert isinstance(store, Foreseeing)
    assert not isinstance(HeldStore(), Foreseeing)
    store.close()


@pytest.mark.parametrize("buffers", [1, 2, 3, 4])
def test_any_legal_sequence(buffers: int) -> None:
    """Names are used again with other data, and some are expected as a schedule would, some not."""
    for seed in range(50):
        rng = random.Random(1000 * buffers + seed)
        inner = Inner()
        inner.pause = lambda rng=rng: rng.choice([0, 0, 0, 0.0001, 0.001])
        store = Background(inner, ROOM, buffers)
        run_at_random(store, rng, foresight=seed % 3)
        finish(store)
        assert inner.nbytes == 0
        store.close()


def run_at_random(store: Background, rng: random.Random, foresight: int) -> None:
    """Foresight 0 expects nothing, 1 the next few reads, 2 anything."""
    moves = legal_moves(rng)
    held: dict[Item, list[Any]] = {}
    reads = [item for move, item in moves if move == "restore"]
    told = done = 0
    for move, item in moves:
        while foresight == 1 and told < min(done + 4, len(reads)):
            store.expect(reads[told])
            told += 1
        if foresight == 2 and rng.random() < 0.3:
            store.expect(Item(rng.randrange(6)))
        if move == "save":
            sizes = [rng.choice([0, 1, 100, 1000, 2500]) for _ in range(rng.randint(1, 3))]
            held[item] = [np.frombuffer(rng.randbytes(size), np.uint8) for size in sizes]
            store.save(item, held[item])
        elif move == "restore":
            out = [np.full_like(row, 77) for row in held[item]]
            store.restore(item, out)
            assert [row.tobytes() for row in out] == [row.tobytes() for row in held[item]]
            done += 1
        else:
            store.drop(item)
            del held[item]
    assert not held


def legal_moves(rng: random.Random) -> list[tuple[str, Item]]:
    moves: list[tuple[str, Item]] = []
    held: set[Item] = set()
    for _ in range(25):
        item = Item(rng.randrange(6))
        if item not in held:
            moves.append(("save", item))
            held.add(item)
        elif rng.random() < 0.6:
            moves.append(("restore", item))
        else:
            moves.append(("drop", item))
            held.remove(item)
    return moves + [("drop", item) for item in held]


def test_a_name_is_used_again_while_its_first_data_are_being_written() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 3)
    inner.gate.clear()
    store.save(A, rows(1))
    until(lambda: inner.did("save") == [A])
    store.drop(A)
    store.save(A, rows(2))
    assert value_of(store, A) == 2
    inner.gate.set()
    finish(store)
    assert [did for did in inner.log if did[1] == A] == [("save", A), ("drop", A), ("save", A)]
    assert value_of(store, A) == 2
    store.drop(A)
    finish(store)
    assert inner.nbytes == 0
    store.close()


@pytest.mark.parametrize("fails", [False, True])
def test_a_name_is_used_again_while_its_first_data_are_being_read(fails: bool) -> None:
    inner = Inner()
    store = Background(inner, ROOM, 3)
    store.save(A, rows(1))
    finish(store)
    inner.gate.clear()
    store.expect(A)
    until(lambda: inner.did("restore") == [A])
    if fails:
        inner.fails["restore", A] = ItemLost("gone", A)
    store.drop(A)
    store.save(A, rows(2))
    inner.gate.set()
    finish(store)
    inner.fails.clear()
    assert value_of(store, A) == 2
    assert inner.did("drop").count(A) == (not fails)  # what is lost has been given up within
    store.close()


def test_what_is_given_up_while_it_is_written_is_not_lost() -> None:
    """It has no room, and nobody wants it: the next item of its name is another one."""
    inner = Inner()
    store = Background(inner, ROOM, 3)
    inner.gate.clear()
    inner.fails["save", A] = StoreFull("full", A)
    store.save(A, rows(1))
    until(lambda: inner.did("save") == [A])
    store.drop(A)
    inner.gate.set()
    finish(store)
    assert A not in inner.did("drop")
    inner.fails.clear()
    store.save(A, rows(2))
    assert value_of(store, A) == 2
    finish(store)
    assert value_of(store, A) == 2
    store.close()


def test_what_is_given_up_before_it_is_written_never_is() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 4)
    inner.gate.clear()
    for item in (A, B, C):
        store.save(item, rows(item.start))
    until(lambda: inner.did("save") == [A])
    store.drop(B)
    inner.gate.set()
    finish(store)
    assert inner.log[:2] == [("save", A), ("save", C)]
    assert B not in inner.did("drop")
    store.close()


# Reading ahead, and what it saves.


def test_what_is_expected_is_read_before_it_is_asked_for_and_in_that_order() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 4)
    for value, item in enumerate((A, B, C, D)):
        store.save(item, rows(value))
    finish(store)
    for item in (C, A, D, B):
        store.expect(item)
    until(lambda: inner.did("restore") == [C, A, D])  # one buffer is left to writes
    assert value_of(store, C) == 2
    until(lambda: inner.did("restore") == [C, A, D, B])
    assert [value_of(store, item) for item in (A, D, B)] == [0, 3, 1]
    finish(store)
    assert inner.did("restore") == [C, A, D, B]
    store.close()


def test_a_buffer_serves_without_reading() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 2)
    inner.gate.clear()
    store.save(A, rows(1))
    store.save(B, rows(2))
    store.expect(B)
    assert [value_of(store, item) for item in (A, B, A)] == [1, 2, 1]
    inner.gate.set()
    finish(store)
    assert inner.did("restore") == []
    store.close()


def test_what_is_expected_stays_after_it_is_written() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 2)
    store.expect(A)
    store.save(A, rows(1))
    finish(store)
    assert value_of(store, A) == 1
    assert inner.did("restore") == []
    store.close()


def test_what_is_expected_again_is_read_once() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 2)
    store.save(A, rows(1))
    store.save(B, rows(2))
    finish(store)
    for item in (A, A, B, A):
        store.expect(item)
    until(lambda: inner.did("restore") == [A, B])
    assert [value_of(store, item) for item in (A, A, B, A)] == [1, 1, 2, 1]
    finish(store)
    assert inner.did("restore") == [A, B]
    store.close()


def test_what_is_wanted_sooner_takes_the_place_of_what_is_wanted_later() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 1)
    store.save(A, rows(1))
    store.save(B, rows(2))
    finish(store)
    for item in (A, B, A):
        store.expect(item)
    assert value_of(store, A) == 1
    until(lambda: inner.did("restore") == [A, B])
    assert value_of(store, B) == 2
    until(lambda: inner.did("restore") == [A, B, A])
    assert value_of(store, A) == 1
    store.close()


def test_a_save_takes_the_buffer_that_is_wanted_last() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 2)
    for value, item in enumerate((A, B)):
        store.save(item, rows(value))
    finish(store)
    store.expect(B)
    store.expect(A)
    until(lambda: inner.did("restore") == [B, A])
    inner.gate.clear()
    store.save(D, rows(3))
    assert value_of(store, B) == 1
    assert inner.did("restore") == [B, A]
    inner.gate.set()
    assert [value_of(store, item) for item in (D, A)] == [3, 0]
    store.close()


def test_a_save_that_waits_comes_before_reading_ahead() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 1)
    store.save(A, rows(1))
    finish(store)
    inner.gate.clear()
    store.save(B, rows(2))
    store.expect(A)
    waiting = Thread(target=lambda: store.save(D, rows(3)), daemon=True)
    waiting.start()
    until(lambda: inner.did("save") == [A, B])
    time.sleep(0.01)
    inner.gate.set()
    waiting.join(5)
    until(lambda: inner.did("restore") == [A])
    writes = [did for did in inner.log if did in (("save", D), ("restore", A))]
    assert writes == [("save", D), ("restore", A)]
    store.close()


def test_transfers_are_counted() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 2)
    store.save(A, [np.zeros(3), np.zeros((), np.uint8)])
    store.save(B, rows(0, 777))
    store.save(BIG, rows(0, 5 * ROOM + 1))
    assert store.transfers.written_nbytes == 25 + 777 + 5 * ROOM + 1
    assert store.transfers.read_nbytes == 0
    store.expect(B)
    until(lambda: store.transfers.read_nbytes == 777)
    assert value_of(store, B, 777) == 0
    assert value_of(store, BIG, 5 * ROOM + 1) == 0
    assert store.transfers.read_nbytes == 777 + 5 * ROOM + 1
    assert store.transfers.write_seconds > 0
    assert store.transfers.read_seconds > 0
    assert store.transfers.waited_seconds > 0
    store.clear()
    assert (store.transfers.written_nbytes, store.transfers.waited_seconds) == (0, 0)
    store.close()


# Bounds.


def test_a_slow_store_makes_a_save_wait() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 3)
    assert store.nbytes == 3 * ROOM
    inner.gate.clear()
    saved = []

    def save_all() -> None:
        for step in range(8):
            store.save(Item(step), rows(step))
            saved.append(step)

    caller = Thread(target=save_all, daemon=True)
    caller.start()
    until(lambda: len(saved) == 3)
    time.sleep(0.03)
    assert saved == [0, 1, 2]
    assert inner.did("save") == [Item(0)]
    inner.gate.set()
    caller.join(5)
    assert [value_of(store, Item(step)) for step in range(8)] == list(range(8))
    assert store.nbytes == 3 * ROOM
    store.close()


def test_larger_items_take_no_memory() -> None:
    inner = Inner()
    store = Background(inner, 0, 2)
    assert store.nbytes == 0
    store.save(A, rows(1))
    assert inner.did("save") == [A]
    store.expect(A)
    assert value_of(store, A) == 1
    store.save(B, [])
    store.restore(B, [])
    store.close()


@pytest.mark.parametrize("buffers", [0, -1])
def test_at_least_one_buffer(buffers: int) -> None:
    with pytest.raises(InvalidArgument, match="at least one"):
        Background(HeldStore(), ROOM, buffers)


# Failures.


@pytest.mark.parametrize("call", ["save", "restore", "drop"])
def test_writes_that_fail_are_said_at_the_next_call(call: str) -> None:
    inner = Inner(2000)
    store = Background(inner, ROOM, 5)
    inner.gate.clear()
    for step in range(5):
        store.save(Item(step), rows(step))
    inner.gate.set()
    until(lambda: len(inner.did("save")) == 5)
    with pytest.raises(StoreFull, match="in use") as caught:
        if call == "save":
            store.save(Item(7), rows(7))
        elif call == "restore":
            store.restore(Item(0), rows(0))
        else:
            store.drop(Item(0))
    assert caught.value.items == (Item(2), Item(3), Item(4))
    assert [value_of(store, Item(step)) for step in (0, 1)] == [0, 1]
    store.drop(Item(0))
    store.save(Item(4), rows(44))
    assert value_of(store, Item(4)) == 44
    store.drop(Item(1))
    store.drop(Item(4))
    finish(store)
    assert inner.nbytes == 0
    store.close()


def test_a_waiting_save_is_told_of_a_failure() -> None:
    inner = Inner(0)
    store = Background(inner, ROOM, 1)
    inner.gate.clear()
    store.save(A, rows(1))
    Timer(0.02, inner.gate.set).start()
    with pytest.raises(StoreFull) as caught:
        store.save(B, rows(2))
    assert caught.value.items == (A,)
    store.close()


def test_an_item_that_is_waited_for_has_its_own_failure() -> None:
    inner = Inner(2000)
    store = Background(inner, ROOM, 2)
    store.save(A, rows(1))
    with pytest.raises(StoreFull) as caught:
        store.save(BIG, rows(2, 5000))
    assert caught.value.items == (BIG,)
    assert value_of(store, A) == 1
    store.close()


def test_a_read_that_fails_beforehand() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 3)
    for value, item in enumerate((A, B, C)):
        store.save(item, rows(value))
    finish(store)
    inner.fails["restore", B] = ItemLost("one bit is not what it was", B)
    for item in (B, A, B, C):
        store.expect(item)
    until(lambda: B in inner.did("restore"))
    with pytest.raises(ItemLost, match="one bit") as caught:
        value_of(store, B)
    assert caught.value.items == (B,)
    assert [value_of(store, item) for item in (A, C)] == [0, 2]
    assert inner.did("restore").count(B) == 1
    finish(store)
    assert inner.nbytes == 2000
    store.close()


def test_reading_ahead_goes_on_after_a_failure() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 3)
    store.save(A, rows(1))
    finish(store)
    inner.fails["save", B] = StoreFull("full", B)
    inner.gate.clear()
    store.save(B, rows(2))
    store.expect(A)
    inner.gate.set()
    finish(store)
    assert inner.did("restore") == []
    with pytest.raises(StoreFull):
        store.drop(A)
    until(lambda: inner.did("restore") == [A])
    store.close()


class Odd(BaseException):
    pass


@pytest.mark.parametrize("error", [ZeroDivisionError("odd"), KeyError("odd"), Odd("odd")])
def test_failures_of_any_kind(error: BaseException) -> None:
    inner = Inner()
    store = Background(inner, ROOM, 2)
    inner.fails["save", A] = inner.fails["save", BIG] = error
    store.save(A, rows(1))
    until(lambda: inner.did("save") == [A])
    with pytest.raises(StoreFailed, match="odd") as caught:
        store.save(B, rows(2))
    assert caught.value.items == (A,)
    assert caught.value.__cause__ is error
    with pytest.raises(type(error), match="odd"):
        store.save(BIG, rows(3, 10_000))
    store.save(B, rows(2))
    assert value_of(store, B) == 2
    store.close()


def test_a_failure_names_its_item_even_if_the_store_within_does_not() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 2)
    inner.fails["save", A] = StoreFull("no room")
    store.save(A, rows(1))
    until(lambda: inner.did("save") == [A])
    with pytest.raises(StoreFull) as caught:
        store.save(B, rows(2))
    assert caught.value.items == (A,)
    store.close()


def test_a_drop_that_fails_is_said_as_well() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 2)
    store.save(A, rows(1))
    finish(store)
    inner.fails["drop", A] = OSError("stuck")
    store.drop(A)
    finish(store)
    with pytest.raises(StoreFailed, match="stuck"):
        store.save(B, rows(2))
    store.close()


def test_other_shapes_than_were_saved_are_refused_and_block_nothing() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 1)
    store.expect(A)
    store.save(A, rows(1, 1))
    with pytest.raises(ItemLost, match="other shapes"):
        store.restore(A, rows(0, 1000))
    store.save(B, rows(2))
    assert [value_of(store, B), value_of(store, A, 1)] == [2, 1]
    store.close()


def test_rows_that_are_no_bytes_in_a_row_are_refused() -> None:
    store = Background(HeldStore(), ROOM, 1)
    store.expect(A)
    store.save(A, rows(1))
    with pytest.raises(InvalidArgument, match="contiguous"):
        store.restore(A, [np.zeros(2000, np.uint8)[::2]])
    with pytest.raises(InvalidArgument, match="contiguous"):
        store.save(B, [np.zeros(2000, np.uint8)[::2]])
    assert value_of(store, A) == 1
    store.close()


# A new run, and the end.


def test_a_new_run_begins_with_nothing() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 4)
    for value, item in enumerate((A, B)):
        store.save(item, rows(value))
    finish(store)
    inner.gate.clear()
    store.save(C, rows(2))
    until(lambda: inner.did("save")[-1] == C)
    store.save(D, rows(3))
    store.drop(A)
    store.drop(C)
    store.expect(B)
    Timer(0.02, inner.gate.set).start()
    store.clear()
    assert inner.nbytes == 0
    assert D not in inner.did("save")
    for value, item in enumerate((A, B, C, D)):
        store.save(item, rows(10 + value))
    finish(store)
    assert [value_of(store, item) for item in (A, B, C, D)] == [10, 11, 12, 13]
    store.close()


def test_a_new_run_forgets_failures() -> None:
    inner = Inner(0)
    store = Background(inner, ROOM, 2)
    store.save(A, rows(1))
    until(lambda: inner.did("save") == [A])
    store.clear()
    inner.budget_nbytes = None
    store.save(A, rows(2))
    assert value_of(store, A) == 2
    store.close()


def test_closing_waits_for_the_transfer_and_gives_up_the_rest() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 4)
    memory = weakref.ref(store._thread.memory)
    inner.gate.clear()
    for step in range(3):
        store.save(Item(step), rows(step))
    until(lambda: inner.did("save") == [Item(0)])
    Timer(0.02, inner.gate.set).start()
    store.close()
    store.close()
    assert inner.did("save") == [Item(0)]
    assert (inner.nbytes, inner.closings, store.nbytes) == (0, 1, 0)
    assert memory() is None
    assert not store._thread._thread.is_alive()


def test_a_closed_store_says_so() -> None:
    store = Background(HeldStore(), ROOM)
    store.save(A, rows(1))
    store.close()
    store.clear()
    store.expect(A)
    for call in (
        lambda: store.save(A, rows(1)),
        lambda: store.restore(A, rows(1)),
        lambda: store.drop(A),
    ):
        with pytest.raises(StoreFailed, match="closed"):
            call()


def test_a_store_within_that_cannot_be_closed() -> None:
    class Stuck(HeldStore):
        def close(self) -> None:
            raise StoreFailed("stuck")

    store = Background(Stuck(), ROOM)
    with pytest.raises(StoreFailed, match="stuck"):
        store.close()
    store.close()
    assert not store._thread._thread.is_alive()


def test_the_thread_ends_with_the_store() -> None:
    inner = Inner()
    store = Background(inner, ROOM)
    store.save(A, rows(1))
    thread = store._thread._thread
    del store
    gc.collect()
    until(lambda: not thread.is_alive())
    assert inner.closings == 1


def test_the_store_may_be_collected_by_its_own_thread() -> None:
    class Collecting(Inner):
        def save(self, item: Item, rows: Rows) -> None:
            super().save(item, rows)
            gc.collect()

    class Holder:
        pass

    inner = Collecting()
    holder: Any = Holder()
    holder.me, holder.store = holder, Background(inner, ROOM)
    thread, gone = holder.store._thread._thread, weakref.ref(holder)
    inner.gate.clear()
    holder.store.save(A, rows(1))
    until(lambda: inner.did("save") == [A])
    gc.disable()
    try:
        del holder
        inner.gate.set()
        until(lambda: not thread.is_alive())
    finally:
        gc.enable()
    assert gone() is None
    assert inner.closings == 1


def test_the_thread_keeps_no_rows_alive() -> None:
    store = Background(HeldStore(), 0)
    kept = rows(1)
    gone = weakref.ref(kept[0])
    store.save(A, kept)
    with pytest.raises(ValueError, match="broadcast"):
        store.restore(A, [kept[0][:7]])
    del kept
    until(lambda: gone() is None)
    store.close()


END = """
import sys, time
import numpy as np
from retrograd.stores.background import Background
from retrograd.stores.disk import DiskStore
from retrograd.stores.tier import HeldStore, Item

class Slow(HeldStore):
    def save(self, item, rows):
        time.sleep(0.05)
        super().save(item, rows)

store = Background(eval(sys.argv[1]), 1 << 16, 3)
for step in range(3):
    store.save(Item(step), [np.zeros(1 << 16, np.uint8)])
store.expect(Item(0))
exec(sys.argv[2])
"""


@pytest.mark.parametrize(
    ("inner", "end", "code"),
    [
        ("DiskStore()", "", 0),
        ("Slow()", "", 0),
        ("Slow()", "sys.exit(3)", 3),
        ("Slow()", "raise KeyboardInterrupt", -signal.SIGINT),
    ],
)
def test_the_interpreter_ends(inner: str, end: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", END, inner, end], capture_output=True, text=True, timeout=9
    )
    assert done.returncode == code
    assert "thread" not in done.stderr.lower()
    assert bool(done.stderr) == (code < 0)


# Interrupts.


def interrupt_when(is_so: Callable[[], bool], then: Callable[[], None]) -> Thread:
    """Ctrl-C in the main thread, a moment after something is so."""

    def wait() -> None:
        until(is_so)
        time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.02)
        then()

    thread = Thread(target=wait, daemon=True)
    thread.start()
    return thread


def check_usable(store: Background, inner: Inner) -> None:
    store.clear()
    assert inner.nbytes == 0
    for value, item in enumerate((A, B, C, D, BIG)):
        store.save(item, rows(value))
    finish(store)
    for item in (D, C, B):
        store.expect(item)
    assert [value_of(store, item) for item in (D, C, B, A, BIG)] == [3, 2, 1, 0, 4]
    store.close()


@pytest.mark.parametrize("nbytes", [1000, 10 * ROOM])
def test_an_interrupted_save(nbytes: int) -> None:
    inner = Inner()
    store = Background(inner, ROOM, 1)
    inner.gate.clear()
    store.save(A, rows(1))
    thread = interrupt_when(lambda: inner.did("save") == [A], inner.gate.set)
    with pytest.raises(KeyboardInterrupt):
        store.save(B, rows(2, nbytes))
    thread.join()
    assert value_of(store, A) == 1
    finish(store)
    assert inner.did("save") == [A]
    check_usable(store, inner)


@pytest.mark.parametrize("is_begun", [True, False])
def test_an_interrupted_restore_leaves_the_rows_alone(is_begun: bool) -> None:
    """When the caller has gone on, the rows are something else's."""
    inner = Inner()
    store = Background(inner, ROOM, 3)
    store.save(A, rows(1))
    finish(store)
    inner.gate.clear()
    if not is_begun:
        store.save(B, rows(2))
    begun = ("restore", A) if is_begun else ("save", B)
    thread = interrupt_when(lambda: begun in inner.log, inner.gate.set)
    out = rows(255)
    with pytest.raises(KeyboardInterrupt):
        store.restore(A, out)
    out[0][:] = 100
    thread.join()
    finish(store)
    assert (out[0] == 100).all()
    assert inner.did("restore") == [A] * is_begun
    check_usable(store, inner)


def test_an_interrupted_wait_for_reading_ahead() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 1)
    store.save(A, rows(1))
    finish(store)
    inner.gate.clear()
    store.expect(A)
    until(lambda: inner.did("restore") == [A])
    thread = interrupt_when(lambda: True, inner.gate.set)
    with pytest.raises(KeyboardInterrupt):
        value_of(store, A)
    thread.join()
    store.save(B, rows(2))
    assert [value_of(store, item) for item in (A, B)] == [1, 2]
    check_usable(store, inner)


def test_an_interrupted_clear_can_be_repeated() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 2)
    inner.gate.clear()
    store.save(A, rows(1))
    store.save(B, rows(2))
    thread = interrupt_when(lambda: inner.did("save") == [A], inner.gate.set)
    with pytest.raises(KeyboardInterrupt):
        store.clear()
    thread.join()
    check_usable(store, inner)


def test_what_is_expected_no_more_gives_way() -> None:
    inner = Inner()
    store = Background(inner, ROOM, 2)
    for value, item in enumerate((A, B, C)):
        store.save(item, rows(value))
    finish(store)
    store.expect(A)
    store.expect(B)
    until(lambda: inner.did("restore") == [A, B])
    store.expect(C)
    finish(store)
    assert inner.did("restore") == [A, B]
    store.expect_nothing()
    store.expect(C)
    until(lambda: inner.did("restore") == [A, B, C])
    assert [value_of(store, item) for item in (A, B, C)] == [0, 1, 2]
    store.close()
