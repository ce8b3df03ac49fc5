"""One process at a time."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from retrograd.errors import InvalidArgument


def hold(path: Path) -> int:
    """Take the lock of a file, and return the file: closing it gives the lock back.

    The system gives it back as well when the process ends, however it ends. The file says who
    holds it, for others to read.

    Raises
    ------
    InvalidArgument
        if another process has it, or if the file system has no locks.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(file, 200, 0).decode(errors="replace").strip()
        os.close(file)
        raise InvalidArgument(_refusal(path.parent, error, holder)) from error
    with suppress(OSError):  # a full disk does not matter: it is for people to read
        name = f"process {os.getpid()} on {os.uname().nodename}\n".encode()
        os.ftruncate(file, os.pwrite(file, name, 0))
    return file


def _refusal(directory: Path, error: OSError, holder: str) -> str:
    if not isinstance(error, BlockingIOError):
        return (
            f"{directory} cannot be locked ({error.strerror}): name a directory on a file system "
            "that has locks, such as a local disk"
        )
    return (
        f"{directory} is in use by {holder or 'another process'}: wait until it ends, end it, "
        "or name another directory"
    )
