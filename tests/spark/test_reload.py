"""Spark and states read a log while its tables are loaded again."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import walrow
import walrow.spark
from servers import EmbeddedServer
from servers.loads import FIRST, is_loaded
from servers.receiving import (
    Load,
    ReceiverProcess,
    check_log,
    drop_if_there,
    execute,
    receive_all,
)

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(300)]


def test_readers_see_a_load_whole_or_not_at_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    log, slot = tmp_path / "log", f"s_{uuid.uuid4().hex[:8]}"
    with EmbeddedServer(18) as server:
        execute(
            server.dsn,
            Load.SETUP,
            "INSERT INTO item SELECT g, g FROM generate_series(1, 2000) g",
            "INSERT INTO audit (what) SELECT g FROM generate_series(1, 20000) g",
            "CREATE PUBLICATION p FOR TABLE item, audit, wide",
        )
        with (
            ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver,
            Load(server.dsn, seed=11),
        ):
            receiver.until(is_loaded)
            stop = threading.Event()
            failures: list[BaseException] = []

            def load() -> None:
                try:
                    while not stop.is_set():
                        walrow.load(["public.item"], log=log, timeout=60)
                except BaseException as error:
                    failures.append(error)

            loading = threading.Thread(target=load)
            loading.start()
            loads: set[int] = set()
            try:
                deadline = time.monotonic() + 120
                while len(loads) <= 2:
                    assert time.monotonic() < deadline
                    end = walrow.Log(log).end
                    rows = spark_rows(spark, log, end)
                    assert rows == plain_rows(log, end)
                    # Each load has its truncate, and all rows of its table.
                    state = walrow.Log(log).state("public.item", as_of=end).to_pyarrow()
                    assert state.num_rows >= 1000
                    loads |= {row[0] for row in rows if row[2] == "truncate"}
            finally:
                stop.set()
                loading.join(60)
            assert not failures
        receive_all(server.dsn, log, slot=slot)
        check_log(server.dsn, log, Load.TABLES)
        drop_if_there(server.dsn, slot)


def spark_rows(
    spark: SparkSession, log: Path, end: walrow.Lsn
) -> list[tuple[int, int, str, int | None]]:
    """The changes up to an LSN, read by Spark."""
    schema = walrow.spark.schema(log, "public.item")
    decode = walrow.spark.decode(table="public.item", schema=schema, end=end)
    paths = spark.createDataFrame([(str(log),)], "path string")
    found = paths.mapInArrow(decode, schema)
    columns = found.select("_commit_lsn", "_seq", "_change_type", "id")
    return sorted((tuple(row) for row in columns.collect()), key=str)


def plain_rows(log: Path, end: walrow.Lsn) -> list[tuple[int, int, str, int | None]]:
    """The same, read without Spark."""
    batches = map(pa.record_batch, walrow.read(log, table="public.item", end=end))
    rows = [row for batch in batches for row in batch.to_pylist()]
    names = ("_commit_lsn", "_seq", "_change_type", "id")
    return sorted((tuple(row[name] for name in names) for row in rows), key=str)
