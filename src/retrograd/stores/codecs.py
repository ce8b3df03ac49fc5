"""Ways to write an array shorter: bit for bit, or within a tolerance.

An encoded array is never longer than the array. One that is as long is the array's own bytes;
any other begins with a byte that says how it was written. So whoever has an array of the right
shape and dtype can decode it, and room for the arrays is room for what is encoded.
"""

from __future__ import annotations

import importlib
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from retrograd.arguments import whole
from retrograd.errors import InvalidArgument, MissingExtra

Buffer: TypeAlias = bytes | bytearray | memoryview

PIECE_NBYTES: Final = 1 << 20
"""The most bytes that a compressor is given at once; it bounds temporary memory."""

_ZEROS, _BLOSC, _ZFP = range(3)
_LENGTH: Final = struct.Struct("<I")
_ZFP_HEADER: Final = struct.Struct("<Bdh")
_BLOSC_HEADER_NBYTES: Final = 32


class Encoded(NamedTuple):
    """An array as a codec wrote it.

    Attributes
    ----------
    data : what to keep.
    relative_error : the largest error as a share of the array's largest magnitude, measured; for
        complex numbers an upper bound.
    """

    data: bytes | bytearray
    relative_error: float = 0.0


class Codec(Protocol):
    """Writes arrays shorter and reads them back. Its ``str`` names it in reports."""

    @property
    def is_lossless(self) -> bool:
        """Whether every bit comes back."""
        ...

    def encode(self, array: NDArray[Any]) -> Encoded:
        """Write an array, in no more bytes than it has.

        Raises
        ------
        InvalidArgument
            for an array of objects or of structures.
        """
        ...

    def decode(self, encoded: Buffer, out: NDArray[Any]) -> None:
        """Read into a C-contiguous array of the shape and dtype that were encoded.

        Raises
        ------
        ValueError
            for bytes that no codec wrote for such an array, as far as that shows. Whoever needs
            to be sure keeps a checksum.
        """
        ...


@dataclass(frozen=True, slots=True)
class Lossless:
    """Blosc2 with its bytes shuffled, on the calling thread alone.

    Parameters
    ----------
    codec : "lz4", "lz4hc", "blosclz", "zlib" or "zstd". LZ4 is by far the fastest; on a smooth
        float32 wavefield it saves nearly as much as Zstandard.
    level : the effort, from 1 to 9.

    Raises
    ------
    MissingExtra
        if Blosc2 is not installed.

    Notes
    -----
    Encoding takes three pieces of `PIECE_NBYTES` beside the result, or the array's size if it
    cannot be compressed; decoding takes next to nothing.
    """

    codec: str = "lz4"
    level: int = 1
    is_lossless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        names = ("lz4", "lz4hc", "blosclz", "zlib", "zstd")
        if self.codec not in names:
            raise InvalidArgument(f"codec={self.codec!r} is none of {', '.join(names)}")
        if whole("level", self.level, least=1) > 9:
            raise InvalidArgument(f"level={self.level} is above 9: write 1 for speed, 9 for size")
        _blosc2()

    def __str__(self) -> str:
        return f"lossless ({self.codec})"

    def encode(self, array: NDArray[Any]) -> Encoded:
        """Write an array; see `Codec.encode`."""
        raw = _bytes_of(np.ascontiguousarray(array))
        if raw.size > 1 and not raw.any():
            return Encoded(bytes([_ZEROS]))
        if raw.size <= _BLOSC_HEADER_NBYTES:
            return Encoded(raw.tobytes())
        blosc2 = _blosc2()
        settings = {
            "codec": blosc2.Codec[self.codec.upper()],
            "clevel": self.level,
            "typesize": array.itemsize if array.itemsize < 256 else 1,
            "filters": [blosc2.Filter.SHUFFLE],
            "nthreads": 1,
        }
        data = bytearray([_BLOSC])
        for piece in _pieces(raw):
            _append(data, blosc2.compress2(piece, **settings))
            if len(data) >= raw.size:
                return Encoded(raw.tobytes())
        return Encoded(data)

    def decode(self, encoded: Buffer, out: NDArray[Any]) -> None:
        """Read into an array; see `Codec.decode`."""
        decode(encoded, out)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """zfp, with every error at most `relative` times the largest magnitude in the array.

    What zfp cannot write within that is written bit for bit, as `Lossless` does: integers, float16
    and long doubles, arrays with an infinity or a NaN, arrays of fewer than 64 numbers, tolerances
    near the spacing of the floating-point numbers or near the smallest of them, and arrays that
    zfp would make longer.

    Parameters
    ----------
    relative : the tolerance, between 0 and 1.

    Raises
    ------
    MissingExtra
        if zfpy or Blosc2 is not installed.

    Notes
    -----
    Each piece is decoded again at once and compared: encoding takes twice as long as zfp alone,
    and no error is trusted to theory. zfp 1.0 goes wrong on blocks of numbers below 2**-96 in
    float32, 2**-960 in float64, and near the tolerance (measured); arrays are therefore brought
    near 1 by a power of two, which is exact.

    Encoding takes six pieces of `PIECE_NBYTES` beside the result, or the array's size if zfp does
    not write it; decoding takes four.

    P. Lindstrom, "Fixed-rate compressed floating-point arrays", IEEE TVCG 20 (2014), 2674–2683.
    """

    relative: float
    is_lossless: ClassVar[bool] = False

    def __post_init__(self) -> None:
        real = isinstance(self.relative, Real) and not isinstance(self.relative, bool)
        if not real or not 0 < self.relative < 1:
            raise InvalidArgument(
                f"relative={self.relative!r} is not a number between 0 and 1: write the largest "
                "error as a share of the largest value, such as relative=1e-4"
            )
        object.__setattr__(self, "relative", float(self.relative))
        _zfpy()
        _blosc2()

    def __str__(self) -> str:
        return f"within {self.relative:g} (zfp)"

    def encode(self, array: NDArray[Any]) -> Encoded:
        """Write an array; see `Codec.encode`."""
        with np.errstate(all="ignore"):
            within = self._within(np.ascontiguousarray(array))
        return within or Lossless().encode(array)

    def _within(self, array: NDArray[Any]) -> Encoded | None:
        """Write an array by zfp; None if that cannot be done within the tolerance."""
        limits = _LIMITS.get(array.dtype)
        if limits is None or array.size < _FEWEST:
            return None
        parts = _real_parts(array)
        largest = _largest(*parts)
        tolerance = self.relative * largest / math.sqrt(len(parts))
        if not (limits.hold(self.relative, tolerance) and math.isfinite(largest)):
            return None
        zfp = _Zfp.near_one(limits, largest, tolerance)
        data = bytearray(zfp.header())
        worst = 0.0
        for part in parts:
            for piece in _blocks(part):
                stream = zfp.encode(piece)
                error = _largest(zfp.decode(stream, piece.shape) - piece)
                _append(data, stream)
                if not error <= _SHARE * tolerance or len(data) >= array.nbytes:
                    return None
                worst = max(worst, error)
        return Encoded(data, worst * math.sqrt(len(parts)) / largest)

    def decode(self, encoded: Buffer, out: NDArray[Any]) -> None:
        """Read into an array; see `Codec.decode`."""
        decode(encoded, out)


def decode(encoded: Buffer, out: NDArray[Any]) -> None:
    """Read what any codec of this module wrote; see `Codec.decode`."""
    if not out.flags.c_contiguous:
        raise InvalidArgument("out is not C-contiguous: decode into np.empty(shape, dtype)")
    raw = _bytes_of(out)
    data = memoryview(encoded)
    if data.nbytes == raw.size:
        raw[:] = np.asarray(data)
    elif not data:
        raise ValueError("nothing was encoded")
    elif data[0] == _ZEROS and data.nbytes == 1:
        raw[:] = 0
    elif data[0] == _BLOSC:
        _decode_blosc(data, raw)
    elif data[0] == _ZFP and out.dtype in _LIMITS and out.size >= _FEWEST:
        _decode_zfp(data, out)
    else:
        raise ValueError(f"{data.nbytes} bytes are no encoded array of {raw.size} bytes")


def codec_of(compression: str | float | None) -> Codec | None:
    """The codec that a user names: a tolerance, "lossless", or None for no compression.

    Raises
    ------
    InvalidArgument
        for anything else, with what to write instead.
    MissingExtra
        if its package is not installed.
    """
    if compression is None or compression == "none":
        return None
    if compression == "lossless":
        return Lossless()
    try:
        relative = float(compression)
    except (TypeError, ValueError):
        relative = math.nan
    if 0 < relative < 1:
        return Tolerance(relative)
    raise InvalidArgument(
        f'compression={compression!r} is not known: write "lossless", a tolerance between 0 and 1 '
        "as a share of each array's largest value, such as 1e-4, or None"
    )


def _decode_blosc(data: memoryview, raw: NDArray[np.uint8]) -> None:
    blosc2 = _blosc2()
    for chunk, piece in zip(_split(data[1:]), _pieces(raw), strict=True):
        if chunk.nbytes < _BLOSC_HEADER_NBYTES:
            raise ValueError("a compressed piece is shorter than its header")
        if blosc2.get_cbuffer_sizes(chunk)[:2] != (piece.size, chunk.nbytes):
            raise ValueError("a compressed piece is of another size")
        blosc2.decompress2(chunk, dst=piece, nthreads=1)


def _decode_zfp(data: memoryview, out: NDArray[Any]) -> None:
    zfp = _Zfp.from_header(data[: _ZFP_HEADER.size], _LIMITS[out.dtype])
    pieces = (piece for part in _real_parts(out) for piece in _blocks(part))
    with np.errstate(all="ignore"):
        for stream, piece in zip(_split(data[_ZFP_HEADER.size :]), pieces, strict=True):
            piece[...] = zfp.decode(stream, piece.shape)


@dataclass(frozen=True, slots=True)
class _Limits:
    """What zfp can do with a real dtype.

    Attributes
    ----------
    epsilon : the spacing of the numbers at 1.
    tiny : the smallest number that is never taken for zero, whatever the processor's mode.
    furthest : the largest exponent of a power of two to multiply by, up or down.
    """

    dtype: np.dtype[Any]
    epsilon: float
    tiny: float
    furthest: int

    def hold(self, relative: float, tolerance: float) -> bool:
        """Whether a tolerance is far enough from the spacing of numbers and the smallest one."""
        return relative >= 4 * self.epsilon and tolerance >= 32 * self.tiny


_SINGLE: Final = _Limits(np.dtype(np.float32), 2.0**-23, 2.0**-126, 100)
_DOUBLE: Final = _Limits(np.dtype(np.float64), 2.0**-52, 2.0**-1022, 1000)
_LIMITS: Final = {
    np.dtype(np.float32): _SINGLE,
    np.dtype(np.complex64): _SINGLE,
    np.dtype(np.float64): _DOUBLE,
    np.dtype(np.complex128): _DOUBLE,
}
_FEWEST: Final = 64
"""Arrays of fewer numbers go without zfp."""

_SHARE: Final = 7 / 8
"""The share of a tolerance that zfp may use. The rest is for numbers below `_Limits.tiny`, which
are zero or not depending on how the processor is set when they are encoded and decoded."""


@dataclass(frozen=True, slots=True)
class _Zfp:
    """zfp with a fixed tolerance, on arrays that are multiplied by a power of two first.

    Attributes
    ----------
    limits : those of the arrays.
    tolerance : the largest error after the multiplication.
    shift : the power of two.
    """

    limits: _Limits
    tolerance: float
    shift: int

    @staticmethod
    def near_one(limits: _Limits, largest: float, tolerance: float) -> _Zfp:
        """For an array with a given largest magnitude."""
        shift = max(-limits.furthest, min(-math.frexp(largest)[1], limits.furthest))
        return _Zfp(limits, tolerance * 2.0**shift, shift)

    @staticmethod
    def from_header(header: memoryview, limits: _Limits) -> _Zfp:
        """As it was when `header` was written."""
        if header.nbytes < _ZFP_HEADER.size:
            raise ValueError("the header is cut off")
        _, tolerance, shift = _ZFP_HEADER.unpack(header)
        if not (0 < tolerance < math.inf and abs(shift) <= limits.furthest):
            raise ValueError("the header holds no tolerance")
        return _Zfp(limits, tolerance, shift)

    def header(self) -> bytes:
        """What `from_header` reads."""
        return _ZFP_HEADER.pack(_ZFP, self.tolerance, self.shift)

    def encode(self, piece: NDArray[Any]) -> bytes:
        """Write a real array of 1 to 4 axes."""
        scaled = np.multiply(piece, 2.0**self.shift, order="C")
        stream: bytes = _zfpy().compress_numpy(scaled, tolerance=self.tolerance, write_header=False)
        return stream

    def decode(self, stream: Buffer, shape: tuple[int, ...]) -> NDArray[Any]:
        """Read what `encode` wrote for an array of that shape."""
        zfpy = _zfpy()
        piece = np.empty(shape, self.limits.dtype)
        # zfp reads on where a damaged stream ends: over zeros then, not over other memory.
        padded = np.zeros(_longest_stream(piece), np.uint8)
        if len(stream) > padded.size:
            raise ValueError("a compressed piece is longer than any can be")
        padded[: len(stream)] = np.frombuffer(stream, np.uint8)
        try:
            kind = zfpy.dtype_to_ztype(piece.dtype)
            zfpy._decompress(padded, kind, shape, out=piece, tolerance=self.tolerance)
        except RuntimeError as error:
            raise ValueError(f"zfp cannot read a piece: {error}") from error
        piece *= 2.0**-self.shift
        return piece


def _longest_stream(piece: NDArray[Any]) -> int:
    """More bytes than zfp reads for a piece: its blocks of 4 × 4 × … numbers, four times."""
    numbers: int = math.prod((n + 3) // 4 * 4 for n in piece.shape)
    return 64 + 4 * numbers * piece.itemsize


def _largest(*arrays: NDArray[Any]) -> float:
    """The largest magnitude in real arrays, in no memory; NaN if there is one."""
    extremes = [extreme for array in arrays for extreme in (array.max(), array.min())]
    return float(np.abs(extremes).max())


def _real_parts(array: NDArray[Any]) -> list[NDArray[Any]]:
    """The array, or its real and imaginary part, as views of 1 to 3 axes.

    zfp fills blocks of 4 numbers along every axis, which wastes bytes where an axis is shorter; a
    fourth axis saves none, measured on waves. So leading axes are put together.
    """
    shape = [n for n in array.shape if n > 1]
    while len(shape) > 3 or (len(shape) > 1 and shape[0] < 4):
        shape[:2] = [shape[0] * shape[1]]
    array = array.reshape(shape)
    return [array.real, array.imag] if array.dtype.kind == "c" else [array]


def _blocks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Views of at most `PIECE_NBYTES`, cut at multiples of 4 as zfp's own blocks are."""
    nbytes = array.size * array.itemsize
    if nbytes <= PIECE_NBYTES:
        yield array
        return
    axis = next(axis for axis, n in enumerate(array.shape) if n > 4)
    length = array.shape[axis]
    count = max(4, PIECE_NBYTES * length // nbytes // 4 * 4)
    before = (slice(None),) * axis
    for start in range(0, length, count):
        yield from _blocks(array[(*before, slice(start, start + count))])


def _pieces(raw: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    for start in range(0, raw.size, PIECE_NBYTES):
        yield raw[start : start + PIECE_NBYTES]


def _append(data: bytearray, stream: bytes) -> None:
    data += _LENGTH.pack(len(stream))
    data += stream


def _split(data: memoryview) -> Iterator[memoryview]:
    """What `_append` put together."""
    while data:
        if data.nbytes < _LENGTH.size:
            raise ValueError("a length is cut off")
        (length,) = _LENGTH.unpack(data[: _LENGTH.size])
        end = _LENGTH.size + length
        if end > data.nbytes:
            raise ValueError("a compressed piece is cut off")
        yield data[_LENGTH.size : end]
        data = data[end:]


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of a C-contiguous array, in place."""
    if array.dtype.hasobject or array.dtype.names is not None:
        raise InvalidArgument(
            f"an array of dtype {array.dtype} cannot be compressed: hand its fields in one by one, "
            "as arrays of numbers"
        )
    return array.reshape(-1).view(np.uint8)


def _blosc2() -> Any:
    return _extra("blosc2", "Blosc2")


def _zfpy() -> Any:
    return _extra("zfpy", "zfpy")


def _extra(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(
            f"compression needs {name}: pip install 'retrograd[compression]'"
        ) from error
