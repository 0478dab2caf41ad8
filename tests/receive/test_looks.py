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
from walrow._postgres.births import with_births
from walrow._postgres.printed_names import printed_names, renamed_since
from walrow._postgres.published import (
    Rows,
    published_tables,
    rows_of,
    stamps,
)
from walrow._receive.looks import Look
from walrow._receive.marks import (
    Questions,
    after_look,
    after_names,
    at_beginning,
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
        tables = with_births(
            self._conn, PUBLICATIONS, PUBLICATIONS, tables, self.record.parts()
        )
        return after_look(self.record, Look(tables, PUBLICATIONS, at, at, moved))

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
            lambda _since, _end: (),
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
        # All connections of walrow do this.
        conn.execute("SET jit = off")
        yield Looks(conn)


ROOT = "CREATE TABLE root (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)"
LEAF = "PARTITION OF root FOR VALUES FROM (0) TO (10)"
ATTACH = "ALTER TABLE root ATTACH PARTITION t FOR VALUES FROM (0) TO (10)"
DETACH = "ALTER TABLE root DETACH PARTITION t"
TABLE = "CREATE TABLE t (id int PRIMARY KEY, v text)"
ROW = "INSERT INTO t VALUES (1, 'x')"
VIA_ROOT = "TABLE root WITH (publish_via_partition_root)"
ALL_VIA_ROOT = "ALL TABLES WITH (publish_via_partition_root)"
SCHEMA = "TABLES IN SCHEMA public"

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
        [
            "ALTER PUBLICATION looks DROP TABLE {}",
            "ALTER TABLE {} SET UNLOGGED",
            "ALTER TABLE {} SET LOGGED",
            "ALTER PUBLICATION looks ADD TABLE {}",
        ],
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


def test_a_new_table_that_was_not_dropped_after_all(looks: Looks) -> None:
    """The transaction has overwritten a part of what shows the creation."""
    looks.sql("CREATE PUBLICATION looks FOR ALL TABLES")
    looks.begin()
    dropped = ["BEGIN", "DROP TABLE t", "ROLLBACK"]
    looks.sql(*SETUP, *dropped)
    assert looks.codes() == {}
    looks.sql("CREATE UNLOGGED TABLE u (id int)", "INSERT INTO u VALUES (1)")
    looks.sql("ALTER TABLE u SET LOGGED", "BEGIN", "DROP TABLE u", "ROLLBACK")
    assert list(looks.codes()) == ["public.u"]


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


def test_a_column_that_has_the_row_type_of_another_table(looks: Looks) -> None:
    looks.sql(
        "CREATE TABLE a (x int, z int)",
        "CREATE TABLE t (id int PRIMARY KEY, v a, more a[])",
        "INSERT INTO t VALUES (1, (1, 2), NULL)",
        "CREATE PUBLICATION looks FOR TABLE t",
    )
    looks.begin()
    looks.sql("ALTER TABLE a ADD COLUMN y int")
    assert looks.codes() == {"public.t": ["type_altered"]}


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


OTHER = "ALTER PUBLICATION looks ADD TABLES IN SCHEMA public"
LESS = "ALTER PUBLICATION looks SET (publish = 'insert')"
MORE = "ALTER PUBLICATION looks SET (publish = 'insert, update, delete, truncate')"
#: The second session has a transaction ID that is older than the table.
OPEN = [(1, "BEGIN"), (1, "SELECT pg_current_xact_id()")]

#: A publication, what exists at the first look, the statements of two sessions, and whether a new
#: table is marked.
SESSIONS = [
    (
        "TABLES IN SCHEMA other",
        [],
        [*OPEN, (0, TABLE), (0, ROW), (1, OTHER), (1, "COMMIT")],
        True,
    ),
    (
        "TABLES IN SCHEMA other",
        [],
        [*OPEN, (1, OTHER), (0, TABLE), (0, ROW), (1, "COMMIT")],
        True,
    ),
    *(
        (
            scope,
            [],
            [*OPEN, *((0, it) for it in (TABLE, ROW, LESS)), (1, MORE), (1, "COMMIT")],
            True,
        )
        for scope in ("ALL TABLES", "TABLES IN SCHEMA public")
    ),
    (
        VIA_ROOT,
        [ROOT],
        [
            *((0, it) for it in ("BEGIN", TABLE, ROW, ATTACH, "COMMIT")),
            # It has written the rows of the catalog, in vain.
            *((0, it) for it in ("BEGIN", "DROP TABLE t", "ROLLBACK")),
        ],
        True,
    ),
    (
        "TABLES IN SCHEMA other",
        [],
        [(0, it) for it in (TABLE, ROW, OTHER, "VACUUM FREEZE", "VACUUM FULL t")],
        True,
    ),
    (
        "ALL TABLES",
        [],
        [
            *((0, it) for it in ("BEGIN", TABLE.replace("TABLE", "UNLOGGED TABLE"))),
            *((0, it) for it in (ROW, "ALTER TABLE t SET LOGGED", "COMMIT")),
            (0, "VACUUM FULL t"),
        ],
        True,
    ),
    (
        VIA_ROOT,
        [ROOT],
        [(0, it) for it in (f"CREATE TABLE t {LEAF}", ROW, "TRUNCATE t")],
        True,
    ),
    ("ALL TABLES", [], [*OPEN, (0, TABLE), (0, ROW)], False),
    ("ALL TABLES", [], [(0, it) for it in (TABLE, ROW, "VACUUM FULL t")], False),
    ("ALL TABLES", [], [(0, it) for it in (TABLE, ROW, "VACUUM FREEZE")], False),
    (
        "ALL TABLES",
        [],
        [(0, it) for it in (TABLE, ROW, "BEGIN", LESS, "ROLLBACK")],
        False,
    ),
]


def test_sessions_and_what_only_looks_like_a_change(
    server: EmbeddedServer, looks: Looks
) -> None:
    for scope, before, statements, is_marked in SESSIONS:
        if "SCHEMA" in scope and server.major < 15:
            continue
        fresh(looks, scope, before)
        looks.begin()
        with psycopg.connect(looks._conn.info.dsn, autocommit=True) as other:
            for session, statement in statements:
                (looks._conn, other)[session].execute(statement.encode())
            found = looks.codes()
        assert (statements, bool(found)) == (statements, is_marked)


def test_the_rows_of_a_table(looks: Looks) -> None:
    conn = looks._conn
    fresh(looks, "ALL TABLES", [TABLE])
    found = [rows_of(conn, "public.t")]
    for statement in (ROW, "TRUNCATE t", "ANALYZE t", ROW):
        looks.sql(statement)
        found.append(rows_of(conn, "public.t"))
    never, none, some = Rows.NEVER, Rows.NONE, Rows.SOME
    assert found == [never, some, none, none, some]
    # Row-level security hides rows.
    looks.sql(
        "DROP ROLE IF EXISTS narrow",
        "CREATE ROLE narrow",
        "GRANT USAGE ON SCHEMA public TO narrow",
        "GRANT SELECT ON t TO narrow",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "SET ROLE narrow",
    )
    assert conn.execute("SELECT count(*) FROM t").fetchone() == (0,)
    assert rows_of(conn, "public.t") is some
    looks.sql("RESET ROLE", "DROP OWNED BY narrow", "DROP ROLE narrow")


#: Objects of the first look, statements that change and change back, and the code of the mark.
BACK = [
    (
        "TABLES IN SCHEMA public",
        [TABLE],
        ["ALTER TABLE t SET SCHEMA other", "ALTER TABLE other.t SET SCHEMA public"],
        "left_publication",
    ),
    (
        "TABLES IN SCHEMA public WITH (publish_via_partition_root)",
        [ROOT, f"CREATE TABLE t {LEAF}", "ALTER TABLE t SET SCHEMA other"],
        [
            "ALTER TABLE root SET SCHEMA other",
            "ALTER TABLE other.root SET SCHEMA public",
        ],
        "left_publication",
    ),
    (
        "TABLES IN SCHEMA public",
        [ROOT, f"CREATE TABLE t {LEAF}", "ALTER TABLE t SET SCHEMA other"],
        [
            "ALTER TABLE root SET SCHEMA other",
            "ALTER TABLE other.root SET SCHEMA public",
        ],
        "left_publication",
    ),
    (
        "ALL TABLES",
        ["CREATE TYPE e AS ENUM ('a')", "CREATE TABLE t (v e[])"],
        [
            "ALTER TYPE e RENAME VALUE 'a' TO 'b'",
            "ALTER TYPE e RENAME VALUE 'b' TO 'a'",
        ],
        "type_altered",
    ),
    ("ALL TABLES", [TABLE], ["ALTER TABLE t SET SCHEMA other"], None),
    (
        "ALL TABLES",
        ["CREATE TYPE e AS ENUM ('a')", "CREATE TABLE t (v e[])"],
        ["ALTER TYPE e ADD VALUE 'b'"],
        None,
    ),
    (
        ALL_VIA_ROOT,
        [ROOT, f"CREATE TABLE t {LEAF}"],
        ["ALTER TABLE root REPLICA IDENTITY FULL"],
        "partition_identity",
    ),
    (
        ALL_VIA_ROOT,
        [ROOT, f"CREATE TABLE t {LEAF}", "ALTER TABLE t ALTER v SET NOT NULL"],
        [
            "CREATE UNIQUE INDEX i ON t (v)",
            "ALTER TABLE t REPLICA IDENTITY USING INDEX i",
        ],
        "partition_identity",
    ),
    # The server sent rows of t as rows of the root.
    (
        "TABLE t, root WITH (publish_via_partition_root)",
        [ROOT, TABLE],
        [ATTACH, DETACH, "ALTER TABLE t ALTER v SET STATISTICS 5, ADD n int"],
        "left_publication",
    ),
    (
        ALL_VIA_ROOT,
        [TABLE],
        [ROOT, ATTACH, DETACH, "DROP TABLE root"],
        "left_publication",
    ),
    ("TABLE t, root", [ROOT, TABLE], [ATTACH, DETACH], None),
    (
        ALL_VIA_ROOT,
        [TABLE],
        [
            "ALTER TABLE t ALTER v SET STATISTICS 5, ALTER id SET STATISTICS 5",
            "GRANT SELECT (id, v) ON t TO PUBLIC",
        ],
        None,
    ),
    (
        ALL_VIA_ROOT,
        [TABLE],
        ["CREATE INDEX ON t (v)", "ALTER TABLE t ALTER v SET NOT NULL"],
        None,
    ),
    (
        ALL_VIA_ROOT,
        [ROOT],
        [f"CREATE UNLOGGED TABLE t {LEAF}"],
        "partition_unlogged",
    ),
    (
        ALL_VIA_ROOT,
        [ROOT, f"CREATE TABLE t {LEAF}"],
        [
            "ALTER TABLE t REPLICA IDENTITY FULL",
            "ALTER TABLE root REPLICA IDENTITY FULL",
        ],
        None,
    ),
]


def test_what_changed_and_changed_back(looks: Looks) -> None:
    for scope, before, statements, code in BACK:
        if "SCHEMA" in scope and looks._conn.info.server_version < 150_000:
            continue
        fresh(looks, scope, before)
        looks.begin()
        looks.sql(*statements)
        found = {it for codes in looks.codes().values() for it in codes}
        assert (statements, found) == (statements, {code} - {None})


def test_names_of_objects_are_values(looks: Looks) -> None:
    fresh(
        looks,
        "ALL TABLES",
        [
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "CREATE DOMAIN d AS regclass",
            "CREATE TYPE c AS (a d[])",
            "CREATE TABLE t (v c, w regproc)",
            "CREATE TABLE u (v regclass[])",
            "CREATE TABLE o (v text)",
        ],
    )
    looks.begin()
    tables = looks.record.tables or {}
    named = {table["name"]: table["names"] for table in tables.values()}
    assert named == {
        "public.t": ["regclass", "regproc"],
        "public.u": ["regclass"],
        "public.o": [],
    }
    types = {"regclass", "regproc"}
    record = after_names(looks.record, printed_names(looks._conn, types), AT)
    for statements, marked in [
        (["CREATE TABLE n (id int)", "GRANT SELECT ON o TO PUBLIC"], []),
        (["DROP TABLE n", "VACUUM FULL o"], []),
        (["ALTER FUNCTION f() RENAME TO g"], ["public.t"]),
        (["ALTER TABLE o SET SCHEMA other"], ["public.t", "public.u"]),
        (["ALTER SCHEMA other RENAME TO another"], ["public.t", "public.u"]),
    ]:
        looks.sql(*statements)
        record = after_names(record, printed_names(looks._conn, types), AT)
        found = sorted(tables[oid]["name"] for oid in record.marks)
        assert (statements, found) == (statements, marked)
        record = record._replace(marks={})


AT = Lsn(8)
NAMING = "CREATE TABLE n (id serial PRIMARY KEY, v regclass, w regproc[], x regtype)"
FUNCTION = "CREATE OR REPLACE FUNCTION g() RETURNS int LANGUAGE sql AS 'SELECT 1'"
DOMAIN_D = "CREATE DOMAIN d AS int"

#: Statements after a look, and whether a name that a value of n may contain has changed.
RENAMES = [
    ([NAMING, "ALTER TABLE n RENAME TO m"], True),
    ([NAMING, "ALTER TABLE n SET SCHEMA other"], True),
    ([NAMING, "ALTER TABLE old RENAME TO older"], True),
    ([NAMING, "ALTER TYPE e RENAME TO f"], True),
    ([NAMING, FUNCTION, "ALTER FUNCTION g() RENAME TO h"], True),
    ([NAMING, DOMAIN_D, "ALTER DOMAIN d RENAME TO c"], True),
    (
        [
            NAMING,
            TABLE,
            "CREATE INDEX ON t (v)",
            "GRANT SELECT ON t, old TO PUBLIC",
            "DROP ROLE IF EXISTS keeper",
            "CREATE ROLE keeper",
            "ALTER TABLE t OWNER TO keeper",
            "ALTER TABLE n ADD y int",
            "ALTER TABLE old ADD n int",
            DOMAIN_D,
            "CREATE TYPE r AS RANGE (subtype = int)",
            "CREATE VIEW w AS TABLE t",
            FUNCTION,
            FUNCTION,
        ],
        False,
    ),
]


@pytest.mark.parametrize("before", ["no name", "names"])
def test_an_object_that_is_renamed_before_a_look_has_its_name(
    looks: Looks, before: str
) -> None:
    conn, old = looks._conn, ["CREATE TABLE old ()", "CREATE TYPE e AS ENUM ()"]
    cases = [*RENAMES]
    if before == "no name":
        # It is older than all values.
        cases.append((["ALTER TABLE old RENAME TO older", NAMING], False))
    else:
        old.append(NAMING.replace(" n ", " first "))
        # A known table may contain the name, too.
        cases.append(([TABLE, "ALTER TABLE t RENAME TO u"], True))
    for statements, expected in cases:
        for number, run in enumerate((HOW[0], in_one_transaction, in_a_savepoint)):
            if number > 0 and statements[-1] == NAMING:
                # There, the order does not show.
                continue
            fresh(looks, "ALL TABLES", old)
            looks.begin()
            pictures = (looks.record.tables or {}).values()
            known = {it for each in pictures for it in each["names"]}
            record = after_names(looks.record, printed_names(conn, known), AT)
            assert not record.marks
            run(looks, statements)
            tables = published_tables(conn, PUBLICATIONS, sized=False)
            came = {it.oid: it.names for it in tables if it.names}
            names = printed_names(conn, {it for each in came.values() for it in each})
            renamed = renamed_since(conn, names, record.names, came)
            found = after_names(record, names, AT, renamed, came).marks
            assert (statements, number, bool(found)) == (statements, number, expected)


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


#: A publication, objects of the first look, and how a table comes that had rows before it was
#: published like this.
LATE = {
    "attached": (VIA_ROOT, [ROOT], [TABLE, ROW, ATTACH]),
    "attached of all": (ALL_VIA_ROOT, [ROOT], [TABLE, ROW, ATTACH]),
    "attached leaf": ("TABLE root", [ROOT], [TABLE, ROW, ATTACH]),
    "attached like": (
        VIA_ROOT,
        [ROOT],
        ["CREATE TABLE t (LIKE root INCLUDING ALL)", ROW, ATTACH],
    ),
    "attached from a query": (
        VIA_ROOT,
        [ROOT],
        [
            "CREATE TABLE t AS SELECT 1 AS id, 'x'::text AS v",
            "ALTER TABLE t ALTER id SET NOT NULL",
            ATTACH,
        ],
    ),
    "detached and attached": (
        VIA_ROOT,
        [ROOT],
        [
            f"CREATE TABLE t {LEAF}",
            "ALTER TABLE root DETACH PARTITION t",
            ROW,
            ATTACH,
        ],
    ),
    "detached": (
        ALL_VIA_ROOT,
        [ROOT],
        [f"CREATE TABLE t {LEAF}", ROW, "ALTER TABLE root DETACH PARTITION t"],
    ),
    "attached tree": (
        VIA_ROOT,
        [ROOT],
        [
            "CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
            "CREATE TABLE leaf PARTITION OF t FOR VALUES FROM (0) TO (5)",
            ROW,
            ATTACH,
        ],
    ),
    "under a new root": (
        ALL_VIA_ROOT,
        [TABLE, ROW],
        [
            "ALTER TABLE t RENAME TO old",
            "ALTER TABLE old RENAME CONSTRAINT t_pkey TO old_pkey",
            ROOT.replace("root", "t"),
            "ALTER TABLE t ATTACH PARTITION old FOR VALUES FROM (0) TO (10)",
        ],
    ),
    "added": (
        "TABLE o",
        ["CREATE TABLE o (id int)"],
        [TABLE, ROW, "ALTER PUBLICATION looks ADD TABLE t"],
    ),
    "added root": (
        VIA_ROOT.replace("root", "o", 1),
        ["CREATE TABLE o (id int)"],
        [
            ROOT,
            f"CREATE TABLE t {LEAF}",
            ROW,
            "ALTER PUBLICATION looks ADD TABLE root",
        ],
    ),
    "added child": (
        "TABLE o",
        ["CREATE TABLE o (id int)"],
        [
            "CREATE TABLE t (v text) INHERITS (o)",
            ROW,
            "ALTER PUBLICATION looks ADD TABLE t",
        ],
    ),
    "unlogged": (
        "ALL TABLES",
        [],
        [TABLE.replace("TABLE", "UNLOGGED TABLE"), ROW, "ALTER TABLE t SET LOGGED"],
    ),
    "unlogged without TOAST": (
        "ALL TABLES",
        [],
        [
            "CREATE UNLOGGED TABLE t (id int)",
            "INSERT INTO t VALUES (1)",
            "ALTER TABLE t SET LOGGED",
        ],
    ),
    "published less": (
        "ALL TABLES",
        [],
        [
            TABLE,
            ROW,
            "ALTER PUBLICATION looks SET (publish = 'insert')",
            "UPDATE t SET v = 'lost'",
            "ALTER PUBLICATION looks SET (publish = 'insert, update, delete, truncate')",
        ],
    ),
    "moved": (
        SCHEMA,
        [],
        [
            "CREATE TABLE other.t (id int)",
            "INSERT INTO other.t VALUES (1)",
            "ALTER TABLE other.t SET SCHEMA public",
        ],
    ),
    "moved root": (
        f"{SCHEMA} WITH (publish_via_partition_root)",
        [],
        [
            ROOT.replace("root", "other.root"),
            f"CREATE TABLE t {LEAF.replace('root', 'other.root')}",
            ROW.replace("t ", "other.root ", 1),
            "ALTER TABLE other.root SET SCHEMA public",
        ],
    ),
    "added schema": (
        "TABLES IN SCHEMA other",
        [],
        [TABLE, ROW, f"ALTER PUBLICATION looks ADD {SCHEMA}"],
    ),
    "schema that left": (
        SCHEMA,
        [],
        [
            TABLE,
            ROW,
            f"ALTER PUBLICATION looks DROP {SCHEMA}",
            "UPDATE t SET v = 'lost'",
            f"ALTER PUBLICATION looks ADD {SCHEMA}",
        ],
    ),
}
#: A publication, objects of the first look, and how a table comes that is whole.
WHOLE = {
    "created": ("ALL TABLES", [], [TABLE, ROW]),
    "with much": (
        ALL_VIA_ROOT,
        ["CREATE TABLE o (id int PRIMARY KEY)"],
        [
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n serial,"
            " v text DEFAULT 'x', o int REFERENCES o CHECK (o < 9))",
            "INSERT INTO t DEFAULT VALUES",
            "ALTER TABLE t ADD COLUMN later int UNIQUE",
            "CREATE INDEX ON t (v)",
            "GRANT SELECT (ctid, id, v), INSERT ON t TO PUBLIC",
            "COMMENT ON TABLE t IS 'a table'",
            "ALTER TABLE t OWNER TO pg_monitor",
            "ALTER TABLE t REPLICA IDENTITY FULL",
            "ALTER TABLE t RENAME TO other_name",
        ],
    ),
    "from a query": (
        "ALL TABLES",
        [],
        ["CREATE TABLE t AS SELECT 1 AS id, 'x'::text AS v"],
    ),
    "moved": (
        "ALL TABLES",
        [],
        [
            "CREATE TABLE t (id int)",
            "INSERT INTO t VALUES (1)",
            "ALTER TABLE t SET SCHEMA other",
        ],
    ),
    "partitions": (
        VIA_ROOT,
        [ROOT],
        [
            "CREATE TABLE tree PARTITION OF root FOR VALUES FROM (0) TO (20)"
            " PARTITION BY RANGE (id)",
            "CREATE TABLE t PARTITION OF tree FOR VALUES FROM (0) TO (10)",
            ROW,
            "ALTER TABLE root ADD COLUMN later int",
            "ALTER TABLE root ALTER v SET NOT NULL",
            "ALTER TABLE root RENAME v TO w",
            "ALTER TABLE root RENAME w TO v",
        ],
    ),
    "partition whose columns all have defaults": (
        VIA_ROOT,
        [ROOT.replace("id int", "id serial").replace("v text", "v text DEFAULT 'x'")],
        [f"CREATE TABLE t {LEAF}", ROW],
    ),
    "partition that is attached without rows": (
        VIA_ROOT,
        [ROOT],
        ["CREATE TABLE t (LIKE root INCLUDING ALL)", ATTACH],
    ),
    "tree that is attached without rows": (
        VIA_ROOT,
        [ROOT],
        [
            "CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
            "CREATE TABLE leaf PARTITION OF t FOR VALUES FROM (0) TO (5)",
            ATTACH,
        ],
    ),
    "new root": (
        ALL_VIA_ROOT,
        [],
        [ROOT, f"CREATE TABLE t {LEAF}", ROW],
    ),
    "added without rows": (
        "TABLE o",
        ["CREATE TABLE o (id int)"],
        [TABLE, "ALTER PUBLICATION looks ADD TABLE t"],
    ),
    "in a schema": (SCHEMA, [], [TABLE, ROW, "ALTER TABLE t RENAME TO u"]),
    "in a new schema": (
        SCHEMA,
        [],
        [
            f"ALTER PUBLICATION looks DROP {SCHEMA}",
            "ALTER PUBLICATION looks ADD TABLES IN SCHEMA other",
            "CREATE TABLE other.t (id int)",
            "INSERT INTO other.t VALUES (1)",
        ],
    ),
}


def in_one_transaction(looks: Looks, statements: Sequence[str]) -> None:
    looks.sql("BEGIN", *statements, "COMMIT")


def in_savepoints(looks: Looks, statements: Sequence[str]) -> None:
    looks.sql("BEGIN", "SELECT pg_current_xact_id()")
    for statement in statements:
        looks.sql("SAVEPOINT s", statement, "RELEASE s")
    looks.sql("COMMIT")


def in_a_savepoint(looks: Looks, statements: Sequence[str]) -> None:
    """Later rows have an older transaction ID than the table's."""
    first, *more = statements
    looks.sql("BEGIN", "SELECT pg_current_xact_id()")
    looks.sql("SAVEPOINT s", first, "RELEASE s", *more, "COMMIT")


def in_a_function(looks: Looks, statements: Sequence[str]) -> None:
    body = "".join(f"EXECUTE $q${statement}$q$; " for statement in statements)
    looks.sql(f"DO $do$ BEGIN {body} END $do$")


HOW = [
    lambda looks, statements: looks.sql(*statements),
    in_one_transaction,
    in_savepoints,
    in_a_savepoint,
    in_a_function,
]


def fresh(looks: Looks, scope: str, before: Sequence[str]) -> None:
    """Two new schemas, and a publication."""
    looks.sql(
        "DROP SCHEMA IF EXISTS public, other, another CASCADE",
        "DROP PUBLICATION IF EXISTS looks",
        "CREATE SCHEMA public",
        "CREATE SCHEMA other",
        *before,
        f"CREATE PUBLICATION looks FOR {scope}",
    )


def births_of(
    looks: Looks, cases: dict[str, tuple[str, list[str], list[str]]]
) -> Iterator[tuple[str, int, dict[str, list[str]]]]:
    """Each case in each way, and the marks after it."""
    has_schemas = looks._conn.info.server_version >= 150_000
    for name, (scope, before, statements) in cases.items():
        if "SCHEMA" in scope and not has_schemas:
            continue
        for number, run in enumerate(HOW):
            fresh(looks, scope, before)
            looks.begin()
            run(looks, statements)
            yield name, number, looks.codes()


def test_a_table_that_had_rows_before_it_was_published(looks: Looks) -> None:
    for name, number, found in births_of(looks, LATE):
        assert (name, number, bool(found)) == (name, number, True)


def test_a_new_table_that_is_whole(looks: Looks) -> None:
    for name, number, found in births_of(looks, WHOLE):
        if (name, HOW[number]) != ("in a new schema", in_savepoints):
            # There, the catalog does not show which savepoint was earlier.
            assert (name, number, found) == (name, number, {})
