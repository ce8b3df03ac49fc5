"""The command line. Frameworks are imported by the commands that need them, when they run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from retrograd import __version__
from retrograd.cli import cite, gradient, plan, show, verify
from retrograd.errors import Error
from retrograd.suggest import nearest

_COMMANDS = (gradient, plan, show, verify, cite)


class _Parser(argparse.ArgumentParser):
    """One line for an error, and the option that was probably meant."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse unknown options before argparse complains about required ones."""
        args = list(_joined(sys.argv[1:] if args is None else args))
        known = [option for action in self._actions for option in action.option_strings]
        if self._subparsers is None:
            for word in args:
                option = word.partition("=")[0]
                if option.startswith("--") and option not in known:
                    self.error(f"there is no option {option}{nearest(option, known)}")
        return super().parse_known_args(args, namespace)


def _joined(words: Sequence[str]) -> Iterator[str]:
    """Join an option and a value like ``-3GB``, which argparse would take for an option."""
    waiting = ""
    for word in words:
        if waiting and word.startswith("-") and word[1:2].isdigit():
            yield f"{waiting}={word}"
            waiting = ""
            continue
        if waiting:
            yield waiting
        waiting = word if word.startswith("--") and "=" not in word else ""
        if not waiting:
            yield word
    if waiting:
        yield waiting


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
    options = parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except Error as error:
        print(f"retrograd {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"retrograd {options.command}: interrupted", file=sys.stderr)
        return 130
