"""Fixtures of the seismic tests: cases whose operators are compiled once, and their oracles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from retrograd.seismic import Acquisition, Propagator, Scheme, VelocityModel, layer, ricker


@dataclass
class KeepAll:
    """Runs a propagator's operators as Devito itself would, with every row in memory.

    On one thread: injection is atomic and the order of its sums would vary, and on grids as tiny
    as these threads only wait for each other.
    """

    propagator: Propagator

    def __post_init__(self) -> None:
        u = self.propagator.u
        self.one_thread = {"nthreads": 1, "nthreads_nonaffine": 1}
        self.u = u.__class__(
            name="u", grid=u.grid, time_order=2, space_order=u.space_order, save=self.propagator.nt
        )

    def forward(self, *, keep: bool = True, **arguments: Any) -> None:
        self.u.data[:] = 0.0
        self.propagator.forward_operator.apply(u=self.u, **self.one_thread, **arguments)

    def reverse(self, **arguments: Any) -> None:
        self.propagator.gradient_operator.apply(u=self.u, **self.one_thread, **arguments)


@dataclass
class MatrixWave:
    """The same discretisation with matrices: an oracle that shares no stepping code.

    Positions are turned into interpolation matrices, the Laplacian into one symmetric matrix,
    and the linearised equations are stepped as they are derived on paper.
    """

    propagator: Propagator

    def __post_init__(self) -> None:
        p = self.propagator
        self.model, self.scheme, self.dt = p.model, p.scheme, p.dt_ms
        self.widths = layer.widths(self.model, self.scheme)
        self.shape = tuple(
            n + sum(pair) for n, pair in zip(self.model.shape, self.widths, strict=True)
        )
        self.damping = layer.damping(self.model, self.widths).ravel()
        self.free = np.ones(self.shape)
        if self.scheme.free_surface:
            self.free[..., 0] = 0.0
        self.free = self.free.ravel()

    @cached_property
    def laplacian(self) -> csr_array:
        import sympy

        half = self.scheme.space_order // 2
        weights = sympy.finite_diff_weights(2, range(-half, half + 1), 0)[2][-1][half:]
        total = np.zeros((np.prod(self.shape),) * 2)
        for axis, n in enumerate(self.shape):
            i, j = np.indices((n, n))
            line = sum(float(sympy.N(w, 9)) * (abs(i - j) == k) for k, w in enumerate(weights))
            if self.scheme.free_surface and axis == len(self.shape) - 1:
                line = line - sum(float(w) * (i + j == k) for k, w in enumerate(weights))
            factors = [np.eye(size) for size in self.shape]
            factors[axis] = line / self.model.spacing[axis] ** 2
            total += reduce(np.kron, factors)
        return csr_array(self.free[:, None] * total * self.free[None, :])

    def points(self, positions: np.ndarray) -> np.ndarray:
        """Return linear interpolation to the positions, shape (positions, grid points)."""
        rows = []
        for position in positions:
            hats = []
            for axis, n in enumerate(self.shape):
                start = self.model.origin[axis] - self.widths[axis][0] * self.model.spacing[axis]
                cells = (position[axis] - start) / self.model.spacing[axis]
                hats.append(np.maximum(0.0, 1.0 - abs(np.arange(n) - cells)))
            rows.append(reduce(np.multiply.outer, hats).ravel() * self.free)
        return np.array(rows)

    def squared_slowness(self, vp: np.ndarray) -> np.ndarray:
        return layer.padded(vp.astype(float) ** -2, self.widths).ravel()

    def simulate(self, vp: np.ndarray, shot: int, wavelet: np.ndarray) -> np.ndarray:
        """Return the receivers' data, shape (samples, receivers)."""
        return self._wavefield(vp, shot, wavelet)[:-1] @ self._receivers.T

    def born(
        self, vp: np.ndarray, change: np.ndarray, shot: int, wavelet: np.ndarray
    ) -> np.ndarray:
        """Return the data's derivative in the direction `change` of the squared slowness."""
        u = self._wavefield(vp, shot, wavelet)
        acceleration = np.zeros_like(u)
        acceleration[1:-1] = (u[2:] - 2 * u[1:-1] + u[:-2]) / self.dt**2
        change = layer.padded(change, self.widths).ravel()
        scattered = self._stepped(self.squared_slowness(vp), -change * acceleration)
        return scattered[:-1] @ self._receivers.T

    @property
    def _receivers(self) -> np.ndarray:
        return self.points(self.propagator.acquisition.receivers)

    def _wavefield(self, vp: np.ndarray, shot: int, wavelet: np.ndarray) -> np.ndarray:
        # one sample beyond the data, which the last equation's acceleration needs
        source = self.points(self.propagator.acquisition.sources[shot : shot + 1])[0]
        return self._stepped(self.squared_slowness(vp), np.outer([*wavelet, 0.0], source))

    def _stepped(self, m: np.ndarray, forces: np.ndarray) -> np.ndarray:
        a = m / self.dt**2 + self.damping / (2 * self.dt)
        b = m / self.dt**2 - self.damping / (2 * self.dt)
        u = np.zeros_like(forces)
        for t in range(1, len(forces) - 1):
            push = 2 * m / self.dt**2 * u[t] + self.laplacian @ u[t] - b * u[t - 1] + forces[t]
            u[t + 1] = self.free * push / a
        return u


@dataclass(frozen=True)
class Case:
    """A propagator in its first model, with something to run it, and an oracle."""

    propagator: Propagator
    model: VelocityModel
    run: KeepAll
    oracle: MatrixWave

    @property
    def wavelet(self) -> np.ndarray:
        return ricker(self.propagator.times_ms, self.propagator.acquisition.frequency_hz)


def build(shape: tuple[int, ...], free_surface: bool, dtype: str = "float64") -> Case:
    """Return two shots and six receivers, two of them in one place, in a random model."""
    rng = np.random.default_rng(len(shape) + 10 * free_surface)
    ndim = len(shape)
    spacing, origin = (10.0, 12.0, 9.0)[:ndim], (100.0, -50.0, 30.0)[:ndim]
    model = VelocityModel(rng.uniform(1.6, 2.4, shape), spacing, origin)
    low, extent = np.array(origin), np.array(model.extent)
    receivers = low + extent * rng.uniform(0.02, 0.98, (6, ndim))
    receivers[1] = receivers[0]
    receivers[2, -1] = low[-1] + 0.4 * spacing[-1]  # in the cell below the surface
    receivers[3] = low + extent  # in the model's last cell
    sources = low + extent * rng.uniform(0.05, 0.5, (2, ndim))
    sources[1, -1] = low[-1] + 0.6 * spacing[-1]  # there too
    acquisition = Acquisition(sources, receivers, frequency_hz=10.0, duration_ms=150.0)
    order = 4 if ndim == 3 else 8
    scheme = Scheme(order, dtype, order // 2, dt_ms=1.5, free_surface=free_surface)
    propagator = Propagator(model, acquisition, scheme)
    return Case(propagator, model, KeepAll(propagator), MatrixWave(propagator))


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    """Return `build`, which makes every case once, so that its operators compile once."""
    return functools.cache(build)


@pytest.fixture(
    params=[(dim, free) for dim in (1, 2, 3) for free in (False, True)],
    ids=lambda value: f"{value[0]}D-{'free' if value[1] else 'absorbing'}",
)
def case(request: pytest.FixtureRequest, make_case: Callable[..., Case]) -> Case:
    """Return a float64 case in its first model, for every dimension and both surfaces."""
    dimension, free_surface = request.param
    return _reset(make_case({1: (31,), 2: (13, 17), 3: (5, 6, 8)}[dimension], free_surface))


@pytest.fixture
def plane(make_case: Callable[..., Case]) -> Case:
    """Return the 2D case with a free surface, in its first model."""
    return _reset(make_case((13, 17), True))


def _reset(case: Case) -> Case:
    case.propagator.set_model(case.model)
    return case


@pytest.fixture
def keep_all() -> type[KeepAll]:
    """Return what runs a propagator's operators with every row in memory."""
    return KeepAll
