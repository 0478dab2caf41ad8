"""Runs one command at a time on a connection, interruptibly."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import errors, pq
from psycopg.pq.abc import PGresult

from walrow._postgres.hints import Command
from walrow._postgres.server_errors import replication_error
from walrow._postgres.session import check_usable, encoding_of
from walrow._waiting import READ, WRITE, Waiter
from walrow.errors import OptionError, ReplicationError


def is_replication(conn: psycopg.Connection[Any]) -> bool:
    """Whether replication commands can be run on a connection."""
    return _replication_word(conn) not in {"", "0", "false", "no", "off"}


def _replication_word(conn: psycopg.Connection[Any]) -> str:
    check_usable(conn)
    return conn.info.get_parameters().get("replication", "").lower()


def check_database(conn: psycopg.Connection[Any], what: str) -> None:
    """Refuses a replication connection without a database."""
    if _replication_word(conn) != "database":
        raise OptionError(
            f"{what} belongs to a database, and this connection has none:"
            ' psycopg.connect(..., replication="database")'
        )


def check_replication(conn: psycopg.Connection[Any], what: str) -> None:
    """Refuses other connections than replication connections."""
    if not is_replication(conn):
        raise OptionError(
            f"{what} needs a replication connection:"
            ' psycopg.connect(..., replication="database")'
        )


def major_version(conn: psycopg.Connection[Any]) -> int:
    """The server's major version."""
    check_usable(conn)
    return conn.info.server_version // 10_000


def run(
    conn: psycopg.Connection[Any],
    command: str,
    failed: str,
    kind: Command,
    *,
    slot: str | None = None,
    publication: str | None = None,
    tick: Callable[[float], None] | None = None,
    undo: str | None = None,
) -> PGresult:
    """Runs one command by libpq itself: psycopg would begin a transaction before it.

    `tick` is called about once a second until the result arrives, with the seconds since the start.
    If it raises, the command is canceled, or `undo` is run if it is too late for that.
    """
    check_usable(conn)
    encoding = encoding_of(conn)
    with conn.lock:
        try:
            conn.pgconn.send_query(_encoded(command, encoding))
            result = _wait(conn, tick, undo)
        except psycopg.Error as error:
            raise replication_error(
                error, failed, kind, slot=slot, publication=publication
            ) from error
    if result.status in {pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK}:
        return result
    refusal = errors.error_from_result(result, encoding)
    raise replication_error(
        refusal, failed, kind, slot=slot, publication=publication
    ) from refusal


def _encoded(command: str, encoding: str) -> bytes:
    try:
        return command.encode(encoding)
    except UnicodeEncodeError:
        text = f"a name is not in the connection's encoding, {encoding}"
        raise OptionError(text) from None


def row_of(result: PGresult) -> list[bytes | None]:
    """The cells of a result's only row."""
    if result.ntuples != 1:
        text = f"the server returned {result.ntuples} rows instead of one"
        raise ReplicationError(text)
    return [result.get_value(0, column) for column in range(result.nfields)]


def _wait(
    conn: psycopg.Connection[Any],
    tick: Callable[[float], None] | None,
    undo: str | None,
) -> PGresult:
    """Waits for the result of the command that was sent, interruptibly."""
    start = time.monotonic()
    with Waiter() as waiter:

        def poll() -> None:
            if not _poll(waiter, conn, READ) and tick is not None:
                tick(time.monotonic() - start)

        try:
            while conn.pgconn.flush():
                _poll(waiter, conn, READ | WRITE)
                conn.pgconn.consume_input()
            return _last_result(conn, poll)
        except BaseException:
            _cancel(waiter, conn, undo)
            raise


def _cancel(waiter: Waiter, conn: psycopg.Connection[Any], undo: str | None) -> None:
    """Cancels the running command, or undoes it if it was faster."""
    deadline = time.monotonic() + 2 * _CANCEL_SECONDS

    def poll() -> None:
        if time.monotonic() > deadline:
            raise psycopg.OperationalError("the server does not end the command")
        _poll(waiter, conn, READ)

    with contextlib.suppress(psycopg.Error):
        conn.cancel_safe(timeout=_CANCEL_SECONDS)
        done = _last_result(conn, poll).status == pq.ExecStatus.TUPLES_OK
        if done and undo is not None:
            conn.pgconn.exec_(undo.encode(encoding_of(conn)))
        return
    # Its state is unknown.
    conn.pgconn.finish()


def _last_result(conn: psycopg.Connection[Any], poll: Callable[[], None]) -> PGresult:
    """Waits until the command has ended, and returns its last result."""
    last = None
    while True:
        # `get_result` waits with the interpreter lock held until a result is there.
        while conn.pgconn.is_busy():
            poll()
            conn.pgconn.consume_input()
        result = conn.pgconn.get_result()
        if result is None:
            break
        last = result
        if last.status in _COPIES:
            # libpq returns the same result again at each call.
            text = "the server began a COPY, which was not asked for"
            raise psycopg.OperationalError(text)
    if last is None:
        raise psycopg.OperationalError("the server returned no result")
    return last


def _poll(waiter: Waiter, conn: psycopg.Connection[Any], events: int) -> bool:
    """Waits for the socket. Signals are handled at least as often as this returns."""
    waiter.watch(conn.pgconn.socket, events)
    return bool(waiter.wait(time.monotonic() + _POLL_SECONDS))


def literal(text: str) -> str:
    r"""A text as a string of SQL, whatever the session's settings are.

    >>> print(literal("it's"), literal("a\\b"))
    'it''s' E'a\\b'
    """
    quoted = "'" + text.replace("'", "''") + "'"
    return f"E{quoted}".replace("\\", "\\\\") if "\\" in text else quoted


_CANCEL_SECONDS = 5.0
_COPIES = {pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT, pq.ExecStatus.COPY_BOTH}
_POLL_SECONDS = 1.0
