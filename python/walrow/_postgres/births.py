"""Whether the stream has all rows of a new table: what the catalog shows of its creation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import psycopg

from walrow._postgres.published import (
    HAS_SCHEMAS,
    Birth,
    PublishedTable,
    Rows,
    TablePart,
    locked,
    rows_of,
)
from walrow._postgres.session import records


def with_births(
    conn: psycopg.Connection[Any],
    publications: Sequence[str],
    earlier: Sequence[str],
    tables: Sequence[PublishedTable],
    *,
    known: Mapping[tuple[int, int], int],
    entries: Collection[str],
    next_xid: int | None,
    horizon: int | None,
) -> list[PublishedTable]:
    """Tables with the creation of their parts that are not among the known tables and parts.

    The stream had the earlier publications at the last look. `entries` are the rows of publications
    and of their members that the last look found, each as `OID xmin`. `next_xid` was the next transaction
    ID then. The files of the known parts were others before the transaction `horizon`.
    """
    files = {(it.oid, part.oid): part.file for it in tables for part in it.parts}
    new = sorted(files.keys() - known.keys())
    if all(known.get(pair) == file for pair, file in files.items()):
        return list(tables)
    has_schemas = conn.info.server_version >= HAS_SCHEMAS
    parameters = {
        "publications": list(publications),
        "earlier": list(earlier),
        "entries": list(entries),
        "next_xid": next_xid,
        "roots": [root for root, _ in new],
        "parts": [part for _, part in new],
    }
    sql = _BIRTHS.replace("{schemas}", _SCHEMAS if has_schemas else "")
    # Known parts may only have new files.
    births = {
        (it["root"], it["part"]): (not it["is_published"], not it["keeps_file"])
        for it in (records(conn, sql, parameters) if new else ())
    }
    # A transaction that inserted before the publication has its lock, or its rows are seen.
    written = locked(conn, "RowExclusiveLock") if new else set()

    def born(root: int, part: TablePart) -> TablePart:
        if known.get((root, part.oid)) not in {None, part.file}:
            # ALTER TABLE writes all rows again. VACUUM FULL and CLUSTER keep their transactions.
            is_old = rows_of(conn, part.quoted, horizon) is Rows.OLD
            return part._replace(keeps_rows=is_old)
        if (found := births.get((root, part.oid))) is None:
            return part
        rows = rows_of(conn, part.quoted) if any(found) else Rows.SOME
        if rows is Rows.NEVER:
            found = (False, False)
        has_rows = rows is Rows.SOME or (found[0] and part.oid in written)
        return part._replace(birth=Birth(*found, has_rows))

    return [
        it._replace(parts=[born(it.oid, part) for part in it.parts]) for it in tables
    ]


_SCHEMAS = """
    UNION ALL
    SELECT t.root, t.part, t.number, s.pnpubid, s.oid, s.xmin, s.cmin, s.xmax, t.keeps_schema
    FROM pg_publication_namespace s
    JOIN pg_class x ON x.relnamespace = s.pnnspid
    JOIN tree t ON t.oid = x.oid
"""
# The creation of a table writes the entry in pg_depend that joins its row type to it, and nothing
# writes it later: other rows with its (xmin, cmin) are of the same command. A number between two
# commands of one transaction is a command that may have written rows.
#
# Another row is older if its transaction had ended when the file was created (relfrozenxid), or
# if an earlier command of the same transaction has written it. The order of two transaction IDs is
# not the order of their commits: once VACUUM has moved relfrozenxid, only what the last look has seen
# is older, if the transaction that created the table began later.
# xmin keeps its value when a row is frozen. An xmin in the future is older than a wraparound.
# If xmax is set, a transaction that was rolled back has overwritten cmin.
_BIRTHS = """
WITH asked AS MATERIALIZED (
    SELECT q.root::oid AS root, c.oid AS part, b.xmin,
        CASE WHEN b.xmax = '0' THEN b.cmin::text::bigint END AS cmin,
        CASE WHEN age(c.relfrozenxid) >= age(b.xmin) THEN age(c.relfrozenxid)
            WHEN b.xmin IS NOT NULL THEN 2147483647 END AS age,
        age(c.relfrozenxid) < age(b.xmin) AND age(b.xmin) <= age(%(next_xid)s::text::xid)
            AS is_vacuumed,
        c.relfilenode = c.oid OR EXISTS (
            -- VACUUM FULL and CLUSTER keep the TOAST table. ALTER TABLE makes another one.
            SELECT
            FROM pg_attribute t
            WHERE t.attrelid = c.reltoastrelid AND t.attname = 'ctid'
                AND t.xmin = b.xmin AND t.xmax = '0' AND b.xmax = '0'
                AND t.cmin::text::bigint - b.cmin::text::bigint <= 3
        ) AS keeps_file,
        -- Nor was it a partition for a while: DETACH writes its row, and the rows of all columns. If
        -- one transaction creates, fills and detaches it, the number of its row is 5 at least.
        c.xmin = b.xmin AND c.xmax = '0' AND b.xmax = '0'
            AND c.cmin::text::bigint - b.cmin::text::bigint <= 4
        OR EXISTS (
            SELECT
            FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.xmin = b.xmin AND a.xmax = '0'
                AND a.cmin::text::bigint - b.cmin::text::bigint <= 1
        ) AS was_no_partition
    FROM unnest(%(roots)s::bigint[], %(parts)s::bigint[]) q (root, part)
    JOIN pg_class c ON c.oid = q.part
    -- Without it, nothing is older.
    LEFT JOIN pg_depend b ON b.classid = 'pg_type'::regclass AND b.objid = c.reltype
        AND b.refclassid = 'pg_class'::regclass AND b.refobjid = c.oid AND b.refobjsubid = 0
        AND b.deptype = 'i'
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
entry (root, part, number, publication, oid, xmin, cmin, xmax, keeps_schema) AS (
    SELECT t.root, t.part, t.number, b.oid, NULL::oid, b.xmin, b.cmin, b.xmax, true
    FROM pg_publication b
    JOIN tree t ON t.oid = t.root
    WHERE b.puballtables
    UNION ALL
    SELECT t.root, t.part, t.number, r.prpubid, r.oid, r.xmin, r.cmin, r.xmax, true
    FROM pg_publication_rel r
    JOIN tree t ON t.oid = r.prrelid
    WHERE (to_jsonb(r) ->> 'prexcept')::bool IS NOT TRUE
    {schemas}
)
SELECT jsonb_build_object(
    'root', v.root::bigint,
    'part', v.part::bigint,
    'keeps_file', v.keeps_file,
    'is_published', (
        SELECT coalesce(bool_and(t.is_attached AND e.keeps_schema
            AND ({older(e)} OR v.is_vacuumed AND coalesce(e.oid, p.oid) || ' ' || e.xmin
                = ANY (%(entries)s::text[]))
            AND ({older(p)} OR v.is_vacuumed AND p.oid || ' ' || p.xmin
                = ANY (%(entries)s::text[]))
            AND (e.oid IS NULL OR e.oid < v.part)
            -- Changes of a partition may have been sent as those of its root.
            AND (v.root <> v.part OR v.was_no_partition OR NOT p.pubviaroot)
            AND p.pubname = ANY (%(earlier)s::text[])), false)
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
