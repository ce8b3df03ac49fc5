"""From bytes to a schedule where the number of steps is unknown."""

from __future__ import annotations

from dataclasses import dataclass, replace

from retrograd.actions import Reverse
from retrograd.demand import Budget, Demand
from retrograd.errors import BudgetTooSmall, InvalidArgument, NotSupported
from retrograd.layout import Layout
from retrograd.plans import Alternative, Plan
from retrograd.prediction import Prediction
from retrograd.schedules.online import OnlineMixed, OnlineSchedule, Stopped
from retrograd.sizes import Size, format_nbytes, parse_budget


@dataclass(frozen=True, slots=True)
class OnlinePlan:
    """A schedule for an unknown number of steps, and the memory that it gets.

    Attributes
    ----------
    schedule : what to do until the forward ends, and from then on.
    demand : what it was chosen for; its steps are the most that there may be.
    budget : the bytes that are allowed.
    arena_nbytes : bytes for restarts, records and live rows.
    """

    schedule: OnlineSchedule
    demand: Demand
    budget: Budget
    arena_nbytes: int

    @property
    def name(self) -> str:
        """What the plan is called."""
        return "online"

    def stopped(self, steps: int) -> Plan:
        """The plan as it turns out when the forward has ended after so many steps."""
        schedule = Stopped(self.schedule, steps)
        reverse_calls = sum(isinstance(a, Reverse) for a in self.schedule.reverse(steps))
        nbytes = self.arena_nbytes + self.demand.scratch_nbytes
        found = Prediction(schedule.forward_steps, reverse_calls, nbytes, 0, 0, None)
        only = Alternative(self.name, schedule.forward_steps, found, "chosen")
        return Plan(
            self.name,
            schedule,
            replace(self.demand, steps=steps),
            self.budget,
            None,
            steps * self.demand.record_nbytes,
            found,
            (only,),
        )

    def summary(self) -> str:
        """What was chosen, as text."""
        demand = self.demand
        return (
            f"{self.name}: {self.schedule}\n"
            f"memory: {format_nbytes(self.arena_nbytes + demand.scratch_nbytes)} of a budget of "
            f"{format_nbytes(self.budget.memory_nbytes)}\n"
            f"restart {format_nbytes(demand.restart_nbytes)}, "
            f"record {format_nbytes(demand.record_nbytes)}, "
            f"live rows {format_nbytes(demand.live_nbytes)}"
        )


def plan_online(
    layout: Layout,
    most_steps: int,
    memory: Size,
    *,
    disk: Size = 0,
    free_start: bool = False,
    schedule: object = "auto",
    scratch_nbytes: int = 0,
    fixed_nbytes: int = 0,
) -> OnlinePlan:
    """Choose restarts and a window of records for a budget in bytes.

    Parameters
    ----------
    layout : what restarts and records are; its rows must not have to lie beside each other.
    most_steps : how many steps there may be at most.
    memory : bytes, ``"2 GiB"``, or ``"auto"`` for what is free now.
    schedule : ``"auto"``, or an online schedule.
    free_start, scratch_nbytes, fixed_nbytes : as in `retrograd.planner.plan_layout`.

    Raises
    ------
    InvalidArgument
        for a budget that is a fraction of keeping everything, for a disk, and for a schedule of
        another kind.
    BudgetTooSmall
        naming the smallest that works.
    NotSupported
        for compiled code, whose rows must lie beside each other.
    """
    if layout.contiguous:
        raise NotSupported(
            "an unknown number of steps needs rows that may lie anywhere, and those of compiled "
            "code lie beside each other: give the number of steps"
        )
    if disk:
        raise InvalidArgument(
            f"disk={disk!r}: where the number of steps is unknown, nothing is kept on disk. Leave "
            "disk= out"
        )
    if isinstance(memory, str) and "/" in memory:
        raise InvalidArgument(
            f"memory={memory!r} is a fraction of keeping everything, which is not known before "
            'the number of steps is: give bytes, such as "2 GiB", or "auto"'
        )
    demand = Demand(
        most_steps,
        layout.restart_nbytes,
        layout.record_nbytes,
        layout.live_nbytes + scratch_nbytes,
        layout.record_in_state,
        free_start,
        layout.state_rows,
        scratch_nbytes,
        fixed_nbytes,
        layout,
    )
    return _fitting(demand, Budget(parse_budget(memory, 0)), schedule)


def _fitting(demand: Demand, budget: Budget, choice: object) -> OnlinePlan:
    smallest = demand.live_nbytes + (0 if demand.free_start else demand.restart_nbytes)
    if budget.memory_nbytes < smallest:
        raise BudgetTooSmall(
            f"{budget.memory_nbytes} bytes of memory hold no schedule of an unknown number of "
            f"steps with restarts of {demand.restart_nbytes} and live rows of "
            f"{demand.live_nbytes} bytes: give at least {smallest}",
            smallest,
        )
    useful = demand.restart_nbytes + demand.steps * demand.record_nbytes
    nbytes = min(budget.memory_nbytes - demand.live_nbytes, useful)
    arena_nbytes = demand.live_nbytes - demand.scratch_nbytes + nbytes
    return OnlinePlan(_schedule(demand, nbytes, choice), demand, budget, arena_nbytes)


def _schedule(demand: Demand, nbytes: int, choice: object) -> OnlineSchedule:
    if isinstance(choice, OnlineSchedule):
        return choice
    if choice != "auto":
        raise InvalidArgument(
            f"schedule={choice!r} is for a number of steps that is known: leave it out, or give "
            "an OnlineRevolve or an OnlineMixed"
        )
    return OnlineMixed(
        demand.restart_nbytes,
        demand.record_nbytes,
        nbytes,
        demand.record_in_state,
        demand.free_start,
    )
