"""Receivers in processes of their own, a load for them, and what their log must have."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal, Self

import psycopg

import walrow
from reference.fold import fold
from servers.embedded import EmbeddedServer
from servers.recording import create_slot
from walrow.log import Received

SOURCE = Path(__file__).with_name("faults.c")
#: Options of a receiver that publishes early, and many segments.
QUICK = ("--publish-after", "0.3", "--segment-size", "1MiB")


@cache
def fault_library() -> Path:
    """The library that makes operations on files fail. See faults.c."""
    directory = Path(tempfile.mkdtemp(prefix="walrow-faults-"))
    library = directory / "faults.so"
    compiler = (
        os.environ.get("CC") or (sysconfig.get_config_var("CC") or "cc").split()[0]
    )
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O1",
        "-o",
        str(library),
        str(SOURCE),
        "-ldl",
    ]
    try:
        subprocess.run(command, check=True)  # noqa: S603
    except FileNotFoundError:
        subprocess.run(["cc", *command[1:]], check=True)  # noqa: S603, S607
    return library


class Disk:
    """The file system of a directory in a receiver's process, which can get faults."""

    def __init__(self, directory: Path) -> None:
        """Has no fault."""
        self._file = Path(tempfile.mkdtemp(prefix="walrow-disk-"), "fault")
        self.environment = {
            "LD_PRELOAD": str(fault_library()),
            "FAULT_DIRECTORY": str(directory),
            "FAULT_FILE": str(self._file),
        }

    @contextlib.contextmanager
    def has(self, fault: Literal["full", "stalled", "error"]) -> Iterator[None]:
        """Has a fault: no room, an fsync that does not return, or one that fails."""
        self._file.write_text(fault[0])
        try:
            yield
        finally:
            self._file.unlink()


def _program(give_up_seconds: float | None) -> list[str]:
    """The command `walrow`, with another time after which a full disk is an error."""
    if give_up_seconds is None:
        return ["-m", "walrow"]
    code = (
        "from walrow._receive import driver; from walrow.cli import main; "
        f"driver.GIVE_UP_SECONDS = {give_up_seconds}; main()"
    )
    return ["-c", code]


class ReceiverProcess:
    """`walrow receive` in a process of its own, as a context manager that kills it.

    Attributes:
        process: The process.
    """

    def __init__(
        self,
        dsn: str,
        log: Path,
        *arguments: str,
        slot: str = "s",
        publication: str = "p",
        crash_at: int | None = None,
        disk: Disk | None = None,
        environment: Mapping[str, str] | None = None,
        umask: int = -1,
        give_up_seconds: float | None = None,
    ) -> None:
        """Starts it.

        Args:
            dsn: The server.
            log: The log.
            *arguments: More options of the command.
            slot: The slot.
            publication: The publication.
            crash_at: It is killed at this operation on a file of the log.
            disk: A disk that refuses writes.
            environment: More variables of its environment.
            umask: Its umask.
            give_up_seconds: For how long a disk may refuse writes, instead of an hour.
        """
        added = {"PYTHONUNBUFFERED": "1", **(environment or {})}
        if disk is not None:
            added |= disk.environment
        if crash_at is not None:
            added |= {
                "LD_PRELOAD": str(fault_library()),
                "FAULT_DIRECTORY": str(log),
                "CRASH_AT": str(crash_at),
            }
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(  # noqa: S603
            [
                *(sys.executable, *_program(give_up_seconds)),
                *self._command(dsn, log, slot, publication),
                *arguments,
            ],
            env=os.environ | added,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._errors,
            umask=umask,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.kill()
        self._output.close()
        self._errors.close()

    def _command(self, dsn: str, log: Path, slot: str, publication: str) -> list[str]:
        return [
            *("receive", "--json", "--dsn", dsn, "--log", str(log)),
            *("--slot", slot, "--publication", publication),
        ]

    @property
    def output(self) -> str:
        """What it has printed."""
        return _contents(self._output)

    @property
    def errors(self) -> str:
        """What it has printed to stderr."""
        return _contents(self._errors)

    @property
    def states(self) -> list[dict[str, Any]]:
        """Its states so far."""
        whole, _, _ = self.output.rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def until(
        self, is_wanted: Callable[[dict[str, Any]], bool], timeout: float = 30
    ) -> dict[str, Any]:
        """Waits for a new state."""
        deadline = time.monotonic() + timeout
        seen = len(self.states)
        while time.monotonic() < deadline:
            states = self.states
            for state in states[seen:]:
                if is_wanted(state):
                    return state
            seen = len(states)
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        text = f"no such state; last {self.states[-3:]}, stderr {self.errors!r}"
        raise AssertionError(text)

    def until_streaming(
        self, after: str = "0/0", timeout: float = 30
    ) -> dict[str, Any]:
        """Waits until it streams, and everything up to a position is durable."""
        end = walrow.Lsn(after)

        def is_there(state: dict[str, Any]) -> bool:
            return (
                state["state"] == "streaming" and walrow.Lsn(state["position"]) >= end
            )

        return self.until(is_there, timeout)

    def kill(self) -> None:
        """kill -9, and waits."""
        self.process.kill()
        self.process.wait()

    def wait(self, timeout: float = 60) -> tuple[int, str]:
        """Waits for its end. Returns the exit code and stderr."""
        return self.process.wait(timeout), self.errors

    def ended(self, code: int = 0) -> str:
        """Waits for its end with an exit code. Returns stderr."""
        found, text = self.wait()
        assert found == code, text
        return text

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Stops it in order. Returns the seconds that it took."""
        begin = time.monotonic()
        self.process.send_signal(number)
        code, text = self.wait(20)
        assert code == 0, text
        return time.monotonic() - begin


def _contents(file: IO[str]) -> str:
    # Without a new position for the process, which has the same open file.
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), size, 0).decode()


def receive_all(
    dsn: str, log: Path, *arguments: str, slot: str = "s", code: int = 0
) -> str:
    """Receives everything that is committed now. Returns its output."""
    with ReceiverProcess(dsn, log, "--until", "now", *arguments, slot=slot) as receiver:
        return receiver.ended(code)


def run_walrow(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own, to its end."""
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "walrow", *map(str, words)],
        capture_output=True,
        check=False,
        text=True,
        timeout=50,
        env=os.environ | environment,
    )


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

    def __init__(self, dsn: str, seed: int, *, pause: float | None = None) -> None:
        """Prepares the load. What it does is checked by a decoder that takes longer."""
        if pause is None:
            pause = 0.002 if os.environ.get("WALROW_SLOW") else 0.03
        self._dsn = dsn
        self._random = random.Random(seed)  # noqa: S311
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
                except BaseException as error:
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


class Receiving:
    """A receiver in a thread, as a context manager that stops it.

    Attributes:
        states: Its states.
        result: Its result.
        failure: Its error.
    """

    def __init__(
        self, receive: Callable[..., Any], *arguments: Any, **options: Any
    ) -> None:
        """Starts the thread."""
        self.states: list[Any] = []
        self.result: Any = None
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        options |= {"stop": self._stop, "progress": self.states.append}

        def run() -> None:
            try:
                self.result = receive(*arguments, **options)
            except BaseException as error:
                self.failure = error

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    @property
    def notes(self) -> list[str]:
        """The notes of its states."""
        return [it.note for it in self.states if it.note is not None]

    def stop(self) -> float:
        """Stops it. Returns the seconds that it took."""
        begin = time.monotonic()
        self._stop.set()
        self.wait(30)
        return time.monotonic() - begin

    def wait(self, timeout: float = 20) -> None:
        """Waits for its end."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), self.states[-3:]

    def until_streaming(self) -> None:
        """Waits until it has streamed."""
        until(
            lambda: self.failure or any(it.state == "streaming" for it in self.states)
        )
        assert self.failure is None


def until(is_so: Callable[[], object], timeout: float = 30) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + timeout
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@dataclass(frozen=True)
class Feed:
    """A slot on a server, and the log that receives it.

    Attributes:
        server: The server.
        slot: The slot, which may be missing.
        log: The log, which may be missing.
    """

    server: EmbeddedServer
    slot: str
    log: Path

    @property
    def dsn(self) -> str:
        """The server's connection string."""
        return self.server.dsn

    def execute(self, *statements: str) -> list[Any]:
        """Executes statements one by one. Returns the rows of the last one."""
        return execute(self.dsn, *statements)

    def receiver(self, *arguments: str, **options: Any) -> ReceiverProcess:
        """Starts a receiver. An option may name another server, log or slot."""
        given: dict[str, Any] = {
            "dsn": self.dsn,
            "log": self.log,
            "slot": self.slot,
        } | options
        return ReceiverProcess(given.pop("dsn"), given.pop("log"), *arguments, **given)

    def receive(self, **options: Any) -> Received:
        """Receives in this thread. An option may name another server, log or slot."""
        usual: dict[str, Any] = {"dsn": self.dsn, "log": self.log, "slot": self.slot}
        given = {**usual, "publications": "p"} | options
        return walrow.receive(given.pop("dsn"), **given)

    def receive_now(self, **options: Any) -> Received:
        """Receives everything that is committed now, in this thread."""
        return self.receive(until="now", **options)

    def receiving(self, **options: Any) -> Receiving:
        """Receives in another thread."""
        return Receiving(self.receive, **({"publish_after": 0.2} | options))

    def receive_all(self, *arguments: str, code: int = 0, **options: Any) -> str:
        """Receives everything that is committed now, in a process. Returns stderr."""
        with self.receiver("--until", "now", *arguments, **options) as receiver:
            return receiver.ended(code)

    def until_all(self, receiver: ReceiverProcess, timeout: float = 30) -> None:
        """Waits until a receiver has made durable everything that is committed now."""
        receiver.until_streaming(after=end_of_wal(self.dsn), timeout=timeout)

    def finish(self, receiver: ReceiverProcess) -> None:
        """Stops a receiver as soon as it has everything that is committed now."""
        self.until_all(receiver)
        receiver.stop()

    def confirmed(self) -> walrow.Lsn:
        """The LSN up to which the slot is confirmed."""
        query = "SELECT slot_name, confirmed_flush_lsn::text FROM pg_replication_slots"
        return walrow.Lsn(dict(self.execute(query))[self.slot])

    def check(self, tables: Iterable[str] = Load.TABLES) -> None:
        """Checks that the log has each committed transaction once, in order."""
        check_log(self.dsn, self.log, tables)

    def check_rest(self, *arguments: str) -> None:
        """Receives everything that is committed now, and checks the log."""
        self.receive_all(*arguments)
        self.check()


@contextlib.contextmanager
def slot_for_load(server: EmbeddedServer, *, two_phase: bool = False) -> Iterator[str]:
    """A slot before the tables of the load, which are empty, and their publication `p`."""
    name = f"s_{uuid.uuid4().hex[:8]}"
    execute(
        server.dsn,
        "DROP PUBLICATION IF EXISTS p",
        "DROP TABLE IF EXISTS item, audit, wide",
        Load.SETUP,
        "CREATE PUBLICATION p FOR TABLE item, audit, wide",
    )
    create_slot(server.dsn, name, two_phase=two_phase)
    yield name
    drop_if_there(server.dsn, name)


def execute(dsn: str, *statements: str) -> list[Any]:
    """Executes statements one by one. Returns the rows of the last one."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def drop_if_there(dsn: str, slot: str) -> None:
    """Drops a slot, and ends its receiver, if it exists."""
    found = f"FROM pg_replication_slots WHERE slot_name = '{slot}'"
    execute(dsn, f"SELECT pg_terminate_backend(active_pid) {found} AND active")
    deadline = time.monotonic() + 10
    while execute(dsn, f"SELECT {found} AND active") and time.monotonic() < deadline:
        time.sleep(0.02)
    execute(dsn, f"SELECT pg_drop_replication_slot(slot_name) {found}")


def end_of_wal(dsn: str) -> str:
    """The end of the WAL that is flushed: after each commit."""
    ((lsn,),) = execute(dsn, "SELECT pg_current_wal_flush_lsn()::text")
    return str(lsn)


class _RollBack(Exception):  # noqa: N818
    """Ends a transaction or a savepoint."""


def plain_stream(log: Path) -> bytes:
    """The stream of a log, as other decoders get it: segment by segment, decompressed."""
    from walrow._sources.compression import decompressed

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
        found = connection.execute(
            f"SELECT {columns} FROM public.{table}".encode()  # noqa: S608
        ).fetchall()
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
    tables: list[int | str] = [it.oid for it in walrow.tables(log)]
    tables.append("walrow.transactions")
    for batch in walrow.read(log, tables=tables):
        if batch.table == "walrow.transactions":
            import pyarrow as pa

            records = pa.record_batch(batch)
            for lsn in records.column("commit_lsn").to_pylist():
                yield lsn, 0
