"""A tier that fails in the middle of a run: the same bits by another way, or a clear error."""

from __future__ import annotations

from random import Random
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.actions import DISK, MEMORY
from retrograd.errors import ItemLost, Recovered, StoreFailed, StoreFull
from retrograd.schedules import Blocks, HRevolve, Multistage, TieredMixed, TierSlots, TwoLevel
from retrograd.stores.background import Background
from retrograd.stores.tier import HeldStore, Item

STEPS = 40
COSTS = retrograd.Costs(1.0)


class Failing(HeldStore):
    """Full from the n-th save on; loses what is restored at some of the times that are given."""

    def __init__(self, *, full_from: int = 10**9, lost: frozenset[int] = frozenset()) -> None:
        super().__init__()
        self.full_from, self.lost = full_from, lost
        self.saves = self.restores = 0

    def save(self, item: Item, rows: Any) -> None:
        self.saves += 1
        if self.saves >= self.full_from:
            raise StoreFull(f"no room for {item}", item)
        super().save(item, rows)

    def restore(self, item: Item, rows: Any) -> None:
        self.restores += 1
        if self.restores in self.lost:
            for row in rows:
                row[...] = 99  # whatever was read is of no use
            self.drop(item)
            raise ItemLost(f"{item} is damaged", item)
        super().restore(item, rows)


def problem(*, free_start: bool = True) -> retrograd.arrays.Problem:
    def step(state: Any, k: int) -> Any:
        u, calls = state
        return u + np.float32(0.01) * np.sin(u + k), calls + 1

    def adjoint_step(a: Any, state: Any, k: int) -> Any:
        u, calls = state
        assert calls[0] == k
        return a[0] * (1 + np.float32(0.01) * np.cos(u + k)), a[1]

    initial = np.linspace(0, 1, 50, dtype=np.float32), np.zeros(3, dtype=np.int64)
    return retrograd.arrays.Problem(
        step, adjoint_step, initial, STEPS, terminal=lambda s: s, free_start=free_start
    )


def bits(gradient: Any) -> list[bytes]:
    return [part.tobytes() for part in gradient]


def schedules(free: bool) -> list[Any]:
    flags = True, free
    return [
        HRevolve(STEPS, (TierSlots(MEMORY, 2), TierSlots(DISK, 3, 1.0, 1.0)), *flags),
        TieredMixed(STEPS, 1, 1, 4, 5, 1.0, 2.0, *flags),
        Multistage(STEPS, 2, 3, *flags),
        TwoLevel(STEPS, 7, 2, *flags),
        Blocks(STEPS, 4, 0, *flags),
        Blocks(STEPS, 4, 5, *flags),
        Blocks(STEPS, 4, 9, *flags),
    ]


def run_with(store: Any, schedule: Any, *, free: bool = True, memory: Any = "1/3") -> Any:
    return retrograd.Run(
        problem(free_start=free),
        memory=memory,
        disk="2/1",
        costs=COSTS,
        schedule=schedule,
        stores={DISK: store},
    )


@pytest.mark.parametrize("index", range(7))
@pytest.mark.parametrize("in_background", [False, True])
@pytest.mark.filterwarnings("ignore::retrograd.errors.Recovered")
def test_a_full_disk_and_lost_items_change_nothing(index: int, in_background: bool) -> None:
    expected = bits(retrograd.gradient(problem(), memory="2/1", schedule="keep-all").gradient)
    schedule = schedules(True)[index]
    random, recovered = Random(index), 0
    for full_from in range(1, 14):
        times = range(1, 12)
        lost = frozenset(random.sample(times, random.choice((0, 1, 1, 2, 5))))
        failing = Failing(full_from=full_from, lost=lost)
        store = Background(failing, 2048, 2) if in_background else failing
        run = run_with(store, schedule)
        for _ in range(2):
            run.forward()
            result = run.reverse()
            assert bits(result.gradient) == expected
            give_up_at = monotonic() + 10
            while failing.nbytes and monotonic() < give_up_at:
                sleep(0.001)  # given up in the background
            assert failing.nbytes == 0
            recovered += len(result.failures)
            failing.saves = failing.restores = 0
        run.close()
    assert recovered > 5


@pytest.mark.parametrize("index", range(7))
@pytest.mark.filterwarnings("ignore::retrograd.errors.Recovered")
def test_without_a_free_start_it_goes_on_as_long_as_it_can(index: int) -> None:
    expected = bits(retrograd.gradient(problem(), memory="2/1", schedule="keep-all").gradient)
    good = bad = 0
    for time in range(1, 12):
        run = run_with(Failing(lost=frozenset({time})), schedules(False)[index], free=False)
        run.forward()
        try:
            result = run.reverse()
        except ItemLost as error:
            assert "is damaged" in str(error)
            assert "the initial state cannot be made again" in error.__notes__[-1]
            bad += 1
        else:
            assert bits(result.gradient) == expected
            good += 1
    assert good > bad


def test_a_recovery_is_reported() -> None:
    run = run_with(Failing(lost=frozenset({2})), TwoLevel(STEPS, 7, 2, True, True))
    run.forward()
    with pytest.warns(Recovered, match="the restart at step 35 is damaged; the run goes on"):
        result = run.reverse()
    assert [str(one) for one in result.failures] == ["the restart at step 35 is damaged"]
    assert "recovered: the restart at step 35 is damaged" in result.report()
    assert result.tally.forward_steps > run.plan.forward_steps
    run.forward()  # nothing is damaged the second time
    assert not run.reverse().failures


def test_where_memory_alone_is_not_enough_the_error_says_so() -> None:
    costs = retrograd.Costs(1.0, write_rate=1e12, read_rate=1e12)
    case, store = problem(free_start=False), Failing(full_from=1)
    run = retrograd.Run(case, memory=640, disk="2/1", costs=costs, stores={DISK: store})
    with pytest.raises(StoreFull, match="no room for the restart at step 0") as caught:
        run.forward()
    assert "there is no other way to go on" in caught.value.__notes__[-1]


def test_other_errors_pass_through() -> None:
    class Broken(HeldStore):
        def save(self, item: Item, rows: Any) -> None:
            raise ZeroDivisionError

    run = run_with(Broken(), TwoLevel(STEPS, 7, 2, True, True))
    with pytest.raises(ZeroDivisionError):
        run.forward()
    run = run_with(Background(Broken(), 2048), TwoLevel(STEPS, 7, 2, True, True))
    with pytest.warns(Recovered, match="ZeroDivisionError"):
        run.forward()
    assert isinstance(run.reverse().failures[0], StoreFailed)
