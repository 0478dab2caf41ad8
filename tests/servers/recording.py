"""A recorder of replication connections, as `wire` bytes.

It speaks the protocol on a bare socket and keeps **every byte that the server sent**, from the
CopyBothResponse on: also notices, errors and how the copy ended. It pins the walsender's settings
(the text of a value depends on them), answers keepalives and stops at a position in the log.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import subprocess
import threading
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import psycopg

from streams import format_lsn
from walrow import postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from servers.embedded import EmbeddedServer

Streaming = Literal["off", "on", "parallel"]

PINNED_SETTINGS = {
    name: value for name, value in postgres.settings().items() if name != "search_path"
}
"""What golden captures are recorded with: their `regclass` has no schema before its name."""


@dataclass(frozen=True)
class Reading:
    """How a slot is read: the options of START_REPLICATION for pgoutput.

    Attributes:
        publication: One name or several.
        proto_version: The protocol version, 1 to 4.
        binary: Whether values with a send function come in binary.
        streaming: Whether large transactions come before their commit.
        two_phase: Whether prepared transactions come at PREPARE.
        messages: Whether logical messages come.
        origin: `any` or `none`; None leaves it to the server.
    """

    publication: str | tuple[str, ...]
    proto_version: int = 1
    binary: bool = False
    streaming: Streaming = "off"
    two_phase: bool = False
    messages: bool = False
    origin: str | None = None

    def options(self) -> dict[str, str]:
        """Returns the options by name."""
        names = self.publication
        names = (names,) if isinstance(names, str) else names
        options = {
            "proto_version": str(self.proto_version),
            "publication_names": ",".join(_quote_identifier(name) for name in names),
        }
        if self.binary:
            options["binary"] = "true"
        if self.streaming != "off":
            options["streaming"] = self.streaming
        if self.two_phase:
            options["two_phase"] = "true"
        if self.messages:
            options["messages"] = "true"
        if self.origin is not None:
            options["origin"] = self.origin
        return options

    def command(self, slot: str, start: int = 0) -> str:
        """Writes the START_REPLICATION command for a slot and a position."""
        options = self.options()
        text = ", ".join(f"{k} {_quote_literal(v)}" for k, v in options.items())
        name = _quote_identifier(slot)
        return f"START_REPLICATION SLOT {name} LOGICAL {format_lsn(start)} ({text})"


def record(
    server: EmbeddedServer,
    workload: str | Callable[[], None] | None,
    *,
    publication: str | tuple[str, ...],
    database: str = "postgres",
    slot: str | None = None,
    proto_version: int = 1,
    binary: bool = False,
    streaming: Streaming = "off",
    two_phase: bool = False,
    messages: bool = False,
    origin: str | None = None,
    live: bool = False,
    confirm: bool = False,
    settings: Mapping[str, str] | None = None,
    until: int | None = None,
) -> bytes:
    """Records a server's stream of a workload, byte for byte.

    The recording begins with the CopyBothResponse and goes on to the end: to
    ReadyForQuery after the client ended the copy, or to the server's own end.

    Args:
        server: A running server.
        workload: SQL for psql, a function, or None if the workload ran earlier and `slot`
            names a slot that existed before it.
        publication: One name or several.
        database: The database of slot, publication and workload.
        slot: A slot that exists and stays; None makes one and drops it.
        proto_version: The protocol version, 1 to 4.
        binary: Whether values with a send function come in binary.
        streaming: Whether large transactions come before their commit.
        two_phase: Whether prepared transactions come at PREPARE.
        messages: Whether logical messages come.
        origin: `any` or `none`; None leaves it to the server.
        live: Whether the workload runs while the stream is read, not before.
        confirm: Whether received transactions are confirmed as durable.
        settings: Further settings of the walsender's session.
        until: Where to stop, in the log. Default: where the workload ended.

    Returns:
        The bytes, in the `wire` framing.
    """
    reading = Reading(
        publication, proto_version, binary, streaming, two_phase, messages, origin
    )
    dsn = server.dsn_of(database)
    name = slot or f"walrow_{uuid.uuid4().hex[:12]}"
    if slot is None:
        create_slot(dsn, name, two_phase=two_phase)
    try:
        command = reading.command(name)
        with _Wire(
            server.socket_directory, database, "database", settings or {}
        ) as wire:
            if live:
                later = _Later(server, database, workload)
                wire.start_copy(command)
                wire.receive_first_keepalive()
                later.start()
                wire.receive_until(later.position, confirm=confirm)
                later.finish()
            else:
                _run(server, database, workload)
                end = wal_end(dsn) if until is None else until
                wire.start_copy(command)
                wire.receive_until(lambda: end, confirm=confirm)
            return wire.recorded()
    finally:
        if slot is None:
            drop_slot(dsn, name)


def record_physical(
    server: EmbeddedServer, workload: str | Callable[[], None]
) -> bytes:
    """Records physical replication of a workload, which carries WAL and no messages."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        start = _lsn_of(connection, "pg_current_wal_insert_lsn()")
    _run(server, "postgres", workload)
    end = wal_end(server.dsn)
    with _Wire(server.socket_directory, "postgres", "true", {}) as wire:
        wire.start_copy(f"START_REPLICATION PHYSICAL {format_lsn(start)}")
        wire.receive_until(lambda: end)
        return wire.recorded()


def create_slot(conninfo: str, slot: str, *, two_phase: bool = False) -> int:
    """Makes a logical slot for pgoutput and returns its position."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        row = connection.execute(
            "SELECT lsn - '0/0'::pg_lsn"
            " FROM pg_create_logical_replication_slot(%s, 'pgoutput', false, %s)",
            (slot, two_phase),
        ).fetchone()
    return int(row[0]) if row else 0


def drop_slot(conninfo: str, slot: str) -> None:
    """Drops a slot; waits for a moment if its walsender has not noticed the end yet."""
    deadline = time.monotonic() + _DROP_SECONDS
    while True:
        try:
            with psycopg.connect(conninfo, autocommit=True) as connection:
                connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def wal_end(conninfo: str) -> int:
    """Returns the present end of the log, and makes the server read past it at once.

    A walsender reports the end of the last record it has read; without a later record
    it might never report this position. The checkpoint writes one and flushes it.
    """
    with psycopg.connect(conninfo, autocommit=True) as connection:
        end = _lsn_of(connection, "pg_current_wal_insert_lsn()")
        connection.execute("CHECKPOINT")
        return end


def run_sql(server: EmbeddedServer, sql: str, database: str = "postgres") -> None:
    """Runs SQL with psql, so scripts may contain psql's commands.

    A line `-- session: NAME` gives the lines after it to a session of that name: each
    name is a connection of its own, and a part begins when the part before it is done.

    Raises:
        RuntimeError: psql stopped at an error; contains psql's message.
    """
    sessions: dict[str, _Psql] = {}
    try:
        for name, part in _parts(sql):
            if name not in sessions:
                sessions[name] = _Psql(server.bin / "psql", server.dsn_of(database))
            sessions[name].run(part)
    finally:
        for session in sessions.values():
            session.close()


class _Wire:
    """A replication connection on a bare unix socket; keeps all bytes from the server."""

    def __init__(
        self,
        directory: Path,
        database: str,
        replication: str,
        settings: Mapping[str, str],
    ) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(directory / ".s.PGSQL.5432"))
        self._unread = bytearray()
        self._record = bytearray()
        # The greeting belongs to the connection, not to the copy that is recorded.
        self._recording = False
        self._physical = replication == "true"
        startup = {
            "user": "postgres",
            "database": database,
            "replication": replication,
            **PINNED_SETTINGS,
            **settings,
        }
        if replication == "true":
            del startup["database"]
        body = b"".join(f"{k}\0{v}\0".encode() for k, v in startup.items()) + b"\0"
        self._socket.sendall(struct.pack("!II", len(body) + 8, 0x0003_0000) + body)
        self._expect(b"Z")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def recorded(self) -> bytes:
        return bytes(self._record)

    def start_copy(self, command: str) -> None:
        self._send(b"Q", command.encode() + b"\0")
        self._recording = True

    def receive_first_keepalive(self) -> None:
        """Waits until the server streams, which it shows by answering."""
        self._expect(b"W")
        self._send(b"d", _status(0, 0, reply=True))
        while (message := self._receive(_STALL_SECONDS)) is not None:
            kind, body = message
            if kind == b"d" and body[:1] == b"k":
                return
            if kind == b"E":
                raise RuntimeError(_error_text(body))
        msg = "the stream ended before it began"
        raise RuntimeError(msg)

    def receive_until(
        self, until: Callable[[], int | None], *, confirm: bool = False
    ) -> None:
        """Receives past a position, ends the copy and receives the end.

        When the server ends the stream by itself, that is the end.
        """
        ending = False
        durable = 0
        stalled = time.monotonic() + _STALL_SECONDS
        while True:
            message = self._receive(_ASK_SECONDS)
            if message is None:
                return
            kind, body = message
            if kind == b"Z":
                return
            if kind:
                stalled = time.monotonic() + _STALL_SECONDS
            elif time.monotonic() > stalled:
                msg = "the server sends no more"
                raise RuntimeError(msg)
            position, end = (
                _positions(body, physical=self._physical) if kind == b"d" else (0, 0)
            )
            if confirm:
                durable = max(durable, end)
            asked = kind == b"d" and body[:1] == b"k" and body[17] == 1
            if ending:
                continue
            goal = until()
            waiting = goal is not None and not kind
            if asked or waiting:
                # An idle server does not report by itself that it has read everything.
                with contextlib.suppress(OSError):
                    self._send(b"d", _status(0, durable, reply=waiting))
            if goal is not None and position >= goal:
                ending = True
                with contextlib.suppress(OSError):
                    self._send(b"c", b"")

    def _send(self, kind: bytes, body: bytes) -> None:
        self._socket.sendall(kind + struct.pack("!I", len(body) + 4) + body)

    def _expect(self, wanted: bytes) -> None:
        while (message := self._receive(_STALL_SECONDS)) is not None:
            kind, body = message
            if kind == wanted:
                return
            if kind == b"E":
                raise RuntimeError(_error_text(body))
        msg = "the server closed the connection"
        raise RuntimeError(msg)

    def _receive(self, seconds: float) -> tuple[bytes, bytes] | None:
        """Returns the next message, an empty one after `seconds`, None at the end."""
        while len(self._unread) < 5 or len(self._unread) < self._next_size():
            if not select.select([self._socket], [], [], seconds)[0]:
                return b"", b""
            try:
                block = self._socket.recv(1 << 16)
            except ConnectionResetError:
                block = b""
            if not block:
                # The last bytes may be cut: the server sent no more.
                self._record += self._unread
                self._unread.clear()
                return None
            self._unread += block
        message = bytes(self._unread[: self._next_size()])
        del self._unread[: len(message)]
        if self._recording:
            self._record += message
        return message[:1], message[5:]

    def _next_size(self) -> int:
        return 1 + int.from_bytes(self._unread[1:5], "big")


class _Later(threading.Thread):
    """A workload that runs while the stream is read, and its end LSN afterwards."""

    def __init__(
        self,
        server: EmbeddedServer,
        database: str,
        workload: str | Callable[[], None] | None,
    ) -> None:
        super().__init__(daemon=True)
        self._work = (server, database, workload)
        self._end: int | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        server, database, workload = self._work
        try:
            _run(server, database, workload)
            self._end = wal_end(server.dsn_of(database))
        except BaseException as error:
            self._error = error

    def finish(self) -> None:
        self.join()
        self.position()

    def position(self) -> int | None:
        if self._error is not None:
            raise self._error
        return self._end


class _Psql:
    """One psql process that is fed part by part."""

    def __init__(self, program: Path, dsn: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603
            [program, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, part: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        mark = f"done {uuid.uuid4().hex}"
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{part}\n\\echo {mark}\n".encode())
            self._process.stdin.flush()
        said = []
        for line in self._process.stdout:
            if line.strip() == mark.encode():
                return
            said.append(line.decode(errors="replace"))
        raise RuntimeError("psql: " + "".join(said[-20:]))

    def close(self) -> None:
        self._process.communicate()


def _run(
    server: EmbeddedServer, database: str, workload: str | Callable[[], None] | None
) -> None:
    if callable(workload):
        workload()
    elif workload is not None:
        run_sql(server, workload, database)


def _parts(sql: str) -> Iterable[tuple[str, str]]:
    name, lines = "", list[str]()
    for line in sql.splitlines():
        if line.startswith(_SESSION_MARK):
            yield name, "\n".join(lines)
            name, lines = line.removeprefix(_SESSION_MARK).strip(), []
        else:
            lines.append(line)
    yield name, "\n".join(lines)


def _positions(body: bytes, *, physical: bool) -> tuple[int, int]:
    """Returns the position read and the durable end, according to a CopyData payload."""
    if physical and body[:1] == b"w":
        # No messages: a stretch of WAL ends where its bytes end.
        return int.from_bytes(body[1:9], "big") + len(body) - 25, 0
    if body[:1] == b"k":
        position = int.from_bytes(body[1:9], "big")
        return position, position
    if body[25] in _ENDINGS:
        end = _end_of(memoryview(body)[25:])
        return end, end
    return 0, 0


def _end_of(message: memoryview) -> int:
    """Reads the end LSN of a message that ends a transaction or prepares one."""
    start = _ENDINGS[message[0]]
    return int.from_bytes(message[start : start + 8], "big")


def _status(write: int, flush: int, *, reply: bool) -> bytes:
    microseconds = int((time.time() - _POSTGRES_EPOCH) * 1_000_000)
    return struct.pack("!cQQQqB", b"r", write, flush, 0, microseconds, reply)


def _lsn_of(connection: psycopg.Connection[Any], expression: str) -> int:
    row = connection.execute(f"SELECT {expression} - '0/0'::pg_lsn").fetchone()
    return int(row[0]) if row else 0


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quote_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _error_text(body: bytes) -> str:
    fields = {part[:1]: part[1:] for part in body.split(b"\0") if part}
    return _text(fields.get(b"C", b"") + b" " + fields.get(b"M", b""))


def _text(message: bytes | memoryview) -> str:
    return bytes(message).decode(errors="replace").strip()


# Where the end LSN begins in the messages that have one, counted from the kind byte.
_ENDINGS = {
    ord("C"): 10,
    ord("c"): 14,
    ord("P"): 10,
    ord("p"): 10,
    ord("K"): 10,
    ord("r"): 10,
}
_SESSION_MARK = "-- session:"
_POSTGRES_EPOCH = 946_684_800
_ASK_SECONDS = 0.02
_STALL_SECONDS = 30.0
_DROP_SECONDS = 10.0
