"""Replication commands on live servers."""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import pq
from psycopg.rows import dict_row

import walrow
from servers import EmbeddedServer
from walrow import postgres

# The first run downloads the server.
pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

Connection = psycopg.Connection[Any]


@pytest.fixture
def replication(server: EmbeddedServer) -> Iterator[Connection]:
    with psycopg.connect(server.dsn, replication="database", autocommit=True) as conn:
        yield conn


def slots(sql: Connection, name: str) -> list[dict[str, Any]]:
    with sql.cursor(row_factory=dict_row) as cursor:
        query = "SELECT * FROM pg_replication_slots WHERE slot_name = %s"
        return cursor.execute(query, [name]).fetchall()


def kinds(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", names)


@pytest.fixture
def conn(kind: str, request: pytest.FixtureRequest) -> Connection:
    found: Connection = request.getfixturevalue(kind)
    return found


@kinds("replication", "sql")
def test_the_system_is_that_of_its_control_file(
    conn: Connection, sql: Connection
) -> None:
    control = "SELECT system_identifier::text FROM pg_control_system()"
    [(identifier,)] = sql.execute(control).fetchall()
    [(before,)] = sql.execute("SELECT pg_current_wal_flush_lsn()::text").fetchall()
    system = postgres.identify_system(conn)
    assert (system.system_identifier, system.timeline) == (identifier, 1)
    assert system.database == "postgres"
    assert system.xlogpos >= walrow.Lsn(before)
    assert isinstance(system.xlogpos, walrow.Lsn)


def test_commands_leave_no_transaction_open(server: EmbeddedServer) -> None:
    # Without autocommit, psycopg begins a transaction before each statement.
    for options in ({}, {"replication": "database"}):
        with psycopg.connect(server.dsn, **options) as conn:  # type: ignore[arg-type]
            postgres.identify_system(conn)
            assert conn.info.transaction_status is pq.TransactionStatus.IDLE


@kinds("replication", "sql")
def test_a_slot_is_created_and_dropped(
    conn: Connection, sql: Connection, name: str
) -> None:
    created = postgres.create_slot(conn, name)
    (slot,) = slots(sql, name)
    assert isinstance(created.consistent_point, walrow.Lsn)
    assert walrow.Lsn(slot["confirmed_flush_lsn"]) == created.consistent_point
    assert (created.name, created.snapshot, created.plugin) == (name, None, "pgoutput")
    assert (slot["temporary"], slot["two_phase"]) == (False, False)
    postgres.drop_slot(conn, name)
    assert slots(sql, name) == []


@kinds("replication", "sql")
def test_options_of_a_slot_depend_on_the_version(
    server: EmbeddedServer, conn: Connection, sql: Connection, name: str
) -> None:
    cases: tuple[tuple[dict[str, Any], int], ...] = (
        ({"temporary": True, "two_phase": True}, 15),
        ({"failover": True}, 17),
    )
    for options, since in cases:
        if server.major < since:
            with pytest.raises(
                walrow.errors.OptionError, match=f"needs PostgreSQL {since} "
            ):
                postgres.create_slot(conn, name, **options)
            assert slots(sql, name) == []
        else:
            postgres.create_slot(conn, name, **options)
            (slot,) = slots(sql, name)
            assert {key: slot[key] for key in options} == options
            postgres.drop_slot(conn, name)


def test_a_snapshot_shows_the_tables_as_of_the_slot(
    replication: Connection, server: EmbeddedServer, sql: Connection, name: str
) -> None:
    sql.execute("CREATE TABLE shot AS SELECT 1 AS id")
    slot = postgres.create_slot(replication, name, snapshot="export", temporary=True)
    assert slot.snapshot
    sql.execute("INSERT INTO shot VALUES (2)")
    with psycopg.connect(server.dsn) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute(f"SET TRANSACTION SNAPSHOT '{slot.snapshot}'".encode())
        assert reader.execute("SELECT id FROM shot").fetchall() == [(1,)]
    sql.execute("DROP TABLE shot")


def test_a_transaction_uses_the_snapshot(
    replication: Connection, sql: Connection, name: str
) -> None:
    sql.execute("CREATE TABLE shot AS SELECT 1 AS id")
    replication.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    slot = postgres.create_slot(replication, name, snapshot="use", temporary=True)
    assert slot.snapshot is None
    sql.execute("INSERT INTO shot VALUES (2)")
    with psycopg.ClientCursor(replication) as cursor:
        found = cursor.execute("SELECT id FROM shot").fetchall()
    assert found == [(1,)]
    replication.execute("COMMIT")
    sql.execute("DROP TABLE shot")


def test_a_slot_is_altered_from_17_on(
    server: EmbeddedServer, replication: Connection, sql: Connection, name: str
) -> None:
    postgres.create_slot(replication, name)
    for options, since in (({"failover": True}, 17), ({"two_phase": True}, 18)):
        if server.major < since:
            first = since if server.major >= 17 else 17
            with pytest.raises(
                walrow.errors.OptionError, match=f"PostgreSQL {first} or"
            ):
                postgres.alter_slot(replication, name, **options)
            continue
        postgres.alter_slot(replication, name, **options)
        (slot,) = slots(sql, name)
        assert {key: slot[key] for key in options} == options
    with pytest.raises(walrow.errors.OptionError, match="changes nothing"):
        postgres.alter_slot(replication, name)


@kinds("replication", "sql")
def test_refusals_say_what_to_do(conn: Connection, name: str) -> None:
    with pytest.raises(walrow.errors.ReplicationError) as caught:
        postgres.drop_slot(conn, name)
    error = caught.value
    assert (error.sqlstate, error.slot) == ("42704", name)
    assert str(error) == (
        f'cannot drop slot "{name}": replication slot "{name}" does not exist; '
        "walrow slot list shows the slots that exist"
    )
    assert error.hint == "walrow slot list shows the slots that exist"
    assert isinstance(error.__cause__, psycopg.errors.UndefinedObject)
    assert pickle.loads(pickle.dumps(error)).slot == name

    postgres.create_slot(conn, name)
    with pytest.raises(
        walrow.errors.ReplicationError, match="already exists; use another name"
    ) as it:
        postgres.create_slot(conn, name)
    assert it.value.sqlstate == "42710"
    for other, sqlstate in (("Upper case", "42602"), ("", "42602"), ("é", "42602")):
        with pytest.raises(walrow.errors.ReplicationError, match="name") as it:
            postgres.create_slot(conn, other)
        assert it.value.sqlstate == sqlstate
        assert it.value.hint is None or "lower case" in it.value.hint
    # The newest minor versions allow only plugins that a setting lists.
    has_list = conn.execute(
        "SELECT 1 FROM pg_settings WHERE name = 'output_plugin_libraries'"
    ).fetchone()
    hint, sqlstate = (
        ('add it to "output_plugin_libraries"', "42501")
        if has_list
        else ("use pgoutput", "58P01")
    )
    with pytest.raises(walrow.errors.ReplicationError, match=hint) as it:
        postgres.create_slot(conn, f"{name}_2", plugin="no 'such plugin")
    assert it.value.sqlstate == sqlstate


def test_a_slot_in_use_is_not_dropped(
    server: EmbeddedServer, replication: Connection, sql: Connection, name: str
) -> None:
    postgres.create_slot(replication, name)
    options: dict[str, Any] = {"proto_version": 1, "publication_names": 'n"o'}
    command = postgres.start_replication_command(name, 0, options)
    replication.pgconn.exec_(command.encode())
    assert replication.pgconn.transaction_status == pq.TransactionStatus.ACTIVE
    with pytest.raises(
        walrow.errors.ReplicationError, match="walrow slot list"
    ) as caught:
        postgres.drop_slot(sql, name)
    assert caught.value.sqlstate == "55006"
    # The stream occupies the connection.
    with pytest.raises(
        walrow.errors.ReplicationError, match="cannot identify the system"
    ):
        postgres.identify_system(replication)

    with psycopg.connect(server.dsn, replication="database") as other:
        end = threading.Timer(0.3, replication.close)
        end.start()
        postgres.drop_slot(other, name, wait=True)
        end.join()
    assert slots(sql, name) == []


def test_a_role_needs_the_attribute(server: EmbeddedServer, sql: Connection) -> None:
    sql.execute("CREATE ROLE plain LOGIN")
    try:
        with (
            psycopg.connect(server.dsn, user="plain", autocommit=True) as conn,
            pytest.raises(walrow.errors.ReplicationError, match="ALTER ROLE") as caught,
        ):
            postgres.create_slot(conn, "never")
        assert caught.value.sqlstate == "42501"
    finally:
        sql.execute("DROP ROLE plain")


def test_names_are_quoted(replication: Connection, sql: Connection, name: str) -> None:
    postgres.create_slot(replication, name)
    publications = ['odd "name', "it's", "b\\", "Été", "a,b", "", "  x "]
    for each in publications:
        if each:
            quoted = each.replace('"', '""')
            sql.execute(f'CREATE PUBLICATION "{quoted}"'.encode())
    try:
        options: dict[str, Any] = {
            "proto_version": 1,
            "publication_names": [each for each in publications if each],
            "binary": False,
            "messages": None,
        }
        other = postgres.start_replication_command(
            "a", 0, {"include-xids": (), "x": ""}
        )
        assert other.endswith("""("include-xids", "x" '')""")
        command = postgres.start_replication_command(name, "0/0", options)
        assert "\"binary\" 'false'" in command
        assert "messages" not in command
        sql.execute("SELECT pg_logical_emit_message(true, '', '')")
        replication.pgconn.send_query(command.encode())
        while replication.pgconn.flush():
            pass
        result = replication.pgconn.get_result()
        assert result is not None
        assert result.status == pq.ExecStatus.COPY_BOTH
    finally:
        replication.close()
        for each in publications:
            if each:
                quoted = each.replace('"', '""')
                sql.execute(f'DROP PUBLICATION "{quoted}"'.encode())


def test_what_no_command_can_contain_is_refused(replication: Connection) -> None:
    for call in (
        lambda: postgres.create_slot(replication, "a\0b"),
        lambda: postgres.create_slot(replication, 'a"b'),
        lambda: postgres.create_slot(replication, "a", plugin="a\0b"),
        lambda: postgres.drop_slot(replication, "a\0b"),
        lambda: postgres.start_replication_command("a\0b", 0, {}),
        lambda: postgres.start_replication_command("a", 0, {"b\0": "1"}),
        lambda: postgres.start_replication_command("a", 0, {"b": "\0"}),
        lambda: postgres.start_replication_command(
            "a", 0, {"publication_names": ["\0"]}
        ),
    ):
        with pytest.raises(walrow.errors.OptionError, match="NUL"):
            call()
    with pytest.raises(TypeError, match="option b must be a text"):
        postgres.start_replication_command("a", 0, {"b": object()})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="an LSN is"):
        postgres.start_replication_command("a", "yesterday", {})
    with pytest.raises(walrow.errors.OptionError, match="'export', 'nothing' or 'use'"):
        postgres.create_slot(replication, "a", snapshot="all")  # type: ignore[arg-type]


def test_names_must_be_in_the_connections_encoding(server: EmbeddedServer) -> None:
    with psycopg.connect(server.dsn, client_encoding="LATIN1") as conn:
        with pytest.raises(walrow.errors.ReplicationError, match="Réplique") as caught:
            postgres.drop_slot(conn, "Réplique")
        assert caught.value.sqlstate == "42704"
        with pytest.raises(walrow.errors.OptionError, match="encoding, iso8859-1"):
            postgres.drop_slot(conn, "複製")


def test_some_commands_need_a_replication_connection(sql: Connection) -> None:
    database = 'replication="database"'
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: postgres.timeline_history(sql, 2), "TIMELINE_HISTORY needs a repl"),
        (lambda: postgres.timeline_history(sql, 2), database),
        (lambda: postgres.read_slot(sql, "a"), "READ_REPLICATION_SLOT needs a repl"),
        (lambda: postgres.create_slot(sql, "a", snapshot="export"), database),
        (lambda: postgres.drop_slot(sql, "a", wait=True), database),
        (lambda: postgres.alter_slot(sql, "a", failover=True), database),
    ]
    for call, problem in cases:
        with pytest.raises(walrow.errors.OptionError, match=problem):
            call()


def test_a_connection_that_is_closed_or_lost(server: EmbeddedServer) -> None:
    conn = psycopg.connect(server.dsn, replication="database", autocommit=True)
    with psycopg.connect(server.dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [conn.info.backend_pid])
    time.sleep(0.1)
    with pytest.raises(
        walrow.errors.ReplicationError, match="cannot identify the system"
    ):
        postgres.identify_system(conn)
    conn.close()
    with pytest.raises(walrow.errors.OptionError, match="the connection is closed"):
        postgres.identify_system(conn)


@contextlib.contextmanager
def writing(server: EmbeddedServer) -> Iterator[Connection]:
    """A transaction that has written, so that no slot can be created."""
    with psycopg.connect(server.dsn) as conn:
        conn.execute("SELECT pg_current_xact_id()")
        yield conn


@kinds("replication", "sql")
def test_an_interrupted_creation_leaves_no_slot(
    server: EmbeddedServer, conn: Connection, sql: Connection, name: str
) -> None:
    def interrupt(waiting: postgres.Waiting) -> None:
        assert waiting.seconds > 0
        raise KeyboardInterrupt

    with writing(server), pytest.raises(KeyboardInterrupt):
        postgres.create_slot(conn, name, progress=interrupt)
    if conn is not sql:
        assert slots(sql, name) == []
    # The connection can be used.
    postgres.create_slot(conn, name)
    assert len(slots(sql, name)) == 1


def test_a_creation_that_was_faster_than_the_interrupt_is_undone(
    server: EmbeddedServer, replication: Connection, sql: Connection, name: str
) -> None:
    with writing(server) as writer:

        def interrupt(waiting: postgres.Waiting) -> None:  # noqa: ARG001
            writer.rollback()
            deadline = time.monotonic() + 30
            while not [s for s in slots(sql, name) if s["confirmed_flush_lsn"]]:
                assert time.monotonic() < deadline
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            postgres.create_slot(replication, name, progress=interrupt)
    assert slots(sql, name) == []
