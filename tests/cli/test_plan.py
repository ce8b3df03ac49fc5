"""``retrograd plan`` and ``retrograd verify``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import retrograd

SIZES = ("--steps", 1615, "--restart-bytes", 2, "--record-bytes", 1)
# Minimal forward steps by exhaustive dynamic programming, of 1615 steps in 201 units
ORACLE = {
    (): 3044,
    ("--free-start",): 3042,
    ("--record-in-state",): 3035 + 1,
    ("--free-start", "--record-in-state"): 3033 + 1,
}


@pytest.mark.parametrize(("flags", "steps"), ORACLE.items(), ids=str)
def test_counts_are_the_oracles(
    retrograd_: Callable[..., Any], flags: tuple[str, ...], steps: int
) -> None:
    found = retrograd_("plan", *SIZES, "--memory", 201, *flags, "--json").json
    assert found["forward_steps"] == steps
    assert found["recompute_factor"] == steps / 1615
    assert found["peak_bytes"] <= 201
    assert found["schedule"] == "mixed"


def test_segments_are_the_calls_of_reverse(retrograd_: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "actions.jsonl"
    found = retrograd_("plan", *SIZES, "--memory", 50, "--json", "--actions", file).json
    actions = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    assert found["segments"] == sum(action["action"] == "Reverse" for action in actions)


def test_a_saved_schedule_is_verified(retrograd_: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "with spaces.jsonl"
    planned = retrograd_("plan", *SIZES, "--memory", 50, "--json", "--actions", file).json
    said = retrograd_("verify", file, "--json")
    assert said.status == 0
    assert said.json["legal"] is True
    assert said.json["forward_steps"] == planned["forward_steps"]
    assert said.json["peak_nbytes"]["memory"] == planned["peak_bytes"]
    assert "legal" in retrograd_("verify", file).out


def test_a_tampered_schedule_is_refused(retrograd_: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "actions.jsonl"
    retrograd_("plan", *SIZES, "--memory", 50, "--actions", file)
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[:4] + lines[5:]))
    said = retrograd_("verify", file)
    assert said.status == 1
    assert "action 3" in said.err
    assert retrograd_("verify", file, "--json").json["index"] == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        "no json",
        '{"retrograd_schedule": 1, "steps": 3}',
        '{"retrograd_schedule": 1, "steps": -3, "restart_nbytes": 1, "record_nbytes": 1, '
        '"memory_nbytes": 1, "record_in_state": false, "free_start": false}',
    ],
)
def test_what_is_no_schedule_is_bad_input(
    retrograd_: Callable[..., Any], tmp_path: Path, text: str
) -> None:
    file = tmp_path / "file"
    file.write_text(text)
    said = retrograd_("verify", file)
    assert (said.status, said.out) == (2, "")
    assert len(said.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--memory", "1"), "give at least 2"),
        (("--memory", "ten"), "write a whole number"),
        (("--memory", "5", "--restart-bytes", "-3GB"), "--restart-bytes '-3GB' is not a size"),
        (("--memory", "5", "--record-bytes", "0"), "at least 1"),
        (("--memory", "5", "--steps", "1.5"), "not a whole number"),
        (("--memory", "5", "--steps", "0"), "at least 1"),
        (("--memroy", "5"), 'did you mean "--memory"'),
        ((), "--memory"),
        (("--memory", "5", "--disk", "9"), "give --forward-seconds"),
        (("--memory", "5", "--write-rate", "9"), "without --forward-seconds"),
        (("--memory", "5", "--forward-seconds", "-1"), "not negative"),
        (("--memory", "5", "--forward-seconds", "nan"), "not negative"),
        (("--memory", "5", "--forward-seconds", "1", "--read-rate", "0"), "positive"),
        (("--memory", "5", "--state-rows", "0"), "at least 1"),
        (("--memory", "5", "--state-rows", "3"), "is not 3 records"),
        (("--memory", "5", "--actions", "/nowhere/at/all"), "cannot be written"),
    ],
)
def test_bad_input_is_refused(
    retrograd_: Callable[..., Any], words: tuple[str, ...], message: str
) -> None:
    said = retrograd_("plan", *SIZES, *words)
    assert (said.status, said.out) == (2, "")
    assert message in said.err
    assert len(said.err.strip().splitlines()) == 1


DISK = ("--forward-seconds", 0.02, "--write-rate", "1", "--read-rate", "2", "--disk", 40)


def test_a_disk_with_its_speed(retrograd_: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "actions.jsonl"
    words = ("--memory", 20, *DISK, "--actions", file, "--json")
    slow = retrograd_("plan", *SIZES, *words).json
    words = ("--memory", 20, *DISK, "--write-rate", "1kB", "--read-rate", "1kB")
    fast = retrograd_("plan", *SIZES, *words, "--actions", file, "--json").json
    assert slow["disk_bytes"] < fast["disk_bytes"] <= 40
    assert fast["seconds"] < slow["seconds"]
    assert fast["schedule"] == "tiered-mixed"
    assert retrograd_("verify", file, "--json").json["peak_nbytes"]["disk"] == fast["disk_bytes"]


def test_the_table_of_alternatives_is_shown_on_request(retrograd_: Callable[..., Any]) -> None:
    assert "revolve" not in retrograd_("plan", *SIZES, "--memory", 50).out
    said = retrograd_("plan", *SIZES, "--memory", 50, *DISK, "--compare").out
    for word in ("revolve", "h-revolve", "multistage", "seconds", "traffic", "chosen"):
        assert word in said


def test_states_that_are_rows(retrograd_: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "actions.jsonl"
    words = ("--memory", 25, "--state-rows", 2, "--free-start", "--json", "--actions", file)
    found = retrograd_("plan", *SIZES, *words).json
    assert (found["schedule"], found["forward_steps"]) == ("levels", 4868)
    assert retrograd_("verify", file, "--json").json["forward_steps"] == 4868


def test_a_curve_for_every_schedule(retrograd_: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "curve.svg"
    words = ("--steps", 60, "--restart-bytes", 2, "--record-bytes", 1, "--memory", 20)
    said = retrograd_("plan", *words, *DISK, "--curve", file)
    assert said.status == 0
    drawn = file.read_text()
    assert "<svg" in drawn
    said = retrograd_("plan", *words, "--curve", tmp_path / "curve.txt")
    assert (said.status, said.out) == (2, "")


def test_a_million_steps_are_planned_at_once(retrograd_: Callable[..., Any]) -> None:
    words = ("--steps", 10**6, "--restart-bytes", "2GB", "--record-bytes", "1GB")
    found = retrograd_("plan", *words, "--memory", "1TB", "--json").json
    assert 10**6 < found["forward_steps"] < 3 * 10**6


def test_the_installed_command() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from retrograd.cli import main; main()", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"retrograd {retrograd.__version__}"
