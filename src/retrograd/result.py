"""What a run gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from retrograd.durable.keeper import Kept
from retrograd.errors import StoreFailed
from retrograd.plans import Plan
from retrograd.report import report
from retrograd.stores.compressed import Statistics
from retrograd.stores.transfer_thread import Transfers
from retrograd.sweep import Tally


@dataclass(frozen=True, slots=True)
class Result:
    """A gradient, and what it took.

    Attributes
    ----------
    gradient : what the problem's reverse sweep produced.
    plan : what was chosen and predicted.
    tally : steps, calls and seconds by kind, and the events.
    arena_nbytes : bytes of the one allocation that held restarts, records and live rows.
    seconds : from the start of the forward to the end of the reverse sweep.
    failures : what went wrong in a tier and was made good.
    resumed : where an earlier process had left the run; empty if there was none.
    kept : what was put on disk to be gone on with, if that was wanted.
    transfers : what was written and read in the background, if anything.
    compression : what was compressed, if anything.
    """

    gradient: Any
    plan: Plan
    tally: Tally
    arena_nbytes: int
    seconds: float
    failures: tuple[StoreFailed, ...] = ()
    resumed: str = ""
    kept: Kept | None = None
    transfers: Transfers | None = None
    compression: Statistics | None = None

    @property
    def steps(self) -> int:
        """How many steps the forward made."""
        return self.plan.steps

    def report(self) -> str:
        """What was chosen, and steps and seconds by kind, as text."""
        return report(self)
