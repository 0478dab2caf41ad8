"""`walrow receive --cross-gap`: a log continues behind changes that the server cannot send any more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import walrow
from servers import EmbeddedServer, create_slot, drop_slot
from servers.loads import needed
from servers.receiving import Feed, Load, end_of_wal, server_rows
from walrow.errors import LogError, ReplicationError

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(18, settings={"max_slot_wal_keep_size": "32MB"}) as server:
        yield server


@pytest.fixture
def feed(server: EmbeddedServer, tmp_path: Path) -> Iterator[Feed]:
    """A log that has all rows of a table, and its slot."""
    feed = Feed(server, "s", tmp_path / "log")
    feed.execute(
        Load.SETUP,
        "CREATE TABLE late (id int PRIMARY KEY)",
        "CREATE PUBLICATION p FOR ALL TABLES",
        "INSERT INTO item VALUES (1, 1, 'kept'), (2, 2, 'deleted in the gap')",
    )
    feed.receive_now(create=True, snapshot=True)
    yield feed
    feed.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots",
        "DROP PUBLICATION p",
        "DROP TABLE item, audit, wide, late",
        "DROP TABLE IF EXISTS born",
    )


def change(feed: Feed) -> None:
    """Changes of each kind, and a table that comes with rows."""
    feed.execute(
        "UPDATE item SET n = 10 WHERE id = 1",
        "DELETE FROM item WHERE id = 2",
        "INSERT INTO item VALUES (3, 3, 'new')",
        "CREATE TABLE born (id int PRIMARY KEY)",
        "INSERT INTO born VALUES (1)",
    )


def drop(feed: Feed) -> None:
    drop_slot(feed.dsn, feed.slot)
    change(feed)


def create_again(feed: Feed) -> None:
    drop(feed)
    create_slot(feed.dsn, feed.slot, two_phase=False)


def advance(feed: Feed) -> None:
    change(feed)
    feed.execute("SELECT pg_replication_slot_advance('s', pg_current_wal_lsn())")


def lose(feed: Feed) -> None:
    change(feed)
    wal = "SELECT pg_logical_emit_message(false, 'x', repeat('x', 30000000))"
    for _ in range(3):
        feed.execute(wal, "SELECT pg_switch_wal()")
    feed.execute("CHECKPOINT")


BREAKS = {
    "slot_missing": drop,
    "slot_moved": create_again,
    "slot_lost": lose,
}


def rows(log: Path, table: str) -> list[list[object]]:
    found = pa.table(walrow.Log(log).state(table)).to_pylist()
    return sorted(list(map(str, row.values())) for row in found)


def check_tables(feed: Feed, *tables: str) -> None:
    expected = server_rows(feed.dsn, tables)
    for table in tables:
        assert rows(feed.log, table) == sorted(
            [[str(value) for value in row] for row in expected[table]]
        )


@pytest.mark.parametrize("cause", [*BREAKS])
def test_a_slot_that_does_not_continue_the_log(feed: Feed, cause: str) -> None:
    before = walrow.Log(feed.log)
    checkpoint = before.net("item").checkpoint
    BREAKS[cause](feed)
    with pytest.raises(ReplicationError, match=r"lost; to continue.* MB\)") as refused:
        feed.receive_now()
    assert str(refused.value).endswith("use cross_gap=True")
    assert "--cross-gap" in feed.receive_all(code=1)
    assert walrow.Log(feed.log).end == before.end

    feed.receive_now(cross_gap=True)
    feed.execute("INSERT INTO item VALUES (4, 4, 'later')")
    feed.receive_now()
    assert needed(feed.log) == {}
    check_tables(feed, "item", "born", "late")
    log = walrow.Log(feed.log)
    net = log.net("item", start=checkpoint)
    assert net.clears
    assert sorted(row["id"] for row in pa.table(net).to_pylist() if row["id"]) == [
        1,
        3,
        4,
    ]
    # The state before it is still there.
    assert log.state("item", as_of=before.end).to_pyarrow().num_rows == 2
    (mark,) = (it for it in table_of(log, "item").marks if it.code == "gap")
    assert (mark.since, mark.is_open) == (before.end, False)
    with pytest.raises(LogError, match="lacks the changes between") as gap:
        list(log.read(start=before.end))
    assert (gap.value.code, gap.value.lsn) == ("gap", mark.seen)
    assert list(log.read(start=before.end, gaps="cross"))
    assert list(log.read(start=mark.seen))
    assert list(log.read(end=before.end))
    assert log.verify() == []
    log.compact()
    with pytest.raises(LogError, match="lacks the changes between"):
        list(walrow.Log(feed.log).read(table="late"))


def table_of(log: walrow.Log, name: str) -> walrow.log.LogTable:
    return next(it for it in log.tables() if it.name == f"public.{name}")
