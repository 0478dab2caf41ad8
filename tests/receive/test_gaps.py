"""`walrow receive --cross-gap`: a log continues behind changes that the server cannot send any more."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg
import pyarrow as pa
import pytest

import walrow
import walrow.delta
from servers import EmbeddedServer, create_slot, drop_slot
from servers.loads import needed
from servers.proxy import Proxy
from servers.receiving import Feed, Load, execute, server_rows, until
from walrow._receive.connector import Connector
from walrow.errors import ApplyError, LogError, ReplicationError
from walrow.typing import Mode

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
    with pytest.raises(ReplicationError, match=r"--cross-gap.*: 0\.\d MB") as refused:
        feed.receive_now()
    assert "are lost; walrow receive" in str(refused.value)
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


MODES: tuple[Mode, ...] = ("current", "history", "changes")


def test_targets_behind_a_gap(feed: Feed, tmp_path: Path) -> None:
    """They are refused until the load, and then replaced. Changes get a row that says so."""

    def apply(mode: Mode) -> None:
        walrow.delta.apply_changes(
            feed.log, table="item", target=f"delta:{tmp_path / mode}", mode=mode
        )

    for mode in MODES:
        apply(mode)
    feed.execute("INSERT INTO item VALUES (5, 5, 'before')")
    feed.receive_now()
    end = walrow.Log(feed.log).end
    advance(feed)
    with locked(feed.dsn) as conn, feed.receiving(cross_gap=True):
        until(lambda: walrow.Log(feed.log).end > end)
        for mode in MODES[:2]:
            with pytest.raises(ApplyError, match="did not send the changes") as refused:
                apply(mode)
            assert refused.value.code == "incomplete"
        with pytest.raises(LogError, match="did not send the changes"):
            walrow.Log(feed.log).state("item")
        conn.rollback()
        until(lambda: not needed(feed.log))
    for mode in MODES:
        apply(mode)
    found = {mode: delta_rows(tmp_path / mode) for mode in MODES}
    assert sorted((it["id"], it["n"]) for it in found["current"]) == [
        (1, 10),
        (3, 3),
        (5, 5),
    ]
    versions = sorted((it["id"], it["n"], it["_is_current"]) for it in found["history"])
    assert [it for it in versions if it[2]] == [
        (1, 10, True),
        (3, 3, True),
        (5, 5, True),
    ]
    assert {(1, 1, False), (2, 2, False)} <= {*versions}
    (gap,) = (it for it in found["changes"] if it["_change_type"] == "gap")
    log = walrow.Log(feed.log)
    (mark,) = (it for it in table_of(log, "item").marks if it.code == "gap")
    known = {"_change_type": "gap", "_commit_lsn": mark.seen}
    assert gap == dict.fromkeys(gap) | known
    kinds = [it["_change_type"] for it in sorted(found["changes"], key=in_order)]
    assert kinds[-5:] == ["gap", "truncate", "insert", "insert", "insert"]


@contextlib.contextmanager
def locked(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A load waits for the end of this transaction, and the stream does not."""
    with psycopg.connect(dsn) as conn:
        conn.execute("LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
        yield conn


def in_order(row: dict[str, Any]) -> tuple[int, int]:
    return row["_commit_lsn"], -1 if row["_seq"] is None else row["_seq"]


def delta_rows(path: Path) -> list[dict[str, Any]]:
    import deltalake

    rows = deltalake.DeltaTable(str(path)).to_pyarrow_table()
    return [*rows.to_pylist()]


@pytest.mark.parametrize("fails", ["value", "filter"])
def test_a_transaction_that_cannot_be_decoded(
    server: EmbeddedServer, tmp_path: Path, fails: str
) -> None:
    """A value without a meaning in its encoding, or a row filter that fails before the Begin."""
    execute(
        server.dsn,
        "DROP DATABASE IF EXISTS win",
        "CREATE DATABASE win ENCODING 'WIN1252' LOCALE 'C' TEMPLATE template0",
    )
    feed = Feed(server, "w", tmp_path / "log")
    dsn = server.dsn_of("win")
    execute(
        dsn,
        "CREATE TABLE t (id int PRIMARY KEY, x text)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "CREATE PUBLICATION p FOR TABLE t WHERE (8 / id > -1), other",
    )
    feed.receive_now(dsn=dsn, create=True, snapshot=True)
    execute(dsn, "INSERT INTO other VALUES (1)")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.pgconn.exec_(b"SET client_encoding = 'WIN1252'")
        value = b"(1, E'\\x81')" if fails == "value" else b"(0, '')"
        done = conn.pgconn.exec_(b"INSERT INTO t VALUES " + value)
        assert done.command_status == b"INSERT 0 1"
    execute(dsn, "DELETE FROM t", "INSERT INTO other VALUES (2)")
    with pytest.raises(
        ReplicationError, match="if it never can, walrow receive --cross-gap"
    ) as it:
        feed.receive_now(dsn=dsn)
    assert it.value.sqlstate == {"value": "22P05", "filter": "22012"}[fails]
    before = walrow.Log(feed.log).end
    feed.receive_now(dsn=dsn, cross_gap=True)
    # The slot has passed it.
    execute(dsn, "INSERT INTO other VALUES (3)")
    feed.receive_now(dsn=dsn)
    assert needed(feed.log) == {}
    assert rows(feed.log, "other") == [["1"], ["2"], ["3"]]
    log = walrow.Log(feed.log)
    (gap,) = (it for it in table_of(log, "other").marks if it.code == "gap")
    assert gap.since >= before
    inserts = [
        row["id"]
        for batch in log.read(table="other", gaps="cross")
        for row in pa.record_batch(batch).to_pylist()
        if row["_change_type"] == "insert" and row["_commit_lsn"] % 8 != 7
    ]
    # With its Begin, nothing else is lost.
    assert inserts == ([1, 2, 3] if fails == "value" else [1, 3])
    drop_slot(server.dsn, "w")
    execute(server.dsn, "DROP DATABASE win")


def test_an_empty_log_beside_a_slot_that_was_used(feed: Feed, tmp_path: Path) -> None:
    """A volume that is not mounted looks like a new log."""
    change(feed)
    feed.receive_now()
    before = feed.confirmed()
    volume = tmp_path / "volume"
    feed.log.rename(volume)
    for options in ({}, {"create": True}, {"create": True, "snapshot": True}):
        with pytest.raises(ReplicationError, match="volume is not mounted, mount it"):
            feed.receive_now(**options)
    # The real log continues when it is back.
    assert feed.confirmed() == before
    shutil.rmtree(feed.log)
    volume.rename(feed.log)
    feed.receive_now()
    shutil.rmtree(feed.log)
    feed.execute("INSERT INTO item VALUES (6, 6, 'behind the slot')")
    feed.receive_now(cross_gap=True)
    assert needed(feed.log) == {}
    check_tables(feed, "item", "born", "late")


def test_an_empty_log_that_was_begun_with_its_slot(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver that ended before anything was durable is no other client of its slot."""
    shutil.rmtree(feed.log)
    drop_slot(feed.dsn, feed.slot)
    create_slot(feed.dsn, feed.slot, two_phase=False)
    with monkeypatch.context() as patched:
        refusal = ReplicationError("refused", sqlstate="42501")
        patched.setattr(Connector, "start", Mock(side_effect=refusal))
        with pytest.raises(ReplicationError, match="refused"):
            feed.receive_now()
    change(feed)
    feed.execute(
        "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL,"
        " 'proto_version', '1', 'publication_names', 'p')"
    )
    sent = "SELECT total_txns FROM pg_stat_get_replication_slot('s')"
    until(lambda: dict(enumerate(feed.execute(sent)))[0][0] > 0)
    feed.receive_now()
    log = walrow.Log(feed.log)
    assert pa.table(log.read(table="born")).num_rows == 1


def test_a_killed_receiver_crosses_the_same_gap(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marks come first: no reader sees changes behind the gap without them."""
    end = walrow.Log(feed.log).end
    create_again(feed)
    begin = walrow._receive.log_thread._begin_session

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        monkeypatch.setattr(walrow._receive.log_thread, "_begin_session", killed)
        with pytest.raises(KeyboardInterrupt):
            feed.receive_now(cross_gap=True)
        # The gap was not crossed.
        assert walrow.Log(feed.log).end == end
        assert {*needed(feed.log)} >= {"public.item"}
    monkeypatch.setattr(walrow._receive.log_thread, "_begin_session", begin)
    assert rows(feed.log, "item") == [
        ["1", "1", "kept"],
        ["2", "2", "deleted in the gap"],
    ]
    feed.receive_now(cross_gap=True)
    check_tables(feed, "item", "born")


class Lying(Proxy):
    """Each keepalive has the last LSN of all."""

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(1 << 16):
                false = rb"\1" + b"\xff" * 8
                target.sendall(
                    re.sub(rb"(d\0\0\0\x16k).{8}", false, block, flags=re.DOTALL)
                )


def test_a_position_that_the_server_does_not_have(feed: Feed) -> None:
    before = feed.confirmed(), walrow.Log(feed.log).end
    with (
        Lying(feed.server) as proxy,
        pytest.raises(ReplicationError, match="a position beyond the end of its WAL"),
    ):
        feed.receive(dsn=proxy.dsn)
    assert (feed.confirmed(), walrow.Log(feed.log).end) == before
    feed.execute("INSERT INTO item VALUES (7, 7, 'later')")
    feed.receive_now()
    check_tables(feed, "item")
