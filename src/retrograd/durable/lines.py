"""JSON values, one a line, of which damaged ones are told from good ones.

A line is the CRC-32 of everything up to its end but the checksums and line feeds, as eight hexadecimal digits, and the
value. As each checksum goes on from that of the line before, lines that are missing, doubled or
left over from before are told as well.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from retrograd.durable.files import new_file, write_at
from retrograd.errors import InvalidArgument


class Lines:
    """An append-only file of JSON values. It is opened by one process at a time.

    Attributes
    ----------
    values : what was found at opening: the values up to the first line that is torn or damaged.
    ignored : the number of lines from that one on.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR)
        self._nbytes = self._checksum = 0
        self.values: list[Any] = []
        *lines, torn = path.read_bytes().split(b"\n")
        for line in lines:
            body = line[9:]
            if line != _sealed(body, self._checksum):
                break
            self._checksum = zlib.crc32(body, self._checksum)
            self._nbytes += len(line) + 1
            self.values.append(json.loads(body))
        self.ignored = len(lines) - len(self.values) + bool(torn)

    @staticmethod
    def create(path: Path, first: Any) -> None:
        """Make a file with one line, durably."""
        with new_file(path) as file:
            write_at(file, memoryview(_sealed(encoded("first line", first), 0) + b"\n"), 0)

    @staticmethod
    def first(path: Path) -> Any:
        """The value of the first line; None if it is damaged, or not a line of this kind."""
        with path.open("rb") as file:
            line = file.readline()
        body = line[9:-1]
        return json.loads(body) if line == _sealed(body, 0) + b"\n" else None

    def cut(self) -> None:
        """Cut ignored lines off, and make those before them durable."""
        os.ftruncate(self._file, self._nbytes)
        os.fsync(self._file)

    def append(self, value: Any, *, sync: bool) -> None:
        """Add a line; it is durable when this returns, if `sync`. If it fails, nothing stays."""
        body = encoded("entry", value)
        line = _sealed(body, self._checksum) + b"\n"
        try:
            write_at(self._file, memoryview(line), self._nbytes)
            if sync:
                os.fsync(self._file)
        except BaseException:
            with suppress(OSError):  # what stays is written over, or ignored
                os.ftruncate(self._file, self._nbytes)
            raise
        self._checksum = zlib.crc32(body, self._checksum)
        self._nbytes += len(line)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def encoded(what: str, value: Any) -> bytes:
    """A value as JSON on one line, in ASCII.

    Raises
    ------
    InvalidArgument
        if it is no such value.
    """
    try:
        return json.dumps(value).encode("ascii")
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"{what} cannot be written as JSON ({error}): give text, numbers, lists and dicts of "
            "Python's own, such as int(n) and array.tolist()"
        ) from error


def _sealed(body: bytes, before: int) -> bytes:
    return f"{zlib.crc32(body, before):08x} ".encode() + body
