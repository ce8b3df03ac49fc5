"""The mathematics behind Mixed: the bound bounds, the near tree is near, the exact one exact."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from retrograd.schedules.mixed_exact import exact_tree
from retrograd.schedules.mixed_near import near_tree
from retrograd.schedules.mixed_price import at_price, best_price
from retrograd.schedules.mixed_tree import Shape, grow, make_shape

SIZES = [(1, 1), (2, 1), (3, 2), (20, 7), (50, 1), (13, 11), (1, 3), (11, 13), (7, 300), (300, 7)]


def fewest_of_trees(windows, steps, spared) -> np.ndarray:
    """Fewest forward steps of trees with these windows, by trying all splits."""
    below = np.full(steps + 1, 10**12)
    for window in reversed(windows):
        row = np.arange(steps + 1) - spared
        row[0] = 10**12
        for n in range(window + 1, steps + 1):
            row[n] = (np.arange(1, n) + row[1:n] + below[n - 1 : 0 : -1]).min()
        below = row
    return below


def fewest_with_taken(shape) -> int:
    """Fewest forward steps where each restart turns `taken` steps, by trying all splits."""
    steps, taken = shape.steps, shape.taken
    below = np.full(steps + 1, 10**12)
    for window in reversed(shape.windows):
        row = np.arange(steps + 1)
        for n in range(window + 1, steps + 1):
            left = np.arange(max(0, n - taken + 1))
            total = left + taken + row[left] + below[n - taken - left]
            row[n] = total.min(initial=10**12)
        below = row
    return int(below[steps])


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_exact_is_exact_where_restarts_turn_steps(taken) -> None:
    random = Random(taken)
    for _ in range(150):
        steps, widest = random.randint(2, 300), random.randint(taken, 60)
        windows = tuple(range(widest, max(1, taken - 1) - 1, -taken))
        shape = Shape(steps, windows[:1] * random.randint(0, 1) + windows, 0, taken)
        fewest = fewest_with_taken(shape)
        if steps <= widest or fewest >= 10**12:
            continue
        priced = best_price(shape)
        near = near_tree(priced)
        assert exact_tree(priced, near).forward_steps == fewest, shape
        assert fewest <= near.forward_steps <= fewest + taken
        assert priced.cost(steps) <= fewest * (steps + 1) + steps


def shapes(seed, count, most_steps):
    """Shapes that are not one window, of all sizes and memories, with their charge ⌈a/b⌉."""
    random = Random(seed)
    while count:
        a, b = random.choice(SIZES) if random.random() < 0.5 else random.choices(range(1, 40), k=2)
        steps, spared, free = random.randint(2, most_steps), random.random() < 0.5, count % 2 == 0
        units = int(max(a, b) * (1 + (2 * steps) ** 0.5) ** random.random())
        if units < a or units < b or (spared and b > a):
            continue
        shape = make_shape(steps, (a, b, units), spared, free)
        if steps > shape.windows[0]:
            count -= 1
            yield shape, -(-a // b)


def test_exact_is_exact_and_near_is_near() -> None:
    for shape, charge in shapes(1, 300, 300):
        fewest = fewest_of_trees(shape.windows, shape.steps, shape.spared)[shape.steps]
        priced = best_price(shape)
        near = near_tree(priced)
        assert exact_tree(priced, near).forward_steps == fewest, shape
        assert priced.cost(shape.steps) <= fewest * (shape.steps + 1) + shape.steps
        assert fewest <= near.forward_steps <= fewest + charge, shape


def test_near_is_near_at_length() -> None:
    for shape, charge in shapes(2, 40, 20_000):
        priced = best_price(shape)
        near = near_tree(priced)
        exact = exact_tree(priced, near).forward_steps
        assert exact <= near.forward_steps <= exact + 2 * charge, shape
        assert exact >= priced.cost(shape.steps) // (shape.steps + 1)


def test_near_is_near_the_bound_far_out() -> None:
    for (a, b), units in product([(2, 1), (3, 2), (20, 7)], (200, 999)):
        shape = make_shape(10**7, (a, b, units), False, True)
        priced = best_price(shape)
        bound = priced.cost(shape.steps) // (shape.steps + 1)
        assert bound <= near_tree(priced).forward_steps <= bound + 3 * -(-a // b)


@pytest.mark.parametrize("price", [1, 90, 150, 201, 202, 303, 350, 777])
def test_no_size_earns_more(price) -> None:
    """H is the most that trees of any size earn, and least and most are such sizes."""
    for windows, spared in product([(5, 3, 1), (4, 4, 2), (2, 1)], (0, 1)):
        shape = Shape(100, windows, spared)
        priced = at_price(shape, price, 1)
        weight = shape.steps + 1
        fewest = _cheapest(windows, 100, weight, spared)
        earned = [price * n - fewest[n] for n in range(1, 101)]
        if priced.most[0][0] <= 100:
            assert max(earned) == priced.gain[0][0]
            best = [n for n in range(1, 101) if earned[n - 1] == max(earned)]
            assert (best[0], best[-1]) == (priced.least[0][0], priced.most[0][0])
        else:
            assert max(earned) <= priced.gain[0][0]


def _cheapest(windows, steps, weight, spared) -> list[int]:
    """The lowest weight·forward + windows for each number of steps."""
    below = [10**12] * (steps + 1)
    for window in reversed(windows):
        row = [10**12]
        for n in range(1, steps + 1):
            if n <= window:
                row.append(weight * (n - spared) + 1)
                if n == 1:
                    continue
            else:
                row.append(10**12)
            row[n] = min([row[n]] + [weight * i + row[i] + below[n - i] for i in range(1, n)])
        below = row
    return below


def test_deeper_restarts_than_those_counted_do_not_help() -> None:
    """The proof in `mixed_tree` that C(0) + … + C(k) ≥ n is deep enough."""
    for (a, b), spared, free in product(SIZES, (0, 1), (False, True)):
        if spared and b > a:
            continue
        for steps, held in product((5, 30, 90), (1, 3, 7)):
            units = held * max(a, b)
            cut = make_shape(steps, (a, b, units), bool(spared), free).windows
            full = [(units - depth * a) // b + 1 for depth in range(units // a + 1)]
            full = full[:1] * free + full
            assert cut == tuple(full[: len(cut)])
            fewest = fewest_of_trees(cut, steps, spared)[steps]
            assert fewest == fewest_of_trees(full[: steps + 2], steps, spared)[steps]


def test_grow_counts_equal_nodes_once() -> None:
    visited = []

    def halve(node) -> int:
        visited.append(node)
        return node[0] // 2

    tree = grow(Shape(1024, (1,) * 11, 0), halve)
    assert len(visited) == len(set(visited)) == len(tree.lefts)
    assert len(visited) == sum(range(11))  # not 1023
    assert tree.forward_steps == 1024 + 1024 * 10 // 2
