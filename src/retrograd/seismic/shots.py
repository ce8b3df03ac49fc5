"""One shot: its data, and the gradient of their misfit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from retrograd.seismic.misfit import L2, Misfit
from retrograd.seismic.waves import Waves

Array = npt.NDArray[Any]
G = TypeVar("G")


class Run(Protocol):
    """Whatever runs a propagator's two operators, as `retrograd.devito.checkpointed` returns."""

    def forward(self, *, keep: bool = True, **arguments: Any) -> Any:
        """Run the forward operator; without `keep` no reverse sweep follows."""
        ...

    def reverse(self, **arguments: Any) -> Any:
        """Run the gradient operator along the wavefield of the last forward sweep."""
        ...


@dataclass(frozen=True, eq=False)
class ShotGradient(Generic[G]):
    """The gradient of one shot's misfit, with what was computed on the way.

    Parameters
    ----------
    misfit : the misfit's value.
    gradient : its derivative by the model, on the model's grid; one array, or several by name.
    data : what the receivers recorded, shape (samples, receivers).
    parametrisation : what the gradient is a derivative by, such as "velocity" (km/s) or
        "squared_slowness" (s²/km²).
    """

    misfit: float
    gradient: G
    data: Array
    parametrisation: str


def simulate(propagator: Waves[Any], run: Run, shot: int = 0) -> Array:
    """Return a shot's data in the propagator's model, shape (samples, receivers)."""
    run.forward(keep=False, **propagator.forward_arguments(shot))
    return propagator.recorded()


def shot_gradient(
    propagator: Waves[G],
    run: Run,
    shot: int,
    observed: Array,
    *,
    misfit: Misfit | None = None,
    parametrisation: str | None = None,
    resume: str | os.PathLike[str] | None = None,
    interval: float | None = None,
) -> ShotGradient[G]:
    """Return the gradient of a shot's misfit in the propagator's model.

    The gradient of several shots is the sum of theirs.

    Parameters
    ----------
    run : made from the propagator's two operators.
    observed : shape (samples, receivers), at the propagator's `times_ms`.
    misfit : least squares (`L2`) if None.
    parametrisation : one of the propagator's `parametrisations`; the first if None.
    resume, interval : a directory for this shot's gradient, from which another process can go
        on, and how often something is put there; see `retrograd.Run.forward`.
    """
    parametrisation = propagator.check_parametrisation(parametrisation)
    measure = L2() if misfit is None else misfit
    kept: dict[str, Any] = {}
    if resume is not None:
        kept = {"resume": resume} | ({} if interval is None else {"interval": interval})
    run.forward(**kept, **propagator.forward_arguments(shot))
    data = propagator.recorded()
    value = measure.value(data, np.asarray(observed))
    adjoint_source = measure.adjoint_source(data, np.asarray(observed))
    run.reverse(**propagator.gradient_arguments(adjoint_source, shot))
    return ShotGradient(value, propagator.gradient(parametrisation), data, parametrisation)
