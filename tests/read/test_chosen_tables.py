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


@pytest.mark.parametrize("tables", ["item", 5, [1.5], [None], [("a", "b", "c")], 1.5])
def test_other_types_are_refused(tables: Any) -> None:
    with pytest.raises(TypeError):
        walrow.read(ROWS.path, tables=tables)


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
