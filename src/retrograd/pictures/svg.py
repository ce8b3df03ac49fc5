"""A picture as SVG, written by hand: no library, few elements, and text that can be searched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from retrograd.actions import Tier
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

_LEGEND_WIDTH: Final = 215
_LEGEND_HEIGHT: Final = 22
_HATCH: Final = {
    "/": "M-2 2 2 -2M0 8 8 0M6 10 10 6",
    "\\": "M6 -2 10 2M0 0 8 8M-2 6 2 10",
    "x": "M0 8 8 0M0 0 8 8",
    "-": "M0 4H8",
    "|": "M4 0V8",
}


def svg(picture: Picture) -> str:
    """The whole file as text."""
    drawn = marks(picture.timeline, PLOT_WIDTH, PLOT_HEIGHT)
    entries = list(_legend(drawn))
    rows = -(-len(entries) // (PLOT_WIDTH // _LEGEND_WIDTH))
    legend_top = TOP + PLOT_HEIGHT + 58
    height = legend_top + rows * _LEGEND_HEIGHT + (22 if drawn.note else 4)
    body = [
        *_head(picture, drawn, height),
        *_axes(picture),
        f'<g transform="translate({LEFT} {TOP})">',
        *_plot(drawn),
        "</g>",
        *_placed(entries, legend_top),
    ]
    if drawn.note:
        body.append(_text(LEFT, height - 12, f"{drawn.note}.", 'font-size="11" fill="#444"'))
    return "\n".join([*body, "</svg>", ""])


def _head(picture: Picture, drawn: Marks, height: int) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" font-family="Helvetica, Arial, '
        'DejaVu Sans, sans-serif" font-size="12">'
    )
    yield f"<title>{escape(picture.title)}</title>"
    yield f"<desc>{escape(picture.subtitle)}. Time runs to the right, steps downwards.</desc>"
    yield "<defs>"
    for look in {_pattern(look): look for look in _areas(drawn).values()}.values():
        yield (
            f'<pattern id="{_pattern(look)}" width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<rect width="8" height="8" fill="{look.colour}" fill-opacity="0.45"/>'
            f'<path d="{_HATCH[look.hatch]}" stroke="#555" stroke-width="0.8"/></pattern>'
        )
    yield "</defs>"
    yield f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
    yield _text(LEFT, 26, picture.title, 'font-size="17" font-weight="bold"')
    yield _text(LEFT, 46, picture.subtitle, 'font-size="13"')


def _pattern(look: AreaLook) -> str:
    return f"hatch-{ord(look.hatch)}-{look.colour[1:]}"


def _areas(drawn: Marks) -> dict[Tier, AreaLook]:
    return window_looks(list(drawn.windows))


def _levels(drawn: Marks) -> dict[Tier, LineLook]:
    return restart_looks(list(drawn.restarts))


def _text(x: float, y: float, words: str, attributes: str = "") -> str:
    return f'<text x="{_round(x)}" y="{_round(y)}" {attributes}>{escape(words)}</text>'


def _round(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _axes(picture: Picture) -> Iterator[str]:
    """The axes, with round numbers of steps at the left and of time below."""
    timeline = picture.timeline
    bottom, right = TOP + PLOT_HEIGHT, LEFT + PLOT_WIDTH
    notches, numbers = [], []
    for step in ticks(timeline.steps, 10, whole=True):
        y = TOP + step / timeline.steps * PLOT_HEIGHT
        notches.append(f"M{LEFT - 5} {_round(y)}H{LEFT}")
        numbers.append(_text(LEFT - 9, y + 4, label(step), 'text-anchor="end"'))
    end = timeline.duration or 1.0
    for time in ticks(end, 12, whole=timeline.unit != SECONDS):
        x = LEFT + time / end * PLOT_WIDTH
        notches.append(f"M{_round(x)} {bottom}V{bottom + 5}")
        numbers.append(_text(x, bottom + 19, label(time), 'text-anchor="middle"'))
    axes = f"M{LEFT} {TOP}V{bottom}H{right}"
    yield f'<path d="{"".join(notches)}{axes}" fill="none" stroke="#000" stroke-width="0.8"/>'
    yield from numbers
    middle = TOP + PLOT_HEIGHT / 2
    turned = f'text-anchor="middle" font-size="13" transform="rotate(-90 14 {_round(middle)})"'
    yield _text(14, middle, "step", turned)
    centred = 'text-anchor="middle" font-size="13"'
    yield _text(LEFT + PLOT_WIDTH / 2, bottom + 38, timeline.unit, centred)


def _plot(drawn: Marks) -> Iterator[str]:
    """Areas first, then level lines, then what moves, then markers: one element a kind."""
    for tier, area in _areas(drawn).items():
        yield _area(_path(drawn.windows[tier], "Z"), area)
    for tier, look in _levels(drawn).items():
        yield _line(_path(drawn.restarts[tier]), look)
    for kind, lines in drawn.lines.items():
        yield _line(_path(lines), STROKES[kind])
    if drawn.saves:
        yield _saves(drawn.saves)
    if drawn.restores:
        yield _restores(drawn.restores)


def _path(lines: Iterable[list[Point]], end: str = "") -> str:
    return "".join(
        "M" + " ".join(f"{_round(x)} {_round(y)}" for x, y in line) + end for line in lines
    )


def _area(path: str, look: AreaLook) -> str:
    return f'<path d="{path}" fill="url(#{_pattern(look)})"/>'


def _line(path: str, look: LineLook) -> str:
    dashes = " ".join(_round(length * look.width) for length in look.dashes)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<path d="{path}" fill="none" stroke="{look.colour}" stroke-width="{look.width}" '
        f'stroke-linejoin="round"{dashed}/>'
    )


def _saves(points: list[Point]) -> str:
    dots = "".join(f"M{_round(x)} {_round(y)}h0.1" for x, y in points)
    return f'<path d="{dots}" stroke="#000" stroke-width="5" stroke-linecap="round"/>'


def _restores(points: list[Point]) -> str:
    bars = "".join(f"M{_round(x)} {_round(y - 3.5)}v7" for x, y in points)
    return f'<path d="{bars}" stroke="#000" stroke-width="1.6"/>'


@dataclass(frozen=True, slots=True)
class _Entry:
    """A legend entry: a sample 30 pixels wide around y = 0, and what it stands for."""

    sample: str
    label: str


def _legend(drawn: Marks) -> Iterator[_Entry]:
    sample = _path([[(0, 0), (30, 0)]])
    for kind in drawn.lines:
        yield _Entry(_line(sample, STROKES[kind]), STROKES[kind].label)
    for area in _areas(drawn).values():
        corners: list[Point] = [(0, -6), (30, -6), (30, 6), (0, 6)]
        yield _Entry(_area(_path([corners], "Z"), area), area.label)
    for look in _levels(drawn).values():
        yield _Entry(_line(sample, look), look.label)
    if drawn.saves:
        yield _Entry(_saves([(15, 0)]), "saved")
    if drawn.restores:
        yield _Entry(_restores([(15, 0)]), "restored")


def _placed(entries: list[_Entry], top: int) -> Iterator[str]:
    columns = PLOT_WIDTH // _LEGEND_WIDTH
    for index, entry in enumerate(entries):
        row, column = divmod(index, columns)
        x, y = LEFT + column * _LEGEND_WIDTH, top + row * _LEGEND_HEIGHT
        words = _text(38, 4, entry.label)
        yield f'<g transform="translate({x} {y})">{entry.sample}{words}</g>'
