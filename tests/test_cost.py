"""Seconds from counts; what cannot be a cost is refused."""

from __future__ import annotations

import math

import pytest

from retrograd.actions import DISK, MEMORY
from retrograd.cost import Costs
from retrograd.errors import InvalidArgument
from retrograd.schedules import HRevolve, TierSlots
from retrograd.verify import verify


def test_seconds_are_the_sum_of_all_there_is() -> None:
    tiers = TierSlots(MEMORY, 1), TierSlots(DISK, 2, 1.0, 1.0)
    counts = verify(HRevolve(12, tiers), steps=12)
    costs = Costs(1.0, 10.0, 100.0, 1000.0, copy_rate=0.5, write_rate=0.25, read_rate=0.125)
    assert costs.seconds(counts, moved_nbytes=7) == (
        counts.forward_steps
        + 10 * 12
        + 100 * counts.forward_calls
        + 1000 * counts.reverse_calls
        + 7 / 0.5
    )
    assert costs.transfers(2) == (2 / 0.25, 2 / 0.125)


@pytest.mark.parametrize("name", ["forward_step", "reverse_step", "forward_call", "reverse_call"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "1", None, True])
def test_seconds_that_cannot_be_right(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=f"{name}.*give seconds"):
        Costs(**{"forward_step": 1.0, name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["copy_rate", "write_rate", "read_rate"])
@pytest.mark.parametrize("value", [0, -1.0, math.nan, "2GB", None, True])
def test_rates_that_cannot_be_right(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=f"{name}.*bytes per second"):
        Costs(1.0, **{name: value})  # type: ignore[arg-type]
