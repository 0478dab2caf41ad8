"""Logs with loads of the tables of `Load`."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import (
    ReceiverProcess,
)

QUICK = ("--publish-after", "0.3", "--segment-size", "1MiB")
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


def receive_rest(server: EmbeddedServer, log: Path, slot: str, *arguments: str) -> None:
    """Receives everything that is committed now."""
    arguments = arguments or QUICK
    with ReceiverProcess(
        server.dsn, log, *arguments, "--until", "now", slot=slot
    ) as receiver:
        code, text = receiver.wait()
        assert code == 0, text


@contextlib.contextmanager
def receiving(
    server: EmbeddedServer,
    log: Path,
    slot: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    binary: bool = False,
) -> Iterator[None]:
    """A receiver in a thread, which looks often at what is published."""
    monkeypatch.setattr("walrow._receive.completeness._LOOK_SECONDS", 0.2)
    stop = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            walrow.receive(
                server.dsn,
                log=log,
                slot=slot,
                publications="p",
                create=True,
                snapshot=True,
                binary=binary,
                publish_after=0.2,
                stop=stop,
            )
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
        assert not failures, failures


def until(is_so: Callable[[], object], timeout: float = 30) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + timeout
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def until_loaded(log: Path) -> None:
    """Waits until readers see the first load."""
    until(lambda: (log / "_open").exists() and bool(walrow.Log(log).tables()))


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
