"""Schedules of the package checkpoint_schedules on our executor, and ours for its consumers.

`from_checkpoint_schedules` turns a schedule of that package (Dolci, Maddison, Ham, Pallez &
Herrmann 2024, doi 10.21105/joss.06148) into actions of ours. `to_checkpoint_schedules` turns one
of ours into one of theirs, which pyadjoint's ``tape.enable_checkpointing`` takes.

Their actions know one size for restarts and records alike, one reverse sweep at a time for records
that are moved, and steps that are recorded by running them. So what goes there must not have
`record_in_state` or `free_start`, and each record of ours takes a slot of theirs; restarts in
tiers other than memory and disk cannot be said, nor can `BeginSweep`. Nor can schedules for an
unknown number of steps: they record the step that follows a restart, where theirs keeps both as
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from retrograd.actions import (
    DISK,
    MEMORY,
    Action,
    Advance,
    Drop,
    Forget,
    Load,
    Record,
    Restore,
    Reverse,
    Save,
    Tier,
)
from retrograd.arguments import whole
from retrograd.errors import InvalidArgument, MissingExtra, NotSupported
from retrograd.verify import verify

try:
    import checkpoint_schedules as theirs
except ImportError as error:
    raise MissingExtra(
        "this adapter needs checkpoint_schedules: pip install 'retrograd[checkpoint-schedules]'"
    ) from error


@dataclass(frozen=True, slots=True)
class Translated:
    """A schedule of another package, as actions of ours.

    Attributes
    ----------
    name : the other package's class.
    steps : how many steps it reverses.
    """

    name: str
    steps: int
    _actions: tuple[Action, ...]

    def __iter__(self) -> Iterator[Action]:
        return iter(self._actions)

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        runs = (a for a in self._actions if isinstance(a, Advance | Record))
        return sum(action.stop - action.start for action in runs)


def from_checkpoint_schedules(schedule: Any, steps: int) -> Translated:
    """Turn a schedule of the package checkpoint_schedules into one of ours.

    Its first reverse sweep is taken. The schedule is used up by this, as by any consumer; what is
    returned can be iterated over again and again.

    Parameters
    ----------
    schedule : an object of one of its classes that has not been iterated over.
    steps : how many steps; what the schedule was made for, or for an online one, as one likes.

    Raises
    ------
    InvalidArgument
        for what is no such schedule, has been used, is for another number of steps, reverses
        nothing, or copies a restart from one tier to another.

    Examples
    --------
    >>> import checkpoint_schedules
    >>> theirs = checkpoint_schedules.Revolve(10, 3)
    >>> from_checkpoint_schedules(theirs, 10).forward_steps
    25
    """
    steps = whole("steps", steps, least=1)
    if not isinstance(schedule, theirs.CheckpointSchedule):
        raise InvalidArgument(
            f"{schedule!r} is no schedule of the package checkpoint_schedules: give one of its "
            "objects, such as checkpoint_schedules.Revolve(100, 5)"
        )
    name = type(schedule).__name__
    # Version 1.0.4 never says that it is running: it looks for another name than it sets.
    if schedule.is_running or hasattr(schedule, "iter"):
        raise InvalidArgument(f"{name} has been iterated over already: make a new one")
    if schedule.max_n not in (None, steps):
        raise InvalidArgument(f"{name} was made for {schedule.max_n} steps, and {steps} are asked")
    return Translated(name, steps, tuple(_Reader(schedule, steps).actions()))


class _Reader:
    """Follows their actions and says them in ours."""

    def __init__(self, schedule: Any, steps: int) -> None:
        self._schedule = schedule
        self._steps = steps
        self._restarts: set[tuple[Tier, int]] = set()
        self._records: dict[int, Tier] = {}

    def actions(self) -> Iterator[Action]:
        for action in self._schedule:
            match action:
                case theirs.Forward():
                    yield from self._forward(action)
                case theirs.Reverse():
                    for step in range(action.n0, action.n1):
                        self._records.pop(step, None)
                    yield Reverse(action.n1, action.n0)
                case theirs.Copy() | theirs.Move():
                    yield from self._transfer(action, last=isinstance(action, theirs.Move))
                case theirs.EndReverse():
                    break
        else:
            raise InvalidArgument(
                f"{type(self._schedule).__name__} ends without a reverse sweep: use another "
                "schedule, or Run.forward(keep=False)"
            )
        for tier, step in sorted(self._restarts):
            yield Drop(step, tier)

    def _forward(self, action: Any) -> Iterator[Action]:
        start, stop = action.n0, min(action.n1, self._steps)
        tier = self._tier(action.storage)
        if action.write_ics:
            yield Save(start, tier)
            self._restarts.add((tier, start))
        if action.write_adj_deps:
            if tier == MEMORY:
                yield Record(start, stop)
            else:  # each is moved back by itself
                yield from (Record(step, step + 1, tier) for step in range(start, stop))
            self._records.update(dict.fromkeys(range(start, stop), tier))
        else:
            yield Advance(start, stop)
        if stop == self._steps and self._schedule.max_n is None:
            self._schedule.finalize(self._steps)

    def _transfer(self, action: Any, *, last: bool) -> Iterator[Action]:
        step, tier = action.n, self._tier(action.from_storage)
        gone = action.to_storage is theirs.StorageType.NONE
        if not gone and action.to_storage is not theirs.StorageType.WORK:
            raise InvalidArgument(
                f"{action} copies a restart from one tier to another, which actions of ours cannot "
                "say: restore it and save it again"
            )
        if (tier, step) in self._restarts:
            if last:
                self._restarts.remove((tier, step))
            yield Drop(step, tier) if gone else Restore(step, tier, last)
        elif gone and step in self._records:
            yield Forget(step, step + 1, self._records.pop(step))
        elif self._records.get(step, MEMORY) != MEMORY:
            yield Load(step, step + 1, self._records.pop(step))

    def _tier(self, storage: Any) -> Tier:
        return DISK if storage is theirs.StorageType.DISK else MEMORY


def to_checkpoint_schedules(schedule: Iterable[Action], steps: int) -> theirs.CheckpointSchedule:
    """Turn a schedule of ours into an object that consumers of checkpoint_schedules drive.

    The records of a range become records of single steps, each in memory, or in the working
    storage if it is used at once.

    Parameters
    ----------
    schedule : actions of one reverse sweep, without `record_in_state` and `free_start`.
    steps : how many steps it reverses.

    Raises
    ------
    NotSupported
        for what their actions cannot express, naming the action and its index.
    IllegalAction
        if the schedule does not reverse `steps` steps.

    Notes
    -----
    With pyadjoint 2026.10, the derivative at the control's taped value is right. After the
    functional has been evaluated at another one, pyadjoint can give wrong derivatives without an
    error, with Revolve, Multistage and Mixed of checkpoint_schedules as with ours: values that it
    has dropped are read as they were taped (see its issue 260). Tape the loop anew for each
    control, or compare with a run without checkpointing.

    Examples
    --------
    >>> from retrograd.schedules import Revolve
    >>> for action in to_checkpoint_schedules(Revolve(2, 1), 2):
    ...     print(action)
    Forward(0, 1, True, False, StorageType.RAM)
    Forward(1, 2, False, True, StorageType.WORK)
    EndForward()
    Reverse(2, 1, True)
    Move(0, StorageType.RAM, StorageType.WORK)
    Forward(0, 1, False, True, StorageType.WORK)
    Reverse(1, 0, True)
    EndReverse()
    """
    actions = list(schedule)
    written = tuple(_Writer(actions, steps).actions())
    verify(actions, steps=steps)
    return _Theirs(written, steps)


class _Theirs(theirs.CheckpointSchedule):  # type: ignore[misc]
    """A list of their actions, with the counters that consumers look at."""

    def __init__(self, actions: tuple[Any, ...], steps: int) -> None:
        super().__init__(steps)
        self._actions = actions
        self._exhausted = False
        self._storage = {s for a in actions for s in a.args if isinstance(s, theirs.StorageType)}

    def _iterator(self) -> Iterator[Any]:
        for action in self._actions:
            match action:
                case theirs.Forward():
                    self._n = action.n1
                case theirs.Reverse():
                    self._r = self._max_n - action.n0
                case theirs.Copy() | theirs.Move() if action.to_storage is theirs.StorageType.WORK:
                    self._n = action.n
                case theirs.EndReverse():
                    self._exhausted = True
            yield action

    @property
    def is_exhausted(self) -> bool:
        """Whether the reverse sweep has ended."""
        return self._exhausted

    def uses_storage_type(self, storage_type: Any) -> bool:
        """Whether any action uses a storage."""
        return storage_type in self._storage


class _Writer:
    """Follows our actions and says them in theirs."""

    def __init__(self, schedule: list[Action], steps: int) -> None:
        self._schedule = schedule
        self._steps = whole("steps", steps, least=1)
        self._records: dict[int, Any] = {}
        self._ended = False
        self._index = 0

    def actions(self) -> Iterator[Any]:
        saved: Save | None = None
        for index, action in enumerate(self._schedule):
            self._index = index
            if saved is not None and not isinstance(action, Advance):
                self._refuse(
                    "a restart must be followed by an advance: theirs saves as it advances"
                )
            match action:
                case Save():
                    saved = action
                case Advance(start, stop):
                    storage = (
                        theirs.StorageType.WORK if saved is None else self._storage(saved.tier)
                    )
                    yield theirs.Forward(start, stop, saved is not None, False, storage)
                    saved = None
                    yield from self._end_of_forward(stop)
                case Record(start, stop, tier):
                    yield from self._record(start, stop, tier)
                    yield from self._end_of_forward(stop)
                case Restore(step, tier, last):
                    kind = theirs.Move if last else theirs.Copy
                    yield kind(step, self._storage(tier), theirs.StorageType.WORK)
                case Drop(step, tier):
                    yield theirs.Move(step, self._storage(tier), theirs.StorageType.NONE)
                case Load():
                    pass  # theirs moves each record as it is reversed
                case Reverse(stop, start, keep):
                    if keep:
                        self._refuse("theirs reverses once")
                    yield from self._reverse(stop, start)
                case _:
                    self._refuse("theirs has nothing like it")
        yield theirs.EndReverse()

    def _refuse(self, why: str) -> None:
        raise NotSupported(
            f"checkpoint_schedules cannot express action {self._index}, "
            f"{self._schedule[self._index]}: {why}"
        )

    def _storage(self, tier: Tier) -> Any:
        storages = {MEMORY: theirs.StorageType.RAM, DISK: theirs.StorageType.DISK}
        if tier not in storages:
            self._refuse(
                f"theirs has no tier {tier!r}; a schedule made without free_start saves its start"
            )
        return storages[tier]

    def _end_of_forward(self, stop: int) -> Iterator[Any]:
        if stop == self._steps and not self._ended:
            self._ended = True
            yield theirs.EndForward()

    def _record(self, start: int, stop: int, tier: Tier) -> Iterator[Any]:
        following = self._schedule[self._index + 1 : self._index + 2]
        is_used_at_once = any(isinstance(a, Reverse) and a.stop == stop for a in following)
        for step in range(start, stop):
            at_once = is_used_at_once and step == stop - 1
            storage = theirs.StorageType.WORK if at_once else self._storage(tier)
            self._records[step] = storage
            yield theirs.Forward(step, step + 1, False, True, storage)

    def _reverse(self, stop: int, start: int) -> Iterator[Any]:
        for step in range(stop - 1, start - 1, -1):
            storage = self._records.pop(step, None)
            if storage is None:
                self._refuse(
                    f"step {step} has no record of its own: make the schedule without "
                    "record_in_state, since theirs records a step by running it"
                )
            if storage is not theirs.StorageType.WORK:
                yield theirs.Move(step, storage, theirs.StorageType.WORK)
            yield theirs.Reverse(step + 1, step, True)
