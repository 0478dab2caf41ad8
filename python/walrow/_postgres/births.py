"""Whether the stream has all rows of a new table: what the catalog shows of its creation."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import psycopg

from walrow._postgres.published import HAS_SCHEMAS
from walrow._postgres.session import records

#: A published table and a table that has its rows, by their OIDs: a partition, or itself.
Pair: TypeAlias = tuple[int, int]


class Rows(Enum):
    """The rows of a table."""

    NEVER = "never"  # It has never had any.
    NONE = "none"
    SOME = "some"


class Entry(NamedTuple):
    """An entry in a publication that publishes a table with rows.

    Attributes:
        operations: The published operations: letters of insert, update, delete, truncate.
        is_filtered: Whether it has a row filter.
        is_older: Whether the stream had its changes since the table was created.
    """

    operations: str
    is_filtered: bool
    is_older: bool


class Birth(NamedTuple):
    """The creation of a table with rows.

    Attributes:
        entries: What publishes it.
        keeps_file: Whether its file is the one that it was created with, or a copy of it.
        rows: Its rows. Only known if they matter.
    """

    entries: list[Entry]
    keeps_file: bool
    rows: Rows = Rows.SOME

    @property
    def is_published(self) -> bool:
        """Whether it was published since its creation, as it is now."""
        older = [entry for entry in self.entries if entry.is_older]
        # Of several filters, a row has to pass one. A later entry has filtered nothing before.
        is_open = any(not entry.is_filtered for entry in older)
        return (
            bool(older)
            and _operations(older) == _operations(self.entries)
            and (is_open or older == self.entries)
        )


def _operations(entries: Sequence[Entry]) -> set[str]:
    return set("".join(entry.operations for entry in entries))


def births(
    conn: psycopg.Connection[Any],
    publications: Sequence[str],
    earlier: Sequence[str],
    pairs: Collection[Pair],
) -> dict[Pair, Birth]:
    """The creation of tables with rows. One that has been dropped meanwhile is missing.

    The connection's `lock_timeout` should be short.

    Args:
        conn: The connection.
        publications: The publications of the stream.
        earlier: Those that the stream had at the last look.
        pairs: The tables.
    """
    if not pairs:
        return {}
    sql = _BIRTHS.replace(
        "{schemas}", _SCHEMAS if conn.info.server_version >= HAS_SCHEMAS else ""
    )
    ordered = sorted(pairs)
    parameters = {
        "publications": list(publications),
        "earlier": list(earlier),
        "roots": [root for root, _ in ordered],
        "parts": [part for _, part in ordered],
    }
    found = {}
    for it in records(conn, sql, parameters):
        entries = [Entry(**entry) for entry in it["entries"]]
        birth = Birth(entries, it["keeps_file"])
        if not (birth.is_published and birth.keeps_file):
            birth = birth._replace(rows=_rows(conn, it["quoted"]))
        found[it["root"], it["part"]] = birth
    return found


def _rows(conn: psycopg.Connection[Any], quoted: str) -> Rows:
    """The rows of a table. One that is locked or must not be read may have some."""
    with contextlib.suppress(psycopg.Error), conn.transaction():
        # The server has quoted the name.
        sql = _ROWS.replace("{table}", quoted.replace("%", "%%"))
        row = conn.execute(sql.encode(), {"table": quoted}).fetchone()
        if row is not None:
            return Rows(row[0])
    return Rows.SOME


#: A vacuum or an ANALYZE sets `reltuples`: a table may have lost its rows before.
_ROWS = """
SELECT CASE WHEN EXISTS (SELECT FROM ONLY {table}) THEN 'some'
    WHEN pg_relation_size(c.oid) = 0 AND c.reltuples = -1 AND c.relfilenode = c.oid
        THEN 'never'
    ELSE 'none' END
FROM pg_class c
WHERE c.oid = %(table)s::regclass
"""
_SCHEMAS = """
    UNION ALL
    SELECT t.root, t.part, t.number, s.pnpubid, NULL::boolean, s.oid, s.xmin, s.cmin, s.xmax,
        t.keeps_schema
    FROM pg_publication_namespace s
    JOIN pg_class x ON x.relnamespace = s.pnnspid
    JOIN tree t ON t.oid = x.oid
"""
# The creation of a table writes the entry in pg_depend that joins its row type to it, and nothing
# writes it later: other rows with its (xmin, cmin) are of the same command. A number between two
# commands of one transaction is a command that may have written rows.
#
# Another row is older if its transaction had ended when the file was created (relfrozenxid), or
# if an earlier command of the same transaction has written it. The order of two transaction IDs says
# nothing of the order of their commits. VACUUM moves relfrozenxid, but the table is older.
# xmin keeps its value when a row is frozen. One from the future is from before a wraparound.
# xmax: the transaction that has tried to remove the row has overwritten cmin.
_BIRTHS = """
WITH asked AS MATERIALIZED (
    SELECT q.root::oid AS root, c.oid AS part, c.relnamespace, c.relname, b.xmin, b.cmin,
        CASE WHEN b.xmin IS NOT NULL THEN greatest(age(c.relfrozenxid), age(b.xmin)) END AS age,
        c.relfilenode = c.oid OR EXISTS (
            -- VACUUM FULL and CLUSTER keep the TOAST table. ALTER TABLE makes another one.
            SELECT
            FROM pg_attribute t
            WHERE t.attrelid = c.reltoastrelid AND t.attname = 'ctid'
                AND t.xmin = b.xmin AND t.xmax = '0'
                AND t.cmin::text::bigint - b.cmin::text::bigint <= 2
        ) AS keeps_file
    FROM unnest(%(roots)s::bigint[], %(parts)s::bigint[]) q (root, part)
    JOIN pg_class c ON c.oid = q.part
    -- Without it, nothing is older.
    LEFT JOIN pg_depend b ON b.classid = 'pg_type'::regclass AND b.objid = c.reltype
        AND b.refclassid = 'pg_class'::regclass AND b.refobjid = c.oid AND b.refobjsubid = 0
        AND b.deptype = 'i' AND b.xmax = '0'
),
-- The table, and those above it.
above AS (
    SELECT q.*, coalesce(a.relid, q.part)::oid AS oid, coalesce(a.number, 1) AS number
    FROM asked q
    LEFT JOIN pg_partition_ancestors(q.part) WITH ORDINALITY a (relid, number) ON true
),
tree AS MATERIALIZED (
    SELECT v.root, v.part, v.oid, v.number, v.xmin, v.cmin, v.age,
        coalesce(bool_and(s.is_step) OVER below, true) AS is_attached,
        coalesce(n.is_schema, false) AS keeps_schema
    FROM above v
    JOIN pg_class c ON c.oid = v.oid
    LEFT JOIN pg_depend b ON b.classid = 'pg_type'::regclass AND b.objid = c.reltype
        AND b.refclassid = 'pg_class'::regclass AND b.refobjid = c.oid AND b.refobjsubid = 0
        AND b.deptype = 'i' AND b.xmax = '0'
    LEFT JOIN LATERAL (
        -- ATTACH and DETACH write the rows of all inherited columns.
        SELECT coalesce(bool_or(a.xmin = b.xmin AND a.xmax = '0'
                AND a.cmin::text::bigint - b.cmin::text::bigint <= 1), false)
            OR v.number > 1 AND EXISTS (
                SELECT FROM pg_inherits i WHERE i.inhrelid = v.oid AND {older(i)})
            AS is_step
        FROM pg_attribute a
        WHERE a.attrelid = v.oid AND a.attnum > 0 AND a.attinhcount > 0
    ) s ON true
    LEFT JOIN LATERAL (
        -- SET SCHEMA writes this entry.
        SELECT bool_or(d.xmin = b.xmin AND d.cmin = b.cmin AND d.xmax = '0'
            OR {older(d)}) AS is_schema
        FROM pg_depend d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = v.oid AND d.objsubid = 0
            AND d.refclassid = 'pg_namespace'::regclass AND d.deptype = 'n'
    ) n ON true
    WINDOW below AS (PARTITION BY v.root, v.part ORDER BY v.number
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
entry (root, part, number, publication, is_filtered, oid, xmin, cmin, xmax, keeps_schema) AS (
    SELECT t.root, t.part, t.number, b.oid, NULL::boolean, NULL::oid, b.xmin, b.cmin, b.xmax, true
    FROM pg_publication b
    JOIN tree t ON t.oid = t.root
    WHERE b.puballtables
    UNION ALL
    SELECT t.root, t.part, t.number, r.prpubid, to_jsonb(r) ->> 'prqual' IS NOT NULL, r.oid,
        r.xmin, r.cmin, r.xmax, true
    FROM pg_publication_rel r
    JOIN tree t ON t.oid = r.prrelid
    WHERE (to_jsonb(r) ->> 'prexcept')::bool IS NOT TRUE
    {schemas}
)
SELECT jsonb_build_object(
    'root', v.root::bigint,
    'part', v.part::bigint,
    'quoted', format('%%I.%%I', (
        SELECT m.nspname FROM pg_namespace m WHERE m.oid = v.relnamespace), v.relname),
    'keeps_file', v.keeps_file,
    'entries', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'operations', concat(
                CASE WHEN p.pubinsert THEN 'i' END, CASE WHEN p.pubupdate THEN 'u' END,
                CASE WHEN p.pubdelete THEN 'd' END, CASE WHEN p.pubtruncate THEN 't' END
            ),
            'is_filtered', coalesce(e.is_filtered, false),
            'is_older', coalesce(t.is_attached AND e.keeps_schema AND {older(e)} AND {older(p)}
                AND (e.oid IS NULL OR e.oid < v.part) AND p.pubname = ANY (%(earlier)s::text[]),
                false)
        )), '[]')
        FROM entry e
        JOIN pg_publication p ON p.oid = e.publication
        JOIN tree t ON (t.root, t.part, t.number) = (e.root, e.part, e.number)
        -- What publishes only a part of the root's rows does not count.
        JOIN tree r ON (r.root, r.part, r.oid) = (e.root, e.part, e.root)
        WHERE (e.root, e.part) = (v.root, v.part) AND e.number >= r.number
            AND p.pubname = ANY (%(publications)s::text[])
    )
)::text
FROM asked v
"""
for _name in ("i", "d", "e", "p"):
    _BIRTHS = _BIRTHS.replace(
        f"{{older({_name})}}",
        f"(age({_name}.xmin) > v.age OR age({_name}.xmin) < 0"
        f" OR {_name}.xmin = v.xmin AND {_name}.xmax = '0'"
        f" AND {_name}.cmin::text::bigint < v.cmin::text::bigint)",
    )
