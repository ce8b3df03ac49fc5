"""How the wave equation is discretised: order, precision, time step, borders."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from retrograd.errors import InvalidArgument
from retrograd.seismic.models import VelocityModel

_POINTS_PER_WAVELENGTH = 5.0
_HIGHEST_OVER_PEAK = 2.5


@dataclass(frozen=True)
class Scheme:
    """The discretisation of the acoustic wave equation.

    Second order in time. Where accuracy per grid point matters more than seconds per step, raise
    `space_order`; where the borders reflect, raise `absorbing_cells`.

    Parameters
    ----------
    space_order : the order of the Laplacian, even, 2 to 20.
    dtype : "float32" or "float64", of wavefields, model and gradient.
    absorbing_cells : the thickness of the damping layer outside every border, at least half the
        space order.
    dt_ms : the time step; the largest stable one (`stable_dt_ms`), 1 % less and rounded down to
        three digits, if None.
    free_surface : whether the model's top row is a free surface (zero pressure, no layer above).

    Raises
    ------
    InvalidArgument
        For anything else.
    """

    space_order: int = 8
    dtype: str = "float32"
    absorbing_cells: int = 40
    dt_ms: float | None = None
    free_surface: bool = False

    def __post_init__(self) -> None:
        order, cells = self.space_order, self.absorbing_cells
        if not _is_whole(order) or order % 2 or not 2 <= order <= 20:
            raise InvalidArgument(f"space_order={order!r}: give an even number from 2 to 20")
        if not _is_whole(cells) or cells < order // 2:
            raise InvalidArgument(
                f"absorbing_cells={cells!r} at space order {order}: give a whole number, "
                f"{order // 2} or more"
            )
        try:
            name = np.dtype(self.dtype).name
        except TypeError:
            name = ""
        if name not in ("float32", "float64"):
            raise InvalidArgument(f'dtype={self.dtype!r}: write "float32" or "float64"')
        object.__setattr__(self, "dtype", name)
        if self.dt_ms is not None and not (math.isfinite(self.dt_ms) and self.dt_ms > 0):
            raise InvalidArgument(f"dt_ms={self.dt_ms}: give a positive time step or None")

    def time_step_ms(self, model: VelocityModel) -> float:
        """Return the time step for a model.

        Raises
        ------
        InvalidArgument
            If `dt_ms` is given and unstable.
        """
        limit = stable_dt_ms(model, self.space_order)
        if self.dt_ms is None:
            return rounded_down(0.99 * limit)
        if self.dt_ms > limit:
            raise InvalidArgument(
                f"a time step of {self.dt_ms:g} ms is unstable for velocities up to "
                f"{model.vp.max():g} km/s: the largest stable one is {rounded_down(limit):g} ms"
            )
        return self.dt_ms


def second_derivative_weights(space_order: int) -> tuple[float, ...]:
    """Return w_0 … w_p, p = space_order / 2, of h² f''(0) ≈ w_0 f(0) + Σ w_k (f(kh) + f(-kh)).

    w_k = 2 (-1)^(k+1) (p!)² / (k² (p-k)! (p+k)!) and w_0 = -2 Σ w_k.

    References
    ----------
    Fornberg (1988), Generation of finite difference formulas on arbitrarily spaced grids,
    Mathematics of Computation 51, 699-706.
    """
    p = space_order // 2
    sides = [
        Fraction(
            2 * (-1) ** (k + 1) * math.factorial(p) ** 2,
            k**2 * math.factorial(p - k) * math.factorial(p + k),
        )
        for k in range(1, p + 1)
    ]
    return (float(-2 * sum(sides)), *(float(weight) for weight in sides))


def stable_dt_ms(model: VelocityModel, space_order: int) -> float:
    """Return the largest stable time step: 2 / (v_max √(Σ_axes Σ_k |w_k| / h²)).

    The root is the Laplacian's largest eigenvalue, that of the checkerboard mode; the layer's
    centred damping doesn't lower the limit, nor does the free surface.

    Examples
    --------
    >>> model = VelocityModel(np.full((4, 4), 2.0), (10.0, 10.0))
    >>> round(stable_dt_ms(model, space_order=2), 4)  # h / (v √2)
    3.5355
    """
    middle, *sides = second_derivative_weights(space_order)
    total = abs(middle) + 2 * sum(abs(weight) for weight in sides)
    eigenvalue = total * sum(1.0 / spacing**2 for spacing in model.spacing)
    return 2.0 / (float(model.vp.max()) * math.sqrt(eigenvalue))


def resolved_frequency_hz(model: VelocityModel) -> float:
    """Return the highest peak frequency with 5 grid points in the shortest wavelength.

    The shortest wavelength is that of 2.5 times a Ricker wavelet's peak frequency at the lowest
    velocity. Above it, waves of different frequencies visibly travel at different speeds.
    """
    return points_per_wavelength_hz(float(model.vp.min()), max(model.spacing))


def points_per_wavelength_hz(slowest_km_s: float, spacing_m: float) -> float:
    """Return the highest peak frequency with 5 grid points in the shortest wavelength."""
    return 1000.0 * slowest_km_s / (_POINTS_PER_WAVELENGTH * spacing_m) / _HIGHEST_OVER_PEAK


def rounded_down(value: float) -> float:
    """Return the value with three digits, no larger than it was."""
    digits = 2 - math.floor(math.log10(value))
    return math.floor(value * 10.0**digits) / 10.0**digits


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
