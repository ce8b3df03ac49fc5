"""Least squares."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd.errors import InvalidArgument
from retrograd.seismic import L2


def test_value_and_derivative_belong_together() -> None:
    rng = np.random.default_rng(1)
    data, observed, change = rng.standard_normal((3, 20, 4))
    rise = L2().value(data + 1e-3 * change, observed) - L2().value(data - 1e-3 * change, observed)
    slope = np.vdot(L2().adjoint_source(data, observed), change)
    assert rise / 2e-3 == pytest.approx(slope)
    assert L2().value(observed, observed) == 0.0
    assert L2().value(np.ones((2, 3)), np.zeros((2, 3))) == 3.0


def test_float32_data_are_summed_in_float64_and_give_a_float32_source() -> None:
    data = np.full((1000, 1000), 1e-4, dtype=np.float32)
    assert L2().value(data, 0 * data) == pytest.approx(0.5e-2, rel=1e-6)
    assert L2().adjoint_source(data, 0 * data).dtype == np.float32


def test_data_of_different_shapes_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"give \(samples, receivers\)"):
        L2().value(np.zeros((3, 2)), np.zeros((2, 3)))
