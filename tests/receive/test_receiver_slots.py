"""`walrow receive`: whether a slot continues where a log ends, and who else uses them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

import walrow
from servers import EmbeddedServer, create_slot, drop_slot
from servers.receiving import (
    QUICK,
    Feed,
    Load,
    drop_if_there,
    end_of_wal,
    execute,
    slot_for_load,
    until,
)
from servers.restored import Copy, copy_files
from walrow import Lsn
from walrow._receive.connector import Connector, Server, prefix_of_loads
from walrow._receive.events import Part
from walrow._receive.resuming import check_timeline
from walrow.errors import LogError, ReplicationError

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


@pytest.fixture
def feed(own: EmbeddedServer, tmp_path: Path) -> Iterator[Feed]:
    with slot_for_load(own) as slot:
        yield Feed(own, slot, tmp_path / "log")


def insert(feed: Feed, what: str = "x") -> None:
    feed.execute(f"INSERT INTO audit (what) VALUES ('{what}')")  # noqa: S608


def test_idle_database_whose_slot_must_advance(feed: Feed) -> None:
    """Only another database writes: the slot must not keep that WAL."""
    feed.execute("DROP DATABASE IF EXISTS other", "CREATE DATABASE other")
    insert(feed)
    with feed.receiver(*QUICK) as receiver:
        receiver.until_streaming()
        execute(
            feed.server.dsn_of("other"),
            "CREATE TABLE busy AS SELECT g FROM generate_series(1, 100000) g",
        )
        end = end_of_wal(feed.dsn)
        receiver.until_streaming(after=end)
        query = (
            f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots "  # noqa: S608
            f"WHERE slot_name = '{feed.slot}'"
        )
        wait_until(feed.server, query)
        receiver.stop()
    # Positions alone are no segments.
    assert len(walrow.Log(feed.log).segments()) == 1
    feed.execute("DROP DATABASE other")


def test_second_receiver_of_a_slot_says_who_has_it(feed: Feed, tmp_path: Path) -> None:
    dsn = f"{feed.dsn} application_name=first"
    with (
        feed.receiver(*QUICK, dsn=dsn, log=tmp_path / "one") as first,
        Load(feed.dsn, seed=1),
    ):
        first.until_streaming()
        with feed.receiver(*QUICK, "--cross-gap", log=tmp_path / "two") as second:
            state = second.until(lambda state: "is in use by" in (state["note"] or ""))
            assert "(first): stop that client" in state["note"]
            first.stop()
            # What the first one has confirmed is in its log only.
            second.until_streaming()
            second.stop()


def test_two_writers_of_a_log(feed: Feed) -> None:
    with feed.receiver(*QUICK) as first:
        first.until_streaming()
        with pytest.raises(
            LogError, match="another process writes to the log"
        ) as caught:
            feed.receive_now()
        assert caught.value.code == "locked"
        with feed.receiver() as second:
            text = second.ended(1)
        assert "another process writes to the log" in text


def test_slot_that_nobody_created(feed: Feed) -> None:
    advice = 'slot "nobody" does not exist; create it with walrow slot create nobody, or with'
    with pytest.raises(ReplicationError) as raised:
        feed.receive_now(slot="nobody")
    assert str(raised.value) == f"{advice} create=True"
    with feed.receiver(slot="nobody") as receiver:
        text = receiver.ended(1)
    assert f"{advice} --create" in text


def test_slot_that_lost_its_wal(feed: Feed) -> None:
    insert(feed)
    feed.receive_now()
    wal = "SELECT pg_logical_emit_message(false, 'x', repeat('x', 30000000))"
    for _ in range(5):
        feed.execute(wal, "SELECT pg_switch_wal()")
    feed.execute("CHECKPOINT")
    with pytest.raises(ReplicationError, match="has removed WAL that it needs"):
        feed.receive_now()


def test_slot_that_was_idle_for_too_long(feed: Feed) -> None:
    if feed.server.major < 18:
        pytest.skip("the server keeps idle slots")
    reload = "SELECT pg_reload_conf()"
    timeout = "idle_replication_slot_timeout"
    feed.execute(f"ALTER SYSTEM SET {timeout} = '1s'", reload)
    try:
        time.sleep(1.5)
        feed.execute("CHECKPOINT")
    finally:
        feed.execute(f"ALTER SYSTEM RESET {timeout}", reload)
    with pytest.raises(ReplicationError, match=r"invalidated it \(idle_timeout\): c"):
        feed.receive_now()


def test_slot_that_is_lost_while_it_is_read(feed: Feed) -> None:
    """The slot keeps WAL for an open transaction, until it is too much."""
    with feed.receiver(*QUICK) as receiver:
        receiver.until_streaming()
        receiver.process.send_signal(19)  # SIGSTOP
        wal = "SELECT pg_logical_emit_message(false, 'x', repeat('x', 30000000))"
        for _ in range(5):
            feed.execute(wal, "SELECT pg_switch_wal()")
        feed.execute("CHECKPOINT")
        receiver.process.send_signal(18)  # SIGCONT
        text = receiver.ended(1)
    assert "has removed WAL that it needs" in text


def test_slot_that_was_dropped_and_created_again(feed: Feed, tmp_path: Path) -> None:
    insert(feed)
    feed.receive_now()
    begun = walrow.Log(feed.log)
    assert begun.slot_start is not None
    assert begun.slot_start <= begun.end
    drop_slot(feed.dsn, feed.slot)
    with pytest.raises(ReplicationError, match="does not exist, and the log ends at"):
        feed.receive(create=True)
    insert(feed, "lost")
    create_slot(feed.dsn, feed.slot, two_phase=False)
    with pytest.raises(ReplicationError, match="it was created again"):
        feed.receive_now()
    # A new log says that it lacks what the old one does not have.
    insert(feed)
    again = tmp_path / "again"
    feed.receive_now(log=again)
    found = walrow.Log(again)
    assert found.source == begun.source
    assert found.slot_start is not None
    assert found.slot_start > begun.end
    # So does one whose receiver has created the slot.
    drop_slot(feed.dsn, feed.slot)
    feed.receive(log=tmp_path / "new", create=True, until="now")
    insert(feed)
    feed.receive_now(log=tmp_path / "new")
    last = walrow.Log(tmp_path / "new").slot_start
    assert last is not None
    assert last >= found.end


@pytest.mark.parametrize(
    "is_running", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_server_that_is_restored_from_an_older_copy(
    tmp_path: Path, *, is_running: bool
) -> None:
    """The log has transactions at the LSNs where the server puts others."""
    with EmbeddedServer(18) as server:
        feed = Feed(server, "s", tmp_path / "log")
        feed.execute(Load.SETUP, "CREATE PUBLICATION p FOR TABLE audit")
        insert(feed)
        feed.receive_all("--create")
        copy = Copy(server)
        wal = "SELECT pg_logical_emit_message(false, 'x', repeat('x', 30000000))"
        with feed.receiver(*QUICK) as receiver:
            receiver.until_streaming()
            feed.execute(wal)
            insert(feed, "lost with the copy")
            feed.until_all(receiver)
            if not is_running:
                receiver.stop()
            copy.put_back()
            insert(feed, "where the log has another transaction")
            if is_running:
                text = receiver.ended(1)
        if not is_running:
            with feed.receiver(*QUICK) as receiver:
                text = receiver.ended(1)
    assert "the server was restored from an older copy" in text


def test_what_is_asked_of_a_slot_that_exists(feed: Feed) -> None:
    # A publication has its own tables.
    feed.execute("CREATE TABLE IF NOT EXISTS unpublished (id int PRIMARY KEY)")
    oid = feed.execute("SELECT 'unpublished'::regclass::oid::int")[0][0]
    for table in ("unpublished", ("public", "unpublished"), oid):
        with pytest.raises(ReplicationError, match="table-unpublished") as caught:
            feed.receive(create=True, tables=["audit", table])
        assert "ALTER PUBLICATION p ADD TABLE public.unpublished" in str(caught.value)
    feed.receive_all("--create", "--table", "audit")
    # A slot that is not copied to standbys is altered.
    copied = (
        f"SELECT failover FROM pg_replication_slots WHERE slot_name = '{feed.slot}'"  # noqa: S608
    )
    for _ in range(2):
        if feed.server.major >= 17:
            feed.receive_all("--failover")
            assert feed.execute(copied) == [(True,)]
        else:
            with pytest.raises(walrow.errors.OptionError, match="17"):
                feed.receive(failover=True)


def test_slot_that_is_dropped_while_it_is_read(feed: Feed) -> None:
    with feed.receiver(*QUICK) as receiver:
        insert(feed)
        feed.until_all(receiver)
        drop_if_there(feed.dsn, feed.slot)
        text = receiver.ended(1)
    assert "does not exist, and the log ends at" in text


def test_slot_that_another_client_advanced(feed: Feed) -> None:
    insert(feed)
    feed.receive_now()
    insert(feed, "lost")
    feed.execute(
        f"SELECT pg_replication_slot_advance('{feed.slot}', pg_current_wal_lsn())"
    )
    with pytest.raises(ReplicationError, match="another client used it"):
        feed.receive_now()


def test_empty_log_lacks_what_came_before(feed: Feed, tmp_path: Path) -> None:
    """The server does not say whether a slot was created there, or used by somebody else."""
    insert(feed, "of another client")
    ((position,),) = feed.execute(
        f"SELECT end_lsn FROM pg_replication_slot_advance('{feed.slot}', pg_current_wal_lsn())",  # noqa: S608
    )
    insert(feed)
    assert warnings_of(feed) == [
        f'warning: the log is empty, and slot "{feed.slot}" is at {position}: what was committed '
        "before is not in this log. That is where the slot was created, unless another "
        "client has used it since"
    ]
    assert sum(table.rows for table in walrow.Log(feed.log).tables()) == 1
    # Once, and not where it is clear.
    assert warnings_of(feed) == []
    for options in ({}, {"snapshot": True}):
        new = f"{feed.slot}_{len(options)}"
        other = replace(feed, slot=new, log=tmp_path / new)
        assert warnings_of(other, create=True, **options) == []
        drop_slot(feed.dsn, new)


def warnings_of(feed: Feed, **options: Any) -> list[str]:
    """What the receiver says of an empty log."""
    notes: list[str] = []
    feed.receive_now(progress=lambda it: notes.append(it.note or ""), **options)
    return [note for note in notes if "the log is empty" in note]


def test_other_sources(feed: Feed, tmp_path: Path) -> None:
    """A log has the changes of one slot in one database of one server."""
    insert(feed)
    feed.receive_now()
    other = f"{feed.slot}_2"
    create_slot(feed.dsn, other, two_phase=False)
    with pytest.raises(LogError, match="slot") as caught:
        feed.receive_now(slot=other)
    assert caught.value.code == "other_source"
    drop_slot(feed.dsn, other)

    feed.execute("DROP DATABASE IF EXISTS other", "CREATE DATABASE other")
    with pytest.raises(LogError, match="database"):
        feed.receive(dsn=feed.server.dsn_of("other"))
    with pytest.raises(ReplicationError, match="it belongs to database postgres"):
        feed.receive(dsn=feed.server.dsn_of("other"), log=tmp_path / "new")
    feed.execute("DROP DATABASE other")

    with (
        EmbeddedServer(18) as server,
        slot_for_load(server) as there,
        pytest.raises(LogError, match="system identifier"),
    ):
        feed.receive_now(dsn=server.dsn, slot=there)


def test_publication_that_is_dropped_in_mid_stream(feed: Feed) -> None:
    with feed.receiver(*QUICK) as receiver:
        insert(feed)
        feed.until_all(receiver)
        feed.execute("DROP PUBLICATION p")
        insert(feed)
        text = receiver.ended(1)
    assert "publication" in text
    # What was committed before is there.
    assert sum(table.rows for table in walrow.Log(feed.log).tables()) == 1


def test_publication_that_does_not_exist(feed: Feed) -> None:
    with pytest.raises(
        ReplicationError, match=r"there is no publication nothing.*CREATE"
    ):
        feed.receive(publications="nothing", until="now")


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_missing_publication_leaves_no_slot(
    feed: Feed, tmp_path: Path, *, snapshot: bool
) -> None:
    slots = "SELECT slot_name FROM pg_replication_slots ORDER BY 1"
    before = feed.execute(slots)
    wrong: dict[str, Any] = {"log": tmp_path / "new", "slot": "unmade", "until": "now"}
    with pytest.raises(ReplicationError, match=r"no publication nothing.*CREATE") as it:
        feed.receive(publications="nothing", create=True, snapshot=snapshot, **wrong)
    assert (it.value.sqlstate, it.value.publication) == ("42704", "nothing")
    assert feed.execute(slots) == before
    # The same log can be used with the right name.
    try:
        feed.receive(create=True, snapshot=snapshot, **wrong)
    finally:
        drop_slot(feed.dsn, "unmade")


def test_the_slot_of_a_load_whose_receiver_was_killed_is_dropped(feed: Feed) -> None:
    """Its walsender may wait, and not notice that its client is gone."""
    slots = "SELECT slot_name FROM pg_replication_slots WHERE temporary"
    names = [prefix_of_loads(it) + "0" for it in (feed.slot, "of_another_receiver")]
    with (
        psycopg.connect(feed.dsn, replication="database", autocommit=True) as own,
        psycopg.connect(feed.dsn, replication="database", autocommit=True) as other,
    ):
        for conn, name in zip((own, other), names, strict=True):
            conn.execute(f"CREATE_REPLICATION_SLOT {name} TEMPORARY LOGICAL pgoutput")
        feed.receive_now()
        until(lambda: feed.execute(slots) == [(names[1],)])
        with pytest.raises(psycopg.OperationalError):
            own.execute("IDENTIFY_SYSTEM")


def test_a_slot_that_is_gone_before_it_is_dropped(feed: Feed) -> None:
    """It was not ready yet when its receiver was killed, so it ended with the connection."""
    given = {"dbname": "postgres", "host": str(feed.server.socket_directory)}
    given |= {"user": "postgres"}
    server = Server(given, "never_there", ("p",), None, False, False, False)
    read, write = os.pipe()
    connector = Connector(server, read, lambda _: None)
    try:
        connector.do(connector.connect, 1, lambda: None).result()
        made = connector.do(connector.make, 1, frozenset({Part.DROP}), lambda _: None)
        assert made.result().start is None
    finally:
        connector.leave()
        os.close(read)
        os.close(write)


def test_recovered_server(tmp_path: Path) -> None:
    """A server on a new timeline has what was received. One from an old copy does not."""
    with EmbeddedServer(18) as server, slot_for_load(server) as slot:
        feed, copy = Feed(server, slot, tmp_path / "log"), tmp_path / "copy"
        insert(feed)
        feed.receive_now()
        recover(server)
        insert(feed)
        feed.receive_now()
        feed.check(["audit"])
        # The timeline is in the log: a server that continues with it is the same one.
        feed.receive_now()

        server.shut_down("fast")
        copy_files(server.data_directory, copy)
        server.start()
        insert(feed, "only in the log")
        feed.receive_now()
        server.shut_down("fast")
        shutil.rmtree(server.data_directory)
        copy_files(copy, server.data_directory)
        recover(server)
        insert(feed, "only on the server")
        with pytest.raises(
            ReplicationError, match="transactions that this server does"
        ):
            feed.receive_now()


@pytest.mark.parametrize(
    ("history", "refusal"),
    [
        ([(1, Lsn("0/500"), "")], None),
        ([(1, Lsn("0/400"), "")], None),
        ([(1, Lsn("0/3FF"), "")], "ended at 0/3FF"),
        ([(2, Lsn("0/500"), "")], "is not in its history"),
        ([], "is not in its history"),
    ],
)
def test_timelines(history: list[tuple[int, Lsn, str]], refusal: str | None) -> None:
    def check() -> None:
        check_timeline(1, 3, history, Lsn("0/400"), "s")

    if refusal is None:
        check()
    else:
        with pytest.raises(ReplicationError, match=f"{refusal}: the log has"):
            check()


def recover(server: EmbeddedServer) -> None:
    """Lets a server recover its own WAL up to the end, on a new timeline."""
    server.shut_down("fast")
    with (server.data_directory / "postgresql.conf").open("a") as settings:
        settings.write("restore_command = 'false'\n")
    (server.data_directory / "recovery.signal").touch(mode=0o644)
    server.start()
    wait_until(server, "SELECT NOT pg_is_in_recovery()")


def wait_until(server: EmbeddedServer, query: str) -> None:
    deadline = time.monotonic() + 20
    while execute(server.dsn, query) != [(True,)]:
        assert time.monotonic() < deadline, query
        time.sleep(0.1)
