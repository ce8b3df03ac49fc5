"""The classes of the package pyRevolve, on our planner and executor.

A script that imports them from here instead of from ``pyrevolve`` (Kukreja et al. 2018,
doi 10.48550/arXiv.1802.02474) goes on as it is, with the same bytes for checkpoints and fewer
steps. `install` makes Devito use them, and with it the example solvers with
``checkpointing=True``. Operators are still called step by step, on arrays of their own: running
whole segments takes `retrograd.devito.checkpointed`, see ``docs/from-pyrevolve.md``.

Before step k is reversed, the state is what it was before that step, and the forward operator
runs it once more, so that the reverse operator finds all that a forward step leaves behind.
"""

from __future__ import annotations

import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.arguments import whole
from retrograd.cost import Costs
from retrograd.errors import InvalidArgument, NotSupported, OutOfOrder
from retrograd.layout import Field, Layout
from retrograd.plans import Plan
from retrograd.problem import Rows, Steps
from retrograd.result import Result
from retrograd.run import Run
from retrograd.sizes import Size

Array = NDArray[Any]


class Operator(ABC):
    """Steps forward, or back, over a range of time steps."""

    @abstractmethod
    def apply(self, **kwargs: Any) -> Any:
        """Run steps ``t_start`` … ``t_end - 1``."""


class Checkpoint(ABC):
    """What belongs to the state of a computation."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """The data type."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many items the state has."""

    @abstractmethod
    def get_data(self, timestep: int) -> Sequence[Array]:
        """The arrays of the state at a time step, as views that can be written to."""

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return int(self.size) * int(np.dtype(self.dtype).itemsize)


class Revolver:
    """Runs a forward and a reverse operator with a number of checkpoints.

    Parameters
    ----------
    checkpoint : the state; the operators work on its arrays.
    fwd_operator, rev_operator : ``apply(t_start=…, t_end=…)`` runs steps.
    n_checkpoints : how many states there is memory for besides the one at hand, at least 1. None
        takes what `install` was told, or all that helps of the memory that is free.
    n_timesteps : how many steps the forward makes.
    timings, profiler : kept as attributes, and not used; `plan` and `result` say what was done.
    compression_params : None, or a mapping without a scheme: see `retrograd.gradient` for
        compression with a tolerance.

    Raises
    ------
    InvalidArgument
        for numbers that cannot be right.
    """

    def __init__(
        self,
        checkpoint: Any,
        fwd_operator: Any,
        rev_operator: Any,
        n_checkpoints: int | None,
        n_timesteps: int | None,
        timings: Any = None,
        profiler: Any = None,
        compression_params: Mapping[str, Any] | None = None,
    ) -> None:
        if (compression_params or {}).get("scheme") is not None:
            raise NotSupported(
                f"compression_params={compression_params!r}: write the loop as a "
                "retrograd.arrays.Problem, or the operators for retrograd.devito.checkpointed, and "
                "give compress="
            )
        if n_timesteps is None:
            raise InvalidArgument(
                "n_timesteps=None: give the number of steps; for loops that find it out as they "
                "run there is retrograd.arrays.Problem(…, until=)"
            )
        self.checkpoint, self.timings, self.profiler = checkpoint, timings, profiler
        self.fwd_operator, self.rev_operator = fwd_operator, rev_operator
        self.n_timesteps = whole("n_timesteps", n_timesteps, least=1)
        self._problem = _Stepwise(checkpoint, fwd_operator, rev_operator, self.n_timesteps)
        self._run = self._make_run(n_checkpoints)
        self.n_checkpoints = n_checkpoints or self._affordable()
        self.result: Result | None = None
        """What the last gradient took."""

    def _make_run(self, n_checkpoints: int | None) -> Run:
        memory = _default_memory if n_checkpoints is None else self._bytes_of(n_checkpoints)
        return Run(self._problem, memory=memory)

    def _bytes_of(self, n_checkpoints: int) -> int:
        layout = self._problem.layout
        count = whole("n_checkpoints", n_checkpoints, least=1)
        return layout.live_nbytes + count * layout.row_nbytes

    def _affordable(self) -> int:
        layout = self._problem.layout
        return max(1, (self.plan.arena_nbytes - layout.live_nbytes) // layout.row_nbytes)

    @property
    def plan(self) -> Plan:
        """The schedule, its steps and bytes."""
        return self._run.plan

    def apply_forward(self) -> None:
        """Run the forward from what the arrays of the state hold now."""
        self.result = None
        self._run.forward()

    def apply_reverse(self) -> Result:
        """Reverse all steps of the last `apply_forward`.

        Raises
        ------
        OutOfOrder
            if there is no forward that has not been reversed.
        """
        self.result = self._run.reverse()
        return self.result


BaseRevolver = SingleLevelRevolver = MemoryRevolver = Revolver


class DiskRevolver(Revolver):
    """As `Revolver`, with its checkpoints on disk and room for five states in memory.

    Parameters
    ----------
    filedir : where the file is; it has no name, and is gone when the process ends.
    singlefile : without a meaning: there is one file.
    """

    def __init__(
        self,
        checkpoint: Any,
        fwd_operator: Any,
        rev_operator: Any,
        n_checkpoints: int | None,
        n_timesteps: int | None,
        timings: Any = None,
        profiler: Any = None,
        filedir: str | Path = "./",
        singlefile: bool = True,
    ) -> None:
        self._filedir = filedir
        super().__init__(
            checkpoint, fwd_operator, rev_operator, n_checkpoints, n_timesteps, timings, profiler
        )

    def _make_run(self, n_checkpoints: int | None) -> Run:
        layout = self._problem.layout
        count = self.n_timesteps if n_checkpoints is None else n_checkpoints
        return Run(
            self._problem,
            memory=self._bytes_of(3),
            disk=whole("n_checkpoints", count, least=1) * layout.restart_item_nbytes,
            scratch=self._filedir,
            # Measuring would run the user's operators, which write more than the state.
            costs=Costs(forward_step=1.0),
        )


class _Stepwise:
    """Operators that step on arrays of their own, as a problem; rows are copies of the arrays."""

    fixed_nbytes = 0
    scratch_nbytes = 0
    free_start = False
    """What the arrays held at the start is overwritten."""

    def __init__(self, checkpoint: Any, forward: Any, reverse: Any, steps: int) -> None:
        self._checkpoint, self._forward, self._reverse = checkpoint, forward, reverse
        self.steps = steps
        self.layout = Layout(
            tuple(
                Field(f"array {i}", array.shape, array.dtype)
                for i, array in enumerate(self._arrays(0))
            )
        )
        self.keep_all_nbytes = steps * self.layout.row_nbytes
        self._at = 0

    def _arrays(self, step: int) -> list[Array]:
        return [np.asarray(array) for array in _state(self._checkpoint, step)]

    def begin(self) -> None:
        """What the arrays hold now is the state at step 0."""
        self._at = 0

    def initialize(self, rows: Rows) -> None:
        """Copy the arrays."""
        self._keep(rows, 0)

    def _keep(self, rows: Rows, step: int) -> None:
        for field, array in enumerate(self._arrays(step)):
            rows.row(field, step)[...] = array

    def _go_to(self, rows: Rows, step: int) -> None:
        if self._at != step:
            for field, array in enumerate(self._arrays(step)):
                array[...] = rows.row(field, step)
            self._at = step

    def held(self, step: int) -> list[Array]:
        """The layout has none."""
        return []

    def forward(self, call: Steps, *, first: bool) -> None:
        """Run the operator, once if the steps in between are not wanted."""
        self._go_to(call.source, call.start)
        stride = 1 if call.recording else call.stop - call.start
        for step in range(call.start, call.stop, stride):
            self._step(step, step + stride)
            self._keep(call.target, self._at)

    def _step(self, start: int, stop: int) -> None:
        self._at = -1  # nobody knows, if the operator fails
        self._forward.apply(t_start=start, t_end=stop)
        self._at = stop

    def finish_forward(self, rows: Rows) -> None:
        """The arrays are those of the last state: the user may read them."""
        self._go_to(rows, self.steps)

    def begin_reverse(self) -> None:
        """The adjoint state is the user's own."""

    def reverse(self, stop: int, start: int, rows: Rows) -> None:
        """Step by step, each after the forward step that it reverses."""
        for step in range(stop - 1, start - 1, -1):
            if self._at != step + 1:
                self._go_to(rows, step)
                self._step(step, step + 1)
            self._reverse.apply(t_start=step, t_end=step + 1)
            self._at = -1  # the reverse operator may write to the arrays

    def gradient(self) -> None:
        """The user's own."""


def _state(checkpoint: Any, step: int) -> Sequence[Array]:
    """The arrays of a checkpoint; of Devito's own, for any number of dimensions.

    ``DevitoCheckpoint`` itself takes two and three dimensions in space.
    """
    objects = getattr(checkpoint, "objects", None)
    if not objects or not all(getattr(one, "is_TimeFunction", False) for one in objects):
        return list(checkpoint.get_data(step))
    views = []
    for function in objects:
        samples = np.asarray(function._data_allocated)
        for index in range(step, step + function.time_order):
            views.append(samples[index % len(samples)])
    if not views:
        raise NotSupported("the time functions have time_order=0: no sample carries their state")
    return views


_NAMES = ("Revolver", "DevitoCheckpoint", "CheckpointOperator")
_replaced: list[tuple[ModuleType, str, Any]] = []
_original: list[ModuleType | None] = []
_default_memory: Size = "auto"


def install(memory: Size = "auto") -> None:
    """Make Devito, and whatever imports ``pyrevolve``, use the classes here.

    Modules that have imported Devito's checkpointing before, such as its example solvers, are
    changed as well.

    Parameters
    ----------
    memory : budget of a `Revolver` whose ``n_checkpoints`` is None, as for `retrograd.Run`.
    """
    global _default_memory
    _default_memory = memory
    if _original:
        return
    _original.append(sys.modules.get("pyrevolve"))
    sys.modules["pyrevolve"] = sys.modules[__name__]
    devito = importlib.import_module("devito")
    before = {name: getattr(devito, name) for name in _NAMES}
    made = importlib.reload(importlib.import_module("devito.checkpointing.checkpoint"))
    ours = {name: getattr(made, name, Revolver) for name in _NAMES}
    for module in list(sys.modules.values()):
        for name in _NAMES:
            if isinstance(module, ModuleType) and vars(module).get(name) is before[name]:
                _replaced.append((module, name, before[name]))
                setattr(module, name, ours[name])


def uninstall() -> None:
    """Undo `install`.

    Raises
    ------
    OutOfOrder
        if nothing is installed.
    """
    if not _original:
        raise OutOfOrder("nothing is installed: call install() first")
    original = _original.pop()
    if original is None:
        del sys.modules["pyrevolve"]
    else:
        sys.modules["pyrevolve"] = original
        importlib.reload(importlib.import_module("devito.checkpointing.checkpoint"))
    while _replaced:
        module, name, value = _replaced.pop()
        setattr(module, name, value)
