"""The tables of a file's server: the published ones, and for a first file, all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._postgres.connecting import connect_for_sql, parameters_of
from walrow._postgres.preflight.published import tables_to_check
from walrow._postgres.preflight.slot import check_slot
from walrow._postgres.preflight.tables import check_snapshot
from walrow._postgres.published import HAS_SCHEMAS, for_version
from walrow._postgres.session import quote, records
from walrow._postgres.slots import slots
from walrow._run.config import Source
from walrow._run.matching import Table

if TYPE_CHECKING:
    import psycopg


class Published(NamedTuple):
    """The publications and the slot of a file.

    Attributes:
        missing: The publications that do not exist, as SQL.
        has_slot: Whether the slot exists.
        slot_errors: Why it cannot be read.
        grows: Whether a publication takes up new tables: it has all tables, or all of a schema.
        parents: The OIDs of the tables with children by inheritance.
        unreadable: Why the role cannot copy the rows of tables, by OID.
        source: The server and the database. None if the role may not see that.
    """

    tables: list[Table]
    missing: list[str]
    has_slot: bool
    grows: bool
    parents: frozenset[int] = frozenset()
    unreadable: Mapping[int, str] = MappingProxyType({})
    source: tuple[str, str] | None = None
    slot_errors: tuple[str, ...] = ()


class Publication(NamedTuple):
    """A publication of a server: see `Published`."""

    name: str
    tables: list[Table]
    grows: bool = False
    parents: frozenset[int] = frozenset()


class Server(NamedTuple):
    """A database, for a first file.

    Attributes:
        tables: Its tables, without the tables of the system.
        without_key: The OIDs of tables without a primary key or an index as replica identity. A target
            of them needs `keys`.
        partitioned: The OIDs of partitioned tables.
        full: The OIDs of tables with REPLICA IDENTITY FULL.
        parents: The OIDs of tables with children by inheritance.
    """

    database: str
    publications: list[Publication]
    tables: list[Table]
    without_key: set[int]
    partitioned: set[int]
    full: Collection[int] = ()
    parents: Collection[int] = ()


def published_of(source: Source) -> Published:
    """Asks the server for the published tables, and for the slot.

    Raises:
        ReplicationError: It does not answer, or refuses something.
    """
    given = {"connect_timeout": _CONNECT_SECONDS, **parameters_of(source.dsn)}
    with connect_for_sql(given) as conn:
        found = {it.name: it for it in _publications(conn)}
        missing = [it for it in source.publications if it not in found]
        chosen = [found[it] for it in source.publications if it in found]
        slot = next((it for it in slots(conn) if it.name == source.slot), None)
        found_of_slot = check_slot(source.slot, slot, conn.info.dbname, two_phase=False)
        return Published(
            sorted({it for each in chosen for it in each.tables}),
            quote(conn, missing),
            slot is not None,
            any(each.grows for each in chosen),
            frozenset(oid for each in chosen for oid in each.parents),
            _unreadable(conn, [it.name for it in chosen]),
            (records(conn, _SYSTEM)[0], conn.info.dbname),
            tuple(it.text for it in found_of_slot if it.severity == "error"),
        )


def _unreadable(
    conn: psycopg.Connection[Any], publications: list[str]
) -> dict[int, str]:
    (role,) = records(conn, "SELECT to_jsonb(quote_ident(current_user))::text")
    found = {}
    for table in tables_to_check(conn, publications):
        findings = [
            f"{it.text}: {(it.sql or '').replace(chr(10), ' ')}"
            for it in check_snapshot([table], role)
        ]
        if findings:
            found[table.oid] = "; ".join(findings)
    return found


def server_of(conn: psycopg.Connection[Any]) -> Server:
    """Asks a server for its publications and tables.

    Raises:
        psycopg.Error: It refuses a query.
    """
    tables = records(conn, _TABLES)
    return Server(
        conn.info.dbname,
        _publications(conn),
        [_table(it) for it in tables if not it["is_partition"]],
        {it["oid"] for it in tables if not it["has_key"]},
        {it["oid"] for it in tables if it["is_partitioned"]},
        {it["oid"] for it in tables if it["is_full"]},
        {it["oid"] for it in tables if it["is_parent"]},
    )


def _publications(conn: psycopg.Connection[Any]) -> list[Publication]:
    has_schemas = conn.info.server_version >= HAS_SCHEMAS
    query = _PUBLICATIONS.replace("{schemas}", _OF_SCHEMAS if has_schemas else "")
    parameters = {"publications": None}
    return [
        Publication(
            it["name"],
            [_table(each) for each in it["tables"]],
            it["grows"],
            frozenset(each["oid"] for each in it["tables"] if each["is_parent"]),
        )
        for it in records(conn, for_version(conn, query), parameters)
    ]


def _table(found: dict[str, Any]) -> Table:
    return Table(found["oid"], found["schema"], found["table"])


_PUBLICATIONS = """
WITH {published}
SELECT jsonb_build_object(
    'name', p.pubname,
    'tables', coalesce(jsonb_agg(jsonb_build_object(
        'oid', c.oid::bigint, 'schema', n.nspname, 'table', c.relname,
        'is_parent', c.relkind = 'r' AND EXISTS (
            SELECT FROM pg_inherits i WHERE i.inhparent = c.oid
        )
    ) ORDER BY n.nspname, c.relname) FILTER (WHERE c.oid IS NOT NULL), '[]'),
    'grows', p.puballtables {schemas}
)::text
FROM pg_publication p
LEFT JOIN published t ON t.publication = p.pubname
LEFT JOIN pg_class c ON c.oid = t.oid
LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
GROUP BY p.oid
ORDER BY p.pubname
"""
_OF_SCHEMAS = """
    OR EXISTS (SELECT FROM pg_publication_namespace s WHERE s.pnpubid = p.oid)
"""
# A publication has partitions or their partitioned table.
_TABLES = """
SELECT jsonb_build_object(
    'oid', c.oid::bigint, 'schema', n.nspname, 'table', c.relname,
    'is_partition', c.relispartition, 'is_partitioned', c.relkind = 'p',
    'is_full', c.relreplident = 'f',
    'is_parent', c.relkind = 'r' AND EXISTS (
        SELECT FROM pg_inherits i WHERE i.inhparent = c.oid
    ),
    'has_key', EXISTS (
        SELECT FROM pg_index i
        WHERE i.indrelid = c.oid AND i.indisvalid AND CASE c.relreplident
            WHEN 'f' THEN i.indisprimary
            -- A deferrable key is no replica identity: the server would refuse updates.
            WHEN 'd' THEN i.indisprimary AND i.indimmediate
            WHEN 'i' THEN i.indisreplident AND i.indimmediate
        END
    )
)::text
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
    AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
ORDER BY n.nspname, c.relname
"""
_SYSTEM = "SELECT to_jsonb(system_identifier::text)::text FROM pg_control_system()"
_CONNECT_SECONDS = 5
