"""Replay a schedule that `retrograd plan --actions FILE` has written."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from retrograd.errors import IllegalAction
from retrograd.schedule_file import verify_file


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a schedule in JSON lines")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )


def run(options: argparse.Namespace) -> int:
    """Print the counts of a legal schedule; exit with 1 for an illegal one."""
    try:
        counts = verify_file(options.file)
    except IllegalAction as error:
        if options.json:
            print(json.dumps({"legal": False, "index": error.index, "reason": str(error)}))
        else:
            print(f"{options.file}: {error}", file=sys.stderr)
        return 1
    figures = asdict(counts)
    if options.json:
        print(json.dumps({"legal": True, **figures}))
    else:
        print("\n".join([f"{options.file}: legal", *(f"{k:<15} {v}" for k, v in figures.items())]))
    return 0
