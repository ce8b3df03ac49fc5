"""What a run has done, in a directory that survives it.

::

    journal                 the run's identity, and then an entry a line
    NAME.NUMBER.snapshot    arrays as bytes; the journal says what they are
    lock                    held by the process that uses the directory

An entry is a transaction. Snapshots that were written since the entry before, and those that were
forgotten, count from this entry on: if the process dies before, it is as if neither had happened.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from numpy.typing import NDArray

from retrograd.durable.files import TEMPORARY, failure, make_directory, remove
from retrograd.durable.lines import Lines, encoded
from retrograd.durable.lock import hold
from retrograd.durable.snapshot import Part, read_snapshot, write_snapshot
from retrograd.errors import InvalidArgument, ItemLost, OutOfOrder

FORMAT: Final = 1
"""The version of the directory's format; the first line of the journal has it."""

_KEY: Final = "retrograd_journal"
_JOURNAL: Final = "journal"
_LOCK: Final = "lock"
_NAME: Final = re.compile(r"[a-z0-9_-]{1,100}")
_SNAPSHOT: Final = re.compile(rf"{_NAME.pattern}\.\d+\.snapshot({re.escape(TEMPORARY)})?")


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A snapshot that was written. No number comes twice, so that no file is written over."""

    number: int
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> _Snapshot:
        """Make it from what `asdict` and JSON made of one."""
        parts = (Part(**{**part, "shape": tuple(part["shape"])}) for part in value["parts"])
        return cls(value["number"], tuple(parts))


class Journal:
    """A directory that holds what a run has done: a new one, or one that is gone on with.

    It is used by one thread of one process at a time.

    Parameters
    ----------
    directory : a new or empty directory, or a journal's; missing parents are made.
    identity : what the run is: names with text, numbers or lists of them.

    Attributes
    ----------
    entries : the entries that were found at opening, oldest first.
    ignored : how many were ignored: one that is torn or damaged, and all after it. They were cut
        off, and the run goes on from the entries before.
    is_new : whether there was no journal before.

    Raises
    ------
    InvalidArgument
        if the directory is another run's, in use, damaged, holds other files, or cannot be written.

    Notes
    -----
    Every file is on the disk before it takes its name, its name is before an entry tells of it,
    and what an entry forgets is removed after the entry is on the disk. So neither a killed process
    nor a power cut leaves an entry without its snapshots.

    >>> import tempfile, numpy as np
    >>> directory = tempfile.mkdtemp()
    >>> with Journal(directory, {"steps": 100}) as journal:
    ...     journal.write("adjoint", {"u": np.arange(3.0)})
    ...     journal.append({"reversed_to": 60})
    >>> with Journal(directory, {"steps": 100}) as journal:
    ...     journal.entries, journal.read("adjoint")["u"].tolist()
    ([{'reversed_to': 60}], [0.0, 1.0, 2.0])
    """

    def __init__(self, directory: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        self._lock: int | None = None
        self._lines: Lines | None = None
        self.directory = _absolute(directory)
        run = _as_kept(identity)
        try:
            make_directory(self.directory)
            _refuse_other_files(self.directory)
            self._lock = hold(self.directory / _LOCK)
            self._open(run)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise InvalidArgument(
                    f"directory {self.directory} cannot be used ({error.strerror or error}): name "
                    "one on a local disk that you may write to"
                ) from error
            raise

    def _open(self, identity: dict[str, Any]) -> None:
        path = self.directory / _JOURNAL
        self.is_new = not path.exists()
        if self.is_new:
            Lines.create(path, {_KEY: FORMAT, "identity": identity})
        _refuse_another_run(self.directory, _identity_in(path), identity)
        self._lines = Lines(path)
        self._lines.cut()
        self.ignored = self._lines.ignored
        self.entries: list[dict[str, Any]] = []
        self._held: dict[str, _Snapshot] = {}
        self._number = 0
        for value in self._lines.values[1:]:
            self._replay(value)
        self._told = dict(self._held)
        self._unused: list[Path] = []
        self._remove_leftovers()

    def _replay(self, value: Mapping[str, Any]) -> None:
        self.entries.append(value["entry"])
        for name in value.get("forgot", ()):
            self._held.pop(name, None)
        for name, snapshot in value.get("wrote", {}).items():
            self._held[name] = _Snapshot.of(snapshot)
            self._number = max(self._number, self._held[name].number)

    def _remove_leftovers(self) -> None:
        used = {self._path(name, snapshot) for name, snapshot in self._held.items()}
        for path in self.directory.iterdir():
            if _SNAPSHOT.fullmatch(path.name) and path not in used:
                remove(path)

    @property
    def snapshots(self) -> tuple[str, ...]:
        """The names of the snapshots that can be read."""
        return tuple(self._held)

    def append(self, entry: Mapping[str, Any], *, sync: bool = True) -> None:
        """Add an entry, and with it the snapshots that were written and forgotten before.

        Parameters
        ----------
        entry : text, numbers, and lists and dicts of them.
        sync : whether the entry is on the disk when this returns. Else a power cut may take it
            back, with what it told of; the death of the process cannot.

        Raises
        ------
        StoreFull, StoreFailed
            if it cannot be written; nothing has changed then, and it may be tried again.
        """
        value: dict[str, Any] = {"entry": entry}
        forgot = [name for name in self._told if name not in self._held]
        wrote = {n: asdict(s) for n, s in self._held.items() if self._told.get(n) != s}
        value |= ({"forgot": forgot} if forgot else {}) | ({"wrote": wrote} if wrote else {})
        try:
            self._opened().append(value, sync=sync)
        except OSError as error:
            raise failure(error, f"an entry cannot be written to {self.directory}") from error
        self._told = dict(self._held)
        if sync:
            remove(*self._unused)
            self._unused.clear()

    def write(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write a snapshot; it is on the disk when this returns, and counts from the next entry on.

        It takes the place of the one of the same name, whose file stays until that entry.

        Parameters
        ----------
        name : lower-case letters, digits, "-" and "_".
        arrays : numbers of any dtype, shape and strides, read where they are.

        Raises
        ------
        StoreFull, StoreFailed
            if it cannot be written; nothing of it stays, and the one before is still there.
        """
        self._opened()
        if not _NAME.fullmatch(name):
            raise InvalidArgument(
                f"a snapshot cannot be called {name!r}: take lower-case letters, digits, - and _"
            )
        self._number += 1
        path = self._path(name, _Snapshot(self._number, ()))
        try:
            parts = write_snapshot(path, arrays)
        except OSError as error:
            what = f"snapshot {name!r} cannot be written to {self.directory}"
            raise failure(error, what, name) from error
        if name in self._held:
            self.forget(name)
        self._held[name] = _Snapshot(self._number, parts)

    def read(
        self, name: str, into: Mapping[str, NDArray[Any]] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Read a snapshot back.

        Parameters
        ----------
        into : arrays to read into, by name; the others are made.

        Raises
        ------
        ItemLost
            if it is not there as it was written; what was read into is of no use then.
        """
        snapshot = self._snapshot(name)
        try:
            return read_snapshot(self._path(name, snapshot), snapshot.parts, into or {})
        except OSError as error:
            raise ItemLost(
                f"snapshot {name!r} in {self.directory} cannot be read back: "
                f"{error.strerror or error}",
                name,
            ) from error

    def forget(self, name: str) -> None:
        """Give a snapshot up, from the next entry on; that entry removes its file."""
        self._unused.append(self._path(name, self._snapshot(name)))
        del self._held[name]

    def _snapshot(self, name: str) -> _Snapshot:
        self._opened()
        if name not in self._held:
            raise InvalidArgument(
                f"there is no snapshot {name!r} in {self.directory}: it has "
                f"{', '.join(self._held) or 'none'}"
            )
        return self._held[name]

    def _path(self, name: str, snapshot: _Snapshot) -> Path:
        return self.directory / f"{name}.{snapshot.number}.snapshot"

    def _opened(self) -> Lines:
        if self._lines is None:
            raise OutOfOrder(f"the journal in {self.directory} is closed: open it again")
        return self._lines

    def close(self) -> None:
        """Let others use the directory. May be called twice."""
        lines, self._lines = self._lines, None
        lock, self._lock = self._lock, None
        if lines is not None:
            lines.close()
        if lock is not None:
            os.close(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_lines"):
            self.close()


def _absolute(directory: str | os.PathLike[str]) -> Path:
    try:
        return Path(directory).expanduser().absolute()
    except (TypeError, RuntimeError) as error:
        raise InvalidArgument(f"{directory!r} is no directory ({error}): name one") from error


def _as_kept(identity: Mapping[str, Any]) -> dict[str, Any]:
    """An identity as it is read back."""
    return {
        name: json.loads(encoded(f"identity[{name!r}]", value)) for name, value in identity.items()
    }


def _refuse_other_files(directory: Path) -> None:
    """Leave directories alone that somebody else uses."""
    there = set(os.listdir(directory))
    if _JOURNAL in there:
        _identity_in(directory / _JOURNAL)
    elif others := there - {_LOCK, _JOURNAL + TEMPORARY}:
        raise InvalidArgument(
            f"{directory} holds other files, such as {min(others)!r}: name a new or empty directory"
        )


def _identity_in(path: Path) -> dict[str, Any]:
    first = Lines.first(path)
    if first is None or _KEY not in first:
        raise InvalidArgument(
            f"{path} is damaged, or another program's: name a new or empty directory, or remove "
            f"{path.parent} to begin again"
        )
    if first[_KEY] != FORMAT:
        raise InvalidArgument(
            f"{path.parent} has format {first[_KEY]} and this version of retrograd reads {FORMAT}: "
            "go on with the version that made it, or name a new directory"
        )
    return dict(first["identity"])


def _refuse_another_run(directory: Path, there: dict[str, Any], here: dict[str, Any]) -> None:
    def told(identity: dict[str, Any], name: str) -> str:
        return json.dumps(identity[name], ensure_ascii=False) if name in identity else "none"

    differences = [
        f"{name}: the directory has {told(there, name)}, this run has {told(here, name)}"
        for name in there | here
        if told(there, name) != told(here, name)
    ]
    if differences:
        raise InvalidArgument(
            f"{directory} belongs to another run: name another directory, or make the run the "
            "same. " + "; ".join(differences)
        )
