"""The README is true: its Devito example runs, and its plan is what the command prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import devito
import numpy as np
import pytest

from retrograd.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_devito_example_gives_keep_alls_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty lines that a newcomer pastes; compared with ``apply`` on an allocated wavefield."""
    (example,) = (b for b in re.findall(r"```python\n(.*?)```", README, re.S) if "Operator(" in b)
    assert len([line for line in example.splitlines() if line.strip()]) <= 20
    names: dict[str, Any] = {}
    exec(example, names)
    assert "forward steps for 998" in capsys.readouterr().out
    ours = np.array(names["grad"].data)
    wavefield = devito.TimeFunction(
        name="u", grid=names["grid"], time_order=2, space_order=8, save=names["nt"]
    )
    names["rec"].data[:] = 0
    options = {"dt": names["dt"]}
    names["forward"].apply(u=wavefield, **options)
    names["v"].data_with_halo[:] = 0
    names["grad"].data_with_halo[:] = 0
    names["gradient"].apply(u=wavefield, **options)
    assert np.array_equal(ours, names["grad"].data)
    assert np.abs(ours).max() > 0


def test_the_plan_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    command, printed = re.search(
        r"\$ retrograd (plan (?:.*\\\n)*.*)\n((?:.*\n)*?)…", README
    ).groups()
    assert main(command.replace("\\\n", " ").split()) == 0
    assert capsys.readouterr().out.startswith(printed)
