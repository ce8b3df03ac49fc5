"""What is to be reversed, and the bytes there are for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from retrograd.layout import Layout, StateRows
from retrograd.sizes import PAGE

_WORTH_ALIGNING: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Demand:
    """What is to be reversed, in bytes.

    Attributes
    ----------
    steps : how many steps the forward makes.
    restart_nbytes, record_nbytes : bytes of one restart and of one record.
    live_nbytes : bytes in use besides: the live state and the row that a step writes.
    record_in_state : the record of a step is part of the state at its start.
    free_start : returning to the initial state costs no memory.
    state_rows : how a state consists of records, if it does.
    scratch_nbytes : bytes of the live ones that lie outside the arena.
    fixed_nbytes : bytes in use besides and not counted in the budget: the user's own fields.
    layout : where the rows lie, if that is known.
    sweeps : reverse sweeps over one forward.
    buffers : how many items may be on their way to or from another tier while the computation
        goes on; without any, it waits for each of them.
    buffer_nbytes : bytes of memory for one of these, which are among the scratch bytes.
    codec_buffers : how many more of this size a codec works in.
    """

    steps: int
    restart_nbytes: int
    record_nbytes: int
    live_nbytes: int = 0
    record_in_state: bool = False
    free_start: bool = False
    state_rows: StateRows | None = None
    scratch_nbytes: int = 0
    fixed_nbytes: int = 0
    layout: Layout | None = None
    sweeps: int = 1
    buffers: int = 0
    buffer_nbytes: int = 0
    codec_buffers: int = 0

    def with_room_for(self, nbytes: int) -> Demand:
        """The same with buffers for items of so many bytes."""
        nbytes = -(-nbytes // PAGE) * PAGE if nbytes > _WORTH_ALIGNING else nbytes
        buffers = self.buffers + self.codec_buffers
        return replace(
            self,
            live_nbytes=self.live_nbytes + buffers * nbytes,
            scratch_nbytes=self.scratch_nbytes + buffers * nbytes,
            buffer_nbytes=nbytes,
        )

    @property
    def restart_item_nbytes(self) -> int:
        """Bytes of a restart in another tier."""
        if self.layout is None:
            return self.restart_nbytes
        return self.layout.restart_item_nbytes

    def records_item_nbytes(self, steps: int) -> int:
        """Bytes of the records of adjacent steps in another tier."""
        if self.layout is None:
            return steps * self.record_nbytes
        return self.layout.records_item_nbytes(steps)

    def on_disk(self, item_nbytes: int) -> int:
        """Bytes that an item takes on disk: a store of ours takes whole pages."""
        is_ours = self.buffers and self.layout is not None
        return -(-item_nbytes // PAGE) * PAGE if is_ours else item_nbytes

    @property
    def live_rows(self) -> int:
        """Rows of the live state and of what a step makes, where a state consists of rows."""
        return 0 if self.state_rows is None else self.state_rows.depth + 1

    @property
    def uncounted_nbytes(self) -> int:
        """The live bytes that `retrograd.verify` does not count: it counts rows where it can."""
        return self.live_nbytes - self.live_rows * self.record_nbytes


@dataclass(frozen=True, slots=True)
class Budget:
    """The most bytes that a gradient may take in each tier.

    Attributes
    ----------
    memory_nbytes : in memory.
    disk_nbytes : on disk; or, if ``is_packed``, compressed in memory, besides the former.
    """

    memory_nbytes: int
    disk_nbytes: int = 0
    is_packed: bool = False

    @property
    def packed_nbytes(self) -> int:
        """What compressed items may take in memory."""
        return self.disk_nbytes if self.is_packed else 0
