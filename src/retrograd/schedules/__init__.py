"""Schedules: from a number of steps and a memory to a list of actions."""

from retrograd.schedules.keep_all import KeepAll
from retrograd.schedules.levels import Levels, smallest_memory_rows
from retrograd.schedules.mixed import Mixed, smallest_memory_units
from retrograd.schedules.revolve import Revolve

__all__ = [
    "KeepAll",
    "Levels",
    "Mixed",
    "Revolve",
    "smallest_memory_rows",
    "smallest_memory_units",
]
