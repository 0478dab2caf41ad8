"""The connections and threads of a receiver, so that all of them end with it."""

from __future__ import annotations

import contextlib
import contextvars
import os
import socket
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

__all__ = ["OpenConnections", "cancel", "current", "start_thread"]


class OpenConnections:
    """Connections and threads of somebody who may have to end them all."""

    def __init__(self) -> None:
        """Has none."""
        self._connections: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()
        self.has_ended = False

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Collects the connections and threads that this thread and its threads begin meanwhile."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def opened(self, conn: psycopg.Connection[Any]) -> None:
        """Adds a connection. Call it before anything is executed."""
        with self._lock:
            self._connections.add(conn)

    def started(self, thread: threading.Thread) -> None:
        """Adds a thread."""
        with self._lock:
            self._threads = {it for it in self._threads if it.is_alive()}
            self._threads.add(thread)

    def end(self, seconds: float) -> bool:
        """Cancels what still runs, and waits for the threads, which close their connections.

        Args:
            seconds: How long it waits. After that, the connections are broken.

        Returns:
            Whether all threads have ended. Not if one waits for a disk or for the name of a host.
        """
        self.has_ended = True
        end = time.monotonic() + seconds
        cancelled = 0.0
        while self._alive() and (now := time.monotonic()) < end:
            if now >= cancelled + _AGAIN_SECONDS:
                # Again, as one may have been between two statements.
                cancelled = now
                with self.collecting():
                    for conn in self._open():
                        cancel(conn)
            self._join(min(end - now, _JOIN_SECONDS))
        if self._alive():
            for conn in self._open():
                _break(conn)
            self._join(_JOIN_SECONDS)
        return not self._alive()

    def _open(self) -> list[psycopg.Connection[Any]]:
        with self._lock:
            return [conn for conn in self._connections if not conn.closed]

    def _alive(self) -> list[threading.Thread]:
        with self._lock:
            return [it for it in self._threads if it.is_alive()]

    def _join(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for thread in self._alive():
            thread.join(max(0.0, end - time.monotonic()))


def current() -> OpenConnections | None:
    """The owner of this thread's connections, if they have one."""
    return _CURRENT.get()


def start_thread(
    target: Callable[..., object], *arguments: Any, name: str
) -> threading.Thread:
    """Starts a thread which belongs to what this one belongs to.

    It is a daemon: neither a server nor a disk holds the process.
    """
    context = contextvars.copy_context()
    thread = threading.Thread(
        target=context.run, args=(target, *arguments), name=name, daemon=True
    )
    thread.start()
    if (owner := current()) is not None:
        owner.started(thread)
    return thread


def cancel(conn: psycopg.Connection[Any]) -> None:
    """Cancels what another thread waits for on a connection. Does not wait itself."""
    from psycopg import Error, pq

    def send() -> None:
        with contextlib.suppress(Error):
            conn.cancel_safe(timeout=_CANCEL_SECONDS)

    if conn.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
        start_thread(send, name="walrow-cancel")


def _break(conn: psycopg.Connection[Any]) -> None:
    """Ends a connection under the thread that waits for it. That one closes it."""
    import psycopg

    # The descriptor itself stays open: another file could get its number.
    with (
        contextlib.suppress(psycopg.Error, OSError),
        socket.socket(fileno=os.dup(conn.pgconn.socket)) as other,
    ):
        other.shutdown(socket.SHUT_RDWR)


_CURRENT: contextvars.ContextVar[OpenConnections | None] = contextvars.ContextVar(
    "walrow_open_connections", default=None
)
_AGAIN_SECONDS = 0.3
_CANCEL_SECONDS = 1.0
_JOIN_SECONDS = 0.1
