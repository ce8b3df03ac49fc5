"""Blocks of steps: of each either the records or a restart at its start go to disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from retrograd.actions import (
    DISK,
    INITIAL,
    Action,
    Advance,
    Load,
    Record,
    Restore,
    Reverse,
    Save,
)
from retrograd.arguments import flag, whole
from retrograd.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Blocks:
    """The last block is recorded in memory; of some blocks the records go to disk, of the others
    a restart does, and they run once more when their turn comes.

    Choose it where the disk works in the background and is large. What the disk can take while
    the forward runs, it takes as records, which spares running these steps again; the blocks in
    between are run again while the next records are read. With all blocks on disk it is keeping
    everything there; with none it runs every step twice but the last block's.

    Parameters
    ----------
    steps : at least 1.
    block : steps in each block; the last one may be shorter. Memory holds the records of one.
    kept : blocks whose records go to disk, spread evenly over all but the last.
    record_in_state : the record of a step is part of the state at its start, so that
        reversing it needs no forward step of its own.
    free_start : the initial state can be returned to at no cost and is not saved on disk.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign, or more blocks kept than there are.

    Notes
    -----
    With n steps, blocks of b and k of them kept, the forward runs n + (⌈n/b⌉ − 1 − k)·b steps;
    with `record_in_state` one less for each block that runs again. Each block of either kind is
    written once and read once. Which blocks are kept makes no difference to the steps; they are
    spread so that the disk is busy all the time, in both directions.

    References
    ----------
    This project's own; the restarts alone are the outer level of Kukreja, Hückelheim & Gorman
    2018, arXiv 1806.01117.

    Examples
    --------
    >>> for action in Blocks(6, block=2, kept=1, record_in_state=True, free_start=True):
    ...     print(action)
    Advance(start=0, stop=2)
    Record(start=2, stop=4, tier='disk')
    Record(start=4, stop=6, tier='memory')
    Reverse(stop=6, start=4, keep=False)
    Load(start=2, stop=4, tier='disk')
    Reverse(stop=4, start=2, keep=False)
    Restore(step=0, tier='initial', last=False)
    Record(start=0, stop=1, tier='memory')
    Reverse(stop=2, start=0, keep=False)
    """

    steps: int
    block: int
    kept: int
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        for name, least in {"steps": 1, "block": 1, "kept": 0}.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), least=least))
        flag("record_in_state", self.record_in_state)
        flag("free_start", self.free_start)
        if self.kept > self._earlier:
            raise InvalidArgument(
                f"kept={self.kept}: of {self._earlier + 1} blocks of {self.block} steps the last "
                f"stays in memory: give at most {self._earlier}"
            )

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        again = self._earlier - self.kept
        return self.steps + again * (self.block - self.record_in_state)

    @property
    def restarts(self) -> int:
        """How many restarts are written to disk."""
        again = self._earlier - self.kept
        return again - (again > 0 and self.free_start and not self._is_kept(0))

    @property
    def _earlier(self) -> int:
        """Blocks before the last one."""
        return (self.steps - 1) // self.block

    def _is_kept(self, index: int) -> bool:
        if index >= self._earlier:
            return False
        return (index + 1) * self.kept // self._earlier > index * self.kept // self._earlier

    def __iter__(self) -> Iterator[Action]:
        yield from self._forward()
        begin = self._earlier * self.block
        yield Reverse(self.steps, begin)
        for index in reversed(range(self._earlier)):
            start, stop = index * self.block, (index + 1) * self.block
            if self._is_kept(index):
                yield Load(start, stop, DISK)
            else:
                yield Restore(start, *((INITIAL,) if self._is_free(start) else (DISK, True)))
                recorded = stop - self.record_in_state
                if recorded > start:
                    yield Record(start, recorded)
            yield Reverse(stop, start)

    def _forward(self) -> Iterator[Action]:
        for index in range(self._earlier):
            start, stop = index * self.block, (index + 1) * self.block
            if self._is_kept(index):
                yield Record(start, stop, DISK)
            else:
                if not self._is_free(start):
                    yield Save(start, DISK)
                yield Advance(start, stop)
        yield Record(self._earlier * self.block, self.steps)

    def _is_free(self, start: int) -> bool:
        return self.free_start and start == 0
