"""Print what to cite for a schedule, as BibTeX."""

from __future__ import annotations

import argparse

from retrograd.citations import CITATIONS, cite


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("schedule", metavar="SCHEDULE", help=f"one of {', '.join(CITATIONS)}")


def run(options: argparse.Namespace) -> int:
    """Print the entries."""
    print(cite(options.schedule))
    return 0
