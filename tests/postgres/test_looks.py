"""Looks at the published tables of a server: the marks that they make, and their cost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from walrow.looks import Look, Published, Questions, after_look, at_beginning, settled
from walrow.lsn import Lsn
from walrow.postgres.published import last_oid, published_tables, stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import EmbeddedServer

PUBLICATIONS = ["looks"]


class Looks:
    """Looks of a receiver at a database of its own, without a receiver."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn
        self.record = Published(None, Lsn(0), 0, {}, {}, {})

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self._conn.execute(statement.encode())

    def begin(self) -> None:
        """The tables are whole, as after a load."""
        tables = published_tables(self._conn, PUBLICATIONS, sized=False)
        self.record = at_beginning(tables, (), last_oid(self._conn), Lsn(8))

    def look(self) -> Published:
        """Looks once more, before the log has what is awaited from it."""
        last = last_oid(self._conn)
        tables = published_tables(self._conn, PUBLICATIONS, sized=False)
        at = Lsn(self.record.position + 8)
        return after_look(self.record, Look(tables, last, at, at))

    def codes(self, *, is_truncated: bool = False) -> dict[str, list[str]]:
        """Looks once more. Returns the codes of the open marks, by table."""
        questions = Questions(lambda _oid, _since: is_truncated, lambda _oid: None)
        record = self.look()
        at = record.position
        self.record = settled(record, {}, at, at, questions)
        tables = self.record.tables or {}
        return {
            tables[oid]["name"]: [mark.code.value for mark in marks]
            for oid, marks in self.record.marks.items()
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

#: Statements that change no row. VACUUM FULL of a table without TOAST cannot be told from a rewrite.
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
    looks.sql("TRUNCATE small")
    assert looks.codes(is_truncated=True) == {}


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
        tables[oid]["name"]: (each.is_rewritten, each.needs_truncate)
        for oid, each in record.young.items()
    }
    assert young == {
        "public.t": (False, False),
        "public.small": (False, True),
        "public.r": (True, False),
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
    before = stamp(conn, PUBLICATIONS)
    process = Path(f"/proc/{conn.info.backend_pid}/stat")

    def cpu() -> float:
        fields = process.read_text("utf-8").rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    began = cpu()
    for _ in range(10):
        assert stamp(conn, PUBLICATIONS) == before
    assert (cpu() - began) / 10 < 0.05
    looks.sql("ALTER TABLE t7 ADD COLUMN more int")
    assert stamp(conn, PUBLICATIONS) != before
