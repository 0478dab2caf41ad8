"""`walrow.spark` in Spark: golden captures through `mapInArrow`."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import streams
import walrow
import walrow.spark
from walrow.cli import jsonlines

pytestmark = pytest.mark.spark

DATA = Path(__file__).resolve().parent.parent / "data" / "18"


def _readable() -> list[Any]:
    """Each table of each capture, if the spark profile reads it under one schema."""
    found = []
    for path in sorted(DATA.glob("*.text.wire")):
        try:
            tables = {batch.table for batch in walrow.read(path, profile="spark")}
            for table in sorted(tables):
                list(walrow.read(path, table=table, profile="spark"))
                name = f"{path.name.partition('.')[0]}-{table}"
                found.append(pytest.param(path, table, id=name))
        except walrow.Error:
            continue
    return found


READABLE = _readable()


def test_captures_are_read() -> None:
    assert len(READABLE) > 40


def expected(path: Path, table: str, **options: Any) -> list[list[Any]]:
    return [
        list(row)
        for batch in walrow.read(path, table=table, profile="spark", **options)
        for row in zip(
            *map(jsonlines.values, pa.record_batch(batch).columns), strict=True
        )
    ]


def collected(frame: DataFrame) -> list[list[Any]]:
    """Rows as JSON; instants in UTC, in any time zone of the session."""
    table = frame.toArrow()
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type) and column.type.tz is not None:
            column = column.cast(pa.timestamp("us", "UTC"))  # noqa: PLW2901
        columns.append([v for chunk in column.chunks for v in jsonlines.values(chunk)])
    return [list(row) for row in zip(*columns, strict=True)]


def same(found: list[list[Any]], wanted: list[list[Any]]) -> None:
    # repr distinguishes -0.0 from 0.0 and 1 from 1.0.
    assert list(map(repr, found)) == list(map(repr, wanted))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Spark's defaults read all captures. In make test-all only, the others do, too."""
    if not {"path", "table"} <= set(metafunc.fixturenames) or metafunc.cls is None:
        return
    captures = [
        pytest.param(
            *it.values,
            id=it.id,
            marks=[*it.marks]
            if str(it.id).startswith("types") or metafunc.cls is TestDefaults
            else [*it.marks, pytest.mark.slow],
        )
        for it in READABLE
    ]
    metafunc.parametrize(("path", "table"), captures)


class Cases:
    """Tests for every configuration: subclasses set it and run all of them again."""

    conf: ClassVar[dict[str, str]] = {}

    @pytest.fixture(autouse=True)
    def _configured(self, spark: SparkSession) -> Iterator[None]:
        before = {name: spark.conf.get(name) for name in self.conf}
        for name, value in self.conf.items():
            spark.conf.set(name, value)
        yield
        for name, old in before.items():
            spark.conf.set(name, old)

    def test_binary_column_and_path_column_give_what_read_gives(
        self, spark: SparkSession, path: Path, table: str
    ) -> None:
        schema = walrow.spark.schema(path, table)
        decode = walrow.spark.decode(table=table, schema=schema)
        wanted = expected(path, table)
        content = spark.createDataFrame([(1, path.read_bytes())], "n int, c binary")
        paths = spark.createDataFrame([(1, str(path))], "n int, p string")
        # Only the path's has a schema of its own.
        for frame, function in (
            (content, decode),
            (paths, walrow.spark.decode(table=table)),
        ):
            changes = frame.mapInArrow(function, schema)
            assert changes.schema == schema
            same(collected(changes), wanted)

    def test_binary_file_source_by_content_and_by_path(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        capture = DATA / "rows.text.wire"
        for name in ("a b.wire", "c%20d.wire", "é.wire"):
            (tmp_path / name).write_bytes(capture.read_bytes())
        # walrow decompresses these, no matter what Spark does with such names.
        (tmp_path / "é.wire").write_bytes(gzip.compress(capture.read_bytes()))
        files = spark.read.format("binaryFile").load(str(tmp_path))
        schema = walrow.spark.schema(tmp_path, "item")
        decode = walrow.spark.decode(table="item", schema=schema)
        wanted = sorted(expected(capture, "item") * 3, key=repr)
        for frame in (
            files,
            files.select("path"),
            files.select("content"),
            files.selectExpr("_metadata.file_path as p"),
            files.selectExpr("input_file_name() as p"),
        ):
            found = collected(frame.mapInArrow(decode, schema))
            same(sorted(found, key=repr), wanted)

    def test_several_captures_in_any_partitioning_and_again(
        self, spark: SparkSession
    ) -> None:
        capture = DATA / "rows.text.wire"
        schema = walrow.spark.schema(capture, "public.item")
        decode = walrow.spark.decode(table="public.item", schema=schema)
        wanted = sorted(expected(capture, "public.item") * 7, key=repr)
        frame = spark.createDataFrame([(str(capture),)] * 7, "p string")
        for partitions in (1, 2, 5):
            changes = frame.repartition(partitions).mapInArrow(decode, schema)
            for _ in range(2):
                same(sorted(collected(changes), key=repr), wanted)

    def test_metadata_columns_are_counted_and_ordered_by_spark(
        self, spark: SparkSession
    ) -> None:
        capture = DATA / "rows.text.wire"
        schema = walrow.spark.schema(capture, "item")
        decode = walrow.spark.decode(table="item", schema=schema)
        changes = spark.createDataFrame([(str(capture),)], "p string").mapInArrow(
            decode, schema
        )
        found = {
            row["_change_type"]: row["count"]
            for row in changes.groupBy("_change_type").count().collect()
        }
        place = schema.names.index("_change_type")
        kinds = [row[place] for row in expected(capture, "item")]
        assert found == {kind: kinds.count(kind) for kind in set(kinds)}

    def test_schema_evolution_is_projected(self, spark: SparkSession) -> None:
        capture = DATA / "alter-columns.text.wire"
        batches = [pa.record_batch(b) for b in walrow.read(capture, profile="spark")]
        # Every column that there ever was, under its latest type.
        fields = {field.name: field for b in batches for field in b.schema}
        wanted = pa.schema(list(fields.values()))
        table = next(iter(walrow.read(capture))).table
        struct = StructType.fromJson(_struct(wanted).jsonValue())
        decode = walrow.spark.decode(table=table, schema=struct)
        frame = spark.createDataFrame([(capture.read_bytes(),)], "c binary")
        changes = frame.mapInArrow(decode, struct)
        same(collected(changes), expected(capture, table, schema=wanted))
        assert changes.filter("size(_unsent) > 0").count() > 0


def _struct(schema: Any) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


class TestDefaults(Cases):
    """Spark's defaults, in UTC."""


class TestSmallBatches(Cases):
    """Inputs of three rows."""

    conf: ClassVar = {"spark.sql.execution.arrow.maxRecordsPerBatch": "3"}


class TestNewYork(Cases):
    """A session whose zone has hours that happen twice."""

    conf: ClassVar = {"spark.sql.session.timeZone": "America/New_York"}


# ------------------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([b"I\0\0\x40\0N\0\x01t\0\0\0\x06secret"], "the value is not a capture"),
        ([b""], "the value is empty"),
        ([None], "NULL in column c, row 1 of the task's input"),
        (["cut"], "the stream ends inside a frame or transaction; take only"),
    ],
    ids=["message", "empty", "null", "cut"],
)
def test_wrong_input_reaches_the_driver_in_walrows_words(
    spark: SparkSession, values: list[Any], message: str
) -> None:
    capture = DATA / "rows.text.wire"
    if values == ["cut"]:
        values = [capture.read_bytes()[:-300]]
    schema = walrow.spark.schema(capture, "item")
    frame = spark.createDataFrame([(value,) for value in values], "c binary")
    decode = walrow.spark.decode(table="item", schema=schema)
    with pytest.raises(PythonException) as caught:
        frame.mapInArrow(decode, schema).collect()
    text = str(caught.value)
    kind = "UnfinishedError" if message.startswith("the stream") else "DecodeError"
    assert f"walrow.errors.{kind}" in text
    assert message in text
    assert "column c, row 1 of the task's input" in text
    assert "secret" not in text


def test_all_versions_of_a_table_are_read_with_the_schema_of_all_captures(
    spark: SparkSession, tmp_path: Path
) -> None:
    """INSERT; ADD COLUMN price; INSERT; RENAME a TO title; INSERT, over three captures."""
    versions = [
        ([("id", 23), ("a", 25)], ["1", "one"]),
        ([("id", 23), ("a", 25), ("price", 23)], ["2", "two", "20"]),
        ([("id", 23), ("title", 25), ("price", 20)], ["3", "three", "30"]),
    ]
    for place, (columns, row) in enumerate(versions):
        found = streams.wire([streams.Column(*each) for each in columns], [row])
        (tmp_path / f"{place}.wire").write_bytes(found)
    (tmp_path / "other.wire").write_bytes((DATA / "rows.text.wire").read_bytes())
    schema = walrow.spark.schema(str(tmp_path), "public.t")
    types = {name: schema[name].dataType.simpleString() for name in schema.names[:4]}
    assert types == {"id": "int", "a": "string", "price": "bigint", "title": "string"}
    decode = walrow.spark.decode(table="public.t", schema=schema)
    files = spark.read.format("binaryFile").load(str(tmp_path))
    changes = files.select("path").mapInArrow(decode, schema)
    assert changes.schema == schema
    rows = (
        changes.orderBy("id").select("id", "a", "price", "title", "_unsent").collect()
    )
    assert [tuple(row) for row in rows] == [
        (1, "one", None, None, ["price", "title"]),
        (2, "two", 20, None, ["title"]),
        (3, None, 30, "three", ["a"]),
    ]
    # A part is only read if the options say so.
    first = walrow.spark.schema(str(tmp_path / "0.wire"), "public.t")
    narrow = walrow.spark.decode(table="public.t", schema=first)
    with pytest.raises(PythonException, match="which the schema lacks"):
        files.select("path").mapInArrow(narrow, first).collect()
    wanted = walrow.spark.schema(str(tmp_path), "public.t", columns=["id"])
    narrow = walrow.spark.decode(table="public.t", schema=wanted, columns=["id"])
    rows = files.select("path").mapInArrow(narrow, wanted).orderBy("id").collect()
    assert [row["id"] for row in rows] == [1, 2, 3]


def test_value_that_spark_cannot_hold_is_an_error_with_a_remedy_on_the_driver(
    spark: SparkSession,
) -> None:
    capture = DATA / "types-infinity.text.wire"
    with pytest.raises(walrow.errors.UnrepresentableError) as local:
        list(walrow.read(capture, profile="spark"))
    table = local.value.table
    schema = walrow.spark.schema(capture, table, unrepresentable="null")
    frame = spark.createDataFrame([(str(capture),)], "p string")
    decode = walrow.spark.decode(table=table, schema=schema)
    with pytest.raises(PythonException) as caught:
        frame.mapInArrow(decode, schema).collect()
    # A schema has precedence over `types`, so `types` is no remedy.
    option = f'unrepresentable={{"{table}.{local.value.column}": "null"}}'
    assert f"cannot hold infinity; let it through by {option}" in str(caught.value)
    assert str(capture) in str(caught.value)
    assert table is not None
    decode = walrow.spark.decode(table=table, schema=schema, unrepresentable="null")
    wanted = expected(capture, table, unrepresentable="null")
    same(collected(frame.mapInArrow(decode, schema)), wanted)


def test_missing_table_and_file_reach_the_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    capture = DATA / "rows.text.wire"
    schema = walrow.spark.schema(capture, "item")
    frame = spark.createDataFrame([(str(capture),)], "p string")
    with pytest.raises(PythonException, match="no table nothing in the stream"):
        frame.mapInArrow(walrow.spark.decode(table="nothing"), schema).collect()
    gone = spark.createDataFrame([(str(tmp_path / "gone"),)], "p string")
    with pytest.raises(PythonException, match="the capture cannot be read"):
        gone.mapInArrow(walrow.spark.decode(table="item"), schema).collect()


# ------------------------------------------------------------------------------ schema


def test_schema_keeps_nullability_and_types() -> None:
    schema = walrow.spark.schema(DATA / "rows.text.wire", "public.item")
    assert {field.name: field.dataType.simpleString() for field in schema} == {
        "id": "int",
        "label": "string",
        "amount": "decimal(12,2)",
        "_change_type": "string",
        "_commit_lsn": "bigint",
        "_seq": "bigint",
        "_commit_timestamp": "timestamp",
        "_xid": "bigint",
        "_key_only": "boolean",
        "_unsent": "array<string>",
    }
    nullable = {field.name for field in schema if field.nullable}
    assert nullable == {"id", "label", "amount", "_unsent"}


def test_schema_follows_the_options() -> None:
    schema = walrow.spark.schema(
        DATA / "rows.text.wire",
        "item",
        metadata=["seq"],
        metadata_prefix="pg_",
        types={"amount": "string"},
    )
    names = {field.name: field.dataType.simpleString() for field in schema}
    assert names == {
        "id": "int",
        "label": "string",
        "amount": "string",
        "pg_seq": "bigint",
    }


def test_naive_timestamps_are_timestamp_ntz(spark: SparkSession) -> None:
    capture = DATA / "types-time.text.wire"
    seen = set()
    for table in {batch.table for batch in walrow.read(capture, profile="text")}:
        schema = walrow.spark.schema(capture, table, unrepresentable="null")
        seen |= {field.dataType.simpleString() for field in schema}
    assert {"timestamp_ntz", "timestamp", "date", "string"} <= seen
    assert spark.conf.get("spark.sql.session.timeZone") == "Etc/UTC"
