"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from retrograd.errors import StoreFailed, StoreFull

TEMPORARY: Final = ".tmp"
"""How the name of a file ends that is not whole yet."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def new_file(path: Path) -> Iterator[int]:
    """Write a file that takes its name when all of it is on the disk.

    It is durable when the context ends. If anything fails, nothing of it stays.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            yield file
            os.fsync(file)
        finally:
            os.close(file)
        os.rename(temporary, path)
        sync_directory(path.parent)
    except BaseException:
        remove(temporary, path)
        raise


def make_directory(directory: Path) -> None:
    """Make a directory and its missing parents, durably."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    file = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def remove(*paths: Path) -> None:
    """Remove files. What cannot be removed is a leftover, no failure."""
    for path in paths:
        with suppress(OSError):
            os.unlink(path)


def write_at(file: int, data: memoryview, position: int) -> None:
    """Write all of some bytes, with one call where the system takes them at once."""
    done = 0
    while done < data.nbytes:
        written = os.pwrite(file, data[done:], position + done)
        if written <= 0:
            raise OSError(errno.EIO, "the disk takes no more bytes")
        done += written


def read_at(file: int, data: memoryview, position: int) -> None:
    """Read as many bytes as there is room for."""
    done = 0
    while done < data.nbytes:
        read = os.preadv(file, [data[done:]], position + done)
        if read <= 0:
            raise OSError(errno.EIO, f"it ends {data.nbytes - done} bytes too early")
        done += read


def failure(error: OSError, what: str, *items: Any) -> StoreFailed:
    """The exception that says what could not be written, and whether there is no room for it."""
    kind = StoreFull if error.errno in _FULL else StoreFailed
    return kind(f"{what}: {error.strerror or error}", *items)
