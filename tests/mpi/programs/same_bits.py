"""On every rank, receivers and gradient equal those of ``apply``; budgets differ by rank."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import devito
import numpy as np
from mpi4py import MPI
from tests.adapters.devito.conftest import Wave, build
from tests.adapters.devito.pairs import NT, Pair, function, ramp, two_fields

import retrograd

devito.configuration["log-level"] = "ERROR"
COMM = MPI.COMM_WORLD


def same(ours: Any, theirs: Any) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(ours, theirs, strict=True))


def on_all(schedule: Any) -> bool:
    """Whether all ranks have the same."""
    texts = COMM.allgather(str(list(schedule)))
    return len(set(texts)) == 1


def check_wave(wave: Wave) -> None:
    truth = wave.keep_all()
    assert COMM.allreduce(np.abs(truth[1]).max(), MPI.MAX) > 0
    smaller = COMM.allreduce(wave.sample_nbytes, MPI.MIN)
    for samples, check in ((4, None), (6, "replay"), (11, None)):
        extra = 3 * smaller * COMM.rank  # the first rank has least
        run = retrograd.devito.checkpointed(
            wave.forward,
            wave.gradient,
            memory=samples * wave.sample_nbytes + extra,
            check=check,
        )
        for _ in range(2):
            assert same(wave.run(run), truth), (COMM.rank, samples)
        assert on_all(run.plan.schedule)
        assert run.arena_nbytes <= run.plan.memory_nbytes
        assert run.result.tally.forward_steps == run.plan.forward_steps > run.plan.steps


def check_other_calls_in_between(wave: Wave) -> None:
    """The user may call the same operators between the two sweeps."""
    truth = wave.keep_all()
    run = retrograd.devito.checkpointed(wave.forward, wave.gradient, memory=6 * wave.sample_nbytes)
    wave.reset()
    arguments = {"dt": wave.dt, "nthreads": 1, "nthreads_nonaffine": 1}
    run.forward(**arguments)
    ours = np.array(wave.rec.data)
    wave.keep_all()
    wave.reset()
    run.reverse(**arguments)
    assert same([ours, *wave.outputs()[1:]], truth)


def check_disk(wave: Wave, folder: Path) -> None:
    truth = wave.keep_all()
    run = retrograd.devito.checkpointed(
        wave.forward,
        wave.gradient,
        memory=5 * wave.sample_nbytes,
        disk=20 * wave.sample_nbytes,
        scratch=folder,
    )
    assert same(wave.run(run), truth)
    assert on_all(run.plan.schedule)


def check_pair(pair: Pair) -> None:
    truth = pair.keep_all()
    problem = retrograd.devito.Problem(pair.forward, pair.gradient, chunk=1)
    fixed = problem.scratch_nbytes + problem.layout.live_nbytes
    run = retrograd.devito.checkpointed(
        pair.forward,
        pair.gradient,
        memory=fixed + 3 * problem.layout.restart_nbytes,
        check="replay",
    )
    assert same(pair.run(run), truth)
    assert run.plan.forward_steps > run.plan.steps


def stencil_of_what_is_recorded() -> Pair:
    """The gradient reads its neighbours' points of the forward's samples."""
    kept = {"time_order": 2, "save": NT}
    u, a, grad, m = (
        function("u", **kept),
        function("a", time_order=1),
        function("grad"),
        ramp("m"),
    )
    forward = devito.Operator(
        [devito.Eq(u.forward, 1.2 * u - 0.4 * u.backward + 0.1 * m * u.laplace + 0.01 * m)]
    )
    gradient = devito.Operator(
        [devito.Eq(a.backward, 0.8 * a + 0.1 * u.laplace), devito.Inc(grad, a * u.forward.dxc.dyc)]
    )
    return Pair(forward, gradient, (grad, a), {"u": kept})


def main() -> None:
    checks: list[Callable[[], None]] = [
        lambda: check_wave(build(2)),
        lambda: check_wave(build(3, "float64")),
        lambda: check_other_calls_in_between(build(2)),
        lambda: check_pair(two_fields(time_order=1)),
        lambda: check_pair(stencil_of_what_is_recorded()),
    ]
    for check in checks:
        check()
    with TemporaryDirectory() as folder:
        check_disk(build(2), Path(folder))
    sys.stdout.write(f"rank {COMM.rank} is content\n")


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
        COMM.Abort(1)
