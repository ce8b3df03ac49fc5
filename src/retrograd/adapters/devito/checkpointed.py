"""What a user of Devito writes: two operators and a budget."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any, Literal

from retrograd.actions import DISK, Action, Tier
from retrograd.adapters.devito.describe import describe
from retrograd.adapters.devito.equations import Equation, are_equations, operators
from retrograd.adapters.devito.problem import Problem, chunk_within
from retrograd.adapters.devito.ranks import Ranks
from retrograd.adapters.devito.replays import CheckedProblem
from retrograd.calibrate import calibrate
from retrograd.cost import Costs
from retrograd.errors import BudgetTooSmall, InvalidArgument, NotSupported, OutOfOrder
from retrograd.events import Observer
from retrograd.place import place_of
from retrograd.planner import Choice
from retrograd.plans import Plan
from retrograd.result import Result
from retrograd.run import INTERVAL, Run
from retrograd.sizes import Size, parse_budget, parse_disk
from retrograd.stores.tier import Store
from retrograd.sweep import Tally

Operator = Any


def checkpointed(
    forward: Operator | Iterable[Equation],
    gradient: Operator | Iterable[Equation],
    *,
    memory: Size = "auto",
    disk: Size = 0,
    costs: Costs | None = None,
    sweeps: int = 1,
    schedule: Choice = "auto",
    names: Mapping[str, str] | None = None,
    scratch: Path | str | None = None,
    compress: str | float | None = None,
    stores: Mapping[Tier, Store] | None = None,
    observers: Sequence[Observer] = (),
    check: Literal["replay"] | None = None,
    omit: Sequence[str] = (),
    nt: int | None = None,
) -> CheckpointedRun:
    """Run two Devito operators within a memory budget, with the result of keeping everything.

    Build the operators as for keeping everything, with ``save=nt`` for the wavefields that the
    gradient reads: these are never allocated. Wavefields that it does not read are not recorded,
    with ``save=nt`` or without. The gradient is the same to the last bit as with ``apply`` and
    ``nthreads_nonaffine=1``, which is set here unless it is given: where several threads inject
    into one grid point, Devito does not reproduce itself.

    Parameters
    ----------
    forward, gradient : operators; the gradient reads the wavefields that the forward writes. Or
        two lists of equations: then ``save=nt`` is not needed.
    memory : budget of everything the engine allocates: bytes, ``"10 GB"``, ``"1/16"`` of all
        samples of the wavefields, or ``"auto"``.
    disk : as `memory`; none unless it is given.
    costs : what steps and transfers cost, which predicted seconds and a disk are judged by. If a
        disk is given and they are not, they are measured at the first `forward`, and the plan is
        made then; ``retrograd.calibrate(retrograd.devito.Problem(forward, gradient, …))``
        measures them beforehand.
    sweeps : how many reverse sweeps follow each forward, each with arguments of its own.
    schedule : ``"auto"``, one of the names in `retrograd.families.NAMES`, or a schedule.
    names : wavefields' names in the gradient operator, mapped to those in the forward, where
        they differ: ``{"u0": "u"}``.
    scratch, compress, stores : where the disk is and what is done there; see `retrograd.Run`.
    observers : called with every event, such as a progress bar.
    check : ``"replay"`` runs step by step and compares whatever is computed again with a checksum
        of the first time, to prove that the state is complete; see `CheckedProblem`.
    omit : names of functions that the gradient does not read, to be left out of restarts on
        trial; only with `check`.
    nt : samples of each wavefield, where they do not follow from equations.

    Raises
    ------
    NotSupported
        for operators that cannot be run rightly, with the reason.
    BudgetTooSmall
        naming the smallest budget that works.
    """
    forward, gradient = _as_operators(forward, gradient, nt)
    kind = _kind(check, omit)
    problem = kind(forward, gradient, names=names, omit=omit, accumulate=True)
    if problem.ranks is not None:
        memory = _share(memory, lambda: parse_budget(memory, 0), problem.ranks)
        disk = _share(disk, lambda: parse_disk(disk, 0, scratch), problem.ranks)
    if problem.unread_nbytes and not omit:
        chunk = chunk_within(problem, parse_budget(memory, problem.keep_all_nbytes))
        problem = kind(forward, gradient, names=names, accumulate=True, chunk=chunk)
    options = {
        "memory": memory,
        "disk": disk,
        "sweeps": sweeps,
        "schedule": schedule,
        "scratch": scratch,
        "compress": compress,
        "stores": stores,
    }
    return CheckpointedRun(problem, costs, options, observers)


def _as_operators(forward: Any, gradient: Any, nt: int | None) -> tuple[Operator, Operator]:
    is_written, is_read = are_equations(forward), are_equations(gradient)
    if is_written != is_read:
        raise InvalidArgument(
            "one operator and one list of equations: give two operators, or two lists"
        )
    if is_written:
        return operators(forward, gradient, nt)
    if nt is not None:
        raise InvalidArgument(f"nt={nt} is for equations: operators have it from their wavefields")
    return forward, gradient


def _share(size: Size, nbytes: Callable[[], int], ranks: Ranks) -> Size:
    """What is free on a node is for all ranks there."""
    is_auto = isinstance(size, str) and size.strip().lower() == "auto"
    return nbytes() // ranks.here if is_auto else size


def _kind(check: str | None, omit: Sequence[str]) -> type[Problem]:
    if check not in ("replay", None):
        raise InvalidArgument(f"check={check!r}: there is check='replay', or None")
    if isinstance(omit, str):
        raise InvalidArgument(f"omit={omit!r}: give a list of names, [{omit!r}]")
    if omit and check is None:
        raise InvalidArgument(
            f"omit={list(omit)} without check='replay' could give a wrong gradient: add "
            "check='replay', which says whether they can be left out, or leave omit out"
        )
    return CheckedProblem if check else Problem


class CheckpointedRun:
    """Two operators within a memory budget; may be used again for the next shot or model.

    Nothing is compiled or allocated again for the next gradient. `forward` and `reverse` take
    the same keyword arguments as the operators' ``apply``, less the wavefields.

    Attributes
    ----------
    observers : called with every event; may be changed between runs.
    """

    def __init__(
        self,
        problem: Problem,
        costs: Costs | None,
        options: Mapping[str, Any],
        observers: Sequence[Observer],
    ) -> None:
        self.observers = list(observers)
        self._problem = problem
        self._costs = costs
        self._options = dict(options)
        self._planned: Run | None = None
        self._result: Result | None = None
        if costs is not None or not self._is_measured:
            self._planned = self._plan_run()

    @property
    def _is_measured(self) -> bool:
        """Whether what is best depends on what steps and transfers cost."""
        return bool(self._options["disk"]) or self._options["compress"] is not None

    def _plan_run(self) -> Run:
        if self._planned is not None:
            self._planned.close()
        if self._costs is None and self._is_measured:
            stores = self._options["stores"] or {}
            place = place_of(
                self._problem, *(self._options[name] for name in ("disk", "scratch", "compress"))
            )
            most = parse_budget(self._options["memory"], self._problem.keep_all_nbytes)
            with closing(place.store()) as store:
                self._costs = calibrate(
                    self._problem,
                    {DISK: store, **stores},
                    memory_nbytes=most,
                    reverse=False,
                    agree=int if self._problem.ranks is None else self._problem.ranks.smallest,
                )
        ranks = self._problem.ranks
        return self._make_run() if ranks is None else self._agree(ranks)

    def _make_run(self, **others: Any) -> Run:
        return Run(self._problem, costs=self._costs, **(self._options | others))

    def _agree(self, ranks: Ranks) -> Run:
        """A run of the schedule that all ranks follow."""
        own = ranks.each(self._make_run)
        schedule = ranks.agree(own.plan, self._holds)
        if schedule == own.plan.schedule:
            return own
        own.close()
        return self._make_run(schedule=schedule)

    def _holds(self, schedule: Iterable[Action]) -> bool:
        """Whether this rank's budget does."""
        try:
            self._make_run(schedule=schedule).close()
        except BudgetTooSmall:
            return False
        return True

    def _together(self) -> AbstractContextManager[None]:
        ranks = self._problem.ranks
        return nullcontext() if ranks is None else ranks.together()

    @property
    def _run(self) -> Run:
        if self._planned is None:
            raise OutOfOrder(
                "what transfers and steps cost is measured at the first forward(), and the plan is "
                "made then: call it or prepare() first, or give costs="
            )
        return self._planned

    @property
    def plan(self) -> Plan:
        """What was chosen, with predicted steps and bytes.

        Raises
        ------
        OutOfOrder
            before the first `forward` or `prepare`, where a disk or compression is wanted and no
            costs are given.
        """
        return self._run.plan

    @property
    def arena_nbytes(self) -> int:
        """Bytes of the arena as it is allocated now."""
        return 0 if self._planned is None else self._planned.arena_nbytes

    @property
    def compiled_seconds(self) -> float:
        """Of the last gradient's time, what was spent inside the compiled functions."""
        return self._problem.compiled_seconds

    @property
    def compared(self) -> int:
        """How many arrays the last gradient compared with those of the first time."""
        return self._problem.compared

    def describe(self) -> str:
        """A table of what was found in the operators, with bytes; after a gradient, the proof."""
        return describe(self._problem)

    def forward(
        self,
        *,
        keep: bool = True,
        initial: Mapping[str, Any] | None = None,
        resume: str | os.PathLike[str] | None = None,
        interval: float = INTERVAL,
        **arguments: Any,
    ) -> Tally:
        """Run the forward operator.

        Parameters
        ----------
        keep : False runs the forward alone and stores nothing, as for a line search.
        initial : for each wavefield that does not start at zero, the samples that the first step
            starts from: ``{"u": rows}`` with rows of shape (2, *domain) for a second-order
            equation. They must stay as they are until `reverse` has returned.
        resume, interval : a directory from which another process can go on, and how often
            something is put there; see `retrograd.Run.forward`.
        arguments : as for the forward operator's ``apply``.
        """
        if resume is not None and self._problem.ranks is not None:
            raise NotSupported(
                "resume= with more than one MPI rank: each would go on from a step of its own. "
                "Leave it out, or run one shot a process"
            )
        with self._together():
            self._problem.initial = dict(initial or {})
            self._prepare(arguments)
            self._run.observers = self.observers
            return self._run.forward(keep=keep, resume=resume, interval=interval)

    def prepare(self, **arguments: Any) -> Plan:
        """Measure what has to be measured, and plan, for a `forward` with these arguments.

        Nothing that belongs to the caller is written to. `forward` does it where it was not done.
        """
        with self._together():
            return self._prepare(arguments)

    def _prepare(self, arguments: dict[str, Any]) -> Plan:
        self._result = None
        self._problem.forward_arguments = arguments
        self._problem.bind_forward()
        if self._planned is None or self._problem.steps != self.plan.steps:
            self._planned = self._plan_run()
        return self.plan

    def reverse(self, **arguments: Any) -> Result:
        """Run the gradient operator over the last forward, in reverse.

        The adjoint state starts at zero. Accumulators are added to, as by ``apply``, so that
        shots sum up.

        Parameters
        ----------
        arguments : as for the gradient operator's ``apply``.

        Raises
        ------
        OutOfOrder
            if there is no forward that has not been reversed, or if an input of the forward has
            been changed since.
        """
        with self._together():
            self._problem.gradient_arguments = arguments
            self._result = self._run.reverse()
            return self._result

    @property
    def result(self) -> Result:
        """The last gradient's result.

        Raises
        ------
        OutOfOrder
            before the first `reverse` after a `forward`.
        """
        if self._result is None:
            raise OutOfOrder("there is no result before forward() and reverse() have been called")
        return self._result

    def close(self) -> None:
        """Give memory, threads and disk back now, not when this is no longer in use."""
        if self._planned is not None:
            self._planned.close()

    def report(self) -> str:
        """What the last gradient took, and what its records and restarts held, as text."""
        layout = self._problem.layout
        recorded = ", ".join(field.name for field in layout.state)
        others = ", ".join(field.name for field in layout.held)
        more = f"; restarts {others} as well" if others else ", and restarts nothing else"
        return f"{self.result.report()}\nrecords held {recorded}{more}"

    @property
    def operators(self) -> tuple[Operator, Operator]:
        """The two operators, also those that were made from equations."""
        return self._problem.operators
