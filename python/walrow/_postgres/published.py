"""Tables as publications treat them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

import psycopg

from walrow._postgres.session import records


class Rows(Enum):
    """Whether a table has rows, or has never had any. Old ones are older than a transaction."""

    NEVER, NONE, SOME, OLD = "never", "none", "some", "old"


class Birth(NamedTuple):
    """The creation of a table that has rows."""

    #: It may have had rows before its current publication.
    is_late: bool = True
    #: It was truncated or rewritten: it has neither its first file nor a copy of that.
    has_other_file: bool = True
    #: It may have rows. Only known if one of these is so.
    has_rows: bool = True


#: It may have been altered while the receiver looked.
UNKNOWN = Birth()


class PublishedTable(NamedTuple):
    """A table as a publication treats it."""

    oid: int
    #: As `schema.name`.
    name: str
    #: `pg_class.relreplident`.
    identity: str
    #: The published ones, in attribute order.
    columns: list[PublishedColumn]
    #: SQL conditions, for a copy: a published row satisfies one of them. Empty without a filter.
    filters: list[str]
    #: Its partitions, or itself.
    parts: list[TablePart]
    memberships: list[Membership]
    #: The entries of the table and its ancestors in schemas, which SET SCHEMA writes again.
    schema: str
    #: The schema of these tables when they were created.
    first_schema: str
    #: The transaction that created the table. 0 if that is unknown.
    created: int
    #: The greatest attribute number that it has had.
    last_column: int
    #: Columns that were altered after its `pg_class` row changed last. ADD COLUMN changes both.
    altered: list[int]
    #: The attribute number of each column that it no longer has, and the transaction that dropped it.
    dropped: list[list[int]]
    #: Attributes and labels of types of its columns, by what the server knows them by.
    definitions: dict[str, str]
    #: One of these was altered after the table was created.
    has_altered_types: bool
    #: In the key's order.
    primary_key: Sequence[str] = ()
    #: The types in its columns whose values are names of objects, as `regclass`.
    names: Sequence[str] = ()
    #: The name of its schema.
    namespace: str | None = None
    #: Tables that inherit from it, as SQL, by OID. None of a partitioned table.
    children: Mapping[int, str] = MappingProxyType({})
    #: The transactions that changed its catalog rows last.
    stamp: str = ""
    #: The digests of its row filters, for a comparison.
    filter_digests: Sequence[str] = ()
    #: The row filters of its entries that have one, by place.
    narrow: Mapping[str, str] = MappingProxyType({})
    #: The transactions that wrote the catalog rows of `definitions` last.
    type_writers: Sequence[int] = ()


class Remains(NamedTuple):
    """The catalog's facts about a table that is not published."""

    schema: str
    #: `pg_class.relpersistence`.
    persistence: str
    #: The OIDs of the partitioned tables above it.
    roots: Sequence[int] = ()


class PublishedColumn(NamedTuple):
    """A published column."""

    number: int
    #: Its name as SQL.
    quoted: str
    type_oid: int
    #: Or -1.
    type_modifier: int
    #: Rows that exist when it is added may get a value.
    has_default: bool
    #: The OID of its expression, if it is generated.
    expression: int | None
    #: Older rows have a value that is not in their files (`atthasmissing`).
    is_filled: bool
    #: The transaction that changed its `pg_attribute` row last.
    changed: int


class TablePart(NamedTuple):
    """A table that has rows."""

    oid: int
    #: Its name as SQL.
    quoted: str
    #: The number of its file, which changes when it is truncated or rewritten.
    file: int
    #: The OID of its TOAST table, which changes when ALTER TABLE rewrites it.
    toast: int | None
    #: `pg_class.relpersistence`.
    persistence: str
    #: The transactions that can have made its file by TRUNCATE. If one of them truncated the table,
    #: it did, and no rewrite is later. Empty if that is not proven.
    truncates: str
    #: Its entries in `pg_inherits`, which are new when it is attached again.
    attached: str
    #: For a copy. 0 if it cannot be read by ranges of pages.
    pages: int
    #: Its old rows lack values that its root's identity has.
    lacks_identity: bool
    #: Known only if the last look did not see it.
    birth: Birth = UNKNOWN
    #: No command since the last look has written its rows again, or has removed all: one is older.
    keeps_rows: bool = False
    #: If it does not have its first file: transactions of which none is older than the file.
    file_writers: Sequence[int] = ()


class Membership(NamedTuple):
    """An entry of a table in a publication, or of one of its schemas or ancestors."""

    #: The entry, which is new when it comes back.
    place: str
    #: The publication and its options, with a stamp that moves with them.
    publication: str
    #: Letters of insert, update, delete, truncate.
    operations: str


def published_tables(
    conn: psycopg.Connection[Any],
    publications: Sequence[str],
    *,
    for_copy: bool = False,
    oids: Collection[int] | None = None,
) -> list[PublishedTable]:
    """The tables of publications, as they are for the connection's transaction.

    For a copy, it waits until no other session has a table locked. With `oids`, it returns only the published
    tables that have these OIDs, or whose partitions have them.
    """
    parameters = {
        "publications": list(publications),
        "for_copy": for_copy,
        "oids": None if oids is None else list(oids),
    }
    found = records(conn, for_version(conn, _TABLES), parameters)
    return [
        PublishedTable(
            **it
            | {
                "parts": [TablePart(**part) for part in it["parts"]],
                "columns": [PublishedColumn(**column) for column in it["columns"]],
                "memberships": [Membership(**each) for each in it["memberships"]],
                "children": {int(oid): name for oid, name in it["children"].items()},
            }
        )
        for it in found
    ]


def entries_of(tables: Sequence[PublishedTable]) -> set[Membership]:
    """The entries that publish tables."""
    return {each for table in tables for each in table.memberships}


def remains_of(
    conn: psycopg.Connection[Any], oids: Collection[int]
) -> dict[int, Remains | None]:
    """The catalog's facts about tables. None for one that does not exist."""
    found = records(conn, _REMAINS, {"oids": list(oids)}) if oids else []
    there = {it.pop("oid"): Remains(**it) for it in found}
    return {oid: there.get(oid) for oid in oids}


def with_rows(
    conn: psycopg.Connection[Any], tables: Sequence[PublishedTable]
) -> set[int]:
    """The OIDs of the tables that have rows, for the connection's transaction.

    A table that cannot be looked at, as it is locked or must not be read, counts as one.
    """
    return {
        table.oid
        for table in tables
        if any(rows_of(conn, part.quoted) is Rows.SOME for part in table.parts)
    }


def rows_of(
    conn: psycopg.Connection[Any], quoted: str, before: int | None = None
) -> Rows:
    """The rows of a table. A table that cannot be read may have some.

    They are old if one of the first that are found is older than the transaction `before`.
    """
    with contextlib.suppress(psycopg.Error), conn.transaction():
        # An error, instead of rows that the role must not see.
        conn.execute("SET LOCAL row_security = off; SET LOCAL lock_timeout = '100ms'")
        # The server has quoted the name.
        sql = _ROWS.replace("{table}", quoted.replace("%", "%%"))
        parameters = {"table": quoted, "before": before}
        row = conn.execute(sql.encode(), parameters).fetchone()
        if row is not None:
            return Rows(row[0])
    return Rows.SOME


def locked(conn: psycopg.Connection[Any], mode: str) -> set[int]:
    """The OIDs of tables that open transactions have locked in a mode, as `pg_locks` names it.

    Prepared transactions have their locks, too.
    """
    return {int(row[0]) for row in conn.execute(_LOCKED, {"mode": mode})}


def next_xid(conn: psycopg.Connection[Any]) -> int:
    """The ID of the next transaction. Transactions that have written something have older IDs."""
    (found,) = records(conn, "SELECT (3 + age('3'::xid)::bigint) & 4294967295")
    return int(found)


class Stamps(NamedTuple):
    """Digests that move with all that `published_tables` reads. They are read much faster.

    Statistics, most indexes and others that change no row of the catalog that describes a table do
    not move them.
    """

    #: The digest of facts about several tables.
    general: int
    #: The digests of all tables of the database, also unpublished ones, by OID.
    tables: dict[int, int]
    #: The oldest transaction that can change what the digests show.
    horizon: int | None = None

    def moved(self, before: Stamps) -> set[int] | None:
        """The OIDs of the tables that differ. None if any may."""
        if self.general != before.general:
            return None
        now, then = self.tables, before.tables
        return {
            oid for oid in now.keys() | then.keys() if now.get(oid) != then.get(oid)
        }


def stamps(conn: psycopg.Connection[Any], publications: Sequence[str]) -> Stamps:
    """The digests of what publications have now."""
    sql = for_version(conn, _STAMP)
    (found,) = records(conn, sql, {"publications": list(publications)})
    horizon = found.pop("horizon")
    tables = {int(oid): stamp for oid, stamp in found.items()}
    return Stamps(tables.pop(0), tables, horizon)


def for_version(conn: psycopg.Connection[Any], sql: str) -> str:
    """A query with its parts. Version 14 has no schemas of publications, and no row filters."""
    is_new = conn.info.server_version >= HAS_SCHEMAS
    parts = {
        "published": PUBLISHED,
        "children": CHILDREN,
        **{f"identity({it})": _IDENTITY.replace("table", it) for it in ("c", "t")},
        "conditions": _CONDITIONS if is_new else "SELECT '[]'::jsonb",
        "schemas": _SCHEMAS if is_new else "",
        "schema_members": _SCHEMA_MEMBERS if is_new else "",
        "not_of_schema": _NOT_OF_SCHEMA if is_new else "",
        "schema_stamp": _SCHEMA_STAMP if is_new else "",
        "is_published": _IS_PUBLISHED,
    }
    for name, part in parts.items():
        sql = sql.replace(f"{{{name}}}", part)
    return sql


HAS_SCHEMAS = 150_000
# Before 18, generated columns are never published, even if attnames lists them.
_IS_PUBLISHED = """coalesce(p.columns ? a.attname::text, true)
            AND (a.attgenerated = '' OR current_setting('server_version_num')::int >= 180000)"""
_SCHEMAS = """
            UNION ALL
            SELECT s.pnpubid, concat_ws(' ', 'schema', s.oid, s.xmin, t.path)
            FROM pg_publication_namespace s
            JOIN pg_class n ON n.relnamespace = s.pnnspid
            JOIN place t ON t.oid = n.oid
"""
# The columns of a key. Columns that an index only includes are not among them.
_IDENTITY = """(
    SELECT array_agg(a.attname)
    FROM pg_index i
    JOIN pg_attribute a ON a.attrelid = i.indrelid
        AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
    WHERE i.indrelid = table.oid AND i.indisvalid AND i.indimmediate
        AND (table.relreplident = 'd' AND i.indisprimary
            OR table.relreplident = 'i' AND i.indisreplident)
)"""
_SCHEMA_STAMP = """
    UNION ALL
    SELECT 0, hash_record_extended(ROW(s.oid, s.pnpubid, s.pnnspid, s.xmin::text), 11)
    FROM pg_publication_namespace s
"""
# Temporary tables are never published, and come and go. Facts about several tables have the OID 0.
_STAMP = """
WITH relation AS MATERIALIZED (
    SELECT c.oid, CASE c.relkind WHEN 'c' THEN 0::oid ELSE c.oid END AS place, c.relkind,
        hash_record_extended(ROW(
            c.xmin::text, c.relname, c.relnamespace, c.relfilenode, c.reltoastrelid,
            c.relpersistence, c.relnatts, c.relreplident, c.relispartition), 0) AS stamp
    FROM pg_class c
    WHERE c.relkind IN ('r', 'p', 'c') AND c.relpersistence <> 't' AND c.oid >= 16384
),
fact (oid, stamp) AS (
    SELECT r.place, r.stamp
    FROM relation r
    UNION ALL
    SELECT r.place, hash_record_extended(ROW(
        r.oid, a.xmin::text, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attisdropped,
        a.atthasdef, a.atthasmissing, a.attnotnull, a.attidentity, a.attgenerated), 1)
    FROM relation r
    JOIN pg_attribute a ON a.attrelid = r.oid AND a.attrelid >= 16384 AND a.attnum > 0
    UNION ALL
    SELECT r.place, hash_record_extended(ROW(x.oid, x.adnum), 2)
    FROM relation r
    JOIN pg_attrdef x ON x.adrelid = r.oid
    UNION ALL
    SELECT r.place, hash_record_extended(ROW(
        i.indexrelid, i.indkey::text, i.indisprimary, i.indisreplident, i.indisvalid), 3)
    FROM relation r
    JOIN pg_index i ON i.indrelid = r.oid AND (i.indisprimary OR i.indisreplident)
    UNION ALL
    SELECT CASE r.relkind WHEN 'p' THEN 0 ELSE r.place END,
        hash_record_extended(ROW(r.oid, d.xmin::text), 4)
    FROM relation r
    JOIN pg_depend d ON d.objid = r.oid AND d.classid = 'pg_class'::regclass AND d.objsubid = 0
        AND d.refclassid = 'pg_namespace'::regclass
    UNION ALL
    SELECT 0, hashtextextended(concat_ws(' ', b.xmin, to_jsonb(b)), 5)
    FROM pg_publication b
    WHERE b.pubname = ANY (%(publications)s::text[])
    UNION ALL
    SELECT 0, hash_record_extended(ROW(r.oid, r.prpubid, r.prrelid, r.xmin::text), 6)
    FROM pg_publication_rel r
    {schema_stamp}
    UNION ALL
    -- Columns have the row types of other tables.
    SELECT 0, hash_record_extended(ROW(
        a.attrelid, a.attnum, a.xmin::text, a.attname, a.atttypid, a.attisdropped), 12)
    FROM pg_type y
    JOIN relation r ON r.oid = y.typrelid AND r.relkind <> 'c'
    JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0
    WHERE EXISTS (
        SELECT FROM pg_depend d
        WHERE d.refclassid = 'pg_type'::regclass AND d.refobjid IN (y.oid, y.typarray)
            AND d.classid = 'pg_class'::regclass AND d.objsubid > 0
    )
    UNION ALL
    SELECT 0, hash_record_extended(ROW(i.inhrelid, i.inhparent, i.xmin::text), 7)
    FROM pg_inherits i
    UNION ALL
    SELECT 0, hash_record_extended(ROW(n.oid, n.nspname), 8)
    FROM pg_namespace n
    WHERE n.nspname !~ '^pg_(toast_)?temp_'
    UNION ALL
    SELECT 0, hash_record_extended(ROW(y.oid, y.typbasetype, y.typdefault IS NULL), 9)
    FROM pg_type y
    WHERE y.oid >= 16384 AND y.typtype IN ('d', 'e', 'r', 'm')
    UNION ALL
    SELECT 0, hash_record_extended(ROW(e.oid, e.enumtypid, e.enumlabel, e.xmin::text), 10)
    FROM pg_enum e
)
SELECT jsonb_object_agg(f.key, f.value)::text
FROM (
    SELECT oid::text, sum(stamp) FROM fact GROUP BY oid
    UNION ALL SELECT 'horizon', pg_snapshot_xmin(pg_current_snapshot())::text::numeric
) f (key, value)
"""
# VACUUM and ANALYZE set `reltuples`: a table may have lost its rows before. Other access methods than
# heap may have other transactions in `xmin`.
_ROWS = """
SELECT CASE WHEN EXISTS (SELECT FROM ONLY {table}) THEN
        CASE WHEN a.amname <> 'heap' OR %(before)s::text IS NULL THEN 'some'
            WHEN EXISTS (
                SELECT FROM (SELECT xmin AS x FROM ONLY {table} LIMIT 1000) r
                WHERE age(x) > age(%(before)s::text::xid8::xid)
            ) THEN 'old' ELSE 'some' END
    WHEN pg_relation_size(c.oid) = 0 AND c.reltuples = -1 AND c.relfilenode = c.oid
        THEN 'never'
    ELSE 'none' END
FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE c.oid = %(table)s::regclass
"""
_LOCKED = """
SELECT l.relation::bigint
FROM pg_locks l
JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
WHERE l.locktype = 'relation' AND l.granted AND l.mode = %(mode)s
UNION ALL
-- A standby only shows this mode.
SELECT c.oid::bigint
FROM pg_class c
WHERE pg_is_in_recovery() AND %(mode)s <> 'AccessExclusiveLock'
"""
_REMAINS = """
SELECT jsonb_build_object(
    'oid', c.oid::bigint, 'schema', n.nspname, 'persistence', c.relpersistence,
    'roots', (
        SELECT coalesce(jsonb_agg(a.relid::oid::bigint), '[]')
        FROM pg_partition_ancestors(c.oid) a
        WHERE a.relid <> c.oid
    )
)::text
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%(oids)s::bigint[])
"""
#: The tables that inherit from the plain table `c`, as SQL, by OID.
CHILDREN = """(
        WITH RECURSIVE child (oid) AS (
            SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = c.oid AND c.relkind <> 'p'
            UNION
            SELECT i.inhrelid FROM pg_inherits i JOIN child o ON o.oid = i.inhparent
        )
        SELECT coalesce(jsonb_object_agg(k.oid::bigint, format('%%I.%%I', m.nspname, k.relname)), '{}')
        FROM child o
        JOIN pg_class k ON k.oid = o.oid
        JOIN pg_namespace m ON m.oid = k.relnamespace
    )"""
#: The entries of publications, or of all, as the beginning of a query: a row for each publication of
#: a table. The view pg_publication_tables and pg_partition_tree would wait for locks on tables.
PUBLISHED = """
leaf (root, oid) AS MATERIALIZED (
    SELECT a.relid::oid, c.oid
    FROM pg_class c
    CROSS JOIN pg_partition_ancestors(c.oid) a
    WHERE c.relispartition AND c.relkind IN ('r', 'f') AND a.relid <> c.oid
),
publishable (oid, schema, kind, is_partition) AS (
    SELECT oid, relnamespace, relkind, relispartition
    FROM pg_class
    WHERE relkind IN ('r', 'p') AND relpersistence = 'p' AND oid >= 16384
),
member (publication, oid) AS (
    SELECT b.oid, c.oid
    FROM pg_publication b
    JOIN publishable c ON CASE WHEN b.pubviaroot THEN NOT c.is_partition ELSE c.kind = 'r' END
    WHERE b.puballtables AND NOT EXISTS (
        -- From version 19 on, a table may be excepted, with its partitions.
        SELECT FROM pg_publication_rel r
        WHERE r.prpubid = b.oid AND (r.prrelid = c.oid
            OR r.prrelid IN (SELECT relid FROM pg_partition_ancestors(c.oid)))
    )
    UNION
    SELECT r.prpubid, r.prrelid
    FROM pg_publication_rel r
    JOIN pg_publication b ON b.oid = r.prpubid AND NOT b.puballtables
    {schema_members}
),
sent (publication, oid) AS (
    SELECT m.publication, m.oid
    FROM member m
    JOIN pg_publication b ON b.oid = m.publication
    JOIN pg_class c ON c.oid = m.oid
    WHERE CASE WHEN b.pubviaroot THEN NOT EXISTS (
            SELECT FROM pg_partition_ancestors(m.oid) a
            JOIN member o ON o.publication = m.publication AND o.oid = a.relid
            WHERE a.relid <> m.oid
        ) ELSE c.relkind <> 'p' END
    UNION
    SELECT m.publication, l.oid
    FROM member m
    JOIN pg_publication b ON b.oid = m.publication AND NOT b.pubviaroot
    JOIN leaf l ON l.root = m.oid
),
published (oid, publication, needs_identity, columns, filter, entry) AS (
    SELECT s.oid, b.pubname, b.pubupdate OR b.pubdelete,
        (
            SELECT coalesce(jsonb_agg(a.attname ORDER BY a.attnum), '[]')
            FROM pg_attribute a
            WHERE a.attrelid = s.oid AND a.attnum > 0 AND NOT a.attisdropped
                -- Version 14 has no column lists, and no row filters.
                AND CASE WHEN to_jsonb(r) ->> 'prattrs' IS NOT NULL
                    THEN to_jsonb(r) -> 'prattrs' @> to_jsonb(a.attnum)
                    ELSE a.attgenerated = ''
                        OR a.attgenerated = 's' AND to_jsonb(b) ->> 'pubgencols' = 's' END
        ),
        -- What it does not insert, it does not filter. The tree has places in the command.
        CASE WHEN b.pubinsert THEN coalesce(
            md5(regexp_replace(to_jsonb(r) ->> 'prqual', ':location -?[0-9]+', '', 'g')), '') END,
        r.oid
    FROM sent s
    JOIN pg_publication b ON b.oid = s.publication
    LEFT JOIN pg_publication_rel r ON r.prpubid = b.oid AND r.prrelid = s.oid
        AND NOT b.puballtables {not_of_schema}
    WHERE %(publications)s::text[] IS NULL OR b.pubname = ANY (%(publications)s::text[])
)"""
_SCHEMA_MEMBERS = """
    UNION
    SELECT s.pnpubid, c.oid
    FROM pg_publication_namespace s
    JOIN publishable c ON c.schema = s.pnnspid
"""
# A table that its schema publishes too has neither.
_NOT_OF_SCHEMA = """AND NOT EXISTS (
        SELECT FROM pg_publication_namespace n
        JOIN pg_class c ON c.relnamespace = n.pnnspid
        WHERE n.pnpubid = b.oid AND c.oid = s.oid)
"""
# The function waits until no other session has the table locked.
_CONDITIONS = """
        SELECT coalesce(jsonb_agg(DISTINCT pg_get_expr(r.prqual, r.prrelid)), '[]')
        FROM published q
        JOIN pg_publication_rel r ON r.oid = q.entry
        WHERE %(for_copy)s AND q.oid = c.oid AND q.filter <> '' AND p.filters <> '[]'
"""
_TABLES = """
WITH {published},
chosen (oid, columns, filters) AS (
    SELECT oid, (array_agg(columns))[1],
        CASE WHEN bool_or(filter = '') THEN '[]'::jsonb
            ELSE coalesce(jsonb_agg(DISTINCT filter) FILTER (WHERE filter IS NOT NULL), '[]')
        END
    FROM published p
    -- Changes of a partition are sent as those of a root that is published as a whole.
    WHERE NOT EXISTS (
        SELECT FROM pg_partition_ancestors(p.oid) a
        JOIN published q ON q.oid = a.relid
        WHERE a.relid <> p.oid
    )
        AND (%(oids)s::bigint[] IS NULL OR p.oid IN (
            SELECT o FROM unnest(%(oids)s::bigint[]) o
            UNION
            SELECT a.relid FROM unnest(%(oids)s::bigint[]) o, pg_partition_ancestors(o::oid) a
        ))
    GROUP BY oid
),
part_of (oid, part) AS (
    SELECT c.oid, c.oid
    FROM chosen c
    JOIN pg_class r ON r.oid = c.oid
    WHERE r.relkind <> 'p'
    UNION ALL
    SELECT c.oid, l.oid
    FROM chosen c
    JOIN leaf l ON l.root = c.oid
)
SELECT jsonb_build_object(
    'oid', c.oid::bigint,
    'name', n.nspname || '.' || c.relname,
    'namespace', n.nspname,
    'children', {children},
    'identity', c.relreplident,
    'columns', a.columns,
    'filter_digests', p.filters,
    'filters', ({conditions}),
    'memberships', (
        WITH place (oid, number, path) AS (
            -- An ancestor's entry counts while the table is attached to it.
            SELECT c.oid, NULL::text, ''
            UNION ALL
            SELECT a.relid, NULL, (
                SELECT string_agg(concat_ws(' ', i.inhparent, i.xmin), ',' ORDER BY i.inhparent)
                FROM pg_inherits i
                WHERE i.inhrelid IN (SELECT relid FROM pg_partition_ancestors(c.oid))
            )
            FROM pg_partition_ancestors(c.oid) a
            WHERE a.relid <> c.oid
        ),
        entry (publication, place) AS (
            SELECT b.oid, 'all'
            FROM pg_publication b
            -- Its other entries are exceptions.
            WHERE b.puballtables AND NOT EXISTS (
                SELECT FROM pg_publication_rel r JOIN place t ON t.oid = r.prrelid
                WHERE r.prpubid = b.oid
            )
            UNION ALL
            SELECT r.prpubid, concat_ws(' ', 'table', r.oid, r.xmin, t.path)
            FROM pg_publication_rel r
            JOIN place t ON t.oid = r.prrelid
            JOIN pg_publication b ON b.oid = r.prpubid AND NOT b.puballtables
            {schemas}
        )
        SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object(
            'place', concat_ws(' ', e.publication, e.place),
            -- Its name and its owner say nothing of what is published.
            'publication', concat_ws(' ', b.xmin, to_jsonb(b) - 'pubname' - 'pubowner'),
            'operations', concat(
                CASE WHEN b.pubinsert THEN 'i' END, CASE WHEN b.pubupdate THEN 'u' END,
                CASE WHEN b.pubdelete THEN 'd' END, CASE WHEN b.pubtruncate THEN 't' END
            )
        )), '[]')
        FROM entry e
        JOIN pg_publication b ON b.oid = e.publication
        WHERE b.pubname = ANY (%(publications)s::text[])
    ),
    'narrow', (
        -- The place of an entry for the table itself, which has no path.
        SELECT coalesce(jsonb_object_agg(
            concat_ws(' ', r.prpubid, 'table', r.oid, r.xmin, ''), to_jsonb(r) ->> 'prqual'), '{}')
        FROM pg_publication_rel r
        WHERE r.prrelid = c.oid AND to_jsonb(r) ->> 'prqual' IS NOT NULL
    ),
    'primary_key', (
        SELECT coalesce(jsonb_agg(a.attname ORDER BY k.place), '[]')
        FROM pg_index i
        CROSS JOIN unnest((i.indkey::int2[])[0:i.indnkeyatts - 1])
            WITH ORDINALITY AS k (number, place)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
        WHERE i.indrelid = c.oid AND i.indisprimary
    ),
    'schema', s.entries,
    'first_schema', s.first_entries,
    'created', s.created,
    'last_column', c.relnatts,
    'altered', a.altered,
    'dropped', a.dropped,
    'definitions', d.definitions,
    'has_altered_types', d.is_any_altered,
    'type_writers', d.writers,
    'names', d.names,
    'stamp', concat_ws(' ', c.xmin, d.stamp, a.stamp),
    'parts', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'oid', t.oid::bigint,
            'quoted', format('%%I.%%I', m.nspname, t.relname),
            'file', t.relfilenode::bigint,
            'toast', nullif(t.reltoastrelid::bigint, 0),
            'persistence', t.relpersistence,
            'truncates', concat_ws(' ',
                -- The first command of a transaction wrote the row. A rewrite has others before.
                CASE WHEN t.cmin = '0' AND t.xmax = '0' THEN t.xmin END,
                (
                    -- TRUNCATE makes the files of the table and of its TOAST table or an index in a
                    -- row. Between them, a rewrite gives numbers to the types of a table.
                    SELECT string_agg(
                        concat_ws(' ', x.xmin, CASE WHEN t.oid = c.oid THEN t.relfrozenxid END), ' ')
                    FROM (
                        SELECT t.reltoastrelid UNION ALL
                        SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = t.oid
                    ) k (oid)
                    JOIN pg_class x ON x.oid = k.oid
                    WHERE x.relfilenode::bigint = t.relfilenode::bigint + 1
                )
            ),
            'attached', coalesce((
                SELECT string_agg(concat_ws(' ', i.inhparent, i.xmin), ',' ORDER BY i.inhparent)
                FROM pg_inherits i
                WHERE i.inhrelid <> c.oid
                    AND i.inhrelid IN (SELECT relid FROM pg_partition_ancestors(t.oid))
                    AND i.inhrelid NOT IN (SELECT relid FROM pg_partition_ancestors(c.oid))
            ), ''),
            'file_writers', CASE WHEN t.relfilenode <> t.oid
                THEN ARRAY[t.xmin::text::bigint, t.relfrozenxid::text::bigint]
                ELSE '{}' END,
            -- Other access methods may have other addresses of rows.
            'pages', CASE WHEN h.amname = 'heap' AND %(for_copy)s
                THEN pg_relation_size(t.oid) / current_setting('block_size')::int
                ELSE 0 END,
            -- The server refuses updates and deletes of a table without an identity.
            'lacks_identity', t.oid <> c.oid AND t.relreplident <> 'f'
                AND {identity(t)} IS NOT NULL
                AND (c.relreplident = 'f' OR NOT coalesce({identity(c)} <@ {identity(t)}, true))
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
CROSS JOIN LATERAL (
    SELECT
        coalesce(jsonb_agg(jsonb_build_object(
            'number', a.attnum,
            'quoted', quote_ident(a.attname),
            'type_oid', a.atttypid::bigint,
            'type_modifier', a.atttypmod,
            'has_default', a.atthasdef OR a.attnotnull OR a.attidentity <> ''
                OR y.typdefault IS NOT NULL,
            -- A new file has the value in the rows.
            'is_filled', a.atthasmissing
                -- Only tables with rows have the value that old rows get.
                OR c.relkind = 'p' AND EXISTS (
                    SELECT FROM leaf l
                    JOIN pg_attribute m ON m.attrelid = l.oid AND m.attname = a.attname
                    WHERE l.root = c.oid AND m.atthasmissing
                ),
            'changed', a.xmin::text::bigint,
            'expression', (
                SELECT x.oid::bigint
                FROM pg_attrdef x
                WHERE x.adrelid = a.attrelid AND x.adnum = a.attnum AND a.attgenerated <> ''
            )
        ) ORDER BY a.attnum) FILTER (
            WHERE NOT a.attisdropped AND {is_published}
        ), '[]') AS columns,
        coalesce(jsonb_agg(a.attnum ORDER BY a.attnum) FILTER (
            WHERE NOT a.attisdropped AND (age(a.xmin) < age(c.xmin)
                OR a.xmin = c.xmin AND a.cmin::text::bigint > c.cmin::text::bigint)
        ), '[]') AS altered,
        coalesce(jsonb_agg(jsonb_build_array(a.attnum, a.xmin::text::bigint) ORDER BY a.attnum)
            FILTER (WHERE a.attisdropped), '[]') AS dropped,
        hash_array_extended(array_agg(a.xmin::text ORDER BY a.attnum), 0) AS stamp
    FROM pg_attribute a
    LEFT JOIN pg_type y ON y.oid = a.atttypid
    WHERE a.attrelid = c.oid AND a.attnum > 0
) a
CROSS JOIN LATERAL (
    SELECT
        coalesce(string_agg(d.xmin::text, ' ' ORDER BY d.objid), '') AS entries,
        coalesce(string_agg(b.xmin::text, ' ' ORDER BY d.objid), '') AS first_entries,
        coalesce(max(b.xmin::text::bigint) FILTER (WHERE d.objid = c.oid), 0) AS created
    FROM pg_depend d
    JOIN pg_class k ON k.oid = d.objid
    -- Only the creation of a table writes the entry of its row type.
    LEFT JOIN pg_depend b ON b.classid = 'pg_type'::regclass AND b.objid = k.reltype
        AND b.refclassid = 'pg_class'::regclass AND b.refobjid = k.oid AND b.deptype = 'i'
    WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0
        AND d.refclassid = 'pg_namespace'::regclass AND d.deptype = 'n'
        AND d.objid IN (SELECT c.oid UNION SELECT relid FROM pg_partition_ancestors(c.oid))
) s
CROSS JOIN LATERAL (
    WITH RECURSIVE used (oid, is_published) AS (
        SELECT a.atttypid, {is_published}
        FROM pg_attribute a
        JOIN pg_type y ON y.oid = a.atttypid
        -- Types of the server's own are never altered. Some contain names.
        WHERE a.attrelid = c.oid AND a.attnum > 0
            AND (y.oid >= 16384 OR y.typcategory IN ('A', 'C') OR y.typname ~ '^(reg|aclitem)')
        UNION
        SELECT v.oid, u.is_published
        FROM used u
        JOIN pg_type y ON y.oid = u.oid
        LEFT JOIN pg_range r ON y.oid IN (r.rngtypid, r.rngmultitypid)
        CROSS JOIN LATERAL (
            VALUES (y.typelem), (y.typbasetype), (r.rngsubtype)
            UNION ALL
            SELECT a.atttypid
            FROM pg_attribute a
            WHERE a.attrelid = y.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        ) v (oid)
        JOIN pg_type w ON w.oid = v.oid
        WHERE w.oid >= 16384 OR w.typcategory IN ('A', 'C') OR w.typname ~ '^(reg|aclitem)'
    )
    SELECT
        (
            SELECT coalesce(jsonb_agg(DISTINCT y.typname), '[]')
            FROM used u
            JOIN pg_type y ON y.oid = u.oid
            WHERE u.is_published AND y.oid < 16384 AND y.typname ~ '^(reg|aclitem)'
        ) AS names,
        coalesce(jsonb_object_agg(i.key, i.definition)
            FILTER (WHERE i.definition IS NOT NULL), '{}') AS definitions,
        coalesce(bool_or(age(i.xmin) < age(s.xmin)
            OR i.xmin = s.xmin AND i.cmin::text::bigint > s.cmin::text::bigint), false)
            AS is_any_altered,
        coalesce(jsonb_agg(DISTINCT i.writer), '[]') AS writers,
        hash_array_extended(array_agg(i.xmin::text ORDER BY i.key), 0) AS stamp
    FROM used u
    JOIN pg_type y ON y.oid = u.oid
    -- A system column's row is as old as the table.
    JOIN pg_attribute s ON s.attrelid = c.oid AND s.attname = 'ctid'
    CROSS JOIN LATERAL (
        SELECT 'label ' || e.oid, e.enumlabel::text,
            -- A label that is younger than the table is a new one, and changes no row.
            CASE WHEN e.oid < c.oid THEN e.xmin END, e.cmin, e.xmin::text::bigint
        FROM pg_enum e
        WHERE e.enumtypid = y.oid
        UNION ALL
        -- It is new when a label gets another name, and then its own name again.
        SELECT concat('label ', e.oid, ' written'), e.xmin::text, NULL, NULL, e.xmin::text::bigint
        FROM pg_enum e
        WHERE e.enumtypid = y.oid
        UNION ALL
        SELECT 'attribute ' || y.oid || '.' || a.attnum,
            CASE WHEN NOT a.attisdropped
                THEN concat_ws(' ', a.atttypid, a.atttypmod, a.attname) END,
            a.xmin, a.cmin, a.xmin::text::bigint
        FROM pg_attribute a
        WHERE a.attrelid = y.typrelid AND y.typtype = 'c' AND a.attnum > 0
    ) i (key, definition, xmin, cmin, writer)
) d
ORDER BY c.oid
"""
