"""Domain decomposition: programs that run under ``mpirun``, in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="mpi4py is not installed")
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BIN = Path(sys.executable).parent  # where the wheel of mpich puts its commands
MPIRUN = shutil.which("mpirun", path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not MPIRUN, reason="there is no mpirun")]


def mpirun(
    program: str, *arguments: str, mode: str = "diag2", ranks: int = 2
) -> subprocess.CompletedProcess[str]:
    """A program on several ranks; its compiler is the one beside mpirun."""
    environment = os.environ | {
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "DEVITO_MPI": mode,
        "DEVITO_LANGUAGE": "openmp",
        "OMP_NUM_THREADS": "1",
    }
    command = [
        str(MPIRUN),
        "-n",
        str(ranks),
        sys.executable,
        str(HERE / "programs" / program),
    ]
    return subprocess.run(
        [*command, *arguments], env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("mode", ["basic", "diag2"])
def test_ranks_together_give_the_bits_of_apply(mode: str) -> None:
    done = mpirun("same_bits.py", mode=mode)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.split("\n"))[1:] == ["rank 0 is content", "rank 1 is content"]


def test_what_can_be_caught_is_raised_on_every_rank() -> None:
    done = mpirun("failures.py", "caught")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = sorted(done.stdout.splitlines())
    for rank in (0, 1):
        assert f"rank {rank} has InvalidArgument" in lines
        assert f"rank {rank} has NotSupported" in lines
    assert any(line.startswith("rank 1 has BudgetTooSmall") for line in lines)
    assert any(line.startswith("rank 0 has RankFailed: rank 1 failed: Budget") for line in lines)


def test_an_exchange_that_comes_too_early_is_refused() -> None:
    done = mpirun("failures.py", "early", ranks=4)
    assert done.returncode == 0, done.stdout + done.stderr
    told = "has Kernel exchanges the halo of 'u' between MPI ranks before it computes it"
    assert done.stdout.count(told) == 4
    assert done.stdout.count("does not split y") == 4


@pytest.mark.parametrize("sweep", ["forward", "reverse"])
def test_a_rank_that_fails_ends_all_with_its_error(sweep: str) -> None:
    began = time.monotonic()
    done = mpirun("failures.py", sweep)
    assert done.returncode != 0
    assert "retrograd: rank 1 of 2 failed" in done.stderr
    assert "the disk of rank 1 is full" in done.stderr
    assert "got through" not in done.stdout
    assert time.monotonic() - began < 120  # compiling included; it would wait for ever
