"""The table of `Variable`: least costs of all ranges of steps in all memories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

IMPOSSIBLE: Final = 1e300

WINDOW: Final = 0
"""The choice to record all."""

RECORD: Final = -1
"""The choice to record the first block and go on; a positive one is the length of the left part."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Steps in blocks, with what they cost and take.

    Attributes
    ----------
    step_costs, restart_sizes, record_sizes : of each step.
    borders : the first steps of the blocks, and the number of steps.
    unit : sizes are rounded up to multiples of it.
    spared : whether the last step of a range need not run.
    """

    step_costs: tuple[float, ...]
    restart_sizes: tuple[int, ...]
    record_sizes: tuple[int, ...]
    borders: tuple[int, ...]
    unit: int
    spared: bool

    @property
    def restarts(self) -> list[int]:
        """Units of the restart at the start of each block."""
        return [-(-self.restart_sizes[start] // self.unit) for start in self.borders[:-1]]

    @property
    def records(self) -> list[int]:
        """Units of all records of each block."""
        sums = np.cumsum([0, *self.record_sizes])[list(self.borders)]
        return [-(-int(size) // self.unit) for size in np.diff(sums)]


@dataclass(frozen=True, slots=True)
class Table:
    """Least costs and best choices.

    Attributes
    ----------
    units : the whole memory.
    cost : the least cost of all steps.
    choices : by the blocks of a range: choices ``[first block, units]``.
    free : the choices of ranges from the free start on, by their blocks; empty if it is not.
    """

    sizes: Sizes
    units: int
    cost: float
    choices: list[NDArray[np.int16]]
    free: list[int]

    @property
    def is_exact(self) -> bool:
        """Whether nothing was rounded and each step is a block."""
        sizes, unit = self.sizes, self.sizes.unit
        whole = all(size % unit == 0 for size in (*sizes.restart_sizes, *sizes.record_sizes))
        return whole and len(sizes.borders) == len(sizes.step_costs) + 1

    def choice(self, first: int, last: int, units: int, is_free: bool) -> int:
        """What to do with blocks ``first`` … ``last - 1``."""
        if is_free and self.free[last]:
            return self.free[last]
        return int(self.choices[last - first][first, units])


def tabulate(sizes: Sizes, units: int, free_start: bool) -> Table:
    """Fill the table, from short ranges to long ones, for all starts and memories at once."""
    blocks = len(sizes.borders) - 1
    borders = np.array(sizes.borders)
    cost = np.concatenate([[0.0], np.cumsum(sizes.step_costs)])
    until = cost[borders]
    memory = np.arange(units + 1)
    restart = np.array(sizes.restarts)
    beside = memory - restart[:, None]
    above = memory - np.array(sizes.records)[:, None]
    values: list[NDArray[np.float64]] = [np.zeros((blocks + 1, units + 1))]
    choices: list[NDArray[np.int16]] = [np.zeros((blocks + 1, units + 1), np.int16)]
    for length in range(1, blocks + 1):
        starts = np.arange(blocks - length + 1)
        value = _windows(sizes, cost, starts, length, memory)
        choice = np.full(value.shape, WINDOW, np.int16)
        if length > 1:
            kept = _at(values[length - 1][starts + 1], above[starts])
            _take(value, choice, kept + (until[starts + 1] - until[starts])[:, None], RECORD)
        for left in range(1, length):
            right = _at(values[length - left][starts + left], beside[starts])
            run = (until[starts + left] - until[starts])[:, None]
            _take(value, choice, run + right + values[left][starts], left)
        values.append(value)
        choices.append(choice)
    least, free = float(values[blocks][0, units]), [0] * (blocks + 1)
    if free_start:
        least = _from_free_start(values, until, units, free)
    return Table(sizes, units, least, choices, free)


def _windows(
    sizes: Sizes,
    cost: NDArray[np.float64],
    starts: NDArray[np.intp],
    length: int,
    memory: NDArray[np.intp],
) -> NDArray[np.float64]:
    """The cost of recording all, where it fits."""
    borders = np.array(sizes.borders)
    first, stop = borders[starts], borders[starts + length]
    taken = np.cumsum([0, *sizes.record_sizes])
    needed = -(-(taken[stop - 1] - taken[first]) // sizes.unit)
    price = cost[stop - 1 if sizes.spared else stop] - cost[first]
    return np.where(needed[:, None] <= memory, price[:, None], IMPOSSIBLE)


def _at(values: NDArray[np.float64], units: NDArray[np.intp]) -> NDArray[np.float64]:
    """Values at each row's units; impossible where these are negative."""
    found = np.take_along_axis(values, np.maximum(units, 0), axis=1)
    found[units < 0] = IMPOSSIBLE
    return found


def _take(
    value: NDArray[np.float64], choice: NDArray[np.int16], other: NDArray[np.float64], code: int
) -> None:
    """Take another choice where it costs less."""
    better = other < value
    value[better] = other[better]
    choice[better] = code


def _from_free_start(
    values: list[NDArray[np.float64]], until: NDArray[np.float64], units: int, free: list[int]
) -> float:
    """The least cost where returning to the start takes no memory."""
    least = [0.0]
    for last in range(1, len(values)):
        best = float(values[last][0, units])
        for left in range(1, last):
            found = float(until[left] + values[last - left][left, units] + least[left])
            if found < best:
                best, free[last] = found, left
        least.append(best)
    return least[-1]
