"""The tree of a mixed schedule: the best one, or one close to it where there are many steps."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from retrograd.schedules.mixed_exact import exact_tree
from retrograd.schedules.mixed_near import near_tree
from retrograd.schedules.mixed_price import best_price
from retrograd.schedules.mixed_tree import Shape, Tree, grow

EXACT_STEPS: Final = 20_000
"""Up to this many steps a tree runs the fewest forward steps; beyond, a few more at most."""


@lru_cache(maxsize=64)
def best_tree(shape: Shape) -> Tree:
    """Return a tree with the fewest forward steps, exactly so up to `EXACT_STEPS` steps."""
    if shape.steps <= shape.windows[0]:
        return grow(shape, lambda _: 0)
    priced = best_price(shape)
    near = near_tree(priced)
    return exact_tree(priced, near) if shape.steps <= EXACT_STEPS else near
