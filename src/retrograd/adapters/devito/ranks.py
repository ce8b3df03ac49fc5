"""Several MPI ranks that run one problem: one plan, and one end, for all of them.

A schedule may cut its steps into other calls on each rank: ranks meet in the exchanges of each
iteration, inside compiled code, and those follow the order of the steps alone.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from devito.mpi.distributed import MPI

from retrograd.actions import Action
from retrograd.errors import BudgetTooSmall, RankFailed
from retrograd.plans import Plan

T = TypeVar("T")

_WAIT_SECONDS: Final = 2.0
"""How long a rank that failed waits for the others to fail as well."""


class Ranks:
    """The ranks that share a grid.

    Parameters
    ----------
    comm : their communicator, an ``mpi4py.MPI.Comm``; another one is made from it, on all ranks.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm.Dup()
        self.here = int(self._comm.Split_type(MPI.COMM_TYPE_SHARED).size)
        """How many of them are on this node."""

    def smallest(self, value: int) -> int:
        """The smallest of all ranks' values."""
        return int(min(self._comm.allgather(value)))

    def agree(self, plan: Plan, fits: Callable[[Iterable[Action]], bool]) -> Iterable[Action]:
        """The schedule for all: the one with most steps among the ranks' own that fits everywhere.

        Parameters
        ----------
        plan : the best one for this rank.
        fits : whether this rank's budget holds a schedule.
        """
        proposals = self._comm.allgather((plan.forward_steps, self._comm.rank, plan.schedule))
        schedule: Iterable[Action]
        for _, _, schedule in sorted(proposals, key=lambda one: one[:2], reverse=True):
            if self.smallest(self.each(partial(fits, schedule))):
                return schedule
        raise BudgetTooSmall(
            "no rank's schedule fits the budgets of all: give all ranks the same memory= in bytes",
            max(self._comm.allgather(plan.memory_nbytes)) + 1,
        )

    def each(self, function: Callable[[], T]) -> T:
        """What a function returns on this rank, if it fails on none. It must not communicate.

        Raises
        ------
        RankFailed
            where it failed on another rank; there, its own error.
        """
        try:
            outcome = function()
        except Exception as error:
            self._comm.allgather(f"{type(error).__name__}: {error}")
            raise
        for rank, failure in enumerate(self._comm.allgather("")):
            if failure:
                raise RankFailed(f"rank {rank} failed: {failure}", rank)
        return outcome

    @contextmanager
    def together(self) -> Iterator[None]:
        """End all ranks with the error of the one that fails, unless all fail.

        Others would wait for ever for what it does not send. Where all fail, as they do for an
        argument that cannot be right, each has its exception.
        """
        try:
            yield
        except BaseException:
            self._end_unless_all_fail()
            raise

    def _end_unless_all_fail(self) -> None:
        everyone, began = self._comm.Ibarrier(), time.monotonic()
        while not everyone.Test():
            if time.monotonic() - began > _WAIT_SECONDS:
                sys.stdout.flush()
                sys.stderr.write(
                    f"retrograd: rank {self._comm.rank} of {self._comm.size} failed, and with it "
                    f"all others end:\n{traceback.format_exc()}"
                )
                sys.stderr.flush()
                self._comm.Abort(1)
            time.sleep(0.01)


def ranks_of(*operators: Any) -> Ranks | None:
    """The ranks that share the operators' grid, or None if there is only one."""
    for operator in operators:
        for parameter in operator.parameters:
            distributor = getattr(getattr(parameter, "grid", None), "distributor", None)
            if distributor is not None and distributor.nprocs > 1:
                return Ranks(distributor.comm)
    return None
