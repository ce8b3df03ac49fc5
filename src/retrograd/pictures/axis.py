"""Round numbers along an axis."""

from __future__ import annotations

import math


def ticks(end: float, most: int, *, whole: bool) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from 0 to `end`, at most `most` + 1 of them.

    >>> ticks(30, 6, whole=True)
    [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]
    """
    if end <= 0:
        return [0.0]
    rough = end / most
    power = 10.0 ** math.floor(math.log10(rough))
    gap = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    if whole:
        gap = max(gap, 1.0)
    return [index * gap for index in range(int(end / gap * 1.000001) + 1)]


def label(value: float) -> str:
    """A tick's number, without an exponent where it is a whole one."""
    return str(round(value)) if value == round(value) else f"{value:g}"
