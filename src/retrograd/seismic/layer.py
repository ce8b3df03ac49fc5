"""The absorbing layer around a model: widths, damping, padding and padding's adjoint."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from retrograd.seismic.models import VelocityModel
from retrograd.seismic.scheme import Scheme

Array = npt.NDArray[Any]
Widths = tuple[tuple[int, int], ...]

_ROUND_TRIP = 5.0


def widths(model: VelocityModel, scheme: Scheme) -> Widths:
    """Return the layer's cells before and after every axis; none above a free surface."""
    cells = scheme.absorbing_cells
    top = 0 if scheme.free_surface else cells
    return (*((cells, cells) for _ in model.shape[:-1]), (top, cells))


def damping(model: VelocityModel, layer: Widths) -> Array:
    """Return the damping of m u_tt + damping u_t = Δu, in ms/m², zero inside the model.

    At the fraction x of the way through a layer of thickness L it is 15 x² / (c L), summed over
    the axes, with the inverse c of the model's mean slowness: a wave of velocity c comes back from
    the outer edge at e⁻⁵ of its height. Stronger damping reflects more at the layer's beginning.
    Waves as long as the layer is thick come back at some 12 %, half as long at 4 %.

    A propagator computes it once, for its first model: the gradient has no term from it.
    """
    shape = tuple(n + sum(pair) for n, pair in zip(model.shape, layer, strict=True))
    strength = _ROUND_TRIP * float(np.mean(1.0 / model.vp.astype(np.float64)))
    total = np.zeros(shape)
    for axis, (before, after) in enumerate(layer):
        profile = np.concatenate([_ramp(before)[::-1], np.zeros(model.shape[axis]), _ramp(after)])
        column = [1] * len(shape)
        column[axis] = -1
        total += strength / model.spacing[axis] * profile.reshape(column)
    return total


def padded(values: Array, layer: Widths) -> Array:
    """Return the values with those at the edges copied into the layer."""
    return np.pad(values, layer, mode="edge")


def padded_adjoint(values: Array, layer: Widths) -> Array:
    """Return the values inside, plus the layer's added to the edge cells it was copied from."""
    for axis, (before, after) in enumerate(layer):
        moved = np.moveaxis(values, axis, 0)
        inside = moved[before : len(moved) - after].copy()
        inside[0] += moved[:before].sum(axis=0)
        inside[-1] += moved[len(moved) - after :].sum(axis=0)
        values = np.moveaxis(inside, 0, axis)
    return np.ascontiguousarray(values)


def _ramp(cells: int) -> Array:
    """Return squares that add up to one."""
    squares = np.arange(1.0, cells + 1) ** 2
    return squares / squares.sum() if cells else squares
