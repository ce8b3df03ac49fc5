"""The wave equation's two operators, written for Devito.

With m the squared slowness, d the damping, L the Laplacian, h the time step, the forward
computes u[t+1] from

    A u[t+1] = (2m/h² + L) u[t] - B u[t-1] + q[t],    A = m/h² + d/2h,  B = m/h² - d/2h,

for t = 1 … nt-2, from u[0] = u[1] = 0, and the receivers R record R u[t]. Let r[t] be the
derivative of the misfit J with respect to R u[t]. Multipliers -v[t] for the equations give

    A v[t-1] = (2m/h² + L) v[t] - B v[t+1] + Rᵀ r[t],    v[nt-2] = v[nt-1] = 0,
    dJ/dm = -Σ_t v[t] (u[t+1] - 2u[t] + u[t-1]) / h²
          = -Σ_t u[t] (v[t+1] - 2v[t] + v[t-1]) / h²,

exactly, if L is symmetric. The second form is a summation by parts without boundary terms:
u[0], u[1] and v[nt-2], v[nt-1] are zero. (The loop's v[0], which belongs to no equation, only
meets u[1] = 0.) It reads u at one time only, so what the gradient needs of a step is part of the
state. u[nt-1] is computed and used by nobody: samples exist for t = 0 … nt-2, and both operators
run over t = 1 … nt-2.

L is symmetric because the stencil is and the wavefield beyond the grid's edge is zero. A free
surface in row 0 has the odd mirror image above it: for rows i, j ≥ 1, L[i,j] = s[i-j] - s[i+j],
symmetric again. The second term is added for the few rows near the surface (`_mirror`), and
row 0 is set to zero (`_surface`) after injection, as a source in the first cell spills into it.
"""

from __future__ import annotations

from typing import Any

from retrograd.seismic.fields import Fields, load_devito
from retrograd.seismic.scheme import Scheme, second_derivative_weights


def forward_equations(fields: Fields, scheme: Scheme) -> list[Any]:
    """Return the equations that step `u` forward, inject the source and record."""
    u = fields.u
    return [
        *_step(fields, u, +1, scheme),
        fields.points.source.inject(field=u.forward, expr=fields.points.source * _response(fields)),
        *_surface(u, +1, scheme),
        fields.points.receivers.interpolate(expr=u),
    ]


def gradient_equations(fields: Fields, scheme: Scheme) -> list[Any]:
    """Return the equations that step `v` backward, inject the residual and add to the gradient."""
    v = fields.v
    return [
        *_step(fields, v, -1, scheme),
        fields.points.receivers.inject(
            field=v.backward, expr=fields.points.receivers * _response(fields)
        ),
        *_surface(v, -1, scheme),
        load_devito().Inc(fields.gradient, -fields.u * v.dt2),
    ]


def _step(fields: Fields, w: Any, direction: int, scheme: Scheme) -> list[Any]:
    m, damping, h = fields.squared_slowness, fields.damping, _time_step(w)
    ahead, behind = (w.forward, w.backward) if direction > 0 else (w.backward, w.forward)
    step = (2 * m * w - (m - h * damping / 2) * behind + h**2 * w.laplace) / (m + h * damping / 2)
    return [load_devito().Eq(ahead, step), *_mirror(fields, w, direction, scheme)]


def _mirror(fields: Fields, w: Any, direction: int, scheme: Scheme) -> list[Any]:
    """Return what the odd image above a free surface adds in the rows that see it."""
    if not scheme.free_surface:
        return []
    time, *columns, depth = w.dimensions
    weights = second_derivative_weights(scheme.space_order)
    equations = []
    for row in range(1, len(weights) - 1):
        image = sum(weights[k] * w[(time, *columns, k - row)] for k in range(row + 1, len(weights)))
        ahead = w[(time + direction, *columns, row)]
        response = _response(fields, (*columns, row))
        equations.append(load_devito().Eq(ahead, ahead - response * image / depth.spacing**2))
    return equations


def _surface(w: Any, direction: int, scheme: Scheme) -> list[Any]:
    time, *columns, _ = w.dimensions
    return [load_devito().Eq(w[(time + direction, *columns, 0)], 0)] if scheme.free_surface else []


def _response(fields: Fields, at: tuple[Any, ...] | None = None) -> Any:
    """Return 1/A: what a unit source in the wave equation adds to the next sample."""
    m, damping, h = fields.squared_slowness, fields.damping, _time_step(fields.u)
    if at is not None:
        m, damping = m[at], damping[at]
    return h**2 / (m + h * damping / 2)


def _time_step(w: Any) -> Any:
    return w.grid.stepping_dim.spacing
