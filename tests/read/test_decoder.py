"""The push decoder: chunks, framings, flush and finish, nothing lost."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import astuple
from typing import Any

import pytest

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


def test_a_decoder_removes_the_blanks_of_characters() -> None:
    data = capture("text-corners").path.read_bytes()
    found = {}
    for trim in (False, True):
        decoder = walrow.Decoder(table="words", trim_bpchar=trim)
        batches = [*decoder.feed(data), *decoder.finish()]
        found[trim] = pa.table(batches[0])["c"].to_pylist()
    assert all(it is None or len(it) == 6 for it in found[False])
    assert found[True] == [it and it.rstrip(" ") for it in found[False]]
    assert found[True] != found[False]
