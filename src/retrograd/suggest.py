"""The nearest valid name, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, valid: Iterable[str]) -> str:
    """A phrase that offers the nearest valid name, or nothing.

    >>> nearest("memroy", ["memory", "steps"])
    ' (did you mean "memory"?)'
    """
    close = difflib.get_close_matches(name, list(valid), n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""
