"""Orders, weights, time steps and what a scheme refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from retrograd.errors import InvalidArgument
from retrograd.seismic import Scheme, VelocityModel, resolved_frequency_hz, stable_dt_ms
from retrograd.seismic.scheme import second_derivative_weights


def test_weights_are_the_known_ones() -> None:
    assert second_derivative_weights(2) == (-2.0, 1.0)
    assert second_derivative_weights(4) == (-5 / 2, 4 / 3, -1 / 12)
    assert second_derivative_weights(8) == (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)


@pytest.mark.parametrize("order", range(2, 21, 2))
def test_weights_differentiate_every_polynomial_of_their_order(order: int) -> None:
    middle, *sides = second_derivative_weights(order)
    for power in range(0, order + 2, 2):
        derivative = middle * (power == 0)
        derivative += 2 * sum(w * float(k) ** power for k, w in enumerate(sides, start=1))
        assert derivative == pytest.approx(2.0 if power == 2 else 0.0, abs=1e-4 * 4.0**power)


@pytest.mark.parametrize("order", [2, 4, 8])
def test_the_stable_time_step_is_sharp(order: int) -> None:
    # on a periodic line every mode k multiplies by roots of r² - 2(1 - λ/2) r + 1, |r| = 1 to λ = 4
    model = VelocityModel(np.full((8, 8), 3.0), (10.0, 10.0))
    dt = stable_dt_ms(model, order)
    weights = second_derivative_weights(order)
    wavenumbers = np.linspace(0, np.pi, 101)
    symbol = weights[0] + 2 * sum(
        w * np.cos(k * wavenumbers) for k, w in enumerate(weights[1:], start=1)
    )
    largest = 2 * np.abs(symbol).max() / 10.0**2 * 9.0
    assert dt**2 * largest == pytest.approx(4.0)


def test_a_chosen_time_step_is_the_largest_rounded_down() -> None:
    model = VelocityModel(np.full((8, 8), 5.5), (8.0, 8.0))
    assert stable_dt_ms(model, 8) == pytest.approx(0.80674, abs=1e-5)
    assert Scheme().time_step_ms(model) == 0.798
    assert Scheme(dt_ms=0.5).time_step_ms(model) == 0.5


def test_the_resolved_frequency_has_five_points_in_its_shortest_wavelength() -> None:
    model = VelocityModel(np.array([[1.5, 2.0], [3.0, 4.0]]), (10.0, 20.0))
    assert resolved_frequency_hz(model) == pytest.approx(1500 / (2.5 * 5 * 20))


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float32")])
def test_any_spelling_of_a_dtype_becomes_its_name(dtype: Any) -> None:
    assert Scheme(dtype=dtype).dtype == "float32"


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"space_order": 3}, "even number from 2 to 20"),
        ({"space_order": 0}, "even number"),
        ({"space_order": 8.0}, "even number"),
        ({"space_order": True}, "even number"),
        ({"absorbing_cells": 3}, "4 or more"),
        ({"absorbing_cells": 40.0}, "4 or more"),
        ({"dtype": "float16"}, '"float32" or "float64"'),
        ({"dtype": "double precision"}, '"float32" or "float64"'),
        ({"dt_ms": 0.0}, "positive time step"),
        ({"dt_ms": float("nan")}, "positive time step"),
    ],
)
def test_impossible_schemes_are_refused(wrong: dict[str, Any], advice: str) -> None:
    with pytest.raises(InvalidArgument, match=advice):
        Scheme(**wrong)
