"""The logical stream of a live server, over psycopg.

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
import re
import time
from collections.abc import Sequence
from typing import Any, Literal, Self

import psycopg
from psycopg import pq

from walrow._core import (
    KEEPALIVE_SIZE,
    copy_data_header,
    end_of_wal,
)
from walrow._lsn import Lsn
from walrow._postgres.commands import start_replication_command
from walrow._postgres.connecting import (
    connect,
    parameters_of,
)
from walrow._postgres.copy_both import ASYNC, CopyBoth, lost
from walrow._postgres.failures import UNDEFINED_OBJECT
from walrow._postgres.hints import Command
from walrow._postgres.running import literal
from walrow._postgres.server_errors import replication_error, stream_error
from walrow._postgres.session import BYTES, codec_of, server_encoding_of
from walrow._postgres.stream_options import stream_options
from walrow.errors import OptionError


class ReplicationStream(CopyBoth):
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

    # A walsender sends each message by itself.
    _gather_seconds = 0.01
    _slot = ""
    _publications: tuple[str, ...] = ()
    _cut: int | None = None

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
        return cls(
            connection,
            status_interval=status_interval,
            ping_interval=ping_interval,
            wakeup_fd=wakeup_fd,
        )

    def __repr__(self) -> str:
        """Names the slot and the state, without the connection's parameters."""
        state = "streaming" if self._is_streaming else "idle"
        if self.connection.closed:
            state = "closed"
        slot = f" slot={self._slot!r}" if self._slot else ""
        return f"<ReplicationStream{slot} {state}>"

    @property
    def server_encoding(self) -> str:
        """The database's encoding, for `walrow.postgres.settings`."""
        return server_encoding_of(self.connection)

    @property
    def received(self) -> Lsn:
        """The end of the WAL that the server has sent."""
        return Lsn(self._positions()[0])

    def start(
        self,
        slot: str,
        start_lsn: int | str = 0,
        *,
        publications: str | Sequence[str],
        protocol_version: int | None = None,
        streaming: bool | Literal["on", "parallel"] | None = None,
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
                `walrow.messages` marks such messages as `undecidable`. With protocol 4,
                True is `"parallel"`: aborts have an LSN and a time then.
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
            raise OptionError("a stream starts once: connect again for another slot")
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
            raise replication_error(error, failed, Command.START, slot=slot) from error
        self._begin_copy()

    def receive(self, timeout: float) -> bytes | None:
        """Returns what arrived, and waits for it if there is nothing yet.

        It waits without the interpreter lock, and a signal's handler runs at once. If the
        handler raises an exception, a part of the stream may be missing: only close it.

        Args:
            timeout: The seconds to wait. With 0, it does not wait. Otherwise, it also takes what the
                server sends on within 10 ms: a block costs as much as many small messages.

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
        return self._receive(timeout)

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

    def _positions(self) -> tuple[int, int, int]:
        received = max(self._received, self.server_lsn, self._flushed)
        return received, self._flushed, self._flushed

    def _drain(self) -> None:
        """Moves every payload that libpq has into the block."""
        # This runs for every message of the stream: as little as possible.
        write, headers = self._block.write, _HEADERS
        size, last = 0, None
        for size, payload in map(self._pgconn.get_copy_data, ASYNC):
            if size <= KEEPALIVE_SIZE:
                if size <= 0:
                    break
                self._take_keepalive(payload)
            write(headers[size])
            write(payload)
            last = payload
        if last is not None:
            self._received = max(self._received, end_of_wal(last)[0])
            if self._cut is not None:
                self._block.seek(self._cut)
                self._block.truncate()
        if size < 0 and not self._has_ended:
            self._take_result()

    def _take_notice(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        """Ends the stream if version 18 only warns that it skips a publication.

        Its rows would be missing from here on, as if nothing had changed. The name of the
        server's function is never translated, unlike the text.
        """
        if diagnostic.source_function == "LoadPublications" and not self._has_ended:
            self._cut = self._block.tell()
            self._end(stream_error(UNDEFINED_OBJECT, self._slot, self._publications))

    def _take_result(self) -> None:
        """Learns why the server ended the copy."""
        result = self._pgconn.get_result()
        if result is None or result.status != pq.ExecStatus.FATAL_ERROR:
            self._end(None)
            return
        sqlstate = result.error_field(pq.DiagnosticField.SQLSTATE)
        if sqlstate is None:
            # An error of libpq, not of the server.
            self._end(lost("it ended inside a message"))
        else:
            version, code = self._pgconn.server_version, sqlstate.decode()
            place = self._place_of(result) if code == _UNTRANSLATABLE else ""
            failure = stream_error(code, self._slot, self._publications, version, place)
            self._end(failure)

    def _place_of(self, error: Any) -> str:
        """Where a change is that the server cannot convert: in this table, of a database in this encoding.

        The error has only its LSN. The slot is free again, and SQL shows the change without a conversion.
        """
        encoding, pgconn, tables = self.server_encoding, self._pgconn, ""
        with contextlib.suppress(self._error, UnicodeEncodeError):
            while pgconn.get_result() is not None:
                pass
            lsn = _LSN.search(error.error_field(pq.DiagnosticField.CONTEXT) or b"")
            names = (it.replace('"', '""') for it in self._publications)
            query = _TABLES_AT.format(
                slot=literal(self._slot),
                publications=literal(", ".join(f'"{it}"' for it in names)),
                lsn=literal("" if lsn is None else lsn[0].decode()),
            )
            pgconn.exec_(_UNCONVERTED)
            found = pgconn.exec_(query.encode(codec_of(encoding)))
            if found.ntuples:
                cell = found.get_value(0, 0) or b""
                tables = f" of {cell.decode(codec_of(encoding), BYTES)}"
        return f" at a change{tables} that is not UTF-8 in a database in {encoding}"


class _Headers(dict[int, bytes]):
    """The header of a CopyData message, by the size of its payload."""

    def __missing__(self, size: int) -> bytes:
        header = copy_data_header(size)
        if size < _CACHED_SIZES:
            self[size] = header
        return header


_UNTRANSLATABLE = "22P05"
_LSN = re.compile(rb"[0-9A-F]+/[0-9A-F]+")
_UNCONVERTED = b"SET client_encoding = 'SQL_ASCII'; SET statement_timeout = '5s'"
_TABLES_AT = """
SELECT pg_catalog.string_agg(DISTINCT pg_catalog.concat(n.nspname, '.', c.relname), ', ')
FROM pg_catalog.pg_logical_slot_peek_binary_changes(
    {slot}, NULL, NULL, 'proto_version', '1', 'publication_names', {publications}
) change
JOIN pg_catalog.pg_class c ON c.oid::bigint
    = ('x' || pg_catalog.encode(pg_catalog.substr(change.data, 2, 4), 'hex'))::bit(32)::bigint
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE change.lsn = {lsn} AND pg_catalog.substr(change.data, 1, 1) IN ('I', 'U', 'D')
HAVING pg_catalog.count(*) > 0
"""
_HEADERS = _Headers()
_CACHED_SIZES = 1 << 13
