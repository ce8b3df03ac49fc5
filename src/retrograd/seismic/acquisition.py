"""Where sources and receivers are, what the source sends, and how long is recorded.

Positions are in metres in the model's coordinates, frequencies in Hz, times in milliseconds, so
that a velocity in km/s is one in m/ms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from retrograd.errors import InvalidArgument
from retrograd.seismic.models import VelocityModel

Array = npt.NDArray[Any]

_DELAY_PERIODS = 1.2


@dataclass(frozen=True, eq=False)
class Acquisition:
    """Shots of one point source each, all recorded by the same receivers.

    Parameters
    ----------
    sources : metres, shape (shots, axes).
    receivers : metres, shape (receivers, axes). Several may share a grid cell or a position.
    frequency_hz : the peak frequency of the Ricker wavelet.
    duration_ms : the time recorded.

    Raises
    ------
    InvalidArgument
        For positions of another shape or not finite, and for a frequency or a duration that is
        not positive.
    """

    sources: Array
    receivers: Array
    frequency_hz: float
    duration_ms: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", _positions("sources", self.sources))
        object.__setattr__(self, "receivers", _positions("receivers", self.receivers))
        if self.sources.shape[1] != self.receivers.shape[1]:
            raise InvalidArgument(
                f"sources with {self.sources.shape[1]} coordinates and receivers with "
                f"{self.receivers.shape[1]}: give both one per axis of the model"
            )
        for name, value in (("Hz", self.frequency_hz), ("ms", self.duration_ms)):
            if not (math.isfinite(value) and value > 0):
                raise InvalidArgument(f"{value} {name}: frequency and duration must be positive")

    @property
    def shots(self) -> int:
        """The number of sources."""
        return len(self.sources)

    def check_inside(self, model: VelocityModel) -> None:
        """Raise InvalidArgument if a source or a receiver lies outside the model."""
        low = np.asarray(model.origin)
        high = low + np.asarray(model.extent)
        for name, points in (("source", self.sources), ("receiver", self.receivers)):
            if points.shape[1] != len(low):
                raise InvalidArgument(
                    f"{name}s with {points.shape[1]} coordinates in a model of {len(low)} axes: "
                    f"give {len(low)} coordinates in metres for each"
                )
            outside = np.flatnonzero(((points < low) | (points > high)).any(axis=1))
            if outside.size:
                raise InvalidArgument(
                    f"{name} {outside[0]} at {_text(points[outside[0]])} m lies outside the "
                    f"model, which reaches from {_text(low)} to {_text(high)} m"
                )


def ricker(times_ms: Array, frequency_hz: float, delay_ms: float | None = None) -> Array:
    """Return a Ricker wavelet of peak amplitude 1: (1 - 2a) exp(-a), a = (π f (t - delay))².

    Parameters
    ----------
    times_ms : the times of the samples in milliseconds, any shape.
    delay_ms : the time of the peak; 1.2 periods if None, where the wavelet starts at -2e-5.

    Examples
    --------
    >>> ricker(np.array([100.0, 120.0, 140.0]), 10.0).round(3).tolist()
    [0.142, 1.0, 0.142]
    """
    if not (math.isfinite(frequency_hz) and frequency_hz > 0):
        raise InvalidArgument(f"a wavelet of {frequency_hz} Hz: give a positive peak frequency")
    per_ms = frequency_hz / 1000.0
    delay = _DELAY_PERIODS / per_ms if delay_ms is None else delay_ms
    a = (np.pi * per_ms * (np.asarray(times_ms, dtype=np.float64) - delay)) ** 2
    result: Array = (1.0 - 2.0 * a) * np.exp(-a)
    return result


def surface_acquisition(
    model: VelocityModel,
    shots: int = 1,
    *,
    frequency_hz: float,
    depth_m: float | None = None,
    duration_ms: float | None = None,
    receiver_every: int | None = None,
) -> Acquisition:
    """Return shots spread evenly along the model's surface, with receivers all along it.

    Shot i of n lies at (i + 1/2) / n of the model's width, so that one shot is central; in 3D on
    the middle line along x. Receivers lie under the grid's columns.

    Parameters
    ----------
    depth_m : metres of sources and receivers below the top; two cells if None.
    duration_ms : `two_way_ms` if None.
    receiver_every : grid columns from one receiver to the next, in x and y; 1 in 2D and 4 in 3D
        if None.

    Raises
    ------
    InvalidArgument
        If a number is not positive, or the depth lies outside the model.
    """
    _check_count("shots", shots)
    every = receiver_every if receiver_every is not None else (4 if len(model.shape) == 3 else 1)
    _check_count("receiver_every", every)
    depth = min(2 * model.spacing[-1], model.extent[-1]) if depth_m is None else depth_m
    sources = _shot_positions(model, shots, depth)
    receivers = _receiver_positions(model, every, depth)
    if duration_ms is None:
        duration_ms = two_way_ms(model, sources, receivers, frequency_hz)
    acquisition = Acquisition(sources, receivers, frequency_hz, duration_ms)
    acquisition.check_inside(model)
    return acquisition


def two_way_ms(
    model: VelocityModel, sources: Array, receivers: Array, frequency_hz: float
) -> float:
    """Return the time of the latest reflection from the bottom, rounded up to 10 ms.

    Straight rays at the model's mean slowness s: s √((2 depth)² + offset²), with the model's
    depth and the largest horizontal offset, plus three periods of the wavelet.
    """
    if not (math.isfinite(frequency_hz) and frequency_hz > 0):
        raise InvalidArgument(f"a wavelet of {frequency_hz} Hz: give a positive peak frequency")
    slowness = float(np.mean(1.0 / model.vp.astype(np.float64)))
    reach = np.abs(sources[:, None, :-1] - receivers[None, :, :-1]).max(axis=(0, 1))
    path = math.hypot(2.0 * model.extent[-1], *reach)
    return 10.0 * math.ceil((slowness * path + 3 * 1000.0 / frequency_hz) / 10.0)


def _shot_positions(model: VelocityModel, shots: int, depth: float) -> Array:
    along = (np.arange(shots) + 0.5) / shots
    fractions = [along, np.full(shots, 0.5)][: len(model.shape) - 1]
    columns = [
        origin + fraction * extent
        for origin, fraction, extent in zip(model.origin, fractions, model.extent, strict=False)
    ]
    return np.stack([*columns, np.full(shots, model.origin[-1] + depth)], axis=1)


def _receiver_positions(model: VelocityModel, every: int, depth: float) -> Array:
    axes = [
        origin + spacing * np.arange(0, n, every)
        for origin, spacing, n in zip(
            model.origin[:-1], model.spacing[:-1], model.shape[:-1], strict=True
        )
    ]
    mesh = np.meshgrid(*axes, np.array([model.origin[-1] + depth]), indexing="ij")
    return np.stack([coordinate.ravel() for coordinate in mesh], axis=1)


def _positions(name: str, values: Array) -> Array:
    positions = np.array(values, dtype=np.float64, ndmin=1)
    if positions.ndim != 2 or 0 in positions.shape or not np.isfinite(positions).all():
        raise InvalidArgument(
            f"{name} of shape {positions.shape}: give finite metres of shape (count, axes)"
        )
    positions.setflags(write=False)
    return positions


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidArgument(f"{name}={value!r}: give a whole number, 1 or more")


def _text(point: Array) -> str:
    return "(" + ", ".join(f"{coordinate:g}" for coordinate in point) + ")"
