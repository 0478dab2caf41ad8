"""The data source `walrow` as a stream."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import streams
import walrow
from logs import Publisher, published, transactions
from spark.sources import COLUMNS, MY_LOG, altered, expected, stream_reader, texts

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

HAS_ADMISSION_CONTROL = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)


class Query:
    """A streaming query whose micro-batches are kept, by their number."""

    def __init__(
        self, spark: SparkSession, log: Path, table: str = "t", **options: Any
    ) -> None:
        self._spark = spark
        self._log = log
        self._options = texts(table, options)
        self._checkpoint = log.with_name("checkpoint")
        self.batches: dict[int, list[dict[str, Any]]] = {}
        #: Called with the number of a micro-batch after its rows were taken.
        self.then: Any = lambda _number: None

    def start(self, schema: str | None = None, **trigger: Any) -> Any:
        """Starts it, from its checkpoint if there is one."""
        reader = self._spark.readStream.format("walrow").options(**self._options)
        if schema is not None:
            reader = reader.schema(schema)
        return (
            reader.load(os.fspath(self._log))
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", os.fspath(self._checkpoint))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )

    def run(self, schema: str | None = None) -> list[int]:
        """Takes what is available. Returns the ids of the rows of each new micro-batch."""
        before = set(self.batches)
        query = self.start(schema)
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()
        return [len(self.batches[n]) for n in sorted(set(self.batches) - before)]

    @property
    def ids(self) -> list[int]:
        return [row["id"] for n in sorted(self.batches) for row in self.batches[n]]

    def _take(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = frame.toArrow().to_pylist()
        self.then(number)


def ids(count: int, begin: int = 1) -> list[int]:
    """The ids that `transactions` inserts."""
    return [100 * n + row for n in range(begin, count + 1) for row in range(3)]


def test_a_query_takes_what_is_there_and_then_what_comes(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    query = Query(spark, log, partitionBytes=1)
    with Publisher(log, **MY_LOG) as publisher:
        publisher.publish(*transactions(2))
        assert query.run() == [6]
        assert query.batches[0] == expected(log, "t")
        # Nothing new is no micro-batch.
        assert query.run() == []
        publisher.publish(*transactions(5)[2:])
        assert query.run() == [9]
    assert query.ids == ids(5)


def test_a_running_query_sees_what_is_published(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    seen = threading.Event()
    with Publisher(log, **MY_LOG) as publisher:
        publisher.publish(*transactions(1))
        query = Query(spark, log)
        query.then = lambda _number: seen.set()
        running = query.start(processingTime="100 milliseconds")
        try:
            for number in range(2, 5):
                assert seen.wait(60)
                seen.clear()
                publisher.publish(transactions(number)[-1])
            # Merging what was read, and what comes next, changes nothing.
            walrow.Log(log).compact()
            deadline = time.monotonic() + 60
            while len(query.ids) < 12:
                assert time.monotonic() < deadline
                assert running.isActive
                time.sleep(0.1)
        finally:
            running.stop()
    assert query.ids == ids(4)
    assert len(query.batches) > 2


def test_a_micro_batch_that_failed_comes_again_as_it_was(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    failed: dict[int, Any] = {}

    def fail(number: int) -> None:
        if number == 1 and not failed:
            failed[number] = query.batches.pop(number)
            text = "the sink is full"
            raise OSError(text)

    with Publisher(log, **MY_LOG) as publisher:
        publisher.publish(*transactions(2))
        query = Query(spark, log)
        query.then = fail
        query.run()
        publisher.publish(*transactions(4)[2:])
        with pytest.raises(StreamingQueryException, match="the sink is full"):
            query.run()
        # What comes now is not part of it.
        publisher.publish(*transactions(6)[4:])
        query.run()
    # Before 4.2, a restart with Trigger.AvailableNow ends after the batch that comes again.
    query.run()
    assert query.batches[1] == failed[1]
    assert query.ids == ids(6)


def test_available_now_takes_all_in_limited_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    published(log, transactions(5), **MY_LOG)
    query = Query(spark, log, maxRowsPerTrigger=6)
    if HAS_ADMISSION_CONTROL:
        assert query.run() == [6, 6, 3]
    else:
        # Before 4.2, Spark asks once, and each start takes one micro-batch.
        assert [query.run() for _ in range(4)] == [[6], [6], [3], []]
    assert query.ids == ids(5)


def test_a_query_begins_and_ends_where_options_say(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    published(log, transactions(6), **MY_LOG)
    query = Query(spark, log, start="0/2000", end="0/5000")
    query.run()
    assert query.ids == ids(5, begin=3)
    reader = stream_reader(log, "t", start="0/2000", maxRowsPerTrigger=1)
    assert reader.latestOffset()["lsn"] == "0/3000"
    assert reader.initialOffset()["lsn"] == "0/2000"


def test_the_checkpoint_of_another_log_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    log, other = tmp_path / "log", tmp_path / "other"
    published(log, transactions(2), **MY_LOG)
    published(other, transactions(3), **{**MY_LOG, "system_identifier": "8"})
    assert Query(spark, log).run() == [6]
    with pytest.raises(StreamingQueryException) as raised:
        Query(spark, other).run()
    text = str(raised.value)
    assert "LogError: the checkpoint is that of another log" in text
    assert "slot s of database shop of system 7" in text
    assert "slot s of database shop of system 8" in text


def test_what_was_removed_stops_the_query(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "log"
    query = Query(spark, path)
    with Publisher(path, **MY_LOG) as publisher:
        publisher.publish(*transactions(2))
        query.run()
        publisher.publish(*transactions(5)[2:])
    log = walrow.Log(path)
    # What the query has taken may go.
    log.prune("0/2000")
    log.prune("0/3000")
    with pytest.raises(StreamingQueryException) as raised:
        query.run()
    text = str(raised.value)
    assert "LogError" in text
    assert "cannot continue at 0/2000" in text
    assert "another checkpointLocation" in text
    # A query of a table that has nothing there goes on.
    other = stream_reader(path, "t", start="0/3000")
    assert other.latestOffset(other.initialOffset())["lsn"] == "0/5000"


def test_a_registered_reader_keeps_what_the_query_needs(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    query = Query(spark, path, reader="spark")
    with Publisher(path, **MY_LOG) as publisher:
        publisher.publish(*transactions(2))
        query.run()
        publisher.publish(*transactions(3)[2:])
        query.run()
        publisher.publish(*transactions(4)[3:])
    log = walrow.Log(path)
    (found,) = log.readers()
    # The last micro-batch is committed when the next one is planned.
    assert (found.name, found.position) == ("spark", 0x2000)
    with pytest.raises(walrow.errors.LogError, match="spark"):
        log.prune("0/3000")
    query.run()
    assert query.ids == ids(4)
    fresh = stream_reader(path, "t", reader="spark")
    with pytest.raises(walrow.errors.LogError, match="choose another name"):
        fresh.latestOffset(fresh.initialOffset())


def test_a_new_column_stops_the_query_and_a_restart_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    wider = (*COLUMNS, streams.Column("extra", 23))
    with Publisher(log, **MY_LOG) as publisher:
        publisher.publish(*transactions(1))
        query = Query(spark, log)
        running = query.start(processingTime="100 milliseconds")
        with pytest.raises(StreamingQueryException) as raised:
            _ended(running, query, publisher, wider)
        text = str(raised.value)
    assert "SchemaError: public.t: column extra is new" in text
    assert "Start the query again, with a new load()" in text
    # Everything before it is done.
    assert query.ids == ids(2)
    query.run()
    assert query.ids == [*ids(2), 0x3000, 0x4000]
    assert [row["extra"] for row in query.batches[max(query.batches)]] == [1, 1]


def _ended(
    running: Any, query: Query, publisher: Publisher, wider: tuple[streams.Column, ...]
) -> None:
    """Publishes a new version once the query runs, and waits for its end."""
    try:
        deadline = time.monotonic() + 60
        while not query.batches:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        publisher.publish(
            transactions(2)[-1], altered(0x3000, *wider), altered(0x4000, *wider)
        )
        running.awaitTermination(60)
    finally:
        running.stop()


def test_a_query_of_chosen_columns_ignores_new_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    query = Query(spark, log)
    with Publisher(log, **MY_LOG) as publisher:
        publisher.publish(*transactions(1))
        reader = stream_reader(log, "t", columns="id")
        full = stream_reader(log, "t")
        query.run("id int")
        publisher.publish(altered(0x2000, *COLUMNS, streams.Column("extra", 23)))
        query.run("id int")
        assert query.ids == [*ids(1), 0x2000]
        begin = reader.initialOffset()
        assert reader.latestOffset(begin)["lsn"] == "0/2000"
        # The first micro-batch of the other one ends before it.
        assert full.latestOffset(begin)["lsn"] == "0/1000"
