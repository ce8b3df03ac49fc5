"""Pictures: what stands in them, not how it looks."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

import retrograd
from retrograd import pictures
from retrograd.actions import DISK, Advance, Record, Restore, Reverse, Save
from retrograd.errors import InvalidArgument, MissingExtra
from retrograd.events import Kind
from retrograd.pictures import Terminal
from retrograd.pictures.axis import label, ticks
from retrograd.pictures.marks import marks
from retrograd.pictures.picture import picture_of
from retrograd.pictures.svg import svg
from retrograd.schedules import KeepAll, Mixed, Revolve
from retrograd.sizes import format_nbytes
from retrograd.timeline import from_actions

SVG = "{http://www.w3.org/2000/svg}"
WIDTH, HEIGHT = 900, 540

TIERED = [
    *(Save(0, DISK), Advance(0, 40), Save(40), Advance(40, 50), Record(50, 60), Reverse(60, 50)),
    *(Restore(40, last=True), Record(40, 50, "host"), Reverse(50, 40)),
    *(Restore(0, DISK, last=True), Record(0, 30, DISK), Record(30, 40), Reverse(40, 0)),
]
SIZES = {8: (3, 4), 30: (4, 10), 300: (8, 30), 3000: (20, 150)}
SCHEDULES = [
    schedule
    for steps, (slots, units) in SIZES.items()
    for schedule in (KeepAll(steps), Revolve(steps, slots), Mixed(steps, 2, 1, units))
]


def words(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_an_svg_is_well_formed_small_and_says_what_it_shows(schedule) -> None:
    drawn = svg(picture_of(schedule))
    root = ElementTree.fromstring(drawn)
    said = words(root)
    assert len(drawn) < 100_000
    assert len(list(root.iter())) < 80
    title = f"{type(schedule).__name__}: {schedule.steps} steps, {schedule.forward_steps} forward"
    assert said[0].startswith(title)
    assert said[1].startswith("at most ")
    assert {"step", "steps executed", "forward, first time", "reverse"} <= set(said)
    assert ("forward, again" in said) == (schedule.forward_steps > schedule.steps)
    assert ("restart in memory" in said) == (not isinstance(schedule, KeepAll))
    assert "restart on disk" not in said
    assert {"0", str(schedule.steps)} <= set(said)


def test_coordinates_lie_within_the_plot() -> None:
    for schedule in SCHEDULES:
        drawn = marks(from_actions(schedule, schedule.steps), WIDTH, HEIGHT)
        groups = [*drawn.lines.values(), *drawn.restarts.values(), *drawn.windows.values()]
        points = [point for group in groups for line in group for point in line]
        points += drawn.saves + drawn.restores
        assert all(0 <= x <= WIDTH + 1 and 0 <= y <= HEIGHT + 1 for x, y in points)


def test_every_tier_looks_different_without_colour() -> None:
    root = ElementTree.fromstring(svg(picture_of(TIERED)))
    legend = {
        texts[0].text: group.find(f"{SVG}path")
        for group in root.iter(f"{SVG}g")
        if (texts := group.findall(f"{SVG}text"))
    }
    assert set(legend) == {
        *("forward, first time", "forward, again", "reverse", "saved", "restored"),
        *("restart in memory", "restart on disk"),
        *("records in memory", "records on disk", "records in host"),
    }
    lines = {
        (path.get("stroke-width"), path.get("stroke-dasharray"))
        for name, path in legend.items()
        if name and not name.startswith(("records", "saved", "restored"))
    }
    assert len(lines) == 5
    fills = {path.get("fill") for name, path in legend.items() if name and name[:7] == "records"}
    patterns = {f"url(#{element.get('id')})": element for element in root.iter(f"{SVG}pattern")}
    assert fills == set(patterns)
    hatches = {element.find(f"{SVG}path").get("d") for element in patterns.values()}
    assert len(hatches) == 3


def test_the_disk_is_named_in_the_subtitle() -> None:
    said = picture_of(TIERED).subtitle
    assert said == (
        "at most 1 restart and 30 records on disk, 1 restart and 10 records in memory, "
        "10 records in host"
    )


def test_few_steps_are_drawn_one_for_one() -> None:
    timeline = from_actions(Revolve(8, 3), 8)
    drawn = marks(timeline, WIDTH, HEIGHT)
    assert len(drawn.lines[Kind.FORWARD]) == 1
    assert len(drawn.lines[Kind.REVERSE]) == 8
    assert len(drawn.windows["memory"]) == 8
    assert len(drawn.restarts["memory"]) == len(timeline.restarts)
    assert drawn.note == ""


def test_what_is_smaller_than_a_pixel_is_merged_and_counted() -> None:
    timeline = from_actions(Revolve(3000, 20), 3000)
    drawn = marks(timeline, WIDTH, HEIGHT)
    lines = sum(len(line) for line in drawn.lines.values())
    assert lines < len(timeline.strokes) / 3
    assert len(drawn.restarts["memory"]) < len(timeline.restarts) / 2
    assert drawn.windows == {}
    counted = dict(re.findall(r"of (\d+) (\w+)", drawn.note))
    assert counted == {
        str(len(timeline.strokes)): "lines",
        str(len(timeline.restarts)): "restarts",
        str(len(timeline.windows)): "windows",
    }
    assert f"{drawn.note}." in words(ElementTree.fromstring(svg(picture_of(Revolve(3000, 20)))))


def test_merged_lines_cover_the_same_columns() -> None:
    """Every pixel column in which steps run has a line of that kind, and no other has."""
    timeline = from_actions(Revolve(500, 6), 500)
    drawn = marks(timeline, WIDTH, HEIGHT)
    across = WIDTH / timeline.duration
    for kind, lines in drawn.lines.items():
        wanted, found = np.zeros(WIDTH + 2, bool), np.zeros(WIDTH + 2, bool)
        for stroke in timeline.strokes:
            if stroke.kind is kind:
                wanted[int(stroke.began * across) : int(stroke.ended * across) + 1] = True
        for line in lines:
            xs = [x for x, _ in line]
            found[int(min(xs)) : int(max(xs)) + 1] = True
        near = wanted[1:-1] | wanted[:-2] | wanted[2:]
        assert not (found[1:-1] & ~near).any()
        assert (wanted & ~found).sum() < 0.02 * wanted.sum()


def test_no_more_markers_than_there_is_room_for() -> None:
    drawn = marks(from_actions(Revolve(3000, 20), 3000), WIDTH, HEIGHT)
    cells = [(int(x / 9), int(y / 9)) for x, y in drawn.saves + drawn.restores]
    assert 20 < len(cells) == len(set(cells)) < 500


def test_a_plan_tells_its_bytes() -> None:
    plan = retrograd.plan(100, 200, 100, 3000)
    said = picture_of(plan)
    assert said.title == f"mixed: 100 steps, {plan.forward_steps} forward steps (1.750 times)"
    assert said.subtitle.startswith("memory: 3 kB of a budget of 3 kB; at most ")


def test_a_run_is_drawn_in_seconds(tmp_path: Path) -> None:
    problem = retrograd.arrays.Problem(
        lambda u, k: u * 0.9, lambda v, u, k: v * 0.9, initial=np.ones(50), steps=40
    )
    result = retrograd.gradient(problem, memory=4000)
    path = pictures.draw(result, tmp_path / "run.svg")
    said = words(ElementTree.parse(path).getroot())
    assert said[0].startswith(f"{result.plan.name}: 40 steps, {result.tally.forward_steps} forward")
    assert said[1] == f"memory: {format_nbytes(result.plan.peak_nbytes)} of a budget of 4 kB"
    assert "seconds" in said
    assert "steps executed" not in said
    del result.tally.events[20:]
    assert "; only the first 20 of " in picture_of(result).subtitle


def test_names_are_escaped(tmp_path: Path) -> None:
    path = pictures.draw(KeepAll(3), tmp_path / "a.svg", name='<a & "b">\x1b[31m\x00')
    assert words(ElementTree.parse(path).getroot())[0].startswith('<a & "b">?[31m?: 3 steps')


@pytest.mark.parametrize("schedule", [Revolve(1, 1), KeepAll(2), Revolve(3000, 20)], ids=str)
def test_png(tmp_path: Path, schedule) -> None:
    pytest.importorskip("matplotlib")
    path = pictures.draw(schedule, str(tmp_path / "a.PNG"))
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size < 500_000


def test_png_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"pip install 'retrograd\[pictures\]'.*a\.svg"):
        pictures.draw(KeepAll(3), tmp_path / "a.png")


@pytest.mark.parametrize(
    ("file", "better"),
    [("a.pdf", "a.svg"), ("a", "a.svg"), ("", "picture.svg"), (".", "picture.svg")],
)
def test_other_endings_are_refused(file, better) -> None:
    with pytest.raises(InvalidArgument, match=f"write {better}$"):
        pictures.draw(KeepAll(3), file)


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for ending in ("svg", "png"):
        for folder in ("file", "none"):
            with pytest.raises(InvalidArgument, match="cannot be written: N"):
                pictures.draw(KeepAll(3), tmp_path / folder / f"a.{ending}")


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ([], "nothing to draw"),
        ([Save(0)], "nothing to draw"),
        ([Record(3, 3)], "empty"),
        ([Advance(3, 1)], "empty"),
        (7, "cannot be drawn"),
        ("mixed", "nothing to draw"),
    ],
)
def test_what_cannot_be_drawn(tmp_path: Path, shown, message) -> None:
    with pytest.raises(InvalidArgument, match=message):
        pictures.draw(shown, tmp_path / "a.svg")
    assert not (tmp_path / "a.svg").exists()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("terminal", [Terminal(100, 34), Terminal(60, 20, unicode=False)])
def test_text_fits_and_tells_things_apart(schedule, terminal) -> None:
    said = pictures.text(schedule, terminal)
    lines = said.splitlines()
    assert lines[0].startswith(type(schedule).__name__)
    assert max(len(line) for line in lines[4:]) <= terminal.width
    assert "steps executed" in said
    plot = "".join(line.partition("┤" if terminal.unicode else "+")[2] for line in lines[4:])
    slanted = "╲╱" if terminal.unicode else "\\/"
    assert all(character in plot for character in slanted)
    assert said.isascii() != terminal.unicode
    assert "\x1b" not in said


def test_text_of_two_steps_exactly() -> None:
    said = pictures.text(Revolve(2, 1), Terminal(28, 10, unicode=False))
    assert said.splitlines()[4:] == [
        r" 0 +o\\-----------:::....///",
        r"   |  \\\           :::///",
        r" 1 +    \\\\....///",
        r"   |       \\///",
        r" 2 ++----------------------+",
        r"    0                      5",
        r"        steps executed",
        "",
        r"\ forward, first time",
        r": forward, again   / reverse",
        r". records in memory",
        r"- restart in memory",
        r"o saved",
    ]


def test_only_a_terminal_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(encoding: str, tty: bool) -> SimpleNamespace:
        return SimpleNamespace(encoding=encoding, isatty=lambda: tty)

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "123")
    monkeypatch.setenv("LINES", "45")
    assert Terminal.of(stream("utf-8", True)) == Terminal(123, 45, unicode=True, colour=True)
    assert not Terminal.of(stream("utf-8", False)).colour
    assert not Terminal.of(stream("latin-1", True)).unicode
    assert not Terminal.of(io.StringIO()).unicode
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Terminal.of(stream("utf-8", True)).colour


def test_colours_change_nothing_else() -> None:
    plain = pictures.text(TIERED, Terminal(70, 25))
    coloured = pictures.text(TIERED, Terminal(70, 25, colour=True))
    assert coloured != plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain


def test_a_narrow_terminal_still_shows_something() -> None:
    assert len(pictures.text(Mixed(3000, 2, 1, 150), Terminal(1, 1)).splitlines()) > 15


@pytest.mark.parametrize("end", [1, 7, 30, 1615, 10**6, 0.003, 17.3, 1e5])
@pytest.mark.parametrize("most", [2, 6, 12])
def test_ticks_are_round_and_few(end, most) -> None:
    found = ticks(end, most, whole=isinstance(end, int))
    assert found[0] == 0
    assert 1 <= len(found) <= most + 1
    assert found[-1] <= end * 1.001
    if isinstance(end, int):
        assert all(value == round(value) for value in found)
    assert all(len(label(value)) <= 8 for value in found)


def test_no_time_at_all() -> None:
    assert ticks(0, 5, whole=False) == [0]
