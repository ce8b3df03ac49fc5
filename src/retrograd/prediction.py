"""What a schedule will take: steps, calls, bytes and seconds, found by replaying it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from retrograd.actions import DISK, INITIAL, MEMORY, Action
from retrograd.cost import Costs
from retrograd.demand import Budget, Demand
from retrograd.errors import BudgetTooSmall
from retrograd.overlap import Traffic, standstill, traffic
from retrograd.replay import replay_rows
from retrograd.schedules import Revolve
from retrograd.verify import Counts, verify

_MOST_STEPS_REPLAYED: Final = 20_000


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a schedule will take.

    Attributes
    ----------
    forward_steps : forward steps executed, first sweep included.
    reverse_calls : how many ``Reverse`` actions there are.
    memory_nbytes : the most bytes in use at once in memory, live ones included.
    disk_nbytes : the most bytes on disk at once.
    traffic_nbytes : bytes written to disk and read from it.
    seconds : how long it takes, if costs are known.
    """

    forward_steps: int
    reverse_calls: int
    memory_nbytes: int
    disk_nbytes: int
    traffic_nbytes: int
    seconds: float | None


def predict(
    schedule: Iterable[Action], demand: Demand, budget: Budget, costs: Costs | None
) -> Prediction:
    """Replay a schedule; refuse it where it breaks a rule or takes more than the budget.

    Raises
    ------
    IllegalAction
        naming the action.
    BudgetTooSmall
        if the rows of a layout do not fit.
    """
    counts = _count(schedule, demand, budget)
    peak, moved = counts.peak_nbytes.get(MEMORY, 0), 0
    if demand.layout is not None:
        arena = budget.memory_nbytes - demand.scratch_nbytes
        rows = replay_rows(schedule, demand.layout, arena)
        peak, moved = rows.peak_nbytes + demand.scratch_nbytes, rows.moved_nbytes
    else:
        peak += demand.uncounted_nbytes
    seconds = None if costs is None else costs.seconds(counts, moved)
    moving = Traffic()
    if any(tier not in (MEMORY, INITIAL) for tier in (*counts.saves, *counts.loads)):
        moving = traffic(schedule, demand, 1.0 if costs is None else costs.disk_ratio)
        _refuse_more(moving.peak_nbytes, budget)
        if costs is not None and seconds is not None:
            seconds += standstill(schedule, demand, costs)
    return Prediction(
        counts.forward_steps,
        counts.reverse_calls,
        peak,
        moving.peak_nbytes,
        moving.nbytes,
        seconds,
    )


def _refuse_more(nbytes: int, budget: Budget) -> None:
    if nbytes > budget.disk_nbytes:
        raise BudgetTooSmall(
            f"the schedule keeps {nbytes} bytes on disk, and disk={budget.disk_nbytes} allows "
            f"fewer: give at least {nbytes}",
            nbytes,
        )


def _count(schedule: Iterable[Action], demand: Demand, budget: Budget) -> Counts:
    if isinstance(schedule, Revolve) and schedule.steps > _MOST_STEPS_REPLAYED:
        return _revolve_counts(schedule, demand)
    return verify(
        schedule,
        steps=demand.steps,
        restart_nbytes=demand.restart_nbytes,
        record_nbytes=demand.record_nbytes,
        budgets={MEMORY: budget.memory_nbytes - demand.uncounted_nbytes, DISK: budget.disk_nbytes},
        record_in_state=demand.record_in_state,
        free_start=demand.free_start,
        state_rows=demand.state_rows,
    )


def _revolve_counts(schedule: Revolve, demand: Demand) -> Counts:
    """What `verify` would count, to within a restart: each of the steps is turned on its own."""
    steps, slots = schedule.steps, min(schedule.slots, schedule.steps - 1)
    restarts_nbytes = slots * demand.restart_nbytes + demand.live_rows * demand.record_nbytes
    recorded = 1 if schedule.record_in_state else steps
    return Counts(
        actions=3 * steps + recorded,
        forward_calls=steps - 1 + recorded,
        forward_steps=schedule.forward_steps,
        recorded_steps=recorded,
        reversed_steps=steps,
        reverse_calls=steps,
        saves={},
        restores={MEMORY: steps - 1},
        drops={},
        loads={},
        loaded_steps={},
        peak_nbytes={MEMORY: restarts_nbytes},
    )
