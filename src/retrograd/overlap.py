"""What a schedule moves between memory and other tiers, and how long it stands still for that."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from retrograd.actions import (
    DISK,
    INITIAL,
    MEMORY,
    Action,
    Advance,
    Drop,
    Forget,
    Load,
    Record,
    Restore,
    Reverse,
    Save,
    Tier,
)
from retrograd.cost import Costs
from retrograd.demand import Demand


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a schedule moves to disk and back.

    Attributes
    ----------
    nbytes : bytes written and read.
    peak_nbytes : the most bytes that lie there at once.
    """

    nbytes: int = 0
    peak_nbytes: int = 0


def traffic(actions: Iterable[Action], demand: Demand, ratio: float = 1.0) -> Traffic:
    """Follow what a legal schedule keeps on disk, where ``ratio`` bytes become one."""
    held: dict[tuple[int, ...], int] = {}
    total = now = peak = 0
    for action in actions:
        transfer = _transfer_of(action, demand)
        if transfer is not None and transfer.tier == DISK:
            nbytes = demand.on_disk(transfer.nbytes)
            total += nbytes
            if not transfer.is_read:
                now += nbytes
                peak = max(peak, now)
                held[transfer.steps] = nbytes
        now -= sum(held.pop(steps, 0) for steps in _given_up(action))
    return Traffic(math.ceil(total / ratio), math.ceil(peak / ratio))


def largest_item_nbytes(actions: Iterable[Action], demand: Demand) -> int:
    """Bytes of the largest item that a schedule moves between memory and another tier."""
    transfers = (_transfer_of(action, demand) for action in actions)
    return max((one.nbytes for one in transfers if one is not None), default=0)


def _given_up(action: Action) -> list[tuple[int, ...]]:
    match action:
        case Restore(step, tier, True) | Drop(step, tier) if tier == DISK:
            return [(step,)]
        case Load(start, stop, tier) | Forget(start, stop, tier) if tier == DISK:
            return [(start, stop)]
        case _:
            return []


def standstill(actions: Iterable[Action], demand: Demand, costs: Costs) -> float:
    """Seconds that a schedule's transfers add to those of its steps.

    Without buffers each transfer is waited for. With them, an item is copied to or from a buffer,
    and one thread writes behind and reads ahead, as `retrograd.stores.background.Background` does:
    this is waited for only where the buffers are full or what is wanted is not there yet.
    """
    plain = [(action, _transfer_of(action, demand)) for action in actions]
    transfers = [transfer for _, transfer in plain if transfer is not None]
    if not demand.buffers:
        return sum(transfer.seconds(costs) for transfer in transfers)
    line = _Line(costs, demand.buffers, deque(one for one in transfers if one.is_read))
    for action, transfer in plain:
        line.compute(_steps_seconds(action, costs))
        if transfer is not None:
            line.transfer(transfer)
    return line.stood


@dataclass(frozen=True, slots=True)
class _Transfer:
    """What an action moves between memory and another tier: a restart, or steps' records."""

    steps: tuple[int, ...]
    tier: Tier
    nbytes: int
    is_read: bool

    def seconds(self, costs: Costs) -> float:
        return self.nbytes / (costs.read_rate if self.is_read else costs.write_rate)


def _transfer_of(action: Action, demand: Demand) -> _Transfer | None:
    steps: tuple[int, ...]
    match action:
        case Save(step, tier) | Restore(step, tier) if tier not in (MEMORY, INITIAL):
            steps, nbytes = (step,), demand.restart_item_nbytes
        case Record(start, stop, tier) | Load(start, stop, tier) if tier != MEMORY:
            steps, nbytes = (start, stop), demand.records_item_nbytes(stop - start)
        case _:
            return None
    return _Transfer(steps, tier, nbytes, isinstance(action, Restore | Load))


def _steps_seconds(action: Action, costs: Costs) -> float:
    match action:
        case Advance(start, stop) | Record(start, stop):
            return costs.forward_call + (stop - start) * costs.forward_step
        case Reverse(stop, start):
            return costs.reverse_call + (stop - start) * costs.reverse_step
        case _:
            return 0.0


class _Line:
    """The computation's clock and the disk's, and which buffers hold what."""

    def __init__(self, costs: Costs, buffers: int, reads: deque[_Transfer]) -> None:
        self._costs = costs
        self._coming = reads
        self._now = self._disk = self.stood = 0.0
        self._free = [0.0] * buffers
        """When each buffer that holds nothing to come was or will be free."""
        self._written: dict[tuple[int, ...], float] = {}
        """When each item is in the store."""
        self._ahead: deque[tuple[_Transfer, float]] = deque()
        """What was read ahead, or is being, and when it is in its buffer."""

    def compute(self, seconds: float) -> None:
        """Run steps; what can be read meanwhile is."""
        self._now += seconds
        while self._coming and self._free and self._coming[0].steps in self._written:
            reading = self._coming[0]
            begin = max(self._disk, min(self._free), self._written[reading.steps])
            if begin >= self._now:
                return
            self._coming.popleft()
            self._take_buffer()
            self._disk = begin + reading.seconds(self._costs)
            self._ahead.append((reading, self._disk))

    def transfer(self, transfer: _Transfer) -> None:
        """Write an item, or have one that is read."""
        if not transfer.is_read:
            if not self._free:  # what was read ahead the furthest gives way, to be read again
                reading, free_at = self._ahead.pop()
                self._coming.appendleft(reading)
                self._free.append(free_at)
            self._stand_until(self._take_buffer())
            self._copy(transfer)
            self._disk = max(self._disk, self._now) + transfer.seconds(self._costs)
            self._written[transfer.steps] = self._disk
            self._free.append(self._disk)
        elif self._ahead:  # in the order in which they are wanted
            self._stand_until(self._ahead.popleft()[1])
            self._copy(transfer)
            self._free.append(self._now)
        else:
            self._coming.popleft()
            written = self._written.get(transfer.steps, 0.0)
            self._disk = max(self._now, self._disk, written) + transfer.seconds(self._costs)
            self._stand_until(self._disk)

    def _take_buffer(self) -> float:
        earliest = min(self._free)
        self._free.remove(earliest)
        return earliest

    def _copy(self, transfer: _Transfer) -> None:
        self._stand_until(self._now + transfer.nbytes / self._costs.copy_rate)

    def _stand_until(self, time: float) -> None:
        self.stood += max(0.0, time - self._now)
        self._now = max(self._now, time)
