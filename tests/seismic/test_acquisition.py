"""Sources, receivers, wavelets and recording times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from retrograd.errors import InvalidArgument
from retrograd.seismic import Acquisition, VelocityModel, marmousi, ricker, surface_acquisition


def test_the_ricker_wavelet_peaks_at_its_delay_and_its_frequency() -> None:
    times = np.arange(0, 1000.0, 0.5)
    wavelet = ricker(times, 10.0)
    assert times[wavelet.argmax()] == 120.0
    assert wavelet.max() == pytest.approx(1.0)
    assert abs(wavelet[0]) < 2.5e-5
    spectrum = np.abs(np.fft.rfft(wavelet))
    assert np.fft.rfftfreq(len(times), 0.5e-3)[spectrum.argmax()] == pytest.approx(10.0)
    assert times[ricker(times, 10.0, delay_ms=300.0).argmax()] == 300.0


@pytest.mark.parametrize("frequency", [0.0, -5.0, float("nan"), float("inf")])
def test_frequencies_that_are_not_positive_are_refused(frequency: float) -> None:
    with pytest.raises(InvalidArgument, match="positive"):
        ricker(np.zeros(3), frequency)
    with pytest.raises(InvalidArgument, match="positive"):
        surface_acquisition(marmousi(20), frequency_hz=frequency)


def test_one_shot_is_central_and_receivers_lie_under_every_column() -> None:
    model = marmousi(20)
    acquisition = surface_acquisition(model, frequency_hz=6.0)
    assert acquisition.shots == 1
    np.testing.assert_allclose(acquisition.sources, [[800 + 159 * 10, 840]])
    assert acquisition.receivers.shape == (160, 2)
    np.testing.assert_allclose(acquisition.receivers[:, 0], 800 + 20.0 * np.arange(160))
    assert np.all(acquisition.receivers[:, 1] == 840)


def test_shots_spread_evenly() -> None:
    acquisition = surface_acquisition(
        marmousi(20), 4, frequency_hz=6.0, depth_m=35.0, receiver_every=10
    )
    np.testing.assert_allclose(acquisition.sources[:, 0], 800 + 3180 * np.array([1, 3, 5, 7]) / 8)
    assert np.all(acquisition.sources[:, 1] == 835)
    assert len(acquisition.receivers) == 16


def test_the_recording_reaches_the_bottom_and_comes_back() -> None:
    # constant velocity: path √((2 · 1000)² + 500²) m at 2 m/ms, and three periods of 100 ms
    model = VelocityModel(np.full((101, 101), 2.0), (10.0, 10.0))
    acquisition = surface_acquisition(model, frequency_hz=10.0)
    assert acquisition.duration_ms == 1340.0
    assert surface_acquisition(model, frequency_hz=10.0, duration_ms=77.0).duration_ms == 77.0


def test_the_default_model_makes_a_few_thousand_steps() -> None:
    acquisition = surface_acquisition(marmousi(), frequency_hz=10.0)
    assert 1500 <= acquisition.duration_ms / 0.798 <= 3000


def test_a_line_and_a_volume_have_surfaces_too() -> None:
    line = surface_acquisition(VelocityModel(np.full(50, 2.0), (10.0,)), 2, frequency_hz=5.0)
    assert np.array_equal(line.sources, [[20.0], [20.0]])
    assert np.array_equal(line.receivers, [[20.0]])
    model = VelocityModel(np.full((9, 7, 5), 2.0), (10.0, 10.0, 10.0))
    volume = surface_acquisition(model, 2, frequency_hz=5.0)
    assert np.array_equal(volume.sources, [[20.0, 30.0, 20.0], [60.0, 30.0, 20.0]])
    assert volume.receivers.shape == (3 * 2, 3)


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"shots": 0}, "1 or more"),
        ({"shots": 1.5}, "1 or more"),
        ({"shots": True}, "1 or more"),
        ({"receiver_every": 0}, "1 or more"),
        ({"depth_m": -5.0}, r"source 0 at \(2390, 795\) m lies outside"),
        ({"depth_m": 5000.0}, "lies outside the model, which reaches from"),
        ({"depth_m": float("nan")}, "give finite metres"),
        ({"duration_ms": 0.0}, "must be positive"),
    ],
)
def test_impossible_surveys_are_refused(wrong: dict[str, Any], advice: str) -> None:
    with pytest.raises(InvalidArgument, match=advice):
        surface_acquisition(marmousi(20), **{"frequency_hz": 6.0, **wrong})


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"sources": [1.0, 2.0]}, r"shape \(count, axes\)"),
        ({"sources": np.zeros((0, 2))}, r"shape \(count, axes\)"),
        ({"receivers": [[np.nan, 0.0]]}, "give finite metres"),
        ({"receivers": [[1.0]]}, "one per axis"),
        ({"frequency_hz": 0.0}, "must be positive"),
        ({"duration_ms": float("inf")}, "must be positive"),
    ],
)
def test_impossible_acquisitions_are_refused(wrong: dict[str, Any], advice: str) -> None:
    right = {"sources": [[1.0, 2.0]], "receivers": [[3.0, 4.0]]}
    with pytest.raises(InvalidArgument, match=advice):
        Acquisition(**{**right, "frequency_hz": 5.0, "duration_ms": 100.0, **wrong})
