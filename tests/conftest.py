"""Settings that must stand before Devito is imported."""

from __future__ import annotations

import os

# Grids are tiny: a second thread only waits for the first one, the more so on a busy machine.
# Tests that are about threads ask for them.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("DEVITO_LOGGING", "ERROR")
