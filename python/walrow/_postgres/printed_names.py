"""Names that the server prints as values of columns, as those of the type regclass."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import psycopg

from walrow._postgres.session import records


def printed_names(
    conn: psycopg.Connection[Any],
    types: Collection[str],
    before: Mapping[str, tuple[int, str]],
) -> tuple[dict[str, tuple[int, str]], set[str]]:
    """The names of these types, and the types of whose objects one was renamed, moved or dropped.

    Args:
        conn: The connection.
        types: The types, as `regclass`.
        before: The names at the last look: the greatest OID, and their digest. A new object does
            not change them.
    """
    now: dict[str, tuple[int, str]] = {}
    moved = set()
    for type_ in types:
        if (sql := _OBJECTS.get(type_)) is None:
            continue
        limit, digest = before.get(type_, (0, None))
        query = _DIGEST.replace("{objects}", sql)
        (found,) = records(conn, query, {"limit": limit})
        now[type_] = found["limit"], found["all"]
        if digest not in {None, found["known"]}:
            moved.add(type_)
    return now, moved


_DIGEST = """
SELECT jsonb_build_object(
    'limit', coalesce(max(o.oid::bigint), 0),
    'all', coalesce(sum(hash_record_extended(ROW(o.oid, o.name, n.nspname), 0)), 0)::text,
    'known', coalesce(sum(hash_record_extended(ROW(o.oid, o.name, n.nspname), 0))
        FILTER (WHERE o.oid::bigint <= %(limit)s), 0)::text
)::text
FROM ({objects}) o (oid, name, schema)
LEFT JOIN pg_namespace n ON n.oid = o.schema
-- Temporary objects come and go.
WHERE coalesce(n.nspname, o.name) !~ '^pg_(toast|temp)'
"""
_PROCEDURES = "SELECT oid, proname, pronamespace FROM pg_proc"
_OPERATORS = "SELECT oid, oprname, oprnamespace FROM pg_operator"
_ROLES = "SELECT oid, rolname, NULL::oid FROM pg_roles"
_OBJECTS = {
    "regclass": "SELECT oid, relname, relnamespace FROM pg_class",
    "regproc": _PROCEDURES,
    "regprocedure": _PROCEDURES,
    "regoper": _OPERATORS,
    "regoperator": _OPERATORS,
    "regtype": "SELECT oid, typname, typnamespace FROM pg_type",
    "regrole": _ROLES,
    "aclitem": _ROLES,
    "regnamespace": "SELECT oid, nspname, NULL::oid FROM pg_namespace",
    "regconfig": "SELECT oid, cfgname, cfgnamespace FROM pg_ts_config",
    "regdictionary": "SELECT oid, dictname, dictnamespace FROM pg_ts_dict",
    "regcollation": "SELECT oid, collname, collnamespace FROM pg_collation",
    "regdatabase": "SELECT oid, datname, NULL::oid FROM pg_database",
}
