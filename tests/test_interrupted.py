"""Whatever ends a run in the middle: nothing is left, nothing hangs, and the next one is right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.errors import InvalidArgument, Recovered
from retrograd.stores import Background, DiskStore, HeldStore, Item

STEPS = 48
SIZE = 3000
COSTS = retrograd.Costs(1.0, copy_rate=1e9, write_rate=1e9, read_rate=1e9)
SCHEDULES = {
    "tiered": retrograd.TieredMixed(STEPS, 1, 1, 4, 9, 0.5, 0.5, True, True),
    "blocks": retrograd.Blocks(STEPS, 5, 4, True, True),
}
PHASES = {"forward": 20, "recompute": STEPS + 3, "reverse": -1}
"""After how many calls of the step function to fail; in the reverse sweep at the third call of
the adjoint."""


class Failing:
    """A time loop that calls something at a certain moment."""

    def __init__(self, what: Callable[[], None] = lambda: None, phase: str = "") -> None:
        self.what, self.phase = what, phase
        self.forwards = self.adjoints = 0

    def step(self, state: Any, k: int) -> Any:
        self.forwards += 1
        if self.forwards == PHASES.get(self.phase):
            self.what()
        u, n = state
        return u + np.float32(0.01) * np.sin(u + k), n + 1

    def adjoint_step(self, a: Any, state: Any, k: int) -> Any:
        self.adjoints += 1
        if self.adjoints == 3 and self.phase == "reverse":
            self.what()
        return a * (1 + np.float32(0.01) * np.cos(state[0] + k))

    def problem(self) -> retrograd.arrays.Problem:
        initial = np.linspace(0, 1, SIZE, dtype=np.float32), np.zeros(3, dtype=np.int64)
        return retrograd.arrays.Problem(
            self.step, self.adjoint_step, initial, STEPS, terminal=lambda s: s[0] * 2
        )


def run_of(case: Failing, scratch: Path, name: str = "blocks", **options: Any) -> retrograd.Run:
    return retrograd.Run(
        case.problem(),
        **{
            "memory": 400_000,
            "disk": 2_000_000,
            "costs": COSTS,
            "schedule": SCHEDULES[name],
            "scratch": scratch,
            **options,
        },
    )


def gradient(run: retrograd.Run) -> bytes:
    run.forward()
    return bytes(run.reverse().gradient.tobytes())


@pytest.fixture(scope="module")
def truth() -> bytes:
    case = Failing().problem()
    found = retrograd.gradient(case, memory="9/1", schedule="keep-all").gradient
    return bytes(found.tobytes())


class Unforeseen(Exception):
    pass


@pytest.mark.parametrize("kind", [Unforeseen, KeyboardInterrupt])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", SCHEDULES)
def test_what_the_users_function_raises_comes_through(
    name: str, phase: str, kind: type[BaseException], tmp_path: Path, truth: bytes
) -> None:
    def fail() -> None:
        raise kind("in the middle")

    case = Failing(fail, phase)
    with run_of(case, tmp_path, name) as run:
        with pytest.raises(kind, match="in the middle") as caught:
            gradient(run)
        assert any("while " in note for note in caught.value.__notes__)
        disk: Any = run._stores["disk"]
        assert disk.inner.nbytes == 0  # nothing is kept of the run that failed
        assert list(tmp_path.iterdir()) == []
        case.what = lambda: None
        assert gradient(run) == truth


CHILD = """
import os, signal, sys
from pathlib import Path
from tests.test_interrupted import *

number, phase, name = signal.Signals[sys.argv[2]], sys.argv[3], sys.argv[4]
run = run_of(Failing(lambda: os.kill(os.getpid(), number), phase), Path(sys.argv[1]), name)
print("begins", flush=True)
gradient(run)
print("ends", flush=True)
"""


def child(*words: object) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parent.parent
    paths = os.pathsep.join((str(root / "src"), str(root)))
    return subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, words)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("number", "phase"),
    [
        ("SIGINT", "forward"),
        ("SIGTERM", "recompute"),
        ("SIGINT", "reverse"),
        ("SIGKILL", "reverse"),
    ],
)
def test_a_signal_ends_it_and_leaves_nothing(number: str, phase: str, tmp_path: Path) -> None:
    done = child(tmp_path, number, phase, "tiered")
    assert "begins" in done.stdout
    assert "ends" not in done.stdout
    if number == "SIGINT":
        assert "KeyboardInterrupt" in done.stderr
        assert "retrograd: while " in done.stderr
    else:
        assert done.returncode == -signal.Signals[number]
    assert list(tmp_path.iterdir()) == []


def disk_of(run: retrograd.Run) -> Any:
    store: Any = run._stores["disk"]
    return store.inner


def flip(run: retrograd.Run) -> None:
    """Change a byte of every page of the file."""
    file = disk_of(run)._file
    size = os.fstat(file).st_size
    with open(f"/proc/self/fd/{file}", "r+b", buffering=0) as other:
        for at in range(0, size, 4096):
            byte = os.pread(other.fileno(), 1, at) or b"\0"
            os.pwrite(other.fileno(), bytes([byte[0] ^ 1]), at)
        os.fsync(other.fileno())


def truncate(run: retrograd.Run) -> None:
    os.ftruncate(disk_of(run)._file, 8192)


@pytest.mark.parametrize("damage", [flip, truncate])
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.filterwarnings("ignore::retrograd.errors.Recovered")
def test_a_damaged_file_is_computed_around(
    name: str, damage: Callable[[retrograd.Run], None], tmp_path: Path, truth: bytes
) -> None:
    with run_of(Failing(), tmp_path, name) as run:
        run.forward()
        damage(run)
        result = run.reverse()
        assert result.gradient.tobytes() == truth
        assert result.failures
        assert "at step" in str(result.failures[0]) or "of steps" in str(result.failures[0])


def test_a_directory_that_goes_away_is_not_missed(tmp_path: Path, truth: bytes) -> None:
    scratch = tmp_path / "gone"
    scratch.mkdir()
    with run_of(Failing(), scratch) as run:
        run.forward()
        scratch.rmdir()
        assert run.reverse().gradient.tobytes() == truth


@pytest.mark.parametrize("name", ["with spaces", "ünïcödé", "~tilde"])
def test_odd_names_of_directories(name: str, tmp_path: Path, truth: bytes) -> None:
    (tmp_path / name).mkdir()
    with run_of(Failing(), tmp_path / name) as run:
        assert gradient(run) == truth
    with pytest.raises(InvalidArgument, match="name an existing directory"):
        run_of(Failing(), tmp_path / name / "missing")


def test_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truth: bytes) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with run_of(Failing(), Path("~")) as run:
        assert disk_of(run).directory == tmp_path
        assert gradient(run) == truth


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of 256 kB, where mounting one is permitted."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(mounted)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield mounted
    subprocess.run(["umount", "-l", str(mounted)], check=True)


@pytest.mark.parametrize("compress", [None, "lossless"])
def test_a_disk_that_fills_up(compress: Any, small_disk: Path, truth: bytes) -> None:
    """Others write to it after the room was found; a budget of ours would have been reserved."""
    store: Any = DiskStore(small_disk)
    if compress:
        store = retrograd.stores.Compressed(store, retrograd.stores.Lossless())
    background = Background(store, 5 * 12_288, 2)
    (small_disk / "others").write_bytes(bytes(200_000))
    with run_of(Failing(), small_disk, "tiered", stores={"disk": background}) as run:
        with pytest.warns(Recovered, match="No space left on device; the run goes on"):
            run.forward()
        assert run.reverse().gradient.tobytes() == truth


def test_room_that_is_not_there_is_found_before_the_run(small_disk: Path) -> None:
    with pytest.raises(retrograd.errors.StoreFull, match="give a smaller disk="):
        run_of(Failing(), small_disk, disk=10**7, compress="lossless")


def test_a_slow_disk_makes_it_slower_and_takes_no_more_memory(tmp_path: Path, truth: bytes) -> None:
    class Slow(HeldStore):
        def __init__(self) -> None:
            super().__init__()
            self.at_once = self.most = 0

        def save(self, item: Item, rows: Any) -> None:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            sleep(0.003)
            super().save(item, rows)
            self.at_once -= 1

        def restore(self, item: Item, rows: Any) -> None:
            sleep(0.003)
            super().restore(item, rows)

    slow = Slow()
    store = Background(slow, 5 * 12_288, 2)
    with run_of(Failing(), tmp_path, stores={"disk": store}) as run:
        assert gradient(run) == truth
    assert slow.most == 1
    assert store.transfers.waited_seconds > 0


def test_two_at_once_in_one_directory(tmp_path: Path, truth: bytes) -> None:
    def one(name: str) -> bytes:
        with run_of(Failing(), tmp_path, name) as run:
            return gradient(run)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(one, ["tiered", "blocks"] * 4)) == {truth}
    processes = [threading.Thread(target=child, args=(tmp_path, "SIGTERM", "-", "blocks"))]
    for process in processes:
        process.start()
    assert one("tiered") == truth
    for process in processes:
        process.join()
    assert list(tmp_path.iterdir()) == []


def test_nothing_grows_from_gradient_to_gradient(tmp_path: Path, truth: bytes) -> None:
    def used() -> tuple[int, int, int]:
        resident = int(Path("/proc/self/statm").read_text().split()[1])
        return resident, threading.active_count(), len(os.listdir("/proc/self/fd"))

    with run_of(Failing(), tmp_path) as run:
        for _ in range(3):
            assert gradient(run) == truth
        before = used()
        for _ in range(20):
            gradient(run)
        after = used()
        assert after[1:] == before[1:]
        assert after[0] <= 1.01 * before[0]
        threads, files = after[1:]
    give_up_at = monotonic() + 10
    while threading.active_count() >= threads and monotonic() < give_up_at:
        sleep(0.01)
    assert threading.active_count() == threads - 1
    assert len(os.listdir("/proc/self/fd")) == files - 1


@pytest.mark.parametrize("memory_alone", [False, True])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_states_of_many_kinds_are_compressed_without_loss(
    count: int, memory_alone: bool, tmp_path: Path
) -> None:
    random = np.random.default_rng(count)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1e-310, 1.0] * 40)
    kinds = [
        np.linspace(0, 1, 500),
        np.zeros(800, np.float32),
        special,
        random.integers(0, 255, 700, np.uint8),
        random.normal(size=300).astype(np.complex64),
        np.arange(99, dtype=np.int64),
        random.normal(size=(7, 9, 11)).astype(np.float32),
        np.array(3.0),
        random.integers(0, 2, 77).astype(bool),
    ][:count]

    def step(state: Any, k: int) -> Any:
        return (np.sin(state[0] + k), *state[1:])

    def adjoint_step(a: Any, state: Any, k: int) -> Any:
        rest = sum(int(part.view(np.uint8).sum()) for part in map(np.atleast_1d, state[1:]))
        return a * np.cos(state[0] + k) + rest

    case = retrograd.arrays.Problem(
        step, adjoint_step, tuple(kinds), STEPS, terminal=lambda s: s[0]
    )
    expected = retrograd.gradient(case, memory="9/1", schedule="keep-all").gradient
    size = sum(part.nbytes for part in kinds)
    disk = {} if memory_alone else {"disk": 100 * size + 10**6, "scratch": tmp_path}
    run = retrograd.Run(
        case,
        memory=12 * size,
        compress="lossless",
        costs=COSTS,
        schedule="tiered-mixed",
        **disk,
    )
    with run:
        run.forward()
        result = run.reverse()
        assert result.gradient.tobytes() == expected.tobytes()
        assert result.compression is not None
        assert result.compression.raw_nbytes > 0


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_tolerance_means_the_same_at_every_scale(scale: float, tmp_path: Path) -> None:
    """Of a linear loop, so that the gradient's relative error cannot depend on the scale."""
    shape = np.sin(np.linspace(0, 20, 2000))

    def step(u: Any, k: int) -> Any:
        return 0.9 * u + 0.1 * np.roll(u, 1)

    def adjoint_step(a: Any, u: Any, k: int) -> Any:
        return 0.9 * a[0] + 0.1 * np.roll(a[0], -1), a[1] + u @ a[0]

    case = retrograd.arrays.Problem(
        step, adjoint_step, scale * shape, STEPS, terminal=lambda u: (u, 0.0)
    )
    expected = retrograd.gradient(case, memory="9/1", schedule="keep-all").gradient[1]
    run = retrograd.Run(
        case,
        memory=400_000,
        disk=10**7,
        compress=1e-3,
        costs=COSTS,
        schedule=retrograd.Blocks(STEPS, 3, 8, True, True),
        scratch=tmp_path,
    )
    with run:
        run.forward()
        result = run.reverse()
    error = abs(result.gradient[1] - expected) / abs(expected)
    assert 0 < error < 1e-3
    assert 1e-5 < result.compression.largest_relative_error <= 1e-3
