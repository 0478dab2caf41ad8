"""Exports through the Arrow PyCapsule interface to every installed library."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import walrow
from captures import capture, captures, cut

ROWS = capture("rows")
ITEM = 10


def test_batch_is_an_array_for_pyarrow() -> None:
    pa = pytest.importorskip("pyarrow")
    batches = list(walrow.read(ROWS.path))
    assert len(batches) > 1
    while batches:
        batch = batches.pop()
        records = pa.record_batch(batch)
        records.validate(full=True)
        assert records.num_rows == batch.num_rows
        assert records.schema.names == batch.column_names
        assert pa.schema(batch.schema).equals(records.schema, check_metadata=True)
        assert records.schema.metadata[b"pg.table"].decode() == batch.table_name
        del batch
        assert records.to_pylist()


@pytest.mark.parametrize("capture", captures("text"), ids=str)
def test_all_arrays_are_valid(capture: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    for profile in ("arrow", "spark", "text"):
        for batch in walrow.read(
            capture.path,
            profile=profile,
            unrepresentable="null",
            unfinished="ignore",
        ):
            pa.record_batch(batch).validate(full=True)


def test_batch_without_columns_keeps_its_rows() -> None:
    pa = pytest.importorskip("pyarrow")
    batches = list(walrow.read(capture("columns-0").path, metadata=()))
    assert any(batch.num_columns == 0 for batch in batches)
    for batch in batches:
        assert pa.record_batch(batch).num_rows == batch.num_rows > 0


def test_reader_is_a_stream_for_pyarrow() -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table(walrow.read(ROWS.path, table="item"))
    table.validate(full=True)
    assert table.num_rows == ITEM
    with pa.RecordBatchReader.from_stream(
        walrow.read(ROWS.path, table="item", batch_rows=3)
    ) as stream:
        assert stream.schema.names[0] == "id"
        # Both images of an update are in one batch.
        assert [batch.num_rows for batch in stream] == [3, 2, 3, 2]
    wish = pa.schema([("id", pa.int64())])
    reader = walrow.read(ROWS.path, table="item")
    assert reader.__arrow_c_stream__(None) is not None
    capsule = walrow.read(ROWS.path, table="item").__arrow_c_stream__(
        wish.__arrow_c_schema__()
    )
    assert capsule is not None
    assert pa.schema(walrow.read(ROWS.path, table="item")).names[0] == "id"


def test_reader_and_batch_are_frames_for_polars() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(walrow.read(ROWS.path, table="item"))
    assert frame.height == ITEM
    assert frame["id"].to_list()[:4] == [1, 2, 3, 4]
    assert frame["amount"].dtype == pl.Decimal(12, 2)
    for batch in walrow.read(ROWS.path):
        assert pl.DataFrame(batch).columns == batch.column_names


def test_reader_is_a_relation_for_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    reader = walrow.read(ROWS.path, table="item")
    query = "SELECT count(*), sum(amount) FROM reader WHERE _change_type = 'insert'"
    found = duckdb.sql(query).fetchall()
    assert reader.position > 0
    assert found[0][0] == 4


def test_reader_is_a_stream_for_nanoarrow() -> None:
    na = pytest.importorskip("nanoarrow")
    array = na.ArrayStream(walrow.read(ROWS.path, table="item")).read_all()
    assert len(array) == ITEM
    assert na.Schema(walrow.read(ROWS.path, table="item").schema) is not None
    assert len(na.Array(next(walrow.read(ROWS.path)))) == ITEM


def test_stream_needs_a_table() -> None:
    reader = walrow.read(ROWS.path)
    for export in (reader.__arrow_c_stream__, reader.__arrow_c_schema__):
        with pytest.raises(TypeError, match="table="):
            export()
    with pytest.raises(TypeError, match="table="):
        _ = reader.schema
    assert len(list(reader)) == 2


def test_table_that_never_appears_is_an_error_of_the_export() -> None:
    with pytest.raises(walrow.errors.SchemaError, match="no table none"):
        walrow.read(ROWS.path, table="none").__arrow_c_stream__()


def test_stream_decodes_only_as_it_is_consumed() -> None:
    pa = pytest.importorskip("pyarrow")
    taken = 0

    def chunks() -> Any:
        nonlocal taken
        for chunk in cut(ROWS.data * 50, 1000):
            taken += 1
            yield chunk

    reader = walrow.read(chunks(), table="item", batch_rows=1)
    assert taken == 0
    stream = pa.RecordBatchReader.from_stream(reader)
    first = taken
    assert 0 < first < 10
    stream.read_next_batch()
    assert taken < 20
    stream.close()
    assert taken < 20


def test_stream_that_was_closed_early_leaves_the_rest() -> None:
    pa = pytest.importorskip("pyarrow")
    reader = walrow.read(ROWS.path, table="item", batch_rows=1)
    stream = pa.RecordBatchReader.from_stream(reader)
    stream.read_next_batch()
    stream.close()
    del stream
    assert sum(batch.num_rows for batch in reader) == ITEM - 1


def test_stream_of_a_reader_that_is_at_its_end_is_an_error() -> None:
    pa = pytest.importorskip("pyarrow")
    reader = walrow.read(ROWS.path, table="item")
    assert pa.table(reader).num_rows == ITEM
    with pytest.raises(
        pa.ArrowException, match="all batches of this reader were taken"
    ):
        pa.table(reader)
    assert list(reader) == []


def test_reader_may_be_closed_under_a_stream() -> None:
    pa = pytest.importorskip("pyarrow")
    reader = walrow.read(ROWS.path, table="item", batch_rows=1)
    stream = pa.RecordBatchReader.from_stream(reader)
    reader.close()
    with pytest.raises(pa.ArrowException, match="the reader is closed"):
        stream.read_all()


def test_errors_in_the_stream_have_our_text() -> None:
    pa = pytest.importorskip("pyarrow")
    data = ROWS.data + b"x"
    with pytest.raises(walrow.errors.DecodeError) as caught:
        list(walrow.read(data))
    stream = pa.RecordBatchReader.from_stream(walrow.read(data, table="item"))
    assert stream.read_next_batch().num_rows == ITEM
    with pytest.raises(pa.ArrowException) as passed_on:
        stream.read_next_batch()
    assert str(caught.value) in str(passed_on.value)


def test_exceptions_of_the_source_reach_the_consumer() -> None:
    pa = pytest.importorskip("pyarrow")

    def chunks() -> Any:
        yield ROWS.data
        msg = "the disk is gone"
        raise OSError(msg)

    stream = pa.RecordBatchReader.from_stream(walrow.read(chunks(), table="item"))
    with pytest.raises(pa.ArrowException, match="OSError: the disk is gone"):
        stream.read_all()


def test_one_reader_does_not_lock_itself() -> None:
    """A source that reads from its own reader gets an error."""
    readers: list[walrow.Reader] = []

    def chunks() -> Any:
        yield ROWS.data
        yield readers[0].position

    readers.append(walrow.read(chunks()))
    with pytest.raises(RuntimeError, match="already in use"):
        list(readers[0])
    readers.clear()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_exports_do_not_leak() -> None:
    data = ROWS.data
    count = sys.getrefcount(data)

    def once() -> None:
        for batch in walrow.read(data):
            batch.__arrow_c_array__()
            batch.__arrow_c_schema__()
        walrow.read(data, table="item").__arrow_c_stream__()
        walrow.read(data, table="item").__arrow_c_schema__()
        with contextlib.suppress(walrow.errors.DecodeError):
            list(walrow.read(data + b"x"))
        for frame in walrow.frames(data):
            _ = frame.fields, frame.message and frame.message.fields

    for _ in range(200):
        once()
    gc.collect()
    before = resident()
    for _ in range(1000):
        once()
    gc.collect()
    # A leak of one exported schema per turn would be more.
    assert resident() - before < 2 << 20
    assert sys.getrefcount(data) == count


@pytest.mark.parametrize("options", [{}, {"envelope": True}])
def test_side_tables_batches_are_under_no_other_schema(options: Any) -> None:
    options |= {"tables": ["item", "walrow.transactions", "walrow.messages"]}
    uses: list[Any] = [
        lambda reader: reader.schema,
        lambda reader: reader.__arrow_c_schema__(),
        lambda reader: reader.__arrow_c_stream__(),
    ]
    for use in uses:
        with pytest.raises(TypeError, match=r"no common schema.*table=, or take"):
            use(walrow.read(ROWS.path, **options))
    tables = {batch.table for batch in walrow.read(ROWS.path, **options)}
    assert "walrow.transactions" in tables
    assert len(tables) == 2
    # A side table alone is an ordinary table.
    alone = walrow.read(ROWS.path, table="walrow.transactions")
    assert alone.schema.names[0] == "xid"


NESTED = """
import sys
import pyarrow as pa
import walrow

data = open(sys.argv[1], "rb").read()

def read():
    return pa.table(walrow.read([data], table="item")).num_rows

def pulls():
    assert read() == 10
    yield data

def drops():
    unread = pa.RecordBatchReader.from_stream(walrow.read([data], table="item"))
    del unread
    yield data

for source in (pulls, drops):
    assert sum(map(len, walrow.read(source()))) == 17
    decoder = walrow.Decoder()
    assert sum(map(len, [*decoder.feed(source()), *decoder.finish()])) == 17
    assert sum(1 for _ in walrow.frames(source())) > 17
"""


def test_a_source_may_read_a_stream_itself() -> None:
    pytest.importorskip("pyarrow")
    # A fault here ends the process.
    command = [sys.executable, "-c", NESTED, str(ROWS.path)]
    subprocess.run(command, check=True, timeout=60)  # noqa: S603


@pytest.mark.parametrize("start", [None, "0/FFFFFFFF"])
def test_a_table_without_rows_is_an_empty_stream(start: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    whole = pa.table(walrow.read(ROWS.path, table="item"))
    frames = list(walrow.frames(ROWS.path))
    data = b"".join(
        frame.to_bytes()
        for frame in frames
        if start is not None or not frame.message or frame.message.kind == "R"
    )
    empty = pa.table(walrow.read(data, table="item", start=start))
    assert empty.num_rows == 0
    assert empty.schema.names == whole.schema.names
    reader = walrow.read(ROWS.path, table="item")
    assert list(reader)
    with pytest.raises(pa.ArrowInvalid, match="all batches of this reader were taken"):
        pa.table(reader)
