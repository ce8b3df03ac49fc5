"""Elastic waves through a model of velocities and density, and the exact gradient by all three."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations_with_replacement
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

import retrograd
from retrograd.errors import InvalidArgument
from retrograd.seismic import layer
from retrograd.seismic.acquisition import Acquisition
from retrograd.seismic.elastic_equations import (
    ElasticFields,
    elastic_forward,
    elastic_gradient,
    staggered_weights,
)
from retrograd.seismic.elastic_model import (
    Coefficients,
    Edge,
    ElasticModel,
    coefficients,
    lame_gradient,
    velocity_gradient,
)
from retrograd.seismic.fields import Points, declare_points, load_devito, make_grid
from retrograd.seismic.scheme import Scheme, points_per_wavelength_hz, rounded_down
from retrograd.seismic.waves import Waves, warn_of_dispersion

Array = npt.NDArray[Any]
T = TypeVar("T")
_LETTERS = "xyz"


class ElasticPropagator(Waves[dict[str, Array]]):
    """The isotropic elastic wave equation in velocities and stresses, as two Devito operators.

    Sources are explosions, receivers record pressure. One object serves all shots, and all models
    on the same grid, without compiling again. The velocities are declared with all their `nt` rows
    and never allocated here. The gradient is exact for the discretised equations;
    `elastic_equations` holds the derivation.

    Parameters
    ----------
    model : the first model; `set_model` changes it. It fixes the layer's damping, and the time
        step if the scheme doesn't: start with the fastest model of an inversion.
    acquisition : inside the model.
    scheme : without a free surface.

    Raises
    ------
    InvalidArgument
        If the time step is unstable, the acquisition doesn't fit the model, its duration is
        shorter than two time steps, or a free surface is asked for.
    MissingExtra
        If Devito is not installed.

    Warns
    -----
    UserWarning
        If the grid is too coarse for the frequency and the slowest S waves.
    """

    parametrisations = ("velocities", "lame")

    def __init__(
        self, model: ElasticModel, acquisition: Acquisition, scheme: Scheme | None = None
    ) -> None:
        self.scheme = Scheme() if scheme is None else scheme
        if self.scheme.free_surface:
            raise InvalidArgument(
                "free_surface=True: elastic waves are absorbed at all borders here; leave it out"
            )
        super().__init__(acquisition, _time_step_ms(model, self.scheme))
        acquisition.check_inside(model.acoustic)
        slowest = np.where(model.vs > 0, model.vs, model.vp).min()
        highest = points_per_wavelength_hz(float(slowest), max(model.spacing))
        warn_of_dispersion(acquisition, highest, max(model.spacing))
        self._layer = layer.widths(model.acoustic, self.scheme)
        self._fields = _declare(model, acquisition, self.scheme, self.times_ms, self.dt_ms)
        self._model = model
        self.set_model(model)

    @property
    def model(self) -> ElasticModel:
        """The current model."""
        return self._model

    @property
    def steps(self) -> int:
        """Time steps of a sweep: nt - 1."""
        return self.nt - 1

    @property
    def wavefields(self) -> tuple[Any, ...]:
        """Velocities with all their rows, and stresses with two."""
        return (*self._fields.v, *self._fields.stress.values())

    @property
    def _points(self) -> Points:
        return self._fields.points

    @property
    def _reverse_fields(self) -> dict[str, Any]:
        f = self._fields
        functions = (*f.adjoint_v, *f.adjoint_stress.values(), *_accumulators(f))
        return {function.name: function for function in functions}

    def _equations(self, name: str) -> Sequence[Any]:
        equations = {"forward": elastic_forward, "gradient": elastic_gradient}[name]
        return equations(self._fields, self.scheme.space_order)

    def set_model(self, model: ElasticModel) -> None:
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
                f"{old.origin} m: build another ElasticPropagator"
            )
        _time_step_ms(model, Scheme(self.scheme.space_order, dt_ms=self.dt_ms))
        values = coefficients(*self._padded(model))
        fields = self._fields
        fields.lam.data[:], fields.mu.data[:] = values.lam, values.mu
        for function, array in zip(fields.buoyancy, values.buoyancy, strict=True):
            function.data[:] = array
        for edge, function in fields.edges.items():
            function.data[:] = values.edges[edge]
        self._model = model
        self._shot = None

    def gradient(self, parametrisation: str | None = None) -> dict[str, Array]:
        """Return the accumulated gradient on the model's grid, in the scheme's dtype.

        The layer's part is added to the edge cells that the layer copies. Values are derivatives
        by the value in a cell: not divided by the cell's volume.

        Parameters
        ----------
        parametrisation : "velocities" (if None) for derivatives by ``vp``, ``vs`` (km/s) and
            ``rho`` (g/cm³); "lame" for those by ``lambda``, ``mu`` (GPa) and ``rho``.

        Raises
        ------
        OutOfOrder
            If the model was changed since the gradient was computed.
        """
        parametrisation = self.check_parametrisation(parametrisation)
        self._check_current(self._shot)
        vp, vs, rho = (a.astype(np.float64) for a in self._padded(self._model))
        found = lame_gradient(rho, rho * vs**2, self._by_coefficients())
        if parametrisation == "velocities":
            found = velocity_gradient(vp, vs, rho, found)
        inside = {name: layer.padded_adjoint(values, self._layer) for name, values in found.items()}
        return {name: values.astype(self.scheme.dtype) for name, values in inside.items()}

    def _by_coefficients(self) -> Coefficients:
        def read(function: Any) -> Array:
            return np.array(function.data, dtype=np.float64)

        f = self._fields
        return Coefficients(
            read(f.by_lam),
            read(f.by_mu),
            tuple(read(by) / read(b) for by, b in zip(f.by_buoyancy, f.buoyancy, strict=True)),
            {edge: read(function) for edge, function in f.by_edges.items()},
        )

    def _padded(self, model: ElasticModel) -> tuple[Array, ...]:
        return tuple(layer.padded(a, self._layer) for a in (model.vp, model.vs, model.rho))


def elastic_stable_dt_ms(model: ElasticModel, space_order: int) -> float:
    """Return a stable time step: 1 / (c Σ_k |c_k| √(Σ_axes 1/h²)), with c the P velocity.

    Where density varies, c is the largest that a face's buoyancy makes of either neighbour's
    modulus; the layer's damping doesn't lower the limit.

    Examples
    --------
    >>> plain = np.full((4, 4), 2.0)
    >>> model = ElasticModel(plain, plain / 2, plain, (10.0, 10.0))
    >>> round(elastic_stable_dt_ms(model, space_order=2), 4)  # h / (vp √2)
    3.5355
    """
    modulus = model.rho.astype(np.float64) * model.vp.astype(np.float64) ** 2
    squared = 0.0
    for axis, buoyancy in enumerate(coefficients(model.vp, model.vs, model.rho).buoyancy):
        either = np.maximum(modulus, np.roll(modulus, -1, axis))
        inside = tuple(
            slice(0, n - (a == axis)) for a, n in enumerate(model.shape)
        )  # the last point's neighbour is itself
        squared = max(squared, float((either * buoyancy)[inside].max()), float(model.vp.max()) ** 2)
    total = sum(map(abs, staggered_weights(space_order)))
    per_metre = math.sqrt(sum(1.0 / spacing**2 for spacing in model.spacing))
    return 1.0 / (math.sqrt(squared) * total * per_metre)


def _time_step_ms(model: ElasticModel, scheme: Scheme) -> float:
    limit = elastic_stable_dt_ms(model, scheme.space_order)
    if scheme.dt_ms is None:
        return rounded_down(0.99 * limit)
    if scheme.dt_ms > limit:
        raise InvalidArgument(
            f"a time step of {scheme.dt_ms:g} ms is unstable for P velocities up to "
            f"{model.vp.max():g} km/s: the largest stable one is {rounded_down(limit):g} ms"
        )
    return scheme.dt_ms


def _accumulators(fields: ElasticFields) -> Iterable[Any]:
    return fields.by_lam, fields.by_mu, *fields.by_buoyancy, *fields.by_edges.values()


def _declare(
    model: ElasticModel, acquisition: Acquisition, scheme: Scheme, times_ms: Array, dt_ms: float
) -> ElasticFields:
    devito = load_devito()
    border = layer.widths(model.acoustic, scheme)
    grid = make_grid(model.acoustic, border, scheme)
    space = {"grid": grid, "space_order": scheme.space_order}
    axes = [*_LETTERS[: len(model.shape) - 1], "z"]
    pairs = list(combinations_with_replacement(range(len(axes)), 2))
    shear = [(i, j) for i, j in pairs if i != j]

    def function(name: str) -> Any:
        return devito.Function(name=name, allocator=retrograd.devito.HUGE_PAGES, **space)

    def stepped(name: str, **options: Any) -> Any:
        return devito.TimeFunction(name=name, time_order=1, **space, **options)

    def by_axis(make: Callable[[str], T], name: str) -> tuple[T, ...]:
        return tuple(make(f"{name}_{letter}") for letter in axes)

    def by_pair(make: Callable[[str], T], name: str, which: list[Edge]) -> dict[Edge, T]:
        return {(i, j): make(f"{name}_{axes[i]}{axes[j]}") for i, j in which}

    fields = ElasticFields(
        v=by_axis(lambda name: stepped(name, save=len(times_ms) + 1), "v"),
        stress=by_pair(stepped, "stress", pairs),
        adjoint_v=by_axis(stepped, "adjoint_v"),
        adjoint_stress=by_pair(stepped, "adjoint_stress", pairs),
        lam=function("lam"),
        mu=function("mu"),
        buoyancy=by_axis(function, "buoyancy"),
        edges=by_pair(function, "mu", shear),
        damping=function("damp"),
        by_lam=function("by_lam"),
        by_mu=function("by_mu"),
        by_buoyancy=by_axis(function, "by_buoyancy"),
        by_edges=by_pair(function, "by_mu", shear),
        points=declare_points(grid, acquisition, times_ms),
    )
    # Of m u_tt + damping u_t, amplitudes fall by damping / 2m; m as at the model's mean slowness.
    squared_slowness = float(np.mean(1.0 / model.vp.astype(np.float64))) ** 2
    rate = layer.damping(model.acoustic, border) / (2 * squared_slowness)
    fields.damping.data[:] = np.exp(-dt_ms * rate)
    return fields
