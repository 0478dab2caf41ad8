"""Places of targets: names that USE completes, other things that have their names, and trials."""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from servers.live_log import History
from spark.lakes import Lake
from spark.test_apply_names import caller
from walrow.errors import Error, OptionError, SchemaError

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(300)]


def one_row(source: History, *columns: str) -> None:
    more = "".join(f', "{name}" int' for name in columns)
    source.sql(f"CREATE TABLE t (id int PRIMARY KEY{more})")
    source.sql(f"INSERT INTO t VALUES (1{', 5' * len(columns)})")
    source.take()


def test_names_are_completed_as_in_the_callers_session(
    source: History, lake: Lake
) -> None:
    one_row(source)
    usual, name = (
        lake.spark,
        lake.table.rpartition(".")[2].strip("`").rpartition("/")[2],
    )
    catalog, schema = {
        "delta": ("spark_catalog", f"shop_{name}"),
        "iceberg": ("ice", f"n_{name}"),
    }[lake.kind]
    lake.sql(f"CREATE NAMESPACE {catalog}.{schema}")
    with caller(usual, {}) as lake.spark:
        lake.sql(f"USE {catalog}.{schema}")
        for given in (name, f"{schema}.{name}2"):
            lake.name, lake.table = (
                f"{lake.kind}:{given}",
                f"{catalog}.{schema}.{given}",
            )
            lake.table = f"{catalog}.{schema}.{given.rpartition('.')[2]}"
            assert lake.apply(source).committed
            assert not lake.apply(source).committed
            assert lake.rows() == source.rows("t")
    tables = usual.sql(f"SHOW TABLES IN {catalog}.{schema}").collect()
    assert {row.tableName for row in tables} == {name, f"{name}2"}


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
@pytest.mark.parametrize("schema", ["default", "nothing.db"])
def test_a_catalog_without_iceberg(source: History, lake: Lake, schema: str) -> None:
    one_row(source)
    lake.name = f"iceberg:{schema}.{lake.table.rpartition('.')[2]}"
    with pytest.raises(OptionError, match="that is not a table of the format"):
        lake.apply(source)
    assert not lake.spark.catalog.tableExists(
        f"default.{lake.table.rpartition('.')[2]}"
    )


@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_what_is_not_a_delta_table(source: History, lake: Lake, tmp_path: Path) -> None:
    one_row(source)
    own = lake.name
    files, view = tmp_path / "files", f"v_{tmp_path.parent.name}_{tmp_path.name}"
    view = "".join(it if it.isalnum() else "_" for it in view)
    rows = lake.spark.range(4).selectExpr("id", "id % 2 AS part")
    rows.write.partitionBy("part").parquet(str(files))
    lake.sql(f"CREATE VIEW spark_catalog.default.{view} AS SELECT 1 AS id")
    lake.sql(f"CREATE TABLE ice.db.{view} (id int) USING iceberg")
    for name in (str(files), f"spark_catalog.default.{view}", f"ice.db.{view}"):
        lake.name = f"delta:{name}"
        with pytest.raises(OptionError, match="that is not a table of the format"):
            lake.apply(source)
    assert not (files / "_delta_log").exists()
    lake.name = own
    assert lake.apply(source).committed
    lake.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    source.sql("DELETE FROM t")
    with pytest.raises(Error, match="it is append-only"):
        lake.apply(source.take())


@pytest.mark.parametrize(
    ("lake", "names"),
    [
        ("delta", ["_row_dropped_"]),
        ("iceberg", ["__row_operation", "__row_from_source"]),
    ],
    indirect=["lake"],
)
def test_a_column_that_merge_uses_itself(
    source: History,
    lake: Lake,
    names: Sequence[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def left() -> list[Any]:
        if lake.kind == "iceberg":
            return lake.sql("SHOW TABLES IN ice.db LIKE '*trial*'")
        return [*tmp_path.parent.rglob("*trial*")]

    one_row(source, *names, "_own")
    target = f"walrow.spark.targets.{lake.kind}.{lake.kind.title()}Target"
    # Now walrow does not list them.
    monkeypatch.setattr(f"{target}.reserved", frozenset())
    for name in names:
        with pytest.raises(SchemaError) as raised:
            lake.apply(source, columns=["id", name])
        assert raised.value.column in {name, None}
        assert not left()
    assert lake.apply(source, columns=["id", "_own"]).committed
    assert lake.rows() == source.rows("t", "id, _own")
    assert not left()
