"""Costs measured on a problem: they are its own, and can be kept in a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.errors import InvalidArgument
from retrograd.stores.tier import HeldStore

CALLS = {"step": 0, "adjoint": 0}


def slow(steps: int = 30) -> retrograd.arrays.Problem:
    """A step of 2 ms and an adjoint step of 4 ms."""

    def step(u: np.ndarray, k: int) -> np.ndarray:
        CALLS["step"] += 1
        time.sleep(0.002)
        return u + 1

    def adjoint_step(a: np.ndarray, u: np.ndarray, k: int) -> np.ndarray:
        CALLS["adjoint"] += 1
        time.sleep(0.004)
        return a * 1.0

    return retrograd.arrays.Problem(step, adjoint_step, np.zeros(10), steps, terminal=lambda u: u)


def test_steps_cost_what_they_take() -> None:
    costs = retrograd.calibrate(slow())
    assert costs.forward_step > 0.001
    assert costs.reverse_step > 0.002


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_few_steps_are_enough(steps: int) -> None:
    costs = retrograd.calibrate(slow(steps))
    assert costs.forward_step > 0
    assert costs.reverse_step > 0


def test_the_next_gradient_is_as_if_nothing_had_been() -> None:
    problem = slow()
    expected = retrograd.gradient(slow(), memory="1/3").gradient
    retrograd.calibrate(problem)
    assert np.array_equal(retrograd.gradient(problem, memory="1/3").gradient, expected)


def test_it_is_measured_once_where_a_file_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    first = retrograd.calibrate(slow(), cache=path)
    before = dict(CALLS)
    assert retrograd.calibrate(slow(), cache=path) == first
    assert before == CALLS
    other = retrograd.arrays.Problem(lambda u, k: u, lambda a, u, k: a, np.zeros(11), 5)
    retrograd.calibrate(other, cache=path)
    assert len(json.loads(path.read_text())) == 2


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": {"forward_step": 1}}'])
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match="name another file"):
        retrograd.calibrate(slow(), cache=path)
    assert path.read_text() == text


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be written"):
        retrograd.calibrate(slow(), cache=tmp_path / "nowhere" / "costs.json")


class SlowStore(HeldStore):
    """Takes 2 ms to save and 4 ms to restore."""

    def save(self, item: Any, rows: Any) -> None:
        time.sleep(0.002)
        super().save(item, rows)

    def restore(self, item: Any, rows: Any) -> None:
        time.sleep(0.004)
        super().restore(item, rows)


def test_a_store_is_timed_with_the_problems_restarts() -> None:
    problem, store = slow(3), SlowStore()
    costs = retrograd.calibrate(problem, {"disk": store})
    nbytes = problem.layout.restart_nbytes
    assert costs.write_rate <= nbytes / 0.002
    assert costs.read_rate <= nbytes / 0.004
    assert store.nbytes == 0


def test_a_disk_without_costs_is_measured_by_gradient() -> None:
    result = retrograd.gradient(slow(), memory="2/1", disk="1 GB")
    assert result.plan.costs is not None
    assert result.plan.name == "keep-all"
    assert result.plan.seconds is not None
    assert result.plan.seconds > 30 * 0.004


def test_costs_are_remembered_for_each_way_of_compressing(tmp_path: Path) -> None:
    stores = retrograd.stores
    case = retrograd.arrays.Problem(
        lambda u, k: u * 0.9, lambda a, u, k: a * 0.9, np.linspace(1, 2, 2000), 50
    )
    cache = tmp_path / "costs.json"
    codecs = stores.Lossless(), stores.Tolerance(1e-3), stores.Tolerance(1e-6)
    found = [
        retrograd.calibrate(
            case, {"disk": stores.Compressed(stores.HeldStore(), codec)}, cache=cache
        )
        for codec in codecs
    ]
    assert len(json.loads(cache.read_text())) == 3
    assert found[1].disk_ratio > found[2].disk_ratio > 1
