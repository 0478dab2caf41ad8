"""A log of a server of version 19, and the features that are new in that version."""

# ruff: noqa: S608 - the tables are of these tests

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

import walrow
from servers import FetchedServer, ServerError, Standby
from servers.fetched import fetched_programs
from servers.receiving import (
    Feed,
    Load,
    drop_if_there,
    execute,
    server_rows,
    slot_for_load,
    until,
)
from walrow.postgres import ddl_trigger, preflight

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.fixture(scope="module", autouse=True)
def fetched() -> None:
    """Skips these tests where the server cannot be fetched, except in make test-all."""
    try:
        fetched_programs(19)
    except ServerError as error:
        if os.environ.get("WALROW_SLOW"):
            raise
        command = f"pytest tests/receive/{Path(__file__).name}"
        pytest.skip(f"{error}; where the packages can be fetched: {command}")


@pytest.fixture(scope="module")
def nineteen() -> Iterator[FetchedServer]:
    settings = {"max_slot_wal_keep_size": "1GB", "wal_level": "replica"}
    with FetchedServer(
        19, logical_decoding_work_mem="64kB", settings=settings
    ) as server:
        yield server


@pytest.fixture
def feed(nineteen: FetchedServer, tmp_path: Path) -> Iterator[Feed]:
    with slot_for_load(nineteen, two_phase=True) as slot:
        yield Feed(nineteen, slot, tmp_path / "log")


def test_a_log_across_kills(feed: Feed) -> None:
    """`wal_level` is replica: the first logical slot turns logical decoding on."""
    quick = ("--two-phase", "--publish-after", "0.2", "--segment-size", "1MiB")
    with Load(feed.dsn, 19):
        for crash_at in (30, 60) if os.environ.get("WALROW_SLOW") else (40,):
            with feed.receiver(*quick, crash_at=crash_at) as receiver:
                receiver.process.wait(60)
            feed.server.restart("kill")
        with feed.receiver(*quick) as receiver:
            feed.until_all(receiver)
            walrow.load(["public.item"], log=feed.log)
            feed.finish(receiver)
    feed.receive_all(*quick)
    expected = server_rows(feed.dsn, Load.TABLES)
    for table in ("item", "wide"):
        assert state(feed.log, table) == expected[table]


def state(log: Path, table: str) -> list[list[Any]]:
    found = walrow.Log(log).state(f"public.{table}", profile="text").to_pyarrow()
    rows = [list(row.values()) for row in found.to_pylist()]
    return sorted(rows, key=lambda row: [(it is not None, it or "") for it in row])


#: Tables, and the statements of a streamed transaction that changes one before it inserts rows.
DDL = {
    "named": [
        f"ALTER TABLE named RENAME {it}" for it in ("a TO x", "b TO a", "x TO b")
    ],
    "added": ["ALTER TABLE added ADD more int DEFAULT 7"],
    "typed": ["ALTER TABLE typed ALTER n TYPE bigint USING n + 1"],
    "label": [
        "CREATE TYPE kind AS ENUM ('a')",
        "ALTER TABLE label ADD more kind DEFAULT 'a'",
    ],
    "gone": ["ALTER TABLE gone DROP b"],
    "same": [],
}


@pytest.mark.parametrize(
    "end", ["COMMIT", pytest.param("ROLLBACK", marks=pytest.mark.slow)]
)
def test_prepared_transactions_with_ddl(feed: Feed, end: str) -> None:
    """A Relation message counts once its transaction is prepared, unless it changes the table."""
    for name in DDL:
        feed.execute(
            f"DROP TABLE IF EXISTS {name}",
            f"CREATE TABLE {name} (n int, a text, b text)",
            f"ALTER PUBLICATION p ADD TABLE {name}",
        )
    feed.execute("DROP TYPE IF EXISTS kind")
    receive = ("--two-phase", "--publish-after", "0.2")
    with feed.receiver(*receive) as receiver:
        feed.until_all(receiver)
        for name, ddl in DDL.items():
            row = f"INSERT INTO {name} (n, a)"
            feed.execute(
                f"{row} VALUES (1, 'before')",
                *("BEGIN", *ddl),
                f"{row} SELECT 2, repeat('x', 200) FROM generate_series(1, 2000)",
                f"PREPARE TRANSACTION '{name}'",
            )
        feed.execute("INSERT INTO item VALUES (1, 1)")
        feed.until_all(receiver)
        receiver.kill()
    feed.execute(*(f"{end} PREPARED '{name}'" for name in DDL))
    expected = {}
    for name in DDL:
        feed.execute(f"INSERT INTO {name} (n, a) VALUES (3, 'after')")
        ((row,),) = feed.execute(f"SELECT to_jsonb(t) FROM {name} t WHERE n = 3")
        expected[name] = {key: it and str(it) for key, it in row.items()}
    feed.receive_now(two_phase=True)
    for name, last in expected.items():
        rows = [
            {key: it for key, it in row.items() if key in last}
            for batch in walrow.read(
                feed.log,
                table=f"public.{name}",
                profile="text",
                versions="union",
            )
            for row in batch.to_pyarrow().to_pylist()
        ]
        assert (name, rows[-1]) == (name, last)
        assert len(rows) == (2002 if end == "COMMIT" else 2)


@dataclass(frozen=True)
class Database:
    """A database, a slot and a log."""

    dsn: str
    slot: str
    log: Path

    def run(self, *statements: str) -> list[Any]:
        return execute(self.dsn, *statements)

    def receive(self, publications: list[str], **options: Any) -> list[str]:
        notes: list[str] = []
        walrow.receive(
            self.dsn,
            slot=self.slot,
            log=self.log,
            publications=publications,
            create=not self.log.exists(),
            until="now",
            progress=lambda it: notes.append(it.note or ""),
            **options,
        )
        return notes

    def codes(self) -> dict[str, set[str]]:
        """The codes of open marks, by table."""
        return {
            it.name.removeprefix("public."): codes
            for it in walrow.Log(self.log).tables()
            if (codes := {mark.code.value for mark in it.marks if mark.is_open})
        }


@pytest.fixture
def database(nineteen: FetchedServer, tmp_path: Path) -> Iterator[Database]:
    with nineteen.database("version") as name:
        yield Database(nineteen.dsn_of(name), name, tmp_path / "log")
        for slot in (name, f"{name}_2"):
            drop_if_there(nineteen.dsn, slot)


@pytest.mark.parametrize("has_trigger", [True, False])
def test_an_exception_that_was_taken_back(
    database: Database, *, has_trigger: bool
) -> None:
    """Without the trigger, only the attached table itself is seen, and not the partitions below it."""
    all_of_it = "ALTER PUBLICATION all_of_it SET ALL TABLES"
    database.run(
        *([ddl_trigger()] if has_trigger else []),
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE TABLE kept (id int PRIMARY KEY)",
        "CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE part (id int PRIMARY KEY)",
        "CREATE TABLE middle (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE leaf PARTITION OF middle FOR VALUES FROM (0) TO (10)",
        "CREATE PUBLICATION all_of_it FOR ALL TABLES EXCEPT (TABLE root)",
    )
    database.receive(["all_of_it"])
    database.run(
        *(f"INSERT INTO {it} VALUES (1)" for it in ("t", "kept", "part", "leaf")),
        f"{all_of_it} EXCEPT (TABLE root, t)",
        *("INSERT INTO t VALUES (2)", "INSERT INTO kept VALUES (2)"),
        f"{all_of_it} EXCEPT (TABLE root)",
        "INSERT INTO t VALUES (3)",
        *(
            statement
            for name, changed in (("part", "part"), ("middle", "leaf"))
            for statement in (
                f"ALTER TABLE root ATTACH PARTITION {name} FOR VALUES FROM (0) TO (10)",
                f"INSERT INTO {changed} VALUES (2)",
                f"ALTER TABLE root DETACH PARTITION {name}",
            )
        ),
    )
    notes = database.receive(["all_of_it"])
    assert not any("not reliable" in it for it in notes)
    seen = ["t", "part", "leaf"] if has_trigger else ["part"]
    assert database.codes() == {name: {"left_publication"} for name in seen}
    assert state(database.log, "kept") == [["1"], ["2"]]


def test_an_exception_beside_another_publication(database: Database) -> None:
    """The table stays published, but not its updates."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE PUBLICATION all_of_it FOR ALL TABLES",
        "CREATE PUBLICATION inserts FOR TABLE t WITH (publish = 'insert')",
    )
    both = ["all_of_it", "inserts"]
    database.receive(both)
    database.run(
        "INSERT INTO t VALUES (1)",
        "ALTER PUBLICATION all_of_it SET ALL TABLES EXCEPT (TABLE t)",
        "UPDATE t SET id = 2",
    )
    database.receive(both)
    assert database.codes() == {"t": {"publication_changed"}}


def test_repack(database: Database) -> None:
    """REPACK (CONCURRENTLY) looks like SET UNLOGGED and SET LOGGED, which a named table cannot have."""
    tables = {"small": "int", "long": "text"}
    database.run(
        ddl_trigger(),
        *(
            statement
            for it, type_ in tables.items()
            for statement in (
                f"CREATE TABLE {it} (id int PRIMARY KEY, v {type_})",
                f"INSERT INTO {it} SELECT g, g FROM generate_series(1, 300) g",
            )
        ),
        "CREATE PUBLICATION named FOR TABLE small, long",
        "CREATE PUBLICATION all_of_it FOR ALL TABLES",
    )
    logs = {
        "named": database,
        "all_of_it": Database(
            database.dsn, f"{database.slot}_2", database.log.with_name("all")
        ),
    }
    for it, log in logs.items():
        log.receive([it], snapshot=True)
    is_writing = threading.Event()

    def write() -> None:
        with psycopg.connect(database.dsn, autocommit=True) as conn:
            for key in range(1, 301):
                conn.execute("UPDATE small SET v = -v WHERE id = %s", [key])
                text = "UPDATE long SET v = repeat('x', %s) WHERE id = %s"
                conn.execute(text, [key, key])
                is_writing.set()

    for how in ("", "(CONCURRENTLY) "):
        writer = threading.Thread(target=write)
        writer.start()
        is_writing.wait()
        database.run(f"REPACK {how}small", f"REPACK {how}long")
        writer.join()
        for it, log in logs.items():
            notes = log.receive([it])
            assert not any("not reliable" in note for note in notes)
        rows = server_rows(database.dsn, tables)
        assert {it: state(database.log, it) for it in tables} == rows
        assert database.codes() == {}
        marked = tables if how else ["small"]
        assert logs["all_of_it"].codes() == {it: {"rewritten"} for it in marked}


def test_the_server_takes_each_remedy(database: Database) -> None:
    """All statements that preflight prints are run, in their order."""
    database.run(
        'CREATE SCHEMA "a b"',
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "CREATE TABLE kept (id int PRIMARY KEY)",
        "CREATE TABLE bare (id int, g int GENERATED ALWAYS AS (id) STORED)",
        "CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE UNLOGGED TABLE part PARTITION OF root FOR VALUES FROM (0) TO (9)",
        'CREATE TABLE "a b".parent (id int PRIMARY KEY)',
        'CREATE TABLE "a b".child (PRIMARY KEY (id)) INHERITS ("a b".parent)',
        "CREATE TABLE unlogged (id int PRIMARY KEY)",
        'CREATE PUBLICATION "all" FOR ALL TABLES EXCEPT'
        ' (TABLE t, other, kept, root, ONLY "a b".child), ALL SEQUENCES'
        " WITH (publish = 'insert, update')",
        "CREATE PUBLICATION via FOR TABLE root WITH (publish_via_partition_root)",
        "CREATE PUBLICATION sequences FOR ALL SEQUENCES",
    )
    roles = "SELECT FROM pg_roles WHERE rolname = 'reader'"
    if not database.run(roles):
        database.run("CREATE ROLE reader LOGIN")
    settings = {
        "max_slot_wal_keep_size": "-1",
        "wal_sender_timeout": "0",
        "output_plugin_libraries": "wal2json",
    }
    database.run(
        *(f"ALTER SYSTEM SET {name} = '{it}'" for name, it in settings.items())
    )
    found, left = _found_and_mended(database, ["all", "via"], ["t", "other"])
    # A user has to accept that rows of children come under their names.
    assert left == {"inheritance"}
    assert {
        *(
            "output-plugin",
            "replication-privilege",
            "table-unpublished",
            "slot-missing",
        ),
        *("no-replica-identity", "publication-operations", "partition-unlogged"),
        *("inheritance", "generated-columns", "select-privilege", "ddl-trigger"),
        *("slot-wal-unlimited", "wal-sender-timeout"),
    } <= found
    rows = database.run(
        "SELECT prrelid::regclass::text FROM pg_publication_rel WHERE prexcept"
    )
    assert rows == [("kept",), ("root",)]
    # It cannot get a single table: another publication has it.
    found, _ = _found_and_mended(database, ["sequences"], ["t"])
    assert "table-unpublished" in found
    ((tables,),) = database.run(
        "SELECT array_agg(pubname || ' ' || tablename) FROM pg_publication_tables"
        " WHERE pubname = 'sequences_tables'"
    )
    assert tables == ["sequences_tables t"]
    database.run(*(f"ALTER SYSTEM RESET {name}" for name in settings))
    database.run("SELECT pg_reload_conf()")


def _found_and_mended(
    database: Database, publications: list[str], tables: list[str]
) -> tuple[set[str], set[str]]:
    """Runs the SQL of all findings. Returns their codes, and the codes of the errors and warnings after that."""
    database.run("SELECT pg_reload_conf()", "SELECT pg_sleep(0.3)")

    def found(role: str) -> list[Any]:
        with psycopg.connect(database.dsn, autocommit=True) as conn:
            conn.execute(f"SET ROLE {role}".encode())
            return list(
                preflight(
                    conn, slot=database.slot, publications=publications, tables=tables
                )
            )

    first = [*found("postgres"), *found("reader")]
    for code, sql in dict.fromkeys((it.code, it.sql) for it in first):
        # The event trigger is one statement of many lines.
        for line in [sql] if code == "ddl-trigger" else (sql or "").splitlines():
            if line is not None and "..." not in line:
                database.run(line)
            if line and "reload" in line:
                database.run("SELECT pg_sleep(0.3)")
    left = {it.code for it in found("postgres") if it.severity != "note"}
    return {it.code for it in first}, left


@pytest.mark.slow
def test_a_standby_whose_primary_drops_its_last_logical_slot(tmp_path: Path) -> None:
    """The stream ends with a conflict. The next connection fails with the reason."""
    with (
        FetchedServer(19, settings={"wal_level": "replica"}) as primary,
        Standby(primary) as standby,
    ):

        def found() -> Any:
            with psycopg.connect(standby.dsn, autocommit=True) as conn:
                return preflight(conn, slot="s", publications="p")

        execute(
            primary.dsn,
            "CREATE TABLE t (id int PRIMARY KEY)",
            "CREATE PUBLICATION p FOR TABLE t",
        )
        until(lambda: execute(standby.dsn, "SELECT 1 FROM pg_publication"))
        (level,) = [it for it in found() if it.code == "wal-level"]
        assert level.severity == "error"
        assert "create a logical slot on the primary" in level.text
        execute(
            primary.dsn,
            "SELECT pg_create_logical_replication_slot('first', 'pgoutput')",
        )
        until(lambda: not [it for it in found() if it.code == "wal-level"])
        (note,) = [it for it in found() if it.code == "standby"]
        assert "last logical slot" in note.text
        feed = Feed(standby, "s", tmp_path / "log")
        with feed.receiving(create=True) as receiver:

            def is_streaming() -> bool:
                execute(primary.dsn, "SELECT pg_log_standby_snapshot()")
                return any(it.state == "streaming" for it in receiver.states)

            until(is_streaming)
            execute(primary.dsn, "SELECT pg_drop_replication_slot('first')")
            until(lambda: receiver.failure)
        assert str(receiver.failure).startswith(
            'slot "s": the server has invalidated it (wal_level_insufficient): changes are lost'
        )
        (lost,) = [it for it in found() if it.code == "slot-lost"]
        assert "wal_level_insufficient" in lost.text


@pytest.mark.slow
def test_a_server_that_lets_no_slot_use_pgoutput(database: Database) -> None:
    """A role that may not see the setting gets the server's hint."""
    database.run(
        "CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t"
    )
    database.receive(["p"])
    reload = ("SELECT pg_reload_conf()", "SELECT pg_sleep(0.3)")
    database.run(
        "ALTER SYSTEM SET output_plugin_libraries = 'a b', test_decoding", *reload
    )
    sql = (
        "ALTER SYSTEM SET output_plugin_libraries = 'a b', 'test_decoding', 'pgoutput';"
    )
    with pytest.raises(walrow.errors.ReplicationError, match="output-plugin") as caught:
        database.receive(["p"])
    assert sql in str(caught.value)
    database.run("CREATE ROLE streamer LOGIN REPLICATION")
    other = f"{database.dsn} user=streamer"
    for slot in (database.slot, f"{database.slot}_2"):
        log = Database(other, slot, database.log.with_name(slot))
        if slot == database.slot:
            log = Database(other, slot, database.log)
        with pytest.raises(walrow.errors.ReplicationError) as caught:
            log.receive(["p"])
        assert caught.value.sqlstate == "42501"
        assert 'add it to "output_plugin_libraries"' in str(caught.value)
    database.run(sql, *reload)
    database.receive(["p"])
    database.run("ALTER SYSTEM RESET output_plugin_libraries", *reload)
    database.run("DROP ROLE streamer")
