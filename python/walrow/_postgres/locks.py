"""Locks that a command waits for, and who has them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg.errors import LockNotAvailable

from walrow._postgres.connecting import connect_for_sql
from walrow._postgres.failures import LOCK_NOT_AVAILABLE
from walrow._postgres.session import transaction
from walrow._workers import in_background
from walrow.errors import Error, ReplicationError


def locks_on(conn: psycopg.Connection[Any], tables: Sequence[int]) -> str:
    """Says who has locks that keep tables, by their OIDs, from being published, or nothing."""
    return spoken(conn.execute(_ON, [tables]).fetchall())


@contextlib.contextmanager
def waiting_shortly(
    conn: psycopg.Connection[Any], parameters: dict[str, Any], failed: str
) -> Iterator[None]:
    """Reads what a lock on a table delays, and waits for it only shortly.

    Args:
        conn: The connection that reads.
        parameters: The parameters of another connection, which asks who has the lock.
        failed: The step that has failed then.

    Raises:
        ReplicationError: Somebody has a lock. Its SQLSTATE is `LOCK_NOT_AVAILABLE`.
    """
    asking = _Asking(conn.info.backend_pid, parameters)
    try:
        with asking, transaction(conn) as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'".encode())
            yield
    except LockNotAvailable as error:
        text = f"{failed}: it has waited for {asking.found() or 'a lock'}"
        raise ReplicationError(text, sqlstate=LOCK_NOT_AVAILABLE) from error


class _Asking:
    """Asks who has the lock that a process waits for, while it waits.

    It never waits for a server that does not answer: the wait is reported without that, too.
    """

    def __init__(self, waiting: int, parameters: dict[str, Any]) -> None:
        self._waiting = waiting
        self._parameters = parameters
        self._is_over = threading.Event()
        self._has_asked = threading.Event()
        self._found = ""

    def __enter__(self) -> None:
        in_background("walrow-lock", self._ask)

    def __exit__(self, *_exception: object) -> None:
        self._is_over.set()

    def found(self) -> str:
        """The holders of the lock. Empty if they are not known."""
        self._has_asked.wait(_ANSWER_SECONDS)
        return self._found

    def _ask(self) -> None:
        try:
            if self._is_over.wait(_LOOK_SECONDS):
                return
            with (
                contextlib.suppress(Error),
                connect_for_sql(self._parameters) as conn,
            ):
                conn.execute("SET statement_timeout = '1s'")
                rows = conn.execute(_AHEAD, [self._waiting]).fetchall()
                self._found = spoken(rows)
        finally:
            self._has_asked.set()


def spoken(rows: Iterable[tuple[Any, ...]]) -> str:
    """Says who has locks: for each one its table, its process and the name of its application."""
    return "; ".join(
        f"a lock on {table} that "
        + (
            "a prepared transaction has"
            if pid is None
            else f"process {pid} of the server{f' ({client})' if client else ''} has"
        )
        for table, pid, client in rows
    )


# Those that conflict with SHARE UPDATE EXCLUSIVE, which a publication takes.
_ON = """
SELECT DISTINCT format('%%s.%%s', n.nspname, c.relname), l.pid, a.application_name
FROM pg_catalog.pg_locks l
JOIN pg_catalog.pg_class c ON c.oid = l.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.relation = ANY (%s::oid[]) AND l.granted
    AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
    AND l.database = (
        SELECT oid FROM pg_catalog.pg_database
        WHERE datname = pg_catalog.current_database()
    )
    AND l.mode IN (
        'ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock',
        'ExclusiveLock', 'AccessExclusiveLock'
    )
ORDER BY 1, 2
"""
# A command that reads waits for ACCESS EXCLUSIVE only: for whoever has it, or for all that he waits
# for himself.
_AHEAD = """
SELECT DISTINCT format('%%s.%%s', n.nspname, c.relname), l.pid, a.application_name
FROM pg_catalog.pg_locks w
JOIN pg_catalog.pg_locks l ON l.relation = w.relation AND l.database = w.database
JOIN pg_catalog.pg_class c ON c.oid = l.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE w.pid = %s AND w.locktype = 'relation' AND NOT w.granted
    AND l.granted AND l.pid IS DISTINCT FROM w.pid
ORDER BY 1, 2
"""
_LOCK_SECONDS = 2
#: A busy machine may need this long. It has had a second before.
_ANSWER_SECONDS = 1.0
#: Less than that, with the time to connect.
_LOOK_SECONDS = 1.0
