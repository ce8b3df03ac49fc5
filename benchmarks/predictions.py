"""Are predicted seconds right? Plans of a calibrated problem beside the runs that follow.

python benchmarks/predictions.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import devito
from peers import Wave

import retrograd
from retrograd import seismic

SCHEDULES = (("keep-all", "2/1"), ("levels", "1/16"), ("mixed", "1/16"), ("revolve", "1/16"))
SCHEDULES += (("levels", "1/64"),)


def problems(grid: int, steps: int) -> Iterator[tuple[str, retrograd.devito.Problem]]:
    """The embedded model as ``retrograd gradient`` runs it, and a three-dimensional one."""
    model = seismic.marmousi(8)
    acquisition = seismic.surface_acquisition(model, 1, frequency_hz=10.0)
    shot = seismic.Propagator(model, acquisition, seismic.Scheme(8, "float32", free_surface=True))
    shot.set_model(seismic.smoothed(model, 120.0))
    residual = shot.recorded()
    yield (
        "marmousi 8 m",
        retrograd.devito.Problem(
            shot.forward_operator,
            shot.gradient_operator,
            shot.forward_arguments(0),
            shot.gradient_arguments(residual, 0),
        ),
    )
    wave = Wave(3, grid, steps)
    yield (
        f"{grid}³",
        retrograd.devito.Problem(
            wave.forward,
            wave.gradient,
            {"dt": wave.dt},
            {"dt": wave.dt},
            between=wave.make_residual,
        ),
    )


def rows(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """One row a schedule: predicted, the median of several runs, and their ratio."""
    for name, problem in problems(options.grid, options.steps):
        if options.only and not name.startswith(options.only):
            continue
        costs = retrograd.calibrate(problem)
        print(f"{name}: {costs}", file=sys.stderr)
        for schedule, memory in SCHEDULES:
            run = retrograd.Run(problem, memory=memory, schedule=schedule, costs=costs)
            seconds, steps = [], set()
            for _ in range(options.repeats + 1):  # the first one touches the memory
                run.forward()
                result = run.reverse()
                seconds.append(result.seconds)
                steps.add(result.tally.forward_steps)
            measured = statistics.median(seconds[1:])
            assert steps == {run.plan.forward_steps}
            yield {
                "problem": name,
                "schedule": schedule,
                "memory": memory,
                "forward_steps": run.plan.forward_steps,
                "predicted_s": run.plan.seconds,
                "measured_s": measured,
                "ratio": run.plan.seconds / measured,
                "spread_s": [min(seconds[1:]), max(seconds[1:])],
            }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", type=int, default=100, help="points along each axis in 3D")
    parser.add_argument("--steps", type=int, default=400, help="samples in time in 3D")
    parser.add_argument("--only", help="the beginning of a problem's name")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    options = parser.parse_args()
    devito.configuration["log-level"] = "ERROR"
    found = []
    for row in rows(options):
        found.append(row)
        print(
            f"{row['problem']:<13} {row['schedule']:<9} {row['memory']:<5} "
            f"{row['forward_steps']:>6} steps, predicted {row['predicted_s']:7.3f} s, "
            f"measured {row['measured_s']:7.3f} s, ratio {row['ratio']:.3f}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
