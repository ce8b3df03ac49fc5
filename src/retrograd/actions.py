"""The instruction set: a schedule is an iterable of these values.

Step ``k`` takes state ``k`` to state ``k + 1``. Ranges are half-open. A *restart* is a saved
state, a *record* is what the adjoint of one step needs, a *tier* is where bytes live.

Whether a sequence of actions is legal is decided by :mod:`retrograd.verify` and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

Tier: TypeAlias = str

MEMORY: Final[Tier] = "memory"
DISK: Final[Tier] = "disk"
INITIAL: Final[Tier] = "initial"
"""The tier of an initial state that costs no memory: zero, or one that can be made again."""


@dataclass(frozen=True, slots=True)
class Advance:
    """Run the forward over steps ``start`` … ``stop - 1`` and keep nothing."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Record:
    """Run the forward over steps ``start`` … ``stop - 1`` and keep the record of each.

    In another tier than memory, the records of one action are kept as one item: they are made in
    memory and leave it when the last of them is there.
    """

    start: int
    stop: int
    tier: Tier = MEMORY


@dataclass(frozen=True, slots=True)
class Load:
    """Bring the records of one `Record` back to memory from its tier, which gives them up.

    They take the place of the live state: the forward goes on from a `Restore` only.
    """

    start: int
    stop: int
    tier: Tier


@dataclass(frozen=True, slots=True)
class Forget:
    """Give the records of steps ``start`` … ``stop - 1`` up without using them."""

    start: int
    stop: int
    tier: Tier = MEMORY


@dataclass(frozen=True, slots=True)
class Save:
    """Make the live state, which is at ``step``, a restart."""

    step: int
    tier: Tier = MEMORY


@dataclass(frozen=True, slots=True)
class Restore:
    """Make the restart at ``step`` the live state; ``last`` says it is not needed again."""

    step: int
    tier: Tier = MEMORY
    last: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """Free the restart at ``step``."""

    step: int
    tier: Tier = MEMORY


@dataclass(frozen=True, slots=True)
class Reverse:
    """Run the adjoint over steps ``stop - 1`` … ``start`` in one call, using up their records.

    Where the record of a step is part of the state at its start, the step that begins at the
    live state needs no record. ``keep`` leaves the records for another sweep.
    """

    stop: int
    start: int
    keep: bool = False


@dataclass(frozen=True, slots=True)
class BeginSweep:
    """Begin a further reverse sweep, from the end again, over the same forward run."""

    index: int


Action: TypeAlias = Advance | Record | Load | Forget | Save | Restore | Drop | Reverse | BeginSweep
