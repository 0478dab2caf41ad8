"""Locks that a command waits for, and who has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg


def locks_on(
    conn: psycopg.Connection[Any], tables: Sequence[int], modes: Sequence[str]
) -> dict[int, str]:
    """Says who else has locks of these modes on tables, or waits for them, by the table's OID."""
    found: dict[int, list[str]] = {}
    for oid, table, pid, client, has in conn.execute(_ON, [list(tables), list(modes)]):
        name = f" ({client})" if client else ""
        who = f"process {pid} of the server{name}" if pid else "a prepared transaction"
        text = f"a lock on {table} that {who} {'has' if has else 'waits for'}"
        found.setdefault(oid, []).append(text)
    return {oid: "; ".join(texts) for oid, texts in found.items()}


#: A reader waits for each session that has this lock, or has asked for it.
READING = ("AccessExclusiveLock",)
#: A publication takes SHARE UPDATE EXCLUSIVE.
PUBLISHING = (
    *("ShareUpdateExclusiveLock", "ShareLock", "ShareRowExclusiveLock"),
    *("ExclusiveLock", *READING),
)
_ON = """
SELECT DISTINCT c.oid::bigint, format('%%s.%%s', n.nspname, c.relname), l.pid,
    a.application_name, l.granted
FROM pg_catalog.pg_locks l
JOIN pg_catalog.pg_class c ON c.oid = l.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.relation = ANY (%s::oid[]) AND l.mode = ANY (%s)
    AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
    AND l.database = (
        SELECT oid FROM pg_catalog.pg_database
        WHERE datname = pg_catalog.current_database()
    )
ORDER BY 2, 3
"""
