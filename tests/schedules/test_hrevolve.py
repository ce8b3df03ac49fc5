"""H-Revolve against published costs, the plain recurrence, and a search of all sequences."""

from __future__ import annotations

import heapq
import math
import pickle
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrograd.actions import INITIAL
from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.schedules.hrevolve import HRevolve, TierSlots
from retrograd.schedules.keep_all import KeepAll
from retrograd.schedules.multistage import Multistage
from retrograd.schedules.revolve import Revolve
from retrograd.schedules.tier_table import MOST_CELLS, TierTable
from retrograd.verify import Counts, verify

FLAGS = list(product((False, True), repeat=2))
IMPOSSIBLE = 2.0**60

Tiers = tuple[tuple[int, float, float], ...]
"""Slots, write and read costs of each tier."""


def make(tiers: Tiers) -> tuple[TierSlots, ...]:
    return tuple(TierSlots(f"tier {k}", *tier) for k, tier in enumerate(tiers))


def recurrence(steps: int, tiers: Tiers, below: list[float] | None = None) -> list[float]:
    """Opt of Herrmann & Pallez for 0, 1, … steps, all splits tried, steps that record left out."""
    best = np.array(below or [0, 0] + [IMPOSSIBLE] * (steps - 1), dtype=float)
    for slots, write, read in tiers:
        lower = fresh = best
        for _ in range(slots):
            held = lower.copy()
            for n in range(2, steps + 1):
                splits = np.arange(1, n) + held[1:n] + fresh[n - 1 : 0 : -1]
                held[n] = min(lower[n], read + splits.min())
            fresh = np.minimum(lower, write + held)
        best = fresh
    return best.tolist()


def least_cost(steps: int, tiers: Tiers, *, free: bool) -> float:
    """A free start is a tier of one slot that is not paid for."""
    return recurrence(steps, (*tiers, (1, 0, 0)) if free else tiers)[steps]


def search(steps: int, tiers: Tiers, *, free: bool) -> float:
    """The least cost of all sequences of saves, restores and advances: Dijkstra's algorithm.

    Where a tier is full, a save overwrites any of its restarts. Live is −1 after a turn.
    """
    begin = (0, steps, (frozenset[int](),) * len(tiers))
    least = {begin: 0.0}
    queue = [(0.0, 0, begin)]
    while queue:
        cost, _, here = heapq.heappop(queue)
        if here[1] == 0:
            return cost
        if cost > least[here]:
            continue
        for further, there in moves(here, tiers, free=free):
            if cost + further < least.get(there, math.inf):
                least[there] = cost + further
                heapq.heappush(queue, (cost + further, len(least), there))
    raise AssertionError("no sequence at all")


State = tuple[int, int, tuple[frozenset[int], ...]]


def moves(here: State, tiers: Tiers, *, free: bool) -> Iterator[tuple[float, State]]:
    live, adjoint, held = here
    if live == adjoint - 1:
        yield 0, (-1, live, tuple(tier - {live} for tier in held))
    elif live >= 0:
        yield 1, (live + 1, adjoint, held)
    if free:
        yield 0, (0, adjoint, held)
    for k, (slots, write, read) in enumerate(tiers):
        for step in held[k]:
            yield read, (step, adjoint, held)
        if live >= 0 and slots and live not in held[k]:
            full = len(held[k]) == slots
            for kept in [held[k] - {step} for step in held[k]] if full else [held[k]]:
                yield write, (live, adjoint, (*held[:k], kept | {live}, *held[k + 1 :]))


def replay(schedule: HRevolve) -> Counts:
    return verify(
        schedule,
        steps=schedule.steps,
        record_nbytes=0,
        budgets={tier.tier: tier.slots for tier in schedule.tiers},
        record_in_state=schedule.record_in_state,
        free_start=schedule.free_start,
    )


def counted_cost(counts: Counts, tiers: tuple[TierSlots, ...]) -> float:
    terms: list[float] = [counts.forward_steps]
    for tier in tiers:
        terms.append(tier.write_cost * counts.saves.get(tier.tier, 0))
        terms.append(tier.read_cost * counts.restores.get(tier.tier, 0))
    return math.fsum(terms)


def test_published_costs() -> None:
    published = {
        (8, 1, 1): (23.5, 25, 28, 34),
        (8, 2, 1): (20, 21, 22, 22),
        (10, 2, 2): (26, 28, 30, 30),
    }
    for (steps, memory, disk), costs in published.items():
        for transfer, expected in zip((0.5, 1, 2, 5), costs, strict=True):
            tiers = make(((memory, 0, 0), (disk, transfer, transfer)))
            assert HRevolve(steps, tiers).cost == expected
            assert HRevolve(steps, tiers, record_in_state=True).cost == expected - steps + 1


@st.composite
def problems(draw, most_steps: int, most_slots: int, most_tiers: int) -> tuple[int, Tiers, bool]:
    """Dyadic costs, which are exact, rising from tier to tier; some tiers have no slot."""
    number = draw(st.integers(1, most_tiers))
    costs = st.sampled_from([0, 0, 0.25, 0.5, 1, 1.5, 2, 3, 5, 8, 100])
    rising = st.lists(costs, min_size=number, max_size=number).map(sorted)
    slots = draw(st.lists(st.integers(0, most_slots), min_size=number, max_size=number))
    free = draw(st.booleans())
    if not sum(slots) + free:
        slots[0] = 1
    tiers = tuple(zip(slots, draw(rising), draw(rising), strict=True))
    return draw(st.integers(1, most_steps)), tiers, free


@settings(deadline=None, max_examples=60)
@given(problem=problems(6, 3, 3))
def test_no_sequence_of_actions_costs_less(problem) -> None:
    steps, tiers, free = problem
    found = search(steps, tiers, free=free)
    assert HRevolve(steps, make(tiers), free_start=free).cost == found + steps


@pytest.mark.parametrize(
    "tiers",
    [
        ((1, 0, 0), (1, 0.5, 0.5)),
        ((1, 0.25, 0.5), (2, 0.5, 1)),
        ((1, 0, 1), (1, 0, 2), (1, 0.25, 2)),
    ],
)
def test_no_sequence_of_actions_costs_less_at_eight_steps(tiers) -> None:
    assert HRevolve(8, make(tiers)).cost == search(8, tiers, free=False) + 8


@settings(deadline=None, max_examples=100)
@given(problem=problems(60, 9, 4), record_in_state=st.booleans())
def test_costs_what_the_recurrence_says_and_what_its_actions_cost(problem, record_in_state) -> None:
    steps, tiers, free = problem
    schedule = HRevolve(steps, make(tiers), record_in_state, free)
    counts = replay(schedule)
    recording = 1 if record_in_state else steps
    assert schedule.cost == least_cost(steps, tiers, free=free) + recording
    assert schedule.cost == counted_cost(counts, schedule.tiers)
    assert schedule.forward_steps == counts.forward_steps
    assert not any(counts.drops.values())
    assert sum(counts.restores.values()) == steps - 1


@pytest.mark.parametrize(
    "tiers",
    [
        ((10, 0, 0), (40, 2, 2)),
        ((1, 0, 0), (30, 3, 1)),
        ((5, 0.125, 0.25), (10, 2, 3.5), (20, 5, 6.75)),
    ],
)
def test_costs_what_the_recurrence_says_at_length(tiers) -> None:
    assert HRevolve(300, make(tiers)).cost == least_cost(300, tiers, free=False) + 300


def test_a_long_run() -> None:
    schedule = HRevolve(1615, make(((20, 0, 0), (200, 2, 2))))
    assert schedule.cost == counted_cost(replay(schedule), schedule.tiers) == 5021


@settings(deadline=None, max_examples=30)
@given(
    steps=st.integers(1, 120),
    costs=st.lists(st.integers(0, 3000).map(lambda n: n / 97), min_size=4, max_size=4).map(sorted),
    slots=st.tuples(st.integers(0, 4), st.integers(1, 8)),
)
def test_costs_that_are_no_round_numbers(steps, costs, slots) -> None:
    tiers = (slots[0], costs[0], costs[1]), (slots[1], costs[2], costs[3])
    schedule = HRevolve(steps, make(tiers))
    assert schedule.cost == counted_cost(replay(schedule), schedule.tiers)
    found = least_cost(steps, tiers, free=False) + steps
    assert schedule.cost == pytest.approx(found, rel=1e-9, abs=1e-6)


@settings(deadline=None, max_examples=60)
@given(
    curve=st.lists(st.integers(0, 60), min_size=1, max_size=40),
    transfers=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    slots=st.integers(1, 5),
)
def test_the_table_needs_no_convex_curve(curve, transfers, slots) -> None:
    """On curves that bend both ways everywhere, all splits tried is the same."""
    below = [0, *curve]
    table = TierTable("disk", slots, transfers, np.array(below, dtype=float))
    assert table.top[1:].tolist() == recurrence(len(curve), ((slots, *transfers),), below)[1:]


@settings(deadline=None, max_examples=40)
@given(
    curve=st.lists(st.integers(0, 60), min_size=1, max_size=30),
    transfers=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_any_number_of_slots_is_as_many_as_steps(curve, transfers) -> None:
    below = np.array([0, *curve], dtype=float)
    unlimited = TierTable("disk", None, transfers, below)
    assert unlimited.top.tolist() == TierTable("disk", len(curve), transfers, below).top.tolist()


@pytest.mark.parametrize(("record_in_state", "free_start"), FLAGS)
def test_is_revolve_where_transfers_cost_nothing(record_in_state, free_start) -> None:
    for steps, slots in product((1, 2, 3, 17, 60), (1, 2, 5, 20)):
        for tiers in (((slots, 0, 0),), ((slots - 1, 0, 0), (1, 0, 0))):
            schedule = HRevolve(steps, make(tiers), record_in_state, free_start)
            revolve = Revolve(steps, slots, record_in_state, free_start)
            assert schedule.cost == schedule.forward_steps == revolve.forward_steps


@pytest.mark.parametrize("transfer", [0, 0.5, 4, 20])
def test_costs_no_more_than_multistage(transfer) -> None:
    tiers = TierSlots("memory", 3), TierSlots("disk", 3, transfer, transfer)
    for steps in (10, 50, 100):
        counts = verify(Multistage(steps, 3, 3), steps=steps)
        assert HRevolve(steps, tiers).cost <= counted_cost(counts, tiers)


@settings(deadline=None, max_examples=60)
@given(problem=problems(60, 6, 3), data=st.data())
def test_more_room_or_cheaper_transfers_never_cost_more(problem, data) -> None:
    steps, tiers, free = problem
    cost = HRevolve(steps, make(tiers), free_start=free).cost
    assert HRevolve(steps, make(tiers), free_start=True).cost <= cost
    k = data.draw(st.integers(0, len(tiers) - 1))
    slots, write, read = tiers[k]
    roomier = (*tiers[:k], (slots + 1, write, read), *tiers[k + 1 :])
    cheaper = ((tiers[0][0], 0, 0), *tiers[1:])
    for better in (roomier, cheaper):
        assert HRevolve(steps, make(better), free_start=free).cost <= cost


def test_slots_beyond_use_change_nothing() -> None:
    many = make(((10**9, 0.5, 0.5), (10**9, 1, 1)))
    assert list(HRevolve(20, many)) == list(HRevolve(20, make(((19, 0.5, 0.5), (19, 1, 1)))))
    assert list(HRevolve(1, many)) == list(HRevolve(1, ())) == list(KeepAll(1))


def test_tiers_without_slots_change_nothing() -> None:
    tiers = TierSlots("a", 0), TierSlots("b", 2), TierSlots("c", 0, 1, 1), TierSlots("d", 3, 2, 2)
    assert list(HRevolve(40, tiers)) == list(HRevolve(40, (tiers[1], tiers[3])))


def test_a_free_start_is_enough() -> None:
    assert HRevolve(50, (), free_start=True).forward_steps == 50 * 51 // 2
    nothing = HRevolve(50, (TierSlots("memory", 0),), True, True)
    assert replay(nothing).restores == {INITIAL: 49}


TIERS = (TierSlots("memory", 2), TierSlots("disk", 3, 1.5, 1))


@pytest.mark.parametrize("flags", FLAGS)
def test_is_a_value(flags) -> None:
    schedule = HRevolve(30, TIERS, *flags)
    again = eval(repr(schedule))
    assert again == schedule
    assert hash(again) == hash(schedule)
    assert list(again) == list(schedule) == list(schedule)
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert len(pickle.dumps(schedule)) < 400
    assert schedule != HRevolve(31, TIERS, *flags)
    assert schedule != HRevolve(30, TIERS[:1], *flags)
    with pytest.raises(AttributeError):
        schedule.steps = 3


def test_takes_numpy_numbers_and_lists_and_keeps_plain_ones() -> None:
    tier = TierSlots("disk", np.int64(3), np.float32(1.5), np.int64(1))
    assert tier == TIERS[1]
    assert repr(tier) == repr(TIERS[1])
    assert repr(HRevolve(np.int32(30), [TIERS[0], tier])) == repr(HRevolve(30, TIERS))


@pytest.mark.parametrize("wrong", [True, 2.0, "2", None, -1, [3]], ids=repr)
def test_refuses_what_is_not_whole(wrong) -> None:
    with pytest.raises(InvalidArgument, match="steps=.*write"):
        HRevolve(wrong, TIERS)
    with pytest.raises(InvalidArgument, match="slots=.*write"):
        TierSlots("disk", wrong)


@pytest.mark.parametrize("name", ["write_cost", "read_cost"])
@pytest.mark.parametrize("wrong", [-1, -0.5, math.nan, math.inf, -math.inf, "1", None, True, 1j])
def test_refuses_costs_that_are_none(name, wrong) -> None:
    with pytest.raises(InvalidArgument, match=f"{name}=.*write the transfer's time"):
        TierSlots("disk", 2, **{name: wrong})


def test_refuses_transfers_that_nobody_wants() -> None:
    assert TierSlots("disk", 2, 10**6).write_cost == 10**6
    with pytest.raises(InvalidArgument, match="leave its tier out"):
        TierSlots("disk", 2, 1e300)


@pytest.mark.parametrize("wrong", ["", INITIAL, None, 3], ids=repr)
def test_refuses_what_names_no_tier(wrong) -> None:
    with pytest.raises(InvalidArgument, match="write a string"):
        TierSlots(wrong, 2)


@pytest.mark.parametrize("wrong", [None, 3, TIERS[0], "memory", (("memory", 3),)], ids=repr)
def test_refuses_what_is_no_tuple_of_tiers(wrong) -> None:
    with pytest.raises(InvalidArgument, match="write tiers="):
        HRevolve(9, wrong)


def test_refuses_two_tiers_of_one_name() -> None:
    with pytest.raises(InvalidArgument, match="two tiers are named 'memory'"):
        HRevolve(9, (TIERS[0], TierSlots("memory", 3)))


@pytest.mark.parametrize("costs", [(0.5, 2), (2, 0.5), (0.5, 0.5)], ids=repr)
def test_refuses_tiers_that_are_out_of_order(costs) -> None:
    tiers = TierSlots("memory", 2), TierSlots("host", 2, 1, 1), TierSlots("disk", 3, *costs)
    with pytest.raises(InvalidArgument, match="'disk' comes after 'host'.*fastest tier first"):
        HRevolve(9, tiers)


def test_tiers_out_of_order_would_not_be_searched_in_full() -> None:
    tiers = (1, 0, 5), (1, 0, 0)
    assert search(7, tiers, free=False) < least_cost(7, tiers, free=False)


@pytest.mark.parametrize("name", ["record_in_state", "free_start"])
@pytest.mark.parametrize("wrong", [1, None, "yes", np.bool_(True)], ids=repr)
def test_refuses_flags_that_are_not_bool(name, wrong) -> None:
    with pytest.raises(InvalidArgument, match=name):
        HRevolve(9, TIERS, **{name: wrong})


def test_names_what_is_missing() -> None:
    with pytest.raises(BudgetTooSmall, match="slots=1") as caught:
        HRevolve(2, (TierSlots("memory", 0), TierSlots("disk", 0)))
    assert caught.value.smallest_nbytes == 1
    with pytest.raises(InvalidArgument, match="PeriodicDiskRevolve or Multistage"):
        HRevolve(MOST_CELLS // 2 + 1, (TierSlots("memory", 2),))
