"""`walrow tables`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_tables_are_lines_with_notes(data: Path, invoke: Callable[..., str]) -> None:
    text = invoke("tables", data / "alter-columns.text.wire")
    table, notes = text.split("\n\n")
    head, shape = table.splitlines()
    assert head.split()[0] == "table"
    assert shape.split()[:7] == ["public.shape", "4", "default", "4", "2", "1", "0"]
    assert [line.split(": ")[:2] for line in notes.splitlines()] == [
        ["public.shape", "column-added"],
        ["public.shape", "column-dropped"],
        ["public.shape", "type-changed"],
    ]


def test_columns_are_listed_on_request(data: Path, invoke: Callable[..., str]) -> None:
    text = invoke("tables", "--columns", data / "rows.text.wire")
    assert "public.item: version 1: id* int4, label text, amount numeric(12,2)" in text
    assert "public.stock: version 1: note text, site* int4, shelf* text" in text


def test_unknown_types_name_their_columns(
    data: Path, invoke: Callable[..., str]
) -> None:
    text = invoke("tables", data / "types-user.text.wire")
    assert "public.own: column a contains unknown types, OID " in text


def test_json_has_one_object_for_each_table(
    data: Path, invoke: Callable[..., str]
) -> None:
    lines = invoke("tables", "--json", data / "rows.text.wire").splitlines()
    item, stock = map(json.loads, lines)
    assert item["name"] == "public.item"
    assert (item["inserts"], item["updates"], item["deletes"]) == (4, 3, 2)
    assert item["first"] == {
        "lsn": "0/886ABD0",
        "time": "2026-11-21T04:46:44.481340+00:00",
    }
    assert stock["versions"][0]["columns"][1] == {
        "name": "site",
        "type": "int4",
        "type_oid": 23,
        "arrow_type": "int32",
        "key": True,
        "unresolved": [],
        "number": None,
    }
    assert stock["notes"] == []


def test_a_terminal_shows_a_grid(data: Path, on_terminal: Callable[..., str]) -> None:
    shown = on_terminal("tables", data / "rows.text.wire")
    assert "│ public.item" in shown
    assert "0/886B250 2026-11-21T04:46:44Z" in shown


@pytest.mark.parametrize("mode", [(), ("--json",)], ids=str)
def test_captures_that_end_early_show_what_is_whole(
    data: Path, run: Any, mode: tuple[str, ...]
) -> None:
    whole = (data / "rows.text.wire").read_bytes()
    found = run("tables", *mode, "-", input=whole[:-60])
    assert found.returncode == 3
    assert b"public.item" in found.stdout
    assert b"the capture ends inside a frame or a transaction" in found.stderr
    found = run("tables", *mode, data / "error-terminated.text.wire")
    assert found.returncode == 4
    assert b"public.item" in found.stdout
    assert b"57P01" in found.stderr
    found = run("tables", *mode, "-", input=b"\xff" * 100)
    assert found.returncode == 1
    assert found.stderr.startswith(b"walrow: ")


def test_an_empty_capture_has_no_tables(run: Any) -> None:
    found = run("tables", "-", input=b"")
    assert (found.returncode, found.stderr) == (0, b"")
    assert run("tables", "--json", "-", input=b"").stdout == b""
