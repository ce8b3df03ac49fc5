"""``retrograd cite``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from retrograd.citations import CITATIONS, cite


@pytest.mark.parametrize("name", CITATIONS)
def test_entries_are_printed(retrograd_: Callable[..., Any], name: str) -> None:
    said = retrograd_("cite", name)
    assert (said.status, said.err) == (0, "")
    assert said.out == cite(name) + "\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("revolv",), 'did you mean "revolve"'),
        (("auto",), "write one of keep-all"),
        ((), "SCHEDULE"),
        (("mixed", "revolve"), "unrecognized"),
        (("mixed", "--bibtex"), "there is no option --bibtex"),
    ],
)
def test_bad_input_is_refused(
    retrograd_: Callable[..., Any], words: tuple[str, ...], message: str
) -> None:
    said = retrograd_("cite", *words)
    assert (said.status, said.out) == (2, "")
    assert message in said.err
    assert len(said.err.strip().splitlines()) == 1
