"""docs/types.md says what the code does, of every type there is."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("pyarrow")

import types_page

TEXT = types_page.PAGE.read_text("utf-8")


def test_tables_are_what_the_code_gives() -> None:
    stale = "docs/types.md is stale: python tests/python/types_page.py (or make types)"
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
    """A choice that no row shows is one that the page hides."""
    cells = " ".join(
        " ".join(row.split("|")[2:4])
        for _, _, rows in types_page.tables(TEXT)
        for row in rows
    )
    shown = {types_page.general(each) for each in types_page.CANDIDATES}
    assert {each for each in shown if f"`{each}`" not in cells} == set()
