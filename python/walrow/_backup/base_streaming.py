"""Streams the WAL of a base backup over a second connection, while the backup runs."""

from __future__ import annotations

import math
import secrets
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from walrow._backup.base_wal_files import complete_files, pack_files
from walrow._backup.wal_beginning import save_history
from walrow._backup.wal_files import WalDirectory
from walrow._backup.wal_landing import Position, Syncing, WalLanding
from walrow._backup.wal_names import Segment
from walrow._lsn import Lsn
from walrow._postgres.commands import create_physical_slot, identify_system, show
from walrow._postgres.connecting import closed_after_error, connect
from walrow._postgres.open_connections import OpenConnections, start_thread
from walrow._postgres.physical import PhysicalStream, StreamEnd, TimelineEnd, amount
from walrow._waiting import Waiter
from walrow.errors import BackupError, ConnectionLostError, Error, ReplicationError

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

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
            parameters: Those of the connection.
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
        self._target: Position | None = None
        self._failure: BaseException | None = None
        self._stop, self._ended = threading.Event(), threading.Event()
        self._waiter = Waiter()
        self._connections = OpenConnections()

    def reserve(self) -> None:
        """Connects, and makes the server keep its WAL from now on."""
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
            self._segment_bytes = amount(show(conn, "wal_segment_size"))
            try:
                create_physical_slot(conn, self._slot, temporary=True, reserve_wal=True)
            except ReplicationError as error:
                error.add_note("wal='fetch', or --wal fetch, needs no slot")
                raise
        self._stream = PhysicalStream.on(conn, wakeup_fd=self._waiter.descriptor)

    def begin(self, start: Lsn, timeline: int, directory: Path) -> None:
        """Receives WAL into an empty directory, from the segment of a position on."""
        self._directory = directory
        first = Segment.at(timeline, start, self._segment_bytes)
        with self._connections.collecting():
            start_thread(
                self._run, self._stream, first, directory, name="walrow-base-wal"
            )

    def check(self) -> None:
        """Raises the error that has ended it before its time."""
        if self._ended.is_set() and self._failure is not None:
            _fail(self._failure)

    def finish(self, end: Lsn, timeline: int) -> None:
        """Waits until everything before a position is durable, and ends."""
        self._target = Position(timeline, end)
        self._waiter.wake()
        while not self._ended.wait(_LOOK_SECONDS):
            pass
        self.check()
        if self._directory is not None:
            complete_files(self._directory)
            if self._as_archive:
                pack_files(self._directory)
        self._waiter.close()

    def abandon(self) -> None:
        """Ends at once. It may have begun or not, or have finished."""
        self._stop.set()
        self._waiter.wake()
        if self._directory is not None:
            self._ended.wait(_STOP_SECONDS)
        elif self._stream is not None:
            self._stream.close(0)
        if self._connections.end(_STOP_SECONDS):
            self._waiter.close()

    def _run(self, stream: PhysicalStream, first: Segment, path: Path) -> None:
        try:
            with WalDirectory(path) as directory:
                landing = WalLanding(
                    directory,
                    first,
                    self._segment_bytes,
                    syncing=Syncing.RELAXED,
                    wake=self._waiter.wake,
                )
                try:
                    self._timelines(stream, landing, directory, first)
                    # From here on, the server needs to keep nothing.
                    stream.close(0 if self._stop.is_set() else _CLOSE_SECONDS)
                except BaseException:
                    self._stop.set()
                    raise
                finally:
                    self._land(landing)
        except BaseException as error:
            self._failure = error
        finally:
            stream.close(0)
            self._ended.set()

    def _land(self, landing: WalLanding) -> None:
        """Waits until everything is durable, or after a stop, as long as a disk may stall."""
        landing.finish(math.inf)
        while not landing.join(_LOOK_SECONDS):
            if self._stop.is_set():
                landing.finish(0)
                landing.join(_STOP_SECONDS)
                return
        if landing.failure is not None:
            raise landing.failure

    def _timelines(
        self,
        stream: PhysicalStream,
        landing: WalLanding,
        directory: WalDirectory,
        at: Segment,
    ) -> None:
        """Receives until the end, over the timelines that a standby follows."""
        while True:
            save_history(stream, directory, at.timeline)
            start = at.start(self._segment_bytes)
            end = stream.start(start, timeline=at.timeline, slot=self._slot)
            end = end or self._follow(stream, landing, Position(at.timeline, start))
            if end is None:
                return
            if end.timeline <= at.timeline:
                text = f"timeline {end.timeline} follows timeline {at.timeline}"
                raise BackupError(text, code="protocol")
            at = Segment.at(end.timeline, end.start, self._segment_bytes)
            landing.switch(at)

    def _follow(
        self, stream: PhysicalStream, landing: WalLanding, at: Position
    ) -> TimelineEnd | None:
        """Receives a timeline until its end. None at the end of all, and after a stop."""
        while not self._stop.is_set():
            target = self._target
            if target and at.timeline >= target.timeline and at.lsn >= target.lsn:
                return None
            if landing.failure is not None:
                return None
            flushed, written = landing.flushed, landing.written
            is_of_this = flushed.timeline == at.timeline
            if is_of_this and (landing.is_full or flushed.lsn > stream.flushed):
                stream.confirm(written=written.lsn, flushed=flushed.lsn)
            if landing.is_full:
                # The server's questions are not read meanwhile: it is told without them.
                landing.wait_for_room(_ANSWER_SECONDS, self._stop)
                continue
            event = stream.receive(_LOOK_SECONDS)
            self._waiter.drain()
            if isinstance(event, TimelineEnd):
                return event
            if isinstance(event, StreamEnd):
                text = "the server has ended the stream"
                raise ConnectionLostError(text)
            if event.data:
                landing.put(event.data)
                at = at._replace(lsn=Lsn(event.start + len(event.data)))
        return None


def _fail(failure: BaseException) -> NoReturn:
    """Raises an error of the stream as one of the backup."""
    cause = failure.__cause__
    if isinstance(failure, BackupError) and isinstance(cause, OSError):
        # The backup says what to do.
        raise OSError(cause.errno, cause.strerror, failure.path) from cause
    if isinstance(failure, ConnectionLostError):
        text = f"the stream of WAL beside the base backup broke ({failure.reason}); start it again"
        raise ConnectionLostError(text) from failure
    if isinstance(failure, Error):
        failure.add_note("the stream of WAL beside the base backup has ended")
    raise failure


#: How often it looks whether it should stop.
_LOOK_SECONDS = 0.1
#: How long it waits for room in the queue before it reports to the server again.
_ANSWER_SECONDS = 0.5
_CLOSE_SECONDS = 1.0
#: With the time to cancel the backup and to remove files, Ctrl-C ends within a second.
_STOP_SECONDS = 0.2
