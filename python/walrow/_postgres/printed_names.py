"""The texts of objects that the server prints as the values of columns, for types like regclass."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import psycopg

from walrow._postgres.session import records


def printed_names(
    conn: psycopg.Connection[Any], types: Collection[str]
) -> dict[str, dict[str, int]]:
    """The hashes of the texts that values of these types have: by type, then by OID.

    The server's own objects have one hash together, under the OID 0. Unknown types are left out.
    """
    asked = sorted(_CATALOGS.keys() & types)
    if not asked:
        return {}
    objects = [
        f"SELECT '{it}', oid, oid::{_SHOWN.get(it, it)}::text, {schema}, {stamp}::text FROM {catalog}"  # noqa: S608 - its own names
        for it, (catalog, schema, stamp) in ((it, _CATALOGS[it]) for it in asked)
    ]
    sql = _NAMES.replace("{objects}", " UNION ALL ".join(objects))
    (found,) = records(conn, sql)
    return {it: found.get(it, {}) for it in asked}


def renamed_since(
    conn: psycopg.Connection[Any],
    printed: Mapping[str, Mapping[str, int]],
    known: Mapping[str, Mapping[str, int]],
) -> set[str]:
    """The OIDs of objects that the last look did not name, and that may have been renamed since."""
    new = {
        int(oid)
        for type_ in printed.keys() & known
        for oid in printed[type_].keys() - known[type_]
    }
    if not new:
        return set()
    (found,) = records(conn, _RENAMED, {"new": sorted(new)})
    return set(map(str, found))


#: The catalog with the objects of each type, its column with the schema of an object, and the
#: transaction that has named the object last, if few others write that row.
_CATALOGS = {
    "regclass": (
        "pg_class",
        "relnamespace",
        "(SELECT xmin FROM pg_type WHERE oid = reltype)",
    ),
    "regproc": ("pg_proc", "pronamespace", "xmin"),
    "regprocedure": ("pg_proc", "pronamespace", "xmin"),
    "regoper": ("pg_operator", "oprnamespace", "xmin"),
    "regoperator": ("pg_operator", "oprnamespace", "xmin"),
    "regtype": ("pg_type", "typnamespace", "xmin"),
    "regconfig": ("pg_ts_config", "cfgnamespace", "xmin"),
    "regdictionary": ("pg_ts_dict", "dictnamespace", "xmin"),
    "regcollation": ("pg_collation", "collnamespace", "xmin"),
    "regnamespace": ("pg_namespace", "oid", "NULL"),
    "regrole": ("pg_roles", "NULL::oid", "NULL"),
    "aclitem": ("pg_roles", "NULL::oid", "NULL"),
    "regdatabase": ("pg_database", "NULL::oid", "NULL"),
}
_SHOWN = {"aclitem": "regrole"}
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
SELECT coalesce(jsonb_agg(o.oid::bigint), '[]')::text
FROM object o
WHERE o.oid = ANY (%(new)s::bigint[])
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
# Objects of sessions and TOAST tables come and go. A superuser can rename even the server's own objects.
_NAMES = """
SELECT coalesce(jsonb_object_agg(f.type, f.names), '{}')::text
FROM (
    SELECT g.type, jsonb_object_agg(g.oid, g.hash)
    FROM (
        SELECT o.type, CASE WHEN o.oid >= 16384 THEN o.oid ELSE 0 END,
            sum(hashtextextended(
                concat_ws(' ', o.oid, o.name, CASE WHEN o.oid >= 16384 THEN o.stamp END), 0))
        FROM ({objects}) o (type, oid, name, schema, stamp)
        LEFT JOIN pg_namespace n ON n.oid = o.schema
        WHERE (n.nspname ~ '^pg_(toast|temp)') IS NOT TRUE
        GROUP BY 1, 2
    ) g (type, oid, hash)
    GROUP BY g.type
) f (type, names)
"""
