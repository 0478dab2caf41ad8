"""Locks on published tables. A preflight waits for them only shortly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from psycopg.errors import LockNotAvailable

from walrow._postgres.failures import LOCK_NOT_AVAILABLE
from walrow._postgres.locks import spoken
from walrow._postgres.session import records, transaction
from walrow.errors import ReplicationError


@contextlib.contextmanager
def reading_tables(
    conn: psycopg.Connection[Any], publications: Sequence[str]
) -> Iterator[None]:
    """Reads tables of publications, and waits for their locks only shortly.

    Raises:
        ReplicationError: Somebody has one of them locked. It says who.
    """
    try:
        with transaction(conn) as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'".encode())
            yield
    except LockNotAvailable as error:
        found = records(conn, _HOLDERS, {"publications": list(publications)})
        who = spoken(map(tuple, found)) or "a lock on one of them"
        text = (
            f"the published tables cannot be checked: the check has waited for {who}."
            " Let that end, and check again"
        )
        raise ReplicationError(text, sqlstate=LOCK_NOT_AVAILABLE) from error


_LOCK_SECONDS = 5
# Reading waits for ACCESS EXCLUSIVE only, and for all that it waits for itself. No server that
# reads publications under locks is older than pg_publication_namespace.
_HOLDERS = """
SELECT DISTINCT jsonb_build_array(
    n.nspname || '.' || c.relname, held.pid, a.application_name
)::text
FROM pg_locks l
JOIN pg_locks held ON held.relation = l.relation AND held.database = l.database
JOIN pg_class c ON c.oid = l.relation
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_activity a ON a.pid = held.pid
WHERE l.mode = 'AccessExclusiveLock' AND held.granted
    AND held.pid IS DISTINCT FROM pg_backend_pid()
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND EXISTS (
        SELECT
        FROM pg_publication p
        JOIN pg_class root ON root.oid = c.oid
            OR root.oid IN (SELECT relid FROM pg_partition_ancestors(c.oid))
        WHERE p.pubname = ANY (%(publications)s::text[]) AND (
            p.puballtables
            OR EXISTS (
                SELECT FROM pg_publication_rel r
                WHERE r.prpubid = p.oid AND r.prrelid = root.oid
                    -- From version 19 on, a table may be excepted: it is not waited for.
                    AND (to_jsonb(r) ->> 'prexcept')::bool IS NOT TRUE
            )
            OR EXISTS (
                SELECT FROM pg_publication_namespace s
                WHERE s.pnpubid = p.oid AND s.pnnspid = root.relnamespace
            )
        )
    )
ORDER BY 1
"""
