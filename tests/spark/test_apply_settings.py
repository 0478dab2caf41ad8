"""`walrow.spark.apply_changes` with other settings of sessions, calls and targets than before."""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException

import walrow.spark
from servers.live_log import History
from spark.lakes import Lake
from walrow.spark.targets import target_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.live,
    pytest.mark.timeout(300),
]

ZONE = {"spark.sql.session.timeZone": "America/New_York"}
LARGE = {"spark.sql.execution.arrow.useLargeVarTypes": "true"}
NTZ = {"spark.sql.timestampType": "TIMESTAMP_NTZ"}


class CrashError(Exception):
    """The driver dies."""


def set_in(lake: Lake, settings: dict[str, str]) -> None:
    """Gives a target a session of its own, with settings."""
    spark = lake.spark
    lake.spark = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name, value in settings.items():
        lake.spark.conf.set(name, value)


@contextlib.contextmanager
def extensions(spark: Any, names: str) -> Iterator[None]:
    """Sets what sessions are made with, and then say that they were."""
    settings = spark.sparkContext._jsc.sc().conf()
    before = settings.get("spark.sql.extensions")
    settings.set("spark.sql.extensions", names)
    try:
        yield
    finally:
        settings.set("spark.sql.extensions", before)


def check(source: History, lake: Lake) -> None:
    """Compares rows, whatever the session takes for a time without a zone."""
    micros = "(extract(epoch FROM {0}) * 1000000)::bigint"
    theirs = f"{micros.format('at')}, {micros.format('ats[1]')}, ts, left(big, 1)"
    ours = ("unix_micros(at)", "unix_micros(ats[0])", "ts", "left(big, 1)")
    assert lake.rows("id", *ours) == source.rows("t", f"id, {theirs}")


@pytest.mark.parametrize(
    ("lake", "settings"),
    [
        ("iceberg", ZONE | LARGE),
        pytest.param("delta", ZONE, marks=pytest.mark.slow),
        pytest.param(
            "delta",
            {"spark.sql.session.timeZone": "Etc/UTC"},
            marks=pytest.mark.slow,
        ),
        pytest.param("delta", LARGE, marks=pytest.mark.slow),
        pytest.param("delta", NTZ | ZONE, marks=pytest.mark.slow),
        pytest.param("iceberg", NTZ | ZONE, marks=pytest.mark.slow),
    ],
    indirect=["lake"],
)
def test_sessions_with_settings_of_their_own(
    source: History, lake: Lake, settings: dict[str, str]
) -> None:
    set_in(lake, settings)
    # Both are half past one in New York.
    first, second = "'2024-11-03 05:30Z'::timestamptz", "'2024-11-03 06:30Z'"
    source.sql(
        "CREATE TABLE t (id int, at timestamptz, ats timestamptz[], ts timestamp, "
        "big text, PRIMARY KEY (id, at))",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        f"INSERT INTO t SELECT g, {first}, ARRAY[{first}, {second}], {first}, "
        "repeat(g::text, 3000) FROM generate_series(1, 3) g",
    )
    # The net changes come from the driver.
    done = walrow.spark.apply_all(
        lake.spark, source.take().path, {"public.t": lake.name}
    )
    assert not (done.failed | done.unshared)
    source.sql(
        f"UPDATE t SET at = {second} WHERE id = 1",
        "UPDATE t SET id = 12, ats = NULL WHERE id = 2",
        "UPDATE t SET ts = ts + interval '1 hour' WHERE id = 3",
        "ALTER TABLE t ADD COLUMN later timestamptz",
        f"UPDATE t SET later = {second} WHERE id = 3",
    )
    lake.apply(source.take())
    check(source, lake)
    kinds = {
        field.name: field.dataType for field in lake.spark.table(lake.table).schema
    }
    assert [kinds[it].simpleString() for it in ("at", "ats", "ts", "later")] == [
        "timestamp",
        "array<timestamp>",
        "timestamp_ntz",
        "timestamp",
    ]


@pytest.mark.parametrize(
    ("lake", "other"),
    [
        ("iceberg", "io.delta.sql.DeltaSparkSessionExtension"),
        (
            "delta",
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        ),
    ],
    indirect=["lake"],
)
def test_sessions_without_the_formats_extensions(
    source: History, lake: Lake, other: str
) -> None:
    source.sql("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source.take()
    usual = lake.spark
    context, kind = usual.sparkContext, usual._get_j_spark_session_class(usual._jvm)
    setting = "spark.sql.extensions"
    with extensions(usual, other):
        lake.spark = type(usual)(context, kind(context._jsc.sc()))
        message = rf"{setting}=\S+\.{lake.kind}\.\S+SessionExtensions?\b"
        with pytest.raises(walrow.errors.OptionError, match=message):
            lake.apply(source)
    with contextlib.suppress(AnalysisException):
        # For a path of Delta, Spark raises an error.
        assert not usual.catalog.tableExists(lake.table)
    # A platform may add them without the setting.
    lake.spark = type(usual)(context, kind(context._jsc.sc()))
    with extensions(usual, other):
        assert lake.spark.conf.get(setting) == other
        assert lake.apply(source).committed
    assert lake.rows() == source.rows("t")


@pytest.mark.slow
def test_a_column_that_was_dropped_in_the_target(source: History, lake: Lake) -> None:
    source.sql("CREATE TABLE t (id int PRIMARY KEY, v text, w text, x int)")
    source.sql("INSERT INTO t VALUES (1, 'a', 'b', 1)")
    lake.apply(source.take())
    end = walrow.Log(source.path).end
    source.sql("ALTER TABLE t ADD COLUMN later int")
    for n in range(2, 6):
        source.sql(f"INSERT INTO t VALUES ({n}, 'c', 'd', {n}, {n})")
        source.take()
    # The target's rows end inside a segment that has the column that is new to them.
    log = walrow.Log(source.path)
    assert log.compact().merged
    assert any(it.start < end < it.end for it in log.segments())
    lake.apply(source)
    assert lake.rows() == source.rows("t")
    if lake.kind == "delta":
        mapping = "('delta.columnMapping.mode' = 'name')"
        lake.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES {mapping}")
    lake.sql("ALTER TABLE {t} DROP COLUMN w")
    lake.refresh()
    source.sql("INSERT INTO t VALUES (7, 'e', 'f', 7, 7)")
    source.take()
    with pytest.raises(walrow.errors.ApplyError, match=r"columns=\[\.\.\.\]") as raised:
        lake.apply(source)
    assert (raised.value.code, raised.value.column) == ("other_options", "w")
    assert lake.apply(source, columns=["id", "v", "x", "later"]).committed
    assert lake.rows() == source.rows("t", "id, v, x, later")
    source.load("t")
    assert lake.apply(source).overwritten
    every = "id, v, w, x, later"
    assert lake.rows(every) == source.rows("t", every)
    # The server has no values of it either.
    lake.sql("ALTER TABLE {t} DROP COLUMN w")
    lake.refresh()
    source.sql("ALTER TABLE t DROP COLUMN w", "INSERT INTO t VALUES (8, 'g', 8, 8)")
    assert lake.apply(source.take()).committed
    every = "id, v, x, later"
    assert lake.rows(every) == source.rows("t", every)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["crash", "resume"])
def test_rows_that_are_there_when_deletes_begin_to_mark_them(
    source: History, lake: Lake, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.sql("CREATE TABLE t (id int PRIMARY KEY, n int)")
    source.sql("INSERT INTO t SELECT g, g FROM generate_series(1, 5) g")
    lake.apply(source.take())
    if way == "resume":
        # Without a record.
        name = lake.table
        lake = type(lake)(lake.spark, lake.kind, source.path.parent)
        lake.sql(f"CREATE TABLE {{t}} USING {lake.kind} AS SELECT * FROM {name}")
    source.sql(
        "UPDATE t SET n = 20 WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
        "INSERT INTO t VALUES (6, 6)",
        "UPDATE t SET id = 14 WHERE id = 4",
    )
    options: dict[str, Any] = {"deletes": "soft", "deleted_column": "gone"}
    if way == "resume":
        options["resume_from"] = walrow.Log(source.path).end
    source.take()
    if way == "crash":
        kind = type(target_of(lake.spark, lake.name, lake.spark))

        def dies(*_: Any) -> Any:
            raise CrashError

        # After it has added the column.
        monkeypatch.setattr(kind, "commit", dies)
        with pytest.raises(CrashError):
            lake.apply(source, **options)
        monkeypatch.undo()
        lake.refresh()
        assert set(lake.rows("gone")) == {(None,)}
    assert lake.apply(source, **options).committed
    gone = {row: row in {(3, 3), (4, 4)} for row in lake.rows("id", "n")}
    assert set(gone) == set(source.rows("t")) | {(3, 3), (4, 4)}
    assert sorted(lake.rows("id", "n", "gone")) == sorted(
        (*row, is_gone) for row, is_gone in gone.items()
    )
    source.sql("DELETE FROM t WHERE id = 1")
    lake.apply(source.take(), **options)
    live = "SELECT id, n FROM {t} WHERE NOT gone"
    assert sorted(map(tuple, lake.sql(live))) == sorted(source.rows("t"))
    # Whoever drops the column does not get it back without its values.
    if lake.kind == "delta":
        mapping = "('delta.columnMapping.mode' = 'name')"
        lake.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES {mapping}")
    lake.sql("ALTER TABLE {t} DROP COLUMN gone")
    lake.refresh()
    source.sql("INSERT INTO t VALUES (7, 7)")
    source.take()
    with pytest.raises(walrow.errors.ApplyError, match="lacks column gone") as raised:
        lake.apply(source, **options)
    assert raised.value.code == "other_options"


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["delta"], indirect=True)
@pytest.mark.parametrize("moment", ["new", "later"])
def test_names_that_a_change_data_feed_reserves(
    source: History, lake: Lake, moment: str
) -> None:
    source.sql("CREATE TABLE t (id int PRIMARY KEY, n int)")
    source.sql("INSERT INTO t VALUES (1, 1)")
    if moment == "new":
        feed = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
        set_in(lake, {feed: "true"})
    else:
        lake.apply(source.take())
        feed = "('delta.enableChangeDataFeed' = 'true')"
        lake.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES {feed}")
    source.sql("ALTER TABLE t ADD COLUMN _change_type int")
    source.sql("INSERT INTO t VALUES (2, 2, 2)")
    source.take()
    with pytest.raises(
        walrow.errors.SchemaError, match="its change data feed reserves"
    ) as it:
        lake.apply(source)
    assert it.value.column == "_change_type"
    assert lake.apply(source, columns=["id", "n"]).committed
    assert sorted(lake.rows("id", "n")) == [(1, 1), (2, 2)]
