"""The connections and workers of a receiver, so that all of them end with it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from walrow._workers import Crew, current_crew, in_background

if TYPE_CHECKING:
    import psycopg


class OpenConnections(Crew):
    """Connections and workers of somebody who may have to end them all."""

    def __init__(self) -> None:
        super().__init__()
        self._connections: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()
        self._lock = threading.Lock()
        self.has_ended = False

    def opened(self, conn: psycopg.Connection[Any]) -> None:
        """Adds a connection. Call it before anything is executed."""
        with self._lock:
            self._connections.add(conn)

    def end(self, seconds: float) -> bool:
        """Cancels what still runs, and waits for the workers, which close their connections.

        After these seconds, the connections are broken. False if a worker has not ended: it waits
        for a disk, or for the name of a host.
        """
        self.has_ended = True
        end = time.monotonic() + seconds
        cancelled = 0.0
        while self.alive() and (now := time.monotonic()) < end:
            if now >= cancelled + _AGAIN_SECONDS:
                # Again, as one may have been between two statements.
                cancelled = now
                with self.collecting():
                    for conn in self._open():
                        cancel(conn)
            self.join(min(end - now, _JOIN_SECONDS))
        if self.alive():
            for conn in self._open():
                _break(conn)
            self.join(_JOIN_SECONDS)
        return not self.alive()

    def _open(self) -> list[psycopg.Connection[Any]]:
        with self._lock:
            return [conn for conn in self._connections if not conn.closed]


def current() -> OpenConnections | None:
    """The owner of this thread's connections, if they have one."""
    crew = current_crew()
    return crew if isinstance(crew, OpenConnections) else None


def cancel(conn: psycopg.Connection[Any]) -> None:
    """Cancels what another thread waits for on a connection. Does not wait itself."""
    from psycopg import Error, pq

    def send() -> None:
        with contextlib.suppress(Error):
            conn.cancel_safe(timeout=_CANCEL_SECONDS)

    if conn.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
        in_background("walrow-cancel", send)


def _break(conn: psycopg.Connection[Any]) -> None:
    """Ends a connection under the thread that waits for it. That one closes it."""
    import psycopg

    # The descriptor itself stays open: another file could get its number.
    with (
        contextlib.suppress(psycopg.Error, OSError),
        socket.socket(fileno=os.dup(conn.pgconn.socket)) as other,
    ):
        other.shutdown(socket.SHUT_RDWR)


ENDED = "the receiver has ended, and connects no more"
_AGAIN_SECONDS = 0.3
_CANCEL_SECONDS = 1.0
_JOIN_SECONDS = 0.1
