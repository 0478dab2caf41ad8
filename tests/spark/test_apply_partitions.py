"""Targets that are partitioned: their values come back as they were, or are refused by name."""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import walrow
from servers.live_log import History
from spark.lakes import Lake
from walrow._apply.items import Op
from walrow.spark.targets.path_values import checked, path_error

pytestmark = [
    pytest.mark.spark,
    pytest.mark.live,
    pytest.mark.timeout(300),
]

ZONES = ("America/New_York", "Asia/Tokyo")
#: Columns of both sides, since Python has no years before 1.
DAYS = ("unix_date(d)", "d - date '1970-01-01'")
TIMES = ("substring_index(CAST(ts AS string), ' ', -1)", "ts::time::text")
TIME_DAYS = ("unix_date(CAST(ts AS date))", "ts::date - date '1970-01-01'")
INSTANTS = ("unix_micros(at)", "(extract(epoch FROM at) * 1000000)::bigint")


def in_zone(lake: Lake, zone: str) -> None:
    spark = lake.spark
    lake.spark = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())
    lake.spark.conf.set("spark.sql.session.timeZone", zone)


def path(lake: Lake) -> Path:
    return Path(lake.name.removeprefix("delta:"))


@pytest.mark.slow
def test_values_come_back_in_each_zone(source: History, lake: Lake) -> None:
    # An hour that comes twice, one that does not come, and times before our era.
    source.sql(
        "CREATE TABLE t (d date, ts timestamp, n numeric(10,2), word text, at timestamptz, "
        "v int, PRIMARY KEY (d, ts, n, word, at))",
        "INSERT INTO t SELECT d, ts::timestamp, n, w, at::timestamptz, 1 FROM (VALUES "
        "(date '0044-03-15 BC', '0044-03-15 12:00 BC', -0.05, 'é/=% ', '2024-11-03 05:30Z'), "
        "('2024-11-03', '2024-11-03 01:30', 0, 'a', '2024-11-03 06:30Z'), "
        "('2024-03-10', '2024-03-10 02:30', 7.25, 'A', '2024-03-10 07:00Z'), "
        "('9999-12-31', '9999-12-31 23:59:59.999999', 1, 'null', '2024-01-01 00:00Z')"
        ") AS r (d, ts, n, w, at)",
    )
    chosen, both = ["d", "ts", "n", "word"], [DAYS, TIMES, TIME_DAYS, INSTANTS]
    if lake.kind == "iceberg":
        chosen.append("at")
        source.sql(
            "INSERT INTO t VALUES ('0001-01-01', '0001-01-01', 2, '', '0044-03-15 12:00Z BC', 1)"
        )
    in_zone(lake, ZONES[0])
    lake.apply(source.take(), partition_by=chosen)
    # Another zone, and the rows are found.
    in_zone(lake, ZONES[1])
    source.sql("UPDATE t SET v = 2", "DELETE FROM t WHERE n = 0")
    lake.apply(source.take())
    expected = source.rows("t", f"{', '.join(it for _, it in both)}, n, word, v")
    for zone in ZONES:
        in_zone(lake, zone)
        assert lake.rows(*(it for it, _ in both), "n", "word", "v") == expected


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["delta"], indirect=True)
@pytest.mark.parametrize("way", ["changes", "load"])
def test_texts_that_a_path_cannot_have(source: History, lake: Lake, way: str) -> None:
    source.sql(
        "CREATE TABLE t (id int, region text, v text, PRIMARY KEY (region, id))",
        "INSERT INTO t VALUES (1, '', 'secret'), (2, 'eu', 'x')",
        "UPDATE t SET id = 3 WHERE id = 2",
    )

    def take() -> None:
        source.take()
        if way == "load":
            source.load("t")

    def refused(**options: Any) -> None:
        with pytest.raises(walrow.errors.ApplyError, match="an empty text") as it:
            lake.apply(source, **options)
        error = it.value
        assert (error.code, error.column) == ("partition", "region")
        assert (error.table, error.target) == ("public.t", lake.name)
        assert str(error).endswith("partition_by=[...] or cluster_by=[...]")
        assert "secret" not in str(error)

    take()
    refused(partition_by=["REGION"])
    # So the same call with other options makes another one.
    assert not path(lake).exists()
    # What comes and goes is not written.
    source.sql("DELETE FROM t WHERE region = ''")
    take()
    assert lake.apply(source, partition_by=["region"]).committed
    before = lake.rows()
    for value in ("", "__HIVE_DEFAULT_PARTITION__"):
        source.sql(f"UPDATE t SET region = '{value}'")
        take()
        refused()
        assert lake.rows() == before


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_columns_that_a_path_cannot_have(source: History, lake: Lake) -> None:
    source.sql(
        "CREATE TABLE t (id int PRIMARY KEY, at timestamptz, data bytea, word text)",
        "INSERT INTO t VALUES (1, now(), '', '')",
    )
    source.take()
    with pytest.raises(
        walrow.errors.ApplyError, match="partitioned by column word"
    ) as raised:
        lake.apply(source, partition_by=["word"])
    assert raised.value.code == "partition"
    assert not path(lake).exists()

    def refused(column: str, **options: Any) -> None:
        with pytest.raises(
            walrow.errors.SchemaError, match="cannot be partitioned by"
        ) as it:
            lake.apply(source, **options)
        assert it.value.column == column

    for column in ("at", "data"):
        refused(column, partition_by=[column])
        assert not path(lake).exists()
    # Another program's table, which has no rows yet.
    lake.sql(
        "CREATE TABLE {t} (id int, at timestamp_ltz, data binary, word string) USING delta "
        "PARTITIONED BY (at)"
    )
    refused("at")
    assert not lake.rows()


def test_each_text_that_is_checked(spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    def errors(text: str | None, kind: int | None) -> bool:
        frame = spark.createDataFrame([(text, kind)], "word string, kind int")
        op = None if kind is None else f.col("kind")
        try:
            rows = frame.select(checked(f.col("word"), 1, op)).collect()
        except Exception as error:
            found = path_error(error, "public.t", "delta:/t", ["id", "word", "v"])
            assert found is not None
            assert (found.code, found.column) == ("partition", "word")
            return True
        assert [row[0] for row in rows] == [text]
        return False

    for kind in (None, Op.INSERT, Op.UPDATE):
        assert errors("", kind)
        assert errors("__HIVE_DEFAULT_PARTITION__", kind)
        assert not errors(" ", kind)
        assert not errors(None, kind)
    assert not errors("", Op.DELETE)


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
def test_transforms_of_columns_whose_names_are_syntax(
    source: History, lake: Lake
) -> None:
    source.sql(
        'CREATE TABLE t (id int PRIMARY KEY, "a,t)" timestamp, "b(c)" text, "x.y`" text)',
        "INSERT INTO t VALUES (1, '2024-01-01', 'b', 'y')",
    )
    parts = ["days(a,t))", "truncate(2, `b(c)`)", "b(c)", "truncate(x.y`, 3)"]
    parts.append("bucket(4,id)")
    assert lake.apply(source.take(), partition_by=parts).committed
    assert lake.rows() == source.rows("t")
    found = lake.sql("SELECT partition FROM {t}.partitions")[0].partition.asDict()
    assert list(found) == ["a,t)_day", "b(c)_trunc", "b(c)", "x.y`_trunc", "id_bucket"]
