"""Your own equation: heat in a plate, and the gradient of a misfit by its conductivity.

J = ½ Σ (recorded - observed)². The adjoint equation is the heat equation run backwards, fed with
the residual; the gradient sums what it meets of the forward's temperature. Run it:

    python examples/own_equation.py
"""

import devito
import numpy as np

import retrograd

grid = devito.Grid(shape=(101, 101), extent=(1.0, 1.0))
nt, dt = 2001, grid.stepping_dim.spacing
T, A = (devito.TimeFunction(name=name, grid=grid, space_order=2) for name in "TA")
kappa, gradient = (devito.Function(name=n, grid=grid, space_order=2) for n in ("kappa", "gradient"))
source, recorded, residual = (
    devito.SparseTimeFunction(name=name, grid=grid, npoint=1, nt=nt)
    for name in ("source", "recorded", "residual")
)
kappa.data[:], source.data[:] = 0.5, 1.0
source.coordinates.data[:], recorded.coordinates.data[:] = 0.3, 0.7
residual.coordinates.data[:] = 0.7

run = retrograd.devito.checkpointed(
    [devito.Eq(T.forward, T + dt * kappa * T.laplace)]
    + source.inject(field=T.forward, expr=dt * source)
    + recorded.interpolate(expr=T),
    [devito.Inc(gradient, dt * A * T.laplace), devito.Eq(A.backward, A + dt * (kappa * A).laplace)]
    + residual.inject(field=A.backward, expr=residual),
    memory="4 MB",  # keeping everything takes 88 MB
    check="replay",  # prove once that the state is complete; leave it out afterwards
)
run.forward(dt=4e-5)
residual.data[:] = recorded.data - 0.9 * np.array(recorded.data)
run.reverse(dt=4e-5)
print(run.report())
print("gradient from", gradient.data.min(), "to", gradient.data.max())
