"""Devito: compiled operators that run whole segments on the arena's memory, without copies."""

from __future__ import annotations

from retrograd.errors import MissingExtra

try:
    import devito as _devito  # noqa: F401
except ImportError as error:
    raise MissingExtra("retrograd.devito needs Devito: pip install 'retrograd[devito]'") from error

from retrograd.adapters.devito.allocator import HUGE_PAGES
from retrograd.adapters.devito.checkpointed import CheckpointedRun, checkpointed
from retrograd.adapters.devito.problem import Problem
from retrograd.adapters.devito.replays import CheckedProblem

__all__ = ["HUGE_PAGES", "CheckedProblem", "CheckpointedRun", "Problem", "checkpointed"]
