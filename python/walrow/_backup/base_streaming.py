"""Streams the WAL of a base backup over a second connection, while the backup runs."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, NoReturn

from walrow._backup.base_wal_files import complete_files, pack_files
from walrow._backup.base_wal_stream import WalStream
from walrow._backup.wal_names import Segment
from walrow._postgres.commands import create_physical_slot, identify_system
from walrow._postgres.connecting import closed_after_error, connect
from walrow._postgres.open_connections import OpenConnections
from walrow._postgres.physical import PhysicalStream
from walrow._postgres.show import show_amount
from walrow._waiting import Waiter
from walrow.errors import BackupError, ConnectionLostError, Error, ReplicationError

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from walrow._lsn import Lsn

__all__ = ["StreamedWal", "beside"]


def beside(conn: psycopg.Connection[Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of another connection to the same server, of several hosts."""
    info = conn.info
    found = {**parameters, "host": info.host, "port": info.port}
    return found | ({"hostaddr": info.hostaddr} if info.hostaddr else {})


class StreamedWal:
    """Receives WAL in a thread. A temporary slot keeps it on the server until it is durable."""

    def __init__(
        self, parameters: dict[str, Any], system_identifier: str, *, as_archive: bool
    ) -> None:
        """Begins nothing yet.

        Args:
            parameters: The connection's parameters.
            system_identifier: The server's.
            as_archive: Whether `pg_wal.tar` is made of the directory at the end.
        """
        self._parameters = parameters
        self._system_identifier = system_identifier
        self._as_archive = as_archive
        self._slot = f"walrow_base_{secrets.token_hex(8)}"
        self._segment_bytes = 0
        self._stream: PhysicalStream | None = None
        self._directory: Path | None = None
        self._receiving: WalStream | None = None
        self._waiter = Waiter()
        self._connections = OpenConnections()

    def reserve(self) -> None:
        """Connects, and makes the server keep its WAL from now on."""
        try:
            self._stream = self._reserved()
        except ReplicationError as error:
            error.add_note(
                "wal='fetch', or --wal fetch, needs no second connection and no slot"
            )
            raise

    def _reserved(self) -> PhysicalStream:
        with self._connections.collecting():
            # To the database, as for the backup: pg_hba.conf needs no other line.
            conn = connect(self._parameters)
        with closed_after_error(conn, "the stream of WAL cannot be prepared"):
            found = identify_system(conn).system_identifier
            if found != self._system_identifier:
                text = (
                    f"WAL would come from the server {found}, and the backup from"
                    f" {self._system_identifier}: name one server in the connection string"
                )
                raise BackupError(text, code="other_server")
            self._segment_bytes = show_amount(conn, "wal_segment_size")
            create_physical_slot(conn, self._slot, temporary=True, reserve_wal=True)
        return PhysicalStream.on(conn, wakeup_fd=self._waiter.descriptor)

    def begin(self, start: Lsn, timeline: int, directory: Path) -> None:
        """Receives WAL into an empty directory, from the segment of a position on."""
        if self._stream is None:
            text = "nothing is reserved"
            raise RuntimeError(text)
        self._directory = directory
        first = Segment.at(timeline, start, self._segment_bytes)
        with self._connections.collecting():
            self._receiving = WalStream(
                self._stream,
                self._waiter,
                directory,
                first=first,
                segment_bytes=self._segment_bytes,
                slot=self._slot,
            )

    def check(self) -> None:
        """Raises the error that has ended it before its time."""
        stream = self._receiving
        if stream is not None and stream.has_ended and stream.failure is not None:
            _fail(stream.failure)

    def finish(self, end: Lsn, timeline: int) -> None:
        """Waits until everything before a position is durable, and ends."""
        if self._receiving is None or self._directory is None:
            text = "nothing is received"
            raise RuntimeError(text)
        self._receiving.end_at(timeline, end)
        # A signal is handled at least as often as this returns.
        while not self._receiving.wait(_POLL_SECONDS):
            pass
        self.check()
        complete_files(self._directory)
        if self._as_archive:
            pack_files(self._directory)
        self._waiter.close()

    def abandon(self) -> None:
        """Ends at once. It may have begun or not, or have finished."""
        if self._receiving is not None:
            self._receiving.stop()
            self._receiving.wait(_STOP_SECONDS)
        elif self._stream is not None:
            self._stream.close(0)
        if self._connections.end(_STOP_SECONDS):
            self._waiter.close()


def _fail(failure: BaseException) -> NoReturn:
    """Raises an error of the stream as one of the backup."""
    cause = failure.__cause__
    if isinstance(failure, BackupError) and isinstance(cause, OSError):
        # The backup says what to do.
        raise OSError(cause.errno, cause.strerror, failure.path) from cause
    if isinstance(failure, ReplicationError) and failure.sqlstate is None:
        text = f"the stream of WAL beside the base backup broke ({failure.reason}); start it again"
        raise ConnectionLostError(text) from failure
    if isinstance(failure, Error):
        failure.add_note("the stream of WAL beside the base backup has ended")
    raise failure


_POLL_SECONDS = 0.5
#: With the time to cancel the backup and to remove files, Ctrl-C ends within a second.
_STOP_SECONDS = 0.2
