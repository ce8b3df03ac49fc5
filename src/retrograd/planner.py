"""From bytes to a schedule: chooses the fastest one that fits, and says why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from retrograd.actions import Action
from retrograd.arguments import flag, whole
from retrograd.cost import Costs
from retrograd.demand import Budget, Demand
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.families import FAMILIES, NAMES, Family, Room, Schedule, room_of
from retrograd.layout import Layout, StateRows
from retrograd.prediction import Prediction, predict
from retrograd.sizes import Size, format_nbytes, parse_budget, parse_disk, parse_nbytes
from retrograd.suggest import nearest

Choice: TypeAlias = str | Iterable[Action]
"""A schedule's name, or the schedule itself: any iterable of actions that can be iterated twice."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A schedule that was considered: what it would take, or why it is impossible.

    Attributes
    ----------
    forward_steps : forward steps executed, or None if it is impossible.
    prediction : all that it would take, where that was worked out.
    """

    name: str
    forward_steps: int | None
    prediction: Prediction | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule with its predicted steps, bytes and seconds.

    Attributes
    ----------
    name : the name of what was chosen, as in `NAMES`, or of the class of a given schedule.
    schedule : its actions.
    demand : what it was chosen for.
    budget : the bytes that are allowed.
    costs : what steps and transfers cost, if that is known.
    keep_all_nbytes : what keeping everything takes, the measure of budgets like ``"1/16"``.
    prediction : what the schedule takes.
    alternatives : every schedule considered.
    """

    name: str
    schedule: Iterable[Action]
    demand: Demand
    budget: Budget
    costs: Costs | None
    keep_all_nbytes: int
    prediction: Prediction
    alternatives: tuple[Alternative, ...]

    @property
    def steps(self) -> int:
        """How many steps the forward makes."""
        return self.demand.steps

    @property
    def memory_nbytes(self) -> int:
        """The budget in memory."""
        return self.budget.memory_nbytes

    @property
    def forward_steps(self) -> int:
        """Forward steps executed, first sweep included."""
        return self.prediction.forward_steps

    @property
    def reverse_calls(self) -> int:
        """How many ``Reverse`` actions there are."""
        return self.prediction.reverse_calls

    @property
    def peak_nbytes(self) -> int:
        """The most bytes in use at once, live rows included; never above the budget."""
        return self.prediction.memory_nbytes

    @property
    def seconds(self) -> float | None:
        """How long the gradient takes, if costs are known."""
        return self.prediction.seconds

    @property
    def arena_nbytes(self) -> int:
        """Bytes of the arena: the peak less the problem's own scratch memory."""
        return self.peak_nbytes - self.demand.scratch_nbytes

    @property
    def recompute_factor(self) -> float:
        """Forward steps executed over steps: 1 is no recomputation."""
        return self.forward_steps / self.steps

    def summary(self) -> str:
        """What was chosen and what it takes, as text."""
        return "\n".join(self._headlines())

    def explain(self) -> str:
        """What was chosen, what it takes, what else there was and why it lost, as text."""
        return "\n".join([*self._headlines(), "", *self._table()])

    def _headlines(self) -> Iterator[str]:
        demand, found = self.demand, self.prediction
        seconds = "" if found.seconds is None else f", {found.seconds:.3g} s"
        yield (
            f"{self.name}: {self.forward_steps} forward steps for {self.steps} "
            f"({self.recompute_factor:.3f} times), {self.reverse_calls} reverse calls{seconds}"
        )
        yield (
            f"memory: {format_nbytes(self.peak_nbytes)} of a budget of "
            f"{format_nbytes(self.memory_nbytes)}; keeping everything takes "
            f"{format_nbytes(self.keep_all_nbytes)}"
        )
        if self.budget.disk_nbytes:
            yield (
                f"disk: {format_nbytes(found.disk_nbytes)} of a budget of "
                f"{format_nbytes(self.budget.disk_nbytes)}, "
                f"{format_nbytes(found.traffic_nbytes)} written and read"
            )
        yield (
            f"restart {format_nbytes(demand.restart_nbytes)}, "
            f"record {format_nbytes(demand.record_nbytes)}, "
            f"live rows {format_nbytes(demand.live_nbytes)}"
        )
        if demand.fixed_nbytes:
            yield f"the problem's own fields take {format_nbytes(demand.fixed_nbytes)} besides"

    def _table(self) -> Iterator[str]:
        width = max(len("schedule"), *(len(other.name) for other in self.alternatives))
        columns = ("forward steps", "seconds", "memory", "disk", "traffic")
        shown = columns if self.costs is not None else columns[:1]
        head = "".join(f"  {column:>{max(8, len(column))}}" for column in shown)
        yield f"{'schedule':<{width}}{head}  verdict"
        for other in self.alternatives:
            cells = _cells(other)[: len(shown)]
            line = "".join(
                f"  {cell:>{max(8, len(column))}}"
                for cell, column in zip(cells, shown, strict=True)
            )
            yield f"{other.name:<{width}}{line}  {other.verdict}"


def _cells(other: Alternative) -> list[str]:
    steps = "-" if other.forward_steps is None else str(other.forward_steps)
    found = other.prediction
    if found is None:
        return [steps, "-", "-", "-", "-"]
    seconds = "-" if found.seconds is None else f"{found.seconds:.3g}"
    sizes = found.memory_nbytes, found.disk_nbytes, found.traffic_nbytes
    return [steps, seconds, *map(format_nbytes, sizes)]


def plan(
    steps: int,
    restart_nbytes: Size,
    record_nbytes: Size,
    memory: Size,
    *,
    disk: Size = 0,
    costs: Costs | None = None,
    live_nbytes: Size = 0,
    record_in_state: bool = False,
    free_start: bool = False,
    state_rows: StateRows | None = None,
    schedule: Choice = "auto",
) -> Plan:
    """Choose the fastest schedule that fits in a budget of memory and disk.

    Parameters
    ----------
    steps : how many steps the forward makes.
    restart_nbytes, record_nbytes : bytes of one restart (what the forward needs to run on from
        a step) and of one record (what the adjoint of one step needs).
    memory : the budget: bytes, ``"2 GiB"``, ``"24GB"``, a fraction of keep-all (``steps``
        records) such as ``"1/16"``, or ``"auto"``.
    disk : the budget on disk, as `memory`; ``"auto"`` is what is free in the system's temporary
        directory, less a margin. A disk can only be judged if `costs` are given.
    costs : seconds of steps, bytes per second of transfers. Without them the schedule with the
        fewest forward steps is the fastest.
    live_nbytes : bytes of the memory budget that the live state and a step's output take.
    record_in_state : the record of a step is part of the state at its start, so that no forward
        step is run only to record. The forward steps then include the very last step, whose
        output is wanted although no record is.
    free_start : returning to the initial state costs nothing, as when it is zero.
    state_rows : the state consists of rows of which each is a record, as in second-order time
        stepping; this includes `record_in_state`.
    schedule : ``"auto"``, one of the names in `retrograd.families.NAMES`, or a schedule.

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
        flag("record_in_state", record_in_state) or state_rows is not None,
        flag("free_start", free_start),
        state_rows,
    )
    if state_rows and demand.restart_nbytes != state_rows.depth * demand.record_nbytes:
        raise InvalidArgument(
            f"a restart of {demand.restart_nbytes} bytes is not {state_rows.depth} records of "
            f"{demand.record_nbytes}: leave state_rows out, or give the bytes of "
            f"{state_rows.depth} rows as restart_nbytes"
        )
    keep_all = demand.steps * demand.record_nbytes
    budget = Budget(parse_budget(memory, keep_all), parse_disk(disk, keep_all))
    return _choose(demand, schedule, budget, costs, keep_all)


def plan_layout(
    layout: Layout,
    steps: int,
    memory: Size,
    *,
    disk: Size = 0,
    costs: Costs | None = None,
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
        layout.state_rows,
        scratch_nbytes,
        fixed_nbytes,
        layout,
    )
    budget = Budget(parse_budget(memory, keep_all_nbytes), parse_disk(disk, keep_all_nbytes))
    return _choose(demand, schedule, budget, costs, keep_all_nbytes)


def _positive(size: Size, what: str) -> int:
    nbytes = parse_nbytes(size, what)
    if nbytes == 0:
        raise InvalidArgument(f"{what} is 0: give the bytes of one, at least 1")
    return nbytes


def _choose(
    demand: Demand, choice: Choice, budget: Budget, costs: Costs | None, keep_all_nbytes: int
) -> Plan:
    if budget.disk_nbytes and costs is None:
        raise InvalidArgument(
            f"whether {format_nbytes(budget.disk_nbytes)} of disk help depends on what steps and "
            "transfers cost: give costs=retrograd.Costs(forward_step=seconds, "
            "write_rate=bytes_per_second, read_rate=bytes_per_second), or measure them with "
            "retrograd.calibrate(problem)"
        )
    if not isinstance(choice, str):
        schedule = _replayable(choice)
        found = predict(schedule, demand, budget, costs)
        name = type(schedule).__name__
        only = Alternative(name, found.forward_steps, found, "given")
        return Plan(name, schedule, demand, budget, costs, keep_all_nbytes, found, (only,))
    room = room_of(demand, budget, costs)
    families = _families(choice, demand, room)
    return _Contest(demand, budget, costs, families).plan(choice, keep_all_nbytes)


def _replayable(schedule: Iterable[Action]) -> Iterable[Action]:
    if not isinstance(schedule, Iterable) or isinstance(schedule, Iterator):
        raise InvalidArgument(
            f"schedule={schedule!r} cannot be iterated over twice: give one of "
            f"{', '.join(NAMES)}, or a list of actions"
        )
    return schedule


def _families(choice: str, demand: Demand, room: Room) -> list[Family]:
    """The kinds of schedules to compare."""
    if choice not in NAMES:
        raise InvalidArgument(
            f"there is no schedule {choice!r}{nearest(choice, NAMES)}: "
            f"write one of {', '.join(NAMES)}"
        )
    by_name = {family.name: family for family in FAMILIES}
    if choice != "auto":
        refusal = by_name[choice].refusal(demand)
        if refusal is None and by_name[choice].needs_disk and not room.disk_slots:
            refusal = f"the disk holds no restart: give disk={demand.restart_nbytes} or more"
        if refusal is not None:
            raise InvalidArgument(f"the schedule {choice!r} is of no use here: {refusal}")
    return [
        family
        for family in FAMILIES
        if family.name == choice
        or (
            family.refusal(demand) is None
            and (room.disk_slots or not family.needs_disk)
            and family.is_quick(demand, room)
        )
    ]


class _Contest:
    """Compares kinds of schedules for one demand."""

    def __init__(
        self, demand: Demand, budget: Budget, costs: Costs | None, families: list[Family]
    ) -> None:
        self._demand, self._budget, self._costs = demand, budget, costs
        self._families = families
        self._room = room_of(demand, budget, costs)
        self._smallest = {
            family.name: demand.live_nbytes + family.smallest(demand, self._room.disk_slots)
            for family in families
        }

    def plan(self, choice: str, keep_all_nbytes: int) -> Plan:
        self._refuse_small(choice)
        schedules: dict[str, Schedule] = {}
        found: dict[str, Prediction] = {}
        verdicts: dict[str, str] = {}
        for family in self._families:
            name = family.name
            if self._budget.memory_nbytes < self._smallest[name]:
                verdicts[name] = f"impossible: needs {format_nbytes(self._smallest[name])}"
                continue
            schedules[name] = family.make(self._demand, self._room)
            if self._costs is not None:
                found[name] = self._predict(schedules[name])
        best = choice if choice != "auto" else self._best(schedules, found)
        if best not in found:
            found[best] = self._predict(schedules[best])
        alternatives = tuple(
            Alternative(
                name,
                schedules[name].forward_steps if name in schedules else None,
                found.get(name),
                verdicts.get(name) or self._verdict(name, best, schedules, found),
            )
            for name in self._smallest
        )
        chosen = schedules[best]
        return Plan(
            best,
            chosen,
            self._demand,
            self._budget,
            self._costs,
            keep_all_nbytes,
            found[best],
            alternatives,
        )

    def _predict(self, schedule: Schedule) -> Prediction:
        return predict(schedule, self._demand, self._budget, self._costs)

    def _refuse_small(self, choice: str) -> None:
        smallest = min(self._smallest.values()) if choice == "auto" else self._smallest[choice]
        if self._budget.memory_nbytes >= smallest:
            return
        kind = "" if choice == "auto" else f"{choice} "
        demand = self._demand
        raise BudgetTooSmall(
            f"{self._budget.memory_nbytes} bytes of memory hold no {kind}schedule of "
            f"{demand.steps} steps with restarts of {demand.restart_nbytes}, records of "
            f"{demand.record_nbytes} and live rows of {demand.live_nbytes} bytes: give at least "
            f"{smallest}",
            smallest,
        )

    def _best(self, schedules: dict[str, Schedule], found: dict[str, Prediction]) -> str:
        if self._costs is None:
            return min(schedules, key=lambda name: schedules[name].forward_steps)
        return min(found, key=lambda name: found[name].seconds or 0.0)

    def _verdict(
        self, name: str, best: str, schedules: dict[str, Schedule], found: dict[str, Prediction]
    ) -> str:
        """Why a schedule was chosen, or was not."""
        if name == best:
            return "chosen"
        steps = schedules[name].forward_steps - schedules[best].forward_steps
        more_steps = f"{abs(steps)} {'more' if steps > 0 else 'fewer'} forward steps"
        ours, theirs = (found[n].seconds if n in found else None for n in (best, name))
        if ours is None or theirs is None:
            return more_steps if steps else "the same"
        seconds = theirs - ours
        if not seconds:
            return "the same"
        how = f"{abs(seconds):.3g} s {'more' if seconds > 0 else 'less'}"
        return f"{how}: {more_steps}" if steps else how
