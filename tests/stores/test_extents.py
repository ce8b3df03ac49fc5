"""Parts of a file: never two owners for a byte, no page of no use, and none above the budget."""

from __future__ import annotations

import random

import pytest

from retrograd.stores.extents import Extents

PAGE = 10


def pages(extents: list[tuple[int, int]]) -> list[int]:
    """The pages of parts, which are whole pages."""
    assert all(start % PAGE == size % PAGE == 0 < size for start, size in extents)
    return [
        page for start, size in extents for page in range(start // PAGE, (start + size) // PAGE)
    ]


@pytest.mark.parametrize("budget", [None, 0, 9, 10, 255])
@pytest.mark.parametrize("seed", range(20))
def test_against_a_set_of_pages(budget: int | None, seed: int) -> None:
    rng = random.Random(seed)
    extents = Extents(budget, PAGE)
    taken: list[list[tuple[int, int]]] = []
    most = used = 0
    for _ in range(300):
        if rng.random() < 0.55 or not taken:
            nbytes = rng.choice([0, 1, 9, 10, 11, rng.randrange(90)])
            wanted = -(-nbytes // PAGE)
            part = extents.take(nbytes)
            if part is None:
                assert budget is not None
                assert used + wanted > budget // PAGE
            else:
                assert len(pages(part)) == wanted
                taken.append(part)
                used += wanted
        else:
            part = taken.pop(rng.randrange(len(taken)))
            used -= len(pages(part))
            extents.give(part)
        owned = [page for part in taken for page in pages(part)]
        most = max(most, used)
        assert len(owned) == len(set(owned)) == used
        assert max(owned, default=-1) < most, "free pages are used before the file grows"
        assert extents.used_nbytes == used * PAGE
        assert budget is None or extents.used_nbytes <= budget
    for part in taken:
        extents.give(part)
    assert extents.used_nbytes == 0
    assert extents.take(most * PAGE) == ([(0, most * PAGE)] if most else [])


def test_parts_that_touch_are_one() -> None:
    extents = Extents(None, PAGE)
    first, second, third = extents.take(10), extents.take(20), extents.take(10)
    assert (first, second, third) == ([(0, 10)], [(10, 20)], [(30, 10)])
    extents.give(first or [])
    extents.give(second or [])
    assert extents.take(35) == [(0, 30), (40, 10)]
