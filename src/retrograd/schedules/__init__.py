"""Schedules: from a number of steps and a memory to a list of actions."""

from retrograd.schedules.blocks import Blocks
from retrograd.schedules.disk_revolve import DiskRevolve, PeriodicDiskRevolve
from retrograd.schedules.hrevolve import HRevolve, TierSlots
from retrograd.schedules.keep_all import KeepAll
from retrograd.schedules.levels import Levels, smallest_memory_rows
from retrograd.schedules.mixed import Mixed, smallest_memory_units
from retrograd.schedules.multistage import Multistage
from retrograd.schedules.online import OnlineMixed, OnlineRevolve, OnlineSchedule, Stopped
from retrograd.schedules.rest import Rest
from retrograd.schedules.revolve import Revolve
from retrograd.schedules.streaming import Streaming
from retrograd.schedules.sweeps import Sweeps
from retrograd.schedules.tiered_mixed import TieredMixed
from retrograd.schedules.two_level import TwoLevel
from retrograd.schedules.variable import Variable

__all__ = [
    "Blocks",
    "DiskRevolve",
    "HRevolve",
    "KeepAll",
    "Levels",
    "Mixed",
    "Multistage",
    "OnlineMixed",
    "OnlineRevolve",
    "OnlineSchedule",
    "PeriodicDiskRevolve",
    "Rest",
    "Revolve",
    "Stopped",
    "Streaming",
    "Sweeps",
    "TierSlots",
    "TieredMixed",
    "TwoLevel",
    "Variable",
    "smallest_memory_rows",
    "smallest_memory_units",
]
