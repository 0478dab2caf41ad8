"""What the stream lacks is noticed, and a load brings it."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import walrow
from servers import EmbeddedServer
from servers.loads import (
    FIRST,
    QUICK,
    is_loaded,
    loads,
    needed,
    receive_rest,
    receiving,
    until,
    until_loaded,
)
from servers.receiving import (
    Load,
    ReceiverProcess,
    check_log,
    end_of_wal,
    execute,
)

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


def test_what_the_stream_lacks_is_loaded(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
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
    with ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver:
        receiver.until(is_loaded)
        execute(
            server.dsn,
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
        while (needs := reasons(log)) != expected and time.monotonic() < deadline:
            time.sleep(0.2)
        assert needs == expected
        walrow.load(["public.item", "public.wide", "public.late"], log=log, timeout=60)
        assert needed(log) == {}
    check_log(server.dsn, log, [*Load.TABLES, "late"])
    execute(server.dsn, "DROP TABLE late")


def reasons(log: Path) -> dict[str, set[str]]:
    """Why tables need a load, each reason by itself."""
    return {
        table.name: {mark.reason for mark in table.marks if mark.is_open}
        for table in walrow.Log(log).tables()
        if table.needs_load is not None
    }


def needs_of(log: Path, name: str) -> str | None:
    """Why a table needs a load, by the receiver's record."""
    found = json.loads((log / "_load-needed").read_text("utf-8"))
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
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: tuple[list[str], str],
) -> None:
    log, (statements, reason) = tmp_path / "log", change
    with receiving(server, log, slot, monkeypatch):
        until((log / "_load-needed").exists)
        until_loaded(log)
        execute(server.dsn, *statements, "UPDATE item SET n = 5 WHERE id = 1")
        until(lambda: needs_of(log, reason) is not None)
        walrow.load("public.item", log=log, timeout=60)
        assert needs_of(log, reason) is None
    found = walrow.Log(log)
    ((load,),) = (set(loads(log).values()) - {min(filter(None, loads(log).values()))},)
    assert load is not None
    # Before the load, the table was not whole, and it still is not.
    with pytest.raises(walrow.errors.LogError, match="load the table again") as caught:
        found.state("public.item", as_of=load - 1)
    assert caught.value.code == "incomplete"
    assert found.state("public.item", as_of=load).to_pyarrow().num_rows >= 30
    check_log(server.dsn, log, Load.TABLES)


def has_reached(log: Path, end: walrow.Lsn) -> bool:
    """Whether readers see everything before an LSN."""
    return walrow.Log(log).end >= end


@pytest.mark.parametrize("binary", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_type_that_is_altered_is_noticed(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    binary: bool,
) -> None:
    log = tmp_path / "log"
    execute(
        server.dsn,
        "DROP TABLE IF EXISTS boxed",
        "DROP TYPE IF EXISTS pair, mood",
        "CREATE TYPE mood AS ENUM ('calm', 'cross')",
        "CREATE TYPE pair AS (a int, b text, m mood)",
        "CREATE TABLE boxed (id int PRIMARY KEY, p pair, q pair[])",
        "INSERT INTO boxed VALUES (1, (1, 'x', 'calm'), ARRAY[(2, 'y', 'cross')::pair])",
        "ALTER PUBLICATION p ADD TABLE boxed",
    )
    with receiving(server, log, slot, monkeypatch, binary=binary):
        until((log / "_load-needed").exists)
        until_loaded(log)
        # A new label changes no row.
        execute(server.dsn, "ALTER TYPE mood ADD VALUE 'glad'")
        time.sleep(1)
        assert needs_of(log, "altered") is None
        for statement in (
            "ALTER TYPE mood RENAME VALUE 'calm' TO 'quiet'",
            "ALTER TYPE pair ADD ATTRIBUTE c int",
            "ALTER TYPE pair RENAME ATTRIBUTE b TO body",
            "ALTER TYPE pair DROP ATTRIBUTE m",
        ):
            execute(
                server.dsn,
                statement,
                "UPDATE boxed SET q = q || q[1] WHERE id = 1",
            )
            until(lambda: needs_of(log, "altered") is not None)
            walrow.load("public.boxed", log=log, timeout=60)
            execute(server.dsn, "UPDATE boxed SET q = q || q[1] WHERE id = 1")
            end = walrow.Lsn(end_of_wal(server.dsn))
            until(partial(has_reached, log, end))
            state = walrow.Log(log).state(
                "public.boxed", types={"p": "string", "q": "string"}
            )
            found = execute(server.dsn, "SELECT id, p::text, q::text FROM boxed")
            assert [
                tuple(row.values()) for row in state.to_pyarrow().to_pylist()
            ] == found
    [row] = walrow.Log(log).state("public.boxed").to_pyarrow().to_pylist()
    assert row["p"] == {"a": 1, "body": "x", "c": None}
    # Some values are older than the definitions that the log has, or newer.
    form = "binary" if binary else "string"
    for options in (
        {"types": {"p": form, "q": form}},
        {"unrepresentable": "null"},
    ):
        batches = list(walrow.read(log, table="public.boxed", **options))
        assert sum(batch.num_rows for batch in batches) > 8
    execute(server.dsn, "DROP TABLE boxed", "DROP TYPE pair, mood")


def test_partitions_and_tables_that_are_created_are_whole(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = tmp_path / "log"
    execute(
        server.dsn,
        "DROP TABLE IF EXISTS tree, other",
        "CREATE TABLE tree (id int, part int, PRIMARY KEY (id, part)) PARTITION BY LIST (part)",
        "CREATE TABLE tree_1 PARTITION OF tree FOR VALUES IN (1)",
        "CREATE TABLE other (id int, part int NOT NULL, PRIMARY KEY (id, part))",
        "INSERT INTO tree VALUES (1, 1)",
        "INSERT INTO other VALUES (2, 2)",
        "ALTER PUBLICATION p SET (publish_via_partition_root = true)",
        "ALTER PUBLICATION p ADD TABLE tree",
    )
    with receiving(server, log, slot, monkeypatch):
        until((log / "_load-needed").exists)
        before = (log / "_load-needed").read_text("utf-8")
        execute(
            server.dsn,
            "CREATE TABLE tree_3 PARTITION OF tree FOR VALUES IN (3)",
            "INSERT INTO tree VALUES (3, 3)",
        )
        until(lambda: (log / "_load-needed").read_text("utf-8") != before)
        time.sleep(1)
        assert needs_of(log, "") is None
        execute(server.dsn, "ALTER TABLE tree ATTACH PARTITION other FOR VALUES IN (2)")
        until(lambda: needs_of(log, "attached") is not None)
        walrow.load("public.tree", log=log, timeout=60)
        assert needs_of(log, "") is None
    check_log(server.dsn, log, ["tree"])
    execute(server.dsn, "DROP TABLE tree")


def test_a_receiver_that_ends_says_which_tables_need_a_load(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    receive_rest(server, log, slot, *FIRST)
    notes: list[str] = []

    def receive() -> str:
        notes.clear()
        walrow.receive(
            server.dsn,
            log=log,
            slot=slot,
            publications="p",
            until="now",
            status=lambda state: notes.append(state.note or ""),
        )
        return "; ".join(notes)

    execute(server.dsn, "ALTER TABLE item RENAME label TO remark")
    assert "public.item" in receive()
    assert "public.item" not in receive()
    # What cannot be read is told, and not taken for nothing.
    needed_file = log / "_load-needed"
    needed_file.write_text("{", "utf-8")
    assert "tables that need a load are no longer found" in receive()


def test_tables_that_have_rows_before_the_slot(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    execute(server.dsn, "DELETE FROM wide")
    receive_rest(server, log, slot, "--create")
    execute(
        server.dsn,
        "INSERT INTO wide VALUES (1, 'x')",
        "INSERT INTO item VALUES (99, 9, 'x')",
        "INSERT INTO audit (what) VALUES ('x')",
    )
    receive_rest(server, log, slot)
    reason = "it had rows before the slot was created"
    assert needed(log) == {"public.item": reason, "public.audit": reason}
    assert sum(len(batch) for batch in walrow.Log(log).state("wide")) == 1
    with pytest.raises(walrow.errors.LogError, match="rows before the slot"):
        walrow.Log(log).state("item")


@pytest.mark.parametrize("until_now", [False, True])
def test_tables_that_are_altered_before_the_first_look(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    until_now: bool,
) -> None:
    """All in one transaction, so that no look comes between."""
    if server.major < 15:
        pytest.skip("version 14 cannot publish a schema")
    log = tmp_path / "log"
    execute(
        server.dsn,
        "DROP SCHEMA IF EXISTS young CASCADE",
        "CREATE SCHEMA young",
        "ALTER PUBLICATION p ADD TABLES IN SCHEMA young",
    )
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
        receive_rest(server, log, slot, *FIRST)
        execute(server.dsn, "; ".join(statements))
        receive_rest(server, log, slot)
        assert needed(log) == expected
    with receiving(server, log, slot, monkeypatch):
        until((log / "_load-needed").exists)
        if not until_now:
            until_loaded(log)
            execute(server.dsn, "; ".join(statements))
        until(lambda: needed(log) == expected)
        for name in expected:
            with pytest.raises(walrow.errors.LogError, match="load the table again"):
                walrow.Log(log).state(name)
        walrow.load(list(expected), log=log, timeout=60)
        assert needed(log) == {}
        execute(server.dsn, "INSERT INTO young.added VALUES (2, 8)")
        # What readers have seen is not looked at again and again.
        until(lambda: '"young": {}' in (log / "_load-needed").read_text("utf-8"))
    receive_rest(server, log, slot)
    opened = walrow.Log(log)
    whole = ("later", "nulls", "fewer", "empty")
    for table in (*(name.partition(".")[2] for name in expected), *whole):
        rows = opened.state(f"young.{table}", profile="text").to_pyarrow().to_pylist()
        columns = ", ".join(f'"{column}"::text' for column in rows[0])
        wanted = execute(
            server.dsn,
            f"SELECT {columns} FROM young.{table} ORDER BY id",  # noqa: S608
        )
        assert [tuple(row.values()) for row in rows] == wanted
    execute(server.dsn, "DROP SCHEMA young CASCADE")


def test_ddl_is_a_message_at_its_place(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    execute(server.dsn, walrow.postgres.ddl_trigger())
    try:
        receive_rest(server, log, slot, *FIRST, "--messages")
        execute(
            server.dsn,
            "BEGIN; INSERT INTO item VALUES (101, 1, 'a');"
            " ALTER TABLE item RENAME label TO title;"
            " INSERT INTO item VALUES (102, 1, 'b'); COMMIT",
            "CREATE TEMP TABLE unseen ()",
            "CREATE TABLE dropped (id int)",
            "DROP TABLE dropped",
        )
        receive_rest(server, log, slot, *QUICK, "--messages")
    finally:
        execute(server.dsn, walrow.postgres.ddl_trigger(drop=True))
    found = [
        (row["seq"], json.loads(row["content"]))
        for batch in walrow.read(log, table="walrow.messages")
        for row in pa.record_batch(batch).to_pylist()
        if row["prefix"] == "walrow.ddl"
    ]
    item = walrow.tables(log).find("public.item")
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
    assert not execute(server.dsn, "SELECT FROM pg_event_trigger")


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
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[str | None],
) -> None:
    """Relation messages say nothing: only the number is another one."""
    log = tmp_path / "log"
    with receiving(server, log, slot, monkeypatch):
        until((log / "_load-needed").exists)
        until_loaded(log)
        execute(
            server.dsn, "INSERT INTO item VALUES (1001, 1, 'old'), (1002, 1, 'old')"
        )
        for step in steps:
            if step is None:
                looked_again(log)
                assert needs_of(log, "") is None
            else:
                execute(server.dsn, step)
        until(lambda: needs_of(log, RETURNED) is not None)
        assert needed(log) == {"public.item": RETURNED}
        walrow.load("public.item", log=log, timeout=60)
        looked_again(log)
        assert needs_of(log, "") is None
        execute(server.dsn, CHANGE)
    receive_rest(server, log, slot)
    assert needed(log) == {}
    check_log(server.dsn, log, Load.TABLES)


@pytest.mark.parametrize(
    "sees_it_go", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_a_column_that_comes_back_while_no_receiver_runs(
    server: EmbeddedServer, slot: str, tmp_path: Path, *, sees_it_go: bool
) -> None:
    log = tmp_path / "log"
    receive_rest(server, log, slot, *FIRST)
    execute(server.dsn, "INSERT INTO item VALUES (1001, 1, 'old')", GONE, CHANGE)
    if sees_it_go:
        receive_rest(server, log, slot)
        assert needed(log) == {}
    execute(server.dsn, BACK, CHANGE)
    receive_rest(server, log, slot)
    assert needed(log) == {"public.item": RETURNED}


def test_columns_that_come_and_go_need_no_load(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = tmp_path / "log"
    with receiving(server, log, slot, monkeypatch):
        until((log / "_load-needed").exists)
        until_loaded(log)
        for statement in (
            "ALTER TABLE item ADD COLUMN more text",
            GONE,
            "BEGIN; ALTER TABLE item DROP COLUMN more;"
            " ALTER TABLE item ADD COLUMN other text; COMMIT",
            "ALTER TABLE item ADD COLUMN last int",
        ):
            execute(server.dsn, statement, CHANGE)
            looked_again(log)
            assert needs_of(log, "") is None
    receive_rest(server, log, slot)
    assert needed(log) == {}
    check_log(server.dsn, log, Load.TABLES)


def test_a_column_of_a_new_table_that_comes_back(
    server: EmbeddedServer, slot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was dropped before the receiver has ever looked at the table."""
    if server.major < 15:
        pytest.skip("version 14 cannot publish a schema")
    log = tmp_path / "log"
    execute(
        server.dsn,
        "DROP SCHEMA IF EXISTS young CASCADE",
        "CREATE SCHEMA young",
        "ALTER PUBLICATION p ADD TABLES IN SCHEMA young",
    )
    receive_rest(server, log, slot, *FIRST)
    tables = [
        # Name, columns, what happens after the first row, and whether it is whole.
        ("back", "id int PRIMARY KEY, v text", "DROP v, ADD v text", False),
        ("retyped", "id int PRIMARY KEY, v text, w int", "DROP v, ADD v int", False),
        ("same", "id int PRIMARY KEY, x text, v text", "DROP x", True),
        (
            "generated",
            "id int PRIMARY KEY, g int GENERATED ALWAYS AS (id) STORED, v text",
            "ADD w text",
            True,
        ),
    ]
    for name, columns, change, _ in tables:
        execute(
            server.dsn,
            f"CREATE TABLE young.{name} ({columns})",
            f"INSERT INTO young.{name} (id, v) VALUES (1, 'old')",  # noqa: S608
            f"ALTER TABLE young.{name} {change}",
        )
    # The first look is the one that sees it without the column.
    execute(
        server.dsn,
        "CREATE TABLE young.later (id int PRIMARY KEY, v text)",
        "INSERT INTO young.later VALUES (1, 'old')",
        "ALTER TABLE young.later DROP v",
    )
    receive_rest(server, log, slot)
    maybe = "column v may have been dropped and added again"
    expected = {f"young.{name}": maybe for name, *_, is_whole in tables if not is_whole}
    expected["young.retyped"] = "column v has another type"
    assert needed(log) == expected
    execute(server.dsn, "ALTER TABLE young.later ADD v text")
    with receiving(server, log, slot, monkeypatch):
        until(lambda: needs_of(log, "was dropped and added again") is not None)
        expected["young.later"] = "column v was dropped and added again"
        until(lambda: needed(log) == expected)
        walrow.load(list(expected), log=log, timeout=60)
        assert needed(log) == {}
    execute(server.dsn, "DROP SCHEMA young CASCADE")
