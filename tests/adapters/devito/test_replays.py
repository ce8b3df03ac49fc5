"""``check="replay"``: an incomplete state is named, with field and step; a complete one passes."""

from __future__ import annotations

from typing import Any

import devito
import numpy as np
import pytest

import retrograd
from retrograd.errors import InvalidArgument, ReplayMismatch
from retrograd.events import Kind
from tests.adapters.devito.conftest import Wave
from tests.adapters.devito.pairs import GRID, NT, Pair, function, ramp, two_fields, with_damage


def _checked(pair: Pair, **options: Any) -> Any:
    return retrograd.devito.checkpointed(
        pair.forward, pair.gradient, **{"memory": "1/3", "check": "replay", **options}
    )


def every_third_step() -> Pair:
    """A buffered field that is updated every third step, and stays as it is in between."""
    velocity, slow = {"time_order": 1, "save": NT}, {"time_order": 1}
    v, s = function("v", **velocity), function("s", **slow)
    third = devito.ConditionalDimension("third", parent=GRID.time_dim, factor=3)
    a, grad, m = function("a", time_order=1), function("grad"), ramp("m")
    kept = function("kept")
    forward = devito.Operator(
        [
            devito.Eq(v.forward, 0.9 * v + 0.1 * kept + 0.01 * m),
            devito.Eq(s.forward, 0.9 * s + 0.1 * v),
            devito.Eq(kept, 0.5 * kept + s, implicit_dims=[third]),
        ]
    )
    gradient = devito.Operator([devito.Eq(a.backward, 0.8 * a + v), devito.Inc(grad, a * v)])
    return Pair(forward, gradient, (grad, a), {"v": velocity, "s": slow, "kept": {}})


def test_a_complete_state_passes_and_changes_no_bit() -> None:
    for pair in (two_fields(time_order=1), with_damage(3)):
        truth, run = pair.keep_all(), _checked(pair)
        for _ in range(2):
            for ours, theirs in zip(pair.run(run), truth, strict=True):
                assert np.array_equal(ours, theirs)
            recomputed = run.result.tally.steps[Kind.RECOMPUTE]
            assert recomputed > 0
            assert run.compared > 2 * recomputed
        assert f"{run.compared} arrays compared" in run.describe()


@pytest.mark.parametrize(
    ("pair", "name"),
    [
        (lambda: two_fields(time_order=1), "s"),
        (lambda: two_fields(time_order=1, save=NT), "s"),
        (lambda: with_damage(1), "damage"),
        (lambda: with_damage(3), "damage"),
        (every_third_step, "kept"),
        (every_third_step, "s"),
    ],
)
def test_a_field_that_is_left_out_is_named(pair: Any, name: str) -> None:
    found = pair()
    run = _checked(found, omit=[name])
    assert name not in {field.name for field in run.plan.demand.layout.held}
    with pytest.raises(ReplayMismatch, match=f"{name} was left out") as caught:
        found.run(run)
    assert caught.value.field == name
    assert 1 <= caught.value.step < NT


def test_what_every_step_makes_anew_can_be_left_out() -> None:
    """A buffer that is written before it is read; nothing of it is in a restart anyway."""
    velocity = {"time_order": 1, "save": NT}
    v, s = function("v", **velocity), function("s", time_order=1)
    a, grad = function("a", time_order=1), function("grad")
    forward = devito.Operator(
        [
            devito.Eq(s.forward, 0.1 * v + 0.01 * ramp("m")),
            devito.Eq(v.forward, 0.9 * v + s.forward),
        ]
    )
    gradient = devito.Operator([devito.Eq(a.backward, 0.8 * a + v), devito.Inc(grad, a * v)])
    pair = Pair(forward, gradient, (grad, a), {"v": velocity, "s": {"time_order": 1}})
    truth, run = pair.keep_all(), _checked(pair, omit=["s"])
    assert np.array_equal(pair.run(run)[0], truth[0])
    assert run.compared > 0


def test_a_forward_that_depends_on_what_changes_is_named(wave: Wave, monkeypatch: Any) -> None:
    """The wavefield itself is compared too: here a restart comes back with another value."""
    run = retrograd.devito.checkpointed(wave.forward, wave.gradient, memory="1/4", check="replay")
    restore = retrograd.stores.arena.Arena.restore

    def spoiled(arena: Any, *arguments: Any, **options: Any) -> Any:
        restore(arena, *arguments, **options)
        step = arguments[0]
        if step:
            arena.live().state(step)[0].reshape(-1)[7] += 1

    monkeypatch.setattr(retrograd.stores.arena.Arena, "restore", spoiled)
    with pytest.raises(ReplayMismatch, match="u at step") as caught:
        wave.run(run)
    assert caught.value.field == "u"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check": "twice"}, "there is check='replay'"),
        ({"omit": ["s"], "check": None}, "add check='replay'"),
        ({"omit": "s"}, r"\['s'\]"),
        ({"omit": ["v"]}, r"only functions that the gradient does not read.*\['s'\]"),
        ({"omit": ["x"]}, r"only functions that the gradient does not read.*\['s'\]"),
    ],
)
def test_what_cannot_be_checked_or_left_out_is_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        _checked(two_fields(time_order=1), **options)
