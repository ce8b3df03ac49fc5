"""The memory map: where rows lie, that saved ones are left alone, and that no byte is wasted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from retrograd.actions import DISK, INITIAL, Action, Advance, Drop, Record, Restore, Save
from retrograd.errors import BudgetTooSmall
from retrograd.layout import Field, Layout
from retrograd.placement import Move, Piece, Placement, Span
from retrograd.placement_packed import PackedPlacement
from retrograd.replay import replay_rows
from retrograd.schedules import KeepAll
from tests.counting import LAYOUTS

BYTE = (Field("u", (1,), np.dtype("i1")),)
WAVE = Layout(BYTE, depth=2, record_rows=(0, 1), contiguous=True)
PACKED = Layout(BYTE)
CENTRED = Layout(BYTE, depth=2, record_rows=(1, 2), contiguous=True)


def spans(items: Any) -> list[tuple[int, int, int, int]]:
    """Start, stop and the physical rows of the first state read and of the last row written."""
    return [(i.start, i.stop, i.origin + i.start, i.target + i.stop) for i in items]


def test_keep_all_lays_row_after_row() -> None:
    placement = Placement(WAVE, 12)
    assert spans(placement.record(0, 10)) == [(0, 10, 0, 10)]
    assert list(placement.reverse(10, 0)) == [Piece(10, 0, 0, 0)]
    assert placement.peak_nbytes == 12


def test_saving_and_going_on_copies_nothing() -> None:
    placement = Placement(WAVE, 100)
    assert list(placement.save(0)) == []
    assert spans(placement.advance(0, 6)) == [(0, 6, 0, 6)]
    assert list(placement.restore(0, last=True)) == []
    assert spans(placement.advance(0, 3)) == [(0, 3, 0, 3)]


def test_live_rows_come_down_to_the_stack_before_they_are_saved() -> None:
    placement = Placement(WAVE, 100)
    list(placement.save(0))
    list(placement.advance(0, 6))
    assert list(placement.save(6)) == [Move(6, 2, 2)]
    assert spans(placement.advance(6, 7)) == [(6, 7, 2, 3)]


def test_an_advance_slides_through_the_rows_there_are() -> None:
    placement = Placement(WAVE, 6)
    list(placement.save(0))
    moved = list(placement.advance(0, 7))
    assert [m for m in moved if isinstance(m, Move)] == [Move(4, 2, 2), Move(4, 2, 2)]
    assert spans(m for m in moved if isinstance(m, Span)) == [
        (0, 4, 0, 4),
        (4, 6, 2, 4),
        (6, 7, 2, 3),
    ]


def test_an_advance_that_cannot_slide_says_what_it_needs() -> None:
    placement = Placement(WAVE, 2)
    list(placement.save(0))
    with pytest.raises(BudgetTooSmall, match="arena of 2 bytes: give at least 3") as caught:
        list(placement.advance(0, 1))
    assert caught.value.smallest_nbytes == 3


def test_a_packed_advance_needs_its_last_row_only() -> None:
    placement = PackedPlacement(PACKED, 2 * PACKED.row_nbytes)
    list(placement.save(0))
    assert spans(placement.advance(0, 1000)) == [(0, 1000, 0, 1)]
    assert placement.peak_nbytes == 2 * PACKED.row_nbytes


def test_rows_that_the_first_record_does_not_read_are_not_kept() -> None:
    placement = Placement(CENTRED, 100)
    list(placement.save(0))
    list(placement.advance(0, 10))
    ahead, move, rest = placement.record(10, 15)
    assert spans([ahead]) == [(10, 11, 10, 11)]
    assert move == Move(11, 2, 2)
    assert spans([rest]) == [(11, 15, 2, 6)]
    assert list(placement.reverse(15, 10)) == [Piece(15, 10, 2 - 11, 0)]


def test_an_older_restart_is_not_continued_over_the_rows_above_it() -> None:
    placement = Placement(WAVE, 100)
    list(placement.save(0))
    list(placement.advance(0, 5))
    list(placement.save(5))
    assert list(placement.restore(0, last=False)) == [Move(0, 4, 2)]
    assert spans(placement.advance(0, 3)) == [(0, 3, 4, 7)]


def test_packed_rows_that_are_given_up_are_used_again() -> None:
    """A sliding window of three records, and a restart given up from under them."""
    placement = PackedPlacement(PACKED, 5 * PACKED.row_nbytes)
    list(placement.save(0))
    list(placement.record(0, 3))
    placement.drop(0)
    for step in range(3, 50):
        placement.forget(step - 3, step - 2)
        list(placement.record(step, step + 1))
    assert placement.peak_nbytes == 4 * PACKED.row_nbytes
    assert next(placement.reverse(50, 47)).stop == 50


def test_a_packed_restart_is_gone_on_from_without_writing_what_is_kept() -> None:
    placement = PackedPlacement(PACKED, 10 * PACKED.row_nbytes)
    list(placement.save(0))
    list(placement.record(0, 3))
    assert list(placement.restore(0, last=False)) == []
    assert spans(placement.advance(0, 2)) == [(0, 2, 0, 3)]  # rows 0, 1 and 2 are records


def test_the_top_restart_is_continued_where_it_lies() -> None:
    placement = Placement(WAVE, 100)
    list(placement.save(0))
    list(placement.advance(0, 5))
    list(placement.save(5))
    list(placement.record(5, 8))
    list(placement.reverse(8, 5))
    assert list(placement.restore(5, last=False)) == []
    placement.drop(5)
    assert list(placement.restore(0, last=True)) == []


def test_records_are_given_up_at_either_end_and_in_the_middle() -> None:
    placement = Placement(WAVE, 100)
    list(placement.record(0, 10))
    for start, stop in ((9, 10), (0, 1), (4, 6)):
        placement.forget(start, stop)
    assert list(placement.reverse(9, 6)) == [Piece(9, 6, 0, 0)]
    assert list(placement.reverse(4, 1)) == [Piece(4, 1, 0, 0)]


def test_records_that_lie_apart_are_reversed_in_pieces() -> None:
    placement = Placement(WAVE, 100)
    list(placement.record(0, 3))
    list(placement.save(3))
    list(placement.advance(3, 6))
    list(placement.restore(3, last=False))
    list(placement.record(3, 5))
    list(placement.advance(5, 7))
    list(placement.record(7, 9))
    pieces = list(placement.reverse(9, 7)) + list(placement.reverse(5, 0))
    # Rows 5 and 6 are dead once step 7 is recorded, and its rows come down by two.
    assert pieces == [Piece(9, 7, -2, 0), Piece(5, 0, 0, 0)]


def test_a_record_in_the_live_state_is_found_there() -> None:
    placement = Placement(WAVE, 100)
    list(placement.record(0, 3))
    assert list(placement.reverse(4, 0)) == [Piece(4, 0, 0, 0)]


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_keep_all_takes_its_records_and_the_live_rows(name: str, steps: int) -> None:
    layout = LAYOUTS[name]
    nbytes = layout.live_nbytes + (steps - 1) * layout.record_nbytes
    assert replay_rows(KeepAll(steps), layout, nbytes).peak_nbytes == nbytes
    # Where memory is tight, the rows below the first record make room once they have been read.
    unread = layout.record_rows[0] * layout.row_nbytes if steps > layout.record_rows[0] else 0
    assert replay_rows(KeepAll(steps), layout, nbytes - unread).peak_nbytes == nbytes - unread
    with pytest.raises(BudgetTooSmall):
        replay_rows(KeepAll(steps), layout, nbytes - unread - 1)


def test_record_only_rows_take_the_rest_of_the_same_bytes() -> None:
    layout = Layout(BYTE, records=(Field("r", (200,), np.dtype("i1")),))
    assert (layout.row_nbytes, layout.record_row_nbytes) == (64, 256)
    actions: list[Action] = [Save(0), Advance(0, 5), Save(5), Record(5, 8)]
    # Two restarts and the live state below, three records from the far end.
    assert replay_rows(actions, layout, 10**6).peak_nbytes == 3 * 64 + 3 * 256


@pytest.mark.parametrize(
    ("actions", "rows"),
    [
        ([Save(0, DISK), Advance(0, 1), Save(1, DISK), Drop(0, DISK)], 3),
        ([Save(0, DISK), Advance(0, 5), Restore(0, DISK)], 7),
        ([Advance(0, 5), Restore(0, INITIAL), Record(0, 3)], 7),
    ],
)
def test_other_tiers_take_no_rows(actions: list[Action], rows: int) -> None:
    assert replay_rows(actions, WAVE, 10**6).peak_nbytes == rows
