"""`walrow.spark.apply_changes`: targets have the rows of the server's tables."""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import walrow
from servers.churn import KEYS, Churn
from servers.live_log import History
from spark.lakes import Lake

pytestmark = [
    pytest.mark.spark,
    pytest.mark.live,
    pytest.mark.timeout(300),
]

BIG = "repeat('{}', 3000)"
TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, n int, big text)",
    "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
)


class Heard:
    """A QueryExecutionListener, which the JVM calls. It keeps the metrics that begin with walrow."""

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)

    def __init__(self) -> None:
        self.metrics: list[tuple[str, dict[str, Any]]] = []

    def onSuccess(self, _: str, execution: Any, __: int) -> None:  # noqa: N802
        each = execution.observedMetrics().iterator()
        while each.hasNext():
            found = each.next()
            if found._1().startswith("walrow"):
                names = list(found._2().schema().fieldNames())
                values = (found._2().get(at) for at in range(len(names)))
                self.metrics.append((found._1(), dict(zip(names, values, strict=True))))

    def onFailure(self, *_: Any) -> None:  # noqa: N802
        pass


@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_listeners_of_spark_are_told(source: History, lake: Lake) -> None:
    from pyspark.java_gateway import ensure_callback_server_started

    source.sql("CREATE TABLE t (id int PRIMARY KEY, n int)")
    source.sql("INSERT INTO t VALUES (1, 1), (2, 2)", "UPDATE t SET n = 3 WHERE id = 2")
    gateway = lake.spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    manager = lake.spark._jsparkSession.listenerManager()
    heard = Heard()
    manager.register(heard)
    try:
        applied = lake.apply(source.take())
        lake.apply(source)
        source.load("t")
        loaded = lake.apply(source)
        lake.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        manager.unregister(heard)
    assert [name for name, _ in heard.metrics] == ["walrow:public.t"] * 2
    first, second = (metrics for _, metrics in heard.metrics)
    counted: dict[str, int | None] = {"inserted": 2, "updated": 0, "deleted": 0}
    if lake.kind == "iceberg":
        counted = dict.fromkeys(counted)
    assert first == {
        "rows": 3,
        "net_rows": 2,
        **counted,
        "never_sent": 0,
        "end": int(applied.end),
    }
    assert second["rows"] == second["net_rows"] == 2
    assert second["end"] == int(loaded.end)


def test_changes_of_every_kind(source: History, lake: Lake) -> None:
    source.sql(
        *TABLE,
        *(f"INSERT INTO t VALUES ({i}, {i}, {BIG.format(i)})" for i in range(1, 7)),
    )
    first = lake.apply(source.take())
    assert (first.committed, first.overwritten, first.net_rows) == (True, False, 6)
    assert lake.rows() == source.rows("t")
    source.sql(
        "UPDATE t SET n = 10 WHERE id = 1",  # big is not sent
        "UPDATE t SET n = NULL, big = NULL WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
        "DELETE FROM t WHERE id = 4",
        "INSERT INTO t VALUES (4, 40, NULL)",  # nothing of the old row
        f"INSERT INTO t VALUES (9, 9, {BIG.format('n')})",
    )
    # Some keys have changes in two units.
    source.take().sql(
        "INSERT INTO t VALUES (7, 7, 'x')",
        "UPDATE t SET n = 70 WHERE id = 7",
        "INSERT INTO t VALUES (8, 8, 'x')",
        "DELETE FROM t WHERE id = 8",
        "UPDATE t SET n = 90 WHERE id = 9",  # big only in the insert
    )
    second = lake.apply(source.take(), unit_size=1)
    expected = {1, 2, 4, 5, 6, 7, 9}
    assert {row[0] for row in lake.rows("id")} == expected
    assert lake.rows() == source.rows("t")
    assert second.start == first.end
    assert (second.rows, second.net_rows) == (11, 7)
    if lake.kind == "delta":
        assert (second.inserted, second.updated, second.deleted) == (2, 3, 1)
    # The same range again, and the same log again.
    assert not lake.apply(source).committed


@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_changes_that_were_removed_from_the_log(source: History, lake: Lake) -> None:
    source.sql("CREATE TABLE t (id int PRIMARY KEY, n int)")
    source.sql("INSERT INTO t VALUES (1, 1)")
    log = source.take().path
    known = walrow.spark.apply_all(lake.spark, log, {"public.t": lake.name})
    source.sql("INSERT INTO t VALUES (2, 2)")
    removed = walrow.Log(source.take().path).end
    source.sql("INSERT INTO t VALUES (3, 3)")
    walrow.Log(source.take().path).prune(removed, force=True)
    with pytest.raises(walrow.errors.LogError) as caught:
        lake.apply(source)
    assert caught.value.code == "pruned"
    for previous in (None, known):
        done = walrow.spark.apply_all(
            lake.spark, log, {"public.t": lake.name}, previous=previous
        )
        assert getattr(done.failed["public.t"], "code", None) == "pruned"
    assert lake.rows("id") == {(1,): 1}
    # With a load, nothing is missing.
    source.load("t")
    lake.apply(source)
    assert lake.rows() == source.rows("t")


@pytest.mark.slow
def test_rows_get_other_keys(source: History, lake: Lake) -> None:
    source.sql(
        *TABLE,
        *(f"INSERT INTO t VALUES ({i}, {i}, {BIG.format(i)})" for i in range(1, 9)),
    )
    lake.apply(source.take())
    # None of these sends big.
    source.sql(
        "UPDATE t SET id = 101 WHERE id = 1",
        "UPDATE t SET id = 102 WHERE id = 101",
        "UPDATE t SET id = 103, n = 0 WHERE id = 102",
    )
    source.transaction(
        "UPDATE t SET id = -2 WHERE id = 2",
        "UPDATE t SET id = 2 WHERE id = 3",
        "UPDATE t SET id = 3 WHERE id = -2",
    )
    source.sql(
        "UPDATE t SET id = 104 WHERE id = 4",
        "DELETE FROM t WHERE id = 104",
        "INSERT INTO t VALUES (4, 44, NULL)",
        "DELETE FROM t WHERE id = 5",
        "UPDATE t SET id = 5 WHERE id = 6",
        "UPDATE t SET id = 107 WHERE id = 7",
        "UPDATE t SET id = 7 WHERE id = 107",
    )
    lake.apply(source.take())
    expected = [(2, "3"), (3, "2"), (4, None), (5, "6"), (7, "7"), (8, "8"), (103, "1")]
    assert sorted(lake.rows("id", "left(big, 1)")) == expected
    assert lake.rows() == source.rows("t")


@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_truncates_and_loads_replace_all_rows(source: History, lake: Lake) -> None:
    source.sql(*TABLE, "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
    lake.apply(source.take())
    source.sql(
        "INSERT INTO t VALUES (3, 3, 'c')",
        "TRUNCATE t",
        f"INSERT INTO t VALUES (2, 20, {BIG.format('x')})",
        "UPDATE t SET n = 21 WHERE id = 2",
    )
    assert lake.apply(source.take()).overwritten
    assert lake.rows() == source.rows("t")
    # What no change tells: only the load has it.
    source.sql(
        "ALTER PUBLICATION p SET (publish = 'delete')",
        "UPDATE t SET n = 22",
        "INSERT INTO t VALUES (7, 7, '7')",
        "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')",
    )
    source.load("t")
    source.sql("UPDATE t SET n = 70 WHERE id = 7")
    loaded = lake.apply(source.take())
    assert (loaded.overwritten, loaded.net_rows) == (True, 2)
    assert lake.rows() == source.rows("t")
    source.sql("TRUNCATE t")
    assert lake.apply(source.take()).overwritten
    assert not lake.rows()


@pytest.mark.slow
def test_columns_are_added_and_widened(source: History, lake: Lake) -> None:
    source.sql(*TABLE, "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
    lake.apply(source.take())
    source.sql(
        "INSERT INTO t VALUES (3, 3, 'c')",
        'ALTER TABLE t ADD COLUMN "New One" text',
        "ALTER TABLE t ALTER n TYPE bigint",
        "UPDATE t SET n = 3000000000, \"New One\" = 'x' WHERE id = 1",
    )
    if lake.kind == "delta":
        # Without column mapping, Delta refuses a blank.
        with pytest.raises(
            walrow.errors.SchemaError, match="refuses new columns, New One"
        ):
            lake.apply(source.take())
        source.sql('ALTER TABLE t RENAME "New One" TO new_one')
        lake.sql(
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
        )
        with pytest.raises(walrow.errors.ApplyError) as caught:
            lake.apply(source.take())
        assert caught.value.code == "widening"
    lake.apply(source.take(), widen_types=lake.kind == "delta")
    found = sorted(lake.rows("id", "n", "big", "`New One`"))
    assert found == [(1, 3000000000, "a", "x"), (2, 2, "b", None), (3, 3, "c", None)]


@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_columns_are_added_where_rows_get_other_keys(
    source: History, lake: Lake
) -> None:
    source.sql(
        *TABLE,
        f"INSERT INTO t SELECT g, g, {BIG.format('b')} FROM generate_series(1, 4) g",
    )
    lake.apply(source.take())
    source.sql(
        "ALTER TABLE t ADD COLUMN added text, ADD COLUMN other int",
        "UPDATE t SET id = 11, added = 'x' WHERE id = 1",
        "UPDATE t SET id = 12 WHERE id = 2",
        "UPDATE t SET id = 13 WHERE id = 12",
        "ALTER TABLE t ALTER n TYPE bigint",
        "UPDATE t SET id = 14, n = 3000000000 WHERE id = 4",
    )
    lake.apply(source.take(), widen_types=lake.kind == "delta")
    assert lake.rows() == source.rows("t")


@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_a_load_that_was_merged_with_a_later_one(source: History, lake: Lake) -> None:
    source.sql(*TABLE, "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
    lake.apply(source.take())
    # Only a load has these rows.
    hidden = "ALTER PUBLICATION p SET (publish = 'delete')"
    shown = "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')"
    source.sql(hidden, "INSERT INTO t VALUES (3, 3, 'c')", shown)
    source.load("t")
    source.sql("UPDATE t SET n = 20 WHERE id = 2")
    end = walrow.Log(source.take().path).end
    expected = source.rows("t")
    source.sql(hidden, "INSERT INTO t VALUES (4, 4, 'd')", shown)
    source.load("t")
    source.sql("INSERT INTO t VALUES (5, 5, 'e')")
    log = walrow.Log(source.take().path)
    assert log.compact().merged
    (merged, *_) = log.segments()
    assert merged.start < end < merged.end
    assert lake.apply(source, end=end).overwritten
    assert lake.rows() == expected
    lake.apply(source)
    assert lake.rows() == source.rows("t")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_random_changes_in_random_batches(
    source: History, lake: Lake, seed: int
) -> None:
    churn = Churn(source, seed)
    cuts = random.Random(seed)  # noqa: S311
    table = {"delta": "late", "iceberg": "key"}[lake.kind]
    for _ in range(3):
        churn.run(cuts.randint(15, 30), alters=False)
        source.take(binary=cuts.random() < 0.5)
        applied = lake.apply(
            source,
            table,
            types={"float8": "string"},
            keys=KEYS[table],
            unit_size=cuts.choice([1, 64 << 20]),
        )
        assert applied.end == walrow.Log(source.path).end
        columns = ["id", "a", "b", "f", "big", "big2"]
        expected = source.rows(table, "id, a, b, f::text, big, big2")
        assert lake.rows(*columns) == expected
        state = walrow.Log(source.path).state(table, types={"float8": "string"})
        rows = state.to_pyarrow().select(columns).to_pylist()
        assert len(rows) == sum(expected.values())


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["soft", "ignore"])
def test_deletes_that_mark_or_do_nothing(
    source: History, lake: Lake, mode: Any
) -> None:
    source.sql(*TABLE, "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
    lake.apply(source.take(), deletes=mode)
    source.sql(
        "DELETE FROM t WHERE id = 1",
        "UPDATE t SET n = 20 WHERE id = 2",
        "DELETE FROM t WHERE id = 2",
        "INSERT INTO t VALUES (4, 4, 'd')",
        "DELETE FROM t WHERE id = 4",
        "DELETE FROM t WHERE id = 3",
        "INSERT INTO t VALUES (3, 30, NULL)",
    )
    lake.apply(source.take(), deletes=mode)
    kept = [(1, 1, "a"), (2, 20, "b"), (3, 30, None), (4, 4, "d")]
    assert sorted(lake.rows("id", "n", "big")) == kept
    if mode == "soft":
        gone = sorted(lake.rows("id", "_is_deleted"))
        assert gone == [(1, True), (2, True), (3, False), (4, True)]


@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_rows_that_come_and_go_while_images_change(source: History, lake: Lake) -> None:
    source.sql(
        "CREATE TABLE t (tenant int, id int, n int, PRIMARY KEY (tenant, id))",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (1, 5, 5)",
        "ALTER TABLE t REPLICA IDENTITY DEFAULT",
        "INSERT INTO t VALUES (1, 1, 1)",
        "UPDATE t SET tenant = 2 WHERE id = 1",
        "UPDATE t SET id = 3 WHERE id = 1",
    )
    source.transaction("INSERT INTO t VALUES (1, 7, 7)", "DELETE FROM t WHERE id = 7")
    lake.apply(source.take(), keys=["id"])
    assert lake.rows() == source.rows("t")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lake", "barrier"),
    [
        ("iceberg", "load"),
        pytest.param("iceberg", "truncate", marks=pytest.mark.slow),
        pytest.param("delta", "load", marks=pytest.mark.slow),
        pytest.param("delta", "truncate", marks=pytest.mark.slow),
    ],
    indirect=["lake"],
)
def test_rows_get_other_keys_after_all_were_replaced(
    source: History, lake: Lake, barrier: str
) -> None:
    source.sql(*TABLE, "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
    soft = {"deletes": "soft", "deleted_column": "gone"}
    lake.apply(source.take(), **soft)
    if barrier == "truncate":
        source.sql("TRUNCATE t")
    source.sql(
        "DELETE FROM t WHERE id = 2",
        "INSERT INTO t VALUES (4, 4, 'd') ON CONFLICT DO NOTHING",
        f"INSERT INTO t VALUES (1, 1, {BIG.format('a')}) "
        f"ON CONFLICT (id) DO UPDATE SET big = {BIG.format('a')}",
    )
    if barrier == "load":
        source.load("t")
    # Neither of them sends big.
    source.sql(
        "UPDATE t SET id = 11 WHERE id = 1",
        "UPDATE t SET id = 14, n = 14 WHERE id = 4",
    )
    assert lake.apply(source.take(), **soft).overwritten
    columns = "id, n, left(big, 1)"
    assert lake.rows(columns, "NOT gone") == Counter(
        {(*row, True): count for row, count in source.rows("t", columns).items()}
        | {(1, 1, "a", False): 1, (2, 2, "b", False): 1}
        | ({(3, 3, "c", False): 1} if barrier == "truncate" else {})
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_names_of_columns_that_spark_takes_for_syntax(
    source: History, lake: Lake
) -> None:
    source.sql(
        'CREATE TABLE t (id int, "k.e`y" int, "a.b" int, "c`d" text, '
        'PRIMARY KEY (id, "k.e`y"))',
        'ALTER TABLE t ALTER "c`d" SET STORAGE EXTERNAL',
        f"INSERT INTO t SELECT g, g, g, {BIG.format('b')} FROM generate_series(1, 4) g",
    )
    lake.apply(source.take())
    source.sql(
        'UPDATE t SET "k.e`y" = 11 WHERE id = 1',
        'UPDATE t SET id = 12, "a.b" = 22 WHERE id = 2',
        'UPDATE t SET "a.b" = 33 WHERE id = 3',
        "DELETE FROM t WHERE id = 4",
    )
    lake.apply(source.take())
    assert lake.rows() == source.rows("t")
    # Old images with more than the key.
    source.sql(
        "ALTER TABLE t REPLICA IDENTITY FULL",
        'UPDATE t SET "k.e`y" = 12 WHERE id = 1',
        'ALTER TABLE t ADD "e.f" int',
        'UPDATE t SET "k.e`y" = 13, "e.f" = 1 WHERE id = 12',
    )
    lake.apply(source.take(), keys=["id", "k.e`y"])
    assert lake.rows() == source.rows("t")
    source.load("t")
    source.sql('UPDATE t SET "k.e`y" = 14 WHERE id = 1')
    lake.apply(source.take(), keys=["id", "k.e`y"])
    assert lake.rows() == source.rows("t")


@pytest.mark.slow
@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_a_truncate_before_a_load_where_deletes_do_nothing(
    source: History, lake: Lake
) -> None:
    source.sql(*TABLE, "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
    lake.apply(source.take(), deletes="ignore")
    source.sql("TRUNCATE t", "INSERT INTO t VALUES (3, 3, 'c')")
    source.load("t")
    assert lake.apply(source, deletes="ignore").overwritten
    assert lake.rows() == source.rows("t")
    # A load itself keeps what is there, also where it begins with a truncate of its own.
    source.sql("DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (4, 4, 'd')")
    source.load("t")
    applied = lake.apply(source, deletes="ignore")
    assert not applied.overwritten
    assert sorted(lake.rows("id")) == [(3,), (4,)]
    source.sql("TRUNCATE t")
    source.load("t")
    lake.apply(source, deletes="ignore", truncates="ignore")
    assert sorted(lake.rows("id")) == [(3,), (4,)]


@pytest.mark.slow
def test_a_value_that_was_never_sent(source: History, lake: Lake) -> None:
    source.sql(*TABLE, f"INSERT INTO t VALUES (1, 1, {BIG.format('x')})")
    # The log begins after the row.
    source.sql(f"SELECT pg_replication_slot_advance('{source.name}', '{source.lsn()}')")
    source.sql("UPDATE t SET n = 2", "INSERT INTO t VALUES (2, 2, 'y')")
    with pytest.raises(walrow.errors.ApplyError, match="column big") as raised:
        lake.apply(source.take())
    assert (raised.value.code, raised.value.column) == ("never_sent", "big")
    applied = lake.apply(source, never_sent="null")
    assert applied.never_sent == 1
    assert sorted(lake.rows(), key=str) == [(1, 2, None), (2, 2, "y")]
