"""How far computed data are from observed data, as one number and its derivative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from retrograd.errors import InvalidArgument

Array = npt.NDArray[Any]


class Misfit(Protocol):
    """A function of the data, with its derivative. Arrays have shape (samples, receivers)."""

    def value(self, data: Array, observed: Array) -> float:
        """Return J(data)."""
        ...

    def adjoint_source(self, data: Array, observed: Array) -> Array:
        """Return dJ/d(data), in the data's dtype."""
        ...


@dataclass(frozen=True)
class L2:
    """Least squares: J = ½ Σ (data - observed)², the plain sum over samples and receivers."""

    def value(self, data: Array, observed: Array) -> float:
        """Return J, summed in float64."""
        residual = _residual(data, observed)
        return 0.5 * float(np.vdot(residual, residual))

    def adjoint_source(self, data: Array, observed: Array) -> Array:
        """Return data - observed."""
        return _residual(data, observed).astype(data.dtype)


def _residual(data: Array, observed: Array) -> Array:
    if data.shape != np.shape(observed):
        raise InvalidArgument(
            f"observed data of shape {np.shape(observed)} for computed data of shape "
            f"{data.shape}: give (samples, receivers) at the propagator's times_ms"
        )
    return data.astype(np.float64) - observed
