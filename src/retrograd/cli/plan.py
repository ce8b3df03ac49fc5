"""Choose a schedule for a memory budget and say what it costs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from retrograd.families import NAMES
from retrograd.errors import InvalidArgument
from retrograd.planner import Plan, plan
from retrograd.schedule_file import Header, write_schedule
from retrograd.sizes import parse_nbytes


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_plan_options(parser)
    parser.add_argument("--actions", type=Path, metavar="FILE", help="write the schedule to a file")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Declare what a plan is made from."""
    parser.add_argument("--steps", type=_whole, required=True, metavar="N", help="time steps")
    parser.add_argument(
        "--restart-bytes", required=True, metavar="SIZE", help='size of a saved state, say "97MB"'
    )
    parser.add_argument(
        "--record-bytes", required=True, metavar="SIZE", help="size of what one adjoint step needs"
    )
    parser.add_argument(
        "--memory", required=True, metavar="SIZE", help='"10GB", "1/16" of all records, or "auto"'
    )
    parser.add_argument("--live-bytes", default="0", metavar="SIZE", help="size of the live state")
    parser.add_argument("--schedule", default="auto", choices=NAMES)
    parser.add_argument(
        "--free-start", action="store_true", help="returning to the initial state costs nothing"
    )
    parser.add_argument(
        "--record-in-state",
        action="store_true",
        help="the record of a step is part of the state at its start",
    )


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def chosen_plan(options: argparse.Namespace) -> Plan:
    """Make the plan that the options ask for."""
    return plan(
        options.steps,
        parse_nbytes(options.restart_bytes, "--restart-bytes"),
        parse_nbytes(options.record_bytes, "--record-bytes"),
        options.memory,
        live_nbytes=parse_nbytes(options.live_bytes, "--live-bytes"),
        record_in_state=options.record_in_state,
        free_start=options.free_start,
        schedule=options.schedule,
    )


def run(options: argparse.Namespace) -> int:
    """Print the plan; write its schedule if asked for."""
    chosen = chosen_plan(options)
    if options.actions is not None:
        _write(options.actions, chosen)
    print(json.dumps(_figures(chosen)) if options.json else chosen.explain())
    return 0


def _write(path: Path, chosen: Plan) -> None:
    demand, rows = chosen.demand, chosen.demand.state_rows
    header = Header(
        demand.steps,
        demand.restart_nbytes,
        demand.record_nbytes,
        chosen.memory_nbytes - demand.uncounted_nbytes,
        demand.record_in_state,
        demand.free_start,
        chosen.budget.disk_nbytes,
        0 if rows is None else rows.depth,
        0 if rows is None else rows.record_row,
    )
    try:
        write_schedule(path, header, chosen.schedule)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be written: {error.strerror}") from error


def _figures(chosen: Plan) -> dict[str, object]:
    return {
        "schedule": chosen.name,
        "steps": chosen.steps,
        "forward_steps": chosen.forward_steps,
        "recompute_factor": chosen.recompute_factor,
        "peak_bytes": chosen.peak_nbytes,
        "memory_budget_bytes": chosen.memory_nbytes,
        "keep_all_bytes": chosen.keep_all_nbytes,
        "segments": chosen.reverse_calls,
        "alternatives": {a.name: a.forward_steps for a in chosen.alternatives},
    }
