"""From bytes to a schedule: chooses the one with the fewest forward steps, and says why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from retrograd.actions import MEMORY, Action
from retrograd.arguments import flag, whole
from retrograd.candidates import (
    NAMES,
    Alternative,
    Demand,
    calls_and_peak,
    candidates,
    compared,
    replay,
    smallest_nbytes,
)
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.layout import Layout
from retrograd.sizes import Size, format_nbytes, parse_budget, parse_nbytes
from retrograd.suggest import nearest
from retrograd.verify import replay_rows

Choice: TypeAlias = str | Iterable[Action]
"""A schedule's name, or the schedule itself: any iterable of actions that can be iterated twice."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule with its predicted steps and bytes.

    Attributes
    ----------
    name : the name of what was chosen, as in `NAMES`, or of the class of a given schedule.
    schedule : its actions.
    demand : what it was chosen for.
    memory_nbytes : the budget.
    keep_all_nbytes : what keeping everything takes, the measure of budgets like ``"1/16"``.
    forward_steps : forward steps executed, first sweep included.
    reverse_calls : how many ``Reverse`` actions there are.
    peak_nbytes : the most bytes in use at once, live rows included; never above the budget.
    alternatives : every schedule considered.
    """

    name: str
    schedule: Iterable[Action]
    demand: Demand
    memory_nbytes: int
    keep_all_nbytes: int
    forward_steps: int
    reverse_calls: int
    peak_nbytes: int
    alternatives: tuple[Alternative, ...]

    @property
    def steps(self) -> int:
        """How many steps the forward makes."""
        return self.demand.steps

    @property
    def arena_nbytes(self) -> int:
        """Bytes of the arena: the peak less the problem's own scratch memory."""
        return self.peak_nbytes - self.demand.scratch_nbytes

    @property
    def recompute_factor(self) -> float:
        """Forward steps executed over steps: 1 is no recomputation."""
        return self.forward_steps / self.steps

    def explain(self) -> str:
        """What was chosen, what it costs, what else there was and why it lost, as text."""
        lines = [
            f"{self.name}: {self.forward_steps} forward steps for {self.steps} "
            f"({self.recompute_factor:.3f} times), {self.reverse_calls} reverse calls",
            f"memory: {format_nbytes(self.peak_nbytes)} of a budget of "
            f"{format_nbytes(self.memory_nbytes)}; keeping everything takes "
            f"{format_nbytes(self.keep_all_nbytes)}",
            f"restart {format_nbytes(self.demand.restart_nbytes)}, "
            f"record {format_nbytes(self.demand.record_nbytes)}, "
            f"live rows {format_nbytes(self.demand.live_nbytes)}",
        ]
        if self.demand.fixed_nbytes:
            lines.append(
                f"the problem's own fields take {format_nbytes(self.demand.fixed_nbytes)} besides"
            )
        lines.append("")
        lines.append(f"{'schedule':<10} {'forward steps':>13}  verdict")
        for other in self.alternatives:
            steps = "-" if other.forward_steps is None else str(other.forward_steps)
            lines.append(f"{other.name:<10} {steps:>13}  {other.verdict}")
        return "\n".join(lines)


def plan(
    steps: int,
    restart_nbytes: Size,
    record_nbytes: Size,
    memory: Size,
    *,
    live_nbytes: Size = 0,
    record_in_state: bool = False,
    free_start: bool = False,
    schedule: Choice = "auto",
) -> Plan:
    """Choose the schedule with the fewest forward steps that fits in a memory budget.

    Parameters
    ----------
    steps : how many steps the forward makes.
    restart_nbytes, record_nbytes : bytes of one restart (what the forward needs to run on from
        a step) and of one record (what the adjoint of one step needs).
    memory : the budget: bytes, ``"2 GiB"``, ``"24GB"``, a fraction of keep-all (``steps``
        records) such as ``"1/16"``, or ``"auto"``.
    live_nbytes : bytes of the budget that the live state and a step's output take.
    record_in_state : the record of a step is part of the state at its start, so that no forward
        step is run only to record. The forward steps then include the very last step, whose
        output is wanted although no record is.
    free_start : returning to the initial state costs nothing, as when it is zero.
    schedule : ``"auto"``, ``"keep-all"``, ``"mixed"``, ``"revolve"``, or a schedule.

    Raises
    ------
    InvalidArgument
        for arguments that cannot be right.
    BudgetTooSmall
        naming the smallest budget that works.

    >>> p = plan(1615, 97_336_000, 48_668_000, "1/16", free_start=True)
    >>> p.name, p.forward_steps
    ('mixed', 3165)
    """
    demand = Demand(
        whole("steps", steps, least=1),
        _positive(restart_nbytes, "restart_nbytes"),
        _positive(record_nbytes, "record_nbytes"),
        parse_nbytes(live_nbytes, "live_nbytes"),
        flag("record_in_state", record_in_state),
        flag("free_start", free_start),
    )
    keep_all = demand.steps * demand.record_nbytes
    return _choose(demand, schedule, parse_budget(memory, keep_all), keep_all)


def plan_layout(
    layout: Layout,
    steps: int,
    memory: Size,
    *,
    free_start: bool,
    schedule: Choice = "auto",
    keep_all_nbytes: int,
    scratch_nbytes: int = 0,
    fixed_nbytes: int = 0,
) -> Plan:
    """`plan` for a layout: ``peak_nbytes`` is then exactly the arena that a run touches.

    ``scratch_nbytes`` of the budget are taken by the problem's own scratch memory;
    ``fixed_nbytes`` come on top of it and are only reported.

    The rows of the schedule are replayed on the arena's memory map. The schedules that go by name
    always fit where their restarts and records do; a given one that keeps restarts between
    records may need a row more.

    Raises
    ------
    InvalidArgument, BudgetTooSmall
        as `plan`.
    IllegalAction
        for a given schedule that breaks a rule.
    """
    demand = Demand(
        whole("steps", steps, least=1),
        layout.restart_nbytes,
        layout.record_nbytes,
        layout.live_nbytes + scratch_nbytes,
        layout.record_in_state,
        flag("free_start", free_start),
        scratch_nbytes,
        fixed_nbytes,
    )
    budget = parse_budget(memory, keep_all_nbytes)
    chosen = _choose(demand, schedule, budget, keep_all_nbytes)
    peak = replay_rows(chosen.schedule, layout, budget - scratch_nbytes)
    return replace(chosen, peak_nbytes=peak + scratch_nbytes)


def _positive(size: Size, what: str) -> int:
    nbytes = parse_nbytes(size, what)
    if nbytes == 0:
        raise InvalidArgument(f"{what} is 0: give the bytes of one, at least 1")
    return nbytes


def _choose(demand: Demand, choice: Choice, memory_nbytes: int, keep_all_nbytes: int) -> Plan:
    if not isinstance(choice, str):
        return _given(demand, choice, memory_nbytes, keep_all_nbytes)
    if choice not in NAMES:
        raise InvalidArgument(
            f"there is no schedule {choice!r}{nearest(choice, NAMES)}: "
            f"write one of {', '.join(NAMES)}"
        )
    smallest = smallest_nbytes(demand, choice)
    if memory_nbytes < smallest:
        kind = "" if choice == "auto" else f"{choice} "
        raise BudgetTooSmall(
            f"{memory_nbytes} bytes of memory hold no {kind}schedule of {demand.steps} steps "
            f"with restarts of {demand.restart_nbytes}, records of {demand.record_nbytes} and "
            f"live rows of {demand.live_nbytes} bytes: give at least {smallest}",
            smallest,
        )
    possible = candidates(demand, memory_nbytes)
    fewest = min(possible, key=lambda name: possible[name].forward_steps)
    best = fewest if choice == "auto" else choice
    calls, peak = calls_and_peak(possible[best], demand)
    return Plan(
        best,
        possible[best],
        demand,
        memory_nbytes,
        keep_all_nbytes,
        possible[best].forward_steps,
        calls,
        peak + demand.live_nbytes,
        tuple(compared(demand, possible, best)),
    )


def _given(
    demand: Demand, schedule: Iterable[Action], memory_nbytes: int, keep_all_nbytes: int
) -> Plan:
    """A plan for a schedule that the user brought: replayed, so that it is known to be legal."""
    if not isinstance(schedule, Iterable) or isinstance(schedule, Iterator):
        raise InvalidArgument(
            f"schedule={schedule!r} cannot be iterated over twice: give one of "
            f"{', '.join(NAMES)}, or a list of actions"
        )
    counts = replay(schedule, demand, memory_nbytes)
    name = type(schedule).__name__
    return Plan(
        name,
        schedule,
        demand,
        memory_nbytes,
        keep_all_nbytes,
        counts.forward_steps,
        counts.reverse_calls,
        counts.peak_nbytes.get(MEMORY, 0) + demand.live_nbytes,
        (Alternative(name, counts.forward_steps, "given"),),
    )
