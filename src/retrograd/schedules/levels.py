"""Restarts that are made of records: the fewest forward steps in a memory for rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from retrograd.actions import INITIAL, MEMORY, Action, Advance, Record, Restore, Reverse, Save
from retrograd.arguments import flag, whole
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.schedules.mixed_best import best_tree
from retrograd.schedules.mixed_tree import Shape, Tree


@dataclass(frozen=True, slots=True)
class Levels:
    """The optimal schedule where the state is made of time levels and a record is one of them.

    A second-order wave equation steps from ``u[k], u[k+1]`` to ``u[k+2]``, and its adjoint reads
    one of these. There a restart is two adjacent records: it turns two steps by itself, and
    whatever room the live state leaves serves as well. Choose it for every such computation:
    it never runs more steps than `Mixed`, and in little memory it runs 5 to 15 % fewer. Where the
    adjoint reads several levels, or something else, use `Mixed`.

    Rows are numbered along time. State k is rows k … k + `depth` − 1, step k makes row
    k + `depth`, and the record of step k is row k + `record_row`.

    Parameters
    ----------
    steps : at least 1.
    depth : rows of a state, at least 1.
    record_row : which row of the state at its start the adjoint of a step reads, from 0.
    memory_rows : rows that there are, the live state and the row that a step makes included:
        at least ``depth + 1``.
    free_start : the initial state can be returned to at no cost in memory.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign.
    BudgetTooSmall : the memory holds neither all rows nor a restart and what a step needs.

    Notes
    -----
    `steps` rows are computed. Let G(q) be the forward steps that it takes to turn the q rows above
    a restart, D = `depth`, T rows of memory being free or taken by that restart::

        G(q, T) = q                                                       if q ≤ T − D, else
        G(q, T) = min over j of  (j + D) + G(q − j − D, T − D) + G(j, T)

    for the next restart lies j rows above this one, takes D rows, and turns these itself. This is
    the optimum among all ways to compute, hold and give up rows for depth 1 and 2, as far as
    exhaustive search goes. Trees of it are found as those of `Mixed` are: exactly up to 20,000
    steps.

    References
    ----------
    The recurrence is this project's own; we know of no earlier one that counts single levels.

    Examples
    --------
    >>> for action in Levels(6, depth=2, record_row=1, memory_rows=5, free_start=True):
    ...     print(action)
    Advance(start=0, stop=2)
    Record(start=2, stop=6, tier='memory')
    Reverse(stop=6, start=2, keep=False)
    Restore(step=0, tier='initial', last=False)
    Record(start=0, stop=1, tier='memory')
    Reverse(stop=2, start=0, keep=False)
    >>> Levels(1615, 2, 1, memory_rows=28, free_start=True).forward_steps
    4868
    """

    steps: int
    depth: int
    record_row: int
    memory_rows: int
    free_start: bool = False

    def __post_init__(self) -> None:
        least = {"steps": 1, "depth": 1, "record_row": 0, "memory_rows": 0}
        for name, smallest in least.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), least=smallest))
        flag("free_start", self.free_start)
        if self.record_row >= self.depth:
            raise InvalidArgument(
                f"record_row is {self.record_row} and a state has {self.depth} rows: give a row "
                "of the state, or use Mixed where the record is not part of it"
            )
        needed = smallest_memory_rows(self.steps, self.depth, self.record_row, self.free_start)
        if self.memory_rows < needed:
            raise BudgetTooSmall(
                f"{self.steps} steps cannot be reversed in {self.memory_rows} rows, a state "
                f"taking {self.depth}: give memory_rows={needed} or more",
                smallest_nbytes=needed,
            )

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        return self.steps if self._keeps_all() else self._first() + self._tree().forward_steps

    def _keeps_all(self) -> bool:
        return self.steps + self.depth <= self.memory_rows

    def _first(self) -> int:
        """The step of the first restart: a saved start is not kept where it turns nothing."""
        return 0 if self.free_start else self.record_row

    def _tree(self) -> Tree:
        windows = [self.memory_rows - self.depth]
        while sum(windows) < self.steps:
            window = windows[-1] - self.depth
            if window < _least_window(self.depth):
                break
            windows.append(window)
        if self.free_start:
            windows.insert(0, windows[0])
        return best_tree(Shape(self.steps - self._first(), tuple(windows), 0, self.depth))

    def __iter__(self) -> Iterator[Action]:
        if self._keeps_all():
            yield Record(0, self.steps)
            yield Reverse(self.steps, 0)
            return
        first = self._first()
        if first:
            yield Advance(0, first)
        if not self.free_start:
            yield Save(first)
        yield from self._walk(first)

    def _walk(self, base: int) -> Iterator[Action]:
        tree = self._tree()
        windows, lefts = tree.shape.windows, tree.lefts
        pending: list[tuple[int, int, int, int]] = []
        rows, depth, level, adjoint = self.steps - base, 0, 0, self.steps
        while True:
            while rows > windows[depth]:
                left = lefts[rows, depth, level]
                pending.append((base, left, depth, level + 1))
                higher = base + left + self.depth
                rows -= left + self.depth
                if rows <= windows[depth + 1]:
                    yield from self._window(base, higher, higher + rows, adjoint)
                    adjoint = higher - self.record_row
                    break
                yield Advance(base, higher)
                yield Save(higher)
                base, depth = higher, depth + 1
            else:
                yield from self._last_window(base, rows, adjoint)
                adjoint = base - self.record_row
            if not pending:
                return
            base, rows, depth, level = pending.pop()
            in_window = rows > 0 and self.record_row > 0  # the restart turns rows after it
            yield self._restore(base, last=rows <= windows[depth] and not in_window)

    def _restore(self, base: int, *, last: bool) -> Restore:
        if base == 0 and self.free_start:
            return Restore(0, INITIAL)
        return Restore(base, MEMORY, last)

    def _window(self, live: int, base: int, stop: int, adjoint: int) -> Iterator[Action]:
        """Turn the rows of the state at `base` and all above, which fit without a restart."""
        start = base - self.record_row
        if live < start:
            yield Advance(live, start)
        if adjoint == self.steps:
            stop = self.steps  # the first sweep runs to the end
        if start < stop:
            yield Record(start, stop)
        if start < adjoint:  # else the last rows are no records, only made for their own sake
            yield Reverse(adjoint, start)

    def _last_window(self, base: int, rows: int, adjoint: int) -> Iterator[Action]:
        """Turn the rows above the restart at `base`, and those of the restart itself."""
        turned = max(0, base - self.record_row)
        if rows:
            yield Record(base, self.steps if adjoint == self.steps else base + rows)
            yield Reverse(adjoint, base)
            if turned == base:
                return
            yield self._restore(base, last=True)
            adjoint = base
        yield Reverse(adjoint, turned)


def smallest_memory_rows(steps: int, depth: int, record_row: int, free_start: bool = False) -> int:
    """Return the fewest rows in which `steps` can be reversed at all.

    Either all rows, or the live ones, and a restart below them where the start must be saved.
    """
    window = _least_window(depth)
    if free_start:
        return depth + min(steps, window)
    if steps <= record_row:
        return depth + steps
    return depth + min(steps - record_row, depth + window)


def _least_window(depth: int) -> int:
    """Return the least room above a restart: any rows fit there, or the next restart does."""
    return max(1, depth - 1)
