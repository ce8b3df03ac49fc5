"""Restarts on tiers whose transfers cost time: least costs in tables, and the walk along them.

Costs are in forward steps, those that record left out, as their number is fixed. A restart in a
tier takes w to write, r to read, and one of m slots. Let B(n) be the least cost of reversing n
steps from the live state with the faster tiers alone, V(n, m) the same where the state also is a
restart in one of the m slots, and W(n, m) where it is not (yet) one::

    W(n, m) = min(B(n), w + V(n, m)),   W(n, 0) = B(n)
    V(n, m) = min(B(n), r + min over i of  i + V(i, m) + W(n − i, m − 1))

In words: go i steps ahead, reverse the rest with one slot less, return, and reverse the first i
steps; if they do not need the restart, give it up. W with all slots is B of the next tier. With
any number of slots m − 1 is as good as m, and one row is enough. A restart in a slower tier never
lies above one in a faster tier, which is best where no cost falls from a tier to the next.

**Least sums.** X(n) = min over i of Y(i) + Z(n − i), where Y and Z become known with n. If
neither Y bends upwards at i nor Z at n − i, moving i to one side or the other does not raise the
sum, and i can move until one of them does or ends. So only those *kinks* and the ends matter.
They are few, and no curve need be convex for this to be exact.

**No rounding.** Rounding errors would bend a straight line at every second place. So costs are
rounded to a grid, once, on which all sums are exact in float64. Its spacing is 2⁻³⁰ of a step for
1000 steps and transfers as long as a few of them, and the schedule is the best for these costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import frexp, fsum, isfinite
from numbers import Real
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from retrograd.actions import INITIAL, Action, Advance, Record, Restore, Save, Tier
from retrograd.errors import InvalidArgument

Curve: TypeAlias = NDArray[np.float64]
"""Costs of n = 0, 1, … steps in the last axis; the first one is not used."""

MOST_CELLS: Final = 5_000_000
"""The most costs that a table may hold, steps times slots: 80 MB, and some 15 seconds."""

_DEAREST: Final = 10**6


def cost(name: str, value: object) -> float:
    """Return the cost of a transfer, in forward steps, as a float.

    Raises
    ------
    InvalidArgument : for anything but a real number from 0 to a million.
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        if 0 <= number <= _DEAREST:
            return number
        if isfinite(number) and number > 0:
            raise InvalidArgument(
                f"{name}={value!r} is more than {_DEAREST} forward steps: no schedule gains from "
                "such a transfer, leave its tier out"
            )
    raise InvalidArgument(
        f"{name}={value!r} is not a finite number of at least 0: write the transfer's time "
        f"divided by that of a forward step, such as {name}=2.5, or {name}=0 if it costs nothing"
    )


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of `spacing`; sums up to four times `impossible` are exact on it."""

    impossible: float
    """More than any schedule costs."""

    @property
    def spacing(self) -> float:
        return self.impossible * 2.0**-50

    def round(self, number: float) -> float:
        return round(number / self.spacing) * self.spacing


def make_grid(steps: int, *costs: float) -> Grid:
    """Return a grid for `steps` and for transfers of these costs."""
    most = steps * (steps + 2 * max(costs, default=0))
    return Grid(2.0 ** frexp(most)[1])


def only_one_step(steps: int, grid: Grid) -> Curve:
    """Return the B below all tiers: nothing can be returned to."""
    costs = np.full(steps + 1, grid.impossible)
    costs[:2] = 0
    return costs


class TierTable:
    """The least costs with one tier and those below it.

    Attributes
    ----------
    tier : its name.
    top : the least cost of 0, 1, … steps from a live state, with all slots.
    """

    def __init__(
        self, tier: Tier, slots: int | None, transfers: tuple[float, float], below: Curve
    ) -> None:
        """`slots` is None for any number; `transfers` are w and r, `below` is B.

        B may differ with the slots that are left: then it has a row for each number, from 0.
        """
        self.tier = tier
        self._slots = slots
        shape = 1 + (1 if slots is None else slots), below.shape[-1]
        self._below = np.broadcast_to(below, shape)
        self._fresh = np.zeros(shape)  # W
        self._moved = np.zeros((shape[0] - 1, shape[1]))  # n + V
        self._rest = self._fresh[1:] if slots is None else self._fresh[:-1]  # W with a slot less
        self._fill(*transfers)

    @property
    def top(self) -> Curve:
        costs: Curve = self._fresh[-1]
        return costs

    def saves(self, length: int, used: int) -> bool:
        """Whether `length` steps from a live state want a restart in this tier."""
        row = self._row(used)
        return bool(self._fresh[row, length] < self._below[row, length])

    def returns(self, length: int, used: int) -> bool:
        """Whether `length` steps return to a restart in this tier; `used` are those beneath it."""
        row = self._row(used)
        return bool(self._moved[row - 1, length] - length < self._below[row, length])

    def left(self, length: int, used: int) -> int:
        """Return how far to go before the rest is reversed."""
        row = self._row(used) - 1
        return 1 + int((self._moved[row, 1:length] + self._rest[row, length - 1 : 0 : -1]).argmin())

    def _row(self, used: int) -> int:
        return 1 if self._slots is None else self._slots - used

    def _fill(self, write: float, read: float) -> None:
        self._fresh[0] = self._below[0]
        self._fresh[1:, 1] = self._below[1:, 1]
        self._moved[:, 1] = 1 + self._below[1:, 1]
        sums = _LeastSums(self._moved, self._rest)
        for n in range(2, self._below.shape[1]):
            below = self._below[1:, n]
            held = np.minimum(read + sums.least(n), below)
            self._moved[:, n] = n + held
            self._fresh[1:, n] = np.minimum(write + held, below)


def walk(
    tables: Sequence[TierTable], steps: int, turn: Callable[[int, int], Iterator[Action]]
) -> Iterator[Action]:
    """Return the actions that the tables say are best.

    `tables` are those of the tiers, fastest first. `turn` reverses a range from the live state
    with what lies below them all. If the last table is that of the initial tier, step 0 lies there.
    """
    pending: list[tuple[int, int, int, int]] = []
    start, length, tier, used = 0, steps, len(tables) - 1, 0
    held = bool(tables) and tables[-1].tier == INITIAL and tables[-1].returns(steps, used)
    while True:
        while tier >= 0 and not (held or tables[tier].saves(length, used)):
            tier, used = tier - 1, 0
        if tier >= 0:
            table = tables[tier]
            if not held:
                yield Save(start, table.tier)
            left = table.left(length, used)
            yield Advance(start, start + left)
            pending.append((start, left, tier, used))
            start, length, used, held = start + left, length - left, used + 1, False
            continue
        yield from turn(start, start + length)
        if not pending:
            return
        start, length, tier, used = pending.pop()
        table = tables[tier]
        held = table.returns(length, used)
        yield Restore(start, table.tier, last=not held and table.tier != INITIAL)


class Expense(NamedTuple):
    """Forward steps that run, and their number plus the costs of all transfers."""

    forward_steps: int
    cost: float


def expense(actions: Iterable[Action], transfers: Mapping[Tier, tuple[float, float]]) -> Expense:
    """Count what actions cost, where `transfers` are the costs of a save and of a restore."""
    forward_steps = 0
    saves, restores = Counter[Tier](), Counter[Tier]()
    for action in actions:
        match action:
            case Advance(start, stop) | Record(start, stop):
                forward_steps += stop - start
            case Save(_, tier):
                saves[tier] += 1
            case Restore(_, tier):
                restores[tier] += 1
    costs = [float(forward_steps)]
    for tier, (write, read) in transfers.items():
        costs += [write * saves[tier], read * restores[tier]]
    return Expense(forward_steps, fsum(costs))


class _LeastSums:
    """X(n) = min over i of Y(i) + Z(n − i), row by row, while Y and Z are being filled in."""

    def __init__(self, one: Curve, other: Curve) -> None:
        self._one, self._other = one, other
        self._kinks = _Kinks(one), _Kinks(other)

    def least(self, n: int) -> Curve:
        """Return X(n); Y and Z must be known below n."""
        sums = np.full(len(self._one), np.inf)
        for kinks, other in zip(self._kinks, (self._other, self._one), strict=True):
            if n > 3:
                kinks.look_at(n - 2)
            np.minimum.at(sums, kinks.rows, kinks.values + kinks.opposite(other, n))
        return sums


class _Kinks:
    """Where the rows of a curve begin or bend upwards, in the order of their discovery."""

    def __init__(self, curve: Curve) -> None:
        self._curve = curve
        self._count = len(curve)
        self._rows = np.arange(len(curve))
        self._values = curve[:, 1].copy()
        self._shifts = self._rows * curve.shape[1] - 1

    @property
    def rows(self) -> NDArray[np.intp]:
        return self._rows[: self._count]

    @property
    def values(self) -> Curve:
        return self._values[: self._count]

    def opposite(self, other: Curve, n: int) -> Curve:
        """Return the other curve, in the same row, at n − i for the kinks' i."""
        costs: Curve = other.reshape(-1)[n + self._shifts[: self._count]]
        return costs

    def look_at(self, i: int) -> None:
        """Note the rows that bend upwards at `i`; the curve must be known at ``i + 1``."""
        before, here, after = (self._curve[:, i + offset] for offset in (-1, 0, 1))
        bent = np.flatnonzero(before + after > 2 * here)
        if not bent.size:
            return
        count = self._count + bent.size
        if count > len(self._rows):
            self._rows, self._values, self._shifts = (
                np.resize(old, 2 * count) for old in (self._rows, self._values, self._shifts)
            )
        self._rows[self._count : count] = bent
        self._values[self._count : count] = here[bent]
        self._shifts[self._count : count] = bent * self._curve.shape[1] - i
        self._count = count
