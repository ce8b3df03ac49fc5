"""Schedules of checkpoint_schedules run here, and ours drive pyadjoint."""

from __future__ import annotations

import importlib
import math
import pickle
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.actions import BeginSweep, Record, Reverse
from retrograd.errors import IllegalAction, InvalidArgument, MissingExtra, NotSupported
from retrograd.schedules import (
    DiskRevolve,
    HRevolve,
    KeepAll,
    Mixed,
    Multistage,
    PeriodicDiskRevolve,
    Revolve,
    Streaming,
    Sweeps,
    TieredMixed,
    TierSlots,
    TwoLevel,
)
from retrograd.schedules.online import OnlineRevolve, Stopped
from retrograd.stores.tier import HeldStore
from retrograd.verify import verify

theirs = pytest.importorskip("checkpoint_schedules")
adapter = importlib.import_module("retrograd.adapters.checkpoint_schedules")

pytestmark = pytest.mark.filterwarnings("ignore:Numba not available")

STEPS = 23
RAM, DISK, WORK = theirs.StorageType.RAM, theirs.StorageType.DISK, theirs.StorageType.WORK

MAKERS: dict[str, Callable[[], Any]] = {
    "SingleMemory": theirs.SingleMemoryStorageSchedule,
    "Revolve": lambda: theirs.Revolve(STEPS, 4),
    "HRevolve": lambda: theirs.HRevolve(STEPS, 2, 3),
    "DiskRevolve": lambda: theirs.DiskRevolve(STEPS, 2),
    "PeriodicDiskRevolve": lambda: theirs.PeriodicDiskRevolve(STEPS, 2),
    "Multistage": lambda: theirs.MultistageCheckpointSchedule(STEPS, 2, 2),
    "Mixed": lambda: theirs.MixedCheckpointSchedule(STEPS, 5, storage=RAM),
    "TwoLevel": lambda: theirs.TwoLevelCheckpointSchedule(6, 2, binomial_storage=RAM),
}


def counted(schedule: Any) -> tuple[int, Counter[Any]]:
    """Forward steps, and restarts by storage, of their own actions."""
    steps, saves = 0, Counter[Any]()
    for action in schedule:
        if isinstance(action, theirs.Forward):
            stop = min(action.n1, STEPS)
            steps += stop - action.n0
            saves[action.storage] += action.write_ics
            if stop == STEPS and schedule.max_n is None:
                schedule.finalize(STEPS)
        if isinstance(action, theirs.EndReverse):
            return steps, saves
    raise AssertionError("no end")


def problem() -> retrograd.arrays.Problem:
    return retrograd.arrays.Problem(
        lambda u, k: u + 0.01 * np.sin(u + k),
        lambda a, u, k: a * (1 + 0.01 * np.cos(u + k)),
        np.linspace(0, 1, 50),
        STEPS,
        terminal=lambda u: u,
        free_start=False,
    )


@pytest.mark.parametrize("name", MAKERS)
def test_theirs_is_legal_and_counts_the_same(name: str) -> None:
    schedule = adapter.from_checkpoint_schedules(MAKERS[name](), STEPS)
    counts = verify(schedule, steps=STEPS)
    forward_steps, saves = counted(MAKERS[name]())
    assert counts.forward_steps == schedule.forward_steps == forward_steps
    assert counts.saves.get("memory", 0) == saves[RAM]
    assert counts.saves.get("disk", 0) == saves[DISK]
    assert counts.reversed_steps == STEPS
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert list(schedule) == list(schedule)


@pytest.mark.parametrize(
    "make", [*MAKERS.values(), partial(theirs.SingleDiskStorageSchedule, move_data=True)]
)
def test_theirs_gives_our_gradient(make: Callable[[], Any]) -> None:
    case = problem()
    expected = retrograd.gradient(case, memory="2/1", schedule="keep-all").gradient
    schedule = adapter.from_checkpoint_schedules(make(), STEPS)
    result = retrograd.gradient(
        case,
        memory="2/1",
        disk="2/1",
        costs=retrograd.Costs(1.0),
        schedule=schedule,
        stores={"disk": HeldStore()},
    )
    assert np.array_equal(result.gradient, expected)
    assert result.tally.forward_steps == schedule.forward_steps
    assert result.plan.name == "Translated"


def test_records_on_disk_come_back_one_by_one() -> None:
    for move in (False, True):
        schedule = adapter.from_checkpoint_schedules(theirs.SingleDiskStorageSchedule(move), STEPS)
        counts = verify(schedule, steps=STEPS)
        forward_steps, _ = counted(theirs.SingleDiskStorageSchedule(move))
        assert counts.forward_steps == counts.recorded_steps == forward_steps == STEPS
        assert counts.peak_nbytes == {"disk": STEPS, "memory": 1}
        assert counts.loads == {"disk": STEPS}
        assert not counts.saves


def test_what_cannot_be_read_is_refused() -> None:
    read = adapter.from_checkpoint_schedules
    with pytest.raises(InvalidArgument, match="NoneCheckpointSchedule ends without a reverse"):
        read(theirs.NoneCheckpointSchedule(), STEPS)
    with pytest.raises(InvalidArgument, match="made for 23 steps"):
        read(theirs.Revolve(STEPS, 3), 24)
    with pytest.raises(InvalidArgument, match="no schedule of the package"):
        read(Revolve(STEPS, 3), STEPS)
    used = theirs.Revolve(STEPS, 3)
    next(used)
    with pytest.raises(InvalidArgument, match="make a new one"):
        read(used, STEPS)


def test_the_install_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "checkpoint_schedules", None)
    monkeypatch.delitem(sys.modules, adapter.__name__)
    with pytest.raises(MissingExtra, match=r"pip install 'retrograd\[checkpoint-schedules\]'"):
        importlib.import_module(adapter.__name__)


OURS = [
    KeepAll(STEPS),
    Revolve(STEPS, 3),
    Mixed(STEPS, 1, 1, 6),
    Mixed(STEPS, 2, 1, 7),
    Multistage(STEPS, 2, 2),
    HRevolve(STEPS, (TierSlots("memory", 2), TierSlots("disk", 2, 1.0, 1.0))),
    TieredMixed(STEPS, 1, 1, 4, 3, 1.0, 1.0),
    DiskRevolve(STEPS, 2, 1.0, 1.0),
    PeriodicDiskRevolve(STEPS, 2, 1.0, 1.0),
    TwoLevel(STEPS, 6, 2),
    Streaming(STEPS, 2, 6),
]


def step(u: float, k: int) -> float:
    return u + 0.1 * math.sin(u + k)


def adjoint_step(a: float, u: float, k: int) -> float:
    return a * (1 + 0.1 * math.cos(u + k))


def kept_all() -> float:
    states = [0.3]
    for k in range(STEPS):
        states.append(step(states[-1], k))
    a = states[-1]
    for k in reversed(range(STEPS)):
        a = adjoint_step(a, states[k], k)
    return a


class Consumer:
    """Runs a time loop as their actions say, by the meaning that their documentation gives them.

    What lies in a storage must be brought to work before it is used, nothing is written over, and
    their schedule knows where the forward and the adjoint stand.
    """

    def __init__(self) -> None:
        self.state, self.at = 0.3, 0
        self.adjoint, self.reversed = math.nan, 0
        self.work: dict[int, float] = {}
        self.stored: dict[Any, tuple[float | None, dict[int, float]]] = {}
        self.forward_steps = 0
        self.writes = Counter[Any]()
        self.peak = Counter[Any]()

    def drive(self, schedule: Any) -> float:
        for action in schedule:
            getattr(self, type(action).__name__)(action)
            assert self.at in (None, schedule.n)
            assert self.reversed == schedule.r
        assert schedule.is_exhausted
        assert not self.stored
        assert not self.work
        assert all(map(schedule.uses_storage_type, self.writes))
        return self.adjoint

    def Forward(self, action: Any) -> None:  # noqa: N802
        assert self.at == action.n0 < action.n1 <= STEPS - self.reversed
        restart, records = self.state if action.write_ics else None, {}
        for k in action:
            records[k] = self.state
            self.state = step(self.state, k)
        self.at = action.n1
        self.forward_steps += len(action)
        kept = records if action.write_adj_deps else {}
        if action.storage is WORK:
            assert not action.write_ics
            self.work |= kept
        elif action.write_ics or kept:
            assert (action.n0, action.storage) not in self.stored
            self.stored[action.n0, action.storage] = restart, kept
            self.writes[action.storage] += action.write_ics
            self.peak |= Counter(storage for _, storage in self.stored)

    def EndForward(self, action: Any) -> None:  # noqa: N802
        assert self.at == STEPS
        self.adjoint = self.state

    def Copy(self, action: Any) -> None:  # noqa: N802
        restart, records = self.stored[action.n, action.from_storage]
        assert action.to_storage is WORK
        self.state, self.at = (math.nan, None) if restart is None else (restart, action.n)
        self.work |= records

    def Move(self, action: Any) -> None:  # noqa: N802
        self.Copy(action)
        del self.stored[action.n, action.from_storage]

    def Reverse(self, action: Any) -> None:  # noqa: N802
        assert action.n1 == STEPS - self.reversed
        for k in action:
            self.adjoint = adjoint_step(self.adjoint, self.work.pop(k), k)
        self.reversed += len(action)

    def EndReverse(self, action: Any) -> None:  # noqa: N802
        assert self.reversed == STEPS


@pytest.mark.parametrize("schedule", OURS, ids=str)
def test_ours_drives_a_consumer_of_theirs(schedule: Any) -> None:
    consumer = Consumer()
    assert consumer.drive(adapter.to_checkpoint_schedules(schedule, STEPS)) == kept_all()
    counts = verify(schedule, steps=STEPS)
    assert consumer.forward_steps == counts.forward_steps
    assert consumer.writes[RAM] == counts.saves.get("memory", 0)
    assert consumer.writes[DISK] == counts.saves.get("disk", 0)
    assert consumer.peak[RAM] == counts.peak_nbytes.get("memory", 0)
    assert consumer.peak[DISK] == counts.peak_nbytes.get("disk", 0)


@pytest.mark.parametrize("schedule", OURS, ids=str)
def test_ours_goes_there_and_comes_back(schedule: Any) -> None:
    """The same steps and restarts; a range of records becomes single ones."""
    there = adapter.to_checkpoint_schedules(schedule, STEPS)
    back = adapter.from_checkpoint_schedules(there, STEPS)
    assert there.is_exhausted
    ours, again = verify(schedule, steps=STEPS), verify(back, steps=STEPS)
    for name in ("forward_steps", "recorded_steps", "reversed_steps", "saves", "restores"):
        assert getattr(ours, name) == getattr(again, name)


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        (Revolve(STEPS, 3, record_in_state=True), "without record_in_state"),
        (Revolve(STEPS, 3, free_start=True), "without free_start"),
        (Sweeps(STEPS, 1, 1, 30, 2), "reverses once"),
        ([Record(0, STEPS), Reverse(STEPS, 0), BeginSweep(1)], "nothing like it"),
        (Stopped(OnlineRevolve(3), STEPS), "followed by an advance"),
    ],
)
def test_what_theirs_cannot_express_is_refused(schedule: Any, why: str) -> None:
    with pytest.raises(NotSupported, match=why):
        adapter.to_checkpoint_schedules(schedule, STEPS)


@pytest.mark.parametrize(
    "schedule", [Revolve(STEPS - 1, 3), Revolve(STEPS + 1, 3), [], [Record(0, STEPS)]], ids=str
)
def test_what_does_not_reverse_all_steps_is_refused(schedule: Any) -> None:
    with pytest.raises(IllegalAction):
        adapter.to_checkpoint_schedules(schedule, STEPS)


def taped(schedule: Any) -> tuple[float, float]:
    """The value and gradient of a time loop on pyadjoint's tape, where it was taped.

    After the loop has been evaluated elsewhere, pyadjoint 2026.10 itself gives other derivatives
    with its own checkpointing schedules than without any.
    """
    pyadjoint = pytest.importorskip("pyadjoint")
    pyadjoint.set_working_tape(pyadjoint.Tape())
    pyadjoint.continue_annotation()
    tape = pyadjoint.get_working_tape()
    if schedule is not None:
        tape.enable_checkpointing(adapter.to_checkpoint_schedules(schedule, STEPS))
    control = u = pyadjoint.AdjFloat(0.7)
    for _ in tape.timestepper(iter(range(STEPS))):
        u = u + 0.1 * u * u
    reduced = pyadjoint.ReducedFunctional(u, pyadjoint.Control(control))
    pyadjoint.pause_annotation()
    return float(u), float(reduced.derivative())


@pytest.mark.parametrize(
    "schedule", [KeepAll(STEPS), Revolve(STEPS, 3), Mixed(STEPS, 1, 1, 6), Mixed(STEPS, 2, 1, 7)]
)
def test_ours_drives_pyadjoint(schedule: Any) -> None:
    plain, checkpointed = taped(None), taped(schedule)
    assert checkpointed == plain
    assert plain[1] != 0
