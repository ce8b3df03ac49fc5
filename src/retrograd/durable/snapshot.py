"""NumPy arrays in a file: their bytes, one after another, and nothing else.

What they are stands elsewhere, as a list of `Part`.
"""

from __future__ import annotations

import errno
import math
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from retrograd.durable.files import new_file, read_at, write_at
from retrograd.errors import InvalidArgument

Bytes = NDArray[np.uint8]

_CHUNK_NBYTES: Final = 4 << 20
_NUMBERS: Final = "biufc"
"""The kinds of dtype that are numbers: no objects, dates or text."""


@dataclass(frozen=True, slots=True)
class Part:
    """An array of a snapshot: what it is, and the CRC-32 of its bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    checksum: int

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return np.dtype(self.dtype).itemsize * math.prod(self.shape)


def write_snapshot(path: Path, arrays: Mapping[str, NDArray[Any]]) -> tuple[Part, ...]:
    """Write arrays to a new file, durably, and say what they are.

    Raises
    ------
    InvalidArgument
        if one of them is not an array of numbers.
    OSError
        if they cannot be written; then nothing of them stays.
    """
    for name, array in arrays.items():
        _check(name, array)
    parts, position = [], 0
    with new_file(path) as file:
        for name, array in arrays.items():
            checksum = 0
            for chunk in _outgoing(array):
                checksum = zlib.crc32(chunk.data, checksum)
                write_at(file, chunk.data, position)
                position += chunk.nbytes
            parts.append(Part(name, array.dtype.str, array.shape, checksum))
    return tuple(parts)


def read_snapshot(
    path: Path, parts: Sequence[Part], into: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Read arrays, into those that are given and else into new ones.

    Raises
    ------
    InvalidArgument
        if an array that is given cannot take what there is.
    OSError
        if they cannot be read, or are not what was written.
    """
    _check_targets(parts, into)
    file = os.open(path, os.O_RDONLY)
    try:
        nbytes, expected = os.fstat(file).st_size, sum(part.nbytes for part in parts)
        if nbytes != expected:
            raise OSError(errno.EIO, f"it has {nbytes} bytes, and {expected} were written")
        arrays, position = {}, 0
        for part in parts:
            array = into[part.name] if part.name in into else np.empty(part.shape, part.dtype)
            _read(file, position, part, array)
            arrays[part.name] = array
            position += part.nbytes
        return arrays
    finally:
        os.close(file)


def _read(file: int, position: int, part: Part, array: NDArray[Any]) -> None:
    checksum = 0
    for chunk in _chunks(array):
        read_at(file, chunk.data, position)
        checksum = zlib.crc32(chunk.data, checksum)
        position += chunk.nbytes
    if checksum != part.checksum:
        raise OSError(
            errno.EIO, f"the bytes of array {part.name!r} are not those that were written"
        )


def _outgoing(array: NDArray[Any]) -> Iterator[Bytes]:
    """The bytes of an array in C order, copied piece by piece where they do not lie so."""
    if array.flags.c_contiguous:
        yield from _chunks(array)
        return
    rows = _CHUNK_NBYTES // array[:1].nbytes
    if rows == 0:
        for row in array:
            yield from _outgoing(row)
        return
    for at in range(0, len(array), rows):
        yield from _chunks(np.ascontiguousarray(array[at : at + rows]))


def _chunks(array: NDArray[Any]) -> Iterator[Bytes]:
    """Views of the bytes of a contiguous array, short enough to stay in the processor's cache."""
    flat = array.reshape(-1).view(np.uint8)
    for at in range(0, flat.nbytes, _CHUNK_NBYTES):
        yield flat[at : at + _CHUNK_NBYTES]


def _check(name: str, array: NDArray[Any]) -> None:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in _NUMBERS:
        raise InvalidArgument(
            f"array {name!r} of a snapshot is {getattr(array, 'dtype', type(array).__name__)}: "
            "give a NumPy array of numbers"
        )


def _check_targets(parts: Sequence[Part], into: Mapping[str, NDArray[Any]]) -> None:
    there = {part.name: part for part in parts}
    for name, array in into.items():
        if name not in there:
            raise InvalidArgument(f"into has {name!r}, and the snapshot has {', '.join(there)}")
        part = there[name]
        fits = array.dtype.str == part.dtype and array.shape == part.shape
        if not (fits and array.flags.c_contiguous and array.flags.writeable):
            raise InvalidArgument(
                f"into[{name!r}] cannot take the array of the snapshot: give a C-contiguous, "
                f"writeable array of dtype {part.dtype} and shape {part.shape}"
            )
