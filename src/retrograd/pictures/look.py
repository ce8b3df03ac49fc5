"""How things look: colours of Okabe & Ito, and a line style or hatching for each besides.

Nothing is told by colour alone: what moves is slanted, a restart is a level line, a record an
area, and among these width, dashes and hatching differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from retrograd.actions import DISK, INITIAL, MEMORY, Tier
from retrograd.events import Kind

_BLUE, _VERMILLION, _GREEN = "#0072B2", "#D55E00", "#009E73"
_SKY, _ORANGE, _YELLOW, _PURPLE = "#56B4E9", "#E69F00", "#F0E442", "#CC79A7"
_BLACK = "#000000"

WIDTH: Final = 1000
LEFT, TOP, RIGHT = 84, 62, 20
PLOT_WIDTH: Final = WIDTH - LEFT - RIGHT
PLOT_HEIGHT: Final = 540
"""Pixels of a picture, of the margins, and of the plot within them."""


@dataclass(frozen=True, slots=True)
class LineLook:
    """A line: its name in the legend, colour, width and dashes (on, off, …; none if solid)."""

    label: str
    colour: str
    width: float
    dashes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class AreaLook:
    """An area: its name in the legend, colour, and hatching as Matplotlib spells it."""

    label: str
    colour: str
    hatch: str


STROKES: Final = {
    Kind.FORWARD: LineLook("forward, first time", _BLUE, 2.6),
    Kind.RECOMPUTE: LineLook("forward, again", _VERMILLION, 1.7, (4.0, 1.6)),
    Kind.REVERSE: LineLook("reverse", _GREEN, 2.4, (1.2, 1.6)),
}

_RESTARTS: Final = {
    MEMORY: LineLook("restart in memory", _BLACK, 0.9),
    DISK: LineLook("restart on disk", _PURPLE, 2.0, (6.0, 2.5)),
    INITIAL: LineLook("initial state, free", _BLACK, 0.9, (1.0, 3.0)),
}
_OTHER_RESTARTS: Final = (
    (_ORANGE, 2.0, (6.0, 1.5, 1.5, 1.5)),
    (_SKY, 2.6, (2.5, 2.0)),
    (_VERMILLION, 1.5, (3.0, 1.5, 1.5, 1.5, 1.5, 1.5)),
)

_WINDOWS: Final = {
    MEMORY: AreaLook("records in memory", _YELLOW, "/"),
    DISK: AreaLook("records on disk", _PURPLE, "x"),
}
_OTHER_WINDOWS: Final = ((_ORANGE, "\\"), (_SKY, "-"), (_VERMILLION, "|"))


def restart_looks(tiers: list[Tier]) -> dict[Tier, LineLook]:
    """A look for each tier's restarts; tiers beyond those known here take turns."""
    others = [tier for tier in tiers if tier not in _RESTARTS]
    looks = dict(_RESTARTS)
    for index, tier in enumerate(others):
        colour, width, dashes = _OTHER_RESTARTS[index % len(_OTHER_RESTARTS)]
        looks[tier] = LineLook(f"restart in {tier}", colour, width, dashes)
    return {tier: looks[tier] for tier in tiers}


def window_looks(tiers: list[Tier]) -> dict[Tier, AreaLook]:
    """A look for each tier's records; tiers beyond those known here take turns."""
    others = [tier for tier in tiers if tier not in _WINDOWS]
    looks = dict(_WINDOWS)
    for index, tier in enumerate(others):
        colour, hatch = _OTHER_WINDOWS[index % len(_OTHER_WINDOWS)]
        looks[tier] = AreaLook(f"records in {tier}", colour, hatch)
    return {tier: looks[tier] for tier in tiers}
