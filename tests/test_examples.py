"""The examples run, stay short, and compute what they say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def statements(path: Path) -> list[str]:
    """Lines of code, without the module's own text, imports and blank lines."""
    code = path.read_text().split('"""')[2].splitlines()
    return [line for line in code if line.strip() and not line.startswith(("import", "from"))]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_it_is_short(path: Path) -> None:
    assert len(statements(path)) < 40


def test_own_equation_has_the_derivative_of_its_misfit(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, Any] = runpy.run_path(str(EXAMPLES / "own_equation.py"))
    assert "records held T" in capsys.readouterr().out
    kappa, recorded, run = found["kappa"], found["recorded"], found["run"]
    observed = 0.9 * np.array(recorded.data, dtype=np.float64)
    change = 0.05 * np.ones(kappa.shape)
    slope = float(np.vdot(found["gradient"].data, change))

    def misfit(step: float) -> float:
        kappa.data[:] = 0.5 + step * change
        run.forward(keep=False, dt=4e-5)
        return 0.5 * float(((np.array(recorded.data, dtype=np.float64) - observed) ** 2).sum())

    difference = (misfit(0.1) - misfit(-0.1)) / 0.2
    assert slope == pytest.approx(difference, rel=1e-3)
