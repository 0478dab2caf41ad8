"""Keeps Delta tables as the tables of a log, until it is stopped.

    python examples/stream_to_delta.py LOG LAKE TABLE...

With `spark-submit`, too: `--packages io.delta:delta-spark_4.1_2.13:4.4.0`. The query looks for
new transactions each second. What is applied is recorded in the Delta tables themselves, so the
checkpoint only says when there is something to do: kill it at any point, and start it again.
For small tables on a small machine, small_spark.py has settings.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

import walrow.spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql.streaming import StreamingQuery

# One that spark-submit has set is right.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def main() -> None:
    """Runs until SIGINT or SIGTERM, and prints a line for each table and commit."""
    log, lake, *tables = sys.argv[1:]
    spark = session()
    query = follow(spark, log, Path(lake).resolve(), tables, listener=_print)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
    finally:
        spark.stop()


def session() -> SparkSession:
    """Starts Spark with Delta, on this machine unless spark-submit says where."""
    builder = SparkSession.builder.appName("walrow to Delta")
    for name, value in DELTA.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def follow(
    spark: SparkSession,
    log: str | Path,
    lake: str | Path,
    tables: Iterable[str],
    listener: Callable[[walrow.spark.AllApplied], None],
) -> StreamingQuery:
    """Starts a query that keeps a Delta table in `lake` current for each table of `log`.

    The listener is called after each micro-batch.
    """
    targets = {table: f"delta:{lake}/{table}" for table in tables}
    done: walrow.spark.AllApplied | None = None

    def keep_current(_batch: Any, _number: int) -> None:
        nonlocal done
        # Tables without changes since the last time are not even looked at.
        done = walrow.spark.apply_all(spark, log, targets, previous=done)
        listener(done)

    return (
        spark.readStream.format("walrow")
        .option("table", "walrow.transactions")
        .load(str(log))
        .writeStream.foreachBatch(keep_current)
        .option("checkpointLocation", f"{lake}/_checkpoint")
        .trigger(processingTime="1 second")
        .start()
    )


def up_to(done: walrow.spark.AllApplied) -> walrow.Lsn | None:
    """The LSN that all tables have the changes of. None if one of them is behind."""
    if done.failed or done.waiting:
        return None
    return min(applied.end for applied in done.applied.values())


def _print(done: walrow.spark.AllApplied) -> None:
    for applied in done.applied.values():
        if applied.committed:
            print(
                f"{applied.table}: {applied.net_rows:,} rows of"
                f" {applied.rows:,} changes"
            )
    for table, error in (done.failed | done.waiting).items():
        # It is tried again with the next micro-batch, and the others go on.
        print(f"{table}: {error}", file=sys.stderr)
    if (end := up_to(done)) is not None:
        print("up to", end, flush=True)


#: For Spark 4.1. delta-spark 4.4.1 has no jars. What Delta shares with Spark need not be fetched
#: again.
DELTA = {
    "spark.jars.packages": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "spark.jars.excludes": "org.apache.hadoop:*,org.apache.parquet:*,"
    "org.apache.logging.log4j:*,org.slf4j:*,com.fasterxml.jackson*:*,org.roaringbitmap:*",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

if __name__ == "__main__":
    main()
