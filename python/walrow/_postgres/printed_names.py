"""Names of objects that the server prints as the values of columns, for types like regclass."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import psycopg

from walrow._postgres.session import records


def printed_names(
    conn: psycopg.Connection[Any], types: Collection[str]
) -> dict[str, dict[str, int]]:
    """The hashes of the names that values of types like `regclass` have: by type, then by OID."""
    if not types:
        return {}
    (found,) = records(conn, _NAMES, {"types": sorted(types)})
    return {str(type_): dict(names) for type_, names in found.items()}


_NAMES = """
SELECT coalesce(jsonb_object_agg(f.type, f.names), '{}')::text
FROM (
    SELECT t.type, jsonb_object_agg(o.oid, hashtext(concat_ws('.', n.nspname, o.name)))
    FROM (
        SELECT 'regclass', oid, relname, relnamespace FROM pg_class WHERE relkind <> 't'
        UNION ALL SELECT 'regproc regprocedure', oid, proname, pronamespace FROM pg_proc
        UNION ALL SELECT 'regoper regoperator', oid, oprname, oprnamespace FROM pg_operator
        UNION ALL SELECT 'regtype', oid, typname, typnamespace FROM pg_type
        UNION ALL SELECT 'regrole aclitem', oid, rolname, NULL FROM pg_roles
        UNION ALL SELECT 'regnamespace', oid, nspname, NULL FROM pg_namespace
        UNION ALL SELECT 'regconfig', oid, cfgname, cfgnamespace FROM pg_ts_config
        UNION ALL SELECT 'regdictionary', oid, dictname, dictnamespace FROM pg_ts_dict
        UNION ALL SELECT 'regcollation', oid, collname, collnamespace FROM pg_collation
        UNION ALL SELECT 'regdatabase', oid, datname, NULL FROM pg_database
    ) o (types, oid, name, schema)
    JOIN unnest(%(types)s::text[]) t (type) ON t.type = ANY (string_to_array(o.types, ' '))
    LEFT JOIN pg_namespace n ON n.oid = o.schema
    -- The server's own objects keep their names.
    WHERE o.oid >= 16384
    GROUP BY t.type
) f (type, names)
"""
