"""BibTeX: valid, complete, and the same as CITATION.cff."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retrograd.citations import CITATIONS, RETROGRAD, cite
from retrograd.errors import InvalidArgument
from retrograd.families import NAMES

ROOT = Path(__file__).parent.parent
REQUIRED = {
    "article": {"author", "title", "journal", "year", "doi"},
    "techreport": {"author", "title", "institution", "year"},
    "misc": {"author", "title"},
}
ENTRIES = {entry.key: entry for entries in CITATIONS.values() for entry in entries}


def parse(text: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Entries by key, as (kind, fields); whatever BibTeX would not read is an error."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    at = 0
    while match := re.compile(r"\s*@(\w+)\{([\w:-]+),").match(text, at):
        kind, key = match.groups()
        fields: dict[str, str] = {}
        at = match.end()
        while field := re.compile(r"\s*(\w+)\s*=\s*\{").match(text, at):
            at = start = field.end()
            depth = 1
            while depth:
                depth += {"{": 1, "}": -1}.get(text[at], 0)
                at += 1
            assert field[1] not in fields
            fields[field[1]] = text[start : at - 1]
            assert text[at] == ","
            at += 1
        end = re.compile(r"\s*\}").match(text, at)
        assert end, text[at:]
        at = end.end()
        assert key not in found
        found[key] = (kind, fields)
    assert text[at:].strip() == ""
    return found


@pytest.mark.parametrize("name", CITATIONS)
def test_entries_are_valid_and_complete(name) -> None:
    text = cite(name)
    assert text.isascii()
    found = parse(text)
    assert list(found) == [entry.key for entry in CITATIONS[name]]
    for kind, fields in found.values():
        assert REQUIRED[kind] <= set(fields)
        assert all(value.strip() == value and value for value in fields.values())
        assert "&" not in "".join(fields.values())
        if "doi" in fields:
            assert re.fullmatch(r"10\.\d{4,5}/[\w.()/-]+", fields["doi"])
        if "eprint" in fields:
            assert re.fullmatch(r"\d{4}\.\d{5}", fields["eprint"])
            assert fields["archiveprefix"] == "arXiv"
        if "year" in fields:
            assert re.fullmatch(r"(19|20)\d\d", fields["year"])
        if "pages" in fields:
            assert re.fullmatch(r"C?\d+(--C?\d+)?", fields["pages"])


def test_the_parser_refuses_what_is_wrong() -> None:
    right = RETROGRAD.bibtex()
    assert parse(right)["retrograd"][1] == RETROGRAD.fields
    for wrong in (right[:-1], right.replace("},", "}"), right + "\n\n" + right, right + "}"):
        with pytest.raises((AssertionError, IndexError)):
            parse(wrong)


def test_a_key_names_one_entry_and_a_doi_one_key() -> None:
    for entries in CITATIONS.values():
        assert all(ENTRIES[entry.key] == entry for entry in entries)
    dois = [entry.fields["doi"] for entry in ENTRIES.values() if "doi" in entry.fields]
    assert len(dois) == len(set(dois))


def test_every_schedule_that_the_planner_knows_can_be_cited() -> None:
    assert set(NAMES) - {"auto"} <= set(CITATIONS)


def plain(latex: str) -> str:
    """A title or author without braces and accents."""
    return latex.replace('{\\"u}', "ü").replace("{", "").replace("}", "")


def test_the_citation_file_says_the_same() -> None:
    cff = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    head, *references = re.split(r"\n  - type:", cff)
    assert f'title: "{plain(RETROGRAD.fields["title"])}"' in head
    assert f'name: "{plain(RETROGRAD.fields["author"])}"' in head
    by_title = {plain(entry.fields["title"]): entry for entry in ENTRIES.values()}
    assert references
    for reference in references:
        title = re.search(r'title: "(.*)"', reference)
        assert title
        fields = by_title[title[1]].fields
        assert f"year: {fields['year']}" in reference
        names = re.findall(r"family-names: (.*?), given-names: (.*?)\}", reference)
        assert " and ".join(f"{last}, {first}" for last, first in names) == plain(fields["author"])
        doi = re.search(r"doi: (\S+)", reference)
        assert doi is None or doi[1] == fields["doi"]


def test_no_year_or_volume_is_invented_for_our_own() -> None:
    assert set(RETROGRAD.fields) == {"author", "title", "note"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "mixd",
            r'there is no schedule \'mixd\' \(did you mean "mixed"\?\): write one of keep-all',
        ),
        ("H-Revolve", 'did you mean "h-revolve"'),
        ("auto", "write one of"),
        ("", "write one of"),
    ],
)
def test_unknown_names(name, message) -> None:
    with pytest.raises(InvalidArgument, match=message):
        cite(name)
