"""The data source `walrow`, through Spark and without it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import streams
import walrow
from walrow.spark.batch_reader import LogBatchReader
from walrow.spark.data_source import WalrowDataSource
from walrow.spark.stream_reader import LogStreamReader

MY_LOG = {"system_identifier": "7", "database": "shop", "slot": "s"}
#: The columns of the table in `logs.transactions`.
COLUMNS = [streams.Column("id", 23, is_key=True), streams.Column("v", 25)]


def altered(end: int, *columns: streams.Column, name: str = "t") -> bytes:
    """A transaction whose table has other columns, or another name."""
    return streams.wired(
        streams.begin(xid=end, lsn=end - 8),
        streams.relation(columns, name=name),
        streams.insert([str(end), *("1" for _ in columns[1:])]),
        streams.commit(lsn=end - 8, end=end),
    )


def loaded(
    spark: SparkSession,
    log: walrow.Log,
    table: str | None = None,
    schema: Any = None,
    **options: Any,
) -> DataFrame:
    """A batch query."""
    reader = spark.read.format("walrow").options(**texts(table, options))
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load(str(log.path))


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows, in the order of the partitions."""
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return found


def texts(table: str | None, options: dict[str, Any]) -> dict[str, str]:
    """Options as Spark passes them."""
    chosen = options if table is None else {"table": table, **options}
    return {name: str(value) for name, value in chosen.items()}


def source(
    path: str | os.PathLike[str], table: str | None = None, **options: Any
) -> WalrowDataSource:
    """The data source as Spark creates it, without Spark."""
    return WalrowDataSource({"path": os.fspath(path), **texts(table, options)})


def batch_reader(
    path: str | os.PathLike[str], table: str | None = None, **options: Any
) -> LogBatchReader:
    """The reader of a batch query, pickled as for a task."""
    created = source(path, table, **options)
    schema = created.schema()
    reader = pickle.loads(pickle.dumps(created)).reader(schema)
    found: LogBatchReader = pickle.loads(pickle.dumps(reader))
    return found


def stream_reader(
    path: str | os.PathLike[str], table: str | None = None, **options: Any
) -> LogStreamReader:
    """The reader of a streaming query."""
    created = source(path, table, **options)
    return created.streamReader(created.schema())


def taken(reader: Any, partitions: Iterable[Any] | None = None) -> list[dict[str, Any]]:
    """The rows of partitions, as tasks decode them."""
    of = reader.partitions() if partitions is None else partitions
    task = pickle.loads(pickle.dumps(reader))
    return [
        row
        for partition in of
        for batch in task.read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]


def expected(
    log: Any, table: str | None = None, *, schema: Any = None, **options: Any
) -> list[dict[str, Any]]:
    """What `walrow.read` returns."""
    if schema is None and table is not None and not table.startswith("walrow."):
        names = {"types", "columns", "metadata", "unrepresentable", "metadata_prefix"}
        chosen = {key: value for key, value in options.items() if key in names}
        schema = walrow.schema(log, table, profile="spark", **chosen)
    reader = walrow.read(log, table=table, schema=schema, profile="spark", **options)
    return [row for batch in reader for row in pa.record_batch(batch).to_pylist()]
