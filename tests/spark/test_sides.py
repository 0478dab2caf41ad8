"""Side tables, envelopes and streamed transactions in Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import walrow
import walrow.spark

pytestmark = pytest.mark.spark


def captures(spark: SparkSession, data: Path, *names: str) -> DataFrame:
    rows = [((data / f"{name}.text.wire").read_bytes(),) for name in names]
    return spark.createDataFrame(rows, "capture binary")


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("two-phase", "walrow.transactions"),
        ("messages", "walrow.messages"),
        ("truncate", "walrow.truncates"),
        ("alter-columns", ("walrow", "relations")),
    ],
)
def test_side_tables_are_read_as_any(
    spark: SparkSession, data: Path, name: str, table: str
) -> None:
    path = data / f"{name}.text.wire"
    schema = walrow.spark.schema(walrow.Catalog(), table)
    assert schema == walrow.spark.schema(path, table)
    decode = walrow.spark.decode(table=table, schema=schema)
    found = captures(spark, data, name, name).mapInArrow(decode, schema).toArrow()
    wanted = pa.table(walrow.read(path, table=table, profile="spark"))
    assert wanted.num_rows
    assert found.to_pylist() == wanted.to_pylist() * 2


def test_an_origins_lsn_may_not_fit(spark: SparkSession, data: Path) -> None:
    table, path = "walrow.transactions", data / "origin.text.wire"
    with pytest.raises(walrow.errors.UnrepresentableError, match="origin's LSN"):
        list(walrow.read(path, table=table, profile="spark"))
    schema = walrow.spark.schema(b"", table)
    decode = walrow.spark.decode(table=table, schema=schema, unrepresentable="null")
    found = captures(spark, data, "origin").mapInArrow(decode, schema).collect()
    origins = [row.origins and row.origins[0].lsn for row in found]
    # A writer that sets no origin keeps the one before.
    assert origins == [None, 0xABCDEF, 0xABCDEF, None, None]


def test_columns_of_a_side_table_can_be_chosen(spark: SparkSession, data: Path) -> None:
    schema = walrow.spark.schema(b"", "walrow.messages")
    schema = type(schema)([schema["prefix"], schema["lsn"]])
    decode = walrow.spark.decode(table="walrow.messages", schema=schema)
    found = captures(spark, data, "messages").mapInArrow(decode, schema).collect()
    assert [row.prefix for row in found][:2] == ["outside", "alone"]
    wrong = pa.schema([("nothing", pa.string())])
    decode = walrow.spark.decode(table="walrow.messages", schema=wrong)
    capture = pa.record_batch({"c": [(data / "messages.text.wire").read_bytes()]})
    with pytest.raises(walrow.errors.SchemaError, match="nothing"):
        list(decode(iter([capture])))


def test_all_tables_come_in_one_envelope(spark: SparkSession, data: Path) -> None:
    names = ["rows", "truncate", "streaming-interleaved", "two-phase"]
    schema = walrow.spark.schema(b"", envelope=True)
    decode = walrow.spark.decode(envelope=True, schema=schema)
    found = captures(spark, data, *names).mapInArrow(decode, schema)
    wanted = [
        row
        for name in names
        for row in pa.table(
            walrow.read(data / f"{name}.text.wire", envelope=True, profile="spark")
        ).to_pylist()
    ]
    assert len({row["table_name"] for row in wanted}) > 4
    assert found.toArrow().to_pylist() == wanted
    items = found.where("table_name = 'item'").selectExpr(
        "data['id'] id", "key['id'] k"
    )
    assert all(row.id == row.k for row in items.collect() if row.id is not None)


def test_impossible_options_are_refused_on_the_driver() -> None:
    with pytest.raises(walrow.errors.OptionError, match="choose a table with table="):
        walrow.spark.decode()
    with pytest.raises(walrow.errors.OptionError, match="by itself"):
        walrow.spark.decode(envelope=True, tables=["t", "walrow.messages"])
