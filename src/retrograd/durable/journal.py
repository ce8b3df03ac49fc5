"""What a run has done, in a directory that survives it.

::

    journal                 the run's identity, and an entry a line
    NAME.NUMBER.snapshot    arrays, as bytes; the journal says what they are
    lock                    held by the process that uses the directory

An entry is a transaction. Snapshots that were written since the entry before, and those that were
given up, count from this entry on: if the process dies before, it is as if neither had happened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import json
import re
from numpy.typing import NDArray

from retrograd.durable.files import TEMPORARY, failure, make_directory, remove
from retrograd.durable.lines import Lines, encoded
from retrograd.durable.lock import hold
from retrograd.durable.snapshot import Part, read_snapshot, write_snapshot
from retrograd.errors import InvalidArgument, ItemLost, OutOfOrder

FORMAT: Final = 1
"""The version of the directory's format: that of the first line of the journal."""

_KEY: Final = "retrograd_journal"
_JOURNAL: Final = "journal"
_LOCK: Final = "lock"
_SNAPSHOT: Final = ".snapshot"
_NAME: Final = re.compile(r"[a-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A snapshot that counts. No number is given twice, so no file is ever written over."""

    number: int
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> _Snapshot:
        parts = (Part(**{**part, "shape": tuple(part["shape"])}) for part in value["parts"])
        return cls(value["number"], tuple(parts))


class Journal:
    """A directory that holds what a run has done, made or gone on with. One thread uses it.

    Parameters
    ----------
    directory : a new, an empty or a journal's directory; missing parents are made.
    identity : what the run is: names, and text, numbers or lists. Another run is refused.

    Attributes
    ----------
    entries : the entries that were found at opening, oldest first.
    ignored : the number of entries that were not: torn or damaged ones, and all after them.
    is_new : whether the directory was made, or was empty.

    Raises
    ------
    InvalidArgument
        if the directory is another run's, holds other files, cannot be written to, or is in use
        by another process.

    Notes
    -----
    A process that is killed leaves its last entry or none. Power cuts leave what was on the disk:
    every file is synced before it takes its name, its name is synced before an entry tells of it,
    and what an entry gives up is removed when the entry is on the disk.
    """

    def __init__(
        self, directory: str | os.PathLike[str], identity: Mapping[str, Any]
    ) -> None:
        self._lock = -1
        self._lines: Lines | None = None
        run = _identity(identity)
        try:
            self.directory = _absolute(directory)
            make_directory(self.directory)
            _refuse_others(self.directory)
            self._lock = hold(self.directory / _LOCK)
            self._open(run)
        except OSError as error:
            self.close()
            raise InvalidArgument(
                f"directory {str(directory)!r} cannot be used ({error.strerror or error}): name "
                "one on a local disk that you may write to"
            ) from error
        except BaseException:
            self.close()
            raise

    def _open(self, identity: dict[str, Any]) -> None:
        path = self.directory / _JOURNAL
        self.is_new = not path.exists()
        if self.is_new:
            Lines.create(path, {_KEY: FORMAT, "identity": identity})
        _refuse_another(self.directory, Lines.first(path)["identity"], identity)
        self._lines = Lines(path)
        self._lines.cut()
        self.entries: list[dict[str, Any]] = []
        self.ignored = self._lines.ignored
        self._held: dict[str, _Snapshot] = {}
        self._written: set[str] = set()
        self._given_up: list[tuple[str, _Snapshot]] = []
        self._number = 0
        for value in self._lines.values[1:]:
            self._replay(value)
        self._remove_leftovers()

    def _replay(self, value: Mapping[str, Any]) -> None:
        for name in value["gave_up"]:
            del self._held[name]
        for name, snapshot in value["wrote"].items():
            self._held[name] = _Snapshot.of(snapshot)
            self._number = max(self._number, self._held[name].number)
        self.entries.append(value["entry"])
