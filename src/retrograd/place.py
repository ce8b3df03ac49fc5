"""Where a run keeps what does not stay in the arena."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from retrograd.actions import DISK, Tier
from retrograd.plans import Plan
from retrograd.problem import Problem
from retrograd.sizes import Size, parse_disk
from retrograd.stores.background import Background
from retrograd.stores.codecs import Codec, codec_of
from retrograd.stores.compressed import Compressed
from retrograd.stores.disk import DiskStore
from retrograd.stores.tier import HeldStore, Store


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run keeps what does not stay in the arena, and how it is written there.

    Attributes
    ----------
    scratch : a directory; None for the system's temporary one.
    codec : what items are compressed with, if they are.
    nbytes : the budget on disk.
    """

    scratch: Path | str | None
    codec: Codec | None
    nbytes: int

    @property
    def is_memory(self) -> bool:
        """Whether items stay in memory, compressed."""
        return not self.nbytes and self.codec is not None

    def store(self, budget_nbytes: int | None = None) -> Store:
        """A store, in the foreground; its room on the disk is taken now."""
        plain: Store
        if self.is_memory:
            plain = HeldStore(budget_nbytes)
        else:
            plain = disk = DiskStore(self.scratch, budget_nbytes)
            try:
                disk.reserve()
            except BaseException:
                disk.close()
                raise
        return plain if self.codec is None else Compressed(plain, self.codec)

    def stores(self, plan: Plan) -> dict[Tier, Store]:
        """A file on disk with transfers in the background, if the plan uses it.

        What is compressed may take all of the budget, since nobody knows beforehand how much it
        takes; otherwise it is known to a byte.
        """
        nbytes = plan.prediction.disk_nbytes
        if not nbytes:
            return {}
        store = self.store(nbytes if self.codec is None else plan.budget.disk_nbytes)
        if self.is_memory:
            return {DISK: store}
        return {DISK: Background(store, plan.demand.buffer_nbytes, plan.demand.buffers)}


def place_of(
    problem: Problem, disk: Size, scratch: Path | str | None, compress: str | float | None
) -> Place:
    """What these arguments of `Run` ask for."""
    nbytes = parse_disk(disk, problem.keep_all_nbytes, scratch)
    return Place(scratch, codec_of(compress), nbytes)


def loses_bits(store: Store | None) -> bool:
    """Whether a store, or one that it wraps, compresses with loss."""
    while store is not None:
        if isinstance(store, Compressed) and not store.codec.is_lossless:
            return True
        store = getattr(store, "inner", None)
    return False
