"""Compute the gradient of a full-waveform inversion within a memory budget."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from retrograd import pictures
from retrograd.cli.resident import resident_nbytes
from retrograd.errors import InvalidArgument, MissingExtra
from retrograd.families import NAMES
from retrograd.run import INTERVAL


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--model",
        default="marmousi",
        metavar="marmousi|FILE.npz",
        help="in km/s: the embedded Marmousi model at 8 m, or a file with vp and spacing",
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help='"2 GiB", "1/16" of keeping everything, or "auto"; 1/16 unless --schedule is keep-all',
    )
    parser.add_argument(
        "--disk",
        default="0",
        metavar="SIZE",
        help='what may go to local disk besides: "50 GiB", or "auto" for most of what is free',
    )
    parser.add_argument(
        "--scratch", metavar="DIR", help="a directory on that disk; nothing is left in it"
    )
    parser.add_argument(
        "--compress",
        metavar="lossless|TOLERANCE",
        help='compress what leaves the arena: "lossless", or with an error of, say, 1e-4',
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="DIR",
        help="keep there what another process needs to go on; go on, if it is there",
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=INTERVAL,
        metavar="SECONDS",
        help="between what --resume keeps",
    )
    parser.add_argument("--schedule", default="auto", choices=NAMES)
    parser.add_argument("--shots", type=_positive, default=1, metavar="N")
    parser.add_argument(
        "--frequency",
        type=float,
        metavar="HZ",
        help="peak of the Ricker wavelet; 10 Hz unless the grid is too coarse for it",
    )
    parser.add_argument("--space-order", type=int, default=8, metavar="N")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    parser.add_argument(
        "--check", action="store_true", help="compare with keeping everything, bit for bit"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("retrograd-out"), metavar="DIR", help="where files go"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Plan, run, report; the exit status is 1 if a check finds a difference."""
    try:
        from retrograd.cli import picture, study
        from retrograd.cli.progress import Progress
    except ImportError as error:
        raise MissingExtra(
            f"this command needs {error.name}: pip install 'retrograd[cli]'"
        ) from error

    _make_directory(options.out)
    case = study.prepare(options)
    before = resident_nbytes()
    say = _silent if options.json else print
    say(f"{case.headline()}\n\n{case.run.plan.explain()}\n")
    with Progress(case.run.plan, shots=options.shots, quiet=options.json) as progress:
        outcome = study.compute(case, progress)
    outcome.rss_above_imports_nbytes = max(0, outcome.peak_rss_nbytes - before)
    if options.check:
        say("keeping everything, to compare ...")
        study.compare_with_keep_all(case, outcome)
    files = {
        "gradient": options.out / "gradient.npz",
        "picture": options.out / "gradient.png",
        "schedule": options.out / "schedule.svg",
        "report": options.out / "report.json",
    }
    study.save_arrays(files["gradient"], case, outcome)
    picture.draw(files["picture"], case, outcome)
    pictures.draw(case.run.result, files["schedule"])
    figures = study.figures(case, outcome, {key: str(path) for key, path in files.items()})
    files["report"].write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if options.json:
        print(json.dumps(figures))
    else:
        print(study.table(figures))
    is_exact = options.compress in (None, "none", "lossless")
    if outcome.bitwise_equal is False and is_exact:
        print("the gradient differs from keeping everything", file=sys.stderr)
        return 1
    return 0


def _silent(text: str) -> None:
    """Say nothing: standard output is for JSON alone."""


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"--out {path} cannot be made: {error.strerror}; name a directory you may write to"
        ) from error
