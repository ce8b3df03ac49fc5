"""Schedules as JSON lines: a first line with sizes and budgets, then a line an action.

::

    {"retrograd_schedule": 1, "steps": 3, "restart_nbytes": 2, "record_nbytes": 1, …}
    {"action": "Advance", "start": 0, "stop": 2}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, get_args

from retrograd.actions import DISK, MEMORY, Action
from retrograd.errors import InvalidArgument
from retrograd.layout import StateRows
from retrograd.verify import Counts, verify

_FORMAT: Final = "retrograd_schedule"
_ACTIONS: Final = {kind.__name__: kind for kind in get_args(Action)}


@dataclass(frozen=True, slots=True)
class Header:
    """What a schedule was made for: the first line of its file.

    ``memory_nbytes`` is the budget of restarts and records. Live rows are not included, unless a
    state consists of rows that are records: then ``depth`` and ``record_row`` say which, and
    memory is counted in rows.
    """

    steps: int
    restart_nbytes: int
    record_nbytes: int
    memory_nbytes: int
    record_in_state: bool
    free_start: bool
    disk_nbytes: int = 0
    depth: int = 0
    record_row: int = 0

    @property
    def state_rows(self) -> StateRows | None:
        """How a state consists of records, if it does."""
        return StateRows(self.depth, self.record_row) if self.depth else None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            right = isinstance(value, bool) == (field.type == "bool") and isinstance(value, int)
            if not right or value < 0:
                raise InvalidArgument(
                    f"{field.name} is {value!r} in the first line: give {field.type}"
                )


def write_schedule(path: Path, header: Header, actions: Iterable[Action]) -> None:
    """Write a schedule to a file."""
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps({_FORMAT: 1, **asdict(header)}) + "\n")
        for action in actions:
            file.write(json.dumps({"action": type(action).__name__, **asdict(action)}) + "\n")


def verify_file(path: Path) -> Counts:
    """Replay a schedule that was saved to a file.

    Raises
    ------
    InvalidArgument
        if the file is not a schedule; names the line.
    IllegalAction
        if the schedule is illegal; names the action and its index.
    """
    header, actions = read_schedule(path)
    return verify(
        actions,
        steps=header.steps,
        restart_nbytes=header.restart_nbytes,
        record_nbytes=header.record_nbytes,
        budgets={MEMORY: header.memory_nbytes, DISK: header.disk_nbytes},
        record_in_state=header.record_in_state,
        free_start=header.free_start,
        state_rows=header.state_rows,
    )


def read_schedule(path: Path) -> tuple[Header, Iterator[Action]]:
    """The first line of a file, and its actions one by one as they are asked for.

    Raises
    ------
    InvalidArgument
        if the file is not a schedule; names the line.
    """
    lines = _lines(path)
    header = _header(path, next(lines, {}))
    return header, (_action(path, number, line) for number, line in enumerate(lines, 2))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                line = json.loads(text)
                if not isinstance(line, dict):
                    raise InvalidArgument(f"{path}, line {number}: not a JSON object")
                yield line
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"{path} is not a schedule in JSON lines: write it with retrograd plan --actions FILE"
        ) from error


def _header(path: Path, line: dict[str, Any]) -> Header:
    if line.pop(_FORMAT, None) != 1:
        raise InvalidArgument(
            f"{path} does not begin with a line of sizes and budgets: write it with "
            "retrograd plan --actions FILE"
        )
    try:
        return Header(**line)
    except TypeError as error:
        names = ", ".join(field.name for field in fields(Header))
        raise InvalidArgument(f"{path}, line 1: give {names} and nothing else") from error


def _action(path: Path, number: int, line: dict[str, Any]) -> Action:
    kind = _ACTIONS.get(str(line.pop("action", None)))
    try:
        if kind is not None and all(
            _is_right(field, line.get(field.name)) for field in fields(kind) if field.name in line
        ):
            action: Action = kind(**line)
            return action
    except TypeError:
        pass
    raise InvalidArgument(f"{path}, line {number}: not an action; they are {', '.join(_ACTIONS)}")


def _is_right(field: Any, value: object) -> bool:
    wanted = {"int": int, "bool": bool, "Tier": str}[field.type]
    return type(value) is wanted
