"""Velocity models: an array in km/s, z down, and where it lies in metres."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from retrograd.errors import InvalidArgument

Array = npt.NDArray[Any]

_MARMOUSI_SPACINGS_M = (8, 20)
_NOT_KM_PER_S = 100.0


@dataclass(frozen=True, eq=False)
class VelocityModel:
    """The P-wave velocity on a regular grid.

    Parameters
    ----------
    vp : km/s, shape (nz,), (nx, nz) or (nx, ny, nz), z down; float64 stays float64, other real
        types become float32. The model holds a read-only copy.
    spacing : metres between grid points, one number per axis.
    origin : metres, the position of the first grid point, one number per axis; zeros if empty.

    Raises
    ------
    InvalidArgument
        For other shapes, fewer than two points along an axis, velocities that are not finite
        and positive, or that look like m/s.
    """

    vp: Array
    spacing: tuple[float, ...]
    origin: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        vp = _checked_vp(np.asarray(self.vp))
        spacing = _per_axis("spacing", self.spacing, vp.ndim)
        if min(spacing) <= 0:
            raise InvalidArgument(f"spacing {spacing} m: give a positive number for every axis")
        origin = _per_axis("origin", self.origin, vp.ndim) if len(self.origin) else (0.0,) * vp.ndim
        object.__setattr__(self, "vp", vp)
        object.__setattr__(self, "spacing", spacing)
        object.__setattr__(self, "origin", origin)

    @property
    def shape(self) -> tuple[int, ...]:
        """Grid points along every axis."""
        return self.vp.shape

    @property
    def extent(self) -> tuple[float, ...]:
        """Metres from the first to the last grid point, along every axis."""
        return tuple((n - 1) * h for n, h in zip(self.shape, self.spacing, strict=True))

    def with_vp(self, vp: Array) -> VelocityModel:
        """Return a model with other velocities on the same grid.

        Raises
        ------
        InvalidArgument
            If `vp` has another shape, or velocities that a model cannot have.
        """
        if np.shape(vp) != self.shape:
            raise InvalidArgument(
                f"velocities of shape {np.shape(vp)} on a grid of shape {self.shape}: "
                "give one velocity for every grid point"
            )
        return replace(self, vp=vp)


def load_npz(path: str | Path) -> VelocityModel:
    """Return the model in an npz file with keys `vp`, `spacing` and, optionally, `origin`.

    Units and axes are `VelocityModel`'s; one number for `spacing` holds for every axis.

    Raises
    ------
    InvalidArgument
        If the file is absent, is not an npz, lacks a key, or holds no valid model.
    """
    arrays = arrays_in(Path(path).expanduser())
    try:
        return velocities_in(arrays)
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}") from error


def marmousi(spacing_m: int = 8) -> VelocityModel:
    """Return the embedded window of the Marmousi model, 3.2 km wide and 2.2 km deep, no water.

    Parameters
    ----------
    spacing_m : 8 (400 × 275 points) or 20 (160 × 110 points, for quick looks and tests).

    References
    ----------
    Versteeg (1994), The Marmousi experience, The Leading Edge 13, 927-936. Licence and
    attribution: `NOTICE.md` beside the data.

    Examples
    --------
    >>> marmousi(20).shape
    (160, 110)
    """
    if spacing_m not in _MARMOUSI_SPACINGS_M:
        raise InvalidArgument(f"no Marmousi model at {spacing_m} m: write marmousi(8) or (20)")
    name = f"marmousi1_window_{spacing_m:d}m.npz"
    with resources.as_file(resources.files("retrograd.seismic") / "data" / name) as path:
        return load_npz(path)


def arrays_in(path: Path) -> Mapping[str, Array]:
    """Return what is in an npz file, or raise InvalidArgument with what is wrong."""
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                raise InvalidArgument(
                    f"{path} holds a single array: save a model with "
                    "np.savez(path, vp=vp, spacing=spacing)"
                )
            return dict(loaded)
    except FileNotFoundError:
        raise InvalidArgument(f"there is no file {path}: give the path of an npz file") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"{path} cannot be read as an npz file ({error}): save a model with "
            "np.savez(path, vp=vp, spacing=spacing)"
        ) from error


def velocities_in(arrays: Mapping[str, Array]) -> VelocityModel:
    """Return the model of such arrays, by their names."""
    missing = [key for key in ("vp", "spacing") if key not in arrays]
    if missing:
        raise InvalidArgument(
            f"no key {' and no key '.join(missing)} among {sorted(arrays)}: "
            "save vp (km/s) and spacing (m)"
        )
    vp, spacing = arrays["vp"], arrays["spacing"]
    if spacing.size == 1:
        spacing = np.full(vp.ndim, spacing)
    origin = arrays.get("origin", np.zeros(vp.ndim))
    return VelocityModel(vp, tuple(np.ravel(spacing)), tuple(np.ravel(origin)))


def _checked_vp(vp: Array) -> Array:
    if vp.dtype.kind not in "fiu":
        raise InvalidArgument(f"velocities of type {vp.dtype}: give real numbers in km/s")
    vp = np.array(vp, dtype=np.float64 if vp.dtype == np.float64 else np.float32, order="C")
    if not 1 <= vp.ndim <= 3 or min(vp.shape) < 2:
        raise InvalidArgument(
            f"velocities of shape {vp.shape}: give (nz,), (nx, nz) or (nx, ny, nz) "
            "with at least two points along every axis"
        )
    if not np.isfinite(vp).all():
        raise InvalidArgument(
            f"{np.count_nonzero(~np.isfinite(vp))} of {vp.size} velocities are NaN or infinite: "
            "give a finite velocity for every grid point"
        )
    if vp.min() <= 0:
        raise InvalidArgument(
            f"the smallest velocity is {vp.min():g} km/s: give positive velocities"
        )
    if vp.max() > _NOT_KM_PER_S:
        raise InvalidArgument(
            f"the largest velocity is {vp.max():g}, which looks like m/s: "
            "divide by 1000, velocities are in km/s"
        )
    vp.setflags(write=False)
    return vp


def _per_axis(name: str, values: tuple[float, ...], ndim: int) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name} {values!r}: give one number of metres per axis") from None
    if len(numbers) != ndim or not np.isfinite(numbers).all():
        raise InvalidArgument(
            f"{name} {numbers} for a model of {ndim} axes: give {ndim} finite numbers of metres"
        )
    return numbers
