"""The elastic wave equation's two operators on a staggered grid, written for Devito.

Velocities v_i live half a cell along axis i, normal stresses σ_ii on the grid points, shear
stresses σ_ij half a cell along both axes, and so do their coefficients (Virieux 1986, Geophysics
51, 889-901; Levander 1988, Geophysics 53, 1425-1436). All functions are declared on the points:
where they live is in the differences, D⁺ from a point to half a cell further and D⁻ from there
back. Beyond the grid fields are zero, so that D⁻ is minus the transpose of D⁺.

With the step h, buoyancy b, damping factors d ≤ 1 in the layer, D_ij = D⁺_i for i = j and D⁻_j
else, the forward computes for t = 0 … nt-2, from zeros,

    v_i[t+1]  = d (v_i[t] + h b_i Σ_j D_ij σ_ij[t]),
    σ_ii[t+1] = d (σ_ii[t] + h (λ Σ_j e_jj + 2μ e_ii)) + h q[t],   e_jj = D⁻_j v_j[t+1],
    σ_ij[t+1] = d (σ_ij[t] + h μ_ij e_ij),            e_ij = D⁺_j v_i[t+1] + D⁺_i v_j[t+1],

and the receivers record the pressure -Σ_i σ_ii[t] / axes. Let a and s be the derivatives of the
misfit by v and σ, all later effects included, and r[t] that by the data. Then

    y_ii = λ Σ_k d s_kk[t+1] + 2μ d s_ii[t+1],    y_ij = μ_ij d s_ij[t+1],
    a_i[t]  = d (a_i[t+1] - h (D⁺_i y_ii + Σ_j≠i D⁻_j y_ij)),
    s_ii[t] = d s_ii[t+1] - h D⁻_i (b_i a_i[t]) + Rᵀ r[t],
    s_ij[t] = d s_ij[t+1] - h (D⁺_j (b_i a_i[t]) + D⁺_i (b_j a_j[t])),

    dJ/dλ = h Σ_t Σ_k d s_kk[t+1] Σ_j e_jj,    dJ/dμ = 2h Σ_t Σ_i d s_ii[t+1] e_ii,
    dJ/dμ_ij = h Σ_t d s_ij[t+1] e_ij,
    b_i dJ/db_i = Σ_t a_i[t] (v_i[t+1] / d - v_i[t]),

exactly. The last line puts the divergence of the stress as the forward's first equation has it:
the gradient reads velocities alone, and stresses are in restarts but in no record. The adjoint
state of t+1 lies at time index t. The operator need not run at t = 0, where v[1] = v[0] = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from retrograd.seismic.elastic_model import Edge
from retrograd.seismic.fields import Points, load_devito


@dataclass(frozen=True)
class ElasticFields:
    """The symbols of the two operators; Devito has no annotations, hence `Any`.

    Parameters
    ----------
    v : velocities by axis, with all rows; never allocated.
    stress : by pair of axes, i ≤ j; two rows.
    adjoint_v, adjoint_stress : the same of the adjoint state, two rows each.
    lam, mu, buoyancy, edges, damping : coefficients, functions of space.
    by_lam, by_mu, by_buoyancy, by_edges : accumulators; that for buoyancy lacks a division by it.
    """

    v: tuple[Any, ...]
    stress: dict[Edge, Any]
    adjoint_v: tuple[Any, ...]
    adjoint_stress: dict[Edge, Any]
    lam: Any
    mu: Any
    buoyancy: tuple[Any, ...]
    edges: dict[Edge, Any]
    damping: Any
    by_lam: Any
    by_mu: Any
    by_buoyancy: tuple[Any, ...]
    by_edges: dict[Edge, Any]
    points: Points

    @property
    def axes(self) -> range:
        """The grid's axes."""
        return range(len(self.v))


def staggered_weights(space_order: int) -> tuple[float, ...]:
    """Return c_1 … c_p, p = space_order / 2, of h f'(0) ≈ Σ c_k (f((k-½)h) - f((½-k)h)).

    c_k = (-1)^(k+1) ((2p-1)!)² / (16^(p-1) (2k-1)² (p+k-1)! (p-k)! ((p-1)!)²).

    References
    ----------
    Fornberg (1988), Mathematics of Computation 51, 699-706.

    Examples
    --------
    >>> [round(weight, 4) for weight in staggered_weights(4)]
    [1.125, -0.0417]
    """
    p, f = space_order // 2, math.factorial
    return tuple(
        float(
            Fraction(
                (-1) ** (k + 1) * f(2 * p - 1) ** 2,
                16 ** (p - 1) * (2 * k - 1) ** 2 * f(p + k - 1) * f(p - k) * f(p - 1) ** 2,
            )
        )
        for k in range(1, p + 1)
    )


def elastic_forward(fields: ElasticFields, space_order: int) -> list[Any]:
    """Return the equations that step velocities and stresses, inject the source and record."""
    eq, source = load_devito().Eq, fields.points.source
    up, down = _differences(fields, space_order)
    h, d, new = _step(fields), fields.damping, [v.forward for v in fields.v]
    equations = []
    for i, v in enumerate(fields.v):
        force = sum(
            (up if i == j else down)(fields.stress[min(i, j), max(i, j)], j) for j in fields.axes
        )
        equations.append(eq(new[i], d * (v + h * fields.buoyancy[i] * force)))
    dilatation = sum(down(v, j) for j, v in enumerate(new))
    for (i, j), stress in fields.stress.items():
        rate = (
            fields.lam * dilatation + 2 * fields.mu * down(new[i], i)
            if i == j
            else fields.edges[i, j] * (up(new[i], j) + up(new[j], i))
        )
        equations.append(eq(stress.forward, d * (stress + h * rate)))
    normal = [fields.stress[i, i] for i in fields.axes]
    for stress in normal:
        equations.append(source.inject(field=stress.forward, expr=source * h))
    pressure = -sum(normal) / len(normal)
    return [*equations, fields.points.receivers.interpolate(expr=pressure)]


def elastic_gradient(fields: ElasticFields, space_order: int) -> list[Any]:
    """Return the equations that step the adjoint state back and add to the gradient."""
    devito, receivers = load_devito(), fields.points.receivers
    up, down = _differences(fields, space_order)
    h, d = _step(fields), fields.damping
    damped = {edge: d * s for edge, s in fields.adjoint_stress.items()}
    trace = sum(damped[i, i] for i in fields.axes)
    y = {
        (i, j): fields.lam * trace + 2 * fields.mu * s if i == j else fields.edges[i, j] * s
        for (i, j), s in damped.items()
    }
    equations = list(_accumulation(fields, damped, trace, up, down))
    for i, a in enumerate(fields.adjoint_v):
        force = sum((up if i == j else down)(y[min(i, j), max(i, j)], j) for j in fields.axes)
        equations.append(devito.Eq(a.backward, d * (a - h * force)))
    for i, (a, v) in enumerate(zip(fields.adjoint_v, fields.v, strict=True)):
        equations.append(devito.Inc(fields.by_buoyancy[i], a.backward * (v.forward / d - v)))
    pushed = [b * a.backward for b, a in zip(fields.buoyancy, fields.adjoint_v, strict=True)]
    for (i, j), s in fields.adjoint_stress.items():
        rate = down(pushed[i], i) if i == j else up(pushed[i], j) + up(pushed[j], i)
        equations.append(devito.Eq(s.backward, damped[i, j] - h * rate))
    for i in fields.axes:
        normal = fields.adjoint_stress[i, i].backward
        equations.append(receivers.inject(field=normal, expr=-receivers / len(fields.axes)))
    return equations


def _accumulation(
    fields: ElasticFields,
    damped: dict[Edge, Any],
    trace: Any,
    up: Difference,
    down: Difference,
) -> Iterator[Any]:
    inc, h, new = load_devito().Inc, _step(fields), [v.forward for v in fields.v]
    strain = [down(v, i) for i, v in enumerate(new)]
    yield inc(fields.by_lam, h * trace * sum(strain))
    yield inc(fields.by_mu, 2 * h * sum(damped[i, i] * e for i, e in enumerate(strain)))
    for (i, j), by_edge in fields.by_edges.items():
        yield inc(by_edge, h * damped[i, j] * (up(new[i], j) + up(new[j], i)))


Difference = Callable[[Any, int], Any]
"""Of an expression along an axis."""


def _differences(fields: ElasticFields, space_order: int) -> tuple[Difference, Difference]:
    """D⁺ and D⁻."""
    weights = staggered_weights(space_order)
    dimensions = fields.lam.dimensions

    def along(expression: Any, axis: int, ahead: int) -> Any:
        dimension = dimensions[axis]
        return sum(
            weight
            / dimension.spacing
            * (
                _moved(expression, dimension, k + ahead)
                - _moved(expression, dimension, ahead - k - 1)
            )
            for k, weight in enumerate(weights)
        )

    return (lambda e, axis: along(e, axis, 1)), (lambda e, axis: along(e, axis, 0))


def _moved(expression: Any, dimension: Any, cells: int) -> Any:
    return expression.subs({dimension: dimension + cells * dimension.spacing})


def _step(fields: ElasticFields) -> Any:
    return fields.lam.grid.stepping_dim.spacing
