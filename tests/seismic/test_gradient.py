"""Is the gradient the exact derivative of the discretised misfit?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from retrograd.errors import InvalidArgument
from retrograd.seismic import shot_gradient, simulate
from retrograd.testing import dot_test, taylor_test


@dataclass(frozen=True)
class Linear:
    """J = <weights, data>: its gradient is the adjoint applied to the weights."""

    weights: np.ndarray

    def value(self, data: np.ndarray, observed: np.ndarray) -> float:
        return float(np.vdot(self.weights, data))

    def adjoint_source(self, data: np.ndarray, observed: np.ndarray) -> np.ndarray:
        return self.weights


def squared_slowness_changed(vp: np.ndarray, change: np.ndarray) -> np.ndarray:
    return (vp**-2.0 + change) ** -0.5


def velocity_changed(vp: np.ndarray, change: np.ndarray) -> np.ndarray:
    return vp + change


CHANGES = {"velocity": velocity_changed, "squared_slowness": squared_slowness_changed}


def test_data_equal_those_of_an_independent_discretisation(case: Any) -> None:
    for shot in (0, 1):
        data = simulate(case.propagator, case.run, shot)
        expected = case.oracle.simulate(case.model.vp, shot, case.wavelet)
        assert np.abs(data - expected).max() <= 1e-11 * np.abs(expected).max()


def test_gradient_is_the_adjoint_of_the_linearised_data(case: Any) -> None:
    rng = np.random.default_rng(7)
    shape = (case.propagator.samples, len(case.propagator.acquisition.receivers))
    weights = rng.standard_normal(shape)
    change = rng.standard_normal(case.model.shape)
    for shot in (0, 1):
        scattered = case.oracle.born(case.model.vp, change, shot, case.wavelet)
        result = shot_gradient(
            case.propagator,
            case.run,
            shot,
            np.zeros(shape),
            misfit=Linear(weights),
            parametrisation="squared_slowness",
        )
        right = np.vdot(result.gradient, change)
        applied = {"forward": lambda _: scattered, "adjoint": lambda _: result.gradient}  # noqa: B023
        dot_test(**applied, x=change, y=weights, rtol=1e-11)
        assert np.vdot(weights, scattered) == pytest.approx(right, rel=1e-10)


@pytest.mark.parametrize("parametrisation", CHANGES)
def test_taylor_remainder_is_of_second_order(case: Any, parametrisation: str) -> None:
    propagator, run, vp = case.propagator, case.run, case.model.vp
    rng = np.random.default_rng(3)
    true_vp = np.clip(vp + 0.1 * rng.standard_normal(vp.shape), 1.5, 2.6)
    propagator.set_model(case.model.with_vp(true_vp))
    observed = simulate(propagator, run, 0)
    propagator.set_model(case.model)
    result = shot_gradient(propagator, run, 0, observed, parametrisation=parametrisation)
    assert result.parametrisation == parametrisation
    direction = rng.standard_normal(vp.shape) * (0.1 if parametrisation == "velocity" else 0.02)

    def misfit(step: float) -> float:
        changed = CHANGES[parametrisation](vp, step * direction)
        propagator.set_model(case.model.with_vp(changed))
        residual = simulate(propagator, run, 0) - observed
        return float(0.5 * np.vdot(residual, residual))

    slope = np.vdot(result.gradient, direction)
    steps = (0.01 * 0.5 ** np.arange(5)).tolist()
    taylor_test(misfit, slope, 0.0, 1.0, steps=steps)
    rise = misfit(steps[-1]) - result.misfit
    assert abs(rise - steps[-1] * slope) < 0.1 * abs(rise)


def test_gradient_at_another_model_and_back_repeats_to_the_last_bit(plane: Any) -> None:
    propagator, run = plane.propagator, plane.run
    other = plane.model.with_vp(plane.model.vp[::-1] * 1.02)
    observed = np.zeros((propagator.samples, 6))
    gradients = []
    for model, shot in ((plane.model, 0), (other, 1), (plane.model, 0)):
        propagator.set_model(model)
        gradients.append(shot_gradient(propagator, run, shot, observed).gradient)
    assert np.array_equal(gradients[0], gradients[2])
    assert not np.allclose(gradients[0], gradients[1])


def test_float32_gradient_is_close_to_the_float64_one(make_case: Any, plane: Any) -> None:
    single = make_case((13, 17), True, "float32")
    observed = np.zeros((plane.propagator.samples, 6))
    exact = shot_gradient(plane.propagator, plane.run, 0, observed)
    result = shot_gradient(single.propagator, single.run, 0, observed)
    assert result.gradient.dtype == result.data.dtype == np.float32
    error = np.linalg.norm(result.gradient - exact.gradient)
    assert error < 1e-4 * np.linalg.norm(exact.gradient)


def test_chain_rule_and_the_layers_share(plane: Any) -> None:
    propagator, run = plane.propagator, plane.run
    observed = np.zeros((propagator.samples, 6))
    by_velocity = shot_gradient(propagator, run, 0, observed).gradient
    by_slowness = shot_gradient(
        propagator, run, 0, observed, parametrisation="squared_slowness"
    ).gradient
    np.testing.assert_allclose(by_velocity, -2 * plane.model.vp**-3.0 * by_slowness, rtol=1e-13)
    assert np.all(by_velocity[:, 0] == 0)  # pressure is zero along the free surface


def test_misspelt_parametrisation_is_refused(plane: Any) -> None:
    with pytest.raises(InvalidArgument, match="velocity, squared_slowness"):
        shot_gradient(plane.propagator, plane.run, 0, np.zeros(1), parametrisation="slowness")


def test_observed_data_of_another_shape_are_refused(plane: Any) -> None:
    with pytest.raises(InvalidArgument, match="observed data of shape"):
        shot_gradient(plane.propagator, plane.run, 0, np.zeros((3, 6)))
