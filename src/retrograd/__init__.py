"""Gradients of long time-stepping simulations, in the memory you have."""

from __future__ import annotations

import importlib
import logging
from types import ModuleType

from retrograd.calibrate import calibrate
from retrograd.cost import Costs
from retrograd.errors import Error
from retrograd.layout import StateRows
from retrograd.planner import plan
from retrograd.plans import Plan
from retrograd.result import Result
from retrograd.run import Run, gradient
from retrograd.schedules import (
    Blocks,
    DiskRevolve,
    HRevolve,
    KeepAll,
    Levels,
    Mixed,
    Multistage,
    OnlineMixed,
    OnlineRevolve,
    PeriodicDiskRevolve,
    Revolve,
    Streaming,
    Sweeps,
    TieredMixed,
    TierSlots,
    TwoLevel,
    Variable,
)
from retrograd.verify import Counts, verify

__version__ = "0.1.0.dev0"

__all__ = [
    "Blocks",
    "Costs",
    "Counts",
    "DiskRevolve",
    "Error",
    "HRevolve",
    "KeepAll",
    "Levels",
    "Mixed",
    "Multistage",
    "OnlineMixed",
    "OnlineRevolve",
    "PeriodicDiskRevolve",
    "Plan",
    "Result",
    "Revolve",
    "Run",
    "StateRows",
    "Streaming",
    "Sweeps",
    "TierSlots",
    "TieredMixed",
    "TwoLevel",
    "Variable",
    "arrays",
    "calibrate",
    "devito",
    "gradient",
    "pictures",
    "plan",
    "seismic",
    "stores",
    "testing",
    "verify",
]

_LAZY = {
    "arrays": "retrograd.adapters.arrays",
    "devito": "retrograd.adapters.devito",
    "pictures": "retrograd.pictures",
    "seismic": "retrograd.seismic",
    "stores": "retrograd.stores",
    "testing": "retrograd.testing",
}
"""Modules that load a framework, and are therefore loaded when first used."""

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        return importlib.import_module(_LAZY[name])
    raise AttributeError(f"module 'retrograd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
