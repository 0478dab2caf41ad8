"""The tables that names mean, for publications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._postgres.session import records
from walrow.errors import OptionError

if TYPE_CHECKING:
    import psycopg


class Relation(NamedTuple):
    """A table, or another relation that has rows, as `pg_class` has it. `quoted` is its name as SQL."""

    oid: int
    schema: str
    name: str
    quoted: str
    kind: str
    persistence: str


#: A table's name, and the relations that have it.
Found = tuple[str | tuple[str, str], list[Relation]]


def resolve(
    conn: psycopg.Connection[Any], tables: Sequence[str | tuple[str, str]]
) -> list[Found]:
    """Finds the relations of each name: none, one, or several."""
    if isinstance(tables, str):
        raise OptionError("tables must be a list of names, not one text")
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
