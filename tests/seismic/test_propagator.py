"""The propagator against known solutions of the wave equation, and what it refuses."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from retrograd.errors import InvalidArgument, MissingExtra, OutOfOrder
from retrograd.seismic import Acquisition, Propagator, Scheme, VelocityModel, ricker, simulate


def integrated_wavelet(times_ms: np.ndarray, frequency_hz: float) -> np.ndarray:
    """∫ ricker = (t - delay) exp(-a), which is nearly zero at t = 0."""
    lag = times_ms - 1.2 * 1000 / frequency_hz
    return lag * np.exp(-((np.pi * frequency_hz / 1000 * lag) ** 2))


def line(**changes: Any) -> tuple[VelocityModel, Acquisition]:
    model = VelocityModel(np.full(201, 2.0), (5.0,))
    settings = {"sources": [[200.0]], "receivers": [[602.5]], "frequency_hz": 10.0}
    return model, Acquisition(**{**settings, "duration_ms": 900.0, **changes})


@pytest.mark.parametrize("free_surface", [False, True])
def test_a_homogeneous_line_obeys_d_alembert_and_its_borders_absorb(
    free_surface: bool, keep_all: Any
) -> None:
    # m u_tt - u_xx = q(t) h δ(x - s): u = c h / 2 · Q(t - |x - s| / c), Q = ∫ q, minus the image's
    model, acquisition = line()
    scheme = Scheme(dtype="float64", dt_ms=1.0, free_surface=free_surface)
    propagator = Propagator(model, acquisition, scheme)
    data = simulate(propagator, keep_all(propagator))[:, 0]
    times = propagator.times_ms
    expected = integrated_wavelet(times - 402.5 / 2, 10.0)
    if free_surface:
        expected -= integrated_wavelet(times - 802.5 / 2, 10.0)
    expected *= 2.0 * 5.0 / 2
    error = np.abs(data - expected) / np.abs(expected).max()
    # from the left border there and back, or, where that is the mirror, from the right one
    before_any_reflection = times < ((1197.5 if free_surface else 802.5) - 50) / 2
    assert error[before_any_reflection].max() < 0.01
    assert error.max() < 0.13  # the layer is as thick as the wave is long


def test_sizes_agree_and_the_wavefield_is_never_allocated(plane: Any) -> None:
    propagator = plane.propagator
    assert propagator.times_ms[-1] == 150.0
    assert (propagator.samples, propagator.nt, propagator.steps) == (101, 102, 100)
    assert propagator.u.shape == (102, 13 + 8, 17 + 4)
    simulate(propagator, plane.run)
    assert propagator.u._data is None


def test_other_shots_and_models_need_no_other_operators(plane: Any) -> None:
    propagator = plane.propagator
    forward, gradient = propagator.forward_operator, propagator.gradient_operator
    first = simulate(propagator, plane.run, 0)
    propagator.set_model(plane.model.with_vp(plane.model.vp * 1.01))
    other = simulate(propagator, plane.run, 1)
    expected = plane.oracle.simulate(propagator.model.vp, 1, plane.wavelet)
    np.testing.assert_allclose(other, expected, atol=1e-11 * np.abs(expected).max())
    assert not np.allclose(first, other)
    assert propagator.forward_operator is forward
    assert propagator.gradient_operator is gradient


def test_receivers_in_one_place_record_the_same(plane: Any) -> None:
    data = simulate(plane.propagator, plane.run)
    assert np.array_equal(data[:, 0], data[:, 1])


def test_the_gradient_needs_the_forward_arguments_of_the_same_shot(plane: Any) -> None:
    propagator = plane.propagator
    weights = np.zeros((propagator.samples, 6))
    simulate(propagator, plane.run, 1)
    with pytest.raises(OutOfOrder, match=r"gradient of shot 0 .* but shot 1 has been run"):
        propagator.gradient_arguments(weights, 0)
    propagator.set_model(plane.model)
    with pytest.raises(OutOfOrder, match="no shot in this model"):
        propagator.gradient_arguments(weights, 1)
    with pytest.raises(OutOfOrder, match="run both sweeps first"):
        propagator.gradient()
    assert np.all(propagator.forward_arguments(1)["rec"].data == 0)
    with pytest.raises(InvalidArgument, match=r"give \(101, 6\)"):
        propagator.gradient_arguments(weights[1:], 1)


@pytest.mark.parametrize("shot", [-1, 2])
def test_shots_that_do_not_exist_are_refused(plane: Any, shot: int) -> None:
    with pytest.raises(InvalidArgument, match="count from 0 to 1"):
        plane.propagator.forward_arguments(shot)


def test_an_unstable_time_step_is_refused_with_the_largest_that_is_not() -> None:
    model, acquisition = line()
    with pytest.raises(InvalidArgument, match=r"5 ms is unstable .* 1\.96 ms"):
        Propagator(model, acquisition, Scheme(dt_ms=5.0))
    Propagator(model, acquisition, Scheme(dt_ms=1.96))


def test_the_time_step_stays_and_faster_models_are_refused() -> None:
    model, acquisition = line()
    propagator = Propagator(model, acquisition)
    assert propagator.dt_ms == 1.94
    propagator.set_model(model.with_vp(model.vp * 0.5))
    assert propagator.dt_ms == 1.94
    with pytest.raises(InvalidArgument, match="up to 3 km/s"):
        propagator.set_model(model.with_vp(model.vp * 1.5))
    assert propagator.model.vp.max() == 1.0


@pytest.mark.parametrize("change", ["shape", "spacing", "origin"])
def test_models_on_another_grid_are_refused(change: str) -> None:
    model, acquisition = line()
    others = {
        "shape": VelocityModel(model.vp[1:], model.spacing),
        "spacing": replace(model, spacing=(6.0,)),
        "origin": replace(model, origin=(1.0,)),
    }
    with pytest.raises(InvalidArgument, match="build another Propagator"):
        Propagator(model, acquisition).set_model(others[change])


def test_a_coarse_grid_warns_with_the_frequency_that_fits() -> None:
    model, acquisition = line(frequency_hz=40.0)
    with pytest.warns(UserWarning, match="stay below 32 Hz") as caught:
        Propagator(model, acquisition)
    assert caught[0].filename == __file__


def test_what_lies_outside_or_on_a_free_surface_is_refused() -> None:
    model, acquisition = line(receivers=[[1001.0]])
    with pytest.raises(InvalidArgument, match=r"receiver 0 at \(1001\) m lies outside"):
        Propagator(model, acquisition)
    model, acquisition = line(sources=[[0.0]])
    with pytest.raises(InvalidArgument, match="place it deeper, 5 m"):
        Propagator(model, acquisition, Scheme(free_surface=True))
    model, acquisition = line(sources=[[1.0, 1.0]], receivers=[[1.0, 1.0]])
    with pytest.raises(InvalidArgument, match="give 1 coordinates"):
        Propagator(model, acquisition)


def test_a_recording_shorter_than_two_steps_is_refused() -> None:
    model, acquisition = line(duration_ms=3.0)
    with pytest.raises(InvalidArgument, match="record for longer"):
        Propagator(model, acquisition)


def test_three_samples_are_enough(keep_all: Any) -> None:
    model, acquisition = line(duration_ms=2.0, receivers=[[200.0]])
    propagator = Propagator(model, acquisition, Scheme(dtype="float64", dt_ms=1.0))
    data = simulate(propagator, keep_all(propagator))
    assert propagator.steps == 2
    # one step from rest: u[2] = c² dt² q[1]
    wavelet = ricker(propagator.times_ms, 10.0)
    np.testing.assert_allclose(data[:, 0], [0.0, 0.0, 4.0 * wavelet[1]], rtol=1e-12)


def test_without_devito_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "devito", None)
    with pytest.raises(MissingExtra, match=r"pip install 'retrograd\[seismic\]'"):
        Propagator(*line())
