"""`walrow receive` while somebody has a lock on a published table."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import walrow
from servers import EmbeddedServer
from servers.loads import until
from servers.receiving import (
    ReceiverProcess,
    end_of_wal,
    execute,
    receive_all,
    slot_for_load,
)
from walrow._postgres.locks import _Asking

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

QUICK = ("--publish-after", "0.5")


@pytest.fixture
def slot(server: EmbeddedServer) -> Iterator[str]:
    if server.major < 15:
        pytest.skip("the catalog of 14 is read without a lock")
    execute(server.dsn, "DROP TABLE IF EXISTS moods", "DROP DOMAIN IF EXISTS positive")
    with slot_for_load(server) as name:
        yield name


@contextlib.contextmanager
def locked(server: EmbeddedServer, table: str) -> Iterator[int]:
    """Has a lock on a table, and yields the process of the server that has it."""
    with psycopg.connect(server.dsn, application_name="holder") as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        yield connection.info.backend_pid


def rows_of(log: Path, table: str) -> int:
    """The rows of a table that readers see."""
    with contextlib.suppress(walrow.errors.LogError):
        return {it.name: it.rows for it in walrow.Log(log).tables()}.get(table, 0)
    return 0


def until_visible(log: Path, table: str, rows: int, timeout: float = 20) -> None:
    """Waits until readers see all rows of a table."""
    until(lambda: rows_of(log, table) == rows, timeout)


def described(log: Path) -> set[str]:
    """The tables that the catalog of a log describes."""
    catalog = json.loads((log / "_catalog").read_bytes()[8:])
    return {table["name"] for table in catalog["tables"]}


def confirmed(server: EmbeddedServer, slot: str) -> walrow.Lsn:
    """What is confirmed to the server."""
    query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name"
    ((lsn,),) = execute(server.dsn, f"{query} = '{slot}'")
    return walrow.Lsn(lsn)


def has_note(state: dict[str, Any], text: str) -> bool:
    """Whether a state's note has this text."""
    return state["state"] == "streaming" and text in (state["note"] or "")


def test_a_lock_on_a_table_does_not_stop_the_stream(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    insert = "INSERT INTO moods SELECT count(*), 7 FROM moods"
    with ReceiverProcess(server.dsn, log, *QUICK, slot=slot) as receiver:
        receiver.until_streaming()
        execute(
            server.dsn,
            "CREATE DOMAIN positive AS int",
            "CREATE TABLE moods (id int PRIMARY KEY, d positive)",
            "ALTER PUBLICATION p ADD TABLE moods",
        )
        with locked(server, "item") as process:
            for row in (1, 2):
                before = walrow.Lsn(end_of_wal(server.dsn))
                execute(server.dsn, insert)
                until_visible(log, "public.moods", row, 2.5)
                assert confirmed(server, slot) > before
            assert "moods" not in described(log)
            holder = f"a lock on public.item that process {process} of the server (holder) has"
            state = receiver.until(lambda state: has_note(state, "the catalog"))
            assert holder in state["note"]
        until(lambda: "moods" in described(log), 20)
        execute(server.dsn, insert)
        receiver.until(lambda state: state["note"] is None)
        until_visible(log, "public.moods", 3)
        assert receiver.stop() < 2
    # Also those that were published before.
    with walrow.read(log, tables=["public.moods"]) as reader:
        batches = [pa.record_batch(batch) for batch in reader]
    assert [it for batch in batches for it in batch["d"].to_pylist()] == [7, 7, 7]


@pytest.mark.slow
def test_a_command_that_waits_behind_a_transaction_does_not_stop_the_stream(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """Nothing has the lock then: the note names what it waits for."""
    log = tmp_path / "log"
    dsn = server.dsn
    with ReceiverProcess(dsn, log, *QUICK, slot=slot) as receiver:
        receiver.until_streaming()
        execute(
            dsn,
            "CREATE TABLE moods (id int PRIMARY KEY)",
            "ALTER PUBLICATION p ADD TABLE moods",
        )
        with psycopg.connect(dsn, application_name="idle") as idle:
            idle.execute("SELECT FROM item")
            alter = threading.Thread(
                target=execute, args=(dsn, "ALTER TABLE item ADD z int")
            )
            alter.start()
            until(
                lambda: execute(dsn, "SELECT pid FROM pg_locks WHERE NOT granted"), 20
            )
            execute(dsn, "INSERT INTO moods VALUES (1)")
            until_visible(log, "public.moods", 1, 2.5)
            name = f"process {idle.info.backend_pid} of the server (idle) has"
            receiver.until(lambda state: has_note(state, name))
        alter.join()
        until(lambda: "moods" in described(log), 20)


@pytest.mark.slow
def test_receiver_starts_and_stops_while_a_table_is_locked(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with locked(server, "item") as process:
        execute(server.dsn, "INSERT INTO audit (item) VALUES (1)")
        with ReceiverProcess(
            server.dsn, log, "--publish-after", "60", slot=slot
        ) as receiver:
            receiver.until_streaming(after=end_of_wal(server.dsn))
            name = f"public.item that process {process} of the server (holder) has"
            state = receiver.until(lambda state: has_note(state, name))
            assert "the catalog cannot be read" in state["note"]
            notes = [state["note"] or "" for state in receiver.states]
            checked = (
                "published tables cannot be checked: the check has waited for a lock"
            )
            assert any(f"{checked} on {name}" in note for note in notes)
            execute(server.dsn, "INSERT INTO audit (item) VALUES (2)")
            receiver.until_streaming(after=end_of_wal(server.dsn))
            assert receiver.stop() < 2
        assert rows_of(log, "public.audit") == 2
    receive_all(server.dsn, log, slot=slot)
    assert described(log) == {"audit", "item", "wide"}


def test_who_has_a_lock_is_not_waited_for() -> None:
    """A server that accepts a connection and does not answer must not delay its caller."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        asking = _Asking(1, {"host": "127.0.0.1", "port": port, "dbname": "d"})
        with asking:
            silent.settimeout(10)
            # It has begun to ask, a second later.
            connection, _ = silent.accept()
            begin = time.monotonic()
        assert time.monotonic() - begin < 0.5
        assert asking.found() == ""
        assert time.monotonic() - begin < 3
        connection.close()
