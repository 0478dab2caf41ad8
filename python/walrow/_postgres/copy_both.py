"""A connection on which the server streams, and both sides may speak: CopyBoth."""

from __future__ import annotations

import contextlib
import io
import itertools
import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import psycopg
from psycopg import pq

from walrow._core import end_of_wal, status_update
from walrow._lsn import Lsn
from walrow._postgres.connecting import closed_after_error
from walrow._postgres.show import show_amount
from walrow._waiting import READ, WRITE, Waiter, pause
from walrow.errors import ConnectionLostError, Error, OptionError


class CopyBoth(ABC):
    """The shared part of logical and physical streams: they wait, answer and end.

    `server_lsn` is the greatest end of WAL in a keepalive, and `server_clock` the clock in the last one.
    """

    #: How long a block gathers what the server sends on, after the first message.
    _gather_seconds: ClassVar[float] = 0.0

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        *,
        status_interval: float,
        ping_interval: float | None,
        wakeup_fd: int | None,
    ) -> None:
        """Takes a replication connection. It is closed after an error."""
        self._error: type[psycopg.Error] = psycopg.Error
        self.connection = connection
        self.server_lsn = Lsn(0)
        self.server_clock: int | None = None
        self.last_received = time.monotonic()
        self._pgconn: pq.abc.PGconn = connection.pgconn
        self._status_interval = status_interval
        self._ping_interval = _ping_interval(connection, ping_interval)
        self._wakeup_fd = wakeup_fd
        self._is_streaming = False
        self._has_ended = False
        self._is_closed = False
        self._failure: Error | None = None
        # Writing to it costs less than adding to a bytearray, and taking its value copies nothing.
        self._block = io.BytesIO()
        self._received = 0
        self._flushed = 0
        self._is_status_asked = False
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
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def server_version(self) -> int:
        """The server's major version."""
        return self.connection.info.server_version // 10_000

    @property
    def flushed(self) -> Lsn:
        """The position that `confirm` was last called with."""
        return Lsn(self._flushed)

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

    @abstractmethod
    def _drain(self) -> None:
        """Moves every payload that libpq has into the block."""

    @abstractmethod
    def _positions(self) -> tuple[int, int, int]:
        """The positions in a status: the ends of the received, the durable, and the applied changes."""

    def _begin_copy(self) -> None:
        """Notes that the server streams from now on."""
        self._pgconn.nonblocking = 1
        self._is_streaming, self._has_ended, self._failure = True, False, None
        now = self.last_received = time.monotonic()
        self._status_due, self._pinged = now + self._status_interval, None
        if self._wakeup_fd is not None:
            self._waiter.watch(self._wakeup_fd, READ)

    def _receive(self, timeout: float) -> bytes | None:
        """Takes the block that arrives in time. None if the stream has ended."""
        if not self._is_streaming or self._is_closed:
            state = "closed" if self._is_closed else "not started: call start"
            raise OptionError(f"the stream is {state}")
        deadline = time.monotonic() + timeout
        if self._is_socket_empty:
            # Most likely, there is nothing to read yet.
            self._wait(min(deadline, self._due()))
        while True:
            self._read()
            if timeout and self._gather_seconds:
                self._gather()
            now = time.monotonic()
            has_block = self._block.tell() > 0
            if has_block:
                self.last_received, self._pinged = now, None
            if not self._has_ended:
                self._report(now)
            if has_block:
                block, self._block = self._block.getvalue(), io.BytesIO()
                return block
            if self._failure is not None:
                raise self._failure
            if self._has_ended:
                return None
            if now >= deadline or not self._wait(min(deadline, self._due())):
                return b""

    def _read(self) -> None:
        """Takes payloads until the socket is empty, or a block is full."""
        empty = 0
        while empty < self._empty_reads and not self._has_ended:
            size = self._block.tell()
            if size >= _BLOCK_BYTES:
                self._is_socket_empty = False
                return
            try:
                self._pgconn.consume_input()
                self._drain()
            except self._error as error:
                self._lose(error)
            read = self._block.tell() - size
            empty = empty + 1 if read < self._full_read else 0
        self._is_socket_empty = not self._has_ended

    def _gather(self) -> None:
        """Reads on while the server sends on: a block costs as much as many small messages."""
        size, until = 0, time.monotonic() + self._gather_seconds
        while size < self._block.tell() < _BLOCK_BYTES and time.monotonic() < until:
            size = self._block.tell()
            pause(_PAUSE_SECONDS)
            self._read()

    def _take_keepalive(self, payload: memoryview) -> None:
        """Notes the server's position, and whether it asks for an answer."""
        if self._has_ended:
            return
        end, reply, self.server_clock = end_of_wal(payload)
        if end > self.server_lsn:
            self.server_lsn = Lsn(end)
        self._is_status_asked = self._is_status_asked or reply

    def _lose(self, error: Exception) -> None:
        """Ends the stream, after what libpq has read: maybe with the server's reason."""
        with contextlib.suppress(self._error):
            self._drain()
        if not self._has_ended:
            reason = str(error).removeprefix("consuming input failed: ")
            self._end(lost(reason.strip().partition("\n")[0]))

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
            self._end(lost(f"the server has sent nothing for {silent:.0f} s"))

    def _due(self) -> float:
        """When `_report` has something to do."""
        silent_since = self.last_received if self._pinged is None else self._pinged
        return min(self._status_due, silent_since + self._ping_interval)

    def _send_status(self, now: float, *, reply: bool = False) -> None:
        received, flushed, applied = self._positions()
        clock = now_of_postgres()
        message = status_update(received, flushed, applied, clock, reply)
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


def now_of_postgres() -> int:
    """The time, in microseconds since 2000."""
    return int((time.time() - _POSTGRES_EPOCH) * 1_000_000)


def _ping_interval(connection: psycopg.Connection[Any], given: float | None) -> float:
    """The seconds of silence before a ping. The connection is closed if they cannot be read.

    By default, that is half of the server's `wal_sender_timeout`.
    """
    if given is not None:
        return given
    with closed_after_error(connection, "cannot read wal_sender_timeout"):
        timeout = show_amount(connection, "wal_sender_timeout")
    return timeout / 2000 or _DEFAULT_PING_INTERVAL


def lost(reason: str) -> ConnectionLostError:
    """The error of a connection that ended, or is silent."""
    return ConnectionLostError(f"the connection is lost: {reason}")


_DEFAULT_PING_INTERVAL = 30.0
#: Each call of `get_copy_data` returns at once.
ASYNC = itertools.repeat(1)
_BLOCK_BYTES = 1 << 20
#: PostgreSQL counts microseconds from 2000-01-01, Unix counts seconds from 1970.
_POSTGRES_EPOCH = 946_684_800
#: A Unix socket holds about 300 small messages: a walsender fills it in half a millisecond.
_PAUSE_SECONDS = 0.00025
