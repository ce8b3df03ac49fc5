"""What happened during a run, as values: progress bars, reports and plots read these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from retrograd.actions import Action


class Kind(Enum):
    """What the time of an event was spent on."""

    FORWARD = "forward"
    """Forward steps that run for the first time."""
    RECOMPUTE = "recompute"
    """Forward steps that run again."""
    REVERSE = "reverse"
    SAVE = "save"
    RESTORE = "restore"


@dataclass(frozen=True, slots=True)
class Event:
    """One call of the problem, or one transfer of the store.

    Attributes
    ----------
    index : position of the action in the schedule, from 0.
    action : the action that this is part of.
    kind : what the seconds went to.
    start, stop : the steps of the call; equal for a transfer.
    began : seconds since the run began.
    seconds : how long it took.
    """

    index: int
    action: Action
    kind: Kind
    start: int
    stop: int
    began: float
    seconds: float


Observer: TypeAlias = Callable[[Event], None]
