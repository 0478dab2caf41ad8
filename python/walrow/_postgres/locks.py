"""Locks that a command waits for, and who has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg


def locks_on(conn: psycopg.Connection[Any], tables: Sequence[int]) -> str:
    """Says who has locks that keep tables, by their OIDs, from being published, or nothing."""
    return spoken(conn.execute(_ON, [tables]).fetchall())


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
