"""Acoustic waves through a velocity model, and the exact gradient of a misfit of their data."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from retrograd.errors import InvalidArgument, OutOfOrder
from retrograd.seismic import layer
from retrograd.seismic.acquisition import Acquisition
from retrograd.seismic.equations import forward_equations, gradient_equations
from retrograd.seismic.fields import declare, load_devito
from retrograd.seismic.models import VelocityModel
from retrograd.seismic.scheme import Scheme, resolved_frequency_hz

Array = npt.NDArray[Any]

PARAMETRISATIONS = ("velocity", "squared_slowness")


class Propagator:
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

    def __init__(
        self, model: VelocityModel, acquisition: Acquisition, scheme: Scheme | None = None
    ) -> None:
        self.acquisition = acquisition
        self.scheme = Scheme() if scheme is None else scheme
        self.dt_ms = self.scheme.time_step_ms(model)
        self.samples = _samples(acquisition.duration_ms, self.dt_ms)
        _check_acquisition(acquisition, model, self.scheme)
        self._layer = layer.widths(model, self.scheme)
        self._fields = declare(model, acquisition, self.scheme, self.times_ms)
        self._operators: dict[str, Any] = {}
        self._shot: int | None = None
        self._model = model
        self.set_model(model)

    @property
    def model(self) -> VelocityModel:
        """The current model."""
        return self._model

    @property
    def nt(self) -> int:
        """Rows of the wavefield in time: one more than `samples`."""
        return self.samples + 1

    @property
    def steps(self) -> int:
        """Time steps of a sweep: nt - 2, as the first two rows are the start."""
        return self.nt - 2

    @property
    def times_ms(self) -> Array:
        """The times of the recorded samples, shape (samples,)."""
        return self.dt_ms * np.arange(self.samples)

    @property
    def grid(self) -> Any:
        """Devito's grid: the model and its absorbing layer."""
        return self._fields.u.grid

    @property
    def u(self) -> Any:
        """The forward wavefield, Devito's symbol with `nt` rows. Reading its data allocates."""
        return self._fields.u

    @property
    def forward_operator(self) -> Any:
        """The Devito operator that steps `u` and records `rec`; built when first used."""
        return self._operator("acoustic_forward", forward_equations)

    @property
    def gradient_operator(self) -> Any:
        """The Devito operator that steps `v` back and adds to `grad`; built when first used."""
        return self._operator("acoustic_gradient", gradient_equations)

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

    def forward_arguments(self, shot: int = 0) -> dict[str, Any]:
        """Return what the forward operator takes for a shot, but for the wavefield.

        The returned objects are the propagator's own, the same for every shot. They hold this
        shot, with receivers at zero, until the next call.
        """
        if not 0 <= shot < self.acquisition.shots:
            raise InvalidArgument(
                f"shot {shot} of {self.acquisition.shots}: count from 0 to "
                f"{self.acquisition.shots - 1}"
            )
        source, receivers = self._fields.source, self._fields.receivers
        source.coordinates.data[:] = self.acquisition.sources[shot]
        receivers.data[:] = 0.0
        self._shot = shot
        return {"src": source, "rec": receivers, "dt": self.dt_ms}

    def gradient_arguments(self, adjoint_source: Array, shot: int = 0) -> dict[str, Any]:
        """Return what the gradient operator takes, with `v` and `grad` set to zero.

        Parameters
        ----------
        adjoint_source : the misfit's derivative with respect to the data, shape
            (samples, receivers).

        Raises
        ------
        InvalidArgument
            If the shape is another one.
        OutOfOrder
            If `forward_arguments` was last asked for another shot or model: a recomputing
            reverse sweep would run with the wrong source.
        """
        self._check_current(shot)
        wanted = (self.samples, len(self.acquisition.receivers))
        if np.shape(adjoint_source) != wanted:
            raise InvalidArgument(
                f"an adjoint source of shape {np.shape(adjoint_source)}: give {wanted}, a value "
                "for every sample and receiver"
            )
        self._fields.residual.data[: self.samples] = adjoint_source
        self._fields.v.data[:] = 0.0
        self._fields.gradient.data[:] = 0.0
        return {
            "v": self._fields.v,
            "rec": self._fields.residual,
            "grad": self._fields.gradient,
            "dt": self.dt_ms,
        }

    def recorded(self) -> Array:
        """Return a copy of the receivers' data, shape (samples, receivers)."""
        return np.array(self._fields.receivers.data[: self.samples])

    def gradient(self, parametrisation: str = "velocity") -> Array:
        """Return the accumulated gradient on the model's grid, a copy in the scheme's dtype.

        The layer's part is added to the edge cells that the layer copies. With respect to the
        squared slowness m in s²/km² it is dJ/dm; to the velocity in km/s, -2 v⁻³ dJ/dm. Both are
        derivatives by the value in a cell: not divided by the cell's volume.

        Parameters
        ----------
        parametrisation : "velocity" or "squared_slowness".

        Raises
        ------
        OutOfOrder
            If the model was changed since the gradient was computed.
        """
        check_parametrisation(parametrisation)
        self._check_current(self._shot)
        accumulated = np.array(self._fields.gradient.data, dtype=np.float64)
        gradient = layer.padded_adjoint(accumulated, self._layer)
        if parametrisation == "velocity":
            gradient *= -2.0 * self._model.vp.astype(np.float64) ** -3
        return gradient.astype(self.scheme.dtype)

    def _check_current(self, shot: int | None) -> None:
        if self._shot is None or shot != self._shot:
            current = "no shot in this model" if self._shot is None else f"shot {self._shot}"
            wanted = "" if shot is None else f" of shot {shot}"
            raise OutOfOrder(
                f"the gradient{wanted} was asked for, but {current} has been run forward: call "
                f"forward_arguments({0 if shot is None else shot}) and run both sweeps first"
            )

    def _operator(self, name: str, equations: Any) -> Any:
        if name not in self._operators:
            self._operators[name] = load_devito().Operator(
                equations(self._fields, self.scheme),
                subs=self.grid.spacing_map,
                name=name,
                language="openmp",
            )
        return self._operators[name]


def check_parametrisation(parametrisation: str) -> None:
    """Raise InvalidArgument unless the name is one of PARAMETRISATIONS."""
    if parametrisation not in PARAMETRISATIONS:
        raise InvalidArgument(
            f"parametrisation={parametrisation!r}: write one of {', '.join(PARAMETRISATIONS)}"
        )


def _samples(duration_ms: float, dt_ms: float) -> int:
    samples = math.floor(duration_ms / dt_ms * (1 + 1e-12)) + 1
    if samples < 3:
        raise InvalidArgument(
            f"{duration_ms:g} ms are less than two time steps of {dt_ms:g} ms: record for longer"
        )
    return samples


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
    highest = resolved_frequency_hz(model)
    if acquisition.frequency_hz > highest:
        warnings.warn(
            f"{acquisition.frequency_hz:g} Hz on a grid of {max(model.spacing):g} m leaves fewer "
            "than 5 points in the shortest wavelength, so that waves disperse: stay below "
            f"{highest:.3g} Hz or refine the grid",
            UserWarning,
            stacklevel=3,
        )
