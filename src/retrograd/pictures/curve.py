"""Time against memory, for every schedule: where more memory stops being worth it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from retrograd.errors import InvalidArgument, MissingExtra
from retrograd.plans import Alternative, Plan

_STYLES: Final = (
    ("#000000", "o", "-"),
    ("#0072B2", "s", "-"),
    ("#D55E00", "^", "-"),
    ("#009E73", "D", "--"),
    ("#CC79A7", "v", "-"),
    ("#E69F00", "P", "--"),
    ("#56B4E9", "X", "-."),
    ("#7F7F7F", "*", ":"),
    ("#8C564B", "<", ":"),
)
"""Colours that the colour-blind tell apart, with a marker and a dash pattern each."""


def save_curve(plans: Sequence[Plan], path: str | Path) -> Path:
    """Draw what each schedule takes in each plan's memory, and return the path.

    Parameters
    ----------
    plans : plans of one demand, with growing budgets. Seconds are drawn if they are predicted,
        forward steps if not.
    path : where to, ending in ``.png`` or ``.svg``.

    Raises
    ------
    InvalidArgument
        for another ending, or a path that cannot be written.
    MissingExtra
        where Matplotlib is not installed.
    """
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg"):
        raise InvalidArgument(f"{path}: a curve is a .png or an .svg file: write {path.stem}.png")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("a curve needs Matplotlib: pip install 'retrograd[pictures]'") from error
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    FigureCanvasAgg(figure)
    _draw(figure.add_subplot(), plans)
    try:
        figure.savefig(path, dpi=130)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be written: {error.strerror}") from error
    return path


def points(plans: Sequence[Plan]) -> dict[str, list[tuple[int, float]]]:
    """For each schedule, the bytes of memory and what it takes, where it is possible."""
    found: dict[str, list[tuple[int, float]]] = {}
    for plan in plans:
        for other in plan.alternatives:
            value = _value(other)
            if value is not None:
                found.setdefault(other.name, []).append((plan.memory_nbytes, value))
    return found


def _value(other: Alternative) -> float | None:
    if other.prediction is not None and other.prediction.seconds is not None:
        return other.prediction.seconds
    return other.forward_steps


def _draw(axes: Any, plans: Sequence[Plan]) -> None:
    first, timed = plans[0], plans[0].costs is not None
    for (name, curve), (colour, marker, dashes) in zip(
        points(plans).items(), _STYLES, strict=False
    ):
        memory, values = zip(*curve, strict=True)
        look = {"color": colour, "marker": marker, "linestyle": dashes, "markersize": 5}
        axes.plot([nbytes / 1e9 for nbytes in memory], values, label=name, **look)
    axes.axvline(first.keep_all_nbytes / 1e9, color="#7F7F7F", linewidth=0.8, linestyle=":")
    axes.annotate(
        "keep all",
        (first.keep_all_nbytes / 1e9, 1),
        xycoords=("data", "axes fraction"),
        xytext=(-4, -12),
        textcoords="offset points",
        ha="right",
        fontsize=8,
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("memory budget (GB)")
    axes.set_ylabel("seconds" if timed else "forward steps")
    axes.set_title(f"{first.steps} steps: {'time' if timed else 'forward steps'} against memory")
    axes.grid(visible=True, which="both", linewidth=0.3)
    axes.legend()
