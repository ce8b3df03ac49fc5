"""Sizes as people write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrograd import sizes
from retrograd.errors import InvalidArgument
from retrograd.sizes import format_nbytes, free_nbytes, parse_budget, parse_nbytes


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("2 GiB", 2 << 30),
        ("24GB", 24 * 10**9),
        ("1.5 kB", 1500),
        (".5MiB", 1 << 19),
        ("7", 7),
        (" 7 b ", 7),
        (7, 7),
        (np.int64(7), 7),
        ("48.7MB", 48_700_000),
        ("0.1kB", 100),
    ],
)
def test_sizes(text: Any, nbytes: int) -> None:
    assert parse_nbytes(text) == nbytes


@pytest.mark.parametrize("text", ["", "ten", "-3GB", "3 XB", "1e9", "GB", -1, 1.5, None, True])
def test_what_is_no_size(text: Any) -> None:
    with pytest.raises(InvalidArgument, match="write a whole number of bytes"):
        parse_nbytes(text)


def test_fractions_are_of_keep_all() -> None:
    assert parse_budget("1/16", 1600) == 100
    assert parse_budget(" 3 / 2 ", 10) == 15


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 B"), (999, "999 B"), (999_500, "1 MB"), (48_668_000, "48.7 MB"), (10**16, "1e+04 TB")],
)
def test_formatting(nbytes: int, text: str) -> None:
    if nbytes < 10**15:
        assert format_nbytes(nbytes) == text
    else:
        assert format_nbytes(nbytes).endswith("PB")


def test_auto_respects_a_containers_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"/sys/fs/cgroup/memory.max": 5000, "/sys/fs/cgroup/memory.current": 1000}
    monkeypatch.setattr(sizes, "_read_int", limits.get)
    assert free_nbytes() == 4000
    assert parse_budget("auto", 1) == 3200
    monkeypatch.setattr(sizes, "_read_int", lambda _: None)
    meminfo = Path("/proc/meminfo").read_text()
    total = int(meminfo.split("MemTotal:")[1].split()[0]) * 1024
    assert 0 < free_nbytes() <= total
