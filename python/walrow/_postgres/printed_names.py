"""Names of objects that the server prints as the values of columns, for types like regclass."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
    return {it: dict(found.get(it, {})) for it in types}


def renamed_since(
    conn: psycopg.Connection[Any],
    printed: Mapping[str, Mapping[str, int]],
    known: Mapping[str, Mapping[str, int]],
    young: Collection[int],
) -> set[str]:
    """The OIDs of objects that the last look did not name, and that may have been renamed since.

    Args:
        conn: A connection.
        printed: The names that values have now.
        known: The names at the last look. For a type without names, only renames since
            the creation of a young table count.
        young: The OIDs of the young tables.
    """
    came = {
        type_: names.keys() - known.get(type_, {}) for type_, names in printed.items()
    }
    if not any(came.values()):
        return set()
    lists: dict[str, list[int]] = {"new": [], "old": [], "young": list(young)}
    for type_, oids in came.items():
        lists["new" if type_ in known else "old"] += map(int, oids)
    (found,) = records(conn, _RENAMED, lists)
    return set(map(str, found["oids"]))


# The creation writes the object's row and its entries in pg_depend with one command, and OWNER TO
# writes the owner's. A table has the name of its row type, whose row no other command writes. Nothing
# shows it of an index, a sequence, a role, a schema or a database.
_RENAMED = """
WITH object (oid, catalog, object, owned, xmin, cmin) AS (
    SELECT c.oid, 'pg_type'::regclass, y.oid, c.oid, y.xmin, y.cmin::text
    FROM pg_class c JOIN pg_type y ON y.oid = c.reltype
    UNION ALL
    SELECT y.oid, 'pg_type'::regclass, y.oid,
        coalesce(nullif(e.typrelid, 0), e.oid, nullif(y.typrelid, 0), y.oid), y.xmin, y.cmin::text
    FROM pg_type y LEFT JOIN pg_type e ON e.typarray = y.oid
    UNION ALL SELECT oid, 'pg_proc'::regclass, oid, oid, xmin, cmin::text FROM pg_proc
    UNION ALL SELECT oid, 'pg_operator'::regclass, oid, oid, xmin, cmin::text FROM pg_operator
    UNION ALL SELECT oid, 'pg_ts_config'::regclass, oid, oid, xmin, cmin::text FROM pg_ts_config
    UNION ALL SELECT oid, 'pg_ts_dict'::regclass, oid, oid, xmin, cmin::text FROM pg_ts_dict
    UNION ALL SELECT oid, 'pg_collation'::regclass, oid, oid, xmin, cmin::text FROM pg_collation
)
SELECT jsonb_build_object('oids', coalesce(jsonb_agg(o.oid::bigint), '[]'))::text
FROM object o
WHERE (o.oid = ANY (%(new)s::bigint[]) OR o.oid = ANY (%(old)s::bigint[]) AND age(o.xmin) <= (
        -- Older transactions may end later.
        SELECT max(greatest(age(b.xmin), age(nullif(c.relfrozenxid::text, '0')::xid)))
        FROM pg_class c
        JOIN pg_depend b ON b.refclassid = 'pg_class'::regclass AND b.refobjid = c.oid
            AND b.classid = 'pg_type'::regclass AND b.objid = c.reltype AND b.deptype = 'i'
        WHERE c.oid = ANY (%(young)s::bigint[])
    ))
    AND NOT EXISTS (
        SELECT
        FROM (
            SELECT xmin, cmin::text FROM pg_depend
            WHERE classid = o.catalog AND objid = o.object
            UNION ALL
            SELECT xmin, cmin::text FROM pg_shdepend
            WHERE objid = o.owned AND deptype = 'o'
                AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
        ) d
        WHERE d.xmin = o.xmin AND d.cmin = o.cmin
    )
"""
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
