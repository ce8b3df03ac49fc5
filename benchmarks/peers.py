"""How fast is a checkpointed gradient beside keeping everything, and beside pyRevolve?

Everything runs in one process, on the same operators and data, interleaved: Devito's own
gradient with all samples in memory (reused, on default and on huge pages, and freshly
allocated), pyRevolve with the same bytes, and retrograd. Times are medians.

    python benchmarks/peers.py                     # 3D, 100³ points with the layer, 1615 samples
    python benchmarks/peers.py --dimensions 2 --grid 101 --steps 2000 --fractions 1/16
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import perf_counter

import devito
import numpy as np

import retrograd

ONE_THREAD_INJECTS = {"nthreads_nonaffine": 1}


@dataclass(eq=False)
class Wave:
    """Operators and data of one shot in a two-layer model with an absorbing layer."""

    dimensions: int
    grid_points: int
    nt: int
    space_order: int = 4
    spacing: float = 10.0
    dt: float = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.grid_points,) * self.dimensions
        extent = tuple(self.spacing * (n - 1) for n in shape)
        self.grid = devito.Grid(shape=shape, extent=extent, dtype=np.float32)
        self.dt = 0.4 * self.spacing / 3.0 / np.sqrt(self.dimensions)
        self.u = self.wavefield()
        order = {"grid": self.grid, "space_order": self.space_order}
        huge = {"allocator": retrograd.devito.HUGE_PAGES}
        self.v = devito.TimeFunction(name="v", time_order=2, **order, **huge)
        self.m = devito.Function(name="m", **order, **huge)
        self.damp = devito.Function(name="damp", **order, **huge)
        self.grad = devito.Function(name="grad", **order, **huge)
        self.src = self._points("src", 1)
        self.rec = self._points("rec", 101)
        self.residual = self._points("residual", 101)
        self._fill()
        self._build()

    def wavefield(self, **options: object) -> devito.TimeFunction:
        """A wavefield of all samples, not allocated before it is used."""
        return devito.TimeFunction(
            name="u",
            grid=self.grid,
            time_order=2,
            space_order=self.space_order,
            save=self.nt,
            **options,
        )

    def _points(self, name: str, count: int) -> devito.SparseTimeFunction:
        return devito.SparseTimeFunction(name=name, grid=self.grid, npoint=count, nt=self.nt)

    def _fill(self) -> None:
        rng = np.random.default_rng(1)
        extent = np.array(self.grid.extent)
        velocity = np.full(self.grid.shape, 2.0)
        velocity[..., self.grid_points // 2 :] = 3.0
        self.m.data[:] = velocity**-2
        depth = [np.minimum(np.arange(n), np.arange(n)[::-1]) for n in self.grid.shape]
        inside = np.minimum.reduce(np.meshgrid(*depth, indexing="ij"))
        self.damp.data[:] = 0.02 * np.clip(1 - inside / 10, 0, 1) ** 2
        self.src.coordinates.data[:] = 0.5 * extent
        self.rec.coordinates.data[:] = extent * rng.uniform(0.2, 0.8, (101, self.dimensions))
        self.residual.coordinates.data[:] = self.rec.coordinates.data
        times = self.dt * np.arange(self.nt)
        a = (np.pi * 0.01 * (times - 120)) ** 2
        self.src.data[:, 0] = (1 - 2 * a) * np.exp(-a)

    def _build(self) -> None:
        self.forward, self.gradient = self._operators(self.u)
        self.buffer = devito.TimeFunction(
            name="u", grid=self.grid, time_order=2, space_order=self.space_order
        )

    @cache  # noqa: B019 - one wave lives as long as the process
    def buffered_operators(self) -> tuple[devito.Operator, devito.Operator]:
        """The operators on three samples, as pyRevolve needs them."""
        return self._operators(self.buffer)

    def _operators(self, u: devito.TimeFunction) -> tuple[devito.Operator, devito.Operator]:
        v, m, damp, src, rec = self.v, self.m, self.damp, self.src, self.rec
        dt = self.grid.stepping_dim.spacing
        options = {"subs": self.grid.spacing_map, "language": "openmp"}
        update = devito.solve(m * u.dt2 - u.laplace + damp * u.dt, u.forward)
        forward = devito.Operator(
            [devito.Eq(u.forward, update)]
            + src.inject(field=u.forward, expr=src * dt**2 / m)
            + rec.interpolate(expr=u),
            name="Forward",
            **options,
        )
        back = devito.solve(m * v.dt2 - v.laplace + damp * v.dt.T, v.backward)
        residual = self.residual
        gradient = devito.Operator(
            [devito.Eq(v.backward, back)]
            + residual.inject(field=v.backward, expr=residual * dt**2 / m)
            + [devito.Inc(self.grad, -u * v.dt2)],
            name="Gradient",
            **options,
        )
        return forward, gradient

    @property
    def row_nbytes(self) -> int:
        """Bytes of one sample of the wavefield."""
        return int(np.prod(self.u.shape_allocated[1:])) * 4

    def reset(self) -> None:
        """What every gradient starts from."""
        self.rec.data[:] = 0
        self.grad.data_with_halo[:] = 0

    def make_residual(self) -> None:
        """The data themselves serve as residual."""
        self.residual.data[:] = self.rec.data


@dataclass
class Timing:
    """One gradient: seconds in total, forward and reverse, and the gradient itself."""

    seconds: float
    forward: float
    reverse: float
    gradient: np.ndarray
    outside: float = 0.0


def keep_all(wave: Wave, u: devito.TimeFunction | None) -> Timing:
    """Devito's own gradient; with None the wavefield is allocated freshly, within the time."""
    wave.reset()
    began = perf_counter()
    u = u if u is not None else wave.wavefield()
    u.data_with_halo[:2] = 0
    wave.forward.apply(u=u, dt=wave.dt, **ONE_THREAD_INJECTS)
    middle = perf_counter()
    wave.make_residual()
    wave.v.data_with_halo[:] = 0
    wave.gradient.apply(u=u, dt=wave.dt, **ONE_THREAD_INJECTS)
    end = perf_counter()
    return Timing(end - began, middle - began, end - middle, np.array(wave.grad.data))


def on_huge_pages(wave: Wave) -> Timing:
    """Keep-all on huge pages that were touched before; given back afterwards."""
    u = wave.wavefield(allocator=retrograd.devito.HUGE_PAGES)
    u.data_with_halo[:2] = 0
    timing = keep_all(wave, u)
    del u
    collect()
    return timing


def freshly_allocated(wave: Wave) -> Timing:
    """Keep-all as ``solver.forward(save=True)`` does it; given back afterwards."""
    timing = keep_all(wave, None)
    collect()
    return timing


def collect() -> None:
    """Give the memory of dropped fields back, which Devito's caches hold."""
    devito.clear_cache()
    gc.collect()


def ours(wave: Wave, run: retrograd.devito.CheckpointedRun) -> Timing:
    """retrograd's gradient; ``outside`` is all of its time that is not in compiled code."""
    wave.reset()
    began = perf_counter()
    run.forward(dt=wave.dt)
    middle = perf_counter()
    wave.make_residual()
    run.reverse(dt=wave.dt)
    end = perf_counter()
    seconds = end - began
    gradient = np.array(wave.grad.data)
    return Timing(seconds, middle - began, end - middle, gradient, seconds - run.compiled_seconds)


class Pyrevolve:
    """pyRevolve as Devito's example solvers use it, with as many checkpoints as bytes allow."""

    def __init__(self, wave: Wave, nbytes: int) -> None:
        self._wave = wave
        self._checkpoints = nbytes // (2 * wave.row_nbytes)
        self.forward_steps = 0

    def gradient(self) -> Timing:
        """One gradient; the objects are made anew, as they serve once only."""
        from devito.checkpointing.checkpoint import CheckpointOperator, DevitoCheckpoint
        from pyrevolve import MemoryRevolver

        wave, self.forward_steps = self._wave, 0
        forward, gradient = wave.buffered_operators()
        wave.reset()
        began = perf_counter()
        u = wave.buffer
        u.data_with_halo[:] = 0
        options = {"u": u, "dt": wave.dt, **ONE_THREAD_INJECTS}
        revolver = MemoryRevolver(
            DevitoCheckpoint([u]),
            _Counted(CheckpointOperator(forward, **options), self),
            CheckpointOperator(gradient, **options),
            self._checkpoints,
            wave.nt - 2,
        )
        revolver.apply_forward()
        middle = perf_counter()
        wave.make_residual()
        wave.v.data_with_halo[:] = 0
        revolver.apply_reverse()
        end = perf_counter()
        return Timing(end - began, middle - began, end - middle, np.array(wave.grad.data))


class _Counted:
    """Counts the forward steps that pyRevolve asks for."""

    def __init__(self, operator: object, owner: Pyrevolve) -> None:
        self._operator = operator
        self._owner = owner

    def apply(self, t_start: int, t_end: int) -> None:
        self._owner.forward_steps += t_end - t_start
        self._operator.apply(t_start=t_start, t_end=t_end)


def measure(options: argparse.Namespace) -> list[dict[str, object]]:
    """All methods in turn, ``repeats`` times; one row of medians for each fraction."""
    wave = Wave(options.dimensions, options.grid, options.steps)
    say(f"{wave.grid.shape} points, {wave.nt} samples, {wave.row_nbytes * wave.nt / 1e9:.3g} GB")
    first_fresh = keep_all(wave, None).seconds
    collect()
    say(f"first keep-all in a new process, compilation included: {first_fresh:.2f} s")
    reused = wave.wavefield()
    truth = keep_all(wave, reused).gradient
    runs, rivals = {}, {}
    for fraction in options.fractions:
        operators = wave.forward, wave.gradient
        runs[fraction] = retrograd.devito.checkpointed(*operators, memory=fraction)
        rivals[fraction] = Pyrevolve(wave, runs[fraction].plan.memory_nbytes)
    methods: dict[str, Callable[[], Timing]] = {
        "keep_all_reused": lambda: keep_all(wave, reused),
        "keep_all_huge": lambda: on_huge_pages(wave),
        "keep_all_fresh": lambda: freshly_allocated(wave),
    }
    for fraction in options.fractions:
        methods[f"ours {fraction}"] = lambda f=fraction: ours(wave, runs[f])
        if options.pyrevolve:
            methods[f"pyrevolve {fraction}"] = lambda f=fraction: rivals[f].gradient()
    for name in methods:  # touch, compile, bind
        if name.startswith(("ours", "pyrevolve")):
            methods[name]()
    timings: dict[str, list[Timing]] = {name: [] for name in methods}
    for repeat in range(options.repeats):
        for name, method in methods.items():
            timings[name].append(method())
            say(f"{repeat + 1}/{options.repeats} {name:<18} {timings[name][-1].seconds:8.3f} s")
    return [
        row(fraction, wave, runs[fraction], rivals[fraction], timings, truth)
        | {"first_fresh_s": first_fresh}
        for fraction in options.fractions
    ]


def row(
    fraction: str,
    wave: Wave,
    run: retrograd.devito.CheckpointedRun,
    rival: Pyrevolve,
    timings: dict[str, list[Timing]],
    truth: np.ndarray,
) -> dict[str, object]:
    """Medians, spreads and ratios of one fraction."""
    kept, mine = timings["keep_all_reused"], timings[f"ours {fraction}"]
    forward = statistics.median(t.forward for t in kept) / (wave.nt - 2)
    reverse = statistics.median(t.reverse for t in kept)
    theirs = timings.get(f"pyrevolve {fraction}", [])
    figures = {
        "fraction": fraction,
        "ours_s": median(mine),
        "keep_all_reused_s": median(kept),
        "keep_all_huge_s": median(timings["keep_all_huge"]),
        "keep_all_fresh_s": median(timings["keep_all_fresh"]),
        "pyrevolve_s": median(theirs) if theirs else None,
        "bound_s": run.plan.forward_steps * forward + reverse,
        "forward_steps": run.result.tally.forward_steps,
        "pyrevolve_forward_steps": rival.forward_steps or None,
        "engine_overhead_s": statistics.median(t.outside for t in mine),
        "peak_bytes": run.arena_nbytes,
        "budget_bytes": run.plan.memory_nbytes,
        "bitwise": all(np.array_equal(t.gradient, truth) for t in mine),
        "pyrevolve_bitwise": all(np.array_equal(t.gradient, truth) for t in theirs) or None,
    }
    spreads = {
        name: [min(t.seconds for t in several), max(t.seconds for t in several)]
        for name, several in timings.items()
        if " " not in name or name.endswith(f" {fraction}")
    }
    return figures | {"spreads_s": spreads}


def median(timings: list[Timing]) -> float:
    """The median of the total seconds."""
    return statistics.median(t.seconds for t in timings)


def table(rows: list[dict[str, object]]) -> str:
    """The ratios, as a table."""
    names = ["ours_s", "keep_all_reused_s", "keep_all_huge_s", "keep_all_fresh_s", "pyrevolve_s"]
    lines = ["fraction " + " ".join(f"{n[:-2]:>15}" for n in names)]
    for r in rows:
        cells = " ".join(f"{r[n]:15.3f}" if r[n] else f"{'-':>15}" for n in names)
        lines.append(f"{r['fraction']:<8} {cells}")
    lines.append("")
    lines.append(
        "fraction  /reused   /huge  /fresh  /bound  pyrevolve/ours  outside  steps  bitwise"
    )
    for r in rows:
        mine = r["ours_s"]
        rival = f"{r['pyrevolve_s'] / mine:14.2f}" if r["pyrevolve_s"] else f"{'-':>14}"
        lines.append(
            f"{r['fraction']:<8} {mine / r['keep_all_reused_s']:8.3f} "
            f"{mine / r['keep_all_huge_s']:7.3f} {mine / r['keep_all_fresh_s']:7.3f} "
            f"{mine / r['bound_s']:7.3f}  {rival} {r['engine_overhead_s'] / mine:8.2%} "
            f"{r['forward_steps']:6}  {r['bitwise']}"
        )
    return "\n".join(lines)


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimensions", type=int, default=3, choices=(2, 3))
    parser.add_argument("--grid", type=int, default=100, help="points along each axis")
    parser.add_argument("--steps", type=int, default=1615, help="samples in time")
    parser.add_argument("--fractions", nargs="+", default=["1/8", "1/16", "1/64"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-pyrevolve", dest="pyrevolve", action="store_false")
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    options = parser.parse_args()
    devito.configuration["log-level"] = "ERROR"
    rows = measure(options)
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
