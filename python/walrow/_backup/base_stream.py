"""A server's answer to BASE_BACKUP, as one sequence of events for all versions.

Before server 15, each archive is a separate COPY. From 15 on, one COPY has everything,
and each of its messages begins with its kind.
"""

from __future__ import annotations

import contextlib
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg import errors, pq

from walrow._core import (
    parse_backup_data,
    parse_backup_position,
    parse_tablespace,
)
from walrow._lsn import Lsn
from walrow._postgres.failures import QUERY_CANCELED
from walrow._postgres.running import encoding_of
from walrow._postgres.server_errors import replication_error
from walrow._waiting import READ, WRITE, Waiter
from walrow.errors import BackupError, ConnectionLostError, ReplicationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn, Self

__all__ = [
    "BackupStream",
    "BytesDone",
    "Data",
    "Ended",
    "Event",
    "NewArchive",
    "NewManifest",
    "Started",
    "Tablespace",
]


class Tablespace(NamedTuple):
    """A tablespace of a backup.

    Attributes:
        oid: Its OID. None for the data directory itself.
        location: Its directory on the server. None for the data directory.
        size_kb: Its size, if progress was asked for.
    """

    oid: int | None
    location: bytes | None
    size_kb: int | None


class Started(NamedTuple):
    """The backup has begun: its WAL begins at a position."""

    lsn: Lsn
    timeline: int
    tablespaces: tuple[Tablespace, ...]


class NewArchive(NamedTuple):
    """An archive begins, with the name of its file."""

    name: str


class NewManifest(NamedTuple):
    """The manifest begins."""


class Data(NamedTuple):
    """Bytes of the archive, or of the manifest."""

    bytes: bytes


class BytesDone(NamedTuple):
    """How many bytes the server has read."""

    size: int


class Ended(NamedTuple):
    """The backup has ended: its WAL ends at a position."""

    lsn: Lsn
    timeline: int


Event = Started | NewArchive | NewManifest | Data | BytesDone | Ended


class BackupStream:
    """A base backup on a replication connection. After any error, the server stops it."""

    def __init__(
        self,
        conn: psycopg.Connection[Any],
        major: int,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Begins nothing yet.

        Args:
            conn: The connection. It is closed after an error.
            major: The server's major version.
            check: Is called at least twice a second. If it raises, the backup ends.
        """
        self._check = check
        self._conn = conn
        self._pgconn = conn.pgconn
        self._major = major
        self._waiter = Waiter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_exception: object) -> None:
        self._waiter.close()
        if kind is not None:
            self._cancel()

    def _cancel(self) -> None:
        # Closing alone would be noticed by the server only when it sends.
        with contextlib.suppress(psycopg.Error):
            self._conn.cancel_safe(timeout=_CANCEL_SECONDS)
        self._conn.close()

    def upload(self, command: str, manifest: bytes) -> None:
        """Sends the manifest of the backup that this one is incremental to.

        Raises:
            ReplicationError: The server refused it, or the connection broke.
        """
        with self._broken():
            self._send(command)
            result = self._result(command)
            if result is None or result.status != pq.ExecStatus.COPY_IN:
                _unexpected(command, result)
            for at in range(0, len(manifest), _BLOCK_BYTES):
                self._put(manifest[at : at + _BLOCK_BYTES])
            self._put(None)
            self._until_end(command)

    def _put(self, block: bytes | None) -> None:
        def put() -> int:
            if block is None:
                return self._pgconn.put_copy_end()
            return self._pgconn.put_copy_data(block)

        while not put():
            self._wait(READ | WRITE)
        self._flush()

    def events(self, command: str, *, manifest: bool) -> Iterator[Event]:
        """Runs BASE_BACKUP.

        Args:
            command: The command.
            manifest: Whether it asks for a manifest.

        Raises:
            ReplicationError: The server refused it, or the connection broke.
            BackupError: The server sends something else.
        """
        with self._broken():
            self._send(command)
            started = self._header()
            yield started
            if self._major < _ONE_COPY_SINCE:
                for each in started.tablespaces:
                    yield NewArchive(
                        "base.tar" if each.oid is None else f"{each.oid}.tar"
                    )
                    yield from self._copies()
                if manifest:
                    yield NewManifest()
                    yield from self._copies()
            else:
                yield from map(_event, self._copy())
            lsn, timeline = parse_backup_position(self._row(_NAME))
            self._until_end(_NAME)
            yield Ended(Lsn(lsn), timeline)

    def _header(self) -> Started:
        lsn, timeline = parse_backup_position(self._row(_NAME))
        result = self._rows(_NAME)
        tablespaces = tuple(
            Tablespace(*parse_tablespace(_cells(result, row)))
            for row in range(result.ntuples)
        )
        return Started(Lsn(lsn), timeline, tablespaces)

    def _copies(self) -> Iterator[Data]:
        """The data of a COPY whose messages have only data."""
        return map(Data, self._copy())

    def _copy(self) -> Iterator[bytes]:
        """The messages of one COPY."""
        result = self._result(_NAME)
        if result is None or result.status != pq.ExecStatus.COPY_OUT:
            _unexpected(_NAME, result)
        while True:
            size, payload = self._pgconn.get_copy_data(1)
            if size > 0:
                # A view of memory of libpq's in some builds of psycopg.
                yield bytes(payload)
            elif size < 0:
                return
            else:
                self._wait(READ)

    def _row(self, command: str) -> list[bytes | None]:
        result = self._rows(command)
        if result.ntuples != 1:
            _unexpected(command, result)
        return _cells(result, 0)

    def _rows(self, command: str) -> Any:
        result = self._result(command)
        if result is None or result.status != pq.ExecStatus.TUPLES_OK:
            _unexpected(command, result)
        return result

    def _until_end(self, command: str) -> None:
        ends = {pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK}
        while (result := self._result(command)) is not None:
            if result.status not in ends:
                _unexpected(command, result)

    def _result(self, command: str) -> Any:
        while self._pgconn.is_busy():
            self._wait(READ)
        result = self._pgconn.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            if self._pgconn.status == pq.ConnStatus.BAD and not _sqlstate(result):
                raise ConnectionLostError(_LOST)
            refusal = errors.error_from_result(result, encoding_of(self._conn))
            raise _refused(refusal, command) from refusal
        return result

    def _send(self, command: str) -> None:
        self._pgconn.send_query(command.encode(encoding_of(self._conn)))
        self._pgconn.nonblocking = 1
        self._flush()

    def _flush(self) -> None:
        while self._pgconn.flush():
            self._wait(READ | WRITE)

    def _wait(self, events: int) -> None:
        """Waits for the socket. A signal ends it, and a failure elsewhere."""
        self._waiter.watch(self._pgconn.socket, events)
        self._waiter.wait(time.monotonic() + _POLL_SECONDS)
        self._check()
        self._pgconn.consume_input()

    @contextlib.contextmanager
    def _broken(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise ConnectionLostError(_LOST) from error


def _event(payload: bytes) -> Event:
    match parse_backup_data(payload):
        case ("d", data):
            return Data(data)
        case ("p", size):
            return BytesDone(size)
        case ("n", name, _):
            # It is checked before it becomes a file.
            return NewArchive(name.decode("ascii", "backslashreplace"))
        case _:
            return NewManifest()


def _sqlstate(result: Any) -> bytes | None:
    found: bytes | None = result.error_field(pq.DiagnosticField.SQLSTATE)
    return found


def _cells(result: Any, row: int) -> list[bytes | None]:
    return [result.get_value(row, column) for column in range(result.nfields)]


def _refused(refusal: psycopg.Error, command: str) -> ReplicationError:
    sqlstate = refusal.sqlstate or ""
    hint = refusal.diag.message_hint or _HINTS.get(sqlstate)
    if _IS_REMOVED.search(refusal.diag.message_primary or ""):
        # Its SQLSTATE belongs to an earlier failure in the same process.
        hint = _REMOVED
    if hint is None and sqlstate.startswith("58"):
        hint = "the server's log says more"
    name = command.partition(" ")[0]
    return replication_error(refusal, f"{name} failed", hint=hint)


def _unexpected(command: str, result: Any) -> NoReturn:
    name = command.partition(" ")[0]
    status = "nothing" if result is None else f"a result of status {result.status}"
    text = f"the server answered {name} with {status}: it may be a proxy that does not know it"
    raise BackupError(text, code="protocol")


_NAME = "BASE_BACKUP"
_LOST = "the connection broke in the middle of the base backup; start it again"
_ONE_COPY_SINCE = 15
_BLOCK_BYTES = 1 << 20
_POLL_SECONDS = 0.5
#: With the time to remove files, Ctrl-C ends within a second.
_CANCEL_SECONDS = 0.5
#: It may be translated.
_IS_REMOVED = re.compile("WAL segment .* has already been removed")
_REMOVED = (
    "the server has removed WAL that the backup needs: take the WAL with stream, or raise"
    " wal_keep_size; start it again"
)
_HINTS = {
    "55000": (
        "wal_level must be at least replica; if the server lacks WAL summaries since the parent"
        " of an incremental backup, take a full one"
    ),
    "58P01": f"if {_REMOVED}",
    "XX001": (
        "a file on the server is damaged: its log names the pages; verify_checksums=False, or"
        " --no-verify-checksums, takes a backup of it anyway"
    ),
    QUERY_CANCELED: "somebody canceled it: start it again",
}
