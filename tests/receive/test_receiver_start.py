"""`walrow receive` whose server is away, starts, or refuses at the start."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import ReceiverProcess, check_log, execute
from walrow.log import Received, Status

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.fixture(
    params=[
        pytest.param(18, id="embedded-18"),
        pytest.param(16, id="embedded-16"),
    ]
)
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    settings = {"max_connections": "8", "superuser_reserved_connections": "0"}
    with EmbeddedServer(
        request.param, logical_decoding_work_mem="64kB", settings=settings
    ) as running:
        execute(
            running.dsn,
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            "CREATE PUBLICATION p FOR ALL TABLES",
        )
        yield running


def receive(dsn: str, log: Path, **options: Any) -> Received:
    given = {"publications": "p", "until": "now", "publish_after": 0.1, **options}
    return walrow.receive(dsn, log=log, slot="s", **given)


def test_a_server_that_comes_later(server: EmbeddedServer, tmp_path: Path) -> None:
    """It is away, or it has no connection left."""
    log = tmp_path / "log"
    receive(server.dsn, log, create=True)
    server.shut_down("fast")
    later = threading.Timer(1.5, server.start)
    later.start()
    notes: list[Status] = []
    receive(server.dsn, log, progress=notes.append)
    later.join()
    assert any(it.state == "connecting" and it.note for it in notes)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(psycopg.OperationalError):
            for _ in range(20):
                stack.enter_context(psycopg.connect(server.dsn))
        later = threading.Timer(1.5, stack.pop_all().close)
        later.start()
        receive(server.dsn, log)
        later.join()


def test_a_server_that_does_not_come(tmp_path: Path) -> None:
    notes: list[str] = []

    def status(found: Status) -> None:
        notes.extend([found.note] if found.note else [])

    for dsn, text in (
        (f"host={tmp_path} dbname=postgres", "No such file"),
        ("host=nowhere.invalid dbname=postgres", "resolve host"),
        ("host=127.0.0.1 port=1 dbname=postgres", "refused"),
    ):
        began = time.monotonic()
        with pytest.raises(walrow.errors.ReplicationError, match=text):
            receive(dsn, tmp_path / "log", start_within=1, progress=status)
        assert 1 <= time.monotonic() - began < 20
        assert notes[-1] == "no server was reached within 1 s"
    # A stop ends the wait.
    stop = threading.Event()
    threading.Timer(1, stop.set).start()
    began = time.monotonic()
    receive(f"host={tmp_path}", tmp_path / "log", until=None, stop=stop)
    assert time.monotonic() - began < 5


def test_a_server_that_refuses_ends_it_at_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    for options in ("dbname=nowhere", "sslmode=bogus", "user=nobody"):
        began = time.monotonic()
        with ReceiverProcess(
            f"{server.dsn} {options}", tmp_path / "log", slot="s"
        ) as it:
            code, text = it.wait(20)
        assert (code, time.monotonic() - began < 10) == (1, True), text


def test_a_transaction_that_postgresql_cannot_stream(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """It makes a table, truncates it after a savepoint, and rolls that back."""
    log = tmp_path / "log"
    receive(server.dsn, log, create=True)
    rows = "INSERT INTO z SELECT g, repeat('x', 100) FROM generate_series({}, {}) g"
    execute(
        server.dsn,
        "BEGIN",
        "CREATE TABLE z (id int PRIMARY KEY, v text)",
        rows.format(1, 3_000),
        "SAVEPOINT a",
        "TRUNCATE z",
        rows.format(10_000, 13_000),
        "ROLLBACK TO a",
        rows.format(20_000, 23_000),
        "DROP TABLE z",
        "COMMIT",
        "INSERT INTO t VALUES (1, 'later')",
    )
    notes: list[str] = []

    def status(found: Status) -> None:
        notes.extend([found.note] if found.note else [])

    receive(server.dsn, log, progress=status)
    said = [it for it in dict.fromkeys(notes) if "large transactions come" in it]
    assert len(said) == 1
    assert "XX000" in said[0]
    check_log(server.dsn, log, ("t",))
    # Without streaming, it receives at once.
    execute(server.dsn, "INSERT INTO t VALUES (2, 'x')")
    assert receive(server.dsn, log, streaming=False).rows == 1
