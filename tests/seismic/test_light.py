"""Importing the application loads none of the frameworks it may use."""

from __future__ import annotations

import subprocess
import sys


def test_models_and_acquisition_need_numpy_alone() -> None:
    code = (
        "import sys, retrograd.seismic as s; m = s.marmousi(20); "
        "s.surface_acquisition(m, frequency_hz=6.0); "
        "loaded = {'devito', 'scipy', 'matplotlib', 'sympy'} & set(sys.modules); "
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
