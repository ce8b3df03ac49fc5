"""The forward starts from what the user's own functions hold, as ``apply`` would."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.errors import InvalidArgument, OutOfOrder
from tests.adapters.devito.pairs import NT, Pair, two_fields


def _functions(pair: Pair) -> dict[str, Any]:
    """The operators' own functions, as fresh as when they were made."""
    own = {p.name: p for p in pair.forward.parameters if p.name in pair.declared}
    for function in own.values():
        function._data = None
    return own


@pytest.fixture(params=[{"time_order": 1}, {"time_order": 1, "save": NT}])
def pair(request: Any) -> Any:
    """A velocity with ``save=nt``, and a stress without and with it."""
    found = two_fields(**request.param)
    yield found
    _functions(found)


def _fill(own: dict[str, Any]) -> None:
    for number, (name, function) in enumerate(sorted(own.items())):
        rng = np.random.default_rng(number)
        function.data_with_halo[0] = rng.standard_normal(function.data_with_halo[0].shape)
        assert name in ("s", "v")


def test_data_in_the_users_functions_are_the_start(pair: Pair) -> None:
    own = _functions(pair)
    zero = pair.keep_all()
    _fill(own)
    pair.reset()
    pair.forward.apply()
    pair.gradient.apply()
    truth = pair.found()
    assert all(not np.array_equal(a, b) for a, b in zip(truth, zero, strict=True))

    _fill(_functions(pair))
    before = {name: np.array(function.data_with_halo) for name, function in own.items()}
    run = retrograd.devito.checkpointed(pair.forward, pair.gradient, memory="1/4")
    for _ in range(2):
        for ours, theirs in zip(pair.run(run), truth, strict=True):
            assert np.array_equal(ours, theirs)
    for name, function in own.items():
        assert np.array_equal(function.data_with_halo, before[name])


def test_nothing_is_allocated_where_nothing_was(pair: Pair) -> None:
    own = _functions(pair)
    truth = pair.keep_all()
    run = retrograd.devito.checkpointed(pair.forward, pair.gradient, memory="1/4")
    assert np.array_equal(pair.run(run)[0], truth[0])
    assert all(function._data is None for function in own.values())


def test_initial_wins_over_data(pair: Pair) -> None:
    own = _functions(pair)
    truth = pair.keep_all()
    _fill(own)
    zero = {name: np.zeros_like(function.data[:1]) for name, function in own.items()}
    run = retrograd.devito.checkpointed(pair.forward, pair.gradient, memory="1/4")
    pair.reset()
    run.forward(initial=zero)
    run.reverse()
    for ours, theirs in zip(pair.found(), truth, strict=True):
        assert np.array_equal(ours, theirs)


def test_a_start_that_changes_in_between_is_refused(pair: Pair) -> None:
    own = _functions(pair)
    _fill(own)
    run = retrograd.devito.checkpointed(pair.forward, pair.gradient, memory="1/4")
    run.forward()
    own["s"].data[0, 3, 3] += 1
    with pytest.raises(OutOfOrder, match="initial s was changed"):
        run.reverse()


def test_other_names_and_shapes_are_refused(pair: Pair) -> None:
    _functions(pair)
    run = retrograd.devito.checkpointed(pair.forward, pair.gradient, memory="1/4")
    with pytest.raises(InvalidArgument, match=r"no wavefield 'x': there are \['s', 'v'\]"):
        run.forward(initial={"x": np.zeros((1, 9, 11))})
    with pytest.raises(InvalidArgument, match=r"give the 1 samples"):
        run.forward(initial={"s": np.zeros((2, 9, 11))})
