"""A run: the forward and the reverse sweep of a problem within a memory budget."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from retrograd.actions import DISK, Advance, Tier
from retrograd.arguments import whole
from retrograd.calibrate import calibrate
from retrograd.cost import Costs
from retrograd.durable.keeper import Keeper
from retrograd.errors import InvalidArgument, NotEnoughMemory, NotSupported, OutOfOrder
from retrograd.events import Observer
from retrograd.online_plan import OnlinePlan, plan_online
from retrograd.place import Place, loses_bits, place_of
from retrograd.planner import Choice, plan_layout
from retrograd.plans import Plan
from retrograd.problem import OpenProblem, Problem
from retrograd.recovery import rest_of
from retrograd.result import Result
from retrograd.sizes import Size, format_nbytes, free_nbytes, parse_budget
from retrograd.stores.arena import Arena
from retrograd.stores.background import Background
from retrograd.stores.compressed import Compressed, Statistics
from retrograd.stores.sliding import SlidingArena
from retrograd.stores.tier import Store
from retrograd.stores.transfer_thread import Transfers
from retrograd.sweep import OpenSweep, Sweep, Tally, resumable

INTERVAL: Final = 60.0
"""Seconds between what a run that can be gone on with puts on disk."""

_FORWARD_ONLY_ROWS: Final = 32
"""Rows for a forward run that keeps nothing; more would save no time worth the memory."""


class Run:
    """Runs a problem forward and back; may be used again for the next gradient.

    Between `forward` and `reverse` the caller may look at what the forward produced and make
    the adjoint's source from it. The arena is allocated at the first forward and kept.

    Parameters
    ----------
    problem : what to run.
    memory, disk : the budgets of everything the engine allocates; see `retrograd.plan`.
    costs : what steps and transfers cost, which predicted seconds and the use of a disk are
        judged by; measured with `retrograd.calibrate` if a disk is given and they are not.
    sweeps : how many reverse sweeps follow each forward, as for several adjoint right-hand sides.
    schedule : a schedule's name or a schedule.
    scratch : a directory on a local disk, for the file of what is kept on disk; without it, the
        system's temporary directory. The file has no name: nothing is left of it, ever.
    compress : ``"lossless"``, or the error that is allowed as a share of each array's largest
        magnitude, such as ``1e-4``: what goes to disk is compressed, and more of it fits. Without
        a disk, a share of the memory holds compressed items. With a tolerance the gradient is no
        longer that of keeping everything to the last bit.
    stores : stores of your own for other tiers than memory, by tier. What memory they take is not
        in the budget, and each transfer is planned as one that is waited for.
    observers : called with every event.

    Notes
    -----
    Where the problem finds out as it runs how many steps it makes, the budget is given in bytes,
    and nothing is kept on disk.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        memory: Size = "auto",
        disk: Size = 0,
        costs: Costs | None = None,
        sweeps: int = 1,
        schedule: Choice = "auto",
        scratch: Path | str | None = None,
        compress: str | float | None = None,
        stores: Mapping[Tier, Store] | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.problem = problem
        self._stores = dict(stores or {})
        place = place_of(problem, disk, scratch, compress) if DISK not in self._stores else None
        if place is not None:
            disk = place.nbytes
        if (disk or (place and place.is_memory)) and costs is None and problem.steps is not None:
            most = parse_budget(memory, problem.keep_all_nbytes)
            costs = _measured(problem, place, self._stores, most)
        self._chosen = _choose(problem, memory, disk, costs, sweeps, place, schedule)
        self._compression = "none" if place is None else str(place.codec or "none")
        self._outcome: Plan | None = None
        self._own_stores: dict[Tier, Store] = {}
        if place is not None and isinstance(self._chosen, Plan):
            self._own_stores = place.stores(self._chosen)
            self._stores |= self._own_stores
        self.observers = list(observers)
        self._arena: Arena | None = None
        self._sweep: Sweep | None = None
        self._is_closed = False

    @property
    def plan(self) -> Plan:
        """What was chosen and predicted; for an unknown number of steps, after a forward.

        Raises
        ------
        OutOfOrder
            as long as the number of steps is unknown.
        """
        if isinstance(self._chosen, Plan):
            return self._chosen
        if self._outcome is None:
            raise OutOfOrder(
                "the number of steps is unknown until the forward has ended, and the plan with it: "
                "call forward() first, or look at online_plan"
            )
        return self._outcome

    @property
    def online_plan(self) -> OnlinePlan | None:
        """What was chosen for an unknown number of steps; None where it is known."""
        return None if isinstance(self._chosen, Plan) else self._chosen

    @property
    def arena_nbytes(self) -> int:
        """Bytes of the arena as it is allocated now."""
        return 0 if self._arena is None else self._arena.nbytes

    def forward(
        self,
        *,
        keep: bool = True,
        resume: str | os.PathLike[str] | None = None,
        interval: float = INTERVAL,
    ) -> Tally:
        """Run the forward to its end.

        Parameters
        ----------
        keep : with False nothing is stored and no reverse can follow: for a line search, or to
            make observed data.
        resume : a directory for this gradient alone, on a disk that outlives the process. What is
            needed to go on is put there as the run proceeds; where it is there already, from a
            process that ended, the run goes on from it, with the same bits. A finished one is
            not run again.
        interval : seconds between what is put there; longer where it takes more than two
            hundredths of the time.

        Raises
        ------
        InvalidArgument
            if the directory is that of another run, with what differs.
        NotSupported
            if the problem, or a schedule of several sweeps, cannot be gone on with.
        """
        if self._is_closed:
            raise OutOfOrder("the run is closed: make another one")
        self._end_sweep()
        self._outcome = None
        if not keep:
            return self._forward_only()
        if hasattr(self.problem, "compares_replays"):
            self.problem.compares_replays = not any(map(loses_bits, self._stores.values()))
        keeper = None if resume is None else self._keeper(resume, interval)
        arena = self._arena_of(self._chosen.arena_nbytes)
        sweep: Sweep
        if isinstance(self._chosen, Plan):
            actions = iter(self._chosen.schedule)
            rest = partial(rest_of, self._chosen) if self._chosen.demand.sweeps == 1 else None
            sweep = self._sweep = Sweep(
                self.problem, arena, actions, self.observers, self._stores, rest, keeper
            )
            self._watched(sweep.forward)
        else:
            actions = self._chosen.schedule.forward()
            sweep = OpenSweep(_open(self.problem), arena, actions, self.observers)
            sweep.forward()
            sweep.go_back(self._chosen.schedule.reverse(sweep.steps))
            self._outcome = self._chosen.stopped(sweep.steps)
        self._sweep = sweep
        return sweep.tally

    def _keeper(self, resume: str | os.PathLike[str], interval: float) -> Callable[[], Keeper]:
        """How to open the directory, once the problem can say what it is."""
        if not isinstance(self._chosen, Plan) or self._chosen.demand.sweeps > 1:
            raise NotSupported(
                "only a gradient with a known number of steps and one reverse sweep can be gone on "
                "with: leave resume= out"
            )
        if not (isinstance(interval, int | float) and interval >= 0):
            raise InvalidArgument(f"interval={interval!r}: give a number of seconds, such as 60")
        compression = self._compression

        def opened() -> Keeper:
            identity = {"compression": compression, **resumable(self.problem).identity()}
            return Keeper(resume, identity, interval)

        return opened

    def _watched(self, part: Callable[[], None]) -> None:
        """Run a part of a sweep; if it fails, nothing goes on in the background."""
        try:
            part()
        except BaseException:
            self._end_sweep()
            for store in self._stores.values():
                store.clear()
            raise

    def _end_sweep(self) -> None:
        sweep, self._sweep = self._sweep, None
        if sweep is not None:
            sweep.close()

    def close(self) -> None:
        """Give memory, threads and disk back now, not when the run is no longer in use."""
        self._end_sweep()
        self._arena, self._is_closed = None, True
        for store in self._own_stores.values():
            store.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _forward_only(self) -> Tally:
        layout, steps = self.problem.layout, self.problem.steps
        rows = min(_FORWARD_ONLY_ROWS, steps or 1) if layout.contiguous else 1
        small = layout.live_nbytes + rows * layout.row_nbytes
        full = self._chosen.arena_nbytes
        arena = self._arena if self._arena is not None else self._arena_of(min(small, full))
        sweep: Sweep
        if steps is None:
            singles = (Advance(step, step + 1) for step in count())
            sweep = OpenSweep(_open(self.problem), arena, singles, self.observers)
        else:
            sweep = Sweep(self.problem, arena, iter((Advance(0, steps),)), self.observers, {})
        sweep.forward()
        return sweep.tally

    def _arena_of(self, nbytes: int) -> Arena:
        if self._arena is None or self._arena.nbytes != nbytes:
            self._arena = None  # give the old one back before taking the new one
            _refuse_what_is_not_there(nbytes)
            kind = Arena if isinstance(self._chosen, Plan) else SlidingArena
            self._arena = kind(self.problem.layout, nbytes)
        return self._arena

    @property
    def is_over(self) -> bool:
        """Whether no reverse sweep of the last forward is left to be made."""
        return self._sweep is None

    def reverse(self) -> Result:
        """Run a reverse sweep of the last forward: once, or as often as there are `sweeps`.

        Raises
        ------
        OutOfOrder
            if there is no forward that has not been reversed yet.
        """
        sweep = self._sweep  # lost if it fails
        if sweep is None:
            raise OutOfOrder(
                "there is no forward run to reverse: call forward() first, once for each "
                "reverse(), and without keep=False; give sweeps=2 to reverse each run twice"
            )
        self._watched(sweep.reverse)
        if sweep.is_over:
            self._end_sweep()
        return Result(
            self.problem.gradient(),
            self.plan,
            sweep.tally,
            self.arena_nbytes,
            sweep.seconds,
            tuple(sweep.failures),
            sweep.resumed,
            sweep.kept,
            *self._statistics(),
        )

    def _statistics(self) -> tuple[Transfers | None, Statistics | None]:
        """What the stores for the disk did."""
        store, transfers, compression = self._stores.get(DISK), None, None
        if isinstance(store, Background):
            transfers, store = replace(store.transfers), store.inner
        if isinstance(store, Compressed):
            compression = replace(store.statistics)
        return transfers, compression


def _choose(
    problem: Problem,
    memory: Size,
    disk: Size,
    costs: Costs | None,
    sweeps: int,
    place: Place | None,
    schedule: Choice,
) -> Plan | OnlinePlan:
    steps = problem.steps
    if steps is not None:
        return plan_layout(
            problem.layout,
            steps,
            memory,
            disk=disk,
            costs=costs,
            free_start=problem.free_start,
            sweeps=sweeps,
            background=place is not None and not place.is_memory,
            compressed=place is not None and place.codec is not None,
            packed=place is not None and place.is_memory,
            schedule=schedule,
            keep_all_nbytes=problem.keep_all_nbytes,
            scratch_nbytes=problem.scratch_nbytes,
            fixed_nbytes=problem.fixed_nbytes,
        )
    if whole("sweeps", sweeps, least=1) > 1:
        raise InvalidArgument(
            f"sweeps={sweeps}: where the number of steps is unknown, one reverse sweep follows "
            "each forward. Leave sweeps= out, or give the number of steps"
        )
    return plan_online(
        problem.layout,
        _open(problem).most_steps,
        memory,
        disk=disk,
        free_start=problem.free_start,
        schedule=schedule,
        scratch_nbytes=problem.scratch_nbytes,
        fixed_nbytes=problem.fixed_nbytes,
    )


def _open(problem: Problem) -> OpenProblem:
    if isinstance(problem, OpenProblem):
        return problem
    raise NotSupported(
        f"{type(problem).__name__}.steps is None, and it has no is_over(rows, step) and "
        "most_steps that say when the forward ends: write them, or give the number of steps"
    )


def _measured(
    problem: Problem, place: Place | None, stores: Mapping[Tier, Store], most_nbytes: int
) -> Costs:
    if place is None:
        return calibrate(problem, stores, memory_nbytes=most_nbytes)
    with closing(place.store()) as store:
        return calibrate(problem, {DISK: store}, memory_nbytes=most_nbytes)


def _refuse_what_is_not_there(nbytes: int) -> None:
    free = free_nbytes()
    if nbytes > free:
        raise NotEnoughMemory(
            f"the plan takes {format_nbytes(nbytes)} of memory, and {format_nbytes(free)} are "
            f'free: give memory="auto", or at most memory={free}'
        )


def gradient(
    problem: Problem,
    *,
    memory: Size = "auto",
    disk: Size = 0,
    costs: Costs | None = None,
    schedule: Choice = "auto",
    scratch: Path | str | None = None,
    compress: str | float | None = None,
    resume: str | os.PathLike[str] | None = None,
    stores: Mapping[Tier, Store] | None = None,
    observers: Sequence[Observer] = (),
) -> Result:
    """The gradient of a problem within a memory budget, bit for bit that of keeping everything.

    Parameters
    ----------
    problem : an adapter's problem, such as `retrograd.arrays.Problem`.
    memory : bytes, ``"2 GiB"``, ``"1/16"`` of keep-all, or ``"auto"`` for what is free now.
    disk : as `memory`; none unless it is given.
    costs : what steps and transfers cost; measured if a disk is given and they are not.
    schedule : ``"auto"``, one of the names in `retrograd.families.NAMES`, or a schedule.
    scratch, compress, stores : where the disk is and what is done there; see `retrograd.Run`.
    resume : a directory from which another process can go on; see `Run.forward`.
    observers : called with every event, such as a progress bar.

    Raises
    ------
    BudgetTooSmall
        naming the smallest budget that works.
    NotEnoughMemory
        if the machine does not have what the plan takes.
    """
    with Run(
        problem,
        memory=memory,
        disk=disk,
        costs=costs,
        schedule=schedule,
        scratch=scratch,
        compress=compress,
        stores=stores,
        observers=observers,
    ) as run:
        run.forward(resume=resume)
        result = run.reverse()
        if not run.is_over:
            raise NotSupported(
                "the schedule makes several reverse sweeps, and a gradient is made by one: use "
                "retrograd.Run, and call reverse() once for each"
            )
        return result
