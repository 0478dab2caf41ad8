"""`walrow.spark.changes`: captures in a DataFrame, changes out."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import walrow
import walrow.spark
from spark.sources import expected

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]


def test_paths_give_the_changes_of_all_captures(
    spark: SparkSession, data: Path
) -> None:
    names = ["rows", "alter-columns", "streaming-interleaved"]
    paths = [str(data / f"{name}.text.wire") for name in names]
    frame = spark.createDataFrame(
        [(n, path) for n, path in enumerate(paths)], "number int, `a.path` string"
    )
    found = walrow.spark.changes(frame.where("number < 2"), "public.shape")
    # One of them lacks the table.
    assert found.toArrow().to_pylist() == expected(paths[1], "public.shape")
    found = walrow.spark.changes(
        frame.where("number != 1"),
        "public.item",
        columns=["id"],
        metadata=["change_type"],
        batch_rows=2,
    )
    assert found.columns == ["id", "_change_type"]
    assert found.count() == sum(
        len(expected(path, "public.item")) for path in (paths[0], paths[2])
    )


def test_files_as_spark_lists_them(spark: SparkSession, data: Path) -> None:
    path = str(data / "rows.text.wire")
    files = spark.read.format("binaryFile").load(path)
    wanted = expected(path, "public.item")
    found = walrow.spark.changes(files.select("path", "length"), "public.item")
    assert found.toArrow().to_pylist() == wanted
    schema = walrow.spark.schema(path, "public.item")
    found = walrow.spark.changes(files, "public.item", schema=schema)
    assert found.toArrow().to_pylist() == wanted
    streamed = spark.readStream.format("text").load(str(data))
    for frame in (files, streamed):
        with pytest.raises(walrow.errors.OptionError, match="needs schema="):
            walrow.spark.changes(frame, "public.item")


def test_an_envelope_needs_no_table(spark: SparkSession, data: Path) -> None:
    path = str(data / "rows.text.wire")
    frame = spark.createDataFrame([(path,)], "path string")
    found = walrow.spark.changes(frame, envelope=True)
    assert found.toArrow().to_pylist() == expected(path, envelope=True)


def test_what_is_missing_is_named(spark: SparkSession) -> None:
    two = spark.createDataFrame([("a", "b")], "one string, two string")
    with pytest.raises(
        walrow.errors.SchemaError, match="several string columns, one, two"
    ):
        walrow.spark.changes(two, "t")
    with pytest.raises(walrow.errors.SchemaError, match="no column three"):
        walrow.spark.changes(two, "t", column="three")
    with pytest.raises(walrow.errors.SchemaError, match="has no captures"):
        walrow.spark.changes(two.where("false"), "t", column="one")
    numbers = spark.createDataFrame([(1,)], "one int")
    with pytest.raises(walrow.errors.SchemaError, match="neither a binary column"):
        walrow.spark.changes(numbers, "t")
