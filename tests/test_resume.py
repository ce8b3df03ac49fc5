"""A gradient that was killed goes on in another process, with the same bits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.durable.keeper import Keeper
from retrograd.errors import InvalidArgument, NotSupported, Recovered, StoreFull
from retrograd.schedules import Blocks, TieredMixed

STEPS = 60


class Killed(BaseException):
    """What a process that is killed would not live to see."""


class Countdown:
    """Lets so many calls pass, and then ends everything."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed


def problem(
    count: Any = lambda: None, *, free_start: bool = True, scale: float = 1.0, record: bool = False
) -> retrograd.arrays.Problem:
    def step(state: Any, k: int) -> Any:
        count()
        u, n = state
        return u + np.float32(0.01) * np.sin(u + k), n + 1

    def adjoint_step(adjoint: Any, kept: Any, k: int) -> Any:
        count()
        u = kept if record else kept[0]
        a, total = adjoint
        return a * (1 + np.float32(0.01) * np.cos(u + k)), {"sum": total["sum"] + a.sum() * k}

    def recording(state: Any, k: int) -> Any:
        return step(state, k), state[0]

    initial = np.linspace(0, scale, 30, dtype=np.float32), np.zeros(3, dtype=np.int64)
    options: dict[str, Any] = {}
    if record:
        options = {"recording_step": recording, "record_like": initial[0]}
    return retrograd.arrays.Problem(
        step,
        adjoint_step,
        initial,
        STEPS,
        terminal=lambda s: (s[0] * 2, {"sum": 0.0}),
        free_start=free_start,
        **options,
    )


def bits(gradient: Any) -> tuple[bytes, float]:
    return gradient[0].tobytes(), float(gradient[1]["sum"])


SCHEDULES = {
    "keep-all": {"memory": "3/1", "schedule": "keep-all"},
    "mixed": {"memory": "1/4"},
    "revolve": {"memory": "1/4", "schedule": "revolve"},
    "tiered": {"memory": 60_000, "disk": "9/1", "schedule": TieredMixed(STEPS, 1, 1, 5, 6, 1, 1)},
    "blocks": {"memory": 60_000, "disk": "9/1", "schedule": Blocks(STEPS, 5, 6)},
}


def gradient(case: Any, name: str, directory: Path, interval: float = 0.0) -> retrograd.Result:
    options = {"costs": retrograd.Costs(1.0), **SCHEDULES[name]}
    with retrograd.Run(case, **options) as run:
        run.forward(resume=directory, interval=interval)
        return run.reverse()


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("name", SCHEDULES)
def test_killed_anywhere_it_goes_on_with_the_same_bits(
    name: str, record: bool, free: bool, tmp_path: Path
) -> None:
    whole = problem(free_start=free, record=record)
    expected = bits(retrograd.gradient(whole, memory="3/1", schedule="keep-all").gradient)
    random, resumed = Random(name + str(record) + str(free)), 0
    for trial in range(6):
        directory = tmp_path / str(trial)
        while True:
            count = Countdown(random.choice((0, 1, 7, 40, 90, 400)))
            case = problem(count, free_start=free, record=record)
            interval = random.choice((0.0, 0.0, 1e-4, 1e-3))
            try:
                result = gradient(case, name, directory, interval)
            except Killed:
                continue
            break
        assert bits(result.gradient) == expected
        resumed += bool(result.resumed)
    assert resumed


def test_progress_is_kept_in_both_sweeps(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        gradient(problem(Countdown(40)), "mixed", tmp_path)
    count = Countdown(10**9)
    with pytest.raises(Killed):
        gradient(problem(Countdown(50)), "mixed", tmp_path)
    result = gradient(problem(count), "mixed", tmp_path)
    assert "reverse sweep" in result.resumed or "forward" in result.resumed
    assert f"resumed: {result.resumed}" in result.report()
    fresh = Countdown(10**9)
    gradient(problem(fresh), "mixed", tmp_path / "another")
    assert fresh.left < count.left  # fewer calls than from the beginning


def test_a_finished_one_is_not_run_again(tmp_path: Path) -> None:
    first = gradient(problem(), "mixed", tmp_path)
    again = gradient(problem(Countdown(0)), "mixed", tmp_path)
    assert bits(again.gradient) == bits(first.gradient)
    assert again.tally.forward_steps == 0
    assert again.resumed == "it had been finished before, and nothing was run"


def test_another_problem_is_refused_with_the_difference(tmp_path: Path) -> None:
    gradient(problem(), "mixed", tmp_path)
    with pytest.raises(InvalidArgument, match="initial"):
        gradient(problem(scale=2.0), "mixed", tmp_path)
    with pytest.raises(InvalidArgument, match="records"):
        gradient(problem(record=True), "mixed", tmp_path)
    with pytest.raises(InvalidArgument, match="compression"):
        retrograd.gradient(
            problem(),
            memory="1/2",
            compress="lossless",
            costs=retrograd.Costs(1.0),
            resume=tmp_path,
        )


def test_without_an_interval_little_is_written(tmp_path: Path) -> None:
    writes: list[str] = []

    def noting(method: Any) -> Any:
        def call(self: Any, *arguments: Any) -> None:
            writes.append(method.__name__)
            method(self, *arguments)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("keep_forward", "keep_outputs", "keep_reverse"):
            patch.setattr(Keeper, name, noting(getattr(Keeper, name)))
        result = gradient(problem(), "mixed", tmp_path, interval=60.0)
    assert writes == ["keep_outputs", "keep_reverse"]
    assert result.kept.snapshots == 2
    assert 0 < result.kept.seconds < result.seconds
    assert "2 snapshots to go on from took" in result.report()


def test_a_directory_that_cannot_be_written_to_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = gradient(problem(), "mixed", tmp_path / "good")

    def full(*_: Any) -> None:
        raise StoreFull("no room for a snapshot", "adjoint")

    monkeypatch.setattr(Keeper, "keep_reverse", full)
    with pytest.warns(Recovered, match="no room for a snapshot; the run goes on"):
        result = gradient(problem(), "mixed", tmp_path / "full", interval=60.0)
    assert bits(result.gradient) == bits(expected.gradient)


def test_what_cannot_be_gone_on_with_is_refused(tmp_path: Path) -> None:
    for options in ({"sweeps": 2}, {}):
        case = problem()
        if not options:
            case = retrograd.arrays.Problem(
                lambda u, k: u + 1, lambda a, u, k: a, np.zeros(3), until=lambda u, k: k == 5
            )
        run = retrograd.Run(case, memory=100_000, **options)
        with pytest.raises(NotSupported, match="leave resume= out"):
            run.forward(resume=tmp_path)

    class Odd:
        pass

    strange = retrograd.arrays.Problem(
        lambda u, k: u, lambda a, u, k: a, np.zeros(3), 5, terminal=lambda u: Odd()
    )
    run = retrograd.Run(strange, memory=100_000)
    run.forward(resume=tmp_path)
    with pytest.raises(NotSupported, match="holds a Odd"):
        run.reverse()
    with pytest.raises(InvalidArgument, match="interval"):
        run.forward(resume=tmp_path, interval=-1)


CHILD = """
import sys
from pathlib import Path
from tests.test_resume import *

calls = 0
def count():
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

result = gradient(problem(count), sys.argv[3], Path(sys.argv[1]))
print(json.dumps([result.gradient[0].tolist(), float(result.gradient[1]["sum"]), result.resumed]))
"""


@pytest.mark.parametrize("name", ["mixed", "blocks"])
def test_after_kill_9_another_process_goes_on(name: str, tmp_path: Path) -> None:
    root = Path(__file__).parent.parent
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    ends = []
    for calls in (70, 65, -1):
        command = [sys.executable, "-c", CHILD, str(tmp_path), str(calls), name]
        ends.append(subprocess.run(command, env=environment, capture_output=True, text=True))
    assert [end.returncode for end in ends] == [-signal.SIGKILL] * 2 + [0], ends[-1].stderr
    values, total, resumed = json.loads(ends[-1].stdout)
    expected = retrograd.gradient(problem(), memory="3/1", schedule="keep-all").gradient
    assert values == expected[0].tolist()
    assert total == expected[1]["sum"]
    assert "reverse sweep" in resumed
