"""Receivers in processes of their own, a load for them, and what their log must have."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psycopg

import walrow
from reference.fold import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SOURCE = Path(__file__).with_name("crash.c")


@cache
def crash_library() -> Path:
    """The library that kills a process at an operation on its log. See crash.c."""
    directory = Path(tempfile.mkdtemp(prefix="walrow-crash-"))
    library = directory / "crash.so"
    compiler = os.environ.get("CC") or (sysconfig.get_config_var("CC") or "cc").split()[0]
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        subprocess.run(["cc", *command[1:]], check=True)
    return library


class ReceiverProcess:
    """`walrow receive` in a process of its own, as a context manager that kills it."""

    def __init__(
        self,
        dsn: str,
        log: Path,
        *arguments: str,
        slot: str = "s",
        publication: str = "p",
        crash_at: int | None = None,
    ) -> None:
        """Starts it. `crash_at` kills it at this operation on a file of the log."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if crash_at is not None:
            environment |= {
                "LD_PRELOAD": str(crash_library()),
                "CRASH_DIRECTORY": str(log),
                "CRASH_AT": str(crash_at),
            }
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "walrow", "receive", "--dsn", dsn),
                *("--log", str(log), "--slot", slot, "--publication", publication),
                *arguments,
            ],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.kill()

    def kill(self) -> None:
        """kill -9, and waits."""
        self.process.kill()
        self.process.communicate()

    def wait(self, timeout: float = 60) -> tuple[int, str]:
        """Waits for its end. Returns the exit code and stderr."""
        _, text = self.process.communicate(timeout=timeout)
        return self.process.returncode, text


def receive_all(dsn: str, log: Path, *arguments: str, slot: str = "s") -> None:
    """Receives everything that is committed now."""
    code, text = ReceiverProcess(dsn, log, "--until-now", *arguments, slot=slot).wait()
    assert code == 0, text


class Load:
    """Transactions of every kind on a few tables, in a thread, as a context manager."""

    TABLES = ("item", "audit", "wide")
    SETUP = """
        CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL, label text);
        CREATE TABLE audit (at timestamptz DEFAULT now(), item int, what text);
        CREATE TABLE wide (id int PRIMARY KEY, body text);
        ALTER TABLE wide ALTER body SET STORAGE EXTERNAL;
        ALTER TABLE wide REPLICA IDENTITY FULL;
    """

    def __init__(self, dsn: str, seed: int, *, pause: float = 0.002) -> None:
        """Prepares the load."""
        self._dsn = dsn
        self._random = random.Random(seed)
        self._pause = pause
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self.transactions = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        # A server may be killed meanwhile.
        while not self._stop.is_set():
            with contextlib.suppress(psycopg.OperationalError):
                try:
                    self._session()
                except psycopg.OperationalError:
                    self._stop.wait(0.1)
                except BaseException as error:  # noqa: BLE001
                    self._failure = error
                    return

    def _session(self) -> None:
        kinds = [self._small] * 12 + [self._savepoints] * 6 + [self._large, self._other]
        with psycopg.connect(self._dsn) as connection:
            while not self._stop.wait(self._pause):
                with contextlib.suppress(_RollBack), connection.transaction():
                    self._random.choice(kinds)(connection)
                self.transactions += 1

    def _small(self, connection: psycopg.Connection[Any]) -> None:
        for _ in range(self._random.randint(1, 3)):
            self._change(connection)
        if self._random.random() < 0.1:
            raise _RollBack

    def _savepoints(self, connection: psycopg.Connection[Any]) -> None:
        for _ in range(self._random.randint(1, 4)):
            with contextlib.suppress(_RollBack), connection.transaction():
                self._change(connection)
                with contextlib.suppress(_RollBack), connection.transaction():
                    self._change(connection)
                    if self._random.random() < 0.4:
                        raise _RollBack
                if self._random.random() < 0.3:
                    raise _RollBack

    def _large(self, connection: psycopg.Connection[Any]) -> None:
        # Beyond logical_decoding_work_mem, it is streamed.
        count = self._random.randint(200, 2000)
        connection.execute(
            "INSERT INTO audit (item, what) SELECT g, repeat('x', 50) "
            "FROM generate_series(1, %s) g",
            [count],
        )
        self._savepoints(connection)
        if self._random.random() < 0.2:
            raise _RollBack

    def _other(self, connection: psycopg.Connection[Any]) -> None:
        choice = self._random.random()
        if choice < 0.2:
            connection.execute("TRUNCATE wide")
        elif choice < 0.5:
            connection.execute(
                "UPDATE item SET id = id + 1000 WHERE id = %s AND NOT EXISTS "
                "(SELECT FROM item WHERE id = %s + 1000)",
                [key := self._random.randint(1, 40), key],
            )
        else:
            connection.execute("SELECT pg_logical_emit_message(true, 'walrow', 'mine')")

    def _change(self, connection: psycopg.Connection[Any]) -> None:
        key = self._random.randint(1, 40)
        choice = self._random.random()
        if choice < 0.5:
            connection.execute(
                "INSERT INTO item VALUES (%s, 1, %s) ON CONFLICT (id) "
                "DO UPDATE SET n = item.n + 1",
                [key, f"label {key}"],
            )
        elif choice < 0.7:
            connection.execute("DELETE FROM item WHERE id = %s", [key])
        elif choice < 0.85:
            connection.execute(
                "INSERT INTO audit (item, what) VALUES (%s, 'change')", [key]
            )
        else:
            connection.execute(
                "INSERT INTO wide VALUES (%s, repeat(%s, 3000)) ON CONFLICT (id) "
                "DO UPDATE SET body = wide.body || 'y'",
                [key, "ab"],
            )


class _RollBack(Exception):
    """Ends a transaction or a savepoint."""


def plain_stream(log: Path) -> bytes:
    """The stream of a log, as other decoders get it: segment by segment, decompressed."""
    from walrow.compression import decompressed

    out = bytearray()
    for segment in sorted(log.glob("*.wire.zst")):
        blocks = decompressed(iter([segment.read_bytes()]), "zstd", segment.name)
        for block in blocks:
            out += block
    return bytes(out)


def folded(log: Path) -> dict[str, list[list[Any]]]:
    """The rows of each table, by another decoder than walrow."""
    return {
        table.relation.name: table.sorted_rows()
        for table in fold(plain_stream(log)).values()
    }


def server_rows(dsn: str, tables: Iterable[str]) -> dict[str, list[list[Any]]]:
    """The rows of each table of a server, as text, in the order of `folded`."""

    def rows(connection: psycopg.Connection[Any], table: str) -> list[list[Any]]:
        names = connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass "
            "AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            [f"public.{table}"],
        ).fetchall()
        columns = ", ".join(f'"{name}"::text' for (name,) in names)
        found = connection.execute(f"SELECT {columns} FROM public.{table}".encode()).fetchall()
        key = lambda row: [(cell is not None, cell or "") for cell in row]  # noqa: E731
        return sorted(map(list, found), key=key)

    options = walrow.postgres.options()
    with psycopg.connect(dsn, options=options) as connection:
        return {table: rows(connection, table) for table in tables}


def check_log(dsn: str, log: Path, tables: Iterable[str]) -> None:
    """Checks that a log has each committed transaction once, in order, and nothing else."""
    seen = list(_identities(log))
    assert seen == sorted(set(seen)), "a change came twice or out of order"
    found, expected = folded(log), server_rows(dsn, tables)
    for table, rows in expected.items():
        assert found.get(table, []) == rows, table
    walrow.Log(log).verify()


def _identities(log: Path) -> Iterator[tuple[int, int]]:
    for batch in walrow.read(log, side_tables=["transactions"]):
        if batch.table == "walrow.transactions":
            import pyarrow as pa

            records = pa.record_batch(batch)
            for lsn in records.column("commit_lsn").to_pylist():
                yield lsn, 0
