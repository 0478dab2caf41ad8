"""Keeps a SQLite table as a table of a live server is, in Python and in Rust, with kills."""

from __future__ import annotations

import contextlib
import json
import os
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
from servers.receiving import fault_library
from sqlite_target import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # Its command, and its environment. With a number, it is killed there.
    Program = Callable[[int | None], tuple[list[str], dict[str, str]]]

# The Rust program may have to be built.
pytestmark = [pytest.mark.live, pytest.mark.builds, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parent.parent.parent
TABLE = "public.orders"
#: How often the Python program is killed in each round.
KILLS = 8 if os.environ.get("WALROW_SLOW") else 1
#: The Rust program is killed at each of these operations. A transaction has five: SQLite syncs the
#: journal, its directory, the journal and the database, and then unlinks the journal, which commits.
#: So a second transaction would be killed, too.
OPERATIONS = range(1, 8)
#: Runs the example, and kills it before one of its statements. SIGKILL leaves no time for anything.
COUNTED = """
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


def in_python(at: int | None) -> tuple[list[str], dict[str, str]]:
    """The Python program, which is killed at one of its statements."""
    if at is None:
        return [sys.executable, str(ROOT / "examples/sqlite_target.py")], {}
    return [sys.executable, "-c", COUNTED, str(at)], {}


def in_rust(at: int | None) -> tuple[list[str], dict[str, str]]:
    """The Rust program, which is killed at one of its operations on files of the target."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    command = [str(target / "debug/examples/sqlite_target")]
    if at is None:
        return command, {}
    return command, {"LD_PRELOAD": str(fault_library()), "CRASH_AT": str(at)}


def build() -> None:
    """Builds the Rust program, with what test-rust has built: test_examples.py says how."""
    command = [
        *("cargo", "build", "--quiet", "--locked", "--workspace"),
        *("--profile", "test", "--example", "sqlite_target"),
    ]
    subprocess.run(command, check=True, cwd=ROOT)  # noqa: S603


def applied(database: Path) -> int:
    """Up to where the target has everything."""
    with contextlib.closing(sqlite3.connect(database)) as db:
        has_any = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'applied'")
        if has_any.fetchone() is None:
            return 0
        [[found]] = db.execute("SELECT max(checkpoint) FROM applied")
        return 0 if found is None else int(walrow.Lsn(json.loads(found)["end"]))


def rows(database: Path, columns: list[str]) -> list[tuple[Any, ...]]:
    """The rows of the target."""
    with contextlib.closing(sqlite3.connect(database)) as db:
        names = quoted(*columns)
        return sorted(db.execute(f'SELECT {names} FROM "{TABLE}"'))  # noqa: S608


@pytest.mark.parametrize("program", [in_python, in_rust])
def test_kills_at_any_time_change_nothing(
    source: History, tmp_path: Path, program: Program
) -> None:
    if program is in_rust:
        build()
    database = tmp_path / "target" / "orders.db"
    database.parent.mkdir()
    choices = random.Random(7)  # noqa: S311
    killed = found = 0
    states: dict[int, tuple[list[str], list[Any]]] = {}
    for name, statements in ROUNDS.items():
        source.sql(*statements)
        if name == "load":
            source.load("orders")
        log = walrow.Log(source.take().path)
        cursor = source.conn.execute("SELECT * FROM orders LIMIT 0")
        columns = [column.name for column in cursor.description or ()]
        states[log.end] = columns, sorted(source.texts("orders", columns).elements())
        in_statements = choices.sample(range(2, 30), KILLS)
        for at in [*(in_statements if program is in_python else OPERATIONS), None]:
            command, environment = program(at)
            added = {"FAULT_DIRECTORY": str(database.parent), **environment}
            done = subprocess.run(  # noqa: S603
                [*command, str(log.path), TABLE, str(database)],
                check=False,
                capture_output=True,
                cwd=ROOT / "examples",
                env=os.environ | added,
                text=True,
            )
            is_killed = at is not None and done.returncode == -signal.SIGKILL
            killed += is_killed
            was, found = found, applied(database)
            if is_killed:
                assert found == was
            else:
                assert (done.returncode, done.stderr) == (0, "")
                assert done.stdout == f"up to {log.end}\n"
                assert found == log.end
            if found:
                names, expected = states[found]
                assert rows(database, names) == expected, name
    assert killed > len(ROUNDS) // 2
