"""``retrograd show``: in the terminal and in files, from a plan and from a saved schedule."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

SIZES = ("--steps", 30, "--restart-bytes", 2, "--record-bytes", 1, "--memory", 10)


@pytest.fixture
def saved(retrograd_: Callable[..., Any], tmp_path: Path) -> Path:
    """A schedule that `retrograd plan` has written."""
    file = tmp_path / "thirty steps.jsonl"
    assert retrograd_("plan", *SIZES, "--actions", file).status == 0
    return file


@pytest.mark.parametrize("output", [(), ("terminal",)])
def test_in_the_terminal(
    retrograd_: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, output: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("LINES", "30")
    said = retrograd_("show", *SIZES, *output)
    lines = said.out.splitlines()
    assert (said.status, said.err) == (0, "")
    assert lines[0] == "mixed: 30 steps, 55 forward steps (1.833 times)"
    assert lines[1].startswith("memory: 10 B of a budget of 10 B; at most 3 restarts and ")
    assert max(map(len, lines[4:])) <= 70
    assert "reverse" in lines[-1] or "reverse" in lines[-2]


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_in_a_file(retrograd_: Callable[..., Any], tmp_path: Path, ending: str) -> None:
    if ending == "png":
        pytest.importorskip("matplotlib")
    file = tmp_path / f"a picture.{ending}"
    said = retrograd_("show", *SIZES, "--schedule", "revolve", file)
    assert (said.status, said.out, said.err) == (0, f"{file}\n", "")
    assert file.read_bytes().startswith(b"<svg" if ending == "svg" else b"\x89PNG")


def test_a_saved_schedule(retrograd_: Callable[..., Any], saved: Path, tmp_path: Path) -> None:
    in_terminal = retrograd_("show", "--schedule-file", saved)
    assert in_terminal.status == 0
    assert in_terminal.out.startswith("thirty steps: 30 steps, 55 forward steps (1.833 times)\n")
    file = tmp_path / "saved.svg"
    assert retrograd_("show", "--schedule-file", saved, file).status == 0
    title = ElementTree.parse(file).getroot().findtext("{http://www.w3.org/2000/svg}title")
    assert title == in_terminal.out.splitlines()[0]


def test_options_of_a_plan_are_required_again_afterwards(
    retrograd_: Callable[..., Any], saved: Path
) -> None:
    assert retrograd_("show", "--schedule-file", saved).status == 0
    assert retrograd_("show").status == 2


def test_an_illegal_schedule_is_not_drawn(
    retrograd_: Callable[..., Any], saved: Path, tmp_path: Path
) -> None:
    lines = saved.read_text().splitlines()
    saved.write_text("\n".join(lines[:4] + lines[5:]))
    said = retrograd_("show", "--schedule-file", saved, tmp_path / "a.svg")
    assert (said.status, said.out) == (2, "")
    assert "action 3" in said.err
    assert not (tmp_path / "a.svg").exists()


def test_png_without_matplotlib(
    retrograd_: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    said = retrograd_("show", *SIZES, tmp_path / "a.png")
    assert (said.status, said.out) == (2, "")
    assert "pip install 'retrograd[pictures]'" in said.err
    assert len(said.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*SIZES, "a.pdf"), "a.pdf: a picture is an .svg or a .png file: write a.svg"),
        ((*SIZES, "screen"), "write screen.svg"),
        ((*SIZES, "/nowhere/at/all.svg"), "cannot be written: No such file or directory; name"),
        ((*SIZES, "a.svg", "b.svg"), "unrecognized"),
        ((*SIZES[:-2],), "--memory"),
        ((*SIZES[:-1], "1"), "give at least 2"),
        ((*SIZES, "--schedul", "mixed"), 'did you mean "--schedule'),
        (("--schedule-file", "/nowhere.jsonl"), "cannot be read"),
        (("--schedule-file", "/dev/null"), "does not begin with"),
        (("--schedule-file", "a.jsonl", "--memory", "5"), "--memory: name a saved schedule, or"),
    ],
)
def test_bad_input_is_refused(
    retrograd_: Callable[..., Any], words: tuple[object, ...], message: str
) -> None:
    said = retrograd_("show", *words)
    assert (said.status, said.out) == (2, "")
    assert message in said.err
    assert len(said.err.strip().splitlines()) == 1
