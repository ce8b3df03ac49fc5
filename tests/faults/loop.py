"""A time loop in which anything can be made to happen at any call, and runs of it on disk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

import retrograd
from retrograd.actions import DISK, MEMORY
from retrograd.schedules import Blocks, HRevolve, Multistage, TieredMixed, TierSlots

STEPS: Final = 40
SIZE: Final = 5000
COSTS: Final = retrograd.Costs(1.0, write_rate=1e9, read_rate=1e9)

PHASES: Final = ("forward", "recompute", "reverse")

SCHEDULES: Final = ("auto", "tiered-mixed", "h-revolve", "multistage", "blocks")


def schedule_of(name: str, *, free_start: bool) -> Any:
    """A schedule that keeps something on disk."""
    flags = True, free_start
    match name:
        case "tiered-mixed":
            return TieredMixed(STEPS, 1, 1, 4, 7, 0.1, 0.1, *flags)
        case "h-revolve":
            tiers = TierSlots(MEMORY, 2), TierSlots(DISK, 5, 0.1, 0.1)
            return HRevolve(STEPS, tiers, *flags)
        case "multistage":
            return Multistage(STEPS, 2, 5, *flags)
        case "blocks":
            return Blocks(STEPS, 4, 5, *flags)
    return name


class Loop(retrograd.arrays.Problem):
    """A nonlinear loop; its integer counts the steps, so that no wrong state goes unnoticed.

    Parameters
    ----------
    free_start : see `retrograd.arrays.Problem`.
    size : numbers in the state.
    """

    def __init__(self, *, free_start: bool = True, size: int = SIZE) -> None:
        initial = np.linspace(0, 1, size, dtype=np.float32), np.zeros(3, dtype=np.int64)
        super().__init__(
            self._one_step, self._one_back, initial, STEPS, terminal=_end, free_start=free_start
        )
        self._furthest = 0
        self._calls: Counter[str] = Counter()
        self._disturbances: dict[tuple[str, int], Callable[[], None]] = {}

    def begin(self) -> None:
        """Count from the beginning again."""
        super().begin()
        self._furthest = 0
        self._calls.clear()

    def disturb(self, phase: str, call: int, what: Callable[[], None]) -> None:
        """Do something, once, at a call of the user's function in a phase, counted from 1."""
        self._disturbances[phase, call] = what

    def _count(self, phase: str) -> None:
        self._calls[phase] += 1
        self._disturbances.pop((phase, self._calls[phase]), _nothing)()

    def _one_step(self, state: Any, k: int) -> Any:
        self._count("forward" if k == self._furthest else "recompute")
        self._furthest = max(self._furthest, k + 1)
        u, n = state
        return u + np.float32(0.01) * np.sin(u + np.float32(k)), n + 1

    def _one_back(self, adjoint: Any, state: Any, k: int) -> Any:
        self._count("reverse")
        u, n = state
        assert n.tolist() == [k] * 3
        return adjoint * (1 + np.float32(0.01) * np.cos(u + np.float32(k)))


def _end(state: Any) -> Any:
    return state[0] * 2


def _nothing() -> None:
    pass


def run_of(
    loop: Loop, scratch: Path | str | None, schedule: str = "auto", **options: Any
) -> retrograd.Run:
    """A run that keeps a part of its restarts on disk."""
    wanted = {
        "memory": "1/4" if schedule == "auto" else "2/3",
        "disk": "1/2" if schedule == "auto" else "1/1",
        "costs": COSTS,
        "schedule": schedule_of(schedule, free_start=loop.free_start),
        "scratch": scratch,
    }
    run = retrograd.Run(loop, **{**wanted, **options})
    assert run.plan.prediction.disk_nbytes > 0
    return run


def gradient(run: retrograd.Run) -> bytes:
    """The bits of a further gradient."""
    run.forward()
    return bits(run.reverse())


def bits(result: retrograd.Result) -> bytes:
    """The bits of a gradient."""
    return bytes(result.gradient.tobytes())


def keep_all(**options: Any) -> bytes:
    """The bits of the gradient that keeps everything."""
    return bits(retrograd.gradient(Loop(**options), memory="3/1", schedule="keep-all"))


def disk_of(run: retrograd.Run) -> Any:
    """The store that owns the file, whatever wraps it."""
    store: Any = run._stores[DISK]
    while hasattr(store, "inner"):
        store = store.inner
    return store
