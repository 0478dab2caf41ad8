"""Streams that end inside a frame or a transaction, or with an error of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

import walrow
from captures import Capture, capture
from rows import decode, outcome
from streams import SESSION, Column, begin, commit, insert, relation, wired

CUT = [
    capture("rows"),
    capture("streaming-interleaved"),
    capture("two-phase"),
    capture("two-phase-streaming", "binary"),
    capture("sessions"),
]
BROKEN = [
    (capture("error-terminated"), "57P01"),
    (capture("error-binary", "binary"), "42883"),
]


def places(data: bytes) -> Iterator[tuple[int, bool]]:
    """Places to cut a capture, and whether it is complete up to each of them."""
    complete = True
    opens = {"W": True, "B": False, "S": False, "b": False}
    opens |= dict.fromkeys("CEP", True)
    frames = list(walrow.frames(data))
    ends = list(accumulate(frame.size for frame in frames))
    step = max(1, len(frames) // 150)
    for place, (frame, end) in enumerate(zip(frames, ends, strict=True)):
        kind = frame.message.kind if frame.message else frame.kind
        if frame.message or kind == "W":
            complete = opens.get(kind, complete)
        if place % step == 0:
            yield end, complete
            yield end - 1, False
            if end < len(data):
                yield end + 1, False


@pytest.mark.parametrize("cut", CUT, ids=str)
def test_a_cut_stream_is_an_error_after_its_complete_transactions(cut: Capture) -> None:
    data = cut.data
    seen = set()
    for place, complete in places(data):
        seen.add(complete)
        source = data[:place]
        ignoring = walrow.read(source, unfinished="ignore")
        wanted = outcome(ignoring)
        assert wanted.error is None
        assert ignoring.unfinished is not complete
        found = outcome(walrow.read(source))
        assert found.batches == wanted.batches
        pushed = outcome(decode(walrow.Decoder(), [source]))
        assert pushed == found
        if complete:
            assert found.error is None
            continue
        assert found.error
        assert found.error[0] is walrow.errors.UnfinishedError
        assert 'with unfinished="ignore"' in found.error[1]
    assert seen == {True, False}


def test_the_error_says_how_far_the_stream_is_complete() -> None:
    data = capture("rows").data
    for source in (data[:-1], data[:-300]):
        reader = walrow.read(source)
        with pytest.raises(walrow.errors.UnfinishedError) as caught:
            list(reader)
        assert caught.value.position == reader.position > 0
        assert caught.value.offset is not None
        assert 0 <= len(source) - caught.value.offset < 300
        assert reader.unfinished
        with pytest.raises(walrow.errors.UnfinishedError):
            next(reader)


@pytest.mark.parametrize(("broken", "sqlstate"), BROKEN, ids=str)
def test_a_server_error_is_an_error_after_complete_transactions(
    broken: Capture, sqlstate: str
) -> None:
    ignoring = walrow.read(broken.data, unfinished="ignore")
    wanted = outcome(ignoring)
    assert wanted.error is None
    assert ignoring.server_error == sqlstate
    reader = walrow.read(broken.path)
    batches: list[walrow.Batch] = []
    with pytest.raises(walrow.errors.ReplicationError, match=sqlstate) as caught:
        batches.extend(reader)
    assert outcome(batches).batches == wanted.batches
    assert caught.value.sqlstate == sqlstate
    assert caught.value.position == reader.position
    assert caught.value.offset is not None
    # The server's own text may contain a user's data.
    for frame in walrow.frames(broken.data):
        if frame.kind == "E":
            assert frame.fields["M"] not in str(caught.value)


def test_a_reader_as_an_arrow_stream_raises_too() -> None:
    pa = pytest.importorskip("pyarrow")
    data = capture("rows").data[:-60]
    with pytest.raises(pa.ArrowInvalid, match="ends inside a frame or transaction"):
        pa.table(walrow.read(data, table="public.item"))
    table = pa.table(walrow.read(data, table="public.item", unfinished="ignore"))
    assert (
        0
        < table.num_rows
        < len(pa.table(walrow.read(capture("rows").path, table="item")))
    )


def test_a_stream_continues_after_flush_and_loses_nothing() -> None:
    data = capture("rows").data
    decoder = walrow.Decoder()
    batches = list(decoder.feed(data[:-60]))
    batches += decoder.flush()
    before = len(batches)
    batches += decoder.feed(data[-60:])
    batches += decoder.finish()
    assert 0 < before < len(batches)
    assert sum(map(len, batches)) == sum(map(len, walrow.read(data)))


def test_a_decoder_goes_on_after_the_error_of_a_new_session() -> None:
    broken, whole = capture("error-terminated").data, capture("rows").data
    found = outcome(walrow.read([broken, whole]))
    assert found.error is None


@pytest.mark.parametrize("name", ["streaming-interleaved", "two-phase"])
def test_open_transactions_are_named_and_are_no_error(name: str) -> None:
    open_at_some_place: list[Any] = []
    data = capture(name).data
    for place, complete in places(data):
        reader = walrow.read(data[:place], unfinished="ignore")
        list(reader)
        if complete:
            open_at_some_place += reader.open_transactions
            decoder = walrow.Decoder()
            list(decode(decoder, [data[:place]]))
            assert decoder.open_transactions == reader.open_transactions
            prepared = {each["xid"]: each["gid"] for each in decoder.prepared}
            found = {each["xid"]: each["gid"] for each in decoder.open_transactions}
            assert {x: g for x, g in found.items() if g is not None} == prepared
    assert all(each["xid"] > 0 for each in open_at_some_place)
    gids = {each["gid"] is None for each in open_at_some_place}
    assert gids == ({True} if name.startswith("streaming") else {False})


def test_a_file_cut_inside_a_transaction_is_not_forgotten_in_the_next_file(
    tmp_path: Path,
) -> None:
    columns = [Column("id", 23)]

    def session(lsn: int, row: str) -> list[bytes]:
        head = [begin(lsn, lsn), relation(columns), insert([row])]
        return [*head, commit(lsn)]

    def files(framed: Callable[..., bytes]) -> walrow.Reader:
        first = [*session(0x1000, "1"), *session(0x2000, "2")[:-1]]
        (tmp_path / "a").write_bytes(framed(*first))
        (tmp_path / "b").write_bytes(framed(*session(0x3000, "3")))
        return walrow.read(tmp_path)

    def wire(*messages: bytes) -> bytes:
        return SESSION + wired(*messages)

    def lines(*messages: bytes) -> bytes:
        return b"".join(message + b"\n" for message in messages)

    for framed in (wire, lines):
        rows: list[walrow.Batch] = []
        with pytest.raises(
            walrow.errors.UnfinishedError, match="commit LSN 0/2000"
        ) as caught:
            rows.extend(files(framed))
        assert sum(map(len, rows)) == 2
        assert caught.value.position == 0x3008


def test_a_schema_of_several_captures_names_the_unfinished_one(tmp_path: Path) -> None:
    data = capture("rows").data
    whole, cut = tmp_path / "a.wire", tmp_path / "b.wire"
    whole.write_bytes(data)
    cut.write_bytes(data[:-60])
    with pytest.raises(walrow.errors.UnfinishedError) as caught:
        walrow.schema(tmp_path, "item")
    assert caught.value.__notes__ == [f"in {cut}"]
