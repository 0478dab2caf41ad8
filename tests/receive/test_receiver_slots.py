"""`walrow receive`: whether a slot continues where a log ends, and who else uses them."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import walrow
from servers import EmbeddedServer, create_slot, drop_slot
from servers.receiving import (
    Load,
    ReceiverProcess,
    check_log,
    drop_if_there,
    end_of_wal,
    execute,
    receive_all,
    slot_for_load,
)
from walrow import Lsn
from walrow._receive.resuming import check_timeline
from walrow.errors import LogError, ReplicationError
from walrow.log import Received

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

QUICK = ("--publish-after", "0.3", "--segment-size", "1MiB")


@pytest.fixture
def slot(own: EmbeddedServer) -> Iterator[str]:
    with slot_for_load(own) as name:
        yield name


def insert(server: EmbeddedServer, what: str = "x") -> None:
    execute(server.dsn, f"INSERT INTO audit (what) VALUES ('{what}')")  # noqa: S608


def receive(server: EmbeddedServer, log: Path, slot: str) -> Received:
    return walrow.receive(
        server.dsn, log=log, slot=slot, publications="p", until="now", publish_after=0.3
    )


def test_idle_database_whose_slot_must_advance(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """Only another database writes: the slot must not keep that WAL."""
    execute(own.dsn, "DROP DATABASE IF EXISTS other", "CREATE DATABASE other")
    insert(own)
    log = tmp_path / "log"
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot) as receiver:
        receiver.until_streaming()
        execute(
            own.dsn_of("other"),
            "CREATE TABLE busy AS SELECT g FROM generate_series(1, 100000) g",
        )
        end = end_of_wal(own.dsn)
        receiver.until_streaming(after=end)
        query = (
            f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots "  # noqa: S608
            f"WHERE slot_name = '{slot}'"
        )
        wait_until(own, query)
        receiver.stop()
    # Positions alone are no segments.
    assert len(walrow.Log(log).segments()) == 1
    execute(own.dsn, "DROP DATABASE other")


def test_second_receiver_of_a_slot_says_who_has_it(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    dsn = f"{own.dsn} application_name=first"
    with (
        ReceiverProcess(dsn, tmp_path / "one", *QUICK, slot=slot) as first,
        Load(own.dsn, seed=1),
    ):
        first.until_streaming()
        with ReceiverProcess(own.dsn, tmp_path / "two", *QUICK, slot=slot) as second:
            state = second.until(lambda state: "is in use by" in (state["note"] or ""))
            assert "(first): stop that client" in state["note"]
            first.stop()
            # What the first one has confirmed is in its log only.
            second.until_streaming()
            second.stop()


def test_two_writers_of_a_log(own: EmbeddedServer, slot: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot) as first:
        first.until_streaming()
        with pytest.raises(
            LogError, match="another process writes to the log"
        ) as caught:
            receive(own, log, slot)
        assert caught.value.code == "locked"
        with ReceiverProcess(own.dsn, log, slot=slot) as second:
            code, text = second.wait()
        assert code == 1
        assert "another process writes to the log" in text


def test_slot_that_nobody_created(own: EmbeddedServer, tmp_path: Path) -> None:
    advice = 'slot "nobody" does not exist; create it with walrow slot create nobody, or with'
    with pytest.raises(ReplicationError) as raised:
        receive(own, tmp_path / "log", "nobody")
    assert str(raised.value) == f"{advice} create=True"
    with ReceiverProcess(own.dsn, tmp_path / "log", slot="nobody") as receiver:
        code, text = receiver.wait()
    assert code == 1
    assert f"{advice} --create" in text


def test_slot_that_lost_its_wal(own: EmbeddedServer, slot: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    insert(own)
    receive(own, log, slot)
    wal = "SELECT pg_logical_emit_message(false, 'x', repeat('x', 30000000))"
    for _ in range(5):
        execute(own.dsn, wal, "SELECT pg_switch_wal()")
    execute(own.dsn, "CHECKPOINT")
    with pytest.raises(ReplicationError, match="has removed WAL that it needs"):
        receive(own, log, slot)


def test_slot_that_was_idle_for_too_long(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    if own.major < 18:
        pytest.skip("the server keeps idle slots")
    reload = "SELECT pg_reload_conf()"
    timeout = "idle_replication_slot_timeout"
    execute(own.dsn, f"ALTER SYSTEM SET {timeout} = '1s'", reload)
    try:
        time.sleep(1.5)
        execute(own.dsn, "CHECKPOINT")
    finally:
        execute(own.dsn, f"ALTER SYSTEM RESET {timeout}", reload)
    with pytest.raises(ReplicationError, match=r"invalidated it \(idle_timeout\): c"):
        receive(own, tmp_path / "log", slot)


def test_slot_that_is_lost_while_it_is_read(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """The slot keeps WAL for an open transaction, until it is too much."""
    log = tmp_path / "log"
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot) as receiver:
        receiver.until_streaming()
        receiver.process.send_signal(19)  # SIGSTOP
        wal = "SELECT pg_logical_emit_message(false, 'x', repeat('x', 30000000))"
        for _ in range(5):
            execute(own.dsn, wal, "SELECT pg_switch_wal()")
        execute(own.dsn, "CHECKPOINT")
        receiver.process.send_signal(18)  # SIGCONT
        code, text = receiver.wait()
    assert code == 1
    assert "has removed WAL that it needs" in text


def test_slot_that_was_dropped_and_created_again(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    insert(own)
    receive(own, log, slot)
    begun = walrow.Log(log)
    assert begun.slot_start is not None
    assert begun.slot_start <= begun.end
    drop_slot(own.dsn, slot)
    with pytest.raises(ReplicationError, match="does not exist, and the log ends at"):
        walrow.receive(own.dsn, log=log, slot=slot, publications="p", create=True)
    insert(own, "lost")
    create_slot(own.dsn, slot, two_phase=False)
    with pytest.raises(ReplicationError, match="it was created again"):
        receive(own, log, slot)
    # A new log says that it lacks what the old one does not have.
    insert(own)
    again = tmp_path / "again"
    receive(own, again, slot)
    found = walrow.Log(again)
    assert found.source == begun.source
    assert found.slot_start is not None
    assert found.slot_start > begun.end
    # So does one whose receiver has created the slot.
    drop_slot(own.dsn, slot)
    walrow.receive(
        own.dsn,
        log=tmp_path / "new",
        slot=slot,
        publications="p",
        create=True,
        until="now",
    )
    insert(own)
    receive(own, tmp_path / "new", slot)
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
    log = tmp_path / "log"
    with EmbeddedServer(18) as server:
        execute(server.dsn, Load.SETUP, "CREATE PUBLICATION p FOR TABLE audit")
        insert(server)
        receive_all(server.dsn, log, "--create")
        data = server.data_directory
        server.shut_down("fast")
        older = data.with_name("older")
        subprocess.run(["cp", "-a", data, older], check=True)  # noqa: S603, S607
        server.start()
        wal = "SELECT pg_logical_emit_message(false, 'x', repeat('x', 30000000))"
        with ReceiverProcess(server.dsn, log, *QUICK) as receiver:
            receiver.until_streaming()
            execute(server.dsn, wal)
            insert(server, "lost with the copy")
            receiver.until_streaming(after=end_of_wal(server.dsn))
            if not is_running:
                receiver.stop()
            server.shut_down("fast")
            shutil.rmtree(data)
            older.rename(data)
            server.start()
            insert(server, "where the log has another transaction")
            if is_running:
                code, text = receiver.wait()
        if not is_running:
            with ReceiverProcess(server.dsn, log, *QUICK) as receiver:
                code, text = receiver.wait()
    assert code == 1
    assert "the server was restored from an older copy" in text


def test_what_is_asked_of_a_slot_that_exists(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    # A publication has its own tables.
    execute(own.dsn, "CREATE TABLE IF NOT EXISTS unpublished (id int PRIMARY KEY)")
    oid = execute(own.dsn, "SELECT 'unpublished'::regclass::oid::int")[0][0]
    for table in ("unpublished", ("public", "unpublished"), oid):
        with pytest.raises(ReplicationError, match="table-unpublished") as caught:
            walrow.receive(
                own.dsn,
                log=tmp_path / "log",
                slot=slot,
                publications="p",
                create=True,
                tables=["audit", table],
            )
        assert "ALTER PUBLICATION p ADD TABLE public.unpublished" in str(caught.value)
    receive_all(own.dsn, tmp_path / "log", "--create", "--table", "audit", slot=slot)
    # A slot that is not copied to standbys is altered.
    copied = f"SELECT failover FROM pg_replication_slots WHERE slot_name = '{slot}'"  # noqa: S608
    for _ in range(2):
        if own.major >= 17:
            receive_all(own.dsn, tmp_path / "log", "--failover", slot=slot)
            assert execute(own.dsn, copied) == [(True,)]
        else:
            with pytest.raises(walrow.errors.OptionError, match="17"):
                walrow.receive(
                    own.dsn,
                    log=tmp_path / "log",
                    slot=slot,
                    publications="p",
                    failover=True,
                )


def test_slot_that_is_dropped_while_it_is_read(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    with ReceiverProcess(own.dsn, tmp_path / "log", *QUICK, slot=slot) as receiver:
        insert(own)
        receiver.until_streaming(after=end_of_wal(own.dsn))
        drop_if_there(own.dsn, slot)
        code, text = receiver.wait()
    assert code == 1
    assert "does not exist, and the log ends at" in text


def test_slot_that_another_client_advanced(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    insert(own)
    receive(own, log, slot)
    insert(own, "lost")
    execute(
        own.dsn,
        f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())",
    )
    with pytest.raises(ReplicationError, match="another client used it"):
        receive(own, log, slot)


def test_empty_log_lacks_what_came_before(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """The server does not say whether a slot was created there, or used by somebody else."""
    log = tmp_path / "log"
    insert(own, "of another client")
    ((position,),) = execute(
        own.dsn,
        f"SELECT end_lsn FROM pg_replication_slot_advance('{slot}', pg_current_wal_lsn())",  # noqa: S608
    )
    insert(own)
    assert warnings_of(own, log, slot) == [
        f'warning: the log is empty, and slot "{slot}" is at {position}: what was committed '
        "before is not in this log. That is where the slot was created, unless another "
        "client has used it since"
    ]
    assert sum(table.rows for table in walrow.Log(log).tables()) == 1
    # Once, and not where it is clear.
    assert warnings_of(own, log, slot) == []
    for options in ({}, {"snapshot": True}):
        new = f"{slot}_{len(options)}"
        assert warnings_of(own, tmp_path / new, new, create=True, **options) == []
        drop_slot(own.dsn, new)


def warnings_of(
    server: EmbeddedServer, log: Path, slot: str, **options: Any
) -> list[str]:
    """What the receiver says of an empty log."""
    notes: list[str] = []
    walrow.receive(
        server.dsn,
        log=log,
        slot=slot,
        publications="p",
        until="now",
        publish_after=0.3,
        status=lambda state: notes.append(state.note or ""),
        **options,
    )
    return [note for note in notes if "the log is empty" in note]


def test_other_sources(own: EmbeddedServer, slot: str, tmp_path: Path) -> None:
    """A log has the changes of one slot in one database of one server."""
    log = tmp_path / "log"
    insert(own)
    receive(own, log, slot)
    other = f"{slot}_2"
    create_slot(own.dsn, other, two_phase=False)
    with pytest.raises(LogError, match="slot") as caught:
        receive(own, log, other)
    assert caught.value.code == "other_source"
    drop_slot(own.dsn, other)

    execute(own.dsn, "DROP DATABASE IF EXISTS other", "CREATE DATABASE other")
    with pytest.raises(LogError, match="database"):
        walrow.receive(own.dsn_of("other"), log=log, slot=slot, publications="p")
    with pytest.raises(ReplicationError, match="it belongs to database postgres"):
        walrow.receive(
            own.dsn_of("other"), log=tmp_path / "new", slot=slot, publications="p"
        )
    execute(own.dsn, "DROP DATABASE other")

    with (
        EmbeddedServer(18) as server,
        slot_for_load(server) as there,
        pytest.raises(LogError, match="system identifier"),
    ):
        receive(server, log, there)


def test_publication_that_is_dropped_in_mid_stream(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot) as receiver:
        insert(own)
        receiver.until_streaming(after=end_of_wal(own.dsn))
        execute(own.dsn, "DROP PUBLICATION p")
        insert(own)
        code, text = receiver.wait()
    assert code == 1
    assert "publication" in text
    # What was committed before is there.
    assert sum(table.rows for table in walrow.Log(log).tables()) == 1


def test_publication_that_does_not_exist(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    with pytest.raises(
        ReplicationError, match=r"there is no publication nothing.*CREATE"
    ):
        walrow.receive(
            own.dsn,
            log=tmp_path / "log",
            slot=slot,
            publications="nothing",
            until="now",
        )


def test_recovered_server(tmp_path: Path) -> None:
    """A server on a new timeline has what was received. One from an old copy does not."""
    with EmbeddedServer(18) as server, slot_for_load(server) as slot:
        log, copy = tmp_path / "log", tmp_path / "copy"
        insert(server)
        receive(server, log, slot)
        recover(server)
        insert(server)
        receive(server, log, slot)
        check_log(server.dsn, log, ["audit"])
        # The timeline is in the log: a server that continues with it is the same one.
        receive(server, log, slot)

        server.shut_down("fast")
        subprocess.run(["cp", "-a", server.data_directory, copy], check=True)  # noqa: S603, S607
        server.start()
        insert(server, "only in the log")
        receive(server, log, slot)
        server.shut_down("fast")
        shutil.rmtree(server.data_directory)
        subprocess.run(["cp", "-a", copy, server.data_directory], check=True)  # noqa: S603, S607
        recover(server)
        insert(server, "only on the server")
        with pytest.raises(
            ReplicationError, match="transactions that this server does"
        ):
            receive(server, log, slot)


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
