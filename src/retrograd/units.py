"""Bytes to the small whole units in which schedules count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

MOST_UNITS: Final = 4096
"""More units of memory than this make a planner's tables slow; sizes are rounded up instead."""


@dataclass(frozen=True, slots=True)
class Units:
    """Sizes in whole units of ``nbytes_per_unit``, restart and record rounded up.

    ``loss`` is the share by which rounding enlarges the two sizes, 0 if it is exact.
    """

    restart: int
    record: int
    memory: int
    nbytes_per_unit: Fraction
    loss: float


def to_units(restart_nbytes: int, record_nbytes: int, memory_nbytes: int) -> Units:
    """The unit that loses least among those that leave memory at most `MOST_UNITS` units.

    Sizes with a small common divisor are exact. Otherwise the candidates are the whole
    fractions of a restart and of a record.

    >>> to_units(200, 100, 5050)
    Units(restart=2, record=1, memory=50, nbytes_per_unit=Fraction(100, 1), loss=0.0)
    """
    common = Fraction(math.gcd(restart_nbytes, record_nbytes))
    if memory_nbytes // common <= MOST_UNITS or restart_nbytes == record_nbytes:
        return _round_up(restart_nbytes, record_nbytes, memory_nbytes, common)
    candidates = [
        Fraction(size, parts)
        for size in (record_nbytes, restart_nbytes)
        for parts in range(1, max(1, MOST_UNITS * size // memory_nbytes) + 1)
    ]
    rounded = [_round_up(restart_nbytes, record_nbytes, memory_nbytes, c) for c in candidates]
    return min(rounded, key=lambda units: (units.loss, units.memory))


def _round_up(restart: int, record: int, memory: int, unit: Fraction) -> Units:
    a, b = math.ceil(restart / unit), math.ceil(record / unit)
    loss = float(max(a * unit / restart, b * unit / record) - 1)
    return Units(a, b, math.floor(memory / unit), unit, loss)
