"""Choose a schedule for a memory budget and say what it costs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from retrograd.cost import Costs
from retrograd.errors import InvalidArgument
from retrograd.families import NAMES
from retrograd.layout import StateRows
from retrograd.pictures import save_curve
from retrograd.planner import plan
from retrograd.plans import Plan
from retrograd.schedule_file import Header, write_schedule
from retrograd.sizes import Size, parse_nbytes

_CURVE_POINTS: Final = 24


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_plan_options(parser)
    parser.add_argument(
        "--compare", action="store_true", help="show every schedule, and why it was not chosen"
    )
    parser.add_argument(
        "--curve",
        type=Path,
        metavar="FILE.png",
        help="draw what every schedule takes against the memory",
    )
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
    parser.add_argument(
        "--disk", default="0", metavar="SIZE", help='restarts may go to disk: "200GB", or "auto"'
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
    parser.add_argument(
        "--state-rows",
        type=_positive,
        metavar="N",
        help="a state is N adjacent records, as 2 time levels of a second-order wave equation",
    )
    parser.add_argument(
        "--forward-seconds", type=float, metavar="S", help="of a forward step; predicts seconds"
    )
    parser.add_argument(
        "--reverse-seconds", type=float, default=0.0, metavar="S", help="of a reverse step"
    )
    parser.add_argument("--write-rate", metavar="SIZE", help='to disk in a second, say "2GB"')
    parser.add_argument("--read-rate", metavar="SIZE", help='from disk in a second, say "3GB"')


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _positive(text: str) -> int:
    if (number := _whole(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def chosen_plan(options: argparse.Namespace) -> Plan:
    """Make the plan that the options ask for."""
    return _plan(options, options.memory)


def _plan(options: argparse.Namespace, memory: Size) -> Plan:
    rows = options.state_rows
    return plan(
        options.steps,
        parse_nbytes(options.restart_bytes, "--restart-bytes"),
        parse_nbytes(options.record_bytes, "--record-bytes"),
        memory,
        disk=options.disk,
        costs=_costs(options),
        live_nbytes=parse_nbytes(options.live_bytes, "--live-bytes"),
        record_in_state=options.record_in_state,
        free_start=options.free_start,
        state_rows=None if rows is None else StateRows(rows, rows - 1),
        schedule=options.schedule,
    )


def _costs(options: argparse.Namespace) -> Costs | None:
    rates = {
        name: float(parse_nbytes(text, f"--{name.replace('_', '-')}"))
        for name in ("write_rate", "read_rate")
        if (text := getattr(options, name)) is not None
    }
    has_disk = options.disk != "0"
    if has_disk and (options.forward_seconds is None or len(rates) < 2):
        raise InvalidArgument(
            "what a disk is worth depends on its speed: give --forward-seconds, --write-rate and "
            '--read-rate, these in bytes per second such as "2GB"'
        )
    if options.forward_seconds is None:
        given = [name for name in (*rates, "reverse_seconds") if getattr(options, name)]
        if given:
            raise InvalidArgument(
                f"--{given[0].replace('_', '-')} says little without --forward-seconds: give "
                "the seconds of a forward step as well"
            )
        return None
    return Costs(options.forward_seconds, options.reverse_seconds, **rates)


def run(options: argparse.Namespace) -> int:
    """Print the plan; write its schedule and draw the curve if asked for."""
    chosen = chosen_plan(options)
    if options.actions is not None:
        _write(options.actions, chosen)
    if options.curve is not None:
        _draw_curve(options, chosen)
    if options.json:
        print(json.dumps(_figures(chosen)))
    else:
        print(chosen.explain() if options.compare else chosen.summary())
    return 0


def _draw_curve(options: argparse.Namespace, chosen: Plan) -> None:
    """Draw plans from the smallest memory to a little more than keeping everything takes."""
    most = chosen.keep_all_nbytes + chosen.demand.live_nbytes
    least = chosen.demand.live_nbytes + 2 * chosen.demand.restart_nbytes
    ratio = (1.2 * most / least) ** (1 / _CURVE_POINTS)
    budgets = [int(least * ratio**point) for point in range(_CURVE_POINTS + 1)]
    print(
        save_curve([_plan(options, nbytes) for nbytes in budgets], options.curve), file=sys.stderr
    )


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
        "seconds": chosen.seconds,
        "disk_budget_bytes": chosen.budget.disk_nbytes,
        "disk_bytes": chosen.prediction.disk_nbytes,
        "traffic_bytes": chosen.prediction.traffic_nbytes,
        "alternatives": {a.name: a.forward_steps for a in chosen.alternatives},
    }
