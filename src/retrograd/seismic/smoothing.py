"""Starting models: a velocity model without its detail."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from retrograd.errors import InvalidArgument, MissingExtra
from retrograd.seismic.models import VelocityModel

Array = npt.NDArray[Any]

_WATER_KM_PER_S = (1.45, 1.55)


def smoothed(
    model: VelocityModel, sigma_m: float | tuple[float, ...], *, keep_water: bool = True
) -> VelocityModel:
    """Return the model with its slowness blurred by a Gaussian.

    Slowness, and not velocity, is averaged because travel times are sums of slowness: a smooth
    model keeps them. Water keeps its values and does not enter the average of the rock below:
    with the rock's indicator w, the new slowness is G(w s) / G(w).

    Parameters
    ----------
    sigma_m : the Gaussian's standard deviation in metres, one number or one per axis; 0 leaves
        an axis as it is.
    keep_water : whether cells of 1.45 to 1.55 km/s that reach down from the top without a gap
        are water. Write False for a model whose rock is as slow as that.

    Raises
    ------
    InvalidArgument
        If `sigma_m` is negative, not finite, or not one number per axis.
    MissingExtra
        If SciPy is not installed.
    """
    sigma_cells = _in_cells(sigma_m, model)
    slowness = 1.0 / model.vp.astype(np.float64)
    water = water_layer(model) if keep_water else np.zeros(model.shape, dtype=bool)
    if water.all():
        return model
    rock = (~water).astype(np.float64)
    blurred = _gaussian(rock * slowness, sigma_cells)
    weight = _gaussian(rock, sigma_cells)
    slowness[~water] = blurred[~water] / weight[~water]
    vp = (1.0 / slowness).astype(model.vp.dtype)
    vp[water] = model.vp[water]
    return model.with_vp(vp)


def water_layer(model: VelocityModel) -> npt.NDArray[np.bool_]:
    """Return where the model is water: 1.45 to 1.55 km/s from the top down, without a gap."""
    low, high = _WATER_KM_PER_S
    like_water = (model.vp >= low) & (model.vp <= high)
    return np.logical_and.accumulate(like_water, axis=-1)


def _in_cells(sigma_m: float | tuple[float, ...], model: VelocityModel) -> Array:
    ndim = len(model.shape)
    sigma = np.asarray(sigma_m, dtype=np.float64)
    if sigma.shape not in ((), (ndim,)) or not np.isfinite(sigma).all() or (sigma < 0).any():
        raise InvalidArgument(
            f"a smoothing of {sigma_m} m for a model of {ndim} axes: "
            "give one number of metres, 0 or more, or one for every axis"
        )
    return np.asarray(sigma / np.asarray(model.spacing))


def _gaussian(values: Array, sigma_cells: Array) -> Array:
    try:
        ndimage = importlib.import_module("scipy.ndimage")
    except ImportError as error:
        raise MissingExtra(
            "smoothing needs SciPy: pip install 'retrograd[seismic]' brings it"
        ) from error
    result: Array = ndimage.gaussian_filter(values, tuple(sigma_cells), mode="nearest")
    return result
