"""The push decoder: chunks, framings, flush and finish, nothing lost."""

from __future__ import annotations

import contextlib
import gc
import json
import struct
import weakref
from collections.abc import Callable, Iterator
from dataclasses import astuple
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import walrow
from captures import Capture, capture, captures, cut
from rows import Outcome, decode, outcome
from streams import (
    SESSION,
    Column,
    begin,
    commit,
    format_lsn,
    insert,
    relation,
    wire,
    wired,
)

pa = pytest.importorskip("pyarrow")

ROWS = capture("rows")


def split(data: bytes) -> tuple[list[bytes], list[tuple[int, int, bytes]]]:
    """The CopyData payloads of a connection, and the same as rows of the SQL function."""
    payloads, changes = [], []
    for frame in walrow.frames(data):
        if frame.kind in "wk":
            payloads.append(frame.to_bytes()[5:])
        if frame.kind == "w":
            changes.append((frame.fields["start"], 0, frame.to_bytes()[30:]))
    return payloads, changes


@pytest.mark.parametrize("capture", captures(), ids=str)
def test_a_cut_anywhere_does_not_change_the_outcome(capture: Capture) -> None:
    data = capture.data
    expected = outcome(walrow.read(data))
    for size in (1, 7, 1000):
        assert outcome(decode(walrow.Decoder(), cut(data, size))) == expected
        assert outcome(walrow.read(cut(data, size))) == expected


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_random_cuts_do_not_change_the_outcome(data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(["rows", "alter-transaction", "sessions"]))
    stream = capture(chosen).data
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted))
    pieces = [
        stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)
    ]
    rows = data.draw(st.integers(1, 30))
    expected = outcome(walrow.read(stream, batch_rows=rows))
    decoder = walrow.Decoder(batch_rows=rows)
    assert outcome(decode(decoder, pieces)) == expected


@pytest.mark.parametrize("capture", captures("text", "binary"), ids=str)
def test_all_framings_give_the_same_batches(capture: Capture) -> None:
    if capture.name in {"sessions", "error-binary"}:
        pytest.skip("only wire shows where a session begins")
    payloads, changes = split(capture.data)
    # Only wire contains errors of the server.
    expected = outcome(walrow.read(capture.data, unfinished="ignore"))
    if expected.error is not None:
        # The message contains the offset, which counts the bytes of the caller.
        expected.error = (expected.error[0], "")

    def compare(result: Outcome) -> None:
        if result.error is not None:
            result.error = (result.error[0], "")
        assert result == expected

    compare(outcome(walrow.read(payloads)))
    compare(outcome(decode(walrow.Decoder(framing="copydata"), payloads)))
    compare(outcome(decode(walrow.Decoder(framing="copydata"), [payloads])))
    compare(outcome(walrow.read(changes)))
    compare(outcome(decode(walrow.Decoder(framing="message"), changes)))
    texts = [(format_lsn(a), b, c) for a, b, c in changes]
    compare(outcome(walrow.read(texts)))
    file = b"".join(message + b"\n" for _, _, message in changes)
    compare(outcome(walrow.read(file)))
    compare(outcome(decode(walrow.Decoder(framing="recvlogical"), cut(file, 1000))))
    bare = [memoryview(message) for _, _, message in changes]
    compare(outcome(walrow.read(bare)))


def test_flush_gives_what_is_committed_and_position_follows() -> None:
    commits = [
        (frame.offset + frame.size, frame.message.end_lsn)
        for frame in walrow.frames(ROWS.data)
        if frame.message is not None and frame.message.kind == "C"
    ]
    decoder = walrow.Decoder()
    at, rows = 0, 0
    for end, lsn in commits:
        assert list(decoder.feed(ROWS.data[at : end - 1])) == []
        assert decoder.unfinished
        before = decoder.position
        assert list(decoder.flush()) == []
        assert decoder.position == before
        assert list(decoder.feed(ROWS.data[end - 1 : end])) == []
        batches = list(decoder.flush())
        rows += sum(batch.num_rows for batch in batches)
        assert decoder.position == lsn
        assert not decoder.unfinished
        at = end
    assert rows == sum(batch.num_rows for batch in walrow.read(ROWS.data))


@pytest.mark.parametrize(
    "go_on",
    [
        lambda decoder: decoder.feed(b""),
        lambda decoder: decoder.flush(),
        lambda decoder: decoder.finish(),
        lambda decoder: decoder.feed([]),
    ],
)
def test_dropped_iterator_loses_nothing(go_on: Callable[[Any], Any]) -> None:
    expected = outcome(walrow.read(ROWS.data, batch_rows=1))
    decoder = walrow.Decoder(batch_rows=1)
    batches: list[walrow.Batch] = []
    iterator = decoder.feed(cut(ROWS.data, 500))
    batches.append(next(iterator))
    del iterator
    batches.append(next(go_on(decoder)))
    decoder.flush()
    batches.extend(decoder.finish())
    assert outcome(batches).tables() == expected.tables()


def test_input_that_no_one_iterated_over_is_kept() -> None:
    decoder = walrow.Decoder()
    for piece in cut(ROWS.data, 100):
        decoder.feed(piece)
    assert decoder.position == 0
    assert outcome(decoder.finish()) == outcome(walrow.read(ROWS.data))


def test_mutable_buffers_are_copied_when_fed() -> None:
    buffer = bytearray(ROWS.data)
    decoder = walrow.Decoder()
    iterator = decoder.feed(buffer)
    buffer[:] = bytes(len(buffer))
    batches = [*iterator, *decoder.finish()]
    assert outcome(batches) == outcome(walrow.read(ROWS.data))


def test_new_session_drops_what_was_open() -> None:
    decoder = walrow.Decoder()
    list(decoder.feed(ROWS.data[:-60]))
    assert decoder.unfinished
    decoder.new_session()
    list(decoder.feed(b""))
    assert not decoder.unfinished
    before = list(decoder.flush())
    batches = [*decoder.feed(ROWS.data), *decoder.finish()]
    assert sum(batch.num_rows for batch in before) > 0
    assert outcome(batches) == outcome(walrow.read(ROWS.data))


def test_schema_is_there_when_the_table_is() -> None:
    decoder = walrow.Decoder(table="item")
    assert decoder.schema is None
    list(decoder.feed(ROWS.data))
    assert decoder.schema is not None
    assert decoder.schema.names[:2] == ["id", "label"]
    assert decoder.schema == walrow.read(ROWS.data, table="item").schema


def test_exception_of_an_iterable_leaves_the_decoder_usable() -> None:
    def chunks() -> Any:
        yield ROWS.data[:1000]
        msg = "later"
        raise TimeoutError(msg)

    decoder = walrow.Decoder()
    with pytest.raises(TimeoutError, match="later"):
        list(decoder.feed(chunks()))
    batches = [*decoder.feed(ROWS.data[1000:]), *decoder.finish()]
    assert outcome(batches) == outcome(walrow.read(ROWS.data))


@pytest.mark.parametrize("wrong", [5, None, "text", ["text"], [5]])
def test_chunks_that_are_not_bytes_are_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="bytes-like"):
        list(walrow.Decoder().feed(wrong))


def test_unfinished_batches_are_bounded_in_memory() -> None:
    batches = list(decode(walrow.Decoder(batch_memory=1), [ROWS.data]))
    assert outcome(batches).tables() == outcome(walrow.read(ROWS.data)).tables()
    assert len(batches) > 2


def test_unresolved_types_are_listed() -> None:
    user = capture("types-user")
    reader = walrow.read(user.path)
    batches = outcome(reader).batches
    assert reader.unresolved_types
    assert reader.unresolved_types == sorted(reader.unresolved_types, key=astuple)
    for unresolved in reader.unresolved_types:
        table, column, oid = astuple(unresolved)
        assert (unresolved.table, unresolved.column) == (table, column)
        of_table = [batch for batch in batches if batch.table == table]
        fields = [batch.records.schema.field(column) for batch in of_table]
        assert fields
        for field in fields:
            assert field.metadata[b"pg.oid"] == b"%d" % oid
            # An opaque type, where pyarrow knows these.
            assert getattr(field.type, "storage_type", field.type) == pa.string()


def test_unresolved_types_are_those_of_the_chosen_tables_and_columns() -> None:
    data = SESSION + wired(
        begin(),
        relation([Column("x", 28000), Column("y", 28001)], 1, "a"),
        insert([None, None], 1),
        relation([Column("x", 28000)], 2, "b"),
        insert([None], 2),
        commit(),
    )
    of_a = [("public.a", "x", 28000), ("public.a", "y", 28001)]
    of_b = [("public.b", "x", 28000)]
    options: Any
    for options, expected in (
        ({}, of_a + of_b),
        ({"envelope": True}, of_a + of_b),
        ({"profile": "text"}, of_a + of_b),
        ({"table": "b"}, of_b),
        ({"tables": ["a"]}, of_a),
        ({"columns": ["y"]}, of_a[1:]),
        ({"columns": ["y"], "envelope": True}, of_a[1:]),
        ({"types": {"a.x": "binary"}}, of_a + of_b),
        ({"table": "a", "schema": pa.schema({"x": pa.string()})}, of_a[:1]),
    ):
        if "schema" in options:
            options["columns"] = ["x"]
        reader = walrow.read(data, **options)
        list(reader)
        assert list(map(astuple, reader.unresolved_types)) == expected
        decoder = walrow.Decoder(**options)
        list(decoder.feed(data))
        assert list(map(astuple, decoder.unresolved_types)) == expected


def _of_composite(attributes: list[dict[str, Any]]) -> walrow.Catalog:
    entry = {"oid": 20000, "schema": "public", "name": "t", "kind": "composite"}
    return walrow.Catalog(json.dumps({"types": [entry | {"attributes": attributes}]}))


def test_unresolved_types_inside_others_are_listed_by_their_own_oids() -> None:
    catalog = _of_composite([{"name": name, "type": 29999} for name in "ab"])
    columns = [Column("a", 20000), Column("b", 28000)]
    reader = walrow.read(wire(columns, [["(x,)", "y"]]), catalog=catalog)
    assert len(list(reader)) == 1
    assert list(map(astuple, reader.unresolved_types)) == [
        ("public.t", "a", 29999),
        ("public.t", "b", 28000),
    ]


def test_recursive_types_are_text_if_asked_for() -> None:
    names = [f"a{place}" for place in range(1600)]
    catalog = _of_composite([{"name": name, "type": 20000} for name in names])
    data = wire([Column("x", 20000)], [["(,)"]])
    with pytest.raises(
        walrow.errors.SchemaError, match="more than 64 levels"
    ) as caught:
        list(walrow.read(data, catalog=catalog))
    assert (caught.value.table, caught.value.column) == ("public.t", "x")
    assert 'types={"public.t.x": "string"}' in str(caught.value)
    options: list[dict[str, Any]] = [
        {"types": {"public.t.x": "string"}},
        {"profile": "text"},
        {"envelope": True},
    ]
    for option in options:
        [batch] = walrow.read(data, catalog=catalog, **option)
        assert len(batch) == 1


def test_catalog_of_another_database_finds_types_by_name() -> None:
    catalog = walrow.Catalog(
        json.dumps(
            {
                "types": [
                    {
                        "oid": 20000,
                        "schema": "shop",
                        "name": "pair",
                        "kind": "composite",
                        "attributes": [
                            {"name": "n", "type": 23},
                            {"name": "m", "type": 20001},
                        ],
                    },
                    {
                        "oid": 20001,
                        "schema": "shop",
                        "name": "mood",
                        "kind": "enum",
                        "labels": ["ok"],
                    },
                ]
            }
        )
    )
    sent = struct.pack("!iIiiIi", 2, 23, 4, 7, 31001, 2) + b"ok"
    column = Column("x", 31000, type_name=("shop", "pair"))
    reader = walrow.read(wire([column], [["(7,ok)"], [sent]]), catalog=catalog)
    [batch] = reader
    assert pa.record_batch(batch)["x"].to_pylist() == [{"n": 7, "m": "ok"}] * 2
    assert reader.unresolved_types == []


class _Refers:
    """A source that refers to its reader."""

    def __init__(self, kind: str) -> None:
        self.block = b"x"
        if kind == "decoder":
            self.by: Any = walrow.Decoder()
            self.batches = self.by.feed(self.chunks())
        elif kind == "frames":
            self.by = walrow.frames(self)
        else:
            self.by = walrow.Reader(self)
        if kind == "failed":
            with contextlib.suppress(ValueError):
                list(self.by)

    def chunks(self) -> Iterator[bytes]:
        yield self.block
        raise ValueError(self)

    def __iter__(self) -> Iterator[bytes]:
        return self.chunks()


@pytest.mark.parametrize("kind", ["decoder", "frames", "reader", "failed"])
def test_cycles_are_collected(kind: str) -> None:
    found = weakref.ref(_Refers(kind))
    gc.collect()
    assert found() is None


def test_a_stream_in_use_is_not_collected() -> None:
    pa = pytest.importorskip("pyarrow")

    class Source:
        def __iter__(self) -> Iterator[bytes]:
            data = capture("rows").data
            for at in range(0, len(data), 500):
                gc.collect()
                yield data[at : at + 500]

    source: Any = Source()
    source.reader = walrow.Reader(source, table="item", batch_rows=1)
    stream = pa.RecordBatchReader.from_stream(source.reader)
    del source
    gc.collect()
    assert stream.read_all().num_rows == 10
