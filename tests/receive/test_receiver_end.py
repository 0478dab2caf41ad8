"""`walrow receive --until now`: it ends with the last commit before its start, and names the rest."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import walrow
from servers.embedded import EmbeddedServer
from servers.loads import loads
from servers.receiving import Feed, drop_if_there, execute, run_walrow
from walrow._log.requests import request
from walrow.log import PendingLoad

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

#: The exit code of the command.
LEFT = 5


@pytest.fixture
def feed(feed: Feed) -> Iterator[Feed]:
    yield feed
    for (gid,) in feed.execute("SELECT gid FROM pg_prepared_xacts"):
        feed.execute(f"ROLLBACK PREPARED '{gid}'")


def prepare(feed: Feed, gid: str, *statements: str) -> None:
    feed.execute("BEGIN", *statements, f"PREPARE TRANSACTION '{gid}'")


def test_what_waits_for_somebody_is_left_and_named(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrow._receive.driver._PAUSE_SECONDS", 3)
    assert feed.receive_now().left == ()
    prepare(feed, "mine", "INSERT INTO item VALUES (1, 1)")
    request(feed.log, ["public.item"])
    feed.execute("INSERT INTO item VALUES (2, 2)")

    received = feed.receive_now()
    load, transaction = received.left
    assert isinstance(load, PendingLoad)
    assert load.tables == ("public.item",)
    assert [it.gid for it in load.transactions] == ["mine"]
    assert isinstance(transaction, walrow.postgres.OpenTransaction)
    assert transaction.gid == "mine"
    assert str(load).startswith(
        "the load of public.item, which waits for prepared transaction 'mine' of postgres"
    )
    assert [table.rows for table in walrow.Log(feed.log).tables()] == [1]
    assert loads(feed.log) == {"public.item": None}

    # `left` is empty as soon as the transaction is decided.
    feed.execute("COMMIT PREPARED 'mine'")
    assert feed.receive_now().left == ()
    assert loads(feed.log)["public.item"] is not None
    feed.check()


def test_the_command_names_it(feed: Feed) -> None:
    """Only a transaction that wrote to a published table before the start."""
    feed.execute("CREATE TABLE IF NOT EXISTS elsewhere (id int)")
    prepare(feed, "other", "INSERT INTO elsewhere VALUES (1)", "TABLE item")
    feed.receive_all()
    prepare(feed, "mine", "INSERT INTO item VALUES (1, 1)")
    text = feed.receive_all(code=LEFT)
    last = text.splitlines()[-1]
    assert last.startswith("walrow: the log lacks prepared transaction 'mine' of")
    assert "with RowExclusiveLock on public.item:" in last
    assert last.endswith("COMMIT PREPARED or ROLLBACK PREPARED ends it")
    assert "other" not in text
    feed.receive_all("--quiet", code=LEFT)


@pytest.mark.slow
def test_a_load_that_goes_on_is_waited_for(feed: Feed) -> None:
    """Also if somebody has its table locked for a moment."""
    feed.receive_now()
    feed.execute("INSERT INTO item VALUES (1, 1)")
    request(feed.log, ["public.item"])
    with psycopg.connect(feed.dsn) as connection:
        connection.execute("LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
        with feed.receiver("--until", "now") as receiver:
            receiver.until(lambda state: "begins again" in (state["note"] or ""))
            connection.rollback()
            assert receiver.wait()[0] == 0
    assert loads(feed.log)["public.item"] is not None
    feed.check()


@pytest.mark.parametrize("other", ["SELECT 1", "VACUUM item", "CREATE ROLE passer"])
@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("ALTER TABLE last ALTER c TYPE int USING c + 1", "rewritten"),
        ("ALTER TABLE last ADD COLUMN n int DEFAULT 7", "column_default"),
        ("TRUNCATE last", None),
    ],
)
def test_what_came_last_is_known_at_the_end(
    feed: Feed, statement: str, code: str | None, other: str
) -> None:
    """Other WAL may have moved the looks behind the log's end."""
    feed.execute(
        "CREATE TABLE last (id int PRIMARY KEY, c int)",
        "ALTER PUBLICATION p ADD TABLE last",
    )
    try:
        feed.receive_now()
        feed.execute("INSERT INTO last VALUES (1, 1)")
        feed.receive_now()
        feed.execute(other)
        feed.receive_now()
        feed.execute(statement)
        feed.receive_now()
        log = walrow.Log(feed.log)
        (table,) = (it for it in log.tables() if it.name == "public.last")
        assert [it.code for it in table.marks if it.is_open] == [code] * bool(code)
        if code is None:
            assert log.state("public.last").to_pyarrow().num_rows == 0
            return
        for end in (None, log.end):
            with pytest.raises(walrow.errors.LogError) as refused:
                log.state("public.last", as_of=end)
            assert refused.value.code == "incomplete"
            with pytest.raises(walrow.errors.ApplyError, match="is not whole since"):
                log.net("public.last", end=end)
        # Before, it was whole.
        before = min(table.marks[0].since, log.end) - 1
        assert log.net("public.last", end=before).rows <= 1
    finally:
        feed.execute("DROP TABLE last", "DROP ROLE IF EXISTS passer")


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_key_that_came_last_is_that_of_the_rows(feed: Feed, identity: str) -> None:
    feed.execute(
        "CREATE TABLE last (a int NOT NULL, id int NOT NULL)",
        f"ALTER TABLE last REPLICA IDENTITY {identity}",
        "ALTER PUBLICATION p ADD TABLE last",
    )
    try:
        # The look finds it empty.
        feed.receive_now()
        feed.execute("INSERT INTO last VALUES (1, 1)")
        feed.receive_now()
        with pytest.raises(walrow.errors.SchemaError, match="which row"):
            walrow.Log(feed.log).net("last")
        feed.execute("ALTER TABLE last ADD PRIMARY KEY (id)")
        feed.receive_now()
        net = walrow.Log(feed.log).net("last")
        assert (net.keys, net.rows) == (("id",), 1)
    finally:
        feed.execute("DROP TABLE last")


@pytest.mark.parametrize("shift", ["+ 1000000000000", "- 20000000", "+ (1 / 0)"])
def test_a_server_with_other_positions_in_sql(
    server: EmbeddedServer, tmp_path: Path, shift: str
) -> None:
    """Some managed servers' storage is not PostgreSQL's."""
    slot = f"other_{time.monotonic_ns()}"
    log = tmp_path / "log"
    with server.database("other") as name:
        dsn = server.dsn_of(name)
        moved = [
            f"ALTER FUNCTION pg_catalog.{it}() RENAME TO real_{it};"
            f" CREATE FUNCTION pg_catalog.{it}() RETURNS pg_lsn LANGUAGE sql"
            f" AS 'SELECT pg_catalog.real_{it}() {shift}'"
            for it in ("pg_current_wal_insert_lsn", "pg_current_wal_flush_lsn")
        ]
        execute(
            dsn,
            "SET allow_system_table_mods = on",
            *moved,
            "CREATE TABLE t (id int PRIMARY KEY, c int)",
            "CREATE PUBLICATION p FOR TABLE t",
            "RESET allow_system_table_mods",
        )
        seen: list[walrow.log.Status] = []
        try:

            def receive() -> list[str]:
                seen.clear()
                walrow.receive(
                    dsn,
                    log=log,
                    slot=slot,
                    publications="p",
                    create=True,
                    until="now",
                    progress=seen.append,
                )
                return [it.note or "" for it in seen if "other LSNs" in (it.note or "")]

            assert len(receive()) == 1
            execute(dsn, "INSERT INTO t VALUES (1, 1)")
            receive()
            assert walrow.Log(log).state("t").to_pyarrow().num_rows == 1
            assert {(it.lag_bytes, it.kept_bytes) for it in seen} == {(None, None)}
            shown = run_walrow("slot", "list", "--json", "--dsn", dsn).stdout
            kept = {json.loads(line)["kept_bytes"] for line in shown.splitlines()}
            assert kept == {None}
            assert "unknown" in run_walrow("slot", "list", "--dsn", dsn).stdout
            execute(dsn, "ALTER TABLE t ALTER c TYPE int USING c + 1")
            receive()
            with pytest.raises(walrow.errors.LogError, match="rewritten"):
                walrow.Log(log).state("t")
            execute(dsn, "TRUNCATE t")
            request(log, ["public.t"])
            receive()
            assert walrow.Log(log).state("t").to_pyarrow().num_rows == 0
            changes = walrow.postgres.changes(
                dsn, slot=slot, publications="p", until="now", peek=True, table="t"
            )
            with changes:
                list(changes)
        finally:
            drop_if_there(dsn, slot)


@pytest.mark.parametrize("when", ["before the slot", "between two starts"])
def test_a_table_whose_partitions_lack_an_identity_stops_no_other(
    server: EmbeddedServer, tmp_path: Path, when: str
) -> None:
    slot = f"lacking_{time.monotonic_ns()}"
    log = tmp_path / "log"
    with server.database("lacking") as name:
        dsn = server.dsn_of(name)
        options = "FOR ALL TABLES WITH (publish_via_partition_root)"
        execute(dsn, f"CREATE PUBLICATION p {options}")
        tables = (
            "CREATE TABLE plain (id int PRIMARY KEY)",
            "CREATE TABLE r (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
            "CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10)",
            "ALTER TABLE r REPLICA IDENTITY FULL",
        )

        def receive() -> dict[str, set[str]]:
            walrow.receive(
                dsn, log=log, slot=slot, publications="p", create=True, until="now"
            )
            return {
                it.name: {mark.code.value for mark in it.marks if mark.is_open}
                for it in walrow.Log(log).tables()
            }

        try:
            if when == "between two starts":
                receive()
                execute(dsn, *tables)
            else:
                execute(dsn, *tables)
                receive()
            execute(
                dsn, "INSERT INTO plain VALUES (1)", "INSERT INTO r VALUES (1, 'a')"
            )
            assert receive() == {
                "public.plain": set(),
                "public.r": {"partition_identity"},
            }
            assert walrow.Log(log).state("plain").to_pyarrow().num_rows == 1
            # A load does not change what its next old rows lack.
            request(log, ["public.r"])
            assert receive()["public.r"] == {"partition_identity"}
            execute(dsn, "ALTER TABLE r1 REPLICA IDENTITY FULL")
            assert receive()["public.r"] == {"partition_identity"}
            request(log, ["public.r"])
            assert receive()["public.r"] == set()
            assert walrow.Log(log).state("r").to_pyarrow().num_rows == 1
        finally:
            drop_if_there(dsn, slot)
