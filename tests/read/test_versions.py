"""Schemas, columns and keys: no column is left out unless the options say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from captures import capture, captures
from streams import Column

pa = pytest.importorskip("pyarrow")


INT2, INT4, INT8, TEXT, NUMERIC = 21, 23, 20, 25, 1700
ID = Column("id", INT4, is_key=True)


def typmod(precision: int, scale: int) -> int:
    return (precision << 16 | scale) + 4


def versions(*each: tuple[list[Column], list[list[Any]]], name: str = "t") -> bytes:
    """A transaction for each version of a table, with its rows."""
    parts = [streams.SESSION]
    for place, (columns, rows) in enumerate(each, 1):
        lsn = 0x1000 * place
        parts.append(
            streams.wired(
                streams.begin(lsn=lsn),
                streams.relation(columns, name=name),
                *map(streams.insert, rows),
                streams.commit(lsn),
            )
        )
    return b"".join(parts)


def rows(data: Any, **options: Any) -> list[dict[str, Any]]:
    batches = walrow.read(data, metadata=(), **options)
    return [row for batch in batches for row in pa.record_batch(batch).to_pylist()]


#: CREATE TABLE t (id, a); ADD COLUMN price; RENAME a TO title.
ADDED = versions(
    ([ID, Column("a", TEXT)], [["1", "one"]]),
    ([ID, Column("a", TEXT), Column("price", INT4)], [["2", "two", "20"]]),
    ([ID, Column("title", TEXT), Column("price", INT4)], [["3", "three", "30"]]),
)


# ----------------------------------------------------------------------------- strictness


def test_a_version_with_more_columns_than_the_schema_is_an_error() -> None:
    schema = pa.schema([("id", pa.int32()), ("a", pa.string())])
    reader = walrow.read(ADDED, table="t", schema=schema, metadata=())
    assert pa.record_batch(next(reader)).to_pylist() == [{"id": 1, "a": "one"}]
    with pytest.raises(
        walrow.errors.SchemaError, match=r"the column price, which the"
    ) as e:
        next(reader)
    assert e.value.table == "public.t"
    # The path of the capture names the version.
    assert "lsn 0/2000" in str(e.value)
    with pytest.raises(
        walrow.errors.SchemaError, match="the columns title, price, which"
    ):
        rows(
            versions(
                ([ID, Column("title", TEXT), Column("price", INT4)], [["3", "", "3"]])
            ),
            table="t",
            schema=schema,
        )


def test_columns_leave_the_others_out_by_name() -> None:
    schema = pa.schema([("id", pa.int32()), ("a", pa.string())])
    found = rows(ADDED, table="t", schema=schema, columns=["id", "a"])
    assert found == [{"id": 1, "a": "one"}, {"id": 2, "a": "two"}, {"id": 3, "a": None}]
    found = rows(ADDED, table="t", columns=["id"])
    assert found == [{"id": 1}, {"id": 2}, {"id": 3}]
    for key in ("t.id", "public.t.id"):
        assert rows(ADDED, table="t", columns=[key]) == found
    assert pa.table(walrow.read(ADDED, table="t", columns=())).column_names[0] == (
        "_change_type"
    )


def test_a_column_that_is_left_out_is_not_decoded() -> None:
    broken = versions(([ID, Column("b", INT4)], [["1", "no number"]]))
    with pytest.raises(walrow.errors.DecodeError):
        rows(broken, table="t")
    assert rows(broken, table="t", columns=["id"]) == [{"id": 1}]


def test_columns_of_every_capture_are_those_of_the_whole() -> None:
    compared = 0
    for each in captures("text")[::3]:
        read: dict[str, Any] = {"unrepresentable": "null", "unfinished": "ignore"}
        batches = walrow.read(each.path, **read)
        versions_of = {batch.table: batch.schema.names for batch in batches}
        for table, columns in versions_of.items():
            own = [name for name in columns if not name.startswith("_")]
            wanted = {f"{table}.{name}" for name in own[::2]}
            if not wanted:
                continue
            found = list(
                walrow.read(
                    each.path, columns=sorted(wanted), missing_table="ignore", **read
                )
            )
            whole = list(walrow.read(each.path, **read))
            assert len(found) == len(whole)
            for one, other in zip(found, whole, strict=True):
                narrow, wide = pa.record_batch(one), pa.record_batch(other)
                # It names only columns that the batch has.
                names = [name for name in narrow.schema.names if name != "_unsent"]
                assert set(names) <= set(wide.schema.names)
                narrow, wide = narrow.select(names), wide.select(names)
                same = narrow.equals(wide)
                assert same or repr(narrow.to_pylist()) == repr(wide.to_pylist())
                compared += 1
    assert compared > 50


def test_the_columns_of_an_envelope() -> None:
    [batch] = walrow.read(ADDED, envelope=True, columns=["id", "price"])
    data = [dict(row["data"]) for row in pa.record_batch(batch).to_pylist()]
    assert data == [{"id": "1"}, {"id": "2", "price": "20"}, {"id": "3", "price": "30"}]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"columns": ["id", "b"]}, "columns: the schema has no column b"),
        ({"columns": ["id"]}, "columns: a is in the schema, but not among the columns"),
    ],
)
def test_columns_and_schema_agree(options: Any, text: str) -> None:
    schema = pa.schema([("id", pa.int32()), ("a", pa.string()), ("_seq", pa.uint64())])
    with pytest.raises(walrow.errors.OptionError, match=text):
        walrow.Decoder(table="t", schema=schema, **options)


# ----------------------------------------------------------------------------- union


def test_a_schema_has_the_columns_of_all_versions() -> None:
    schema = walrow.schema(ADDED, "t")
    own = [name for name in schema.names if not name.startswith("_")]
    assert own == ["id", "a", "price", "title"]
    found = pa.table(walrow.read(ADDED, table="t", schema=schema))
    assert found.select(own).to_pylist() == [
        {"id": 1, "a": "one", "price": None, "title": None},
        {"id": 2, "a": "two", "price": 20, "title": None},
        {"id": 3, "a": None, "price": 30, "title": "three"},
    ]
    unsent = found["_unsent"].to_pylist()
    assert unsent == [["price", "title"], ["title"], ["a"]]


def test_sources_of_a_schema(tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    first = versions(([ID, Column("a", TEXT)], [["1", "one"]]))
    second = versions(([ID, Column("b", INT8)], [["2", "2"]]))
    (captures / "0001.wire").write_bytes(first)
    (captures / "0002.wire").write_bytes(second)
    (captures / "_SUCCESS").write_bytes(b"no capture")
    catalog = walrow.Catalog(
        '{"tables": [{"schema": "public", "name": "t", "oid": 16400,'
        ' "columns": [{"name": "id", "type": 23, "key": true}, {"name": "c", "type": 16}]}]}'
    )
    file = tmp_path / "shop.json"
    file.write_text(catalog.to_json())
    both = ["id", "a", "b"]
    for source, names in (
        (captures, both),
        (str(captures), both),
        (sorted(captures.glob("0*")), both),
        ([captures / "0002.wire", captures / "0001.wire"], ["id", "b", "a"]),
        ([catalog, captures], ["id", "c", "a", "b"]),
        ([captures, file], [*both, "c"]),
        (file, ["id", "c"]),
        (first + second, both),
        ([first, second], both),
    ):
        schema = walrow.schema(source, "t", metadata=())
        assert schema.names == names, source
        for one in (first, second) if "a" in names else ():
            assert len(rows(one, table="t", schema=schema)) == 1


WIDER = [
    ((INT2, -1, "1"), (INT4, -1, "70000"), pa.int32()),
    ((INT2, -1, "1"), (INT8, -1, str(2**40)), pa.int64()),
    ((INT4, -1, "1"), (INT8, -1, str(2**40)), pa.int64()),
    ((26, -1, "1"), (INT8, -1, "-2"), pa.int64()),
    ((700, -1, "1.5"), (701, -1, "0.1"), pa.float64()),
    (
        (NUMERIC, typmod(5, 2), "1.25"),
        (NUMERIC, typmod(7, 3), "1.125"),
        pa.decimal128(7, 3),
    ),
    (
        (NUMERIC, typmod(6, 0), "123456"),
        (NUMERIC, typmod(4, 3), "1.125"),
        pa.decimal128(9, 3),
    ),
    (
        (NUMERIC, typmod(38, 0), "1"),
        (NUMERIC, typmod(9, 8), "1.12345678"),
        pa.decimal256(46, 8),
    ),
    ((NUMERIC, typmod(5, 2), "1.25"), (NUMERIC, -1, "1e-5"), pa.string()),
    ((INT4, -1, "1"), (TEXT, -1, "one"), pa.string()),
    ((16, -1, "t"), (TEXT, -1, "one"), pa.string()),
    ((1007, -1, "{1}"), (1016, -1, "{2,NULL}"), pa.list_(pa.int64())),
    ((3904, -1, "[1,2)"), (3926, -1, "[1,2)"), None),
    ((114, -1, "[1]"), (TEXT, -1, "one"), pa.string()),
    (
        (2950, -1, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        (TEXT, -1, "one"),
        pa.string(),
    ),
]


@pytest.mark.parametrize("profile", ["arrow", "spark"])
@pytest.mark.parametrize(("narrow", "wide", "wanted"), WIDER)
def test_a_column_gets_a_type_that_holds_all_versions(
    narrow: Any, wide: Any, wanted: Any, profile: Any
) -> None:
    for one, other in ((narrow, wide), (wide, narrow)):
        data = versions(
            *(
                ([ID, Column("v", oid, mod)], [["1", cell]])
                for oid, mod, cell in (one, other)
            )
        )
        if profile == "spark" and wanted == pa.decimal256(46, 8):
            with pytest.raises(
                walrow.errors.SchemaError, match="no type holds the values of both"
            ):
                walrow.schema(data, "t", profile=profile)
            continue
        options: Any = {"table": "t", "profile": profile}
        schema = pa.schema(walrow.schema(data, metadata=(), **options))
        if wanted is not None:
            assert schema.field("v").type == wanted
        found = pa.table(walrow.read(data, schema=schema, metadata=(), **options))
        assert found["v"].null_count == 0
        if wanted == pa.string():
            # The text profile writes the same text: nothing is lost.
            for place, (oid, mod, cell) in enumerate((one, other)):
                alone = versions(([ID, Column("v", oid, mod)], [["1", cell]]))
                [text] = rows(alone, table="t", profile="text")
                assert found["v"][place].as_py() == text["v"]
        else:
            again = [
                pa.table(
                    walrow.read(
                        versions(([ID, Column("v", oid, mod)], [["1", cell]])),
                        metadata=(),
                        **options,
                    )
                )["v"][0].as_py()
                for oid, mod, cell in (one, other)
            ]
            assert found["v"].to_pylist() == again


def test_a_column_without_a_common_type_names_versions_and_types() -> None:
    data = versions(
        ([ID, Column("v", 16)], [["1", "t"]]), ([ID, Column("v", INT4)], [["2", "7"]])
    )
    with pytest.raises(walrow.errors.SchemaError) as caught:
        walrow.schema(data, "t")
    text = str(caught.value)
    assert "is bool in one version (the source, lsn 0/1000)" in text
    assert "and int32 in another (the source, lsn 0/2000)" in text
    assert (caught.value.table, caught.value.column) == ("public.t", "v")
    [remedy] = caught.value.remedies
    options: Any = remedy.options()
    assert options == {"types": {"public.t.v": "string"}}
    schema = walrow.schema(data, "t", metadata=(), **options)
    found = rows(data, table="t", schema=schema)
    assert [row["v"] for row in found] == ["t", "7"]


@pytest.mark.parametrize(
    "name", ["alter-columns", "types-alter", "alter-names", "recreate"]
)
@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
def test_schemas_of_altered_tables_take_every_row(name: str, profile: Any) -> None:
    each = capture(name)
    counts: dict[str, int] = {}
    for batch in walrow.read(each.path):
        counts[batch.table] = counts.get(batch.table, 0) + batch.num_rows
    assert counts
    for table, number in counts.items():
        options: Any = {"table": table, "profile": profile, "unrepresentable": "null"}
        try:
            schema = walrow.schema(each.path, **options)
        except walrow.errors.SchemaError as error:
            types: dict[str, str] = {}
            while True:
                [remedy] = error.remedies
                types |= remedy.options()["types"]
                try:
                    schema = walrow.schema(each.path, types=types, **options)
                    break
                except walrow.errors.SchemaError as next_error:
                    assert len(types) < 20
                    error = next_error
        for record in ("text", "binary"):
            path = each.beside(record).path
            found = pa.table(walrow.read(path, schema=schema, **options))
            assert found.num_rows == number


def test_a_schema_of_an_incomplete_capture_is_an_error() -> None:
    with pytest.raises(walrow.errors.UnfinishedError):
        walrow.schema(ADDED[:-5], "t")
    schema = walrow.schema(ADDED[:-5], "t", unfinished="ignore", metadata=())
    assert schema.names == ["id", "a", "price"]
    with pytest.raises(walrow.errors.ReplicationError, match="57P01"):
        walrow.schema(capture("error-terminated").path, "item")


def test_a_schema_without_its_table_is_an_error() -> None:
    with pytest.raises(
        walrow.errors.SchemaError, match=r"no table u in the stream; did you mean t"
    ):
        walrow.schema(ADDED, "u")
    other = versions(([ID], [["1"]]), name="other")
    both = other + streams.wired(
        streams.begin(),
        streams.relation([ID], oid=1, name="other", schema="secret"),
        streams.insert(["1"], oid=1),
        streams.commit(),
    )
    with pytest.raises(
        walrow.errors.SchemaError, match=r"choose one of them with table=\(\"public"
    ):
        walrow.schema(both, "other")


# ----------------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"types": {"pirce": "int64"}},
            "types: no column or type pirce in the stream; did you mean price?",
        ),
        ({"types": {"t.pirce": "int64"}}, "did you mean t.price?"),
        ({"types": {"public.t.pirce": "int64"}}, "did you mean public.t.price?"),
        ({"unrepresentable": {"titel": "null"}}, "did you mean title?"),
        (
            {"columns": ["id", "pric"]},
            "columns: no column pric in the stream; did you mean price?",
        ),
        ({"types": {"x.price": "int64"}}, "no column or type x.price in the stream"),
        ({"types": {"zzzzzz": "int64"}}, "no column or type zzzzzz in the stream$"),
        ({"types": {"numerc": "int64"}}, "; did you mean numeric[?]"),
        (
            {"unrepresentable": {"timestmap": "null"}},
            "did you mean timestamp or timestamptz[?]",
        ),
        ({"columns": ["numerc"]}, "no column numerc in the stream$"),
    ],
)
def test_keys_that_match_nothing_are_errors_at_the_end(options: Any, text: str) -> None:
    both: list[dict[str, Any]] = [
        {},
        {"table": "t", "schema": walrow.schema(ADDED, "t")},
    ]
    for more in both:
        if "columns" in options and more:
            continue
        reader = walrow.read(ADDED, **options, **more)
        found: list[walrow.Batch] = []
        with pytest.raises(walrow.errors.SchemaError, match=text):
            found.extend(reader)
        # After all rows.
        assert sum(batch.num_rows for batch in found) == 3
    with pytest.raises(walrow.errors.SchemaError, match=text):
        walrow.schema(ADDED, "t", **options)


def test_keys_that_match_something_are_no_error() -> None:
    other = versions(([ID, Column("note", TEXT)], [["1", ""]]), name="other")
    every: list[dict[str, Any]] = [
        {"types": {"price": "int64", "numeric": "string", "_int4": "string"}},
        {"unrepresentable": {"hstore": "null", "timestamptz": "null", "*": "error"}},
        # A column of another table of the stream.
        {
            "types": {"other.note": "large_string"},
            "table": "t",
            "schema": walrow.schema(ADDED, "t"),
        },
    ]
    for options in every:
        list(walrow.read(ADDED + other, **options))
    # A resumed stream may have nothing new.
    list(walrow.read(ADDED, start="0/2FFF", types={"a": "large_string"}))
    list(walrow.read(b"", types={"a": "large_string"}))


def test_columns_come_in_the_order_in_which_they_first_appear() -> None:
    one = ([ID, Column("a", INT4)], [["1", "1"]])
    other = ([ID, Column("b", INT4)], [["2", "2"]])
    for history in ((one, other), (one, other, one), (one, other, one, other)):
        schema = walrow.schema(versions(*history), "t", metadata=())
        assert pa.schema(schema).names == ["id", "a", "b"]
