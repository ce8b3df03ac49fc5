"""Streaming against the recurrence for each period, TwoLevel, its formula for time, and verify."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import islice, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrograd.actions import DISK, MEMORY
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.schedules.revolve import Revolve
from retrograd.schedules.streaming import Streaming, shortest_period
from retrograd.schedules.two_level import TwoLevel
from retrograd.verify import Counts, verify
from tests import oracles

FLAGS = list(product((False, True), repeat=2))
SECONDS = st.integers(1, 10**9).map(lambda n: n * 1e-6)


def verified(schedule: Streaming) -> Counts:
    """The counts of a schedule that keeps to its slots and reads each disk restart once."""
    saved = max(0, -(-schedule.steps // schedule.period) - 1 - schedule.free_start)
    counts = verify(
        schedule,
        steps=schedule.steps,
        record_nbytes=0,
        budgets={MEMORY: schedule.slots, DISK: saved},
        record_in_state=schedule.record_in_state,
        free_start=schedule.free_start,
    )
    assert counts.saves.get(DISK, 0) == counts.restores.get(DISK, 0) == saved
    assert counts.forward_steps == schedule.forward_steps
    return counts


@pytest.mark.parametrize(("record_in_state", "free_start"), FLAGS)
def test_each_period_is_reversed_in_the_fewest_steps(record_in_state, free_start) -> None:
    for steps, period, slots in product(range(1, 25), range(1, 27, 2), range(1, 4)):
        starts = range(0, steps, period)
        expected = starts[-1]
        for start in starts:
            held = slots + (free_start and start == 0)
            expected += oracles.advances(min(period, steps - start), held)
        counts = verified(Streaming(steps, slots, period, record_in_state, free_start))
        assert counts.forward_steps == expected + (1 if record_in_state else steps)
        assert counts.recorded_steps == (1 if record_in_state else steps)


@settings(deadline=None)
@given(
    case=st.tuples(st.integers(1, 400), st.integers(1, 20), st.integers(1, 450)),
    flags=st.sampled_from(FLAGS),
)
def test_is_legal_and_counted_right(case, flags) -> None:
    verified(Streaming(*case, *flags))


@settings(deadline=None)
@given(
    steps=st.integers(1, 10**6),
    slots=st.integers(1, 50),
    period=st.integers(1, 10**6),
    flags=st.sampled_from(FLAGS),
)
def test_runs_fewer_steps_than_two_levels_in_the_same_storage(steps, slots, period, flags) -> None:
    two_level = TwoLevel(steps, period, slots - 1, *flags)
    assert Streaming(steps, slots, period, *flags).forward_steps <= two_level.forward_steps


def test_one_period_is_revolve() -> None:
    assert list(Streaming(50, 3, 50)) == list(Streaming(50, 3, 10**9)) == list(Revolve(50, 3))


def test_periods_of_one_step_need_no_slot() -> None:
    assert verified(Streaming(30, 0, 1)).forward_steps == 29 + 30
    assert verified(Streaming(30, 0, 1, record_in_state=True)).forward_steps == 30
    assert verified(Streaming(6, 0, 5, free_start=True)).forward_steps == 5 + 10 + 6


@pytest.mark.parametrize(("period", "slots"), [(20, 5), (7, 1), (100, 4)])
def test_time_a_step_does_not_grow(period, slots) -> None:
    """T/n → (1 + t(I, s)/I)·T_F + T_B, T_B including a recording forward step."""
    limit = 1 + oracles.advances(period, slots) / period
    for steps in (10**4, 10**6, 10**9):
        schedule = Streaming(steps, slots, period)
        advanced = schedule.forward_steps - steps
        assert advanced / steps == pytest.approx(limit, abs=2 * period / steps)


def test_a_million_steps_come_lazily() -> None:
    assert len(list(islice(Streaming(10**6, 5, 100), 50_000))) == 50_000


@pytest.mark.parametrize(
    ("write", "step", "expected"),
    [(2.0, 1.0, 2), (2.1, 1.0, 3), (0.1, 1.0, 1), (1, 3, 1), (2.0**900, 2.0**-900, 2**1800)],
)
def test_shortest_period_covers_a_write(write, step, expected) -> None:
    assert shortest_period(write_seconds=write, forward_step_seconds=step) == expected


@given(write=SECONDS, step=SECONDS)
def test_shortest_period_is_the_shortest(write, step) -> None:
    period = shortest_period(write_seconds=write, forward_step_seconds=step)
    assert (period - 1) * Fraction(step) < Fraction(write) <= period * Fraction(step)


def test_reads_stall_where_they_take_longer_than_a_period() -> None:
    schedule = Streaming(100, 2, 10)
    hidden = oracles.advances(10, 2) * 2 + 10 * 3

    def stalls(read_seconds) -> bool:
        return schedule.reads_stall(
            read_seconds=read_seconds, forward_step_seconds=2, reverse_step_seconds=3
        )

    assert not stalls(hidden)
    assert stalls(hidden + 1e-9)


def test_nothing_stalls_where_nothing_is_read() -> None:
    seconds = {"read_seconds": 1e9, "forward_step_seconds": 1, "reverse_step_seconds": 1}
    assert not Streaming(10, 2, 10).reads_stall(**seconds)
    assert not Streaming(20, 2, 10, free_start=True).reads_stall(**seconds)
    assert Streaming(20, 2, 10).reads_stall(**seconds)


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf, "3", None, True])
def test_refuses_times_that_are_none(wrong) -> None:
    with pytest.raises(InvalidArgument, match="write_seconds.*write a time"):
        shortest_period(write_seconds=wrong, forward_step_seconds=1.0)
    with pytest.raises(InvalidArgument, match="forward_step_seconds"):
        shortest_period(write_seconds=1.0, forward_step_seconds=wrong)
    for name in ("read_seconds", "forward_step_seconds", "reverse_step_seconds"):
        seconds = {"read_seconds": 1, "forward_step_seconds": 1, "reverse_step_seconds": 1}
        with pytest.raises(InvalidArgument, match=name):
            Streaming(20, 2, 5).reads_stall(**seconds | {name: wrong})


@pytest.mark.parametrize("wrong", [True, 2.0, "2", None, -1])
@pytest.mark.parametrize("name", ["steps", "slots", "period"])
def test_refuses_what_is_not_whole(name, wrong) -> None:
    arguments = {"steps": 9, "slots": 1, "period": 3} | {name: wrong}
    with pytest.raises(InvalidArgument, match=f"{name}={wrong!r}.*write"):
        Streaming(**arguments)


def test_takes_numpy_numbers() -> None:
    assert Streaming(np.int64(9), np.int32(1), np.uint8(3)) == Streaming(9, 1, 3)
    seconds = {"write_seconds": np.float32(2), "forward_step_seconds": np.int64(1)}
    assert shortest_period(**seconds) == 2


@pytest.mark.parametrize("arguments", [(9, 0, 3), (9, 0, 3, True, True), (2, 0, 2)])
def test_refuses_no_slot(arguments) -> None:
    with pytest.raises(BudgetTooSmall, match="slots=1") as caught:
        Streaming(*arguments)
    assert caught.value.smallest_nbytes == 1
