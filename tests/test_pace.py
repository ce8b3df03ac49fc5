"""Ranges are cut to what takes the wanted time, and lose no step."""

from __future__ import annotations

import pytest

from retrograd.errors import InvalidArgument
from retrograd.pace import Pace


def test_the_first_guess_is_by_bytes() -> None:
    pace = Pace(1.0, row_nbytes=10**8)
    assert list(pace.up(0, 5)) == [(0, 2), (2, 4), (4, 5)]
    assert list(pace.down(5, 0)) == [(5, 3), (3, 1), (1, 0)]
    assert list(Pace(1.0, row_nbytes=64).up(0, 10**6)) == [(0, 10**6)]


def test_it_learns_from_timed_calls() -> None:
    pace = Pace(1.0, row_nbytes=10**8)
    pace.learn(steps=2, seconds=0.5)
    assert next(pace.up(0, 100)) == (0, 4)
    pace.learn(steps=4, seconds=0.0001)
    assert next(pace.up(0, 1000)) == (0, 32)  # eight times as many at most
    pace.learn(steps=32, seconds=1000.0)
    assert next(pace.up(0, 1000)) == (0, 1)


def test_empty_ranges_and_bad_seconds() -> None:
    assert list(Pace(1.0, 1).up(3, 3)) == []
    for seconds in (0, -1.0, float("nan")):
        with pytest.raises(InvalidArgument, match="positive"):
            Pace(seconds, 1)
