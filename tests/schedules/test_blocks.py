"""Blocks on disk: legal, counted, and as even as can be."""

from __future__ import annotations

import itertools

import pytest

from retrograd.actions import DISK, Load, Record, Restore
from retrograd.errors import InvalidArgument
from retrograd.schedules import Blocks, KeepAll
from retrograd.verify import verify

FLAGS = list(itertools.product([False, True], repeat=2))


@pytest.mark.parametrize("flags", FLAGS)
def test_every_small_one_is_legal_and_runs_what_it_claims(flags: tuple[bool, bool]) -> None:
    in_state, free = flags
    for steps, block in itertools.product(range(1, 13), range(1, 14)):
        earlier = -(-steps // block) - 1
        for kept in range(earlier + 1):
            schedule = Blocks(steps, block, kept, *flags)
            counts = verify(schedule, steps=steps, record_in_state=in_state, free_start=free)
            again = (earlier - kept) * (block - in_state)
            assert counts.forward_steps == schedule.forward_steps == steps + again
            assert counts.loads.get(DISK, 0) == kept
            assert counts.loaded_steps.get(DISK, 0) == kept * block
            assert counts.saves.get(DISK, 0) == schedule.restarts
            assert counts.restores.get(DISK, 0) == schedule.restarts
            assert counts.peak_nbytes.get("memory", 0) <= block
            assert counts.reverse_calls == earlier + 1


def test_with_all_on_disk_nothing_runs_twice() -> None:
    assert Blocks(100, 7, 14).forward_steps == 100
    assert Blocks(100, 100, 0, True, True).forward_steps == 100
    assert [*Blocks(9, 9, 0)] == [*KeepAll(9)]


@pytest.mark.parametrize("kept", range(20))
def test_the_blocks_on_disk_are_spread_evenly(kept: int) -> None:
    blocks = [isinstance(a, Load) for a in Blocks(40, 2, kept) if isinstance(a, Load | Restore)]
    assert (len(blocks), sum(blocks)) == (19, kept)
    for width in range(1, 20):
        sums = {sum(blocks[at : at + width]) for at in range(20 - width)}
        assert max(sums) - min(sums) <= 1


def test_memory_holds_one_block() -> None:
    schedule = Blocks(20, 5, 2)
    assert max(a.stop - a.start for a in schedule if isinstance(a, Record)) == 5
    verify(schedule, steps=20, budgets={"memory": 5})


def test_more_than_there_are_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="at most 3"):
        Blocks(20, 5, 4)
