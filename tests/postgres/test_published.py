"""The published tables are those of the server's own view, and are read without a lock on any table."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import walrow
from servers import EmbeddedServer
from walrow._postgres.published import for_version, published_tables, stamps
from walrow._postgres.slot_positions import prepared_transactions
from walrow._run.server import server_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

TABLES = r"""
CREATE SCHEMA s;
CREATE SCHEMA "odd s";
CREATE TABLE plain (id int PRIMARY KEY, v text DEFAULT 'x', gone int);
ALTER TABLE plain DROP COLUMN gone;
CREATE TABLE s.twin (id int PRIMARY KEY, v int DEFAULT 1 + 2);
CREATE TABLE "odd s"."Odd t" ("Id" int PRIMARY KEY, "it's" text);
CREATE UNLOGGED TABLE s.fast (id int);
CREATE VIEW s.seen AS SELECT 1 AS one;
CREATE TABLE computed (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED);
CREATE TABLE empty ();
CREATE TABLE parent (id int);
CREATE TABLE s.child (more int) INHERITS (parent);
CREATE TABLE root (id int, k int, PRIMARY KEY (id, k)) PARTITION BY RANGE (k);
CREATE TABLE s.low PARTITION OF root FOR VALUES FROM (0) TO (10);
CREATE UNLOGGED TABLE fleeting PARTITION OF root FOR VALUES FROM (10) TO (20);
CREATE TABLE s.middle PARTITION OF root FOR VALUES FROM (20) TO (30) PARTITION BY RANGE (id);
CREATE TABLE deep PARTITION OF s.middle FOR VALUES FROM (0) TO (10);
CREATE TABLE childless (id int) PARTITION BY LIST (id);
"""
#: What publications may have, and from which version on.
CONTENTS = {
    "FOR ALL TABLES": 14,
    "FOR TABLE plain, s.twin, parent, empty, computed": 14,
    "FOR TABLE root": 14,
    "FOR TABLE ONLY parent, s.low": 14,
    "FOR TABLE s.middle, deep, childless": 14,
    "FOR TABLE root, deep, s.low": 15,
    "FOR TABLE plain (id), s.twin (v, id)": 15,
    "FOR TABLE plain WHERE (id > 1 AND v IS NOT NULL), root WHERE (k < 5), s.low WHERE (k > 2)": 15,
    "FOR TABLES IN SCHEMA s": 15,
    "FOR TABLES IN SCHEMA s, TABLE plain, s.twin WHERE (v > 2), root": 15,
    "FOR TABLES IN SCHEMA public": 15,
    "FOR TABLE computed (id, twice)": 18,
    "FOR ALL TABLES EXCEPT (TABLE root, plain)": 19,
}
OPTIONS = {
    "publish = 'insert, update, delete, truncate'": 14,
    "publish_via_partition_root": 14,
    "publish = 'delete'": 14,
    "publish_generated_columns = stored": 18,
}
VIEW = """
SELECT p.pubname, c.oid, to_jsonb(p) -> 'attnames',
    b.pubinsert AND to_jsonb(p) ->> 'rowfilter' IS NOT NULL
FROM pg_publication_tables p
JOIN pg_publication b ON b.pubname = p.pubname
JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
"""
OURS = """
WITH {published}
SELECT p.publication, p.oid, p.columns, p.filter <> ''
FROM published p
"""


@pytest.fixture
def conn(server: EmbeddedServer) -> Iterator[psycopg.Connection[Any]]:
    with (
        server.database("published") as name,
        psycopg.connect(server.dsn, dbname=name, autocommit=True) as connection,
    ):
        connection.execute(TABLES)
        number = 0
        for content, since in CONTENTS.items():
            for option, option_since in OPTIONS.items():
                if server.major >= max(since, option_since):
                    number += 1
                    command = f"CREATE PUBLICATION p{number} {content} WITH ({option})"
                    # Some contents do not go with some options.
                    with contextlib.suppress(psycopg.errors.InvalidParameterValue):
                        connection.execute(command.encode())
        yield connection


def test_they_are_those_of_the_view(conn: psycopg.Connection[Any]) -> None:
    """A row filter counts only for inserts."""
    cursor = psycopg.ClientCursor(conn)
    ours = for_version(conn, OURS).encode()
    found = {
        (name, oid): (columns, bool(is_filtered))
        for name, oid, columns, is_filtered in cursor.execute(
            ours, {"publications": None}
        )
    }
    major = conn.info.server_version // 10_000
    view = {
        # Version 15 lists generated columns, and sends none.
        (name, oid): (
            [it for it in columns or () if it != "twice" or major > 15],
            is_filtered,
        )
        for name, oid, columns, is_filtered in conn.execute(VIEW)
    }
    assert len(view) > 60
    if major == 14:
        # It lists no columns.
        view = {pair: (found[pair][0], False) for pair in view}
    assert found == view


def test_nothing_waits_for_a_locked_table(conn: psycopg.Connection[Any]) -> None:
    conn.execute("SET lock_timeout = '200ms'; SET statement_timeout = '10s'")
    names = [name for (name,) in conn.execute("SELECT pubname FROM pg_publication")]
    known = published_tables(conn, names)
    names_of = 'plain, s.twin, computed, parent, root, "odd s"."Odd t"'
    with psycopg.connect(conn.info.dsn) as holder:
        holder.execute(f"LOCK TABLE {names_of} IN ACCESS EXCLUSIVE MODE".encode())
        assert published_tables(conn, names) == known
        assert stamps(conn, names).tables
        assert prepared_transactions(conn, names) == []
        assert walrow.postgres.preflight(conn, publications=names) is not None
        assert server_of(conn).publications
    catalog = walrow.postgres.catalog(conn, publications=names)
    assert "1 + 2" in catalog.to_json()
