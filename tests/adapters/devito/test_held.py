"""State that the gradient does not read: in restarts, not in records, and right to the last bit."""

from __future__ import annotations

import devito
import numpy as np
import pytest

import retrograd
from retrograd.adapters.devito.accesses import accesses
from retrograd.adapters.devito.inspection import inspect, needed_samples
from retrograd.errors import InvalidArgument, NotSupported, OutOfOrder
from tests.adapters.devito.pairs import GRID, NT, Pair, function, ramp, two_fields, with_damage


@pytest.mark.parametrize("save", [NT, None])
def test_a_stress_is_in_restarts_and_not_in_records(save: int | None) -> None:
    pair = two_fields(time_order=1, save=save)
    for plan in pair.check():
        layout = plan.demand.layout
        if not layout.held:
            assert plan.memory_nbytes >= 2 * NT * layout.state[0].nbytes  # all of both fields fit
            continue
        assert [f.name for f in layout.held] == ["s"]
        assert layout.record_nbytes == layout.state[0].nbytes
        assert layout.restart_nbytes == 2 * layout.record_nbytes


def test_what_is_found_is_described() -> None:
    pair = two_fields(time_order=1)
    run = retrograd.devito.checkpointed(pair.forward, pair.gradient, memory="1/2")
    lines = run.describe().splitlines()
    assert any(line.startswith("s ") and "in restarts only" in line for line in lines)


def test_every_number_of_steps_at_every_memory() -> None:
    pair = two_fields(time_order=1, save=NT)
    problem = retrograd.devito.Problem(pair.forward, pair.gradient, chunk=1)
    row = problem.layout.row_nbytes
    for last in range(13):
        pair.options = {"time_M": last}
        truth = pair.keep_all()
        for rows in range(5, 5 + last + 3):
            run = retrograd.devito.checkpointed(pair.forward, pair.gradient, memory=rows * row)
            assert run.forward(**pair.options).forward_steps == last + 1
            for ours, theirs in zip(pair.run(run), truth, strict=True):
                assert np.array_equal(ours, theirs), (last, rows)


@pytest.mark.parametrize("chunk", [1, 2, 5, 16, 0])
def test_the_chunk_changes_no_bit(chunk: int) -> None:
    pair = two_fields(time_order=1, save=NT)
    truth = pair.keep_all()
    pair.reset()
    problem = retrograd.devito.Problem(pair.forward, pair.gradient, {}, {}, chunk=chunk)
    nbytes = problem.scratch_nbytes + 5 * problem.layout.row_nbytes
    result = retrograd.gradient(problem, memory=nbytes)
    assert np.array_equal(result.gradient["grad"], truth[0])
    assert bool(problem.layout.held) == (chunk > 0)


@pytest.mark.parametrize("back", [1, 2, 3])
def test_equations_that_read_earlier_samples(back: int) -> None:
    """A buffered field of ``back + 1`` samples of which the oldest is read."""
    buffer = {"time_order": back}
    velocity = {"time_order": 1, "save": NT}
    v, s = function("v", **velocity), function("s", **buffer)
    t = s.grid.stepping_dim
    oldest = s.subs({t: t - (back - 1) * t.spacing})
    a, grad = function("a", time_order=1), function("grad")
    forward = devito.Operator(
        [
            devito.Eq(v.forward, 0.9 * v + 0.1 * s + 0.01 * ramp("m")),
            devito.Eq(s.forward, 0.5 * s + 0.3 * oldest + 0.1 * v),
        ]
    )
    gradient = devito.Operator([devito.Eq(a.backward, 0.8 * a + v), devito.Inc(grad, a * v)])
    options = {"time_m": back - 1}
    plans = Pair(forward, gradient, (grad, a), {"v": velocity, "s": buffer}, (), options).check()
    assert {len(plan.demand.layout.held) for plan in plans} == {back}


def test_two_samples_that_are_read_and_written_in_one_place() -> None:
    """With two samples, t - 1 and t + 1 are one place; what is read before it is written counts."""
    velocity = {"time_order": 1, "save": NT}
    v, s = function("v", **velocity), function("s", time_order=1)
    a, grad = function("a", time_order=1), function("grad")
    forward = devito.Operator(
        [
            devito.Eq(v.forward, 0.9 * v + 0.1 * s.backward + 0.01 * ramp("m")),
            devito.Eq(s.forward, 0.5 * s + 0.3 * s.backward + 0.1 * v),
        ]
    )
    gradient = devito.Operator([devito.Eq(a.backward, 0.8 * a + v), devito.Inc(grad, a * v)])
    assert {offset % 2 for offset in needed_samples(accesses(forward)["s"], 2)} == {0, 1}
    Pair(forward, gradient, (grad, a), {"v": velocity, "s": {"time_order": 1}}).check()


@pytest.mark.parametrize("every", [1, 3])
def test_a_function_without_time_that_is_read_and_written(every: int) -> None:
    for plan in with_damage(every).check():
        assert [f.name for f in plan.demand.layout.held] == ["u", "damage"]


def test_a_function_without_time_starts_from_the_users_values_which_stay() -> None:
    pair = with_damage(1)
    damage = function("damage")
    run = retrograd.devito.checkpointed(pair.forward, pair.gradient, memory="1/2")
    found = []
    for start in (0.0, 0.5, 0.0):
        damage.data[:] = start
        pair.reset()
        run.forward(damage=damage, **pair.options)
        run.reverse(**pair.options)
        found.append(np.array(pair.outputs[0].data))
        assert (damage.data == start).all()
    assert np.array_equal(found[0], found[2])
    assert not np.array_equal(found[0], found[1])
    run.forward(damage=damage, **pair.options)
    damage.data[:] = 0.25
    with pytest.raises(OutOfOrder, match="damage"):
        run.reverse(**pair.options)


def test_equations_that_devito_runs_one_after_the_other_are_refused() -> None:
    """It updates such a function in a loop of its own, after all steps have been made."""
    v, damage = function("v", time_order=1, save=NT), function("damage")
    forward = devito.Operator(
        [devito.Eq(v.forward, v - 0.1 * damage), devito.Eq(damage, damage + v)]
    )
    gradient = devito.Operator(devito.Inc(function("grad"), v))
    with pytest.raises(NotSupported, match="2 time loops.*'damage'"):
        retrograd.devito.checkpointed(forward, gradient, memory="1/4")


def test_a_buffered_wavefield_starts_where_it_is_told_to() -> None:
    pair = two_fields(time_order=1)
    pair.reset()
    v, s = function("v", time_order=1, save=NT), function("s", time_order=1)
    s.data[0] = 0.25
    pair.forward.apply(v=v, s=s)
    pair.gradient.apply(v=v)
    truth = pair.found()
    run = retrograd.devito.checkpointed(pair.forward, pair.gradient, memory="1/3")
    pair.reset()
    run.forward(initial={"s": np.full((1, 9, 11), 0.25, dtype=np.float32)})
    run.reverse()
    for ours, theirs in zip(pair.found(), truth, strict=True):
        assert np.array_equal(ours, theirs)
    with pytest.raises(InvalidArgument, match="shape"):
        run.forward(initial={"s": np.zeros((2, 9, 11), dtype=np.float32)})


def snapshots(every: int, samples: int = NT) -> Pair:
    """Imaging with every few samples only: the wave itself is kept in a buffer."""
    sub = devito.ConditionalDimension("sub", parent=GRID.time_dim, factor=every)
    kept = {"time_order": 0, "save": -(-samples // every), "time_dim": sub}
    u, usave = function("u", time_order=2), function("usave", **kept)
    v, grad = function("v", time_order=2), function("grad")
    forward = devito.Operator(
        [
            devito.Eq(u.forward, 1.9 * u - 0.95 * u.backward + 0.01 * u.laplace + ramp("m")),
            devito.Eq(usave, u),
        ]
    )
    gradient = devito.Operator(
        [
            devito.Eq(v.backward, 1.9 * v - 0.95 * v.forward + 0.01 * v.laplace + usave),
            devito.Inc(grad, usave * v),
        ]
    )
    return Pair(forward, gradient, (grad, v), {"u": {"time_order": 2}, "usave": kept})


@pytest.mark.parametrize("every", [2, 4, 7])
def test_every_few_samples(every: int) -> None:
    pair = snapshots(every)
    for last in (28, 27, 26):
        pair.options = {"time_M": last}
        for plan in pair.check():
            layout = plan.demand.layout
            assert (layout.depth, len(layout.held)) == (0, 2)
            assert layout.record_nbytes == layout.state[0].nbytes
    run = retrograd.devito.checkpointed(pair.forward, pair.gradient, memory="1/1")
    run.forward(time_M=28)
    assert run.plan.steps == 28 // every + 1


def test_a_run_that_begins_between_two_samples() -> None:
    pair = snapshots(4)
    pair.options = {"time_m": 6, "time_M": 26}
    pair.check()


def test_another_factor_than_the_operators_is_refused() -> None:
    pair = snapshots(4)
    run = retrograd.devito.checkpointed(pair.forward, pair.gradient, memory="1/1")
    with pytest.raises(InvalidArgument, match="factor"):
        run.forward(subf=2, time_m=1, time_M=20)


def test_more_iterations_than_samples_are_refused() -> None:
    pair = snapshots(4)
    run = retrograd.devito.checkpointed(pair.forward, pair.gradient, memory="1/1")
    with pytest.raises(InvalidArgument, match="save=9"):
        run.forward(time_m=1, time_M=32)


def test_samples_at_two_rates_are_refused() -> None:
    sub = devito.ConditionalDimension("sub", parent=GRID.time_dim, factor=3)
    u = function("u", time_order=1, save=NT)
    usave = function("usave", time_order=0, save=11, time_dim=sub)
    v, grad = function("v", time_order=1), function("grad")
    forward = devito.Operator([devito.Eq(u.forward, 0.9 * u + 1), devito.Eq(usave, u)])
    gradient = devito.Operator([devito.Eq(v.backward, v + usave), devito.Inc(grad, u * v)])
    with pytest.raises(NotSupported, match="at one rate"):
        inspect(forward, gradient, {})
