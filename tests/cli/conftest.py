"""A small model in a file, and the command line in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrograd.cli import main


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def retrograd_(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run a command in this process."""

    def run(*words: object) -> Said:
        try:
            status = main([str(word) for word in words])
        except SystemExit as left:
            status = int(left.code or 0)
        return Said(status, *capsys.readouterr())

    return run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two layers on 24 × 18 points."""
    vp = np.full((24, 18), 1.8, dtype=np.float32)
    vp[:, 9:] = 2.4
    path = tmp_path / "two layers.npz"
    np.savez(path, vp=vp, spacing=np.array([20.0, 20.0]))
    return path
