"""Targets that are partitioned or clustered, and what `apply_changes` refuses in executors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import walrow
from servers.live_log import History
from spark.lakes import Lake

pytestmark = [
    pytest.mark.spark,
    pytest.mark.live,
    pytest.mark.timeout(300),
]


def changed(source: History, lake: Lake, **layout: Any) -> None:
    """Applies rows, and then changes that move rows between partitions."""
    source.sql(
        "CREATE TABLE t (id int PRIMARY KEY, city text, at timestamp, big text)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT g, 'c' || g % 3, timestamp '2024-01-01' + g * interval '1 day', "
        "repeat('x', 3000) FROM generate_series(1, 9) g",
        "INSERT INTO t VALUES (10)",
    )
    assert lake.apply(source.take(), **layout).committed
    source.sql(
        # The partition is no part of the key, and big is not sent.
        "UPDATE t SET city = 'c9', at = at + interval '40 days' WHERE id IN (1, 4, 10)",
        "UPDATE t SET id = 20, city = NULL WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
        "INSERT INTO t VALUES (11, 'c0', '2024-03-01', 'new')",
    )
    assert lake.apply(source.take(), **layout).committed
    assert lake.rows() == source.rows("t")
    source.sql("TRUNCATE t", "INSERT INTO t VALUES (1, 'c1', NULL, 'last')")
    assert lake.apply(source.take(), **layout).overwritten
    assert lake.rows() == source.rows("t")


@pytest.mark.slow
def test_a_partition_that_is_not_in_the_key(source: History, lake: Lake) -> None:
    if lake.kind == "delta":
        changed(source, lake, partition_by=["city"])
        (detail,) = lake.sql("DESCRIBE DETAIL {t}")
        assert detail.partitionColumns == ["city"]
    else:
        changed(source, lake, partition_by=["days(at)", "bucket(4, id)"])
        found = lake.sql("SELECT partition FROM {t}.partitions")
        assert found[0].partition.asDict().keys() == {"at_day", "id_bucket"}


@pytest.mark.slow
def test_columns_by_which_rows_are_clustered(source: History, lake: Lake) -> None:
    changed(source, lake, cluster_by=["city", "id"])
    if lake.kind == "delta":
        (detail,) = lake.sql("DESCRIBE DETAIL {t}")
        assert detail.clusteringColumns == ["city", "id"]
    else:
        properties = {row.key: row.value for row in lake.sql("SHOW TBLPROPERTIES {t}")}
        order = properties["sort-order"]
        assert order == "city ASC NULLS FIRST, id ASC NULLS FIRST"


def test_a_layout_that_the_table_cannot_have(source: History, lake: Lake) -> None:
    source.sql("CREATE TABLE t (id int PRIMARY KEY, n int)")
    source.sql("INSERT INTO t VALUES (1, 1)")
    source.take()
    for option in ("partition_by", "cluster_by"):
        layout: dict[str, Any] = {option: ["nothing"]}
        with pytest.raises(
            walrow.errors.SchemaError, match=f"{option} names nothing"
        ) as it:
            lake.apply(source, **layout)
        assert it.value.column == "nothing"
    with pytest.raises(walrow.errors.SchemaError, match="cannot be created"):
        lake.apply(source, partition_by=["nothing(id)"])


@pytest.mark.parametrize(
    ("lake", "names"),
    [
        ("iceberg", ("_pos", "__row_operation", "__row_from_source", "_deleted")),
        ("delta", ("_row_dropped_", "_source_row_present_", "_file_name_")),
    ],
    indirect=["lake"],
)
def test_columns_that_a_format_reserves(
    source: History, lake: Lake, names: Sequence[str]
) -> None:
    columns = ", ".join(f'"{name}" int' for name in names)
    source.sql(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    source.sql("INSERT INTO t VALUES (1, 1)")
    source.take()
    for name in names:
        with pytest.raises(
            walrow.errors.SchemaError, match="reserves the name"
        ) as raised:
            lake.apply(source, columns=["id", name])
        assert raised.value.column == name
    with pytest.raises(walrow.errors.SchemaError, match="deleted_column") as raised:
        lake.apply(source, columns=["id"], deletes="soft", deleted_column=names[-1])
    assert raised.value.column == names[-1]
    assert lake.apply(source, columns=["id"], deletes="soft").committed


@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_keys_that_are_null(source: History, lake: Lake) -> None:
    source.sql(
        "CREATE TABLE t (id int PRIMARY KEY, code text UNIQUE)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (1, 'a'), (2, NULL)",
    )
    with pytest.raises(
        walrow.errors.ApplyError, match="column code of the key is NULL"
    ) as it:
        lake.apply(source.take(), keys=["code"])
    error = it.value
    assert (error.code, error.table, error.column) == ("null_key", "public.t", "code")
    assert "; choose columns that are never NULL with keys=[...]" in str(error)
    assert error.lsn is not None
    # No commit, and no record of one.
    assert not lake.rows()
    assert lake.apply(source, keys=["id"]).committed
    assert lake.rows() == source.rows("t")


@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_keys_that_are_not_unique(source: History, lake: Lake) -> None:
    source.sql(
        "CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    )
    lake.apply(source.take(), keys=["code"])
    source.sql("INSERT INTO t VALUES (3, 'c')", "UPDATE t SET code = 'c' WHERE id = 1")
    with pytest.raises(
        walrow.errors.ApplyError, match="choose columns that are unique"
    ) as it:
        lake.apply(source.take(), keys=["code"])
    assert it.value.code == "duplicate_key"
    assert it.value.remedies == (walrow.errors.Remedy("keys", code="[...]"),)
    assert lake.rows("id") == {(1,): 1, (2,): 1}


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_a_check_of_delta_that_is_not_made_for_bloom_filters(
    source: History, lake: Lake
) -> None:
    check = "spark.databricks.delta.merge.failIfSourceChanged"
    source.sql(
        "CREATE TABLE t (id int, city text, n int, PRIMARY KEY (id, city))",
        "INSERT INTO t SELECT g, 'c', g FROM generate_series(1, 20) g",
    )
    lake.spark.conf.set(check, "true")
    try:
        lake.apply(source.take())
        source.sql("UPDATE t SET n = 0 WHERE id < 4", "INSERT INTO t VALUES (21, 'c')")
        lake.apply(source.take())
        # The caller's setting is still there.
        assert lake.spark.conf.get(check) == "true"
    finally:
        lake.spark.conf.unset(check)
    assert lake.rows() == source.rows("t")
