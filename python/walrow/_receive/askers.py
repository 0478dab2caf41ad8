"""Questions to a server beside a stream, over one connection that is kept.

```text
ask(question) ─► queue ─► the asker's thread: question(connection) ─► Future
```
A server that stands still delays only the answers: whoever asks goes on without them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import pq

from walrow._core import Catalog
from walrow._postgres.catalog import catalog_now
from walrow._postgres.failures import LOCK_NOT_AVAILABLE, QUERY_CANCELED
from walrow._postgres.hints import Command
from walrow._postgres.open_connections import cancel
from walrow._postgres.server_errors import copy_error, replication_error
from walrow._workers import Worker
from walrow.errors import ConnectionLostError, Error, OptionError, ReplicationError

T = TypeVar("T")


class Asker:
    """Asks one question after the other, in its own thread.

    Its connection is opened by the first question. It is replaced without a word when the server has
    ended it, and once an hour: what a session of the server remembers of its tables only grows.
    """

    def __init__(
        self, connect: Callable[[], psycopg.Connection[Any]], name: str
    ) -> None:
        """Stores the arguments: `connect` opens a connection in autocommit mode."""
        self._connect = connect
        self._worker = Worker(name, self._hang_up)
        self._conn: psycopg.Connection[Any] | None = None
        self._opened = 0.0
        self._is_old = False
        self._is_closed = False

    def ask(self, question: Callable[[psycopg.Connection[Any]], T]) -> Future[T]:
        """Asks a question, after the earlier ones. An error of psycopg becomes a ReplicationError.

        The question may be called twice, if the server has ended the connection.
        """
        answer = self._worker.do(partial(self._answer, question))
        if answer.cancelled():
            answer = Future()
            answer.set_exception(_closed())
        return answer

    def renew(self) -> None:
        """The next question opens a new connection: of several hosts, another may be right now."""
        self._is_old = True

    def close(self) -> None:
        """Asks no more, and cancels the current question. Does not wait for its end."""
        self._is_closed = True
        self._worker.close()
        conn = self._conn
        if conn is not None and not conn.closed:
            cancel(conn)

    def _answer(self, question: Callable[[psycopg.Connection[Any]], T]) -> T:

        is_kept = self._is_kept()
        try:
            try:
                return self._ask(question)
            except (Error, psycopg.Error) as error:
                if not is_kept or self._is_closed or not self._is_lost(error):
                    raise
                self._hang_up()
            return self._ask(question)
        except psycopg.Error as error:
            failed = "a query beside the stream failed"
            raise replication_error(error, failed, Command.QUERY) from error

    def _ask(self, question: Callable[[psycopg.Connection[Any]], T]) -> T:

        if self._is_closed:
            raise _closed()
        if self._conn is None:
            self._is_old, self._opened = False, time.monotonic()
            self._conn = self._connect()
        try:
            return question(self._conn)
        finally:
            # An open transaction would hold back the server's vacuum.
            if self._conn.pgconn.transaction_status != pq.TransactionStatus.IDLE:
                self._hang_up()

    def _is_kept(self) -> bool:
        """Whether there is a connection, and it is still good."""
        is_old = self._is_old or time.monotonic() >= self._opened + _RENEWED_SECONDS
        if self._conn is not None and (is_old or self._conn.closed):
            self._hang_up()
        return self._conn is not None

    def _is_lost(self, error: BaseException) -> bool:
        is_ended = getattr(error, "sqlstate", None) in _ENDED
        return is_ended or self._conn is None or self._conn.closed

    def _hang_up(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()


def read_catalog(
    conn: psycopg.Connection[Any], *, publications: Sequence[str]
) -> Catalog:
    """Reads the catalog for publications, and does not wait for locks on their tables."""
    try:
        try:
            return catalog_now(conn, publications)
        except OptionError:
            # A publication that does not exist is named by the preflight.
            return catalog_now(conn, ())
    except psycopg.Error as error:
        # The server's message may have a part of a name or a default.
        hint, failed = "the server's log says more", "the catalog cannot be read"
        if error.sqlstate is None:
            raise replication_error(error, failed, Command.QUERY, hint=hint) from error
        raise copy_error(error, failed, hint=hint) from error


def first_catalog(
    read: Callable[[], Future[Catalog]],
) -> tuple[Catalog | None, ReplicationError | None]:
    """The catalog, or why a stream begins without it: a lock may last for long."""
    try:
        return read().result(), None
    except ReplicationError as error:
        if error.sqlstate not in {LOCK_NOT_AVAILABLE, QUERY_CANCELED}:
            raise
        return None, error


def _closed() -> ConnectionLostError:
    text = "the receiver has ended, and asks no more"
    return ConnectionLostError(text)


_RENEWED_SECONDS = 3600.0
#: The server has ended the session: by an administrator, a restart or one of its timeouts.
_ENDED = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"}
