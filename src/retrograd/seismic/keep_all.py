"""What a gradient is compared with: Devito's own operators with every sample in memory."""

from __future__ import annotations

from typing import Any

from retrograd.seismic.waves import Waves


class KeepAllRun:
    """Runs a propagator's operators by ``apply``, with all of the wavefields allocated.

    Nothing of retrograd's engine takes part, so that it can be measured against this. It takes
    the bytes of ``nt`` rows of the wavefields.

    Parameters
    ----------
    arguments : what is passed to every ``apply`` besides, such as ``nthreads``.
    """

    def __init__(self, propagator: Waves[Any], **arguments: Any) -> None:
        self._propagator = propagator
        self._wavefields = {
            u.name: u.__class__(
                name=u.name,
                grid=u.grid,
                time_order=u.time_order,
                space_order=u.space_order,
                save=u.save,
            )
            for u in propagator.wavefields
        }
        # Receivers may share grid points; more than one thread would add them in varying order.
        self._arguments = {"nthreads_nonaffine": 1, **arguments}

    def forward(self, *, keep: bool = True, **arguments: Any) -> None:
        """Run the forward operator from a zero start."""
        for wavefield in self._wavefields.values():
            wavefield.data[: wavefield.time_order] = 0.0
        self._apply(self._propagator.forward_operator, arguments)

    def reverse(self, **arguments: Any) -> None:
        """Run the gradient operator."""
        self._apply(self._propagator.gradient_operator, arguments)

    def _apply(self, operator: Any, arguments: dict[str, Any]) -> None:
        known = {parameter.name for parameter in operator.parameters}
        ours = {name: field for name, field in self._wavefields.items() if name in known}
        operator.apply(**self._arguments, **ours, **arguments)
