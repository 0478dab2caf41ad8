"""Questions to a server beside a stream, over one connection that is kept.

```text
ask(question) ─► queue ─► the asker's thread: question(connection) ─► Future
```
A server that stands still delays only the answers: whoever asks goes on without them.
"""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import pq

from walrow._postgres.open_connections import cancel, start_thread
from walrow._postgres.server_errors import replication_error
from walrow.errors import ConnectionLostError, Error

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["Asker", "is_answered"]

T = TypeVar("T")


class Asker:
    """Asks one question after the other, in its own thread.

    Its connection is opened by the first question. It is replaced without a word when the server has
    ended it, and once an hour: what a session of the server remembers of its tables only grows.
    """

    def __init__(
        self, connect: Callable[[], psycopg.Connection[Any]], name: str
    ) -> None:
        """Stores the arguments.

        Args:
            connect: Opens a connection in autocommit mode.
            name: The thread's name.
        """
        self._connect = connect
        self._name = name
        self._questions: queue.SimpleQueue[Callable[[], None] | None] = (
            queue.SimpleQueue()
        )
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._conn: psycopg.Connection[Any] | None = None
        self._opened = 0.0
        self._is_old = False
        self._is_closed = False

    def ask(self, question: Callable[[psycopg.Connection[Any]], T]) -> Future[T]:
        """Asks a question, after the earlier ones.

        Args:
            question: Asks over the connection. It may be called twice, if the server has ended
                the connection.

        Returns:
            The answer. An error of psycopg becomes a ReplicationError.
        """
        answer: Future[T] = Future()

        def respond() -> None:
            try:
                found = self._answer(question)
            except BaseException as error:
                answer.set_exception(error)
            else:
                answer.set_result(found)

        with self._lock:
            if self._is_closed:
                answer.set_exception(_closed())
                return answer
            if self._thread is None:
                self._thread = start_thread(self._run, name=self._name)
            self._questions.put(respond)
        return answer

    def renew(self) -> None:
        """The next question opens a new connection: of several hosts, another may be right now."""
        self._is_old = True

    def close(self) -> None:
        """Asks no more, and cancels the current question. Does not wait for its end."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._questions.put(None)
        conn = self._conn
        if conn is not None and not conn.closed:
            cancel(conn)

    def _run(self) -> None:
        try:
            while (respond := self._questions.get()) is not None:
                respond()
        finally:
            self._hang_up()

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
            raise replication_error(error, failed) from error

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


def is_answered(
    answer: Future[Any], seconds: float, stop: threading.Event | None = None
) -> bool:
    """Waits for an answer, or an error, at most so long or until a stop. Returns whether it is there."""
    end = time.monotonic() + seconds
    has_come = threading.Event()
    answer.add_done_callback(lambda _: has_come.set())
    while not answer.done() and (left := end - time.monotonic()) > 0:
        if stop is not None and stop.is_set():
            break
        has_come.wait(left if stop is None else min(left, _STOP_SECONDS))
    return answer.done()


def _closed() -> ConnectionLostError:
    text = "the receiver has ended, and asks no more"
    return ConnectionLostError(text)


_RENEWED_SECONDS = 3600.0
_STOP_SECONDS = 0.1
#: The server has ended the session: by an administrator, a restart or one of its timeouts.
_ENDED = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"}
