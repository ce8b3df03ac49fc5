"""What belongs to the state and the gradient does not read: in restarts, not in records.

They lie in memory of the problem's own, and the operator is pointed to it. Time is counted in
iterations of the forward's loop; the state before iteration ``t`` is what ``t`` starts from.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from retrograd.adapters.devito.findings import Buffered, HeldField, Unread
from retrograd.layout import Field
from retrograd.stores.pages import zeros

Array = NDArray[Any]


class Held(Protocol):
    """The live memory of a function that belongs to the state."""

    @property
    def name(self) -> str: ...
    @property
    def fields(self) -> tuple[Field, ...]:
        """What `arrays` returns."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of the live memory."""
        ...

    @property
    def address(self) -> int:
        """Where the operator is to find the function."""
        ...

    def arrays(self, iteration: int) -> list[Array]:
        """What belongs to the state before an iteration, as views."""
        ...

    def indices(self, iteration: int) -> list[int]:
        """The time indices of these; none for a function without time."""
        ...

    def clear(self) -> None:
        """Make all of the memory as it is before the first iteration, less what `arrays` are."""
        ...

    def room(self, iteration: int) -> int:
        """How many iterations can be run from this one on."""
        ...

    def make_room(self, iteration: int) -> None:
        """Move the state before an iteration to where the most can be run."""
        ...

    def ran(self, iteration: int, *, clean: bool) -> None:
        """The state is now the one before this iteration; with ``clean``, zero what comes next."""
        ...


def make_held(found: HeldField, chunk: int) -> Held:
    """The live memory of what was found; ``chunk`` iterations run without a move at most."""
    if isinstance(found, Unread):
        return _Chunk(found, chunk)
    if isinstance(found, Buffered):
        return _Ring(found)
    return _Fixed(found)


class _Live:
    """Memory that is taken when it is first used, and then kept."""

    def __init__(self, function: Any, shape: tuple[int, ...], rows: int) -> None:
        self.name = str(function.name)
        self._shape = shape
        self._dtype = np.dtype(function.dtype)
        row = Field(self.name, shape[1:] if rows else shape, self._dtype)
        self.fields = (row,) * max(1, rows)
        self.nbytes = math.prod(shape) * self._dtype.itemsize
        self._memory: Array | None = None

    @property
    def memory(self) -> Array:
        """All of it, as one array."""
        if self._memory is None:
            self._memory = zeros(self.nbytes).view(self._dtype).reshape(self._shape)
        return self._memory

    @property
    def address(self) -> int:
        """Where it begins."""
        return int(self.memory.ctypes.data)

    def indices(self, iteration: int) -> list[int]:
        """None."""
        return []

    def clear(self) -> None:
        """Nothing to do."""

    def room(self, iteration: int) -> int:
        """No end."""
        return 1 << 62

    def make_room(self, iteration: int) -> None:
        """Nothing to do."""

    def ran(self, iteration: int, *, clean: bool) -> None:
        """Nothing to do."""


class _Ring(_Live):
    """A time function that Devito itself keeps in a few samples, used again and again."""

    def __init__(self, found: Buffered) -> None:
        shape = tuple(int(size) for size in found.function.shape_allocated)
        super().__init__(found.function, shape, len(found.offsets))
        self._function = found.function
        self._offsets = found.offsets

    def clear(self) -> None:
        """What the user's own buffer holds, or zero; no iteration writes the halo."""
        function = self._function
        self.memory[...] = 0 if function._data is None else function._data_allocated

    def arrays(self, iteration: int) -> list[Array]:
        """The samples that will be read before they are written again."""
        count = len(self.memory)
        return [self.memory[index % count] for index in self.indices(iteration)]

    def indices(self, iteration: int) -> list[int]:
        """Those of the samples, before Devito takes them modulo the buffer's size."""
        return [iteration + offset for offset in self._offsets]


class _Fixed(_Live):
    """A function without time that the forward both reads and writes."""

    def __init__(self, found: HeldField) -> None:
        shape = tuple(int(size) for size in found.function.shape_allocated)
        super().__init__(found.function, shape, 0)

    def arrays(self, iteration: int) -> list[Array]:
        """All of it."""
        return [self.memory]


class _Chunk(_Live):
    """A time function with ``save=nt``: a few of its samples, which move along.

    The pointer is shifted such that a sample lies where its absolute index expects it.
    """

    def __init__(self, found: Unread, chunk: int) -> None:
        shape = tuple(int(size) for size in found.function.shape_allocated[1:])
        super().__init__(found.function, (found.depth + chunk, *shape), found.depth)
        self._depth, self._written = found.depth, found.written
        self._row_nbytes = self.nbytes // self._shape[0]
        self._at, self._first = 0, 0
        self._start(0)

    def _start(self, iteration: int) -> None:
        self._at = iteration
        self._first = iteration + self._written - self._depth
        """The sample in the first row."""

    @property
    def address(self) -> int:
        """Where sample 0 would lie."""
        return int(super().address - self._first * self._row_nbytes)

    def arrays(self, iteration: int) -> list[Array]:
        """The samples that the iteration reads."""
        if iteration != self._at:
            self._start(iteration)
        low = self.indices(iteration)[0] - self._first
        return list(self.memory[low : low + self._depth])

    def indices(self, iteration: int) -> list[int]:
        """The samples before the one that the iteration writes."""
        written = iteration + self._written
        return list(range(written - self._depth, written))

    def room(self, iteration: int) -> int:
        """Until the last row is written."""
        return self._shape[0] + self._first - (iteration + self._written)

    def make_room(self, iteration: int) -> None:
        """Bring the state down to the first rows."""
        rows = self.arrays(iteration)
        self._start(iteration)
        for target, row in zip(self.memory, rows, strict=False):
            target[...] = row

    def ran(self, iteration: int, *, clean: bool) -> None:
        """Remember where the state is."""
        self._at = iteration
        if clean:
            self.memory[iteration + self._written - self._first :] = 0
