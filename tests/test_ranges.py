"""A set of ranges is the set of their integers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from retrograd.ranges import Ranges

_BOUNDS = st.tuples(st.integers(0, 20), st.integers(1, 8)).map(lambda p: (p[0], p[0] + p[1]))


@given(st.lists(st.tuples(st.booleans(), _BOUNDS), max_size=30), _BOUNDS)
def test_ranges_behave_like_a_set(changes: list, asked: tuple[int, int]) -> None:
    ranges, numbers = Ranges(), set()
    for adding, (start, stop) in changes:
        change = set(range(start, stop))
        if not adding:
            ranges.discard(start, stop)
            numbers -= change
        elif not change & numbers:
            ranges.add(start, stop)
            numbers |= change
    assert len(ranges) == len(numbers)
    assert [item for item in range(30) if item in ranges] == sorted(numbers)
    assert ranges.count(*asked) == len(numbers & set(range(*asked)))


@given(st.sets(st.integers(0, 15)), st.integers(0, 15))
def test_the_first_of_a_run_is_held_with_all_up_to_the_last(held: set[int], item: int) -> None:
    ranges = Ranges()
    ranges.add(0, 16)
    for missing in set(range(16)) - held:
        ranges.discard(missing, missing + 1)
    first = ranges.first_of(item)
    if item not in held:
        assert first is None
    else:
        assert set(range(first, item + 1)) <= held
        assert first - 1 not in held
