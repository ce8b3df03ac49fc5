"""The rest of a run that did not go as planned, from what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from retrograd.actions import (
    INITIAL,
    MEMORY,
    Action,
    Advance,
    Drop,
    Forget,
    Load,
    Restore,
    Reverse,
    Tier,
)
from retrograd.errors import InvalidArgument
from retrograd.schedules.two_level import shifted

Part: TypeAlias = Callable[[int, int], Iterable[Action]]
"""``part(steps, restarts)``: how to reverse so many steps from a live state, while so many
restarts that are needed later stay in memory."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Reverses what is left with the restarts and records that there are.

    Parameters
    ----------
    adjoint : the step that the adjoint stands at.
    live : the step of the live state, if there is one to go on from.
    restarts : step and tier of each restart that is kept.
    records : start, stop and tier of records that are kept in other tiers than memory.
    part : how to reverse the steps above a restart.
    free_start : the initial state can be returned to at no cost.

    Raises
    ------
    InvalidArgument : nothing is kept from which the first steps could be computed.

    Notes
    -----
    From the adjoint down, records that are kept are loaded; where there are none, the highest
    restart below is restored, given up, and the steps above it are reversed by a schedule of
    their own. Restarts in memory are used in the opposite order of their making, so that what
    they leave free is in one piece.

    References
    ----------
    This project's own.

    Examples
    --------
    >>> from retrograd.schedules import Revolve
    >>> rest = Rest(5, None, ((3, "memory"),), ((1, 3, "disk"),),
    ...             lambda steps, restarts: Revolve(steps, 1), free_start=True)
    >>> for action in rest:
    ...     print(action)
    Restore(step=3, tier='memory', last=True)
    Save(step=3, tier='memory')
    Advance(start=3, stop=4)
    Record(start=4, stop=5, tier='memory')
    Reverse(stop=5, start=4, keep=False)
    Restore(step=3, tier='memory', last=True)
    Record(start=3, stop=4, tier='memory')
    Reverse(stop=4, start=3, keep=False)
    Load(start=1, stop=3, tier='disk')
    Reverse(stop=3, start=1, keep=False)
    Restore(step=0, tier='initial', last=False)
    Record(start=0, stop=1, tier='memory')
    Reverse(stop=1, start=0, keep=False)
    """

    adjoint: int
    live: int | None
    restarts: tuple[tuple[int, Tier], ...]
    records: tuple[tuple[int, int, Tier], ...]
    part: Part
    free_start: bool = False

    def __post_init__(self) -> None:
        starts = [step for step, _ in self.restarts] + [start for start, _, _ in self.records]
        if self.adjoint and not self.free_start and self.live != 0 and min(starts, default=1):
            above = self.adjoint if self.live is None else self.live
            raise InvalidArgument(
                f"of the steps below {min(starts, default=above)} nothing is kept, and the "
                "initial state cannot be made again: they cannot be computed"
            )

    def __iter__(self) -> Iterator[Action]:
        restarts, records = sorted(self.restarts), sorted(self.records)
        live, at = self.live, self.adjoint
        while at:
            while restarts and restarts[-1][0] >= at:
                yield Drop(*restarts.pop())
            while records and records[-1][0] >= at:
                yield Forget(*records.pop())
            if records and records[-1][1] >= at:
                start, stop, tier = records.pop()
                yield Load(start, stop, tier)
                if stop > at:
                    yield Forget(at, stop)
                yield Reverse(at, start)
                at, live = start, None
                continue
            source = restarts.pop() if restarts else (0, INITIAL)
            if live is not None and source[0] < live < at:
                if source[1] != INITIAL:
                    restarts.append(source)
                begin = live
            else:
                begin = source[0]
                yield Restore(*source, last=source[1] != INITIAL)
            low = max(begin, records[-1][1] if records else 0)
            if low > begin:
                yield Advance(begin, low)
            in_memory = sum(tier == MEMORY for _, tier in restarts)
            yield from shifted(self.part(at - low, in_memory), low)
            at, live = low, None
        yield from (Drop(*restart) for restart in restarts)
        yield from (Forget(*record) for record in records)
