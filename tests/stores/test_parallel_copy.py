"""Copies are whole, whether one thread makes them or two, overlapping or not."""

from __future__ import annotations

import multiprocessing
import sys
import threading

import numpy as np
import pytest

from retrograd.stores import parallel_copy
from retrograd.stores.parallel_copy import copy, copy_rows

ROW = 1000


def numbered(nbytes: int) -> np.ndarray:
    return np.random.default_rng(nbytes).integers(0, 256, nbytes, dtype=np.uint8)


@pytest.mark.parametrize("threaded", [1, 10**9], ids=["two threads", "one thread"])
@pytest.mark.parametrize(
    ("source", "target", "count"), [(5, 2, 3), (5, 4, 3), (5, 0, 1), (2, 6, 3), (7, 6, 1)]
)
def test_rows_are_copied_in_order(
    source: int, target: int, count: int, threaded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_copy, "_THREADED_NBYTES", threaded)
    region = numbered(10 * ROW)
    expected = region.reshape(10, ROW).copy()
    expected[target : target + count] = expected[source : source + count].copy()
    copy_rows(region, source, target, count, ROW)
    assert np.array_equal(region.reshape(10, ROW), expected)


@pytest.mark.parametrize("extra", [-1, 0, 1, 12_345])
def test_both_sides_of_the_threshold_are_whole(extra: int) -> None:
    source = numbered(parallel_copy._THREADED_NBYTES + extra)
    target = np.zeros_like(source)
    copy(target, source)
    assert np.array_equal(target, source)


def test_a_large_copy_uses_a_second_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    original = np.copyto

    def spy(*arguments: object) -> None:
        threads.append(threading.current_thread())
        original(*arguments)

    monkeypatch.setattr(np, "copyto", spy)
    source = numbered(parallel_copy._THREADED_NBYTES)
    copy(np.zeros_like(source), source)
    assert threads
    assert threading.current_thread() not in threads


def _copies_in_child() -> None:
    source = numbered(parallel_copy._THREADED_NBYTES)
    target = np.zeros_like(source)
    copy(target, source)
    sys.exit(0 if np.array_equal(target, source) else 1)


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork"
)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_makes_its_own_thread() -> None:
    source = numbered(parallel_copy._THREADED_NBYTES)
    copy(np.zeros_like(source), source)
    child = multiprocessing.get_context("fork").Process(target=_copies_in_child)
    child.start()
    child.join(timeout=30)
    assert child.exitcode == 0
