"""A picture as text: one character for each kind of thing, so that no colour is needed."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TextIO

from retrograd.actions import DISK, INITIAL, MEMORY
from retrograd.events import Kind
from retrograd.pictures.axis import label, ticks
from retrograd.pictures.look import STROKES, restart_looks, window_looks
from retrograd.pictures.picture import Picture
from retrograd.timeline import SECONDS, Lifetime, Stroke, Timeline, Window

_LEAST_COLUMNS: Final = 24
_LEAST_ROWS: Final = 12
_LINES_BESIDES: Final = 10
"""Titles, axis and legend take about so many lines."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where text goes: its size in characters, and whether it shows Unicode and colours."""

    width: int = 80
    height: int = 30
    unicode: bool = True
    colour: bool = False

    @classmethod
    def of(cls, stream: TextIO) -> Terminal:
        """What a stream can show; colours only on a terminal, and not where NO_COLOR is set."""
        size = shutil.get_terminal_size((80, 30))
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        colour = stream.isatty() and not plain
        return cls(size.columns, size.lines, _can_encode(stream), colour)


@dataclass(frozen=True, slots=True)
class _Pen:
    """A character, and its stand-in where there is no Unicode.

    Where two things share a place, the higher rank is seen. `colour` is an ANSI code, 0 for none.
    """

    fine: str
    plain: str
    rank: int
    colour: int = 0


_STROKES: Final = {
    Kind.FORWARD: _Pen("╲", "\\", 4, 34),
    Kind.RECOMPUTE: _Pen("┆", ":", 3, 33),
    Kind.REVERSE: _Pen("╱", "/", 5, 32),
}
_SAVED: Final = _Pen("●", "o", 6)
_RESTARTS: Final = {
    MEMORY: _Pen("─", "-", 2),
    DISK: _Pen("═", "=", 2, 35),
    INITIAL: _Pen("┄", "~", 1),
}
_OTHER_RESTART: Final = _Pen("╍", "+", 2, 36)
_WINDOWS: Final = {MEMORY: _Pen("░", ".", 0), DISK: _Pen("▓", "%", 0, 35)}
_OTHER_WINDOW: Final = _Pen("▒", ",", 0, 36)
_WALL, _NOTCH, _CORNER = _Pen("│", "|", 0), _Pen("┤", "+", 0), _Pen("└", "+", 0)
_FLOOR, _FLOOR_NOTCH = _Pen("─", "-", 0), _Pen("┴", "+", 0)
_PENS: Final = (
    *_STROKES.values(),
    *_RESTARTS.values(),
    *_WINDOWS.values(),
    *(_SAVED, _OTHER_RESTART, _OTHER_WINDOW, _WALL, _NOTCH, _CORNER, _FLOOR, _FLOOR_NOTCH),
)


def _can_encode(stream: TextIO) -> bool:
    try:
        "".join(pen.fine for pen in _PENS).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def in_characters(picture: Picture, terminal: Terminal) -> str:
    """The picture in the width of a terminal, and in its height where that is enough."""
    timeline = picture.timeline
    margin = len(str(timeline.steps)) + 2
    columns = max(_LEAST_COLUMNS, terminal.width - margin - 1)
    canvas = _Canvas(timeline, columns, _rows(timeline.steps, terminal.height), terminal)
    canvas.draw()
    a_step, a_time = timeline.steps / canvas.rows, timeline.duration / columns
    lines = [
        picture.title,
        picture.subtitle,
        f"one character: {a_step:.3g} steps down, {a_time:.3g} {timeline.unit} across",
        "",
        *canvas.lines(margin),
        *_time_axis(timeline, columns, margin, terminal),
        "",
        *_wrapped(_legend(timeline, canvas.seen()), terminal),
    ]
    return "\n".join(line.rstrip() for line in lines)


def _rows(steps: int, height: int) -> int:
    """Rows of the plot; of few steps, so that each takes equally many."""
    room = max(_LEAST_ROWS, height - _LINES_BESIDES)
    return steps * min(2, room // steps) if steps <= room else room


class _Canvas:
    """Characters in rows and columns, each held by the highest rank drawn there so far."""

    def __init__(self, timeline: Timeline, columns: int, rows: int, terminal: Terminal) -> None:
        self.rows = rows
        self._columns = columns
        self._timeline = timeline
        self._terminal = terminal
        self._across = columns / (timeline.duration or 1.0)
        self._down = rows / timeline.steps
        self._cells: list[list[_Pen | None]] = [[None] * columns for _ in range(rows)]

    def draw(self) -> None:
        """Put the whole timeline on the canvas."""
        for window in self._timeline.windows:
            self._window(window, _WINDOWS.get(window.tier, _OTHER_WINDOW))
        for life in self._timeline.restarts:
            self._restart(life, _RESTARTS.get(life.tier, _OTHER_RESTART))
        for stroke in self._timeline.strokes:
            self._stroke(stroke, _STROKES[stroke.kind])

    def _put(self, row: int, column: int, pen: _Pen) -> None:
        there = self._cells[row][column]
        if there is None or there.rank < pen.rank:
            self._cells[row][column] = pen

    def _column(self, time: float) -> int:
        return min(int(time * self._across), self._columns - 1)

    def _row(self, step: float) -> int:
        return min(int(step * self._down), self.rows - 1)

    def _window(self, window: Window, pen: _Pen) -> None:
        for row in range(self._row(window.start), self._row(window.stop - 1) + 1):
            step = min(max((row + 0.5) / self._down, window.start), window.stop)
            share = (step - window.start) / (window.stop - window.start)
            began = window.made[0] + share * (window.made[1] - window.made[0])
            ended = window.freed[0] + share * (window.freed[1] - window.freed[0])
            for column in range(self._column(began), self._column(ended) + 1):
                self._put(row, column, pen)

    def _restart(self, life: Lifetime, pen: _Pen) -> None:
        row, first, last = self._row(life.step), self._column(life.began), self._column(life.ended)
        for column in range(first, last + 1):
            self._put(row, column, pen)
        if life.tier != INITIAL and last - first > 1:
            self._put(row, first, _SAVED)

    def _stroke(self, stroke: Stroke, pen: _Pen) -> None:
        """In each column, the rows of the steps that run in its time."""
        first = self._column(stroke.began)
        # A line that ends just where a column begins has no part in it.
        last = max(first, self._column(stroke.ended - 1e-9 * self._timeline.duration))
        seconds = stroke.ended - stroke.began
        for column in range(first, last + 1):
            begin = max(column / self._across - stroke.began, 0.0) if column > first else 0.0
            end = (column + 1) / self._across - stroke.began if column < last else seconds
            at = [
                (stroke.start + (stroke.stop - stroke.start) * share) * self._down
                for share in ((begin / seconds, end / seconds) if seconds else (0.0, 1.0))
            ]
            top = min(int(min(at) + 1e-6), self.rows - 1)
            for row in range(top, max(top + 1, math.ceil(max(at) - 1e-6))):
                self._put(row, column, pen)

    def seen(self) -> set[_Pen]:
        """What is to be seen on the canvas."""
        return {pen for cells in self._cells for pen in cells if pen is not None}

    def lines(self, margin: int) -> Iterator[str]:
        """The rows, with the steps at their left."""
        numbers = {
            self._row(step): label(step)
            for step in reversed(ticks(self._timeline.steps, max(2, self.rows // 3), whole=True))
            if step < self._timeline.steps
        }
        for row, cells in enumerate(self._cells):
            wall = _shown(_NOTCH if row in numbers else _WALL, self._terminal)
            drawn = "".join(" " if pen is None else _shown(pen, self._terminal) for pen in cells)
            yield f"{numbers.get(row, ''):>{margin - 1}} {wall}{drawn}"


def _shown(pen: _Pen, terminal: Terminal) -> str:
    character = pen.fine if terminal.unicode else pen.plain
    return f"\x1b[{pen.colour}m{character}\x1b[0m" if terminal.colour and pen.colour else character


def _time_axis(timeline: Timeline, columns: int, margin: int, terminal: Terminal) -> Iterator[str]:
    end = timeline.duration or 1.0
    floor = [_FLOOR] * columns
    numbers = [" "] * (columns + 1)
    free = 0
    for time in ticks(end, max(2, columns // 12), whole=timeline.unit != SECONDS):
        column, word = min(int(time / end * columns), columns - 1), label(time)
        floor[column] = _FLOOR_NOTCH
        first = max(free, min(column + 1 - len(word) // 2, columns + 1 - len(word)))
        numbers[first : first + len(word)] = word
        free = first + len(word) + 1
    drawn = "".join(_shown(pen, terminal) for pen in (_CORNER, *floor))
    yield f"{timeline.steps:>{margin - 1}} {drawn}"
    yield " " * margin + "".join(numbers)
    yield " " * margin + timeline.unit.center(columns)


def _legend(timeline: Timeline, seen: set[_Pen]) -> Iterator[tuple[_Pen, str]]:
    """What each character stands for, as far as it is to be seen."""
    windows = window_looks(_tiers(timeline.windows))
    restarts = restart_looks(_tiers(timeline.restarts))
    pens = [
        *((pen, STROKES[kind].label) for kind, pen in _STROKES.items()),
        *((_WINDOWS.get(tier, _OTHER_WINDOW), look.label) for tier, look in windows.items()),
        *((_RESTARTS.get(tier, _OTHER_RESTART), look.label) for tier, look in restarts.items()),
        (_SAVED, "saved"),
    ]
    return ((pen, words) for pen, words in pens if pen in seen)


def _tiers(held: Iterable[Window | Lifetime]) -> list[str]:
    return list(dict.fromkeys(thing.tier for thing in held))


def _wrapped(entries: Iterable[tuple[_Pen, str]], terminal: Terminal) -> Iterator[str]:
    line, used = "", 0
    for pen, words in entries:
        entry, seen = f"{_shown(pen, terminal)} {words}", len(words) + 2
        if line and used + 3 + seen > terminal.width:
            yield line
            line, used = "", 0
        line, used = (f"{line}   {entry}", used + 3 + seen) if line else (entry, seen)
    yield line
