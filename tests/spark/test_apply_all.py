"""`walrow.spark.apply_all`: one pass over the log for many tables, each with its own target."""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import walrow
import walrow.spark
from servers.churn import KEYS, TABLES, Churn
from servers.live_log import History
from spark.lakes import Lake
from walrow._apply.tables import AppliedTable
from walrow._apply.units import LogContents, plan
from walrow._log.marks import Mark, Why
from walrow._log.needs import write_published
from walrow._log.published import Published
from walrow._lsn import Lsn
from walrow.spark import apply_shared
from walrow.spark.apply_failures import spark_errors
from walrow.spark.apply_shared import Share, stage, waves
from walrow.spark.targets.delta import DeltaTarget
from walrow.spark.targets.iceberg import IcebergTarget

pytestmark = [
    pytest.mark.spark,
    pytest.mark.live,
    pytest.mark.timeout(300),
]


class Stages:
    """Notes which tables were staged."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passes: list[list[tuple[str, bool]]] = []
        # The package has a function of this name.
        module = importlib.import_module("walrow.spark.apply_all")
        monkeypatch.setattr(module, "stage", self._stage)

    def _stage(
        self, session: Any, wave: list[Share], tasks: int
    ) -> dict[int, pa.Table]:
        found = stage(session, wave, tasks)
        tables = [share.applied.table for share in wave]
        self.passes.append([(table.name, table.oid in found) for table in tables])
        return found


def lakes_of(spark: SparkSession, path: Path, *names: str) -> dict[str, Lake]:
    """Targets of both formats, by turns."""
    kinds = ("iceberg", "delta")
    return {
        name: Lake(spark, kinds[at % 2], path) for at, name in enumerate(sorted(names))
    }


def apply(lakes: dict[str, Lake], source: History, **options: Any) -> Any:
    targets = {f"public.{name}": lake.name for name, lake in lakes.items()}
    spark = next(iter(lakes.values())).spark
    done = walrow.spark.apply_all(spark, source.path, targets, **options)
    for name, lake in lakes.items():
        if f"public.{name}" in done.applied:
            lake.refresh()
    return done


@pytest.mark.slow
def test_many_tables_share_a_pass(
    source: History,
    lakehouse: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source.sql(
        "CREATE TABLE a (id int PRIMARY KEY, at timestamptz, n numeric(9, 2), tags text[])",
        # Short names, which joins of their own must not have.
        "CREATE TABLE b (k text, id int, h text, c int, PRIMARY KEY (k, id))",
        "ALTER TABLE b ALTER h SET STORAGE EXTERNAL",
        "CREATE TABLE c (id int PRIMARY KEY, n int)",
        "INSERT INTO a VALUES (1, '2024-05-01 12:00:00+02', 1.5, '{x,NULL}')",
        "INSERT INTO a (id) VALUES (2)",
        "INSERT INTO b SELECT 'k' || g % 2, g, repeat('x', 3000), g FROM generate_series(1, 6) g",
        "INSERT INTO c VALUES (1), (2)",
    )
    lakes = lakes_of(lakehouse, tmp_path, "a", "b", "c")
    stages = Stages(monkeypatch)
    first = apply(lakes, source.take())
    assert not first.failed
    assert not first.waiting
    assert not first.unshared
    assert stages.passes == [[(f"public.{name}", True) for name in "abc"]]
    source.sql(
        "UPDATE a SET n = NULL WHERE id = 1",
        "DELETE FROM a WHERE id = 2",
        # Neither of these sends h, and the key of both changes.
        "UPDATE b SET id = id + 10 WHERE id < 3",
        "UPDATE b SET k = 'other' WHERE id = 11",
        "UPDATE b SET h = 'short' WHERE id = 3",
    )
    second = apply(lakes, source.take(), previous=first)
    assert stages.passes[1:] == [[("public.a", True), ("public.b", True)]]
    counts = {name: it.rows for name, it in second.applied.items()}
    assert counts == {"public.a": 2, "public.b": 7, "public.c": 0}
    assert [it.committed for it in second.applied.values()].count(True) == 2
    for name, lake in lakes.items():
        columns = {"a": ("id", "cast(at AS string)", "n", "cast(tags AS string)")}
        texts = {"a": "id, (at AT TIME ZONE 'UTC')::text, n, '[x, null]'"}
        chosen = columns.get(name, ())
        assert lake.rows(*chosen) == source.rows(name, texts.get(name, "*"))
    # Nothing is new, so no target is looked at. Without a result from before, each is.
    for kind in (DeltaTarget, IcebergTarget):
        monkeypatch.setattr(kind, "look", None)
    third = apply(lakes, source, previous=second)
    assert {it.end for it in third.applied.values()} == {walrow.Log(source.path).end}
    assert not any(it.committed for it in third.applied.values())
    assert apply(lakes, source).failed.keys() == {f"public.{name}" for name in lakes}


def test_a_table_that_fails_or_waits_does_not_stop_the_others(
    source: History,
    lakehouse: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("bad", "good", "void", "partial")
    source.sql(
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, d date)" for name in names),
        *(f"INSERT INTO {name} VALUES (1, '2024-01-01')" for name in names),
        "INSERT INTO bad VALUES (2, 'infinity')",
        "ALTER TABLE void ALTER d SET NOT NULL",
    )
    source.take()
    contents = walrow.Log(source.path)
    oid = next(it.oid for it in contents.tables() if it.name == "public.partial")
    mark = Mark(Why.FILTER, "its row filter has changed", Lsn(1))
    needed = Published({}, contents.end, None, {oid: [mark]}, {}, {})
    write_published(source.path, needed)
    lakes = {name: Lake(lakehouse, "iceberg", tmp_path) for name in names}
    stages = Stages(monkeypatch)
    heard: dict[Any, Any] = {}
    done = apply(
        lakes,
        source,
        options={"public.void": {"keys": ["d", "nothing"]}},
        progress=heard.__setitem__,
    )
    assert heard == done.applied | done.failed | done.waiting
    assert done.applied.keys() == {"public.good"}
    assert lakes["good"].rows() == source.rows("good")
    assert stages.passes == [[("public.bad", False), ("public.good", True)]]
    assert done.failed.keys() == {"public.bad", "public.void"}
    assert isinstance(done.failed["public.bad"], walrow.errors.UnrepresentableError)
    assert isinstance(done.failed["public.void"], walrow.errors.SchemaError)
    assert done.waiting.keys() == {"public.partial"}
    assert "its row filter has changed" in str(done.waiting["public.partial"])
    assert done.waiting["public.partial"].code == "incomplete"
    # The causes are gone: what failed catches up, and the table that was there is left alone.
    ended = replace(mark, until=contents.end)
    write_published(source.path, needed._replace(marks={oid: [ended]}))
    source.sql("INSERT INTO bad VALUES (3, NULL)")
    done = apply(
        lakes,
        source.take(),
        previous=done,
        options={"public.bad": {"unrepresentable": "null"}},
    )
    assert not done.failed
    assert not done.waiting
    committed = {name for name, it in done.applied.items() if it.committed}
    assert committed == {"public.bad", "public.void", "public.partial"}
    assert lakes["bad"].rows() == source.rows("bad", "id, nullif(d, 'infinity')")


@pytest.mark.slow
def test_the_next_call_finds_what_another_driver_did_meanwhile(
    source: History,
    lakehouse: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source.sql("CREATE TABLE t (id int PRIMARY KEY, n int)")
    source.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    lakes = {"t": Lake(lakehouse, "iceberg", tmp_path)}
    first = apply(lakes, source.take())
    source.sql("UPDATE t SET id = id + 1 WHERE id = 2", "INSERT INTO t VALUES (2, 0)")
    source.take()
    commit = IcebergTarget.commit

    def late(*given: Any) -> Any:
        monkeypatch.undo()
        lakes["t"].apply(source)
        source.sql("DELETE FROM t WHERE id = 3")
        source.take()
        return commit(*given)

    monkeypatch.setattr(IcebergTarget, "commit", late)
    done = apply(lakes, source, previous=first)
    assert not done.failed
    assert not done.applied["public.t"].committed
    assert apply(lakes, source, previous=done).applied["public.t"].committed
    assert lakes["t"].rows() == source.rows("t")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["killed", "memory"])
def test_a_shared_job_that_fails_as_a_whole(
    source: History,
    lakehouse: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    # Spark hands on a function of a function as it is, and one of a module by its name.
    def fails(*_: Any) -> Any:
        if kind == "killed":
            os._exit(1)
        raise MemoryError

    source.sql(
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, n int)" for name in "ab"),
        *(f"INSERT INTO {name} VALUES (1, 1)" for name in "ab"),
    )
    lakes = lakes_of(lakehouse, tmp_path, "a", "b")
    with monkeypatch.context() as patched:
        patched.setattr(apply_shared, "_decode", fails)
        done = apply(lakes, source.take())
    assert not done.failed
    assert done.unshared.keys() == {"public.a", "public.b"}
    for error in done.unshared.values():
        assert isinstance(error, spark_errors())
    assert all(it.committed for it in done.applied.values())
    for name, lake in lakes.items():
        assert lake.rows() == source.rows(name)
    source.sql("UPDATE a SET n = 2", "UPDATE b SET n = 2")
    again = apply(lakes, source.take(), previous=done)
    assert all(it.committed for it in again.applied.values())
    assert not again.unshared
    # An error that is not Spark's is told as well.
    source.sql("UPDATE a SET n = 3", "UPDATE b SET n = 3")
    monkeypatch.setattr(apply_shared, "_decode", None)
    done = apply(lakes, source.take())
    assert {type(error) for error in done.unshared.values()} == {TypeError}
    assert not done.failed
    for name, lake in lakes.items():
        assert lake.rows() == source.rows(name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
def test_random_changes_in_shared_passes(
    source: History,
    lakehouse: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    churn = Churn(source, seed)
    lakes = lakes_of(lakehouse, tmp_path, *TABLES)
    stages = Stages(monkeypatch)
    # Deletes that mark rows take the same way.
    own = {f"public.{name}": {"keys": KEYS[name]} for name in TABLES}
    previous = None
    for _ in range(3):
        churn.run(churn.random.randint(10, 25), alters=False)
        if churn.random.random() < 0.5:
            source.load("key", "late")
        source.take(binary=churn.random.random() < 0.5)
        previous = apply(
            lakes,
            source,
            previous=previous,
            options=own,
            types={"float8": "string", "timestamptz": "string"},
        )
        assert not previous.failed
        for name, lake in lakes.items():
            columns = ["id", "a", "b", "f", "big", "big2"]
            assert lake.rows(*columns) == source.rows(
                name, "id, a, b, f::text, big, big2"
            )
    assert all(done for each in stages.passes for _, done in each)
    assert {name for each in stages.passes for name, _ in each} == own.keys()


def test_which_tables_share_a_pass(source: History) -> None:
    source.sql(
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, v int)" for name in "abcd"),
        *(f"INSERT INTO {name} VALUES (1)" for name in "abcd"),
        "ALTER TABLE c ADD n int",
        "INSERT INTO c VALUES (2)",
    )
    contents = LogContents(walrow.Log(source.take().path))

    def share(name: str, **options: Any) -> Share:
        table = contents.tables.find(f"public.{name}")
        batch = plan(
            contents.log,
            contents.stretches(table.oid),
            table,
            walrow.Lsn(0),
            contents.log.end,
            truncates="apply",
            unit_size=1,
            least_units=1,
        )
        applied = AppliedTable.of(contents.log, table, None, options)
        return Share(applied, batch, None)  # type: ignore[arg-type]

    typed = share("d", types={"int4": "int64"})
    shares = {"a": share("a"), "again": share("a"), "b": share("b"), "c": share("c")}
    # A table with two versions goes alone, and so does one that is named twice.
    assert waves({**shares, "d": typed}) == [["a", "b"], ["d"]]
    large = apply_shared._TABLE_BYTES + 1
    shares["b"] = shares["b"]._replace(
        batch=shares["b"].batch._replace(pieces=[(0, 8, large)])
    )
    assert waves(shares) == [["a"]]
    most = [(0, 8, apply_shared._TABLE_BYTES)]
    number = apply_shared._WAVE_BYTES // apply_shared._TABLE_BYTES
    oid = 0

    def another() -> Share:
        nonlocal oid
        oid += 1
        one = shares["a"]
        table = replace(one.applied.table, oid=oid)
        return one._replace(
            applied=one.applied._replace(table=table),
            batch=one.batch._replace(pieces=most),
        )

    assert list(map(len, waves({at: another() for at in range(number + 1)}))) == [
        number,
        1,
    ]
