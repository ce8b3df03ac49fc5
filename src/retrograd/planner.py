"""From bytes to a schedule: chooses the fastest one that fits, and says why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from retrograd.actions import Action
from retrograd.arguments import flag, whole
from retrograd.candidates import made_for, smallest_nbytes
from retrograd.cost import Costs
from retrograd.demand import Budget, Demand
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.families import FAMILIES, NAMES, Family, Room, room_of
from retrograd.layout import Layout, StateRows
from retrograd.overlap import largest_item_nbytes
from retrograd.plans import Alternative, Plan
from retrograd.prediction import predict
from retrograd.schedules import Sweeps, smallest_memory_units
from retrograd.sizes import Size, format_nbytes, parse_budget, parse_disk, parse_nbytes
from retrograd.suggest import nearest

Choice: TypeAlias = str | Iterable[Action]
"""A schedule's name, or the schedule itself: any iterable of actions that can be iterated twice."""

BUFFERS: Final = 2
"""One is filled or emptied while the other one is on its way."""

_PACKED_SHARES: Final = (0.0, 1 / 8, 1 / 4, 1 / 2, 3 / 4)
"""Of the memory, for compressed items; each is tried."""

CODEC_BUFFERS: Final = 2
"""An item that compression cannot shorten, an eighth more as it grows, and one encoded array."""


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
    sweeps: int = 1,
    background: bool = True,
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
    sweeps : reverse sweeps over one forward, one after the other. With more than one, what
        serves them all is kept in memory, and a disk is not used.
    background : transfers to and from disk go on while steps run; memory then has two buffers for
        them. Otherwise each is waited for.
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
    if steps is None:
        raise InvalidArgument(
            "steps=None: a plan of bytes alone needs a number of steps. Where it is unknown, give "
            "a problem with until= to retrograd.Run, whose online_plan says what was chosen, or "
            "make a schedule with retrograd.OnlineMixed"
        )
    flag("background", background)
    demand = Demand(
        whole("steps", steps, least=1),
        _positive(restart_nbytes, "restart_nbytes"),
        _positive(record_nbytes, "record_nbytes"),
        parse_nbytes(live_nbytes, "live_nbytes"),
        flag("record_in_state", record_in_state) or state_rows is not None,
        flag("free_start", free_start),
        state_rows,
        sweeps=whole("sweeps", sweeps, least=1),
    )
    if state_rows and demand.restart_nbytes != state_rows.depth * demand.record_nbytes:
        raise InvalidArgument(
            f"a restart of {demand.restart_nbytes} bytes is not {state_rows.depth} records of "
            f"{demand.record_nbytes}: leave state_rows out, or give the bytes of "
            f"{state_rows.depth} rows as restart_nbytes"
        )
    keep_all = demand.steps * demand.record_nbytes
    budget = Budget(parse_budget(memory, keep_all), parse_disk(disk, keep_all))
    demand = replace(demand, buffers=BUFFERS * (background and budget.disk_nbytes > 0))
    return _choose(demand, schedule, budget, costs, keep_all)


def plan_layout(
    layout: Layout,
    steps: int,
    memory: Size,
    *,
    disk: Size = 0,
    costs: Costs | None = None,
    free_start: bool,
    sweeps: int = 1,
    background: bool = False,
    compressed: bool = False,
    packed: bool = False,
    schedule: Choice = "auto",
    keep_all_nbytes: int,
    scratch_nbytes: int = 0,
    fixed_nbytes: int = 0,
) -> Plan:
    """`plan` for a layout: ``peak_nbytes`` is then exactly the arena that a run touches.

    ``background`` and ``compressed`` say how transfers to disk are made; both take memory. With
    ``packed`` there is no disk: a share of the memory holds compressed items, which is chosen.
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
        whole("sweeps", sweeps, least=1),
    )
    budget = Budget(parse_budget(memory, keep_all_nbytes), parse_disk(disk, keep_all_nbytes))
    far = replace(
        demand, buffers=BUFFERS * background, codec_buffers=CODEC_BUFFERS * (compressed or packed)
    )
    if packed:
        return _packed(demand, far, schedule, budget, costs, keep_all_nbytes)
    demand = far if budget.disk_nbytes else demand
    return _choose(demand, schedule, budget, costs, keep_all_nbytes)


def _packed(
    demand: Demand,
    far: Demand,
    schedule: Choice,
    budget: Budget,
    costs: Costs | None,
    keep_all_nbytes: int,
) -> Plan:
    """The fastest of what is possible with each share of the memory for compressed items."""
    plans, refusals = [], []
    for share in _PACKED_SHARES:
        packed = int(budget.memory_nbytes * share)
        part = Budget(budget.memory_nbytes - packed, packed, is_packed=True)
        try:
            made = _choose(far if packed else demand, schedule, part, costs, keep_all_nbytes)
        except (BudgetTooSmall, InvalidArgument) as error:
            refusals.append(error)
            continue
        plans.append(made)
    if not plans:
        raise refusals[0]
    return min(plans, key=lambda plan: math.inf if plan.seconds is None else plan.seconds)


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
        demand = demand.with_room_for(largest_item_nbytes(schedule, demand))
        if budget.memory_nbytes < demand.live_nbytes:
            raise BudgetTooSmall(
                f"{budget.memory_nbytes} bytes of memory do not hold the live rows and the buffers "
                f"of the schedule that is given: give at least {demand.live_nbytes}",
                demand.live_nbytes,
            )
        found = predict(schedule, demand, budget, costs)
        name = type(schedule).__name__
        only = Alternative(name, found.forward_steps, found, "given")
        return Plan(name, schedule, demand, budget, costs, keep_all_nbytes, found, (only,))
    if demand.sweeps > 1:
        return _several_sweeps(demand, choice, budget, costs, keep_all_nbytes)
    room = room_of(demand, budget, costs)
    families = _families(choice, demand, room)
    _refuse_small(choice, families, demand, budget, room)
    made = [made_for(family, demand, budget, costs, room) for family in families]
    possible = [one for one in made if one.schedule is not None and choice in ("auto", one.name)]
    if not possible:
        named = next(one for one in made if one.name == choice)
        how = ": give that as disk=" if named.hindrance.endswith("of disk") else ""
        raise InvalidArgument(f"the schedule {choice!r} is {named.hindrance}{how}")
    best = min(possible, key=lambda one: one.rank)
    assert best.schedule is not None
    found = best.prediction or predict(best.schedule, best.demand, budget, costs)
    alternatives = tuple(one.alternative(best) for one in made)
    return Plan(
        best.name, best.schedule, best.demand, budget, costs, keep_all_nbytes, found, alternatives
    )


def _several_sweeps(
    demand: Demand, choice: str, budget: Budget, costs: Costs | None, keep_all_nbytes: int
) -> Plan:
    if choice not in ("auto", "sweeps"):
        raise InvalidArgument(
            f"the schedule {choice!r} makes one reverse sweep, and {demand.sweeps} are wanted: "
            'write "sweeps", or leave schedule= out'
        )
    nbytes = budget.memory_nbytes - demand.live_nbytes
    sizes = demand.restart_nbytes, demand.record_nbytes
    smallest = smallest_memory_units(demand.steps, *sizes, demand.free_start)
    if nbytes < smallest:
        raise BudgetTooSmall(
            f"{budget.memory_nbytes} bytes of memory hold no schedule of {demand.sweeps} sweeps "
            f"over {demand.steps} steps: give at least {demand.live_nbytes + smallest}",
            demand.live_nbytes + smallest,
        )
    flags = demand.record_in_state, demand.free_start
    schedule = Sweeps(demand.steps, *sizes, nbytes, demand.sweeps, *flags)
    found = predict(schedule, demand, budget, costs)
    more = schedule.forward_steps_repeating - schedule.forward_steps
    repeating = Alternative(
        "repeating",
        schedule.forward_steps_repeating,
        None,
        f"{more} more forward steps: each sweep returns to the initial state",
    )
    chosen = Alternative("sweeps", found.forward_steps, found, "chosen")
    return Plan(
        "sweeps", schedule, demand, budget, costs, keep_all_nbytes, found, (chosen, repeating)
    )


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


def _refuse_small(
    choice: str, families: list[Family], demand: Demand, budget: Budget, room: Room
) -> None:
    smallest = min(
        smallest_nbytes(family, demand, room)
        for family in families
        if choice in ("auto", family.name)
    )
    if budget.memory_nbytes >= smallest:
        return
    kind = "" if choice == "auto" else f"{choice} "
    raise BudgetTooSmall(
        f"{budget.memory_nbytes} bytes of memory hold no {kind}schedule of "
        f"{demand.steps} steps with restarts of {demand.restart_nbytes}, records of "
        f"{demand.record_nbytes} and live rows of {demand.live_nbytes} bytes: give at least "
        f"{smallest}",
        smallest,
    )
