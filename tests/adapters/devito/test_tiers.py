"""Devito on disk, compressed, and killed: the same bits in every way that loses none."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import executor
from retrograd.errors import InvalidArgument, OutOfOrder
from retrograd.events import Event
from retrograd.schedules import Blocks

COSTS = retrograd.Costs(1.0, copy_rate=1e12, write_rate=1e12, read_rate=1e12)
STEPS = 38


class Killed(BaseException):
    """What a process that is killed would not live to see."""


def equal(ours: tuple[np.ndarray, ...], theirs: tuple[np.ndarray, ...]) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(ours, theirs, strict=True))


def checkpointed(wave: Any, **options: Any) -> Any:
    return retrograd.devito.checkpointed(wave.forward, wave.gradient, **options)


@pytest.mark.parametrize("kept", [0, 1, 4, 9])
@pytest.mark.parametrize("compress", [None, "lossless"])
def test_records_and_restarts_on_disk_change_no_bit(
    wave: Any, kept: int, compress: Any, tmp_path: Path
) -> None:
    run = checkpointed(
        wave,
        memory="2/1",
        disk="4/1",
        costs=COSTS,
        schedule=Blocks(STEPS, 4, kept, True, True),
        scratch=tmp_path,
        compress=compress,
    )
    truth = wave.keep_all()
    for _ in range(2):
        assert equal(wave.run(run), truth)
    result = run.result
    # What is wanted while it still is in its buffer is not read.
    assert 0 < result.transfers.read_nbytes <= result.transfers.written_nbytes
    assert 2 * result.transfers.written_nbytes <= result.plan.prediction.traffic_nbytes
    assert (result.compression is not None) == (compress is not None)
    assert list(tmp_path.iterdir()) == []
    run.close()


def test_a_disk_is_measured_at_the_first_forward_and_nothing_is_written_to(wave: Any) -> None:
    run = checkpointed(wave, memory="1/2", disk="2/1")
    with pytest.raises(OutOfOrder, match="prepare"):
        run.plan.explain()
    wave.reset()
    wave.rec.data[:] = 7
    wave.grad.data[:] = 5
    plan = run.prepare(dt=wave.dt)
    assert plan.costs.write_rate > 0
    assert np.all(wave.rec.data == 7)
    assert np.all(wave.grad.data == 5)
    assert equal(wave.run(run), wave.keep_all())


@pytest.mark.parametrize("compress", ["lossless", 1e-3])
def test_compressed_in_memory_alone(wave: Any, compress: Any) -> None:
    run = checkpointed(wave, memory="3/4", compress=compress, schedule="tiered-mixed", costs=COSTS)
    assert run.plan.budget.is_packed
    assert run.plan.peak_nbytes <= run.plan.memory_nbytes
    truth, ours = wave.keep_all(), wave.run(run)
    found = run.result.compression
    assert found.raw_nbytes > 0
    if compress == "lossless":
        assert equal(ours, truth)
    else:
        error = np.linalg.norm(ours[1] - truth[1]) / np.linalg.norm(truth[1])
        assert 0 < error < 10 * compress
        assert 0 < found.largest_relative_error <= compress


@pytest.mark.parametrize("schedule", ["keep-all", "auto", "revolve"])
def test_killed_anywhere_it_goes_on(
    wave: Any, schedule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "LONGEST_CALL_SECONDS", 1e-12)  # every step a call
    truth, random, resumed = wave.keep_all(), Random(schedule), 0
    memory = "2/1" if schedule == "keep-all" else "1/3"
    for trial in range(4):
        directory = tmp_path / str(trial)
        while True:
            left = [random.choice((1, 3, 10, 30, 200))]

            def killing(event: Event, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] < 0:
                    raise Killed

            # Another process has objects of its own; here their memory is spoilt instead.
            wave.rec.data[:] = np.nan
            wave.v.data_with_halo[:] = np.nan
            run = checkpointed(wave, memory=memory, schedule=schedule, observers=[killing])
            try:
                ours = wave.run(run, resume=directory, interval=0)
            except Killed:
                continue
            break
        assert equal(ours, truth)
        resumed += bool(run.result.resumed)
    assert resumed


def test_another_model_is_refused(wave: Any, tmp_path: Path) -> None:
    run = checkpointed(wave, memory="1/3")
    wave.run(run, resume=tmp_path)
    was = np.array(wave.m.data)
    try:
        wave.m.data[:] *= 1.01
        with pytest.raises(InvalidArgument, match="input m"):
            wave.run(run, resume=tmp_path)
    finally:
        wave.m.data[:] = was
    assert wave.run(run, resume=tmp_path) is not None
    assert run.result.resumed.startswith("it had been finished")
