"""What all schedules have in common: they are values, and say what is wrong with an argument."""

from __future__ import annotations

import pickle
from itertools import islice

import numpy as np
import pytest

from retrograd.errors import BudgetTooSmall, InvalidArgument
from retrograd.layout import StateRows
from retrograd.schedules import (
    Blocks,
    DiskRevolve,
    HRevolve,
    KeepAll,
    Levels,
    Mixed,
    Multistage,
    PeriodicDiskRevolve,
    Revolve,
    Streaming,
    Sweeps,
    TieredMixed,
    TierSlots,
    TwoLevel,
)
from retrograd.testing import check_schedule

VALUES = [
    KeepAll(7),
    Blocks(40, 6, 3),
    Revolve(30, 3),
    Revolve(30, 3, record_in_state=True, free_start=True),
    Revolve(1, 0),
    Mixed(40, 2, 1, 7),
    Mixed(40, 3, 2, 11, record_in_state=True, free_start=True),
    Mixed(40, 1, 2, 4, record_in_state=True),
    Mixed(10, 2, 1, 1, free_start=True),
    Mixed(30_000, 2, 1, 99),
    Levels(40, 2, 1, 9),
    Levels(40, 1, 0, 5, free_start=True),
    Multistage(40, 2, 3),
    HRevolve(40, (TierSlots("memory", 2), TierSlots("disk", 3, 1.5, 1.0)), True),
    DiskRevolve(40, 3, 1.5, 2.0),
    PeriodicDiskRevolve(40, 3, 1.5, 2.0, free_start=True),
    TwoLevel(40, 7, 2),
    Streaming(40, 2, 6),
    TieredMixed(40, 2, 1, 7, 3, 1.5, 2.0),
    Sweeps(40, 2, 1, 12, 3),
]

NOT_WHOLE = [True, 2.0, "2", None, -1, [3], np.float64(2)]


@pytest.mark.parametrize("schedule", VALUES, ids=repr)
def test_is_a_value(schedule) -> None:
    again = eval(repr(schedule))
    assert again == schedule
    assert again is not schedule
    assert hash(again) == hash(schedule)
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    with pytest.raises(AttributeError):
        schedule.steps = 3


@pytest.mark.parametrize("schedule", VALUES, ids=repr)
def test_is_legal_and_runs_what_it_claims(schedule) -> None:
    is_rows = isinstance(schedule, Levels)
    check_schedule(
        schedule,
        steps=schedule.steps,
        restart_nbytes=getattr(schedule, "restart_units", 1),
        record_nbytes=getattr(schedule, "record_units", 1),
        record_in_state=getattr(schedule, "record_in_state", False),
        free_start=getattr(schedule, "free_start", False),
        state_rows=StateRows(schedule.depth, schedule.record_row) if is_rows else None,
    )


@pytest.mark.parametrize("schedule", VALUES, ids=repr)
def test_gives_the_same_actions_each_time(schedule) -> None:
    first, second = iter(schedule), iter(schedule)
    begin = list(islice(first, 5))
    assert list(second) == begin + list(first) == list(schedule)


def test_pickles_no_table() -> None:
    schedule = Mixed(2000, 2, 1, 50)
    list(schedule)
    assert len(pickle.dumps(schedule)) < 200


def test_differs_by_any_argument() -> None:
    assert len(set(VALUES)) == len(VALUES)
    assert Mixed(40, 2, 1, 7) != Mixed(40, 2, 1, 8)
    assert Revolve(5, 1) != Mixed(5, 1, 1, 1)


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_takes_numpy_integers_and_keeps_python_ones(kind) -> None:
    for schedule in (
        KeepAll(kind(40)),
        Revolve(kind(40), kind(3)),
        Mixed(*map(kind, [40, 2, 1, 7])),
    ):
        plain = type(schedule)(*(int(getattr(schedule, name)) for name in _numbers(schedule)))
        assert schedule == plain
        assert list(schedule) == list(plain)
        assert all(type(getattr(schedule, name)) is int for name in _numbers(schedule))


@pytest.mark.parametrize("wrong", NOT_WHOLE, ids=repr)
@pytest.mark.parametrize("valid", [KeepAll(9), Revolve(9, 2), Mixed(9, 2, 1, 4)], ids=repr)
def test_refuses_what_is_not_whole(valid, wrong) -> None:
    for name in _numbers(valid):
        arguments = {other: getattr(valid, other) for other in _numbers(valid)}
        with pytest.raises(InvalidArgument, match=name) as caught:
            type(valid)(**arguments | {name: wrong})
        assert repr(wrong) in str(caught.value)
        assert "write" in str(caught.value)


@pytest.mark.parametrize("name", ["record_in_state", "free_start"])
@pytest.mark.parametrize("wrong", [1, 0, None, "yes", np.bool_(True)], ids=repr)
def test_refuses_flags_that_are_not_bool(name, wrong) -> None:
    with pytest.raises(InvalidArgument, match=name):
        Revolve(9, 2, **{name: wrong})
    with pytest.raises(InvalidArgument, match=name):
        Mixed(9, 2, 1, 4, **{name: wrong})


@pytest.mark.parametrize(
    "make",
    [
        lambda: KeepAll(0),
        lambda: Revolve(0, 3),
        lambda: Mixed(0, 2, 1, 4),
        lambda: Mixed(9, 0, 1, 4),
        lambda: Mixed(9, 2, 0, 4),
    ],
)
def test_refuses_zero_where_one_is_the_least(make) -> None:
    with pytest.raises(InvalidArgument, match="at least 1"):
        make()


@pytest.mark.parametrize(
    ("make", "smallest"),
    [
        (lambda: Revolve(2, 0), 1),
        (lambda: Revolve(100, 0), 1),
        (lambda: Mixed(100, 2, 1, 1), 2),
        (lambda: Mixed(100, 20, 7, 19), 20),
        (lambda: Mixed(3, 5, 2, 3), 4),
        (lambda: Mixed(100, 5, 2, 0), 5),
    ],
)
def test_names_the_smallest_budget(make, smallest) -> None:
    with pytest.raises(BudgetTooSmall) as caught:
        make()
    assert caught.value.smallest_nbytes == smallest
    assert f"={smallest}" in str(caught.value)


def _numbers(schedule) -> list[str]:
    return [name for name in schedule.__slots__ if name not in ("record_in_state", "free_start")]
