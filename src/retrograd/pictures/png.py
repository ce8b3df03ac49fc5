"""A picture as PNG, drawn by Matplotlib with the marks and looks of the SVG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from retrograd.errors import MissingExtra
from retrograd.pictures.axis import label, ticks
from retrograd.pictures.look import (
    LEFT,
    PLOT_HEIGHT,
    PLOT_WIDTH,
    STROKES,
    TOP,
    WIDTH,
    AreaLook,
    LineLook,
    restart_looks,
    window_looks,
)
from retrograd.pictures.marks import Marks, Point, marks
from retrograd.pictures.picture import Picture
from retrograd.timeline import SECONDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT: Final = 750
_DOTS_PER_INCH: Final = 160
_POINTS_PER_PIXEL: Final = 0.72
"""Widths are those of the SVG, whose pixels are hundredths of an inch here."""


def save_png(picture: Picture, path: Path) -> None:
    """Write the file.

    Raises
    ------
    MissingExtra
        where Matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra(
            "a picture as PNG needs Matplotlib: pip install 'retrograd[pictures]', or write it as "
            f"{path.with_suffix('.svg')}, which needs nothing"
        ) from error
    figure = Figure(figsize=(WIDTH / 100, _HEIGHT / 100))
    FigureCanvasAgg(figure)
    bottom = 1 - (TOP + PLOT_HEIGHT) / _HEIGHT
    left = LEFT / WIDTH
    axes = figure.add_axes((left, bottom, PLOT_WIDTH / WIDTH, PLOT_HEIGHT / _HEIGHT))
    drawn = marks(picture.timeline, PLOT_WIDTH, PLOT_HEIGHT)
    _axes(axes, picture)
    samples = _plot(axes, drawn)
    axes.legend(
        handles=samples,
        loc="upper left",
        bbox_to_anchor=(-0.005, -0.09),
        ncols=4,
        frameon=False,
        fontsize=9,
        handlelength=3.4,
        columnspacing=3.0,
    )
    figure.text(left, 1 - 26 / _HEIGHT, picture.title, fontsize=12.5, fontweight="bold")
    figure.text(left, 1 - 46 / _HEIGHT, picture.subtitle, fontsize=9.5)
    if drawn.note:
        figure.text(left, 10 / _HEIGHT, f"{drawn.note}.", fontsize=8, color="#444444")
    figure.savefig(path, dpi=_DOTS_PER_INCH, metadata={"Title": picture.title})


def _axes(axes: Axes, picture: Picture) -> None:
    """Pixels of the plot as coordinates, with round numbers of steps and of time beside them."""
    timeline = picture.timeline
    axes.set(xlim=(0, PLOT_WIDTH), ylim=(PLOT_HEIGHT, 0))
    end = timeline.duration or 1.0
    times = ticks(end, 12, whole=timeline.unit != SECONDS)
    steps = ticks(timeline.steps, 10, whole=True)
    axes.set_xticks([t / end * PLOT_WIDTH for t in times], [label(t) for t in times])
    axes.set_yticks([s / timeline.steps * PLOT_HEIGHT for s in steps], [label(s) for s in steps])
    axes.tick_params(labelsize=9)
    axes.set_xlabel(timeline.unit, fontsize=9.5)
    axes.set_ylabel("step", fontsize=9.5)
    axes.spines[["top", "right"]].set_visible(False)


def _plot(axes: Axes, drawn: Marks) -> list[Any]:
    """Draw areas first, then level lines, then what moves, then markers; return the legend."""
    windows = window_looks(list(drawn.windows))
    restarts = restart_looks(list(drawn.restarts))
    for tier, area in windows.items():
        _areas(axes, drawn.windows[tier], area)
    for tier, look in restarts.items():
        _lines(axes, drawn.restarts[tier], look)
    for kind, lines in drawn.lines.items():
        _lines(axes, lines, STROKES[kind])
    return [
        *(_line_sample(STROKES[kind]) for kind in drawn.lines),
        *(_area_sample(area) for area in windows.values()),
        *(_line_sample(look) for look in restarts.values()),
        *_markers(axes, drawn.saves, "o", "saved"),
        *_markers(axes, drawn.restores, "|", "restored"),
    ]


def _areas(axes: Axes, windows: list[list[Point]], look: AreaLook) -> None:
    from matplotlib.collections import PolyCollection

    axes.add_collection(PolyCollection(windows, **_area_style(look)))


def _lines(axes: Axes, lines: list[list[Point]], look: LineLook) -> None:
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection(lines, clip_on=False, **_line_style(look)))


def _markers(axes: Axes, points: list[Point], marker: str, name: str) -> list[Any]:
    if not points:
        return []
    xs, ys = zip(*points, strict=True)
    return axes.plot(
        *(xs, ys),
        linestyle="none",
        marker=marker,
        color="black",
        markersize=3.5 if marker == "o" else 5.5,
        label=name,
        clip_on=False,
    )


def _line_style(look: LineLook) -> dict[str, Any]:
    return {
        "color": look.colour,
        "linewidth": look.width * _POINTS_PER_PIXEL,
        "linestyle": (0, look.dashes) if look.dashes else "solid",
        "label": look.label,
    }


def _area_style(look: AreaLook) -> dict[str, Any]:
    return {
        "facecolor": f"{look.colour}73",
        "edgecolor": "#555555",
        "linewidth": 0,
        "hatch": look.hatch * 4,
        "label": look.label,
    }


def _line_sample(look: LineLook) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], **_line_style(look))


def _area_sample(look: AreaLook) -> Any:
    from matplotlib.patches import Patch

    return Patch(**_area_style(look))
