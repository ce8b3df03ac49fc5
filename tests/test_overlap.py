"""What transfers add to a schedule's seconds, by hand and against a simulation in small steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
from retrograd.cost import Costs
from retrograd.demand import Demand
from retrograd.overlap import Traffic, largest_item_nbytes, standstill, traffic
from retrograd.schedules import Blocks

DEMAND = Demand(steps=8, restart_nbytes=10, record_nbytes=4)
COSTS = Costs(1.0, 2.0, copy_rate=100.0, write_rate=5.0, read_rate=2.5)
"""A restart is copied in 0.1 s, written in 2 s and read in 4 s."""

AWAY = [Save(0, DISK), Advance(0, 4), Save(4, DISK), Record(4, 8), Reverse(8, 4)]
BACK = [Restore(0, DISK, last=True), Drop(4, DISK), Record(0, 4), Reverse(4, 0)]


def test_without_buffers_each_transfer_is_waited_for() -> None:
    assert standstill([*AWAY, *BACK], DEMAND, COSTS) == 2 + 2 + 4
    records = [Record(0, 3, DISK), Record(3, 8), Reverse(8, 3), Load(0, 3, DISK), Reverse(3, 0)]
    assert standstill(records, DEMAND, COSTS) == 12 / 5 + 12 / 2.5
    assert standstill([Save(0), Restore(0), Restore(0, INITIAL)], DEMAND, COSTS) == 0


def buffered(buffers: int) -> Demand:
    return Demand(8, 10, 4, buffers=buffers).with_room_for(10)


def test_in_the_background_only_copies_are_waited_for() -> None:
    # Both are written while steps run, and the first is read while the last four are reversed.
    assert standstill([*AWAY, *BACK], buffered(2), COSTS) == pytest.approx(0.3)


def test_a_full_buffer_is_waited_for() -> None:
    actions: list[Action] = [Save(0, DISK), Advance(0, 1), Save(1, DISK), Advance(1, 2)]
    actions += [Save(2, DISK)]
    # Written from 0.1 to 2.1 and to 4.1; the third finds a buffer free at 2.1, not at 2.2.
    assert standstill(actions, buffered(2), COSTS) == pytest.approx(0.3)
    # With one buffer the second waits until 2.1 and the third until 4.2.
    assert standstill(actions, buffered(1), COSTS) == pytest.approx(4.2 + 0.1 - 2)


def test_a_slow_disk_is_waited_for() -> None:
    slow = Costs(1.0, 2.0, copy_rate=100.0, write_rate=5.0, read_rate=0.5)
    # Read from 2.1, when it is written, until 22.1; the steps above it are reversed at 16.2.
    waited = standstill([*AWAY, *BACK], buffered(2), slow)
    assert waited == pytest.approx(0.2 + (22.1 - 16.2) + 0.1)


def test_what_was_read_ahead_gives_way_to_a_write() -> None:
    actions = [*AWAY, Restore(4, DISK), Save(5, DISK), *BACK]
    with_two = standstill(actions, buffered(2), COSTS)
    assert with_two >= standstill(actions, buffered(3), COSTS) > 0


def test_more_buffers_never_take_longer() -> None:
    for block in (1, 2, 3, 5):
        for kept in range(0, (40 - 1) // block + 1, 3):
            demand = Demand(40, 10, 4, buffers=1)
            times = [
                round(standstill(Blocks(40, block, kept), replace(demand, buffers=n), COSTS), 9)
                for n in (1, 2, 3, 8)
            ]
            assert times == sorted(times, reverse=True)


def test_traffic_is_what_is_written_and_read() -> None:
    assert traffic([*AWAY, *BACK], DEMAND) == Traffic(30, 20)
    records = [Record(0, 3, DISK), Save(3, DISK), Load(0, 3, DISK), Drop(3, DISK)]
    assert traffic([*records, Record(0, 2, DISK), Forget(0, 2, DISK)], DEMAND) == Traffic(42, 22)
    assert traffic([Save(0, "tape"), Restore(0, "tape")], DEMAND) == Traffic(0, 0)
    assert largest_item_nbytes([*AWAY, *records], DEMAND) == 12
    assert largest_item_nbytes([Save(0)], DEMAND) == 0
