"""Offsets, limits and partitions of the streaming reader, as Spark asks for them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from logs import Publisher, published, transaction, transactions
from spark.sources import (
    COLUMNS,
    MY_LOG,
    altered,
    expected,
    stream_reader,
    taken,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [
        ({"maxRowsPerTrigger": 7}, [6, 6, 6]),
        ({"maxRowsPerTrigger": 1}, [3] * 6),
        ({"maxBytesPerTrigger": 1}, [3] * 6),
        ({"maxBytesPerTrigger": "1g"}, [18]),
        ({"maxRowsPerTrigger": 9, "maxBytesPerTrigger": "1g"}, [9, 9]),
        ({"maxRowsPerTrigger": 100, "maxBytesPerTrigger": 1}, [3] * 6),
    ],
)
@pytest.mark.parametrize("merged", [False, True])
def test_limits_keep_transactions_whole(
    tmp_path: Path, limit: dict[str, Any], sizes: list[int], *, merged: bool
) -> None:
    log = published(tmp_path / "log", transactions(7), **MY_LOG)
    if merged:
        log.compact()
        assert len(log.segments()) == 2
    reader = stream_reader(log, "t", **limit, end="0/6000")
    offset = reader.initialOffset()
    found, all_rows = [], []
    while (later := reader.latestOffset(offset, _Limit())) != offset:
        rows = taken(reader, reader.partitions(offset, later))
        found.append(len(rows))
        all_rows += rows
        offset = later
    assert found == sizes
    assert all_rows == expected(log, "t", end="0/6000")
    # Trigger.Once.
    all_ = reader.latestOffset(reader.initialOffset(), _all())
    assert all_["lsn"] == "0/6000"


class _Limit:
    """Any limit of Spark: the reader has its own options."""


def _all() -> Any:
    return type("ReadAllAvailable", (), {})()


def test_only_rows_of_the_table_count(tmp_path: Path) -> None:
    other = streams.TABLE + 1
    mixed = [
        transaction(0x1000 * n, *((str(row), "x") for row in range(20)), oid=oid)
        for n, oid in enumerate([streams.TABLE, other, other, streams.TABLE], 1)
    ]
    log = published(tmp_path / "log", mixed, **MY_LOG)
    for _ in range(2):
        reader = stream_reader(log, "t", maxRowsPerTrigger=20)
        first = reader.latestOffset(reader.initialOffset(), _Limit())
        # What others changed is taken along.
        assert first["lsn"] in {"0/1000", "0/3000"}
        assert reader.latestOffset(first, _Limit())["lsn"] == "0/4000"
        log.compact()
        log = walrow.Log(log.path)


def test_available_now_ends_where_the_log_ended(tmp_path: Path) -> None:
    with Publisher(tmp_path / "log", **MY_LOG) as publisher:
        publisher.publish(*transactions(2))
        reader = stream_reader(tmp_path / "log", "t")
        reader.prepareForTriggerAvailableNow()
        publisher.publish(*transactions(3)[2:])
        begin = reader.initialOffset()
        assert reader.latestOffset(begin, _Limit())["lsn"] == "0/2000"
        assert reader.reportLatestOffset()["lsn"] == "0/2000"
        again = stream_reader(tmp_path / "log", "t")
        assert again.latestOffset(begin, _Limit())["lsn"] == "0/3000"


def test_an_end_that_is_a_time(tmp_path: Path) -> None:
    """The log may not have reached it yet. What it has passed is not read again."""
    epoch = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
    begin = epoch + dt.timedelta(microseconds=streams.TIME)
    end = begin + dt.timedelta(seconds=3.5)
    ends = []
    with Publisher(tmp_path / "log", **MY_LOG) as publisher:
        for number, seconds in enumerate([1, 2, 5, 3], 1):
            publisher.publish(transaction(0x1000 * number, ("1", "x"), time=seconds))
            if number == 1:
                reader = stream_reader(tmp_path / "log", "t", end=end.isoformat())
            ends.append(reader.latestOffset(reader.initialOffset(), _Limit())["lsn"])
    assert ends == ["0/1000", "0/2000", "0/2000", "0/2000"]


def test_before_spark_4_2_the_reader_remembers_where_it_is(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(4), **MY_LOG)
    reader = stream_reader(log, "t", maxRowsPerTrigger=3)
    # As Spark 4.1 calls it: the end first.
    first = reader.latestOffset()
    begin = reader.initialOffset()
    assert (begin["lsn"], first["lsn"]) == ("0/0", "0/1000")
    assert reader.latestOffset() == first
    assert len(taken(reader, reader.partitions(begin, first))) == 3
    assert reader.latestOffset()["lsn"] == "0/2000"
    # After a restart, an empty range says where.
    again = stream_reader(log, "t", maxRowsPerTrigger=3)
    assert again.partitions(first, first) == []
    assert again.latestOffset()["lsn"] == "0/2000"


def test_a_log_that_is_shorter_than_the_checkpoint_is_refused(tmp_path: Path) -> None:
    long = published(tmp_path / "log", transactions(3), **MY_LOG)
    reader = stream_reader(long, "t")
    offset = reader.latestOffset(reader.initialOffset())
    copy = published(tmp_path / "copy", transactions(2), **MY_LOG)
    later = stream_reader(copy, "t", start="0/9000")
    assert later.latestOffset(later.initialOffset())["lsn"] == "0/9000"
    with pytest.raises(walrow.errors.LogError, match=r"ends at 0/2000, before 0/3000"):
        later.latestOffset(offset)
    reader = stream_reader(copy, "t")
    with pytest.raises(walrow.errors.LogError, match=r"ends at 0/2000, before 0/3000"):
        reader.latestOffset(offset)
    with pytest.raises(walrow.errors.LogError, match=r"ends at 0/2000, before 0/3000"):
        reader.partitions(reader.initialOffset(), offset)
    for foreign in ({"index": 1}, {"source": 1, "lsn": "0/1"}, {"lsn": "x"}):
        with pytest.raises(
            walrow.errors.LogError, match="not one of the data source walrow"
        ):
            reader.latestOffset(foreign)


def test_a_log_that_begins_after_the_checkpoint_is_refused(tmp_path: Path) -> None:
    first, *_, last = transactions(4)
    old = published(tmp_path / "log", [first], **MY_LOG)
    reader = stream_reader(old, "t")
    begin, offset = reader.initialOffset(), reader.latestOffset(reader.initialOffset())
    assert old.slot_start is None
    # The slot was created again, and the log was begun again.
    with Publisher(tmp_path / "new", **MY_LOG) as publisher:
        publisher.writer.set_slot_start("0/3000")
        publisher.publish(last)
    new = walrow.Log(tmp_path / "new")
    assert new.slot_start == walrow.Lsn("0/3000")
    reader = stream_reader(new, "t")
    with pytest.raises(walrow.errors.LogError, match="continues at 0/1000") as raised:
        reader.partitions(offset, reader.latestOffset(offset))
    assert raised.value.code == "not_received"
    # Nothing is missing for a query that begins with the log, or where it is told to.
    assert reader.partitions(begin, reader.latestOffset(begin))
    told = stream_reader(new, "t", start="0/2000")
    assert told.partitions(told.initialOffset(), told.latestOffset(begin))


def test_a_table_that_is_renamed_stops_the_query(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with Publisher(path, **MY_LOG) as publisher:
        publisher.publish(
            *transactions(2),
            altered(0x3000, *COLUMNS, name="t2"),
            altered(0x4000, *COLUMNS, name="t2"),
        )
        # Both names in a segment.
        publisher.writer.append(altered(0x5000, *COLUMNS))
        publisher.publish(altered(0x6000, *COLUMNS, name="t2"))
    oid = walrow.Log(path).tables()[0].oid
    reader = stream_reader(path, "t")
    begin = reader.initialOffset()
    done = reader.latestOffset(begin)
    assert done["lsn"] == "0/2000"
    # Also after a restart.
    for again in (reader, stream_reader(path, "t")):
        with pytest.raises(
            walrow.errors.SchemaError, match=r"public\.t is public\.t2"
        ) as raised:
            again.latestOffset(done)
        assert f"by its OID, {oid}" in str(raised.value)
    with pytest.raises(walrow.errors.SchemaError, match=r"public\.t is public\.t2"):
        reader.latestOffset({**done, "lsn": "0/4000"})
    by_oid = stream_reader(path, str(oid))
    last = by_oid.latestOffset(done)
    assert last["lsn"] == "0/6000"
    rows = taken(by_oid, by_oid.partitions(done, last))
    assert [row["id"] for row in rows] == [0x3000, 0x4000, 0x5000, 0x6000]
    # It had the new name all the time from here on.
    renamed = stream_reader(path, "t2")
    assert renamed.latestOffset({**done, "lsn": "0/3000"})["lsn"] == "0/4000"


def test_a_query_that_began_before_anything_was_removed(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(4), **MY_LOG)
    begin = stream_reader(log, "t").initialOffset()
    assert begin["lsn"] == "0/0"
    log.prune("0/2000")
    # 0/0 is also where a log begins from which nothing was removed.
    reader = stream_reader(log, "t")
    with pytest.raises(walrow.errors.LogError, match="cannot continue at 0/0"):
        reader.latestOffset(begin)
    assert reader.initialOffset()["lsn"] == "0/2000"


def test_another_type_stops_the_query_only_if_it_needs_another_schema(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    with Publisher(log, **MY_LOG) as publisher:
        publisher.publish(*transactions(1))
        readers = {
            columns: stream_reader(log, "t", columns=columns)
            for columns in ("id", "v", "id,v")
        }
        # Another type for v, which is a string, too: character varying.
        publisher.publish(altered(0x2000, COLUMNS[0], streams.Column("v", 1043)))
        publisher.publish(altered(0x3000, streams.Column("id", 20), COLUMNS[1]))
    ends = {
        name: reader.latestOffset(reader.initialOffset())["lsn"]
        for name, reader in readers.items()
    }
    assert ends == {"id": "0/2000", "v": "0/3000", "id,v": "0/2000"}
    reader = readers["id"]
    at = reader.latestOffset(reader.initialOffset())
    with pytest.raises(
        walrow.errors.SchemaError, match="type of column id has changed"
    ):
        reader.latestOffset(at)
    again = stream_reader(log, "t", columns="id")
    assert taken(again, again.partitions(at, again.latestOffset(at)))[0]["id"] == 0x3000


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Publisher]:
    with Publisher(tmp_path / "log", **MY_LOG) as publisher:
        publisher.publish(*transactions(2))
        yield publisher


def test_side_tables_and_envelopes_are_streams_too(
    two: Publisher, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    of_transactions = stream_reader(log, "walrow.transactions", maxRowsPerTrigger=3)
    of_all = stream_reader(log, envelope="true", maxRowsPerTrigger=3)
    two.publish(altered(0x3000, *COLUMNS, streams.Column("extra", 23)))
    for reader, wanted in (
        (of_transactions, expected(log, "walrow.transactions")),
        (of_all, expected(log, envelope=True)),
    ):
        begin = reader.initialOffset()
        first = reader.latestOffset(begin)
        assert first["lsn"] == "0/1000"
        rest = reader.latestOffset(begin, _all())
        assert rest["lsn"] == "0/3000"
        assert taken(reader, reader.partitions(begin, rest)) == wanted
