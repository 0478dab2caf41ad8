"""A table's changes in Spark, as values that can be compared."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import ArrayType, DataType, StructType, TimestampType

import walrow.spark


def decoded(
    spark: SparkSession,
    capture: bytes,
    table: str,
    catalog: walrow.Catalog,
    **options: Any,
) -> DataFrame:
    """A table's rows in the order in which they were inserted."""
    options = {"metadata": ["seq"], "catalog": catalog, **options}
    declared = {k: v for k, v in options.items() if k != "catalog"}
    schema = walrow.spark.schema(catalog, table, **declared)
    # As the capture has it, too.
    assert walrow.spark.schema(capture, table, **options) == schema
    decode = walrow.spark.decode(table=table, schema=schema, **options)
    frame = spark.createDataFrame([(capture,)], "capture binary")
    changes = frame.mapInArrow(decode, schema).orderBy("_seq").drop("_seq")
    assert changes.schema == StructType(schema.fields[:-1])
    return changes


def plain(value: Any, kind: DataType) -> Any:
    """A value for comparisons: instants in UTC, in any time zone of this process."""
    if value is None:
        return None
    if isinstance(kind, ArrayType):
        return [plain(each, kind.elementType) for each in value]
    if isinstance(kind, StructType):
        parts = zip(value, kind.fields, strict=True)
        return Row(**{field.name: plain(part, field.dataType) for part, field in parts})
    if isinstance(kind, TimestampType):
        return value.astimezone(dt.UTC)
    return bytes(value) if isinstance(value, bytearray) else value


def collected(frame: DataFrame) -> list[list[Any]]:
    kinds = [field.dataType for field in frame.schema.fields]
    return [
        [plain(value, kind) for value, kind in zip(row, kinds, strict=True)]
        for row in frame.collect()
    ]
