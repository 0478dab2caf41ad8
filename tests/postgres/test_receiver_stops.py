"""`walrow receive`: how it ends on request, and how it does not."""

from __future__ import annotations

import _thread
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import walrow
from servers.receiving import (
    Load,
    ReceiverProcess,
    check_log,
    end_of_wal,
    execute,
    receive_all,
    slot_for_load,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import EmbeddedServer
    from walrow.receiver_state import Status

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

QUICK = ("--age", "0.3", "--segment-size", "1")


@pytest.fixture
def slot(server: EmbeddedServer) -> Iterator[str]:
    with slot_for_load(server) as name:
        yield name


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signal_publishes_and_confirms_the_end(
    server: EmbeddedServer, slot: str, tmp_path: Path, name: str
) -> None:
    log = tmp_path / "log"
    arguments = ("--age", "3600")
    with ReceiverProcess(server.dsn, log, *arguments, slot=slot) as receiver:
        receiver.until_streaming()
        with Load(server.dsn, seed=1):
            time.sleep(1)
        receiver.until_streaming(after=end_of_wal(server.dsn))
        assert receiver.stop(signal.Signals[name]) < 2
        assert receiver.errors == "" or "warning" in receiver.errors
    check_log(server.dsn, log, Load.TABLES)
    assert confirmed(server, slot) == walrow.Log(log).end


def test_signal_under_load(server: EmbeddedServer, slot: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Load(server.dsn, seed=2, pause=0):
        for _ in range(3):
            with ReceiverProcess(server.dsn, log, *QUICK, slot=slot) as receiver:
                receiver.until_streaming()
                time.sleep(0.5)
                assert receiver.stop() < 2
    receive_all(server.dsn, log, slot=slot)
    check_log(server.dsn, log, Load.TABLES)


def test_second_signal_ends_it_at_once(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    from servers.receiving import Disk

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
