"""Tables as publications treat them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walrow.errors import OptionError
from walrow.postgres.session import records

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

__all__ = [
    "PublishedColumn",
    "PublishedTable",
    "TablePart",
    "check_named",
    "published_tables",
]


class PublishedTable(NamedTuple):
    """A table as a publication treats it.

    Attributes:
        oid: Its OID.
        name: Its name, as `schema.name`.
        identity: `pg_class.relreplident`.
        columns: The published columns, in attribute order.
        filters: The row filters of its publications, as SQL: a row that one of them accepts
            is published. Empty without a filter.
        parts: The tables that have its rows: its partitions, or itself.
        is_chosen: Whether it was chosen for a publication. Otherwise all tables are
            published, so that a new one has no earlier rows.
    """

    oid: int
    name: str
    identity: str
    columns: list[PublishedColumn]
    filters: list[str]
    parts: list[TablePart]
    is_chosen: bool


class PublishedColumn(NamedTuple):
    """A published column.

    Attributes:
        number: `pg_attribute.attnum`.
        quoted: Its name as SQL.
        type_oid: The OID of its type.
        type_modifier: Its type modifier, or -1.
        has_default: Whether rows that exist when it is added may get a value.
    """

    number: int
    quoted: str
    type_oid: int
    type_modifier: int
    has_default: bool


class TablePart(NamedTuple):
    """A table that has rows.

    Attributes:
        quoted: Its name as SQL.
        file: The number of its file, which changes when it is truncated or rewritten.
        pages: Its size in pages. 0 if it cannot be read by ranges of pages.
    """

    quoted: str
    file: int
    pages: int


def published_tables(
    conn: psycopg.Connection[Any], publications: Sequence[str], *, sized: bool
) -> list[PublishedTable]:
    """The tables of publications, as they are for the connection's transaction.

    With `sized`, it waits for whoever has a table locked.
    """
    parameters = {"publications": list(publications), "sized": sized}
    found = records(conn, _TABLES, parameters)
    return [
        PublishedTable(
            **it
            | {
                "parts": [TablePart(**part) for part in it["parts"]],
                "columns": [PublishedColumn(**column) for column in it["columns"]],
            }
        )
        for it in found
    ]


def check_named(tables: Sequence[PublishedTable], names: Sequence[str]) -> None:
    """Refuses tables that are not published."""
    published = {table.name for table in tables}
    if missing := [name for name in names if name not in published]:
        text = (
            f"no table {', '.join(missing)} in the publication: add it with"
            " ALTER PUBLICATION, or name another one as schema.name"
        )
        raise OptionError(text)


_TABLES = """
WITH published (oid, columns, filter) AS (
    -- Version 14 has no column lists, and no row filters.
    SELECT c.oid, to_jsonb(p) -> 'attnames', to_jsonb(p) ->> 'rowfilter'
    FROM pg_publication_tables p
    JOIN pg_namespace n ON n.nspname = p.schemaname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
    WHERE p.pubname = ANY (%(publications)s::text[])
),
chosen (oid, columns, filters) AS (
    SELECT oid, (array_agg(columns))[1],
        CASE WHEN bool_or(filter IS NULL) THEN '[]'::jsonb
            ELSE jsonb_agg(DISTINCT filter) END
    FROM published
    GROUP BY oid
),
part_of (oid, part) AS (
    SELECT c.oid, c.oid
    FROM chosen c
    JOIN pg_class r ON r.oid = c.oid
    WHERE r.relkind <> 'p'
    UNION ALL
    SELECT c.oid, t.relid
    FROM chosen c
    JOIN pg_class r ON r.oid = c.oid
    CROSS JOIN pg_partition_tree(c.oid) t
    WHERE r.relkind = 'p' AND t.isleaf
)
SELECT jsonb_build_object(
    'oid', c.oid::bigint,
    'name', n.nspname || '.' || c.relname,
    'identity', c.relreplident,
    'columns', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'number', a.attnum,
            'quoted', quote_ident(a.attname),
            'type_oid', a.atttypid::bigint,
            'type_modifier', a.atttypmod,
            'has_default', a.atthasdef OR a.attidentity <> '' OR y.typdefault IS NOT NULL
        ) ORDER BY a.attnum), '[]')
        FROM pg_attribute a
        JOIN pg_type y ON y.oid = a.atttypid
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            AND coalesce(p.columns ? a.attname::text, true)
            -- Before 18, generated columns are never published, even if attnames lists them.
            AND (a.attgenerated = '' OR current_setting('server_version_num')::int >= 180000)
    ),
    'filters', p.filters,
    'is_chosen', NOT EXISTS (
        SELECT FROM pg_publication
        WHERE puballtables AND pubname = ANY (%(publications)s::text[])
    ),
    'parts', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'quoted', format('%%I.%%I', m.nspname, t.relname),
            'file', t.relfilenode::bigint,
            -- Other access methods may have other addresses of rows.
            'pages', CASE WHEN h.amname = 'heap' AND %(sized)s
                THEN pg_relation_size(t.oid) / current_setting('block_size')::int
                ELSE 0 END
        ) ORDER BY t.oid), '[]')
        FROM part_of q
        JOIN pg_class t ON t.oid = q.part
        JOIN pg_namespace m ON m.oid = t.relnamespace
        LEFT JOIN pg_am h ON h.oid = t.relam
        -- Rows of foreign tables are never in the stream.
        WHERE q.oid = c.oid AND t.relkind = 'r'
    )
)::text
FROM chosen p
JOIN pg_class c ON c.oid = p.oid
JOIN pg_namespace n ON n.oid = c.relnamespace
ORDER BY c.oid
"""
