"""`walrow receive`: how it ends on request, and how it does not."""

from __future__ import annotations

import _thread
import os
import signal
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import (
    Disk,
    Load,
    ReceiverProcess,
    check_log,
    drop_if_there,
    end_of_wal,
    execute,
    receive_all,
    slot_for_load,
)
from walrow._core import LogWriter
from walrow._receive.watch import TimelineWatch
from walrow.log import Status

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

QUICK = ("--publish-after", "0.3", "--segment-size", "1MiB")


@pytest.fixture
def slot(server: EmbeddedServer) -> Iterator[str]:
    with slot_for_load(server) as name:
        yield name


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signal_publishes_and_confirms_the_end(
    server: EmbeddedServer, slot: str, tmp_path: Path, name: str
) -> None:
    log = tmp_path / "log"
    arguments = ("--publish-after", "3600")
    with ReceiverProcess(server.dsn, log, *arguments, slot=slot) as receiver:
        receiver.until_streaming()
        with Load(server.dsn, seed=1):
            time.sleep(1)
        receiver.until_streaming(after=end_of_wal(server.dsn))
        assert receiver.stop(signal.Signals[name]) < 2
        assert receiver.errors == "" or "warning" in receiver.errors
    check_log(server.dsn, log, Load.TABLES)
    assert confirmed(server, slot) == walrow.Log(log).end


@pytest.mark.slow
def test_an_idle_one_ends_within_a_tenth_of_a_second(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    # On a machine with other work it takes longer. A wait with a timeout would look every 50 ms.
    times = []
    for _ in range(20):
        log = tmp_path / "log"
        with ReceiverProcess(server.dsn, log, *QUICK, slot=slot) as receiver:
            receiver.until_streaming()
            time.sleep(0.5)
            begin = time.monotonic()
            receiver.process.send_signal(signal.SIGTERM)
            assert receiver.process.wait() == 0
            times.append(time.monotonic() - begin)
    assert statistics.median(times) <= 0.1, times


@pytest.mark.slow
def test_signal_under_load(server: EmbeddedServer, slot: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Load(server.dsn, seed=2, pause=0):
        for _ in range(3 if os.environ.get("WALROW_SLOW") else 1):
            with ReceiverProcess(server.dsn, log, *QUICK, slot=slot) as receiver:
                receiver.until_streaming()
                time.sleep(0.5)
                assert receiver.stop() < 2
    receive_all(server.dsn, log, slot=slot)
    check_log(server.dsn, log, Load.TABLES)


def test_second_signal_ends_it_at_once(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    disk = Disk(log)
    with ReceiverProcess(server.dsn, log, *QUICK, slot=slot, disk=disk) as receiver:
        receiver.until_streaming()
        with disk.has("stalled"):
            execute(server.dsn, "INSERT INTO audit (what) VALUES ('x')")
            time.sleep(0.5)
            receiver.process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            begin = time.monotonic()
            receiver.process.send_signal(signal.SIGINT)
            assert receiver.process.wait(20) == -signal.SIGINT
            assert time.monotonic() - begin < 0.5
    receive_all(server.dsn, log, slot=slot)
    check_log(server.dsn, log, Load.TABLES)


def test_signal_that_nohup_ignores(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        receiver = ReceiverProcess(server.dsn, tmp_path / "log", *QUICK, slot=slot)
    finally:
        signal.signal(signal.SIGHUP, before)
    with receiver:
        receiver.until_streaming()
        receiver.process.send_signal(signal.SIGHUP)
        receiver.until_streaming()
        receiver.stop()


def test_signal_while_it_connects_to_a_black_hole(tmp_path: Path) -> None:
    """A host that takes connections, and never answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / ".s.PGSQL.5432"))
        listener.listen()
        dsn = f"host={tmp_path} dbname=postgres user=postgres"
        with ReceiverProcess(dsn, tmp_path / "log") as receiver:
            connection, _ = listener.accept()
            with connection:
                assert receiver.stop() < 2


def test_signal_while_the_creation_of_a_slot_waits(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """It names the transaction, and leaves no slot."""
    name = f"{slot}_new"
    with psycopg.connect(server.dsn, application_name="waited for") as connection:
        connection.execute("INSERT INTO audit (what) VALUES ('x')")
        with ReceiverProcess(
            server.dsn, tmp_path / "log", "--create", slot=name
        ) as receiver:
            receiver.until(lambda state: "waited for" in (state["note"] or ""))
            assert receiver.stop() < 2
        connection.rollback()
    time.sleep(1)
    assert (
        execute(
            server.dsn,
            f"SELECT FROM pg_replication_slots WHERE slot_name = '{name}'",
        )
        == []
    )


def test_signal_while_the_log_is_opened(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """That takes long for a large log, as for a disk that stalls."""
    log = tmp_path / "log"
    disk = Disk(log)
    with (
        disk.has("stalled"),
        ReceiverProcess(server.dsn, log, *QUICK, slot=slot, disk=disk) as receiver,
    ):
        receiver.until(lambda state: state["note"] == "the log is being opened")
        assert receiver.stop() < 2
    receive_all(server.dsn, log, slot=slot)
    check_log(server.dsn, log, Load.TABLES)


def test_log_whose_opening_was_left_is_closed(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opening, go_on = threading.Event(), threading.Event()

    def slow(*arguments: Any, **options: Any) -> LogWriter:
        opening.set()
        go_on.wait(30)
        return LogWriter(*arguments, **options)

    log = tmp_path / "log"
    stop = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr("walrow._receive.driver.LogWriter", slow)
        receiver = threading.Thread(
            target=receive, args=(server, log, slot), kwargs={"stop": stop}
        )
        receiver.start()
        assert opening.wait(30)
        stop.set()
        receiver.join(2)
        assert not receiver.is_alive()
    go_on.set()
    deadline = time.monotonic() + 10
    while threads() and time.monotonic() < deadline:
        time.sleep(0.02)
    receive(server, log, slot, until="now")
    check_log(server.dsn, log, Load.TABLES)


def test_signal_while_the_creation_of_a_publication_waits(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    arguments = ("--create", "--table", "item")
    with psycopg.connect(server.dsn) as connection:
        connection.execute("LOCK TABLE item IN SHARE UPDATE EXCLUSIVE MODE")
        with ReceiverProcess(
            server.dsn, tmp_path / "log", *arguments, slot=f"{slot}_2", publication="q"
        ) as receiver:
            until_waiting(server)
            assert receiver.stop() < 2
        # What the server was asked for before the stop may still come.
        execute(server.dsn, WAITING.replace("SELECT pid", END))
    execute(server.dsn, "DROP PUBLICATION IF EXISTS q")


def test_publication_that_waits_for_a_lock_says_who_has_it(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("walrow._postgres.temporary_publication._LOCK_SECONDS", 1)
    options: dict[str, Any] = {"create": True, "tables": ["item"]}
    with psycopg.connect(server.dsn, application_name="holder") as connection:
        connection.execute("LOCK TABLE item IN SHARE UPDATE EXCLUSIVE MODE")
        pid = connection.info.backend_pid
        with pytest.raises(walrow.errors.ReplicationError) as caught:
            walrow.receive(
                server.dsn,
                log=tmp_path / "log",
                slot=f"{slot}_2",
                publications="q",
                **options,
            )
    assert str(caught.value) == (
        'publication "q" cannot be created: it has waited for a lock on public.item that '
        f"process {pid} of the server (holder) has. Let that end, and start again"
    )
    assert caught.value.sqlstate == "55P03"
    assert execute(server.dsn, "SELECT FROM pg_publication WHERE pubname = 'q'") == []


def until_waiting(server: EmbeddedServer) -> None:
    """Waits until a session waits for a lock."""
    deadline = time.monotonic() + 30
    while not execute(server.dsn, WAITING):
        assert time.monotonic() < deadline
        time.sleep(0.05)


WAITING = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE PUBLICATION%'"
)
END = "SELECT pg_terminate_backend(pid)"


def test_signal_within_a_large_transaction(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """What is open is dropped, although the server has sent it."""
    log = tmp_path / "log"
    with psycopg.connect(server.dsn) as connection:
        with ReceiverProcess(server.dsn, log, *QUICK, slot=slot) as receiver:
            receiver.until_streaming()
            connection.execute(
                "INSERT INTO audit (what) "
                "SELECT repeat('x', 100) FROM generate_series(1, 20000)"
            )
            execute(server.dsn, "INSERT INTO item VALUES (1, 1)")
            receiver.until(lambda state: state["bytes"] > 1_000_000)
            receiver.until(lambda state: state["transactions"] == 1)
            assert receiver.stop() < 2
        assert [table.name for table in walrow.Log(log).tables()] == ["public.item"]
        connection.commit()
    receive_all(server.dsn, log, slot=slot)
    check_log(server.dsn, log, Load.TABLES)


def test_stop_from_another_thread(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    stop = threading.Event()
    states: list[Status] = []

    def status(state: Status) -> None:
        states.append(state)
        if state.rows == 3:
            stop.set()

    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO item SELECT g, 1 FROM generate_series(1, 3) g")
    received = walrow.receive(
        server.dsn, log=log, slot=slot, publications="p", stop=stop, status=status
    )
    assert (received.rows, received.transactions, received.segments) == (3, 1, 1)
    assert [state.state for state in states][-1] == "stopping"
    assert received.position == confirmed(server, slot) == walrow.Log(log).end
    check_log(server.dsn, log, Load.TABLES)


def test_keyboard_interrupt(server: EmbeddedServer, slot: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    execute(server.dsn, "INSERT INTO item SELECT g, 1 FROM generate_series(1, 3) g")

    def status(state: Status) -> None:
        if state.rows == 3 and state.state == "streaming":
            _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt):
        receive(server, log, slot, status=status)
    check_log(server.dsn, log, Load.TABLES)
    assert confirmed(server, slot) == walrow.Log(log).end
    assert threads() == []


@pytest.mark.parametrize(
    ("blocked", "options"),
    [
        ("walrow._postgres.published.last_oid", {"until": "now"}),
        (
            "walrow._log.retention.Retention.apply",
            {"retain": walrow.log.Retention(age=0)},
        ),
        (
            # After a first load that was given up.
            "walrow._receive.driver.drop_slot",
            {"create": True, "snapshot": True, "jobs": 1},
        ),
    ],
)
def test_stop_while_something_takes_long_at_the_end(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    blocked: str,
    options: dict[str, Any],
) -> None:
    begun, go_on, stop = threading.Event(), threading.Event(), threading.Event()

    def block(*_arguments: Any, **_options: Any) -> None:
        begun.set()
        go_on.wait(30)
        text = "it took too long"
        raise walrow.errors.LogError(text)

    def refuse(*_arguments: Any, **_options: Any) -> None:
        text = "the table is not copied"
        raise walrow.errors.LogError(text, code="load")

    monkeypatch.setattr(blocked, block)
    if "create" in options:
        monkeypatch.setattr("walrow._receive.loading.TableLoad._copy", refuse)
    execute(
        server.dsn,
        "INSERT INTO audit (what) SELECT repeat('x', 1000) FROM generate_series(1, 50000)",
    )
    slot = f"{slot}_2" if "create" in options else slot
    errors: list[walrow.errors.LogError] = []

    def run() -> None:
        try:
            receive(server, tmp_path / "log", slot, stop=stop, **options)
        except walrow.errors.LogError as error:
            errors.append(error)

    receiver = threading.Thread(target=run)
    try:
        receiver.start()
        if "retain" in options:
            time.sleep(1)
            stop.set()
        deadline = time.monotonic() + 20
        while not begun.wait(0.02):
            assert time.monotonic() < deadline
            execute(server.dsn, "INSERT INTO audit (what) VALUES ('x')")
        # The receiver itself waits for it by now.
        time.sleep(1.5)
        stop.set()
        begin = time.monotonic()
        receiver.join(10)
        assert time.monotonic() - begin < 2
    finally:
        go_on.set()
        receiver.join()
    assert [error.code for error in errors] == ["load"] * ("create" in options)
    drop_if_there(server.dsn, slot)


def test_error_of_the_status_function(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """It ends the receiver, and the log stays as it is after a crash."""
    log = tmp_path / "log"

    def status(state: Status) -> None:
        if state.state == "streaming":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        receive(server, log, slot, status=status)
    assert threads() == []
    receive(server, log, slot, until="now")
    check_log(server.dsn, log, Load.TABLES)


def test_error_of_the_status_function_at_the_end(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """The log is free again at once, for the same process, too."""
    log = tmp_path / "log"
    stop = threading.Event()

    def status(state: Status) -> None:
        if state.state == "streaming":
            stop.set()
        if state.state == "stopping":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        receive(server, log, slot, status=status, stop=stop)
    assert threads() == []
    receive(server, log, slot, until="now")
    check_log(server.dsn, log, Load.TABLES)


def test_error_at_the_end(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = tmp_path / "log"

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(TimelineWatch, "look_now", fail)
        with pytest.raises(ZeroDivisionError):
            receive(server, log, slot, until="now")
    assert threads() == []
    receive(server, log, slot, until="now")
    check_log(server.dsn, log, Load.TABLES)


def receive(server: EmbeddedServer, log: Path, slot: str, **options: Any) -> None:
    walrow.receive(server.dsn, log=log, slot=slot, publications="p", **options)


def threads() -> list[str]:
    """The receiver's threads."""
    return [
        each.name for each in threading.enumerate() if each.name.startswith("walrow")
    ]


def confirmed(server: EmbeddedServer, slot: str) -> int:
    query = (
        "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots "  # noqa: S608
        f"WHERE slot_name = '{slot}'"
    )
    ((lsn,),) = execute(server.dsn, query)
    return int(lsn)
