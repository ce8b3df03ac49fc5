"""Bytes come zero, private and writable, whatever the system offers."""

from __future__ import annotations

import sys
import weakref

import numpy as np
import pytest

from retrograd.stores import pages

SIZES = [0, 1, 4096, 100_001, pages.HUGE_PAGE, 3 * pages.HUGE_PAGE + 12_345]


def is_zero_and_writable(array: np.ndarray, nbytes: int) -> bool:
    zero = array.shape == (nbytes,) and array.dtype == np.uint8 and not array.any()
    array[:] = 255
    return bool(zero and (array == 255).all())


@pytest.mark.parametrize("threads", [None, 1, 2, 7])
@pytest.mark.parametrize("nbytes", SIZES)
def test_bytes_are_zero_and_writable(nbytes: int, threads: int | None) -> None:
    assert is_zero_and_writable(pages.zeros(nbytes, threads=threads), nbytes)


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_get_ordinary_memory(
    nbytes: int, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert is_zero_and_writable(pages.zeros(nbytes), nbytes)


@pytest.mark.parametrize("nbytes", SIZES)
def test_an_old_kernel_populates_by_writing(nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = []
    monkeypatch.setattr(pages, "_advise", lambda *call: refused.append(call))
    assert is_zero_and_writable(pages.zeros(nbytes, threads=2), nbytes)
    assert bool(refused) == bool(nbytes)


def test_a_system_without_huge_pages_is_not_asked_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    advised = []
    monkeypatch.delattr("mmap.MADV_HUGEPAGE", raising=False)
    monkeypatch.setattr(pages, "_advise", lambda *call: advised.append(call[2]))
    pages.zeros(pages.HUGE_PAGE)
    assert advised == [pages._MADV_POPULATE_WRITE]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has huge pages here")
def test_large_memory_begins_at_a_huge_page() -> None:
    assert pages.zeros(2 * pages.HUGE_PAGE + 1).ctypes.data % pages.HUGE_PAGE == 0


def test_every_share_is_touched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    touched = []
    monkeypatch.setattr(
        pages, "_touch", lambda s: touched.append((s.ctypes.data, s.ctypes.data + s.nbytes))
    )
    array = pages.zeros(5 * pages.HUGE_PAGE + 7, threads=3)
    touched.sort()
    assert [touched[0][0], touched[-1][1]] == [array.ctypes.data, array.ctypes.data + array.nbytes]
    assert all(one[1] == other[0] for one, other in zip(touched, touched[1:], strict=False))


def test_memory_goes_back_when_its_last_view_is_gone() -> None:
    array = pages.zeros(pages.HUGE_PAGE)
    view = array[10:20]
    mapping = weakref.ref(_mapping(array))
    del array
    assert mapping() is not None
    assert not view.any()
    del view
    assert mapping() is None


def _mapping(array: np.ndarray) -> object:
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base.obj if isinstance(base, memoryview) else base


def test_more_memory_than_there_is_says_how_much_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("mmap.mmap", full)
    with pytest.raises(MemoryError, match="4096 bytes cannot be allocated: give less memory"):
        pages.zeros(4096)
