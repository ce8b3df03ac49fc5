"""How much memory this process holds, as the system counts it."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_resident_nbytes() -> int:
    """The most bytes that were resident at any time so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_nbytes() -> int:
    """Bytes that are resident now; the peak so far where the system does not tell."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return peak_resident_nbytes()
