"""Whatever happens to the process or the disk: what a journal gives back is what was put in."""

from __future__ import annotations

import errno
import mmap
import os
import random
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrograd.durable import Journal, snapshot
from retrograd.errors import InvalidArgument, ItemLost, OutOfOrder, StoreFailed, StoreFull

ROOT = Path(__file__).parent.parent
RUN = {"problem": "acoustic", "steps": 100, "shape": (3, 4), "dt": 0.1}
ENTRIES: list[dict[str, Any]] = [
    {"advanced_to": 40, "misfit": 0.1 + 0.2},
    {"text": "line\nfeed, “quotes” and ünïcode", "none": None, "list": [1, [2.5], {}]},
    {},
    {"reversed_to": 40, "seconds": 1e-300},
]


def names(directory: Path) -> set[str]:
    return set(os.listdir(directory)) - {"journal", "lock"}


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A journal of four entries."""
    with Journal(tmp_path / "run", RUN) as journal:
        for entry in ENTRIES:
            journal.append(entry)
    return tmp_path / "run"


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A journal that holds a snapshot of two arrays, in more than one chunk."""
    with Journal(tmp_path / "run", RUN) as journal:
        journal.write("adjoint", two_arrays(1))
        journal.append({"reversed_to": 60})
    return tmp_path / "run"


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_CHUNK_NBYTES", 64)


def two_arrays(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"u": rng.integers(0, 99, (5, 7)).astype("f4"), "gradient": rng.integers(0, 99, 9)}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    def told(arrays: dict[str, Any]) -> list[Any]:
        return [(n, a.dtype.str, a.shape, a.tobytes()) for n, a in arrays.items()]

    return told(one) == told(other)


# Entries.


def test_entries_are_read_back_as_they_were(filled: Path) -> None:
    with Journal(filled, RUN) as journal:
        assert journal.entries == ENTRIES
        assert (journal.is_new, journal.ignored, journal.snapshots) == (False, 0, ())
        journal.append({"more": 1}, sync=False)
    with Journal(filled, RUN) as journal:
        assert journal.entries == [*ENTRIES, {"more": 1}]


def test_a_new_journal_is_new_and_empty(tmp_path: Path) -> None:
    with Journal(tmp_path / "run", RUN) as journal:
        assert (journal.is_new, journal.entries, journal.ignored) == (True, [], 0)


def test_of_every_prefix_of_the_file_a_prefix_of_the_entries_is_read(filled: Path) -> None:
    path = filled / "journal"
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    for nbytes in range(ends[0], len(whole)):
        path.write_bytes(whole[:nbytes])
        complete = sum(end <= nbytes for end in ends) - 1
        with Journal(filled, RUN) as journal:
            assert journal.entries == ENTRIES[:complete]
            assert journal.ignored == (nbytes not in ends)
            journal.append({"again": nbytes})
        with Journal(filled, RUN) as journal:
            assert journal.entries == [*ENTRIES[:complete], {"again": nbytes}]
            assert journal.ignored == 0


def test_a_first_line_that_is_cut_is_refused(filled: Path) -> None:
    path = filled / "journal"
    whole = path.read_bytes()
    for nbytes in range(whole.index(b"\n") + 1):
        path.write_bytes(whole[:nbytes])
        with pytest.raises(InvalidArgument, match="is damaged, or another program's"):
            Journal(filled, RUN)
        assert path.read_bytes() == whole[:nbytes]


def test_of_a_file_with_a_byte_changed_a_prefix_of_the_entries_is_read(filled: Path) -> None:
    path = filled / "journal"
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        if at < ends[0]:
            with pytest.raises(InvalidArgument, match="is damaged"):
                Journal(filled, RUN)
            continue
        before = sum(end <= at for end in ends) - 1
        with Journal(filled, RUN) as journal:
            assert journal.entries == ENTRIES[:before]
            assert journal.ignored >= 1


def test_all_after_a_damaged_entry_is_ignored_and_counted(filled: Path) -> None:
    path = filled / "journal"
    path.write_bytes(path.read_bytes().replace(b"advanced_to", b"Advanced_to"))
    with Journal(filled, RUN) as journal:
        assert (journal.entries, journal.ignored) == ([], 4)


def test_lines_that_are_missing_doubled_or_swapped_are_told(filled: Path) -> None:
    path = filled / "journal"
    first, a, b, c, d = path.read_bytes().splitlines(keepends=True)
    for lines, good in [([a, c, d], 1), ([a, a, b], 1), ([a, b, d, c], 2), ([b, a], 0)]:
        path.write_bytes(b"".join([first, *lines]))
        with Journal(filled, RUN) as journal:
            assert (journal.entries, journal.ignored) == (ENTRIES[:good], len(lines) - good)


def test_an_entry_that_json_does_not_have_is_refused(filled: Path) -> None:
    for value in (np.float32(1), np.arange(3), {1, 2}, b"bytes"):
        with Journal(filled, RUN) as journal, pytest.raises(InvalidArgument, match="as JSON"):
            journal.append({"value": value})
    with Journal(filled, RUN) as journal:
        assert journal.entries == ENTRIES


# Snapshots.

ARRAYS = {
    "plain": np.arange(12, dtype=np.float32).reshape(3, 4),
    "0-d": np.array(2.5),
    "empty": np.zeros((0, 3), dtype=np.int16),
    "big-endian": np.arange(5, dtype=">f8"),
    "complex": np.array([1 + 2j, np.nan]),
    "bool": np.array([True, False]),
    "half": np.arange(3, dtype=np.float16),
    "long": np.arange(3, dtype=np.longdouble),
    "transposed": np.arange(24, dtype=np.int64).reshape(2, 3, 4).T,
    "strided": np.arange(50)[::3],
    "inner": np.arange(240, dtype=np.float32).reshape(6, 8, 5)[1:-1, 2:-2, 1:-1],
    "rows": np.arange(3000, dtype=np.float32).reshape(3, 10, 100)[:, :, :90],
    "backwards": np.arange(9)[::-1],
    "repeated": np.broadcast_to(np.float32(3), (4, 5)),
    "Ünïcode \n name": np.uint8([7]),
}


def test_arrays_of_any_kind_are_read_back(tmp_path: Path) -> None:
    with Journal(tmp_path / "run", RUN) as journal:
        journal.write("all", ARRAYS)
        journal.write("nothing", {})
        journal.append({})
        assert same(journal.read("all"), ARRAYS)
    with Journal(tmp_path / "run", RUN) as journal:
        assert same(journal.read("all"), ARRAYS)
        assert journal.read("nothing") == {}
        assert journal.snapshots == ("all", "nothing")


def test_arrays_are_read_into_those_that_are_given(kept: Path) -> None:
    u = np.zeros((5, 7), "f4")
    with Journal(kept, RUN) as journal:
        arrays = journal.read("adjoint", into={"u": u})
    assert arrays["u"] is u
    assert same(arrays, two_arrays(1))


@pytest.mark.parametrize(
    "into",
    [
        {"u": np.zeros((5, 7))},
        {"u": np.zeros((7, 5), "f4")},
        {"u": np.zeros((7, 5), "f4").T},
        {"v": np.zeros((5, 7), "f4")},
        {"u": np.frombuffer(bytes(140), "f4").reshape(5, 7)},
    ],
)
def test_arrays_that_cannot_take_it_are_refused(kept: Path, into: dict[str, Any]) -> None:
    with Journal(kept, RUN) as journal, pytest.raises(InvalidArgument, match="into"):
        journal.read("adjoint", into=into)


def test_arrays_are_written_and_read_without_a_copy(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_CHUNK_NBYTES", 1 << 16)
    array = np.arange(1 << 18).reshape(64, 64, 64)
    into = {"here": np.empty_like(array), "strided": np.empty_like(array[:, :, 1:], order="C")}
    with Journal(kept, RUN) as journal:
        tracemalloc.start()
        journal.write("large", {"here": array, "strided": array[:, :, 1:], "turned": array.T})
        journal.append({})
        _, written = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        journal.read("large", into=into)
        _, read = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert written < array.nbytes / 8
    assert array.nbytes <= read < array.nbytes * 9 / 8  # the one array that was not given


@pytest.mark.parametrize("array", [np.array([None]), np.array(["text"]), [1, 2], 3.0])
def test_what_is_no_array_of_numbers_is_refused(kept: Path, array: Any) -> None:
    with Journal(kept, RUN) as journal:
        with pytest.raises(InvalidArgument, match="'v' of a snapshot"):
            journal.write("more", {"u": np.zeros(3), "v": array})
        assert names(kept) == {"adjoint.1.snapshot"}


@pytest.mark.parametrize("name", ["", "../x", "a/b", "A", "a.b", "ü", "a\n", "a" * 101])
def test_a_name_that_is_not_that_of_a_file_is_refused(kept: Path, name: str) -> None:
    with Journal(kept, RUN) as journal, pytest.raises(InvalidArgument, match="cannot be called"):
        journal.write(name, {})


def test_a_snapshot_that_is_cut_or_grown_is_lost(kept: Path) -> None:
    path = kept / "adjoint.1.snapshot"
    whole = path.read_bytes()
    for damaged in (b"", whole[:1], whole[:64], whole[:140], whole[:-1], whole + b"\0"):
        path.write_bytes(damaged)
        with Journal(kept, RUN) as journal, pytest.raises(ItemLost, match="bytes, and 212"):
            journal.read("adjoint")


def test_a_snapshot_with_a_byte_changed_is_lost(kept: Path) -> None:
    path = kept / "adjoint.1.snapshot"
    whole = path.read_bytes()
    with Journal(kept, RUN) as journal:
        for at in range(len(whole)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
            array = "u" if at < 140 else "gradient"
            with pytest.raises(ItemLost, match=f"'adjoint'.*bytes of array '{array}'") as caught:
                journal.read("adjoint")
            assert caught.value.items == ("adjoint",)
        path.write_bytes(whole)
        assert same(journal.read("adjoint"), two_arrays(1))


def test_a_snapshot_whose_file_is_gone_is_lost(kept: Path) -> None:
    (kept / "adjoint.1.snapshot").unlink()
    with Journal(kept, RUN) as journal, pytest.raises(ItemLost, match="No such file"):
        journal.read("adjoint")


def test_a_snapshot_that_ends_while_it_is_read_is_lost(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "preadv", lambda *_: 0)
    with Journal(kept, RUN) as journal, pytest.raises(ItemLost, match="too early"):
        journal.read("adjoint")


def test_a_snapshot_that_never_was_is_named_with_those_there_are(kept: Path) -> None:
    with Journal(kept, RUN) as journal:
        for ask in (journal.read, journal.forget):
            with pytest.raises(InvalidArgument, match="no snapshot 'forward'.*it has adjoint"):
                ask("forward")


# Entries and snapshots together.


def test_what_no_entry_tells_of_never_was(kept: Path) -> None:
    with Journal(kept, RUN) as journal:
        journal.write("adjoint", two_arrays(2))
        journal.write("forward", two_arrays(3))
        assert same(journal.read("adjoint"), two_arrays(2))
    with Journal(kept, RUN) as journal:
        assert journal.snapshots == ("adjoint",)
        assert same(journal.read("adjoint"), two_arrays(1))
        assert names(kept) == {"adjoint.1.snapshot"}
        journal.forget("adjoint")
    with Journal(kept, RUN) as journal:
        assert same(journal.read("adjoint"), two_arrays(1))


def test_an_entry_replaces_and_forgets_at_once(kept: Path) -> None:
    with Journal(kept, RUN) as journal:
        journal.write("forward", two_arrays(3))
        journal.append({"reversed_to": 50})
        journal.write("adjoint", two_arrays(2))
        journal.write("adjoint", two_arrays(4))
        journal.forget("forward")
        assert len(names(kept)) == 4
        journal.append({"reversed_to": 40})
        assert len(names(kept)) == 1
    with Journal(kept, RUN) as journal:
        assert [entry["reversed_to"] for entry in journal.entries] == [60, 50, 40]
        assert journal.snapshots == ("adjoint",)
        assert same(journal.read("adjoint"), two_arrays(4))


def test_a_name_may_come_again_after_it_was_forgotten(kept: Path) -> None:
    with Journal(kept, RUN) as journal:
        journal.forget("adjoint")
        journal.write("adjoint", two_arrays(5))
        journal.forget("adjoint")
        journal.append({})
        assert names(kept) == set()
        journal.write("adjoint", two_arrays(6))
        journal.append({})
    with Journal(kept, RUN) as journal:
        assert same(journal.read("adjoint"), two_arrays(6))


def test_files_of_others_in_the_directory_stay(kept: Path) -> None:
    (kept / "notes.snapshot").write_text("mine")
    (kept / "forward.7.snapshot").write_text("left over")
    (kept / "forward.8.snapshot.tmp").write_text("left over")
    with Journal(kept, RUN):
        assert names(kept) == {"adjoint.1.snapshot", "notes.snapshot"}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is done to files, and to which."""
    done: list[tuple[str, str]] = []
    opened: dict[int, str] = {}
    real_open = os.open

    def opening(path: Any, *args: Any) -> int:
        file = real_open(path, *args)
        opened[file] = Path(path).name
        return file

    def note(name: str, of: Callable[..., str]) -> None:
        real = getattr(os, name)

        def call(*args: Any) -> Any:
            if done[-1:] != [(name, of(*args))]:
                done.append((name, of(*args)))
            return real(*args)

        monkeypatch.setattr(os, name, call)

    monkeypatch.setattr(os, "open", opening)
    note("pwrite", lambda file, *_: opened[file])
    note("fsync", lambda file: opened[file])
    note("rename", lambda _, to: Path(to).name)
    note("unlink", lambda path: Path(path).name)
    return done


def test_each_thing_is_on_the_disk_before_what_relies_on_it(
    kept: Path, calls: list[tuple[str, str]]
) -> None:
    with Journal(kept, RUN) as journal:
        assert calls == [("pwrite", "lock"), ("fsync", "journal")]
        calls.clear()
        journal.write("adjoint", two_arrays(2))
        journal.append({})
    assert calls == [
        ("pwrite", "adjoint.2.snapshot.tmp"),
        ("fsync", "adjoint.2.snapshot.tmp"),
        ("rename", "adjoint.2.snapshot"),
        ("fsync", "run"),
        ("pwrite", "journal"),
        ("fsync", "journal"),
        ("unlink", "adjoint.1.snapshot"),
    ]


def test_nothing_is_removed_before_the_entry_is_on_the_disk(
    kept: Path, calls: list[tuple[str, str]]
) -> None:
    with Journal(kept, RUN) as journal:
        journal.forget("adjoint")
        calls.clear()
        journal.append({}, sync=False)
        journal.append({}, sync=True)
    end = [("fsync", "journal"), ("unlink", "adjoint.1.snapshot")]
    assert calls == [("pwrite", "journal"), *end]
    with Journal(kept, RUN) as journal:
        journal.write("adjoint", two_arrays(2))
        journal.append({})
        journal.forget("adjoint")
        journal.append({}, sync=False)
    calls.clear()
    with Journal(kept, RUN):
        assert calls == [("pwrite", "lock"), ("fsync", "journal"), ("unlink", "adjoint.2.snapshot")]


def test_a_new_directory_is_durable_with_its_parents(
    tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    Journal(tmp_path / "a" / "run", RUN).close()
    assert calls == [
        ("fsync", tmp_path.name),
        ("fsync", "a"),
        ("pwrite", "lock"),
        ("pwrite", "journal.tmp"),
        ("fsync", "journal.tmp"),
        ("rename", "journal"),
        ("fsync", "run"),
        ("fsync", "journal"),
    ]


# Disks that are full or fail.


@contextmanager
def failing(call: str, number: int, room: int = 0) -> Iterator[None]:
    """Let a call of the system fail; one that writes, when some bytes have been written."""
    real = getattr(os, call)

    def fail(*args: Any) -> Any:
        nonlocal room
        if room == 0:
            raise OSError(number, os.strerror(number))
        file, data, *rest = args
        written = real(file, data[:room], *rest)
        room -= written
        return written

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, fail)
        yield


@pytest.mark.parametrize("room", [0, 1, 64, 100, 211])
def test_a_full_disk_keeps_what_was_there_before(kept: Path, room: int) -> None:
    with Journal(kept, RUN) as journal:
        with (
            failing("pwrite", errno.ENOSPC, room),
            pytest.raises(StoreFull, match="snapshot 'adjoint' cannot be written.*No space"),
        ):
            journal.write("adjoint", two_arrays(2))
        assert names(kept) == {"adjoint.1.snapshot"}
        assert same(journal.read("adjoint"), two_arrays(1))
        journal.write("adjoint", two_arrays(3))
        size = (kept / "journal").stat().st_size
        with failing("pwrite", errno.EDQUOT, room), pytest.raises(StoreFull, match="an entry"):
            journal.append({"a": 1})
        assert (kept / "journal").stat().st_size == size
        journal.append({"a": 2})
    with Journal(kept, RUN) as journal:
        assert journal.entries == [{"reversed_to": 60}, {"a": 2}]
        assert same(journal.read("adjoint"), two_arrays(3))


@pytest.mark.parametrize("call", ["pwrite", "fsync", "rename"])
def test_a_disk_that_fails_keeps_what_was_there_before(kept: Path, call: str) -> None:
    with Journal(kept, RUN) as journal:
        with failing(call, errno.EIO), pytest.raises(StoreFailed, match="output error") as caught:
            journal.write("adjoint", two_arrays(2))
        assert not isinstance(caught.value, StoreFull)
        assert names(kept) == {"adjoint.1.snapshot"}
        if call != "rename":
            with failing(call, errno.EIO), pytest.raises(StoreFailed):
                journal.append({"a": 1})
    with Journal(kept, RUN) as journal:
        assert journal.entries == [{"reversed_to": 60}]
        assert same(journal.read("adjoint"), two_arrays(1))


def test_an_entry_that_could_not_be_taken_back_is_written_over(kept: Path) -> None:
    with Journal(kept, RUN) as journal:
        for entry in ({"a": "a longer entry"}, {"b": 2}):
            with (
                failing("fsync", errno.EIO),
                failing("ftruncate", errno.EIO),
                pytest.raises(StoreFailed),
            ):
                journal.append(entry)
        journal.append({})
    with Journal(kept, RUN) as journal:
        assert journal.entries == [{"reversed_to": 60}, {}]


def limited(directory: str) -> None:
    """Write a snapshot and entries that are larger than files may be, in a process of its own."""
    with Journal(directory, RUN) as journal:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        with pytest.raises(StoreFull, match="snapshot 'large'"):
            journal.write("large", {"u": np.zeros(10_001, np.uint8)})
        journal.write("small", {"u": np.zeros(10_000, np.uint8)})
        with pytest.raises(StoreFull):
            for n in range(10_000):
                journal.append({"n": n}, sync=False)
        sys.stdout.write(str(n))


def test_the_systems_limit_of_a_file_keeps_what_was_there_before(kept: Path) -> None:
    entries = int(in_a_process("limited", kept).stdout)
    with Journal(kept, RUN) as journal:
        assert journal.entries[1:] == [{"n": n} for n in range(entries)]
        assert entries > 100
        assert (journal.snapshots, journal.ignored) == (("adjoint", "small"), 0)


# Directories.


def test_another_run_is_refused_with_every_difference(filled: Path) -> None:
    other: dict[str, Any] = {**RUN, "steps": 120, "dt": 0.1 + 1e-16, "shape": [3, 5], "new": "é"}
    del other["problem"]
    before = (filled / "journal").read_bytes()
    with pytest.raises(InvalidArgument) as caught:
        Journal(filled, other)
    told = str(caught.value)
    assert "steps: the directory has 100, this run has 120" in told
    assert "shape: the directory has [3, 4], this run has [3, 5]" in told
    assert 'problem: the directory has "acoustic", this run has none' in told
    assert 'new: the directory has none, this run has "é"' in told
    assert "dt: the directory has 0.1, this run has 0.1000000000000001" in told
    assert (filled / "journal").read_bytes() == before
    Journal(filled, dict(reversed(RUN.items()))).close()


def test_one_and_true_and_one_point_oh_are_different(tmp_path: Path) -> None:
    Journal(tmp_path / "run", {"a": 1}).close()
    for value in (True, 1.0, "1"):
        with pytest.raises(InvalidArgument, match="the directory has 1, this run has"):
            Journal(tmp_path / "run", {"a": value})


def test_an_identity_that_json_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"identity\['steps'\] .* int\(n\)"):
        Journal(tmp_path / "run", {"steps": np.int64(3)})
    assert not (tmp_path / "run").exists()


def test_a_directory_of_another_version_is_refused(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrograd.durable.journal.FORMAT", 2)
    with pytest.raises(InvalidArgument, match="has format 1 and this version of retrograd reads 2"):
        Journal(filled, RUN)


def test_a_directory_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InvalidArgument, match=r"holds other files, such as 'thesis\.tex'"):
        Journal(tmp_path, RUN)
    assert os.listdir(tmp_path) == ["thesis.tex"]
    (tmp_path / "journal").write_text("Dear diary,\ntoday …")
    with pytest.raises(InvalidArgument, match="another program's"):
        Journal(tmp_path, RUN)
    assert sorted(os.listdir(tmp_path)) == ["journal", "thesis.tex"]
    assert (tmp_path / "journal").read_text() == "Dear diary,\ntoday …"


def test_places_that_are_no_directory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "below", "/proc/retrograd"):
        with pytest.raises(InvalidArgument, match="cannot be used"):
            Journal(place, RUN)
    for place in (None, 3, "~nobody-of-that-name/x"):
        with pytest.raises(InvalidArgument, match="is no directory"):
            Journal(place, RUN)  # type: ignore[arg-type]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written_to_is_refused(filled: Path) -> None:
    filled.chmod(0o500)
    (filled / "lock").unlink(missing_ok=True)
    with pytest.raises(InvalidArgument, match="Permission denied"):
        Journal(filled, RUN)


def test_a_disk_that_is_read_only_is_refused(filled: Path) -> None:
    with failing("open", errno.EROFS), pytest.raises(InvalidArgument, match="Read-only"):
        Journal(filled, RUN)
    Journal(filled, RUN).close()


def test_a_directory_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in ("~/a run", "~/ünïcode 波/…", Path("~") / "x" / "y" / "z"):
        for is_new in (True, False):
            with Journal(place, RUN) as journal:
                assert journal.is_new is is_new
        assert (Path(place).expanduser() / "journal").exists()


def test_the_directory_stays_the_same_where_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Journal("run", RUN) as journal:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        journal.write("adjoint", two_arrays(1))
        assert same(journal.read("adjoint"), two_arrays(1))
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_closed_journal_does_nothing(kept: Path) -> None:
    journal = Journal(kept, RUN)
    journal.close()
    journal.close()
    for use in (
        lambda: journal.append({}),
        lambda: journal.write("a", {}),
        lambda: journal.read("adjoint"),
        lambda: journal.forget("adjoint"),
    ):
        with pytest.raises(OutOfOrder, match="is closed"):
            use()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="Linux lists open files there")
def test_no_file_stays_open(kept: Path) -> None:
    before = os.listdir("/proc/self/fd")
    Journal(kept, RUN)
    for other in ({"steps": 1}, {}):
        with pytest.raises(InvalidArgument):
            Journal(kept, other)
    with Journal(kept, RUN) as journal, pytest.raises(InvalidArgument):
        journal.read("none")
    assert os.listdir("/proc/self/fd") == before


# Processes.


def in_a_process(function: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(**process(function, directory), capture_output=True, check=True)


def process(function: str, directory: Path) -> dict[str, Any]:
    code = f"import sys; from tests.test_journal import {function} as f; f(sys.argv[1])"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    args = [sys.executable, "-c", code, str(directory)]
    return {"args": args, "cwd": ROOT, "env": environment, "text": True}


def wait_with_a_journal(directory: str) -> None:
    with Journal(directory, RUN):
        os.write(1, b"open\n")
        sys.stdin.read()


def test_a_second_process_is_refused_until_the_first_one_ends(kept: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(**process("wait_with_a_journal", kept), **pipes) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(InvalidArgument, match=f"is in use by process {other.pid} on .*: wait"):
            Journal(kept, RUN)
        other.kill()
        other.wait()
        Journal(kept, RUN).close()


def test_a_second_journal_in_one_process_is_refused(kept: Path) -> None:
    with (
        Journal(kept, RUN),
        pytest.raises(InvalidArgument, match=f"in use by process {os.getpid()} "),
    ):
        Journal(kept, RUN)
    Journal(kept, RUN).close()


APPENDED = np.frombuffer(mmap.mmap(-1, 8), dtype=np.int64)
"""How many entries `work` has appended: in memory that processes share."""


def work(directory: Path) -> None:
    """Write snapshots and entries for ever, going on from where another process was killed."""
    with Journal(directory, RUN) as journal:
        n = len(journal.entries)
        while True:
            n += 1
            journal.write("adjoint", {"n": np.full(50, n)})
            if n % 2:
                journal.write(f"restart-{n}", {"n": np.full(50, n)})
            restarts = [name for name in journal.snapshots if "restart" in name]
            if len(restarts) > 2:
                journal.forget(restarts[0])
            journal.append({"n": n, "snapshots": journal.snapshots}, sync=n % 4 > 0)
            APPENDED[0] = n


def check(directory: Path) -> None:
    """Find all that the entries tell of, and nothing else."""
    with Journal(directory, RUN) as journal:
        entries = journal.entries
        assert [entry["n"] for entry in entries] == list(range(1, len(entries) + 1))
        assert APPENDED[0] <= len(entries) <= APPENDED[0] + 1
        assert journal.ignored <= 1
        assert set(journal.snapshots) == set(entries[-1]["snapshots"] if entries else [])
        for name in journal.snapshots:
            n = len(entries) if name == "adjoint" else int(name.removeprefix("restart-"))
            assert np.array_equal(journal.read(name)["n"], np.full(50, n))
        assert len(names(directory)) == len(journal.snapshots)
    APPENDED[0] = len(entries)


def killed(task: Callable[[], None], after: float | None = None) -> None:
    """Run a task in a process of its own until it is killed, or kills itself."""
    child = os.fork()
    if child == 0:
        try:
            task()
        finally:
            os._exit(0)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def dying_at_call(number: int, directory: Path) -> None:
    """Work until the process kills itself at a call, halfway through if it is a write."""
    left = number

    def dying(call: Callable[..., Any], is_write: bool) -> Callable[..., Any]:
        def instead(*args: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                if is_write:
                    call(args[0], args[1][: len(args[1]) // 2], *args[2:])
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args)

        return instead

    for name in ("open", "pwrite", "fsync", "rename", "unlink", "ftruncate", "mkdir", "close"):
        setattr(os, name, dying(getattr(os, name), name == "pwrite"))
    work(directory)


def die_at_each_call(directory: str) -> None:
    """From the first call in a new directory on, and then again and again in the same one."""
    for number in range(20):
        place = Path(directory) / f"new-{number}"
        APPENDED[0] = 0
        killed(lambda number=number, place=place: dying_at_call(number, place))
        check(place)
    for number in range(45):
        killed(lambda number=number: dying_at_call(number, place))
        check(place)
    sys.stdout.write(str(APPENDED[0]))


def die_at_any_moment(directory: str) -> None:
    rng = random.Random(1)
    place = Path(directory) / "run"
    for _ in range(10):
        killed(lambda: work(place), after=rng.uniform(0.005, 0.05))
        check(place)
    sys.stdout.write(str(APPENDED[0]))


@pytest.mark.parametrize("task", ["die_at_each_call", "die_at_any_moment"])
def test_a_process_that_is_killed_leaves_whole_entries_with_their_snapshots(
    tmp_path: Path, task: str
) -> None:
    assert int(in_a_process(task, tmp_path).stdout) > 10
