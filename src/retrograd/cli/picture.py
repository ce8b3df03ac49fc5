"""The picture of a gradient: model, starting model, gradient and shot record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from retrograd.cli.study import Case, Outcome


def draw(path: Path, case: Case, outcome: Outcome) -> None:
    """Write a PNG with four panels; of a 3D model, the section through its middle in y."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 2)
    low, high = float(case.true.vp.min()), float(case.true.vp.max())
    kwargs = {"cmap": "viridis", "vmin": low, "vmax": high}
    _section(figure, panels[0, 0], case, case.true.vp, "velocity", "km/s", kwargs)
    _section(figure, panels[0, 1], case, case.start.vp, "starting model", "km/s", kwargs)
    limit = _limit(outcome.gradient)
    kwargs = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    title = "gradient of the misfit by velocity"
    _section(figure, panels[1, 0], case, outcome.gradient, title, "per km/s and cell", kwargs)
    _record(figure, panels[1, 1], case, outcome.observed[case.shots // 2])
    saved = outcome.arena_nbytes / case.run.plan.keep_all_nbytes
    figure.suptitle(
        f"{case.name}: {case.propagator.steps} steps in {saved:.1%} of the memory of keeping "
        f"everything, {outcome.forward_steps / case.propagator.steps:.2f} times the forward steps"
    )
    figure.savefig(path, dpi=120)


def _limit(values: NDArray[Any]) -> float:
    return float(np.percentile(np.abs(values), 98)) or 1.0


def _section(
    figure: Figure,
    axes: Any,
    case: Case,
    values: NDArray[Any],
    title: str,
    unit: str,
    style: dict[str, Any],
) -> None:
    if values.ndim == 1:
        depth = case.true.origin[0] + case.true.spacing[0] * np.arange(len(values))
        axes.plot(values, depth)
        axes.set(title=title, xlabel=unit, ylabel="depth (m)")
        axes.invert_yaxis()
        return
    section = values if values.ndim == 2 else values[:, values.shape[1] // 2]
    x, z = ([o, o + h * (n - 1)] for o, h, n in _ends(case, section.shape))
    image = axes.imshow(section.T, extent=(*x, z[1], z[0]), aspect="auto", **style)
    axes.set(title=title, xlabel="x (m)", ylabel="depth (m)")
    figure.colorbar(image, ax=axes, label=unit)


def _ends(case: Case, shape: tuple[int, ...]) -> list[tuple[float, float, int]]:
    origin, spacing = case.true.origin, case.true.spacing
    return [(origin[0], spacing[0], shape[0]), (origin[-1], spacing[-1], shape[1])]


def _record(figure: Figure, axes: Any, case: Case, data: NDArray[Any]) -> None:
    limit = _limit(data)
    end = case.propagator.times_ms[-1] / 1000
    x = case.propagator.acquisition.receivers[:, 0]
    is_line = case.true.vp.ndim == 2
    first, last, label = (x[0], x[-1], "x (m)") if is_line else (0, len(x), "receiver number")
    image = axes.imshow(
        data, extent=(first, last, end, 0), aspect="auto", cmap="gray", vmin=-limit, vmax=limit
    )
    axes.set(title="shot record (observed)", xlabel=label, ylabel="time (s)")
    figure.colorbar(image, ax=axes, label="pressure, arbitrary unit")
