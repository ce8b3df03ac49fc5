"""What the propagators have in common: shots, samples, and two operators built when first used."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from retrograd.errors import InvalidArgument, OutOfOrder
from retrograd.seismic.acquisition import Acquisition
from retrograd.seismic.fields import Points, load_devito

Array = npt.NDArray[Any]
G = TypeVar("G")


class Waves(ABC, Generic[G]):
    """Two Devito operators of a wave equation, and what each takes for a shot.

    They step nothing themselves: hand the operators to `retrograd.devito.checkpointed`, and that
    run to `simulate` or `shot_gradient`. ``G`` is what a gradient is: an array, or several.
    """

    acquisition: Acquisition
    dt_ms: float
    parametrisations: tuple[str, ...]
    """What a gradient may be a derivative by; the first one unless another is asked for."""

    def __init__(self, acquisition: Acquisition, dt_ms: float) -> None:
        self.acquisition, self.dt_ms = acquisition, dt_ms
        self.samples = _samples(acquisition.duration_ms, dt_ms)
        self._operators: dict[str, Any] = {}
        self._shot: int | None = None

    @property
    @abstractmethod
    def wavefields(self) -> tuple[Any, ...]:
        """Devito's symbols of the forward's state. Reading their data allocates them."""

    @property
    @abstractmethod
    def _points(self) -> Points: ...

    @property
    @abstractmethod
    def _reverse_fields(self) -> dict[str, Any]:
        """The adjoint state and the accumulators, by their names in the operator."""

    @abstractmethod
    def _equations(self, name: str) -> Sequence[Any]:
        """Those of the ``"forward"`` or of the ``"gradient"`` operator."""

    @abstractmethod
    def gradient(self, parametrisation: str | None = None) -> G:
        """Return the accumulated gradient on the model's grid."""

    @property
    def nt(self) -> int:
        """Rows of a saved wavefield in time: one more than `samples`."""
        return self.samples + 1

    @property
    def times_ms(self) -> Array:
        """The times of the recorded samples, shape (samples,)."""
        return self.dt_ms * np.arange(self.samples)

    @property
    def grid(self) -> Any:
        """Devito's grid: the model and its absorbing layer."""
        return self.wavefields[0].grid

    @property
    def forward_operator(self) -> Any:
        """The Devito operator that steps forward and records `rec`; built when first used."""
        return self._operator("forward")

    @property
    def gradient_operator(self) -> Any:
        """The Devito operator that steps back and adds to the gradient; built when first used."""
        return self._operator("gradient")

    def forward_arguments(self, shot: int = 0) -> dict[str, Any]:
        """Return what the forward operator takes for a shot, but for the wavefields.

        The returned objects are the propagator's own, the same for every shot. They hold this
        shot, with receivers at zero, until the next call.
        """
        if not 0 <= shot < self.acquisition.shots:
            raise InvalidArgument(
                f"shot {shot} of {self.acquisition.shots}: count from 0 to "
                f"{self.acquisition.shots - 1}"
            )
        points = self._points
        points.source.coordinates.data[:] = self.acquisition.sources[shot]
        points.receivers.data[:] = 0.0
        self._shot = shot
        return {"src": points.source, "rec": points.receivers, "dt": self.dt_ms}

    def gradient_arguments(self, adjoint_source: Array, shot: int = 0) -> dict[str, Any]:
        """Return what the gradient operator takes, with all that it writes set to zero.

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
        self._points.residual.data[: self.samples] = adjoint_source
        for function in self._reverse_fields.values():
            function.data[:] = 0.0
        return {**self._reverse_fields, "rec": self._points.residual, "dt": self.dt_ms}

    def recorded(self) -> Array:
        """Return a copy of the receivers' data, shape (samples, receivers)."""
        return np.array(self._points.receivers.data[: self.samples])

    def check_parametrisation(self, parametrisation: str | None) -> str:
        """Return the name, or the default for None.

        Raises
        ------
        InvalidArgument
            unless it is one of `parametrisations`.
        """
        known = self.parametrisations
        if parametrisation is None:
            return known[0]
        if parametrisation not in known:
            raise InvalidArgument(
                f"parametrisation={parametrisation!r}: write one of {', '.join(known)}"
            )
        return parametrisation

    def _check_current(self, shot: int | None) -> None:
        if self._shot is None or shot != self._shot:
            current = "no shot in this model" if self._shot is None else f"shot {self._shot}"
            wanted = "" if shot is None else f" of shot {shot}"
            raise OutOfOrder(
                f"the gradient{wanted} was asked for, but {current} has been run forward: call "
                f"forward_arguments({0 if shot is None else shot}) and run both sweeps first"
            )

    def _operator(self, name: str) -> Any:
        if name not in self._operators:
            self._operators[name] = load_devito().Operator(
                self._equations(name),
                subs=self.grid.spacing_map,
                name=f"{type(self).__name__}_{name}",
                language="openmp",
            )
        return self._operators[name]


def warn_of_dispersion(acquisition: Acquisition, highest_hz: float, spacing_m: float) -> None:
    """Warn if the source's frequency is higher than the grid resolves."""
    if acquisition.frequency_hz > highest_hz:
        warnings.warn(
            f"{acquisition.frequency_hz:g} Hz on a grid of {spacing_m:g} m leaves fewer "
            "than 5 points in the shortest wavelength, so that waves disperse: stay below "
            f"{highest_hz:.3g} Hz or refine the grid",
            UserWarning,
            stacklevel=4,
        )


def _samples(duration_ms: float, dt_ms: float) -> int:
    samples = math.floor(duration_ms / dt_ms * (1 + 1e-12)) + 1
    if samples < 3:
        raise InvalidArgument(
            f"{duration_ms:g} ms are less than two time steps of {dt_ms:g} ms: record for longer"
        )
    return samples
