"""What the forward starts from: zeros, what the user's own functions hold, or ``initial=``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.errors import InvalidArgument

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Start:
    """The start of the forward's functions, as ``apply`` would find it.

    Attributes
    ----------
    functions : the forward's functions that retrograd places itself, by name.
    given : the forward's arguments, in which a function without time may be replaced.
    initial : samples that the user gave instead of those in the functions, by name.
    """

    functions: Mapping[str, Any]
    given: Mapping[str, Any]
    initial: Mapping[str, Any]

    def samples(self, name: str, indices: Sequence[int]) -> Array | None:
        """The allocated samples of these time indices, or None for zeros.

        Functions without time have one, whatever the indices.

        Raises
        ------
        InvalidArgument
            if ``initial`` has another shape.
        """
        function = self.functions[name]
        if name in self.initial:
            return _embedded(function, self.initial[name], len(indices))
        if not function.is_TimeFunction:
            start = self.given.get(name, function)
            return np.asarray(getattr(start, "_data_allocated", start))[None]
        if function._data is None or not indices:
            return None
        values = np.asarray(function._data_allocated)
        return np.stack([values[index % len(values)] for index in indices])

    def refuse_unknown(self) -> None:
        """Refuse names in ``initial`` that are not those of wavefields."""
        known = {name for name, function in self.functions.items() if function.is_TimeFunction}
        for name in self.initial:
            if name not in known:
                raise InvalidArgument(
                    f"initial has no wavefield {name!r}: there are {sorted(known)}"
                )


def _embedded(function: Any, given: Any, count: int) -> Array:
    """Samples of the domain or of the allocated rows, as allocated rows."""
    rows = np.asarray(given)
    inner, allocated = tuple(function.shape[1:]), tuple(function.shape_allocated[1:])
    if rows.shape[:1] != (count,) or rows.shape[1:] not in (inner, allocated):
        raise InvalidArgument(
            f"initial[{function.name!r}] has shape {rows.shape}: give the {count} samples that "
            f"the first step starts from, of shape {(count, *inner)}"
        )
    if rows.shape[1:] == allocated:
        return rows
    whole = np.zeros((count, *allocated), dtype=function.dtype)
    whole[domain(function, whole.ndim)] = rows
    return whole


def reaches_halo(function: Any, samples: Array) -> bool:
    """Whether a wavefield's allocated samples are not zero outside the domain."""
    if not function.is_TimeFunction:
        return False
    return bool(
        np.count_nonzero(samples) > np.count_nonzero(samples[domain(function, samples.ndim)])
    )


def domain(function: Any, ndim: int) -> tuple[slice, ...]:
    """Where the domain lies in allocated samples, whose last axes are the function's last."""
    axes = zip(function.halo, function.padding, function.shape, strict=True)
    inner = [slice(h[0] + p[0], h[0] + p[0] + n) for h, p, n in axes]
    if function.is_TimeFunction:
        inner[0] = slice(None)
    return tuple(inner[len(inner) - ndim :])
