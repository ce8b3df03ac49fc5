"""Revolve against Griewank & Walther's recurrence, a replay, and sizes beyond both."""

from __future__ import annotations

import time
import tracemalloc
from itertools import islice, product
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrograd.schedules import KeepAll, Revolve
from retrograd.schedules.revolve import advances, repetition
from retrograd.verify import verify
from tests import oracles

FLAGS = list(product((False, True), repeat=2))


@pytest.mark.parametrize(
    ("steps", "slots", "expected"), [(14, 3, 27), (13465, 116, 33374), (225, 15, 522)]
)
def test_published_counts(steps, slots, expected) -> None:
    assert advances(steps, slots) == expected
    assert Revolve(steps, slots).forward_steps == expected + steps
    assert Revolve(steps, slots, record_in_state=True).forward_steps == expected + 1


@pytest.mark.parametrize(("slots", "total"), [(10, 6710), (20, 4592), (50, 3467), (200, 3028)])
def test_counts_at_1615_steps(slots, total) -> None:
    assert advances(1615, slots) == total


def test_counts_of_the_table() -> None:
    cases = oracles.published()["revolve_t"]
    assert len(cases) > 100
    for case in cases:
        total = Revolve(case["l"], case["s"], record_in_state=True).forward_steps
        assert total == case["t"] + 1, case


def test_formula_is_the_recurrence() -> None:
    for length, slots in product(range(1, 70), range(1, 9)):
        assert advances(length, slots) == oracles.advances(length, slots)


@pytest.mark.parametrize(("record_in_state", "free_start"), FLAGS)
def test_runs_what_the_formula_counts(record_in_state, free_start) -> None:
    for steps, slots in product(range(1, 45), range(1, 9)):
        schedule = Revolve(steps, slots, record_in_state, free_start)
        seen = oracles.replay(schedule, steps, record=0, spared=record_in_state, free=free_start)
        advanced = oracles.advances(steps, slots + free_start)
        assert seen.forward_steps == advanced + (1 if record_in_state else steps)
        assert seen.forward_steps == schedule.forward_steps
        assert seen.peak_units <= slots
        assert seen.kinds["Restore"] == steps - 1
        assert seen.kinds["Drop"] == 0


@settings(deadline=None)
@given(steps=st.integers(1, 400), slots=st.integers(1, 60), flags=st.sampled_from(FLAGS))
def test_is_legal(steps, slots, flags) -> None:
    record_in_state, free_start = flags
    counts = verify(
        Revolve(steps, slots, record_in_state, free_start),
        steps=steps,
        restart_nbytes=1,
        record_nbytes=0,
        budgets={"memory": slots},
        record_in_state=record_in_state,
        free_start=free_start,
    )
    assert counts.forward_steps == Revolve(steps, slots, *flags).forward_steps


@settings(deadline=None)
@given(steps=st.integers(1, 10**30), slots=st.integers(1, 200))
def test_repetition_is_the_least_that_reaches(steps, slots) -> None:
    slots = max(2, slots)
    sweeps, reach = repetition(steps, slots)
    assert reach == comb(slots + sweeps, slots) >= steps
    assert sweeps == 0 or comb(slots + sweeps - 1, slots) < steps


@settings(deadline=None)
@given(steps=st.integers(1, 10**12), slots=st.integers(1, 500), flags=st.sampled_from(FLAGS))
def test_more_slots_never_run_more_steps(steps, slots, flags) -> None:
    more = Revolve(steps, slots + 1, *flags).forward_steps
    assert more <= Revolve(steps, slots, *flags).forward_steps


def test_slots_beyond_use_change_nothing() -> None:
    assert list(Revolve(20, 10**9)) == list(Revolve(20, 19))
    assert Revolve(20, 10**9).forward_steps == 19 + 20
    assert list(Revolve(1, 5)) == list(Revolve(1, 0)) == list(KeepAll(1))


def test_one_free_state_is_enough() -> None:
    schedule = Revolve(50, 0, record_in_state=True, free_start=True)
    assert schedule.forward_steps == 50 * 49 // 2 + 1
    assert oracles.replay(schedule, 50, spared=True, free=True).peak_units <= 1


def test_a_million_steps_come_lazily() -> None:
    tracemalloc.start()
    begin = time.perf_counter()
    actions = sum(1 for _ in islice(Revolve(10**6, 50), 200_000))
    seconds = time.perf_counter() - begin
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert actions == 200_000
    assert seconds < 10  # a tenth of that without tracemalloc
    assert peak < 100_000


@pytest.mark.slow
def test_a_million_steps_to_the_end() -> None:
    begin = time.perf_counter()
    actions = sum(1 for _ in Revolve(10**6, 50))
    assert actions / (time.perf_counter() - begin) > 300_000


def test_any_size() -> None:
    assert len(list(islice(Revolve(10**40, 1000), 5000))) == 5000
    assert Revolve(10**40, 1000).forward_steps > 10**40
