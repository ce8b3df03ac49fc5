"""Velocity models, their files, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrograd.errors import InvalidArgument
from retrograd.seismic import VelocityModel, load_npz, marmousi

VP = np.array([[1.5, 2.0, 2.5], [1.5, 2.1, 2.6]], dtype=np.float32)


@pytest.mark.parametrize(("spacing", "shape"), [(8, (400, 275)), (20, (160, 110))])
def test_marmousi_is_what_its_notice_says(spacing: int, shape: tuple[int, int]) -> None:
    model = marmousi(spacing)
    assert model.shape == shape
    assert model.vp.dtype == np.float32
    assert model.spacing == (spacing, spacing)
    assert model.origin == (800.0, 800.0)
    assert model.vp.min() == np.float32(1.73)
    assert model.vp.max() == 5.5


def test_marmousi_at_both_spacings_is_one_model() -> None:
    assert np.array_equal(marmousi(8).vp[::5, ::5], marmousi(20).vp[::2, ::2])


def test_marmousi_at_another_spacing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"write marmousi\(8\) or \(20\)"):
        marmousi(10)


def test_a_model_keeps_its_own_read_only_velocities() -> None:
    vp = VP.copy()
    model = VelocityModel(vp, (10.0, 5.0))
    vp[:] = 9.0
    assert np.array_equal(model.vp, VP)
    assert model.origin == (0.0, 0.0)
    assert model.extent == (10.0, 10.0)
    with pytest.raises(ValueError, match="read-only"):
        model.vp[0, 0] = 1.0


@pytest.mark.parametrize(
    ("given", "kept"), [(np.float64, np.float64), (np.float32, np.float32), (np.int64, np.float32)]
)
def test_precision_is_kept_where_it_is_one(given: type, kept: type) -> None:
    assert VelocityModel(np.array([1, 2, 3], dtype=given), (10.0,)).vp.dtype == kept


@pytest.mark.parametrize(
    ("vp", "advice"),
    [
        (np.where(VP > 2.4, np.nan, VP), "2 of 6 velocities are NaN or infinite"),
        (np.where(VP > 2.4, np.inf, VP), "NaN or infinite"),
        (VP - 1.5, "smallest velocity is 0 km/s"),
        (-VP, "give positive velocities"),
        (VP * 1000, "looks like m/s: divide by 1000"),
        (VP[:1], "at least two points"),
        (np.ones((2, 2, 2, 2)), r"give \(nz,\)"),
        (np.float32(2.0), r"give \(nz,\)"),
        (VP.astype(complex), "give real numbers"),
        (VP.astype(str), "give real numbers"),
        (VP > 2, "give real numbers"),
    ],
)
def test_impossible_velocities_are_refused(vp: Any, advice: str) -> None:
    with pytest.raises(InvalidArgument, match=advice):
        VelocityModel(vp, (10.0, 10.0))


@pytest.mark.parametrize(
    ("geometry", "advice"),
    [
        ({"spacing": (10.0,)}, "give 2 finite numbers"),
        ({"spacing": (10.0, 0.0)}, "positive number for every axis"),
        ({"spacing": (10.0, float("nan"))}, "give 2 finite numbers"),
        ({"spacing": ("ten", 10.0)}, "one number of metres per axis"),
        ({"spacing": 10.0}, "one number of metres per axis"),
        ({"spacing": (10.0, 10.0), "origin": (0.0,)}, "origin .* 2 finite numbers"),
    ],
)
def test_impossible_geometries_are_refused(geometry: dict[str, Any], advice: str) -> None:
    with pytest.raises(InvalidArgument, match=advice):
        VelocityModel(VP, **geometry)


def test_with_vp_keeps_the_grid_and_checks_the_velocities() -> None:
    model = VelocityModel(VP, (10.0, 5.0), (1.0, 2.0))
    other = model.with_vp(VP + 1)
    assert (other.spacing, other.origin) == (model.spacing, model.origin)
    assert np.array_equal(other.vp, VP + 1)
    with pytest.raises(InvalidArgument, match="one velocity for every grid point"):
        model.with_vp(VP[:, 1:])
    with pytest.raises(InvalidArgument, match="give positive velocities"):
        model.with_vp(-VP)


def test_a_file_gives_its_model_back(tmp_path: Path) -> None:
    path = tmp_path / "a model.npz"
    np.savez(path, vp=VP, spacing=[10.0, 5.0], origin=[1.0, 2.0])
    model = load_npz(path)
    assert np.array_equal(model.vp, VP)
    assert (model.spacing, model.origin) == ((10.0, 5.0), (1.0, 2.0))


def test_one_spacing_holds_for_every_axis_and_the_origin_is_optional(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", vp=VP, spacing=10.0)
    model = load_npz(str(tmp_path / "m.npz"))
    assert (model.spacing, model.origin) == ((10.0, 10.0), (0.0, 0.0))


@pytest.mark.parametrize(
    ("arrays", "advice"),
    [
        ({"spacing": [10.0, 10.0]}, "no key vp among"),
        ({"velocity": VP}, r"no key vp and no key spacing among \['velocity'\]"),
        ({"vp": VP}, "no key spacing"),
        ({"vp": VP * 1000, "spacing": 10.0}, "m.npz: .* looks like m/s"),
        ({"vp": VP, "spacing": [10.0, 10.0, 10.0]}, "give 2 finite numbers"),
        ({"vp": VP, "spacing": ["a", "b"]}, "one number of metres"),
    ],
)
def test_files_without_a_model_are_refused(
    tmp_path: Path, arrays: dict[str, Any], advice: str
) -> None:
    np.savez(tmp_path / "m.npz", **arrays)
    with pytest.raises(InvalidArgument, match=advice):
        load_npz(tmp_path / "m.npz")


def test_files_that_are_no_npz_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="there is no file"):
        load_npz(tmp_path / "absent.npz")
    with pytest.raises(InvalidArgument, match="cannot be read"):
        load_npz(tmp_path)
    (tmp_path / "text.npz").write_text("vp = 1500")
    with pytest.raises(InvalidArgument, match="cannot be read as an npz file"):
        load_npz(tmp_path / "text.npz")
    (tmp_path / "empty.npz").touch()
    with pytest.raises(InvalidArgument, match="cannot be read as an npz file"):
        load_npz(tmp_path / "empty.npz")
    np.save(tmp_path / "single.npy", VP)
    with pytest.raises(InvalidArgument, match="holds a single array"):
        load_npz(tmp_path / "single.npy")
    np.savez(tmp_path / "objects.npz", vp=np.array([None, "x"]), spacing=1.0)
    with pytest.raises(InvalidArgument, match="cannot be read"):
        load_npz(tmp_path / "objects.npz")


@pytest.mark.parametrize("part", ["cut", "flipped"])
def test_damaged_files_are_refused(tmp_path: Path, part: str) -> None:
    path = tmp_path / "m.npz"
    np.savez_compressed(path, vp=np.tile(VP, (50, 50)), spacing=10.0)
    content = bytearray(path.read_bytes())
    if part == "cut":
        del content[len(content) // 2 :]
    else:
        content[60] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InvalidArgument, match="cannot be read as an npz file"):
        load_npz(path)
