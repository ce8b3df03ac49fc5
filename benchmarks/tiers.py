"""What do disk, background transfers and compression cost beside keeping everything?

Everything runs in one process on the same operators and data, interleaved; times are medians.
The parts, each of which can be left out:

disk         little memory alone, and the same memory with a disk
alone        the records of every step go to disk: how far from the disk's and the kernels' time?
compression  what goes to disk is compressed, without loss and within tolerances
memory       the resident bytes of another process, as the system counts them
large        a gradient that this machine's memory could not keep

    python benchmarks/tiers.py                          # 3D, 100³ points, 1615 samples
    python benchmarks/tiers.py --skip large,compression --out tiers.json
"""

from __future__ import annotations

import argparse
import json
import math
import select
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import devito
import numpy as np
from peers import Timing, Wave, collect, keep_all, on_huge_pages, ours, say

import retrograd
from retrograd.errors import BudgetTooSmall, IllegalAction
from retrograd.events import Kind
from retrograd.plans import Plan
from retrograd.sizes import parse_nbytes

Row: TypeAlias = dict[str, Any]
CheckpointedRun: TypeAlias = retrograd.devito.CheckpointedRun

TOLERANCES = ("lossless", 1e-3, 1e-4, 1e-6)
COMPRESSING = ("tiered-mixed", "blocks")
BLOCKS = range(2, 9)
SAMPLE_EVERY = 0.002
"""Seconds between looks at the other process."""


@dataclass(frozen=True)
class Measured:
    """One gradient, and what the run says of it."""

    timing: Timing
    result: retrograd.Result


@dataclass(eq=False)
class Case:
    """A wave of which every sample is kept, beside which everything is measured.

    Attributes
    ----------
    reused : the wavefield with all samples.
    truth : the gradient of keeping everything.
    costs : what steps and transfers to a plain disk cost.
    """

    options: argparse.Namespace
    wave: Wave
    reused: devito.TimeFunction
    truth: np.ndarray
    costs: retrograd.Costs

    @classmethod
    def prepared(cls, options: argparse.Namespace) -> Case:
        """Compile, touch the memory, and calibrate."""
        wave = Wave(3, options.grid, options.steps)
        say(
            f"{wave.grid.shape} points, {wave.nt} samples, {wave.row_nbytes * wave.nt / 1e9:.3g} GB"
        )
        reused = wave.wavefield()
        truth = keep_all(wave, reused).gradient
        return cls(options, wave, reused, truth, calibrated(wave, options))

    def run(self, **wanted: Any) -> CheckpointedRun:
        """A run within the memory of the options."""
        return run_of(self.wave, self.options, **{"costs": self.costs, **wanted})

    def keep_all(self) -> Timing:
        """Devito's own gradient on memory that was touched before."""
        return keep_all(self.wave, self.reused)

    def measure(self, run: CheckpointedRun) -> Measured:
        """One gradient of a run."""
        return Measured(ours(self.wave, run), run.result)


def run_of(wave: Wave, options: argparse.Namespace, **wanted: Any) -> CheckpointedRun:
    """A run of a wave's operators, within the memory of the options unless another is wanted."""
    wanted = {"memory": options.memory, "scratch": options.scratch, **wanted}
    return retrograd.devito.checkpointed(wave.forward, wave.gradient, **wanted)


def calibrated(wave: Wave, options: argparse.Namespace) -> retrograd.Costs:
    """What steps and transfers to a plain disk cost."""
    with closing(run_of(wave, options, disk=options.disk)) as run:
        costs = run.prepare(dt=wave.dt).costs
    assert costs is not None
    say(str(costs))
    return costs


def compare(
    case: Case,
    runs: Mapping[str, CheckpointedRun],
    others: Mapping[str, Callable[[], Timing]] | None = None,
) -> list[Row]:
    """Keep-all and the runs in turn, ``repeats`` times: a row of medians for each."""
    plain = {"keep-all": case.keep_all, **(others or {})}
    for run in runs.values():  # touch and bind
        case.measure(run)
    timings: dict[str, list[Timing]] = {name: [] for name in plain}
    measured: dict[str, list[Measured]] = {name: [] for name in runs}
    for repeat in range(case.options.repeats):
        for name, method in plain.items():
            timings[name].append(method())
        for name, run in runs.items():
            measured[name].append(case.measure(run))
        latest = {name: several[-1] for name, several in timings.items()}
        latest |= {name: several[-1].timing for name, several in measured.items()}
        said = ", ".join(f"{name} {timing.seconds:.3f} s" for name, timing in latest.items())
        say(f"{repeat + 1}/{case.options.repeats} {said}")
    rows = [{"name": name, **seconds_of(several)} for name, several in timings.items()]
    rows += [{"name": name, **figures(several, case.truth)} for name, several in measured.items()]
    for row in rows:
        row["ratio"] = row["seconds"] / rows[0]["seconds"]
    return rows


def seconds_of(timings: Sequence[Timing]) -> Row:
    """The median of the seconds, and between what they lie."""
    seconds = [timing.seconds for timing in timings]
    return {"seconds": statistics.median(seconds), "spread_s": [min(seconds), max(seconds)]}


def figures(several: Sequence[Measured], truth: np.ndarray | None) -> Row:
    """What is told of a run: seconds by kind, bytes, steps and the gradient."""
    results = [one.result for one in several]
    row = seconds_of([one.timing for one in several]) | plan_figures(results[-1].plan)
    row["forward_steps"] = results[-1].tally.forward_steps
    row["outside_s"] = statistics.median(one.timing.outside for one in several)
    for kind in (Kind.FORWARD, Kind.RECOMPUTE, Kind.REVERSE):
        row[f"{kind.value}_step_s"] = median_of(results, lambda result, k=kind: a_step(result, k))
    if truth is not None:
        gradients = [one.timing.gradient for one in several]
        row["bitwise"] = all(np.array_equal(gradient, truth) for gradient in gradients)
        row["relative_error"] = max(relative_error(gradient, truth) for gradient in gradients)
    row["recovered"] = [str(failure) for result in results for failure in result.failures]
    return row | transfer_figures(results) | codec_figures(results)


def plan_figures(plan: Plan) -> Row:
    """What was chosen, and what it takes."""
    schedule, words = plan.schedule, plan.name
    if isinstance(schedule, retrograd.Blocks):
        words = f"blocks of {schedule.block}, {schedule.kept} kept"
    return {
        "schedule": words,
        "predicted_s": plan.seconds,
        "budget_nbytes": plan.memory_nbytes,
        "peak_nbytes": plan.peak_nbytes,
        "disk_nbytes": plan.prediction.disk_nbytes,
    }


def a_step(result: retrograd.Result, kind: Kind) -> float | None:
    """Seconds of one step of a kind; None if there was none."""
    steps = result.tally.steps[kind]
    return result.tally.seconds[kind] / steps if steps else None


def median_of(
    results: Sequence[retrograd.Result], what: Callable[[retrograd.Result], float | None]
) -> float | None:
    """The median over runs of what all of them know."""
    values = [value for result in results if (value := what(result)) is not None]
    return statistics.median(values) if values else None


def transfer_figures(results: Sequence[retrograd.Result]) -> Row:
    """What was written and read in the background, and what that took of the caller's time.

    It waits where a transfer is not done yet, and copies items to buffers and back.
    """
    moved = [result.transfers for result in results if result.transfers is not None]
    if not moved:
        return {}
    standing = [
        result.tally.seconds[Kind.SAVE] + result.tally.seconds[Kind.RESTORE] for result in results
    ]
    median = statistics.median
    return {
        **{key: median(asdict(one)[key] for one in moved) for key in asdict(moved[0])},
        "waited_share": median(
            one.waited_seconds / result.seconds for one, result in zip(moved, results, strict=True)
        ),
        "copied_s": median(
            seconds - one.waited_seconds for one, seconds in zip(moved, standing, strict=True)
        ),
        "disk_s": median(one.write_seconds + one.read_seconds for one in moved),
    }


def codec_figures(results: Sequence[retrograd.Result]) -> Row:
    """What the codec did, if one was used."""
    found = [result.compression for result in results if result.compression is not None]
    if not found or not found[-1].raw_nbytes:
        return {}
    return {
        "compression_ratio": found[-1].ratio,
        "compressed_nbytes": found[-1].compressed_nbytes,
        "encode_rate": statistics.median(one.encode_rate for one in found),
        "decode_rate": median_of(results, decode_rate),
        "codec_s": statistics.median(one.encode_seconds + one.decode_seconds for one in found),
        "largest_relative_error": max(one.largest_relative_error for one in found),
    }


def decode_rate(result: retrograd.Result) -> float | None:
    """Bytes decoded in a second; None if all that was wanted back was still in a buffer."""
    found = result.compression
    return found.decode_rate if found is not None and found.decode_seconds else None


def relative_error(gradient: np.ndarray, truth: np.ndarray) -> float:
    """The norm of a difference over that of the truth."""
    difference = gradient.astype(np.float64) - truth
    return float(np.linalg.norm(difference) / np.linalg.norm(truth.astype(np.float64)))


def with_a_disk(case: Case) -> list[Row]:
    """Keep-all, little memory, and little memory with a disk; how much slower kernels become."""
    with ExitStack() as stack:
        runs = {
            name: stack.enter_context(closing(case.run(**wanted)))
            for name, wanted in {
                case.options.memory: {},
                f"{case.options.memory} + {case.options.disk}": {"disk": case.options.disk},
            }.items()
        }
        rows = compare(case, runs, {"keep-all, huge pages": lambda: on_huge_pages(case.wave)})
    without, beside = rows[-2:]
    for kind in ("forward", "reverse"):
        key = f"{kind}_step_s"
        beside[f"{kind}_slowdown"] = beside[key] / without[key]
    return rows


def disk_alone(case: Case) -> list[Row]:
    """Every record on disk, in the best of several block sizes, beside what bounds it."""
    tried = dict(swept(case))
    if not tried:
        say(f"memory={case.options.memory} holds no blocks at all")
        return []
    best = min(tried, key=tried.__getitem__)
    with closing(case.run(disk="2/1", schedule=every_record(case, best))) as run:
        rows = compare(case, {f"blocks of {best}": run})
    kept, mine = rows
    mine["sweep_s"] = tried
    mine["bound_s"] = max(mine["disk_s"], kept["seconds"])
    mine["over_bound"] = mine["seconds"] / mine["bound_s"]
    return rows


def swept(case: Case) -> Iterator[tuple[int, float]]:
    """Seconds of one gradient with each block size that fits, after one that touches memory."""
    for block in BLOCKS:
        try:
            run = case.run(disk="2/1", schedule=every_record(case, block))
        except (BudgetTooSmall, IllegalAction) as error:
            say(f"blocks of {block}: {error}")
            continue
        with closing(run):
            case.measure(run)
            seconds = case.measure(run).timing.seconds
        say(f"blocks of {block}: {seconds:.3f} s")
        yield block, seconds


def every_record(case: Case, block: int) -> retrograd.Blocks:
    """All blocks but the last on disk."""
    steps = case.wave.nt - 2
    kept = (steps - 1) // block
    return retrograd.Blocks(steps, block, kept, record_in_state=True, free_start=True)


def compressing(case: Case) -> list[Row]:
    """What goes to disk is compressed: each way to do it, with schedules that use the disk."""
    rows = []
    for schedule in COMPRESSING:
        with ExitStack() as stack:
            runs = {
                f"{schedule}, {compress or 'as it is'}": stack.enter_context(
                    closing(case.run(**codec_options(case, schedule, compress)))
                )
                for compress in (None, *TOLERANCES)
            }
            rows += compare(case, runs)
    for row in rows:
        if row.get("schedule") and not row["disk_nbytes"]:
            say(f"{row['name']}: the planner found no use for the disk; nothing was compressed")
    return rows


def codec_options(case: Case, schedule: str, compress: str | float | None) -> dict[str, Any]:
    """What a run is asked for; one that compresses is calibrated with its codec."""
    wanted = {"disk": case.options.disk, "schedule": schedule, "compress": compress}
    return wanted | ({} if compress is None else {"costs": None})


def from_outside(options: argparse.Namespace, costs: retrograd.Costs) -> list[Row]:
    """Resident bytes of a process that computes one gradient: costs given, and measured in it."""
    return [
        {"name": "costs given", **observed(options, json.dumps(asdict(costs)))},
        {"name": "calibrates itself", **observed(options, "null")},
    ]


def observed(options: argparse.Namespace, costs: str) -> Row:
    """Start another process, and look at it until it has its gradient."""
    command = [sys.executable, __file__, "--child", costs]
    for name in ("grid", "steps", "memory", "disk", "scratch"):
        value = getattr(options, name)
        command += [] if value is None else [f"--{name}", str(value)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        watch = Watch(process)
        watch.until_it_waits()
        before = watch.resident_nbytes()
        watch.let_go()
        facts, planning = watch.until_it_waits()
        planned = watch.resident_nbytes()
        watch.let_go()
        _, running = watch.until_it_waits()
        watch.let_go()
    return facts | {
        "before_nbytes": before,
        "planned_above_nbytes": planned - before,
        "planning_peak_above_nbytes": planning - before,
        "running_peak_above_nbytes": running - before,
        "over_budget_nbytes": max(planning, running) - before - facts["budget_nbytes"],
    }


class Watch:
    """Looks at the resident bytes of another process, which stops at agreed places."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._folder = Path("/proc") / str(process.pid)
        self._is_fresh = False

    def resident_nbytes(self, what: str = "VmRSS") -> int:
        """Bytes that are resident, or the most there were, as the system counts them."""
        for line in (self._folder / "status").read_text().splitlines():
            if line.startswith(what):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"process {self._process.pid} has ended")

    def until_it_waits(self) -> tuple[Row, int]:
        """What it says at the next place, and the most bytes that it had on the way there."""
        peak = 0
        while not select.select([self._process.stdout], [], [], SAMPLE_EVERY)[0]:
            peak = max(peak, self.resident_nbytes())
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the other process ended with {self._process.wait()}")
        peak = max(peak, self.resident_nbytes())
        if self._is_fresh:
            peak = max(peak, self.resident_nbytes("VmHWM"))
        return json.loads(line), peak

    def let_go(self) -> None:
        """Let it go on; what the system remembers as the most begins anew, if it allows that."""
        try:
            (self._folder / "clear_refs").write_text("5")
            self._is_fresh = True
        except OSError:
            self._is_fresh = False
        self._process.stdin.write("\n")
        self._process.stdin.flush()


def child(options: argparse.Namespace) -> None:
    """One gradient, with stops where another process looks at this one."""
    wave = Wave(3, options.grid, options.steps)
    wave.reset()
    for function in (wave.v, wave.residual):
        function.data_with_halo[:] = 0
    for operator in (wave.forward, wave.gradient):
        operator.cfunction  # noqa: B018 - compiles
    stop({})
    given = json.loads(options.child)
    costs = None if given is None else retrograd.Costs(**given)
    with closing(run_of(wave, options, disk=options.disk, costs=costs)) as run:
        plan = run.prepare(dt=wave.dt)
        stop(plan_figures(plan) | {"fixed_nbytes": plan.demand.fixed_nbytes})
        run.forward(dt=wave.dt)
        wave.make_residual()
        run.reverse(dt=wave.dt)
        stop({})


def stop(facts: Row) -> None:
    """Say something and wait for a line."""
    print(json.dumps(facts), flush=True)
    sys.stdin.readline()


def too_large_to_keep(options: argparse.Namespace) -> list[Row]:
    """One gradient whose samples no memory here holds, beside one sweep forward and one back."""
    steps = options.large_steps or samples_in(options.large_keep_all, options.large_grid)
    wave = Wave(3, options.large_grid, steps)
    say(f"{wave.grid.shape} points, {wave.nt} samples, {wave.row_nbytes * wave.nt / 1e9:.3g} GB")
    wave.gradient.cfunction  # noqa: B018 - compiles
    wanted = {"memory": options.large_memory, "disk": options.large_disk}
    with closing(run_of(wave, options, **wanted)) as run:
        say(run.prepare(dt=wave.dt).explain())
        measured = Measured(ours(wave, run), run.result)
        row = {"name": f"{options.large_grid}³ × {wave.nt}", **figures([measured], None)}
        row["forward_alone_s"] = run.forward(keep=False, dt=wave.dt).seconds[Kind.FORWARD]
    row["keep_all_nbytes"] = wave.row_nbytes * wave.nt
    row["sweeps_s"] = row["forward_alone_s"] + row["reverse_step_s"] * (wave.nt - 2)
    row["ratio"] = row["seconds"] / row["sweeps_s"]
    return [row]


def samples_in(size: str, grid_points: int) -> int:
    """How many samples of a wavefield take at least so many bytes."""
    grid = devito.Grid(shape=(grid_points,) * 3)
    one = devito.TimeFunction(name="u", grid=grid, space_order=Wave.space_order, save=3)
    row_nbytes = math.prod(one.shape_allocated[1:]) * np.dtype(np.float32).itemsize
    return -(-parse_nbytes(size) // row_nbytes)


Column: TypeAlias = tuple[str, Callable[[Row], str]]


def shown(heading: str, key: str, form: str, factor: float = 1) -> Column:
    """A column of numbers; what a row does not have is a dash."""

    def cell(row: Row) -> str:
        value = row.get(key)
        return "-" if value is None else format(value * factor, form)

    return heading, cell


NAME: Column = "", lambda row: row["name"]
SCHEDULE: Column = "schedule", lambda row: row.get("schedule", "-")
EXACT: Column = "bitwise", lambda row: {True: "yes", False: "NO"}.get(row.get("bitwise"), "-")
SECONDS = (
    shown("seconds", "seconds", ".3f"),
    shown("ratio", "ratio", ".3f"),
    shown("predicted", "predicted_s", ".3f"),
    shown("steps", "forward_steps", "d"),
)
WAITED = (
    shown("waited s", "waited_seconds", ".3f"),
    shown("share", "waited_share", ".1%"),
    shown("copied s", "copied_s", ".3f"),
    shown("disk s", "disk_s", ".3f"),
    shown("disk MB", "disk_nbytes", ".0f", 1e-6),
)
STEPS = (
    shown("fwd ms", "forward_step_s", ".3f", 1e3),
    shown("rev ms", "reverse_step_s", ".3f", 1e3),
)
COLUMNS: dict[str, tuple[Column, ...]] = {
    "disk": (
        *(NAME, *SECONDS, *WAITED, *STEPS),
        shown("fwd slower", "forward_slowdown", ".3f"),
        shown("rev slower", "reverse_slowdown", ".3f"),
        *(EXACT, SCHEDULE),
    ),
    "alone": (
        *(NAME, *SECONDS, *WAITED, *STEPS),
        shown("bound s", "bound_s", ".3f"),
        shown("over bound", "over_bound", ".3f"),
        EXACT,
    ),
    "compression": (
        *(NAME, *SECONDS, *WAITED),
        shown("times less", "compression_ratio", ".2f"),
        shown("in MB/s", "encode_rate", ".0f", 1e-6),
        shown("out MB/s", "decode_rate", ".0f", 1e-6),
        shown("point error", "largest_relative_error", ".2g"),
        shown("gradient error", "relative_error", ".2g"),
        *(EXACT, SCHEDULE),
    ),
    "memory": (
        NAME,
        shown("before MB", "before_nbytes", ".1f", 1e-6),
        shown("fixed MB", "fixed_nbytes", ".1f", 1e-6),
        shown("budget MB", "budget_nbytes", ".1f", 1e-6),
        shown("planned MB", "peak_nbytes", ".1f", 1e-6),
        shown("planning + MB", "planning_peak_above_nbytes", ".1f", 1e-6),
        shown("running + MB", "running_peak_above_nbytes", ".1f", 1e-6),
        shown("over budget MB", "over_budget_nbytes", ".1f", 1e-6),
        SCHEDULE,
    ),
    "large": (
        *(NAME, *SECONDS, *WAITED, *STEPS),
        shown("keep-all GB", "keep_all_nbytes", ".1f", 1e-9),
        shown("sweeps s", "sweeps_s", ".3f"),
        SCHEDULE,
    ),
}


def table(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """Columns as wide as they must be, the first one to the left."""
    cells = [[heading for heading, _ in columns]]
    cells += [[cell(row) for _, cell in columns] for row in rows]
    widths = [max(len(line[at]) for line in cells) for at in range(len(columns))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if at == 0 else text.rjust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    )


BESIDE_KEEP_ALL: dict[str, Callable[[Case], list[Row]]] = {
    "disk": with_a_disk,
    "alone": disk_alone,
    "compression": compressing,
}
PARTS = (*BESIDE_KEEP_ALL, "memory", "large")


def measure(options: argparse.Namespace) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each part that is wanted; what all samples take is given back in between."""
    wanted = [part for part in PARTS if part not in options.skip]
    costs = None
    if set(wanted) & set(BESIDE_KEEP_ALL):
        case = Case.prepared(options)
        for part in BESIDE_KEEP_ALL:
            if part in wanted:
                yield part, BESIDE_KEEP_ALL[part](case)
        costs = case.costs
        del case
        collect()
    if "memory" in wanted:
        costs = costs or calibrated(Wave(3, options.grid, options.steps), options)
        yield "memory", from_outside(options, costs)
    if "large" in wanted:
        yield "large", too_large_to_keep(options)


def parts(text: str) -> list[str]:
    """Names of parts, with commas between them."""
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(PARTS)}")
    return names


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", type=int, default=100, help="points along each axis")
    parser.add_argument("--steps", type=int, default=1615, help="samples in time")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", default="1/64")
    parser.add_argument("--disk", default="4 GB")
    parser.add_argument("--scratch", type=Path, help="a directory on the disk to measure")
    parser.add_argument("--skip", type=parts, default=[], help=f"of {','.join(PARTS)}")
    parser.add_argument("--large-grid", type=int, default=160)
    parser.add_argument("--large-steps", type=int, help="samples; else as many as --large-keep-all")
    parser.add_argument("--large-keep-all", default="40 GB", help="what keeping everything takes")
    parser.add_argument("--large-memory", default="2 GB")
    parser.add_argument("--large-disk", default="12 GB")
    parser.add_argument("--out", type=Path, help="write all figures to a JSON file")
    parser.add_argument("--child", metavar="COSTS", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure and print; what is measured is written part by part."""
    options = parsed()
    devito.configuration["log-level"] = "ERROR"
    if options.child is not None:
        child(options)
        return
    found: dict[str, list[Row]] = {}
    for part, rows in measure(options):
        found[part] = rows
        print(f"{part}\n{table(rows, COLUMNS[part])}\n", flush=True)
        if options.out:
            options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
