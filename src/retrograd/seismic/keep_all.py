"""What a gradient is compared with: Devito's own operators with every sample in memory."""

from __future__ import annotations

from typing import Any

from retrograd.seismic.propagator import Propagator


class KeepAllRun:
    """Runs a propagator's operators by ``apply``, with all of the wavefield allocated.

    Nothing of retrograd's engine takes part, so that it can be measured against this. It takes
    the bytes of ``nt`` rows of the wavefield.

    Parameters
    ----------
    arguments : what is passed to every ``apply`` besides, such as ``nthreads``.
    """

    def __init__(self, propagator: Propagator, **arguments: Any) -> None:
        self._propagator = propagator
        u = propagator.u
        self._wavefield = u.__class__(
            name=u.name,
            grid=u.grid,
            time_order=u.time_order,
            space_order=u.space_order,
            save=propagator.nt,
        )
        # Receivers may share grid points; more than one thread would add them in varying order.
        self._arguments = {"nthreads_nonaffine": 1, **arguments, u.name: self._wavefield}

    def forward(self, *, keep: bool = True, **arguments: Any) -> None:
        """Run the forward operator from a zero start."""
        self._wavefield.data[:2] = 0.0
        self._propagator.forward_operator.apply(**self._arguments, **arguments)

    def reverse(self, **arguments: Any) -> None:
        """Run the gradient operator."""
        self._propagator.gradient_operator.apply(**self._arguments, **arguments)
