"""Checks the golden captures with the reference reader, and the reader with them."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from reference import counts, fold, messages
from reference import reader as r

TESTS = Path(__file__).resolve().parent.parent

DATA = TESTS / "data"
CAPTURES = sorted(DATA.glob("[0-9]*/*.wire"))
MESSAGES = [path for path in CAPTURES if ".physical." not in path.name]
PAIRS = [p for p in MESSAGES if p.name.endswith(".binary.wire")]
ALL_TAGS = set("BCORYIUDTMSEcAbPKrp")


def sibling(path: Path, suffix: str) -> Path:
    return path.with_name(path.name.split(".")[0] + suffix)


def identify(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.wire')}"


def of(path: Path) -> list[Any]:
    return [m for _, m in messages(path.read_bytes()) if m is not None]


FOLDABLE = [
    path
    for path in MESSAGES
    if json.loads(sibling(path, ".meta.json").read_text())["foldable"]
    # If a scenario uses later protocols, the same history is also recorded in protocol 1.
    and path.name.endswith(
        ".v1.wire" if sibling(path, ".v1.wire").exists() else ".text.wire"
    )
]


def test_captures_are_there_and_show_every_message() -> None:
    assert len(FOLDABLE) > 70
    for major in ("16", "18"):
        tags: Counter[str] = Counter()
        for path in MESSAGES:
            if path.parent.name == major:
                tags.update(counts(path.read_bytes())["messages"])
        assert set(tags) == ALL_TAGS


@pytest.mark.parametrize("path", CAPTURES, ids=identify)
def test_recording_begins_with_copy_both_and_every_byte_is_in_a_frame(
    path: Path,
) -> None:
    data = path.read_bytes()
    found = counts(data, physical=path not in MESSAGES)
    assert data[:1] == b"W"
    assert found["frames"]["W"] == 1
    assert found["bytes"] == len(data)
    assert found["frames"].get("w", 0) >= sum(found["messages"].values())


@pytest.mark.parametrize("path", MESSAGES, ids=identify)
def test_begin_and_commit_agree(path: Path) -> None:
    begin = None
    for message in of(path):
        if isinstance(message, r.Begin):
            assert begin is None
            begin = message
        elif isinstance(message, r.Commit):
            assert begin is not None
            assert begin.final_lsn == message.commit_lsn < message.end_lsn
            assert begin.commit_time == message.commit_time
            begin = None
    ended_by_error = counts(path.read_bytes())["frames"].get("E", 0)
    assert begin is None or ended_by_error


@pytest.mark.parametrize("path", MESSAGES, ids=identify)
def test_rows_have_the_columns_of_their_relation(path: Path) -> None:
    relations = {}
    for message in of(path):
        if isinstance(message, r.Relation):
            relations[message.oid] = message
        for row in (getattr(message, "old", ()), getattr(message, "new", ())):
            if row:
                assert len(row) == len(relations[message.relation].columns)


@pytest.mark.parametrize("path", PAIRS, ids=identify)
def test_text_and_binary_have_the_same_messages(path: Path) -> None:
    text = path.with_name(path.name.replace(".binary.", ".text."))
    if not text.exists():
        pytest.skip("only recorded in binary, since it shows an error of binary")
    assert [shape(m) for m in of(path)] == [shape(m) for m in of(text)]


def shape(message: Any) -> tuple[str, dict[str, Any]]:
    """A message without its values, but with the kinds of its cells."""
    fields = dict(vars(message))
    for name in ("old", "new"):
        if name in fields:
            fields[name] = ["v" if c.kind in "tb" else c.kind for c in fields[name]]
    return type(message).__name__, fields


@pytest.mark.parametrize("path", FOLDABLE, ids=identify)
def test_folded_rows_are_the_tables_that_the_server_had(path: Path) -> None:
    expected = json.loads(sibling(path, ".tables.json").read_text())
    tables = fold(path.read_bytes())
    assert expected
    for name, table in expected.items():
        found = tables.get(table["oid"])
        if found is None:
            # The stream has no message about it, so it must be empty.
            assert table["rows"] == [], name
            continue
        columns = [
            {"name": c.name, "oid": c.type_oid, "typmod": c.typmod}
            for c in found.relation.columns
        ]
        assert columns == [
            {k: c[k] for k in ("name", "oid", "typmod")} for c in table["columns"]
        ]
        assert (found.relation.schema, found.relation.name) == (
            table["schema"],
            table["name"],
        )
        assert found.sorted_rows() == table["rows"]


def test_reader_refuses_cut_and_unknown_frames() -> None:
    good = next(path for path in MESSAGES if path.name == "rows.text.wire").read_bytes()
    for bad in (good[:-1], good + b"d", good + b"d\0\0\0\3", good + b"d\0\0\0\5x"):
        with pytest.raises(ValueError, match=r"cut short|unknown kind"):
            list(messages(bad))
