"""Draw a plan or a saved schedule: steps downwards, time across."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retrograd import pictures
from retrograd.cli.plan import add_plan_options, chosen_plan
from retrograd.errors import InvalidArgument
from retrograd.schedule_file import read_schedule, verify_file

_SIZES = ("steps", "restart_bytes", "record_bytes", "memory")
"""What a plan cannot be made without."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_plan_options(parser)
    parser.add_argument(
        "--schedule-file",
        action=_InsteadOfAPlan,
        metavar="FILE.jsonl",
        help="show a schedule that retrograd plan --actions has written, instead of a plan",
    )
    parser.add_argument(
        "output",
        nargs="?",
        default="terminal",
        metavar="FILE.svg|FILE.png|terminal",
        help="where to draw; the terminal unless a file is named",
    )


class _InsteadOfAPlan(argparse.Action):
    """A file that makes the options of a plan unnecessary."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, Path(str(values)))
        for action in parser._actions:
            action.required = False


def run(options: argparse.Namespace) -> int:
    """Draw in the terminal, or write a file and say so."""
    shown, name = _shown(options)
    if options.output == "terminal":
        print(pictures.text(shown, pictures.Terminal.of(sys.stdout), name=name))
    else:
        print(pictures.draw(shown, options.output, name=name))
    return 0


def _shown(options: argparse.Namespace) -> tuple[pictures.Shown, str | None]:
    path = options.schedule_file
    if path is None:
        return chosen_plan(options), None
    given = [name for name in _SIZES if getattr(options, name) is not None]
    if given:
        raise InvalidArgument(
            f"--schedule-file and --{given[0].replace('_', '-')}: name a saved schedule, or the "
            "sizes of a plan, not both"
        )
    verify_file(path)
    _, actions = read_schedule(path)
    return actions, path.stem
