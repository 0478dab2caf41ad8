"""`walrow.frames`: every frame, its message, and the way back to bytes."""

from __future__ import annotations

import gzip
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import reference
import streams
import walrow
from captures import Capture, capture, captures, cut
from walrow._core import Counts

ROWS = capture("rows")
LOGICAL = [each for each in captures() if each.record != "physical"]
#: The other reader's names for the manual's fields.
RENAMED = {
    "Origin": {"commit_lsn": "lsn"},
    "Relation": {"namespace": "schema"},
    "Type": {"namespace": "schema"},
}


@pytest.mark.parametrize("capture", LOGICAL, ids=str)
def test_counts_are_those_of_another_reader(capture: Capture) -> None:
    frames: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    for frame in walrow.frames(capture.path):
        frames[frame.kind] += 1
        if frame.message is not None:
            messages[frame.message.kind] += 1
    expected = reference.counts(capture.data)
    assert frames == expected["frames"]
    assert messages == expected["messages"]
    counted = Counts()
    for piece in cut(capture.data, 77):
        counted.feed(piece)
    assert not counted.unfinished
    result = counted.result()
    assert result["frames"] == frames
    assert result["messages"] == messages
    cells = {kind: n for kind, n in result["cells"].items() if n}
    assert cells == {k: n for k, n in expected["cells"].items() if n}


@pytest.mark.parametrize("capture", captures(), ids=str)
def test_frames_encode_to_the_bytes_they_came_in(capture: Capture) -> None:
    data = capture.data
    for source in (data, cut(data, 11)):
        frames = walrow.frames(source)
        at = 0
        for frame in frames:
            encoded = frame.to_bytes()
            assert (frame.offset, frame.size) == (at, len(encoded))
            assert encoded == data[at : at + len(encoded)]
            at += frame.size
        assert at == len(data)
        assert not frames.unfinished


@pytest.mark.parametrize("capture", LOGICAL, ids=str)
def test_fields_are_those_of_another_reader(capture: Capture) -> None:
    others = reference.messages(capture.data)
    for frame, (other_frame, other) in zip(
        walrow.frames(capture.path), others, strict=True
    ):
        assert (frame.kind, frame.offset) == (other_frame.kind, other_frame.offset)
        if frame.kind == "w":
            assert frame.name == "XLogData"
            assert frame.fields == {
                "start": other_frame.start,
                "end": other_frame.end,
                "clock": other_frame.time,
            }
        if frame.message is None:
            assert other is None
            continue
        assert frame.message.name.replace(" ", "") == type(other).__name__
        renamed = RENAMED.get(frame.message.name, {})
        if hasattr(other, "old"):
            row = [_cell(cell) for cell in other.old] if other.old_kind else None
            assert frame.message.key == (row if other.old_kind == "K" else None)
            assert frame.message.old == (row if other.old_kind == "O" else None)
        for name, value in frame.message.fields.items():
            other_name = renamed.get(name, name)
            if name != "old" and hasattr(other, other_name):
                assert value == _plain(name, getattr(other, other_name)), name


def _plain(name: str, value: Any) -> Any:
    if name == "new":
        return [_cell(cell) for cell in value]
    if name in {"first", "transactional"}:
        return bool(value)
    if name == "replica_identity":
        return {"d": "default", "n": "nothing", "f": "full", "i": "index"}[value]
    if name == "columns":
        return [
            {
                "flags": int(column.key),
                "name": column.name,
                "type_oid": column.type_oid,
                "type_modifier": column.typmod,
            }
            for column in value
        ]
    if isinstance(value, tuple):
        return list(value)
    return value


def _cell(cell: Any) -> Any:
    match cell.kind:
        case "n":
            return None
        case "u":
            return walrow.UNCHANGED
        case "t":
            return cell.data.decode()
        case _:
            return cell.data


def test_old_rows_say_whether_they_are_keys() -> None:
    for name, field, other in (("rows", "key", "old"), ("identity-full", "old", "key")):
        found = [
            frame.message
            for frame in walrow.frames(capture(name).path)
            if frame.message is not None and frame.message.kind == "D"
        ]
        assert found
        assert all(message.fields[field] is not None for message in found)
        assert all(message.fields[other] is None for message in found)


def test_fields_are_attributes() -> None:
    messages = {
        frame.message.kind: frame.message
        for frame in walrow.frames(ROWS.path)
        if frame.message is not None
    }
    begin, insert = messages["B"], messages["I"]
    assert begin.xid == begin.fields["xid"]
    assert insert.relation == insert.fields["relation"]
    assert {"xid", "relation", "new", "kind", "name", "fields"} <= set(dir(insert))
    with pytest.raises(AttributeError, match="Insert has no field"):
        _ = insert.nothing
    assert not hasattr(insert, "nothing")
    assert "Insert" in repr(insert)


def test_frames_are_frozen() -> None:
    frame = next(iter(walrow.frames(ROWS.path)))
    with pytest.raises(AttributeError):
        frame.kind = "x"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        frame.other = 1  # type: ignore[attr-defined]
    assert frame.name == "CopyBothResponse"
    assert frame.fields == {"format": 0, "columns": []}


def test_unchanged_is_a_singleton() -> None:
    cells = [
        cell
        for frame in walrow.frames(capture("update-toast").path)
        if frame.message is not None and frame.message.kind == "U"
        for cell in frame.message.new
    ]
    assert any(cell is walrow.UNCHANGED for cell in cells)
    assert repr(walrow.UNCHANGED) == "UNCHANGED"
    assert pickle.loads(pickle.dumps(walrow.UNCHANGED)) is walrow.UNCHANGED


def test_frames_of_a_physical_stream_have_no_message() -> None:
    frames = list(walrow.frames(capture("physical", "physical").path))
    assert any(frame.kind == "w" for frame in frames)
    assert all(frame.message is None for frame in frames)


@pytest.mark.parametrize(
    "message", [b"?\xd0garbage", b"\xd1\x13", b"\x13\xd1\x05\0", b"\0\0\0\0"]
)
@pytest.mark.parametrize("end", [0, 0x1000, 0x2000])
def test_corrupt_message_is_no_wal(message: bytes, end: int) -> None:
    corrupt = ROWS.data + streams.data(message, 0x1000, end) + ROWS.data
    whole = len(list(walrow.frames(ROWS.data)))
    frames = walrow.frames(corrupt)
    found: list[walrow.typing.Frame] = []
    with pytest.raises(walrow.errors.DecodeError, match="kind 0x") as caught:
        found.extend(frames)
    assert caught.value.offset == len(ROWS.data) + 5 + 25
    assert len(found) == whole
    assert any(frame.message is not None for frame in found)
    counts, expected = Counts(), Counts()
    expected.feed(ROWS.data)
    with pytest.raises(walrow.errors.DecodeError, match="kind 0x"):
        counts.feed(corrupt)
    assert counts.result()["messages"] == expected.result()["messages"]
    assert counts.result()["cells"] == expected.result()["cells"]


def test_a_sessions_first_data_show_physical_replication() -> None:
    physical = capture("physical", "physical").data
    for data in (physical + ROWS.data, ROWS.data + physical):
        kinds = [
            frame.message.kind
            for frame in walrow.frames(data)
            if frame.message is not None
        ]
        assert Counter(kinds) == reference.counts(ROWS.data)["messages"]
        counts = Counts()
        for piece in cut(data, 1000):
            counts.feed(piece)
        assert counts.result()["messages"] == Counter(kinds)
    # Corrupt first data is not physical replication: the LSNs show it.
    with pytest.raises(walrow.errors.DecodeError, match="kind 0x3F"):
        list(walrow.frames(streams.data(b"?\xd0garbage", 0x1000, 0x1000)))


def test_server_errors_have_their_fields() -> None:
    frames = {
        frame.kind: frame for frame in walrow.frames(capture("error-terminated").path)
    }
    assert frames["E"].name == "ErrorResponse"
    assert frames["E"].fields["C"] == "57P01"


def test_other_framings_encode_to_their_chunks() -> None:
    frames = list(walrow.frames(ROWS.data))
    payloads = [frame.to_bytes()[5:] for frame in frames if frame.kind in "wk"]
    again = list(walrow.frames(payloads))
    assert [frame.to_bytes() for frame in again] == payloads
    assert [frame.size for frame in again] == [len(payload) for payload in payloads]
    changes = [
        (frame.fields["start"], 0, frame.to_bytes()[30:])
        for frame in frames
        if frame.kind == "w"
    ]
    again = list(walrow.frames(changes))
    assert [frame.to_bytes() for frame in again] == [change[2] for change in changes]
    assert [frame.fields["start"] for frame in again] == [c[0] for c in changes]
    lines = [message + b"\n" for _, _, message in changes]
    again = list(walrow.frames(b"".join(lines)))
    assert [frame.to_bytes() for frame in again] == lines
    assert [frame.size for frame in again] == [len(line) for line in lines]
    assert not any(frame.fields["start"] for frame in again)


def test_broken_frame_comes_after_the_whole_ones() -> None:
    frames = walrow.frames(ROWS.data + b"x")
    expected = len(list(walrow.frames(ROWS.data)))
    found: list[walrow.typing.Frame] = []
    for _ in range(2):
        with pytest.raises(walrow.errors.DecodeError) as caught:
            found.extend(frames)
        assert caught.value.offset == len(ROWS.data)
    assert len(found) == expected


@pytest.mark.parametrize("missing", [1, 5, 300])
def test_a_cut_frame_is_an_error_after_the_complete_ones(missing: int) -> None:
    data = ROWS.data[:-missing]
    frames = walrow.frames(data, unfinished="ignore")
    complete = [frame.to_bytes() for frame in frames]
    assert frames.unfinished
    end = len(b"".join(complete))
    assert data.startswith(b"".join(complete))
    assert end < len(data)
    frames = walrow.frames(data)
    found: list[bytes] = []
    for _ in range(2):
        with pytest.raises(walrow.errors.UnfinishedError) as caught:
            found.extend(frame.to_bytes() for frame in frames)
        assert caught.value.offset == end
    assert found == complete
    assert frames.unfinished
    assert str(caught.value) == (
        "the stream ends inside a frame; take only the complete frames with "
        f'unfinished="ignore" (byte {end} of the stream)'
    )
    [remedy] = caught.value.remedies
    assert list(walrow.messages(data, **remedy.options()))
    messages = walrow.messages(data)
    names: list[str] = []
    for _ in range(2):
        with pytest.raises(walrow.errors.UnfinishedError):
            names.extend(message.name for message in messages)
    ignoring = walrow.messages(data, unfinished="ignore")
    assert names == [message.name for message in ignoring]
    for source in ([data], cut(data, 7)):
        with pytest.raises(walrow.errors.UnfinishedError):
            list(walrow.frames(source))


def test_a_cut_file_of_pg_recvlogical_is_an_error() -> None:
    lines = [
        frame.to_bytes()[30:] + b"\n"
        for frame in walrow.frames(ROWS.data)
        if frame.message is not None
    ]
    data = b"".join(lines)
    for source in (data[:-2], data[:-10]):
        with pytest.raises(walrow.errors.UnfinishedError):
            list(walrow.frames(source))
        frames = walrow.frames(source, unfinished="ignore")
        assert len(list(frames)) == len(lines) - 1


def test_frames_show_what_ends_a_stream_early() -> None:
    # All frames are there, so neither is an error.
    ended = walrow.frames(capture("error-terminated").path)
    assert "E" in {frame.kind for frame in ended}
    assert ended.server_error == "57P01"
    begin = next(each for each in walrow.frames(ROWS.data) if _name(each) == "Begin")
    frames = walrow.frames(begin.to_bytes())
    assert [_name(frame) for frame in frames] == ["Begin"]
    assert frames.unfinished
    assert [each.name for each in walrow.messages(begin.to_bytes())] == ["Begin"]


def _name(frame: walrow.typing.Frame) -> str | None:
    return frame.message.name if frame.message is not None else None


def test_truncated_compressed_frames_are_unfinished(tmp_path: Path) -> None:
    path = tmp_path / "rows.wire.gz"
    path.write_bytes(gzip.compress(ROWS.data)[:-12])
    for function in (walrow.frames, walrow.messages):
        with pytest.raises(walrow.errors.UnfinishedError, match="truncated"):
            list(function(path))
        assert list(function(path, unfinished="ignore"))


def test_messages_are_those_of_the_frames() -> None:
    path = capture("streaming").path
    framed = [frame.message for frame in walrow.frames(path)]
    found = list(walrow.messages(path))
    assert [(each.kind, each.fields) for each in found] == [
        (each.kind, each.fields) for each in framed if each is not None
    ]
    assert {"S", "E", "c", "I"} <= {each.kind for each in found}
    with pytest.raises(FileNotFoundError):
        walrow.messages("no such file")
