"""Names and texts in Spark's SQL keep their meaning, whatever the session's settings."""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import walrow.spark
from servers.live_log import History
from spark.lakes import Lake
from walrow.spark.sessions import OwnSessions, own_session
from walrow.spark.targets.sql import literal, name_parts, quoted

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

#: Settings that change what the parser reads.
SETTINGS = {
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.enforceReservedKeywords": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.variable.substitute": "true",
}
PARTS = [
    "${env:HOME}",
    "${spark:spark.app.name}",
    "`",
    "'",
    '"',
    "\\",
    ".",
    "\n",
]
PARTS += ["\t", ";", "--", "/*", "é", "a", "A", " ", "%", "\\u0041", "(.*)?+.+", "$"]
names = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("".join)


@contextlib.contextmanager
def caller(spark: SparkSession, settings: dict[str, str]) -> Iterator[SparkSession]:
    """A user's session, which is the active one."""
    session = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())
    for name, value in settings.items():
        session.conf.set(name, value)
    with active(session):
        yield session


@contextlib.contextmanager
def active(session: Any) -> Iterator[None]:
    sessions = session._get_j_spark_session_class(session._jvm)
    before = sessions.getActiveSession().get()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        sessions.setActiveSession(before)


@pytest.mark.parametrize(
    "setting",
    ["all", *(pytest.param(setting, marks=pytest.mark.slow) for setting in SETTINGS)],
)
def test_quoted_names_and_literals(spark: SparkSession, setting: str) -> None:
    chosen = SETTINGS if setting == "all" else {setting: SETTINGS[setting]}

    @settings(max_examples=12, deadline=None, database=None)
    @given(st.lists(names, min_size=1, max_size=6, unique_by=str.lower))
    def check(drawn: list[str]) -> None:
        columns = [f"{literal(name)} AS {quoted(name)}" for name in drawn]
        frame = session.sql(f"SELECT {', '.join(columns)}")
        assert frame.columns == drawn
        assert list(frame.first() or ()) == drawn
        frame.createOrReplaceTempView("walrow_names")
        again = ", ".join(f"t.{quoted(name)}" for name in drawn)
        assert session.sql(f"SELECT {again} FROM walrow_names t").columns == drawn
        view = quoted(drawn[0])
        frame.createOrReplaceTempView(view)
        assert session.table(view).columns == drawn
        assert session.catalog.dropTempView(drawn[0])

    with caller(spark, chosen) as user, own_session(user) as session:
        check()


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(names, min_size=1, max_size=4))
def test_parts_of_a_quoted_name(parts: list[str]) -> None:
    assert name_parts(quoted(*parts)) == tuple(parts)


def test_parts_of_names() -> None:
    assert name_parts("lake.my shop.`a.b``c`") == ("lake", "my shop", "a.b`c")
    for name in ("", "a.", ".a", "a..b", "`a", "a`b", "`a`b", "``", "a.`b`; DROP"):
        with pytest.raises(walrow.errors.OptionError, match="not the name of a table"):
            name_parts(name)


def test_the_active_session_is_the_callers_again(spark: SparkSession) -> None:
    def found() -> list[Any]:
        sessions = spark._get_j_spark_session_class(spark._jvm)
        return [sessions.getActiveSession().get(), type(spark)._activeSession]

    with caller(spark, SETTINGS) as user:
        before = found()
        with own_session(user) as session:
            session.createDataFrame([(1,)], "id int").first()
            assert found()[0] != before[0]
        assert found() == before
        with OwnSessions(user) as sessions:
            with sessions.one() as session:
                session.createDataFrame([(1,)], "id int").first()
            assert found()[0] == before[0]
        assert found() == before
        assert {name: user.conf.get(name) for name in SETTINGS} == SETTINGS


@pytest.mark.live
@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_a_table_whose_names_are_syntax(
    source: History, lake: Lake, tmp_path: Path
) -> None:
    key, kept, plain, later = (
        "${spark:spark.app.name}",
        "it's\n${env:HOME}\\",
        'a`b."c"',
        "${env:PATH}",
    )
    place = "t ${spark:spark.app.name}`'x"
    if lake.kind == "delta":
        lake.name = f"delta:{tmp_path / place}"
        lake.table = quoted("delta", str(tmp_path / place))
    else:
        lake.name = f"iceberg:ice.db.{quoted(place)}"
        lake.table = quoted("ice", "db", place)
    k, b, p, new = (
        '"' + name.replace('"', '""') + '"' for name in (key, kept, plain, later)
    )
    source.sql(
        f"CREATE TABLE t ({k} text PRIMARY KEY, {b} text, {p} int)",
        f"ALTER TABLE t ALTER {b} SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT g::text, repeat(g::text, 3000), g FROM generate_series(1, 5) g",
    )

    def check() -> None:
        ours = lake.spark.sql(f"SELECT * FROM {lake.table}")
        theirs = source.rows("t")
        assert sorted(map(tuple, ours.collect())) == sorted(theirs)

    with caller(lake.spark, SETTINGS) as user:
        lake.spark = user
        assert lake.apply(source.take()).inserted in (5, None)
        source.sql(
            f"UPDATE t SET {p} = 20 WHERE {k} = '2'",
            f"UPDATE t SET {k} = '13' WHERE {k} = '3'",
            f"DELETE FROM t WHERE {k} = '4'",
            f"ALTER TABLE t ADD COLUMN {new} text",
            f"UPDATE t SET {new} = 'new' WHERE {k} = '5'",
        )
        assert lake.apply(source.take()).committed
        with own_session(user) as lake.spark:
            columns = lake.spark.sql(f"SELECT * FROM {lake.table}").columns
            assert columns == [key, kept, plain, later]
            check()
        lake.spark = user
        source.sql("TRUNCATE t", "INSERT INTO t VALUES ('6', 'x', 6, 'y')")
        assert lake.apply(source.take()).overwritten
        with own_session(user) as lake.spark:
            check()
