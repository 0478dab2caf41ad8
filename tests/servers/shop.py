"""A database, the file of `walrow run` for it, and its processes."""

# ruff: noqa: S608  (the tests make their own statements)

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import deltalake
import psycopg
import pyarrow as pa

import walrow
from servers.embedded import EmbeddedServer
from servers.receiving import drop_if_there, execute, until
from walrow._run.status import status_of


@contextlib.contextmanager
def opened_shop(
    server: EmbeddedServer, folder: Path, *statements: str
) -> Iterator[Shop]:
    """A shop with a table `sales.orders`, after more statements, in a database of its own."""
    with server.database("run") as name:
        made = Shop(server.dsn_of(name), folder, f"run_{time.monotonic_ns()}")
        made.sql(
            "CREATE SCHEMA sales",
            "CREATE TABLE sales.orders (id int PRIMARY KEY, n int)",
            "INSERT INTO sales.orders SELECT g, g FROM generate_series(1, 50) g",
            *statements,
        )
        yield made
        drop_if_there(made.dsn, made.slot)


class Shop:
    """A database with a publication, and a file for it.

    Attributes:
        file: The file.
        log: The log.
        dsn: The database.
    """

    def __init__(self, dsn: str, folder: Path, slot: str) -> None:
        self.dsn = dsn
        self.folder = folder
        self.file = folder / "shop.toml"
        self.log = folder / "log"
        self.slot = slot
        self.write()

    def write(self, source: str = "", target: str = "") -> None:
        """Writes the file."""
        self.file.write_text(
            f'[source]\ndsn = "{self.dsn}"\nslot = "{self.slot}"\npublications = ["shop"]\n'
            f'create = true\n{source}\n[log]\npath = "log"\npublish_after = 0.2\n[[target]]\n'
            'tables = ["sales.*"]\nto = "delta:lake/{table}"\nevery = 0.2\n'
            f"{target}\n"
        )

    def sql(self, *statements: str) -> None:
        execute(self.dsn, *statements)

    def call(self, *words: str, env: dict[str, str] | None = None) -> tuple[int, str]:
        """Runs a command. Returns the exit code and all that it says."""
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "walrow", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            cwd="/",
            env={**os.environ, **(env or {})},
            timeout=120,
        )
        return done.returncode, done.stdout

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        path = self.folder / "lake" / table
        found = pa.table(deltalake.DeltaTable(path).scan()).to_pylist()
        return sorted(tuple(it.values()) for it in found)

    def wanted(self, table: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn) as conn:
            query = f"SELECT * FROM sales.{table}"
            return sorted(conn.execute(query.encode()).fetchall())

    def reasons(self) -> tuple[str, ...]:
        """The reasons of `walrow status --allow-stopped`. None before the log is there."""
        try:
            return status_of(self.log, allow_stopped=True).reasons
        except (walrow.errors.LogError, FileNotFoundError):
            return ()

    def is_current(self, *tables: str) -> bool:
        try:
            return all(self.rows(it) == self.wanted(it) for it in tables)
        except deltalake.exceptions.TableNotFoundError:
            return False

    def check_commits(self, table: str) -> None:
        """Each commit has changes that the commits before it did not have."""
        history = deltalake.DeltaTable(self.folder / "lake" / table).history()
        ends = [
            int(walrow.Lsn(json.loads(it["userMetadata"])["end"]))
            for it in reversed(history)
            if "userMetadata" in it
        ]
        assert ends
        assert ends == sorted(set(ends))


class Running:
    """`walrow run` in a process, as a context manager that ends it.

    Attributes:
        process: The process.
    """

    def __init__(self, shop: Shop, *words: str) -> None:
        self._shop = shop
        self._said = shop.folder / f"said-{time.monotonic_ns()}"
        with self._said.open("w") as file:
            self.process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "walrow", "run", str(shop.file), *words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd="/",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.process.kill()
        self.process.wait()
        until(lambda: not processes(self._shop))

    @property
    def said(self) -> str:
        return self._said.read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Stops it in order. Returns the seconds that it took."""
        begin = time.monotonic()
        self.process.send_signal(number)
        assert self.process.wait(30) == 0, self.said
        return time.monotonic() - begin


def processes(shop: Shop) -> dict[str, int]:
    """The processes that a parent has started for a file, by their command."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"--supervised" in words and str(shop.file).encode() in words:
            found[words[words.index(b"walrow") + 1].decode()] = int(entry.name)
    return found


def children(pid: int, name: str) -> list[int]:
    """The processes of this name that a process has started, or that one of those has."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            head, _, rest = (entry / "stat").read_text().rpartition(") ")
        except OSError:
            continue
        if int(rest.split()[1]) == pid:
            child = int(entry.name)
            found += (
                [child] if head.partition("(")[2] == name else children(child, name)
            )
    return found
