"""A publication of a few tables, for as long as somebody reads their changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg

from walrow._postgres.connecting import connect_for_sql
from walrow._postgres.failures import (
    LOCK_NOT_AVAILABLE,
    QUERY_CANCELED,
    UNDEFINED_OBJECT,
)
from walrow._postgres.hints import Command
from walrow._postgres.locks import PUBLISHING, locks_on
from walrow._postgres.publications import ambiguous, resolve, spoken
from walrow._postgres.running import run
from walrow._postgres.session import quote
from walrow.errors import OptionError, Remedy, ReplicationError, SchemaError
from walrow.typing import TableName


def create_if_missing(
    parameters: dict[str, Any], name: str, tables: Iterable[TableName]
) -> None:
    """Creates a publication of tables on a separate connection, unless it exists."""
    chosen = list(tables)
    given = {**parameters, "connect_timeout": 5}
    # SHOW writes 60s as 1min.
    short, long = f"{_LOCK_SECONDS}s", f"{2 * _LOCK_SECONDS + 1}s"
    with connect_for_sql(given, lock_timeout=short, statement_timeout=long) as conn:
        query = "SELECT FROM pg_publication WHERE pubname = %s"
        if conn.execute(query, [name]).fetchone() is not None:
            return
        try:
            create_publication_for(conn, name, chosen)
        except (ReplicationError, psycopg.Error) as error:
            if error.sqlstate not in {LOCK_NOT_AVAILABLE, QUERY_CANCELED}:
                raise
            found = _locks(conn, chosen)
            if not found and error.sqlstate == QUERY_CANCELED:
                # By somebody else.
                raise
            raise ReplicationError(
                f'publication "{name}" cannot be created: it has waited for'
                f" {found or 'another transaction'}. Let that end, and start again",
                sqlstate=LOCK_NOT_AVAILABLE,
                publication=name,
            ) from error


def create_publication_for(
    conn: psycopg.Connection[Any], name: str, tables: Iterable[TableName]
) -> None:
    """Creates a publication of tables, which are named as in `walrow.read`.

    Rows of partitions come as rows of their root. From version 18, stored generated columns come, too. A table without a replica identity is refused:
    its updates and deletes would fail on the server while the publication exists.
    """
    chosen: dict[str, int] = {}
    for table, found in resolve(conn, [named(conn, each) for each in tables]):
        if len(found) != 1:
            shown = spoken(table)
            text = f"no table {shown} in the database; names have no quotes"
            raise SchemaError(ambiguous(table, found) if found else text, table=shown)
        chosen[found[0].quoted] = found[0].oid
    without = conn.execute(_WITHOUT_IDENTITY, [[*chosen.values()]]).fetchall()
    if without:
        names = ", ".join(row[0] for row in without)
        text = (
            f"without a replica identity, updates and deletes of {names} would fail while"
            " the table is published: ALTER TABLE ... REPLICA IDENTITY FULL"
        )
        remedies = (Remedy("publications", code="[...]"),)
        raise OptionError(text, advice=", or use ", remedies=remedies)
    (quoted,) = quote(conn, [name])
    command = (
        f"CREATE PUBLICATION {quoted} FOR TABLE {', '.join(chosen)}"
        f" WITH (publish_via_partition_root{_stored(conn)})"
    )
    failed = f'cannot create publication "{name}"'
    run(conn, command, failed, Command.PUBLICATION, publication=name)


def _stored(conn: psycopg.Connection[Any]) -> str:
    has_option = conn.info.server_version >= _GENERATED_SINCE
    return ", publish_generated_columns = stored" if has_option else ""


def drop_if_exists(conn: psycopg.Connection[Any], name: str) -> None:
    """Drops a publication, if it was created."""
    (quoted,) = quote(conn, [name])
    command = f"DROP PUBLICATION {quoted}"
    try:
        failed = f'cannot drop publication "{name}"'
        run(conn, command, failed, Command.PUBLICATION, publication=name)
    except ReplicationError as error:
        if error.sqlstate != UNDEFINED_OBJECT:
            raise


def _locks(conn: psycopg.Connection[Any], tables: Iterable[TableName]) -> str:
    """Says who has locks that keep tables from being published, or nothing."""
    found = resolve(conn, [named(conn, each) for each in tables])
    oids = [it.oid for _, relations in found for it in relations]
    return "; ".join(locks_on(conn, oids, PUBLISHING).values())


def named(conn: psycopg.Connection[Any], table: TableName) -> str | tuple[str, str]:
    """The name of a table that may be given by its OID."""
    if not isinstance(table, int):
        return table
    row = conn.execute(_NAME, [table]).fetchone()
    return (row[0], row[1]) if row else f"with OID {table}"


_NAME = """
SELECT n.nspname::text, c.relname::text
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = %s::oid
"""
# Each partition needs its own identity.
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
_GENERATED_SINCE = 180_000
#: Less than the receiver allows for all that it does before the stream.
_LOCK_SECONDS = 30
