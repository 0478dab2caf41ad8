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
from servers.receiving import (
    Feed,
    end_of_wal,
    execute,
    until,
)
from walrow._postgres.locks import _Asking

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

QUICK = ("--publish-after", "0.5")


@pytest.fixture
def feed(feed: Feed) -> Feed:
    if feed.server.major < 15:
        pytest.skip("the catalog of 14 is read without a lock")
    feed.execute("DROP TABLE IF EXISTS moods", "DROP DOMAIN IF EXISTS positive")
    return feed


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


def has_note(state: dict[str, Any], text: str) -> bool:
    """Whether a state's note has this text."""
    return state["state"] == "streaming" and text in (state["note"] or "")


def test_a_lock_on_a_table_does_not_stop_the_stream(feed: Feed) -> None:
    insert = "INSERT INTO moods SELECT count(*), 7 FROM moods"
    with feed.receiver(*QUICK) as receiver:
        receiver.until_streaming()
        feed.execute(
            "CREATE DOMAIN positive AS int",
            "CREATE TABLE moods (id int PRIMARY KEY, d positive)",
            "ALTER PUBLICATION p ADD TABLE moods",
        )
        with locked(feed.server, "item") as process:
            for row in (1, 2):
                before = walrow.Lsn(end_of_wal(feed.dsn))
                feed.execute(insert)
                until_visible(feed.log, "public.moods", row, 2.5)
                assert feed.confirmed() > before
            assert "moods" not in described(feed.log)
            holder = f"a lock on public.item that process {process} of the server (holder) has"
            state = receiver.until(lambda state: has_note(state, "the catalog"))
            assert holder in state["note"]
        until(lambda: "moods" in described(feed.log), 20)
        feed.execute(insert)
        receiver.until(lambda state: state["note"] is None)
        until_visible(feed.log, "public.moods", 3)
        assert receiver.stop() < 2
    # Also those that were published before.
    with walrow.read(feed.log, tables=["public.moods"]) as reader:
        batches = [pa.record_batch(batch) for batch in reader]
    assert [it for batch in batches for it in batch["d"].to_pylist()] == [7, 7, 7]


@pytest.mark.slow
def test_a_command_that_waits_behind_a_transaction_does_not_stop_the_stream(
    feed: Feed,
) -> None:
    """Nothing has the lock then: the note names what it waits for."""
    dsn = feed.dsn
    with feed.receiver(*QUICK, dsn=dsn) as receiver:
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
            until_visible(feed.log, "public.moods", 1, 2.5)
            name = f"process {idle.info.backend_pid} of the server (idle) has"
            receiver.until(lambda state: has_note(state, name))
        alter.join()
        until(lambda: "moods" in described(feed.log), 20)


@pytest.mark.slow
def test_receiver_starts_and_stops_while_a_table_is_locked(feed: Feed) -> None:
    with locked(feed.server, "item") as process:
        feed.execute("INSERT INTO audit (item) VALUES (1)")
        with feed.receiver("--publish-after", "60") as receiver:
            feed.until_all(receiver)
            name = f"public.item that process {process} of the server (holder) has"
            state = receiver.until(lambda state: has_note(state, name))
            assert "the catalog cannot be read" in state["note"]
            notes = [state["note"] or "" for state in receiver.states]
            checked = (
                "published tables cannot be checked: the check has waited for a lock"
            )
            assert any(f"{checked} on {name}" in note for note in notes)
            feed.execute("INSERT INTO audit (item) VALUES (2)")
            feed.until_all(receiver)
            assert receiver.stop() < 2
        assert rows_of(feed.log, "public.audit") == 2
    feed.receive_all()
    assert described(feed.log) == {"audit", "item", "wide"}


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
