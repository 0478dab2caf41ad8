"""`walrow receive`: how it ends on request, and how it does not."""

from __future__ import annotations

import _thread
import os
import signal
import socket
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

import walrow
from servers.receiving import (
    QUICK,
    Disk,
    Feed,
    Load,
    ReceiverProcess,
    drop_if_there,
    until,
)
from walrow._core import LogWriter
from walrow._receive.watch import TimelineWatch
from walrow.log import Status

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signal_publishes_and_confirms_the_end(feed: Feed, name: str) -> None:
    arguments = ("--publish-after", "3600")
    with feed.receiver(*arguments) as receiver:
        receiver.until_streaming()
        with Load(feed.dsn, seed=1):
            time.sleep(1)
        feed.until_all(receiver)
        assert receiver.stop(signal.Signals[name]) < 2
        assert receiver.errors == "" or "warning" in receiver.errors
    feed.check()
    assert feed.confirmed() == walrow.Log(feed.log).end


@pytest.mark.slow
def test_an_idle_one_ends_within_a_tenth_of_a_second(feed: Feed) -> None:
    # On a machine with other work it takes longer. A wait with a timeout would look every 50 ms.
    times = []
    for _ in range(20):
        log = feed.log
        with feed.receiver(*QUICK, log=log) as receiver:
            receiver.until_streaming()
            time.sleep(0.5)
            begin = time.monotonic()
            receiver.process.send_signal(signal.SIGTERM)
            assert receiver.process.wait() == 0
            times.append(time.monotonic() - begin)
    assert statistics.median(times) <= 0.1, times


@pytest.mark.slow
def test_signal_under_load(feed: Feed) -> None:
    with Load(feed.dsn, seed=2, pause=0):
        for _ in range(3 if os.environ.get("WALROW_SLOW") else 1):
            with feed.receiver(*QUICK) as receiver:
                receiver.until_streaming()
                time.sleep(0.5)
                assert receiver.stop() < 2
    feed.check_rest()


def test_second_signal_ends_it_at_once(feed: Feed) -> None:
    disk = Disk(feed.log)
    with feed.receiver(*QUICK, disk=disk) as receiver:
        receiver.until_streaming()
        with disk.has("stalled"):
            feed.execute("INSERT INTO audit (what) VALUES ('x')")
            time.sleep(0.5)
            receiver.process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            begin = time.monotonic()
            receiver.process.send_signal(signal.SIGINT)
            assert receiver.process.wait(20) == -signal.SIGINT
            assert time.monotonic() - begin < 0.5
    feed.check_rest()


def test_signal_that_nohup_ignores(feed: Feed) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        receiver = feed.receiver(*QUICK)
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


def test_signal_while_the_creation_of_a_slot_waits(feed: Feed) -> None:
    """It names the transaction, and leaves no slot."""
    name = f"{feed.slot}_new"
    with psycopg.connect(feed.dsn, application_name="waited for") as connection:
        connection.execute("INSERT INTO audit (what) VALUES ('x')")
        with feed.receiver("--create", slot=name) as receiver:
            receiver.until(lambda state: "waited for" in (state["note"] or ""))
            assert receiver.stop() < 2
        connection.rollback()
    time.sleep(1)
    assert (
        feed.execute(f"SELECT FROM pg_replication_slots WHERE slot_name = '{name}'")
        == []
    )


def test_signal_while_the_log_is_opened(feed: Feed) -> None:
    """That takes long for a large log, as for a disk that stalls."""
    disk = Disk(feed.log)
    with (
        disk.has("stalled"),
        feed.receiver(*QUICK, disk=disk) as receiver,
    ):
        receiver.until(lambda state: state["note"] == "the log is being opened")
        assert receiver.stop() < 2
    feed.check_rest()


def test_log_whose_opening_was_left_is_closed(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, go_on = threading.Event(), threading.Event()

    def slow(*arguments: Any, **options: Any) -> LogWriter:
        opening.set()
        go_on.wait(30)
        return LogWriter(*arguments, **options)

    stop = threading.Event()
    with monkeypatch.context() as patched:
        patched.setattr("walrow._receive.driver.LogWriter", slow)
        receiver = threading.Thread(target=feed.receive, kwargs={"stop": stop})
        receiver.start()
        assert opening.wait(30)
        stop.set()
        receiver.join(2)
        assert not receiver.is_alive()
    go_on.set()
    deadline = time.monotonic() + 10
    while threads() and time.monotonic() < deadline:
        time.sleep(0.02)
    feed.receive(until="now")
    feed.check()


def test_signal_while_the_creation_of_a_publication_waits(feed: Feed) -> None:
    arguments = ("--create", "--table", "item")
    with psycopg.connect(feed.dsn) as connection:
        connection.execute("LOCK TABLE item IN SHARE UPDATE EXCLUSIVE MODE")
        with feed.receiver(
            *arguments, slot=f"{feed.slot}_2", publication="q"
        ) as receiver:
            until(lambda: feed.execute(WAITING))
            assert receiver.stop() < 2
        # What the server was asked for before the stop may still come.
        feed.execute(WAITING.replace("SELECT pid", END))
    feed.execute("DROP PUBLICATION IF EXISTS q")


def test_publication_that_waits_for_a_lock_says_who_has_it(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrow._postgres.temporary_publication._LOCK_SECONDS", 1)
    options: dict[str, Any] = {"create": True, "tables": ["item"]}
    with psycopg.connect(feed.dsn, application_name="holder") as connection:
        connection.execute("LOCK TABLE item IN SHARE UPDATE EXCLUSIVE MODE")
        pid = connection.info.backend_pid
        with pytest.raises(walrow.errors.ReplicationError) as caught:
            feed.receive(slot=f"{feed.slot}_2", publications="q", **options)
    assert str(caught.value) == (
        'publication "q" cannot be created: it has waited for a lock on public.item that '
        f"process {pid} of the server (holder) has. Let that end, and start again"
    )
    assert caught.value.sqlstate == "55P03"
    assert feed.execute("SELECT FROM pg_publication WHERE pubname = 'q'") == []


WAITING = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE PUBLICATION%'"
)
END = "SELECT pg_terminate_backend(pid)"


def test_signal_within_a_large_transaction(feed: Feed) -> None:
    """What is open is dropped, although the server has sent it."""
    with psycopg.connect(feed.dsn) as connection:
        with feed.receiver(*QUICK) as receiver:
            receiver.until_streaming()
            connection.execute(
                "INSERT INTO audit (what) "
                "SELECT repeat('x', 100) FROM generate_series(1, 20000)"
            )
            feed.execute("INSERT INTO item VALUES (1, 1)")
            receiver.until(lambda state: state["bytes"] > 1_000_000)
            receiver.until(lambda state: state["transactions"] == 1)
            assert receiver.stop() < 2
        assert [table.name for table in walrow.Log(feed.log).tables()] == [
            "public.item"
        ]
        connection.commit()
    feed.check_rest()


def test_stop_from_another_thread(feed: Feed) -> None:
    stop = threading.Event()
    states: list[Status] = []

    def status(state: Status) -> None:
        states.append(state)
        if state.rows == 3:
            stop.set()

    with psycopg.connect(feed.dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO item SELECT g, 1 FROM generate_series(1, 3) g")
    received = feed.receive(stop=stop, progress=status)
    assert (received.rows, received.transactions, received.segments) == (3, 1, 1)
    assert [state.state for state in states][-1] == "stopping"
    assert received.position == feed.confirmed() == walrow.Log(feed.log).end
    feed.check()


def test_keyboard_interrupt(feed: Feed) -> None:
    feed.execute("INSERT INTO item SELECT g, 1 FROM generate_series(1, 3) g")

    def status(state: Status) -> None:
        if state.rows == 3 and state.state == "streaming":
            _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt):
        feed.receive(progress=status)
    feed.check()
    assert feed.confirmed() == walrow.Log(feed.log).end
    assert threads() == []


@pytest.mark.parametrize(
    ("blocked", "options"),
    [
        ("walrow._receive.completeness.position_after", {"until": "now"}),
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
    feed: Feed,
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
    feed.execute(
        "INSERT INTO audit (what) SELECT repeat('x', 1000) FROM generate_series(1, 50000)"
    )
    slot = f"{feed.slot}_2" if "create" in options else feed.slot
    errors: list[walrow.errors.LogError] = []

    def run() -> None:
        try:
            feed.receive(slot=slot, stop=stop, **options)
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
            feed.execute("INSERT INTO audit (what) VALUES ('x')")
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
    drop_if_there(feed.dsn, slot)


@pytest.mark.parametrize("at", ["streaming", "stopping"])
def test_error_of_the_status_function(feed: Feed, at: str) -> None:
    """It ends the receiver, and the log is free at once, as after a crash."""
    stop = threading.Event()

    def status(state: Status) -> None:
        if state.state == at:
            raise ZeroDivisionError
        if state.state == "streaming":
            stop.set()

    with pytest.raises(ZeroDivisionError):
        feed.receive(progress=status, stop=stop)
    assert threads() == []
    feed.receive(until="now")
    feed.check()


def test_error_at_the_end(feed: Feed, monkeypatch: pytest.MonkeyPatch) -> None:

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(TimelineWatch, "look_now", fail)
        with pytest.raises(ZeroDivisionError):
            feed.receive(until="now")
    assert threads() == []
    feed.receive(until="now")
    feed.check()


def threads() -> list[str]:
    """The receiver's threads."""
    return [
        each.name for each in threading.enumerate() if each.name.startswith("walrow")
    ]
