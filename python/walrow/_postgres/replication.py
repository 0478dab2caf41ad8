"""The stream of a live server, over psycopg: the only code that speaks CopyBoth.

```python
with ReplicationStream.connect("dbname=shop") as stream:
    stream.start("shop", publications="shop")
    while (block := stream.receive(timeout=1.0)) is not None:
        file.write(block)
        file.flush()
        os.fsync(file.fileno())
        stream.confirm(end_of(block))
```
"""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import TYPE_CHECKING, Any, Literal

from walrow._core import (
    KEEPALIVE_SIZE,
    copy_data_header,
    end_of_wal,
    status_update,
)
from walrow._lsn import Lsn
from walrow._postgres.commands import start_replication_command
from walrow._postgres.connecting import (
    closed_after_error,
    connect,
    parameters_of,
)
from walrow._postgres.failures import UNDEFINED_OBJECT, stream_error
from walrow._postgres.server_errors import replication_error
from walrow._postgres.stream_options import stream_options
from walrow._waiting import READ, WRITE, Waiter
from walrow.errors import ConnectionLostError, Error, OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    import psycopg
    from psycopg import pq

__all__ = ["ReplicationStream"]


class ReplicationStream:
    """A replication connection, and the stream of a slot once it is started.

    Blocks are what the server sent, in the framing `"wire"`: CopyData messages with
    XLogData and keepalives. They end between two messages.

    Call `receive` often, at least every few seconds: it also answers the server's
    keepalives, reports the confirmed position and finds out whether the server is alive.

    One thread at a time may use a stream, and no process after a fork. Another thread,
    or a signal handler, ends a waiting `receive` through the `wakeup_fd`.

    Example:
        with ReplicationStream.connect("dbname=shop") as stream:
            stream.start("shop", publications="shop")
            block = stream.receive(timeout=1.0)

    Attributes:
        connection: The psycopg connection, for commands before `start`.
        server_lsn: The greatest end of WAL in a keepalive. Every transaction that ends
            before it was returned. So when these are durable, it may be confirmed: then
            the server does not keep WAL that has no changes.
        last_received: When something arrived last, as `time.monotonic()` counts.
    """

    @classmethod
    def connect(
        cls,
        conninfo: str = "",
        *,
        server_encoding: str | None = None,
        status_interval: float = 10.0,
        ping_interval: float | None = None,
        wakeup_fd: int | None = None,
        **parameters: Any,
    ) -> Self:
        """Connects for replication, under the settings of `walrow.postgres.settings`.

        Args:
            conninfo: A connection string or URL, as for psycopg. Services, password
                files, the environment, several hosts and unix sockets work too.
            server_encoding: The database's encoding. Default: the server reports it.
            status_interval: The seconds between two reports of the confirmed position.
            ping_interval: After these seconds of silence, the client asks the server
                for an answer. After twice as many, the connection is lost. Default:
                half of the server's `wal_sender_timeout`, or 30 s if it is 0.
            wakeup_fd: A file descriptor. While it is readable, `receive` does not wait.
                The stream does not read from it.
            **parameters: More connection parameters, such as `password`.

        Raises:
            OptionError: The connection string is invalid, or the server is older than
                version 14.
            ReplicationError: The connection failed.
            SettingError: Something overrides a setting.
        """
        given = parameters_of(conninfo, **parameters)
        connection = connect(given, server_encoding=server_encoding)
        if ping_interval is None:
            with closed_after_error(connection, "cannot read wal_sender_timeout"):
                ping_interval = _ping_interval_of(connection)
        return cls(
            connection,
            status_interval=status_interval,
            ping_interval=ping_interval,
            wakeup_fd=wakeup_fd,
        )

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        *,
        status_interval: float,
        ping_interval: float,
        wakeup_fd: int | None,
    ) -> None:
        """Takes a replication connection. `connect` makes one."""
        import psycopg

        self._error: type[psycopg.Error] = psycopg.Error
        self.connection = connection
        self.server_lsn = Lsn(0)
        self.last_received = time.monotonic()
        self._pgconn: pq.abc.PGconn = connection.pgconn
        self._status_interval = status_interval
        self._ping_interval = ping_interval
        self._wakeup_fd = wakeup_fd
        self._slot = ""
        self._publications: tuple[str, ...] = ()
        self._is_streaming = False
        self._has_ended = False
        self._is_closed = False
        self._failure: Error | None = None
        self._block = bytearray()
        self._received = 0
        self._flushed = 0
        self._is_status_asked = False
        self._cut: int | None = None
        self._is_flush_due = False
        self._status_due = 0.0
        self._pinged: float | None = None
        self._waiter = Waiter()
        # libpq reads at least so much at once: after less, the socket is empty. With TLS,
        # bytes may be decrypted already, and the socket looks empty.
        secured = connection.pgconn.ssl_in_use or connection.pgconn.used_gssapi
        self._full_read, self._empty_reads = (1, 3) if secured else (8192, 1)
        self._is_socket_empty = False

    def __enter__(self) -> Self:
        """Returns the stream."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Closes the stream."""
        self.close()

    def __repr__(self) -> str:
        """Names the slot and the state, without the connection's parameters."""
        state = "streaming" if self._is_streaming else "idle"
        if self.connection.closed:
            state = "closed"
        slot = f" slot={self._slot!r}" if self._slot else ""
        return f"<ReplicationStream{slot} {state}>"

    @property
    def server_version(self) -> int:
        """The server's major version."""
        return self.connection.info.server_version // 10_000

    @property
    def server_encoding(self) -> str:
        """The database's encoding, for `walrow.postgres.settings`."""
        return (self._pgconn.parameter_status(b"server_encoding") or b"").decode()

    @property
    def flushed(self) -> Lsn:
        """The position that `confirm` was last called with."""
        return Lsn(self._flushed)

    def start(
        self,
        slot: str,
        start_lsn: int | str = 0,
        *,
        publications: str | Sequence[str],
        protocol_version: int | None = None,
        streaming: bool | None = None,
        binary: bool = False,
        messages: bool = False,
        two_phase: bool = False,
        origin: Literal["any", "none"] | None = None,
    ) -> None:
        """Starts the stream of a slot.

        Args:
            slot: A logical slot for pgoutput.
            start_lsn: Skips transactions that end before it. The server never begins
                before the slot's confirmed position.
            publications: One publication or several.
            protocol_version: Default: the highest of the server.
            streaming: Whether large transactions come before their commit. Default: yes,
                but not with `messages`, because in a streamed transaction, messages of
                rolled-back savepoints look like others. If you ask for both,
                `walrow.messages` marks such messages as `undecidable`.
            binary: Whether values come in binary, if their type has a send function.
            messages: Whether logical messages come.
            two_phase: Whether prepared transactions come at PREPARE. From version 15 on.
            origin: `"none"` skips transactions that came to the server by replication.
                From version 16 on.

        Raises:
            OptionError: The server does not have an option, or the stream was started.
            ReplicationError: The server refused, for example because the slot does not
                exist or is active.
        """
        if self._is_streaming or self.connection.closed:
            text = "a stream starts once: connect again for another slot"
            raise OptionError(text)
        names = (publications,) if isinstance(publications, str) else publications
        self._slot, self._publications = slot, tuple(names)
        options = stream_options(
            self.server_version,
            self._publications,
            protocol_version=protocol_version,
            streaming=streaming,
            binary=binary,
            messages=messages,
            two_phase=two_phase,
            origin=origin,
        )
        command = start_replication_command(slot, Lsn(start_lsn), options)
        self.connection.add_notice_handler(self._take_notice)
        try:
            # psycopg waits so that a signal ends it. The cursor itself is not needed.
            self.connection.execute(command.encode())
        except self._error as error:
            failed = f'cannot stream from slot "{slot}"'
            raise replication_error(error, failed, slot=slot) from error
        self._pgconn.nonblocking = 1
        self._is_streaming = True
        now = self.last_received = time.monotonic()
        self._status_due = now + self._status_interval
        if self._wakeup_fd is not None:
            self._waiter.watch(self._wakeup_fd, READ)

    def receive(self, timeout: float) -> bytes | None:
        """Returns what arrived, and waits for it if there is nothing yet.

        It waits without the interpreter lock, and a signal's handler runs at once. If the
        handler raises an exception, a part of the stream may be missing: only close it.

        Args:
            timeout: The seconds to wait. With 0, it does not wait.

        Returns:
            About 1 MiB at most, but always whole messages. Empty if nothing arrived in
            time, or the `wakeup_fd` is readable. None if the server ended the stream
            without an error, as in a shutdown.

        Raises:
            ReplicationError: The server ended the stream with an error.
            ConnectionLostError: The connection ended, or the server does not answer.
                Like the other, it comes after everything that arrived before, and again
                with each call.
            OptionError: The stream was not started, or is closed.
        """
        if not self._is_streaming or self._is_closed:
            state = "closed" if self._is_closed else "not started: call start"
            text = f"the stream is {state}"
            raise OptionError(text)
        deadline = time.monotonic() + timeout
        if self._is_socket_empty:
            # Most likely, there is nothing to read yet.
            self._wait(min(deadline, self._due()))
            if timeout and time.monotonic() < self.last_received + _BUSY_SECONDS:
                # A walsender sends each message by itself: a block of many costs less.
                time.sleep(_GATHER_SECONDS)
        while True:
            self._read()
            now = time.monotonic()
            if self._block:
                self.last_received, self._pinged = now, None
            if not self._has_ended:
                self._report(now)
            if self._block:
                block = bytes(self._block)
                self._block.clear()
                return block
            if self._failure is not None:
                raise self._failure
            if self._has_ended:
                return None
            if now >= deadline or not self._wait(min(deadline, self._due())):
                return b""

    def confirm(self, flushed: int | str, *, reply: bool = False) -> None:
        """Reports that everything up to a position is durable: the server may forget it.

        The report is sent at once, without waiting for the socket, and repeated at every
        `status_interval` and whenever the server asks.

        Args:
            flushed: The end LSN of the last durable transaction, or `server_lsn` if
                everything that was returned is durable. A lower one than before is
                ignored.
            reply: Whether to ask the server for a keepalive at once.
        """
        self._flushed = max(self._flushed, Lsn(flushed))
        if self._is_streaming and not self._has_ended:
            self._send_status(time.monotonic(), reply=reply)

    def close(self, timeout: float = 1.0) -> None:
        """Ends the stream and the connection. A second call does nothing.

        The server gets the last confirmed position. If it does not answer in time, the
        connection is closed nevertheless.

        Args:
            timeout: The seconds to wait for the server's answer.
        """
        try:
            if self._is_streaming and not self._has_ended:
                self._end_copy(timeout)
        finally:
            self._is_closed = self._has_ended = True
            self._waiter.close()
            self.connection.close()

    def _read(self) -> None:
        """Takes payloads until the socket is empty, or a block is full."""
        empty = 0
        while empty < self._empty_reads and not self._has_ended:
            size = len(self._block)
            if size >= _BLOCK_BYTES:
                self._is_socket_empty = False
                return
            try:
                self._pgconn.consume_input()
                self._drain()
            except self._error as error:
                self._lose(error)
            read = len(self._block) - size
            empty = empty + 1 if read < self._full_read else 0
        self._is_socket_empty = not self._has_ended

    def _drain(self) -> None:
        """Moves every payload that libpq has into the block."""
        # This runs for every message of the stream: as little as possible.
        block, headers = self._block, _HEADERS
        size, last = 0, None
        for size, payload in map(self._pgconn.get_copy_data, _ASYNC):
            if size <= 0:
                break
            block += headers[size]
            block += payload
            last = payload
            if size == KEEPALIVE_SIZE:
                self._take_keepalive(payload)
        if last is not None:
            self._received = max(self._received, end_of_wal(last)[0])
            if self._cut is not None:
                del block[self._cut :]
        if size < 0 and not self._has_ended:
            self._take_result()

    def _take_keepalive(self, payload: memoryview) -> None:
        """Notes the server's position, and whether it asks for an answer."""
        if self._has_ended:
            return
        end, reply = end_of_wal(payload)
        if end > self.server_lsn:
            self.server_lsn = Lsn(end)
        self._is_status_asked = self._is_status_asked or reply

    def _take_notice(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        """Ends the stream if version 18 only warns that it skips a publication.

        Its rows would be missing from here on, as if nothing had changed. The name of the
        server's function is never translated, unlike the text.
        """
        if diagnostic.source_function == "LoadPublications" and not self._has_ended:
            self._cut = len(self._block)
            self._end(stream_error(UNDEFINED_OBJECT, self._slot, self._publications))

    def _take_result(self) -> None:
        """Learns why the server ended the copy."""
        from psycopg import pq

        result = self._pgconn.get_result()
        if result is None or result.status != pq.ExecStatus.FATAL_ERROR:
            self._end(None)
            return
        sqlstate = result.error_field(pq.DiagnosticField.SQLSTATE)
        if sqlstate is None:
            # An error of libpq, not of the server.
            self._end(_lost("it ended inside a message"))
        else:
            failure = stream_error(sqlstate.decode(), self._slot, self._publications)
            self._end(failure)

    def _lose(self, error: Exception) -> None:
        """Ends the stream, after what libpq has read: maybe with the server's reason."""
        with contextlib.suppress(self._error):
            self._drain()
        if not self._has_ended:
            reason = str(error).removeprefix("consuming input failed: ")
            self._end(_lost(reason.strip().partition("\n")[0]))

    def _end(self, failure: Error | None) -> None:
        self._has_ended, self._failure = True, failure

    def _report(self, now: float) -> None:
        """Sends a status that is due, and looks whether the server is alive."""
        if self._is_flush_due:
            self._flush()
        if self._is_status_asked or now >= self._status_due:
            self._send_status(now)
        if self._pinged is None:
            if now >= self.last_received + self._ping_interval:
                self._send_status(now, reply=True)
                self._pinged = now
        elif now >= self._pinged + self._ping_interval:
            silent = now - self.last_received
            self._end(_lost(f"the server has sent nothing for {silent:.0f} s"))

    def _due(self) -> float:
        """When `_report` has something to do."""
        silent_since = self.last_received if self._pinged is None else self._pinged
        return min(self._status_due, silent_since + self._ping_interval)

    def _send_status(self, now: float, *, reply: bool = False) -> None:
        flushed = self._flushed
        received = max(self._received, self.server_lsn, flushed)
        clock = int((time.time() - _POSTGRES_EPOCH) * 1_000_000)
        message = status_update(received, flushed, clock, reply)
        # If libpq has no room for it, it is due again. Reading finds out about a lost
        # connection, maybe with the server's reason.
        with contextlib.suppress(self._error):
            self._is_status_asked = self._pgconn.put_copy_data(message) == 0
        self._status_due = now + self._status_interval
        self._flush()

    def _flush(self) -> None:
        """Sends what libpq holds, as far as the socket takes it."""
        self._is_flush_due = False
        with contextlib.suppress(self._error):
            self._is_flush_due = self._pgconn.flush() == 1

    def _wait(self, until: float) -> bool:
        """Waits for the socket. Returns False if the wake-up descriptor is readable."""
        self._watch_socket()
        return self._wakeup_fd not in self._waiter.wait(until)

    def _watch_socket(self) -> None:
        wanted = READ | WRITE if self._is_flush_due else READ
        self._waiter.watch(self._pgconn.socket, wanted)

    def _end_copy(self, timeout: float) -> None:
        """Ends the copy and waits until the server has ended it too."""
        deadline = time.monotonic() + timeout
        self._send_status(time.monotonic())
        with contextlib.suppress(self._error):
            has_said_end = False
            if self._wakeup_fd is not None:
                self._waiter.watch(self._wakeup_fd, 0)
            while time.monotonic() < deadline:
                if not has_said_end:
                    has_said_end = self._pgconn.put_copy_end() != 0
                self._flush()
                size = 1
                while size > 0:
                    size, _ = self._pgconn.get_copy_data(1)
                if size < 0:
                    return
                self._watch_socket()
                self._waiter.wait(deadline)
                self._pgconn.consume_input()


def _ping_interval_of(connection: psycopg.Connection[Any]) -> float:
    query = "SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'"
    row = connection.execute(query).fetchone()
    milliseconds = int(row[0]) if row else 0
    return milliseconds / 2000 or _DEFAULT_PING_INTERVAL


def _lost(reason: str) -> ConnectionLostError:
    return ConnectionLostError(f"the connection is lost: {reason}")


class _Headers(dict[int, bytes]):
    """The header of a CopyData message, by the size of its payload."""

    def __missing__(self, size: int) -> bytes:
        header = copy_data_header(size)
        if size < _CACHED_SIZES:
            self[size] = header
        return header


_HEADERS = _Headers()
_CACHED_SIZES = 1 << 13
_ASYNC = itertools.repeat(1)
_BLOCK_BYTES = 1 << 20
#: PostgreSQL counts microseconds from 2000-01-01, Unix counts seconds from 1970.
_POSTGRES_EPOCH = 946_684_800
_BUSY_SECONDS = 0.002
#: A Unix socket holds about 300 small messages: a walsender fills it in half a millisecond.
_GATHER_SECONDS = 0.00025
_DEFAULT_PING_INTERVAL = 30.0
