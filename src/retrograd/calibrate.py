"""Times a problem's steps and moves within memory, from which a plan predicts seconds."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from retrograd.actions import (
    DISK,
    Action,
    Advance,
    Drop,
    Forget,
    Record,
    Restore,
    Reverse,
    Save,
    Tier,
)
from retrograd.cost import Costs
from retrograd.errors import InvalidArgument
from retrograd.events import Event, Kind
from retrograd.executor import Executor
from retrograd.problem import Problem
from retrograd.sizes import free_nbytes
from retrograd.stores.arena import Arena, Window
from retrograd.stores.compressed import Compressed
from retrograd.stores.pages import zeros
from retrograd.stores.tier import Item, Store

_SECONDS: Final = 2.0
"""About how long a calibration takes, unless single steps take longer."""

_MOST_NBYTES: Final = 512_000_000
_REPEATS: Final = 5
_ALMOST_ZERO: Final = 1e-6
_SAMPLE: Final = 64 << 20
"""Bytes of a restart that a store is timed with, at most."""
_STEPS: Final = 200


def calibrate(
    problem: Problem,
    stores: Mapping[Tier, Store] | None = None,
    *,
    memory_nbytes: int | None = None,
    reverse: bool = True,
    cache: str | os.PathLike[str] | None = None,
    agree: Callable[[int], int] = int,
) -> Costs:
    """Measure what a problem's steps, moves and transfers cost, in about two seconds.

    The problem runs some of its first steps forward and back, several times over. Whatever it had
    computed before is lost: calibrate before `forward`, not between `forward` and `reverse`.

    Parameters
    ----------
    problem : an adapter's problem; its functions or operators are called.
    stores : as for `retrograd.Run`; the one for the disk is timed with the problem's own restarts.
    memory_nbytes : the most memory to take, if the problem's steps fit in it; 512 MB without it.
    reverse : whether the adjoint runs as well. Without it, nothing but the arena is written to, and
        reverse steps are taken to cost what forward steps do, which is no matter to the choice.
    cache : a file that keeps what was measured, for problems with the same fields on the same
        machine with the same number of threads. It is read if it exists, else written.
    agree : the least of what the processes that run the problem together say; they must run the
        same steps.

    Raises
    ------
    InvalidArgument
        if the file is there and holds something else, or cannot be written.
    Whatever the problem raises.

    Examples
    --------
    >>> import numpy as np, retrograd
    >>> problem = retrograd.arrays.Problem(
    ...     lambda u, k: u + 0.1 * np.sin(u), lambda a, u, k: a * (1 + 0.1 * np.cos(u)),
    ...     np.ones(1000), 500)
    >>> costs = retrograd.calibrate(problem)
    >>> plan = retrograd.Run(problem, memory="1/8", costs=costs).plan
    >>> 0 < costs.forward_step < plan.seconds
    True
    """
    disk = (stores or {}).get(DISK)
    if cache is None:
        return _measure(problem, disk, memory_nbytes, reverse, agree)
    path, key = Path(cache).expanduser(), _key(problem, disk, reverse)
    known = _read(path)
    if key not in known:
        known[key] = asdict(_measure(problem, disk, memory_nbytes, reverse, agree))
        _write(path, known)
    return Costs(**known[key])


def _key(problem: Problem, disk: Store | None, reverse: bool) -> str:
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    machine = f"{platform.node()}, {os.cpu_count()} cores, {threads} threads"
    layout = problem.layout
    names = ", ".join(
        f"{f.name} {f.dtype}{list(f.shape)}" for f in (*layout.state, *layout.records)
    )
    ways = "forward and back" if reverse else "forward"
    return (
        f"{machine}: {type(problem).__module__}, depth {layout.depth}, {names}, {ways}"
        f"{_described(disk)}"
    )


def _described(store: Store | None) -> str:
    """A store and those that it wraps, as far as their costs depend on what they are."""
    if store is None:
        return ""
    codec = f" {store.codec}" if isinstance(store, Compressed) else ""
    return f", {type(store).__name__}{codec}{_described(getattr(store, 'inner', None))}"


def _read(path: Path) -> dict[str, dict[str, float]]:
    if not path.exists():
        return {}
    names = {field.name for field in fields(Costs)}
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        if all(set(costs) == names for costs in known.values()):
            return dict(known)
    except (OSError, ValueError, AttributeError, TypeError):
        pass
    raise InvalidArgument(
        f"{path} is no file of measured costs: name another file, or remove this one"
    )


def _write(path: Path, known: dict[str, dict[str, float]]) -> None:
    try:
        path.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be written: {error.strerror}") from error


def _measure(
    problem: Problem,
    disk: Store | None,
    memory_nbytes: int | None,
    reverse: bool,
    agree: Callable[[int], int],
) -> Costs:
    layout, steps = problem.layout, problem.steps
    if steps is None:
        raise InvalidArgument(
            "a problem with an unknown number of steps cannot be calibrated: calibrate one with "
            "the same functions and a number of steps"
        )
    allowed = min(memory_nbytes or _MOST_NBYTES, _MOST_NBYTES, free_nbytes() // 2)
    fixed = 2 * layout.live_nbytes + layout.restart_nbytes
    rows = (allowed * 7 // 8 - fixed) // layout.record_nbytes
    trial = _Trial(problem, steps, agree(max(1, min(steps, _STEPS, rows))))
    costs = trial.costs(reverse, agree)
    return costs if disk is None else replace(costs, **trial.rates(disk, allowed // 8))


class _Trial:
    """Runs a problem's first steps on an arena of its own."""

    def __init__(self, problem: Problem, last: int, steps: int) -> None:
        layout = problem.layout
        # A restart at the start, and the window above it.
        nbytes = 2 * layout.live_nbytes + layout.restart_nbytes + steps * layout.record_nbytes
        self._problem, self._last, self._steps = problem, last, steps
        self._arena = Arena(layout, nbytes)
        self._events: list[Event] = []
        self._executor = Executor(
            problem, self._arena, (self._events.append,), furthest=sys.maxsize
        )

    def rates(self, store: Store, most_nbytes: int) -> dict[str, float]:
        """Bytes per second to and from a store, with restarts of the problem's size."""
        step, problem = self._arena.step, self._problem
        live = self._arena.live().state(step)
        live += problem.held(step) if problem.layout.held else ()
        is_packing = isinstance(store, Compressed)
        share = min(_SAMPLE, most_nbytes) // len(live)
        sample = [_part(_active(row) if is_packing else row, share) for row in live]
        rows = _adjacent(sample)
        writes, reads = [], []
        for step in range(_REPEATS):
            began = perf_counter()
            store.save(Item(step), rows)
            between = perf_counter()
            store.restore(Item(step), rows)
            writes.append(between - began)
            reads.append(perf_counter() - between)
            store.drop(Item(step))
        nbytes = sum(row.nbytes for row in rows)
        found = {"write_rate": nbytes / median(writes), "read_rate": nbytes / median(reads)}
        if isinstance(store, Compressed):
            found["disk_ratio"] = store.statistics.ratio
        store.clear()
        return found

    def costs(self, reverse: bool, agree: Callable[[int], int]) -> Costs:
        """Of steps, calls and moves within memory."""
        self._executor.begin()
        again = Advance(0, 1), Restore(0)
        self._executor.run((Save(0), *again))
        short = median(self._seconds(*again) for _ in range(_REPEATS))
        affordable = max(1, int(_SECONDS / (4 * _REPEATS * short)))
        steps = self._steps = agree(min(self._steps, affordable))
        window = Record(0, steps), Forget(0, steps), Restore(0)
        self._executor.run(window)  # touches the memory
        long = median(self._seconds(*window) for _ in range(3))
        forward_step, forward_call = _per_step(short, long, steps)
        copy_rate = self._copy_rate()
        reverse_step, reverse_call = self._reverse() if reverse else (forward_step, forward_call)
        return Costs(forward_step, reverse_step, forward_call, reverse_call, copy_rate)

    def _seconds(self, *actions: Action) -> float:
        """What actions take, the engine's own time included."""
        began = perf_counter()
        self._executor.run(actions)
        return perf_counter() - began

    def _copy_rate(self) -> float:
        """Bytes per second at which live rows come down to the top of the stack."""
        end, moves = self._steps, self._arena.moves
        self._events.clear()
        for _ in range(3):
            self._executor.run((Restore(0), Advance(0, end), Save(end), Drop(end)))
        seconds = median(e.seconds for e in self._events if e.kind is Kind.SAVE)
        if self._arena.moves == moves or not seconds:
            return float("inf")
        return self._problem.layout.restart_nbytes / seconds

    def _reverse(self) -> tuple[float, float]:
        steps, problem = self._steps, self._problem
        self._executor.run((Restore(0, last=True), Record(0, steps)))
        # The problem is told that its last state is this one.
        origin = self._arena.live().origin + steps - self._last
        problem.finish_forward(Window(self._arena, origin))
        problem.begin_reverse()
        fewest = max(1, steps - 2 * _REPEATS)
        singles = [Reverse(stop, stop - 1) for stop in range(steps, fewest, -1)]
        if not singles:
            return self._seconds(Reverse(steps, 0)) / steps, 0.0
        short = median(self._seconds(single) for single in singles)
        return _per_step(short, self._seconds(Reverse(fewest, 0)), fewest)


def _active(row: NDArray[Any]) -> NDArray[Any]:
    """The smallest box of an array outside which it is almost zero, as often as fills the array.

    Compression is judged by it: a wave that has just begun leaves most of its field at zero, which
    takes no room, and it will not stay so.
    """
    size = np.abs(row)
    largest = size.max(initial=0)
    if not row.ndim or not np.isfinite(largest) or not largest:
        return row
    inside = size > _ALMOST_ZERO * largest
    box = []
    for axis in range(row.ndim):
        others = tuple(other for other in range(row.ndim) if other != axis)
        where = np.flatnonzero(inside.any(axis=others))
        box.append(slice(where[0], where[-1] + 1))
    active = row[tuple(box)]
    return np.concatenate([active] * max(1, row.nbytes // active.nbytes))


def _part(row: NDArray[Any], nbytes: int) -> NDArray[Any]:
    """As much of an array along its first axis as so many bytes hold, and at least something."""
    if row.nbytes <= nbytes or not row.ndim:
        return row
    return row[: max(1, len(row) * nbytes // row.nbytes)]


def _adjacent(rows: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Copies that lie as they do in a buffer for transfers in the background."""
    memory, at, copies = zeros(sum(row.nbytes + row.dtype.itemsize for row in rows)), 0, []
    for row in rows:
        at = -(-at // row.dtype.itemsize) * row.dtype.itemsize
        copies.append(np.ndarray(row.shape, row.dtype, memory.data, at))
        copies[-1][...] = row
        at += row.nbytes
    return copies


def _per_step(short: float, long: float, steps: int) -> tuple[float, float]:
    """Seconds a step and seconds a call, from calls of one step and of `steps`."""
    if steps == 1:
        return short, 0.0
    step = min(short, max(0.0, long - short) / (steps - 1))
    return step, short - step
