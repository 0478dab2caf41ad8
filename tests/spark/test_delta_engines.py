"""Spark and deltalake write one Delta table by turns, and Spark's files are guarded against."""

# ruff: noqa: S608  (statements are put together here, from the test's own parts)

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

pytest.importorskip("deltalake", reason="needs deltalake: pip install deltalake")

import deltalake

import streams
import walrow.delta
import walrow.spark
from servers import FetchedServer
from servers.fetched import VERSIONS
from targets.live_rounds import LiveRound
from targets.modelled_rounds import one_round, with_spark
from targets.written_log import WrittenLog
from walrow._apply.items import Token

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

UNSENT = streams.UNSENT


class Both:
    """A written log, a target, and both engines."""

    def __init__(self, spark: SparkSession, folder: Path, **columns: str) -> None:
        self.spark = spark
        self.log = WrittenLog(folder, **columns)
        self.place = self.log.target.partition(":")[2]
        self.table = f"delta.`{self.place}`"

    def in_spark(self, **options: Any) -> Any:
        given = {"table": "public.t", "target": self.log.target} | options
        return walrow.spark.apply_changes(self.spark, self.log.path, **given)

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        rows = self.spark.sql(text.format(t=self.table)).collect()
        return [tuple(row) for row in rows]

    def refused(self, code: str, *texts: str) -> None:
        """A refusal that changes nothing."""
        before = deltalake.DeltaTable(self.place).version()
        with pytest.raises(walrow.errors.ApplyError) as caught:
            self.log.apply()
        assert caught.value.code == code, caught.value
        for text in (*texts, "--engine spark"):
            assert text in str(caught.value)
        assert deltalake.DeltaTable(self.place).version() == before


@pytest.mark.slow
def test_long_decimals_are_found(lakehouse: SparkSession, tmp_path: Path) -> None:
    both = Both(lakehouse, tmp_path, k="numeric(20,2)", other="numeric(38,18)", n="int")
    wanted = []
    for at, value in enumerate(
        ("123456789012345678.91", "-999999999999999999.99", "0.05")
    ):
        both.log.insert([value, f"{at}.123456789012345678", str(at)])
        both.log.apply()
        wanted.append((value, at))
    both.log.update(*((value, UNSENT, str(at + 10)) for value, at in wanted))
    both.log.apply()
    for value, at in wanted:
        found = both.sql(f"SELECT n FROM {{t}} WHERE k = {value}")
        assert found == [(at + 10,)]
        found = both.sql(f"SELECT n FROM {{t}} WHERE other = {at}.123456789012345678")
        assert found == [(at + 10,)]
    # Spark makes the same table, and a table that lacks the property gets it.
    spark = Both(lakehouse, tmp_path / "spark", k="numeric(20,2)", n="int")
    spark.log.insert(["123456789012345678.91", "1"])
    spark.in_spark()
    properties = deltalake.DeltaTable(spark.place).metadata().configuration
    assert properties["delta.dataSkippingStatsColumns"] == "n"
    spark.sql("ALTER TABLE {t} UNSET TBLPROPERTIES ('delta.dataSkippingStatsColumns')")
    spark.log.update(["123456789012345678.91", "2"])
    spark.log.apply()
    assert spark.sql("SELECT n FROM {t} WHERE k = 123456789012345678.91") == [(2,)]
    properties = deltalake.DeltaTable(spark.place).metadata().configuration
    assert properties["delta.dataSkippingStatsColumns"] == "n"


@pytest.mark.slow
def test_floats_are_found(lakehouse: SparkSession, tmp_path: Path) -> None:
    """deltalake leaves NaN out of statistics, in the log and in files."""
    both = Both(lakehouse, tmp_path, id="int", f="float")
    # The first batch of a table is a MERGE, too. Then all rows are overwritten, or joined.
    for loads in (False, True):
        if loads:
            both.log.truncate()
        both.log.insert(["1", "NaN"], ["2", "1.5"])
        both.log.apply()
        both.log.insert(["3", "0"])
        both.log.apply()
        for maintains in (False, True):
            if maintains:
                walrow.delta.maintain(both.log.target)
            for text, key in (("= double('NaN')", 1), ("> 100", 1), ("= 0", 3)):
                assert both.sql(f"SELECT id FROM {{t}} WHERE f {text}") == [(key,)]


@pytest.mark.slow
def test_far_times(lakehouse: SparkSession, tmp_path: Path) -> None:
    both = Both(lakehouse, tmp_path, id="int", at="timestamptz")
    times = (
        "0001-01-01 00:00:00+00",
        "9999-12-31 23:59:59.999999+00",
        "2024-01-01 00:00:00.000001+00",
    )
    both.log.insert(*([str(at), time] for at, time in enumerate(times)))
    both.in_spark()
    both.log.insert(["7", None])
    both.log.apply()
    both.log.update(["7", times[2]])
    both.in_spark()
    both.log.delete("7")
    both.log.apply()
    text = "SELECT id, unix_micros(at) FROM {t} ORDER BY id"
    found = both.sql(text)
    assert found == [
        (0, -62135596800000000),
        (1, 253402300799999999),
        (2, 1704067200000001),
    ]
    # As others write them, in Spark's own type.
    lakehouse.sql(
        f"INSERT INTO {both.table} VALUES (8, TIMESTAMP '9999-01-01 00:00:00'), (9, NULL)"
    )
    both.log.insert(["10", None])
    both.refused("engine", "INT96")
    both.in_spark()
    session = lakehouse.newSession()
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    session.sql(f"UPDATE {both.table} SET id = id WHERE id IN (8, 9)")
    both.log.insert(["11", None])
    both.log.apply()
    assert len(both.sql(text)) == 7


@pytest.mark.slow
def test_keys_in_the_statistics_of_spark(
    lakehouse: SparkSession, tmp_path: Path
) -> None:
    """Spark cuts texts and times in its statistics."""
    values = {
        "text": ("x" * 40 + "a", "\U0010ffff" * 40, "é" * 50),
        "timestamptz": (
            "2024-01-01 00:00:00.000999+00",
            "1969-12-31 23:59:59.999001+00",
        ),
        "timestamp": ("2024-01-01 00:00:00.000999", "1969-12-31 23:59:59.999001"),
        "float": ("-0", "NaN", "1e+300"),
        "bytea": ("\\x" + "ff" * 50,),
    }
    for kind, keys in values.items():
        both = Both(lakehouse, tmp_path / kind, k=kind, n="int")
        both.log.insert(*([key, "1"] for key in keys))
        both.in_spark()
        both.log.update(*([key, "2"] for key in keys))
        done = both.log.apply()
        assert (done.inserted, done.updated) == (0, len(keys)), kind


@pytest.mark.slow
def test_paths_that_are_not_ascii(lakehouse: SparkSession, tmp_path: Path) -> None:
    both = Both(lakehouse, tmp_path, id="int", p="text")
    both.log.insert(["1", "a b%#?"], ["2", "x"])
    both.in_spark(partition_by=["p"])
    both.log.update(["1", "c+/"])
    both.log.apply()
    assert both.sql("SELECT * FROM {t} ORDER BY id") == [(1, "c+/"), (2, "x")]
    both.log.insert(["3", "ü"])
    both.in_spark()
    both.log.update(["2", "y"])
    both.refused("engine", "ASCII")
    both.in_spark()
    assert both.sql("SELECT * FROM {t} ORDER BY id") == [(1, "c+/"), (2, "y"), (3, "ü")]


@pytest.mark.parametrize("kind", ["DECIMAL(10,2)", "TIMESTAMP", "BINARY", "DOUBLE"])
def test_partitions_of_spark(
    lakehouse: SparkSession, tmp_path: Path, kind: str
) -> None:
    types = {
        "DECIMAL(10,2)": "numeric(10,2)",
        "TIMESTAMP": "timestamptz",
        "BINARY": "bytea",
    }
    both = Both(lakehouse, tmp_path, id="int", p=types.get(kind, "float"))
    lakehouse.sql(
        f"CREATE TABLE {both.table} (id INT, p {kind}) USING delta PARTITIONED BY (p)"
    )
    both.log.insert(["1", None])
    both.refused("engine", "partitioned by column p")


@pytest.mark.slow
def test_what_makes_a_table_spark_s_is_asked_for(
    lakehouse: SparkSession, tmp_path: Path
) -> None:
    both = Both(lakehouse, tmp_path, id="int", n="int")
    both.log.insert(["1", "1"])
    both.in_spark()
    both.log.columns["n"] = "bigint"
    both.log.insert(["2", "5000000000"])
    before = deltalake.DeltaTable(both.place).version()
    for apply in (both.log.apply, both.in_spark):
        with pytest.raises(walrow.errors.ApplyError) as caught:
            apply()
        assert caught.value.code == "widening"
        for text in ("widen_types=True", "only Spark writes it", "load the table"):
            assert text in str(caught.value)
    assert deltalake.DeltaTable(both.place).version() == before
    assert features(both.in_spark(widen_types=True)) == {"typeWidening"}
    both.log.columns["n"] = "numeric(22,2)"
    both.log.insert(["3", "5000000000.25"])
    both.refused("engine", "typeWidening", "its record says")
    # The table is Spark's now, and the option is not needed again.
    assert features(both.in_spark()) == {"typeWidening"}
    found = [str(it[0]) for it in both.sql("SELECT n FROM {t} ORDER BY id")]
    assert found == ["1.00", "5000000000.00", "5000000000.25"]
    clustered = Both(lakehouse, tmp_path / "clustered", id="int")
    clustered.log.insert(["1"])
    assert "clustering" in features(clustered.in_spark(cluster_by=["id"]))
    clustered.log.insert(["2"])
    clustered.refused("engine", "clustering", "its record says")


def test_a_type_that_no_table_of_a_server_has(
    lakehouse: SparkSession, tmp_path: Path
) -> None:
    both = Both(lakehouse, tmp_path, id="int", v="text")
    lakehouse.sql(f"CREATE TABLE {both.table} (id INT, v VARIANT) USING delta")
    both.log.insert(["1", "a"])
    with pytest.raises(walrow.errors.SchemaError, match="has it as variant"):
        both.in_spark()


def features(applied: Any) -> set[str]:
    """The features in a record that only Spark writes."""
    token = Token.from_json(applied.token)
    assert token is not None
    return set(token.features)


@pytest.mark.slow
def test_features_of_spark(lakehouse: SparkSession, tmp_path: Path) -> None:
    refused = {
        "typeWidening": "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "rowTracking": "TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
        "clustering": "CLUSTER BY (id)",
        "inCommitTimestamp": "TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
    }
    for name, more in refused.items():
        both = Both(lakehouse, tmp_path / name, id="int", v="text")
        lakehouse.sql(
            f"CREATE TABLE {both.table} (id INT, v STRING) USING delta {more}"
        )
        both.log.insert(["1", "a"])
        with pytest.raises(walrow.errors.ApplyError) as caught:
            both.log.apply()
        assert caught.value.code == "engine", name
        assert "--engine spark" in str(caught.value)
    taken = {
        "vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "mapping": "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "feed": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    }
    for name, more in taken.items():
        both = Both(lakehouse, tmp_path / name, id="int", v="text")
        lakehouse.sql(
            f"CREATE TABLE {both.table} (id INT, v STRING) USING delta {more}"
        )
        both.log.insert(["1", "a"], ["2", "b"], ["3", "c"])
        both.in_spark()
        both.log.delete("2")
        both.in_spark()
        both.log.move("1", ["4", UNSENT])
        both.log.apply()
        assert both.sql("SELECT * FROM {t} ORDER BY id") == [(3, "c"), (4, "a")]
        if name == "mapping":
            both.log.columns["more"] = "int"
            both.log.insert(["5", "e", "5"])
            both.refused("engine", "column mapping")


@pytest.mark.slow
def test_a_restore_in_spark(lakehouse: SparkSession, tmp_path: Path) -> None:
    both = Both(lakehouse, tmp_path, id="int")
    both.log.insert(["1"])
    both.in_spark()
    both.log.insert(["2"])
    both.log.apply()
    both.log.insert(["3"])
    both.in_spark()
    both.sql("RESTORE TABLE {t} TO VERSION AS OF 2")
    for apply in (both.log.apply, both.in_spark):
        with pytest.raises(walrow.errors.ApplyError) as caught:
            apply()
        assert caught.value.code == "restored"


SEED = int(os.environ.get("WALROW_SEED") or time.time())


@pytest.mark.slow
def test_engines_by_turns(lakehouse: SparkSession, tmp_path: Path) -> None:
    one_round(tmp_path, SEED, batches=3, engines=with_spark(lakehouse), kills=0.3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_engines_by_turns_for_long(lakehouse: SparkSession, tmp_path: Path) -> None:
    engines, killed = with_spark(lakehouse), 0
    for number in range(16):
        folder = tmp_path / str(number)
        killed += one_round(
            folder, SEED + number, batches=6, engines=engines, kills=0.3
        )
    assert killed > 5


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["history", "changes"])
def test_targets_that_keep_rows_by_turns(
    lakehouse: SparkSession, tmp_path: Path, mode: str
) -> None:
    engines = with_spark(lakehouse)
    for number in range(8):
        folder = tmp_path / str(number)
        one_round(
            folder, SEED + number, batches=4, engines=engines, kills=0.3, mode=mode
        )


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("major", VERSIONS)
def test_live_histories_by_turns(
    lakehouse: SparkSession, tmp_path: Path, major: int
) -> None:
    """Both engines write and read the histories. A server has the rows."""
    with FetchedServer(major, logical_decoding_work_mem="64kB") as server:
        made = LiveRound(
            server,
            tmp_path,
            SEED + major,
            engines=with_spark(lakehouse),
            kill_share=0.3,
            alters=True,
        )
    assert made.compared > 1000
