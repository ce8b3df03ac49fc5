"""A timeline at a resolution: what is smaller than a pixel is merged, or left out and counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from retrograd.actions import INITIAL, Tier
from retrograd.events import Kind
from retrograd.timeline import Lifetime, Stroke, Timeline

Point: TypeAlias = tuple[float, float]

_TOUCHING: Final = 0.75
"""Lines whose ends are no further apart than this, in pixels, are drawn as one."""

_SMALLEST_WINDOW: Final = 1.5
_MARKER_ROOM: Final = 9.0
"""A square of so many pixels has room for one marker."""
_SHORTEST_MARKED: Final = 30.0
"""Restarts shorter than this have no markers; longer ones come first."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What to draw, in pixels from the top left corner of the plot.

    Attributes
    ----------
    lines : polylines by kind.
    restarts : level lines by tier, as pairs of points.
    windows : quadrilaterals by tier.
    saves, restores : where markers go.
    note : what was merged or left out, in words; empty if nothing was.
    """

    lines: dict[Kind, list[list[Point]]]
    restarts: dict[Tier, list[list[Point]]]
    windows: dict[Tier, list[list[Point]]]
    saves: list[Point]
    restores: list[Point]
    note: str


def marks(timeline: Timeline, width: float, height: float) -> Marks:
    """Put a timeline on a plot of so many pixels."""
    scale = _Scale(width / (timeline.duration or 1.0), height / timeline.steps)
    lines: dict[Kind, list[list[Point]]] = {}
    for kind in (Kind.FORWARD, Kind.RECOMPUTE, Kind.REVERSE):
        strokes = (stroke for stroke in timeline.strokes if stroke.kind is kind)
        drawn = _upright(_joined(strokes, scale))
        if drawn:
            lines[kind] = drawn
    shown = [life for life in timeline.restarts if (life.ended - life.began) * scale.across >= 1]
    windows: dict[Tier, list[list[Point]]] = defaultdict(list)
    for window in timeline.windows:
        corners = [scale.point(*corner) for corner in window.corners]
        if min(_extent(corners)) >= _SMALLEST_WINDOW:
            windows[window.tier].append(corners)
    saves, restores = _markers(shown, scale)
    narrow = sum((stroke.ended - stroke.began) * scale.across < 1 for stroke in timeline.strokes)
    drawn_windows = sum(len(group) for group in windows.values())
    note = _note(
        {
            "lines": (narrow, len(timeline.strokes)),
            "restarts": (len(timeline.restarts) - len(shown), len(timeline.restarts)),
            "windows of records": (len(timeline.windows) - drawn_windows, len(timeline.windows)),
        }
    )
    return Marks(lines, _level(shown, scale), dict(windows), saves, restores, note)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Pixels per unit of time, and per step."""

    across: float
    down: float

    def point(self, time: float, step: float) -> Point:
        return time * self.across, step * self.down


def _extent(points: list[Point]) -> Point:
    xs, ys = zip(*points, strict=True)
    return max(xs) - min(xs), max(ys) - min(ys)


def _joined(strokes: Iterable[Stroke], scale: _Scale) -> Iterator[list[Point]]:
    """Polylines through strokes that touch; points within a pixel of the one before are dropped."""
    line: list[Point] = []
    end: Point | None = None
    for stroke in strokes:
        first, last = (
            scale.point(stroke.began, stroke.start),
            scale.point(stroke.ended, stroke.stop),
        )
        if end is None or not _near(end, first, _TOUCHING):
            if end is not None:
                yield _ended(line, end)
            line = [first]
        if not _near(line[-1], last, 1.0):
            line.append(last)
        end = last
    if end is not None:
        yield _ended(line, end)


def _ended(line: list[Point], end: Point) -> list[Point]:
    if line[-1] != end:
        line.append(end)
    return line


def _near(one: Point, other: Point, distance: float) -> bool:
    return abs(one[0] - other[0]) <= distance and abs(one[1] - other[1]) <= distance


def _upright(lines: Iterable[list[Point]]) -> list[list[Point]]:
    """Lines narrower than a pixel become upright ones, merged where they share a pixel."""
    drawn: list[list[Point]] = []
    columns: dict[int, list[Point]] = defaultdict(list)
    for line in lines:
        if _extent(line)[0] >= 1:
            drawn.append(line)
        else:
            ys = [y for _, y in line]
            columns[int(line[0][0])].append((min(ys), max(ys)))
    for column, spans in columns.items():
        drawn += [[(column + 0.5, low), (column + 0.5, high)] for low, high in _united(spans)]
    return drawn


def _level(restarts: Iterable[Lifetime], scale: _Scale) -> dict[Tier, list[list[Point]]]:
    """A line for each restart; those in one row of pixels are merged where they overlap."""
    rows: dict[tuple[Tier, int], list[Point]] = defaultdict(list)
    height: dict[tuple[Tier, int], float] = {}
    for life in restarts:
        y = life.step * scale.down
        row = (life.tier, int(y))
        height.setdefault(row, y)
        rows[row].append((life.began * scale.across, life.ended * scale.across))
    lines: dict[Tier, list[list[Point]]] = defaultdict(list)
    for row, spans in rows.items():
        y = height[row]
        lines[row[0]] += [[(low, y), (high, y)] for low, high in _united(spans)]
    return dict(lines)


def _united(spans: list[Point]) -> list[Point]:
    """The union of intervals, each at least a pixel long and a pixel from the next."""
    united: list[Point] = []
    for low, high in sorted(spans):
        high = max(high, low + 1)
        if united and low <= united[-1][1] + 1:
            united[-1] = (united[-1][0], max(united[-1][1], high))
        else:
            united.append((low, high))
    return united


def _markers(restarts: Iterable[Lifetime], scale: _Scale) -> tuple[list[Point], list[Point]]:
    """Where restarts are saved and returned to, as far as there is room to show it."""
    saves: list[Point] = []
    restores: list[Point] = []
    taken: set[tuple[int, int]] = set()
    for life in sorted(restarts, key=lambda life: life.began - life.ended):
        if (life.ended - life.began) * scale.across < _SHORTEST_MARKED:
            break
        saved = () if life.tier == INITIAL else (life.began,)
        for points, times in ((saves, saved), (restores, life.restores)):
            for time in times:
                x, y = scale.point(time, life.step)
                cell = (int(x / _MARKER_ROOM), int(y / _MARKER_ROOM))
                if cell not in taken:
                    taken.add(cell)
                    points.append((x, y))
    return saves, restores


def _note(hidden: dict[str, tuple[int, int]]) -> str:
    parts = [f"{some} of {total} {what}" for what, (some, total) in hidden.items() if some]
    return f"Smaller than a pixel, and merged or left out: {', '.join(parts)}" if parts else ""
