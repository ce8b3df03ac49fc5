"""Codecs: the same bits, or an error within the tolerance, and never more bytes than the array."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import platform
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from retrograd.errors import InvalidArgument, MissingExtra
from retrograd.stores import codecs
from retrograd.stores.codecs import Codec, Lossless, Tolerance, codec_of, decode

blosc2 = pytest.importorskip("blosc2")
pytest.importorskip("zfpy")

INTEGERS = ["i1", "i2", "i4", "i8", "u2"]
FLOATS = ["f2", "f4", "f8", "c8", "c16", "g"]
SHAPES = [
    (),
    (0,),
    (3, 0, 2),
    (1,),
    (63,),
    (64,),
    (65,),
    (1021,),
    (17, 19),
    (5, 6, 7),
    (3, 1, 5, 9),
    (2, 3, 4, 5, 3),
]
WRONG = "cut off|no encoded array|header|longer|zip|another size|decompressing|nothing was encoded"
CODECS = [Lossless(), Lossless("zstd", 3), Tolerance(1e-3)]


def noise(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Every bit random, so that any value that there is may occur."""
    rng = np.random.default_rng(seed)
    if dtype == "?":
        return rng.integers(0, 2, shape).astype(bool)
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(rng.bytes(count), dtype).reshape(shape)


def wave(shape: tuple[int, ...], dtype: str) -> Any:
    """Smooth, zero in one half, largest magnitude 1."""
    where = sum(np.linspace(0, 3, n).reshape(-1, *[1] * k) for k, n in enumerate(shape[::-1]))
    values = np.sin(where) * (where > 1)
    if np.dtype(dtype).kind == "c":
        values = values * np.exp(2j * where)
    return (values / np.abs(values).max()).astype(dtype)


def round_trip(codec: Codec, array: Any) -> tuple[Any, int]:
    """The array that comes back, and the bytes that it took."""
    encoded = codec.encode(array)
    out = np.full(array.shape, 7, array.dtype) if array.dtype.kind != "V" else array.copy()
    codec.decode(encoded.data, out)
    assert len(encoded.data) <= array.nbytes
    return out, len(encoded.data)


def error(out: Any, array: Any) -> float:
    """The largest error as a share of the largest magnitude, where no number overflows."""
    if out.tobytes() == array.tobytes():  # denormals may be zeros to this processor
        return 0.0
    wide = np.clongdouble if array.dtype.kind == "c" else np.longdouble
    out, array = out.astype(wide), array.astype(wide)
    return float(np.abs(out - array).max() / np.abs(array).max())


@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "?", ">f4", ">i8"])
def test_noise_comes_back_bit_for_bit(codec: Codec, dtype: str) -> None:
    for seed, shape in enumerate(SHAPES):
        array = noise(shape, dtype, seed)
        if array.size >= 64 and array.dtype in codecs._LIMITS:
            array = np.concatenate([array, np.full_like(array, np.nan)])
        assert round_trip(codec, array)[0].tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_lossless_keeps_waves_bit_for_bit(dtype: str) -> None:
    for shape in [(40, 50, 60), (50, 100), (5000,)]:
        array = (100 * wave(shape, "f8")).astype(dtype)
        for codec in (Lossless(), Lossless("blosclz", 9)):
            out, nbytes = round_trip(codec, array)
            assert out.tobytes() == array.tobytes()
            assert nbytes < 0.95 * array.nbytes


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_special_values_come_back_bit_for_bit(codec: Codec) -> None:
    for dtype in ("f2", "f4", "f8", "c8", "c16"):
        for value in (np.nan, np.inf, -np.inf):
            array = wave((12, 13, 14), dtype)
            array[3, 4, 5] = value
            assert round_trip(codec, array)[0].tobytes() == array.tobytes()
        negative_zeros = -np.zeros(1000, dtype)
        assert round_trip(codec, negative_zeros)[0].tobytes() == negative_zeros.tobytes()
    for dtype, smallest in (("f4", 2.0**-149), ("f8", 2.0**-1074)):
        denormals = np.arange(1000).astype(dtype) * np.array(smallest, dtype)
        assert round_trip(codec, denormals)[0].tobytes() == denormals.tobytes()
    payload = np.full(100, 0x7FC12345, np.uint32).view(np.float32)
    assert round_trip(codec, payload)[0].tobytes() == payload.tobytes()


@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "?"])
def test_zeros_take_a_byte(codec: Codec, dtype: str) -> None:
    for shape in [(1000,), (200, 300, 50)]:
        array = np.zeros(shape, dtype)
        out, nbytes = round_trip(codec, array)
        assert out.tobytes() == array.tobytes()
        assert nbytes == 1


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_arrays_need_not_be_contiguous(codec: Codec) -> None:
    array = wave((40, 30, 20), "f4")
    for view in (array.T, array[::2, ::-1], array[:, :, 3], np.asfortranarray(array)):
        assert error(round_trip(codec, view)[0], view) <= 1e-3
    with pytest.raises(InvalidArgument, match="C-contiguous"):
        codec.decode(codec.encode(array).data, np.empty((20, 30, 40), "f4").T)


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_what_is_not_numbers_is_refused(codec: Codec) -> None:
    for array in (np.array([None, 1]), np.zeros(3, [("a", "f4"), ("b", "i4")])):
        with pytest.raises(InvalidArgument, match="one by one"):
            codec.encode(array)


def test_other_dtypes_of_plain_bytes_are_kept() -> None:
    array = noise((50,), "u2").view("V2")
    assert round_trip(Lossless(), array)[0].tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("relative", [1e-1, 1e-2, 1e-3, 1e-4, 1e-6])
def test_errors_are_within_the_tolerance_at_every_scale(dtype: str, relative: float) -> None:
    found = set()
    for scale in (1e-30, 1e-20, 1e-6, 1, 1e6, 1e20, 1e30):
        array = wave((30, 31, 33), dtype) * np.array(scale, dtype)
        encoded = Tolerance(relative).encode(array)
        out = np.empty_like(array)
        decode(encoded.data, out)
        measured = error(out, array)
        assert 0 < measured <= relative
        assert measured <= encoded.relative_error * 1.01 <= 1.01 * relative
        assert array.dtype.kind == "c" or encoded.relative_error == pytest.approx(measured, 1e-2)
        found.add(len(encoded.data) // 1000)
    assert max(found) - min(found) <= 0.2 * max(found) + 1  # as short at every scale
    assert max(found) * 1000 < 0.75 * array.nbytes


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_errors_are_within_the_tolerance_for_every_kind_of_array(dtype: str) -> None:
    rng = np.random.default_rng(1)
    exponents = np.finfo(dtype).minexp, np.finfo(dtype).maxexp
    for seed in range(40):
        shape = tuple(rng.integers(1, 12, rng.integers(1, 6)))
        low, high = sorted(rng.integers(*exponents, 2))
        array = (rng.uniform(-1, 1, shape) * 2.0 ** rng.integers(low, high + 1, shape)).astype(
            dtype
        )
        if seed % 4 == 0:
            array += array.flat[0] * 100 if high < exponents[1] - 9 else array.flat[0]
        if not array.any() or not np.isfinite(array).all():
            continue
        relative = 10.0 ** -rng.integers(1, 16)
        assert error(round_trip(Tolerance(relative), array)[0], array) <= relative


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_largest_numbers_stay_finite(dtype: str) -> None:
    for relative in (0.9, 0.5, 0.1):
        array = wave((20, 20, 20), dtype) * np.finfo(dtype).max
        assert error(round_trip(Tolerance(relative), array)[0], array) <= relative


def test_a_tolerance_below_the_spacing_of_numbers_loses_nothing() -> None:
    for dtype, relative in (("f4", 1e-9), ("f4", 1e-7), ("f8", 1e-16), ("c8", 1e-9)):
        array = wave((20, 30, 40), dtype)
        assert round_trip(Tolerance(relative), array)[0].tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("share", "dtype", "kept"),
    [
        (0.8, "f4", True),
        (0.95, "f4", False),
        (0.6, "c8", True),
        (0.8, "c8", False),
        (np.inf, "f4", False),
        (np.nan, "f4", False),
    ],
)
def test_an_error_that_zfp_should_not_make_is_caught(
    share: float, dtype: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real and the imaginary part may both be wrong."""
    array = wave((20, 30, 40), dtype)
    parts = codecs._real_parts(array)
    largest = codecs._largest(*parts)
    originals = iter(parts)
    monkeypatch.setattr(
        codecs._Zfp, "decode", lambda *_: next(originals) + np.float32(share * 1e-3 * largest)
    )
    encoded = Tolerance(1e-3).encode(array)
    monkeypatch.undo()
    assert (encoded.relative_error > 0) is kept
    assert encoded.relative_error <= 1e-3
    out = np.empty_like(array)
    decode(encoded.data, out)
    assert kept or out.tobytes() == array.tobytes()


def test_a_tolerance_saves_more_than_lossless() -> None:
    array = wave((40, 50, 60), "f4")
    sizes = [round_trip(codec, array)[1] for codec in map(codec_of, (1e-2, 1e-4, "lossless"))]
    assert 4 * sizes[0] < 2 * sizes[1] < sizes[2]


@pytest.mark.parametrize("dtype", ["f4", "c16", "i2"])
@pytest.mark.parametrize(
    "shape", [(9000,), (5, 3000), (70, 9, 31), (2, 3, 70, 41), (3, 2, 5, 9, 31)]
)
def test_arrays_of_many_pieces(
    dtype: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    array = (100 * wave(shape, "c16" if dtype == "c16" else "f8")).astype(dtype)
    whole = [round_trip(codec, array)[1] for codec in CODECS]
    monkeypatch.setattr(codecs, "PIECE_NBYTES", 4096)
    for codec, nbytes in zip(CODECS, whole, strict=True):
        out, in_pieces = round_trip(codec, array)
        exact = codec.is_lossless or dtype == "i2"
        assert error(out, array) <= (0 if exact else 1e-3)
        if not exact:  # as short, because no block of zfp is cut
            assert in_pieces < 1.1 * nbytes + 12 * array.nbytes // 1000
    for part in codecs._real_parts(array):
        pieces = list(codecs._blocks(part))
        assert all(piece.nbytes <= 4096 for piece in pieces)
        assert sum(piece.size for piece in pieces) == part.size
        assert len(pieces) >= 3


def flushing(work: Callable[[], None]) -> None:
    """Run where the processor takes denormal numbers for zero, as after compiled code.

    In a thread of its own, because the switch is the thread's.
    """
    if platform.machine() not in ("x86_64", "AMD64") or not sys.platform.startswith("linux"):
        pytest.skip("the switch is known for x86-64 only")
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\x0f\xae\x17\xc3")  # ldmxcsr [rdi]; ret
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    switch = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint32))(address)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            switch(ctypes.c_uint32(0x1F80 | 0x8040))  # no traps; flush to zero, denormals are zero
            assert not (np.array([2.0**-140], np.float32) * np.float32(1)).any()
            work()
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("encode_flushing", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_processor_that_flushes_denormals_changes_nothing(
    dtype: str, encode_flushing: bool
) -> None:
    """Decoding happens the other way, so that the two never help each other."""
    lowest = int(np.finfo(dtype).minexp)
    arrays = [
        np.ldexp(wave((9, 10, 11), "f8"), lowest + up).astype(dtype) for up in range(-20, 40, 3)
    ]
    arrays[-1][:3] = np.ldexp(1.0, lowest - 5)  # denormal numbers beside ordinary ones
    expected = [array.tobytes() for array in arrays]
    relative = 1e-3
    encoded: list[bytes] = []
    outs = [np.ones_like(array) for array in arrays]

    def encode() -> None:
        encoded.extend(bytes(Tolerance(relative).encode(array).data) for array in arrays)

    def read() -> None:
        for data, out in zip(encoded, outs, strict=True):
            decode(data, out)

    (flushing if encode_flushing else lambda work: work())(encode)
    (flushing if not encode_flushing else lambda work: work())(read)
    lossy = 0
    for array, bits, out in zip(arrays, expected, outs, strict=True):
        assert array.tobytes() == bits
        assert error(out, array) <= relative
        lossy += out.tobytes() != bits
    assert 0 < lossy < len(arrays) - 7  # the smallest are kept bit for bit


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_strict_error_handling_of_numpy_does_not_matter(codec: Codec) -> None:
    for dtype, scale in itertools.product(("f4", "c8"), (1e-36, 1.0, 3e38)):
        array = wave((20, 20, 20), dtype) * np.array(scale, dtype)
        with np.errstate(all="raise"):
            out, _ = round_trip(codec, array)
        assert error(out, array) <= 1e-3
    array[0] = np.nan
    with np.errstate(all="raise"):
        round_trip(codec, array)


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_what_is_cut_off_is_refused(codec: Codec) -> None:
    array = wave((12, 12, 12), "f4")
    data = bytes(codec.encode(array).data)
    out = np.empty_like(array)
    assert len(data) < array.nbytes
    for end in range(len(data)):
        with pytest.raises(ValueError, match=WRONG):
            codec.decode(data[:end], out)
    for wrong in (b"\x09" + data[1:], data + b"\x00", data + data, b"\x00\x00"):
        with pytest.raises(ValueError, match=WRONG):
            codec.decode(wrong, out)
    for other in (np.empty((12, 12, 13), "f4"), np.empty((11, 12, 12), "f4")):
        with pytest.raises(ValueError, match=WRONG):
            codec.decode(codec.encode(wave((90, 90, 90), "f4")).data, other)


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_damage_is_refused_or_read_but_never_worse(codec: Codec) -> None:
    rng = np.random.default_rng(3)
    array = wave((12, 12, 12), "f4")
    data = bytes(codec.encode(array).data)
    guarded = np.full(array.size + 200, 3, "f4")
    out = guarded[100:-100].reshape(array.shape)
    refused = 0
    for _ in range(500):
        damaged = bytearray(data)
        for at in rng.integers(0, len(data), 3):
            damaged[at] = rng.integers(256)
        damaged[rng.integers(0, 40)] = rng.integers(256)
        try:
            codec.decode(damaged, out)
        except ValueError:
            refused += 1
    assert refused > 50
    assert (guarded[:100] == 3).all()
    assert (guarded[-100:] == 3).all()


def test_the_settings_of_blosc2_are_left_alone() -> None:
    before = blosc2.nthreads, dict(blosc2.cparams_dflts), dict(blosc2.dparams_dflts)
    round_trip(Lossless(), wave((100, 100), "f4"))
    assert before == (blosc2.nthreads, dict(blosc2.cparams_dflts), dict(blosc2.dparams_dflts))


def test_codecs_by_name() -> None:
    assert codec_of(None) is codec_of("none") is None
    assert codec_of("lossless") == Lossless()
    assert codec_of("1e-4") == codec_of(1e-4) == codec_of(np.float64(1e-4)) == Tolerance(1e-4)
    assert str(codec_of(1e-4)) == "within 0.0001 (zfp)"
    assert str(codec_of("lossless")) == "lossless (lz4)"
    for wrong in ("lossy", "", "1", 0, 1, 1.5, -1e-3, True, "nan", np.nan, [1e-4], object()):
        with pytest.raises(InvalidArgument, match=r'compression=.*write "lossless"'):
            codec_of(wrong)  # type: ignore[arg-type]


def test_what_cannot_be_right_is_refused() -> None:
    for wrong in (0, 1, 1.0, 0.0, -0.1, 2, True, np.nan, np.inf, "1e-4", None):
        with pytest.raises(InvalidArgument, match=r"relative=1e-4"):
            Tolerance(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="lz4, lz4hc"):
        Lossless("gzip")
    for level in (0, 10, 1.5, True):
        with pytest.raises(InvalidArgument, match="level="):
            Lossless("lz4", level)  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", ["blosc2", "zfpy"])
def test_a_missing_package_is_named_with_the_command(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtra, match=r"pip install 'retrograd\[compression\]'"):
        Tolerance(1e-3)
