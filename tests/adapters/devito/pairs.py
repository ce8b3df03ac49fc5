"""Pairs of operators whose forward has state that the gradient does not read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import devito
import numpy as np

import retrograd
from retrograd.stores.tier import HeldStore

NT = 31
GRID = devito.Grid(shape=(9, 11), extent=(8.0, 10.0))
SAMPLES = (0, 1, 2, 3, 5, 9, 14, 40)
"""Budgets in samples of one wavefield, on top of what is in use whatever the schedule."""


def function(name: str, **options: Any) -> Any:
    kind = devito.TimeFunction if "time_order" in options else devito.Function
    return kind(name=name, grid=GRID, space_order=2, **options)


@dataclass(eq=False)
class Pair:
    """Two operators, and how everything that they use is declared for keeping all."""

    forward: Any
    gradient: Any
    outputs: tuple[Any, ...]
    declared: Mapping[str, Any]
    sums: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def reset(self) -> None:
        for output in self.outputs:
            output.data_with_halo[:] = 0.0
        for sums in self.sums:
            sums.data_with_halo[:] = 0.0

    def found(self) -> list[np.ndarray]:
        return [np.array(output.data) for output in (*self.outputs, *self.sums)]

    def keep_all(self) -> list[np.ndarray]:
        """Devito's own two calls, with fresh wavefields and functions."""
        self.reset()
        fresh = {name: function(name, **given) for name, given in self.declared.items()}
        in_gradient = {n: f for n, f in fresh.items() if n in _names(self.gradient)}
        self.forward.apply(**fresh, **self.options)
        self.gradient.apply(**in_gradient, **self.options)
        return self.found()

    def run(self, run: Any) -> list[np.ndarray]:
        self.reset()
        run.forward(**self.options)
        run.reverse(**self.options)
        return self.found()

    def check(self, **options: Any) -> list[Any]:
        """Compare at many budgets, in memory and with restarts elsewhere; return the plans."""
        truth, plans = self.keep_all(), []
        assert all(np.abs(array).max() > 0 for array in truth)
        problem = retrograd.devito.Problem(self.forward, self.gradient, chunk=1)
        layout = problem.layout
        fixed = problem.scratch_nbytes + layout.live_nbytes + layout.restart_nbytes
        for samples in SAMPLES:
            for disk in (0, 6 * layout.restart_nbytes):
                elsewhere = {"costs": retrograd.Costs(1.0), "stores": {"disk": HeldStore()}}
                run = retrograd.devito.checkpointed(
                    self.forward,
                    self.gradient,
                    memory=fixed + samples * layout.row_nbytes,
                    disk=disk,
                    **(elsewhere if disk else {}),
                    **options,
                )
                for _ in range(2):
                    for ours, theirs in zip(self.run(run), truth, strict=True):
                        assert np.array_equal(ours, theirs), (samples, disk, run.plan.name)
                assert run.result.tally.forward_steps == run.plan.forward_steps
                plans.append(run.plan)
        assert any(plan.forward_steps > plan.steps for plan in plans)
        return plans


def _names(operator: Any) -> set[str]:
    return {parameter.name for parameter in operator.parameters}


def ramp(name: str) -> Any:
    given = function(name)
    given.data[:] = np.linspace(0.1, 0.9, math.prod(GRID.shape)).reshape(GRID.shape)
    return given


def two_fields(**of_stress: Any) -> Pair:
    """A velocity that the gradient reads at two times, and a stress that it does not read."""
    velocity = {"time_order": 1, "save": NT}
    v, s = function("v", **velocity), function("s", **of_stress)
    a, grad, m = function("a", time_order=1), function("grad"), ramp("m")
    forward = devito.Operator(
        [
            devito.Eq(v.forward, 0.9 * v + 0.1 * m * s.dxc + 0.01 * m),
            devito.Eq(s.forward, 0.9 * s + 0.1 * v.forward.dyc + 0.02 * v),
        ]
    )
    gradient = devito.Operator(
        [devito.Eq(a.backward, 0.8 * a + 0.1 * v), devito.Inc(grad, a * (v.forward - v))]
    )
    return Pair(forward, gradient, (grad, a), {"v": velocity, "s": of_stress})


def with_damage(every: int) -> Pair:
    """A function without time that the forward reads, and writes at some iterations."""
    kept = {"time_order": 0, "save": NT}
    u, v, damage = function("u", time_order=1), function("v", **kept), function("damage")
    some = devito.ConditionalDimension("some", parent=GRID.time_dim, factor=every)
    a, grad, sums = function("a", time_order=1), function("grad"), function("sums")
    where = {} if every == 1 else {"implicit_dims": [some]}
    forward = devito.Operator(
        [
            devito.Eq(u.forward, 0.9 * u - 0.1 * damage + 0.01 * ramp("m")),
            devito.Eq(v, u),
            devito.Eq(damage, 0.9 * damage + u, **where),
            devito.Inc(sums, u * u),
        ]
    )
    gradient = devito.Operator([devito.Eq(a.backward, 0.8 * a + v), devito.Inc(grad, a * v)])
    declared = {"u": {"time_order": 1}, "v": kept, "damage": {}}
    return Pair(forward, gradient, (grad, a), declared, (sums,), {"time_m": 1, "time_M": NT - 2})
