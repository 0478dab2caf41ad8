"""Logs with loads of the tables of `Load`."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import QUICK, Feed, until

FIRST = (*QUICK, "--create", "--snapshot")


def loads(log: Path) -> dict[str, walrow.Lsn | None]:
    """The tables of a log, and where their last loads end."""
    return {table.name: table.loaded for table in walrow.Log(log).tables()}


def needed(log: Path) -> dict[str, str]:
    """The tables that need a load, and why."""
    tables = walrow.Log(log).tables()
    return {it.name: it.needs_load for it in tables if it.needs_load is not None}


def transactions(log: Path) -> list[dict[str, object]]:
    """The transactions of a log."""
    batches = walrow.read(log, table="walrow.transactions")
    return [row for batch in batches for row in pa.record_batch(batch).to_pylist()]


def is_loaded(state: dict[str, object]) -> bool:
    """Whether no load runs."""
    return state["state"] == "streaming" and state["load"] is None


@contextlib.contextmanager
def receiving(
    feed: Feed, monkeypatch: pytest.MonkeyPatch, *, binary: bool = False
) -> Iterator[None]:
    """A receiver in a thread, which looks often at what is published."""
    monkeypatch.setattr("walrow._receive.completeness._LOOK_SECONDS", 0.2)
    with feed.receiving(create=True, snapshot=True, binary=binary) as receiver:
        yield
    assert receiver.failure is None, receiver.failure


def until_loaded(log: Path) -> None:
    """Waits until readers see the first load, and the receiver has looked at its tables."""
    until(lambda: (log / "_open").exists() and bool(walrow.Log(log).tables()))
    until((log / "_load-needed").exists)


def until_copying(server: EmbeddedServer, table: str) -> int:
    """Waits for the COPY of a table. Returns its process."""
    query = (
        "SELECT pid FROM pg_stat_activity WHERE state = 'active'"  # noqa: S608
        f" AND query LIKE 'COPY%{table}%' AND pid <> pg_backend_pid()"
    )
    deadline = time.monotonic() + 30
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        while (row := connection.execute(query.encode()).fetchone()) is None:
            assert time.monotonic() < deadline
    return int(row[0])


@contextlib.contextmanager
def stopped(process: int) -> Iterator[int]:
    """A process of the server does nothing meanwhile."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
