"""What does a tolerance do to the gradient?

One shot in the embedded Marmousi model, as ``retrograd gradient`` prepares it. What goes to disk is
compressed: restarts, from which steps run again, or the records that the adjoint reads. All runs
of a kind make the same moves, so that only the compression differs.

    python benchmarks/compression.py                 # 8 m, 10 Hz, memory 1/16
    python benchmarks/compression.py --spacing 20    # for a quick look
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import devito
import numpy as np

import retrograd
from retrograd import seismic

Row: TypeAlias = dict[str, Any]
CheckpointedRun: TypeAlias = retrograd.devito.CheckpointedRun

KINDS = ("restarts", "records")
TOLERANCES = tuple(10.0**-digits for digits in range(2, 9))
FREQUENCY_HZ = 10.0
STARTING_SIGMA_M = 120.0
AMPLITUDES = (1e-6, 1e6)
COLOURS = {"restarts": "tab:blue", "records": "tab:orange"}


@dataclass(eq=False)
class Shot:
    """One shot in a true and a starting model, with the gradient of keeping everything.

    Attributes
    ----------
    observed : the data in the true model.
    truth : the gradient, in float64.
    keep_all_s : seconds that it took.
    """

    options: argparse.Namespace
    propagator: seismic.Propagator
    costs: retrograd.Costs
    true: seismic.VelocityModel
    start: seismic.VelocityModel
    observed: np.ndarray
    truth: np.ndarray
    keep_all_s: float

    @classmethod
    def prepared(cls, options: argparse.Namespace) -> Shot:
        """Load the model, build the operators, calibrate, and keep everything once."""
        true = seismic.marmousi(options.spacing)
        frequency = min(FREQUENCY_HZ, seismic.resolved_frequency_hz(true))
        acquisition = seismic.surface_acquisition(
            true, 1, frequency_hz=frequency, duration_ms=options.duration
        )
        scheme = seismic.Scheme(8, "float32", free_surface=True)
        propagator = seismic.Propagator(true, acquisition, scheme)
        say(f"{propagator.grid.shape} points, {propagator.steps} steps, {frequency:.3g} Hz")
        with closing(checkpointed(propagator, options, disk="2/1")) as run:
            costs = run.prepare(**propagator.forward_arguments(0)).costs
        assert costs is not None
        propagator.gradient_operator.cfunction  # noqa: B018 - compiles
        start = seismic.smoothed(true, STARTING_SIGMA_M)
        shot = cls(options, propagator, costs, true, start, np.empty(0), np.empty(0), 0.0)
        shot.keep_everything()
        return shot

    def keep_everything(self) -> None:
        """Make the data and the gradient with every sample in memory, with the present source."""
        plain = seismic.KeepAllRun(self.propagator)
        self.propagator.set_model(self.true)
        self.observed = seismic.simulate(self.propagator, plain)
        self.propagator.set_model(self.start)
        gradient, self.keep_all_s = self.gradient(plain)
        self.truth = gradient.astype(np.float64)

    def gradient(self, run: seismic.Run) -> tuple[np.ndarray, float]:
        """The gradient in the starting model, and its seconds."""
        began = perf_counter()
        found = seismic.shot_gradient(self.propagator, run, 0, self.observed)
        return found.gradient, perf_counter() - began

    def multiply_source(self, factor: float) -> None:
        """Make the source stronger or weaker, and everything that follows from it."""
        self.propagator.forward_arguments(0)["src"].data[:] *= factor
        self.keep_everything()

    def run(self, kind: str, compress: str | float) -> CheckpointedRun:
        """A run that compresses restarts, or the records of all blocks but the last."""
        steps = self.propagator.steps
        block = self.options.block
        kept = (steps - 1) // block
        blocks = retrograd.Blocks(steps, block, kept, record_in_state=True, free_start=True)
        return checkpointed(
            self.propagator,
            self.options,
            disk="2/1",
            schedule=blocks if kind == "records" else "tiered-mixed",
            compress=compress,
            costs=self.costs,
        )


def checkpointed(
    propagator: seismic.Propagator, options: argparse.Namespace, **wanted: Any
) -> CheckpointedRun:
    """A run of the propagator's operators."""
    return retrograd.devito.checkpointed(
        propagator.forward_operator,
        propagator.gradient_operator,
        memory=options.memory,
        scratch=options.scratch,
        **wanted,
    )


def measured(shot: Shot, kind: str, compress: str | float) -> Row:
    """One gradient beside that of keeping everything, after one that touches the memory."""
    with closing(shot.run(kind, compress)) as run:
        shot.gradient(run)
        gradient, seconds = shot.gradient(run)
        result = run.result
    found = result.compression
    if found is None or not found.raw_nbytes:
        raise RuntimeError(f"no {kind} went to disk: take less --memory")
    row = {
        "kind": kind,
        "compress": compress,
        **likeness(gradient, shot.truth),
        "compression_ratio": found.ratio,
        "largest_relative_error": found.largest_relative_error,
        "encode_rate": found.encode_rate,
        "decode_rate": found.decode_rate,
        "seconds": seconds,
        "keep_all_s": shot.keep_all_s,
        "forward_steps": result.tally.forward_steps,
        "recovered": [str(failure) for failure in result.failures],
    }
    say(f"{kind}, {compress}: gradient error {row['relative_error']:.3g}, {seconds:.2f} s")
    return row


def likeness(gradient: np.ndarray, truth: np.ndarray) -> Row:
    """How far a gradient is from another, and how much it points elsewhere."""
    gradient = gradient.astype(np.float64)
    error, size = np.linalg.norm(gradient - truth), np.linalg.norm(truth)
    cosine = float(np.vdot(gradient, truth) / (np.linalg.norm(gradient) * size))
    return {
        "bitwise": bool(np.array_equal(gradient, truth)),
        "relative_error": float(error / size),
        "cosine": cosine,
        "one_less_cosine": angle_from(gradient / np.linalg.norm(gradient), truth / size),
    }


def angle_from(one: np.ndarray, other: np.ndarray) -> float:
    """One less the cosine of two unit vectors, to all digits: half their squared distance."""
    return float(np.linalg.norm(one - other) ** 2 / 2)


def tolerances(shot: Shot) -> Iterator[Row]:
    """Both kinds, each with every tolerance and without loss."""
    for kind in KINDS:
        for compress in ("lossless", *TOLERANCES):
            yield measured(shot, kind, compress)


def scales(shot: Shot, rows: Sequence[Row], tolerance: float) -> Iterator[Row]:
    """The same with a weaker and a stronger source: is the relative error the same?"""
    at_one = {row["kind"]: row for row in rows if row["compress"] == tolerance}
    amplitude = 1.0
    for kind in KINDS:
        yield at_one[kind] | {"amplitude": amplitude}
    for wanted in AMPLITUDES:
        shot.multiply_source(wanted / amplitude)
        amplitude = wanted
        for kind in KINDS:
            yield measured(shot, kind, tolerance) | {"amplitude": amplitude}


def markdown(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    ruled = [headings, ["---"] * len(headings), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in ruled)


def tolerance_table(rows: Sequence[Row]) -> str:
    """What each tolerance does to the bytes and to the gradient."""
    headings = ("compressed", "tolerance", "times less", "largest point error", "gradient error")
    headings += ("1 − cosine", "seconds", "keep-all s", "forward steps")
    return markdown(headings, [tolerance_line(row) for row in rows])


def tolerance_line(row: Row) -> list[str]:
    """The cells of one run."""
    exact = row["bitwise"]
    tolerance = row["compress"]
    return [
        row["kind"],
        tolerance if isinstance(tolerance, str) else f"{tolerance:.0e}",
        f"{row['compression_ratio']:.2f}",
        f"{row['largest_relative_error']:.2g}",
        "0, every bit" if exact else f"{row['relative_error']:.2g}",
        "0" if exact else f"{row['one_less_cosine']:.2g}",
        f"{row['seconds']:.2f}",
        f"{row['keep_all_s']:.2f}",
        str(row["forward_steps"]),
    ]


def scale_table(rows: Sequence[Row]) -> str:
    """Whether the strength of the source matters."""
    headings = ("compressed", "tolerance", "source times", "gradient error", "times less")
    lines = [
        [
            row["kind"],
            f"{row['compress']:.0e}",
            f"{row['amplitude']:g}",
            f"{row['relative_error']:.3g}",
            f"{row['compression_ratio']:.2f}",
        ]
        for row in rows
    ]
    return markdown(headings, lines)


def plot(rows: Sequence[Row], path: Path) -> None:
    """The gradient's error and the bytes saved against the tolerance."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    errors, ratios = figure.subplots(1, 2)
    for kind in KINDS:
        chosen = {row["compress"]: row for row in rows if row["kind"] == kind}
        exact = chosen.pop("lossless")
        wrong = {t: row["relative_error"] for t, row in chosen.items() if not row["bitwise"]}
        style = {"marker": "o", "color": COLOURS[kind], "label": kind}
        errors.loglog(list(wrong), list(wrong.values()), **style)
        ratios.loglog(list(chosen), [row["compression_ratio"] for row in chosen.values()], **style)
        words = {"color": COLOURS[kind], "linestyle": ":", "label": f"{kind}, lossless"}
        ratios.axhline(exact["compression_ratio"], **words)
    errors.loglog(TOLERANCES, TOLERANCES, color="0.6", linestyle="--", label="the tolerance itself")
    errors.set_ylabel("relative error of the gradient")
    errors.set_title("where a point is missing, every bit is the same", fontsize="small")
    ratios.set_ylabel("times fewer bytes")
    ratios.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ratios.yaxis.set_major_formatter("{x:g}")
    ratios.yaxis.set_minor_locator(NullLocator())
    for axes in (errors, ratios):
        axes.set_xlabel("tolerance, as a share of each array's largest value")
        axes.grid(True, which="major", alpha=0.3)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure, print, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spacing", type=int, default=8, choices=(8, 20), help="metres")
    parser.add_argument("--duration", type=float, help="milliseconds; else as the model asks for")
    parser.add_argument("--memory", default="1/16")
    parser.add_argument("--block", type=int, default=8, help="steps whose records are one item")
    parser.add_argument("--scratch", type=Path, help="a directory on a local disk")
    parser.add_argument("--scale-tolerance", type=float, default=1e-4, choices=TOLERANCES)
    parser.add_argument("--out", type=Path, help="write all figures to a JSON file")
    parser.add_argument("--plot", type=Path, help="write a picture to a PNG file")
    options = parser.parse_args()
    devito.configuration["log-level"] = "ERROR"
    shot = Shot.prepared(options)
    rows = list(tolerances(shot))
    print(tolerance_table(rows), flush=True)
    if options.plot:
        plot(rows, options.plot)
    scaled = list(scales(shot, rows, options.scale_tolerance))
    print(f"\n{scale_table(scaled)}")
    if options.out:
        found = {"tolerances": rows, "scales": scaled}
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
