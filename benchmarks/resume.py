"""What does it cost that a gradient could be gone on with after a crash?

One gradient for each interval, on the wave of `peers.py`; the run itself times its snapshots.

    python benchmarks/resume.py            # 3D, 100³ points, 1615 samples, 1/64 of keep-all
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import devito
from peers import Wave, ours

import retrograd

INTERVALS = (60.0, 2.0, 0.5, 0.0)


class Resumable:
    """A run that `peers.ours` drives, with a directory to go on from."""

    def __init__(self, run: retrograd.devito.CheckpointedRun, directory: Path, interval: float):
        self._run = run
        self._kept = {"resume": directory, "interval": interval}

    def forward(self, **arguments: object) -> None:
        """Run forward, keeping what is needed to go on."""
        self._run.forward(**self._kept, **arguments)

    def reverse(self, **arguments: object) -> None:
        """Run back."""
        self._run.reverse(**arguments)

    @property
    def compiled_seconds(self) -> float:
        """As the run's."""
        return self._run.compiled_seconds


def main() -> None:
    """Print a line for each interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--grid", type=int, default=100)
    parser.add_argument("--steps", type=int, default=1615)
    parser.add_argument("--memory", default="1/64")
    options = parser.parse_args()
    devito.configuration["log-level"] = "ERROR"
    wave = Wave(3, options.grid, options.steps)
    run = retrograd.devito.checkpointed(wave.forward, wave.gradient, memory=options.memory)
    ours(wave, run)  # compile and touch
    print("interval s  gradient s  snapshots  their s  share")
    for interval in INTERVALS:
        with tempfile.TemporaryDirectory() as directory:
            seconds = ours(wave, Resumable(run, Path(directory), interval)).seconds
        kept = run.result.kept
        share = kept.seconds / seconds
        print(
            f"{interval:<10g}  {seconds:<10.2f}  {kept.snapshots:<9}  {kept.seconds:<7.3f}  "
            f"{share:.1%}"
        )


if __name__ == "__main__":
    main()
