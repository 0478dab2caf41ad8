"""`walrow receive`: its connections and threads, which all end with it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import walrow
from servers import EmbeddedServer
from servers.loads import until_copying
from servers.receiving import Feed, Load, drop_if_there, execute, until
from walrow._log.requests import request

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


def threads() -> list[str]:
    """The threads that walrow has begun, and has not ended."""
    return [
        each.name for each in threading.enumerate() if each.name.startswith("walrow")
    ]


OWN = (
    "SELECT application_name, query FROM pg_stat_activity"
    " WHERE application_name LIKE 'walrow%'"
)


def check_nothing_is_left(dsn: str) -> None:
    assert threads() == []
    # A process of the server needs a moment to end after its client.
    deadline = time.monotonic() + 0.5
    while (left := execute(dsn, OWN)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []
    slots = (
        "SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'walrow_load%'"
    )
    assert execute(dsn, slots) == []


@contextlib.contextmanager
def configured(server: EmbeddedServer, **settings: str) -> Iterator[None]:
    """The server has other settings meanwhile."""
    change = [f"ALTER SYSTEM SET {name} = '{it}'" for name, it in settings.items()]
    execute(server.dsn, *change, "SELECT pg_reload_conf()")
    try:
        yield
    finally:
        reset = [f"ALTER SYSTEM RESET {name}" for name in settings]
        execute(server.dsn, *reset, "SELECT pg_reload_conf()")


def test_an_idle_receiver_keeps_one_connection_for_questions(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrow._receive.completeness._LOOK_SECONDS", 0.05)
    monkeypatch.setattr("walrow._receive.watch._WATCH_SECONDS", 0.05)
    monkeypatch.setattr("walrow._receive.driver._REPORT_SECONDS", 0.05)
    own = (
        "SELECT pid, application_name, state, query_start FROM pg_stat_activity"
        " WHERE application_name LIKE 'walrow (questions%'"
    )
    with (
        psycopg.connect(feed.dsn, autocommit=True) as connection,
        configured(feed.server, log_connections="on"),
        feed.receiving() as receiver,
    ):

        def opened() -> int:
            return feed.server.log.read_text(errors="replace").count(
                "connection received"
            )

        def asker() -> tuple[Any, ...]:
            found = connection.execute(own.encode()).fetchall()
            assert len(found) == 1
            return found[0]

        connection.execute("SET idle_session_timeout = 0")
        receiver.until_streaming()
        until(lambda: connection.execute(own.encode()).fetchone())
        time.sleep(0.3)
        begin = len(receiver.states)
        before, (first, name, *_, asked) = opened(), asker()
        assert name == f"walrow (questions for slot {feed.slot})"[:63]
        time.sleep(1)
        pid, *_, asked_again = asker()
        assert (opened(), pid) == (before, first)
        assert asked_again > asked
        # A look is one transaction, which ends with it.
        until(lambda: asker()[2] == "idle")

        # A timeout of the server does not end it.
        connection.execute("ALTER SYSTEM SET idle_session_timeout = '20ms'")
        connection.execute("SELECT pg_reload_conf()")
        time.sleep(0.7)
        connection.execute("ALTER SYSTEM RESET idle_session_timeout")
        connection.execute("SELECT pg_reload_conf()")
        assert (opened(), asker()[0]) == (before, first)

        # An administrator does.
        connection.execute("SELECT pg_terminate_backend(%s)", [first])
        until(lambda: opened() > before)
        time.sleep(0.5)
        assert opened() == before + 1
        second = asker()[0]
        assert second != first

        # An hour is over.
        monkeypatch.setattr("walrow._receive.askers._RENEWED_SECONDS", 0)
        until(lambda: opened() > before + 1)
        monkeypatch.undo()
        assert [it.note for it in receiver.states[begin:] if it.note] == []
        assert receiver.stop() < 2
        assert receiver.failure is None
    check_nothing_is_left(feed.dsn)


def test_a_stop_takes_less_than_a_second(feed: Feed, tmp_path: Path) -> None:
    """While it connects, gathers and copies. The best of three, as the machine may be busy."""
    times: dict[str, list[float]] = {}
    big = (
        "INSERT INTO long SELECT g, repeat('x', 2000) FROM generate_series(1, 50000) g"
    )
    feed.execute("DROP TABLE IF EXISTS long", "CREATE TABLE long (a int, b text)")
    feed.execute(big, "ALTER PUBLICATION p ADD TABLE long")
    first: dict[str, Any] = {"create": True, "snapshot": True, "jobs": 1}
    for turn in range(3):
        with socket.socket(socket.AF_UNIX) as listener:
            directory = tmp_path / f"{turn}"
            directory.mkdir()
            listener.bind(str(directory / ".s.PGSQL.5432"))
            listener.listen()
            dsn = f"host={directory} dbname=postgres user=postgres"
            with (
                feed.receiving(dsn=dsn, log=tmp_path / f"a{turn}") as receiver,
                # It never answers.
                listener.accept()[0],
            ):
                times.setdefault("connects", []).append(receiver.stop())
                assert threads() == []
        with (
            Load(feed.dsn, seed=turn, pause=0),
            feed.receiving(log=tmp_path / "b") as receiver,
        ):
            receiver.until_streaming()
            time.sleep(0.3)
            times.setdefault("gathers", []).append(receiver.stop())
        other = f"{feed.slot}_first"
        with contextlib.ExitStack() as stack:
            stack.callback(drop_if_there, feed.dsn, other)
            log = tmp_path / f"c{turn}"
            receiver = stack.enter_context(feed.receiving(log=log, slot=other, **first))
            until_copying(feed.server, "long")
            times.setdefault("copies", []).append(receiver.stop())
    feed.execute("DROP TABLE long")
    assert {what: min(each) < 1 for what, each in times.items()} == dict.fromkeys(
        ("connects", "gathers", "copies"), True
    ), times


def test_stop_while_a_look_waits_for_a_lock(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrow._receive.completeness._LOOK_SECONDS", 0.05)
    waits = (
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND application_name LIKE 'walrow%'"
    )
    with (
        psycopg.connect(feed.dsn) as connection,
        feed.receiving() as receiver,
    ):
        receiver.until_streaming()
        connection.execute("LOCK TABLE pg_publication_rel IN ACCESS EXCLUSIVE MODE")
        until(lambda: connection.execute(waits.encode()).fetchall())
        assert receiver.stop() < 2
        check_nothing_is_left(feed.dsn)
    assert receiver.failure is None


@pytest.mark.parametrize("held", ["a transaction", "a table"])
def test_stop_while_a_load_begins(feed: Feed, held: str) -> None:
    """Its connections, its temporary slot and its threads end with the receiver."""
    statement = {
        "a transaction": "INSERT INTO item VALUES (1, 1)",
        "a table": "LOCK TABLE item IN ACCESS EXCLUSIVE MODE",
    }[held]
    waits = (
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND application_name = 'walrow'"
    )
    with (
        psycopg.connect(feed.dsn) as connection,
        feed.receiving() as receiver,
    ):
        receiver.until_streaming()
        connection.execute(statement.encode())
        request(feed.log, ["public.item"])
        until(lambda: feed.execute(waits))
        assert receiver.stop() < 2
        check_nothing_is_left(feed.dsn)
    assert receiver.failure is None


def test_stop_while_the_first_load_waits_for_a_transaction(feed: Feed) -> None:
    name = f"{feed.slot}_2"
    options = {"create": True, "snapshot": True}
    with psycopg.connect(feed.dsn) as connection:
        connection.execute("INSERT INTO item VALUES (1, 1)")
        with feed.receiving(slot=name, **options) as receiver:
            until(lambda: any("waiting for" in it for it in receiver.notes))
            assert receiver.stop() < 2
        check_nothing_is_left(feed.dsn)
    assert feed.execute("SELECT slot_name FROM pg_replication_slots") == [(feed.slot,)]


def test_a_stop_that_receivers_share(feed: Feed) -> None:
    """A receiver that ends by itself does not stop the others."""
    stop = threading.Event()
    feed.receive(until="now", stop=stop)
    assert not stop.is_set()
    assert threads() == []


def test_no_query_is_compiled(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's default is jit=on: a query of the catalog then takes seconds."""
    found: list[tuple[str, str]] = []
    connect = psycopg.Connection.connect.__func__  # type: ignore[attr-defined]

    def connected(cls: Any, *arguments: Any, **options: Any) -> Any:
        conn = connect(cls, *arguments, **options)
        with conn.cursor() as cursor:
            # Without parameters: a walsender takes it too.
            (jit,) = cursor.execute("SHOW jit").fetchone()
        if not conn.autocommit:
            conn.rollback()
        parameters = conn.info.get_parameters()
        kind = parameters.get("replication") or parameters.get("application_name", "")
        found.append((kind, jit))
        return conn

    monkeypatch.setattr("walrow._receive.loading._WAIT_SECONDS", 0.1)
    monkeypatch.setattr("walrow._receive.driver._PAUSE_SECONDS", 0.5)
    with configured(feed.server, jit="on"):
        assert feed.execute("SHOW jit") == [("on",)]
        with monkeypatch.context() as patched:
            patched.setattr(psycopg.Connection, "connect", classmethod(connected))
            patched.setattr(psycopg, "connect", psycopg.Connection.connect)
            feed.execute("SELECT 1")
            assert found.pop() == ("", "on")
            with feed.receiving(
                slot=f"{feed.slot}_2", create=True, snapshot=True
            ) as receiver:
                receiver.until_streaming()
                with psycopg.connect(feed.dsn) as connection:
                    found.pop()
                    # An observer asks over its own connection which transactions the slot waits for.
                    connection.execute("INSERT INTO item VALUES (1, 1)")
                    request(feed.log, ["public.item"])
                    until(lambda: any("a load: waiting" in it for it in receiver.notes))
            with walrow.postgres.changes(feed.dsn, table="item", until=0.1) as reader:
                list(reader)
            from walrow.cli.connection import connected as of_the_command_line

            dsn = f"{feed.dsn} options='-c work_mem=1MB'"
            with of_the_command_line(dsn) as conn:
                assert conn.execute("SHOW work_mem").fetchone() == ("1MB",)
    drop_if_there(feed.dsn, f"{feed.slot}_2")
    assert receiver.failure is None
    assert len(found) > 8
    assert {jit for _, jit in found} == {"off"}
    kinds = {kind.partition(" for slot")[0] for kind, _ in found}
    assert {"database", "walrow (questions"} <= kinds


MANY = """
import os, resource, sys, threading
import walrow
from walrow._log.requests import request, result_of

most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, most))
kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
dsn, log, slot = sys.argv[1:]
stop = threading.Event()
options = {"log": log, "slot": slot, "publications": "p", "publish_after": 0.2}

def receive():
    try:
        walrow.receive(dsn, **options, create=True, snapshot=True, stop=stop)
    except BaseException as error:
        print("receive", repr(error))
        os._exit(1)

thread = threading.Thread(target=receive)
thread.start()
while not (os.path.exists(log + "/_open") and walrow.Log(log).tables()):
    stop.wait(0.05)
walrow.load(["public.item"], log=log, timeout=60)
with walrow.Log(log).follow(table="public.item", poll_interval=0.01) as batches:
    print("follow", next(batches).table)
stop.set()
thread.join()
walrow.receive(dsn, **options, until="now")
with walrow.postgres.changes(dsn, table="item", until=0.2) as reader:
    print("changes", sum(batch.num_rows for batch in reader))
"""


def test_descriptors_above_1024(feed: Feed) -> None:
    name = f"{feed.slot}_2"
    feed.execute("INSERT INTO item SELECT g, 1 FROM generate_series(1, 3) g")
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", MANY, feed.dsn, str(feed.log), name],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["follow public.item", "changes 0"]
    drop_if_there(feed.dsn, name)
