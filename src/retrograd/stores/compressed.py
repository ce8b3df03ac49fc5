"""A store that compresses what it hands to another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from retrograd.errors import ItemLost
from retrograd.stores.codecs import Codec
from retrograd.stores.tier import Item, Rows, Store

_MOST_EXTRA_ROWS: Final = 8
"""Records of n steps are blocks of at most so many rows more than n."""


@dataclass(slots=True)
class Statistics:
    """What compression did since a run began; seconds are those of the codec alone.

    Attributes
    ----------
    raw_nbytes, compressed_nbytes : bytes of all items kept, before and after.
    decoded_nbytes : bytes of all items given back.
    largest_relative_error : of all arrays, the largest error as a share of the array's largest
        magnitude; measured on every save, 0.0 without loss.
    """

    raw_nbytes: int = 0
    compressed_nbytes: int = 0
    decoded_nbytes: int = 0
    encode_seconds: float = 0.0
    decode_seconds: float = 0.0
    largest_relative_error: float = 0.0

    @property
    def ratio(self) -> float:
        """How many bytes became one; NaN before anything was kept."""
        return _ratio(self.raw_nbytes, self.compressed_nbytes)

    @property
    def encode_rate(self) -> float:
        """Bytes encoded in a second; NaN before anything was kept."""
        return _ratio(self.raw_nbytes, self.encode_seconds)

    @property
    def decode_rate(self) -> float:
        """Bytes decoded in a second; NaN before anything was given back."""
        return _ratio(self.decoded_nbytes, self.decode_seconds)


class Compressed:
    """Keep items in another store, each as one array of bytes.

    With a lossy codec every array has a scale of its own. In records, arrays whose leading axis is
    as long as the records have steps, or a little longer, hold rows along time: there every row
    has its own, so that the weak beginning of a wave is kept as well as its peak.

    Beside the rows, saving takes the compressed item, an eighth more while it grows, one encoded
    array, and what the codec takes. Restoring takes the compressed item and what the codec takes.

    Parameters
    ----------
    inner : the store that keeps the bytes.
    codec : how arrays are written; see `retrograd.stores.codecs`.

    Attributes
    ----------
    statistics : a `Statistics`; `clear` begins a new one and leaves the old one as it is.
    """

    def __init__(self, inner: Store, codec: Codec) -> None:
        self.inner = inner
        self.codec = codec
        self.statistics = Statistics()
        self._lengths: dict[Item, list[int]] = {}

    def save(self, item: Item, rows: Rows) -> None:
        """Compress an item and keep it; if `inner` fails, the item is not kept."""
        began = perf_counter()
        data, lengths, error = bytearray(), [], 0.0
        for array in self._arrays(item, rows):
            encoded = self.codec.encode(array)
            data += encoded.data
            lengths.append(len(encoded.data))
            error = max(error, encoded.relative_error)
        seconds = perf_counter() - began
        self.inner.save(item, [np.asarray(memoryview(data))])
        self._lengths[item] = lengths
        statistics = self.statistics
        statistics.raw_nbytes += _nbytes(rows)
        statistics.compressed_nbytes += len(data)
        statistics.encode_seconds += seconds
        statistics.largest_relative_error = max(statistics.largest_relative_error, error)

    def restore(self, item: Item, rows: Rows) -> None:
        """Write an item into rows.

        Raises
        ------
        ItemLost
            if `inner` gives back something else than it was given, as far as that shows.
        """
        lengths = self._lengths[item]
        data = np.empty(sum(lengths), np.uint8)
        try:
            self.inner.restore(item, [data])
        except ItemLost:
            del self._lengths[item]
            raise
        began = perf_counter()
        try:
            for array, encoded in zip(self._arrays(item, rows), _cut(data, lengths), strict=True):
                self.codec.decode(encoded, array)
        except ValueError as error:
            self.drop(item)
            raise ItemLost(f"{item} cannot be decompressed: {error}", item) from error
        self.statistics.decode_seconds += perf_counter() - began
        self.statistics.decoded_nbytes += _nbytes(rows)

    def drop(self, item: Item) -> None:
        """Give an item up."""
        self.inner.drop(item)
        self._lengths.pop(item, None)

    def clear(self) -> None:
        """Give everything up, and begin new statistics."""
        self.inner.clear()
        self._lengths.clear()
        self.statistics = Statistics()

    def close(self) -> None:
        """Give everything up for good; the statistics stay."""
        self.inner.close()
        self._lengths.clear()

    def worst_nbytes(self, nbytes: int) -> int:
        """The most bytes that `inner` keeps for an item of so many bytes: as many."""
        return nbytes

    def _arrays(self, item: Item, rows: Rows) -> Iterator[NDArray[Any]]:
        """What is encoded one by one: the rows, or each moment of rows along time."""
        for row in rows:
            if self.codec.is_lossless or not _is_over_time(item, row):
                yield row
            else:
                yield from (row[at : at + 1] for at in range(len(row)))


def _is_over_time(item: Item, row: NDArray[Any]) -> bool:
    if item.stop is None or row.ndim == 0 or row.dtype.kind not in "fc":
        return False
    return len(row) <= item.stop - item.start + _MOST_EXTRA_ROWS


def _cut(data: NDArray[np.uint8], lengths: list[int]) -> Iterator[memoryview]:
    end = 0
    for length in lengths:
        start, end = end, end + length
        yield data.data[start:end]


def _nbytes(rows: Rows) -> int:
    return sum(row.nbytes for row in rows)


def _ratio(amount: float, per: float) -> float:
    return amount / per if per else math.nan
