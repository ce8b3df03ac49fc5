"""What can go wrong, as exceptions.

::

    Error
    ├── InvalidArgument (ValueError)    an argument that cannot be right, with what to write instead
    ├── BudgetTooSmall (ValueError)     the budget holds no schedule; names the smallest that does
    ├── NotEnoughMemory (MemoryError)   the machine does not have the bytes that a plan takes
    ├── IllegalAction (ValueError)      a schedule breaks a rule; names the action and its index
    ├── OutOfOrder (RuntimeError)       reverse before forward, twice, or after a failure
    ├── NotSupported (TypeError)        a computation that cannot be run rightly, and why
    ├── NonFinite (FloatingPointError)  a field became infinite or not a number
    ├── ReplayMismatch (RuntimeError)   a recomputed step differs from the first one; names it
    ├── CompiledCodeFailed (RuntimeError)   a compiled operator returned an error code
    ├── RankFailed (RuntimeError)       another MPI rank cannot do its part; holds its error
    ├── StoreFailed (OSError)           a tier cannot keep or give back an item; names the item
    │   ├── StoreFull                   there is no room for it
    │   └── ItemLost                    it cannot be read back as it was saved
    └── MissingExtra (ImportError)      an optional dependency is not installed

    Recovered (RuntimeWarning)          a tier failed, and the run goes on without what it lost
"""

from __future__ import annotations


class Error(Exception):
    """The base of every exception that retrograd raises on purpose."""


class InvalidArgument(Error, ValueError):
    """An argument cannot be right; the message says what to write instead."""


class BudgetTooSmall(Error, ValueError):
    """The memory budget holds no schedule.

    Attributes
    ----------
    smallest_nbytes : the smallest budget that works, in bytes.
    """

    def __init__(self, message: str, smallest_nbytes: int) -> None:
        super().__init__(message)
        self.smallest_nbytes = smallest_nbytes


class NotEnoughMemory(Error, MemoryError):
    """The machine does not have the bytes that a plan takes; nothing was allocated."""


class IllegalAction(Error, ValueError):
    """A schedule breaks a rule of the abstract machine.

    Attributes
    ----------
    index : the position of the offending action, counted from 0; the number of actions if
        the schedule ends too early.
    action : the offending action, or None at the end.
    """

    def __init__(self, reason: str, index: int, action: object = None) -> None:
        where = f"action {index}, {action}" if action is not None else f"after {index} actions"
        super().__init__(f"illegal schedule: {where}: {reason}")
        self.index = index
        self.action = action


class OutOfOrder(Error, RuntimeError):
    """A run was asked for a sweep that it cannot make from where it is."""


class NotSupported(Error, TypeError):
    """The computation cannot be run rightly; the message says why and what can be done."""


class NonFinite(Error, FloatingPointError):
    """A field that was finite at the start became infinite or not a number."""


class ReplayMismatch(Error, RuntimeError):
    """A recomputation made something else than the first run of the same step.

    Attributes
    ----------
    field, step : the name of the field that differs first, and the step whose state it is in.
    """

    def __init__(self, message: str, field: str, step: int) -> None:
        super().__init__(message)
        self.field = field
        self.step = step


class CompiledCodeFailed(Error, RuntimeError):
    """A compiled operator returned an error code."""


class RankFailed(Error, RuntimeError):
    """Another MPI rank cannot do its part; the message holds its error.

    Attributes
    ----------
    rank : which one.
    """

    def __init__(self, message: str, rank: int) -> None:
        super().__init__(message)
        self.rank = rank


class StoreFailed(Error, OSError):
    """A tier beyond the arena cannot keep or give back an item.

    Attributes
    ----------
    items : what the tier does not hold or cannot give back, each a `retrograd.stores.tier.Item`.
        In the background several writes may have failed before this is raised.
    """

    def __init__(self, message: str, *items: object) -> None:
        super().__init__(message)
        self.items = items


class StoreFull(StoreFailed):
    """There is no room for an item in its tier; what was kept before is still there."""


class ItemLost(StoreFailed):
    """An item cannot be read back as it was saved; nothing of it may be used."""


class MissingExtra(Error, ImportError):
    """An optional dependency is not installed; the message holds the install command."""


class Recovered(RuntimeWarning):
    """A tier failed; the run goes on without what it lost, and its result is the same."""
