"""First loads that leave out the tables which cannot be copied."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import walrow
from servers.loads import FIRST, loads, needed, stopped, transactions, until_copying
from servers.receiving import Feed, run_walrow, until
from walrow._log.requests import failures
from walrow._postgres import copying
from walrow._receive.load import ATTEMPTS
from walrow._receive.loading import TableLoad

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

#: The exit code of a receiver that has left something.
LEFT = 5
#: Tables that cannot be copied: what makes them so, what mends it, and a part of the error.
CAUSES = {
    "a privilege": (
        "REVOKE SELECT ON bad FROM reader",
        "GRANT SELECT ON bad TO reader",
        "denied",
    ),
    "a policy": (
        "ALTER TABLE bad ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE bad DISABLE ROW LEVEL SECURITY",
        "row-level security",
    ),
    # It fails while its rows are copied: the load has its place in the log then.
    "a row": (
        "ALTER PUBLICATION p SET TABLE item, audit, wide, bad WHERE (1 / (id - 1) > 0), other",
        "ALTER PUBLICATION p SET TABLE item, audit, wide, bad, other",
        "division_by_zero",
    ),
}


@pytest.fixture
def feed(filled: Feed) -> Iterator[Feed]:
    filled.execute(
        "DROP TABLE IF EXISTS bad, other",
        "CREATE TABLE bad (id int PRIMARY KEY)",
        "INSERT INTO bad VALUES (1)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "INSERT INTO other SELECT generate_series(1, 7)",
        "ALTER PUBLICATION p ADD TABLE bad, other",
        "CREATE ROLE reader LOGIN REPLICATION",
        "GRANT SELECT ON item, wide, audit, bad, other TO reader",
    )
    yield filled
    filled.execute(
        "DROP OWNED BY reader", "DROP ROLE reader", "DROP TABLE IF EXISTS bad, other"
    )


def rows(log: Path, table: str) -> int:
    return int(walrow.Log(log).state(f"public.{table}").to_pyarrow().num_rows)


def mended(feed: Feed, dsn: str) -> None:
    """A request loads the table, and the log has everything then."""
    walrow.load("public.bad", log=feed.log, wait=False)
    feed.receive_all(dsn=dsn)
    assert not needed(feed.log)
    assert not failures(feed.log)
    expected = feed.execute("SELECT count(*) FROM bad")
    assert [(rows(feed.log, "bad"),)] == expected
    feed.check()


@pytest.mark.parametrize("cause", CAUSES)
def test_a_table_that_cannot_be_copied_is_left_out(feed: Feed, cause: str) -> None:
    spoil, mend, error = CAUSES[cause]
    if cause == "a row" and feed.server.major < 15:
        pytest.skip("row filters come with PostgreSQL 15")
    dsn = f"{feed.dsn} user=reader"
    feed.execute(spoil)
    with feed.receiver("--until", "now", *FIRST, dsn=dsn) as receiver:
        text = receiver.ended(LEFT)
        notes = [state["note"] or "" for state in receiver.states]
    assert any("the first load begins again without public.bad" in it for it in notes)
    assert "the log lacks the load of public.bad, which has failed: " in text
    # Each message names the table once.
    assert error in text.rpartition("public.bad")[2]
    begins = [it for it in notes if "begins again without" in it]
    assert [it.count("public.bad") for it in begins] == [1]
    assert rows(feed.log, "other") == 7
    assert needed(feed.log).keys() == {"public.bad"}
    assert [each["snapshot"] for each in transactions(feed.log)].count(True) == 1
    with pytest.raises(walrow.errors.LogError, match="bad"):
        rows(feed.log, "bad")
    # Status has the error, and the command.
    shown = run_walrow("status", feed.log, "--json")
    assert shown.returncode != 0
    reasons = json.loads(shown.stdout)["reasons"]
    assert any(error in it and "walrow load" in it for it in reasons), reasons
    # The mark stays, although nothing has changed and the error is told once.
    feed.receive_all(dsn=dsn)
    assert needed(feed.log).keys() == {"public.bad"}
    # Another attempt has the same error, and the exit code.
    walrow.load("public.bad", log=feed.log, wait=False)
    assert error in feed.receive_all(dsn=dsn, code=LEFT)
    feed.execute(mend)
    mended(feed, dsn)


def test_two_tables_are_left_out_one_by_one(feed: Feed) -> None:
    """One before the slot, and one at a row."""
    if feed.server.major < 15:
        pytest.skip("row filters come with PostgreSQL 15")
    dsn = f"{feed.dsn} user=reader"
    feed.execute(CAUSES["a row"][0], "REVOKE SELECT ON wide FROM reader")
    text = feed.receive_all(*FIRST, dsn=dsn, code=LEFT)
    assert needed(feed.log).keys() == {"public.bad", "public.wide"}
    assert text.count("the log lacks the load of") == 2
    assert rows(feed.log, "other") == 7


def test_if_no_table_can_be_copied_the_load_is_refused(feed: Feed) -> None:
    feed.execute("REVOKE SELECT ON item, wide, audit, bad, other FROM reader")
    text = feed.receive_all(*FIRST, dsn=f"{feed.dsn} user=reader", code=1)
    assert "permission denied" in text
    assert not feed.execute("SELECT slot_name FROM pg_replication_slots")


@contextlib.contextmanager
def again_and_again(dsn: str, *statements: str) -> Iterator[None]:
    """Another session executes these for ever, each in its own transaction."""
    is_over = threading.Event()

    def execute() -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            while not is_over.is_set():
                for statement in statements:
                    conn.execute(statement.encode())

    thread = threading.Thread(target=execute)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_a_table_that_is_locked_at_each_attempt_is_left_out(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot waits for locks that others have before."""
    monkeypatch.setattr("walrow._receive.load._RETRY_SECONDS", 0.1)
    monkeypatch.setattr("walrow._receive.loading._LOCK_TIMEOUT", "200ms")
    lock, processes = copying.lock, []

    def locked(*arguments: Any) -> None:
        holder = psycopg.connect(feed.dsn, application_name="holder")
        holder.execute("LOCK TABLE bad, wide IN ACCESS EXCLUSIVE MODE")
        processes.append(holder.info.backend_pid)
        # The slot of the next attempt waits for it.
        threading.Timer(1.0, holder.close).start()
        lock(*arguments)

    monkeypatch.setattr("walrow._receive.loading.lock", locked)
    real = TableLoad._broken

    def broken(*arguments: Any) -> Any:
        # The next attempts are not disturbed.
        if len(processes) == ATTEMPTS:
            monkeypatch.setattr("walrow._receive.loading.lock", lock)
        return real(*arguments)

    monkeypatch.setattr(TableLoad, "_broken", broken)
    received = feed.receive_now(create=True, snapshot=True)
    text = "; ".join(map(str, received.left))
    assert (
        "the load of public.bad, which has failed: it waits for a lock on public.bad"
        in text
    )
    assert "of the server (holder) has" in text
    assert needed(feed.log).keys() == {"public.bad", "public.wide"}
    assert rows(feed.log, "other") == 7
    walrow.load("public.wide", log=feed.log, wait=False)
    mended(feed, feed.dsn)


def test_a_table_that_is_truncated_again_and_again_is_left_out(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrow._receive.load._RETRY_SECONDS", 0.1)
    with again_and_again(feed.dsn, "TRUNCATE bad", "INSERT INTO bad VALUES (1)"):
        received = feed.receive_now(create=True, snapshot=True)
    assert rows(feed.log, "other") == 7
    if received.left:
        # A TRUNCATE in the stream makes it whole again.
        assert "public.bad" in str(received.left[0])
    feed.receive_now()
    assert needed(feed.log).keys() <= {"public.bad"}


def test_a_table_that_comes_and_goes_stops_no_load(feed: Feed) -> None:
    feed.execute("DROP PUBLICATION p", "CREATE PUBLICATION p FOR ALL TABLES")
    comes = "CREATE TABLE brief (id int PRIMARY KEY)"
    with again_and_again(
        feed.dsn, comes, "INSERT INTO brief VALUES (1)", "DROP TABLE brief"
    ):
        feed.receive_now(create=True, snapshot=True)
    feed.receive_now()
    assert rows(feed.log, "other") == 7
    assert not {"public.other", "public.item"} & needed(feed.log).keys()


def test_a_table_that_is_dropped_at_each_attempt_is_left_out(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot of the slot has the table, and its lock fails."""
    feed.execute("DROP PUBLICATION p", "CREATE PUBLICATION p FOR ALL TABLES")
    monkeypatch.setattr("walrow._receive.load._RETRY_SECONDS", 0.1)
    real = TableLoad._open

    def coming(it: TableLoad) -> Any:
        feed.execute("CREATE TABLE brief (id int)")
        return real(it)

    def gone(*arguments: Any) -> None:
        feed.execute("DROP TABLE brief")
        copying.lock(*arguments)

    monkeypatch.setattr(TableLoad, "_open", coming)
    monkeypatch.setattr("walrow._receive.loading.lock", gone)
    feed.receive_now(create=True, snapshot=True)
    assert rows(feed.log, "other") == 7
    assert not {"public.other", "public.item"} & needed(feed.log).keys()


def test_privileges_of_all_columns_are_enough(feed: Feed) -> None:
    """The preflight says so, too. LOCK TABLE would need a privilege of the table."""
    feed.execute(
        "REVOKE SELECT ON bad FROM reader", "GRANT SELECT (id) ON bad TO reader"
    )
    feed.receive_now(create=True, snapshot=True, dsn=f"{feed.dsn} user=reader")
    assert rows(feed.log, "bad") == 1


@pytest.mark.parametrize("is_mended", [False, True])
def test_a_first_load_without_a_table_that_is_killed(
    feed: Feed, *, is_mended: bool
) -> None:
    """The next process begins with all tables again, and an old record marks nothing."""
    dsn = f"{feed.dsn} user=reader"
    feed.execute(
        "CREATE TABLE big AS SELECT g, repeat('x', 1500) t FROM generate_series(1, 20000) g",
        "ALTER PUBLICATION p ADD TABLE big",
        "GRANT SELECT ON big TO reader",
        "REVOKE SELECT ON bad FROM reader",
    )
    try:
        with (
            feed.receiver(*FIRST, "--jobs", "1", dsn=dsn) as receiver,
            stopped(until_copying(feed.server, "big")),
        ):
            until((feed.log / "_load-needed").exists)
            receiver.kill()
        if is_mended:
            feed.execute("GRANT SELECT ON bad TO reader")
        feed.receive_all(*FIRST, dsn=dsn, code=0 if is_mended else LEFT)
        assert needed(feed.log).keys() == (set() if is_mended else {"public.bad"})
        assert rows(feed.log, "big") == 20_000
        if is_mended:
            assert rows(feed.log, "bad") == 1
        feed.check()
    finally:
        feed.execute("DROP TABLE big")


def test_a_crash_after_the_load_leaves_no_table_believed(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load has its place, and its outcome is not recorded."""
    feed.execute("REVOKE SELECT ON bad FROM reader")

    class CrashError(BaseException):
        pass

    def crash(*_arguments: object) -> None:
        raise CrashError

    with monkeypatch.context() as patched:
        patched.setattr("walrow._receive.completeness.Completeness.loaded", crash)
        patched.setattr("walrow._receive.load.LOOK_SECONDS", 0.1)
        options = {"create": True, "snapshot": True, "dsn": f"{feed.dsn} user=reader"}
        with feed.receiving(**options) as receiver:
            until((feed.log / "_load-needed").exists)
            until(lambda: loads(feed.log).get("public.other"))
            time.sleep(0.5)
            receiver.stop()
    feed.receive_now()
    assert needed(feed.log).keys() == {"public.bad"}
    assert loads(feed.log)["public.other"] is not None
