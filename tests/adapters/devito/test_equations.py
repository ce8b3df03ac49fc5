"""Equations instead of operators: what the gradient reads keeps its samples, without ``save=``."""

from __future__ import annotations

from typing import Any

import devito
import numpy as np
import pytest

import retrograd
from retrograd.errors import InvalidArgument, NotSupported

NT = 40
GRID = devito.Grid(shape=(11, 9))
DT = 1.0


def lists(save: int | None) -> tuple[list[Any], list[Any], Any, Any]:
    """A wave, a staggered field that the gradient reads, and a memory that it does not read."""
    space = {"grid": GRID, "space_order": 2}
    u = devito.TimeFunction(name="u", time_order=2, save=save, **space)
    w = devito.TimeFunction(
        name="w", time_order=1, save=save, staggered=GRID.dimensions[0], **space
    )
    s, v = (devito.TimeFunction(name=name, time_order=1, **space) for name in ("s", "v"))
    m, grad = (devito.Function(name=name, **space) for name in ("m", "grad"))
    m.data[:] = 0.3 + 0.1 * np.random.default_rng(0).random(GRID.shape)
    src, rec = (
        devito.SparseTimeFunction(name=name, grid=GRID, npoint=1, nt=NT) for name in ("src", "rec")
    )
    src.coordinates.data[:], rec.coordinates.data[:] = 0.5, 0.3
    src.data[:] = np.random.default_rng(1).random((NT, 1))
    dt = GRID.stepping_dim.spacing
    update = devito.solve(1e4 * m * u.dt2 - u.laplace + 0.1 * s, u.forward)
    forward = [
        devito.Eq(u.forward, update),
        src.inject(field=u.forward, expr=src * dt**2 / m),
        devito.Eq(w.forward, w + 0.1 * u.dx),
        devito.Eq(s.forward, 0.9 * s + u),
        rec.interpolate(expr=u.dy),
    ]
    gradient = [
        devito.Eq(v.backward, 0.9 * v + w.dx + u.laplace),
        devito.Inc(grad, (u.dt2 + w.forward) * v),
    ]
    return forward, gradient, rec, grad


def apply(forward: Any, gradient: Any) -> None:
    for operator in (forward, gradient):
        names = {parameter.name for parameter in operator.parameters}
        one = {name: 1 for name in ("nthreads", "nthreads_nonaffine") if name in names}
        operator.apply(dt=DT, **one)


@pytest.mark.parametrize("save", [None, NT])
@pytest.mark.parametrize("memory", ["1/2", "1/4", "1/8"])
def test_the_gradient_is_that_of_operators_with_save(save: int | None, memory: str) -> None:
    forward, gradient, rec, grad = lists(NT)
    apply(devito.Operator(forward, language="openmp"), devito.Operator(gradient, language="openmp"))
    truth = np.array(grad.data), np.array(rec.data)
    assert all(np.abs(array).max() > 0 for array in truth)
    forward, gradient, rec, grad = lists(save)
    run = retrograd.devito.checkpointed(forward, gradient, memory=memory, check="replay")
    for _ in range(2):
        grad.data[:] = 0.0
        run.forward(dt=DT, nthreads=1)
        run.reverse(dt=DT, nthreads=1)
        assert np.array_equal(grad.data, truth[0])
        assert np.array_equal(rec.data, truth[1])
    assert run.report().endswith("records held u, w; restarts s as well")
    for operator in run.operators:
        for parameter in operator.parameters:
            if parameter.name in ("u", "w"):
                assert parameter.save == NT
                assert parameter._data is None


def test_the_number_of_samples_may_be_given() -> None:
    space = {"grid": GRID, "time_order": 1}
    u, v = (devito.TimeFunction(name=name, **space) for name in ("u", "v"))
    grad = devito.Function(name="grad", grid=GRID)
    lists = (
        [devito.Eq(u.forward, 0.9 * u + 0.1)],
        [devito.Eq(v.backward, 0.9 * v + u), devito.Inc(grad, u * v)],
    )
    with pytest.raises(InvalidArgument, match="give nt="):
        retrograd.devito.checkpointed(*lists, memory="1/4")
    run = retrograd.devito.checkpointed(*lists, memory="1/4", nt=21)
    assert run.plan.steps == 20
    run.forward()
    run.reverse()
    assert (grad.data > 0).all()


def test_vector_fields_in_one_equation() -> None:
    space = {"grid": GRID, "time_order": 1, "space_order": 2}
    v = devito.VectorTimeFunction(name="v", **space)
    p, a = (devito.TimeFunction(name=name, **space) for name in ("p", "a"))
    grad = devito.Function(name="grad", grid=GRID)
    forward = [
        devito.Eq(v.forward, 0.9 * v + 0.01 * devito.grad(p)),
        devito.Eq(p.forward, 0.9 * p + 0.01 * devito.div(v.forward) + 0.1),
    ]
    gradient = [devito.Eq(a.backward, 0.9 * a + v[0]), devito.Inc(grad, a * p)]
    run = retrograd.devito.checkpointed(forward, gradient, memory="1/4", nt=30, check="replay")
    run.forward()
    run.reverse()
    assert (grad.data != 0).any()
    assert run.report().endswith("records held p, v_x; restarts v_y as well")


def test_an_update_that_devito_tears_apart_is_refused() -> None:
    """With an equation in between, Devito injects after the whole time loop has run."""
    forward, gradient, _, _ = lists(NT)
    forward[1:3] = forward[2:0:-1]
    with pytest.raises(NotSupported, match="directly after its update"):
        retrograd.devito.checkpointed(forward, gradient, memory="1/4")


def test_what_is_no_list_of_equations_is_refused() -> None:
    forward, gradient, _, _ = lists(NT)
    operator = devito.Operator(gradient)
    for wrong, message in (
        ((forward, operator), "two operators, or two lists"),
        ((forward, []), "empty"),
        ((forward, [1.0]), "float among the equations"),
        ((devito.Operator(forward), operator, NT), "nt=40 is for equations"),
    ):
        options = {"nt": wrong[2]} if len(wrong) == 3 else {}
        with pytest.raises(InvalidArgument, match=message):
            retrograd.devito.checkpointed(*wrong[:2], memory="1/4", **options)
