"""Slots of live servers: what they keep, and what their creation waits for."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import pq

import walrow
from servers import EmbeddedServer
from servers.receiving import run_walrow
from walrow import postgres

# The first run downloads the server.
pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

Connection = psycopg.Connection[Any]


def one(sql: Connection, name: str) -> postgres.Slot:
    (slot,) = [slot for slot in postgres.slots(sql) if slot.name == name]
    return slot


def test_a_slot_keeps_wal_until_its_client_confirms_it(
    server: EmbeddedServer, sql: Connection, name: str
) -> None:
    created = postgres.create_slot(sql, name)
    before = one(sql, name)
    assert (before.kind, before.plugin, before.database) == (
        "logical",
        "pgoutput",
        "postgres",
    )
    assert (before.active_pid, before.active_application) == (None, None)
    assert before.confirmed_flush == created.consistent_point
    assert isinstance(before.restart_lsn, walrow.Lsn)
    assert (before.wal_status, before.safe_wal_size) == ("reserved", None)
    assert (before.temporary, before.two_phase) == (False, False)
    assert before.failover is (False if server.major >= 17 else None)
    assert before.conflict is (False if server.major >= 16 else None)
    assert before.invalidation_reason is None
    if server.major >= 17:
        assert before.inactive_since is not None
        age = dt.datetime.now(dt.UTC) - before.inactive_since
        assert dt.timedelta(seconds=-1) < age < dt.timedelta(minutes=1)
    else:
        assert before.inactive_since is None

    content = "x" * 1_000_000
    sql.execute("SELECT pg_logical_emit_message(true, '', %s)", [content])
    after = one(sql, name)
    assert before.kept_bytes is not None
    assert after.kept_bytes is not None
    assert 1_000_000 <= after.kept_bytes - before.kept_bytes < 10_000_000
    [(expected,)] = sql.execute(
        "SELECT pg_current_wal_lsn() - restart_lsn FROM pg_replication_slots"
        " WHERE slot_name = %s",
        [name],
    ).fetchall()
    assert 0 <= int(expected) - after.kept_bytes < 100_000


def test_an_active_slot_names_its_client(
    server: EmbeddedServer, sql: Connection, name: str
) -> None:
    postgres.create_slot(sql, name)
    reader = psycopg.connect(
        server.dsn, replication="database", application_name="reader"
    )
    with contextlib.closing(reader) as conn:
        options: dict[str, Any] = {"proto_version": 1, "publication_names": "none"}
        command = postgres.start_replication_command(name, 0, options)
        conn.pgconn.exec_(command.encode())
        slot = one(sql, name)
        assert (slot.active_pid, slot.active_application) == (
            conn.info.backend_pid,
            "reader",
        )
        if server.major >= 17:
            assert slot.inactive_since is None


def test_physical_and_temporary_slots_are_listed(sql: Connection, name: str) -> None:
    sql.execute("SELECT pg_create_physical_replication_slot(%s)", [name])
    slot = one(sql, name)
    assert (slot.kind, slot.plugin, slot.database) == ("physical", None, None)
    assert (slot.restart_lsn, slot.kept_bytes, slot.wal_status) == (None, None, None)
    temporary = f"{name}_t"
    postgres.create_slot(sql, temporary, temporary=True)
    assert one(sql, temporary).temporary
    assert one(sql, temporary).active_pid == sql.info.backend_pid
    postgres.drop_slot(sql, temporary)


def lose(sql: Connection, name: str) -> None:
    """Writes WAL until the slot has lost some of it."""
    sql.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    sql.execute("SELECT pg_reload_conf()")
    try:
        for _ in range(20):
            sql.execute("SELECT pg_switch_wal(), pg_logical_emit_message(false,'','')")
            sql.execute("CHECKPOINT")
            if one(sql, name).wal_status == "lost":
                return
        pytest.fail("the slot is still there")
    finally:
        sql.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
        sql.execute("SELECT pg_reload_conf()")


def test_a_lost_slot_says_why(
    server: EmbeddedServer, sql: Connection, name: str
) -> None:
    postgres.create_slot(sql, name)
    lose(sql, name)
    slot = one(sql, name)
    assert (slot.wal_status, slot.safe_wal_size) == ("lost", None)
    assert slot.invalidation_reason == ("wal_removed" if server.major >= 17 else None)


def test_slots_can_be_read_in_any_state_of_a_connection(
    server: EmbeddedServer, sql: Connection, name: str
) -> None:
    postgres.create_slot(sql, name)
    sql.execute("CREATE ROLE plain LOGIN")
    try:
        for options in (
            {"replication": "database"},
            {"user": "plain"},
            {"options": "-c search_path=nowhere -c timezone=Asia/Kathmandu"},
            {"row_factory": psycopg.rows.dict_row},
        ):
            with psycopg.connect(server.dsn, **options) as conn:
                assert one(conn, name).plugin == "pgoutput"
                assert conn.info.transaction_status is pq.TransactionStatus.IDLE
    finally:
        sql.execute("DROP ROLE plain")


@contextlib.contextmanager
def writing(server: EmbeddedServer, **options: Any) -> Iterator[Connection]:
    """A transaction that has written, so that no slot can be created."""
    with psycopg.connect(server.dsn, **options) as conn:
        conn.execute("SELECT pg_current_xact_id()")
        # A subtransaction is not another transaction.
        conn.execute("SAVEPOINT a")
        conn.execute("CREATE TABLE never (id int)")
        yield conn
        conn.rollback()


def waiting_of(
    conn: Connection, name: str, found: Callable[[postgres.Waiting], bool]
) -> postgres.Waiting:
    """Creates a slot until its report is the expected one."""
    reports = []

    def report(waiting: postgres.Waiting) -> None:
        reports.append(waiting)
        if found(waiting) or len(reports) > 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        postgres.create_slot(conn, name, progress=report)
    assert found(reports[-1])
    return reports[-1]


def test_creation_names_the_transactions_that_it_waits_for(
    server: EmbeddedServer, sql: Connection, name: str
) -> None:
    sql.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
    with (
        writing(server, application_name="nightly job") as writer,
        psycopg.connect(server.dsn_of(name), autocommit=True) as other,
        psycopg.connect(server.dsn, replication="database", autocommit=True) as conn,
    ):
        other.execute("BEGIN")
        other.execute("SELECT pg_current_xact_id()")
        other.execute("PREPARE TRANSACTION 'it''s open'")
        try:
            waiting = waiting_of(conn, name, lambda it: bool(it.transactions))
        finally:
            other.execute("ROLLBACK PREPARED 'it''s open'")
        assert 2 < waiting.seconds < 60
        assert not waiting.standby
        assert waiting.transactions is not None
        session, prepared = waiting.transactions
        assert session.pid == writer.info.backend_pid
        assert session.application == "nightly job"
        assert (session.user, session.database) == ("postgres", "postgres")
        assert (session.state, session.gid) == ("idle in transaction", None)
        assert (prepared.pid, prepared.gid) == (None, "it's open")
        assert (prepared.user, prepared.database) == ("postgres", name)
        for each in (session, prepared):
            assert each.since is not None
            assert each.since.tzinfo is not None
        text = str(waiting)
        assert "\n" not in text
        assert f"process {writer.info.backend_pid} of postgres" in text
        assert "application nightly job, idle in transaction since 20" in text
        assert "prepared transaction 'it's open' of postgres in database" in text
        # It reports only what is still open.
        writer.rollback()
        postgres.create_slot(conn, name)
    sql.execute(f"DROP DATABASE {name}".encode())


def test_what_a_role_may_not_see_is_left_out(
    server: EmbeddedServer, sql: Connection, name: str
) -> None:
    sql.execute("CREATE ROLE plain LOGIN REPLICATION")
    try:
        with (
            writing(server, application_name="nightly job") as writer,
            psycopg.connect(server.dsn, user="plain", autocommit=True) as conn,
        ):
            waiting = waiting_of(conn, name, lambda it: bool(it.transactions))
            assert waiting.transactions is not None
            (session,) = waiting.transactions
            assert session.pid == writer.info.backend_pid
            assert session.application == "nightly job"
            assert (session.state, session.since) == (None, None)
            assert f"process {session.pid} of postgres" in str(waiting)
    finally:
        sql.execute("DROP ROLE plain")


def test_without_a_second_connection_the_report_says_less(
    server: EmbeddedServer, sql: Connection, name: str
) -> None:
    sql.execute("CREATE ROLE plain LOGIN REPLICATION CONNECTION LIMIT 1")
    try:
        with (
            writing(server),
            psycopg.connect(server.dsn, user="plain", autocommit=True) as conn,
        ):
            waiting = waiting_of(conn, name, lambda it: it.transactions is None)
            assert "for transactions that write" in str(waiting)
    finally:
        sql.execute("DROP ROLE plain")


def test_command_line_waits_longer_than_the_lock_timeout(
    server: EmbeddedServer, sql: Connection, name: str
) -> None:
    dsn = f"{server.dsn} options='-c lock_timeout=200ms'"
    with writing(server) as writer:
        ends = threading.Timer(2, writer.rollback)
        ends.start()
        done = run_walrow("slot", "create", name, "--dsn", dsn)
        ends.join()
    assert (done.returncode, done.stderr) == (0, "")
    postgres.drop_slot(sql, name)


def test_command_line_creates_lists_and_drops(
    server: EmbeddedServer, sql: Connection, name: str
) -> None:
    dsn = ("--dsn", server.dsn)
    done = run_walrow("slot", "create", name, *dsn)
    slot = one(sql, name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"created slot {name} at {slot.confirmed_flush}\n"

    done = run_walrow("slot", "list", *dsn)
    assert (done.returncode, done.stderr) == (0, "")
    heads, *lines = done.stdout.splitlines()
    assert heads.split()[:4] == ["slot", "plugin", "database", "status"]
    (line,) = [line for line in lines if line.startswith(name)]
    assert line.split()[1:4] == ["pgoutput", "postgres", "reserved"]
    assert re.search(r"\d+ (bytes|kB|MB)  .*nobody", line)

    done = run_walrow("slot", "list", "--json", *dsn)
    (record,) = [
        it for it in map(json.loads, done.stdout.splitlines()) if it["name"] == name
    ]
    assert record.keys() == set(postgres.Slot.__match_args__)
    assert record["confirmed_flush"] == str(slot.confirmed_flush)
    assert isinstance(record["kept_bytes"], int)
    if server.major >= 17:
        assert dt.datetime.fromisoformat(record["inactive_since"]).tzinfo

    done = run_walrow("slot", "create", name, *dsn)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f'walrow: cannot create slot "{name}": ')
    assert "use another name" in done.stderr
    done = run_walrow("slot", "drop", name, *dsn, "--wait")
    assert (done.returncode, done.stdout) == (0, f"dropped slot {name}\n")
    done = run_walrow("slot", "drop", name, *dsn)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "walrow slot list shows the slots that exist" in done.stderr
    options = ("--two-phase", "--json")
    done = run_walrow("slot", "create", name, *dsn, *options)
    if server.major < 15:
        assert done.returncode == 2
        assert "needs PostgreSQL 15 or later, the server has 14" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "name": name,
        "consistent_point": str(one(sql, name).confirmed_flush),
        "snapshot": None,
        "plugin": "pgoutput",
    }
    assert one(sql, name).two_phase


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_line_reports_the_wait_and_cancels(
    server: EmbeddedServer, sql: Connection, name: str, number: signal.Signals
) -> None:
    pytest.importorskip("click")
    pytest.importorskip("rich")
    arguments = [sys.executable, "-m", "walrow", "slot", "create", name, "--dsn"]
    with (
        writing(server, application_name="nightly job"),
        subprocess.Popen(  # noqa: S603
            [*arguments, server.dsn], stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("walrow: waiting for 3 s for transactions to end: proc")
        assert "application nightly job" in line
        start = time.monotonic()
        process.send_signal(number)
        assert process.wait(30) == 128 + number
        assert time.monotonic() - start < 10
        assert "Traceback" not in process.stderr.read()
    assert name not in [slot.name for slot in postgres.slots(sql)]
    # The creation does not go on in the server.
    time.sleep(0.2)
    assert name not in [slot.name for slot in postgres.slots(sql)]
