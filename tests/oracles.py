"""What schedules are measured against: recurrences, exhaustive search, a replay of its own.

Nothing here uses `retrograd.verify` or the schedules' own mathematics.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from retrograd.actions import INITIAL, Action, Advance, Record, Restore, Reverse, Save

IMPOSSIBLE = 10**9
_TABLES = Path(__file__).parents[2] / "shared" / "oracles" / "forward_steps.json"


def published() -> dict[str, Any]:
    """Forward steps found by others, where the file lies beside the repository."""
    if not _TABLES.exists():
        pytest.skip(f"{_TABLES.name} is not there")
    tables: dict[str, Any] = json.loads(_TABLES.read_text())
    return tables


def fewest(
    steps: int, units: int, restart: int, record: int, *, spared: bool, free: bool
) -> list[list[int]]:
    """``table[m][n]``: the fewest forward steps, by the recurrence for F and P, all splits tried.

    Interleaving is allowed here: a restart may follow a record in every way.
    """
    table: list[list[int]] = []
    for m in range(units + 1):
        row = [IMPOSSIBLE, 0 if spared else 1]
        for n in range(2, steps + 1):
            choices = [IMPOSSIBLE]
            if m >= record:
                choices.append(1 + table[m - record][n - 1])
            if m >= restart:
                below = table[m - restart]
                choices += [i + row[i] + below[n - i] for i in range(1, n)]
            row.append(min(choices))
        table.append(row)
    return [_with_free_start(row) for row in table] if free else table


def _with_free_start(row: list[int]) -> list[int]:
    free = row[:2]
    for n in range(2, len(row)):
        free.append(min([row[n]] + [i + free[i] + row[n - i] for i in range(1, n)]))
    return free


def fewest_rows(steps: int, rows: int, depth: int, record_row: int, *, free: bool) -> list[int]:
    """The fewest forward steps of 0, 1, … steps where a state is `depth` of so many rows.

    By the recurrence for rows above a restart, all splits tried.
    """
    table: list[list[int]] = []
    for room in range(rows - depth + 1):  # rows besides those of the restart beneath
        row: list[int] = []
        for n in range(steps + 1):
            choices = [n] if n <= room else [IMPOSSIBLE]
            if room > depth:
                above = table[room - depth]
                choices += [i + depth + row[i] + above[n - depth - i] for i in range(n - depth + 1)]
            row.append(min(choices))
        table.append(row)
    top = table[-1]
    if not free:
        saved = [
            top[n - record_row] + record_row if n >= record_row else n for n in range(len(top))
        ]
        return [n if n + depth <= rows else least for n, least in enumerate(saved)]
    row = []
    for n in range(steps + 1):
        choices = [n] if n <= rows - depth else [IMPOSSIBLE]
        choices += [i + depth + row[i] + top[n - depth - i] for i in range(n - depth + 1)]
        row.append(min(choices))
    return row


@cache
def advances(length: int, slots: int) -> int:
    """Griewank & Walther's t(l, s) by its recurrence."""
    if length == 1:
        return 0
    if slots == 1:
        return length * (length - 1) // 2
    return min(i + advances(i, slots) + advances(length - i, slots - 1) for i in range(1, length))


def search(
    steps: int, units: int, restart: int, record: int, *, spared: bool, free: bool
) -> int | None:
    """The fewest forward steps of all action sequences whatever, or None if there is none.

    Breadth first over (live step, restarts, records, adjoint, furthest step), sets as bits. Any
    restart or record can be given up at any moment, records can be made in any order. The
    record of the step just taken is free if records need a forward step of their own, and so is
    the very last step's.
    """
    begin = (0, 0, 0, steps, 0)
    cost = {begin: 0}
    queue = deque([begin])
    while queue:
        here = queue.popleft()
        if here[3] == 0:
            return cost[here]
        for further, there in _moves(here, steps, spared=spared, free=free):
            uncharged = 1 << (there[0] - 1) if there[0] and (not spared or there[0] == steps) else 0
            charged = (there[2] & ~uncharged).bit_count() * record
            if there[1].bit_count() * restart + charged > units:
                continue
            total = cost[here] + further
            if total < cost.get(there, IMPOSSIBLE):
                cost[there] = total
                (queue.append if further else queue.appendleft)(there)
    return None


_State = tuple[int, int, int, int, int]


def _moves(here: _State, steps: int, *, spared: bool, free: bool) -> Iterable[tuple[int, _State]]:
    live, restarts, records, adjoint, furthest = here
    if live < adjoint:
        ahead = live + 1, restarts, records, adjoint, max(furthest, live + 1)
        yield 1, ahead
        yield 1, (ahead[0], restarts, records | 1 << live, adjoint, ahead[4])
        yield 0, (live, restarts | 1 << live, records, adjoint, furthest)
    last = adjoint - 1
    if furthest == steps and (records >> last & 1 or (spared and live == last)):
        yield 0, (live, restarts, records & ~(1 << last), last, furthest)
    for step in range(adjoint):
        if restarts >> step & 1:
            yield 0, (step, restarts, records, adjoint, furthest)
            yield 0, (live, restarts & ~(1 << step), records, adjoint, furthest)
        if records >> step & 1:
            yield 0, (live, restarts, records & ~(1 << step), adjoint, furthest)
    if free:
        yield 0, (0, restarts, records, adjoint, furthest)


def search_with_disk(
    steps: int,
    units: int,
    restart: int,
    record: int,
    disk: tuple[int, float, float],
    *,
    spared: bool,
    free: bool,
) -> float | None:
    """The least cost of all action sequences whatever with restarts on `disk` besides.

    `disk` is its slots and what writing and reading a restart costs, in forward steps. As
    `search`, cheapest first.
    """
    slots, write, read = disk
    begin: tuple[_State, int] = ((0, 0, 0, steps, 0), 0)
    cost: dict[tuple[_State, int], float] = {begin: 0.0}
    number = count()
    queue = [(0.0, next(number), begin)]
    while queue:
        spent, _, (here, saved) = heappop(queue)
        if spent > cost[here, saved]:
            continue
        live, _, _, adjoint, furthest = here
        if adjoint == 0:
            return spent
        moves: list[tuple[float, _State, int]] = [
            (further, there, saved)
            for further, there in _moves(here, steps, spared=spared, free=free)
        ]
        if live < adjoint and not saved >> live & 1 and saved.bit_count() < slots:
            moves.append((write, here, saved | 1 << live))
        for step in range(adjoint):
            if saved >> step & 1:
                moves.append((read, (step, *here[1:]), saved))
                moves.append((0, here, saved & ~(1 << step)))
        for further, there, then in moves:
            uncharged = 1 << (there[0] - 1) if there[0] and (not spared or there[0] == steps) else 0
            charged = (there[2] & ~uncharged).bit_count() * record
            if there[1].bit_count() * restart + charged > units:
                continue
            if spent + further < cost.get((there, then), IMPOSSIBLE):
                cost[there, then] = spent + further
                heappush(queue, (spent + further, next(number), (there, then)))
    return None


def search_variable(
    costs: list[int],
    restarts: list[int],
    records: list[int],
    units: int,
    *,
    spared: bool,
    free: bool,
) -> int | None:
    """As `search`, where steps differ in cost and size: the least cost, cheapest first."""
    steps = len(costs)
    begin: _State = (0, 0, 0, steps, 0)
    cost = {begin: 0}
    number = count()
    queue = [(0, next(number), begin)]
    while queue:
        spent, _, here = heappop(queue)
        if here[3] == 0:
            return spent
        if spent > cost[here]:
            continue
        for further, there in _moves(here, steps, spared=spared, free=free):
            uncharged = 1 << (there[0] - 1) if there[0] and (not spared or there[0] == steps) else 0
            held = there[2] & ~uncharged
            taken = sum(restarts[k] * (there[1] >> k & 1) for k in range(steps))
            taken += sum(records[k] * (held >> k & 1) for k in range(steps))
            total = spent + (costs[here[0]] if further else 0)
            if taken <= units and total < cost.get(there, IMPOSSIBLE):
                cost[there] = total
                heappush(queue, (total, next(number), there))
    return None


def search_rows(steps: int, rows: int, depth: int, record_row: int, *, free: bool) -> int | None:
    """The fewest forward steps where everything is rows, or None if there is no way.

    Cheapest first over (rows held, next row to turn, whether the end has been reached). A row can
    be computed where the `depth` rows below it are held and there is room for one more; any row can
    be given up at any time. With `free` the first `depth` rows can be had again for nothing.
    """
    end = steps + depth - 1
    start = frozenset(range(depth))
    begin = (start, steps - 1 + record_row, False)
    cost = {begin: 0}
    queue = deque([begin])
    while queue:
        here = queue.popleft()
        held, turning, ended = here
        if turning < record_row:
            return cost[here]
        moves: list[tuple[int, tuple[frozenset[int], int, bool]]] = []
        if ended and turning in held:
            moves.append((0, (held, turning - 1, True)))
        for row in range(depth, (turning if ended else end) + 1):
            if row not in held and held >= set(range(row - depth, row)) and len(held) < rows:
                moves.append((1, (held | {row}, turning, ended or row == end)))
        moves += [(0, (held - {row}, turning, ended)) for row in held]
        if free and len(held | start) <= rows:
            moves.append((0, (held | start, turning, ended)))
        for further, there in moves:
            if cost[here] + further < cost.get(there, IMPOSSIBLE):
                cost[there] = cost[here] + further
                (queue.append if further else queue.appendleft)(there)
    return None


@dataclass
class Replayed:
    """What a replay counts."""

    forward_steps: int
    peak_units: int
    kinds: Counter[str]
    record_before_save: bool
    """Whether a restart was saved while a record was held."""


def replay(
    actions: Iterable[Action],
    steps: int,
    *,
    restart: int = 1,
    record: int = 1,
    spared: bool = False,
    free: bool = False,
) -> Replayed:
    """Run the actions on sets of integers; AssertionError if they do not reverse the steps."""
    live, adjoint, furthest = 0, steps, 0
    restarts: set[int] = set()
    records: set[int] = set()
    seen = Replayed(0, 0, Counter(), False)
    for action in actions:
        seen.kinds[type(action).__name__] += 1
        match action:
            case Advance(start, stop) | Record(start, stop):
                assert start == live < stop <= adjoint
                live, furthest = stop, max(furthest, stop)
                seen.forward_steps += stop - start
                if isinstance(action, Record):
                    records.update(range(start, stop))
            case Save(step):
                assert step == live
                assert step not in restarts
                restarts.add(step)
                seen.record_before_save |= bool(records)
            case Restore(step, tier, last):
                assert (free and step == 0 and not last) if tier == INITIAL else step in restarts
                restarts -= {step} if last else set()
                live = step
            case Reverse(stop, start):
                assert stop == adjoint > start
                assert furthest == steps
                held = records | ({live} if spared and live == stop - 1 else set())
                assert held >= set(range(start, stop))
                records -= set(range(start, stop))
                adjoint = start
            case _:
                raise AssertionError(action)
        charged = len(records - {live - 1}) * record + len(restarts) * restart
        seen.peak_units = max(seen.peak_units, charged)
    assert adjoint == 0
    assert not restarts
    assert not records
    return seen
