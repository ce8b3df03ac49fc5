from __future__ import annotations

import pytest

from retrograd.actions import Record, Reverse
from retrograd.schedules import KeepAll
from tests import oracles


@pytest.mark.parametrize("steps", [1, 2, 1000])
def test_records_all_and_reverses_all(steps) -> None:
    assert list(KeepAll(steps)) == [Record(0, steps), Reverse(steps, 0)]
    assert KeepAll(steps).forward_steps == oracles.replay(KeepAll(steps), steps).forward_steps
