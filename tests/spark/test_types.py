"""Every type through `mapInArrow`, value by value, as a live server sends it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="needs PySpark: pip install pyspark==4.3.0")

import psycopg
from pyspark.sql import Row

import own_types
import walrow
import walrow.postgres
from servers import EmbeddedServer, record
from spark.changes import check, collected, decoded
from spark.type_values import CONTAINERS, OWN_SQL, SCALARS, TEXT_ONLY, Column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(120)]

TABLES = {"scalars": SCALARS, "containers": CONTAINERS, "text_only": TEXT_ONLY}


@dataclass(frozen=True)
class Live:
    """A database with a table of each group, and what it sent of them."""

    server: EmbeddedServer
    catalog: walrow.Catalog

    def record(self, table: str, rows: str, *, binary: bool = False) -> bytes:
        return record(
            self.server,
            f"INSERT INTO {table} VALUES {rows};",  # noqa: S608
            publication="types",
            binary=binary,
        )


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with EmbeddedServer(18) as server:
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            conn.execute(OWN_SQL.encode())
            for table, columns in TABLES.items():
                fields = ", ".join(f"c{i} {c.sql}" for i, c in enumerate(columns))
                conn.execute(f"CREATE TABLE {table} (id int, {fields})".encode())
            conn.execute(b"CREATE TABLE choices (id int, " + CHOICES.encode() + b")")
            conn.execute(
                b"CREATE TABLE far (id int, a date, b timestamp, c timestamptz)"
            )
            conn.execute("CREATE PUBLICATION types FOR ALL TABLES")
            catalog = walrow.postgres.catalog(conn)
        yield Live(server, catalog)


def rows_of(columns: list[Column]) -> str:
    """All values below one another, then a row of NULLs."""
    height = max(len(column.values) for column in columns)
    lines = []
    for row in range(height + 1):
        cells = [
            f"$v${c.values[row][0]}$v$" if row < len(c.values) else "NULL"
            for c in columns
        ]
        lines.append(f"({row}, {', '.join(cells)})")
    return ", ".join(lines)


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("table", ["scalars", "containers"])
def test_values(spark: SparkSession, live: Live, table: str, *, binary: bool) -> None:
    columns = TABLES[table]
    capture = live.record(table, rows_of(columns), binary=binary)
    check(decoded(spark, capture, f"public.{table}", live.catalog), columns)


def test_values_that_are_text_only(spark: SparkSession, live: Live) -> None:
    capture = live.record("text_only", rows_of(TEXT_ONLY))
    check(decoded(spark, capture, "text_only", live.catalog), TEXT_ONLY)


def test_every_built_in_type_is_here() -> None:
    columns = [*SCALARS, *TEXT_ONLY]
    found = {column.sql.partition("(")[0].strip('"') for column in columns}
    assert set(own_types.built_in()) - found == set()


# What Python's own dates do not reach is asked of Spark in numbers.
FAR = """
(1, '4714-11-24 BC', '4714-11-24 BC', '4714-11-24 00:00:00+00 BC'),
(2, '5874897-12-31', '294247-01-10 04:00:54.775807', '294247-01-10 04:00:54.775807+00')
"""


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_years_beyond_pythons(spark: SparkSession, live: Live, *, binary: bool) -> None:
    capture = live.record("far", FAR, binary=binary)
    frame = decoded(spark, capture, "far", live.catalog).selectExpr(
        "unix_date(a)", "unix_micros(cast(b as timestamp))", "unix_micros(c)"
    )
    # PostgreSQL's first day is Julian day 0, its last one 2147483493.
    first, last = -2_440_588, 2_147_483_493 - 2_440_588
    day = 86_400_000_000
    assert [tuple(row) for row in frame.collect()] == [
        (first, first * day, first * day),
        (last, 2**63 - 1, 2**63 - 1),
    ]


# ------------------------------------------------------------------ what is asked for

FLAGS = "lower_inc:boolean,upper_inc:boolean,empty:boolean"
POINT = "struct<x:double,y:double>"


def _range(lower: Any, upper: Any) -> Row:
    return Row(lower=lower, upper=upper, lower_inc=True, upper_inc=False, empty=False)


def _asked(bound: str) -> str:
    flags = "lower_inc: bool, upper_inc: bool, empty: bool"
    return f"struct<lower: {bound}, upper: {bound}, {flags}>"


@dataclass(frozen=True)
class Choice:
    """A column, what is asked for, and what comes of it."""

    sql: str
    types: str
    spark: str
    text: str
    value: Any


ASKED = [
    Choice(
        "time", "time64[ns]", "time(6)", "23:59:59.999999", dt.time(23, 59, 59, 999999)
    ),
    Choice(
        "timetz",
        "struct<time: time64[ns], offset_s: int32>",
        "struct<time:time(6),offset_s:int>",
        "12:00:00-03:30",
        Row(time=dt.time(12), offset_s=-12600),
    ),
    Choice(
        "money", "decimal128(19, 2)", "decimal(19,2)", "-1234.5", Decimal("-1234.50")
    ),
    Choice(
        "numeric", "decimal128(38, 9)", "decimal(38,9)", "1.5", Decimal("1.500000000")
    ),
    Choice("numeric", "float64", "double", "0.1", 0.1),
    Choice("bit(1)", "bool", "boolean", "1", True),
    Choice("bit(10)", "binary", "binary", "1010100010", b"\xa8\x80"),
    Choice("int4", "int64", "bigint", "-1", -1),
    Choice("int4", "string", "string", "-1", "-1"),
    Choice("float4", "float64", "double", "0.1", 13421773 / 2**27),
    Choice("oid", "string", "string", "4294967295", "4294967295"),
    Choice("xid8", "string", "string", "18446744073709551615", "18446744073709551615"),
    Choice("date", "string", "string", "infinity", "infinity"),
    Choice("interval", "string", "string", "1 mon -1 day", "1 mon -1 days"),
    Choice(
        "point", "struct<x: float64, y: float64>", POINT, "(1,2)", Row(x=1.0, y=2.0)
    ),
    Choice(
        "box",
        "struct<x1: float64, y1: float64, x2: float64, y2: float64>",
        "struct<x1:double,y1:double,x2:double,y2:double>",
        "(2,3),(0,1)",
        Row(x1=2.0, y1=3.0, x2=0.0, y2=1.0),
    ),
    Choice(
        "polygon",
        "list<struct<x: float64, y: float64>>",
        f"array<{POINT}>",
        "((0,1),(2,3))",
        [Row(x=0.0, y=1.0), Row(x=2.0, y=3.0)],
    ),
    Choice(
        "path",
        "struct<closed: bool, points: list<struct<x: float64, y: float64>>>",
        f"struct<closed:boolean,points:array<{POINT}>>",
        "[(0,1)]",
        Row(closed=False, points=[Row(x=0.0, y=1.0)]),
    ),
    Choice(
        "int4range",
        _asked("int32"),
        f"struct<lower:int,upper:int,{FLAGS}>",
        "[1,10)",
        _range(1, 10),
    ),
    Choice(
        "daterange",
        _asked("date32"),
        f"struct<lower:date,upper:date,{FLAGS}>",
        "[2024-01-01,)",
        _range(dt.date(2024, 1, 1), None),
    ),
    Choice(
        "numrange",
        _asked("decimal128(10, 2)"),
        f"struct<lower:decimal(10,2),upper:decimal(10,2),{FLAGS}>",
        "[1.5,2)",
        _range(Decimal("1.50"), Decimal("2.00")),
    ),
    Choice(
        "tstzrange",
        _asked("timestamp[us, UTC]"),
        f"struct<lower:timestamp,upper:timestamp,{FLAGS}>",
        "[2024-01-01 00:00+00,)",
        _range(dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None),
    ),
    Choice(
        "int4multirange",
        f"list<{_asked('int32')}>",
        f"array<struct<lower:int,upper:int,{FLAGS}>>",
        "{[1,3)}",
        [_range(1, 3)],
    ),
    Choice(
        "int4[]",
        "list<list<int32>>",
        "array<array<int>>",
        "{{1,2},{3,NULL}}",
        [[1, 2], [3, None]],
    ),
    Choice("int4[]", "list<int64>", "array<bigint>", "{1,NULL}", [1, None]),
]
CHOICES = ", ".join(f"c{place} {each.sql}" for place, each in enumerate(ASKED))


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_choices(spark: SparkSession, live: Live, *, binary: bool) -> None:
    cells = [f"$v${each.text}$v$" for each in ASKED]
    rows = f"(1, {', '.join(cells)}), (2{', NULL' * len(ASKED)})"
    capture = live.record("choices", rows, binary=binary)
    types = {f"c{place}": each.types for place, each in enumerate(ASKED)}
    frame = decoded(spark, capture, "choices", live.catalog, types=types)
    found = [field.dataType.simpleString() for field in frame.schema.fields[1:]]
    assert found == [each.spark for each in ASKED]
    first, second = collected(frame)
    assert first[1:] == [each.value for each in ASKED]
    assert second[1:] == [None] * len(ASKED)
