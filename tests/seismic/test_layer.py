"""The absorbing layer: padding and its adjoint, damping."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd.seismic import Scheme, VelocityModel, layer


@pytest.mark.parametrize("shape", [(5,), (4, 6), (3, 4, 5)])
@pytest.mark.parametrize("free_surface", [False, True])
def test_padding_and_its_adjoint_pass_the_dot_test(
    shape: tuple[int, ...], free_surface: bool
) -> None:
    rng = np.random.default_rng(0)
    model = VelocityModel(rng.uniform(1, 2, shape), (10.0,) * len(shape))
    widths = layer.widths(model, Scheme(2, absorbing_cells=3, free_surface=free_surface))
    x = rng.standard_normal(shape)
    padded = layer.padded(x, widths)
    assert padded.shape == (*(n + 6 for n in shape[:-1]), shape[-1] + (3 if free_surface else 6))
    y = rng.standard_normal(padded.shape)
    kept = y.copy()
    assert np.vdot(padded, y) == pytest.approx(np.vdot(x, layer.padded_adjoint(y, widths)))
    assert np.array_equal(y, kept)


def test_damping_is_zero_inside_and_grows_outwards() -> None:
    model = VelocityModel(np.ones((5, 7)), (10.0, 20.0))
    widths = layer.widths(model, Scheme(absorbing_cells=4))
    damping = layer.damping(model, widths)
    assert np.all(damping[4:-4, 4:-4] == 0)
    assert np.all(np.diff(damping[8:, 6]) > 0)
    assert np.array_equal(damping, damping[::-1, ::-1])
    # a wave of velocity 1 comes back at exp(-∫ damping) from there and back
    assert damping[9:, 6].sum() * 10.0 == pytest.approx(5.0)
    assert damping[6, 11:].sum() * 20.0 == pytest.approx(5.0)


def test_nothing_is_damped_below_a_free_surface() -> None:
    model = VelocityModel(np.ones((5, 7)), (10.0, 20.0))
    widths = layer.widths(model, Scheme(free_surface=True, absorbing_cells=4))
    assert widths == ((4, 4), (0, 4))
    assert np.all(layer.damping(model, widths)[4:-4, :7] == 0)
