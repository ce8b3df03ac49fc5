"""Elastic waves against a NumPy oracle, and their gradient against its complex-step derivative."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from tests.seismic.test_gradient import Linear

import retrograd
from retrograd.errors import InvalidArgument, OutOfOrder
from retrograd.seismic import (
    Acquisition,
    ElasticModel,
    ElasticPropagator,
    KeepAllRun,
    Propagator,
    Scheme,
    elastic_stable_dt_ms,
    layer,
    load_elastic_npz,
    ricker,
    shot_gradient,
    simulate,
)
from retrograd.testing import dot_test, taylor_test

NAMES = ("vp", "vs", "rho")
SHAPES = {2: (14, 12), 3: (8, 8, 9)}


def sea_and_rock(shape: tuple[int, ...]) -> ElasticModel:
    """Water above a solid in which everything varies from point to point."""
    rng = np.random.default_rng(len(shape))
    vp, vs, rho = 2.0 + 0.3 * rng.random(shape), 0.9 + 0.3 * rng.random(shape), rng.random(shape)
    rho = 1.5 + 0.5 * rho
    vp[..., :3], vs[..., :3], rho[..., :3] = 1.5, 0.0, 1.0
    return ElasticModel(vp, vs, rho, (10.0,) * len(shape))


@dataclass(eq=False)
class Case:
    model: ElasticModel
    propagator: ElasticPropagator
    run: KeepAllRun

    def simulate(self, **arrays: np.ndarray) -> np.ndarray:
        self.propagator.set_model(self.model.changed(**arrays))
        return simulate(self.propagator, self.run, 1)

    def oracle(self, **arrays: np.ndarray) -> np.ndarray:
        fields = {name: arrays.get(name, getattr(self.model, name)) for name in NAMES}
        return reference(self.propagator, **fields)


@functools.cache
def build(dimensions: int, dtype: str = "float64") -> Case:
    model = sea_and_rock(SHAPES[dimensions])
    sideways = dimensions - 1
    sources = np.array([[55.0] * sideways + [15.0], [33.0] * sideways + [22.0]])
    receivers = np.array([[x] * sideways + [13.0] for x in (11.0, 47.0, 47.0, 61.0)])
    acquisition = Acquisition(sources, receivers, 15.0, 190.0 if dimensions == 2 else 120.0)
    scheme = Scheme(4, dtype, absorbing_cells=5, dt_ms=1.8 if dimensions == 2 else 1.4)
    with pytest.warns(UserWarning, match="5 points"):
        propagator = ElasticPropagator(model, acquisition, scheme)
    return Case(model, propagator, KeepAllRun(propagator, nthreads=1))


@pytest.fixture(params=[2, pytest.param(3, marks=pytest.mark.slow)], ids=["2D", "3D"])
def case(request: pytest.FixtureRequest) -> Case:
    case = build(request.param)
    case.propagator.set_model(case.model)
    return case


@pytest.fixture
def plane() -> Case:
    case = build(2)
    case.propagator.set_model(case.model)
    return case


def reference(p: ElasticPropagator, vp: Any, vs: Any, rho: Any) -> np.ndarray:
    """The staggered scheme written anew with NumPy; complex arrays give derivatives."""
    widths = layer.widths(p.model.acoustic, p.scheme)
    vp, vs, rho = (np.pad(a, widths, mode="edge") for a in (vp, vs, rho))
    axes, h, dt = range(vp.ndim), p.model.spacing, p.dt_ms
    half = p.scheme.space_order // 2
    points = [sympy.Rational(2 * k + 1, 2) for k in range(-half, half)]
    weights = [float(w) for w in sympy.finite_diff_weights(1, points, 0)[1][-1]]

    def shifted(a: np.ndarray, axis: int, cells: int) -> np.ndarray:
        result = np.zeros_like(a)
        length = a.shape[axis]
        to = [slice(None)] * a.ndim
        source = [slice(None)] * a.ndim
        to[axis] = slice(max(0, -cells), min(length, length - cells))
        source[axis] = slice(max(0, cells), min(length, length + cells))
        result[tuple(to)] = a[tuple(source)]
        return result

    def up(a: np.ndarray, axis: int) -> Any:
        return sum(w * shifted(a, axis, k - half + 1) for k, w in enumerate(weights)) / h[axis]

    def down(a: np.ndarray, axis: int) -> Any:
        return sum(w * shifted(a, axis, k - half) for k, w in enumerate(weights)) / h[axis]

    def after(a: np.ndarray, axis: int) -> np.ndarray:
        return a.take(np.minimum(np.arange(a.shape[axis]) + 1, a.shape[axis] - 1), axis)

    mu, lam = rho * vs**2, rho * (vp**2 - 2 * vs**2)
    buoyancy = [2 / (rho + after(rho, i)) for i in axes]
    edges = {}
    for i, j in combinations(axes, 2):
        corners = [mu, after(mu, i), after(mu, j), after(after(mu, i), j)]
        wet = np.any([np.abs(corner) == 0 for corner in corners], axis=0)
        safe = [np.where(wet, 1.0, corner) for corner in corners]
        edges[i, j] = np.where(wet, 0.0, 4 / sum(1 / corner for corner in safe))
    damping = np.exp(
        -dt
        * layer.damping(p.model.acoustic, widths)
        / (2 * np.mean(1 / p.model.vp.astype(float)) ** 2)
    )
    origin = [o - w[0] * s for o, w, s in zip(p.model.origin, widths, h, strict=True)]

    def hat(position: np.ndarray) -> np.ndarray:
        hats = [
            np.maximum(0.0, 1.0 - np.abs(np.arange(n) - (x - o) / s))
            for n, x, o, s in zip(vp.shape, position, origin, h, strict=True)
        ]
        return functools.reduce(np.multiply.outer, hats)

    source = hat(p.acquisition.sources[1])
    receivers = [hat(position) for position in p.acquisition.receivers]
    wavelet = ricker(p.times_ms, p.acquisition.frequency_hz)
    v = [np.zeros(mu.shape, mu.dtype) for _ in axes]
    stress = {(i, j): np.zeros(mu.shape, mu.dtype) for i in axes for j in axes if i <= j}
    data = []
    for sample in wavelet:
        pressure = -sum(stress[i, i] for i in axes) / vp.ndim
        data.append([(receiver * pressure).sum() for receiver in receivers])
        v = [
            damping
            * (
                v[i]
                + dt
                * buoyancy[i]
                * sum((up if i == j else down)(stress[min(i, j), max(i, j)], j) for j in axes)
            )
            for i in axes
        ]
        strain = [down(v[i], i) for i in axes]
        for i, j in stress:
            if i == j:
                rate = lam * sum(strain) + 2 * mu * strain[i]
                stress[i, j] = damping * (stress[i, j] + dt * rate) + dt * sample * source
            else:
                rate = edges[i, j] * (up(v[i], j) + up(v[j], i))
                stress[i, j] = damping * (stress[i, j] + dt * rate)
    return np.array(data)


def test_data_equal_those_of_numpy(case: Case) -> None:
    expected = case.oracle()
    assert np.abs(expected).max() > 0.01
    assert np.abs(case.simulate() - expected).max() <= 1e-12 * np.abs(expected).max()


@pytest.mark.parametrize("name", NAMES)
def test_gradient_is_the_adjoint_of_the_linearised_data(case: Case, name: str) -> None:
    rng = np.random.default_rng(7)
    change = rng.standard_normal(case.model.shape)
    if name == "vs":
        change[case.model.vs == 0] = 0.0
    tiny = 1e-30
    scattered = case.oracle(**{name: getattr(case.model, name) + 1j * tiny * change}).imag / tiny
    weights = rng.standard_normal(scattered.shape)
    found = shot_gradient(
        case.propagator, case.run, 1, np.zeros(weights.shape), misfit=Linear(weights)
    )
    assert found.parametrisation == "velocities"
    applied = {"forward": lambda _: scattered, "adjoint": lambda _: found.gradient[name]}
    dot_test(**applied, x=change, y=weights, rtol=1e-9)


@pytest.mark.parametrize("name", [*NAMES, "lambda", "mu", "rho at constant moduli"])
def test_taylor_remainder_is_of_second_order(plane: Case, name: str) -> None:
    rng = np.random.default_rng(3)
    model = plane.model
    observed = plane.simulate(vp=model.vp * 1.01, vs=model.vs * 0.98, rho=model.rho * 1.05)
    plane.propagator.set_model(model)
    direction = 0.02 * rng.standard_normal(model.shape) * (model.vs > 0)
    parametrisation = "velocities" if name in NAMES else "lame"
    result = shot_gradient(
        plane.propagator, plane.run, 1, observed, parametrisation=parametrisation
    )
    mu, lam = model.rho * model.vs**2, model.rho * (model.vp**2 - 2 * model.vs**2)

    def changed(step: float) -> dict[str, np.ndarray]:
        if name in NAMES:
            return {name: getattr(model, name) + step * direction}
        moduli = {"lambda": lam, "mu": mu, "rho": model.rho}
        key = name.split()[0]
        moduli[key] = moduli[key] + step * direction
        vs = np.sqrt(moduli["mu"] / moduli["rho"])
        return {
            "vp": np.sqrt((moduli["lambda"] + 2 * moduli["mu"]) / moduli["rho"]),
            "vs": vs,
            "rho": moduli["rho"],
        }

    def misfit(step: float) -> float:
        residual = plane.simulate(**changed(step)) - observed
        return float(0.5 * np.vdot(residual, residual))

    slope = np.vdot(result.gradient[name.split()[0]], direction)
    steps = (0.01 * 0.5 ** np.arange(5)).tolist()
    taylor_test(misfit, slope, 0.0, 1.0, steps=steps)
    rise = misfit(steps[-1]) - result.misfit
    assert abs(rise - steps[-1] * slope) < 0.05 * abs(rise)


@pytest.mark.parametrize("part", [4, 8, 16])
def test_checkpointed_equals_keep_all_to_the_last_bit(case: Case, part: int) -> None:
    p = case.propagator
    observed = np.zeros((p.samples, 4))
    truth = shot_gradient(p, case.run, 1, observed)
    problem = retrograd.devito.Problem(p.forward_operator, p.gradient_operator, chunk=1)
    assert set(problem.findings.records) == {v.name for v in p.wavefields if v.save}
    least = problem.scratch_nbytes + problem.layout.live_nbytes + problem.layout.restart_nbytes
    run = retrograd.devito.checkpointed(
        p.forward_operator,
        p.gradient_operator,
        memory=max(least, problem.keep_all_nbytes // part),
        check="replay" if part == 4 else None,
    )
    for _ in range(2):
        ours = shot_gradient(p, run, 1, observed)
        assert np.array_equal(ours.data, truth.data)
        for name in NAMES:
            assert np.array_equal(ours.gradient[name], truth.gradient[name])
    assert run.plan.forward_steps > run.plan.steps


def test_in_a_fluid_pressure_is_that_of_the_acoustic_equation() -> None:
    """p_tt = vp² Δp - q_t here, and u_tt = vp² Δu + vp² q there: p = -u_t / vp²."""
    shape, spacing = (60, 60), (5.0, 5.0)
    plain = np.full(shape, 1.5)
    model = ElasticModel(plain, 0 * plain, 1 + 0 * plain, spacing)
    acquisition = Acquisition(np.array([[150.0, 150.0]]), np.array([[210.0, 190.0]]), 12.0, 220.0)
    scheme = Scheme(8, "float64", absorbing_cells=20, dt_ms=0.5)
    elastic = ElasticPropagator(model, acquisition, scheme)
    pressure = simulate(elastic, KeepAllRun(elastic), 0)[:, 0]
    acoustic = Propagator(model.acoustic, acquisition, scheme)
    u = simulate(acoustic, KeepAllRun(acoustic), 0)[:, 0]
    expected = -np.diff(u) / acoustic.dt_ms / 1.5**2  # half a step earlier, as the source is
    assert np.abs(pressure[1:] - expected).max() < 0.01 * np.abs(expected).max()


def test_a_float32_gradient_is_close(plane: Case) -> None:
    single = build(2, "float32")
    observed = np.zeros((plane.propagator.samples, 4))
    exact = shot_gradient(plane.propagator, plane.run, 1, observed).gradient
    found = shot_gradient(single.propagator, single.run, 1, observed).gradient
    for name in NAMES:
        assert found[name].dtype == np.float32
        error = np.linalg.norm(found[name] - exact[name])
        assert error < 1e-3 * np.linalg.norm(exact[name]), name


def test_a_fluid_has_no_derivative_by_its_shear(plane: Case) -> None:
    observed = np.zeros((plane.propagator.samples, 4))
    wet = plane.model.vs == 0
    by_velocity = shot_gradient(plane.propagator, plane.run, 1, observed).gradient
    assert (by_velocity["vs"][wet] == 0).all()
    assert (by_velocity["vp"][wet] != 0).any()


def test_the_time_step_is_stable_up_to_its_limit() -> None:
    """At the limit energy stays bounded in the roughest model; 5 % above, it does not."""
    model = sea_and_rock((14, 12))
    limit = elastic_stable_dt_ms(model, 4)
    acquisition = Acquisition(np.array([[55.0, 55.0]]), np.array([[60.0, 60.0]]), 15.0, 1000.0)
    with pytest.warns(UserWarning, match="5 points"):
        propagator = ElasticPropagator(
            model, acquisition, Scheme(4, absorbing_cells=5, dt_ms=limit)
        )
    data = simulate(propagator, KeepAllRun(propagator), 0)
    assert np.isfinite(data).all()
    assert np.abs(data[-20:]).max() < np.abs(data).max()
    with pytest.raises(InvalidArgument, match="largest stable one"):
        Scheme(4, dt_ms=1.01 * limit) and ElasticPropagator(
            model, acquisition, Scheme(4, absorbing_cells=5, dt_ms=1.01 * limit)
        )


def test_models_are_read_from_a_file(tmp_path: Path) -> None:
    model = sea_and_rock((5, 6))
    path = tmp_path / "model.npz"
    np.savez(path, vp=model.vp, vs=model.vs, rho=model.rho, spacing=10.0)
    read = load_elastic_npz(path)
    assert read.spacing == (10.0, 10.0)
    for name in NAMES:
        assert np.array_equal(getattr(read, name), getattr(model, name))
    np.savez(path, vp=model.vp, vs=model.vs, spacing=10.0)
    with pytest.raises(InvalidArgument, match="no key rho"):
        load_elastic_npz(path)
    np.savez(path, vp=model.vp, vs=model.vp, rho=model.rho, spacing=10.0)
    with pytest.raises(InvalidArgument, match=r"model\.npz: vs reaches 1 of vp"):
        load_elastic_npz(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vs": np.ones((3, 3))}, "shape"),
        ({"vs": np.full((5, 6), -0.1)}, "not negative"),
        ({"rho": np.zeros((5, 6))}, "positive"),
        ({"rho": np.full((5, 6), 1000.0)}, r"g/cm"),
        ({"vs": np.full((5, 6), np.nan)}, "30 of 30 values of vs"),
        ({"vp": np.full((5, 6), 1.0)}, "swapped"),
    ],
)
def test_models_that_cannot_be(changes: dict[str, np.ndarray], message: str) -> None:
    model = sea_and_rock((5, 6))
    arrays = {name: getattr(model, name) for name in NAMES} | changes
    with pytest.raises(InvalidArgument, match=message):
        ElasticModel(**arrays, spacing=(10.0, 10.0))


def test_what_does_not_fit_is_refused(plane: Case) -> None:
    p, model = plane.propagator, plane.model
    with pytest.raises(InvalidArgument, match="free_surface"):
        ElasticPropagator(model, p.acquisition, Scheme(4, free_surface=True))
    with pytest.raises(InvalidArgument, match="another ElasticPropagator"):
        p.set_model(sea_and_rock((5, 6)))
    with pytest.raises(InvalidArgument, match="velocities, lame"):
        p.gradient("velocity")
    with pytest.raises(InvalidArgument, match="vp, vs or rho"):
        model.changed(density=model.rho)
    with pytest.raises(InvalidArgument, match="two or three axes"):
        ElasticModel(model.vp[0], model.vs[0], model.rho[0], (10.0,))
    p.forward_arguments(0)
    p.set_model(model)
    with pytest.raises(OutOfOrder, match="forward_arguments"):
        p.gradient()
