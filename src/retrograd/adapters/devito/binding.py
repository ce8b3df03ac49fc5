"""Operators with their arguments bound once: the only place that touches Devito's private parts.

``Operator.apply`` derives, checks and finalises its arguments at every call, which takes 2 to
8 ms. Here that is done once; between calls only pointers and time bounds are changed in place.
Tried with Devito 4.8.23.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np
from devito.arch.archinfo import Device
from devito.exceptions import InvalidArgument as DevitoInvalidArgument
from devito.mpi.routines import MPIMsg
from numpy.typing import NDArray

from retrograd.adapters.devito.accesses import accesses
from retrograd.errors import CompiledCodeFailed, InvalidArgument, NotSupported
from retrograd.suggest import nearest

Operator = Any
Function = Any


class Unallocated(np.ndarray[Any, Any]):
    """An array of a function's allocated shape that takes one item of memory.

    It is false: for the sizes of messages to other MPI ranks, Devito then looks at its own
    function, as without an override.
    """

    def __new__(cls, function: Function) -> Unallocated:
        """An array for a function."""
        shape = tuple(int(size) for size in function.shape_allocated)
        item = np.zeros(1, dtype=function.dtype)
        array = np.lib.stride_tricks.as_strided(item, shape=shape, strides=(0,) * len(shape))
        return array.view(cls)

    def __bool__(self) -> bool:
        return False


def refuse_unrunnable(operator: Operator) -> None:
    """Refuse operators whose memory is not this process's own.

    Raises
    ------
    NotSupported
        for a GPU, which maps whole arrays.
    """
    if isinstance(operator._platform, Device):
        raise NotSupported(
            f"{operator.name} is compiled for a GPU, which maps whole wavefields to the device: "
            "build it with platform='cpu64'"
        )


class BoundOperator:
    """An operator, its compiled function and the list of values it is called with.

    Parameters
    ----------
    operator : a Devito operator.
    arguments : what the user would pass to ``apply``.
    windows : wavefields that are not allocated; their pointers are set before every call.
    """

    def __init__(
        self, operator: Operator, arguments: Mapping[str, Any], windows: Mapping[str, Function]
    ) -> None:
        refuse_unknown(operator, arguments, windows)
        self._operator = operator
        self._names = [parameter.name for parameter in operator.parameters]
        given: dict[str, Any] = {name: Unallocated(function) for name, function in windows.items()}
        # Injection into points that several threads share is atomic, and its order is not
        # fixed: one thread makes it reproducible, at little cost.
        if "nthreads_nonaffine" in self._names:
            given["nthreads_nonaffine"] = 1
        given.update(arguments)
        given["autotune"] = "off"  # it would run the operator on memory that is not there
        given = {**_spacings(operator, windows), **_time_range(operator, windows), **given}
        try:
            self._arguments = operator.arguments(**given)
        except (DevitoInvalidArgument, ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidArgument(
                f"{operator.name}: Devito refuses the arguments: {error}"
            ) from error
        missing = [name for name in self._names if name not in self._arguments]
        if missing:
            raise InvalidArgument(
                f"{operator.name} needs {', '.join(missing)}: pass "
                + ", ".join(f"{name}=…" for name in missing)
            )
        self._keep = given
        self._values = [self._arguments[name] for name in self._names]
        self._position = {name: i for i, name in enumerate(self._names)}
        self._call = operator.cfunction
        self._own_messages()
        self.seconds = 0.0
        """Spent inside the compiled function so far."""

    def _own_messages(self) -> None:
        """Keep the buffers of messages to other MPI ranks, which ``apply`` makes anew and frees."""
        for name, parameter in zip(self._names, self._operator.parameters, strict=True):
            if isinstance(parameter, MPIMsg):
                shared = self._arguments[name]
                own = type(shared).from_buffer_copy(shared)
                buffers, parameter._memfree_args = parameter._memfree_args, []
                weakref.finalize(self, _free, parameter._allocator, buffers, dict(shared._objects))
                self._values[self._position[name]] = own

    @property
    def time_range(self) -> tuple[int, int]:
        """First and last iteration of the time loop that the arguments ask for."""
        return int(self._arguments["time_m"]), int(self._arguments["time_M"])

    def value(self, name: str) -> Any:
        """The value of a scalar argument, or None where the operator has none of that name."""
        return self._arguments.get(name) if name in self._position else None

    def set(self, name: str, value: int) -> None:
        """Change a scalar argument."""
        self._values[self._position[name]] = value

    def point(self, name: str, address: int) -> None:
        """Let an array argument begin at an address."""
        self._values[self._position[name]]._obj.data = address

    def address(self, name: str) -> int:
        """Where an array argument begins."""
        return _as_int(self._values[self._position[name]]._obj.data)

    def array(self, name: str) -> NDArray[Any]:
        """The whole memory of an array argument, halo and padding included, as one view."""
        struct = self._values[self._position[name]]._obj
        function = self._function(name)
        shape = tuple(struct.size[i] for i in range(function.ndim))
        nbytes = int(np.prod(shape)) * np.dtype(function.dtype).itemsize
        buffer = (ctypes.c_char * nbytes).from_address(self.address(name))
        return np.frombuffer(buffer, dtype=function.dtype).reshape(shape)

    def _function(self, name: str) -> Function:
        return self._operator.parameters[self._position[name]]

    def arrays(self) -> dict[str, Function]:
        """The operator's functions whose arguments are arrays, by name."""
        return {
            n: self._function(n)
            for n, v in zip(self._names, self._values, strict=True)
            if hasattr(v, "_obj") and hasattr(v._obj, "data")
        }

    def collect(self) -> None:
        """Bring what MPI ranks have written for others to the user's own sparse functions."""
        for name, function in self.arrays().items():
            if function.is_SparseFunction:
                function._arg_apply(self._arguments[name], alias=self._keep.get(name))

    def run(self, first: int, last: int) -> None:
        """Run iterations ``first`` … ``last`` of the time loop, both included.

        Raises
        ------
        CompiledCodeFailed
            if the compiled function returns an error code.
        """
        self.set("time_m", first)
        self.set("time_M", last)
        began = perf_counter()
        code = self._call(*self._values)
        self.seconds += perf_counter() - began
        if code:
            try:
                self._operator._postprocess_errors(code)
            except Exception as error:
                raise CompiledCodeFailed(
                    f"{self._operator.name} returned {code} in iterations {first} … {last}: {error}"
                ) from error


def _free(allocator: Any, buffers: list[Any], used_until_now: Any) -> None:
    for buffer in buffers:
        allocator.free(*buffer)


def _spacings(operator: Operator, windows: Mapping[str, Function]) -> dict[str, Any]:
    """The grid's spacings, which Devito takes from functions that are not arrays, if any."""
    names = {parameter.name for parameter in operator.parameters}
    found = {str(n): v for f in windows.values() for n, v in f.grid.spacing_map.items()}
    return {name: value for name, value in found.items() if name in names}


def _time_range(operator: Operator, windows: Mapping[str, Function]) -> dict[str, int]:
    """The range that Devito derives from samples kept every few iterations, if from nothing else.

    It does so from functions only, and is given arrays here.
    """
    samples = []
    for function in operator.parameters:
        if not function.is_AbstractFunction:
            continue
        is_buffer = function.is_TimeFunction and function._time_buffering
        dimension: Any = getattr(windows.get(function.name, function), "time_dim", None)
        if getattr(dimension, "is_Conditional", False):
            samples.append(int(dimension.factor) * int(function.shape[0]))
        elif dimension is not None and not is_buffer:
            return {}
    if not samples:
        return {}
    timed = [a for a in accesses(operator).values() if a.is_timed]
    lowest = min((offset for a in timed for offset in a.reads | a.writes), default=0)
    return {"time_m": max(0, -lowest), "time_M": min(samples) - 1}


def refuse_unknown(
    operator: Operator, arguments: Mapping[str, Any], windows: Mapping[str, Function]
) -> None:
    """Refuse misspelt arguments, and wavefields, which are ours to place."""
    known = operator._known_arguments - set(windows) | {"autotune"}
    for name in arguments:
        if name in windows:
            raise InvalidArgument(
                f"{name!r} is the wavefield, which retrograd places itself: leave it out"
            )
        if name not in known:
            raise InvalidArgument(f"{operator.name} has no argument {name!r}{nearest(name, known)}")


def _as_int(pointer: Any) -> int:
    return int(getattr(pointer, "value", pointer) or 0)
