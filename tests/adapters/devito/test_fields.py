"""Every kind of field that users declare, each against Devito's own two calls, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import devito
import pytest

import retrograd
from tests.adapters.devito.pairs import GRID, NT, Pair, function, ramp

TIME = GRID.time_dim
X, Y = GRID.dimensions


def gradient_of(read: Any, **options: Any) -> tuple[Any, tuple[Any, ...]]:
    """An operator that goes back over ``read``, and what it writes."""
    a, grad = function("a", time_order=1), function("grad")
    operator = devito.Operator(
        [devito.Eq(a.backward, 0.8 * a + 0.1 * read), devito.Inc(grad, a * read)], **options
    )
    return operator, (grad, a)


def order_0() -> Pair:
    """A sample that is made from another field and never read by the forward."""
    kept = {"time_order": 0, "save": NT}
    u, w = function("u", **kept), function("w", time_order=1)
    forward = devito.Operator(
        [devito.Eq(w.forward, 0.9 * w + 0.1 * ramp("m")), devito.Eq(u, w + 0.5)]
    )
    gradient, outputs = gradient_of(u)
    some = {"time_m": 0, "time_M": NT - 2}
    return Pair(forward, gradient, outputs, {"u": kept, "w": {"time_order": 1}}, options=some)


def order(count: int) -> Pair:
    """A sample that is made from the ``count`` before it."""
    kept = {"time_order": count, "save": NT}
    u, m = function("u", **kept), ramp("m")
    before = sum(0.5**i * u.subs({TIME: TIME - i}) for i in range(count))
    forward = devito.Operator([devito.Eq(u.forward, 0.4 * before + 0.1 * m + 0.01 * u.dxc)])
    gradient, outputs = gradient_of(u)
    some = {"time_m": count - 1, "time_M": NT - 2}
    return Pair(forward, gradient, outputs, {"u": kept}, options=some)


def buffer(slots: int) -> Pair:
    """A memory variable in a buffer of so many samples, the earliest of which is read."""
    kept, ring = {"time_order": 1, "save": NT}, {"time_order": 1, "save": devito.Buffer(slots)}
    u, s = function("u", **kept), function("s", **ring)
    time = s.time_dim
    forward = devito.Operator(
        [
            devito.Eq(u.forward, 0.9 * u + 0.1 * s.subs({time: time - slots + 2}) + 0.1),
            devito.Eq(s.forward, 0.5 * s + 0.1 * ramp("m") * u.forward),
        ]
    )
    gradient, outputs = gradient_of(u)
    some = {"time_m": slots, "time_M": NT - 2}
    return Pair(forward, gradient, outputs, {"u": kept, "s": ring}, options=some)


def forcing() -> Pair:
    """A right-hand side that depends on the time itself, in steps and in seconds."""
    kept = {"time_order": 2, "save": NT}
    u, m = function("u", **kept), ramp("m")
    force = devito.sin(TIME * TIME.spacing) + 0.001 * TIME
    forward = devito.Operator([devito.Eq(u.forward, 1.8 * u - 0.9 * u.backward + m * force)])
    gradient, outputs = gradient_of(devito.cos(TIME * TIME.spacing) * u)
    return Pair(forward, gradient, outputs, {"u": kept}, options={"dt": 0.3})


def subdomain() -> Pair:
    """An update of the interior alone, and another of the edge."""
    kept = {"time_order": 2, "save": NT}
    u, m = function("u", **kept), ramp("m")
    inner = devito.Eq(
        u.forward, 1.2 * u - 0.5 * u.backward + 0.1 * u.dxc + m, subdomain=GRID.interior
    )
    forward = devito.Operator([inner, devito.Eq(u.forward.subs({X: 0}), 0.5 * u.subs({X: 1}))])
    gradient, outputs = gradient_of(u)
    return Pair(forward, gradient, outputs, {"u": kept})


def staggered() -> Pair:
    """Pressure on the nodes, velocities between them; the gradient reads one of each."""
    of_p = {"time_order": 1, "save": NT, "staggered": devito.NODE}
    of_vx = {"time_order": 1, "save": NT, "staggered": X}
    of_vy = {"time_order": 1, "staggered": Y}
    p, vx, vy = function("p", **of_p), function("vx", **of_vx), function("vy", **of_vy)
    m = ramp("m")
    forward = devito.Operator(
        [
            devito.Eq(vx.forward, 0.9 * vx + 0.2 * p.dx),
            devito.Eq(vy.forward, 0.9 * vy + 0.2 * p.dy),
            devito.Eq(p.forward, 0.9 * p + 0.2 * m * (vx.forward.dx + vy.forward.dy) + 0.1 * m),
        ]
    )
    gradient, outputs = gradient_of(p.forward + vx)
    return Pair(forward, gradient, outputs, {"p": of_p, "vx": of_vx, "vy": of_vy})


def vector_and_tensor() -> Pair:
    """Elastic equations as Devito users write them; no component is named or passed."""
    given = {"grid": GRID, "space_order": 2, "time_order": 1, "save": NT}
    v = devito.VectorTimeFunction(name="v", **given)
    tau = devito.TensorTimeFunction(name="tau", **given)
    lame = ramp("lame")
    source = devito.Eq(tau[0, 0].forward, tau[0, 0].forward + 0.1 * lame)
    forward = devito.Operator(
        [
            devito.Eq(v.forward, 0.9 * v + 0.05 * devito.div(tau)),
            devito.Eq(
                tau.forward,
                0.9 * tau
                + 0.05 * lame * devito.diag(devito.div(v.forward))
                + 0.05 * (devito.grad(v.forward) + devito.grad(v.forward).transpose(inner=False)),
            ),
            source,
        ]
    )
    gradient, outputs = gradient_of(v[0] + v.forward[1])
    fields = {f.name: f for f in (*v, *tau)}
    declared = {
        name: {"time_order": 1, "save": NT, "staggered": f.staggered} for name, f in fields.items()
    }
    return Pair(forward, gradient, outputs, declared)


def every_third() -> Pair:
    """A buffered field that two of three steps leave as it is."""
    kept = {"time_order": 1, "save": NT}
    u, q = function("u", **kept), function("q", time_order=0)
    third = devito.ConditionalDimension("third", parent=TIME, factor=3)
    forward = devito.Operator(
        [
            devito.Eq(u.forward, 0.9 * u + 0.1 * q + 0.1 * ramp("m")),
            devito.Eq(q, 0.5 * q + 0.1 * u.forward, implicit_dims=[third]),
        ]
    )
    gradient, outputs = gradient_of(u)
    return Pair(forward, gradient, outputs, {"u": kept, "q": {"time_order": 0}})


PAIRS: dict[str, Callable[[], Pair]] = {
    "time order 0": order_0,
    "time order 1": lambda: order(1),
    "time order 2": lambda: order(2),
    "time order 3": lambda: order(3),
    "Buffer(2)": lambda: buffer(2),
    "Buffer(4)": lambda: buffer(4),
    "forcing": forcing,
    "subdomain": subdomain,
    "staggered": staggered,
    "vector and tensor": vector_and_tensor,
    "every third step": every_third,
}


@pytest.mark.parametrize("name", PAIRS)
def test_equals_keep_all_at_every_memory(name: str) -> None:
    pair = PAIRS[name]()
    pair.check()
    assert all(f._data is None for f in _state(pair))


@pytest.mark.parametrize("name", PAIRS)
def test_the_state_is_complete(name: str) -> None:
    """Recomputed steps, one at a time, make every field as it was."""
    pair = PAIRS[name]()
    problem = retrograd.devito.Problem(pair.forward, pair.gradient, chunk=1)
    layout = problem.layout
    run = retrograd.devito.checkpointed(
        pair.forward,
        pair.gradient,
        memory=problem.scratch_nbytes + layout.live_nbytes + 3 * layout.restart_nbytes,
        check="replay",
    )
    pair.run(run)
    assert run.plan.forward_steps > run.plan.steps
    assert run.compared > run.plan.steps


def _state(pair: Pair) -> list[Any]:
    found = retrograd.devito.Problem(pair.forward, pair.gradient).findings
    return list(found.own_functions.values())
