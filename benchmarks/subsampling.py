"""Imaging with every k-th sample on Marmousi: what the gradient loses, and what the run gains.

The forward keeps a sample every k iterations (`ConditionalDimension`), and the image sums k times
what it finds there. Each gradient, at 1/16 of the bytes that all samples take, is compared with
that of k = 1 by its cosine and norm, to Devito's own subsampled gradient bit by bit, and its
seconds with those of keeping every sample.

    python benchmarks/subsampling.py
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from time import perf_counter
from typing import Any

import devito
import numpy as np

import retrograd
from retrograd import seismic
from retrograd.seismic.equations import forward_equations, gradient_equations
from retrograd.seismic.fields import declare

THREADS = {"nthreads_nonaffine": 1}


class Shot:
    """One shot through a smooth start, with the residual of the true model's data."""

    def __init__(self, spacing_m: int) -> None:
        truth = seismic.marmousi(spacing_m)
        start = seismic.smoothed(truth, 160.0)
        self.frequency_hz = 0.9 * seismic.resolved_frequency_hz(truth)
        acquisition = seismic.surface_acquisition(truth, frequency_hz=self.frequency_hz)
        self.scheme = seismic.Scheme(dt_ms=seismic.Scheme().time_step_ms(truth))
        self.propagator = seismic.Propagator(start, acquisition, self.scheme)
        p = self.propagator
        run = retrograd.devito.checkpointed(p.forward_operator, p.gradient_operator, memory="1/16")
        p.set_model(truth)
        observed = seismic.simulate(p, run, 0)
        p.set_model(start)
        residual = seismic.simulate(p, run, 0) - observed
        self.fields = declare(start, acquisition, self.scheme, p.times_ms)
        for mine, theirs in (
            (self.fields.squared_slowness, p._fields.squared_slowness),
            (self.fields.points.source, p._fields.points.source),
        ):
            mine.data[:] = theirs.data
        self.fields.points.source.coordinates.data[:] = acquisition.sources[0]
        self.fields.points.residual.data[: p.samples] = residual

    def operators(self, every: int) -> tuple[Any, Any, Any]:
        """Forward, gradient, and the wavefield that the gradient reads."""
        f, grid = self.fields, self.fields.u.grid
        if every == 1:
            pair = forward_equations(f, self.scheme), gradient_equations(f, self.scheme)
            return *self._compiled(*pair), f.u
        buffered = devito.TimeFunction(
            name="u", grid=grid, time_order=2, space_order=self.scheme.space_order
        )
        some = devito.ConditionalDimension("some", parent=grid.time_dim, factor=every)
        kept = devito.TimeFunction(
            name="kept",
            grid=grid,
            time_order=0,
            save=(self.propagator.nt + every - 1) // every,
            time_dim=some,
        )
        fields = type(f)(**{**vars(f), "u": buffered})
        forward = [*forward_equations(fields, self.scheme), devito.Eq(kept, buffered)]
        *steps, _ = gradient_equations(f, self.scheme)
        image = devito.Inc(f.gradient, -every * kept * f.v.dt2)
        return *self._compiled(forward, [*steps, image]), kept

    def _compiled(self, *lists: list[Any]) -> list[Any]:
        return [
            devito.Operator(one, subs=self.fields.u.grid.spacing_map, language="openmp")
            for one in lists
        ]

    @property
    def arguments(self) -> dict[str, Any]:
        """For the forward operator."""
        return {"dt": self.propagator.dt_ms, "time_m": 1, "time_M": self.propagator.nt - 2}

    @property
    def reverse(self) -> dict[str, Any]:
        """For the gradient operator."""
        return {**self.arguments, "rec": self.fields.points.residual}


def keep_all(shot: Shot, forward: Any, gradient: Any, wavefield: Any) -> np.ndarray:
    """Devito's own two calls."""
    f = shot.fields
    f.gradient.data[:] = 0.0
    f.v.data[:] = 0.0
    wavefield.data[:2] = 0.0
    given = {wavefield.name: wavefield}
    if wavefield.name == "kept":
        given["u"] = devito.TimeFunction(
            name="u", grid=f.u.grid, time_order=2, space_order=f.u.space_order
        )
    forward.apply(**given, **shot.arguments, **THREADS)
    kept = {wavefield.name: wavefield}
    gradient.apply(**kept, **shot.reverse, **THREADS)
    return np.array(f.gradient.data)


def measure(shot: Shot, factors: list[int], repeats: int) -> list[dict[str, Any]]:
    """A row for each k."""
    rows: list[dict[str, Any]] = []
    forward, gradient, u = shot.operators(1)
    whole = u._rebuild(function=None, allocator=retrograd.devito.HUGE_PAGES)
    full = keep_all(shot, forward, gradient, whole)
    all_bytes = retrograd.devito.Problem(forward, gradient).keep_all_nbytes
    for every in factors:
        pair = shot.operators(every)
        stored = pair[2]._rebuild(function=None)
        truth = full if every == 1 else keep_all(shot, *pair[:2], stored)
        del stored
        run = retrograd.devito.checkpointed(*pair[:2], memory=all_bytes // 16)
        ours, theirs = [], []
        for _ in range(repeats + 1):
            began = perf_counter()
            keep_all(shot, forward, gradient, whole)
            theirs.append(perf_counter() - began)
            shot.fields.gradient.data[:] = 0.0
            began = perf_counter()
            run.forward(**shot.arguments)
            run.reverse(**shot.reverse)
            ours.append(perf_counter() - began)
        found = np.array(shot.fields.gradient.data)
        rows.append(
            {
                "every": every,
                "cosine": float(
                    np.vdot(found, full) / np.linalg.norm(found) / np.linalg.norm(full)
                ),
                "norm": float(np.linalg.norm(found) / np.linalg.norm(full)),
                "bitwise": bool(np.array_equal(found, truth)),
                "samples_bytes": all_bytes if every == 1 else pair[2].nbytes,
                "arena_bytes": run.plan.arena_nbytes,
                "schedule": run.plan.name,
                "forward_iterations": run.plan.forward_steps * every,
                "seconds": statistics.median(ours[1:]),
                "keep_all_seconds": statistics.median(theirs[1:]),
            }
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spacing", type=int, default=8, choices=(8, 20))
    parser.add_argument("--factors", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    options = parser.parse_args()
    devito.configuration["log-level"] = "ERROR"
    shot = Shot(options.spacing)
    highest = 2.5 * shot.frequency_hz
    nyquist = int(1000 / (2 * highest) / shot.propagator.dt_ms)
    p = shot.propagator
    print(
        f"{p.nt} samples of {p.dt_ms:g} ms, {shot.frequency_hz:.3g} Hz; "
        f"{highest:.3g} Hz is sampled twice a period at k = {nyquist}"
    )
    rows = measure(shot, options.factors, options.repeats)
    print("  k    cosine      norm  samples  arena  iterations  seconds  /keep-all  bits")
    for r in rows:
        print(
            f"{r['every']:3} {r['cosine']:9.6f} {r['norm']:9.6f} "
            f"{r['samples_bytes'] / 1e6:5.0f} MB {r['arena_bytes'] / 1e6:3.0f} MB "
            f"{r['forward_iterations']:11} {r['seconds']:8.2f} "
            f"{r['seconds'] / r['keep_all_seconds']:10.2f}  {'same' if r['bitwise'] else 'OTHER'}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
