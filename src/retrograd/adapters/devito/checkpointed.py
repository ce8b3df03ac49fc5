"""What a user of Devito writes: two operators and a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from retrograd.actions import Tier
from retrograd.adapters.devito.describe import describe
from retrograd.adapters.devito.problem import Problem
from retrograd.cost import Costs
from retrograd.errors import OutOfOrder
from retrograd.events import Observer
from retrograd.planner import Choice
from retrograd.plans import Plan
from retrograd.run import Result, Run
from retrograd.sizes import Size
from retrograd.stores.tier import Store
from retrograd.sweep import Tally

Operator = Any


def checkpointed(
    forward: Operator,
    gradient: Operator,
    *,
    memory: Size = "auto",
    disk: Size = 0,
    costs: Costs | None = None,
    sweeps: int = 1,
    schedule: Choice = "auto",
    names: Mapping[str, str] | None = None,
    stores: Mapping[Tier, Store] | None = None,
    observers: Sequence[Observer] = (),
) -> CheckpointedRun:
    """Run two Devito operators within a memory budget, with the result of keeping everything.

    Build the operators as for keeping everything, with ``save=nt`` wavefields: these are never
    allocated. The gradient is the same to the last bit as with ``apply`` and
    ``nthreads_nonaffine=1``, which is set here unless it is given: where several threads inject
    into one grid point, Devito does not reproduce itself.

    Parameters
    ----------
    forward, gradient : operators; the gradient reads the wavefields that the forward writes.
    memory : budget of everything the engine allocates: bytes, ``"10 GB"``, ``"1/16"`` of all
        samples of the wavefields, or ``"auto"``.
    disk : as `memory`; none unless it is given.
    costs : what steps and transfers cost, which predicted seconds and a disk are judged by:
        ``retrograd.calibrate(retrograd.devito.Problem(forward, gradient, …))`` measures them.
    sweeps : how many reverse sweeps follow each forward, each with arguments of its own.
    schedule : ``"auto"``, one of the names in `retrograd.families.NAMES`, or a schedule.
    names : wavefields' names in the gradient operator, mapped to those in the forward, where
        they differ: ``{"u0": "u"}``.
    stores : where the restarts of other tiers than memory are kept, by tier.
    observers : called with every event, such as a progress bar.

    Raises
    ------
    NotSupported
        for operators that cannot be run rightly, with the reason.
    BudgetTooSmall
        naming the smallest budget that works.
    """
    plan_run = partial(
        Run,
        memory=memory,
        disk=disk,
        costs=costs,
        sweeps=sweeps,
        schedule=schedule,
        stores=stores,
        observers=observers,
    )
    return CheckpointedRun(Problem(forward, gradient, names=names, accumulate=True), plan_run)


class CheckpointedRun:
    """Two operators within a memory budget; may be used again for the next shot or model.

    Nothing is compiled or allocated again for the next gradient. `forward` and `reverse` take
    the same keyword arguments as the operators' ``apply``, less the wavefields.
    """

    def __init__(self, problem: Problem, plan_run: Callable[[Problem], Run]) -> None:
        self._problem = problem
        self._plan_run = plan_run
        self._run = plan_run(problem)
        self._result: Result | None = None

    @property
    def plan(self) -> Plan:
        """What was chosen, with predicted steps and bytes."""
        return self._run.plan

    @property
    def observers(self) -> list[Observer]:
        """Called with every event; may be changed between runs."""
        return self._run.observers

    @property
    def arena_nbytes(self) -> int:
        """Bytes of the arena as it is allocated now."""
        return self._run.arena_nbytes

    @property
    def compiled_seconds(self) -> float:
        """Of the last gradient's time, what was spent inside the compiled functions."""
        return self._problem.compiled_seconds

    def describe(self) -> str:
        """A table of what was found in the operators, with bytes."""
        return describe(self._problem)

    def forward(
        self, *, keep: bool = True, initial: Mapping[str, Any] | None = None, **arguments: Any
    ) -> Tally:
        """Run the forward operator.

        Parameters
        ----------
        keep : False runs the forward alone and stores nothing, as for a line search.
        initial : for each wavefield that does not start at zero, the samples that the first step
            starts from: ``{"u": rows}`` with rows of shape (2, *domain) for a second-order
            equation. They must stay as they are until `reverse` has returned.
        arguments : as for the forward operator's ``apply``.
        """
        self._result = None
        self._problem.forward_arguments = arguments
        self._problem.initial = dict(initial or {})
        self._problem.bind_forward()
        if self._problem.steps != self.plan.steps:
            self._run = self._plan_run(self._problem)
        return self._run.forward(keep=keep)

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

    def report(self) -> str:
        """What the last gradient took, as text."""
        return self.result.report()
