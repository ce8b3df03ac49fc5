"""The memory map for a layout."""

from __future__ import annotations

from typing import TypeAlias

from retrograd.layout import Layout
from retrograd.placement import Placement
from retrograd.placement_packed import PackedPlacement

MemoryMap: TypeAlias = Placement | PackedPlacement


def placement_of(layout: Layout, capacity_nbytes: int) -> MemoryMap:
    """The map that suits the layout: a stack of rows for compiled code, else any free row."""
    kind = Placement if layout.contiguous else PackedPlacement
    return kind(layout, capacity_nbytes)
