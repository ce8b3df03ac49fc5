"""One shot: its data, and the gradient of their misfit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from retrograd.seismic.misfit import L2, Misfit
from retrograd.seismic.propagator import Propagator, check_parametrisation

Array = npt.NDArray[Any]


class Run(Protocol):
    """Whatever runs a propagator's two operators, as `retrograd.devito.checkpointed` returns."""

    def forward(self, *, keep: bool = True, **arguments: Any) -> Any:
        """Run the forward operator; without `keep` no reverse sweep follows."""
        ...

    def reverse(self, **arguments: Any) -> Any:
        """Run the gradient operator along the wavefield of the last forward sweep."""
        ...


@dataclass(frozen=True, eq=False)
class ShotGradient:
    """The gradient of one shot's misfit, with what was computed on the way.

    Parameters
    ----------
    misfit : the misfit's value.
    gradient : its derivative by the model, on the model's grid.
    data : what the receivers recorded, shape (samples, receivers).
    parametrisation : what the gradient is a derivative by: "velocity" (km/s) or
        "squared_slowness" (s²/km²).
    """

    misfit: float
    gradient: Array
    data: Array
    parametrisation: str


def simulate(propagator: Propagator, run: Run, shot: int = 0) -> Array:
    """Return a shot's data in the propagator's model, shape (samples, receivers)."""
    run.forward(keep=False, **propagator.forward_arguments(shot))
    return propagator.recorded()


def shot_gradient(
    propagator: Propagator,
    run: Run,
    shot: int,
    observed: Array,
    *,
    misfit: Misfit | None = None,
    parametrisation: str = "velocity",
    resume: str | os.PathLike[str] | None = None,
    interval: float | None = None,
) -> ShotGradient:
    """Return the gradient of a shot's misfit in the propagator's model.

    The gradient of several shots is the sum of theirs.

    Parameters
    ----------
    run : made from the propagator's two operators.
    observed : shape (samples, receivers), at the propagator's `times_ms`.
    misfit : least squares (`L2`) if None.
    parametrisation : "velocity" or "squared_slowness".
    resume, interval : a directory for this shot's gradient, from which another process can go
        on, and how often something is put there; see `retrograd.Run.forward`.
    """
    check_parametrisation(parametrisation)
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
