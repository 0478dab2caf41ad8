"""`end=`: the stream up to an LSN or a time, and the rest with `start=` the same LSN."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import walrow
from captures import Capture, capture, captures
from reference import committed, history

pa = pytest.importorskip("pyarrow")

WIRE = [each for each in captures("text", "v1") if not each.name.startswith("error-")]
EPOCH = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


def read(source: Any, **options: Any) -> tuple[list[tuple[int, str]], walrow.Reader]:
    """The commit LSN and table of each row, in commit order; and the reader."""
    reader = walrow.read(
        source, envelope=True, unrepresentable="null", unfinished="ignore", **options
    )
    rows = [
        (row["_commit_lsn"], f"{row['schema_name']}.{row['table_name']}")
        for batch in reader
        for row in pa.record_batch(batch).to_pylist()
    ]
    return rows, reader


@pytest.mark.parametrize("recorded", WIRE, ids=str)
def test_an_end_and_a_start_divide_a_stream(recorded: Capture) -> None:
    data = recorded.data
    whole, _ = read(data)
    # Two-phase: the second decoder needs the prepared transactions of the first.
    if any("prepared" in form for form in history(data).forms):
        pytest.skip("prepared transactions need save_prepared: tested below")
    for transaction in committed(data):
        end = transaction.end_lsn
        first, reader = read(data, end=end)
        assert first == [row for row in whole if row[0] < end]
        assert reader.position <= end
        assert not reader.unfinished
        rest, _ = read(data, start=end)
        assert sorted(first + rest) == sorted(whole)


def test_nothing_is_returned_after_the_end_whatever_the_cuts() -> None:
    data = capture("rows").data
    ends = sorted({transaction.end_lsn for transaction in committed(data)})
    wanted, reader = read(data, end=ends[1])
    position = reader.position
    assert position == ends[1]
    for size in (1, 7, 100):
        pieces = (data[at : at + size] for at in range(0, len(data), size))
        found, reader = read(pieces, end=ends[1])
        assert (found, reader.position) == (wanted, position)
    # An LSN inside a transaction excludes it.
    found, reader = read(data, end=ends[1] + 1)
    assert (found, reader.position) == (wanted, position)
    assert read(data, end=ends[0] - 1)[0] == []
    assert read(data, end=walrow.Lsn(2**64 - 1))[0] == read(data)[0]


def test_the_source_is_not_read_after_the_end() -> None:
    data = capture("rows").data
    end = committed(data)[1].end_lsn

    def chunks() -> Any:
        for at in range(0, len(data), 50):
            yield data[at : at + 50]
        pytest.fail("the source was read to its end")

    assert read(chunks(), end=end)[0] == read(data, end=end)[0]


def test_bytes_after_the_end_may_be_damaged_or_cut() -> None:
    data = capture("rows").data
    end = committed(data)[1].end_lsn
    wanted = read(data, end=end)[0]
    pieces = [data, b"\xff" * 100]
    assert read(pieces, end=end)[0] == wanted
    reader = walrow.read(data[:-60], end=end, table="item")
    assert len(list(reader)) == 1


def test_a_time_ends_before_the_first_later_commit() -> None:
    data = capture("rows").data
    found = committed(data)
    times = [EPOCH + dt.timedelta(microseconds=each.commit_time) for each in found]
    assert times == sorted(set(times))
    for at, time in enumerate(times):
        zone = dt.timezone(dt.timedelta(hours=5))
        rows, reader = read(data, end=time.astimezone(zone))
        assert rows == read(data, end=found[at].end_lsn)[0]
        assert reader.position == found[at].end_lsn
        before = read(data, end=time - dt.timedelta(microseconds=1))[0]
        assert {lsn for lsn, _ in rows} - {lsn for lsn, _ in before} == {
            found[at].commit_lsn
        }


def test_a_prepared_transaction_that_is_committed_later_stays_prepared() -> None:
    data = capture("two-phase").data
    whole = read(data)[0]
    prepared = [each for each in committed(data) if each.gid and each.changes]
    assert prepared
    for transaction in prepared:
        end = walrow.Lsn(transaction.end_lsn - 1)
        decoder = walrow.Decoder(envelope=True, end=end)
        batches = [*decoder.feed(data), *decoder.flush()]
        first = [
            (row["_commit_lsn"], f"{row['schema_name']}.{row['table_name']}")
            for batch in batches
            for row in pa.record_batch(batch).to_pylist()
        ]
        gids = {each["gid"] for each in decoder.prepared}
        state = decoder.save_prepared()
        position = decoder.position
        assert position <= end
        assert transaction.gid in gids
        later = walrow.Decoder(envelope=True, start=position)
        later.restore_prepared(state)
        batches = [*later.feed(data), *later.flush()]
        rest = [
            (row["_commit_lsn"], f"{row['schema_name']}.{row['table_name']}")
            for batch in batches
            for row in pa.record_batch(batch).to_pylist()
        ]
        assert sorted(first + rest) == sorted(whole)


def test_end_applies_to_messages_outside_transactions() -> None:
    data = capture("messages").data
    every = walrow.read(data, table="walrow.messages").to_pyarrow().to_pylist()
    outside = [row["lsn"] for row in every if not row["transactional"]]
    assert len(outside) > 1
    for lsn in outside:
        found = walrow.read(data, table="walrow.messages", end=lsn).to_pyarrow()
        assert [
            row["lsn"] for row in found.to_pylist() if not row["transactional"]
        ] == [each for each in outside if each <= lsn]
