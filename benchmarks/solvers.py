"""Solvers that people use, on real models: what a gradient at 1/16 of the bytes costs.

Devito's example solvers, unmodified, and the elastic propagator, each beside its own two calls of
``apply`` with all samples in memory that is used again, and beside pyRevolve with the same bytes
where Devito offers it. All in one process, interleaved; times are medians, bits are compared.

    python benchmarks/solvers.py                    # Marmousi 8 m and, in 3D, SEG/EAGE Salt
    python benchmarks/solvers.py --small            # 201² points with the layer, 2000 samples
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import devito
import numpy as np
from examples.seismic import SeismicModel
from examples.seismic.self_adjoint import setup_w_over_q

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.adapters.devito import solvers
from tests.adapters.devito.solvers import Solver

import retrograd
from retrograd import seismic

THREADS = {"nthreads_nonaffine": 1}
DATA = ROOT.parent / "shared" / "data"


def devito_model(vp: np.ndarray, spacing: Any, order: int, **others: Any) -> SeismicModel:
    """A velocity model as Devito's solvers take it."""
    options = {"bcs": "damp"} | others
    return SeismicModel(
        vp=vp,
        origin=(0.0,) * vp.ndim,
        shape=vp.shape,
        spacing=tuple(map(float, spacing)),
        nbl=20,
        space_order=order,
        **options,
    )


def absorbing(function: Any, nbl: int) -> None:
    """The self-adjoint solver's own boundary."""
    setup_w_over_q(function, 2 * np.pi * 0.01, 0.1, 1000.0, nbl, sigma=0)


def tilted(vp: np.ndarray) -> dict[str, Any]:
    """Thomsen's parameters that follow the velocity, and a dip of 20 to 40 degrees."""
    share = (vp - vp.min()) / np.ptp(vp)
    dips = {"epsilon": 0.2 * share, "delta": 0.1 * share, "theta": 0.35 + 0.35 * share}
    return dips if vp.ndim == 2 else dips | {"phi": 0.3 * share}


def damped(vp: np.ndarray) -> dict[str, Any]:
    """A quality factor by Li's rule, and buoyancy by Gardner's."""
    return {"qp": 3.516 * (1000 * vp) ** 2.2 * 1e-6, "b": 1 / (0.31 * (1000 * vp) ** 0.25)}


def elastic(model: seismic.ElasticModel, samples: int) -> Solver:
    """The elastic propagator as a case; all its accumulators make the gradient."""
    probe = seismic.Scheme(space_order=8, absorbing_cells=20)
    dt = seismic.elastic_stable_dt_ms(model, 8) * 0.98
    acquisition = seismic.surface_acquisition(
        model.acoustic, frequency_hz=4.0, duration_ms=dt * (samples - 2)
    )
    scheme = seismic.Scheme(probe.space_order, absorbing_cells=20, dt_ms=dt)
    p = seismic.ElasticPropagator(model, acquisition, scheme)
    residual = np.random.default_rng(1).standard_normal((p.samples, len(acquisition.receivers)))
    forward = {**p.forward_arguments(0), **THREADS}
    gradient = {**p.gradient_arguments(residual.astype(np.float32), 0), **THREADS}
    return Solver(
        p.forward_operator,
        p.gradient_operator,
        forward["rec"],
        gradient["by_buoyancy_x"],
        forward,
        gradient,
        stock=lambda: None,
    )


def cases(small: bool) -> Iterator[tuple[str, Callable[[], Solver]]]:
    """Every solver and the model that it runs on."""
    marmousi, n = (seismic.marmousi(20), 2000) if small else (seismic.marmousi(8), 1200)
    vp, spacing = np.array(marmousi.vp), marmousi.spacing
    if small:
        vp = np.pad(vp, ((0, 1), (0, 51)), mode="edge")[:161, :161]

    def plain(order: int = 8, **others: Any) -> SeismicModel:
        return devito_model(vp, spacing, order, **others)

    yield "acoustic", lambda: solvers.acoustic(plain(), n, **THREADS)
    yield "tti", lambda: solvers.tti(plain(**tilted(vp)), n, **THREADS)
    yield "elastic", lambda: elastic(elastic_marmousi(vp if small else None, spacing), n)
    if small:
        return
    yield "acoustic OT4", lambda: solvers.acoustic(plain(4), n, "OT4", **THREADS)
    yield "acoustic free surface", lambda: solvers.acoustic(plain(fs=True), n, **THREADS)
    yield "tti staggered", lambda: solvers.tti_staggered(plain(4, **tilted(vp)), n, **THREADS)
    yield (
        "self-adjoint",
        lambda: solvers.self_adjoint(
            plain(b=1 / (0.31 * (1000 * vp) ** 0.25), bcs=absorbing), n, **THREADS
        ),
    )
    for kernel in ("sls", "kv", "maxwell"):
        for order in (1, 2):
            yield (
                f"visco {kernel} order {order}",
                lambda kernel=kernel, order=order: solvers.viscoacoustic(
                    plain(4, **damped(vp)), n, kernel, order, **THREADS
                ),
            )
    path = DATA / "segeage_salt3d_100m.npz"
    if path.exists():
        salt = np.load(path)
        box = np.array(salt["vp"][20:84, 20:84, :])
        yield (
            "acoustic 3D",
            lambda: solvers.acoustic(devito_model(box, salt["spacing"], 4), 300, **THREADS),
        )
        yield (
            "tti 3D",
            lambda: solvers.tti(
                devito_model(box, salt["spacing"], 4, **tilted(box)), 200, **THREADS
            ),
        )


def elastic_marmousi(vp: np.ndarray | None, spacing: Any) -> seismic.ElasticModel:
    """Marmousi-2 with its own S velocities and densities; else by Castagna and Gardner."""
    path = DATA / "marmousi2_elastic_20m.npz"
    if vp is None and path.exists():
        return seismic.load_elastic_npz(path)
    if vp is None:
        vp = np.array(seismic.marmousi(8).vp)
    return seismic.ElasticModel(vp, 0.862 * vp - 1.0, 0.31 * (1000 * vp) ** 0.25, tuple(spacing))


@dataclass(eq=False)
class KeepAll:
    """Devito's own two calls, on wavefields that are allocated once."""

    case: Solver

    def __post_init__(self) -> None:
        self.fields = {
            p.name: p._rebuild(function=None, allocator=retrograd.devito.HUGE_PAGES)
            for p in self.case.forward.parameters
            if p.is_AbstractFunction and p.is_TimeFunction
        }
        theirs = {p.name: p for p in self.case.gradient.parameters if p.is_AbstractFunction}
        names = {ours: name for name, ours in self.case.names.items()}
        self.in_gradient = {
            names.get(name, name): field
            for name, field in self.fields.items()
            if isinstance(field.save, int)
            and isinstance(getattr(theirs.get(names.get(name, name)), "save", None), int)
        }

    def run(self) -> list[np.ndarray]:
        """Both sweeps."""
        for field in self.fields.values():
            field.data[: field.time_order] = 0.0
        for function in self.case.gradient.parameters:
            if (
                function.is_AbstractFunction
                and function.is_TimeFunction
                and not isinstance(function.save, int)
            ):
                given = self.case.gradient_arguments.get(function.name, function)
                given.data[:] = 0.0
        self.case.reset()
        self.case.forward.apply(**self.fields, **self.case.forward_arguments)
        self.case.gradient.apply(**self.in_gradient, **self.case.gradient_arguments)
        return self.case.found()


@contextmanager
def checkpoints(count: int) -> Iterator[None]:
    """Let Devito's solvers ask pyRevolve for so many checkpoints."""
    modules = [
        module
        for name, module in sys.modules.items()
        if name.startswith("examples.seismic") and hasattr(module, "Revolver")
    ]
    original = devito.Revolver

    def make(state: Any, forward: Any, reverse: Any, _: Any, steps: int) -> Any:
        return original(state, forward, reverse, count, steps)

    for module in modules:
        module.Revolver = make
    try:
        yield
    finally:
        for module in modules:
            module.Revolver = original


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """What a call takes, and returns."""
    began = perf_counter()
    result = function()
    return perf_counter() - began, result


def same_bits(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Samples that no run records are NaN in both."""
    return np.array_equal(ours, theirs, equal_nan=True)


def measure(name: str, case: Solver, repeats: int, *, with_peer: bool) -> dict[str, Any]:
    """Times and bytes of one solver at 1/16."""
    problem = retrograd.devito.Problem(case.forward, case.gradient, names=case.names)
    layout = problem.layout
    run = retrograd.devito.checkpointed(
        case.forward, case.gradient, names=case.names, memory="1/16"
    )
    keep = KeepAll(case)
    truth = keep.run()
    case.run(run)
    theirs, ours, kernels, peers = [], [], [], []
    count = max(1, run.plan.memory_nbytes // (2 * layout.row_nbytes) - 1)
    if with_peer and case.peer is not None:
        case.peer()  # compiles
    for _ in range(repeats):
        theirs.append(seconds(keep.run)[0])
        took, found = seconds(lambda: case.run(run))
        ours.append(took)
        kernels.append(run.compiled_seconds)
        if with_peer and case.peer is not None:
            with checkpoints(count):
                peers.append(seconds(case.peer)[0])
    plan, median = run.plan, statistics.median
    return {
        "solver": name,
        "points": list(case.total.shape),
        "steps": plan.steps,
        "restart_bytes": layout.restart_nbytes,
        "record_bytes": layout.record_nbytes,
        "keep_all_bytes": problem.keep_all_nbytes,
        "arena_bytes": plan.arena_nbytes,
        "schedule": plan.name,
        "forward_steps": plan.forward_steps,
        "keep_all_s": median(theirs),
        "ours_s": median(ours),
        "compiled_s": median(kernels),
        "pyrevolve_s": median(peers) if peers else None,
        "ratio_to_keep_all": median(ours) / median(theirs),
        "ratio_to_compiled": median(o / k for o, k in zip(ours, kernels, strict=True)),
        "pyrevolve_to_ours": median(peers) / median(ours) if peers else None,
        "bitwise": all(map(same_bits, found, truth)),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="201² points, where overheads show")
    parser.add_argument("--only", help="solvers whose name contains this")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-pyrevolve", dest="pyrevolve", action="store_false")
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    options = parser.parse_args()
    devito.configuration["log-level"] = "ERROR"
    rows = []
    for name, make in cases(options.small):
        if options.only and options.only not in name:
            continue
        row = measure(name, make(), options.repeats, with_peer=options.pyrevolve)
        rows.append(row)
        peer = f"{row['pyrevolve_to_ours']:.2f}" if row["pyrevolve_to_ours"] else "-"
        print(
            f"{name:24} {row['restart_bytes'] / row['record_bytes']:5.2f} rows a restart, "
            f"{row['forward_steps'] / row['steps']:.2f} x steps ({row['schedule']}), "
            f"{row['ours_s']:.2f} s, {row['ratio_to_keep_all']:.2f} x keep-all, "
            f"{row['ratio_to_compiled']:.3f} x compiled, pyRevolve {peer} x ours, "
            f"{'same bits' if row['bitwise'] else 'OTHER BITS'}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
