"""`tables=`: several tables in one read."""

from __future__ import annotations

from typing import Any

import pytest

import streams
import walrow
from captures import capture
from rows import decode, outcome
from streams import Column

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pandas")
pytest.importorskip("polars")
pytest.importorskip("duckdb")

ROWS = capture("rows")
METHODS = ["to_pyarrow", "to_pandas", "to_polars", "to_duckdb"]
INT4, DATE = 23, 1082
ID = Column("id", INT4, is_key=True)


def sizes(source: Any, **options: Any) -> dict[str, int]:
    """The number of rows of each table."""
    found: dict[str, int] = {}
    for batch in walrow.read(source, **options):
        found[batch.table] = found.get(batch.table, 0) + len(batch)
    return found


def stream(*messages: bytes, lsn: int = 0x1000) -> bytes:
    """A session with one transaction."""
    whole = [streams.begin(lsn=lsn), *messages, streams.commit(lsn)]
    return streams.SESSION + streams.wired(*whole)


#: Rows of public.a, public.b and other.a. The first row of other.a cannot be decoded.
THREE = stream(
    streams.relation([ID], 1, "a"),
    streams.insert(["1"], 1),
    streams.relation([ID, Column("day", DATE)], 2, "b"),
    streams.insert(["1", "infinity"], 2),
    streams.relation([ID], 3, "a", "other"),
    streams.insert(["one"], 3),
    streams.insert(["2"], 1),
)


def test_several_tables_are_those_of_the_whole() -> None:
    whole = outcome(walrow.read(ROWS.path)).tables()
    found = outcome(walrow.read(ROWS.path, tables=["item", ("public", "stock")]))
    assert found.tables() == whole
    pushed = outcome(decode(walrow.Decoder(tables=["stock"]), [ROWS.data]))
    assert pushed.tables() == {"public.stock": whole["public.stock"]}
    [oid] = {batch.relation_oid for batch in walrow.read(ROWS.path, table="stock")}
    assert sizes(ROWS.path, tables=[oid]) == {"public.stock": 7}


@pytest.mark.parametrize("method", METHODS)
def test_several_tables_are_a_dictionary_of_frames(method: str) -> None:
    for tables in (["stock", "item"], ["item"]):
        frames = getattr(walrow.read(ROWS.path, tables=tables), method)()
        # In the order of the stream, as without it.
        assert list(frames) == [f"public.{name}" for name in sorted(tables)]
        assert len(frames["public.item"]) == 10


def test_several_tables_are_no_arrow_stream() -> None:
    for tables in (["item"], ["item", "stock"]):
        reader = walrow.read(ROWS.path, tables=tables)
        with pytest.raises(TypeError, match="choose one with table="):
            pa.table(reader)
        with pytest.raises(TypeError, match="no common schema"):
            _ = reader.schema
    decoder = walrow.Decoder(tables=["item"])
    list(decoder.feed(ROWS.data))
    assert decoder.schema is None


def test_rows_of_other_tables_are_not_decoded() -> None:
    with pytest.raises(walrow.errors.DecodeError, match=r"other\.a"):
        sizes(THREE, types={"b.day": "string"})
    tables = ["public.a", "b"]
    found = sizes(THREE, tables=tables, types={"b.day": "string"})
    assert found == {"public.a": 2, "public.b": 1}


def test_an_unqualified_name_of_two_tables_is_an_error() -> None:
    texts = []
    for chosen in ({"table": "a"}, {"tables": ["a"]}):
        with pytest.raises(
            walrow.errors.SchemaError, match="the name matches"
        ) as caught:
            sizes(THREE, **chosen)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert "public.a and other.a" in texts[0]


def test_missing_tables_are_named_together() -> None:
    tables = ["item", "itme", ("other", "stokc"), "zebra", 7]
    with pytest.raises(walrow.errors.SchemaError) as caught:
        sizes(ROWS.path, tables=tables)
    assert str(caught.value) == (
        "no tables itme (did you mean item?), other.stokc, zebra, with OID 7 in the stream"
    )
    found = sizes(ROWS.path, tables=tables, missing_table="ignore")
    assert found == {"public.item": 10}
    for part in ({"start": "0/1"}, {"end": "FFFFFFFF/0"}):
        assert sizes(ROWS.path, tables=tables, **part) == found
    with pytest.raises(
        walrow.errors.SchemaError, match="no tables yak, zebra in"
    ) as caught:
        sizes(ROWS.path, tables=["yak", "zebra"])
    [remedy] = caught.value.remedies
    assert sizes(ROWS.path, tables=["yak", "zebra"], **remedy.options()) == {}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tables": []}, "tables is an empty list"),
        ({"tables": ["a", "b", "a"]}, "table a is chosen twice"),
        ({"tables": ["x.a", ("x", "a")]}, r"table x\.a is chosen twice"),
        ({"tables": [5, 5]}, "table with OID 5 is chosen twice"),
        ({"tables": [-1]}, "tables: an OID has 32 bits"),
        (
            {"tables": ["walrow.messages", ("walrow", "messages")]},
            r"table walrow\.messages is chosen twice",
        ),
        (
            {"tables": ["walrow.messages"], "columns": ["prefix"]},
            "side tables have fixed columns",
        ),
        ({"tables": ["a"], "table": "b"}, "table and tables contradict each other"),
        (
            {"tables": ["a"], "schema": pa.schema([])},
            "a schema is for one table, because",
        ),
    ],
)
def test_lists_that_mean_nothing_are_refused(options: Any, text: str) -> None:
    for target in (lambda **it: walrow.read(ROWS.path, **it), walrow.Decoder):
        with pytest.raises(walrow.errors.OptionError, match=text):
            target(**options)


@pytest.mark.parametrize("tables", ["item", 5, [1.5], [None], [("a", "b", "c")], 1.5])
def test_other_types_are_refused(tables: Any) -> None:
    with pytest.raises(TypeError):
        walrow.read(ROWS.path, tables=tables)


def test_a_schema_takes_one_table() -> None:
    options: Any = {"tables": ["item", "stock"]}
    with pytest.raises(TypeError, match="unexpected keyword argument 'tables'"):
        walrow.schema(ROWS.path, **options)


def test_start_and_end_bound_several_tables() -> None:
    tables = ["item", "stock"]
    whole = list(walrow.read(ROWS.path, tables=tables, batch_rows=1))
    first = walrow.read(ROWS.path, tables=tables, batch_rows=1)
    position = first.position
    while not position:
        next(first)
        position = first.position
    before = sizes(ROWS.path, tables=tables, end=position)
    after = sizes(ROWS.path, tables=tables, start=position)
    assert before
    assert after
    assert sum(before.values()) + sum(after.values()) == sum(map(len, whole))


def test_columns_and_types_name_the_columns_of_each() -> None:
    options: Any = {"tables": ["public.a", "b"], "metadata": ()}
    batches = walrow.read(THREE, columns=["a.id", "public.b.id"], **options)
    assert [(each.table, each.column_names) for each in batches] == [
        ("public.a", ["id"]),
        ("public.b", ["id"]),
    ]
    types = {"public.a.id": "int64", "b.day": "string", "b.id": "string"}
    batches = walrow.read(THREE, types=types, **options)
    assert [(each.table, each.schema.types) for each in batches] == [
        ("public.a", ["int64"]),
        ("public.b", ["string", "string"]),
    ]
    with pytest.raises(walrow.errors.SchemaError, match=r"no column or type b\.dya"):
        sizes(THREE, types={"b.dya": "string"}, unrepresentable="null", **options)


def test_values_that_become_null_are_counted_by_table() -> None:
    reader = walrow.read(THREE, tables=["public.a", "b"], unrepresentable="null")
    assert sum(map(len, reader)) == 3
    assert reader.nulled == {"public.b.day": 1}


def test_the_envelope_has_all_of_them() -> None:
    reader = walrow.read(THREE, tables=["public.a", "b"], envelope=True)
    table = pa.table(reader)
    names = zip(table["schema_name"], table["table_name"], strict=True)
    found = [f"{schema}.{name}" for schema, name in names]
    assert found == ["public.a", "public.b", "public.a"]


def test_side_tables_come_with_them() -> None:
    for side in ("walrow.transactions", ("walrow", "transactions")):
        found = sizes(ROWS.path, tables=["stock", side], columns=["note"])
        assert found == {"public.stock": 7, "walrow.transactions": 7}
    # Alone in a list, too.
    sides = ["walrow.transactions", "walrow.relations"]
    assert sizes(ROWS.path, tables=sides).keys() == {*sides}


def test_a_table_of_the_stream_with_the_name_of_a_side_table_has_an_oid() -> None:
    data = streams.wired(
        streams.begin(),
        streams.relation([ID], 7, "messages", schema="walrow"),
        streams.insert(["3"], 7),
        streams.commit(),
    )
    for chosen in ({"table": "walrow.messages"}, {"tables": [("walrow", "messages")]}):
        with pytest.raises(
            walrow.errors.SchemaError, match="the table in the stream by its OID, 7"
        ) as caught:
            sizes(data, **chosen)
        assert caught.value.remedies == ()
    assert sizes(data, tables=[7, "walrow.transactions"]) == {
        "walrow.messages": 1,
        "walrow.transactions": 1,
    }


def test_a_renamed_table_has_both_names_by_its_oid() -> None:
    renamed = streams.wired(
        streams.begin(lsn=0x2000),
        streams.relation([ID], 1, "z"),
        streams.insert(["3"], 1),
        streams.commit(0x2000),
    )
    options: Any = {"types": {"b.day": "string"}}
    data = THREE + renamed
    assert sizes(data, tables=[1, "b"], **options) == {
        "public.a": 2,
        "public.b": 1,
        "public.z": 1,
    }
    assert sizes(data, tables=["public.a", "b"], **options) == {
        "public.a": 2,
        "public.b": 1,
    }
    frames = walrow.read(data, tables=[1]).to_pandas()
    assert {name: len(frame) for name, frame in frames.items()} == {
        "public.a": 2,
        "public.z": 1,
    }


def test_restored_transactions_are_of_the_chosen_tables() -> None:
    data = capture("two-phase").data
    tables = [*sizes(data)]
    assert tables
    ends = [
        frame.offset
        for frame in walrow.frames(data)
        if frame.message is not None and frame.message.kind == "K"
    ]
    chosen: Any = {"tables": tables}
    first = walrow.Decoder(**chosen)
    batches = [*first.feed(data[: ends[0]]), *first.flush()]
    assert first.prepared
    second = walrow.Decoder(start=first.position, **chosen)
    second.restore_prepared(first.save_prepared())
    batches += [*second.feed(data), *second.finish()]
    assert outcome(batches).tables() == outcome(walrow.read(data)).tables()
    other = walrow.Decoder(tables=["none"], start=first.position)
    other.restore_prepared(first.save_prepared())
    assert [*other.feed(data), *other.finish()] == []


def test_a_table_that_was_created_again_has_the_rows_of_both() -> None:
    data = capture("recreate").data
    oids = list(dict.fromkeys(batch.relation_oid for batch in walrow.read(data)))
    assert len(oids) == 3
    whole = outcome(walrow.read(data)).batches
    assert outcome(walrow.read(data, tables=["phoenix"])).batches == whole
    assert outcome(walrow.read(data, tables=oids)).batches == whole
    assert sizes(data, tables=oids[:1]) == {"public.phoenix": 2}
    with pytest.raises(
        walrow.errors.SchemaError, match="the name of two tables, with OIDs"
    ):
        list(walrow.read(data, tables=["phoenix"]).to_pandas())
    frames = walrow.read(data, tables=oids[1:2]).to_pandas()
    assert len(frames["public.phoenix"]) == 2
