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
class Fields:
    """The symbols of the two operators; Devito has no annotations, hence `Any`.

    Parameters
    ----------
    u : the forward wavefield, never allocated. Like the functions of time at points it has one
        row more than there are samples: the last step's output, which nobody reads.
    v : the adjoint wavefield, three rows.
    squared_slowness, damping, gradient : functions of space, named m, damp and grad.
    source, receivers, residual : functions of time at points, named src, rec and residual.
    """

    u: Any
    v: Any
    squared_slowness: Any
    damping: Any
    gradient: Any
    source: Any
    receivers: Any
    residual: Any


def declare(
    model: VelocityModel, acquisition: Acquisition, scheme: Scheme, times_ms: Array
) -> Fields:
    """Return the symbols, with damping, wavelet and positions filled in."""
    devito, rows = load_devito(), len(times_ms) + 1
    border = layer.widths(model, scheme)
    grid = _grid(model, border, scheme)
    order = {"grid": grid, "space_order": scheme.space_order}
    large = {**order, "allocator": retrograd.devito.HUGE_PAGES}

    def at(name: str, positions: Array) -> Any:
        points = devito.SparseTimeFunction(name=name, grid=grid, npoint=len(positions), nt=rows)
        points.coordinates.data[:] = positions
        return points

    fields = Fields(
        u=devito.TimeFunction(name="u", time_order=2, save=rows, **order),
        v=devito.TimeFunction(name="v", time_order=2, **large),
        squared_slowness=devito.Function(name="m", **large),
        damping=devito.Function(name="damp", **large),
        gradient=devito.Function(name="grad", **large),
        source=at("src", acquisition.sources[:1]),
        receivers=at("rec", acquisition.receivers),
        residual=at("residual", acquisition.receivers),
    )
    fields.damping.data[:] = layer.damping(model, border)
    fields.source.data[:-1, 0] = ricker(times_ms, acquisition.frequency_hz)
    return fields


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


def _grid(model: VelocityModel, border: layer.Widths, scheme: Scheme) -> Any:
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
