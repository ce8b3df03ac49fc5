"""What cannot be run rightly is refused, with what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import devito
import numpy as np
import pytest
from devito.arch.archinfo import Device

import retrograd
from retrograd.errors import NotSupported
from tests.adapters.devito.conftest import ONE_THREAD, Wave

NT = 12


def forward_on(grid: devito.Grid, order: int = 2) -> devito.Operator:
    u = devito.TimeFunction(name="u", grid=grid, time_order=1, space_order=order, save=NT)
    return devito.Operator([devito.Eq(u.forward, 0.9 * u + 0.1)])


def gradient_on(grid: devito.Grid, order: int = 2, name: str = "u") -> devito.Operator:
    u = devito.TimeFunction(name=name, grid=grid, time_order=1, space_order=order, save=NT)
    a = devito.TimeFunction(name="a", grid=grid, time_order=1, space_order=order)
    return devito.Operator([devito.Eq(a.backward, 0.9 * a + u)])


GRID = devito.Grid(shape=(9, 8))
OTHERS = {
    "shape": (devito.Grid(shape=(8, 9)), 2, "9 x 8 points .* and 8 x 9 points"),
    "dtype": (devito.Grid(shape=(9, 8), dtype=np.float64), 2, "float32 .* float64"),
    "space order": (GRID, 8, r"halo \(\(2, 2\).* and .* halo \(\(8, 8\)"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_gradient_on_another_grid(what: str) -> None:
    grid, order, message = OTHERS[what]
    with pytest.raises(NotSupported, match=message):
        retrograd.devito.checkpointed(forward_on(GRID), gradient_on(grid, order), memory="1/2")


def test_a_wavefield_with_another_name() -> None:
    pair = forward_on(GRID), gradient_on(GRID, name="w")
    with pytest.raises(NotSupported, match="names="):
        retrograd.devito.checkpointed(*pair, memory="1/2")
    with pytest.raises(NotSupported, match="wavefields \\['u'\\]"):
        retrograd.devito.checkpointed(*pair, memory="1/2", names={"w": "v"})
    retrograd.devito.checkpointed(*pair, memory="1/2", names={"w": "u"})


def test_a_gradient_that_writes_the_state() -> None:
    u = devito.TimeFunction(name="u", grid=GRID, time_order=1, space_order=2, save=NT)
    a = devito.TimeFunction(name="a", grid=GRID, time_order=1)
    gradient = devito.Operator([devito.Eq(a.backward, a + u), devito.Eq(u, 0.5 * u)])
    with pytest.raises(NotSupported, match="writes the wavefield 'u'"):
        retrograd.devito.checkpointed(forward_on(GRID), gradient, memory="1/2")


def test_an_operator_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    forward, gradient = forward_on(GRID), gradient_on(GRID)
    monkeypatch.setattr(forward, "_platform", Device("nvidiaX"))
    with pytest.raises(NotSupported, match="GPU.*platform='cpu64'"):
        retrograd.devito.checkpointed(forward, gradient, memory="1/2")


@pytest.fixture
def autotuning() -> Iterator[None]:
    devito.configuration["autotuning"] = "aggressive"
    yield
    devito.configuration["autotuning"] = "off"


@pytest.mark.usefixtures("autotuning")
def test_autotuning_is_left_out(wave: Wave) -> None:
    """It would run the operator for trial, on memory that is not there."""
    truth = wave.keep_all()
    run = retrograd.devito.checkpointed(wave.forward, wave.gradient, memory=5 * wave.sample_nbytes)
    wave.reset()
    arguments: dict[str, Any] = {"dt": wave.dt, "autotune": "aggressive", **ONE_THREAD}
    run.forward(**arguments)
    run.reverse(**arguments)
    for ours, theirs in zip(wave.outputs(), truth, strict=True):
        assert np.array_equal(ours, theirs, equal_nan=True)


def test_devitos_own_refusals_are_passed_on(wave: Wave) -> None:
    run = retrograd.devito.checkpointed(wave.forward, wave.gradient, memory="1/2")
    with pytest.raises(retrograd.errors.InvalidArgument, match="Devito refuses") as caught:
        run.forward(dt=wave.dt, src=SimpleNamespace())
    assert caught.value.__cause__ is not None
