"""Segments as streams: what other decoders read, and walrow's facts between a user's data."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from captures import Capture
from logs import (
    COLUMNS,
    SEALABLE,
    contents,
    log_of,
    published,
    sampled,
    sealed,
    transaction,
    transactions,
)
from reference import reader
from reference import transactions as model
from walrow._sources.compression import decompressed

pa = pytest.importorskip("pyarrow")

#: What a log keeps of transactions that have changes: all changes, and messages but facts.
HISTORIES = [each for each in SEALABLE if each.record in {"text", "v1"}]
FACTS = ["segment", "catalog", "prepared", "part", "continues", "position", "decided"]


def plain(segment: walrow.log.Segment) -> bytes:
    """The stream of a segment."""
    data = segment.path.read_bytes()
    return b"".join(decompressed(iter([data]), "zstd", segment.path.name))


def is_fact(message: Any) -> bool:
    return (message.prefix, message.lsn) == ("walrow", 0)


def history(*pieces: bytes) -> tuple[list[Any], list[Any]]:
    """The transactions, with parts of one joined, and the messages outside of them.

    Each piece is read alone: the model refuses rows of relations that it does not define.
    """
    joined: dict[tuple[Any, ...], tuple[list[Any], list[Any]]] = {}
    messages: list[Any] = []
    for piece in pieces:
        found = model.history(piece)
        for each in found.transactions:
            key = (
                each.xid,
                each.commit_lsn,
                each.end_lsn,
                each.commit_time,
                each.origin,
            )
            changes, inside = joined.setdefault(key, ([], []))
            changes += [
                (it.kind, it.relation, it.old_kind, it.old, it.new, it.options)
                for it in each.changes
            ]
            inside += [
                (it.lsn, it.prefix, it.content)
                for it in each.messages
                if not is_fact(it)
            ]
        messages += [it for it in found.messages if not is_fact(it)]
    return list(joined.items()), messages


@pytest.mark.parametrize("capture", sampled(HISTORIES), ids=str)
def test_other_decoders_read_each_segment_and_all_of_them(
    capture: Capture, tmp_path: Path
) -> None:
    expected = history(capture.data)
    for size in (1, 64 << 20):
        segments = log_of(tmp_path / str(size), capture, size).segments()
        pieces = [plain(segment) for segment in segments]
        assert [len(piece) for piece in pieces] == [it.stream_bytes for it in segments]
        assert history(*pieces) == expected
        whole = b"".join(pieces)
        if not any(segment.continues for segment in segments):
            assert history(whole) == expected
        kinds = {type(message).__name__ for _, message in reader.messages(whole)}
        assert not kinds & {"StreamStart", "StreamCommit", "Prepare", "CommitPrepared"}


def test_types_come_before_their_use_in_each_segment(tmp_path: Path) -> None:
    columns = [streams.Column("mood", 90_000, type_name=("public", "mood"))]
    stream = [
        streams.wired(*streams.messages(columns, [["ok"]]))
        .replace((0x1000).to_bytes(8, "big"), end.to_bytes(8, "big"))
        .replace((0x1008).to_bytes(8, "big"), (end + 8).to_bytes(8, "big"))
        for end in (0x1000, 0x2000)
    ]
    # The server sends the definitions once in a session.
    (begin, _, _, *rest) = [frame for _, frame in _split(stream[1])]
    log = published(tmp_path / "log", [stream[0], b"".join([begin, *rest])])
    for segment in log.segments():
        kinds = [type(it).__name__ for _, it in reader.messages(plain(segment)) if it]
        assert kinds.index("Type") < kinds.index("Relation") < kinds.index("Insert")


def _split(data: bytes) -> list[tuple[str, bytes]]:
    frames = list(reader.frames(data))
    ends = [frame.offset for frame in frames[1:]] + [len(data)]
    return [
        (frame.kind, data[frame.offset : end])
        for frame, end in zip(frames, ends, strict=True)
    ]


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs the command zstd")
@pytest.mark.parametrize("level", [None, 1, 19])
def test_zstd_decompresses_segments(tmp_path: Path, level: int | None) -> None:
    rows = [(str(row), "v" * 1000) for row in range(3000)]
    stream = [*transactions(2), transaction(0x9000, *rows)]
    segments = published(tmp_path / "log", stream, level=level).segments()
    paths = [segment.path for segment in segments]
    subprocess.run(["zstd", "-q", "-t", *paths], check=True)  # noqa: S603, S607
    for segment in segments:
        found = subprocess.run(  # noqa: S603
            ["zstd", "-q", "-d", "-c", segment.path],  # noqa: S607
            check=True,
            capture_output=True,
        ).stdout
        assert found == plain(segment)
        assert len(found) == segment.stream_bytes
    # Each is a file that walrow reads like a capture, too.
    whole = contents(walrow.read(streams.SESSION + b"".join(stream)))
    assert contents(walrow.read([str(path) for path in paths])) == whole


USER = json.dumps({"fact": "part", "first_seq": 7}).encode()
STREAM = streams.SESSION + streams.wired(
    streams.message("walrow", USER, 0x500, transactional=False),
    streams.begin(lsn=0xFF8),
    streams.message("walrow", b'{"fact":"position","lsn":"0/FFFF0000"}', 0xF00),
    streams.relation(COLUMNS),
    streams.insert(("1", "x")),
    streams.commit(lsn=0xFF8, end=0x1000),
    streams.message("walrow", b'{"fact":"continues"}', 0x1100, transactional=False),
)


@pytest.mark.parametrize("size", [1, 64 << 20])
def test_messages_of_users_that_look_like_facts_are_data(
    tmp_path: Path, size: int
) -> None:
    log = sealed(tmp_path / "log", STREAM, segment_size=size)
    assert log.end == 0x1100
    options: list[dict[str, Any]] = [
        {"table": "walrow.messages"},
        {"table": "t"},
        {"tables": ["t", "walrow.messages", "walrow.transactions"]},
    ]
    for each in options:
        assert contents(log.read(**each)) == contents(walrow.read(STREAM, **each))
    (batch,) = log.read(table="walrow.messages")
    found = pa.record_batch(batch)["content"].to_pylist()
    assert [json.loads(each)["fact"] for each in found] == [
        "part",
        "position",
        "continues",
    ]


def test_facts_are_messages_and_frames_and_no_data(tmp_path: Path) -> None:
    log = sealed(tmp_path / "log", STREAM, segment_size=1)
    found = [it for it in walrow.messages(log) if it.kind == "M" and is_fact(it)]
    names = [json.loads(each.content)["fact"] for each in found]
    assert names[0] == "segment"
    assert set(names) <= set(FACTS)
    frames = list(walrow.frames(log.path))
    again = b"".join(frame.to_bytes() for frame in frames)
    assert again == b"".join(plain(segment) for segment in log.segments())
    assert [it for it in frames if it.message and is_fact_frame(it)]
    sides = log.read(table="walrow.messages")
    assert sum(batch.num_rows for batch in sides) == 3


def is_fact_frame(frame: Any) -> bool:
    return frame.message.kind == "M" and is_fact(frame.message)


def test_decoders_take_the_stream_of_a_log(tmp_path: Path) -> None:
    log = sealed(tmp_path / "log", STREAM, segment_size=1)
    decoder = walrow.Decoder()
    batches = [
        batch for segment in log.segments() for batch in decoder.feed(plain(segment))
    ]
    batches += decoder.finish()
    assert contents(batches) == contents(walrow.read(STREAM))
    reader_ = walrow.read(log)
    list(reader_)
    assert decoder.position == reader_.position == 0x1000
