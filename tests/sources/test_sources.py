"""Kinds of sources: files, directories, patterns, URLs, compressed data, rows; the refused ones."""

from __future__ import annotations

import collections
import contextlib
import gc
import gzip
import io
import itertools
import os
import traceback
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from captures import capture, cut
from rows import outcome
from walrow._sources import compression
from walrow._sources.chunks import Chunks

ROWS = capture("rows")
#: The capture in three parts, cut inside of frames and transactions.
PARTS = cut(ROWS.data, len(ROWS.data) // 3 + 1)
SECRET = "hunter2"  # noqa: S105


def zstd(data: bytes) -> bytes:
    pa = pytest.importorskip("pyarrow")
    compressed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return compressed


def expected() -> Any:
    found = outcome(walrow.read(ROWS.data))
    assert found.batches
    return found


# Compressed data.


@pytest.mark.parametrize("compress", [gzip.compress, zstd], ids=["gzip", "zstd"])
@pytest.mark.parametrize(
    "kind", ["path", "file", "bytes", "memoryview", "chunks", "list", "members"]
)
def test_compressed_sources_are_read(
    tmp_path: Path, compress: Callable[[bytes], bytes], kind: str
) -> None:
    data = compress(ROWS.data)
    # The name does not say it.
    path = tmp_path / "capture"
    path.write_bytes(data)
    source: Any = {
        "path": path,
        "file": io.BytesIO(data),
        "bytes": data,
        "memoryview": memoryview(bytearray(data)),
        "chunks": (piece for piece in cut(data, 3)),
        "list": [path],
        "members": b"".join(map(compress, PARTS)),
    }[kind]
    assert outcome(walrow.read(source)) == expected()


def test_name_does_not_make_it_compressed(tmp_path: Path) -> None:
    path = tmp_path / "plain.gz"
    path.write_bytes(ROWS.data)
    assert outcome(walrow.read(path)) == expected()


def test_skippable_frames_of_zstd_and_padding_of_gzip_are_skipped() -> None:
    skipped = b"\x50\x2a\x4d\x18\x05\0\0\0hello"
    data = skipped + zstd(PARTS[0]) + skipped + zstd(b"".join(PARTS[1:])) + skipped
    assert outcome(walrow.read(data)) == expected()
    data = gzip.compress(PARTS[0]) + gzip.compress(b"".join(PARTS[1:])) + bytes(999)
    assert outcome(walrow.read(data)) == expected()


@pytest.mark.parametrize("compress", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_truncated_compressed_data_is_an_error_after_all_rows_before_it(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "cut.wire"
    whole = compress(ROWS.data)
    for rest in (1, 8, len(whole) // 2, len(whole) - 5):
        # The first member is whole.
        path.write_bytes(compress(ROWS.data) + whole[:-rest])
        reader = walrow.read(path)
        batches: list[walrow.Batch] = []
        with pytest.raises(walrow.errors.UnfinishedError, match="truncated") as caught:
            batches.extend(reader)
        assert str(path) in str(caught.value)
        rows = sum(map(len, batches))
        assert rows >= sum(map(len, walrow.read(ROWS.data)))
        ignoring = walrow.read(path, unfinished="ignore")
        assert sum(map(len, ignoring)) == rows
        # Only the source's end may be missing.
        with pytest.raises(walrow.errors.UnfinishedError, match="truncated"):
            list(walrow.read([path, path], unfinished="ignore"))


@pytest.mark.parametrize("compress", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_every_reader_may_ignore_that_compressed_data_is_truncated(
    compress: Callable[[bytes], bytes],
) -> None:
    data = compress(ROWS.data) + compress(ROWS.data)[:-3]
    with pytest.raises(walrow.errors.UnfinishedError, match="truncated"):
        walrow.schema(data, "public.item")
    found = walrow.schema(data, "public.item", unfinished="ignore")
    assert found == walrow.schema(ROWS.data, "public.item")
    chunks = [data[at : at + 7] for at in range(0, len(data), 7)]
    rows = sum(map(len, walrow.read(data, unfinished="ignore")))
    assert sum(map(len, walrow.read(chunks, unfinished="ignore"))) == rows


@pytest.mark.parametrize("compress", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_damaged_compressed_data_is_an_error(
    compress: Callable[[bytes], bytes],
) -> None:
    whole = compress(ROWS.data)
    name = "gzip" if compress is gzip.compress else "zstd"
    for wrong in (whole + b"more bytes", whole[:30] + b"????" + whole[34:]):
        with pytest.raises(walrow.errors.DecodeError, match=f"{name} data is damaged"):
            list(walrow.read(wrong))


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_bombs_are_decompressed_in_bounded_memory(kind: str) -> None:
    size = 128 << 20
    if kind == "gzip":
        engine = zlib.compressobj(wbits=31)
        bomb = b"".join(engine.compress(bytes(1 << 20)) for _ in range(size >> 20))
        bomb += engine.flush()
    else:
        bomb = zstd(bytes(size))
    tracemalloc.start()
    try:
        blocks = compression.decompressed([bomb], kind, "bomb")
        assert sum(map(len, blocks)) == size
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_zstd_that_needs_much_memory_is_refused() -> None:
    # A frame whose window is 2 GiB.
    with pytest.raises(
        walrow.errors.DecodeError, match=r"zstd data is damaged: .*memory"
    ):
        list(walrow.read(b"\x28\xb5\x2f\xfd\x00\xa8" + bytes(100)))


# Several files.


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The capture in parts, in the order of their names; one in a subdirectory."""
    assert len(PARTS) == 3
    # As text, 10 is before 9.
    for name, data in zip(("10.wire", "8/1.wire", "9.wire.gz"), PARTS, strict=True):
        path = tmp_path / "captures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    for name in ("_SUCCESS", ".10.wire.crc"):
        (tmp_path / "captures" / name).write_bytes(b"not a capture")
    (tmp_path / "captures" / "_temporary").mkdir()
    (tmp_path / "captures" / "_temporary" / "0.wire").write_bytes(b"not a capture")
    return tmp_path / "captures"


@pytest.mark.parametrize(
    "make",
    [
        lambda at: at,
        lambda at: f"{at}/",
        lambda at: [at / "10.wire", str(at / "8"), at / "9.wire.gz"],
        lambda at: iter([at / "10.wire", at / "8/1.wire", at / "9.wire.gz"]),
        lambda at: [at / "[1]*", f"{at}/8/*.wire", f"{at}/9.*"],
        lambda at: f"{at}/**/[189]*.wire*",
        lambda at: [io.BytesIO(PARTS[0]), io.BytesIO(PARTS[1]), at / "9.wire.gz"],
        lambda at: f"file://{at}/",
        lambda at: [f"file://{at}/1*", f"file://{at}/8/", f"file://{at}/9.wire.gz"],
    ],
    ids=itertools.count(),
)
def test_several_files_are_one_stream_in_order(
    directory: Path, make: Callable[[Path], Any]
) -> None:
    pytest.importorskip("fsspec")
    assert outcome(walrow.read(make(directory))) == expected()
    frames = walrow.frames(make(directory))
    assert b"".join(frame.to_bytes() for frame in frames) == ROWS.data


def test_a_list_has_the_given_order(directory: Path) -> None:
    with pytest.raises(walrow.errors.DecodeError):
        list(walrow.read([directory / "9.wire.gz", directory / "10.wire"]))


def test_errors_name_the_file_of_several(tmp_path: Path) -> None:
    for name, data in (("a", ROWS.data), ("b", b"?" * 9), ("c", ROWS.data)):
        (tmp_path / name).write_bytes(data)
    reader = walrow.read(tmp_path)
    for _ in range(2):
        with pytest.raises(walrow.errors.DecodeError) as caught:
            list(reader)
        assert caught.value.__notes__ == [f"walrow: in {tmp_path}/b"]
    # An error at the end of all files names no file.
    with pytest.raises(walrow.errors.SchemaError) as missing:
        list(walrow.read([ROWS.path, ROWS.path], table="none"))
    assert not hasattr(missing.value, "__notes__")
    with pytest.raises(walrow.errors.DecodeError) as single:
        list(walrow.read(tmp_path / "b"))
    assert not hasattr(single.value, "__notes__")


def test_names_that_look_like_patterns_are_files_first(tmp_path: Path) -> None:
    path = tmp_path / "a[1]*.wire"
    path.write_bytes(ROWS.data)
    (tmp_path / "a1.wire").write_bytes(b"not a capture")
    assert outcome(walrow.read(path)) == expected()


def test_files_are_opened_one_after_the_other_and_closed(directory: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    # Files that earlier tests left open in a cycle close at any time.
    gc.collect()
    before = count()
    chunks = Chunks([directory / "10.wire", directory / "8", directory / "9.wire.gz"])
    assert len(chunks.files) == 3
    assert count() == before + 1
    names = []
    for _ in chunks:
        assert count() == before + 1
        names.append(chunks.name.removeprefix(f"{directory}/"))
    assert names == ["10.wire", "8/1.wire", "9.wire.gz"]
    assert count() == before
    with walrow.read(directory) as reader:
        next(iter(reader), None)
    assert count() == before
    # Without with, and without the garbage collector's cycles.
    walrow.read(directory)
    assert count() == before


@pytest.mark.parametrize(
    "make",
    [
        lambda at: at / "none",
        lambda at: [ROWS.path, at / "none"],
        lambda at: f"{at}/*.none",
        lambda at: at / "empty",
        lambda at: f"file://{at}/*.none",
    ],
    ids=itertools.count(),
)
def test_missing_files_are_an_error_immediately(
    tmp_path: Path, make: Callable[[Path], Any]
) -> None:
    pytest.importorskip("fsspec")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError):
        walrow.read(make(tmp_path))


def test_a_directory_that_contains_itself_is_an_error(directory: Path) -> None:
    (directory / "8" / "again").symlink_to(directory)
    with pytest.raises(OSError, match="leads back"):
        walrow.read(directory)


def test_a_list_of_files_contains_only_files() -> None:
    with pytest.raises(TypeError, match="contains another source: bytes"):
        walrow.read([ROWS.path, ROWS.data])


def test_empty_files_are_whole_and_have_no_rows(tmp_path: Path) -> None:
    empty = tmp_path / "a"
    empty.touch()
    assert list(walrow.read(empty)) == []
    assert list(walrow.read([])) == []
    assert list(walrow.read(gzip.compress(b""))) == []
    # The first file with bytes decides.
    assert outcome(walrow.read([empty, ROWS.path, empty])) == expected()


def test_an_empty_chunk_returns_the_complete_rows() -> None:
    """A live source says with it that nothing more came for now."""
    frames = list(walrow.frames(ROWS.data))
    asked = 0

    def chunks() -> Iterator[bytes]:
        nonlocal asked
        for frame in frames:
            asked += 1
            yield frame.to_bytes()
            yield b""

    places = []
    batches = []
    for batch in walrow.read(chunks()):
        batches.append(batch)
        places.append(asked)
    # The rows of a transaction come with its commit, before the next frame.
    commits = [
        place
        for place, frame in enumerate(frames, 1)
        if frame.message and frame.message.kind == "C"
    ]
    assert sorted(set(places)) == [place for place in commits if place in places]
    assert len(set(places)) > 5
    assert outcome(batches).tables() == expected().tables()


# Rows of pg_logical_slot_get_binary_changes.

Row = collections.namedtuple("Row", ["lsn", "xid", "data"])  # noqa: PYI024


class Indexed:
    """A row that is neither a tuple nor a mapping, as in SQLAlchemy."""

    def __init__(self, *values: Any) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, at: int) -> Any:
        return self._values[at]


@pytest.mark.parametrize(
    "shape",
    [
        lambda lsn, data: (lsn, "7", data),
        lambda lsn, data: (lsn, 7, memoryview(data)),
        lambda lsn, data: [lsn, 7, data],
        lambda lsn, data: {"lsn": lsn, "xid": 7, "data": memoryview(data)},
        lambda lsn, data: collections.OrderedDict(data=data, xid="7", lsn=lsn),
        lambda lsn, data: Row(lsn, "7", data),
        lambda lsn, data: Indexed(lsn, "7", data),
        lambda _, data: {"data": data},
        lambda _, data: (data,),
        lambda _, data: data,
        lambda lsn, data: (walrow.Lsn(lsn), 7, bytearray(data)),
    ],
    ids=itertools.count(),
)
def test_rows_of_drivers_are_read(shape: Callable[[str, bytes], Any]) -> None:
    rows = []
    for frame in walrow.frames(ROWS.data):
        if frame.message is not None:
            lsn = streams.format_lsn(frame.fields["start"])
            rows.append(shape(lsn, frame.to_bytes()[30:]))
    assert outcome(walrow.read(iter(rows))).batches == expected().batches
    assert outcome(walrow.read(rows)).batches == expected().batches
    names = [frame.message.name for frame in walrow.frames(rows) if frame.message]
    assert len(names) == len(rows)


def test_a_single_row_of_a_driver_is_a_source() -> None:
    for row in (
        ("0/10", "7", streams.begin()),
        {"lsn": "0/10", "data": streams.begin()},
    ):
        (frame,) = walrow.frames(row)
        assert frame.message is not None
        assert frame.message.name == "Begin"


@pytest.mark.parametrize(
    ("row", "kind", "text"),
    [
        (("0/10", "7", "BEGIN 7"), walrow.errors.OptionError, "get_binary_changes"),
        (
            {"lsn": "0/10", "xid": "7", "data": "x"},
            walrow.errors.OptionError,
            "contain text",
        ),
        ({"change": b"x"}, TypeError, "lsn, xid, data"),
        (("0/10", b"x", None), TypeError, "lsn, xid, data"),
        (7, TypeError, "not int"),
    ],
)
def test_other_rows_are_refused(row: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        list(walrow.read([row, row]))


def test_later_rows_are_checked_too() -> None:
    for wrong in (("0/20", b"B"), {"lsn": "0/20"}):
        with pytest.raises(TypeError, match="lsn, xid, data"):
            list(walrow.read([("0/10", "7", streams.begin()), wrong]))


# Objects that are no source, and secrets.


class Connection:
    """As a connection of psycopg or psycopg2."""

    dsn = f"password={SECRET}"

    def cursor(self) -> None: ...


class Table:
    """A table of pyarrow, pandas or polars."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise AssertionError


class AsyncConnection(Connection):
    """As psycopg's."""


class AsyncCursor:
    """As psycopg's."""

    async def __aiter__(self) -> Any:
        yield b""


class ReplicationCursor:
    """As psycopg2's."""

    def read_message(self) -> None: ...
    def __iter__(self) -> Iterator[bytes]:
        return iter([])


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (f"postgresql://admin:{SECRET}@db/shop", "pg_recvlogical"),
        (f"postgres://db/shop?password={SECRET}", "does not connect"),
        (f"postgresql+psycopg://admin:{SECRET}@db/shop", "connection string"),
        (f"JDBC:postgresql://db/shop?password={SECRET}", "connection string"),
        (f"host=db password={SECRET}", "connection string"),
        (f"password = {SECRET} dbname=x", "connection string"),
        ("dbname=shop", "connection string"),
        ([f"host=db password={SECRET}"], "connection string"),
        (Connection(), "database connection: .*pg_logical_slot_peek_binary_changes"),
        (Table(), r"a table, Table: .*to_pylist\(\)"),
        (AsyncConnection(), "asynchronous connection"),
        (AsyncCursor(), "asynchronous: .*await"),
        (ReplicationCursor(), 'Decoder\\(framing="message"\\)'),
    ],
    ids=itertools.count(),
)
def test_connections_are_refused_without_their_secrets(source: Any, text: str) -> None:
    with pytest.raises(walrow.errors.OptionError, match=text) as caught:
        walrow.read(source)
    assert_secret(caught.value)
    with pytest.raises(walrow.errors.OptionError, match=text) as caught:
        walrow.frames(source)
    assert_secret(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"nothing://key:{SECRET}@bucket/a.wire",
        f"http://key:{SECRET}@127.0.0.1:1/a.wire?signature={SECRET}",
        f"s3://key:{SECRET}@bucket/*.wire",
        f"file://key:{SECRET}@host/none",
        f"file:///none?signature={SECRET}",
        f"zip://a.wire::http://key:{SECRET}@127.0.0.1:1/b.zip",
        f"http://key:a/{SECRET}@127.0.0.1:1/a.wire",
        f"http://[::1:{SECRET}@x/a.wire",
    ],
)
def test_credentials_in_urls_are_never_shown(url: str) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises((walrow.errors.OptionError, OSError)) as caught:
        list(walrow.read(url))
    assert_secret(caught.value)


def test_connection_strings_are_no_catalogs() -> None:
    for conninfo in (
        f"postgresql://admin:{SECRET}@db/shop",
        f"host=x password={SECRET}",
    ):
        for call in (
            partial(walrow.read, b"", catalog=conninfo),
            partial(walrow.Catalog.from_file, conninfo),
        ):
            with pytest.raises(
                walrow.errors.OptionError, match=r"postgres\.catalog"
            ) as caught:
                call()
            assert_secret(caught.value)
        with pytest.raises(
            walrow.errors.OptionError, match="connection string"
        ) as caught:
            walrow.schema(conninfo, "t")
        assert_secret(caught.value)


def assert_secret(error: BaseException) -> None:
    said = "".join(traceback.format_exception_only(error)) + repr(error)
    cause = error.__cause__
    while cause is not None:
        said += repr(cause)
        cause = cause.__cause__
    assert SECRET not in said
    if not error.__suppress_context__ and error.__context__ is not None:
        assert SECRET not in repr(error.__context__)


def test_files_that_look_like_connection_strings_are_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dbname=shop").mkdir()
    (tmp_path / "dbname=shop" / "host=a.wire").write_bytes(ROWS.data)
    assert outcome(walrow.read("dbname=shop/host=a.wire")) == expected()


def test_a_closed_reader_closes_files_that_an_iterator_named(directory: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    reader = walrow.read(iter([directory]), batch_rows=1)
    with contextlib.suppress(StopIteration):
        next(reader)
    reader.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


@pytest.mark.parametrize(
    "text", ["postgresql://me:secret@db/shop", "host=db password=secret"]
)
def test_a_path_that_is_a_connection_string_is_refused_without_its_password(
    tmp_path: Path, text: str
) -> None:
    path = type(tmp_path)(text)
    for source in (path, [path]):
        with pytest.raises(
            walrow.errors.OptionError, match="connection string"
        ) as caught:
            walrow.read(source)
        assert "secret" not in str(caught.value)
