"""Keeps a SQLite table as a table of a live server is, with kills at any statement."""

from __future__ import annotations

import contextlib
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("psycopg")

import walrow
from servers import EmbeddedServer
from servers.live_log import History, history
from sqlite_target import apply, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

ROOT = Path(__file__).resolve().parent.parent.parent
TABLE = "public.orders"
#: Runs the example, and kills it before one of its statements. SIGKILL leaves no time for anything.
KILLED = """
import os, signal, sqlite3, sys
import sqlite_target

left = int(sys.argv.pop(1))
connect = sqlite3.connect

def counting(*arguments, **options):
    def trace(_statement):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
    database = connect(*arguments, **options)
    database.set_trace_callback(trace)
    return database

sqlite3.connect = counting
sqlite_target.main()
"""
#: Statements of each round: large values that are not sent, keys in chains and swaps.
ROUNDS = {
    "insert": [
        "INSERT INTO orders SELECT g, g % 3, repeat('x', 3000), '' FROM generate_series(1, 9) g",
        "UPDATE orders SET body = repeat('y', 3000), note = NULL WHERE id % 2 = 0",
    ],
    "unsent": ["UPDATE orders SET n = 10 + n WHERE id < 6"],
    "move": [
        "UPDATE orders SET id = 20 WHERE id = 2",
        "DELETE FROM orders WHERE id = 9",
    ],
    "swap": [
        "BEGIN",
        "UPDATE orders SET id = -1 WHERE id = 3",
        "UPDATE orders SET id = 3 WHERE id = 4",
        "UPDATE orders SET id = 4, n = 7 WHERE id = -1",
        "COMMIT",
    ],
    "chain": [
        "UPDATE orders SET id = 30 WHERE id = 5",
        "UPDATE orders SET id = 5 WHERE id = 6",
        "UPDATE orders SET id = 6, body = repeat('z', 3000) WHERE id = 7",
    ],
    "column": [
        'ALTER TABLE orders ADD COLUMN "more names" int',
        "INSERT INTO orders VALUES (7, 0, 'short', '', 1)",
        "UPDATE orders SET n = 0 WHERE id = 20",
    ],
    "nothing": ["INSERT INTO tick VALUES (1)"],
    "truncate": [
        "TRUNCATE orders",
        "INSERT INTO orders VALUES (1, 1, repeat('w', 3000), NULL, 2), (2, 2, 'v', NULL, 3)",
    ],
    "load": ["UPDATE orders SET id = 3, n = 5 WHERE id = 1"],
    "after": ["UPDATE orders SET n = 6", "UPDATE orders SET id = id + 100"],
}


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        yield server


@pytest.fixture
def source(server: EmbeddedServer, tmp_path: Path) -> Iterator[History]:
    with history(server, tmp_path / "log") as source:
        source.sql(
            "CREATE TABLE orders (id int PRIMARY KEY, n int, body text, note text)",
            "ALTER TABLE orders ALTER body SET STORAGE EXTERNAL",
        )
        yield source


def applied(database: Path) -> int:
    """Up to where the target has everything."""
    with contextlib.closing(sqlite3.connect(database)) as db:
        has_any = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'applied'")
        if has_any.fetchone() is None:
            return 0
        [[found]] = db.execute("SELECT ifnull(max(lsn), 0) FROM applied")
        return int(found)


def rows(database: Path, columns: list[str]) -> list[tuple[Any, ...]]:
    """The rows of the target."""
    with contextlib.closing(sqlite3.connect(database)) as db:
        names = quoted(*columns)
        return sorted(db.execute(f'SELECT {names} FROM "{TABLE}"'))  # noqa: S608


def test_kills_at_any_statement_change_nothing(source: History, tmp_path: Path) -> None:
    database = tmp_path / "orders.db"
    choices = random.Random(7)  # noqa: S311
    killed = end = 0
    before: tuple[list[str], list[Any]] | None = None
    for name, statements in ROUNDS.items():
        source.sql(*statements)
        if name == "load":
            source.load("orders")
        log = walrow.Log(source.take().path)
        for left in (choices.randrange(2, 12), choices.randrange(12, 30)):
            command = [sys.executable, "-c", KILLED, str(left), str(log.path), TABLE]
            done = subprocess.run(  # noqa: S603
                [*command, str(database)],
                check=False,
                capture_output=True,
                cwd=ROOT / "examples",
                text=True,
            )
            assert done.returncode in (0, -signal.SIGKILL), done.stderr
            killed += done.returncode != 0
            found = applied(database)
            assert found == (log.end if done.returncode == 0 else end)
            if found != end:
                break
            if before is not None:
                assert rows(database, before[0]) == before[1]
        with contextlib.closing(connect(database)) as db:
            assert apply(log, TABLE, db) == log.end
        cursor = source.conn.execute("SELECT * FROM orders LIMIT 0")
        columns = [column.name for column in cursor.description or ()]
        expected = sorted(source.texts("orders", columns).elements())
        assert rows(database, columns) == expected, name
        before, end = (columns, expected), log.end
    assert killed >= len(ROUNDS)


def connect(database: Path) -> sqlite3.Connection:
    """Connects as the example does."""
    return sqlite3.connect(database, isolation_level=None)
