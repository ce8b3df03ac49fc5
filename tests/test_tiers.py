"""Runs with a disk of their own: every number of steps, in every memory, to the last bit."""

from __future__ import annotations

import itertools
import os
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.errors import BudgetTooSmall, StoreFull

FAST = retrograd.Costs(1.0, 1.5, copy_rate=1e9, write_rate=1e9, read_rate=1e9)
SLOW = retrograd.Costs(1.0, 1.5, copy_rate=1e9, write_rate=2e3, read_rate=1e3)
DISKS = ((FAST, 200_000), (SLOW, 50_000))


def problem(steps: int, *, free_start: bool = True, record: bool = False) -> Any:
    def step(state: Any, k: int) -> Any:
        u, n = state
        return u + np.float32(0.01) * np.sin(u + k), n + 1

    def adjoint_step(a: Any, kept: Any, k: int) -> Any:
        u = kept if record else kept[0]
        return a * (1 + np.float32(0.01) * np.cos(u + k))

    initial = np.linspace(0, 1, 300, dtype=np.float32), np.zeros(3, dtype=np.int64)
    options: dict[str, Any] = {}
    if record:
        options = {"record_like": initial[0]}
        options["recording_step"] = lambda state, k: (step(state, k), state[0])
    return retrograd.arrays.Problem(
        step,
        adjoint_step,
        initial,
        steps,
        terminal=lambda s: s[0] * 2,
        free_start=free_start,
        **options,
    )


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("record", [True, False])
def test_every_number_of_steps_at_every_memory(record: bool, free: bool, tmp_path: Path) -> None:
    used = 0
    for steps in range(1, 31):
        case = problem(steps, free_start=free, record=record)
        expected = retrograd.gradient(case, memory="9/1", schedule="keep-all").gradient
        memories = (6_000, 9_000, 13_000, 30_000)
        for memory, (costs, disk) in itertools.product(memories, DISKS):
            try:
                run = retrograd.Run(case, memory=memory, disk=disk, costs=costs, scratch=tmp_path)
            except BudgetTooSmall as error:
                assert error.smallest_nbytes > memory
                continue
            with run:
                run.forward()
                result = run.reverse()
            assert result.gradient.tobytes() == expected.tobytes()
            assert result.tally.forward_steps == run.plan.forward_steps
            assert run.plan.peak_nbytes <= memory
            assert run.plan.prediction.disk_nbytes <= disk
            used += run.plan.prediction.disk_nbytes > 0
    assert used > 50
    assert list(tmp_path.iterdir()) == []


def test_a_closed_run_is_not_used_again(tmp_path: Path) -> None:
    run = retrograd.Run(problem(9), memory=30_000, disk=10**6, costs=FAST, scratch=tmp_path)
    run.close()
    run.close()
    with pytest.raises(retrograd.Error, match="the run is closed: make another one"):
        run.forward()


def test_a_store_of_ones_own_stays_open(tmp_path: Path) -> None:
    options = {"memory": 30_000, "disk": 10**6, "costs": FAST}
    schedule = retrograd.Blocks(20, 4, 2)
    with closing(retrograd.stores.DiskStore(tmp_path)) as store:
        found = [
            retrograd.gradient(
                problem(20), schedule=schedule, stores={"disk": store}, **options
            ).gradient.tobytes()
            for _ in range(2)
        ]
    expected = retrograd.gradient(problem(20), memory="9/1", schedule="keep-all").gradient
    assert found == [expected.tobytes()] * 2


def test_a_lossy_store_of_ones_own_and_an_exact_run_share_a_problem() -> None:
    case, schedule = problem(20), retrograd.Blocks(20, 4, 2)
    options = {"memory": 30_000, "disk": 10**6, "costs": FAST, "schedule": schedule}
    codec = retrograd.stores.Tolerance(1e-2)
    lossy = retrograd.stores.Compressed(retrograd.stores.HeldStore(), codec)
    runs = [retrograd.Run(case, stores={"disk": lossy}, **options), retrograd.Run(case, **options)]
    gradients = []
    for run in runs:
        run.forward()
        gradients.append(run.reverse().gradient)
    expected = retrograd.gradient(problem(20), memory="9/1", schedule="keep-all").gradient
    assert gradients[1].tobytes() == expected.tobytes()
    assert 0 < np.abs(gradients[0] - expected).max() < 1e-2 * np.abs(expected).max()


def test_the_cost_of_a_disk_is_measured_where_it_is_not_given(tmp_path: Path) -> None:
    run = retrograd.Run(problem(60), memory="1/4", disk="1/1", scratch=tmp_path)
    assert run.plan.costs is not None
    assert run.plan.costs.write_rate < float("inf")


def test_room_on_the_disk_is_taken_before_the_run(tmp_path: Path) -> None:
    options = {"memory": 13_000, "costs": FAST, "scratch": tmp_path, "compress": "lossless"}
    with pytest.raises(StoreFull, match="10 PB are wanted: give a smaller disk="):
        retrograd.Run(problem(30), disk=10**16, **options)
    with retrograd.Run(problem(30), disk=10**8, **options) as run:
        disk: Any = run._stores["disk"]
        assert os.fstat(disk.inner.inner._file).st_blocks * 512 >= 10**8 - 4096


@pytest.mark.parametrize("compress", ["lossless", 1e-4])
def test_compressed_in_memory_takes_no_more_than_the_budget(compress: Any) -> None:
    """Random states cannot be compressed: what is held stays within its share all the same."""
    noise = np.random.default_rng(1).normal(size=(40, 500))

    def step(u: Any, k: int) -> Any:
        return 0.5 * u + noise[k]

    case = retrograd.arrays.Problem(step, lambda a, u, k: a * 0.5 + u, noise[0], 40)
    expected = retrograd.gradient(case, memory="9/1", schedule="keep-all").gradient
    costs = retrograd.Costs(1.0, copy_rate=1e9, write_rate=1e9, read_rate=1e9, disk_ratio=8.0)
    run = retrograd.Run(case, memory=80_000, compress=compress, costs=costs)
    assert run.plan.budget.is_packed
    assert run.plan.peak_nbytes <= 80_000
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run.forward()
        result = run.reverse()
    assert any("are in use; the run goes on without" in str(one.message) for one in said)
    if compress == "lossless":
        assert result.gradient.tobytes() == expected.tobytes()
    assert np.allclose(result.gradient, expected, rtol=0, atol=1e-3 * np.abs(expected).max())
    assert result.tally.forward_steps > run.plan.forward_steps
