"""Sizes in bytes as people write them."""

from __future__ import annotations

import math
import os
import re
import shutil
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Final, TypeAlias

from retrograd.arguments import whole
from retrograd.errors import InvalidArgument

Size: TypeAlias = int | str

_UNITS: Final = {
    "": 1,
    "b": 1,
    **{f"{p}b": 1000**i for i, p in enumerate("kmgtp", 1)},
    **{f"{p}ib": 1024**i for i, p in enumerate("kmgtp", 1)},
}
_SIZE: Final = re.compile(r"\s*(\d{1,99}(?:\.\d{0,99})?|\.\d{1,99})\s*([a-z]*)\s*", re.IGNORECASE)
_FRACTION: Final = re.compile(r"\s*(\d{1,99})\s*/\s*(\d{1,99})\s*")
_HOW: Final = 'write a whole number of bytes, or a size such as "2 GiB", "24GB" or "512 MB"'

PAGE: Final = 4096
"""Bytes of a page of memory and of disk."""

AUTO_MARGIN: Final = 0.2
"""The share of what is free that ``"auto"`` leaves alone."""


def parse_nbytes(size: Size, what: str = "size") -> int:
    """Bytes of a size given as a whole number or as text with a unit; rounded down.

    Raises
    ------
    InvalidArgument
        for anything else, with what to write instead.

    >>> parse_nbytes("2 GiB"), parse_nbytes("1.5kB"), parse_nbytes(7)
    (2147483648, 1500, 7)
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        if match and match[2].lower() in _UNITS:
            return int(Fraction(match[1].rstrip(".")) * _UNITS[match[2].lower()])
        raise InvalidArgument(f"{what} {size!r} is not a size: {_HOW}")
    try:
        return whole(what, size, least=0)
    except InvalidArgument:
        raise InvalidArgument(f"{what} {size!r} is not a size: {_HOW}") from None


def parse_budget(memory: Size, keep_all_nbytes: int, what: str = "memory") -> int:
    """Bytes of a memory budget: a size, a fraction of keep-all, or ``"auto"``.

    >>> parse_budget("1/16", 1600)
    100
    """
    if isinstance(memory, str):
        if memory.strip().lower() == "auto":
            return int(free_nbytes() * (1 - AUTO_MARGIN))
        match = _FRACTION.fullmatch(memory)
        if match:
            if int(match[2]) == 0 or int(match[1]) == 0:
                raise InvalidArgument(f'{what} {memory!r}: write a fraction such as "1/16"')
            return keep_all_nbytes * int(match[1]) // int(match[2])
        if _SIZE.fullmatch(memory) is None:
            raise InvalidArgument(
                f"{what} {memory!r} is not a budget: {_HOW}, "
                'a fraction of keep-all such as "1/16", or "auto"'
            )
    return parse_nbytes(memory, what)


def parse_disk(
    disk: Size, keep_all_nbytes: int, directory: str | os.PathLike[str] | None = None
) -> int:
    """Bytes of a disk budget: a size, a fraction of keep-all, or ``"auto"``.

    The last is what is free in a directory, the system's temporary one unless it is named.
    """
    if isinstance(disk, str) and disk.strip().lower() == "auto":
        where = Path(tempfile.gettempdir() if directory is None else directory).expanduser()
        try:
            return int(shutil.disk_usage(where).free * (1 - AUTO_MARGIN))
        except OSError as error:
            raise InvalidArgument(
                f"scratch {str(where)!r}: {error.strerror}; name an existing directory"
            ) from error
    return parse_budget(disk, keep_all_nbytes, "disk")


def format_nbytes(nbytes: int) -> str:
    """Bytes for people, in decimal units.

    >>> format_nbytes(48_668_000)
    '48.7 MB'
    """
    if nbytes < 1000:
        return f"{nbytes} B"
    power = min(int(math.log10(nbytes / 0.9995) / 3), 5)  # what rounds to 1000 is 1 of the next
    return f"{nbytes / 1000**power:.3g} {' kMGTP'[power]}B"


def free_nbytes() -> int:
    """Bytes of memory free now: the machine's, or what a container's limit leaves if less."""
    free = _machine_free_nbytes()
    limit = _read_int("/sys/fs/cgroup/memory.max")
    used = _read_int("/sys/fs/cgroup/memory.current")
    if limit is None or used is None:
        limit = _read_int("/sys/fs/cgroup/memory/memory.limit_in_bytes")
        used = _read_int("/sys/fs/cgroup/memory/memory.usage_in_bytes")
    if limit is None or used is None:
        return free
    return max(0, min(free, limit - used))


def _machine_free_nbytes() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def _read_int(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None
