"""Elastic models, and the coefficients of the staggered grid that they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from retrograd.errors import InvalidArgument
from retrograd.seismic.models import VelocityModel, arrays_in, velocities_in

Array = npt.NDArray[Any]
Edge = tuple[int, int]

_LARGEST_VS = np.sqrt(0.75)
"""Of the P velocity: above, the bulk modulus λ + 2μ/3 is negative."""


@dataclass(frozen=True, eq=False)
class ElasticModel:
    """P and S velocity and density on a regular grid.

    Parameters
    ----------
    vp : km/s, shape (nx, nz) or (nx, ny, nz), z down.
    vs : km/s, of the same shape; 0 in fluids, at most √(3/4) of vp.
    rho : density in g/cm³, of the same shape.
    spacing, origin : metres, as for `VelocityModel`.

    Raises
    ------
    InvalidArgument
        For other shapes or values.
    """

    vp: Array
    vs: Array
    rho: Array
    spacing: tuple[float, ...]
    origin: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        acoustic = VelocityModel(self.vp, self.spacing, self.origin)
        if acoustic.vp.ndim < 2:
            raise InvalidArgument(
                f"velocities of shape {acoustic.shape}: elastic models have two or three axes"
            )
        vs = _like(acoustic.vp, "vs", self.vs)
        rho = _like(acoustic.vp, "rho", self.rho)
        if vs.min() < 0 or rho.min() <= 0:
            raise InvalidArgument(
                f"vs from {vs.min():g} km/s and rho from {rho.min():g} g/cm³: S velocities are not "
                "negative (0 in fluids), and densities are positive"
            )
        if rho.max() > 100:
            raise InvalidArgument(
                f"the largest density is {rho.max():g}, which looks like kg/m³: divide by 1000, "
                "densities are in g/cm³"
            )
        ratio = float((vs / acoustic.vp).max())
        if ratio > _LARGEST_VS:
            raise InvalidArgument(
                f"vs reaches {ratio:.3g} of vp, and no solid more than {_LARGEST_VS:.3g}: are the "
                "two swapped, or in different units?"
            )
        object.__setattr__(self, "_acoustic", acoustic)
        for name, value in (("vp", acoustic.vp), ("vs", vs), ("rho", rho)):
            object.__setattr__(self, name, value)
        for name in ("spacing", "origin"):
            object.__setattr__(self, name, getattr(acoustic, name))

    @property
    def acoustic(self) -> VelocityModel:
        """The P velocity alone."""
        acoustic: VelocityModel = self._acoustic  # type: ignore[attr-defined]
        return acoustic

    @property
    def shape(self) -> tuple[int, ...]:
        """Grid points along every axis."""
        return self.vp.shape

    def changed(self, **arrays: Array) -> ElasticModel:
        """Return a model on the same grid with another ``vp``, ``vs`` or ``rho``."""
        mine: dict[str, Any] = {"vp": self.vp, "vs": self.vs, "rho": self.rho}
        for name, values in arrays.items():
            if name not in mine or np.shape(values) != self.shape:
                raise InvalidArgument(
                    f"{name} of shape {np.shape(values)}: give vp, vs or rho of shape {self.shape}"
                )
        return ElasticModel(**(mine | arrays), spacing=self.spacing, origin=self.origin)


def load_elastic_npz(path: str | Path) -> ElasticModel:
    """Return the model in an npz file with keys `vp`, `vs`, `rho` and `spacing`, maybe `origin`.

    Raises
    ------
    InvalidArgument
        If the file is absent, is not an npz, lacks a key, or holds no valid model.
    """
    arrays = arrays_in(Path(path).expanduser())
    missing = [key for key in ("vs", "rho") if key not in arrays]
    if missing:
        raise InvalidArgument(
            f"{path}: no key {' and no key '.join(missing)} among {sorted(arrays)}: "
            "save vs (km/s) and rho (g/cm³)"
        )
    try:
        acoustic = velocities_in(arrays)
        return ElasticModel(
            acoustic.vp, arrays["vs"], arrays["rho"], acoustic.spacing, acoustic.origin
        )
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}") from error


@dataclass(frozen=True, eq=False)
class Coefficients:
    """What the equations multiply by, or a derivative by each of them.

    Parameters
    ----------
    lam, mu : Lamé's parameters at the grid points, in GPa.
    buoyancy : for each axis, the inverse density half a cell further along it, in cm³/g.
    edges : for each pair of axes, μ half a cell further along both.
    """

    lam: Array
    mu: Array
    buoyancy: tuple[Array, ...]
    edges: Mapping[Edge, Array]


def coefficients(vp: Array, vs: Array, rho: Array) -> Coefficients:
    """Return the coefficients of a model in float64.

    Density is averaged arithmetically over the two neighbours, μ harmonically over the four: an
    edge that touches a fluid carries no shear (Moczo et al. 2002, Bulletin of the Seismological
    Society of America 92, 3042-3066). Beyond the last point, that point counts again.
    """
    vp, vs, rho = (array.astype(np.float64) for array in (vp, vs, rho))
    mu = rho * vs**2
    return Coefficients(
        lam=rho * vp**2 - 2 * mu,
        mu=mu,
        buoyancy=tuple(2.0 / (rho + _next(rho, (axis,))) for axis in range(rho.ndim)),
        edges={edge: _harmonic(_corners(mu, edge)) for edge in combinations(range(mu.ndim), 2)},
    )


def lame_gradient(rho: Array, mu: Array, by: Coefficients) -> dict[str, Array]:
    """Return derivatives by λ, μ and ρ at the grid points, from those by the coefficients.

    An edge that touches a fluid has none: a fluid stays one.
    """
    rho, mu = rho.astype(np.float64), mu.astype(np.float64)
    by_rho, by_mu = np.zeros_like(rho), by.mu.astype(np.float64)
    for axis, values in enumerate(by.buoyancy):
        buoyancy = 2.0 / (rho + _next(rho, (axis,)))
        share = -0.5 * buoyancy**2 * values
        by_rho += share + _next_adjoint(share, (axis,))
    for edge, values in by.edges.items():
        mean = _harmonic(_corners(mu, edge))
        for steps in _subsets(edge):
            corner = _next(mu, steps)
            squared = np.divide(mean, corner, out=np.zeros_like(mean), where=corner > 0) ** 2
            by_mu += _next_adjoint(0.25 * squared * values, steps)
    return {"lambda": by.lam.astype(np.float64), "mu": by_mu, "rho": by_rho}


def velocity_gradient(
    vp: Array, vs: Array, rho: Array, by: Mapping[str, Array]
) -> dict[str, Array]:
    """Return derivatives by vp, vs and ρ, from those by λ, μ and ρ.

    λ = ρ (vp² - 2 vs²) and μ = ρ vs².
    """
    vp, vs, rho = (array.astype(np.float64) for array in (vp, vs, rho))
    return {
        "vp": 2 * rho * vp * by["lambda"],
        "vs": 2 * rho * vs * by["mu"] - 4 * rho * vs * by["lambda"],
        "rho": by["rho"] + (vp**2 - 2 * vs**2) * by["lambda"] + vs**2 * by["mu"],
    }


def _subsets(edge: Edge) -> list[tuple[int, ...]]:
    chosen = product(*(((), (axis,)) for axis in edge))
    return [first + second for first, second in chosen]


def _corners(mu: Array, edge: Edge) -> list[Array]:
    return [_next(mu, steps) for steps in _subsets(edge)]


def _harmonic(corners: list[Array]) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(len(corners) / sum(1.0 / corner for corner in corners))


def _next(values: Array, axes: tuple[int, ...]) -> Array:
    """The values one point further along the axes; at the end, the last ones again."""
    for axis in axes:
        last = values.take([-1], axis)
        rest = values.take(range(1, values.shape[axis]), axis)
        values = np.concatenate([rest, last], axis)
    return values


def _next_adjoint(values: Array, axes: tuple[int, ...]) -> Array:
    for axis in axes:
        moved = np.moveaxis(values, axis, 0)
        back = np.zeros_like(moved)
        back[1:] += moved[:-1]
        back[-1] += moved[-1]
        values = np.moveaxis(back, 0, axis)
    return values


def _like(vp: Array, name: str, values: Array) -> Array:
    array = np.array(values, dtype=vp.dtype, order="C")
    if array.shape != vp.shape:
        raise InvalidArgument(f"{name} of shape {array.shape} for vp of shape {vp.shape}")
    if not np.isfinite(array).all():
        raise InvalidArgument(
            f"{np.count_nonzero(~np.isfinite(array))} of {array.size} values of {name} are NaN or "
            "infinite: give a finite one for every grid point"
        )
    array.setflags(write=False)
    return array
