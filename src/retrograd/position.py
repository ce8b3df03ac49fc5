"""Where a run stands: how far it is, and what is kept where."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrograd.actions import (
    INITIAL,
    MEMORY,
    Action,
    Advance,
    Drop,
    Forget,
    Load,
    Record,
    Restore,
    Reverse,
    Save,
    Tier,
)


@dataclass
class Position:
    """Follows a legal schedule; what a further schedule could begin with.

    Attributes
    ----------
    adjoint : the step that the adjoint stands at; the number of steps before it begins.
    live : the step of the live state; None if there is none.
    restarts : the restarts that are kept, with their tiers.
    records : what is recorded in other tiers than memory: start, stop and tier of each item.
    """

    adjoint: int
    live: int | None = 0
    restarts: set[tuple[int, Tier]] = field(default_factory=set)
    records: set[tuple[int, int, Tier]] = field(default_factory=set)

    def follow(self, action: Action) -> None:
        """Take an action that has been made into account."""
        match action:
            case Advance(_, stop):
                self.live = stop
            case Record(start, stop, tier):
                self.live = stop
                if tier != MEMORY:
                    self.records.add((start, stop, tier))
            case Load(start, stop, tier):
                self.live = None
                self.records.discard((start, stop, tier))
            case Save(step, tier):
                self.restarts.add((step, tier))
            case Restore(step, tier, last):
                self.live = step
                if last and tier != INITIAL:
                    self.restarts.discard((step, tier))
            case Drop(step, tier):
                self.restarts.discard((step, tier))
            case Forget(start, stop, tier):
                self.records.discard((start, stop, tier))
            case Reverse(_, start):
                self.adjoint = start
            case _:
                pass

    def lose(self, start: int, stop: int | None) -> None:
        """Forget what a tier lost: the restart at ``start``, or the records up to ``stop``."""
        if stop is None:
            self.restarts = {one for one in self.restarts if one[0] != start or one[1] == MEMORY}
        else:
            self.records = {one for one in self.records if one[:2] != (start, stop)}
