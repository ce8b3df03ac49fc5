"""pyRevolve's classes on our executor: the same results, and none of its faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrograd.adapters import pyrevolve
from retrograd.errors import InvalidArgument, NotSupported, OutOfOrder
from tests.oracles import advances


class State(pyrevolve.Checkpoint):
    """Some arrays that an operator steps on."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self.arrays = arrays

    dtype = property(lambda self: self.arrays[0].dtype)
    size = property(lambda self: sum(array.size for array in self.arrays))

    def get_data(self, timestep: int) -> list[np.ndarray]:
        return list(self.arrays)


class Steps(pyrevolve.Operator):
    """Calls a function for each step, in the order of its sweep."""

    def __init__(self, function: Any) -> None:
        self.function, self.ran = function, []

    def apply(self, t_start: int, t_end: int) -> None:  # type: ignore[override]
        for step in range(t_start, t_end):
            self.function(step)
            self.ran.append(step)


def counting(*shapes: tuple[int, ...], dtype: str = "f8") -> tuple[State, Steps, Steps, list[Any]]:
    """Forward adds its step to all arrays; reverse notes what it finds."""
    arrays = [np.full(shape, i + 0.1, dtype) for i, shape in enumerate(shapes)]
    found: list[Any] = []

    def forward(step: int) -> None:
        for i, array in enumerate(arrays):
            array += (step + 1) * (i + 1)

    def reverse(step: int) -> None:
        found.append([array.copy() for array in arrays])

    return State(*arrays), Steps(forward), Steps(reverse), found


def expected(shapes: Any, dtype: str, steps: int) -> list[Any]:
    state, forward, _, _ = counting(*shapes, dtype=dtype)
    after = []
    for step in range(steps):
        forward.function(step)
        after.append([array.copy() for array in state.arrays])
    return after[::-1]


def same(ours: list[Any], theirs: list[Any]) -> bool:
    return len(ours) == len(theirs) and all(
        np.array_equal(a, b) and a.dtype == b.dtype
        for x, y in zip(ours, theirs, strict=True)
        for a, b in zip(x, y, strict=True)
    )


@pytest.mark.parametrize("shapes", [[(3,)], [(2, 3)], [(2, 3, 4)], [(3,), (2, 2), (5,)]], ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_every_number_of_steps_and_checkpoints(shapes: Any, dtype: str) -> None:
    for steps in (1, 2, 3, 7, 12):
        for checkpoints in (1, 2, 3, 20, None):
            state, forward, reverse, found = counting(*shapes, dtype=dtype)
            revolver = pyrevolve.Revolver(state, forward, reverse, checkpoints, steps)
            revolver.apply_forward()
            last = [array.copy() for array in state.arrays]
            assert same([last], expected(shapes, dtype, steps)[:1])
            revolver.apply_reverse()
            assert reverse.ran == list(range(steps))[::-1]
            assert same(found, expected(shapes, dtype, steps))
            # One more for each reversed step, but the last, which has just been made.
            assert len(forward.ran) == revolver.plan.forward_steps + steps - 1


@pytest.mark.parametrize(("steps", "checkpoints"), [(50, 3), (200, 2), (200, 10), (150, 40)])
def test_no_more_steps_than_revolve_in_its_bytes(steps: int, checkpoints: int) -> None:
    """Revolve runs ``advances`` steps, and each step once more before it is reversed."""
    state, forward, reverse, _ = counting((64,))
    revolver = pyrevolve.Revolver(state, forward, reverse, checkpoints, steps)
    ours = revolver.plan.forward_steps + steps - 1
    assert ours <= advances(steps, checkpoints) + steps
    assert revolver.plan.arena_nbytes <= (checkpoints + 2) * state.nbytes


def test_a_second_gradient_starts_from_what_the_arrays_hold() -> None:
    state, forward, reverse, found = counting((4,))
    revolver = pyrevolve.Revolver(state, forward, reverse, 2, 9)
    for _ in range(2):
        found.clear()
        state.arrays[0][...] = 0.1
        revolver.apply_forward()
        revolver.apply_reverse()
        assert same(found, expected([(4,)], "f8", 9))
    with pytest.raises(OutOfOrder):
        revolver.apply_reverse()


def test_without_a_number_the_default_budget_is_used() -> None:
    state, forward, reverse, _ = counting((4,))
    assert pyrevolve.Revolver(state, forward, reverse, None, 50).plan.name == "keep-all"


def test_checkpoints_on_disk(tmp_path: Path) -> None:
    state, forward, reverse, found = counting((1000,), (7,))
    revolver = pyrevolve.DiskRevolver(state, forward, reverse, 4, 30, filedir=tmp_path)
    assert revolver.plan.prediction.memory_nbytes <= 5 * 8064
    revolver.apply_forward()
    revolver.apply_reverse()
    assert same(found, expected([(1000,), (7,)], "f8", 30))
    assert revolver.result is not None
    tiers = {getattr(event.action, "tier", None) for event in revolver.result.tally.events}
    assert "disk" in tiers
    assert not list(tmp_path.iterdir())


def test_a_failing_operator_can_be_run_again() -> None:
    state, forward, reverse, found = counting((4,))
    revolver = pyrevolve.Revolver(state, forward, reverse, 2, 9)
    broken = [True]
    inner = forward.function

    def failing(step: int) -> None:
        if step == 5 and broken:
            raise FloatingPointError("overflow")
        inner(step)

    forward.function = failing
    with pytest.raises(FloatingPointError):
        revolver.apply_forward()
    broken.clear()
    state.arrays[0][...] = 0.1
    revolver.apply_forward()
    revolver.apply_reverse()
    assert same(found, expected([(4,)], "f8", 9))


@pytest.mark.parametrize(
    ("checkpoints", "steps", "message"),
    [
        (0, 5, "n_checkpoints.*1"),
        (-1, 5, "n_checkpoints"),
        (2, 0, "n_timesteps"),
        (2, None, "until"),
    ],
)
def test_numbers_that_cannot_be_right(checkpoints: Any, steps: Any, message: str) -> None:
    state, forward, reverse, _ = counting((4,))
    with pytest.raises(InvalidArgument, match=message):
        pyrevolve.Revolver(state, forward, reverse, checkpoints, steps)


def test_compression_is_refused_with_what_to_write() -> None:
    state, forward, reverse, _ = counting((4,))
    with pytest.raises(NotSupported, match="compress="):
        pyrevolve.Revolver(state, forward, reverse, 2, 9, compression_params={"scheme": "zfp"})
    pyrevolve.Revolver(state, forward, reverse, 2, 9, compression_params={"scheme": None})


def test_the_state_has_a_size() -> None:
    assert State(np.zeros((2, 3)), np.zeros(4)).nbytes == 80
    with pytest.raises(TypeError, match="abstract"):
        pyrevolve.Checkpoint()  # type: ignore[abstract]


def test_nothing_to_uninstall() -> None:
    with pytest.raises(OutOfOrder, match="install"):
        pyrevolve.uninstall()
