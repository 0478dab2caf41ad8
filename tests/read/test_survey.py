"""`walrow.tables`: counts, versions and notes, against the reference reader and PostgreSQL."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from captures import Capture, capture, captures
from reference import committed

EPOCH = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize("recorded", captures("text", "binary", "v1"), ids=str)
def test_counts_and_commits_are_the_references(recorded: Capture) -> None:
    counts: Counter[tuple[int, str]] = Counter()
    commits: dict[int, list[tuple[int, dt.datetime]]] = {}
    unsent: Counter[tuple[int, str]] = Counter()
    for transaction in committed(recorded.data):
        time = EPOCH + dt.timedelta(microseconds=transaction.commit_time)
        for change in transaction.changes:
            oid = change.relation.oid
            counts[oid, change.kind] += 1
            commits.setdefault(oid, []).append((transaction.commit_lsn, time))
            if change.old_kind != "O" and any(c.kind == "u" for c in change.new):
                unsent[oid, change.kind] += 1
    found = walrow.tables(recorded.path)
    assert {
        (table.oid, kind): number
        for table in found
        for kind, number in [
            ("insert", table.inserts),
            ("update", table.updates),
            ("delete", table.deletes),
            ("truncate", table.truncates),
        ]
        if number
    } == counts
    for table in found:
        first_and_last = [
            (commit.lsn, commit.time) for commit in (table.first, table.last) if commit
        ]
        of_table = commits.get(table.oid, [])
        assert first_and_last == [*of_table[:1], *of_table[-1:]]
        versions = table.versions
        lacking = sum(version.inserts_with_unsent for version in versions)
        assert lacking == unsent[table.oid, "insert"]
        lacking = sum(version.updates_with_unsent for version in versions)
        assert lacking == unsent[table.oid, "update"]


#: Names of `format_type`, where they are not those of the catalog.
WRITTEN = {
    '"char"': "char",
    "integer": "int4",
    "bigint": "int8",
    "smallint": "int2",
    "boolean": "bool",
    "real": "float4",
    "double precision": "float8",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
    "time without time zone": "time",
    "time with time zone": "timetz",
    "bit varying": "varbit",
}


def written(name: str) -> str:
    """A type as `format_type` writes it, under walrow's name."""
    name, brackets = name.removesuffix("[]"), "_" if name.endswith("[]") else ""
    base, bracket, modifier = name.partition("(")
    end = modifier.partition(")")[2]
    name = WRITTEN.get(base + end, base + end)
    name = name.replace("character varying", "varchar").replace("character", "bpchar")
    return f"{brackets}{name}{bracket}{modifier.partition(')')[0]}{')' * bool(bracket)}"


@pytest.mark.parametrize(
    "name", ["rows", "types-numeric", "types-time", "text-corners", "schemas"]
)
def test_columns_and_keys_are_those_of_postgresql(name: str) -> None:
    recorded = capture(name)
    found = walrow.tables(recorded.path)
    assert len(found) == len(recorded.tables)
    for wanted in recorded.tables.values():
        table = found.find(wanted["oid"])
        [version] = table.versions
        assert version.key_columns == wanted["key"]
        assert [(each.name, each.type, each.type_oid) for each in version.columns] == [
            (each["name"], written(each["type"]), each["oid"])
            for each in wanted["columns"]
        ]


def codes(name: str) -> dict[str, list[str]]:
    found = walrow.tables(capture(name).path)
    return {table.name: [note.code for note in table.notes] for table in found}


def test_notes_say_what_cannot_be_folded() -> None:
    assert codes("rows") == {"public.item": [], "public.stock": []}
    assert codes("alter-columns") == {
        "public.shape": ["column-added", "column-dropped", "type-changed"]
    }
    assert codes("alter-names") == {
        "public.item": ["column-renamed", *["table-renamed"] * 3]
    }
    assert codes("identity-nothing") == {
        "public.nameless": ["identity-nothing"],
        "public.keyless": ["no-key"],
    }
    assert codes("identity-change") == {"public.shifting": ["key-changed"] * 2}
    assert codes("row-filter-toast") == {
        "public.job": ["insert-without-values", "update-without-values"]
    }
    assert codes("update-toast-key") == {"public.deep": ["update-without-values"]}
    # The old row contains the values.
    assert codes("update-toast-full") == {"public.paper": []}
    assert codes("partitions-root")["public.event"] == ["truncate"]
    recreated = walrow.tables(capture("recreate").path)
    assert [table.name for table in recreated] == ["public.phoenix"] * 3
    assert {note.code for table in recreated for note in table.notes} == {"name-reused"}


def test_notes_name_columns_and_versions() -> None:
    [table] = walrow.tables(capture("alter-columns").path)
    added, dropped, changed = [note.text for note in table.notes]
    assert added.startswith("d appeared in version 2: ")
    assert dropped == "a disappeared in version 3"
    assert changed.startswith("the type of b changed from int4 to text in version 4: ")


def defined(lsn: int, columns: dict[str, int], *, is_told: bool = True) -> bytes:
    """A transaction that changes the table's definition, and inserts a row."""
    command = {
        "command": "ALTER TABLE",
        "schema": "public",
        "table": "t",
        "oid": streams.TABLE,
        "columns": [
            {"number": number, "name": name, "type": 23, "type_modifier": -1}
            for name, number in columns.items()
        ],
    }
    found = [streams.Column(name, 23) for name in columns]
    messages = [
        streams.begin(lsn=lsn),
        streams.message("walrow.ddl", json.dumps(command).encode()) if is_told else b"",
        streams.relation(found),
        streams.insert(["1" for _ in columns]),
        streams.commit(lsn),
    ]
    return streams.wired(*filter(None, messages))


def test_commands_tell_a_renamed_column_from_another_one() -> None:
    history = [{"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 2, "b": 4}]
    notes = {
        True: [
            "b became c in version 2: the values of old rows are under b; rename the "
            "column, or read the table again",
            "b appeared in version 2: old rows have the column's default, which is not in "
            "the stream; if it is not NULL, read the table again",
            "c disappeared in version 2",
        ],
        # By their names, nothing happened to the columns.
        False: [],
    }
    for is_told, texts in notes.items():
        stream = b"".join(
            defined(lsn, columns, is_told=is_told)
            for lsn, columns in zip((0x1000, 0x2000), history, strict=True)
        )
        [table] = walrow.tables(stream)
        assert [note.text for note in table.notes if note.code != "no-key"] == texts
        assert [ddl.commit.lsn for ddl in table.ddl] == [0x1000, 0x2000][: 2 * is_told]


def test_numbers_of_another_definition_are_not_taken() -> None:
    # The second command is not in the stream: a is another column now.
    first = defined(0x1000, {"a": 1, "b": 2})
    second = defined(0x2000, {"b": 2, "a": 3}, is_told=False)
    [table] = walrow.tables(first + second)
    numbers = [[it.number for it in version.columns] for version in table.versions]
    assert numbers == [[1, 2], [None, None]]
    # Anybody can write such a message.
    for content in (b"", b"{}", b'{"oid": 1}', b"\xff", b"[]"):
        frames = streams.wired(
            streams.begin(), streams.message("walrow.ddl", content), streams.commit()
        )
        assert walrow.tables(frames) == ()


def test_unresolved_types_have_their_columns(tmp_path: Path) -> None:
    recorded = capture("types-user")
    [table] = walrow.tables(recorded.path)
    columns = {each.name: each for each in table.unresolved}
    assert columns["a"].type == "mood"
    assert columns["a"].unresolved == (columns["a"].type_oid,)
    assert columns["a"].arrow_type == "string"
    assert "id" not in columns
    path = tmp_path / "catalog.json"
    mood = columns["a"].type_oid
    path.write_text(
        f'{{"types": [{{"oid": {mood}, "schema": "public", "name": "mood",'
        ' "kind": "enum", "labels": ["low"]}]}'
    )
    [table] = walrow.tables(recorded.path, catalog=path)
    assert "a" not in [each.name for each in table.unresolved]


def test_a_table_is_found_by_name_and_oid() -> None:
    found = walrow.tables(capture("recreate").path)
    oids = [table.oid for table in found]
    assert found.find(oids[1]) is found[1]
    with pytest.raises(LookupError, match=f"several tables.*{oids[0]}.*{oids[2]}"):
        found.find("phoenix")
    found = walrow.tables(capture("rows").path)
    assert found.find("item") is found.find("public.item") is found[0]
    with pytest.raises(LookupError, match=r"did you mean public\.stock\?"):
        found.find("stok")
    with pytest.raises(LookupError, match=r"no table xyz$"):
        found.find("xyz")


def test_a_definition_of_another_session_is_no_version() -> None:
    [table] = walrow.tables(capture("sessions").path)
    assert len(table.versions) == 1


def test_streams_that_end_early_are_marked() -> None:
    data = capture("rows").data
    whole = walrow.tables(data)
    assert (whole.unfinished, whole.server_error) == (False, None)
    cut = walrow.tables(data[:-60])
    assert cut.unfinished
    assert walrow.tables(capture("error-terminated").path).server_error == "57P01"


def test_tables_show_themselves() -> None:
    found = walrow.tables(capture("rows").path)
    assert repr(found[0]) == (
        "<walrow.Table public.item: 1 version, 4 inserts, 3 updates, 2 deletes, "
        "0 truncates>"
    )
    head, item, stock = repr(found).splitlines()
    assert head.split()[:4] == ["table", "versions", "identity", "inserts"]
    assert item.split()[:7] == ["public.item", "1", "default", "4", "3", "2", "0"]
    assert stock.split()[:7] == ["public.stock", "1", "default", "3", "2", "1", "0"]
    shown: Any = found._repr_html_()
    assert "<td>public.item</td>" in shown
    assert shown.startswith("<table><caption><b>2 tables</b></caption>")
    assert type(found)(found[:1])._repr_html_()[16:].startswith("<b>1 table</b>")
