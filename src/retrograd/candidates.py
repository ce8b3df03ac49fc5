"""The schedules a planner chooses from, and what each would cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from retrograd.actions import MEMORY, Action
from retrograd.schedules import KeepAll, Mixed, Revolve, smallest_memory_units
from retrograd.sizes import format_nbytes
from retrograd.verify import Counts, verify

NAMES: Final = ("auto", "keep-all", "mixed", "revolve")

_MOST_STEPS_REPLAYED: Final = 20_000


class Schedule(Protocol):
    """What a plan needs of a schedule: its actions, and how many forward steps they run."""

    def __iter__(self) -> Iterator[Action]: ...
    @property
    def forward_steps(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Demand:
    """What is to be reversed, in bytes.

    Attributes
    ----------
    steps : how many steps the forward makes.
    restart_nbytes, record_nbytes : bytes of one restart and of one record.
    live_nbytes : bytes in use besides: the live state and the row that a step writes.
    record_in_state : the record of a step is part of the state at its start.
    free_start : returning to the initial state costs no memory.
    scratch_nbytes : bytes of the live ones that lie outside the arena.
    fixed_nbytes : bytes in use besides and not counted in the budget: the user's own fields.
    """

    steps: int
    restart_nbytes: int
    record_nbytes: int
    live_nbytes: int = 0
    record_in_state: bool = False
    free_start: bool = False
    scratch_nbytes: int = 0
    fixed_nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Alternative:
    """A schedule that was considered: what it would cost, or why it is impossible."""

    name: str
    forward_steps: int | None
    verdict: str


def smallest_nbytes(demand: Demand, name: str) -> int:
    """The smallest budget in which the named schedule (or any, for ``"auto"``) is possible."""
    keep_all = (demand.steps - 1) * demand.record_nbytes
    match name:
        case "keep-all":
            needed = keep_all
        case "revolve":
            free = demand.free_start or demand.steps == 1
            needed = 0 if free else demand.restart_nbytes
        case _:
            needed = smallest_memory_units(
                demand.steps, demand.restart_nbytes, demand.record_nbytes, demand.free_start
            )
    return demand.live_nbytes + needed


def candidates(demand: Demand, memory_nbytes: int) -> dict[str, Schedule]:
    """The schedules that are possible within a budget, by name; bytes are their units."""
    makers = {"keep-all": _keep_all, "mixed": _mixed, "revolve": _revolve}
    return {
        name: make(demand, memory_nbytes - demand.live_nbytes)
        for name, make in makers.items()
        if memory_nbytes >= smallest_nbytes(demand, name)
    }


def _keep_all(demand: Demand, nbytes: int) -> Schedule:
    return KeepAll(demand.steps)


def _mixed(demand: Demand, nbytes: int) -> Schedule:
    dearer = demand.record_in_state and demand.record_nbytes > demand.restart_nbytes
    if demand.steps > 1 and (dearer or nbytes < demand.record_nbytes):
        return _revolve(demand, nbytes)  # records are no use: the same, and priced by a formula
    return Mixed(
        demand.steps,
        demand.restart_nbytes,
        demand.record_nbytes,
        min(nbytes, (demand.steps - 1) * demand.record_nbytes),
        demand.record_in_state,
        demand.free_start,
    )


def _revolve(demand: Demand, nbytes: int) -> Schedule:
    slots = nbytes // demand.restart_nbytes
    return Revolve(demand.steps, slots, demand.record_in_state, demand.free_start)


def compared(demand: Demand, possible: dict[str, Schedule], best: str) -> Iterator[Alternative]:
    """What was chosen, and why each of the others was not."""
    fewest = possible[best].forward_steps
    for name in NAMES[1:]:
        if name not in possible:
            needed = format_nbytes(smallest_nbytes(demand, name))
            yield Alternative(name, None, f"impossible: needs {needed}")
            continue
        more = possible[name].forward_steps - fewest
        verdict = "chosen" if name == best else "the same"
        yield Alternative(
            name,
            possible[name].forward_steps,
            f"{abs(more)} {'more' if more > 0 else 'fewer'} forward steps" if more else verdict,
        )


def replay(schedule: Iterable[Action], demand: Demand, memory_nbytes: int | None = None) -> Counts:
    """Count what a schedule does; with a budget, refuse it where it takes more."""
    budgets = {} if memory_nbytes is None else {MEMORY: memory_nbytes - demand.live_nbytes}
    return verify(
        schedule,
        steps=demand.steps,
        restart_nbytes=demand.restart_nbytes,
        record_nbytes=demand.record_nbytes,
        budgets=budgets,
        record_in_state=demand.record_in_state,
        free_start=demand.free_start,
    )


def calls_and_peak(schedule: Schedule, demand: Demand) -> tuple[int, int]:
    """Reverse calls, and peak bytes of restarts and records: replayed, unless that takes long."""
    if isinstance(schedule, Revolve) and schedule.steps > _MOST_STEPS_REPLAYED:
        return schedule.steps, min(schedule.slots, schedule.steps - 1) * demand.restart_nbytes
    counts = replay(schedule, demand)
    return counts.reverse_calls, counts.peak_nbytes.get(MEMORY, 0)
