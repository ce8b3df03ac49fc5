"""An arena that notices when saved rows are written, and measures what is in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from retrograd.layout import Layout
from retrograd.stores.arena import Arena, ForwardCall, ReverseCall, Window

Row = tuple[str, int]
"""A region, ``"state"``, ``"record"`` or ``"slot"``, and a physical row in it."""


class GuardedArena(Arena):
    """Keeps copies of all saved rows, and compares after every call and every action.

    What is saved is followed here on its own, without asking the placement: where the live rows
    lie when a restart is saved, and where those of a record lie when it has been made.
    """

    def __init__(self, layout: Layout, nbytes: int) -> None:
        super().__init__(layout, nbytes)
        self._saved: dict[Any, dict[Row, bytes | None]] = {}
        """None for rows that are about to be loaded: looked at when the next thing happens."""
        self.most_nbytes = 0
        self._measure({("state", layout.depth - 1)})

    def reset(self) -> None:
        super().reset()
        self._saved = {}

    def row(self, field: int, physical: int) -> Any:
        assert 0 <= physical < self.nbytes // self.layout.row_nbytes, "a row outside the arena"
        return super().row(field, physical)

    def advance(self, start: int, stop: int) -> Iterator[ForwardCall]:
        yield from self._watched(super().advance(start, stop))

    def record(self, start: int, stop: int) -> Iterator[ForwardCall]:
        calls = []
        for call in self._watched(super().record(start, stop)):
            yield call
            calls.append(call)
        for call in calls:
            for step in range(call.start, call.stop):
                self._protect(("record", step), set(self._rows_of_record(call, step)))

    def _rows_of_record(self, call: ForwardCall, step: int) -> Iterator[Row]:
        if self.layout.records:
            yield "record", call.target.record_origin + step
        elif self.layout.contiguous:  # the rows of all calls have come to lie beside the live ones
            for age in range(*self.layout.record_rows):
                yield "state", self.live().origin + step + age
        else:
            window = call.source if step == call.start else call.target
            yield "state", window.origin + step

    def save(self, step: int, held: Sequence[Any] = ()) -> None:
        super().save(step, held)
        origin = self.live().origin + step
        rows: set[Row] = {("state", origin + a) for a in range(self.layout.depth)}
        if held:
            rows.add(("slot", self._placement.slot(step)))
        self._protect(("restart", step), rows)

    def restore(self, step: int, *, last: bool, held: Sequence[Any] = ()) -> None:
        super().restore(step, last=last, held=held)
        if last:
            del self._saved["restart", step]
        self._measure({("state", self.live().origin + step + self.layout.depth - 1)})

    def enter(self, step: int) -> Window:
        self.check()
        window = super().enter(step)
        self._measure({("state", window.origin + step + self.layout.depth - 1)})
        return window

    def load(self, start: int, stop: int) -> list[Any]:
        rows = super().load(start, stop)
        for call in Arena.reverse(self, stop, start, keep=True):
            for step in range(call.start, call.stop):
                lying = set(self._rows_of_loaded(call.window, step))
                self._saved["record", step] = dict.fromkeys(lying)
        # Rows that are handed out one by one leave the live one where it was.
        live = set() if self.layout.contiguous else {("state", self.live().origin + self.step)}
        self._measure(live)
        return rows

    def _rows_of_loaded(self, window: Window, step: int) -> Iterator[Row]:
        if self.layout.records:
            yield "record", window.record_origin + step
        else:
            ages = range(*self.layout.record_rows) if self.layout.contiguous else range(1)
            yield from (("state", window.origin + step + age) for age in ages)

    def drop(self, step: int) -> None:
        super().drop(step)
        del self._saved["restart", step]

    def forget(self, start: int, stop: int) -> None:
        super().forget(start, stop)
        for step in range(start, stop):
            self._saved.pop(("record", step), None)

    def reverse(self, stop: int, start: int, *, keep: bool = False) -> Iterator[ReverseCall]:
        self.check()
        yield from super().reverse(stop, start, keep=keep)
        if not keep:
            for step in range(start, stop):
                self._saved.pop(("record", step), None)

    def check(self) -> None:
        """Fail if a saved row is not what it was when it was saved."""
        for what, rows in self._saved.items():
            for row, content in rows.items():
                if content is None:
                    rows[row] = self._content(row)
                else:
                    assert self._content(row) == content, f"the rows of {what} were written"

    def _watched(self, calls: Iterator[ForwardCall]) -> Iterator[ForwardCall]:
        for call in calls:
            used = {("state", call.target.origin + call.stop + self.layout.depth - 1)}
            if call.recording and self.layout.records:
                used.add(("record", call.target.record_origin + call.stop - 1))
            self._measure(used)
            yield call
            self.check()

    def _protect(self, what: Any, rows: set[Row]) -> None:
        self._saved[what] = {row: self._content(row) for row in rows}
        self.check()
        self._measure(set())

    def _content(self, row: Row) -> bytes:
        kind, physical = row
        if kind == "slot":
            return b"".join(piece.tobytes() for piece in self._slot(physical))
        fields = self.layout.state if kind == "state" else self.layout.records
        of = self.row if kind == "state" else self.record_row
        return b"".join(of(field, physical).tobytes() for field in range(len(fields)))

    def _measure(self, used: set[Row]) -> None:
        rows = used.union(*self._saved.values())
        height = {"state": 0, "record": 0, "slot": 0}
        for kind, physical in rows:
            height[kind] = max(height[kind], physical + 1)
        nbytes = height["state"] * self.layout.row_nbytes
        nbytes += height["record"] * self.layout.record_row_nbytes
        nbytes += height["slot"] * self.layout.held_nbytes
        assert nbytes <= self.nbytes
        self.most_nbytes = max(self.most_nbytes, nbytes)
