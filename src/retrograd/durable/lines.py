"""JSON objects, one a line, of which damaged ones are told from good ones.

A line is a CRC-32 in eight hexadecimal digits, a space, and the object. Each checksum goes on from
that of the line before, so that lines that are missing, doubled or left over are told as well.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from retrograd.durable.files import new_file, write_at
from retrograd.errors import InvalidArgument


class Lines:
    """An append-only file of JSON objects. It is opened by one process at a time.

    Attributes
    ----------
    values : what was found at opening, up to the first line that is torn or damaged.
    ignored : the number of lines from that one on.
    """

    def __init__(self, path: Path) -> None:
        self.values: list[dict[str, Any]] = []
        self._nbytes = self._checksum = 0
        *lines, torn = path.read_bytes().split(b"\n")
        for line in lines:
            body = _body(line, self._checksum)
            if body is None:
                break
            self.values.append(json.loads(body))
            self._passed(line, body)
        self.ignored = len(lines) - len(self.values) + bool(torn)
        self._file = os.open(path, os.O_RDWR)

    @staticmethod
    def create(path: Path, first: Mapping[str, Any]) -> None:
        """Make a file with one line, durably."""
        with new_file(path) as file:
            write_at(file, memoryview(_line(encoded("the first line", first), 0) + b"\n"), 0)

    @staticmethod
    def first(path: Path) -> dict[str, Any] | None:
        """The object of the first line; None if it is damaged, or something else."""
        with path.open("rb") as file:
            line = file.readline()
        body = _body(line[:-1], 0)
        return None if body is None else dict(json.loads(body))

    def cut(self) -> None:
        """Cut ignored lines off, and make those before them durable."""
        os.ftruncate(self._file, self._nbytes)
        os.fsync(self._file)

    def append(self, value: Mapping[str, Any], *, sync: bool) -> None:
        """Add a line; it is durable when this returns, if `sync`. If it fails, nothing stays."""
        body = encoded("an entry", value)
        line = _line(body, self._checksum)
        try:
            write_at(self._file, memoryview(line + b"\n"), self._nbytes)
            if sync:
                os.fsync(self._file)
        except BaseException:
            with suppress(OSError):  # what stays all the same is written over, or ignored
                os.ftruncate(self._file, self._nbytes)
            raise
        self._passed(line, body)

    def _passed(self, line: bytes, body: bytes) -> None:
        self._nbytes += len(line) + 1
        self._checksum = zlib.crc32(body, self._checksum)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def encoded(what: str, value: Any) -> bytes:
    """A value as JSON, in ASCII and on one line.

    Raises
    ------
    InvalidArgument
        if JSON has no such value.
    """
    try:
        return json.dumps(value).encode("ascii")
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"{what} cannot be written as JSON ({error}): give text and numbers of Python's own, "
            "lists and dicts of them, such as int(n) and array.tolist()"
        ) from error


def _line(body: bytes, before: int) -> bytes:
    return b"%08x %b" % (zlib.crc32(body, before), body)


def _body(line: bytes, before: int) -> bytes | None:
    body = line[9:]
    return body if body and line == _line(body, before) else None
