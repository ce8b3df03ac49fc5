"""Items on a local disk, past the system's page cache, in a file that no other process can see."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from retrograd.errors import InvalidArgument, ItemLost, StoreFailed, StoreFull
from retrograd.sizes import PAGE, format_nbytes
from retrograd.stores.checksum import Checksum
from retrograd.stores.extents import Extent, Extents
from retrograd.stores.pages import zeros
from retrograd.stores.tier import Item, Rows

Bytes = NDArray[np.uint8]

_BOUNCE_NBYTES: Final = 4 << 20

_DIRECT: Final = getattr(os, "O_DIRECT", 0)


class DiskStore:
    """Keeps items on disk, each with its length and checksum.

    The file has no name, so nothing is left of it however the process ends, and no two stores
    meet. It is written and read past the page cache (``O_DIRECT``) where the file system allows:
    cached writes are slower and take memory bandwidth from the computation. Elsewhere, what was
    written or read is dropped from the cache at once.

    Parameters
    ----------
    scratch : an existing directory on a local disk; without it, the system's temporary directory.
    budget_nbytes : the most bytes that the file may take; None for as many as there are. With a
        budget, the room is reserved when the first item is saved, so that it cannot run out later.

    Raises
    ------
    InvalidArgument
        if files cannot be made there.

    Notes
    -----
    One file holds all items: several were neither faster nor slower.
    """

    def __init__(
        self, scratch: str | os.PathLike[str] | None = None, budget_nbytes: int | None = None
    ) -> None:
        self.directory = Path(tempfile.gettempdir() if scratch is None else scratch).expanduser()
        self.budget_nbytes = budget_nbytes
        self._extents = Extents(budget_nbytes, PAGE)
        self._kept: dict[Item, _Kept] = {}
        self._bounce: Bytes | None = None
        self._is_reserved = False
        self._file = _open_unnamed(self.directory)
        self.is_direct = _go_direct(self._file)

    @property
    def nbytes(self) -> int:
        """Bytes of the file that are in use."""
        return self._extents.used_nbytes

    def reserve(self) -> None:
        """Take the budget's room on the disk now, where the file system can.

        Raises
        ------
        StoreFull
            if there is not so much.
        """
        if self._is_reserved or self.budget_nbytes is None:
            return
        wanted = self.budget_nbytes
        free = os.fstatvfs(self._file)
        has_room = free.f_bavail * free.f_frsize >= wanted - os.fstat(self._file).st_blocks * 512
        if not has_room or not _allocate(self._file, wanted):
            os.ftruncate(self._file, 0)  # a part of it may have been taken
            raise StoreFull(
                f"{self.directory} has {format_nbytes(free.f_bavail * free.f_frsize)} free, and "
                f"{format_nbytes(wanted)} are wanted: give a smaller disk=, or another scratch="
            )
        self._is_reserved = True

    def save(self, item: Item, rows: Rows) -> None:
        """Write an item.

        Raises
        ------
        StoreFull
            if the budget or the disk has no room for it.
        StoreFailed
            if the disk refuses it for another reason.
        """
        if self._file < 0:
            raise StoreFailed("the store is closed: make another one", item)
        try:
            self.reserve()
        except StoreFull as full:
            full.items = (item,)
            raise
        nbytes = sum(row.nbytes for row in rows)
        extents = self._extents.take(nbytes)
        if extents is None:
            raise StoreFull(
                f"{item} takes {format_nbytes(nbytes)}, and {format_nbytes(self.nbytes)} of "
                f"{format_nbytes(self.budget_nbytes or 0)} of disk are in use",
                item,
            )
        checksum = Checksum()
        try:
            self._write(extents, self._outgoing(rows), checksum)
        except BaseException as error:
            self._extents.give(extents)
            if isinstance(error, OSError):
                raise _failure(
                    error, f"{item} cannot be written to {self.directory}", item
                ) from error
            raise
        self._kept[item] = _Kept(extents, nbytes, checksum.value)

    def _write(
        self, extents: Sequence[Extent], chunks: Iterator[Bytes], checksum: Checksum
    ) -> None:
        positions = _Positions(extents)
        for chunk in chunks:
            checksum.add(chunk)
            for position, part in positions.over(chunk):
                self._write_at(position, part)

    def _write_at(self, position: int, part: Bytes) -> None:
        self._move(lambda rest, at: os.pwrite(self._file, rest, at), position, part)
        if not self.is_direct:
            self._forget_cached(position, part.nbytes, written=True)

    def _move(self, attempt: Callable[[memoryview, int], int], position: int, part: Bytes) -> None:
        """Write or read all of a part, in as many attempts as the system wants.

        What cannot go past the page cache is refused: all of it, or after a part of a page.
        """
        done = 0
        while done < part.nbytes:
            try:
                moved = attempt(part[done:].data, position + done)
            except OSError as error:
                if error.errno != errno.EINVAL or not self.is_direct:
                    raise
                self._go_cached()
                continue
            if moved <= 0:
                raise OSError(errno.EIO, f"the disk stops {part.nbytes - done} bytes too early")
            done += moved

    def _go_cached(self) -> None:
        """Use the page cache from now on."""
        flags = fcntl.fcntl(self._file, fcntl.F_GETFL)
        fcntl.fcntl(self._file, fcntl.F_SETFL, flags & ~_DIRECT)
        self.is_direct = False

    def restore(self, item: Item, rows: Rows) -> None:
        """Read an item back.

        Raises
        ------
        ItemLost
            if its length or checksum is not what was written; it is given up then.
        """
        try:
            self._read(item, rows)
        except ItemLost:
            self.drop(item)
            raise

    def _read(self, item: Item, rows: Rows) -> None:
        kept = self._kept[item]
        nbytes = sum(row.nbytes for row in rows)
        if nbytes != kept.nbytes:
            raise ItemLost(f"{item} has {kept.nbytes} bytes, and {nbytes} are asked for", item)
        checksum, positions = Checksum(), _Positions(kept.extents)
        try:
            for chunk, targets in self._incoming(rows):
                for position, part in positions.over(chunk):
                    self._read_at(position, part)
                checksum.add(chunk)
                _scatter(chunk, targets)
        except OSError as error:
            raise ItemLost(f"{item} cannot be read from {self.directory}: {error}", item) from error
        if checksum.value != kept.checksum:
            raise ItemLost(
                f"{item} was changed on the disk of {self.directory}: its checksum is not that of "
                "what was written",
                item,
            )

    def _read_at(self, position: int, part: Bytes) -> None:
        self._move(lambda rest, at: os.preadv(self._file, [rest], at), position, part)
        if not self.is_direct:
            self._forget_cached(position, part.nbytes, written=False)

    def _forget_cached(self, position: int, nbytes: int, *, written: bool) -> None:
        """Drop what is in the page cache: it would take the room of the computation's memory."""
        if hasattr(os, "posix_fadvise"):
            if written:
                os.fdatasync(self._file)
            os.posix_fadvise(self._file, position, nbytes, os.POSIX_FADV_DONTNEED)

    def _outgoing(self, rows: Rows) -> Iterator[Bytes]:
        """The bytes of the rows, in whole pages that begin at a page's border of memory."""
        joined = _joined(rows)
        direct = _whole_pages(joined)
        if direct.nbytes:
            yield direct
        for chunk, sources in self._staged(joined, direct.nbytes):
            at = 0
            for source in sources:
                chunk[at : at + source.nbytes] = source
                at += source.nbytes
            chunk[at:] = 0
            yield chunk

    def _incoming(self, rows: Rows) -> Iterator[tuple[Bytes, list[Bytes]]]:
        """Where to read to, and the rows that take what was read there, if that is not the same."""
        joined = _joined(rows)
        direct = _whole_pages(joined)
        if direct.nbytes:
            yield direct, []
        yield from self._staged(joined, direct.nbytes)

    def _staged(self, joined: Sequence[Bytes], skip: int) -> Iterator[tuple[Bytes, list[Bytes]]]:
        """Pages of the bounce buffer, and the parts of the rows that pass through each."""
        parts: list[Bytes] = []
        filled = 0
        for array in joined:
            at, skip = min(skip, array.nbytes), max(0, skip - array.nbytes)
            while at < array.nbytes:
                part = array[at : at + _BOUNCE_NBYTES - filled]
                parts.append(part)
                filled, at = filled + part.nbytes, at + part.nbytes
                if filled == _BOUNCE_NBYTES:
                    yield self._pages(filled), parts
                    parts, filled = [], 0
        if filled:
            yield self._pages(filled), parts

    def _pages(self, nbytes: int) -> Bytes:
        if self._bounce is None:
            self._bounce = zeros(_BOUNCE_NBYTES)
        return self._bounce[: -(-nbytes // PAGE) * PAGE]

    def drop(self, item: Item) -> None:
        """Give the room of an item to the next one."""
        self._extents.give(self._kept.pop(item).extents)

    def clear(self) -> None:
        """Give all room back to the next run; the file keeps its size."""
        self._kept.clear()
        self._extents = Extents(self.budget_nbytes, PAGE)

    def close(self) -> None:
        """Give the room back to the disk."""
        file, self._file = self._file, -1
        self.clear()
        self._bounce = None
        if file >= 0:
            os.close(file)

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0:
            self.close()


class _Kept:
    """Where an item lies, and what it must be."""

    __slots__ = ("checksum", "extents", "nbytes")

    def __init__(self, extents: Sequence[Extent], nbytes: int, checksum: int) -> None:
        self.extents = extents
        self.nbytes = nbytes
        self.checksum = checksum


class _Positions:
    """Goes along the extents of an item as its pages are written or read."""

    def __init__(self, extents: Sequence[Extent]) -> None:
        self._left = iter(extents)
        self._position = self._room = 0

    def over(self, chunk: Bytes) -> Iterator[tuple[int, Bytes]]:
        at = 0
        while at < chunk.nbytes:
            if not self._room:
                self._position, self._room = next(self._left)
            part = chunk[at : at + self._room]
            yield self._position, part
            at += part.nbytes
            self._position, self._room = self._position + part.nbytes, self._room - part.nbytes


def _open_unnamed(directory: Path) -> int:
    """A new file without a name; where there is no such thing, one that loses its name at once."""
    try:
        if hasattr(os, "O_TMPFILE"):
            with suppress(OSError):
                return os.open(directory, os.O_RDWR | os.O_TMPFILE, 0o600)
        file, name = tempfile.mkstemp(prefix="retrograd-", dir=directory)
        os.unlink(name)
        return file
    except OSError as error:
        raise InvalidArgument(
            f"scratch {str(directory)!r} takes no files ({error.strerror}): name an existing "
            "directory on a local disk that you may write to"
        ) from error


def _go_direct(file: int) -> bool:
    """Read and write past the page cache from now on, if the file system allows."""
    try:
        fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | _DIRECT)
    except OSError:
        return False
    return bool(_DIRECT)


def _allocate(file: int, nbytes: int) -> bool:
    """Reserve room; True as well where the file system has no such thing."""
    fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if fallocate is None or nbytes == 0:
        return True
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    while fallocate(file, 0, 0, nbytes) != 0:
        if ctypes.get_errno() != errno.EINTR:
            return ctypes.get_errno() not in _FULL
    return True


_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _failure(error: OSError, what: str, item: Item) -> StoreFailed:
    kind = StoreFull if error.errno in _FULL else StoreFailed
    return kind(f"{what}: {error.strerror or error}", item)


def _joined(rows: Rows) -> list[Bytes]:
    """The bytes of the rows; rows that follow each other in memory as one array."""
    joined: list[Bytes] = []
    begin = end = 0
    for row in rows:
        if not row.flags.c_contiguous:  # its bytes would be those of a copy
            raise InvalidArgument("the rows of an item must be C-contiguous arrays")
        flat = row.reshape(-1).view(np.uint8)
        address = flat.ctypes.data
        if joined and address == end:
            end += flat.nbytes
            memory = (ctypes.c_uint8 * (end - begin)).from_address(begin)
            joined[-1] = np.ctypeslib.as_array(memory)
        else:
            joined.append(flat)
            begin, end = address, address + flat.nbytes
    return joined


def _whole_pages(joined: Sequence[Bytes]) -> Bytes:
    """The pages that need no copy: those of rows in one piece that begins at a page's border."""
    if len(joined) == 1 and joined[0].ctypes.data % PAGE == 0:
        return joined[0][: joined[0].nbytes // PAGE * PAGE]
    return np.zeros(0, dtype=np.uint8)


def _scatter(chunk: Bytes, targets: Sequence[NDArray[Any]]) -> None:
    at = 0
    for target in targets:
        target[:] = chunk[at : at + target.nbytes]
        at += target.nbytes
