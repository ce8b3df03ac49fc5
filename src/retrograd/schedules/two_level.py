"""Two-level binomial checkpointing: restarts on disk at equal distances, binomial in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from retrograd.actions import (
    DISK,
    INITIAL,
    Action,
    Advance,
    Drop,
    Forget,
    Load,
    Record,
    Restore,
    Reverse,
    Save,
)
from retrograd.arguments import flag, whole
from retrograd.schedules.revolve import Revolve, advances


@dataclass(frozen=True, slots=True)
class TwoLevel:
    """A restart on disk every `period` steps, then each period reversed like `Revolve`.

    This is the published baseline for two tiers: simple, used widely, and what to compare with.
    `Streaming` runs fewer steps in the same storage: it reverses the last period directly, where
    this schedule runs it once more. `Multistage` needs a bounded number of restarts on disk.

    Parameters
    ----------
    steps : at least 1.
    period : steps from one restart on disk to the next; the last period may be shorter. The
        disk holds one restart a period.
    slots : restarts that fit into memory, besides that on disk at the start of the period.
    record_in_state : the record of a step is part of the state at its start, so that
        reversing it needs no forward step of its own.
    free_start : the initial state can be returned to at no cost and is not saved on disk.

    Raises
    ------
    InvalidArgument : an argument of the wrong kind or sign.

    Notes
    -----
    With n = `steps`, s = `slots`, Lᵢ the lengths of the ⌈n / period⌉ periods and t as in
    `Revolve`, the forward runs n + Σ (t(Lᵢ, s + 1) + Lᵢ) steps: one sweep from start to end, and
    then each period as if alone, its restart on disk being one slot more. With
    `record_in_state` each Lᵢ in the sum goes, and the forward runs n + Σ t(Lᵢ, s + 1) steps.

    References
    ----------
    Pringle, Jones, Goswami, Narayanan & Goldberg 2016, Providing the ARCHER community with
    adjoint modelling tools, https://nora.nerc.ac.uk/id/eprint/516314.

    Examples
    --------
    >>> for action in TwoLevel(4, period=2, slots=0, record_in_state=True, free_start=True):
    ...     print(action)
    Advance(start=0, stop=2)
    Save(step=2, tier='disk')
    Advance(start=2, stop=4)
    Restore(step=2, tier='disk', last=False)
    Advance(start=2, stop=3)
    Reverse(stop=4, start=3, keep=False)
    Restore(step=2, tier='disk', last=True)
    Reverse(stop=3, start=2, keep=False)
    Restore(step=0, tier='initial', last=False)
    Advance(start=0, stop=1)
    Reverse(stop=2, start=1, keep=False)
    Restore(step=0, tier='initial', last=False)
    Reverse(stop=1, start=0, keep=False)
    >>> TwoLevel(1000, period=50, slots=4).forward_steps
    4440
    """

    steps: int
    period: int
    slots: int
    record_in_state: bool = False
    free_start: bool = False

    def __post_init__(self) -> None:
        for name, least in {"steps": 1, "period": 1, "slots": 0}.items():
            object.__setattr__(self, name, whole(name, getattr(self, name), least=least))
        flag("record_in_state", self.record_in_state)
        flag("free_start", self.free_start)

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        full, rest = divmod(self.steps, self.period)
        advanced = full * advances(self.period, self.slots + 1)
        if rest:
            advanced += advances(rest, self.slots + 1)
        recording = 0 if self.record_in_state else self.steps
        return self.steps + advanced + recording

    def __iter__(self) -> Iterator[Action]:
        starts = range(0, self.steps, self.period)
        for start in starts:
            if start > 0 or not self.free_start:
                yield Save(start, DISK)
            yield Advance(start, min(start + self.period, self.steps))
        for start in reversed(starts):
            yield from self._reverse_period(start, min(start + self.period, self.steps))

    def _reverse_period(self, start: int, stop: int) -> Iterator[Action]:
        tier = INITIAL if start == 0 and self.free_start else DISK
        alone = Revolve(stop - start, self.slots + 1, self.record_in_state)
        yield Restore(start, tier, last=stop - start == 1 and tier == DISK)
        for action in shifted(alone, start):
            match action:
                case Save(step) if step == start:
                    pass  # it lies on disk already
                case Restore(step, _, last) if step == start:
                    yield Restore(start, tier, last=last and tier == DISK)
                case Record() if self.record_in_state:
                    pass  # of the last step, for its output, which the first sweep has made
                case _:
                    yield action


def shifted(actions: Iterable[Action], offset: int) -> Iterator[Action]:
    """Return the actions of one sweep with `offset` added to every step."""
    for action in actions:
        match action:
            case Advance(start, stop):
                yield Advance(start + offset, stop + offset)
            case Record(start, stop, tier):
                yield Record(start + offset, stop + offset, tier)
            case Load(start, stop, tier):
                yield Load(start + offset, stop + offset, tier)
            case Forget(start, stop, tier):
                yield Forget(start + offset, stop + offset, tier)
            case Save(step, tier):
                yield Save(step + offset, tier)
            case Restore(step, tier, last):
                yield Restore(step + offset, tier, last)
            case Drop(step, tier):
                yield Drop(step + offset, tier)
            case Reverse(stop, start, keep):
                yield Reverse(stop + offset, start + offset, keep)
            case _:
                yield action
