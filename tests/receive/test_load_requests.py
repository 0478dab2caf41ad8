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
from servers.loads import FIRST, is_loaded, loads, receiving, transactions, until_loaded
from servers.receiving import (
    QUICK,
    Disk,
    Feed,
    Load,
    end_of_wal,
    until,
)
from servers.world import World
from walrow._core import LogObjects
from walrow._log.requests import request

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


def test_a_table_is_loaded_again_while_it_changes(filled: Feed) -> None:
    with (
        filled.receiver(*FIRST) as receiver,
        Load(filled.dsn, seed=4),
    ):
        receiver.until(is_loaded)
        seen: list[int] = []
        stop = threading.Event()

        def follow() -> None:
            # A reader that goes on through all loads.
            with walrow.Log(filled.log).follow(
                table="walrow.transactions", poll_interval=0.05
            ) as batches:
                for batch in batches:
                    seen.extend(pa.record_batch(batch).column("end_lsn").to_pylist())
                    if stop.is_set():
                        return

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        before = loads(filled.log)
        for tables in (["public.wide"], ["public.item", "public.audit"], None):
            walrow.load(tables, log=filled.log, timeout=60)
            time.sleep(0.5)
        after = loads(filled.log)
        assert all((after[name] or 0) > (before[name] or 0) for name in before)
        # The last one had all tables.
        assert len(set(after.values())) == 1
        stop.set()
        filled.execute("INSERT INTO audit (what) VALUES ('the end')")
        follower.join(30)
        assert not follower.is_alive()
    filled.check_rest()
    found = transactions(filled.log)
    assert [each["snapshot"] for each in found].count(True) == 4
    # The follower has missed nothing.
    assert seen == [each["end_lsn"] for each in found][: len(seen)]


def some(*pauses: float) -> tuple[float, ...]:
    """Each second of them; all with the slow tests."""
    return pauses if os.environ.get("WALROW_SLOW") else pauses[::2]


def test_a_load_that_is_killed_leaves_no_trace(filled: Feed) -> None:
    with Load(filled.dsn, seed=5):
        # The first load, in each of its phases; then loads of a live slot.
        for pause in some(0.2, 0.5, 0.7, 0.9, 1.1):
            with filled.receiver(*FIRST):
                time.sleep(pause)
        with filled.receiver(*FIRST) as receiver:
            receiver.until(is_loaded)
        for pause in some(0.1, 0.2, 0.3, 0.5):
            with filled.receiver(*FIRST) as receiver:
                receiver.until_streaming()
                requested = threading.Thread(
                    target=load_unless_requested, args=(filled.log,)
                )
                requested.start()
                time.sleep(pause)
                receiver.kill()
                requested.join()
            # Readers see everything that was there, and nothing of the load.
            walrow.Log(filled.log).verify()
    filled.check_rest()
    # The request has survived.
    assert not requests(filled.log)
    assert b'"place"' not in (filled.log / "_loaded-and-removed").read_bytes()


def requests(log: Path) -> list[Path]:
    """The requests for loads."""
    return [*log.glob("_load-request-*")]


def load_unless_requested(log: Path) -> None:
    """Leaves a request, unless there is one."""
    if not requests(log):
        walrow.load(log=log, wait=False)


def test_a_load_that_is_refused_says_why(filled: Feed) -> None:
    with filled.receiver(*FIRST) as receiver:
        receiver.until(is_loaded)
        with pytest.raises(
            walrow.errors.LogError, match=r"public\.nobody: there is no such table"
        ):
            walrow.load("public.nobody", log=filled.log, timeout=60)
        # It goes on.
        filled.execute("INSERT INTO audit (what) VALUES ('later')")
        filled.until_all(receiver)
        assert receiver.stop(signal.SIGINT) < 2
    filled.check()


def test_a_full_disk_only_delays_a_load(filled: Feed) -> None:
    disk = Disk(filled.log)
    with disk.has("full"):
        receiver = filled.receiver(*FIRST, disk=disk)
        time.sleep(2)
    with receiver, Load(filled.dsn, seed=7):
        receiver.until(is_loaded)
        with disk.has("full"):
            request = walrow._log.requests.request(filled.log, None, is_awaited=True)
            time.sleep(3)
        deadline = time.monotonic() + 60
        while walrow._log.requests.result_of(LogObjects(filled.log), request) is None:
            assert time.monotonic() < deadline, receiver.states[-3:]
            time.sleep(0.1)
    filled.check_rest()
    assert [each["snapshot"] for each in transactions(filled.log)].count(True) == 2


def test_the_result_of_a_load_does_not_hold_up_the_stream(filled: Feed) -> None:
    """It is written, and an fsync may take long."""
    filled.receive_all(*FIRST)
    disk = Disk(filled.log)
    with filled.receiver(*QUICK, disk=disk) as receiver:
        receiver.until_streaming()
        request = walrow._log.requests.request(
            filled.log, ["public.nobody"], is_awaited=True
        )
        with disk.has("stalled"):
            receiver.until(lambda it: "was given up" in (it["note"] or ""))
            receiver.until_streaming()
            assert (
                walrow._log.requests.result_of(LogObjects(filled.log), request) is None
            )
        until(
            lambda: (
                walrow._log.requests.result_of(LogObjects(filled.log), request)
                is not None
            )
        )
        # The request goes after its result, and that is synced, too.
        until(lambda: not requests(filled.log))
        time.sleep(0.5)
        with disk.has("stalled"):
            walrow._log.requests.request(filled.log, ["public.nobody"], is_awaited=True)
            receiver.until(lambda it: "was given up" in (it["note"] or ""))
            time.sleep(0.5)
            assert receiver.stop() < 2
    filled.check_rest()


@pytest.mark.slow
def test_a_lost_connection_only_delays_a_load(filled: Feed) -> None:
    filled.receive_all(*FIRST)
    end_all = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'walrow' AND pid <> pg_backend_pid()"
    )
    with (
        filled.receiver(*QUICK) as receiver,
        Load(filled.dsn, seed=8),
    ):
        receiver.until_streaming()
        request = walrow._log.requests.request(filled.log, None, is_awaited=True)
        for _ in range(4):
            filled.execute(end_all)
            time.sleep(0.25)
        deadline = time.monotonic() + 60
        while walrow._log.requests.result_of(LogObjects(filled.log), request) is None:
            assert time.monotonic() < deadline, receiver.states[-3:]
            time.sleep(0.1)
    filled.check_rest()


def test_two_requests_have_two_results(
    filled: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving(filled, monkeypatch):
        until_loaded(filled.log)
        # What is damaged ends nothing.
        (filled.log / "_load-request-damaged").write_text("", encoding="utf-8")
        until(lambda: not requests(filled.log))
        failures: list[str] = []

        def fail() -> None:
            try:
                walrow.load("public.nobody", log=filled.log, timeout=60)
            except walrow.errors.LogError as error:
                failures.append(str(error))

        failing = threading.Thread(target=fail)
        failing.start()
        until(lambda: requests(filled.log) or not failing.is_alive())
        walrow.load("public.item", log=filled.log, timeout=60)
        failing.join()
        assert "public.nobody: there is no such table" in failures[0]
    assert not [*filled.log.glob("_load-result*"), *requests(filled.log)]


def test_a_load_that_waits_for_a_transaction_lets_the_log_go_on(
    filled: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrow._receive.driver._PAUSE_SECONDS", 1.0)
    with receiving(filled, monkeypatch):
        until_loaded(filled.log)
        with psycopg.connect(filled.dsn) as idle:
            idle.execute("INSERT INTO audit (what) VALUES ('waits')")
            request = walrow._log.requests.request(
                filled.log, ["public.item"], is_awaited=True
            )
            time.sleep(0.5)
            filled.execute("INSERT INTO item VALUES (900, 1)")
            end = walrow.Lsn(end_of_wal(filled.dsn))
            until(lambda: walrow.Log(filled.log).end >= end)
            assert (
                walrow._log.requests.result_of(LogObjects(filled.log), request) is None
            )
        until(
            lambda: (
                walrow._log.requests.result_of(LogObjects(filled.log), request)
                is not None
            )
        )
        found = walrow._log.requests.result_of(LogObjects(filled.log), request)
        assert found is not None
        assert found.failure is None
    filled.check()


@pytest.mark.parametrize("names", ["all", "some"])
def test_tables_that_cannot_be_copied_do_not_stop_the_others(
    filled: Feed, names: str
) -> None:
    """Two are refused before their first row, and one at a row."""
    filled.receive_all("--create")
    several = [f"n{number}" for number in range(6)]
    has_filters = filled.execute("SHOW server_version_num")[0][0] >= "150000"
    at_row = " WHERE (1 / (id - 1) > 0)" if has_filters else ""
    filled.execute(
        "CREATE FUNCTION fails(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$"
        " BEGIN IF current_user = 'reader' THEN RAISE 'no'; END IF; RETURN 1; END $$",
        *(f"CREATE TABLE {it} (id int PRIMARY KEY)" for it in [*several, "gone"]),
        *(f"INSERT INTO {it} VALUES (1)" for it in several),  # noqa: S608
        f"ALTER PUBLICATION p ADD TABLE {', '.join(several[:5])}, n5{at_row}",
        # The planner of each query evaluates the constant.
        "CREATE INDEX ON n1 ((fails(id) + fails(10)))",
        "CREATE ROLE reader LOGIN REPLICATION",
        f"GRANT SELECT ON {', '.join(set(several) - {'n2'})} TO reader",
        "GRANT SELECT ON item, wide, audit TO reader",
    )
    wanted = [f"public.{it}" for it in [*several, "gone"]]
    try:
        walrow.load(None if names == "all" else wanted, log=filled.log, wait=False)
        filled.receive_all(dsn=f"{filled.dsn} user=reader", code=5)
        refused = walrow._log.requests.failures(filled.log)
        expected = {"public.n1", "public.n2"}
        expected |= {"public.gone"} if names == "some" else set()
        expected |= {"public.n5"} if has_filters else set()
        assert refused.keys() == expected
        assert "permission denied" in refused["public.n2"]
        loaded = {name for name, at in loads(filled.log).items() if at is not None}
        assert {*map("public.{}".format, several)} - expected <= loaded
        assert [each["snapshot"] for each in transactions(filled.log)].count(True) == 1
        assert not requests(filled.log)
    finally:
        filled.execute(
            f"DROP TABLE {', '.join([*several, 'gone'])}",
            "DROP FUNCTION fails",
            "DROP OWNED BY reader",
            "DROP ROLE reader",
        )


def test_a_load_that_is_cancelled_leaves_no_trace(
    filled: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = "SELECT 1 FROM pg_replication_slots WHERE slot_name LIKE 'walrow_load_%'"
    with receiving(filled, monkeypatch):
        until_loaded(filled.log)
        before = [it.loaded for it in walrow.Log(filled.log).tables()]
        with psycopg.connect(filled.dsn) as idle:
            idle.execute("INSERT INTO audit (what) VALUES ('waits')")
            walrow.load("public.item", log=filled.log, wait=False)
            until(lambda: filled.execute(slots))
            assert walrow.log.cancel_load("public.item", log=filled.log) == 1
            until(lambda: not filled.execute(slots))
            # The log goes on, and another load does not wait for that one.
            filled.execute("INSERT INTO item VALUES (901, 1)")
            end = walrow.Lsn(end_of_wal(filled.dsn))
            until(lambda: walrow.Log(filled.log).end >= end)
            assert [it.loaded for it in walrow.Log(filled.log).tables()] == before
        walrow.load("public.item", log=filled.log, timeout=60)
    filled.check()


def test_until_now_loads_what_several_have_requested(filled: Feed) -> None:
    filled.receive_all("--create")
    for table in ("item", "audit"):
        walrow.load(f"public.{table}", log=filled.log, wait=False)
    filled.receive_all()
    loaded = {
        it.name for it in walrow.Log(filled.log).tables() if it.loaded is not None
    }
    assert loaded >= {"public.item", "public.audit"}
    assert not requests(filled.log)


def test_a_table_that_is_gone_needs_no_load(world: World) -> None:
    """The receivers have requested the loads, and no person."""
    world.sql(
        *(
            f"CREATE TABLE {it} (id int PRIMARY KEY, n int)"
            for it in ("t", "one", "two")
        ),
        "CREATE PUBLICATION p FOR ALL TABLES WITH (publish = 'insert, update, delete')",
    )
    world.look()
    world.sql("INSERT INTO one VALUES (1)", "TRUNCATE one", "DROP TABLE two")
    request(world.path, ["public.one", "public.two"], is_automatic=True)
    request(world.path, ["public.two"], is_automatic=True)
    world.look()
    assert loads(world.path)["public.one"] is not None
    assert not requests(world.path)
    assert not walrow._log.requests.failures(world.path)


def test_a_table_that_is_locked_for_long_ends_only_the_load(
    filled: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrow._receive.load.ATTEMPTS", 2)
    with receiving(filled, monkeypatch):
        until_loaded(filled.log)
        with psycopg.connect(filled.dsn) as other:
            other.execute("LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
            with pytest.raises((walrow.errors.LogError, TimeoutError)) as caught:
                walrow.load("public.item", log=filled.log, timeout=20)
            # Old servers do not open the tables of a publication, so the load waits for the
            # transaction that has the lock, as for each other.
            if isinstance(caught.value, walrow.errors.LogError):
                assert "lock timeout" in str(caught.value)
        until(lambda: not requests(filled.log))
        walrow.load("public.item", log=filled.log, timeout=60)
    filled.check()


@pytest.mark.slow
def test_a_load_behind_a_prepared_transaction_names_it_again_and_again(
    filled: Feed, tmp_path: Path
) -> None:
    with filled.receiver(*FIRST) as receiver:
        receiver.until(is_loaded)
        with psycopg.connect(filled.dsn, autocommit=True) as conn:
            conn.execute("BEGIN")
            conn.execute("INSERT INTO audit (what) VALUES ('prepared')")
            conn.execute("PREPARE TRANSACTION 'the truck'")
        said = tmp_path / "said"
        command = [
            sys.executable,
            "-m",
            "walrow",
            "load",
            str(filled.log),
            "public.item",
        ]
        with said.open("w") as file:
            asked = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)  # noqa: S603
        try:
            named = "prepared transaction 'the truck'"
            until(lambda: named in said.read_text(), 20)
            until(lambda: said.read_text().count(named) >= 3, 90)
            assert asked.poll() is None
            # The stream goes on meanwhile.
            before = walrow.Log(filled.log).end
            filled.execute("INSERT INTO audit (what) VALUES ('meanwhile')")
            until(lambda: walrow.Log(filled.log).end > before)
            filled.execute("COMMIT PREPARED 'the truck'")
            assert asked.wait(60) == 0
        finally:
            asked.kill()
            asked.wait()
            with contextlib.suppress(psycopg.errors.UndefinedObject):
                filled.execute("ROLLBACK PREPARED 'the truck'")
        assert said.read_text().splitlines()[-1] == "walrow: loaded public.item"
    filled.check_rest()
