"""A publication of a few tables, for as long as somebody reads their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walrow.errors import OptionError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

    from walrow.typing import TableName

__all__ = ["create_publication_for", "drop_publication"]


def create_publication_for(
    conn: psycopg.Connection[Any], name: str, tables: Iterable[TableName]
) -> None:
    """Creates a publication of tables, which are named as in `walrow.read`.

    Rows of partitions come as rows of their root.

    Raises:
        SchemaError: There is no such table, or several.
        OptionError: A table has no replica identity. Its updates and deletes would fail
            on the server while the publication exists.
        psycopg.Error: The server refused it.
    """
    from psycopg import sql

    found = [_table(conn, each) for each in tables]
    without = conn.execute(_WITHOUT_IDENTITY, [[each.oid for each in found]]).fetchall()
    if without:
        names = ", ".join(row[0] for row in without)
        text = (
            f"without a replica identity, updates and deletes of {names} would fail while"
            " the table is published: ALTER TABLE ... REPLICA IDENTITY FULL, or use"
            " publication="
        )
        raise OptionError(text)
    conn.execute(
        sql.SQL(
            "CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root)"
        ).format(
            sql.Identifier(name),
            sql.SQL(", ").join(sql.Identifier(it.schema, it.name) for it in found),
        )
    )


def drop_publication(conn: psycopg.Connection[Any], name: str) -> None:
    """Drops a publication, if it exists."""
    from psycopg import sql

    conn.execute("SET lock_timeout = '2s'")
    conn.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))


class _Table(NamedTuple):
    oid: int
    schema: str
    name: str


def _table(conn: psycopg.Connection[Any], wanted: TableName) -> _Table:
    parameters: tuple[str | int, ...]
    if isinstance(wanted, int):
        condition, parameters = "c.oid = %s::oid", (wanted,)
    elif isinstance(wanted, tuple):
        condition, parameters = "(n.nspname, c.relname) = (%s::name, %s::name)", wanted
    else:
        condition = "%s IN (c.relname::text, n.nspname || '.' || c.relname)"
        parameters = (wanted,)
    rows = conn.execute((_TABLES % condition).encode(), parameters).fetchall()
    if len(rows) == 1:
        return _Table(*rows[0])
    shown = ".".join(wanted) if isinstance(wanted, tuple) else wanted
    if rows:
        names = ", ".join(f"{schema}.{name}" for _, schema, name in rows)
        text = f"ambiguous table name {shown}: {names}; choose one with its schema"
    else:
        text = f"no table {shown} in the database; names have no quotes"
    raise SchemaError(text, table=str(shown))


_TABLES = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    AND %s
ORDER BY 2, 3
"""
# An unpublished leaf has the identity that its root's publication needs.
_WITHOUT_IDENTITY = """
SELECT format('%%s.%%s', n.nspname, c.relname)
FROM unnest(%s::oid[]) AS chosen (oid)
CROSS JOIN LATERAL (
    SELECT chosen.oid
    UNION SELECT relid FROM pg_catalog.pg_partition_tree(chosen.oid)
) AS part (oid)
JOIN pg_catalog.pg_class c ON c.oid = part.oid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relreplident <> 'f'
    AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_index i
        WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate
            AND (c.relreplident = 'd' AND i.indisprimary
                OR c.relreplident = 'i' AND i.indisreplident)
    )
ORDER BY 1
"""
