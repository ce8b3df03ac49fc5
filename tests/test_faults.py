"""Whatever goes wrong during a gradient: the right bits, or an error that says what to do."""

from __future__ import annotations

import errno
import gc
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.actions import DISK, Record, Save
from retrograd.errors import InvalidArgument, ItemLost, Recovered, StoreFailed, StoreFull
from retrograd.sizes import PAGE
from retrograd.stores import DiskStore, Item
from tests.faults import child
from tests.faults.loop import (
    PHASES,
    SCHEDULES,
    SIZE,
    STEPS,
    Loop,
    bits,
    disk_of,
    gradient,
    keep_all,
    run_of,
)

SECTOR = 512
TRUTH = keep_all()
assert keep_all(free_start=False) == TRUTH

recovering = pytest.mark.filterwarnings("ignore::retrograd.errors.Recovered")


def is_empty(directory: Path) -> bool:
    return not list(directory.iterdir())


def items_on_disk(run: retrograd.Run) -> list[Item]:
    """In the order in which the schedule saves them."""
    items = []
    for action in run.plan.schedule:
        match action:
            case Save(step, tier) if tier == DISK:
                items.append(Item(step))
            case Record(start, stop, tier) if tier == DISK:
                items.append(Item(start, stop))
    return items


@contextmanager
def mounted(directory: Path, options: str) -> Iterator[Path]:
    """A file system in memory, where mounting one is permitted."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"file systems cannot be mounted here: {error}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


# A full disk.

TWO_ITEMS = 2 * 5 * PAGE + PAGE  # and a page, so that a part of the third item is written


def no_room_is_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that cannot, where others take the room that was there."""
    monkeypatch.setattr(DiskStore, "reserve", lambda store: None)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("free_start", [True, False])
def test_the_disk_is_full_at_the_third_restart(
    schedule: str, free_start: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_room_is_reserved(monkeypatch)
    # Blocks save records of four steps, and memory holds too little for anything else.
    size = 5 * TWO_ITEMS if schedule == "blocks" else TWO_ITEMS
    with mounted(tmp_path / "small", f"size={size}") as small:
        with run_of(Loop(free_start=free_start), small, schedule) as run:
            third = items_on_disk(run)[2]
            with pytest.warns(Recovered, match="No space left on device; the run goes on") as said:
                run.forward()
            if schedule != "blocks":
                assert str(said[0].message).startswith(f"{third} cannot be written to {small}")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("warnings.warn", lambda *args, **kwargs: None)
                result = run.reverse()
            assert bits(result) == TRUTH
            assert third in result.failures[0].items or schedule == "blocks"
        assert os.statvfs(small).f_bfree == os.statvfs(small).f_blocks


@recovering
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_disk_is_full_of_compressed_restarts(
    schedule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_room_is_reserved(monkeypatch)
    with (
        mounted(tmp_path / "small", f"size={TWO_ITEMS}") as small,
        run_of(Loop(), small, schedule, compress="lossless") as run,
    ):
        for _ in range(2):
            run.forward()
            result = run.reverse()
            assert bits(result) == TRUTH
            assert isinstance(result.failures[0], StoreFull)
            assert result.compression is not None and result.compression.ratio > 1


@pytest.mark.parametrize("compress", [None, "lossless"])
def test_room_that_is_not_there_is_missed_before_the_run(
    compress: str | None, tmp_path: Path
) -> None:
    with mounted(tmp_path / "small", f"size={TWO_ITEMS}") as small:
        with pytest.raises(StoreFull, match="give a smaller disk=, or another scratch=") as said:
            run_of(Loop(), small, compress=compress)
        assert str(small) in str(said.value)
        assert os.statvfs(small).f_bfree == os.statvfs(small).f_blocks


def test_a_run_that_is_refused_leaves_no_file_open(tmp_path: Path) -> None:
    before = threads_and_files()
    with pytest.raises(StoreFull) as said:
        run_of(Loop(), tmp_path, disk=10**16, compress="lossless")
    assert threads_and_files() == before
    assert "are wanted" in str(said.value)  # whoever looks at it keeps what its frames hold


@pytest.mark.parametrize("compress", ["", "lossless"])
def test_a_limit_of_the_size_of_files(compress: str, tmp_path: Path) -> None:
    status, out, complaints = child.call("limited", tmp_path, TWO_ITEMS, compress)
    assert (status, complaints) == (0, "")
    refusal, *failures, found = out.splitlines()
    assert "give a smaller disk=" in refusal
    assert all("File too large" in failure for failure in failures)
    assert failures
    assert found == TRUTH.hex()
    assert is_empty(tmp_path)


# Directories.


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("missing", {}),
        ("missing", {"disk": "auto"}),
        ("a file", {}),
        ("a file", {"costs": None}),
        ("/proc", {}),
        ("/proc", {"costs": None}),
    ],
)
def test_a_scratch_that_takes_no_files(name: str, options: Any, tmp_path: Path) -> None:
    (tmp_path / "a file").write_bytes(b"")
    scratch = tmp_path / name
    with pytest.raises(InvalidArgument, match="name an existing directory") as said:
        run_of(Loop(), scratch, **options)
    assert repr(str(scratch)) in str(said.value)
    assert os.listdir(tmp_path) == ["a file"]


def test_a_scratch_that_may_only_be_read(tmp_path: Path) -> None:
    with mounted(tmp_path / "read only", "ro") as scratch:
        with pytest.raises(
            InvalidArgument, match="takes no files .* that you may write to"
        ) as said:
            run_of(Loop(), scratch)
        assert repr(str(scratch)) in str(said.value)


@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize(
    "name", ["with spaces ", "ünïcødé \N{DNA DOUBLE HELIX}", "~", "$HOME", "-n"]
)
def test_scratch_directories_of_any_name(name: str, end: str, tmp_path: Path) -> None:
    scratch = tmp_path / name
    scratch.mkdir()
    with run_of(Loop(), f"{scratch}{end}", "tiered-mixed") as run:
        assert disk_of(run).directory == scratch
        assert gradient(run) == TRUTH
    assert is_empty(scratch)


@pytest.mark.parametrize("scratch", ["~", "~/", "~/work"])
def test_a_scratch_in_the_home_directory(
    scratch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    with run_of(Loop(), scratch, "tiered-mixed") as run:
        assert disk_of(run).directory == Path(scratch.replace("~", str(tmp_path)))
        assert gradient(run) == TRUTH


@pytest.mark.parametrize("scratch", ["", ".", "work"])
def test_a_scratch_below_the_current_directory(
    scratch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    with run_of(Loop(), scratch, "tiered-mixed") as run:
        monkeypatch.chdir("/")
        assert gradient(run) == TRUTH


# A file that is damaged while a run uses it.


def other_file(run: retrograd.Run) -> Any:
    """The same file, opened as another process would."""
    return open(f"/proc/self/fd/{disk_of(run)._file}", "r+b", buffering=0)


def flip(run: retrograd.Run, at: int, bit: int = 16) -> None:
    """Change a bit of a byte of the file."""
    with other_file(run) as file:
        was = os.pread(file.fileno(), 1, at)[0]
        os.pwrite(file.fileno(), bytes([was ^ bit]), at)
        os.fsync(file.fileno())


def swap_sectors(run: retrograd.Run) -> None:
    """Exchange the first two sectors of every page, as a write that went astray would."""
    with other_file(run) as file:
        for at in range(0, os.fstat(file.fileno()).st_size, PAGE):
            pair = os.pread(file.fileno(), 2 * SECTOR, at)
            os.pwrite(file.fileno(), pair[SECTOR:] + pair[:SECTOR], at)
        os.fsync(file.fileno())


def truncate(run: retrograd.Run, nbytes: int) -> None:
    with other_file(run) as file:
        os.ftruncate(file.fileno(), nbytes)


@pytest.mark.parametrize("when", ["before", "between"])
def test_the_directory_is_removed(when: str, tmp_path: Path) -> None:
    scratch = tmp_path / "removed"
    scratch.mkdir()
    with run_of(Loop(), scratch, "tiered-mixed") as run:
        if when == "before":
            scratch.rmdir()
        run.forward()
        if when == "between":
            scratch.rmdir()
        assert bits(run.reverse()) == TRUTH
        assert gradient(run) == TRUTH
    assert is_empty(tmp_path)


@pytest.mark.parametrize(("nbytes", "compress"), [(0, None), (PAGE, "lossless")])
@pytest.mark.parametrize("schedule", ["auto", "h-revolve", "blocks"])
def test_the_file_becomes_shorter(
    schedule: str, compress: str | None, nbytes: int, tmp_path: Path
) -> None:
    with run_of(Loop(), tmp_path, schedule, compress=compress) as run:
        run.forward()
        truncate(run, nbytes)
        # What is written afterwards makes the file longer again, and zeros lie in between.
        lost = "(too early|was changed on the disk of .*); the run goes on"
        with pytest.warns(Recovered, match=lost):
            result = run.reverse()
        assert bits(result) == TRUTH
        assert set(result.failures[0].items) <= set(items_on_disk(run))
        assert gradient(run) == TRUTH  # nothing is damaged the second time


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_bit_of_the_first_item_changes(schedule: str, tmp_path: Path) -> None:
    with run_of(Loop(), tmp_path, schedule) as run:
        first = items_on_disk(run)[0]
        for at in (0, 1, PAGE - 1, PAGE, 4 * SIZE - 1):
            run.forward()
            flip(run, at)
            with pytest.warns(Recovered, match=f"{first} was changed on the disk of {tmp_path}"):
                result = run.reverse()
            assert bits(result) == TRUTH
            assert [failure.items for failure in result.failures] == [(first,)]
        assert gradient(run) == TRUTH


@recovering
@pytest.mark.parametrize("schedule", ["multistage", "tiered-mixed", "blocks"])
def test_a_bit_anywhere_changes_at_any_time(schedule: str, tmp_path: Path) -> None:
    random = np.random.default_rng(len(schedule))
    recovered = 0
    loop = Loop()
    with run_of(loop, tmp_path, schedule) as run:
        most = run.plan.prediction.disk_nbytes
        for phase in PHASES * 3:
            call, at = int(random.integers(10, 30)), int(random.integers(most))
            loop.disturb(phase, call, lambda: flip(run, at))  # noqa: B023
            run.forward()
            result = run.reverse()
            assert bits(result) == TRUTH
            recovered += len(result.failures)
    assert recovered


@recovering
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_sectors_of_a_page_are_exchanged(schedule: str, tmp_path: Path) -> None:
    with run_of(Loop(), tmp_path, schedule) as run:
        run.forward()
        swap_sectors(run)
        assert bits(run.reverse()) == TRUTH


@recovering
def test_two_bits_of_a_page_change_in_opposite_directions(tmp_path: Path) -> None:
    with run_of(Loop(), tmp_path) as run:
        run.forward()
        with other_file(run) as file:
            words = np.frombuffer(os.pread(file.fileno(), PAGE, 0), np.uint64)
        clear, is_set = (int(np.argmax(words >> 22 & 1 == bit)) for bit in (0, 1))
        for word in clear, is_set:
            flip(run, 8 * word + 2, 64)
        assert bits(run.reverse()) == TRUTH


@recovering
def test_two_signs_of_a_page_change(tmp_path: Path) -> None:
    with run_of(Loop(), tmp_path) as run:
        run.forward()
        for word in (300, 400):
            flip(run, 8 * word + 7, 128)
        assert bits(run.reverse()) == TRUTH


def test_without_an_older_restart_the_error_names_what_is_lost(tmp_path: Path) -> None:
    loop = Loop(free_start=False)
    with run_of(loop, tmp_path) as run:
        assert items_on_disk(run)[0] == Item(0)
        run.forward()
        flip(run, 0)
        with pytest.raises(ItemLost, match="the restart at step 0 was changed") as said:
            run.reverse()
        assert "the initial state cannot be made again" in said.value.__notes__[-1]
        assert gradient(run) == TRUTH


def test_without_an_older_restart_the_error_says_what_to_do(tmp_path: Path) -> None:
    with run_of(Loop(free_start=False), tmp_path) as run:
        run.forward()
        flip(run, 0)
        with pytest.raises(ItemLost) as said:
            run.reverse()
        assert re.search(r"\b(give|write|run)\b", said.value.__notes__[-1].partition("go on")[2])


# A disk that fails.


def fail_once(monkeypatch: pytest.MonkeyPatch, name: str, call: int, code: int) -> None:
    """Let one call of a function of ``os`` fail, counted from 1."""
    real, calls = getattr(os, name), iter(range(1, 10**9))

    def failing(*args: Any) -> Any:
        if next(calls) == call:
            raise OSError(code, os.strerror(code))
        return real(*args)

    monkeypatch.setattr(os, name, failing)


@pytest.mark.parametrize("schedule", ["auto", "tiered-mixed", "blocks"])
@pytest.mark.parametrize(("name", "verb"), [("pwrite", "written to"), ("preadv", "read from")])
def test_a_transfer_fails_once(
    schedule: str, name: str, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"cannot be {verb} {tmp_path}: .*Input/output error; the run goes on without"
    with run_of(Loop(), tmp_path, schedule) as run:
        for call in (1, 2, 6):
            with monkeypatch.context() as patch:
                fail_once(patch, name, call, errno.EIO)
                with pytest.warns(Recovered, match=said):
                    assert gradient(run) == TRUTH
            assert gradient(run) == TRUTH  # and without a warning


@recovering
@pytest.mark.parametrize("free_start", [True, False])
@pytest.mark.parametrize("schedule", ["multistage", "tiered-mixed", "blocks"])
def test_transfers_fail_at_random(
    schedule: str, free_start: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(free_start)
    real = {name: getattr(os, name) for name in ("pwrite", "preadv")}
    chance = 0.0

    def sometimes(name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if random.random() < chance:
                code = random.choice([errno.EIO, errno.ENOSPC, errno.EDQUOT])
                raise OSError(int(code), os.strerror(int(code)))
            return real[name](*args)

        return call

    for name in real:
        monkeypatch.setattr(os, name, sometimes(name))
    ended = set()
    with run_of(Loop(free_start=free_start), tmp_path, schedule) as run:
        for round_ in range(8):
            chance = (0.0, 0.03, 0.1, 1.0)[round_ % 4]
            try:
                assert gradient(run) == TRUTH
            except StoreFailed as error:
                assert not free_start
                assert "the restart at step" in str(error)
                ended.add("with an error")
            else:
                ended.add("well")
    assert "well" in ended


@pytest.mark.parametrize("most", [SECTOR, 1000, PAGE, 3 * PAGE + 1])
def test_short_writes_and_reads(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, read = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda file, part, at: write(file, part[:most], at))
    monkeypatch.setattr(os, "preadv", lambda file, parts, at: read(file, [parts[0][:most]], at))
    with run_of(Loop(), tmp_path) as run:
        assert gradient(run) == TRUTH


def test_a_write_that_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_of(Loop(), tmp_path) as run:
        monkeypatch.setattr(os, "pwrite", lambda *args: 0)
        with pytest.warns(Recovered, match="the disk stops .* bytes too early; the run goes on"):
            assert gradient(run) == TRUTH


# A slow disk.


@pytest.mark.parametrize("schedule", ["auto", "blocks"])
def test_a_slow_disk_slows_the_run_down_and_takes_no_more_memory(
    schedule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, most_at_once, most_unwritten = 0, 0, 0
    unwritten: set[Item] = set()
    write, read = DiskStore.save, DiskStore.restore

    @contextmanager
    def slowly() -> Iterator[None]:
        nonlocal at_once, most_at_once
        at_once += 1
        most_at_once = max(most_at_once, at_once)
        time.sleep(0.003)
        yield
        at_once -= 1

    def slow_save(store: DiskStore, item: Item, rows: Any) -> None:
        with slowly():
            write(store, item, rows)
        unwritten.discard(item)

    def slow_restore(store: DiskStore, item: Item, rows: Any) -> None:
        with slowly():
            read(store, item, rows)

    monkeypatch.setattr(DiskStore, "save", slow_save)
    monkeypatch.setattr(DiskStore, "restore", slow_restore)
    with run_of(Loop(), tmp_path, schedule) as run:
        background: Any = run._stores[DISK]
        save, drop = background.save, background.drop

        def watched_save(item: Item, rows: Any) -> None:
            nonlocal most_unwritten
            unwritten.add(item)
            save(item, rows)
            most_unwritten = max(most_unwritten, len(unwritten))

        def watched_drop(item: Item) -> None:
            drop(item)
            unwritten.discard(item)

        monkeypatch.setattr(background, "save", watched_save)
        monkeypatch.setattr(background, "drop", watched_drop)
        nbytes = background.nbytes
        assert nbytes == run.plan.demand.buffers * run.plan.demand.buffer_nbytes
        result_bits = gradient(run)
        assert result_bits == TRUTH
        assert background.nbytes == nbytes
        assert background.transfers.waited_seconds > 0
        assert most_at_once == 1
        assert 1 < most_unwritten <= run.plan.demand.buffers


# Signals and interrupts.


@pytest.mark.parametrize(
    ("phase", "schedule"),
    [("forward", "multistage"), ("recompute", "tiered-mixed"), ("reverse", "blocks")],
)
def test_signals_end_the_process(phase: str, schedule: str, tmp_path: Path) -> None:
    names = "SIGINT", "SIGTERM"
    processes = [child.start("signalled", tmp_path, name, phase, schedule) for name in names]
    for name, process in zip(names, processes, strict=True):
        status, out, complaints = child.finish(process)
        assert status == -signal.Signals[name]
        assert out == ""
        if name == "SIGINT":
            assert complaints.rstrip().splitlines()[-1].startswith("retrograd: while ")
            assert "KeyboardInterrupt" in complaints
        else:
            assert complaints == ""
    assert is_empty(tmp_path)


def test_signals_while_it_waits_for_a_slow_disk(tmp_path: Path) -> None:
    names = "SIGINT", "SIGTERM"
    processes = [child.start("signalled_while_it_waits", tmp_path, name) for name in names]
    for name, process in zip(names, processes, strict=True):
        status, out, complaints = child.finish(process)
        assert (status, out) == (-signal.Signals[name], "")
        assert ("KeyboardInterrupt" in complaints) == (name == "SIGINT")
    assert is_empty(tmp_path)


def interrupted_at_any_moment(
    schedule: str, compress: str | None, scratch: Path, times: int
) -> int:
    """How often an interrupt came before the gradient was there; the next one is always right."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    random, interrupted = np.random.default_rng(times), 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with run_of(Loop(), scratch, schedule, compress=compress) as run:
            began = time.perf_counter()
            gradient(run)
            seconds = time.perf_counter() - began
            for moment in random.uniform(1e-5, seconds, times):
                try:
                    signal.setitimer(signal.ITIMER_REAL, float(moment))
                    assert gradient(run) == TRUTH
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    interrupted += 1
                except RuntimeError as error:  # what Condition.wait makes of one, very rarely
                    assert "un-acquired lock" in str(error)
                    interrupted += 1
                assert gradient(run) == TRUTH
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return interrupted


@pytest.mark.parametrize("schedule", ["multistage", "blocks"])
def test_interrupts_at_any_moment(schedule: str, tmp_path: Path) -> None:
    assert interrupted_at_any_moment(schedule, None, tmp_path, 5) > 0


@pytest.mark.slow
@pytest.mark.parametrize("compress", [None, "lossless"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_very_many_interrupts(schedule: str, compress: str | None, tmp_path: Path) -> None:
    assert interrupted_at_any_moment(schedule, compress, tmp_path, 40) > 5


# The user's function raises.

EXCEPTIONS = (
    ZeroDivisionError("of the user's"),
    KeyboardInterrupt(),
    StopIteration(3),
    SystemExit(4),
    OSError(errno.ENOSPC, "not of the scratch"),
)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("schedule", ["tiered-mixed", "blocks"])
def test_what_the_users_function_raises_comes_out(
    phase: str, schedule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfers = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            nonlocal transfers
            transfers += 1
            return real(*args)

        return call

    def fail() -> None:
        raise error

    for name in ("pwrite", "preadv"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    loop = Loop()
    with run_of(loop, tmp_path, schedule) as run:
        for error in EXCEPTIONS:
            error.__notes__ = []
            loop.disturb(phase, 25 if phase == "forward" else 3, fail)
            with pytest.raises(type(error)) as caught:
                gradient(run)
            before = transfers
            assert caught.value is error
            assert error.__cause__ is None
            step, action = error.__notes__
            assert step.startswith("retrograd: in step ")
            assert action.startswith("retrograd: while ")
            assert ("recomputing" in action) == (phase == "recompute")
            assert disk_of(run).nbytes == 0
            assert is_empty(tmp_path)
            time.sleep(0.005)
            assert transfers == before > 0
            assert gradient(run) == TRUTH


# Several at once.


def test_two_processes_with_one_directory(tmp_path: Path) -> None:
    processes = [child.start("again_and_again", tmp_path, 5) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    assert is_empty(tmp_path)
    for process in processes:  # both have begun
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        assert child.finish(process) == (0, TRUTH.hex() + "\n", "")
    assert is_empty(tmp_path)


def test_threads_with_one_directory(tmp_path: Path) -> None:
    def work(schedule: str) -> set[bytes]:
        with run_of(Loop(), tmp_path, schedule) as run:
            return {gradient(run) for _ in range(3)}

    with ThreadPoolExecutor(4) as pool:
        assert all(found == {TRUTH} for found in pool.map(work, ["auto", "blocks"] * 2))
    assert is_empty(tmp_path)


# Compression.


class Carrying(retrograd.arrays.Problem):
    """A loop whose state carries arrays along; its adjoint sees whether they are as they were."""

    def __init__(self, carried: tuple[Any, ...]) -> None:
        def step(state: Any, k: int) -> Any:
            return (np.sin(state[0] + k), *state[1:])

        def adjoint_step(adjoint: Any, state: Any, k: int) -> Any:
            assert [part.tobytes() for part in state[1:]] == [part.tobytes() for part in carried]
            return adjoint * np.cos(state[0] + k)

        initial = np.linspace(0, 1, 500), *carried
        super().__init__(step, adjoint_step, initial, STEPS, terminal=lambda state: state[0])


def any_bits(dtype: str, shape: Any) -> Any:
    """Random bits: all kinds of NaN, infinities and denormals are among them."""
    random = np.random.default_rng(5)
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return random.integers(0, 256, nbytes, dtype=np.uint8).view(dtype).reshape(shape)


SPECIAL = (0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, -5e-324, 2.2e-308, 1.8e308)
MIXED: Any = (
    any_bits("c8", (7, 30)),
    np.zeros(800, "f4"),
    np.arange(99, dtype="i8"),
    np.array(3.0),
    any_bits("u1", 701) > 99,
    any_bits("f2", (3, 5, 7)),
    np.full(301, 7, "u2"),
    np.asfortranarray(any_bits("f4", (40, 30))),
)
CARRIED: dict[str, Any] = {
    "nothing": (),
    "noise": (np.random.default_rng(1).normal(size=3000),),
    "zeros": (np.zeros(3000),),
    "special": (np.array(SPECIAL * 200), np.array(SPECIAL * 200).astype("f4")),
    "any bits": (any_bits("f8", 2000), any_bits("f4", 3000)),
    **{f"{count + 1} arrays": MIXED[:count] for count in (2, 8)},
}


@recovering
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
@pytest.mark.parametrize(
    ("carried", "where"),
    [*((name, "disk") for name in CARRIED), *((name, "memory") for name in ("noise", "9 arrays"))],
)
def test_compression_without_loss(carried: str, where: str, tmp_path: Path) -> None:
    problem = Carrying(CARRIED[carried])
    expected = retrograd.gradient(problem, memory="3/1", schedule="keep-all").gradient
    state_nbytes = problem.layout.restart_nbytes
    disk = {"disk": 20 * state_nbytes + 40 * PAGE, "scratch": tmp_path}
    costs = retrograd.Costs(1.0, write_rate=1e9, read_rate=1e9, disk_ratio=8.0)
    with retrograd.Run(
        problem,
        memory=12 * state_nbytes + 3 * PAGE,
        compress="lossless",
        costs=costs,
        schedule="tiered-mixed",
        **(disk if where == "disk" else {}),
    ) as run:
        assert run.plan.prediction.disk_nbytes > 0
        assert run.plan.budget.is_packed == (where == "memory")
        for _ in range(2):
            run.forward()
            result = run.reverse()
            assert result.gradient.tobytes() == expected.tobytes()
            assert result.compression is not None
            assert result.compression.decoded_nbytes > 0
            assert result.compression.compressed_nbytes > 0


class Linear(retrograd.arrays.Problem):
    """A linear loop, and the derivative by the factor of each point: quadratic in the state."""

    def __init__(self, scale: float, dtype: str) -> None:
        def step(u: Any, k: int) -> Any:
            return (0.5 * u + 0.5 * np.roll(u, 1)).astype(dtype)

        def adjoint_step(adjoint: Any, u: Any, k: int) -> Any:
            a, total = adjoint
            return 0.5 * a + 0.5 * np.roll(a, -1), total + a * u

        points = np.linspace(0, 12, 2000)
        initial = (scale * np.sin(points) * np.exp(-((points - 5) ** 2))).astype(dtype)
        super().__init__(
            step,
            adjoint_step,
            initial,
            STEPS,
            terminal=lambda u: (u.astype("f8"), np.zeros(len(u))),
        )

    def derivative(self, **options: Any) -> Any:
        return retrograd.gradient(self, **options).gradient[1]

    def error(self, scratch: Path | None, tolerance: float) -> float:
        """Of the gradient, relative to the one that keeps everything."""
        true = self.derivative(memory="3/1", schedule="keep-all")
        costs = retrograd.Costs(1.0, write_rate=1e9, read_rate=1e9, disk_ratio=4.0)
        disk = {} if scratch is None else {"disk": "1/1", "scratch": scratch}
        options = {"costs": costs, "compress": tolerance, "schedule": "tiered-mixed", **disk}
        found = self.derivative(memory="1/3", **options)
        return float(np.linalg.norm(found - true) / np.linalg.norm(true))


@recovering
@pytest.mark.parametrize(
    ("dtype", "tolerance", "where"),
    [("f8", 1e-2, "disk"), ("f8", 1e-7, "disk"), ("f4", 1e-4, "disk"), ("f8", 1e-4, "memory")],
)
def test_compression_with_a_tolerance(
    dtype: str, tolerance: float, where: str, tmp_path: Path
) -> None:
    scratch = tmp_path if where == "disk" else None
    errors = [Linear(scale, dtype).error(scratch, tolerance) for scale in (1.0, 1e-6, 1e6)]
    assert min(errors) > tolerance / 100
    assert max(errors) < tolerance
    assert max(errors) < 2 * min(errors)


# What a run holds.


def resident_nbytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def threads_and_files() -> tuple[list[str], int]:
    gc.collect()  # what earlier tests have left
    names = sorted(thread.name for thread in threading.enumerate())
    return names, len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(("schedule", "compress"), [("multistage", None), ("blocks", "lossless")])
def test_nothing_grows_and_nothing_is_left(
    schedule: str, compress: str | None, tmp_path: Path
) -> None:
    before = threads_and_files()
    run = run_of(Loop(size=2 * SIZE), tmp_path, schedule, compress=compress)
    for _ in range(3):
        found = gradient(run)
    during = threads_and_files()
    assert set(during[0]) - set(before[0]) == {"retrograd-transfers"}
    assert during[1] == before[1] + 1
    resident = resident_nbytes()
    for _ in range(17):
        assert gradient(run) == found
    assert resident_nbytes() <= 1.01 * resident
    assert threads_and_files() == during
    run.close()
    assert threads_and_files() == before
    assert run.arena_nbytes == 0
    assert is_empty(tmp_path)
    run.close()
