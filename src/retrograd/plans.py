"""A plan: a schedule with what it will take, which explains itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from retrograd.actions import Action
from retrograd.cost import Costs
from retrograd.demand import Budget, Demand
from retrograd.prediction import Prediction
from retrograd.sizes import format_nbytes


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
        return self.budget.memory_nbytes + self.budget.packed_nbytes

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
        return self.prediction.memory_nbytes + self.budget.packed_nbytes

    @property
    def seconds(self) -> float | None:
        """How long the gradient takes, if costs are known."""
        return self.prediction.seconds

    @property
    def arena_nbytes(self) -> int:
        """Bytes of the arena: the peak less scratch memory, and less what is compressed."""
        return self.prediction.memory_nbytes - self.demand.scratch_nbytes

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
            where = "of these, compressed" if self.budget.is_packed else "disk"
            yield (
                f"{where}: {format_nbytes(found.disk_nbytes)} of a budget of "
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
        far = "packed" if self.budget.is_packed else "disk"
        columns = ("forward steps", "seconds", "memory", far, "traffic")
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
