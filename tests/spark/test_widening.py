"""docs/types.md says what becomes of a column whose type changes. Each of its rows is tried."""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

import re
from pathlib import Path

import pytest

import walrow
from servers.live_log import History
from spark.lakes import Lake
from walrow.typing import Profile

pytestmark = [
    pytest.mark.spark,
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "types.md"
HEADER = "| from | to | `arrow` | `spark` | Delta | Iceberg |"
#: A value of each type, before and after.
VALUES = {
    "smallint": "-32768",
    "integer": "2147483647",
    "bigint": "-9223372036854775808",
    "real": "0.1",
    "double precision": "1e300",
    "numeric(10,2)": "-12345678.25",
    "numeric(12,2)": "1234567890.25",
    "numeric(12,4)": "12345678.1234",
    "numeric(22,2)": "-9223372036854775808.25",
    "numeric": "1.5",
    "varchar(5)": "'a'",
    "text": "'long enough'",
    "date": "'2026-01-31'",
    "timestamp": "'2026-01-31 12:00'",
    "timestamptz": "'2026-01-31 12:00Z'",
    "integer[]": "'{1,NULL}'",
    "bigint[]": "'{9223372036854775807}'",
}


def page_rows() -> list[list[str]]:
    lines = PAGE.read_text("utf-8").split(HEADER)[1].split("\n\n")[0].splitlines()[2:]
    return [
        [cell.strip(" `") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines
    ]


def union(source: History, table: str, profile: Profile) -> str:
    try:
        found = walrow.schema(source.path, f"public.{table}", profile=profile)
    except walrow.errors.SchemaError as error:
        return "error" if "types" in str(error) else str(error)
    import pyarrow as pa

    kind = str(pa.schema(found).field("v").type)
    return kind.replace("double", "float64").replace("item: ", "")


def test_each_row_of_the_page(source: History, lake: Lake) -> None:
    wrong = []
    column = {"delta": 4, "iceberg": 5}[lake.kind]
    for number, row in enumerate(page_rows()):
        one, other = row[:2]
        table = f"t{number}"
        own = type(lake)(lake.spark, lake.kind, source.path.parent)
        source.sql(
            f"CREATE TABLE {table} (id int PRIMARY KEY, v {one})",
            f"INSERT INTO {table} VALUES (1, {VALUES[one]})",
        )
        own.apply(source.take(), table)
        before = own.spark.table(own.table).schema["v"].dataType
        source.sql(
            f"ALTER TABLE {table} ALTER v TYPE {other} USING v::{other}",
            f"INSERT INTO {table} VALUES (2, {VALUES[other]})",
        )
        source.take()
        said = [union(source, table, "arrow"), union(source, table, "spark")]
        try:
            own.apply(source, table, widen_types=True)
            ours = own.spark.table(own.table)
            rows = sorted(map(str, map(tuple, ours.collect())))
            truth = source.conn.execute(f"SELECT * FROM {table}").fetchall()
            assert rows == sorted(map(str, truth))
            is_wider = ours.schema["v"].dataType != before
            said.append("widened" if is_wider else "as it is")
        except walrow.errors.SchemaError as error:
            said.append("refused" if "types=" in str(error) else str(error))
        if said != [*row[2:4], row[column]]:
            wrong.append((one, other, *said))
    assert wrong == []
