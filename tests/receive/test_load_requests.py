"""Loads of tables while their log goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

import walrow
from servers import EmbeddedServer
from servers.loads import (
    FIRST,
    QUICK,
    is_loaded,
    loads,
    receive_rest,
    receiving,
    transactions,
    until,
    until_loaded,
)
from servers.receiving import (
    Disk,
    Load,
    ReceiverProcess,
    check_log,
    end_of_wal,
    execute,
)

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


def test_a_table_is_loaded_again_while_it_changes(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with (
        ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver,
        Load(server.dsn, seed=4),
    ):
        receiver.until(is_loaded)
        seen: list[int] = []
        stop = threading.Event()

        def follow() -> None:
            # A reader that goes on through all loads.
            with walrow.Log(log).follow(
                table="walrow.transactions", poll_interval=0.05
            ) as batches:
                for batch in batches:
                    seen.extend(pa.record_batch(batch).column("end_lsn").to_pylist())
                    if stop.is_set():
                        return

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        before = loads(log)
        for tables in (["public.wide"], ["public.item", "public.audit"], None):
            walrow.load(tables, log=log, timeout=60)
            time.sleep(0.5)
        after = loads(log)
        assert all((after[name] or 0) > (before[name] or 0) for name in before)
        # The last one had all tables.
        assert len(set(after.values())) == 1
        stop.set()
        execute(server.dsn, "INSERT INTO audit (what) VALUES ('the end')")
        follower.join(30)
        assert not follower.is_alive()
    receive_rest(server, log, slot)
    check_log(server.dsn, log, Load.TABLES)
    found = transactions(log)
    assert [each["snapshot"] for each in found].count(True) == 4
    # The follower has missed nothing.
    assert seen == [each["end_lsn"] for each in found][: len(seen)]


def some(*pauses: float) -> tuple[float, ...]:
    """Each second of them; all with the slow tests."""
    return pauses if os.environ.get("WALROW_SLOW") else pauses[::2]


def test_a_load_that_is_killed_leaves_no_trace(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with Load(server.dsn, seed=5):
        # The first load, in each of its phases; then loads of a live slot.
        for pause in some(0.2, 0.5, 0.7, 0.9, 1.1):
            with ReceiverProcess(server.dsn, log, *FIRST, slot=slot):
                time.sleep(pause)
        with ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver:
            receiver.until(is_loaded)
        for pause in some(0.1, 0.2, 0.3, 0.5):
            with ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver:
                receiver.until_streaming()
                requested = threading.Thread(target=load_unless_requested, args=(log,))
                requested.start()
                time.sleep(pause)
                receiver.kill()
                requested.join()
            # Readers see everything that was there, and nothing of the load.
            walrow.Log(log).verify()
    receive_rest(server, log, slot)
    check_log(server.dsn, log, Load.TABLES)
    # The request has survived.
    assert not requests(log)
    assert b'"place"' not in (log / "_loaded-and-removed").read_bytes()


def requests(log: Path) -> list[Path]:
    """The requests for loads."""
    return [*log.glob("_load-request-*")]


def load_unless_requested(log: Path) -> None:
    """Leaves a request, unless there is one."""
    if not requests(log):
        walrow.load(log=log, wait=False)


def test_a_load_that_is_refused_says_why(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver:
        receiver.until(is_loaded)
        with pytest.raises(walrow.errors.LogError, match=r"no table public\.nobody"):
            walrow.load("public.nobody", log=log, timeout=60)
        # It goes on.
        execute(server.dsn, "INSERT INTO audit (what) VALUES ('later')")
        receiver.until_streaming(after=end_of_wal(server.dsn))
        assert receiver.stop(signal.SIGINT) < 2
    check_log(server.dsn, log, Load.TABLES)


def test_a_full_disk_only_delays_a_load(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    disk = Disk(log)
    with disk.has("full"):
        receiver = ReceiverProcess(server.dsn, log, *FIRST, slot=slot, disk=disk)
        time.sleep(2)
    with receiver, Load(server.dsn, seed=7):
        receiver.until(is_loaded)
        with disk.has("full"):
            request = walrow._log.requests.request(log, None, is_awaited=True)
            time.sleep(3)
        deadline = time.monotonic() + 60
        while walrow._log.requests.result_of(log, request) is None:
            assert time.monotonic() < deadline, receiver.states[-3:]
            time.sleep(0.1)
    receive_rest(server, log, slot)
    check_log(server.dsn, log, Load.TABLES)
    assert [each["snapshot"] for each in transactions(log)].count(True) == 2


def test_the_result_of_a_load_does_not_hold_up_the_stream(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """It is written, and an fsync may take long."""
    log = tmp_path / "log"
    receive_rest(server, log, slot, *FIRST)
    disk = Disk(log)
    with ReceiverProcess(server.dsn, log, *QUICK, slot=slot, disk=disk) as receiver:
        receiver.until_streaming()
        request = walrow._log.requests.request(log, ["public.nobody"], is_awaited=True)
        with disk.has("stalled"):
            receiver.until(lambda it: "was given up" in (it["note"] or ""))
            receiver.until_streaming()
            assert walrow._log.requests.result_of(log, request) is None
        until(lambda: walrow._log.requests.result_of(log, request) is not None)
        with disk.has("stalled"):
            walrow._log.requests.request(log, ["public.nobody"], is_awaited=True)
            receiver.until(lambda it: "was given up" in (it["note"] or ""))
            time.sleep(0.5)
            assert receiver.stop() < 2
    receive_rest(server, log, slot)
    check_log(server.dsn, log, Load.TABLES)


@pytest.mark.slow
def test_a_lost_connection_only_delays_a_load(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    receive_rest(server, log, slot, *FIRST)
    end_all = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'walrow' AND pid <> pg_backend_pid()"
    )
    with (
        ReceiverProcess(server.dsn, log, *QUICK, slot=slot) as receiver,
        Load(server.dsn, seed=8),
    ):
        receiver.until_streaming()
        request = walrow._log.requests.request(log, None, is_awaited=True)
        for _ in range(4):
            execute(server.dsn, end_all)
            time.sleep(0.25)
        deadline = time.monotonic() + 60
        while walrow._log.requests.result_of(log, request) is None:
            assert time.monotonic() < deadline, receiver.states[-3:]
            time.sleep(0.1)
    receive_rest(server, log, slot)
    check_log(server.dsn, log, Load.TABLES)


def test_two_requests_have_two_results(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = tmp_path / "log"
    with receiving(server, log, slot, monkeypatch):
        until_loaded(log)
        # What is damaged ends nothing.
        (log / "_load-request-damaged").write_text("", encoding="utf-8")
        until(lambda: not requests(log))
        failures: list[str] = []

        def fail() -> None:
            try:
                walrow.load("public.nobody", log=log, timeout=60)
            except walrow.errors.LogError as error:
                failures.append(str(error))

        failing = threading.Thread(target=fail)
        failing.start()
        until(lambda: requests(log) or not failing.is_alive())
        walrow.load("public.item", log=log, timeout=60)
        failing.join()
        assert "no table public.nobody" in failures[0]
    assert not [*log.glob("_load-result*"), *requests(log)]


def test_a_load_that_waits_for_a_transaction_lets_the_log_go_on(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("walrow._receive.driver._PAUSE_SECONDS", 1.0)
    log = tmp_path / "log"
    with receiving(server, log, slot, monkeypatch):
        until_loaded(log)
        with psycopg.connect(server.dsn) as idle:
            idle.execute("INSERT INTO audit (what) VALUES ('waits')")
            request = walrow._log.requests.request(
                log, ["public.item"], is_awaited=True
            )
            time.sleep(0.5)
            execute(server.dsn, "INSERT INTO item VALUES (900, 1)")
            end = walrow.Lsn(end_of_wal(server.dsn))
            until(lambda: walrow.Log(log).end >= end)
            assert walrow._log.requests.result_of(log, request) is None
        until(lambda: walrow._log.requests.result_of(log, request) is not None)
        found = walrow._log.requests.result_of(log, request)
        assert found is not None
        assert found.failure is None
    check_log(server.dsn, log, Load.TABLES)


def test_a_load_that_is_cancelled_leaves_no_trace(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slots = "SELECT 1 FROM pg_replication_slots WHERE slot_name LIKE 'walrow_load_%'"
    log = tmp_path / "log"
    with receiving(server, log, slot, monkeypatch):
        until_loaded(log)
        before = [it.loaded for it in walrow.Log(log).tables()]
        with psycopg.connect(server.dsn) as idle:
            idle.execute("INSERT INTO audit (what) VALUES ('waits')")
            walrow.load("public.item", log=log, wait=False)
            until(lambda: execute(server.dsn, slots))
            assert walrow.log.cancel_load("public.item", log=log) == 1
            until(lambda: not execute(server.dsn, slots))
            # The log goes on, and another load does not wait for that one.
            execute(server.dsn, "INSERT INTO item VALUES (901, 1)")
            end = walrow.Lsn(end_of_wal(server.dsn))
            until(lambda: walrow.Log(log).end >= end)
            assert [it.loaded for it in walrow.Log(log).tables()] == before
        walrow.load("public.item", log=log, timeout=60)
    check_log(server.dsn, log, Load.TABLES)


def test_until_now_loads_what_several_have_requested(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    receive_rest(server, log, slot, "--create")
    for table in ("item", "audit"):
        walrow.load(f"public.{table}", log=log, wait=False)
    receive_rest(server, log, slot)
    loaded = {it.name for it in walrow.Log(log).tables() if it.loaded is not None}
    assert loaded >= {"public.item", "public.audit"}
    assert not requests(log)


def test_a_table_that_is_locked_for_long_ends_only_the_load(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("walrow._receive.load.ATTEMPTS", 2)
    log = tmp_path / "log"
    with receiving(server, log, slot, monkeypatch):
        until_loaded(log)
        with psycopg.connect(server.dsn) as other:
            other.execute("LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
            with pytest.raises((walrow.errors.LogError, TimeoutError)) as caught:
                walrow.load("public.item", log=log, timeout=20)
            # Old servers do not open the tables of a publication, so the load waits for the
            # transaction that has the lock, as for each other.
            if isinstance(caught.value, walrow.errors.LogError):
                assert "lock timeout" in str(caught.value)
        until(lambda: not requests(log))
        walrow.load("public.item", log=log, timeout=60)
    check_log(server.dsn, log, Load.TABLES)


@pytest.mark.slow
def test_a_load_behind_a_prepared_transaction_names_it_again_and_again(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver:
        receiver.until(is_loaded)
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            conn.execute("BEGIN")
            conn.execute("INSERT INTO audit (what) VALUES ('prepared')")
            conn.execute("PREPARE TRANSACTION 'the truck'")
        said = tmp_path / "said"
        command = [sys.executable, "-m", "walrow", "load", str(log), "public.item"]
        with said.open("w") as file:
            asked = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)  # noqa: S603
        try:
            named = "prepared transaction 'the truck'"
            until(lambda: named in said.read_text(), 20)
            until(lambda: said.read_text().count(named) >= 3, 90)
            assert asked.poll() is None
            # The stream goes on meanwhile.
            before = walrow.Log(log).end
            execute(server.dsn, "INSERT INTO audit (what) VALUES ('meanwhile')")
            until(lambda: walrow.Log(log).end > before)
            execute(server.dsn, "COMMIT PREPARED 'the truck'")
            assert asked.wait(60) == 0
        finally:
            asked.kill()
            asked.wait()
            with contextlib.suppress(psycopg.errors.UndefinedObject):
                execute(server.dsn, "ROLLBACK PREPARED 'the truck'")
        assert said.read_text().splitlines()[-1] == "walrow: loaded public.item"
    receive_rest(server, log, slot)
    check_log(server.dsn, log, Load.TABLES)
