"""Starting models."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from retrograd.errors import InvalidArgument, MissingExtra
from retrograd.seismic import VelocityModel, marmousi, smoothed
from retrograd.seismic.smoothing import water_layer


def seabed() -> VelocityModel:
    """Return a model whose sea deepens with x, above rock with a fast layer."""
    x, z = np.indices((40, 30))
    vp = np.where(z < 5 + x // 8, 1.5, 2.0 + 0.05 * z)
    vp[:, 20:23] = 4.0
    return VelocityModel(vp, (20.0, 10.0), (5.0, 6.0))


@pytest.mark.parametrize("shape", [(40,), (30, 20), (12, 10, 8)])
def test_a_constant_model_stays(shape: tuple[int, ...]) -> None:
    model = VelocityModel(np.full(shape, 2.5), (10.0,) * len(shape))
    np.testing.assert_allclose(smoothed(model, 35.0).vp, 2.5, rtol=1e-14)


def test_mean_slowness_stays_and_detail_goes() -> None:
    model = marmousi(20)
    smooth = smoothed(model, 100.0)
    slowness, before = 1 / smooth.vp.astype(float), 1 / model.vp.astype(float)
    assert slowness.mean() == pytest.approx(before.mean(), rel=2e-3)
    roughness = np.abs(np.diff(smooth.vp, axis=1)).max() / np.abs(np.diff(model.vp, axis=1)).max()
    assert roughness < 0.1
    assert smooth.vp.min() >= model.vp.min()
    assert smooth.vp.max() <= model.vp.max()
    assert smooth.vp.dtype == np.float32
    assert (smooth.spacing, smooth.origin) == (model.spacing, model.origin)


def test_sigma_is_in_metres_along_every_axis() -> None:
    vp = np.full((81, 81), 2.0)
    vp[40, 40] = 2.2
    model = VelocityModel(vp, (10.0, 20.0))
    bump = 0.5 - 1 / smoothed(model, 60.0).vp
    positions = 10.0 * (np.arange(81) - 40), 20.0 * (np.arange(81) - 40)
    for axis, position in enumerate(positions):
        profile = bump.sum(axis=1 - axis)
        width = np.sqrt((profile * position**2).sum() / profile.sum())
        assert width == pytest.approx(60.0, rel=0.01)
    along_x = smoothed(model, (60.0, 0.0)).vp
    assert np.all(along_x[:, :40] == pytest.approx(2.0))


def test_water_is_kept_and_does_not_leak_into_the_rock() -> None:
    model = seabed()
    water = model.vp == 1.5
    smooth = smoothed(model, 40.0)
    assert np.array_equal(water_layer(model), water)
    assert np.all(smooth.vp[water] == 1.5)
    rock = model.vp[~water]
    assert smooth.vp[~water].min() >= rock.min() - 1e-12
    uniform = model.with_vp(np.where(water, 1.5, 2.5))
    np.testing.assert_allclose(smoothed(uniform, 40.0).vp, uniform.vp, rtol=1e-12)
    # what the water is, and how it is filled, doesn't matter to the rock
    other = model.with_vp(np.where(water, 1.46, model.vp))
    assert np.array_equal(smoothed(other, 40.0).vp[~water], smooth.vp[~water])


def test_slow_rock_below_a_gap_is_no_water_and_water_can_be_smoothed_too() -> None:
    model = seabed()
    vp = model.vp.copy()
    vp[10, 25] = 1.5
    assert not water_layer(model.with_vp(vp))[10, 25]
    assert np.all(smoothed(model, 40.0, keep_water=False).vp[:, 4] > 1.5)


def test_nothing_but_water_stays() -> None:
    model = VelocityModel(np.full((6, 6), 1.5), (10.0, 10.0))
    assert smoothed(model, 50.0) is model


@pytest.mark.parametrize("sigma", [-1.0, float("nan"), (10.0,), (10.0, 10.0, 10.0)])
def test_impossible_smoothing_is_refused(sigma: Any) -> None:
    with pytest.raises(InvalidArgument, match="give one number of metres"):
        smoothed(seabed(), sigma)


def test_without_scipy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.ndimage", None)
    with pytest.raises(MissingExtra, match=r"pip install 'retrograd\[seismic\]'"):
        smoothed(seabed(), 40.0)
