"""The command line. Frameworks are imported by the commands that need them, when they run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from retrograd import __version__
from retrograd.cli import gradient, plan, verify
from retrograd.errors import Error
from retrograd.suggest import nearest

_COMMANDS = (gradient, plan, verify)


class _Parser(argparse.ArgumentParser):
    """Says which option was probably meant."""

    def error(self, message: str) -> NoReturn:
        for word in message.split():
            if word.startswith("--"):
                options = [o for action in self._actions for o in action.option_strings]
                message += nearest(word.split("=")[0], options)
                break
        self.exit(2, f"{self.prog}: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The parser of every command and option."""
    top = _Parser(
        prog="retrograd",
        description="Gradients of long time-stepping simulations, in the memory you have.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"retrograd {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        name = command.__name__.rpartition(".")[2]
        summary = (command.__doc__ or "").splitlines()[0]
        sub = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        command.add_options(sub)
        sub.set_defaults(run=command.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, 1 if a check failed, or 2 for bad input."""
    words = parser()
    options, unknown = words.parse_known_args(arguments)
    if unknown:
        sub = words._subparsers._group_actions[0].choices[options.command]  # type: ignore[union-attr, index]
        sub.error(f"there is no option {' '.join(unknown)}")
    try:
        return int(options.run(options))
    except Error as error:
        print(f"retrograd {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"retrograd {options.command}: interrupted", file=sys.stderr)
        return 130
