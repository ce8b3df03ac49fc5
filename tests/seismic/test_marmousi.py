"""The real model: a gradient in little memory equals Devito's own with everything kept."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd
from retrograd import seismic


@pytest.fixture(scope="module")
def case() -> tuple[seismic.Propagator, seismic.VelocityModel]:
    """The embedded Marmousi model at 20 m, two shots, a free surface, 1.5 s."""
    model = seismic.marmousi(20)
    acquisition = seismic.surface_acquisition(model, 2, frequency_hz=6.0, duration_ms=1500.0)
    return seismic.Propagator(model, acquisition, seismic.Scheme(free_surface=True)), model


@pytest.mark.parametrize("memory", ["1/2", "1/16", "1/64"])
def test_every_bit_is_keep_alls(
    case: tuple[seismic.Propagator, seismic.VelocityModel], memory: str
) -> None:
    propagator, model = case
    run = retrograd.devito.checkpointed(
        propagator.forward_operator, propagator.gradient_operator, memory=memory
    )
    plain = seismic.KeepAllRun(propagator)
    propagator.set_model(model)
    observed = seismic.simulate(propagator, run, 1)
    assert np.array_equal(observed, seismic.simulate(propagator, plain, 1))
    propagator.set_model(seismic.smoothed(model, 120.0))
    ours = seismic.shot_gradient(propagator, run, 1, observed)
    theirs = seismic.shot_gradient(propagator, plain, 1, observed)
    assert np.array_equal(ours.gradient, theirs.gradient)
    assert np.array_equal(ours.data, theirs.data)
    assert ours.misfit == theirs.misfit > 0
    assert np.abs(ours.gradient).max() > 0
    assert run.arena_nbytes <= run.plan.memory_nbytes
    assert propagator.u._data is None
