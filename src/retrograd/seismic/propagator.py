"""Acoustic waves through a velocity model, and the exact gradient of a misfit of their data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from retrograd.errors import InvalidArgument
from retrograd.seismic import layer
from retrograd.seismic.acquisition import Acquisition
from retrograd.seismic.equations import forward_equations, gradient_equations
from retrograd.seismic.fields import Points, declare
from retrograd.seismic.models import VelocityModel
from retrograd.seismic.scheme import Scheme, resolved_frequency_hz
from retrograd.seismic.waves import Waves, warn_of_dispersion

Array = npt.NDArray[Any]


class Propagator(Waves[Array]):
    """The isotropic acoustic wave equation of constant density, as two Devito operators.

    m u_tt + damping u_t - Δu = q, with m = 1/v² in ms²/m². One object serves all shots, and all
    models on the same grid, without compiling again. It steps nothing itself: hand the operators
    to `retrograd.devito.checkpointed`, and that run to `simulate` or `shot_gradient`.

    The wavefield is declared with all its `nt` rows and never allocated here. The gradient is
    exact for the discretised equations; `equations` holds the derivation.

    Parameters
    ----------
    model : the first model; `set_model` changes it. It fixes the layer's damping, and the time
        step if the scheme doesn't: start with the fastest model of an inversion.
    acquisition : inside the model; below its top row under a free surface.

    Raises
    ------
    InvalidArgument
        If the time step is unstable, the acquisition doesn't fit the model, or its duration is
        shorter than two time steps.
    MissingExtra
        If Devito is not installed.

    Warns
    -----
    UserWarning
        If the grid is too coarse for the frequency (`resolved_frequency_hz`).
    """

    parametrisations = ("velocity", "squared_slowness")

    def __init__(
        self, model: VelocityModel, acquisition: Acquisition, scheme: Scheme | None = None
    ) -> None:
        self.scheme = Scheme() if scheme is None else scheme
        super().__init__(acquisition, self.scheme.time_step_ms(model))
        _check_acquisition(acquisition, model, self.scheme)
        self._layer = layer.widths(model, self.scheme)
        self._fields = declare(model, acquisition, self.scheme, self.times_ms)
        self._model = model
        self.set_model(model)

    @property
    def model(self) -> VelocityModel:
        """The current model."""
        return self._model

    @property
    def steps(self) -> int:
        """Time steps of a sweep: nt - 2, as the first two rows are the start."""
        return self.nt - 2

    @property
    def u(self) -> Any:
        """The forward wavefield, Devito's symbol with `nt` rows. Reading its data allocates."""
        return self._fields.u

    @property
    def wavefields(self) -> tuple[Any, ...]:
        """`u` alone."""
        return (self._fields.u,)

    @property
    def _points(self) -> Points:
        return self._fields.points

    @property
    def _reverse_fields(self) -> dict[str, Any]:
        return {"v": self._fields.v, "grad": self._fields.gradient}

    def _equations(self, name: str) -> Sequence[Any]:
        equations = {"forward": forward_equations, "gradient": gradient_equations}[name]
        return equations(self._fields, self.scheme)

    def set_model(self, model: VelocityModel) -> None:
        """Use another model on the same grid, with the same time step.

        Raises
        ------
        InvalidArgument
            If the grid differs, or the time step is unstable in the model.
        """
        old = self._model
        if (model.shape, model.spacing, model.origin) != (old.shape, old.spacing, old.origin):
            raise InvalidArgument(
                f"a model of {model.shape} points, {model.spacing} m apart from {model.origin} m, "
                f"for a propagator on {old.shape} points, {old.spacing} m apart from "
                f"{old.origin} m: build another Propagator"
            )
        Scheme(self.scheme.space_order, dt_ms=self.dt_ms).time_step_ms(model)
        squared_slowness = model.vp.astype(np.float64) ** -2
        self._fields.squared_slowness.data[:] = layer.padded(squared_slowness, self._layer)
        self._model = model
        self._shot = None

    def gradient(self, parametrisation: str | None = None) -> Array:
        """Return the accumulated gradient on the model's grid, a copy in the scheme's dtype.

        The layer's part is added to the edge cells that the layer copies. With respect to the
        squared slowness m in s²/km² it is dJ/dm; to the velocity in km/s, -2 v⁻³ dJ/dm. Both are
        derivatives by the value in a cell: not divided by the cell's volume.

        Parameters
        ----------
        parametrisation : "velocity", if None, or "squared_slowness".

        Raises
        ------
        OutOfOrder
            If the model was changed since the gradient was computed.
        """
        parametrisation = self.check_parametrisation(parametrisation)
        self._check_current(self._shot)
        accumulated = np.array(self._fields.gradient.data, dtype=np.float64)
        gradient = layer.padded_adjoint(accumulated, self._layer)
        if parametrisation == "velocity":
            gradient *= -2.0 * self._model.vp.astype(np.float64) ** -3
        return gradient.astype(self.scheme.dtype)


def _check_acquisition(acquisition: Acquisition, model: VelocityModel, scheme: Scheme) -> None:
    acquisition.check_inside(model)
    if scheme.free_surface:
        shallowest = min(acquisition.sources[:, -1].min(), acquisition.receivers[:, -1].min())
        below = shallowest - model.origin[-1]
        if below < 1e-3 * model.spacing[-1]:
            raise InvalidArgument(
                f"a source or receiver {below:g} m below a free surface, where pressure is zero: "
                f"place it deeper, {model.spacing[-1]:g} m for example"
            )
    warn_of_dispersion(acquisition, resolved_frequency_hz(model), max(model.spacing))
