"""Where bytes live: the arena, and the tiers beyond it, whose stores wrap one another."""

from retrograd.stores.background import Background
from retrograd.stores.checking import check_store
from retrograd.stores.codecs import Lossless, Tolerance
from retrograd.stores.compressed import Compressed
from retrograd.stores.disk import DiskStore
from retrograd.stores.spilling import Spilling
from retrograd.stores.tier import HeldStore, Item, Store

__all__ = [
    "Background",
    "Compressed",
    "DiskStore",
    "HeldStore",
    "Item",
    "Lossless",
    "Spilling",
    "Store",
    "Tolerance",
    "check_store",
]
