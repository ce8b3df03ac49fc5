"""What a picture says besides its lines: a timeline with its titles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from retrograd.actions import DISK, Action, Advance, Record, Reverse, Tier
from retrograd.errors import InvalidArgument
from retrograd.plans import Plan
from retrograd.result import Result
from retrograd.sizes import format_nbytes
from retrograd.timeline import Timeline, from_actions, from_events

Shown: TypeAlias = Result | Plan | Iterable[Action]
"""What can be drawn: what a run did, a plan, or any schedule."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A timeline with its titles.

    Attributes
    ----------
    title : the schedule, its steps and its forward steps.
    subtitle : its memory.
    """

    timeline: Timeline
    title: str
    subtitle: str


def picture_of(shown: Shown, name: str | None = None) -> Picture:
    """The picture of a run in seconds, or of a plan or a schedule in steps executed.

    `name` stands in the title; without it, the plan's, or the class of the schedule.

    Raises
    ------
    InvalidArgument
        for what holds no steps.
    """
    match shown:
        case Result(plan=plan, tally=tally):
            timeline = from_events(tally.events, plan.steps)
            calls = sum(tally.calls.values())
            part = len(tally.events) < calls
            cut = f"; only the first {len(tally.events)} of {calls} events" if part else ""
            return _titled(timeline, name or plan.name, tally.forward_steps, _bytes(plan) + cut)
        case Plan():
            timeline = from_actions(shown.schedule, shown.steps)
            memory = f"{_bytes(shown)}; {_most(timeline)}"
            return _titled(timeline, name or shown.name, timeline.forward_steps, memory)
        case _:
            actions = _listed(shown)
            timeline = from_actions(actions, _last_step(actions))
            called = name or type(shown).__name__
            return _titled(timeline, called, timeline.forward_steps, _most(timeline))


def _listed(shown: Iterable[Action]) -> list[Action]:
    if not isinstance(shown, Iterable):
        raise InvalidArgument(
            f"{shown!r} cannot be drawn: give a Result, a Plan, or a schedule, which is any "
            "iterable of actions"
        )
    return list(shown)


def _last_step(actions: list[Action]) -> int:
    moves = [action for action in actions if isinstance(action, Advance | Record | Reverse)]
    if not moves:
        raise InvalidArgument("there is nothing to draw: the schedule runs no step")
    for move in moves:
        if move.start >= move.stop:
            raise InvalidArgument(f"{move} cannot be drawn: its range is empty")
    return max(move.stop for move in moves)


def _titled(timeline: Timeline, name: str, forward_steps: int, memory: str) -> Picture:
    called = "".join(letter if letter.isprintable() else "?" for letter in name)
    factor = forward_steps / timeline.steps
    steps = f"{_counted(timeline.steps, 'step')}, {_counted(forward_steps, 'forward step')}"
    return Picture(timeline, f"{called}: {steps} ({factor:.3f} times)", memory)


def _bytes(plan: Plan) -> str:
    peaks = {
        "memory": (plan.peak_nbytes, plan.memory_nbytes),
        "disk": (plan.prediction.disk_nbytes, plan.budget.disk_nbytes),
    }
    return "; ".join(
        f"{where}: {format_nbytes(peak)} of a budget of {format_nbytes(budget)}"
        for where, (peak, budget) in peaks.items()
        if where == "memory" or peak
    )


def _most(timeline: Timeline) -> str:
    """The most that is held at once, tier by tier."""
    tiers = {**timeline.most_restarts, **timeline.most_records}
    parts = [
        f"{_held(timeline.most_restarts, timeline.most_records, tier)} {_place(tier)}"
        for tier in tiers
    ]
    return f"at most {', '.join(parts)}" if parts else "nothing is kept"


def _held(restarts: Mapping[Tier, int], records: Mapping[Tier, int], tier: Tier) -> str:
    parts = [
        _counted(held[tier], word)
        for held, word in ((restarts, "restart"), (records, "record"))
        if tier in held
    ]
    return " and ".join(parts)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _place(tier: Tier) -> str:
    return f"on {tier}" if tier == DISK else f"in {tier}"
