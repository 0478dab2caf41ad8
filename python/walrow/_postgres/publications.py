"""Publications: created and dropped with exact names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._postgres.running import run
from walrow._postgres.session import quote, records
from walrow.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg


class Relation(NamedTuple):
    """A table, or another relation that has rows, as the server knows it.

    Attributes:
        oid: Its OID.
        schema: Its schema.
        name: Its name.
        quoted: Both as SQL, with quotes where they are needed.
        kind: `pg_class.relkind`: `r` for a table, `p` for a partitioned one.
        persistence: `pg_class.relpersistence`: `p` permanent, `u` unlogged, `t`
            temporary.
    """

    oid: int
    schema: str
    name: str
    quoted: str
    kind: str
    persistence: str


#: A table's name, and the relations that have it.
Found = tuple[str | tuple[str, str], list[Relation]]


def create_publication(
    conn: psycopg.Connection[Any],
    name: str,
    tables: Sequence[str | tuple[str, str]] | None = None,
    *,
    publish_via_partition_root: bool = False,
) -> None:
    """Creates a publication of tables.

    Create it before the slot: a slot reads the publications as they were at the time of
    each change.

    ```python
    with psycopg.connect("dbname=shop", autocommit=True) as conn:
        walrow.postgres.create_publication(conn, "shop", ["public.orders", "customers"])
        walrow.postgres.create_slot(conn, "shop")
    ```

    Args:
        conn: A psycopg connection. Outside of a transaction, the publication is created
            at once.
        name: The name, unquoted.
        tables: The tables, unquoted: `name`, `schema.name` or (schema, name). Default:
            all tables of the database, which needs a superuser.
        publish_via_partition_root: Whether changes of partitions are sent as changes of
            the published partitioned table.

    Raises:
        OptionError: A table does not exist, a name matches several tables, the list is
            empty, or the connection cannot be used.
        ReplicationError: The server refused the command: the publication exists, the
            role lacks a privilege, or a table cannot be published.
        psycopg.Error: Another query failed.
    """
    if tables is None:
        target = "ALL TABLES"
    else:
        found = resolve(conn, tables)
        missing = [spoken(table) for table, them in found if not them]
        if missing:
            text = f"no table {', '.join(missing)} in this database"
            raise OptionError(text)
        for table, them in found:
            if len(them) > 1:
                raise OptionError(ambiguous(table, them))
        if not found:
            text = "a publication needs a table: pass tables=, or None for all tables"
            raise OptionError(text)
        quoted = dict.fromkeys(them[0].quoted for _, them in found)
        target = f"TABLE {', '.join(quoted)}"
    (name_sql,) = quote(conn, [name])
    options = " WITH (publish_via_partition_root)" if publish_via_partition_root else ""
    command = f"CREATE PUBLICATION {name_sql} FOR {target}{options}"
    run(conn, command, f'cannot create publication "{name}"', publication=name)


def drop_publication(conn: psycopg.Connection[Any], name: str) -> None:
    """Drops a publication. Streams that use it fail, from server 18 on only with a warning.

    Args:
        conn: A psycopg connection, as in `create_publication`.
        name: The publication, unquoted.

    Raises:
        ReplicationError: The server refused the command: there is no such publication,
            or the role is not its owner.
        OptionError: The connection cannot be used.
        psycopg.Error: Another query failed.
    """
    (name_sql,) = quote(conn, [name])
    command = f"DROP PUBLICATION {name_sql}"
    run(conn, command, f'cannot drop publication "{name}"', publication=name)


def resolve(
    conn: psycopg.Connection[Any], tables: Sequence[str | tuple[str, str]]
) -> list[Found]:
    """Finds the relations of each name: none, one, or several."""
    if isinstance(tables, str):
        text = "tables must be a list of names, not one text"
        raise OptionError(text)
    known = [Relation(**it) for it in records(conn, _RELATIONS)]
    by_name: dict[str | tuple[str, str], list[Relation]] = {}
    for relation in known:
        for key in (
            (relation.schema, relation.name),
            f"{relation.schema}.{relation.name}",
            relation.name,
        ):
            by_name.setdefault(key, []).append(relation)
    return [
        (
            table,
            by_name.get(table if isinstance(table, str) else (table[0], table[1]), []),
        )
        for table in tables
    ]


def spoken(table: str | tuple[str, str]) -> str:
    """A table's name for a message."""
    return table if isinstance(table, str) else ".".join(table)


def ambiguous(table: str | tuple[str, str], found: Sequence[Relation]) -> str:
    """The problem of a name that several tables have."""
    names = " and ".join(f"({it.schema}, {it.name})" for it in found)
    return f"the table name {spoken(table)} is ambiguous: it matches {names}"


# Sequences, indexes and row types have no rows.
_RELATIONS = """
SELECT jsonb_build_object(
    'oid', c.oid::bigint, 'schema', n.nspname, 'name', c.relname,
    'quoted', format('%%I.%%I', n.nspname, c.relname),
    'kind', c.relkind, 'persistence', c.relpersistence
)::text
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm')
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
ORDER BY n.nspname, c.relname
"""
