"""docs/types.md agrees with the code for every type."""

from __future__ import annotations

import re
from collections import Counter

import pytest

pytest.importorskip("pyarrow")

import type_cases
import types_page
import walrow
from walrow import postgres

TEXT = types_page.PAGE.read_text("utf-8")


def test_tables_are_generated_from_the_code() -> None:
    stale = "docs/types.md is stale: python tests/types_page.py (or make types)"
    assert types_page.renewed(TEXT) == TEXT, stale


def test_every_type_has_one_row() -> None:
    rows = [
        row
        for header, _, rows in types_page.tables(TEXT)
        if header == types_page.PROFILES
        for row in rows
    ]
    found = Counter(name for row in rows for name in types_page.types_of(row))
    assert types_page.needed() - set(found) == set()
    assert [name for name, count in found.items() if count > 1] == []


def test_every_choice_is_one_of_some_type() -> None:
    """A choice that no row shows is missing on the page."""
    cells = " ".join(
        " ".join(row.split("|")[2:4])
        for _, _, rows in types_page.tables(TEXT)
        for row in rows
    )
    shown = {types_page.general(each) for each in types_page.CANDIDATES}
    assert {each for each in shown if f"`{each}`" not in cells} == set()


def test_choices_in_the_notes_are_accepted() -> None:
    choices = 0
    for header, _, rows in types_page.tables(TEXT):
        for row in rows if header == types_page.PROFILES else []:
            for wanted in re.findall(r'"([a-z]\w+[^"]*)"[`}]', row.split("|")[4]):
                for name in types_page.types_of(row):
                    catalog = type_cases.catalog({name: types_page.named()[name]})
                    walrow.schema(catalog, "t", types={name: wanted})
                    choices += 1
    assert choices


def test_pinned_settings_are_those_of_the_table() -> None:
    _, _, part = TEXT.partition("| setting | pinned |")
    found = dict(re.findall(r"^\| `(\w+)` \| `?([\w]+)`? \|", part, re.MULTILINE))
    pinned = {**postgres.settings(), "search_path": "empty"}
    assert found == pinned
