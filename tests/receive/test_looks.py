"""Looks at the published tables of a server: the marks that they make, and their cost."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from servers import EmbeddedServer
from walrow._log.items import LogColumn, LogVersion
from walrow._log.needs import read_published, write_published
from walrow._log.published import Published
from walrow._lsn import Lsn
from walrow._postgres.births import with_births
from walrow._postgres.printed_names import printed_names
from walrow._postgres.published import (
    PublishedTable,
    Rows,
    Stamps,
    next_xid,
    published_tables,
    rows_of,
    stamps,
)
from walrow._receive.completeness import look_at_names
from walrow._receive.looks import Look, with_parts
from walrow._receive.marks import (
    Questions,
    after_look,
    after_names,
    at_beginning,
    settled,
)

PUBLICATIONS = ["looks"]
#: Those of a new process, which looks at everything.
NO_STAMPS = Stamps(-1, {})
NO_COLUMNS: Mapping[str, int] = {}


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
        tables = published_tables(self._conn, PUBLICATIONS)
        types = with_parts(it for table in tables for it in table.names)
        names = printed_names(self._conn, types)
        self.record = at_beginning(tables, (), PUBLICATIONS, Lsn(8))
        self.record = self.record._replace(
            names=names, next_xid=next_xid(self._conn), horizon=self.stamps.horizon
        )

    def look(self) -> Published:
        """Looks once more, before the log is compared."""
        now = stamps(self._conn, PUBLICATIONS)
        moved = now.moved(self.stamps)
        self.stamps = now
        at = Lsn(self.record.position + 8)
        tables: list[PublishedTable] = []
        if moved is None or moved:
            tables = published_tables(self._conn, PUBLICATIONS, oids=moved)
            earlier = self.record.publications or ()
            tables = with_births(
                self._conn,
                PUBLICATIONS,
                earlier,
                tables,
                known=self.record.parts(),
                entries=self.record.entries(),
                next_xid=self.record.next_xid,
                horizon=self.record.horizon,
            )
        names = look_at_names(self._conn, self.record, tables)
        record = after_names(self.record, *names, at)
        look = Look(
            tables,
            PUBLICATIONS,
            at,
            at,
            moved,
            next_xid=next_xid(self._conn),
            horizon=now.horizon,
        )
        return after_look(record, look)

    def restart(self, change: Callable[[dict[str, Any]], None]) -> None:
        """A new process, which reads a record that was changed."""
        with tempfile.TemporaryDirectory() as directory:
            write_published(Path(directory), self.record)
            file = Path(directory, "_load-needed")
            # An older version has one file.
            gaps = Path(directory, "_gaps")
            found = json.loads(file.read_bytes()) | json.loads(gaps.read_bytes())
            gaps.unlink()
            change(found)
            file.write_text(json.dumps(found), "utf-8")
            self.record = read_published(
                lambda name: Path(directory, name).read_bytes()
            )
        self.stamps = NO_STAMPS

    def codes(
        self, truncates: Sequence[int] = (), columns: Mapping[str, int] = NO_COLUMNS
    ) -> dict[str, list[str]]:
        """Looks once more. Returns the codes of the open marks, by table.

        Args:
            truncates: The transactions with a TRUNCATE that the log has.
            columns: The columns, with their types, of a definition of each table that was used since the last look.
        """
        used = Lsn(self.record.position + 4)
        record = self.look()
        at = record.position
        found = [(xid, Lsn(at - 1)) for xid in truncates]
        questions = Questions(
            lambda _oid, since: [it for it in found if it[1] >= since],
            lambda _oid: None,
            lambda since, end: [
                (oid, used, columns)
                for oid in self.record.tables or ()
                if columns and since < used <= end
            ],
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
    "ALTER TABLE t ALTER v TYPE varchar",
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


LEAVES = [
    "CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id)",
    "CREATE TABLE t PARTITION OF root FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE u PARTITION OF root FOR VALUES FROM (10) TO (20)",
    "INSERT INTO root SELECT generate_series(0, 19)",
]
BARE = ["CREATE TABLE small (n int)", "INSERT INTO small VALUES (1)"]
EMPTY_ROOT, FEW = "TRUNCATE root", "INSERT INTO root VALUES (1), (2), (11)"
EMPTY_LEAF, EMPTY, ADD = (
    "TRUNCATE t",
    "TRUNCATE small",
    "INSERT INTO small DEFAULT VALUES",
)
LONE = [
    *SETUP,
    "ALTER TABLE small ALTER id ADD GENERATED ALWAYS AS IDENTITY (START 1000)",
]
UNLOGGED = ["ALTER TABLE small SET UNLOGGED", ADD, "ALTER TABLE small SET LOGGED"]
GRANT_LEAF, GRANT = "GRANT SELECT ON t TO PUBLIC", "GRANT SELECT ON small TO PUBLIC"

#: Objects of the first look, and transactions after it. The log has the TRUNCATEs of those that begin
#: with True.
TRUNCATED: list[tuple[list[str], list[tuple[bool, list[str]]]]] = [
    (LEAVES, [(True, [EMPTY_ROOT, FEW])]),
    (
        LEAVES,
        [(True, ["DELETE FROM root", EMPTY_ROOT, FEW])],
    ),
    (
        LEAVES,
        [(True, [EMPTY_ROOT, FEW]), (False, [GRANT_LEAF]), (False, ["ANALYZE t"])],
    ),
    (LEAVES, [(False, [EMPTY_LEAF]), (True, [EMPTY_ROOT]), (True, [EMPTY_ROOT, FEW])]),
    (LONE, [(True, ["TRUNCATE t, small", ADD])]),
    (LONE, [(True, ["DELETE FROM t", EMPTY, ADD]), (False, [GRANT])]),
    (LONE, [(True, [EMPTY, ADD]), (False, ["ALTER TABLE small ADD later int"])]),
    (LONE, [(True, [EMPTY, ADD, "ALTER TABLE small ALTER n SET STATISTICS 5"])]),
    (LONE, [(False, UNLOGGED), (True, [EMPTY, ADD])]),
    (LONE, [(True, [EMPTY, EMPTY, ADD]), (False, ["CREATE INDEX ON small (n)"])]),
    (BARE, [(True, [EMPTY, ADD])]),
]
#: The same, but rows may have been lost.
REWRITTEN = [
    (LEAVES, [(True, [EMPTY_ROOT, FEW]), (False, [EMPTY_LEAF])]),
    (LEAVES, [(True, [EMPTY_ROOT, FEW]), (False, [EMPTY_LEAF]), (False, [GRANT_LEAF])]),
    (LEAVES, [(True, [EMPTY_ROOT, FEW]), (False, ["SAVEPOINT s", EMPTY_LEAF])]),
    (LEAVES, [(True, [EMPTY_ROOT, FEW, "SAVEPOINT s", EMPTY_LEAF])]),
    (
        LEAVES,
        [(True, [EMPTY_ROOT, FEW, "SAVEPOINT s", EMPTY_LEAF, "RELEASE s", GRANT_LEAF])],
    ),
    (LEAVES, [(True, [EMPTY_ROOT, FEW]), (False, ["TRUNCATE t, u"])]),
    (
        LEAVES,
        [
            (
                True,
                [EMPTY_ROOT, FEW, *(it.replace("small", "t") for it in UNLOGGED[::2])],
            )
        ],
    ),
    (LONE, [(True, [EMPTY, ADD]), (False, UNLOGGED)]),
    (LONE, [(True, [EMPTY, ADD]), (False, [*UNLOGGED, GRANT])]),
    (LONE, [(True, [EMPTY, ADD, *UNLOGGED])]),
    # The catalog does not show that the TRUNCATE comes last.
    (LONE, [(True, [*UNLOGGED, EMPTY, ADD])]),
    (LONE, [(True, [EMPTY, ADD, *UNLOGGED, GRANT])]),
    (LONE, [(True, ["SAVEPOINT s", EMPTY, ADD, "RELEASE s", *UNLOGGED])]),
    (LONE, [(True, [EMPTY, ADD, "SAVEPOINT s", *REWRITES[0], "RELEASE s", GRANT])]),
    (
        LONE,
        [
            (True, [EMPTY, ADD]),
            (
                False,
                [
                    *REWRITES[0],
                    "ALTER TABLE small RENAME n TO m",
                    "ALTER TABLE small RENAME m TO n",
                ],
            ),
        ],
    ),
    (LONE, [(True, [EMPTY]), (False, UNLOGGED), (False, ["REINDEX TABLE small"])]),
    (LONE, [(True, [EMPTY]), (False, UNLOGGED), (False, ["VACUUM FREEZE small"])]),
    (BARE, [(True, [EMPTY, ADD, *UNLOGGED])]),
    (BARE, [(True, [EMPTY, ADD]), (False, UNLOGGED)]),
]


@pytest.mark.parametrize("is_old_open", [False, True])
def test_only_a_truncate_in_the_log_explains_a_new_file(
    looks: Looks, *, is_old_open: bool
) -> None:
    with psycopg.connect(looks._conn.info.dsn, autocommit=True) as other:
        for cases, codes in ((TRUNCATED, []), (REWRITTEN, ["rewritten"])):
            for before, transactions in cases:
                fresh(looks, ALL_VIA_ROOT, before)
                looks.begin()
                if is_old_open:
                    # A new file has the oldest transaction that ran then.
                    other.execute("BEGIN").execute("SELECT pg_current_xact_id()")
                truncates = []
                for is_logged, statements in transactions:
                    if statements[0].startswith("VACUUM"):
                        looks.sql(*statements)
                    elif is_logged:
                        truncates += looks.truncate(*statements)
                    else:
                        looks.truncate(*statements)
                found = [it for each in looks.codes(truncates).values() for it in each]
                other.execute("ROLLBACK")
                assert (transactions, found) == (transactions, codes)


def test_a_truncate_in_a_savepoint_explains_a_new_file(looks: Looks) -> None:
    fresh(looks, "ALL TABLES", LONE)
    looks.begin()
    truncates = looks.truncate("SAVEPOINT s", EMPTY, ADD, "RELEASE s", GRANT)
    assert looks.codes(truncates) == {}


def test_a_prepared_truncate_explains_a_new_file(looks: Looks) -> None:
    for before, leaf, codes in ((LONE, [], []), (LEAVES, [EMPTY_LEAF], ["rewritten"])):
        fresh(looks, ALL_VIA_ROOT, before)
        looks.begin()
        name = EMPTY if before is LONE else EMPTY_ROOT
        looks.sql("BEGIN", name)
        (xid,) = looks._conn.execute(
            "SELECT pg_current_xact_id()::text::bigint"
        ).fetchone() or (0,)
        looks.sql("PREPARE TRANSACTION 'p'", "COMMIT PREPARED 'p'")
        if leaf:
            looks.sql("BEGIN", *leaf, "PREPARE TRANSACTION 'p'", "COMMIT PREPARED 'p'")
        found = [it for each in looks.codes([xid]).values() for it in each]
        assert found == codes


#: A fact of a table or of a record that an older version lacks, a publication, objects of the last look
#: of that version, later statements, and the code of the mark.
FACTS = [
    (
        "lacking",
        ALL_VIA_ROOT,
        [ROOT, f"CREATE UNLOGGED TABLE t {LEAF}"],
        [],
        "partition_unlogged",
    ),
    (
        "lacking",
        ALL_VIA_ROOT,
        [ROOT, f"CREATE TABLE t {LEAF}", "ALTER TABLE root REPLICA IDENTITY FULL"],
        [],
        "partition_identity",
    ),
    (
        "children",
        "TABLE ONLY t",
        [TABLE, "CREATE TABLE u () INHERITS (t)"],
        [],
        "inherited",
    ),
    (
        "schema",
        SCHEMA,
        [TABLE],
        ["ALTER TABLE t SET SCHEMA other", "ALTER TABLE other.t SET SCHEMA public"],
        "left_publication",
    ),
    (
        "changed",
        f"TABLE t, {VIA_ROOT[6:]}",
        [ROOT, TABLE],
        [ATTACH, DETACH],
        "left_publication",
    ),
    (
        "stamp",
        f"TABLE t, {VIA_ROOT[6:]}",
        [ROOT, TABLE],
        [ATTACH, DETACH],
        "left_publication",
    ),
    (
        "since",
        "TABLE t",
        [TABLE],
        [
            "ALTER TABLE t RENAME id TO x",
            "ALTER TABLE t RENAME v TO id",
            "ALTER TABLE t RENAME id TO v",
            "ALTER TABLE t RENAME x TO id",
        ],
        "column_renamed",
    ),
    (
        "compared",
        "TABLE t",
        [TABLE],
        [
            "ALTER TABLE t RENAME id TO x",
            "ALTER TABLE t RENAME v TO id",
            "ALTER TABLE t RENAME id TO v",
            "ALTER TABLE t RENAME x TO id",
        ],
        "column_renamed",
    ),
    (
        "definitions",
        "TABLE t",
        ["CREATE TYPE e AS ENUM ('a')", "CREATE TABLE t (v e)"],
        [
            "ALTER TYPE e RENAME VALUE 'a' TO 'b'",
            "ALTER TYPE e RENAME VALUE 'b' TO 'a'",
        ],
        "type_altered",
    ),
    (
        "names",
        "TABLE t",
        ["CREATE TABLE o ()", "CREATE TABLE t (v regclass)"],
        [],
        "names_changed",
    ),
    (
        "filter_digests",
        "TABLE t WHERE (id > 1)",
        [TABLE],
        [],
        "row_filter",
    ),
    (
        "next_xid",
        "ALL TABLES",
        ["CREATE TABLE o (id int)"],
        [TABLE, ROW, "VACUUM FREEZE t"],
        "new_in_publication",
    ),
    # The publication may be new in the options of the receiver.
    ("publications", "ALL TABLES", [], [TABLE, ROW], "new_in_publication"),
]
#: The look compares none of these, or finds what they lack in the log.
OTHER_FACTS = {
    "namespace",
    "primary_key",
    "loaded",
    "gone_since",
    "noticed",
    "last",
    "left",
    "owners",
    "seen",
    "told",
    "horizon",
    "gaps",
}
#: Each version has these.
FIRST_FACTS = {
    "name",
    "columns",
    "gone",
    "last_column",
    "parts",
    "memberships",
}
FIRST_FACTS |= {"published", "position", "incomplete", "young", "new_files"}


def of_older_version(found: dict[str, Any], facts: Collection[str]) -> None:
    found["incomplete"] = {}
    for picture in (found, *found["published"].values()):
        for fact in facts:
            if fact != "definitions":
                picture.pop(fact, None)
        if "definitions" in facts and picture is not found:
            known = picture["definitions"].items()
            picture["definitions"] = {k: it for k, it in known if "written" not in k}


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize(("fact", "scope", "before", "statements", "code"), FACTS)
def test_a_fact_that_an_older_record_lacks_is_no_proof(  # noqa: PLR0917
    looks: Looks,
    fact: str,
    scope: str,
    before: list[str],
    statements: list[str],
    code: str,
    *,
    is_alone: bool,
) -> None:
    is_new = "SCHEMA" in scope or "WHERE" in scope
    if is_new and looks._conn.info.server_version < 150_000:
        return
    fresh(looks, scope, before)
    looks.begin()
    every = {name for name, *_ in FACTS} | OTHER_FACTS
    looks.restart(lambda found: of_older_version(found, [fact] if is_alone else every))
    looks.sql(*statements)
    swapped = {"v": 25, "id": 23} if code == "column_renamed" else NO_COLUMNS
    found = {it for each in looks.codes(columns=swapped).values() for it in each}
    assert found == {code}


def test_an_older_record_of_tables_without_a_change_makes_no_mark(looks: Looks) -> None:
    every = {name for name, *_ in FACTS} | OTHER_FACTS
    for scope in ("ALL TABLES", ALL_VIA_ROOT, SCHEMA, "TABLE t, root"):
        if "SCHEMA" in scope and looks._conn.info.server_version < 150_000:
            continue
        fresh(looks, scope, [*SETUP, *LEAVES[:1], LEAVES[2]])
        looks.begin()
        picture, *_ = (looks.record.tables or {}).values()
        assert every | FIRST_FACTS == {
            *picture,
            *looks.record._fields,
            "published",
            "incomplete",
        } - {"tables", "marks"}
        looks.restart(lambda found: of_older_version(found, every))
        assert looks.codes() == {}


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


BOTH = {"column_type", "rewritten"}
#: The type of a column, other types that it gets, and the codes of the table's marks.
TYPES = [
    ("varchar(5)", ["varchar(9)", "varchar", "text", "varchar"], set()),
    # The server writes a value again that has to be checked, and USING may change it.
    ("text", ["varchar(5)"], BOTH),
    ("varchar(5)", ["text USING upper(v)", "varchar"], BOTH),
    # The same file, but -1 is another number then.
    ("int", ["oid"], {"column_type"}),
    ("name", ["text"], {"column_type", "rewritten"}),
]


def test_a_longer_type_of_the_same_text_leaves_no_mark(looks: Looks) -> None:
    for first, types, codes in TYPES:
        fresh(
            looks,
            "ALL TABLES",
            [f"CREATE TABLE t (v {first})", "INSERT INTO t VALUES (7)"],
        )
        looks.begin()
        looks.sql(*(f"ALTER TABLE t ALTER v TYPE {it}" for it in types))
        found = {it for each in looks.codes().values() for it in each}
        assert (first, types, found) == (first, types, codes)
        if not codes:
            looks.sql(
                "VACUUM FULL t", "ALTER TABLE t ALTER v TYPE varchar USING v || 1"
            )
            assert looks.codes()


def test_a_new_file_without_its_truncate_leaves_a_mark(looks: Looks) -> None:
    """The stream does not have each TRUNCATE: a new file may have lost rows."""
    looks.sql(*SETUP, f"CREATE PUBLICATION looks FOR {INSERTS}")
    looks.begin()
    looks.sql("TRUNCATE small", "INSERT INTO small VALUES (1, 1)", "VACUUM FULL small")
    assert looks.codes() == {"public.small": ["rewritten"]}


LOST = ["ALTER TABLE {} SET UNLOGGED", "ALTER TABLE {} SET LOGGED"]
#: Statements between two looks at a table without TOAST, which make a new file of it, and whether an
#: old row shows that no row was lost.
KEPT = [
    (["VACUUM FULL {}"], True),
    (["CLUSTER {} USING {}_pkey", "GRANT SELECT ON {} TO PUBLIC"], True),
    (
        ["DELETE FROM {} WHERE id > 1", "INSERT INTO {} VALUES (2)", "VACUUM FULL {}"],
        True,
    ),
    (["VACUUM FREEZE {}", "VACUUM FULL {}"], True),
    # No row is old.
    (["UPDATE {} SET id = id", "VACUUM FULL {}"], False),
    (["VACUUM FULL {}", *LOST], False),
    ([*LOST, "VACUUM FREEZE {}", "VACUUM FULL {}"], False),
    (["TRUNCATE {}", "INSERT INTO {} VALUES (1)", "VACUUM FULL {}"], False),
    # The default was written into the old rows.
    (
        [
            "ALTER TABLE {} ADD c int DEFAULT 5",
            "ALTER TABLE {} ALTER c DROP DEFAULT",
            "VACUUM FULL {}",
        ],
        False,
    ),
]
PARTED = [
    "CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id)",
    "CREATE TABLE t PARTITION OF root FOR VALUES FROM (0) TO (10)",
    "INSERT INTO t VALUES (1), (3)",
]


@pytest.mark.parametrize("is_leaf", [False, True])
def test_an_old_row_shows_that_a_new_file_has_all_rows(
    looks: Looks, *, is_leaf: bool
) -> None:
    table = ["CREATE TABLE t (id int PRIMARY KEY)", PARTED[2]]
    for each, is_kept in KEPT:
        statements = [it.replace("{}", "t") for it in each]
        if is_leaf and any("ADD" in it for it in statements):
            continue
        fresh(looks, ALL_VIA_ROOT, PARTED if is_leaf else table)
        looks.begin()
        looks.sql(*statements)
        assert (statements, bool(looks.codes())) == (statements, not is_kept)
        # A record of an older version does not know how old a row must be.
        looks.sql("INSERT INTO t VALUES (5)")
        looks.begin()
        looks.record = looks.record._replace(horizon=None)
        looks.sql("VACUUM FULL t")
        assert looks.codes()


def test_a_transaction_that_a_look_did_not_see_may_have_written_old_rows(
    looks: Looks,
) -> None:
    fresh(looks, "ALL TABLES", ["CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)"])
    with psycopg.connect(looks._conn.info.dsn) as other:
        other.execute("SELECT pg_current_xact_id()")
        looks.begin()
        for statement in LOST:
            other.execute(statement.replace("{}", "t").encode())
    looks.sql("VACUUM FULL t")
    assert looks.codes() == {"public.t": ["rewritten"]}


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
    looks.sql("CREATE TABLE o ()", "CREATE PUBLICATION looks FOR ALL TABLES")
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

    def least(call: Callable[[], object]) -> float:
        """The seconds of a call, in the best of three rounds: others use the machine, too."""
        rounds = []
        for _ in range(3):
            began = cpu()
            for _ in range(10):
                call()
            rounds.append((cpu() - began) / 10)
        return min(rounds)

    # In the time that the machine needs now for one hash of each column of the database.
    every = b"SELECT sum(hash_record_extended(ROW(attrelid, attname, xmin::text), 0)) FROM pg_attribute"
    unit = least(lambda: conn.execute(every))
    assert least(lambda: stamps(conn, PUBLICATIONS)) < 6 * unit
    assert stamps(conn, PUBLICATIONS) == before
    # Another table that changes, published or not, costs little more.
    looks.sql("ALTER TABLE t7 ADD COLUMN more int", "CREATE TABLE other (id int)")

    def look() -> list[PublishedTable]:
        moved = stamps(conn, PUBLICATIONS).moved(before)
        return list(published_tables(conn, PUBLICATIONS, oids=moved))

    assert least(look) < 16 * unit
    found = look()
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
    *(
        (
            scope,
            ["CREATE TABLE o (id int)"],
            [(0, it) for it in (TABLE, ROW, vacuum)],
            False,
        )
        for scope in ("ALL TABLES", "TABLES IN SCHEMA public")
        for vacuum in ("VACUUM FREEZE", "VACUUM FULL t")
    ),
    # VACUUM hides that the transaction was open when the table was created.
    (
        "TABLES IN SCHEMA other",
        ["CREATE TABLE other.o (id int)"],
        [
            *(*OPEN, (1, OTHER), (0, TABLE), (0, ROW)),
            *((1, "COMMIT"), (0, "VACUUM FREEZE t")),
        ],
        True,
    ),
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


def test_a_table_whose_transaction_is_open_at_a_look(looks: Looks) -> None:
    fresh(looks, "ALL TABLES", ["CREATE TABLE o (id int)"])
    looks.sql(LESS)
    looks.begin()
    with psycopg.connect(looks._conn.info.dsn) as other:
        for statement in (TABLE, ROW, "DELETE FROM t"):
            other.execute(statement.encode())
        looks.sql(MORE)
        looks.record = looks.look()
    # VACUUM hides that the table is older than that.
    looks.sql(ROW, "VACUUM FREEZE t")
    assert looks.codes()["public.t"] == ["new_in_publication"]


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


CATALOGS = (
    *("pg_class", "pg_attribute", "pg_attrdef", "pg_inherits", "pg_depend", "pg_type"),
    *("pg_constraint", "pg_index", "pg_partitioned_table", "pg_publication"),
)
IN_TREE = "CREATE TABLE {} PARTITION OF tree FOR VALUES FROM (0) TO (9)"
#: Statements of one transaction, places where a row may come among them, the row, and the codes of the
#: marks. The server sends the row as it stays, or does not, or sends it for a table that loses it.
ALIKE = [
    (
        [
            "CREATE TABLE t (n int)",
            *LOST,
            "ALTER TABLE t ADD g int GENERATED ALWAYS AS (n) STORED",
        ],
        (1, 2),
        "INSERT INTO t VALUES (1)",
        {"rewritten"},
    ),
    (
        [
            "CREATE TABLE t (n int)",
            "CREATE TABLE tree (n int) PARTITION BY RANGE (n)",
            "ALTER TABLE tree ATTACH PARTITION t FOR VALUES FROM (0) TO (9)",
            "ALTER TABLE tree DETACH PARTITION t",
        ],
        (2, 3),
        "INSERT INTO t VALUES (1)",
        {"new_in_publication", "partitions"},
    ),
    # No mark: another partition has its place, but not its rows.
    (
        [
            "CREATE TABLE tree (n int) PARTITION BY RANGE (n)",
            IN_TREE.replace("{}", "one"),
            "DROP TABLE one",
            IN_TREE.replace("{}", "two"),
        ],
        (2, 4),
        "INSERT INTO tree VALUES (1)",
        set[str](),
    ),
]


def test_a_catalog_is_the_same_whether_or_not_a_row_is_lost(looks: Looks) -> None:
    """So no fact in it can leave out these marks, or make the missing one."""
    for statements, places, row, codes in ALIKE:
        found = []
        for place in places:
            fresh(looks, ALL_VIA_ROOT, ["CREATE TABLE o (n int)"])
            looks.begin()
            (xid,) = looks.truncate()
            every = [it.replace("{}", "t") for it in statements]
            for at in sorted(places, reverse=True):
                # Each command has a number.
                every.insert(at, row if at == place else "INSERT INTO o VALUES (1)")
            looks.truncate(*every)
            found.append((catalogs(looks._conn, xid), looks.codes()))
        (first, marks), (second, others) = found
        assert first == second
        assert len(first) > 10
        assert marks == others
        assert {it for each in marks.values() for it in each} == codes


def catalogs(conn: psycopg.Connection[Any], since: int) -> list[str]:
    """The rows of catalogs that later transactions wrote, with numbers as distances."""
    (oid,) = conn.execute("SELECT 'public'::regnamespace::oid::bigint").fetchone() or (
        0,
    )
    found = []
    for catalog in CATALOGS:
        sql = f"""SELECT to_jsonb(c) - 'relfrozenxid' || jsonb_build_object('xmin', xmin::text::bigint - {since},
            'cmin', cmin, 'frozen', to_jsonb(c) ->> 'relfrozenxid')
            FROM {catalog} c WHERE age(xmin) < age('{since}'::xid)"""  # noqa: S608
        for (it,) in conn.execute(sql.encode()):
            it["frozen"] = it["frozen"] not in {None, "0"} and int(it["frozen"]) - since
            text = re.sub(r"\d{5,}", lambda n: str(int(n[0]) - oid), json.dumps(it))
            found.append(f"{catalog} {text}")
    return sorted(found)


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


#: Types, a value, objects of the first look, and statements that change the text of the value.
PRINTED = [
    ("regclass", "'o'", [], ["ALTER TABLE o RENAME TO p"]),
    ("regclass[]", "'{o}'", [], ["ALTER TABLE o SET SCHEMA other"]),
    ("regclass", "'o'", [], ['ALTER SCHEMA public RENAME TO "Öffentlich"']),
    (
        "regclass",
        "'t_i'",
        ["CREATE INDEX t_i ON o (a)"],
        ["ALTER INDEX t_i RENAME TO i"],
    ),
    ("regclass", "'q'", ["CREATE SEQUENCE q"], ["ALTER SEQUENCE q RENAME TO r"]),
    ("regclass", "'o'", [], ["DROP TABLE o CASCADE", "CREATE TABLE o ()"]),
    (
        "regclass",
        "'information_schema.tables'",
        [],
        ["ALTER SCHEMA information_schema RENAME TO schema_information"],
    ),
    ("regproc", "'f'", [], ["ALTER FUNCTION f(e, d, o) RENAME TO g"]),
    (
        "regproc",
        "'pg_backend_pid'",
        [],
        [
            "CREATE FUNCTION pg_catalog.pg_backend_pid(int) RETURNS int LANGUAGE sql AS 'SELECT 1'"
        ],
    ),
    ("regprocedure", "'f(e,d,o)'", [], ["ALTER TYPE e RENAME TO g"]),
    ("regprocedure", "'f(e,d,o)'", [], ["ALTER DOMAIN d SET SCHEMA other"]),
    ("regprocedure", "'f(e,d,o)'", [], ["ALTER TABLE o RENAME TO p"]),
    ("regprocedure", "'f(e,d,o)'", [], ["ALTER SCHEMA public RENAME TO p"]),
    (
        "regprocedure",
        "'ascii(text)'",
        [],
        ["ALTER FUNCTION pg_catalog.ascii(text) RENAME TO utf8"],
    ),
    (
        "regoper",
        "'public.==='",
        [],
        ["ALTER OPERATOR ===(e, e) SET SCHEMA other"],
    ),
    ("regoperator", "'public.===(e,e)'", [], ["ALTER TYPE e RENAME TO g"]),
    ("regtype", "'e'", [], ["ALTER TYPE e RENAME TO g"]),
    ("regtype", "'e[]'", [], ["ALTER TYPE e SET SCHEMA other"]),
    ("regnamespace", "'public'", [], ["ALTER SCHEMA public RENAME TO p"]),
    ("regnamespace", "'other'", [], ["DROP SCHEMA other"]),
    ("regconfig", "'s'", [], ["ALTER TEXT SEARCH CONFIGURATION s RENAME TO q"]),
    ("regdictionary", "'s'", [], ["ALTER TEXT SEARCH DICTIONARY s SET SCHEMA other"]),
    ("regcollation", "'s'", [], ["ALTER COLLATION s RENAME TO q"]),
    ("regrole", "'keeper'", [], ["ALTER ROLE keeper RENAME TO holder"]),
    ("aclitem", "'keeper=r/keeper'", [], ["ALTER ROLE keeper RENAME TO holder"]),
    (
        "named",
        "'o'",
        ["CREATE DOMAIN named AS regclass"],
        ["ALTER TABLE o RENAME TO p"],
    ),
    (
        "pair",
        "'(1,o)'",
        ["CREATE TYPE pair AS (a int, b regclass)"],
        ["ALTER TABLE o RENAME TO p"],
    ),
    (
        "span",
        "'[o,o]'",
        ["CREATE TYPE span AS RANGE (subtype = regclass)"],
        ["ALTER TABLE o RENAME TO p"],
    ),
    (
        "pg_operator",
        "(SELECT w FROM pg_operator w WHERE oprname = '===')",
        [],
        ["ALTER FUNCTION same(e, e) RENAME TO equal"],
    ),
]
OBJECTS = [
    "CREATE TYPE e AS ENUM ()",
    "CREATE DOMAIN d AS int",
    "CREATE TABLE o (a int)",
    "CREATE FUNCTION f(e, d, o) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE FUNCTION same(e, e) RETURNS bool LANGUAGE sql AS 'SELECT true'",
    "CREATE OPERATOR === (leftarg = e, rightarg = e, function = same)",
    "CREATE TEXT SEARCH CONFIGURATION s (copy = pg_catalog.simple)",
    "CREATE TEXT SEARCH DICTIONARY s (template = pg_catalog.simple)",
    'CREATE COLLATION s FROM "C"',
]
RESTORED = [
    "DROP FUNCTION IF EXISTS pg_catalog.pg_backend_pid(int)",
    "DO $$ BEGIN ALTER FUNCTION utf8(text) RENAME TO ascii; EXCEPTION WHEN OTHERS THEN END $$",
    "DO $$ BEGIN ALTER SCHEMA schema_information RENAME TO information_schema; EXCEPTION WHEN OTHERS THEN END $$",
    'DROP SCHEMA IF EXISTS p, "Öffentlich" CASCADE',
    "DROP SCHEMA IF EXISTS kept CASCADE",
    "CREATE SCHEMA kept",
    "DROP ROLE IF EXISTS keeper, holder",
    "CREATE ROLE keeper",
]


@pytest.mark.parametrize(("type_", "value", "objects", "statements"), PRINTED)
def test_another_text_of_a_name_leaves_a_mark(
    looks: Looks, type_: str, value: str, objects: list[str], statements: list[str]
) -> None:
    def text() -> Any:
        with looks._conn.transaction():
            looks.sql("SET LOCAL search_path = ''")
            return looks._conn.execute("SELECT v::text FROM kept.t").fetchone()

    for number, run in enumerate(HOW[:2]):
        looks.sql(*RESTORED)
        fresh(looks, "ALL TABLES", [*OBJECTS, *objects])
        looks.sql(f"CREATE TABLE kept.t AS SELECT {value}::{type_} AS v")
        looks.begin()
        then = text()
        run(looks, ["CREATE TABLE other.more ()", "GRANT SELECT ON o TO PUBLIC"])
        assert (number, text(), looks.codes()) == (number, then, {})
        looks.sql("DROP TABLE other.more")
        looks.begin()
        run(looks, statements)
        looks.restart(lambda _found: None)
        assert (number, text() != then) == (number, True)
        assert (number, looks.codes()) == (number, {"kept.t": ["names_changed"]})
    looks.sql(*RESTORED, "DROP SCHEMA kept CASCADE")


def test_the_role_of_initdb_has_another_name(looks: Looks) -> None:
    boss = looks._conn.info.user
    fresh(looks, "ALL TABLES", ["CREATE TABLE t (v regrole, w aclitem)"])
    looks.sql("DROP ROLE IF EXISTS other_boss", "CREATE ROLE other_boss SUPERUSER")
    looks.begin()
    assert looks.codes() == {}
    looks.sql("SET SESSION AUTHORIZATION other_boss")
    looks.sql(f"ALTER ROLE {boss} RENAME TO first_boss")
    try:
        found = looks.codes()
    finally:
        looks.sql(
            f"ALTER ROLE first_boss RENAME TO {boss}",
            "RESET SESSION AUTHORIZATION",
            "DROP ROLE other_boss",
        )
    assert found == {"public.t": ["names_changed"]}


FIRST = (
    "CREATE TABLE n (id serial PRIMARY KEY, v regclass, w regprocedure[], x regtype)"
)
FUNCTION = "CREATE OR REPLACE FUNCTION g(e) RETURNS int LANGUAGE sql AS 'SELECT 1'"
NAMED_OBJECTS = [
    "CREATE TABLE old (id int PRIMARY KEY)",
    "CREATE TYPE e AS ENUM ()",
    "CREATE FUNCTION k() RETURNS int LANGUAGE sql AS 'SELECT 1'",
]

#: Statements after a look at a table with names, and whether a name that a new value may contain
#: has changed.
RENAMES = [
    (["CREATE TABLE u (id int)", "ALTER TABLE u RENAME TO m"], True),
    (["CREATE TABLE u (id int)", "ALTER TABLE u SET SCHEMA other"], True),
    (["CREATE TABLE other.u (id int)", "ALTER SCHEMA other RENAME TO another"], True),
    (["ALTER TABLE old RENAME TO older"], True),
    ([FUNCTION, "ALTER FUNCTION g(e) RENAME TO h"], True),
    ([FUNCTION, "ALTER TYPE e RENAME TO f"], True),
    (
        [
            "CREATE TYPE h AS ENUM ()",
            FUNCTION.replace("(e)", "(h)"),
            "ALTER TYPE h RENAME TO f",
        ],
        True,
    ),
    (["DROP TABLE old"], True),
    # A value from between has the other name.
    (["ALTER TABLE old RENAME TO o", "ALTER TABLE o RENAME TO old"], True),
    (["ALTER TYPE e SET SCHEMA other", "ALTER TYPE other.e SET SCHEMA public"], True),
    (["ALTER FUNCTION k() RENAME TO l", "ALTER FUNCTION l() RENAME TO k"], True),
    (
        [
            TABLE,
            "CREATE INDEX ON t (v)",
            "GRANT SELECT ON t, old TO PUBLIC",
            "DROP ROLE IF EXISTS keeper",
            "CREATE ROLE keeper",
            "ALTER TABLE t OWNER TO keeper",
            "ALTER TABLE n ADD y int",
            "ALTER TABLE old ADD m int",
            "ALTER TYPE e ADD VALUE 'a'",
            "TRUNCATE old",
            "ALTER TABLE old RENAME id TO n",
            "CREATE INDEX ON old (n)",
            "CREATE DOMAIN d AS int",
            "CREATE TYPE r AS RANGE (subtype = int)",
            "CREATE VIEW w AS TABLE t",
            "CREATE TEMP TABLE mine AS TABLE old",
            "DROP TABLE mine",
            FUNCTION,
            FUNCTION,
        ],
        False,
    ),
]


def test_an_object_that_is_renamed_before_a_look_has_its_name(looks: Looks) -> None:
    for statements, expected in RENAMES:
        for number, run in enumerate(HOW):
            fresh(looks, "ALL TABLES", [*NAMED_OBJECTS, FIRST])
            looks.begin()
            run(looks, statements)
            codes = ["names_changed"] if expected else []
            found = looks.codes().get("public.n", [])
            assert (statements, number, found) == (statements, number, codes)


def test_names_of_the_first_table_with_them_are_not_known(looks: Looks) -> None:
    """Objects may have been renamed after its rows came."""
    for first in (FIRST, "ALTER TABLE old ADD v regclass"):
        fresh(looks, "ALL TABLES", NAMED_OBJECTS)
        looks.begin()
        looks.sql(first)
        name = "public.n" if first == FIRST else "public.old"
        assert looks.codes() == {name: ["names_changed"]}
    # Another table has them already.
    looks.sql("CREATE TABLE u (v regclass[])")
    assert looks.codes() == {"public.old": ["names_changed"]}


def test_names_in_a_column_that_is_not_published_are_not_compared(looks: Looks) -> None:
    name = "ADD v regclass GENERATED ALWAYS AS ('old'::regclass) STORED"
    fresh(looks, "ALL TABLES", [*NAMED_OBJECTS, TABLE, f"ALTER TABLE t DROP v, {name}"])
    looks.begin()
    looks.sql("ALTER TABLE old RENAME TO older")
    assert looks.codes() == {}


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
    "detached, without other columns": (
        ALL_VIA_ROOT,
        ["CREATE TABLE root (id int) PARTITION BY RANGE (id)"],
        [
            f"CREATE TABLE t {LEAF}",
            "INSERT INTO t VALUES (1)",
            "ALTER TABLE root DETACH PARTITION t",
        ],
    ),
    "attached and detached": (
        ALL_VIA_ROOT,
        ["CREATE TABLE root (id int) PARTITION BY RANGE (id)"],
        [
            "CREATE TABLE t (id int)",
            ATTACH,
            "INSERT INTO t VALUES (1)",
            "ALTER TABLE root DETACH PARTITION t",
            "ALTER TABLE t ALTER id SET NOT NULL",
        ],
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
    "all columns altered": (
        ALL_VIA_ROOT,
        [ROOT],
        [
            "CREATE TABLE t (a bigint, b text)",
            "INSERT INTO t VALUES (1, 'x')",
            "ALTER TABLE t ADD PRIMARY KEY (a, b)",
            "ALTER TABLE t ALTER a SET DEFAULT 5",
            "CREATE INDEX ON t (b)",
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
