"""The Devito symbols of the wave equation on a model, its absorbing layer included."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import retrograd
from retrograd.errors import MissingExtra
from retrograd.seismic import layer
from retrograd.seismic.acquisition import Acquisition, ricker
from retrograd.seismic.models import VelocityModel
from retrograd.seismic.scheme import Scheme

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Points:
    """Functions of time at points: src, rec, and residual, which the gradient operator takes.

    They have one row more than there are samples: the last step's, which nobody reads.
    """

    source: Any
    receivers: Any
    residual: Any


@dataclass(frozen=True)
class Fields:
    """The symbols of the two operators; Devito has no annotations, hence `Any`.

    Parameters
    ----------
    u : the forward wavefield, never allocated, with as many rows as the points' functions.
    v : the adjoint wavefield, three rows.
    squared_slowness, damping, gradient : functions of space, named m, damp and grad.
    """

    u: Any
    v: Any
    squared_slowness: Any
    damping: Any
    gradient: Any
    points: Points


def declare(
    model: VelocityModel, acquisition: Acquisition, scheme: Scheme, times_ms: Array
) -> Fields:
    """Return the symbols, with damping, wavelet and positions filled in."""
    devito, rows = load_devito(), len(times_ms) + 1
    border = layer.widths(model, scheme)
    grid = make_grid(model, border, scheme)
    order = {"grid": grid, "space_order": scheme.space_order}
    large = {**order, "allocator": retrograd.devito.HUGE_PAGES}
    fields = Fields(
        u=devito.TimeFunction(name="u", time_order=2, save=rows, **order),
        v=devito.TimeFunction(name="v", time_order=2, **large),
        squared_slowness=devito.Function(name="m", **large),
        damping=devito.Function(name="damp", **large),
        gradient=devito.Function(name="grad", **large),
        points=declare_points(grid, acquisition, times_ms),
    )
    fields.damping.data[:] = layer.damping(model, border)
    return fields


def declare_points(grid: Any, acquisition: Acquisition, times_ms: Array) -> Points:
    """Return source, receivers and residual, with wavelet and positions filled in."""

    def at(name: str, positions: Array) -> Any:
        points = load_devito().SparseTimeFunction(
            name=name, grid=grid, npoint=len(positions), nt=len(times_ms) + 1
        )
        points.coordinates.data[:] = positions
        return points

    points = Points(
        source=at("src", acquisition.sources[:1]),
        receivers=at("rec", acquisition.receivers),
        residual=at("residual", acquisition.receivers),
    )
    points.source.data[:-1, 0] = ricker(times_ms, acquisition.frequency_hz)
    return points


def load_devito() -> Any:
    """Return the devito module, imported when first needed.

    Raises
    ------
    MissingExtra
        If Devito is not installed.
    """
    try:
        return importlib.import_module("devito")
    except ImportError as error:
        raise MissingExtra(
            "wave propagation needs Devito: pip install 'retrograd[seismic]' brings it"
        ) from error


def make_grid(model: VelocityModel, border: layer.Widths, scheme: Scheme) -> Any:
    """Return Devito's grid of a model and its absorbing layer."""
    before, after = zip(*border, strict=True)
    shape = tuple(n + b + a for n, b, a in zip(model.shape, before, after, strict=True))
    return load_devito().Grid(
        shape=shape,
        extent=tuple((n - 1) * h for n, h in zip(shape, model.spacing, strict=True)),
        origin=tuple(
            o - b * h for o, b, h in zip(model.origin, before, model.spacing, strict=True)
        ),
        dtype=np.dtype(scheme.dtype).type,
    )
