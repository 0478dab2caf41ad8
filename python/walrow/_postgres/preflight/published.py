"""Facts about published tables, read in one query for all tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from walrow._postgres.published import for_version
from walrow._postgres.session import records


class Identity(NamedTuple):
    """The part of a table's old row that the server sends."""

    #: The table, as SQL.
    quoted: str
    #: `full`, `key`, or `none` if it has no replica identity.
    kind: str
    keys: list[str]
    is_unlogged: bool


class Denied(NamedTuple):
    """The schemas and tables that a role may not read, as SQL: for a table and its partitions."""

    schemas: list[str]
    tables: list[str]
    #: Tables whose policies hide rows from it.
    policies: list[str]


class CheckedTable(NamedTuple):
    """A table under the name under which its changes are sent. Names are SQL."""

    oid: int
    publications: list[str]
    #: One of them publishes updates or deletes.
    needs_identity: bool
    identity: Identity
    #: The identities of its partitions, if their changes are sent as changes of this table.
    leaves: list[Identity]
    #: The reasons why the role cannot copy its rows.
    denied: Denied
    #: Generated columns that are not sent.
    unsent: list[str]
    #: The publications publish different columns of it.
    lists_differ: bool
    #: The operations that no publication publishes.
    lacks: list[str]
    #: Tables that inherit from it, by OID.
    children: dict[str, str]
    #: Publications that send more of these columns once they publish generated columns.
    sendable: Sequence[str] = ()


class WithoutSend(NamedTuple):
    """A column whose type has no binary form."""

    #: The table, as SQL.
    quoted: str
    column: str
    type: str
    #: The type without a send function: the type itself (`whole`), or a part of it.
    member: str
    whole: bool


def tables_to_check(
    conn: psycopg.Connection[Any], publications: Sequence[str]
) -> list[CheckedTable]:
    """Reads the tables of publications, by name."""
    rows = records(
        conn, for_version(conn, _TABLES), {"publications": list(publications)}
    )
    return [
        CheckedTable(
            **row
            | {
                "identity": Identity(**row["identity"]),
                "leaves": [Identity(**leaf) for leaf in row["leaves"]],
                "denied": Denied(**row["denied"]),
            }
        )
        for row in rows
    ]


def types_without_send(
    conn: psycopg.Connection[Any], publications: Sequence[str]
) -> list[WithoutSend]:
    """Reads the published columns whose values have no binary form."""
    rows = records(
        conn, for_version(conn, _WITHOUT_SEND), {"publications": list(publications)}
    )
    return [WithoutSend(**row) for row in rows]


# The server requires the identity of the partition that has the row. Deferrable keys and
# columns that an index only includes are no identity.
_TABLES = """
WITH {published},
identity (oid, value) AS (
    SELECT c.oid, jsonb_build_object(
        'quoted', format('%%I.%%I', n.nspname, c.relname),
        'kind', CASE WHEN c.relreplident = 'f' THEN 'full'
            WHEN i.indexrelid IS NULL THEN 'none' ELSE 'key' END,
        'is_unlogged', c.relpersistence = 'u',
        'keys', (
            SELECT coalesce(jsonb_agg(a.attname ORDER BY a.attname), '[]')
            FROM pg_attribute a
            WHERE a.attrelid = c.oid
                AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
        )
    )
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisvalid AND i.indimmediate
        AND (c.relreplident = 'd' AND i.indisprimary
            OR c.relreplident = 'i' AND i.indisreplident)
    WHERE c.oid IN (
        SELECT oid FROM published
        UNION SELECT oid FROM leaf WHERE root IN (SELECT oid FROM published))
),
leaves (root, value) AS (
    SELECT l.root, jsonb_agg(i.value ORDER BY i.value ->> 'quoted')
    FROM leaf l
    JOIN identity i ON i.oid = l.oid
    GROUP BY l.root
),
unsent (oid, columns, sendable) AS (
    SELECT a.attrelid, jsonb_agg(DISTINCT quote_ident(a.attname)),
        jsonb_agg(DISTINCT quote_ident(p.publication)) FILTER (
            -- Virtual ones are never sent, and a column list decides alone.
            WHERE a.attgenerated = 's' AND to_jsonb(b) ->> 'pubgencols' = 'n'
            AND NOT EXISTS (
                SELECT FROM pg_publication_rel r
                WHERE r.prpubid = b.oid AND r.prrelid = a.attrelid
                    AND to_jsonb(r) ->> 'prattrs' IS NOT NULL))
    FROM published p
    JOIN pg_publication b ON b.pubname = p.publication
    JOIN pg_attribute a ON a.attrelid = p.oid
    WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> ''
        -- Before 18, generated columns are never sent, even if attnames lists them.
        AND (current_setting('server_version_num')::int < 180000
            OR NOT coalesce(p.columns ? a.attname::text, false))
    GROUP BY a.attrelid
),
-- A snapshot reads the published columns of each partition.
copied (root, oid, relname, relnamespace, may_select) AS (
    SELECT p.oid, c.oid, c.relname, c.relnamespace,
        has_table_privilege(c.oid, 'SELECT') OR NOT EXISTS (
            SELECT FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                AND coalesce(p.columns ? a.attname::text, a.attgenerated = '')
                AND NOT has_column_privilege(c.oid, a.attnum, 'SELECT')
        )
    FROM published p
    LEFT JOIN leaf l ON l.root = p.oid
    JOIN pg_class c ON c.oid = coalesce(l.oid, p.oid)
),
checked (oid, publications, needs_identity, lists, lacks) AS (
    SELECT p.oid, jsonb_agg(DISTINCT quote_ident(p.publication)), bool_or(p.needs_identity),
        count(DISTINCT p.columns), to_jsonb(array_remove(ARRAY[
            CASE WHEN NOT bool_or(b.pubinsert) THEN 'insert' END,
            CASE WHEN NOT bool_or(b.pubupdate) THEN 'update' END,
            CASE WHEN NOT bool_or(b.pubdelete) THEN 'delete' END,
            CASE WHEN NOT bool_or(b.pubtruncate) THEN 'truncate' END], NULL))
    FROM published p
    JOIN pg_publication b ON b.pubname = p.publication
    GROUP BY p.oid
)
SELECT jsonb_build_object(
    'oid', s.oid::bigint,
    'publications', s.publications,
    'needs_identity', s.needs_identity,
    'identity', i.value,
    'leaves', coalesce(l.value, '[]'),
    'lists_differ', s.lists > 1,
    'lacks', s.lacks,
    'children', {children},
    'denied', (
        SELECT jsonb_build_object(
            'schemas', coalesce(jsonb_agg(DISTINCT quote_ident(n.nspname))
                FILTER (WHERE NOT has_schema_privilege(n.oid, 'USAGE')), '[]'),
            'tables', coalesce(jsonb_agg(DISTINCT format('%%I.%%I', n.nspname, d.relname))
                FILTER (WHERE NOT d.may_select), '[]'),
            'policies', coalesce(jsonb_agg(DISTINCT format('%%I.%%I', n.nspname, d.relname))
                FILTER (WHERE row_security_active(d.oid)), '[]'))
        FROM copied d JOIN pg_namespace n ON n.oid = d.relnamespace WHERE d.root = s.oid
    ),
    'unsent', coalesce(u.columns, '[]'),
    'sendable', coalesce(u.sendable, '[]')
)::text
FROM checked s
JOIN pg_class c ON c.oid = s.oid
JOIN identity i ON i.oid = s.oid
LEFT JOIN leaves l ON l.root = s.oid
LEFT JOIN unsent u ON u.oid = s.oid
ORDER BY i.value ->> 'quoted'
"""

# An array or a composite type has a send function even if the types in it lack one.
_WITHOUT_SEND = """
WITH RECURSIVE {published},
used (table_oid, column_name, type_oid, modifier) AS (
    SELECT DISTINCT p.oid, a.attname, a.atttypid, a.atttypmod
    FROM published p
    JOIN pg_attribute a ON a.attrelid = p.oid
    WHERE a.attnum > 0 AND NOT a.attisdropped
        AND coalesce(p.columns ? a.attname::text, true)
),
member_of (type_oid, member_oid) AS (
    -- point, box and others have elements too, but are not arrays of them.
    SELECT t.oid, e.oid FROM pg_type t JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
    UNION ALL SELECT oid, typbasetype FROM pg_type WHERE typtype = 'd'
    UNION ALL SELECT rngtypid, rngsubtype FROM pg_range
    UNION ALL SELECT rngmultitypid, rngtypid FROM pg_range
    UNION ALL SELECT t.oid, a.atttypid
    FROM pg_type t
    JOIN pg_attribute a ON a.attrelid = t.typrelid
    WHERE t.typtype = 'c' AND a.attnum > 0 AND NOT a.attisdropped
),
reached (type_oid, member_oid) AS (
    SELECT DISTINCT type_oid, type_oid FROM used
    UNION
    SELECT r.type_oid, m.member_oid
    FROM reached r
    JOIN member_of m ON m.type_oid = r.member_oid
)
SELECT jsonb_build_object(
    'quoted', format('%%I.%%I', n.nspname, c.relname),
    'column', quote_ident(u.column_name),
    'type', format_type(u.type_oid, u.modifier),
    'member', min(format_type(lacking.oid, NULL)),
    'whole', own.typsend = 0
)::text
FROM used u
JOIN pg_type own ON own.oid = u.type_oid
JOIN pg_class c ON c.oid = u.table_oid
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN reached r ON r.type_oid = u.type_oid
JOIN pg_type lacking ON lacking.oid = r.member_oid AND lacking.typsend = 0
WHERE own.typsend <> 0 OR lacking.oid = own.oid
GROUP BY n.nspname, c.relname, u.column_name, u.type_oid, u.modifier, own.typsend
ORDER BY n.nspname, c.relname, u.column_name
"""
