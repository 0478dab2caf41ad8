"""Looks at the published tables of a server: the marks that they make, and their cost."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from servers import EmbeddedServer
from walrow._log.items import LogColumn, LogVersion
from walrow._log.published import Published
from walrow._lsn import Lsn
from walrow._postgres.births import births
from walrow._postgres.published import published_tables, stamps
from walrow._receive.marks import (
    Look,
    Questions,
    after_look,
    at_beginning,
    newcomers,
    settled,
)

PUBLICATIONS = ["looks"]


class Looks:
    """A receiver's looks at one database, without a receiver."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn
        self.record = Published(None, Lsn(0), None, {}, {}, {})

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self._conn.execute(statement.encode())

    def truncate(self, *statements: str) -> list[int]:
        """Runs statements in a transaction. Returns its ID."""
        with self._conn.transaction():
            found = self._conn.execute("SELECT pg_current_xact_id()::text::bigint")
            (xid,) = found.fetchone() or (0,)
            self.sql(*statements)
        return [xid % (1 << 32)]

    def begin(self) -> None:
        """The tables are whole, as after a load."""
        self.stamps = stamps(self._conn, PUBLICATIONS)
        tables = published_tables(self._conn, PUBLICATIONS, sized=False)
        self.record = at_beginning(tables, (), PUBLICATIONS, Lsn(8))

    def look(self) -> Published:
        """Looks once more, before the log is compared."""
        now = stamps(self._conn, PUBLICATIONS)
        moved = now.moved(self.stamps)
        self.stamps = now
        at = Lsn(self.record.position + 8)
        if moved is not None and not moved:
            return self.record._replace(position=at)
        tables = published_tables(self._conn, PUBLICATIONS, sized=False, oids=moved)
        new = newcomers(self.record, tables)
        found = births(self._conn, PUBLICATIONS, PUBLICATIONS, new)
        return after_look(self.record, Look(tables, PUBLICATIONS, at, at, moved, found))

    def codes(self, truncates: Sequence[int] = ()) -> dict[str, list[str]]:
        """Looks once more. Returns the codes of the open marks, by table.

        Args:
            truncates: The transactions with a TRUNCATE that the log has.
        """
        record = self.look()
        at = record.position
        found = [(xid, Lsn(at - 1)) for xid in truncates]
        questions = Questions(
            lambda _oid, since: [it for it in found if it[1] >= since],
            lambda _oid: None,
        )
        self.record = settled(record, {}, at, at, questions)
        tables = self.record.tables or {}
        return {
            tables[oid]["name"]: codes
            for oid, marks in self.record.marks.items()
            if (codes := [mark.code.value for mark in marks if mark.is_open])
        }


@pytest.fixture
def looks(server: EmbeddedServer) -> Iterator[Looks]:
    with (
        server.database("looks") as database,
        psycopg.connect(server.dsn_of(database), autocommit=True) as conn,
    ):
        yield Looks(conn)


SETUP = [
    "CREATE TABLE t (id int PRIMARY KEY, v text, n int)",
    "CREATE TABLE small (id int PRIMARY KEY, n int)",
    "INSERT INTO t SELECT g, repeat('v', 10), g FROM generate_series(1, 100) g",
    "INSERT INTO small SELECT g, g FROM generate_series(1, 100) g",
]

#: Statements that change no row. VACUUM FULL of a table without TOAST looks like a rewrite.
HARMLESS = [
    "GRANT SELECT ON t TO PUBLIC",
    "GRANT UPDATE (v) ON t TO PUBLIC",
    "ALTER TABLE t OWNER TO pg_monitor",
    "COMMENT ON TABLE t IS 'a table'",
    "COMMENT ON COLUMN t.v IS 'a column'",
    "CREATE INDEX ON t (v)",
    "CREATE UNIQUE INDEX CONCURRENTLY u ON t (id)",
    "REINDEX TABLE t",
    "CREATE STATISTICS s ON v, n FROM t",
    "ALTER TABLE t ALTER v SET STATISTICS 100",
    "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
    "ALTER TABLE t ALTER v SET (n_distinct = 5)",
    "ALTER TABLE t SET (fillfactor = 70)",
    "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
    "ALTER TABLE t DISABLE TRIGGER tr",
    "CREATE RULE r AS ON INSERT TO t DO ALSO SELECT 1",
    "DROP RULE r ON t",
    "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY po ON t USING (true)",
    "ALTER TABLE t ADD CHECK (n > 0)",
    "CREATE TABLE IF NOT EXISTS fk (id int REFERENCES t)",
    "ANALYZE t",
    "VACUUM t",
    "VACUUM (FREEZE) t",
    "VACUUM FULL t",
    "CLUSTER t USING t_pkey",
    "ALTER TABLE t REPLICA IDENTITY FULL",
    "TRUNCATE t CASCADE",
    "ALTER TABLE t DROP COLUMN n",
    "ALTER TABLE t ADD COLUMN later int",
    "VACUUM FREEZE pg_catalog.pg_publication_rel",
    "ALTER PUBLICATION looks OWNER TO CURRENT_USER",
    # Its catalog is the same for the other table, too.
    "VACUUM small",
]


def test_what_changes_no_row_leaves_no_mark(looks: Looks) -> None:
    looks.sql(*SETUP, "CREATE PUBLICATION looks FOR TABLE t, small")
    looks.begin()
    for statement in HARMLESS:
        looks.sql(statement)
        assert (statement, looks.codes()) == (statement, {})
    for statements in (
        ["TRUNCATE small"],
        ["TRUNCATE small", "INSERT INTO small VALUES (1, 1)"],
        ["SAVEPOINT s", "TRUNCATE small"],
        [
            "SAVEPOINT s",
            "TRUNCATE small",
            "RELEASE s",
            "GRANT SELECT ON small TO PUBLIC",
        ],
    ):
        truncates = looks.truncate(*statements)
        assert (statements, looks.codes(truncates)) == (statements, {})
    truncates = looks.truncate("TRUNCATE small")
    looks.sql("GRANT DELETE ON small TO PUBLIC")
    assert looks.codes(truncates) == {}
    truncates = looks.truncate("TRUNCATE small")
    looks.sql("ALTER TABLE small ADD later int")
    assert looks.codes(truncates) == {}


#: Statements that rewrite a table without TOAST after a TRUNCATE.
REWRITES = [
    ["ALTER TABLE small ALTER n TYPE int USING n + 1"],
    ["ALTER TABLE small SET UNLOGGED", "ALTER TABLE small SET LOGGED"],
    [
        "ALTER TABLE small ADD c int DEFAULT random()",
        "ALTER TABLE small ALTER c DROP DEFAULT",
    ],
    [
        "ALTER TABLE small ALTER n TYPE int USING n + 1",
        "GRANT SELECT ON small TO PUBLIC",
    ],
]


def test_a_rewrite_after_a_truncate_leaves_a_mark(looks: Looks) -> None:
    looks.sql(*SETUP, "CREATE PUBLICATION looks FOR ALL TABLES")
    fill = "INSERT INTO small SELECT g, g FROM generate_series(1, 100) g"
    for rewrite in REWRITES:
        looks.sql("DROP TABLE small", SETUP[1])
        looks.begin()
        truncates = looks.truncate("TRUNCATE small", fill)
        looks.sql(*rewrite)
        found = looks.codes(truncates)
        assert (rewrite, found) == (rewrite, {"public.small": ["rewritten"]})
        # In one transaction.
        looks.sql("DROP TABLE small", SETUP[1])
        looks.begin()
        truncates = looks.truncate("TRUNCATE small", fill, rewrite[0])
        if "UNLOGGED" not in rewrite[0]:
            assert "rewritten" in looks.codes(truncates)["public.small"]
    # The TRUNCATE comes last: all rows are later.
    looks.sql("DROP TABLE small", SETUP[1])
    looks.begin()
    looks.sql(*REWRITES[0])
    assert looks.codes(looks.truncate("TRUNCATE small", fill)) == {}


#: Statements between two looks, and the codes of the table's marks.
SILENT = [
    (["SET UNLOGGED", "SET LOGGED"], {"rewritten"}),
    (
        ["ADD c int GENERATED ALWAYS AS IDENTITY", "ALTER c DROP IDENTITY"],
        {"column_default", "rewritten"},
    ),
    (["ADD c int DEFAULT (random() * 7)::int", "ALTER c DROP DEFAULT"], {"rewritten"}),
    (["ADD c int DEFAULT 5", "ALTER c DROP DEFAULT"], {"column_default"}),
    # The one reason does not hide the other.
    (
        ["ADD c int DEFAULT 5", "SET UNLOGGED", "SET LOGGED"],
        {"column_default", "rewritten"},
    ),
    (
        ["ALTER n TYPE text USING n::text", "ALTER n TYPE int USING n::int + 1"],
        {"rewritten"},
    ),
    (["ALTER n TYPE int USING n + 1"], {"rewritten"}),
]


@pytest.mark.parametrize("name", ["t", "small"])
def test_a_rewrite_leaves_a_mark(looks: Looks, name: str) -> None:
    looks.sql(*SETUP, "CREATE PUBLICATION looks FOR ALL TABLES")
    for changes, codes in SILENT:
        looks.sql("DROP TABLE t, small", *SETUP)
        looks.begin()
        looks.sql(*(f"ALTER TABLE {name} {change}" for change in changes))
        found = {table: set(codes) for table, codes in looks.codes().items()}
        assert (changes, found) == (changes, {f"public.{name}": codes})
    # VACUUM FULL writes the value into the rows, and forgets the default.
    looks.sql("DROP TABLE t, small", *SETUP)
    looks.begin()
    looks.sql(
        f"ALTER TABLE {name} ADD c int DEFAULT 5",
        f"ALTER TABLE {name} ALTER c DROP DEFAULT",
        f"VACUUM FULL {name}",
    )
    assert looks.codes() == {f"public.{name}": ["rewritten"]}


BACKFILL = ["ALTER TABLE {} ADD c int", "UPDATE {} SET c = n"]
ADDED = [
    "ALTER TABLE {} ADD c int NOT NULL DEFAULT 5",
    "ALTER TABLE {} ALTER c DROP DEFAULT",
]
RETYPED = "ALTER TABLE {} ALTER n TYPE int USING n + 1"
DOMAIN = ["DROP DOMAIN IF EXISTS d", "CREATE DOMAIN d AS int DEFAULT 5"]
NAMED, INSERTS = (
    "TABLE t, small",
    "TABLE t, small WITH (publish = 'insert, update, delete')",
)

#: A publication, statements between two looks at a table, and the codes of its marks.
NEEDS = [
    ("ALL TABLES", [*BACKFILL, "ALTER TABLE {} ALTER c SET NOT NULL"], set()),
    ("ALL TABLES", [*BACKFILL, "ALTER TABLE {} ALTER c SET DEFAULT 7"], set()),
    ("ALL TABLES", ["ALTER TABLE {} ADD c int DEFAULT NULL"], set()),
    ("ALL TABLES", ADDED, {"column_default"}),
    ("ALL TABLES", [*DOMAIN, "ALTER TABLE {} ADD c d"], {"column_default"}),
    (NAMED, ["VACUUM FULL {}"], set()),
    (NAMED, ["CLUSTER {} USING {}_pkey"], set()),
    (NAMED, ["ALTER TABLE {} ADD c int", "VACUUM FULL {}"], {"rewritten"}),
    (NAMED, [RETYPED, "VACUUM FULL {}"], {"rewritten"}),
    (NAMED, [*ADDED, "VACUUM FULL {}"], {"column_default", "rewritten"}),
    (
        NAMED,
        ["ALTER PUBLICATION looks DROP TABLE {}", "ALTER TABLE {} SET UNLOGGED"]
        + ["ALTER TABLE {} SET LOGGED", "ALTER PUBLICATION looks ADD TABLE {}"],
        {"left_publication", "rewritten"},
    ),
]


@pytest.mark.parametrize("name", ["t", "small"])
@pytest.mark.parametrize(("scope", "statements", "codes"), NEEDS)
def test_what_may_have_changed_rows_leaves_a_mark(
    looks: Looks, name: str, scope: str, statements: list[str], codes: set[str]
) -> None:
    looks.sql(*SETUP, f"CREATE PUBLICATION looks FOR {scope}")
    looks.begin()
    looks.sql(*(statement.replace("{}", name) for statement in statements))
    found = {table: set(codes) for table, codes in looks.codes().items()}
    assert found == ({f"public.{name}": codes} if codes else {})


def test_a_new_file_without_its_truncate_leaves_a_mark(looks: Looks) -> None:
    """The stream does not have each TRUNCATE: a new file may have lost rows."""
    looks.sql(*SETUP, f"CREATE PUBLICATION looks FOR {INSERTS}")
    looks.begin()
    looks.sql("VACUUM FULL small")
    assert looks.codes() == {"public.small": ["rewritten"]}


def test_an_expression_that_is_not_published(looks: Looks) -> None:
    if looks._conn.info.server_version < 170_000:
        # Earlier versions cannot set it.
        return
    looks.sql(
        GENERATED,
        "ALTER TABLE g ADD n int",
        "CREATE PUBLICATION looks FOR TABLE g",
    )
    looks.begin()
    looks.sql("ALTER TABLE g ALTER twice SET EXPRESSION AS (id * 3)")
    assert looks.codes() == {}
    looks.sql(
        "ALTER TABLE g ALTER n TYPE int USING n + 1",
        "ALTER TABLE g ALTER twice SET EXPRESSION AS (id * 4)",
    )
    assert looks.codes() == {"public.g": ["rewritten"]}


def test_a_truncate_after_the_look_ends_the_mark(looks: Looks) -> None:
    looks.sql(*SETUP, "CREATE PUBLICATION looks FOR ALL TABLES")
    looks.begin()
    # Its TRUNCATE was before the rewrite.
    truncates = looks.truncate("TRUNCATE small")
    looks.sql("INSERT INTO small VALUES (1, 1)", *REWRITES[0])
    assert looks.codes(truncates) == {"public.small": ["rewritten"]}
    looks.sql("ALTER TABLE small RENAME n TO m")
    assert looks.codes() == {"public.small": ["rewritten", "column_renamed"]}
    assert looks.codes(looks.truncate("TRUNCATE small")) == {
        "public.small": ["column_renamed"]
    }


def test_a_young_table_that_was_rewritten(looks: Looks) -> None:
    looks.sql("CREATE PUBLICATION looks FOR ALL TABLES")
    looks.begin()
    looks.sql(
        *SETUP,
        "TRUNCATE t",
        "VACUUM FULL t",
        "ALTER TABLE small ADD c int GENERATED ALWAYS AS IDENTITY",
        "CREATE TABLE r (id int PRIMARY KEY, v text)",
        "ALTER TABLE r SET UNLOGGED",
        "ALTER TABLE r SET LOGGED",
    )
    record = looks.look()
    tables = record.tables or {}
    young = {
        tables[oid]["name"]: (each.is_rewritten, bool(each.files))
        for oid, each in record.young.items()
    }
    assert young == {
        "public.t": (False, False),
        "public.small": (False, True),
        "public.r": (True, True),
    }


def test_publications_that_publish_less_for_a_while(looks: Looks) -> None:
    looks.sql(*SETUP, "CREATE PUBLICATION looks FOR TABLE t")
    looks.begin()
    looks.sql(
        "ALTER PUBLICATION looks SET (publish = 'insert, update')",
        "ALTER PUBLICATION looks SET (publish = 'insert, update, delete, truncate')",
    )
    assert looks.codes() == {"public.t": ["publication_changed"]}
    looks.begin()
    looks.sql(
        "ALTER PUBLICATION looks DROP TABLE t", "ALTER PUBLICATION looks ADD TABLE t"
    )
    assert looks.codes() == {"public.t": ["left_publication"]}


def test_partitions_that_leave_and_come_back(looks: Looks) -> None:
    looks.sql(
        "CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (10)",
        "CREATE PUBLICATION looks FOR TABLE root WITH (publish_via_partition_root)",
    )
    looks.begin()
    looks.sql("CREATE TABLE more PARTITION OF root FOR VALUES FROM (10) TO (20)")
    assert looks.codes() == {}
    looks.sql(
        "ALTER TABLE root DETACH PARTITION leaf",
        "ALTER TABLE root ATTACH PARTITION leaf FOR VALUES FROM (0) TO (10)",
    )
    assert looks.codes() == {"public.root": ["partitions"]}


@pytest.mark.parametrize("scope", ["ALL TABLES", "TABLE {}"])
def test_a_look_where_nothing_changed_is_cheap(looks: Looks, scope: str) -> None:
    names = [f"t{number}" for number in range(1000)]
    columns = ", ".join(f"c{number} int" for number in range(9))
    for start in range(0, 1000, 50):
        # One transaction has a limited number of locks.
        looks.sql(
            ";".join(
                f"CREATE TABLE {name} (id int PRIMARY KEY, {columns})"
                for name in names[start : start + 50]
            )
        )
    looks.sql(f"CREATE PUBLICATION looks FOR {scope.format(', '.join(names))}")
    conn = looks._conn
    before = stamps(conn, PUBLICATIONS)
    process = Path(f"/proc/{conn.info.backend_pid}/stat")

    def cpu() -> float:
        fields = process.read_text("utf-8").rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    began = cpu()
    for _ in range(10):
        assert stamps(conn, PUBLICATIONS) == before
    assert (cpu() - began) / 10 < 0.05
    # Another table that changes, published or not, costs little more.
    looks.sql("ALTER TABLE t7 ADD COLUMN more int", "CREATE TABLE other (id int)")
    began = cpu()
    for _ in range(10):
        moved = stamps(conn, PUBLICATIONS).moved(before)
        found = published_tables(conn, PUBLICATIONS, sized=False, oids=moved)
    assert (cpu() - began) / 10 < 0.1
    published = ["public.t7"] if "TABLE {}" in scope else ["public.other", "public.t7"]
    assert sorted(table.name for table in found) == published


def test_a_schema_that_leaves_a_publication_and_comes_back(looks: Looks) -> None:
    if looks._conn.info.server_version < 150_000:
        # Version 14 has no schemas in publications.
        return
    looks.sql(
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (id int PRIMARY KEY)",
        "CREATE PUBLICATION looks FOR TABLES IN SCHEMA s",
    )
    looks.begin()
    looks.sql("CREATE TABLE s.more (id int PRIMARY KEY)")
    assert looks.codes() == {}
    looks.sql(
        "ALTER PUBLICATION looks DROP TABLES IN SCHEMA s",
        "ALTER PUBLICATION looks ADD TABLES IN SCHEMA s",
    )
    left = {name: ["left_publication"] for name in ("s.t", "s.more")}
    assert looks.codes() == left


GENERATED = (
    "CREATE TABLE g (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)"
)


def test_a_generated_column_that_is_no_longer_one(looks: Looks) -> None:
    looks.sql(GENERATED, "CREATE PUBLICATION looks FOR TABLE g")
    looks.begin()
    looks.sql("ALTER TABLE g ALTER twice DROP EXPRESSION")
    assert looks.codes() == {"public.g": ["column_added"]}


def test_a_published_generated_column_with_another_expression(looks: Looks) -> None:
    if looks._conn.info.server_version < 180_000:
        # Earlier versions publish none.
        return
    looks.sql(
        GENERATED,
        "CREATE PUBLICATION looks FOR TABLE g WITH (publish_generated_columns = stored)",
    )
    looks.begin()
    looks.sql("ALTER TABLE g ALTER twice SET EXPRESSION AS (id * 3)")
    assert "generated_column" in looks.codes()["public.g"]


def test_a_young_table_whose_generated_column_is_no_longer_one(looks: Looks) -> None:
    """The rows in the log do not have the column. An added one has no values."""
    looks.sql("CREATE PUBLICATION looks FOR ALL TABLES")
    looks.begin()
    looks.sql(
        GENERATED,
        "ALTER TABLE g ALTER twice DROP EXPRESSION",
        "CREATE TABLE a (id int PRIMARY KEY)",
        "ALTER TABLE a ADD twice int",
        "CREATE TABLE b (id int PRIMARY KEY)",
        "ALTER TABLE b ADD twice int",
        "GRANT SELECT ON b TO PUBLIC",
    )
    record = looks.look()
    column = LogColumn("id", 23, -1, key=True)
    for oid, table in (record.tables or {}).items():
        version = LogVersion(table["name"], (column,), "default", 5, 0, 50)
        young = record.young[oid]
        reason = young.alteration([version], young.columns, lambda: None)
        code = None if reason is None else reason.code.value
        expected = "generated_column" if table["name"] == "public.g" else None
        assert (table["name"], code) == (table["name"], expected)
