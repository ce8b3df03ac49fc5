"""Items on disk: the same bits or an error that names the item, and nothing left of them."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrograd.errors import InvalidArgument, ItemLost, StoreFailed, StoreFull
from retrograd.sizes import PAGE
from retrograd.stores.disk import DiskStore
from retrograd.stores.pages import zeros
from retrograd.stores.tier import Item

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="O_DIRECT and /proc are Linux's"
)

A, B, C = Item(3), Item(4, 9), Item(5)
MIB = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskStore]:
    store = DiskStore(tmp_path)
    yield store
    assert list(tmp_path.iterdir()) == []
    store.close()


def noise(nbytes: int, seed: int = 0) -> Any:
    return np.frombuffer(random.Random(seed).randbytes(nbytes), np.uint8)


def aligned(nbytes: int, seed: int = 0) -> Any:
    """Bytes that begin at a page's border, which need no copy."""
    memory = zeros(nbytes)
    memory[:] = noise(nbytes, seed)
    assert not nbytes or memory.ctypes.data % PAGE == 0
    return memory


def back(store: DiskStore, item: Item, rows: list[Any], *, in_pages: bool = False) -> list[bytes]:
    """The bytes of an item, read into one piece of whole pages or into rows here and there."""
    if in_pages:
        memory, out, at = zeros(sum(row.nbytes for row in rows)), [], 0
        memory[:] = 77
        for row in rows:
            out.append(np.ndarray(row.shape, row.dtype, memory.data, at))
            at += row.nbytes
    else:
        out = [np.full(row.nbytes, 77, np.uint8).view(row.dtype).reshape(row.shape) for row in rows]
    store.restore(item, out)
    return [row.tobytes() for row in out]


def same(store: DiskStore, item: Item, rows: list[Any]) -> bool:
    return back(store, item, rows) == [row.tobytes() for row in rows]


def blocks_nbytes(store: DiskStore) -> int:
    return os.fstat(store._file).st_blocks * 512


# What comes back.


@pytest.mark.parametrize("count", range(1, 10))
def test_mixed_rows(store: DiskStore, count: int) -> None:
    dtypes = ["f8", "?", "c8", "i2", "f4", "u1", "c16", "f2", "i8"]
    shapes = [(3, 5, 7), (), (1,), (0, 4), (4095,), (257, 3)]
    rng = random.Random(count)
    items = {}
    for item in (A, B, C):
        rows = []
        for dtype in rng.sample(dtypes, count):
            shape = rng.choice(shapes)
            nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
            bits = noise(nbytes, rng.randrange(99)) & 1  # any bits are no bool
            rows.append(bits.view(dtype).reshape(shape))
        items[item] = rows
        store.save(item, rows)
    assert all(same(store, item, rows) for item, rows in items.items())


@pytest.mark.parametrize("nbytes", [0, 1, 4095, 4096, 4097, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1])
@pytest.mark.parametrize("place", [aligned, noise])
def test_sizes(store: DiskStore, nbytes: int, place: Any) -> None:
    rows, was_direct = [place(nbytes)], store.is_direct
    store.save(A, rows)
    assert store.nbytes == -(-nbytes // PAGE) * PAGE
    for in_pages in (False, True):
        assert back(store, A, rows, in_pages=in_pages) == [rows[0].tobytes()]
    assert store.is_direct == was_direct


def test_rows_that_follow_each_other_in_memory(store: DiskStore) -> None:
    memory = aligned(3 * PAGE + 100)
    rows = np.split(memory[: 3 * PAGE], [10, PAGE, PAGE + 1])
    store.save(A, rows)
    assert back(store, A, rows, in_pages=True) == [row.tobytes() for row in rows]
    assert store._bounce is None, "pages of adjacent rows need no copy"
    store.drop(A)
    for cuts in ([PAGE], [1, 2, 3 * PAGE], [PAGE, PAGE], [0, 5000], [3 * PAGE + 100]):
        rows = np.split(memory, cuts)
        store.save(A, rows)
        for in_pages in (False, True):
            assert back(store, A, rows, in_pages=in_pages) == [row.tobytes() for row in rows]
        store.drop(A)
    rows = [memory[PAGE:], memory[:PAGE]]
    store.save(A, rows)
    assert same(store, A, rows)


def test_many_rows_through_the_bounce_buffer(store: DiskStore) -> None:
    rows = [noise(size, size) for size in (3 * MIB, 1, 2 * MIB, 5 * MIB + 3, 0, 9)]
    store.save(A, rows)
    assert same(store, A, rows)


def test_an_item_without_rows(store: DiskStore) -> None:
    store.save(A, [])
    store.restore(A, [])
    store.drop(A)
    assert store.nbytes == 0


def test_what_is_saved_is_a_copy(store: DiskStore) -> None:
    row = aligned(PAGE)
    before = row.tobytes()
    store.save(A, [row])
    row[:] = 0
    assert back(store, A, [row]) == [before]


@pytest.mark.parametrize("seed", range(8))
def test_at_random(store: DiskStore, seed: int) -> None:
    """Holes of all sizes, so that most items lie in several parts."""
    rng = random.Random(seed)
    held: dict[Item, list[Any]] = {}
    used: dict[Item, int] = {}
    for move in range(120):
        item = Item(rng.randrange(8), rng.choice([None, 100]))
        if item not in held:
            place = rng.choice([aligned, noise])
            sizes = [rng.choice([1, 50, 4096, 9000, 30_000]) for _ in range(rng.randint(1, 3))]
            held[item] = [place(size, move) for size in sizes]
            used[item] = -(-sum(sizes) // PAGE) * PAGE
            store.save(item, held[item])
        elif rng.random() < 0.5:
            store.drop(item)
            del held[item], used[item]
        else:
            in_pages = rng.random() < 0.5
            assert back(store, item, held[item], in_pages=in_pages) == [
                row.tobytes() for row in held[item]
            ]
        assert store.nbytes == sum(used.values())
    assert any(len(kept.extents) > 1 for kept in store._kept.values())
    assert all(same(store, item, rows) for item, rows in held.items())


def test_rows_that_are_no_bytes_in_a_row_are_refused(store: DiskStore) -> None:
    store.save(A, [noise(50)])
    with pytest.raises(InvalidArgument, match="contiguous"):
        store.restore(A, [np.zeros(100, np.uint8)[::2]])
    with pytest.raises(InvalidArgument, match="contiguous"):
        store.save(B, [noise(100)[::2]])
    assert store.nbytes == PAGE
    assert same(store, A, [noise(50)])


# Room.


def test_the_file_does_not_grow_from_run_to_run(store: DiskStore) -> None:
    sizes = [PAGE, 50_000, 3, 200_000]
    grown = []
    for run in range(6):
        for step, size in enumerate(sizes):
            store.save(Item(step), [noise(size, run)])
        for step in (1, 0):
            store.drop(Item(step))
        store.save(Item(9), [noise(50_000 + PAGE, run)])
        assert same(store, Item(9), [noise(50_000 + PAGE, run)])
        grown.append(blocks_nbytes(store))
        store.clear()
        assert store.nbytes == 0
    assert grown == grown[:1] * 6
    assert grown[0] <= sum(sizes) + 4 * PAGE


def test_the_budget_is_kept(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, budget_nbytes=5 * PAGE + 17)
    store.save(A, [noise(2 * PAGE)])
    assert blocks_nbytes(store) >= 5 * PAGE, "the room is reserved"
    store.save(B, [noise(PAGE + 1, 1)])
    for nbytes in (PAGE + 1, 10 * MIB):
        with pytest.raises(StoreFull, match="restart at step 5 takes") as caught:
            store.save(C, [noise(nbytes)])
        assert caught.value.items == (C,)
        assert store.nbytes == 4 * PAGE
    assert same(store, A, [noise(2 * PAGE)])
    assert same(store, B, [noise(PAGE + 1, 1)])
    store.save(C, [noise(PAGE, 2)])
    assert store.nbytes == 5 * PAGE
    store.drop(A)
    store.save(A, [noise(PAGE, 3)])
    assert same(store, C, [noise(PAGE, 2)])
    store.close()


def test_more_than_the_disk_has_is_refused_at_once(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, budget_nbytes=1 << 60)
    with pytest.raises(StoreFull, match="free, and .* wanted: give a smaller disk="):
        store.reserve()
    with pytest.raises(StoreFull) as caught:
        store.save(A, [noise(1)])
    assert caught.value.items == (A,)
    assert (store.nbytes, blocks_nbytes(store)) == (0, 0)
    store.close()


def test_clear_and_close_twice(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, 10 * PAGE)
    store.save(A, [noise(5000)])
    store.clear()
    store.clear()
    store.save(A, [noise(6000)])
    file = store._file
    store.close()
    store.close()
    store.clear()
    assert store.nbytes == 0
    assert store._bounce is None
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(file)
    with pytest.raises(StoreFailed, match="closed"):
        store.save(A, [noise(1)])


def test_a_store_that_is_forgotten_closes_its_file(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    file = store._file
    del store
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(file)


# Where.


@pytest.mark.parametrize("name", ["plain", "with spaces", "sch\u00f6n \u2026 \u6ce2", "a/b"])
@pytest.mark.parametrize("kind", [str, Path, lambda path: f"{path}/"])
def test_directories(tmp_path: Path, name: str, kind: Any) -> None:
    directory = tmp_path / name
    directory.mkdir(parents=True)
    store = DiskStore(kind(directory))
    store.save(A, [noise(5000)])
    assert list(directory.iterdir()) == []
    assert same(store, A, [noise(5000)])
    store.close()


def test_home_and_temporary_directories(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    store = DiskStore("~/scratch")
    assert store.directory == tmp_path / "scratch"
    store.close()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = DiskStore()
    assert store.directory == tmp_path
    store.close()


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("missing", "file", "file/below", "x" * 300):
        with pytest.raises(InvalidArgument, match=r"takes no files .*: name an existing directory"):
            DiskStore(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_directory_that_may_not_be_written_is_refused() -> None:
    if not Path("/proc/self").is_dir():
        pytest.skip("no /proc, where not even root makes files")
    with pytest.raises(InvalidArgument, match="takes no files"):
        DiskStore("/proc/self")


def test_the_directory_may_go(tmp_path: Path) -> None:
    directory = tmp_path / "scratch"
    directory.mkdir()
    store = DiskStore(directory)
    store.save(A, [noise(5000)])
    directory.rmdir()
    store.save(B, [noise(6000)])
    assert same(store, A, [noise(5000)])
    assert same(store, B, [noise(6000)])
    store.close()


def test_two_stores_in_one_directory(tmp_path: Path) -> None:
    first, second = DiskStore(tmp_path), DiskStore(tmp_path)
    first.save(A, [noise(5000, 1)])
    second.save(A, [noise(5000, 2)])
    assert same(first, A, [noise(5000, 1)])
    first.close()
    assert same(second, A, [noise(5000, 2)])
    second.close()


def test_a_store_for_each_of_many_threads(tmp_path: Path) -> None:
    def work(seed: int) -> bool:
        store = DiskStore(tmp_path, 30 * PAGE)
        good = True
        for n in range(20):
            rows = [noise(7000, 100 * seed + n), aligned(PAGE, n)]
            store.save(Item(n), rows)
            good &= same(store, Item(n), rows)
            if n >= 5:
                store.drop(Item(n - 5))
        store.close()
        return good

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert list(tmp_path.iterdir()) == []


KILLED = """
import sys, time
import numpy as np
from retrograd.stores.disk import DiskStore
from retrograd.stores.tier import Item
store = DiskStore(sys.argv[1])
store.save(Item(0), [np.full(600_000, 7, np.uint8)])
print("saved", flush=True)
time.sleep(60)
"""


def test_nothing_is_left_when_the_process_is_killed(tmp_path: Path, small_disk: Path) -> None:
    for directory in (tmp_path, small_disk):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(directory)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "saved\n"
        assert list(directory.iterdir()) == []
        if directory == small_disk:
            assert free_nbytes(directory) < MIB - 600_000
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert list(directory.iterdir()) == []
    assert free_nbytes(small_disk) == MIB


# Disks that are full.


@pytest.fixture
def small_disk(tmp_path_factory: Any) -> Iterator[Path]:
    """A file system of 1 MiB."""
    directory = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(directory)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"file systems cannot be mounted here: {error}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def free_nbytes(directory: Path) -> int:
    free = os.statvfs(directory)
    return free.f_bavail * free.f_frsize


@pytest.mark.parametrize("budget", [None, 900_000])
@pytest.mark.parametrize("place", [aligned, noise])
def test_a_full_disk(small_disk: Path, budget: int | None, place: Any) -> None:
    store = DiskStore(small_disk, budget)
    for step in range(2):
        store.save(Item(step), [place(400_000, step)])
    used = store.nbytes
    for _ in range(3):
        with pytest.raises(StoreFull, match="the restart at step 2") as caught:
            store.save(Item(2), [place(400_000, 2)])
        assert caught.value.items == (Item(2),)
        assert store.nbytes == used
    assert all(same(store, Item(step), [noise(400_000, step)]) for step in range(2))
    store.drop(Item(0))
    store.save(Item(2), [place(400_000, 2)])
    assert all(same(store, Item(step), [noise(400_000, step)]) for step in (1, 2))
    store.close()
    assert free_nbytes(small_disk) == MIB


def test_a_budget_that_the_disk_does_not_have(small_disk: Path, monkeypatch: Any) -> None:
    store = DiskStore(small_disk, 2 * MIB)
    with pytest.raises(StoreFull, match="1.05 MB free, and 2.1 MB are wanted"):
        store.save(A, [noise(10)])
    free = os.fstatvfs(store._file)
    plenty = os.statvfs_result((*free[:4], 10**6, *free[5:]))
    monkeypatch.setattr(os, "fstatvfs", lambda file: plenty)  # someone else is faster
    with pytest.raises(StoreFull, match="are wanted"):
        store.save(A, [noise(10)])
    assert blocks_nbytes(store) == 0
    assert free_nbytes(small_disk) == MIB
    store.close()


def test_room_that_was_reserved_in_part_is_given_back(tmp_path: Path, monkeypatch: Any) -> None:
    def take_a_part(file: int, nbytes: int) -> bool:
        os.posix_fallocate(file, 0, nbytes // 2)
        return False

    monkeypatch.setattr("retrograd.stores.disk._allocate", take_a_part)
    store = DiskStore(tmp_path, 10 * PAGE)
    with pytest.raises(StoreFull, match="are wanted"):
        store.save(A, [noise(10)])
    assert blocks_nbytes(store) == 0
    store.close()


def test_reserved_room_cannot_be_taken(small_disk: Path) -> None:
    store = DiskStore(small_disk, 600_000)
    store.save(A, [noise(10)])
    with pytest.raises(OSError, match="No space"), open(small_disk / "other", "wb") as other:
        other.write(bytes(MIB))
    store.save(B, [noise(500_000)])
    assert same(store, B, [noise(500_000)])
    store.close()


# Disks that fail.


def replace_calls(monkeypatch: Any, name: str, fake: Callable[..., Any]) -> None:
    """Let ``fake`` stand for ``os.name``; it is given the real one first."""
    real = getattr(os, name)
    monkeypatch.setattr(os, name, lambda *args: fake(real, *args))


@pytest.mark.parametrize("most", [PAGE, 3 * PAGE, 512, 1000, PAGE + 1])
@pytest.mark.parametrize("place", [aligned, noise])
@pytest.mark.parametrize("name", ["pwrite", "preadv"])
def test_transfers_in_pieces(
    store: DiskStore, monkeypatch: Any, most: int, place: Any, name: str
) -> None:
    def short(real: Any, file: int, part: Any, at: int) -> int:
        return int(
            real(file, part[:most], at) if name == "pwrite" else real(file, [part[0][:most]], at)
        )

    rows = [place(50_000, most)]
    with monkeypatch.context() as patch:
        if name == "pwrite":
            replace_calls(patch, name, short)
        store.save(A, rows)
    with monkeypatch.context() as patch:
        if name == "preadv":
            replace_calls(patch, name, short)
        assert same(store, A, rows)
    assert same(store, A, rows)


def test_a_disk_that_takes_nothing(store: DiskStore, monkeypatch: Any) -> None:
    store.save(A, [noise(5000)])
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *args: 0)
        with pytest.raises(StoreFailed, match="too early") as caught:
            store.save(B, [noise(9000)])
    assert caught.value.items == (B,)
    assert store.nbytes == 2 * PAGE
    assert same(store, A, [noise(5000)])


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EFBIG, StoreFull),
        (errno.EIO, StoreFailed),
    ],
)
@pytest.mark.parametrize("good_calls", [0, 1])
def test_writes_that_fail(
    store: DiskStore, monkeypatch: Any, code: int, kind: type, good_calls: int
) -> None:
    left = [good_calls]

    def failing(real: Any, *args: Any) -> Any:
        if not left[0]:
            raise OSError(code, os.strerror(code))
        left[0] -= 1
        return real(*args)

    store.save(A, [noise(5000)])
    with monkeypatch.context() as patch:
        replace_calls(patch, "pwrite", failing)
        with pytest.raises(StoreFailed, match="the records of steps 4 … 8 cannot be") as caught:
            store.save(B, [aligned(5000)])
    assert type(caught.value) is kind
    assert caught.value.items == (B,)
    assert os.strerror(code) in str(caught.value)
    assert store.nbytes == 2 * PAGE
    store.save(B, [noise(9000)])
    assert same(store, A, [noise(5000)])
    assert same(store, B, [noise(9000)])


def test_an_interrupted_save_gives_its_room_back(store: DiskStore, monkeypatch: Any) -> None:
    def interrupted(*_: Any) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.save(A, [noise(9000)])
    assert store.nbytes == 0
    store.save(A, [noise(9000)])
    assert same(store, A, [noise(9000)])


def test_reads_that_fail(store: DiskStore, monkeypatch: Any) -> None:
    def failing(*_: Any) -> int:
        raise OSError(errno.EIO, "a bad sector")

    store.save(A, [noise(5000)])
    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", failing)
        with pytest.raises(
            ItemLost, match="restart at step 3 cannot be read.*bad sector"
        ) as caught:
            back(store, A, [noise(5000)])
    assert caught.value.items == (A,)
    assert store.nbytes == 0
    store.save(A, [noise(5000)])
    assert same(store, A, [noise(5000)])


@pytest.mark.parametrize("place", [aligned, noise])
@pytest.mark.parametrize("at", [0, 1, PAGE - 1, PAGE, 5 * PAGE + 17, 50_000 - 1])
def test_one_byte_is_changed(store: DiskStore, place: Any, at: int) -> None:
    for step in range(3):
        store.save(Item(step), [place(50_000, step)])
    start = store._kept[Item(1)].extents[0][0]
    with open(f"/proc/self/fd/{store._file}", "r+b", buffering=0) as file:
        byte = os.pread(file.fileno(), 1, start + at)
        os.pwrite(file.fileno(), bytes([byte[0] ^ 0x10]), start + at)
        os.fsync(file.fileno())
    with pytest.raises(ItemLost, match="the restart at step 1 was changed on the disk") as caught:
        back(store, Item(1), [noise(50_000)], in_pages=place is aligned)
    assert caught.value.items == (Item(1),)
    assert all(same(store, Item(step), [noise(50_000, step)]) for step in (0, 2))


def test_pages_that_are_swapped(store: DiskStore) -> None:
    store.save(A, [aligned(2 * PAGE)])
    pages = zeros(2 * PAGE)
    os.preadv(store._file, [pages], 0)
    pages[:PAGE], pages[PAGE:] = pages[PAGE:].copy(), pages[:PAGE].copy()
    os.pwrite(store._file, pages.data, 0)
    with pytest.raises(ItemLost, match="changed"):
        back(store, A, [pages])


@pytest.mark.parametrize("left", [0, PAGE, 49_152, 49_500])
@pytest.mark.parametrize("place", [aligned, noise])
def test_a_file_that_became_shorter(store: DiskStore, left: int, place: Any) -> None:
    store.save(A, [place(50_000)])
    os.ftruncate(store._file, left)
    with pytest.raises(ItemLost, match="the restart at step 3 cannot be read.*too early"):
        back(store, A, [noise(50_000)], in_pages=place is aligned)
    store.clear()
    store.save(A, [place(50_000)])
    assert same(store, A, [noise(50_000)])


def test_another_length_than_was_saved(store: DiskStore) -> None:
    store.save(A, [noise(5000)])
    with pytest.raises(ItemLost, match="5000 bytes, and 5001 are asked for"):
        back(store, A, [noise(5001)])


# File systems that lack something.


def refuse_direct(patch: Any) -> None:
    real = fcntl.fcntl

    def fake(file: int, command: int, value: int = 0) -> int:
        if command == fcntl.F_SETFL and value & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(file, command, value)

    patch.setattr(fcntl, "fcntl", fake)


def check(store: DiskStore, directory: Path) -> None:
    """Room that is used again, in all ways to write and read."""
    assert list(directory.iterdir()) == []
    rows = [noise(5 * MIB, 1), aligned(PAGE + 5, 2)]
    for item in (A, B, C):
        store.save(item, [aligned(50_000, item.start)])
    store.drop(B)
    store.save(B, rows)
    assert same(store, B, rows)
    for in_pages in (False, True):
        out = back(store, A, [noise(50_000)], in_pages=in_pages)
        assert out == [noise(50_000, A.start).tobytes()]


def test_without_a_way_past_the_page_cache(tmp_path: Path, monkeypatch: Any) -> None:
    refuse_direct(monkeypatch)
    store = DiskStore(tmp_path)
    assert not store.is_direct
    check(store, tmp_path)
    store.close()


@pytest.mark.parametrize("name", ["pwrite", "preadv"])
def test_a_way_past_the_page_cache_that_turns_out_to_be_none(
    tmp_path: Path, monkeypatch: Any, name: str
) -> None:
    def fake(real: Any, file: int, *args: Any) -> Any:
        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(file, *args)

    store = DiskStore(tmp_path)
    if not store.is_direct:
        pytest.skip(f"{tmp_path} is on a file system without O_DIRECT")
    store.save(Item(0), [noise(9000)])
    replace_calls(monkeypatch, name, fake)
    check(store, tmp_path)
    assert not store.is_direct
    assert same(store, Item(0), [noise(9000)])
    store.close()


def test_an_argument_that_is_invalid_for_another_reason(store: DiskStore, monkeypatch: Any) -> None:
    def refusing(*_: Any) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "pwrite", refusing)
    with pytest.raises(StoreFailed, match="Invalid argument"):
        store.save(A, [noise(1)])


@pytest.mark.parametrize("lacks", ["the file system", "the system"])
def test_without_files_that_have_no_name(tmp_path: Path, monkeypatch: Any, lacks: str) -> None:
    if lacks == "the system":
        monkeypatch.delattr(os, "O_TMPFILE")
    else:
        unnamed = os.O_TMPFILE

        def fake(real: Any, path: Any, flags: int, mode: int = 0o777) -> int:
            if flags & unnamed == unnamed:
                raise OSError(errno.EOPNOTSUPP, "Operation not supported")
            return int(real(path, flags, mode))

        replace_calls(monkeypatch, "open", fake)
    store = DiskStore(tmp_path)
    check(store, tmp_path)
    store.close()
    with pytest.raises(InvalidArgument, match="takes no files"):
        DiskStore(tmp_path / "missing")


@pytest.mark.parametrize("answers", [[], [errno.EOPNOTSUPP], [errno.EINTR, 0]])
def test_reserving(tmp_path: Path, monkeypatch: Any, answers: list[int]) -> None:
    """A system without it, a file system without it, and a signal that comes meanwhile."""
    real = ctypes.CDLL(None, use_errno=True)
    left = list(answers)

    def reserve(file: int, mode: int, start: int, nbytes: int) -> int:
        code = left.pop(0)
        if not code:
            return int(real.fallocate(file, mode, ctypes.c_int64(start), ctypes.c_int64(nbytes)))
        ctypes.set_errno(code)
        return -1

    class Library:
        def __getattr__(self, name: str) -> Any:
            if name != "fallocate":
                return getattr(real, name)
            if not answers:
                raise AttributeError(name)
            return reserve

    monkeypatch.setattr(ctypes, "CDLL", lambda *args, **kwargs: Library())
    store = DiskStore(tmp_path, 10 * PAGE)
    store.save(A, [noise(5000)])
    assert left == []
    assert (blocks_nbytes(store) >= 10 * PAGE) == (0 in answers)
    assert same(store, A, [noise(5000)])
    store.close()
