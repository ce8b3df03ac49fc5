"""Devito's example solvers give the same receivers and gradient as their own methods, bit by bit.

Each is run with an odd and an even number of steps, in 2D and 3D, at parts of keep-all's bytes.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import devito
import numpy as np
import pytest

pytest.importorskip("examples.seismic", reason="Devito's examples are not installed")

from examples.seismic import demo_model
from examples.seismic.self_adjoint import setup_w_over_q

import retrograd
from retrograd.errors import NotSupported
from tests.adapters.devito import solvers

SHAPES = {2: (19, 17), 3: (11, 9, 10)}
SAMPLES = {2: (75, 82), 3: (44, 49)}


def made(preset: str, shape: tuple[int, ...], order: int = 4, **options: Any) -> Any:
    return demo_model(
        preset, shape=shape, spacing=(10.0,) * len(shape), nbl=3, space_order=order, **options
    )


def boundary(function: Any, nbl: int) -> None:
    setup_w_over_q(function, 2 * np.pi * 0.01, 0.1, 1000.0, nbl, sigma=0)


def viscoacoustic(kernel: str, order: int) -> Callable[..., Any]:
    return lambda shape, samples: solvers.viscoacoustic(
        made("layers-viscoacoustic", shape), samples, kernel, order
    )


SOLVERS: dict[str, Callable[..., Any]] = {
    "acoustic": lambda shape, n: solvers.acoustic(made("layers-isotropic", shape), n),
    "acoustic-OT4": lambda shape, n: solvers.acoustic(made("layers-isotropic", shape), n, "OT4"),
    "acoustic-free-surface": lambda shape, n: solvers.acoustic(
        made("layers-isotropic", shape, fs=True), n
    ),
    "tti": lambda shape, n: solvers.tti(made("layers-tti", shape), n),
    "tti-staggered": lambda shape, n: solvers.tti_staggered(made("layers-tti", shape), n),
    "self-adjoint": lambda shape, n: solvers.self_adjoint(
        made("constant-isotropic", shape, 8, density=True, bcs=boundary), n
    ),
    **{
        f"{kernel}-{order}": viscoacoustic(kernel, order)
        for kernel in ("sls", "kv", "maxwell")
        for order in (1, 2)
    },
}


@functools.cache
def solver(name: str, dimensions: int, samples: int) -> Any:
    devito.configuration["log-level"] = "ERROR"
    return SOLVERS[name](SHAPES[dimensions], samples)


CASES = [
    pytest.param(name, 2, samples, id=f"{name}-2D-{samples}")
    for name in SOLVERS
    for samples in SAMPLES[2]
] + [
    pytest.param(name, 3, SAMPLES[3][i % 2], id=f"{name}-3D-{SAMPLES[3][i % 2]}", marks=slow)
    for i, name in enumerate(SOLVERS)
    for slow in [pytest.mark.slow]
]


@pytest.mark.parametrize(("name", "dimensions", "samples"), CASES)
def test_equals_the_solver_itself(name: str, dimensions: int, samples: int) -> None:
    case = solver(name, dimensions, samples)
    truth = case.keep_all()
    assert all(np.nanmax(np.abs(array)) > 0 for array in truth)
    problem = retrograd.devito.Problem(case.forward, case.gradient, names=case.names, chunk=1)
    layout = problem.layout
    least = problem.scratch_nbytes + layout.live_nbytes + layout.restart_nbytes
    plans = []
    for part in (4, 8, 16):
        run = retrograd.devito.checkpointed(
            case.forward,
            case.gradient,
            names=case.names,
            memory=max(least, problem.keep_all_nbytes // part),
            check="replay" if part == 4 else None,
        )
        for ours, theirs in zip(case.run(run), truth, strict=True):
            assert np.array_equal(ours, theirs, equal_nan=True), part
        assert run.result.tally.forward_steps == run.plan.forward_steps
        plans.append(run.plan)
    assert {plan.steps % 2 for plan in plans} == {(samples - layout.depth) % 2}
    assert plans[-1].forward_steps > plans[-1].steps


@pytest.mark.parametrize("name", ["tti", "tti-staggered", "sls-1"])
def test_a_second_gradient_compiles_and_allocates_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = solver(name, 2, SAMPLES[2][0])
    run = retrograd.devito.checkpointed(case.forward, case.gradient, names=case.names, memory="1/2")
    first = case.run(run)
    counted: list[str] = []
    for module in ("retrograd.stores.arena", "retrograd.adapters.devito.held"):
        original = sys.modules[module].zeros
        monkeypatch.setattr(
            f"{module}.zeros",
            lambda nbytes, original=original: counted.append("allocated") or original(nbytes),
        )
    compiled = devito.Operator._jit_compile
    monkeypatch.setattr(
        devito.Operator,
        "_jit_compile",
        lambda self: counted.append("compiled") or compiled(self),
    )
    for ours, theirs in zip(case.run(run), first, strict=True):
        assert np.array_equal(ours, theirs, equal_nan=True)
    assert counted == []
    retrograd.devito.checkpointed(
        case.forward, case.gradient, names=case.names, memory="1/2"
    ).forward(**case.forward_arguments)
    assert "allocated" in counted  # the count counts


def test_the_gradient_may_have_fields_of_its_own_with_the_names_of_the_forward() -> None:
    """The stock SLS gradient has a memory variable ``r``, which is not that of the forward."""
    case = solver("sls-2", 2, SAMPLES[2][0])
    found = retrograd.devito.Problem(case.forward, case.gradient).findings
    assert set(found.gradient_names) == {"p"}
    assert set(found.adjoint) == {"pa", "r"}
    with pytest.raises(NotSupported, match="names=.*'r'"):
        retrograd.devito.Problem(case.forward, case.gradient, names={"r": "r"})


def test_a_gradient_operator_with_the_latest_samples_only_is_refused() -> None:
    solver_ = solvers.AcousticWaveSolver(
        model := made("layers-isotropic", SHAPES[2]), solvers.geometry(model, 40), space_order=4
    )
    with pytest.raises(NotSupported, match="only the latest samples of 'u'.*save=nt"):
        retrograd.devito.Problem(solver_.op_fwd(save=True), solver_.op_grad(save=False))
