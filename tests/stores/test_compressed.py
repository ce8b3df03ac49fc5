"""A compressing store: the same arrays, fewer bytes, and the inner store's errors as they are."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from retrograd.errors import ItemLost, StoreFailed, StoreFull
from retrograd.stores.codecs import Codec, Encoded, Lossless, Tolerance
from retrograd.stores.compressed import Compressed, Statistics
from retrograd.stores.spilling import Spilling
from retrograd.stores.tier import HeldStore, Item, Rows

pytest.importorskip("blosc2")
pytest.importorskip("zfpy")

CODECS = [Lossless(), Tolerance(1e-3)]
DTYPES = ["f4", "f8", "c8", "i4", "?", "f2", "u2", "i8", "c16"]


def state(arrays: int, seed: int = 0) -> list[Any]:
    """Arrays of mixed dtypes and shapes: smooth, noisy, zero, tiny and empty."""
    rng = np.random.default_rng(seed)
    rows = []
    for index in range(arrays):
        dtype = DTYPES[index]
        shape = [(20, 21, 22), (), (70, 3), (0, 4), (65,)][(index + seed) % 5]
        kind = (index + 2 * seed) % 3
        values = np.cumsum(rng.standard_normal(shape), axis=-1) if shape else rng.random()
        rows.append(np.array(values if kind else np.zeros(shape)).astype(dtype))
    return rows


def empty_like(rows: Rows) -> list[Any]:
    return [np.ones_like(row) for row in rows]


@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("stop", [None, 40])
def test_items_come_back(codec: Codec, stop: int | None) -> None:
    inner = HeldStore()
    store = Compressed(inner, codec)
    states = {Item(start, stop): state(1 + start % 9, start) for start in range(18)}
    for item, rows in states.items():
        store.save(item, rows)
    kept = inner.nbytes
    assert kept == store.statistics.compressed_nbytes
    assert store.statistics.raw_nbytes == sum(row.nbytes for s in states.values() for row in s)
    assert kept <= store.worst_nbytes(store.statistics.raw_nbytes)
    for item, rows in reversed(states.items()):
        outs = empty_like(rows)
        store.restore(item, outs)
        for out, row in zip(outs, rows, strict=True):
            if codec.is_lossless or row.dtype.kind not in "fc" or row.dtype == np.float16:
                assert out.tobytes() == row.tobytes()
            elif row.size:
                assert np.abs(out - row).max() <= 1e-3 * np.abs(row).max()
        store.drop(item)
    assert inner.nbytes == 0
    assert (store.statistics.largest_relative_error > 0) is not codec.is_lossless
    assert store.statistics.largest_relative_error <= 1e-3


def test_noise_takes_no_more_than_it_has() -> None:
    rng = np.random.default_rng(5)
    rows = [np.frombuffer(rng.bytes(n), np.uint8) for n in (1, 2, 40, 5000, 0)]
    inner = HeldStore()
    store = Compressed(inner, Lossless())
    store.save(Item(0), rows)
    assert inner.nbytes == 5043 == store.worst_nbytes(5043)


def test_items_without_bytes() -> None:
    store = Compressed(HeldStore(), Lossless())
    for item, rows in ((Item(0), []), (Item(1), [np.empty((3, 0))])):
        store.save(item, rows)
        store.restore(item, rows)


def growing(steps: int, extra: int = 0) -> Any:
    """A block of moments of which each is ten times as strong as the one before."""
    moment = np.sin(np.linspace(0, 9, 4000, dtype=np.float32)).reshape(40, 100)
    return np.stack([moment * np.float32(10.0 ** (k - 6)) for k in range(steps + extra)])


@pytest.mark.parametrize("extra", [0, 1, 2])
def test_each_moment_of_records_has_its_own_scale(extra: int) -> None:
    rows = [growing(12, extra), np.arange(12)]
    store = Compressed(HeldStore(), Tolerance(1e-3))
    store.save(Item(5, 17), rows)
    assert store.statistics.ratio > 3
    outs = empty_like(rows)
    store.restore(Item(5, 17), outs)
    for out, moment in zip(outs[0], rows[0], strict=True):
        assert 0 < np.abs(out - moment).max() <= 1e-3 * np.abs(moment).max()
    assert np.array_equal(outs[1], rows[1])


def test_a_restart_has_one_scale_an_array() -> None:
    rows = [growing(12), growing(12) * np.float32(1e-9)]
    store = Compressed(HeldStore(), Tolerance(1e-3))
    store.save(Item(5), rows)
    outs = empty_like(rows)
    store.restore(Item(5), outs)
    for out, row in zip(outs, rows, strict=True):
        assert 0 < np.abs(out - row).max() <= 1e-3 * np.abs(row).max()
        assert np.abs(out - row)[0].max() > 0.5 * np.abs(row[0]).max()  # weak moments are lost


def test_only_what_may_be_lost_is_cut_into_moments() -> None:
    class Watched:
        is_lossless = False

        def encode(self, array: Any) -> Encoded:
            seen.append(array.shape)
            return Encoded(array.tobytes())

        def decode(self, encoded: Any, out: Any) -> None:
            raise NotImplementedError

    seen: list[tuple[int, ...]] = []
    store = Compressed(HeldStore(), Watched())
    rows = [np.ones((3, 5)), np.ones((3, 5), int), np.ones((90, 5)), np.ones(3), np.array(1.0)]
    store.save(Item(0, 2), rows)
    assert seen == [(1, 5)] * 3 + [(3, 5), (90, 5)] + [(1,)] * 3 + [()]
    seen.clear()
    store.save(Item(0), rows)
    assert seen == [row.shape for row in rows]


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_the_budget_of_the_inner_store_holds(codec: Codec) -> None:
    inner = HeldStore(40_000)
    store = Compressed(inner, codec)
    rows = state(1)
    rows[0] += np.random.default_rng(9).standard_normal(rows[0].shape).astype("f4")
    rows[0] += 1
    kept = 0
    with pytest.raises(StoreFull) as raised:
        for kept in range(100):
            store.save(Item(kept), rows)
            assert inner.nbytes <= 40_000
    assert raised.value.items == (Item(kept),)
    assert 1 <= kept < 99
    assert inner.nbytes <= 40_000
    assert store.statistics.raw_nbytes == kept * rows[0].nbytes
    for step in range(kept):
        outs = empty_like(rows)
        store.restore(Item(step), outs)
        assert np.abs(outs[0] - rows[0]).max() <= 1e-3 * np.abs(rows[0]).max()
    store.drop(Item(0))
    store.save(Item(kept), rows)


class Failing(HeldStore):
    """Fails as it is told, once."""

    failure: Exception | None = None

    def _fail(self) -> None:
        failure, self.failure = self.failure, None
        if failure:
            raise failure

    def save(self, item: Item, rows: Rows) -> None:
        self._fail()
        super().save(item, rows)

    def restore(self, item: Item, rows: Rows) -> None:
        self._fail()
        super().restore(item, rows)


def test_failures_of_the_inner_store_pass_through() -> None:
    inner = Failing()
    store = Compressed(inner, Lossless())
    rows = state(3)
    for failure in (StoreFull("full", Item(0)), StoreFailed("broken", Item(0))):
        inner.failure = failure
        with pytest.raises(StoreFailed) as raised:
            store.save(Item(0), rows)
        assert raised.value is failure
    assert store.statistics == Statistics()
    store.save(Item(0), rows)
    inner.failure = ItemLost("lost", Item(0))
    with pytest.raises(ItemLost, match="^lost$"):
        store.restore(Item(0), rows)
    assert store.statistics.decoded_nbytes == 0
    store.drop(Item(0))
    assert inner.nbytes == 0


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_damage_that_shows_is_an_item_lost(codec: Codec) -> None:
    class Damaging(HeldStore):
        def restore(self, item: Item, rows: Rows) -> None:
            super().restore(item, rows)
            rows[0][:] = 255

    store = Compressed(Damaging(), codec)
    rows = [np.linspace(0, 1, 5000, dtype=np.float32)]
    store.save(Item(3, 4), rows)
    with pytest.raises(ItemLost, match="the records of steps 3 … 3 cannot be decompressed") as lost:
        store.restore(Item(3, 4), rows)
    assert lost.value.items == (Item(3, 4),)


def test_other_rows_than_were_saved_are_refused() -> None:
    store = Compressed(HeldStore(), Lossless())
    rows = [np.linspace(0, 1, 500), np.arange(3)]
    for wrong in (rows[:1], [*rows, rows[0]], [np.empty(501), rows[1]]):
        store.save(Item(0), rows)
        with pytest.raises(ItemLost, match="the restart at step 0"):
            store.restore(Item(0), wrong)


def test_statistics_are_of_a_run() -> None:
    class Half:
        is_lossless = False

        def encode(self, array: Any) -> Encoded:
            return Encoded(bytes(array.nbytes // 2), 0.25 if array.any() else 0.125)

        def decode(self, encoded: Any, out: Any) -> None:
            out[...] = 0

    store = Compressed(HeldStore(), Half())
    fresh = store.statistics
    assert math.isnan(fresh.ratio)
    assert math.isnan(fresh.encode_rate)
    assert math.isnan(fresh.decode_rate)
    store.save(Item(0), [np.ones(100, np.uint8), np.zeros(50, np.uint8)])
    store.restore(Item(0), [np.ones(100, np.uint8), np.zeros(50, np.uint8)])
    assert (fresh.raw_nbytes, fresh.compressed_nbytes, fresh.decoded_nbytes) == (150, 75, 150)
    assert (fresh.ratio, fresh.largest_relative_error) == (2, 0.25)
    assert fresh.encode_rate == 150 / fresh.encode_seconds
    assert fresh.decode_rate == 150 / fresh.decode_seconds
    store.clear()
    assert store.statistics == Statistics()
    assert fresh.raw_nbytes == 150


def test_clear_and_close_give_everything_up() -> None:
    inner = HeldStore()
    store = Compressed(inner, Lossless())
    for _ in range(2):
        store.save(Item(0), state(4))
        store.clear()
        assert inner.nbytes == 0
    store.save(Item(0), state(4))
    store.close()
    store.close()
    assert inner.nbytes == 0


def test_compressed_items_spill() -> None:
    first, then = HeldStore(20_000), HeldStore()
    spilling = Spilling(first, then)
    store = Compressed(spilling, Tolerance(1e-2))
    rows = [np.sin(np.linspace(0, 9, 8000, dtype=np.float32)).reshape(20, 20, 20)]
    for step in range(10):
        store.save(Item(step), rows)
    assert 0 < spilling.spilled < 10
    for step in range(10):
        outs = empty_like(rows)
        store.restore(Item(step), outs)
        assert np.abs(outs[0] - rows[0]).max() <= 1e-2
        store.drop(Item(step))
    assert (first.nbytes, then.nbytes) == (0, 0)


class Counting(HeldStore):
    """Keeps nothing but the size."""

    def save(self, item: Item, rows: Rows) -> None:
        self.nbytes += rows[0].nbytes


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("noisy", [False, True])
def test_temporary_memory_is_what_the_docstring_says(codec: Codec, noisy: bool) -> None:
    rng = np.random.default_rng(2)
    rows = [np.zeros((64, 128, 128), np.float32) for _ in range(4)]
    for row in rows:
        row[:] = rng.standard_normal(row.shape) if noisy else np.linspace(0, 1, 128)
    store = Compressed(Counting(), codec)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    store.save(Item(0), rows)
    taken = tracemalloc.get_traced_memory()[1] - before
    item, pieces = store.statistics.compressed_nbytes, 6 << 20
    assert taken <= 9 * item // 8 + rows[0].nbytes * 9 // 8 + pieces
