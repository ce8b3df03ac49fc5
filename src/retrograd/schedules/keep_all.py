"""Keep the record of every step: no step runs twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from retrograd.actions import Action, Record, Reverse
from retrograd.arguments import whole


@dataclass(frozen=True, slots=True)
class KeepAll:
    """One sweep forward that records all, one sweep back.

    The fastest schedule there is, and the reference for every other. Choose it whenever
    ``steps - 1`` records fit into memory. The forward runs ``steps`` steps.

    Parameters
    ----------
    steps : at least 1.

    Examples
    --------
    >>> for action in KeepAll(100):
    ...     print(action)
    Record(start=0, stop=100, tier='memory')
    Reverse(stop=100, start=0, keep=False)
    """

    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", whole("steps", self.steps, least=1))

    @property
    def forward_steps(self) -> int:
        """Forward steps that run, each counted as often as it runs."""
        return self.steps

    def __iter__(self) -> Iterator[Action]:
        yield Record(0, self.steps)
        yield Reverse(self.steps, 0)
