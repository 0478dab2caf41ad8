"""What the stream lacks is noticed, and a load brings it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

import walrow
from servers import EmbeddedServer
from servers.loads import FIRST, is_loaded, loads, needed, receiving, until_loaded
from servers.receiving import (
    Feed,
    Load,
    end_of_wal,
    until,
)
from servers.world import World
from walrow._receive import completeness
from walrow._receive.completeness import Completeness

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


def test_what_the_stream_lacks_is_loaded(filled: Feed) -> None:
    # A look may come between two statements: then their reasons come in that order.
    expected = {
        "public.item": {
            "column label was renamed to title",
            "column more was added with a value for existing rows",
        },
        "public.wide": {
            "column id has another type",
            "it was rewritten, as by ALTER TABLE: existing rows may have other values",
        },
        "public.late": {"it is new in the publication"},
    }
    with filled.receiver(*FIRST) as receiver:
        receiver.until(is_loaded)
        filled.execute(
            "DROP TABLE IF EXISTS late",
            'CREATE TABLE late (id int PRIMARY KEY, "odd name" text)',
            "INSERT INTO late VALUES (1, 'from before')",
            "ALTER PUBLICATION p ADD TABLE late",
            "ALTER TABLE item ADD COLUMN more int DEFAULT 7",
            "ALTER TABLE item RENAME COLUMN label TO title",
            "ALTER TABLE wide ALTER id TYPE bigint",
            "UPDATE item SET n = 0 WHERE id = 1",
            "INSERT INTO late VALUES (2, 'later')",
        )
        # The receiver has noticed.
        deadline = time.monotonic() + 45
        while (
            needs := reasons(filled.log)
        ) != expected and time.monotonic() < deadline:
            time.sleep(0.2)
        assert needs == expected
        walrow.load(
            ["public.item", "public.wide", "public.late"], log=filled.log, timeout=60
        )
        assert needed(filled.log) == {}
    filled.check([*Load.TABLES, "late"])
    filled.execute("DROP TABLE late")


def reasons(log: Path) -> dict[str, set[str]]:
    """Why tables need a load, each reason by itself."""
    return {
        table.name: {mark.reason for mark in table.marks if mark.is_open}
        for table in walrow.Log(log).tables()
        if table.needs_load is not None
    }


def needs_of(log: Path, name: str) -> str | None:
    """Why a table needs a load, by the receiver's record."""
    found = json.loads((log / "_gaps").read_text("utf-8"))
    reasons = [
        mark["reason"]
        for marks in found["incomplete"].values()
        for mark in marks
        if mark["until"] is None
    ]
    return next((it for it in reasons if name in it), None)


@pytest.mark.parametrize(
    "change",
    [
        (
            [
                "ALTER PUBLICATION p DROP TABLE item",
                "INSERT INTO item VALUES (500, 1)",
                "ALTER PUBLICATION p ADD TABLE item",
            ],
            # "not … for a while", or "new …" if a look came between.
            "in the publication",
        ),
        (
            [
                "BEGIN; ALTER TABLE item ADD x int NOT NULL DEFAULT 7;"
                " ALTER TABLE item ALTER x DROP DEFAULT; COMMIT"
            ],
            "column x was added with a value",
        ),
        (["ALTER TABLE item RENAME label TO title"], "label was renamed to title"),
    ],
)
def test_what_makes_a_table_incomplete_is_noticed(
    filled: Feed, monkeypatch: pytest.MonkeyPatch, change: tuple[list[str], str]
) -> None:
    statements, reason = change
    with receiving(filled, monkeypatch):
        until_loaded(filled.log)
        filled.execute(*statements, "UPDATE item SET n = 5 WHERE id = 1")
        until(lambda: needs_of(filled.log, reason) is not None)
        walrow.load("public.item", log=filled.log, timeout=60)
        assert needs_of(filled.log, reason) is None
    found = walrow.Log(filled.log)
    ((load,),) = (
        set(loads(filled.log).values())
        - {min(filter(None, loads(filled.log).values()))},
    )
    assert load is not None
    # Before the load, the table was not whole, and it still is not.
    with pytest.raises(walrow.errors.LogError, match="is not whole since") as caught:
        found.state("public.item", as_of=load - 1)
    assert caught.value.code == "incomplete"
    assert found.state("public.item", as_of=load).to_pyarrow().num_rows >= 30
    filled.check()


def has_reached(log: Path, end: walrow.Lsn) -> bool:
    """Whether readers see everything before an LSN."""
    return walrow.Log(log).end >= end


@pytest.mark.parametrize("binary", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_type_that_is_altered_is_noticed(
    filled: Feed, monkeypatch: pytest.MonkeyPatch, *, binary: bool
) -> None:
    filled.execute(
        "DROP TABLE IF EXISTS boxed",
        "DROP TYPE IF EXISTS pair, mood",
        "CREATE TYPE mood AS ENUM ('calm', 'cross')",
        "CREATE TYPE pair AS (a int, b text, m mood)",
        "CREATE TABLE boxed (id int PRIMARY KEY, p pair, q pair[])",
        "INSERT INTO boxed VALUES (1, (1, 'x', 'calm'), ARRAY[(2, 'y', 'cross')::pair])",
        "ALTER PUBLICATION p ADD TABLE boxed",
    )
    with receiving(filled, monkeypatch, binary=binary):
        until_loaded(filled.log)
        # A new label changes no row.
        filled.execute("ALTER TYPE mood ADD VALUE 'glad'")
        time.sleep(1)
        assert needs_of(filled.log, "altered") is None
        for statement in (
            "ALTER TYPE mood RENAME VALUE 'calm' TO 'quiet'",
            "ALTER TYPE pair ADD ATTRIBUTE c int",
            "ALTER TYPE pair RENAME ATTRIBUTE b TO body",
            "ALTER TYPE pair DROP ATTRIBUTE m",
        ):
            filled.execute(statement, "UPDATE boxed SET q = q || q[1] WHERE id = 1")
            until(lambda: needs_of(filled.log, "altered") is not None)
            walrow.load("public.boxed", log=filled.log, timeout=60)
            filled.execute("UPDATE boxed SET q = q || q[1] WHERE id = 1")
            end = walrow.Lsn(end_of_wal(filled.dsn))
            until(partial(has_reached, filled.log, end))
            state = walrow.Log(filled.log).state(
                "public.boxed", types={"p": "string", "q": "string"}
            )
            found = filled.execute("SELECT id, p::text, q::text FROM boxed")
            assert [
                tuple(row.values()) for row in state.to_pyarrow().to_pylist()
            ] == found
    [row] = walrow.Log(filled.log).state("public.boxed").to_pyarrow().to_pylist()
    assert row["p"] == {"a": 1, "body": "x", "c": None}
    # Some values are older than the definitions that the log has, or newer.
    form = "binary" if binary else "string"
    for options in (
        {"types": {"p": form, "q": form}},
        {"unrepresentable": "null"},
    ):
        batches = list(walrow.read(filled.log, table="public.boxed", **options))
        assert sum(batch.num_rows for batch in batches) > 8
    filled.execute("DROP TABLE boxed", "DROP TYPE pair, mood")


def test_partitions_and_tables_that_are_created_are_whole(
    filled: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.execute(
        "DROP TABLE IF EXISTS tree, other",
        "CREATE TABLE tree (id int, part int, PRIMARY KEY (id, part)) PARTITION BY LIST (part)",
        "CREATE TABLE tree_1 PARTITION OF tree FOR VALUES IN (1)",
        "CREATE TABLE other (id int, part int NOT NULL, PRIMARY KEY (id, part))",
        "INSERT INTO tree VALUES (1, 1)",
        "INSERT INTO other VALUES (2, 2)",
        "ALTER PUBLICATION p SET (publish_via_partition_root = true)",
        "ALTER PUBLICATION p ADD TABLE tree",
    )
    with receiving(filled, monkeypatch):
        until((filled.log / "_load-needed").exists)
        before = (filled.log / "_load-needed").read_text("utf-8")
        filled.execute(
            "CREATE TABLE tree_3 PARTITION OF tree FOR VALUES IN (3)",
            "INSERT INTO tree VALUES (3, 3)",
        )
        until(lambda: (filled.log / "_load-needed").read_text("utf-8") != before)
        time.sleep(1)
        assert needs_of(filled.log, "") is None
        filled.execute("ALTER TABLE tree ATTACH PARTITION other FOR VALUES IN (2)")
        until(lambda: needs_of(filled.log, "attached") is not None)
        walrow.load("public.tree", log=filled.log, timeout=60)
        assert needs_of(filled.log, "") is None
    filled.check(["tree"])
    filled.execute("DROP TABLE tree")


def test_what_happens_to_a_partition_shows_in_its_root(
    filled: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.execute(
        "DROP TABLE IF EXISTS tree",
        "CREATE TABLE tree (id int PRIMARY KEY, big text) PARTITION BY RANGE (id)",
        "ALTER TABLE tree ALTER big SET STORAGE EXTERNAL",
        "CREATE TABLE tree_1 PARTITION OF tree FOR VALUES FROM (0) TO (9)",
        "CREATE TABLE tree_2 PARTITION OF tree FOR VALUES FROM (9) TO (99)",
        "ALTER PUBLICATION p SET (publish_via_partition_root = true)",
        "ALTER PUBLICATION p ADD TABLE tree",
    )
    with receiving(filled, monkeypatch):
        until_loaded(filled.log)
        # The old image has a NULL for the large value, which is not sent again.
        filled.execute(
            "INSERT INTO tree SELECT g, repeat('x', 3000) FROM generate_series(8, 9) g",
            "ALTER TABLE tree REPLICA IDENTITY FULL",
            "UPDATE tree SET id = id - 1 WHERE id = 8",
        )
        until(lambda: needs_of(filled.log, "tree_1, public.tree_2") is not None)
        until(partial(has_reached, filled.log, walrow.Lsn(end_of_wal(filled.dsn))))
        log = walrow.Log(filled.log)
        log.accept("tree", reason="partition_identity")
        rows = log.state("tree").to_pyarrow().sort_by("id").to_pylist()
        found = filled.execute("SELECT * FROM tree ORDER BY id")
        assert [tuple(row.values()) for row in rows] == found
        filled.execute("ALTER TABLE tree REPLICA IDENTITY DEFAULT", "TRUNCATE tree_2")
        until(lambda: needs_of(filled.log, "truncated") is not None)
        walrow.load("public.tree", log=filled.log, timeout=60)
        filled.execute("TRUNCATE tree")
        time.sleep(1)
        assert needs_of(filled.log, "") is None
    filled.receive_all()
    assert needs_of(filled.log, "") is None
    assert walrow.Log(filled.log).state("tree").to_pyarrow().num_rows == 0
    filled.execute("DROP TABLE tree")


def test_a_receiver_that_ends_says_which_tables_need_a_load(filled: Feed) -> None:
    filled.receive_all(*FIRST)
    notes: list[str] = []

    def receive() -> str:
        notes.clear()
        filled.receive(
            until="now", progress=lambda state: notes.append(state.note or "")
        )
        return "; ".join(notes)

    filled.execute("ALTER TABLE item RENAME label TO remark")
    assert "public.item" in receive()
    assert "public.item" not in receive()
    # An unreadable record is an error, and not taken for empty.
    needed_file = filled.log / "_load-needed"
    needed_file.write_text("{", "utf-8")
    with pytest.raises(walrow.errors.LogError, match="what is published is damaged"):
        receive()


def test_an_empty_table_is_whole_again_without_a_request(filled: Feed) -> None:
    """The receiver requests the load: its target loses the rows that the log has."""
    filled.execute("ALTER PUBLICATION p SET (publish = 'insert, update, delete')")
    filled.receive_all(*FIRST)
    filled.execute(
        "TRUNCATE item, wide",
        "INSERT INTO wide VALUES (1, 'x')",
        "ALTER TABLE item ALTER n TYPE bigint",
        "ALTER TABLE wide ALTER id TYPE bigint",
    )
    filled.receive_all()
    assert list(needed(filled.log)) == ["public.wide"]
    assert walrow.Log(filled.log).state("item").to_pyarrow().num_rows == 0
    filled.execute("INSERT INTO item VALUES (1, 1 << 30, 'x')")
    filled.receive_all()
    filled.check(["item"])


def test_a_name_in_a_value_changes_after_a_load(filled: Feed) -> None:
    filled.execute(
        "DROP TABLE IF EXISTS named",
        "CREATE TABLE named (v regclass, w aclitem)",
        "INSERT INTO named VALUES ('item')",
        "ALTER PUBLICATION p ADD TABLE named",
    )
    filled.receive_all(*FIRST)
    assert needed(filled.log) == {}
    filled.receive_all()
    assert needed(filled.log) == {}
    filled.execute(
        "ALTER INDEX item_pkey RENAME TO key", "INSERT INTO named VALUES ('key')"
    )
    filled.receive_all()
    text = "an object was renamed or dropped that values of regclass may name"
    assert needed(filled.log) == {"public.named": text}
    walrow.load("public.named", log=filled.log, wait=False)
    filled.receive_all()
    assert needed(filled.log) == {}
    filled.check(["named"])
    filled.execute("ALTER INDEX key RENAME TO item_pkey", "DROP TABLE named")


def test_tables_that_have_rows_before_the_slot(filled: Feed) -> None:
    filled.execute("DELETE FROM wide")
    filled.receive_all("--create")
    filled.execute(
        "INSERT INTO wide VALUES (1, 'x')",
        "INSERT INTO item VALUES (99, 9, 'x')",
        "INSERT INTO audit (what) VALUES ('x')",
    )
    filled.receive_all()
    reason = "it had rows before the slot was created"
    assert needed(filled.log) == {"public.item": reason, "public.audit": reason}
    assert sum(len(batch) for batch in walrow.Log(filled.log).state("wide")) == 1
    with pytest.raises(walrow.errors.LogError, match="rows before the slot"):
        walrow.Log(filled.log).state("item")


@pytest.mark.parametrize("ends", [False, True])
def test_a_beginning_that_is_not_known(
    world: World, monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    """The next look believes only what it proves: a table that had no row, and has none."""
    world.sql(
        "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)",
        "CREATE TABLE none (id int PRIMARY KEY)",
        "CREATE PUBLICATION p FOR ALL TABLES",
    )
    with monkeypatch.context() as patch:
        if ends:
            patch.setattr(Completeness, "begin", failing(RuntimeError()))
            with pytest.raises(RuntimeError):
                world.look()
        else:
            error = psycopg.errors.QueryCanceled()
            patch.setattr(completeness, "at_beginning", failing(error))
            world.look()
    world.look()
    world.sql("INSERT INTO none VALUES (1)", "INSERT INTO t VALUES (2)")
    world.look()
    assert needed(world.path) == {"public.t": "it is new in the publication"}
    assert world.state("none") == [{"id": 1}]
    world.load("public.t")
    world.look()
    assert needed(world.path) == {}
    assert world.state("t") == [{"id": 1}, {"id": 2}]


def test_a_load_after_a_table_came_back_is_not_marked_again(
    filled: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def has_left() -> bool:
        return any(it.left is not None for it in walrow.Log(filled.log).tables())

    with receiving(filled, monkeypatch):
        until_loaded(filled.log)
        filled.execute("ALTER PUBLICATION p DROP TABLE item")
        until(has_left)
        # Only loads make it look from now on.
        monkeypatch.setattr(completeness, "_LOOK_SECONDS", 1000)
        time.sleep(1)
        filled.execute("INSERT INTO item VALUES (500, 1)")
        filled.execute("ALTER PUBLICATION p ADD TABLE item")
        walrow.load("public.item", log=filled.log, timeout=60)
        filled.execute("INSERT INTO item VALUES (501, 1)")
    filled.receive_all()
    assert needed(filled.log) == {}
    assert not has_left()
    filled.check()


def failing(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


@pytest.fixture
def young(filled: Feed) -> Iterator[Feed]:
    """A schema that is published with all tables that it gets."""
    if filled.server.major < 15:
        pytest.skip("version 14 cannot publish a schema")
    filled.execute(
        "DROP SCHEMA IF EXISTS young CASCADE",
        "CREATE SCHEMA young",
        "ALTER PUBLICATION p ADD TABLES IN SCHEMA young",
    )
    yield filled
    filled.execute("DROP SCHEMA young CASCADE")


@pytest.mark.parametrize("until_now", [False, True])
def test_tables_that_are_altered_before_the_first_look(
    young: Feed, monkeypatch: pytest.MonkeyPatch, *, until_now: bool
) -> None:
    """All in one transaction, so that no look comes between."""
    statements = [
        "BEGIN",
        "CREATE TABLE young.added (id int PRIMARY KEY)",
        "INSERT INTO young.added VALUES (1)",
        'ALTER TABLE young.added ADD COLUMN "Much more" int DEFAULT 7',
        "CREATE TABLE young.renamed (id int PRIMARY KEY, v text)",
        "INSERT INTO young.renamed VALUES (1, 'x')",
        "ALTER TABLE young.renamed RENAME v TO w",
        "CREATE TABLE young.retyped (id int PRIMARY KEY, v text)",
        "INSERT INTO young.retyped VALUES (1, '2')",
        "ALTER TABLE young.retyped ALTER v TYPE int USING length(v)",
        "CREATE TYPE young.pair AS (a int, b text)",
        "CREATE TABLE young.composite (id int PRIMARY KEY, v young.pair[])",
        "INSERT INTO young.composite VALUES (1, ARRAY[ROW(1, 'x')::young.pair])",
        "ALTER TYPE young.pair DROP ATTRIBUTE b",
        "CREATE TYPE young.mood AS ENUM ('sad', 'happy')",
        "CREATE TABLE young.enum (id int PRIMARY KEY, v young.mood)",
        "INSERT INTO young.enum VALUES (1, 'sad')",
        "ALTER TYPE young.mood RENAME VALUE 'sad' TO 'blue'",
        # These are whole.
        "CREATE TABLE young.later (id int PRIMARY KEY, v young.pair, w young.mood)",
        "INSERT INTO young.later VALUES (1, ROW(1), 'blue')",
        "ALTER TYPE young.mood ADD VALUE 'calm'",
        "CREATE TABLE young.nulls (id int PRIMARY KEY)",
        "INSERT INTO young.nulls VALUES (1)",
        "ALTER TABLE young.nulls ADD COLUMN v int",
        "INSERT INTO young.nulls VALUES (2, 3)",
        "CREATE TABLE young.fewer (id int PRIMARY KEY, gone int)",
        "INSERT INTO young.fewer VALUES (1, 2)",
        "ALTER TABLE young.fewer DROP COLUMN gone",
        "INSERT INTO young.fewer VALUES (3)",
        "CREATE TABLE young.empty (id int PRIMARY KEY)",
        "ALTER TABLE young.empty ADD COLUMN v int DEFAULT 7",
        "INSERT INTO young.empty VALUES (1)",
        "CREATE TABLE young.longer (id int PRIMARY KEY, v varchar(3), w varchar(3))",
        "INSERT INTO young.longer VALUES (1, 'abc', 'abc')",
        "ALTER TABLE young.longer ALTER v TYPE varchar(5), ALTER w TYPE text",
        "INSERT INTO young.longer VALUES (2, 'abcde', 'abcde')",
        "COMMIT",
    ]
    expected = {
        "young.added": 'column "Much more" was added with a value for existing rows',
        "young.renamed": "column v disappeared and w appeared",
        "young.retyped": "column v has another type",
        "young.composite": "a type of its columns was altered",
        "young.enum": "a type of its columns was altered",
    }
    if until_now:
        young.receive_all(*FIRST)
        young.execute("; ".join(statements))
        young.receive_all()
        assert needed(young.log) == expected
    with receiving(young, monkeypatch):
        until((young.log / "_load-needed").exists)
        if not until_now:
            until_loaded(young.log)
            young.execute("; ".join(statements))
        until(lambda: needed(young.log) == expected)
        for name in expected:
            with pytest.raises(walrow.errors.LogError, match="is not whole since"):
                walrow.Log(young.log).state(name)
        walrow.load(list(expected), log=young.log, timeout=60)
        assert needed(young.log) == {}
        young.execute("INSERT INTO young.added VALUES (2, 8)")
        # What readers have seen is not looked at again and again.
        until(lambda: '"young": {}' in (young.log / "_load-needed").read_text("utf-8"))
    young.receive_all()
    opened = walrow.Log(young.log)
    whole = ("later", "nulls", "fewer", "empty", "longer")
    for table in (*(name.partition(".")[2] for name in expected), *whole):
        rows = opened.state(f"young.{table}", profile="text").to_pyarrow().to_pylist()
        columns = ", ".join(f'"{column}"::text' for column in rows[0])
        wanted = young.execute(
            f"SELECT {columns} FROM young.{table} ORDER BY id",  # noqa: S608
        )
        assert [tuple(row.values()) for row in rows] == wanted


def test_a_new_partitioned_table_whose_partitions_left(young: Feed) -> None:
    """All its rows left with them, and no look saw them."""
    young.execute("ALTER PUBLICATION p SET (publish_via_partition_root)")
    young.receive_all(*FIRST)
    young.execute(
        "CREATE TABLE young.tree (id int PRIMARY KEY) PARTITION BY LIST (id)",
        "CREATE TABLE young.part PARTITION OF young.tree FOR VALUES IN (1)",
        "INSERT INTO young.tree VALUES (1)",
        "ALTER TABLE young.tree DETACH PARTITION young.part",
    )
    # It is empty, so a look requests its load. Without one, the log has a row of it.
    young.receive_all()
    young.receive_all()
    assert "young.tree" not in needed(young.log)
    assert walrow.Log(young.log).state("young.tree").to_pyarrow().num_rows == 0


def test_ddl_is_a_message_at_its_place(filled: Feed) -> None:
    filled.execute(walrow.postgres.ddl_trigger())
    try:
        filled.receive_all(*FIRST, "--messages")
        filled.execute(
            "BEGIN; INSERT INTO item VALUES (101, 1, 'a');"
            " ALTER TABLE item RENAME label TO title;"
            " INSERT INTO item VALUES (102, 1, 'b'); COMMIT",
            "CREATE TEMP TABLE unseen ()",
            "CREATE TABLE dropped (id int)",
            "DROP TABLE dropped",
        )
        filled.receive_all("--messages")
    finally:
        filled.execute(walrow.postgres.ddl_trigger(drop=True))
    found = [
        (row["seq"], json.loads(row["content"]))
        for batch in walrow.read(filled.log, table="walrow.messages")
        for row in pa.record_batch(batch).to_pylist()
        if row["prefix"] == "walrow.ddl"
    ]
    item = walrow.tables(filled.log).find("public.item")
    assert [ddl.command for ddl in item.ddl] == ["ALTER TABLE"]
    assert [[it.number for it in version.columns] for version in item.versions] == [
        [1, 2, 3],
        [1, 2, 3],
    ]
    assert [note.text for note in item.notes if note.code.startswith("column-")] == [
        "label became title in version 2: the values of old rows are under label; "
        "rename the column, or read the table again"
    ]
    (seq, renamed), (_, created), (_, dropped) = found
    assert seq == 1
    assert (renamed["command"], renamed["table"]) == ("ALTER TABLE", "item")
    assert [(it["number"], it["name"]) for it in renamed["columns"]] == [
        (1, "id"),
        (2, "n"),
        (3, "title"),
    ]
    assert (created["command"], created["table"]) == ("CREATE TABLE", "dropped")
    assert (dropped["command"], dropped["columns"]) == ("DROP TABLE", None)
    assert not filled.execute("SELECT FROM pg_event_trigger")


def looked_again(log: Path) -> None:
    """Waits until the receiver has looked once more at what is published."""
    file = log / "_load-needed"
    before = file.stat().st_mtime_ns
    until(lambda: file.stat().st_mtime_ns > before)
    # That look may have begun earlier.
    before = file.stat().st_mtime_ns
    until(lambda: file.stat().st_mtime_ns > before)


GONE = "ALTER TABLE item DROP COLUMN label"
BACK = "ALTER TABLE item ADD COLUMN label text"
CHANGE = "UPDATE item SET n = n + 1 WHERE id = 1"
RETURNED = "column label was dropped and added again"


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [f"BEGIN; {GONE}; {BACK}; COMMIT"],
            marks=pytest.mark.slow,
            id="one transaction",
        ),
        pytest.param([f"BEGIN; {GONE}; {CHANGE}; {BACK}; COMMIT"], id="change between"),
        pytest.param(
            [GONE, CHANGE, BACK, CHANGE], marks=pytest.mark.slow, id="two transactions"
        ),
        pytest.param([GONE, None, BACK], id="look between"),
        pytest.param(
            [GONE, CHANGE, None, BACK, CHANGE],
            marks=pytest.mark.slow,
            id="look and change between",
        ),
        pytest.param(
            [f"{GONE}; {BACK} DEFAULT 'new'"],
            marks=pytest.mark.slow,
            id="with a default",
        ),
        pytest.param(
            [GONE, "ALTER TABLE item ADD COLUMN label int", CHANGE],
            marks=pytest.mark.slow,
            id="another type",
        ),
        pytest.param(
            [GONE, None, "ALTER TABLE item ADD COLUMN label int"],
            marks=pytest.mark.slow,
            id="look between, another type",
        ),
    ],
)
def test_a_column_that_comes_back_needs_a_load(
    filled: Feed, monkeypatch: pytest.MonkeyPatch, steps: list[str | None]
) -> None:
    """Relation messages say nothing: only the number is another one."""
    with receiving(filled, monkeypatch):
        until_loaded(filled.log)
        filled.execute("INSERT INTO item VALUES (1001, 1, 'old'), (1002, 1, 'old')")
        for step in steps:
            if step is None:
                looked_again(filled.log)
                assert needs_of(filled.log, "") is None
            else:
                filled.execute(step)
        until(lambda: needs_of(filled.log, RETURNED) is not None)
        assert needed(filled.log) == {"public.item": RETURNED}
        walrow.load("public.item", log=filled.log, timeout=60)
        looked_again(filled.log)
        assert needs_of(filled.log, "") is None
        filled.execute(CHANGE)
    filled.receive_all()
    assert needed(filled.log) == {}
    filled.check()


@pytest.mark.parametrize(
    "sees_it_go", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_a_column_that_comes_back_while_no_receiver_runs(
    filled: Feed, *, sees_it_go: bool
) -> None:
    filled.receive_all(*FIRST)
    filled.execute("INSERT INTO item VALUES (1001, 1, 'old')", GONE, CHANGE)
    if sees_it_go:
        filled.receive_all()
        assert needed(filled.log) == {}
    filled.execute(BACK, CHANGE)
    filled.receive_all()
    assert needed(filled.log) == {"public.item": RETURNED}


def test_columns_that_come_and_go_need_no_load(
    filled: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving(filled, monkeypatch):
        until_loaded(filled.log)
        for statement in (
            "ALTER TABLE item ADD COLUMN more text",
            GONE,
            "BEGIN; ALTER TABLE item DROP COLUMN more;"
            " ALTER TABLE item ADD COLUMN other text; COMMIT",
            "ALTER TABLE item ADD COLUMN last int",
        ):
            filled.execute(statement, CHANGE)
            looked_again(filled.log)
            assert needs_of(filled.log, "") is None
    filled.receive_all()
    assert needed(filled.log) == {}
    filled.check()


def test_a_column_of_a_new_table_that_comes_back(
    young: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was dropped before the receiver has ever looked at the table."""
    young.receive_all(*FIRST)
    tables = [
        # Name, columns, what happens after the first row, and whether it is whole.
        ("back", "id int PRIMARY KEY, v text", "DROP v, ADD v text", False),
        ("retyped", "id int PRIMARY KEY, v text, w int", "DROP v, ADD v int", False),
        ("same", "id int PRIMARY KEY, x text, v text", "DROP x", True),
        (
            "fewer",
            "id int PRIMARY KEY, x text, v text",
            "DROP x, DROP v, ADD v text",
            False,
        ),
        (
            "generated",
            "id int PRIMARY KEY, g int GENERATED ALWAYS AS (id) STORED, v text",
            "ADD w text",
            True,
        ),
    ]
    for name, columns, change, _ in tables:
        young.execute(
            f"CREATE TABLE young.{name} ({columns})",
            f"INSERT INTO young.{name} (id, v) VALUES (1, 'old')",  # noqa: S608
            f"ALTER TABLE young.{name} {change}",
            f"INSERT INTO young.{name} (id, v) VALUES (2, NULL)",  # noqa: S608
        )
    # The first look is the one that sees it without the column.
    young.execute(
        "CREATE TABLE young.later (id int PRIMARY KEY, v text)",
        "INSERT INTO young.later VALUES (1, 'old')",
        "ALTER TABLE young.later DROP v",
    )
    young.receive_all()
    maybe = "column v may have been dropped and added again"
    expected = {f"young.{name}": maybe for name, *_, is_whole in tables if not is_whole}
    expected["young.retyped"] = "column v has another type"
    assert needed(young.log) == expected
    young.execute("ALTER TABLE young.later ADD v text")
    with receiving(young, monkeypatch):
        until(lambda: needs_of(young.log, "was dropped and added again") is not None)
        expected["young.later"] = "column v was dropped and added again"
        until(lambda: needed(young.log) == expected)
        walrow.load(list(expected), log=young.log, timeout=60)
        assert needed(young.log) == {}


#: Columns that come between two looks, and have changed then: the statements, and a mark's code.
COLUMNS = {
    "renamed": (["ADD c int", "INSERT", "RENAME c TO d"], "column_renamed"),
    "again": (["ADD c int", "INSERT", "DROP c", "ADD c int"], "column_returned"),
    "later": (
        ["ADD c int", "INSERT", "DROP c", "ADD c int", "INSERT"],
        "column_returned",
    ),
    "swapped": (
        [
            *("ADD c int, ADD d int", "INSERT"),
            *("RENAME c TO x", "RENAME d TO c", "RENAME x TO d"),
        ],
        "column_renamed",
    ),
    "added": (["ADD c int", "INSERT", "ADD d int", "INSERT"], None),
    "dropped": (["ADD c int", "INSERT", "DROP c"], None),
    # These types have the same bytes, so the table keeps its file.
    "retyped": (
        ["ADD c int", "ALTER v TYPE oid", "INSERT", "ALTER v TYPE int"],
        "column_type",
    ),
    "typed": (["ADD c int", "INSERT", "ALTER v TYPE oid"], "column_type"),
}


def test_a_name_that_a_dropped_column_had(world: World) -> None:
    world.sql("CREATE TABLE t (id bigint PRIMARY KEY, v int, w int)")
    world.sql("CREATE PUBLICATION p FOR ALL TABLES", "INSERT INTO t VALUES (1, 1, 1)")
    world.look()
    # The look that sees the drop finds the definition with this column in the log.
    world.sql("INSERT INTO t VALUES (2, 2, 2)", "ALTER TABLE t DROP w, ADD x int")
    world.take()
    (table,) = world.log.tables()
    assert [mark.code.value for mark in table.marks] == ["had_rows"]
    world.sql(
        *("ALTER TABLE t ADD w int", "INSERT INTO t VALUES (3, 3, 3, 3)"),
        "ALTER TABLE t RENAME w TO y",
    )
    world.take()
    (table,) = world.log.tables()
    codes = [mark.code.value for mark in table.marks]
    assert codes == ["had_rows", "column_renamed"]


def test_columns_that_change_before_a_look_sees_them(world: World) -> None:
    insert = "INSERT INTO {} SELECT g, g, g FROM (SELECT nextval('s')) n (g)"
    world.sql("CREATE SEQUENCE s")
    world.sql(*(f"CREATE TABLE {it} (id bigint PRIMARY KEY, v int)" for it in COLUMNS))
    world.sql("CREATE PUBLICATION p FOR ALL TABLES")
    world.look()
    text = "public.added has no change in the log yet: walrow load"
    with pytest.raises(walrow.errors.SchemaError, match=text):
        world.log.state("added")
    for name, (statements, _) in COLUMNS.items():
        world.sql(
            *(
                insert.format(name) if it == "INSERT" else f"ALTER TABLE {name} {it}"
                for it in statements
            )
        )
    world.take()
    tables = {it.name.removeprefix("public."): it for it in world.log.tables()}
    for name, (_, code) in COLUMNS.items():
        found = {mark.code.value for mark in tables[name].marks}
        assert (name, found) == (name, {code} - {None})
        if code is None:
            assert world.state(name) == world.rows()[name]


def test_an_entry_with_a_row_filter_stands_for_no_other(
    world: World, server: EmbeddedServer
) -> None:
    if server.major < 15:
        # It has no row filters.
        return
    world.sql(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE PUBLICATION p FOR TABLE t WHERE (id > 5), TABLES IN SCHEMA public",
    )
    world.look()
    world.sql("ALTER PUBLICATION p SET TABLE t WHERE (id > 5), TABLES IN SCHEMA public")
    world.take()
    assert not any(it.marks for it in world.log.tables())
    world.sql(
        "ALTER PUBLICATION p DROP TABLES IN SCHEMA public",
        "INSERT INTO t VALUES (1), (9)",
        "ALTER PUBLICATION p ADD TABLES IN SCHEMA public",
    )
    world.take()
    assert [it.needs_load is not None for it in world.log.tables()] == [True]
