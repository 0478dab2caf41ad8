"""`walrow receive` while somebody has a lock on a published table."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import (
    Feed,
    end_of_wal,
    until,
)

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

QUICK = ("--publish-after", "0.5")


@pytest.fixture
def feed(feed: Feed) -> Feed:
    feed.execute("DROP TABLE IF EXISTS moods", "DROP DOMAIN IF EXISTS positive")
    return feed


@contextlib.contextmanager
def locked(server: EmbeddedServer, table: str) -> Iterator[int]:
    """Has a lock on a table, and yields the process of the server that has it."""
    with psycopg.connect(server.dsn, application_name="holder") as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        yield connection.info.backend_pid


def rows_of(log: Path, table: str) -> int:
    """The rows of a table that readers see."""
    with contextlib.suppress(walrow.errors.LogError):
        return {it.name: it.rows for it in walrow.Log(log).tables()}.get(table, 0)
    return 0


def until_visible(log: Path, table: str, rows: int, timeout: float = 20) -> None:
    """Waits until readers see all rows of a table."""
    until(lambda: rows_of(log, table) == rows, timeout)


def described(log: Path) -> set[str]:
    """The tables that the catalog of a log describes."""
    catalog = json.loads((log / "_catalog").read_bytes()[8:])
    return {table["name"] for table in catalog["tables"]}


def test_a_lock_on_a_table_does_not_stop_the_stream(feed: Feed) -> None:
    """Nor the description of others, and of the table itself."""
    insert = "INSERT INTO moods SELECT count(*), 7 FROM moods"
    with feed.receiver(*QUICK) as receiver:
        receiver.until_streaming()
        feed.execute(
            "CREATE DOMAIN positive AS int",
            "CREATE TABLE moods (id int PRIMARY KEY, d positive, e int DEFAULT 7 + 1)",
            "ALTER PUBLICATION p ADD TABLE moods",
        )
        with locked(feed.server, "item"):
            before = walrow.Lsn(end_of_wal(feed.dsn))
            feed.execute(insert)
            until_visible(feed.log, "public.moods", 1, 2.5)
            assert feed.confirmed() > before
            until(lambda: "moods" in described(feed.log), 20)
            with locked(feed.server, "moods"):
                receiver.until(lambda state: state["state"] == "streaming")
        assert receiver.stop() < 2
        assert not [
            it for state in receiver.states if "a lock" in (it := state["note"] or "")
        ]
    with walrow.read(feed.log, tables=["public.moods"]) as reader:
        batches = [pa.record_batch(batch) for batch in reader]
    assert [it for batch in batches for it in batch["d"].to_pylist()] == [7]


#: Locks that others have at the end, and what is done with them once it has ended.
HELD = {
    "two tables": ["LOCK TABLE item, audit IN ACCESS EXCLUSIVE MODE"],
    "every command": [
        "ALTER TABLE item ADD z int",
        "TRUNCATE audit",
        "DROP TABLE wide",
    ],
    "a partition": ["LOCK TABLE low IN ACCESS EXCLUSIVE MODE"],
    "a root": ["ALTER TABLE root ADD z int DEFAULT 7"],
    "a filter": ["LOCK TABLE filtered IN ACCESS EXCLUSIVE MODE"],
    "an expression": ["LOCK TABLE computed IN ACCESS EXCLUSIVE MODE"],
}


@pytest.fixture
def others(feed: Feed) -> Iterator[None]:
    """Tables whose description takes more than rows of the catalog."""
    names = "root, filtered, computed"
    feed.execute(
        "CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF root FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE filtered (id int PRIMARY KEY)",
        "CREATE TABLE computed (id int PRIMARY KEY, v int GENERATED ALWAYS AS (id + 1) STORED)",
    )
    where = " WHERE (id > 1)" if feed.server.major > 14 else ""
    feed.execute(f"ALTER PUBLICATION p ADD TABLE root, computed, filtered{where}")
    yield
    for (gid,) in feed.execute("SELECT gid FROM pg_prepared_xacts"):
        feed.execute(f"ROLLBACK PREPARED '{gid}'")
    feed.execute(f"DROP TABLE IF EXISTS {names}")


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize("is_prepared", [False, True], ids=["open", "prepared"])
@pytest.mark.parametrize("commands", HELD.values(), ids=HELD.keys())
def test_the_end_waits_for_no_lock(
    feed: Feed, commands: list[str], *, is_prepared: bool
) -> None:
    """A prepared transaction keeps its locks for ever, also over a restart."""
    feed.receive_now()
    marks = open_marks(feed.log)
    with psycopg.connect(feed.dsn) as holder:
        for command in commands:
            holder.execute(command.encode())
        if is_prepared:
            holder.execute("PREPARE TRANSACTION 'holder'")
        feed.execute("CREATE TABLE late (id int PRIMARY KEY)", "DROP TABLE late")
        began = time.monotonic()
        left = feed.receive_now().left
        # It is decided after the end, so the log has what it has done so far: nothing.
        assert time.monotonic() - began < 10
        assert len(left) == is_prepared
        assert open_marks(feed.log) == marks
        holder.rollback()


def open_marks(log: Path) -> dict[str, list[str]]:
    """The open marks of each table."""
    tables = walrow.Log(log).tables()
    return {it.name: [mark.code for mark in it.marks if mark.is_open] for it in tables}


def test_a_change_under_a_lock_is_seen_after_it(feed: Feed) -> None:
    """The look at the end has seen the table before its change."""
    feed.execute("INSERT INTO item VALUES (1, 1)")
    feed.receive_now()
    with psycopg.connect(feed.dsn) as holder:
        holder.execute("ALTER TABLE item ADD z int DEFAULT 7")
        feed.receive_now()
        assert open_marks(feed.log)["public.item"] == []
    feed.receive_now()
    assert open_marks(feed.log)["public.item"] == ["column_default"]
    feed.execute("ALTER TABLE item DROP z")
