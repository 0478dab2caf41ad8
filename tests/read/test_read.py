"""`walrow.read`: kinds of sources, the choice of a table, its schema, its ends."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from captures import capture, cut
from rows import decode, outcome

pa = pytest.importorskip("pyarrow")

ROWS = capture("rows")


class OnlyReadInto:
    """A file whose only method fills a buffer."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def readinto(self, buffer: Any) -> int:
        return self._file.readinto(buffer)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ROWS.path,
        lambda: str(ROWS.path),
        ROWS.path.as_uri,
        lambda: io.BytesIO(ROWS.data),
        lambda: OnlyReadInto(ROWS.data),
        lambda: ROWS.data,
        lambda: bytearray(ROWS.data),
        lambda: memoryview(ROWS.data),
        lambda: memoryview(ROWS.data + ROWS.data)[: len(ROWS.data)],
        lambda: cut(ROWS.data, 100),
        lambda: iter(cut(ROWS.data, 1)),
        lambda: (bytearray(piece) for piece in cut(ROWS.data, 33)),
    ],
    ids=[
        "path",
        "string",
        "url",
        "file",
        "readinto",
        "bytes",
        "bytearray",
        "memoryview",
        "slice",
        "list",
        "iterator",
        "generator",
    ],
)
def test_every_source_gives_the_same_batches(make: Callable[[], Any]) -> None:
    expected = outcome(walrow.read(ROWS.data))
    assert expected.batches
    assert outcome(walrow.read(make())) == expected


def test_text_file_is_refused_with_a_hint() -> None:
    with pytest.raises(TypeError, match="binary mode"):
        list(walrow.read(io.StringIO("text")))  # type: ignore[arg-type]


def test_file_without_data_yet_is_not_its_end() -> None:
    class Empty(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, _buffer: Any) -> None:
            return None

    with pytest.raises(BlockingIOError):
        list(walrow.read(Empty()))


def test_empty_source_has_no_batches() -> None:
    reader = walrow.read(b"")
    assert list(reader) == []
    assert reader.position == 0
    assert not reader.unfinished


@pytest.mark.parametrize("table", ["public.item", "item", ("public", "item")])
def test_table_is_chosen_by_name(table: Any) -> None:
    batches = list(walrow.read(ROWS.path, table=table))
    assert [batch.table for batch in batches] == ["public.item"]
    assert (batches[0].schema_name, batches[0].table_name) == ("public", "item")
    assert batches[0].num_rows == len(batches[0]) == 10
    assert batches[0].column_names[:4] == ["id", "label", "amount", "_change_type"]
    assert batches[0].num_columns == 10
    assert batches[0].key_columns == ["id"]
    assert batches[0].replica_identity == "default"
    assert batches[0].relation_oid == ROWS.tables["public.item"]["oid"]


def test_name_in_two_schemas_is_refused() -> None:
    schemas = capture("schemas")
    names = {batch.table_name for batch in walrow.read(schemas.path)}
    ambiguous = [
        name
        for name in names
        if len({b.table for b in walrow.read(schemas.path) if b.table_name == name}) > 1
    ]
    assert ambiguous, "the capture has one name in two schemas"
    with pytest.raises(walrow.errors.SchemaError, match="the name matches") as raised:
        list(walrow.read(schemas.path, table=ambiguous[0]))
    one, other = raised.value.remedies
    assert f"; choose one of them with {one} or {other} (byte" in str(raised.value)
    assert str(one).startswith('table=("')
    for remedy in (one, other):
        batches = walrow.read(schemas.path, **remedy.options())
        tables = {(batch.schema_name, batch.table_name) for batch in batches}
        assert tables == {remedy.value}


def test_names_with_dots_are_chosen_by_a_pair() -> None:
    names = {b"public\0item\0": b"a.b\0c\0", b"public\0stock\0": b"a\0b.c\0"}
    data = _renamed(names)
    with pytest.raises(
        walrow.errors.SchemaError, match=r'the name matches "a\.b"\."c"'
    ):
        list(walrow.read(data, table="a.b.c"))
    (batch,) = walrow.read(data, table=("a", "b.c"))
    assert (batch.schema_name, batch.table_name) == ("a", "b.c")


def _renamed(names: dict[bytes, bytes]) -> bytes:
    """The capture with other names in its Relation messages."""
    out = []
    for frame in walrow.frames(ROWS.data):
        data = frame.to_bytes()
        for old, new in names.items():
            if old in data and frame.message is not None and frame.message.kind == "R":
                data = streams.renamed(data, old, new)
        out.append(data)
    return b"".join(out)


def test_file_of_pg_recvlogical_returns_repeated_transactions_once(
    tmp_path: Path,
) -> None:
    """It reconnected inside a transaction, and the server sent everything again."""
    lines = [
        frame.to_bytes()[30:] + b"\n"
        for frame in walrow.frames(ROWS.data)
        if frame.kind == "w"
    ]
    path = tmp_path / "file"
    path.write_bytes(b"".join(lines[: len(lines) // 2] + lines))
    reader = walrow.read(path)
    wire = walrow.read(ROWS.data)
    expected = outcome(wire).tables()
    assert outcome(reader).tables() == expected
    assert reader.repeated_transactions > 0
    assert reader.position == wire.position
    decoder = walrow.Decoder(framing="recvlogical")
    assert outcome(decode(decoder, [path.read_bytes()])).tables() == expected
    assert decoder.repeated_transactions == reader.repeated_transactions


def test_table_that_never_appears_is_an_error() -> None:
    with pytest.raises(
        walrow.errors.SchemaError, match=r"no table public\.none in the stream"
    ):
        list(walrow.read(ROWS.path, table="public.none"))
    with pytest.raises(walrow.errors.SchemaError, match="no table"):
        _ = walrow.read(ROWS.path, table="public.none").schema
    reader = walrow.read(ROWS.path, table="public.none")
    for _ in range(2):
        with pytest.raises(walrow.errors.SchemaError, match="no table"):
            next(reader)


def test_every_version_fits_a_given_schema() -> None:
    altered = capture("alter-columns")
    versions = [pa.schema(batch.schema) for batch in walrow.read(altered.path)]
    assert len({tuple(version.names) for version in versions}) > 1
    table = next(iter(walrow.read(altered.path))).table
    fields = {field.name: field.type for version in versions for field in version}
    fields["never"] = pa.int32()
    schema = pa.schema(list(fields.items()))

    found = pa.table(walrow.read(altered.path, table=table, schema=schema))

    assert found.schema.names == schema.names
    assert found.num_rows == sum(b.num_rows for b in walrow.read(altered.path))
    for row in found.to_pylist():
        assert row["never"] is None
        if row["_change_type"] != "truncate":
            assert "never" in row["_unsent"]
        for name in row["_unsent"] or ():
            assert row[name] is None


def test_schema_needs_a_table() -> None:
    with pytest.raises(
        walrow.errors.OptionError, match="needs one table; choose table="
    ):
        walrow.read(b"", schema=pa.schema([]))


def test_a_schema_with_non_nullable_columns_is_an_error_before_any_row() -> None:
    fields = [
        pa.field("id", pa.int32()),
        pa.field("label", pa.string(), nullable=False),
    ]
    reader = walrow.read(ROWS.path, table="item", schema=pa.schema(fields))
    for _ in range(2):
        with pytest.raises(walrow.errors.SchemaError, match="label"):
            list(reader)
    assert reader.position == 0


def test_position_follows_the_returned_rows() -> None:
    reader = walrow.read(ROWS.path, batch_rows=1)
    positions = [0]
    last = 0
    for batch in reader:
        lsn = pa.record_batch(batch).column("_commit_lsn")[0].as_py()
        assert reader.position >= positions[-1]
        positions.append(reader.position)
        last = max(last, lsn)
    assert reader.position > last
    ends = [
        frame.message.end_lsn
        for frame in walrow.frames(ROWS.path)
        if frame.message is not None and frame.message.kind == "C"
    ]
    assert reader.position == max(ends)


def test_closed_reader_gives_nothing_more() -> None:
    with walrow.read(ROWS.path, batch_rows=1) as reader:
        next(reader)
    with pytest.raises(ValueError, match="closed"):
        next(reader)
    reader.close()


def test_only_files_that_walrow_opened_are_closed(
    recwarn: pytest.WarningsRecorder,
) -> None:
    file = io.BytesIO(ROWS.data)
    with walrow.read(file) as reader:
        list(reader)
    assert not file.closed
    del reader
    next(walrow.read(ROWS.path))
    assert [str(w.message) for w in recwarn] == []


def test_exception_of_the_source_comes_after_what_was_complete() -> None:
    def chunks() -> Any:
        yield ROWS.data
        yield ROWS.data[:3]
        msg = "the disk is gone"
        raise OSError(msg)

    reader = walrow.read(chunks())
    batches: list[walrow.Batch] = []
    for _ in range(2):
        with pytest.raises(OSError, match="the disk is gone"):
            batches.extend(reader)
    assert outcome(batches) == outcome(walrow.read(ROWS.data))
    assert reader.unfinished


def test_catalog_gives_the_schema_that_reading_gives() -> None:
    table = ROWS.tables["public.item"]
    catalog = _catalog(ROWS.tables)
    assert catalog.tables() == [("public", "item"), ("public", "stock")]
    for options in ({}, {"profile": "spark"}, {"profile": "text", "metadata": ()}):
        read: Any = walrow.read(ROWS.path, table="item", **options).schema
        ours: Any = walrow.schema(catalog, "item", **options)
        assert pa.schema(ours).equals(pa.schema(read), check_metadata=False)
        for one, other in zip(pa.schema(ours), pa.schema(read), strict=True):
            assert one.equals(other, check_metadata=True)
    assert ours.metadata["pg.relation_oid"] == str(table["oid"])
    with pytest.raises(walrow.errors.SchemaError, match="no table none in the catalog"):
        walrow.schema(catalog, "none")


def _catalog(tables: dict[str, Any]) -> walrow.Catalog:
    import json

    entries = [
        {
            "schema": table["schema"],
            "name": table["name"],
            "oid": table["oid"],
            "columns": [
                {
                    "name": column["name"],
                    "type": column["oid"],
                    "type_modifier": column["typmod"],
                    "key": column["name"] in table["key"],
                }
                for column in table["columns"]
            ],
        }
        for table in tables.values()
    ]
    return walrow.Catalog(json.dumps({"tables": entries}))


def test_all_versions_in_one_word(tmp_path: Path) -> None:
    altered = capture("alter-columns")
    table = next(iter(walrow.read(altered.path))).table
    schema = walrow.schema(altered.path, table)
    expected = pa.table(walrow.read(altered.path, table=table, schema=schema))
    assert len(expected.column_names) > len(
        pa.schema(next(iter(walrow.read(altered.path))).schema).names
    )

    def found(source: Any) -> Any:
        return pa.table(walrow.read(source, table=table, versions="union"))

    assert found(altered.path) == expected
    assert found(altered.data) == expected
    # Several files are one stream, cut anywhere.
    half = len(altered.data) // 2 + 1
    (tmp_path / "1").write_bytes(altered.data[:half])
    (tmp_path / "2").write_bytes(altered.data[half:])
    assert found(tmp_path) == expected
    assert found([tmp_path / "1", tmp_path / "2"]) == expected
    file = io.BytesIO(b"before" + altered.data)
    file.seek(6)
    assert found(file) == expected
    log = tmp_path / "log"
    walrow.seal(altered.path, log=log)
    oid = next(
        it.oid for it in walrow.Log(log).tables() if it.versions[-1].name == table
    )
    assert found(log) == expected
    assert found(walrow.Log(log)) == expected
    by_oid = walrow.Log(log).read(table=oid, versions="union")
    assert pa.table(by_oid) == expected
    # Another range has the same columns.
    last = walrow.read(altered.path, table=table, versions="union", start=1 << 40)
    assert pa.schema(last.schema).names == expected.column_names
    assert found(altered.path).select(["_seq"]).num_rows == expected.num_rows


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"versions": "union"}, "needs table="),
        ({"versions": "union", "tables": ["t"]}, "needs table="),
        ({"versions": "union", "table": "t", "schema": pa.schema([])}, "no schema="),
        ({"versions": "all", "table": "t"}, "must be 'one' or 'union'"),
    ],
)
def test_all_versions_need_one_table(options: dict[str, Any], said: str) -> None:
    with pytest.raises(walrow.errors.OptionError, match=said):
        walrow.read(capture("alter-columns").path, **options)


def test_a_source_that_is_read_twice_is_no_pipe(tmp_path: Path) -> None:
    data = capture("alter-columns").data
    with pytest.raises(walrow.errors.OptionError, match="reads the source twice"):
        walrow.read(iter([data]), table="t", versions="union")
    os.mkfifo(pipe := tmp_path / "pipe")
    for source in (pipe, [pipe]):
        with pytest.raises(walrow.errors.OptionError, match="reads the source twice"):
            walrow.read(source, table="t", versions="union")
        with pytest.raises(walrow.errors.OptionError, match="reads a capture twice"):
            walrow.read(source, start="-1h")


def test_a_table_that_changed_does_not_break_the_others() -> None:
    # The two sessions are one stream with two tables.
    data = capture("rows").data + capture("alter-columns").data
    frames = walrow.read(data).to_pyarrow()
    (table,) = frames.errors
    assert len(frames) > 1
    assert table in frames
    for name in ("public.item", "public.stock"):
        only = pa.table(walrow.read(capture("rows").path, table=name))
        assert frames[name] == only
    with pytest.raises(walrow.errors.SchemaError, match="changed, so its rows") as it:
        frames[table]
    assert it.value.table == table
    assert 'versions="union"' in str(it.value)
    for use in (list, dict, lambda all_of_them: all_of_them.items()):
        with pytest.raises(walrow.errors.SchemaError):
            list(use(frames))
    with pytest.raises(KeyError):
        frames["public.absent"]
    assert table in repr(frames)
