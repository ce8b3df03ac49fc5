"""The gradient of one model: what `retrograd gradient` prepares, computes, checks and reports."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import retrograd
from retrograd import seismic
from retrograd.cli.resident import peak_resident_nbytes
from retrograd.errors import InvalidArgument
from retrograd.events import Kind, Observer
from retrograd.sizes import format_nbytes, free_nbytes

STARTING_SIGMA_M: Final = 120.0
"""The starting model is the true one's slowness, smoothed by a Gaussian of this width."""

_USUAL_FREQUENCY_HZ: Final = 10.0


@dataclass(frozen=True, slots=True)
class Case:
    """A model, a starting model, shots, and a run that is planned for them."""

    name: str
    true: seismic.VelocityModel
    start: seismic.VelocityModel
    propagator: seismic.Propagator
    run: Any
    resume: Path | None = None
    interval: float = 0.0

    @property
    def shots(self) -> int:
        """How many shots the gradient sums up."""
        return self.propagator.acquisition.shots

    def headline(self) -> str:
        """What is about to be computed."""
        shape = " × ".join(str(n) for n in self.propagator.grid.shape)
        return (
            f"{self.name}: {shape} points with the absorbing layer, {self.propagator.steps} steps "
            f"of {self.propagator.dt_ms:g} ms, {self.shots} shot{'s' * (self.shots > 1)} of "
            f"{self.propagator.acquisition.frequency_hz:g} Hz, "
            f"{len(self.propagator.acquisition.receivers)} receivers"
        )


@dataclass(slots=True)
class Outcome:
    """What was computed, and what it took."""

    observed: list[NDArray[Any]]
    data: list[NDArray[Any]]
    gradient: NDArray[Any]
    misfit: float
    forward_steps: int
    arena_nbytes: int
    seconds: dict[Kind, float]
    total_seconds: float
    peak_rss_nbytes: int
    rss_above_imports_nbytes: int = 0
    bitwise_equal: bool | None = None
    relative_error: float | None = None
    resumed: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


def prepare(options: argparse.Namespace) -> Case:
    """Load the model, place the shots, find the operators' state and plan the run."""
    true = seismic.marmousi(8) if options.model == "marmousi" else seismic.load_npz(options.model)
    frequency = options.frequency
    if frequency is None:
        frequency = min(_USUAL_FREQUENCY_HZ, seismic.resolved_frequency_hz(true))
    acquisition = seismic.surface_acquisition(true, options.shots, frequency_hz=frequency)
    scheme = seismic.Scheme(options.space_order, options.dtype, free_surface=True)
    propagator = seismic.Propagator(true, acquisition, scheme)
    memory: str = options.memory or ("1/1" if options.schedule == "keep-all" else "1/16")
    run = retrograd.devito.checkpointed(
        propagator.forward_operator,
        propagator.gradient_operator,
        memory=memory,
        disk=options.disk,
        scratch=options.scratch,
        compress=options.compress,
        schedule=options.schedule,
    )
    propagator.set_model(true)
    run.prepare(**propagator.forward_arguments(0))
    start = seismic.smoothed(true, STARTING_SIGMA_M)
    return Case(
        Path(options.model).stem, true, start, propagator, run, options.resume, options.interval
    )


def compute(case: Case, observer: Observer) -> Outcome:
    """Make the data in the true model, and the gradient in the starting model."""
    case.run.observers.append(observer)
    propagator = case.propagator
    propagator.set_model(case.true)
    observed = [seismic.simulate(propagator, case.run, shot) for shot in range(case.shots)]
    began = perf_counter()
    propagator.set_model(case.start)
    gradient, misfit, data = np.zeros(case.true.shape, dtype=propagator.scheme.dtype), 0.0, []
    seconds, resumed = dict.fromkeys(Kind, 0.0), []
    for shot in range(case.shots):
        kept = None if case.resume is None else case.resume / f"shot-{shot}"
        part = seismic.shot_gradient(
            propagator, case.run, shot, observed[shot], resume=kept, interval=case.interval
        )
        gradient, misfit = gradient + part.gradient, misfit + part.misfit
        data.append(part.data)
        tally = case.run.result.tally
        if case.run.result.resumed:
            resumed.append(f"shot {shot}: {case.run.result.resumed}")
        for kind, spent in tally.seconds.items():
            seconds[kind] += spent
    return Outcome(
        observed,
        data,
        gradient,
        misfit,
        tally.forward_steps,
        case.run.arena_nbytes,
        seconds,
        perf_counter() - began,
        peak_resident_nbytes(),
        resumed=resumed,
    )


def compare_with_keep_all(case: Case, outcome: Outcome) -> None:
    """Note whether Devito's own ``apply``, with every sample kept, gives the same bits."""
    needed = case.run.plan.keep_all_nbytes
    if needed > free_nbytes():
        raise InvalidArgument(
            f"--check keeps everything, which takes {format_nbytes(needed)}, and "
            f"{format_nbytes(free_nbytes())} are free: leave --check out, or take a smaller model"
        )
    case.propagator.set_model(case.start)
    plain = seismic.KeepAllRun(case.propagator)
    gradient = np.zeros_like(outcome.gradient)
    same = True
    for shot in range(case.shots):
        part = seismic.shot_gradient(case.propagator, plain, shot, outcome.observed[shot])
        gradient = gradient + part.gradient
        same &= np.array_equal(part.data, outcome.data[shot])
    outcome.bitwise_equal = bool(same and np.array_equal(gradient, outcome.gradient))
    difference = gradient.astype(np.float64) - outcome.gradient
    outcome.relative_error = float(np.linalg.norm(difference) / np.linalg.norm(gradient))


def save_arrays(path: Path, case: Case, outcome: Outcome) -> None:
    """Write models, gradient and data."""
    np.savez_compressed(
        path,
        vp=case.true.vp,
        vp_start=case.start.vp,
        gradient=outcome.gradient,
        spacing=np.array(case.true.spacing),
        origin=np.array(case.true.origin),
        observed=np.stack(outcome.observed),
        data=np.stack(outcome.data),
        times_ms=case.propagator.times_ms,
    )


def figures(case: Case, outcome: Outcome, files: Mapping[str, str]) -> dict[str, Any]:
    """Everything measured, for ``report.json``. Steps are those of one shot."""
    plan = case.run.plan
    return {
        "model": case.name,
        "grid": list(case.propagator.grid.shape),
        "spacing_m": list(case.true.spacing),
        "dtype": case.propagator.scheme.dtype,
        "space_order": case.propagator.scheme.space_order,
        "shots": case.shots,
        "steps": plan.steps,
        "dt_ms": case.propagator.dt_ms,
        "schedule": plan.name,
        "forward_steps": outcome.forward_steps,
        "recompute_factor": outcome.forward_steps / plan.steps,
        "memory_budget_bytes": plan.memory_nbytes,
        "keep_all_bytes": plan.keep_all_nbytes,
        "peak_checkpoint_bytes": outcome.arena_nbytes + plan.demand.scratch_nbytes,
        "fixed_bytes": plan.demand.fixed_nbytes,
        "peak_rss_bytes": outcome.peak_rss_nbytes,
        "rss_above_imports_bytes": outcome.rss_above_imports_nbytes,
        "seconds": {
            **{kind.value: outcome.seconds[kind] for kind in Kind},
            "total": outcome.total_seconds,
        },
        "misfit": outcome.misfit,
        "gradient": "derivative by velocity, per km/s and grid cell",
        "gradient_norm": float(np.linalg.norm(outcome.gradient.astype(np.float64))),
        "bitwise_equal_to_keep_all": outcome.bitwise_equal,
        "relative_error": outcome.relative_error,
        "resumed": outcome.resumed,
        "disk": _disk_figures(case.run.result),
        "files": dict(files),
    }


def _disk_figures(result: retrograd.Result) -> dict[str, Any] | None:
    """What went to disk or was compressed for the last shot."""
    found: dict[str, Any] = {"bytes": result.plan.prediction.disk_nbytes}
    if result.transfers is not None:
        found |= asdict(result.transfers)
    if result.compression is not None:
        found |= {**asdict(result.compression), "ratio": result.compression.ratio}
    return found if len(found) > 1 else None


def table(found: Mapping[str, Any]) -> str:
    """The figures that a person looks for first."""
    same = found["bitwise_equal_to_keep_all"]
    verdict = {
        None: "not checked (--check)",
        True: "yes, every bit",
        False: f"NO: they differ by {found['relative_error']} of the gradient's norm",
    }[same]
    rows = {
        "steps": f"{found['schedule']}, {found['forward_steps']} forward steps for "
        f"{found['steps']} ({found['recompute_factor']:.3f} times)",
        "memory": f"{format_nbytes(found['peak_checkpoint_bytes'])} of a budget of "
        f"{format_nbytes(found['memory_budget_bytes'])}; keeping everything takes "
        f"{format_nbytes(found['keep_all_bytes'])}",
        "resident": f"{format_nbytes(found['rss_above_imports_bytes'])} above that after imports, "
        f"of which the problem's own fields take {format_nbytes(found['fixed_bytes'])}",
        **({"resumed": "; ".join(found["resumed"])} if found["resumed"] else {}),
        "seconds": ", ".join(f"{name} {value:.2f}" for name, value in found["seconds"].items()),
        "misfit": f"{found['misfit']:.6g}",
        "|gradient|": f"{found['gradient_norm']:.6g}",
        "as keep-all": verdict,
        **found["files"],
    }
    return "\n".join(f"{name:<12} {value}" for name, value in rows.items())
