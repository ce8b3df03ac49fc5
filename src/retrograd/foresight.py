"""Tells stores what a schedule will restore, well before it does."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from retrograd.actions import Action, Load, Restore, Tier
from retrograd.stores.background import Foreseeing
from retrograd.stores.tier import Item, Store

_READS: Final = 8
_ACTIONS: Final = 4096


def foreseen(actions: Iterable[Action], stores: Mapping[Tier, Store]) -> Iterator[Action]:
    """The same actions, while the stores are told of the next few reads after each of them.

    Stores that make no use of it are not told, and without one that does nothing is looked at
    before its time.
    """
    told = {tier: store for tier, store in stores.items() if isinstance(store, Foreseeing)}
    if not told:
        yield from actions
        return
    coming: deque[Action] = deque()
    reads = 0
    for action in actions:
        coming.append(action)
        item = _read(action, told)
        if item is not None:
            told[item[0]].expect(item[1])
            reads += 1
        while len(coming) > _ACTIONS or reads > _READS:
            first = coming.popleft()
            reads -= _read(first, told) is not None
            yield first
    yield from coming


def _read(action: Action, told: Mapping[Tier, Foreseeing]) -> tuple[Tier, Item] | None:
    match action:
        case Restore(step, tier) if tier in told:
            return tier, Item(step)
        case Load(start, stop, tier) if tier in told:
            return tier, Item(start, stop)
        case _:
            return None
