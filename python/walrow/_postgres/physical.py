"""The physical stream of a live server: its WAL, byte for byte.

```python
with PhysicalStream.connect("user=replicator") as stream:
    system = identify_system(stream.connection)
    if stream.start(system.xlogpos, timeline=system.timeline) is None:
        event = stream.receive(timeout=1.0)
```
See START_REPLICATION PHYSICAL in "Streaming Replication Protocol" of PostgreSQL's manual.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Self

import psycopg
from psycopg import errors, pq
from psycopg.pq.abc import PGresult

from walrow import _core
from walrow._lsn import Lsn
from walrow._postgres.connecting import (
    connect,
    parameters_of,
)
from walrow._postgres.copy_both import (
    ASYNC,
    CopyBoth,
    lost,
    now_of_postgres,
)
from walrow._postgres.hints import Command
from walrow._postgres.names import check_slot_name
from walrow._postgres.running import row_of
from walrow._postgres.server_errors import replication_error
from walrow._results import Result, result
from walrow.errors import Error, OptionError, ReplicationError


@result
class Wal(Result):
    """A piece of WAL.

    Attributes:
        start: Its first LSN.
        data: Its bytes. Empty if nothing arrived in time.
    """

    start: Lsn
    data: bytes


@result
class TimelineEnd(Result):
    """The timeline has ended: the server follows another timeline from there on.

    Attributes:
        timeline: The next timeline.
        start: Where it begins.
    """

    timeline: int
    start: Lsn


class PhysicalStream(CopyBoth):
    """A connection for physical replication, and its streams, one after the other.

    Call `receive` often, as for a `ReplicationStream`. After a `TimelineEnd`, commands
    and another `start` are possible on the same connection.

    Attributes:
        connection: The psycopg connection, for commands before `start`.
        server_lsn: The greatest end of WAL that the server has sent.
        server_clock: The server's clock in its last message, in microseconds since 2000.
        last_received: When something arrived last, as `time.monotonic()` counts.
    """

    _slot: str | None = None
    _failed = ""
    _expected = 0
    _written = 0
    _applied = 0
    #: The results after the copy. None while WAL comes.
    _results: list[PGresult] | None = None
    _next_timeline: TimelineEnd | None = None

    @classmethod
    def connect(
        cls,
        conninfo: str = "",
        *,
        status_interval: float = 10.0,
        ping_interval: float | None = None,
        wakeup_fd: int | None = None,
        **parameters: Any,
    ) -> Self:
        """Connects for physical replication.

        Args:
            conninfo: A connection string or URL, as for psycopg.
            status_interval: The seconds between two reports of the confirmed position.
            ping_interval: As for `ReplicationStream.connect`.
            wakeup_fd: A file descriptor. While it is readable, `receive` does not wait.
                The stream does not read from it.
            **parameters: More connection parameters, such as `application_name`.

        Raises:
            OptionError: The connection string is invalid.
            ReplicationError: The connection failed.
        """
        return cls.on(
            connect(parameters_of(conninfo, **parameters), replication="true"),
            status_interval=status_interval,
            ping_interval=ping_interval,
            wakeup_fd=wakeup_fd,
        )

    @classmethod
    def on(
        cls,
        connection: psycopg.Connection[Any],
        *,
        status_interval: float = 10.0,
        ping_interval: float | None = None,
        wakeup_fd: int | None = None,
    ) -> Self:
        """Takes a replication connection, which may belong to a database.

        Args:
            connection: The connection. It is closed after an error.
            status_interval: As for `connect`.
            ping_interval: As for `connect`.
            wakeup_fd: As for `connect`.

        Raises:
            ReplicationError: The connection failed.
        """
        return cls(
            connection,
            status_interval=status_interval,
            ping_interval=ping_interval,
            wakeup_fd=wakeup_fd,
        )

    def start(
        self, start: int | str, *, timeline: int, slot: str | None = None
    ) -> TimelineEnd | None:
        """Starts the stream of a timeline.

        Args:
            start: Where it starts. For whole files, that is the start of a segment.
            timeline: The timeline: the server's, or an earlier one of its history.
            slot: A physical slot, which keeps WAL that was not confirmed.

        Returns:
            None if WAL comes now. The next timeline if this one ended where it starts.

        Raises:
            ReplicationError: The server refused, for example because the position is not
                in its history.
            OptionError: A stream runs, the connection is closed, or the slot's name is too
                long.
        """
        is_running = self._is_streaming and not self._has_ended
        if is_running or self._is_closed or self.connection.closed:
            raise OptionError("a stream runs already, or is closed")
        if slot is not None:
            check_slot_name(slot)
        at = Lsn(start)
        self._slot = slot
        self._failed = (
            f"cannot stream WAL from {at} of timeline {timeline} (START_REPLICATION)"
        )
        self._expected = int(at)
        self._written = self._flushed = self._applied = 0
        self._results = self._next_timeline = None
        command = _core.start_physical_command(at, slot=slot, timeline=timeline)
        try:
            result = self.connection.execute(command.encode()).pgresult
        except self._error as error:
            raise self._refused(error) from error
        if result is not None and result.ntuples:
            return self._next_of(result)
        self._begin_copy()
        return None

    def receive(self, timeout: float) -> Wal | TimelineEnd | None:
        """Returns what arrived, and waits for it if there is nothing yet.

        It waits without the interpreter lock, and a signal's handler runs at once.

        Args:
            timeout: The seconds to wait. With 0, it does not wait.

        Returns:
            About 1 MiB of WAL at most, which follows the WAL that came before. None if the
            server has ended the stream without an error, as in a shutdown.

        Raises:
            ReplicationError: The server ended the stream with an error.
            ConnectionLostError: The connection ended, or the server does not answer.
            OptionError: The stream was not started, or is closed.
        """
        data = self._receive(timeout)
        if data is not None:
            return Wal(Lsn(self._expected - len(data)), data)
        return self._next_timeline

    def confirm(
        self,
        *,
        written: int,
        flushed: int,
        applied: int | None = None,
        reply: bool = False,
    ) -> None:
        """Reports how far the WAL is stored: the server may forget it, and commits return.

        The report is sent at once, without waiting for the socket, and repeated at every
        `status_interval` and whenever the server asks.

        Args:
            written: Up to where WAL is written.
            flushed: Up to where it is durable.
            applied: The end of the applied WAL, for `synchronous_commit = remote_apply` and
                `pg_stat_replication`. Default: `flushed`.
            reply: Whether to ask the server for a keepalive at once.
        """
        self._flushed = max(self._flushed, Lsn(flushed))
        self._written = max(self._written, Lsn(written), self._flushed)
        self._applied = max(
            self._applied, self._flushed if applied is None else applied
        )
        if self._is_streaming and not self._has_ended:
            self._send_status(time.monotonic(), reply=reply)

    def hot_standby_feedback(
        self,
        xmin: int,
        *,
        xmin_epoch: int = 0,
        catalog_xmin: int = 0,
        catalog_xmin_epoch: int = 0,
    ) -> None:
        """Asks the server to keep rows that transactions from these on may see.

        It holds until the next call, or the end of the connection, or longer with a slot.
        Zeros switch it off.

        Args:
            xmin: The oldest transaction, or 0.
            xmin_epoch: How often the counter of transactions has started again.
            catalog_xmin: The oldest transaction for catalogs, or 0.
            catalog_xmin_epoch: The same for it.

        Raises:
            OptionError: The stream does not run.
        """
        if not self._is_streaming or self._has_ended:
            raise OptionError("the stream is not started, or has ended")
        message = _core.hot_standby_feedback(
            now_of_postgres(), xmin, xmin_epoch, catalog_xmin, catalog_xmin_epoch
        )
        # Reading finds out about a lost connection.
        with contextlib.suppress(self._error):
            self._pgconn.put_copy_data(message)
        self._flush()

    def _positions(self) -> tuple[int, int, int]:
        return self._written, self._flushed, self._applied

    def _drain(self) -> None:
        """Moves the WAL of every payload that libpq has into the block."""
        if self._results is not None:
            self._take_results(self._results)
            return
        size = 0
        for size, payload in map(self._pgconn.get_copy_data, ASYNC):
            if size <= 0:
                break
            position = _core.wal_position(bytes(payload[: _core.WAL_HEADER]))
            if position is None:
                self._take_keepalive(payload)
                # Nothing of it is in the block.
                self.last_received, self._pinged = time.monotonic(), None
            else:
                start, end, self.server_clock = position
                self.server_lsn = max(self.server_lsn, Lsn(end))
                self._take_wal(start, payload[_core.WAL_HEADER :])
        if size < 0 and not self._has_ended:
            self._take_copy_end()

    def _take_wal(self, start: int, data: memoryview) -> None:
        if self._has_ended:
            return
        if start != self._expected:
            text = f"the server sent WAL from {Lsn(start)} instead of {Lsn(self._expected)}"
            self._end(ReplicationError(text, sqlstate="08P01"))
            return
        self._block.write(data)
        self._expected += len(data)

    def _take_copy_end(self) -> None:
        """Learns why the server ended the copy: a timeline, a shutdown or an error."""
        result = self._pgconn.get_result()
        if result is not None and result.status == pq.ExecStatus.COPY_IN:
            # The timeline has ended. The next one follows when we have ended the copy, too.
            self._results = []
            self._is_flush_due = True
            self._pgconn.put_copy_end()
            self._flush()
        else:
            self._end(self._failure_in(result))

    def _take_results(self, results: list[PGresult]) -> None:
        """Takes the results after the copy, as far as they have arrived."""
        while not self._pgconn.is_busy():
            result = self._pgconn.get_result()
            if result is None:
                break
            results.append(result)
        else:
            return
        first = results[0] if results else None
        failure = self._failure_in(first)
        if failure is None and first is not None and first.ntuples:
            self._next_timeline = self._next_of(first)
        self._end(failure)

    def _next_of(self, result: PGresult) -> TimelineEnd:
        timeline, start = _core.parse_next_timeline(row_of(result))
        if start > self._expected:
            text = (
                f"timeline {timeline} begins at {Lsn(start)}, and the server sent the WAL"
                f" before it only up to {Lsn(self._expected)}"
            )
            raise ReplicationError(text, sqlstate="08P01")
        return TimelineEnd(timeline, Lsn(start))

    def _failure_in(self, result: PGresult | None) -> Error | None:
        if result is None or result.status != pq.ExecStatus.FATAL_ERROR:
            return None
        if result.error_field(pq.DiagnosticField.SQLSTATE) is None:
            # An error of libpq, not of the server.
            return lost("it ended inside a message")
        return self._refused(errors.error_from_result(result))

    def _refused(self, error: psycopg.Error) -> ReplicationError:
        return replication_error(error, self._failed, Command.WAL, slot=self._slot)
