"""`walrow receive`: whether the log was received from the same server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import check_log, end_of_wal, execute
from servers.restored import Copy, copy_files
from walrow._log.stopped import read_stopped
from walrow.errors import ReplicationError
from walrow.log import Received, Status

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

TABLES = ("item", "other")
SETUP = (
    "CREATE TABLE item (id serial PRIMARY KEY, v text)",
    "CREATE TABLE other (id serial PRIMARY KEY, v text)",
    "CREATE PUBLICATION p FOR TABLE item, other",
    "CREATE PUBLICATION q FOR TABLE other",
)


@pytest.fixture(
    params=[
        pytest.param(18, id="embedded-18"),
        pytest.param(16, marks=pytest.mark.slow, id="embedded-16"),
    ]
)
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    settings = {"max_prepared_transactions": "10"}
    with EmbeddedServer(
        request.param, logical_decoding_work_mem="64kB", settings=settings
    ) as running:
        execute(running.dsn, *SETUP)
        yield running


def receive(server: EmbeddedServer, log: Path, **options: Any) -> Received:
    given = {"publications": "p", "until": "now", "publish_after": 0.1, **options}
    return walrow.receive(server.dsn, log=log, slot=log.name, **given)


def insert(server: EmbeddedServer, what: str = "x", table: str = "item") -> None:
    execute(server.dsn, f"INSERT INTO {table} (v) VALUES ('{what}')")  # noqa: S608


def message(server: EmbeddedServer, content: str, size: int = 0) -> None:
    text = f"SELECT pg_logical_emit_message(false, 'm', '{content}' || repeat('x', {size}))"
    execute(server.dsn, text)


def prepare(server: EmbeddedServer, gid: str) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO item (v) VALUES ('prepared')")
        connection.execute(f"PREPARE TRANSACTION '{gid}'".encode())


def large(server: EmbeddedServer) -> None:
    rows = "INSERT INTO item (v) SELECT repeat('l', 100) FROM generate_series(1, 3000)"
    execute(server.dsn, rows)


def pass_by(server: EmbeddedServer, end: str) -> None:
    """Writes WAL that no log has, until the server is past an LSN."""
    at = f"SELECT pg_current_wal_flush_lsn() > '{end}'"
    while not execute(server.dsn, at)[0][0]:
        execute(
            server.dsn,
            "CREATE TABLE filling AS SELECT repeat('f', 1000) FROM generate_series(1, 100)",
            "DROP TABLE filling",
        )
    insert(server, "later")


def pass_without_transactions(server: EmbeddedServer, end: str) -> None:
    at = f"SELECT pg_current_wal_flush_lsn() > '{end}'"
    while not execute(server.dsn, at)[0][0]:
        message(server, "", 300_000)


def test_a_server_that_was_set_back(server: EmbeddedServer, tmp_path: Path) -> None:
    """Its WAL has passed the end of each log, before anybody looked."""
    options: dict[str, dict[str, Any]] = {
        "rows": {},
        "pruned": {},
        "messages": {"messages": True},
        "prepared": {"two_phase": True},
        "moved": {},
    }
    logs = {name: tmp_path / name for name in options}
    for name, log in logs.items():
        receive(server, log, create=True, **options[name])
    copy = Copy(server)
    insert(server, "undone")
    large(server)
    insert(server, "undone", "other")
    message(server, "undone")
    prepare(server, "g")
    for name, log in logs.items():
        if name != "prepared":
            receive(server, log, **options[name])
    execute(server.dsn, "ROLLBACK PREPARED 'g'")
    receive(server, logs["prepared"], **options["prepared"])
    walrow.Log(logs["pruned"]).prune(walrow.Log(logs["pruned"]).end)
    # Only its position goes on, with a keepalive.
    undone = end_of_wal(server.dsn)
    message(server, "", 3_000_000)
    receive(server, logs["moved"])
    before = walrow.Log(logs["rows"]).segments()
    end = end_of_wal(server.dsn)
    copy.put_back()
    # A slot that is created again, without any new transaction.
    execute(server.dsn, "SELECT pg_drop_replication_slot('moved')")
    pass_without_transactions(server, undone)
    execute(
        server.dsn,
        "SELECT pg_create_logical_replication_slot('moved', 'pgoutput')",
    )
    pass_without_transactions(server, end)
    with pytest.raises(ReplicationError, match="has not begun it yet"):
        receive(server, logs["moved"])
    pass_by(server, end)
    for name in ("rows", "pruned", "messages", "prepared"):
        log, given = logs[name], options[name]
        confirmed = f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{name}'"  # noqa: S608
        at = execute(server.dsn, confirmed)
        files = {each.name for each in log.iterdir() if each.suffix == ".zst"}
        with pytest.raises(ReplicationError, match="or is another one") as caught:
            receive(server, log, **given)
        assert "Begin with a new slot, a new log, and a new copy" in str(caught.value)
        assert execute(server.dsn, confirmed) == at
        assert {each.name for each in log.iterdir() if each.suffix == ".zst"} == files
    # Later starts do not even connect.
    log = logs["rows"]
    with pytest.raises(ReplicationError, match="the log must not go on"):
        walrow.receive("host=/nowhere", log=log, slot="rows", publications="p")
    walrow.Log(log).verify()
    assert walrow.Log(log).segments() == before
    # It was the right server, as far as walrow knows.
    assert walrow.Log(log).resume() is not None
    with pytest.raises(ReplicationError, match="or is another one"):
        receive(server, log)
    assert read_stopped(log) is not None
    # The new options do not matter.
    walrow.Log(log).resume()
    with pytest.raises(ReplicationError, match="or is another one"):
        receive(server, log, publications="q", messages=True)


def test_a_slot_of_a_set_back_server_between_the_last_change_and_the_log_s_end(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Only the state of the log's last transaction shows it."""
    next_xid = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    last = {}
    names = {"aborted": "q", "in_progress": "p"}

    def receive_from(name: str) -> None:
        receive(server, tmp_path / name, publications=names[name])

    for name, publication in names.items():
        log = tmp_path / name
        receive(server, log, create=True, publications=publication)
    copy = Copy(server)
    for name, table in [("aborted", "other"), ("in_progress", "item")]:
        last[name] = execute(server.dsn, next_xid)[0][0]
        insert(server, name, table)
        receive_from(name)
    undone = end_of_wal(server.dsn)
    message(server, "", 3_000_000)
    for name in names:
        receive_from(name)
    end = end_of_wal(server.dsn)
    copy.put_back()

    def burn(until: int) -> None:
        """Uses up transaction IDs."""
        while execute(server.dsn, next_xid)[0][0] < until:
            execute(server.dsn, "SELECT pg_current_xact_id()")

    for name in names:
        execute(server.dsn, f"SELECT pg_drop_replication_slot('{name}')")
    pass_without_transactions(server, undone)
    for name in names:
        create = f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')"
        execute(server.dsn, create)
    pass_without_transactions(server, end)
    burn(last["aborted"])
    with psycopg.connect(server.dsn) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        connection.rollback()
    with pytest.raises(ReplicationError, match="has rolled it back"):
        receive_from("aborted")
    burn(last["in_progress"])
    with psycopg.connect(server.dsn) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        with pytest.raises(ReplicationError, match="has not committed it"):
            receive_from("in_progress")


def check_messages(log: Path) -> None:
    """Each came once."""
    found = [it for it in walrow.messages(log) if hasattr(it, "content")]
    texts = [it.content[:3] for it in found if it.content[:1] in {b"m", b"n"}]
    assert texts == [b"m0", b"m1", b"m2", b"new"]


@pytest.mark.slow
def test_a_server_that_was_not_set_back(server: EmbeddedServer, tmp_path: Path) -> None:
    """It crashed, and its slots are where they were long ago."""
    options: dict[str, dict[str, Any]] = {
        "rows": {},
        "loaded": {"snapshot": True},
        "pruned": {},
        "messages": {"messages": True},
        "two_phase": {"two_phase": True},
        "idle": {},
        "options": {"publications": "p"},
    }
    logs = {name: tmp_path / name for name in options}
    for name, log in logs.items():
        receive(server, log, create=True, **options[name])
    options["loaded"] = {}
    confirmed = (
        "SELECT slot_name, confirmed_flush_lsn - '0/0' FROM pg_replication_slots"
    )
    execute(server.dsn, "CHECKPOINT")
    slots = server.data_directory / "pg_replslot"
    copy_files(slots, tmp_path / "slots")
    # Nothing but its first load has come.
    received = {"loaded": receive(server, logs["loaded"]).position}
    for number in range(3):
        insert(server)
        large(server)
        insert(server, "x", "other")
        prepare(server, f"open {number}")
        prepare(server, f"committed {number}")
        execute(server.dsn, f"COMMIT PREPARED 'committed {number}'")
        for name in ("rows", "two_phase", "options"):
            receive(server, logs[name], **options[name])
    received["pruned"] = receive(server, logs["pruned"]).position
    prepare(server, "rolled back")
    receive(server, logs["two_phase"], two_phase=True)
    execute(server.dsn, "ROLLBACK PREPARED 'rolled back'")
    receive(server, logs["two_phase"], two_phase=True)
    for number in range(3):
        message(server, f"m{number}")
        receive(server, logs["messages"], messages=True)
    message(server, "", 1_000_000)
    received |= {
        name: receive(server, logs[name], **options[name]).position for name in logs
    }
    walrow.Log(logs["pruned"]).prune(received["pruned"])
    # The slots go back to the checkpoint, as after a crash that lost their later positions.
    server.shut_down("kill")
    shutil.rmtree(slots)
    copy_files(tmp_path / "slots", slots)
    server.start()
    last = dict(execute(server.dsn, confirmed))
    assert min(received[name] - last[name] for name in logs) > 1_000_000
    # Nobody writes meanwhile.
    assert receive(server, logs["idle"]).position >= received["idle"]
    for number in range(2):
        execute(server.dsn, f"COMMIT PREPARED 'open {number}'")
    insert(server, "new", "other")
    message(server, "new")
    for name, log in logs.items():
        receive(server, log, **options[name])
        if name in {"rows", "loaded", "idle", "two_phase", "messages", "options"}:
            check_log(server.dsn, log, TABLES)
    check_messages(logs["messages"])
    # Other options are given: the server is compared with the log's options first.
    server.restart("kill")
    insert(server, "not in q")
    insert(server, "in q", "other")
    notes: list[Status] = []
    log = logs["options"]
    rows = receive(server, log, publications="q", progress=notes.append).rows
    assert rows == 1
    insert(server, "in q, too", "other")
    assert receive(server, log, publications="q").rows == 1


@pytest.mark.slow
def test_a_crash_that_leaves_the_slot_500_mb_behind(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Once the log has everything, and once it was pruned up to its end."""
    logs = {name: tmp_path / name for name in ("whole", "pruned")}
    for log in logs.values():
        receive(server, log, create=True)
    execute(server.dsn, "CHECKPOINT")
    slots = server.data_directory / "pg_replslot"
    copy_files(slots, tmp_path / "slots")
    behind = end_of_wal(server.dsn)
    for _ in range(10):
        for _ in range(20):
            large(server)
        message(server, "", 50_000_000)
        for log in logs.values():
            receive(server, log)
    insert(server)
    end = {name: receive(server, log).position for name, log in logs.items()}
    assert min(end.values()) - walrow.Lsn(behind) > 500_000_000
    walrow.Log(logs["pruned"]).prune(end["pruned"])
    server.shut_down("kill")
    shutil.rmtree(slots)
    copy_files(tmp_path / "slots", slots)
    server.start()
    insert(server, "new")
    for log in logs.values():
        assert receive(server, log).rows == 1
    check_log(server.dsn, logs["whole"], TABLES)


@pytest.mark.slow
def test_a_server_that_was_promoted_to_the_same_timeline(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    receive(server, log, create=True)
    insert(server)
    receive(server, log)
    copy = Copy(server)
    promote(server)
    insert(server, "of this server")
    receive(server, log)
    receive(server, log)
    copy.put_back()
    message(server, "", 1_000_000)
    promote(server)
    end = walrow.Log(log).end
    pass_by(server, str(end))
    with pytest.raises(ReplicationError, match="timeline 2 began at"):
        receive(server, log)
    # It is promoted once more.
    promote(server)
    walrow.Log(log).resume()
    with pytest.raises(ReplicationError, match="timeline 2 began at"):
        receive(server, log)


def promote(server: EmbeddedServer) -> None:
    """Makes the server go on with the next timeline."""
    server.shut_down("fast")
    signal = server.data_directory / "standby.signal"
    signal.touch()
    owner = server.data_directory.stat()
    shutil.chown(signal, owner.st_uid, owner.st_gid)
    server.start()
    execute(server.dsn, "SELECT pg_promote()")


def test_a_receiver_whose_server_is_set_back_while_it_waits(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """It connects again, as after any restart of the server, and confirms nothing."""
    log = tmp_path / "log"
    receive(server, log, create=True)
    copy = Copy(server)
    insert(server, "undone")
    receive(server, log)
    end = walrow.Log(log).end
    is_set_back = False

    def status(state: Status) -> None:
        nonlocal is_set_back
        if state.state == "streaming" and not is_set_back:
            is_set_back = True
            copy.put_back()
            pass_by(server, str(end))

    with pytest.raises(ReplicationError, match="or is another one"):
        receive(server, log, until=None, progress=status)
    assert is_set_back
    assert read_stopped(log) is not None
