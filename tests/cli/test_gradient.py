"""``retrograd gradient`` on a small model, and on bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrograd.cli import study

KEYS = (
    "model grid steps schedule forward_steps recompute_factor memory_budget_bytes keep_all_bytes "
    "peak_checkpoint_bytes peak_rss_bytes seconds misfit gradient_norm bitwise_equal_to_keep_all "
    "files"
).split()
KINDS = ("forward", "recompute", "reverse", "save", "restore", "total")


def test_one_command_gives_gradient_picture_and_report(
    retrograd_: Callable[..., Any], model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a new" / "directory"
    said = retrograd_("gradient", "--model", model, "--check", "--json", "--out", out)
    assert said.status == 0
    found = said.json
    assert set(KEYS) <= set(found)
    assert set(found["seconds"]) == set(KINDS)
    assert found["model"] == "two layers"
    assert found["grid"] == [104, 58]  # a layer of 40 points on three sides, a free surface
    assert found["bitwise_equal_to_keep_all"] is True
    assert found["schedule"] == "levels"
    assert found["memory_budget_bytes"] == found["keep_all_bytes"] // 16
    assert found["peak_checkpoint_bytes"] <= found["memory_budget_bytes"]
    assert found["forward_steps"] > found["steps"]
    assert json.loads((out / "report.json").read_text()) == found
    assert (out / "gradient.png").read_bytes().startswith(b"\x89PNG")
    arrays = np.load(out / "gradient.npz")
    assert arrays["gradient"].shape == arrays["vp"].shape == (24, 18)
    norm = np.linalg.norm(arrays["gradient"].astype(float))
    assert norm == pytest.approx(found["gradient_norm"])
    assert norm > 0


def test_shots_schedules_and_precision_give_one_gradient(
    retrograd_: Callable[..., Any], model: Path, tmp_path: Path
) -> None:
    norms = {
        retrograd_(
            *("gradient", "--model", model, "--out", tmp_path, "--json", "--shots", 2),
            *("--dtype", "float64", "--space-order", 4, "--frequency", 6, *schedule),
        ).json["gradient_norm"]
        for schedule in (
            ("--schedule", "keep-all"),
            ("--schedule", "revolve", "--memory", "1/4"),
            ("--memory", "200kB"),
        )
    }
    assert len(norms) == 1


def test_a_table_for_people(retrograd_: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    said = retrograd_("gradient", "--model", model, "--out", tmp_path)
    assert said.status == 0
    for words in ("forward steps", "chosen", "resident", "not checked", "gradient.png"):
        assert words in said.out


def test_a_difference_is_an_exit_status(
    retrograd_: Callable[..., Any],
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compute = study.compute

    def one_bit_off(*arguments: Any) -> Any:
        outcome = compute(*arguments)
        outcome.gradient[3, 3] = np.nextafter(outcome.gradient[3, 3], np.float32(np.inf))
        return outcome

    monkeypatch.setattr(study, "compute", one_bit_off)
    said = retrograd_("gradient", "--model", model, "--check", "--json", "--out", tmp_path)
    assert said.status == 1
    assert said.json["bitwise_equal_to_keep_all"] is False
    assert "differs" in said.err


def write(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def bad_models(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    text = tmp_path / "text.npz"
    text.write_text("not a model")
    right = np.full((12, 12), 2.0)
    wrong = {}
    for value in (np.nan, -2.0, 2000.0):
        wrong[value] = right.copy()
        wrong[value][2, 2] = value
    spacing = np.array([10.0, 10.0])
    return {
        "missing": (tmp_path / "none.npz", "no file"),
        "text": (text, "npz"),
        "no vp": (write(tmp_path / "a.npz", spacing=spacing), "vp"),
        "no spacing": (write(tmp_path / "b.npz", vp=right), "spacing"),
        "nan": (write(tmp_path / "c.npz", vp=wrong[np.nan], spacing=spacing), "finite"),
        "negative": (write(tmp_path / "d.npz", vp=wrong[-2.0], spacing=spacing), "positive"),
        "m/s": (write(tmp_path / "e.npz", vp=1000 * right, spacing=spacing), "km/s"),
    }


@pytest.mark.parametrize(
    "case", ["missing", "text", "no vp", "no spacing", "nan", "negative", "m/s"]
)
def test_bad_models_are_refused(retrograd_: Callable[..., Any], tmp_path: Path, case: str) -> None:
    path, word = bad_models(tmp_path)[case]
    said = retrograd_("gradient", "--model", path, "--out", tmp_path)
    assert (said.status, said.out) == (2, "")
    assert word in said.err
    assert len(said.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--memory", "1kB"), "give at least"),
        (("--memory", "ten"), "write a whole number"),
        (("--memory", "-3GB"), "write a whole number"),
        (("--memory", "0/4"), "fraction"),
        (("--memroy", "1/16"), 'did you mean "--memory"'),
        (("--schedule", "mixd"), "choose from"),
        (("--schedule", "keep-all", "--memory", "1/2"), "give at least"),
        (("--shots", "0"), "at least 1"),
        (("--frequency", "-1"), "positive"),
        (("--space-order", "3"), "even"),
        (("--dtype", "int8"), "choose from"),
    ],
)
def test_bad_options_are_refused(
    retrograd_: Callable[..., Any],
    model: Path,
    tmp_path: Path,
    words: tuple[str, ...],
    message: str,
) -> None:
    said = retrograd_("gradient", "--model", model, "--out", tmp_path, *words)
    assert (said.status, said.out) == (2, "")
    assert message in said.err
    assert len(said.err.strip().splitlines()) == 1


def test_an_output_directory_that_cannot_be_made(
    retrograd_: Callable[..., Any], model: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    said = retrograd_("gradient", "--model", model, "--out", file / "below")
    assert (said.status, said.out) == (2, "")
    assert "cannot be made" in said.err
    assert file.read_text() == ""


def test_on_disk_and_compressed(
    retrograd_: Callable[..., Any], model: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "a scratch directory"
    scratch.mkdir()
    common = ("gradient", "--model", model, "--check", "--json", "--out", tmp_path / "out")
    disk = ("--memory", "1/4", "--disk", "1GB", "--scratch", scratch, "--schedule", "blocks")
    for compress in ((), ("--compress", "lossless")):
        found = retrograd_(*common, *disk, *compress).json
        assert found["bitwise_equal_to_keep_all"] is True
        assert found["disk"]["written_nbytes"] > 0
        assert found["peak_checkpoint_bytes"] <= found["memory_budget_bytes"]
        assert ("ratio" in found["disk"]) == bool(compress)
        assert list(scratch.iterdir()) == []
    said = retrograd_(*common, *disk, "--compress", "1e-3")
    assert said.status == 0
    assert said.json["bitwise_equal_to_keep_all"] is False
    assert 0 < said.json["relative_error"] < 0.01
    packed = ("--memory", "1/4", "--schedule", "tiered-mixed", "--compress", "lossless")
    assert retrograd_(*common, *packed).json["bitwise_equal_to_keep_all"] is True


def test_a_finished_directory_is_not_run_again(
    retrograd_: Callable[..., Any], model: Path, tmp_path: Path
) -> None:
    common = ("gradient", "--model", model, "--json", "--shots", 2, "--out", tmp_path / "out")
    kept = ("--resume", tmp_path / "kept", "--interval", 0)
    first, again = (retrograd_(*common, *kept).json for _ in range(2))
    assert (first["resumed"], first["gradient_norm"]) == ([], again["gradient_norm"])
    assert again["forward_steps"] == 0
    assert again["resumed"][1] == "shot 1: it had been finished before, and nothing was run"
    other = retrograd_(*common, *kept, "--frequency", 5)
    assert other.status != 0
    assert "belongs to another run" in other.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--scratch", "/nowhere/at/all", "--disk", "1GB"), "name an existing directory"),
        (("--disk", "lots"), "is not a budget"),
        (("--compress", "2"), "compress"),
        (("--resume", "/proc/nothing"), "cannot be used"),
    ],
)
def test_tiers_that_cannot_be(
    retrograd_: Callable[..., Any], model: Path, tmp_path: Path, options: Any, words: str
) -> None:
    said = retrograd_("gradient", "--model", model, "--out", tmp_path, *options)
    assert said.status != 0
    assert words in said.err
