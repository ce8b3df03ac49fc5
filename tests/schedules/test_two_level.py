"""TwoLevel against the published counts, the recurrence for each period, and verify."""

from __future__ import annotations

from itertools import islice, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrograd.actions import (
    DISK,
    MEMORY,
    Advance,
    BeginSweep,
    Drop,
    Forget,
    Record,
    Restore,
    Reverse,
    Save,
)
from retrograd.errors import InvalidArgument
from retrograd.schedules.two_level import TwoLevel, shifted
from retrograd.verify import Counts, verify
from tests import oracles

FLAGS = list(product((False, True), repeat=2))


def verified(schedule: TwoLevel) -> Counts:
    """The counts of a schedule that keeps to its slots and its restarts on disk."""
    saved = -(-schedule.steps // schedule.period) - schedule.free_start
    counts = verify(
        schedule,
        steps=schedule.steps,
        record_nbytes=0,
        budgets={MEMORY: schedule.slots, DISK: saved},
        record_in_state=schedule.record_in_state,
        free_start=schedule.free_start,
    )
    assert counts.saves.get(DISK, 0) == saved
    assert counts.forward_steps == schedule.forward_steps
    return counts


@pytest.mark.parametrize(
    ("steps", "period", "slots", "expected"), [(1000, 50, 4, 4440), (1615, 100, 5, 7732)]
)
def test_published_counts(steps, period, slots, expected) -> None:
    assert verified(TwoLevel(steps, period, slots)).forward_steps == expected
    spared = TwoLevel(steps, period, slots, record_in_state=True)
    assert verified(spared).forward_steps == expected - steps


@pytest.mark.parametrize(("record_in_state", "free_start"), FLAGS)
def test_each_period_is_reversed_in_the_fewest_steps(record_in_state, free_start) -> None:
    for steps, period, slots in product(range(1, 25), range(1, 27, 2), range(4)):
        lengths = [min(period, steps - start) for start in range(0, steps, period)]
        expected = steps + sum(oracles.advances(length, slots + 1) for length in lengths)
        schedule = TwoLevel(steps, period, slots, record_in_state, free_start)
        counts = verified(schedule)
        assert counts.forward_steps == expected + (0 if record_in_state else steps)
        assert counts.recorded_steps == (0 if record_in_state else steps)


@settings(deadline=None)
@given(
    case=st.tuples(st.integers(1, 400), st.integers(1, 450), st.integers(0, 20)),
    flags=st.sampled_from(FLAGS),
)
def test_is_legal_and_counted_right(case, flags) -> None:
    verified(TwoLevel(*case, *flags))


def test_a_million_steps_come_lazily() -> None:
    schedule = TwoLevel(10**6, 1000, 5)
    assert len(list(islice(schedule, 5000))) == 5000
    assert schedule.forward_steps < 8 * 10**6


@pytest.mark.parametrize("wrong", [True, 2.0, "2", None, -1])
@pytest.mark.parametrize("name", ["steps", "period", "slots"])
def test_refuses_what_is_not_whole(name, wrong) -> None:
    arguments = {"steps": 9, "period": 3, "slots": 1} | {name: wrong}
    with pytest.raises(InvalidArgument, match=f"{name}={wrong!r}.*write"):
        TwoLevel(**arguments)


def test_refuses_a_period_of_no_step() -> None:
    with pytest.raises(InvalidArgument, match="period=0"):
        TwoLevel(9, 0, 1)


def test_takes_numpy_integers() -> None:
    assert TwoLevel(np.int64(9), np.int32(3), np.uint8(1)) == TwoLevel(9, 3, 1)


def test_shifts_every_kind_of_action() -> None:
    here = [
        Save(0, DISK),
        Advance(0, 2),
        Record(2, 4),
        Forget(2, 3),
        Restore(0, DISK, last=True),
        Drop(1, DISK),
        Reverse(4, 0, keep=True),
        BeginSweep(1),
    ]
    assert list(shifted(here, 10)) == [
        Save(10, DISK),
        Advance(10, 12),
        Record(12, 14),
        Forget(12, 13),
        Restore(10, DISK, last=True),
        Drop(11, DISK),
        Reverse(14, 10, keep=True),
        BeginSweep(1),
    ]
