"""The framing of a stream from its first bytes, and formats that are no stream."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from captures import Capture, capture, captures, cut
from walrow._sources.chunks import Chunks
from walrow._sources.formats import framing_of_bytes, framing_of_chunk

ALL = captures("text", "binary", "v1")


def recvlogical(capture: Capture) -> bytes:
    """As pg_recvlogical writes it: the messages, each followed by a newline."""
    return b"".join(message + b"\n" for message in messages(capture))


def messages(capture: Capture) -> list[bytes]:
    frames = walrow.frames(capture.data)
    return [frame.to_bytes()[30:] for frame in frames if frame.message is not None]


def payloads(capture: Capture) -> list[bytes]:
    frames = walrow.frames(capture.data)
    return [frame.to_bytes()[5:] for frame in frames if frame.kind in "wk"]


def recognised(source: Any) -> str | None:
    chunks = Chunks(source)
    for _ in chunks:
        break
    return chunks.framing


@pytest.mark.parametrize("capture", captures(), ids=str)
def test_captures_are_wire(capture: Capture) -> None:
    data = capture.data
    for size in (1, 2, 5, 6, 7, 30, 100, 1000, len(data)):
        assert framing_of_bytes(data[:size], ended=True, name="x") == "wire"
        assert framing_of_bytes(data[:size], ended=False, name="x") in {"wire", None}
        assert recognised(cut(data, size)) == "wire"
    assert framing_of_bytes(data[:6], ended=False, name="x") == "wire"


@pytest.mark.parametrize("capture", captures(), ids=str)
def test_a_capture_may_begin_with_any_frame(capture: Capture) -> None:
    data = capture.data
    for frame in walrow.frames(data):
        rest = data[frame.offset :]
        assert framing_of_bytes(rest, ended=True, name="x") == "wire"
        assert framing_of_bytes(rest[: frame.size], ended=True, name="x") == "wire"


@pytest.mark.parametrize("capture", ALL, ids=str)
def test_payloads_and_messages_are_recognised(capture: Capture) -> None:
    for payload in payloads(capture):
        assert recognised([payload]) == "copydata"
        assert recognised(iter([b"", bytearray(payload)])) == "copydata"
    bare = messages(capture)
    if bare:
        assert recognised(bare) == "message"
        assert recognised([("0/1", 7, bare[0])]) == "message"
    # All messages that can come first. Inside a streamed transaction, they have an XID.
    for message in bare:
        if capture.record == "v1" and message != b"E":
            assert framing_of_chunk(message) == "message"


@pytest.mark.parametrize("capture", ALL, ids=str)
def test_files_of_pg_recvlogical_are_recognised(capture: Capture) -> None:
    data = recvlogical(capture)
    if not data:
        return
    assert framing_of_bytes(data, ended=True, name="x") == "recvlogical"
    # pg_recvlogical writes a message and its newline one after the other.
    first = data.index(b"\n", len(messages(capture)[0])) + 1
    assert framing_of_bytes(data[:first], ended=False, name="x") == "recvlogical"
    assert framing_of_bytes(data[: first - 1], ended=False, name="x") is None
    assert recognised(io.BytesIO(data)) == "recvlogical"
    assert recognised(cut(data, 1)) == "recvlogical"


@pytest.mark.parametrize("capture", ALL, ids=str)
def test_files_that_pg_recvlogical_began_in_the_middle_are_recognised(
    capture: Capture,
) -> None:
    data = recvlogical(capture)
    at = 0
    for message in messages(capture):
        if message != b"E":
            assert framing_of_bytes(data[at:], ended=True, name="x") == "recvlogical"
        at += len(message) + 1


def test_stream_start_is_no_parameter_status() -> None:
    begin = b"S" + (740).to_bytes(4, "big") + b"\x01\n"
    for xid in (3, 740, 10_000, 2**32 - 1):
        data = b"S" + xid.to_bytes(4, "big") + b"\x01\nR"
        assert framing_of_bytes(data, ended=False, name="x") == "recvlogical"
    status = streams.backend(b"S", b"TimeZone\0UTC\0")
    assert framing_of_bytes(status, ended=False, name="x") == "wire"
    assert framing_of_bytes(begin, ended=False, name="x") == "recvlogical"
    # Alone, each is a whole chunk.
    assert framing_of_chunk(begin[:-1]) == "message"
    assert framing_of_chunk(status) is None


def archive(make: Any) -> bytes:
    file = io.BytesIO()
    with make(file) as opened:
        if isinstance(opened, zipfile.ZipFile):
            opened.writestr("a.wire", capture("rows").data)
        else:
            opened.addfile(tarfile.TarInfo("a.wire"), io.BytesIO(b""))
    return file.getvalue()


def arrow(write: str) -> bytes:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"secret": ["hunter2"]})
    file = io.BytesIO()
    if write == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, file)
    else:
        with getattr(pa.ipc, write)(file, table.schema) as writer:
            writer.write_table(table)
    return file.getvalue()


WAL = bytes.fromhex("18d1060001000000000000010000000000000000")
DECODED = b"BEGIN 740\ntable public.t: INSERT: secret[text]:'hunter2'\nCOMMIT 740\n"

OTHERS: dict[str, tuple[Callable[[], bytes], str]] = {
    "parquet": (lambda: arrow("parquet"), "Parquet.*its output"),
    "arrow file": (lambda: arrow("new_file"), "an Arrow IPC file"),
    "arrow stream": (lambda: arrow("new_stream"), "an Arrow IPC stream"),
    "wal2json": (
        lambda: json.dumps({"change": [{"secret": "hunter2"}]}).encode(),
        "JSON, as wal2json.*plugin pgoutput",
    ),
    "wal2json 2": (lambda: b'{"action":"B"}\n{"secret":"hunter2"}\n', "JSON"),
    "test_decoding": (lambda: DECODED, "test_decoding.*plugin pgoutput"),
    "test_decoding in a transaction": (lambda: DECODED[10:], "test_decoding"),
    "pg_dump": (
        lambda: b"--\n-- PostgreSQL database dump\n--\n\nhunter2",
        "dump of pg_dump.*not their changes",
    ),
    "pg_dump -Fc": (lambda: b"PGDMP\x01\x10\x00hunter2", "archive of pg_dump"),
    "COPY": (lambda: b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"hunter2", "COPY in binary"),
    "WAL": (lambda: WAL + bytes(100) + b"hunter2", "WAL segment.*pgoutput"),
    "pcap": (lambda: b"\xd4\xc3\xb2\xa1\x02\0\x04\0hunter2", "packet capture"),
    "pcapng": (lambda: b"\x0a\x0d\x0d\x0a\x1c\0\0\0hunter2", "packet capture"),
    "zip": (
        lambda: archive(lambda file: zipfile.ZipFile(file, "w")),
        "a zip archive.*extract",
    ),
    "tar": (
        lambda: archive(lambda file: tarfile.open(fileobj=file, mode="w")),  # noqa: SIM115
        "a tar archive.*extract",
    ),
    "bzip2": (lambda: bz2.compress(capture("rows").data), "bzip2.*decompress"),
    "xz": (lambda: lzma.compress(capture("rows").data), "xz.*decompress"),
    "psql": (lambda: b"\\x4200000000000000000000000000000000000002e4\n", "psql"),
    "SQL": (lambda: b"INSERT INTO t VALUES ('hunter2');\n" * 3, "text"),
    "CSV": (lambda: b"id,secret\n1,hunter2\n", "text"),
    "HTML": (lambda: b"<!DOCTYPE html>\n<p>hunter2</p>", "HTML"),
    "payload": (
        lambda: b"w" + bytes(24) + streams.begin(),
        r'one CopyData payload.*walrow\.Decoder\(framing="copydata"\)',
    ),
    "keepalive": (lambda: b"k" + bytes(17), "one CopyData payload"),
    "message": (
        lambda: streams.insert(["hunter2"]),
        r'single pgoutput message.*walrow\.Decoder\(framing="message"\)',
    ),
    "Begin": (streams.begin, "single pgoutput message"),
    "Stream Start": (lambda: b"S\0\0\x02\xe1\x01", "single pgoutput message"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_formats_are_named_with_what_to_do(name: str, tmp_path: Path) -> None:
    make, text = OTHERS[name]
    path = tmp_path / "other"
    path.write_bytes(make())
    for read in (walrow.read, walrow.frames):
        with pytest.raises(walrow.errors.DecodeError, match=text) as caught:
            list(read(path))
        assert caught.value.offset == 0
        assert str(path) in str(caught.value)
        assert "hunter2" not in str(caught.value)
    if name not in {"payload", "keepalive", "message", "Begin", "Stream Start"}:
        with pytest.raises(walrow.errors.DecodeError, match=text):
            list(walrow.read(cut(make(), 7)))


def test_compressed_other_formats_are_named_too() -> None:
    import gzip

    with pytest.raises(walrow.errors.DecodeError, match="test_decoding"):
        list(walrow.read(gzip.compress(DECODED)))


def test_unknown_bytes_are_an_error_of_the_protocol() -> None:
    for data in (b"\x00\x01\x02\x03\x04\x05\x06\x07", b"\xfe" * 100, b"x"):
        with pytest.raises(walrow.errors.DecodeError, match="type byte 0x"):
            list(walrow.read(data))


def test_unknown_formats_name_the_file_and_pgoutput(tmp_path: Path) -> None:
    path = tmp_path / "logo.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(300))
    with pytest.raises(
        walrow.errors.DecodeError, match=r"no known.*0x89.*pgoutput"
    ) as caught:
        list(walrow.read(path))
    assert str(path) in str(caught.value)
    error = caught.value
    assert (error.offset, error.message, error.field) == (0, "frame", "type byte")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"BEGIN 740", "test_decoding"),
        (b"table public.t: INSERT: secret[text]:'hunter2'", "test_decoding"),
        (b'{"change":[{"secret":"hunter2"}]}', "wal2json"),
    ],
)
def test_streams_of_other_plugins_are_named(data: bytes, text: str) -> None:
    payload = b"w" + bytes(24) + data
    keepalive = streams.backend(b"d", b"k" + bytes(17))
    for source, offset in (
        (keepalive + streams.backend(b"d", payload), len(keepalive) + 30),
        ([payload], 25),
    ):
        with pytest.raises(
            walrow.errors.DecodeError, match=f"{text}.*pgoutput"
        ) as caught:
            list(walrow.read(source))
        assert caught.value.offset == offset
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("capture", captures("text", "binary"), ids=str)
def test_recognised_framings_give_the_same_batches(capture: Capture) -> None:
    def rows(source: Any) -> list[Any]:
        # Only wire captures contain the error of a server.
        reader = walrow.read(source, late_start=True, unfinished="ignore")
        return [(batch.table, len(batch)) for batch in reader]

    pieces = cut(recvlogical(capture), 1000)
    try:
        expected = rows(capture.data)
    except walrow.Error as error:
        with pytest.raises(type(error)):
            rows(pieces)
        return
    assert rows(pieces) == expected
    assert rows(messages(capture)) == expected
    assert rows(payloads(capture)) == expected
    data = recvlogical(capture)
    again = b"".join(frame.to_bytes() for frame in walrow.frames(pieces))
    assert again == data
