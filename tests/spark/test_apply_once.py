"""`walrow.spark.apply_changes` is exactly once, whatever happens to it and to its targets."""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

import contextlib
import shutil
import threading
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import walrow
from servers.live_log import History
from spark.lakes import Lake
from walrow._log.tables import keys_of
from walrow.spark.apply_net import Net
from walrow.spark.targets import delta
from walrow.spark.targets.delta import DeltaTarget
from walrow.spark.targets.iceberg import IcebergTarget

pytestmark = [
    pytest.mark.spark,
    pytest.mark.live,
    pytest.mark.timeout(300),
]

TARGETS: dict[str, Any] = {"delta": DeltaTarget, "iceberg": IcebergTarget}


class CrashError(Exception):
    """The driver dies."""


@pytest.fixture
def table(source: History, lake: Lake) -> str:
    """A table with a target that has its rows."""
    source.sql(
        "CREATE TABLE t (id int PRIMARY KEY, n int, big text)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT g, g, repeat('x', 3000) FROM generate_series(1, 6) g",
    )
    lake.apply(source.take())
    return "t"


def change(source: History) -> None:
    """Changes that would be wrong if they were applied twice, or not at all."""
    source.sql(
        "UPDATE t SET n = n + 100 WHERE id < 3",
        "UPDATE t SET id = id + 50 WHERE id IN (SELECT min(id) FROM t)",
        "INSERT INTO t SELECT max(id) + 1, 0, 'new' FROM t",
        "DELETE FROM t WHERE id IN (SELECT min(id) FROM t)",
    )
    source.take()


@pytest.mark.parametrize(
    "lake", ["delta", pytest.param("iceberg", marks=pytest.mark.slow)], indirect=True
)
def test_a_crash_before_and_after_the_commit(
    source: History, lake: Lake, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(source)
    kind = TARGETS[lake.kind]
    commit = kind.commit
    before = lake.rows()

    def never(*_: Any) -> Any:
        raise CrashError

    def after(*given: Any) -> Any:
        commit(*given)
        raise CrashError

    monkeypatch.setattr(kind, "commit", never)
    with pytest.raises(CrashError):
        lake.apply(source)
    assert lake.rows() == before
    if lake.kind == "iceberg":
        # After the snapshot is the table's, before the tag keeps it.
        monkeypatch.undo()
        monkeypatch.setattr(kind, "_keep", never)
        with pytest.raises(CrashError):
            lake.apply(source)
    else:
        monkeypatch.setattr(kind, "commit", after)
        with pytest.raises(CrashError):
            lake.apply(source)
    monkeypatch.undo()
    assert lake.rows() == source.rows(table)
    again = lake.apply(source)
    assert not again.committed
    assert again.start == walrow.Log(source.path).end
    change(source)
    assert lake.apply(source).committed
    assert lake.rows() == source.rows(table)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["merge", "overwrite"])
def test_a_driver_that_is_late(
    source: History,
    lake: Lake,
    table: str,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    if way == "overwrite":
        source.sql("TRUNCATE t", "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
    change(source)
    kind = TARGETS[lake.kind]
    commit = kind.commit
    others: list[Any] = []

    def late(*given: Any) -> Any:
        # Another driver reads more of the log, and is faster.
        monkeypatch.undo()
        change(source)
        others.append(lake.apply(source))
        return commit(*given)

    monkeypatch.setattr(kind, "commit", late)
    mine = lake.apply(source)
    assert others[0].committed
    assert not mine.committed
    assert lake.rows() == source.rows(table)
    assert not lake.apply(source).committed


@pytest.mark.slow
def test_two_drivers_at_once(
    source: History, lake: Lake, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(source)
    kind = TARGETS[lake.kind]
    commit = kind.commit
    both = threading.Barrier(2, timeout=60)
    commits: list[Any] = []

    def together(*given: Any) -> Any:
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait()
        # Whoever tries again has nobody to wait for.
        both.abort()
        done = commit(*given)
        commits.append(done)
        return done

    monkeypatch.setattr(kind, "commit", together)
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(lake.apply, source) for _ in range(2)]
        results = [call.result() for call in calls]
    assert sum(result.committed for result in results) == 1
    assert sum(done.is_first for done in commits) == 1
    lake.refresh()
    assert lake.rows() == source.rows(table)


@pytest.mark.slow
def test_maintenance_between_batches(source: History, lake: Lake, table: str) -> None:
    change(source)
    lake.apply(source)
    if lake.kind == "delta":
        lake.sql("OPTIMIZE {t}")
        lake.sql("VACUUM {t} RETAIN 168 HOURS")
    else:
        name = lake.table.partition(".")[2]
        for procedure in (
            f"rewrite_data_files('{name}', 'binpack', null, map('rewrite-all', 'true'))",
            f"rewrite_manifests('{name}')",
            f"expire_snapshots(table => '{name}', older_than => TIMESTAMP '2099-01-01', "
            "retain_last => 1)",
        ):
            lake.sql(f"CALL ice.system.{procedure}")
        refs = lake.sql("SELECT name FROM {t}.refs")
        assert {row.name for row in refs} == {"main", "walrow"}
    assert not lake.apply(source).committed
    change(source)
    assert lake.apply(source).committed
    assert lake.rows() == source.rows(table)


@pytest.mark.slow
def test_a_target_that_was_set_back(source: History, lake: Lake, table: str) -> None:
    before = walrow.Log(source.path).end
    if lake.kind == "delta":
        (last,) = lake.sql("DESCRIBE HISTORY {t} LIMIT 1")
        back = f"RESTORE {{t}} TO VERSION AS OF {last.version}"
    else:
        (last,) = lake.sql("SELECT snapshot_id FROM {t}.refs WHERE name = 'main'")
        name = lake.table.partition(".")[2]
        back = f"CALL ice.system.rollback_to_snapshot('{name}', {last.snapshot_id})"
    change(source)
    lake.apply(source)
    lake.sql(back)
    lake.refresh()
    with pytest.raises(walrow.errors.ApplyError, match="resume_from=") as raised:
        lake.apply(source)
    assert raised.value.code == "restored"
    assert lake.apply(source, resume_from=before).committed
    assert lake.rows() == source.rows(table)
    # The record is right again, so it counts.
    assert not lake.apply(source, resume_from=before).committed


@pytest.mark.slow
def test_a_target_without_a_record(
    source: History, lake: Lake, table: str, tmp_path: Path
) -> None:
    end = walrow.Log(source.path).end
    copy = Lake(lake.spark, lake.kind, tmp_path)
    copy.sql(f"CREATE TABLE {{t}} USING {lake.kind} AS SELECT * FROM {lake.table}")
    lake = copy
    change(source)
    with pytest.raises(walrow.errors.ApplyError, match="resume_from=") as raised:
        lake.apply(source)
    assert raised.value.code == "no_token"
    assert lake.apply(source, resume_from=end).start == end
    assert lake.rows() == source.rows(table)


@pytest.mark.slow
def test_a_log_of_another_source(
    source: History, lake: Lake, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = walrow.log.SourceIdentity("8", "other", "other")
    monkeypatch.setattr(walrow.Log, "source", other)
    with pytest.raises(
        walrow.errors.ApplyError, match=f"public.{table}|resume_from="
    ) as it:
        lake.apply(source)
    assert it.value.code == "other_source"
    assert "slot other of database other" in str(it.value)


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["delta"], indirect=True)
@pytest.mark.parametrize("moment", ["before", "during"])
def test_a_target_that_is_set_back_meanwhile(
    source: History,
    lake: Lake,
    table: str,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    (old,) = lake.sql("DESCRIBE HISTORY {t} LIMIT 1")
    before = walrow.Log(source.path).end
    change(source)
    lake.apply(source)
    source.sql(f"INSERT INTO {table} VALUES (99, 9, 'new')")
    source.take()
    # After the last look at the target, or after the batch was compared with it again.
    place: Any = {"before": DeltaTarget, "during": delta}[moment]
    name = {"before": "commit", "during": "merge"}[moment]
    do = getattr(place, name)

    def set_back(*given: Any) -> Any:
        monkeypatch.undo()
        lake.sql(f"RESTORE {{t}} TO VERSION AS OF {old.version}")
        return do(*given)

    monkeypatch.setattr(place, name, set_back)
    if moment == "during":
        # Delta has nothing against that.
        assert lake.apply(source).committed
    with pytest.raises(walrow.errors.ApplyError, match="RESTORE at version") as raised:
        lake.apply(source)
    assert raised.value.code == "restored"
    assert lake.apply(source, resume_from=before).committed
    assert lake.rows() == source.rows(table)
    assert not lake.apply(source).committed


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["delta", "iceberg"], indirect=True)
def test_two_drivers_that_add_a_column(
    source: History, lake: Lake, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.sql("ALTER TABLE t ADD COLUMN added int")
    source.sql("UPDATE t SET added = id")
    source.take()
    kind = TARGETS[lake.kind]
    add_columns = kind.add_columns
    others: list[Any] = []

    def late(*given: Any) -> None:
        monkeypatch.undo()
        others.append(lake.apply(source))
        add_columns(*given)

    monkeypatch.setattr(kind, "add_columns", late)
    assert not lake.apply(source).committed
    assert others[0].committed
    lake.refresh()
    assert lake.rows() == source.rows(table)


@pytest.mark.slow
def test_a_driver_that_comes_right_after_a_load(
    source: History, lake: Lake, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.load(table)
    kind = TARGETS[lake.kind]
    name = {"delta": "_history", "iceberg": "_keep"}[lake.kind]
    look = getattr(kind, name)
    others: list[Any] = []

    def late(*given: Any) -> Any:
        if lake.kind == "iceberg" or lake.rows() == source.rows(table):
            monkeypatch.undo()
            change(source)
            others.append(lake.apply(source))
        return look(*given)

    source.sql("DELETE FROM t WHERE id = 6")
    source.take()
    monkeypatch.setattr(kind, name, late)
    assert lake.apply(source).committed
    assert others[0].committed
    assert lake.rows() == source.rows(table)
    assert not lake.apply(source).committed


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["delta"], indirect=True)
def test_a_constraint_of_the_target(source: History, lake: Lake, table: str) -> None:
    lake.sql("ALTER TABLE {t} ADD CONSTRAINT small CHECK (length(big) < 4000)")
    source.sql(f"INSERT INTO {table} VALUES (9, 9, repeat('secret', 1000))")
    with pytest.raises(walrow.errors.ApplyError, match="violates a constraint") as it:
        lake.apply(source.take())
    assert it.value.code == "constraint"
    assert "target, small:" in str(it.value)
    report = "".join(traceback.format_exception(it.value))
    assert "secret" not in report
    lake.sql("ALTER TABLE {t} DROP CONSTRAINT small")
    lake.apply(source)
    assert lake.rows() == source.rows(table)


def set_back(lake: Lake, *, before: Any = None) -> Any:
    """Sets a target back to a version or snapshot. Without one, returns the current one."""
    if lake.kind == "delta":
        if before is None:
            return lake.sql("DESCRIBE HISTORY {t} LIMIT 1")[0].version
        lake.sql(f"RESTORE {{t}} TO VERSION AS OF {before}")
    else:
        if before is None:
            found = lake.sql("SELECT snapshot_id FROM {t}.refs WHERE name = 'main'")
            return found[0].snapshot_id
        name = lake.table.partition(".")[2]
        lake.sql(f"CALL ice.system.rollback_to_snapshot('{name}', {before})")
    lake.refresh()
    return None


@pytest.mark.slow
def test_a_target_that_is_set_back_before_it_gets_a_column(
    source: History, lake: Lake, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = set_back(lake)
    source.sql(f"INSERT INTO {table} VALUES (8, 8, 'eight')")
    lake.apply(source.take())
    source.sql("ALTER TABLE t ADD COLUMN w int", "INSERT INTO t VALUES (9, 9, 'x', 9)")
    source.take()
    kind = TARGETS[lake.kind]
    add_columns = kind.add_columns

    def late(*given: Any) -> None:
        monkeypatch.undo()
        set_back(lake, before=old)
        add_columns(*given)

    monkeypatch.setattr(kind, "add_columns", late)
    for _ in range(2):
        with pytest.raises(walrow.errors.ApplyError) as raised:
            lake.apply(source)
        assert raised.value.code == "restored"


@pytest.mark.parametrize("lake", ["iceberg"], indirect=True)
def test_a_rollback_while_a_batch_is_written_stays(
    source: History, lake: Lake, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = set_back(lake)
    lake.sql("INSERT INTO {t} VALUES (99, 9, 'mistake of another writer')")
    source.sql(f"INSERT INTO {table} VALUES (8, 8, 'eight')")
    source.take()
    write = IcebergTarget._write

    def late(*given: Any) -> None:
        monkeypatch.undo()
        set_back(lake, before=old)
        write(*given)

    monkeypatch.setattr(IcebergTarget, "_write", late)
    assert lake.apply(source).committed
    lake.refresh()
    assert lake.rows() == source.rows(table)


@pytest.mark.slow
def test_options_that_do_not_fit_the_targets_rows(
    source: History, lake: Lake, table: str
) -> None:
    other = Lake(lake.spark, lake.kind, source.path.parent)
    soft: dict[str, Any] = {"deletes": "soft", "deleted_column": "gone"}
    other.apply(source, columns=["id", "n"], **soft)
    source.sql(
        "INSERT INTO t VALUES (8, 8, 'eight')", "ALTER TABLE t ADD COLUMN later int"
    )
    source.sql("UPDATE t SET later = 1 WHERE id = 2", "DELETE FROM t WHERE id = 3")
    source.take()
    for options, column in (
        (soft, "big"),
        ({**soft, "columns": ["id", "n", "big"]}, "big"),
        ({"columns": ["id", "n"]}, "gone"),
        ({**soft, "columns": ["id", "n"], "deleted_column": "other"}, "gone"),
    ):
        given: dict[str, Any] = options
        with pytest.raises(walrow.errors.ApplyError) as raised:
            other.apply(source, **given)
        assert (raised.value.code, raised.value.column) == ("other_options", column)
    # A column that is new has no older values.
    assert other.apply(source, columns=["id", "n", "later"], **soft).committed
    assert (2, 2, 1, False) in other.rows("id", "n", "later", "gone")
    # A load replaces all rows.
    source.load(table)
    assert other.apply(source).overwritten
    assert other.rows("id", "n", "big", "later", "gone") == Counter(
        (*row, None) for row in source.rows(table)
    )


@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_a_target_that_lacks_erased_changes(
    source: History, lake: Lake, table: str
) -> None:
    targets = {f"public.{table}": lake.name}
    known = walrow.spark.apply_all(lake.spark, source.path, targets)
    (applied,) = known.applied.values()
    source.sql(f"DELETE FROM {table} WHERE id = 5")
    source.take().erase(table, id=5)
    # The log has nothing new, as the delete was erased, too.
    with pytest.raises(walrow.errors.ApplyError, match="walrow load ") as raised:
        lake.apply(source)
    assert raised.value.code == "erased"
    (remedy,) = raised.value.remedies
    assert remedy.options() == {"resume_from": str(applied.end)}
    failed = walrow.spark.apply_all(lake.spark, source.path, targets, previous=known)
    (error,) = failed.failed.values()
    assert isinstance(error, walrow.errors.ApplyError)
    assert error.code == "erased"
    lake.sql("DELETE FROM {t} WHERE id = 5")
    with pytest.raises(walrow.errors.ApplyError):
        lake.apply(source, resume_from=applied.end - 1)
    assert lake.apply(source, **remedy.options()).committed
    assert not lake.apply(source).committed
    assert lake.rows() == source.rows(table)


@pytest.mark.slow
@pytest.mark.parametrize("lake", ["iceberg", "delta"], indirect=True)
def test_changes_that_are_erased_before_a_load_or_while_they_are_read(
    source: History, lake: Lake, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The update of an erased row became an insert that lacks a value.
    source.sql(f"UPDATE {table} SET id = 60 WHERE id = 6")
    source.take().erase(table, id=6)
    with pytest.raises(walrow.errors.ApplyError) as raised:
        lake.apply(source)
    assert raised.value.code == "erased"
    source.load(table)
    assert lake.apply(source).overwritten
    assert lake.rows() == source.rows(table)
    # One part of the changes is read before, and another after.
    view = Net.view

    def erases(self: Net, name: str) -> None:
        view(self, name)
        source.erase(table, id=4)

    monkeypatch.setattr(Net, "view", erases)
    source.sql(f"DELETE FROM {table} WHERE id = 4")
    with pytest.raises(
        walrow.errors.ApplyError, match="while they were read"
    ) as raised:
        lake.apply(source.take())
    assert raised.value.code == "conflict"
    assert lake.rows() != source.rows(table)


@pytest.mark.slow
@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_a_target_that_continues_somewhere_else(
    source: History, lake: Lake, table: str, tmp_path: Path
) -> None:
    end = walrow.Log(source.path).end
    shutil.copytree(source.path, tmp_path / "old")
    copy = Lake(lake.spark, lake.kind, tmp_path)
    copy.sql(f"CREATE TABLE {{t}} USING {lake.kind} AS SELECT * FROM {lake.table}")
    # It is recorded, although there is nothing to do.
    with pytest.raises(walrow.errors.OptionError, match="after the end of the log"):
        copy.apply(source, resume_from=end + 1)
    assert copy.apply(source, resume_from=end).end == end
    assert not copy.apply(source).committed
    change(source)
    assert copy.apply(source).committed
    assert copy.rows() == source.rows(table)
    # An older copy of the log, and a table's target for another one.
    with pytest.raises(walrow.errors.ApplyError) as raised:
        copy.apply(tmp_path / "old")
    assert raised.value.code == "older_log"
    # The log of a slot that was dropped and created again.
    source.sql(f"INSERT INTO {table} VALUES (99, 99)")
    source.begin_again(tmp_path / "again")
    source.sql(f"UPDATE {table} SET n = -1 WHERE id = 99")
    with pytest.raises(walrow.errors.ApplyError, match="walrow load ") as raised:
        copy.apply(source.take())
    assert raised.value.code == "not_received"
    source.load(table)
    assert copy.apply(source).overwritten
    assert copy.rows() == source.rows(table)
    source.sql("CREATE TABLE u (id int PRIMARY KEY, n int)", "INSERT INTO u VALUES (1)")
    source.sql("TRUNCATE u", "INSERT INTO u VALUES (2)")
    with pytest.raises(walrow.errors.ApplyError, match="use another target") as raised:
        copy.apply(source.take(), "u")
    assert raised.value.code == "other_table"
    assert copy.rows() == source.rows(table)


def test_an_identity_of_all_columns_is_not_full(source: History) -> None:
    source.sql(
        "CREATE TABLE link (a int NOT NULL, b int NOT NULL)",
        "CREATE UNIQUE INDEX link_key ON link (a, b)",
        "ALTER TABLE link REPLICA IDENTITY USING INDEX link_key",
        "CREATE TABLE pair (a int, b int, PRIMARY KEY (a, b))",
        "CREATE TABLE whole (a int, b int)",
        "ALTER TABLE whole REPLICA IDENTITY FULL",
        *(f"INSERT INTO {name} VALUES (1, 2)" for name in ("link", "pair", "whole")),
    )
    log = walrow.Log(source.take().path)
    tables = {it.name: it for it in log.tables()}
    for name in ("public.link", "public.pair"):
        assert keys_of(log, tables[name], None) == ("a", "b")
    with pytest.raises(walrow.errors.SchemaError, match="has REPLICA IDENTITY FULL"):
        keys_of(log, tables["public.whole"], None)
    found = {name: it.versions[0].replica_identity for name, it in tables.items()}
    assert found == {
        "public.link": "index",
        "public.pair": "default",
        "public.whole": "full",
    }


@pytest.mark.slow
def test_rows_from_before_the_slot(
    source: History, lakehouse: SparkSession, tmp_path: Path
) -> None:
    """A log that begins without them is no table, but continues one that has them."""
    server = source.conn.info
    dsn = f"host={server.host} port={server.port} user={server.user} dbname={server.dbname}"
    source.sql(
        "CREATE TABLE t (id int PRIMARY KEY, n int)", "INSERT INTO t VALUES (1, 1)"
    )
    log = tmp_path / "received"
    options: dict[str, Any] = {"log": log, "slot": "other", "publications": "p"}
    walrow.receive(dsn, **options, create=True, until="now")
    source.sql("INSERT INTO t VALUES (2, 2)", "UPDATE t SET n = 7 WHERE id = 1")
    walrow.receive(dsn, **options, until="now")
    lake = Lake(lakehouse, "delta", tmp_path)
    with pytest.raises(
        walrow.errors.ApplyError, match="rows before the slot"
    ) as raised:
        lake.apply(log, "t")
    assert raised.value.code == "incomplete"
    lake.sql("CREATE TABLE {t} (id int, n int) USING delta")
    lake.sql("INSERT INTO {t} VALUES (1, 1)")
    start = walrow.Log(log).slot_start
    assert lake.apply(log, "t", resume_from=start).committed
    assert lake.rows() == source.rows("t")
    source.sql("DELETE FROM t WHERE id = 1")
    walrow.receive(dsn, **options, until="now")
    assert lake.apply(log, "t").committed
    assert lake.rows() == source.rows("t")
    source.sql("SELECT pg_drop_replication_slot('other')")
