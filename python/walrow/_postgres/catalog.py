"""Types and published tables of a server's catalog."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import psycopg

from walrow._core import Catalog
from walrow._postgres.published import for_version
from walrow._postgres.session import SAME_NAMES, json_texts, texts, transaction
from walrow.errors import OptionError


def catalog(
    conn: psycopg.Connection[Any], *, publications: str | Sequence[str] | None = None
) -> Catalog:
    """Reads the definitions of types and published tables, which a stream lacks.

    The types are all types that are not built in. Row types of tables are included only
    if a column or another type uses them. The tables are the published tables with
    their published columns, as `walrow.schema` takes them.

    ```python
    with psycopg.connect("dbname=shop") as conn:
        catalog = walrow.postgres.catalog(conn, publications="shop")
    walrow.read("shop.wire", catalog=catalog)
    ```

    A byte of a name, a label or a default that has no equivalent in UTF-8 is written as
    `'<81>'`, as is a byte that is not UTF-8 in a SQL_ASCII database.

    Use any connection to the database, including a replication connection
    (`replication="database"`) that does not stream. Its state does not change: an open
    transaction stays open, and no new transaction is left open.

    Args:
        conn: A psycopg connection.
        publications: One publication or several. Default: all of the database. Pass
            `()` for none. If they publish different columns of a table, the catalog has
            all of these columns, although a server refuses a stream with such
            publications.

    Raises:
        OptionError: A publication does not exist, or the connection is asynchronous, in
            pipeline mode, or not one of psycopg 3.
        psycopg.Error: A query failed.
    """
    return catalog_now(conn, publications, waits=True)


def catalog_now(
    conn: psycopg.Connection[Any],
    publications: str | Sequence[str] | None,
    *,
    waits: bool = False,
) -> Catalog:
    """Like `catalog`, but without a wait, it lacks the expressions of generated columns of tables
    that another session has locked.
    """  # noqa: D205
    names = [publications] if isinstance(publications, str) else publications
    listed = None if names is None else list(names)
    parameters = {"publications": listed, "waits": waits}
    with transaction(conn) as cursor:
        cursor.execute(SAME_NAMES)
        if missing := texts(conn, cursor.execute(_MISSING, parameters)):
            text = f"no publication {', '.join(missing)} in this database"
            raise OptionError(text)
        (text,) = json_texts(conn, for_version(conn, _CATALOG), parameters)
    return Catalog(text)


def unreadable(catalog: Catalog) -> tuple[list[str], list[str]]:
    """The tables whose names, or their columns', have bytes without an equivalent in UTF-8; and others."""
    found = json.loads(catalog.to_json())
    tables, others = [], []
    for each in [*found.get("types", ()), *found.get("tables", ())]:
        names = [each["schema"], each["name"]]
        columns = [it["name"] for it in each.get("columns", ())]
        if "columns" in each and _BYTE.search(" ".join([*names, *columns])):
            tables.append(".".join(names))
        elif _BYTE.search(json.dumps(each)):
            others.append(".".join(names))
    return tables, others


_BYTE = re.compile("'<[0-9a-f]{2}>'")
_MISSING = """
SELECT name
FROM unnest(%(publications)s::text[]) AS name
WHERE name NOT IN (SELECT pubname FROM pg_publication)
ORDER BY name
"""

# OIDs below 10000 are built-in types, which a catalog needs only for row types of some system
# catalogs. OIDs from 16384 on were not created by initdb. Between them are the types of
# information_schema and the other row types of system catalogs.
_CATALOG = """
WITH RECURSIVE {published},
column_of (
    table_oid, number, name, type_oid, modifier, not_null, expression, generated
) AS (
    SELECT DISTINCT p.oid, a.attnum, a.attname::text, a.atttypid, a.atttypmod, a.attnotnull,
        -- To print columns, the function waits for whoever has the table locked.
        CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, 0)
            WHEN %(waits)s OR p.oid NOT IN (
                SELECT l.relation
                FROM pg_locks l
                WHERE l.relation IS NOT NULL AND l.mode = 'AccessExclusiveLock'
            ) THEN pg_get_expr(d.adbin, d.adrelid) END,
        a.attgenerated <> ''
    FROM published p
    JOIN pg_attribute a ON a.attrelid = p.oid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attnum > 0 AND NOT a.attisdropped
        AND coalesce(p.columns ? a.attname::text, true)
        -- Before 18, generated columns are never published, even if attnames lists them.
        AND (a.attgenerated = '' OR current_setting('server_version_num')::int >= 180000)
),
identity_of (table_oid, keys) AS (
    -- The array starts at 0. Columns that an index only includes come last.
    SELECT c.oid, (i.indkey::int2[])[0:i.indnkeyatts - 1]
    FROM pg_class c
    JOIN pg_index i ON i.indrelid = c.oid
    WHERE i.indisvalid AND i.indimmediate
        AND (c.relreplident = 'd' AND i.indisprimary
            OR c.relreplident = 'i' AND i.indisreplident)
),
primary_key_of (table_oid, names) AS (
    SELECT i.indrelid, jsonb_agg(a.attname::text ORDER BY k.place)
    FROM pg_index i
    CROSS JOIN unnest((i.indkey::int2[])[0:i.indnkeyatts - 1])
        WITH ORDINALITY AS k (number, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE i.indisprimary
    GROUP BY i.indrelid
),
-- point, box and others have elements too, but are not arrays of them.
element_of (type_oid, element_oid, delimiter) AS (
    SELECT t.oid, e.oid, e.typdelim::text
    FROM pg_type t
    JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
),
member_of (type_oid, member_oid) AS (
    SELECT type_oid, element_oid FROM element_of
    UNION ALL SELECT element_oid, type_oid FROM element_of
    UNION ALL SELECT oid, typbasetype FROM pg_type WHERE typtype = 'd'
    UNION ALL SELECT rngtypid, rngsubtype FROM pg_range
    UNION ALL SELECT rngmultitypid, rngtypid FROM pg_range
    UNION ALL SELECT t.oid, a.atttypid
    FROM pg_type t
    JOIN pg_attribute a ON a.attrelid = t.typrelid
    WHERE t.typtype = 'c' AND a.attnum > 0 AND NOT a.attisdropped
),
reached (oid) AS (
    (
        SELECT t.oid
        FROM pg_type t
        LEFT JOIN pg_class c ON c.oid = t.typrelid
        WHERE t.oid >= 16384
            AND (t.typtype <> 'c' OR c.relkind = 'c')
            AND t.oid NOT IN (SELECT type_oid FROM element_of)
        UNION ALL
        SELECT type_oid FROM column_of
    )
    UNION
    SELECT m.member_oid FROM reached r JOIN member_of m ON m.type_oid = r.oid
),
type_json (oid, value) AS (
    SELECT t.oid, jsonb_build_object(
        'oid', t.oid::bigint, 'schema', n.nspname, 'name', t.typname
    ) || CASE
        WHEN t.typtype = 'e' THEN jsonb_build_object(
            'kind', 'enum',
            'labels', (
                SELECT coalesce(jsonb_agg(enumlabel ORDER BY enumsortorder), '[]')
                FROM pg_enum
                WHERE enumtypid = t.oid
            )
        )
        WHEN t.typtype = 'd' THEN jsonb_build_object(
            'kind', 'domain',
            'base', t.typbasetype::bigint,
            'type_modifier', t.typtypmod
        )
        WHEN t.typtype = 'c' THEN jsonb_build_object(
            'kind', 'composite',
            'attributes', (
                SELECT coalesce(jsonb_agg(jsonb_build_object(
                    'name', attname, 'type', atttypid::bigint, 'type_modifier', atttypmod
                ) ORDER BY attnum), '[]')
                FROM pg_attribute
                WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped
            )
        )
        WHEN t.typtype = 'r' THEN jsonb_build_object(
            'kind', 'range',
            'subtype', (SELECT rngsubtype::bigint FROM pg_range WHERE rngtypid = t.oid)
        )
        WHEN t.typtype = 'm' THEN jsonb_build_object(
            'kind', 'multirange',
            'range', (SELECT rngtypid::bigint FROM pg_range WHERE rngmultitypid = t.oid)
        )
        WHEN e.type_oid IS NOT NULL THEN jsonb_build_object(
            'kind', 'array',
            'element', e.element_oid::bigint,
            'delimiter', e.delimiter
        )
        ELSE jsonb_build_object('kind', 'base')
    END
    FROM pg_type t
    JOIN pg_namespace n ON n.oid = t.typnamespace
    LEFT JOIN element_of e ON e.type_oid = t.oid
    WHERE t.oid IN (SELECT oid FROM reached)
        AND t.typtype <> 'p'
        AND (
            t.oid >= 10000 OR t.typtype = 'c'
            OR e.element_oid IN (SELECT oid FROM pg_type WHERE typtype = 'c')
        )
),
table_json (oid, value) AS (
    SELECT c.oid, jsonb_build_object(
        'schema', n.nspname, 'name', c.relname, 'oid', c.oid::bigint,
        'columns', coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
            'name', f.name, 'type', f.type_oid::bigint, 'type_modifier', f.modifier,
            'key', c.relreplident = 'f' OR coalesce(f.number = ANY (i.keys), false),
            'number', f.number, 'not_null', f.not_null, 'default', f.expression,
            'generated', f.generated
        )) ORDER BY f.number) FILTER (WHERE f.number IS NOT NULL), '[]'),
        'primary_key', coalesce(k.names, '[]')
    )
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN column_of f ON f.table_oid = c.oid
    LEFT JOIN identity_of i ON i.table_oid = c.oid
    LEFT JOIN primary_key_of k ON k.table_oid = c.oid
    WHERE c.oid IN (SELECT oid FROM published)
    GROUP BY c.oid, n.nspname, c.relname, c.relreplident, k.names
)
-- Version 19 prints pg_lsn in another form than earlier ones.
SELECT (CASE WHEN current_setting('server_version_num')::int >= 190000
    THEN jsonb_build_object('server_version', current_setting('server_version_num')::int / 10000)
    ELSE '{}'
END || jsonb_build_object(
    'types', (SELECT coalesce(jsonb_agg(value ORDER BY oid), '[]') FROM type_json),
    'tables', (SELECT coalesce(jsonb_agg(value ORDER BY oid), '[]') FROM table_json)
))::text
"""
