"""Logs in an object store: the driver and the tasks fetch what they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import walrow
import walrow.spark
from logs import Publisher, published, transactions
from servers.s3 import BUCKET, S3
from spark.lakes import Lake
from spark.sources import MY_LOG, expected, source, stream_reader

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
    # Of botocore and aiohttp, whose loop is a thread's.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def options(s3: S3, **more: Any) -> dict[str, Any]:
    return {"table": "t", "storage_options": json.dumps(s3.storage_options)} | more


def test_a_batch(spark: SparkSession, s3: S3, tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(6))
    url = s3.copy(log.path, "batch")
    frame = (
        spark.read.format("walrow").options(**options(s3, partitionBytes="1")).load(url)
    )
    assert frame.rdd.getNumPartitions() == 6
    assert frame.toArrow().to_pylist() == expected(log, "t")
    part = spark.read.format("walrow").options(
        **options(s3, start="0/2000", end="0/4000", maxRowsPerTrigger="1")
    )
    wanted = expected(log, "t", start="0/2000", end="0/4000")
    assert part.load(url).toArrow().to_pylist() == wanted


def test_a_stream_and_its_checkpoint(
    spark: SparkSession, s3: S3, tmp_path: Path
) -> None:
    first, second, *more = transactions(4)

    def run() -> list[Any]:
        query = (
            spark.readStream.format("walrow")
            .options(**options(s3))
            .load(f"s3://{BUCKET}/stream")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found = spark.read.parquet(str(tmp_path / "rows")).orderBy(
            "_seq", "_commit_lsn"
        )
        rows: list[Any] = found.toArrow().to_pylist()
        return rows

    def in_order(rows: list[Any]) -> list[Any]:
        return sorted(rows, key=lambda row: (row["_commit_lsn"], row["_seq"]))

    with Publisher(tmp_path / "log", **MY_LOG) as publisher:
        publisher.publish(first, second)
        s3.copy(tmp_path / "log", "stream")
        assert len(run()) == 6
        publisher.publish(*more)
        s3.copy(tmp_path / "log", "stream")
        rows = expected(walrow.Log(tmp_path / "log"), "t")
        assert in_order(run()) == in_order(rows)


def test_a_registered_reader_needs_the_directory(s3: S3, tmp_path: Path) -> None:
    url = s3.copy(published(tmp_path / "log", transactions(2)).path, "reader")
    reader = stream_reader(url, **options(s3, reader="me"))
    with pytest.raises(walrow.errors.LogError, match="can only be read") as raised:
        reader.latestOffset(reader.initialOffset())
    assert raised.value.code == "read_only"


@pytest.mark.parametrize("url", ["s3://bucket/absent", "s3://other-bucket/log"])
def test_what_cannot_be_opened(s3: S3, url: str) -> None:
    with pytest.raises(walrow.errors.LogError, match="must reach it") as raised:
        source(url, **options(s3)).schema()
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    "all_tables", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_targets(s3: S3, tmp_path: Path, lake: Lake, *, all_tables: bool) -> None:
    local = published(tmp_path / "log", transactions(3), **MY_LOG)
    log = walrow.Log(
        s3.copy(local.path, f"targets-{lake.kind}-{all_tables}"),
        storage_options=s3.storage_options,
    )
    if all_tables:
        done = walrow.spark.apply_all(lake.spark, log, {"public.t": lake.name})
        assert not done.failed
        net_rows = done.applied["public.t"].net_rows
    else:
        net_rows = walrow.spark.apply_changes(
            lake.spark, log, table="public.t", target=lake.name
        ).net_rows
    assert net_rows == 9
    rows = [tuple(row.values()) for row in expected(local, "t", metadata=[])]
    assert sorted(lake.rows()) == sorted(rows)
