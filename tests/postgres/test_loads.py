"""Loads: the rows that tables have, at their place in the log."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import walrow
from servers.receiving import (
    Disk,
    Load,
    ReceiverProcess,
    check_log,
    drop_if_there,
    end_of_wal,
    execute,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servers import EmbeddedServer

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

QUICK = ("--age", "0.3", "--segment-size", "1")
FIRST = (*QUICK, "--create", "--snapshot")


@pytest.fixture
def slot(server: EmbeddedServer) -> Iterator[str]:
    """The name of a slot that does not exist, beside tables that have rows."""
    name = f"s_{uuid.uuid4().hex[:8]}"
    execute(
        server.dsn,
        "DROP PUBLICATION IF EXISTS p",
        "DROP TABLE IF EXISTS item, audit, wide",
        Load.SETUP,
        "INSERT INTO item SELECT g, g, 'before ' || g FROM generate_series(1, 30) g",
        "INSERT INTO audit SELECT now(), g, E'a\\tb\\nc\\\\N' FROM generate_series(1, 20000) g",
        "INSERT INTO wide SELECT g, repeat('w', 5000) FROM generate_series(1, 50) g",
        "CREATE PUBLICATION p FOR TABLE item, audit, wide",
    )
    yield name
    drop_if_there(server.dsn, name)


def loads(log: Path) -> dict[str, walrow.Lsn | None]:
    """The tables of a log, and where their last loads end."""
    return {table.name: table.loaded for table in walrow.Log(log).tables()}


def needed(log: Path) -> dict[str, str]:
    """The tables that need a load, and why."""
    tables = walrow.Log(log).tables()
    return {it.name: it.needs_load for it in tables if it.needs_load is not None}


def transactions(log: Path) -> list[dict[str, object]]:
    """The transactions of a log."""
    batches = walrow.read(log, table="walrow.transactions")
    return [row for batch in batches for row in pa.record_batch(batch).to_pylist()]


def is_loaded(state: dict[str, object]) -> bool:
    """Whether no load runs."""
    return state["state"] == "streaming" and state["load"] is None


def receive_rest(server: EmbeddedServer, log: Path, slot: str, *arguments: str) -> None:
    """Receives everything that is committed now."""
    arguments = arguments or QUICK
    with ReceiverProcess(
        server.dsn, log, *arguments, "--until-now", slot=slot
    ) as receiver:
        code, text = receiver.wait()
        assert code == 0, text


@pytest.mark.parametrize("binary", [False, True])
def test_a_log_begins_with_the_rows_of_its_tables(
    server: EmbeddedServer, slot: str, tmp_path: Path, *, binary: bool
) -> None:
    log = tmp_path / "log"
    arguments = (*FIRST, "--binary") if binary else FIRST
    with (
        ReceiverProcess(server.dsn, log, *arguments, slot=slot) as receiver,
        Load(server.dsn, seed=3),
    ):
        receiver.until_streaming()
        time.sleep(2)
        receiver.until(is_loaded)
    receive_rest(server, log, slot, *arguments)
    if not binary:
        # The other decoder compares texts.
        check_log(server.dsn, log, Load.TABLES)
    # All of them at one place: before it, there is nothing.
    (point,) = set(loads(log).values())
    assert point is not None
    first, *rest = transactions(log)
    assert first["snapshot"]
    assert first["commit_lsn"] == point - 1
    assert first["end_lsn"] == point
    assert int(str(first["changes"])) > 20_000
    assert not any(each["snapshot"] for each in rest)
    (audit,) = [it for it in walrow.Log(log).tables() if it.name == "public.audit"]
    assert audit.truncates == 1


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


def test_a_load_that_is_killed_leaves_no_trace(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with Load(server.dsn, seed=5):
        # The first load, in each of its phases; then loads of a live slot.
        for pause in (0.2, 0.5, 0.7, 0.9, 1.1):
            with ReceiverProcess(server.dsn, log, *FIRST, slot=slot):
                time.sleep(pause)
        with ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver:
            receiver.until(is_loaded)
        for pause in (0.1, 0.2, 0.3, 0.5):
            with ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver:
                receiver.until_streaming()
                requested = threading.Thread(target=load_if_possible, args=(log,))
                requested.start()
                time.sleep(pause)
                receiver.kill()
                requested.join()
            # Readers see everything that was there, and nothing of the load.
            walrow.Log(log).verify()
    receive_rest(server, log, slot)
    check_log(server.dsn, log, Load.TABLES)
    # The request has survived.
    assert not (log / "_load-taken").exists()
    assert not (log / "_load").exists()


def load_if_possible(log: Path) -> None:
    """Leaves a request, unless there is one."""
    with contextlib.suppress(TimeoutError, walrow.LogError):
        walrow.load(log=log, timeout=0)


@pytest.mark.parametrize("step", range(6, 76, 14))
def test_a_first_load_that_is_killed_at_a_step_begins_again(
    server: EmbeddedServer, slot: str, tmp_path: Path, step: int
) -> None:
    log = tmp_path / "log"
    with ReceiverProcess(server.dsn, log, *FIRST, slot=slot, crash_at=step) as receiver:
        try:
            receiver.until(is_loaded)
        except AssertionError:
            assert receiver.process.poll() is not None
    execute(server.dsn, "DELETE FROM item WHERE id < 10")
    receive_rest(server, log, slot, *FIRST)
    check_log(server.dsn, log, Load.TABLES)
    assert None not in loads(log).values()


def test_what_the_stream_lacks_is_loaded(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver:
        receiver.until(is_loaded)
        execute(
            server.dsn,
            "DROP TABLE IF EXISTS late",
            'CREATE TABLE late (id int PRIMARY KEY, "odd name" text)',
            "INSERT INTO late VALUES (1, 'from before')",
            "ALTER PUBLICATION p ADD TABLE late",
            "ALTER TABLE item ADD COLUMN more int DEFAULT 7",
            "ALTER TABLE item RENAME COLUMN label TO title",
            "ALTER TABLE wide ALTER id TYPE bigint",
            "UPDATE item SET n = 0 WHERE id = 1",
            "INSERT INTO late VALUES (2, 'later')",
        )
        # The receiver has noticed.
        deadline = time.monotonic() + 45
        while len(needs := needed(log)) < 3 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert needs == {
            "public.item": "column label was renamed to title; "
            "column more was added with a value for existing rows",
            "public.wide": "column id has another type",
            "public.late": "it is new in the publication",
        }
        walrow.load(["public.item", "public.wide", "public.late"], log=log, timeout=60)
        assert needed(log) == {}
    check_log(server.dsn, log, [*Load.TABLES, "late"])
    execute(server.dsn, "DROP TABLE late")


def test_a_load_has_what_the_publication_has(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    execute(
        server.dsn,
        "DROP PUBLICATION p",
        "DROP TABLE IF EXISTS tree, twin",
        "CREATE TABLE tree (id int, part int, note text, PRIMARY KEY (id, part))"
        " PARTITION BY LIST (part)",
        "CREATE TABLE tree_1 PARTITION OF tree FOR VALUES IN (1)",
        # The same columns in another order.
        "CREATE TABLE tree_2 (note text, part int NOT NULL, id int NOT NULL)",
        "ALTER TABLE tree ATTACH PARTITION tree_2 FOR VALUES IN (2)",
        "INSERT INTO tree SELECT g, 1 + g % 2, 'n' || g FROM generate_series(1, 9) g",
        "CREATE TABLE twin (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2)"
        " STORED, secret text)",
        "INSERT INTO twin (id, secret) SELECT g, 'secret' FROM generate_series(1, 9) g",
    )
    new = int(server.version.partition(".")[0]) >= 15
    execute(
        server.dsn,
        "CREATE PUBLICATION p FOR TABLE tree, "
        + ("twin (id) WHERE (id > 5)" if new else "twin")
        + " WITH (publish_via_partition_root)",
    )
    with ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver:
        receiver.until(is_loaded)
        execute(server.dsn, "UPDATE tree SET note = 'new' WHERE id = 4")
    receive_rest(server, log, slot)
    check_log(server.dsn, log, ["tree"])
    assert set(loads(log)) == {"public.tree", "public.twin"}
    twin = pa.table(walrow.read(log, table="public.twin"))
    if new:
        assert "secret" not in twin.column_names
        assert "twice" not in twin.column_names
        assert sorted(filter(None, twin["id"].to_pylist())) == [6, 7, 8, 9]
    else:
        assert twin.num_rows == 10
    execute(server.dsn, "DROP PUBLICATION p", "DROP TABLE tree, twin")


def test_a_large_table_comes_in_ranges_over_several_connections(
    server: EmbeddedServer, slot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrow.postgres.copying._PIECE_PAGES", 16)
    log = tmp_path / "log"
    states: list[walrow.receiver_state.Status] = []
    walrow.receive(
        server.dsn,
        log=log,
        slot=slot,
        publications="p",
        create=True,
        snapshot=True,
        jobs=3,
        segment_bytes=1 << 20,
        until="now",
        status=states.append,
    )
    check_log(server.dsn, log, Load.TABLES)
    pieces = [each.load.pieces_in_all for each in states if each.load is not None]
    assert max(pieces, default=20) >= 20
    segments = walrow.Log(log).segments()
    assert sum(each.continues for each in segments) >= 1


def test_a_load_that_is_refused_says_why(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver:
        receiver.until(is_loaded)
        with pytest.raises(walrow.LogError, match=r"no table public\.nobody"):
            walrow.load("public.nobody", log=log, timeout=60)
        # It goes on.
        execute(server.dsn, "INSERT INTO audit (what) VALUES ('later')")
        receiver.until_streaming(after=end_of_wal(server.dsn))
        assert receiver.stop(signal.SIGINT) < 2
    check_log(server.dsn, log, Load.TABLES)


def test_a_load_is_given_up_when_too_much_waits(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    receive_rest(server, log, slot, *FIRST)
    before = loads(log)
    stop = threading.Event()

    def receive() -> None:
        # Nothing may come beside the load.
        walrow.receive(
            server.dsn,
            log=log,
            slot=slot,
            publications="p",
            age=0.3,
            max_hold=0,
            jobs=1,
            stop=stop,
        )

    receiver = threading.Thread(target=receive)
    receiver.start()
    with Load(server.dsn, seed=6, pause=0):
        with pytest.raises(walrow.LogError, match="waited for it"):
            walrow.load(log=log, timeout=60)
        assert loads(log) == before
        time.sleep(0.5)
    stop.set()
    receiver.join(30)
    receive_rest(server, log, slot)
    check_log(server.dsn, log, Load.TABLES)


def test_a_publication_may_have_no_tables(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    execute(server.dsn, "DROP PUBLICATION p", "CREATE PUBLICATION p")
    with ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver:
        receiver.until(is_loaded)
        execute(
            server.dsn,
            "ALTER PUBLICATION p ADD TABLE item",
            "INSERT INTO item VALUES (200, 1)",
        )
        walrow.load("public.item", log=log, timeout=60)
    check_log(server.dsn, log, ["item"])


def test_a_slot_that_exists_gets_a_load_too(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    execute(
        server.dsn,
        f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')",
        "INSERT INTO item SELECT g, g FROM generate_series(100, 103) g",
    )
    receive_rest(server, log, slot, *FIRST)
    check_log(server.dsn, log, Load.TABLES)
    inserted, load, *_ = transactions(log)
    assert (inserted["snapshot"], inserted["changes"]) == (False, 4)
    assert load["snapshot"]


def test_a_first_load_that_was_broken_off_is_not_forgotten(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with ReceiverProcess(server.dsn, log, *FIRST, slot=slot, crash_at=30) as receiver:
        receiver.wait()
    # Without the option, the log would lack the rows.
    with ReceiverProcess(server.dsn, log, *QUICK, slot=slot) as receiver:
        code, text = receiver.wait()
    assert code != 0
    assert "first load" in text
    receive_rest(server, log, slot, *FIRST)
    check_log(server.dsn, log, Load.TABLES)


def test_ddl_is_a_message_at_its_place(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    execute(server.dsn, walrow.postgres.ddl_trigger())
    try:
        receive_rest(server, log, slot, *FIRST, "--messages")
        execute(
            server.dsn,
            "BEGIN; INSERT INTO item VALUES (101, 1, 'a');"
            " ALTER TABLE item RENAME label TO title;"
            " INSERT INTO item VALUES (102, 1, 'b'); COMMIT",
            "CREATE TEMP TABLE unseen ()",
            "CREATE TABLE dropped (id int)",
            "DROP TABLE dropped",
        )
        receive_rest(server, log, slot, *QUICK, "--messages")
    finally:
        execute(server.dsn, walrow.postgres.ddl_trigger(drop=True))
    found = [
        (row["seq"], json.loads(row["content"]))
        for batch in walrow.read(log, table="walrow.messages")
        for row in pa.record_batch(batch).to_pylist()
        if row["prefix"] == "walrow.ddl"
    ]
    (seq, renamed), (_, created), (_, dropped) = found
    assert seq == 1
    assert (renamed["command"], renamed["table"]) == ("ALTER TABLE", "item")
    assert [(it["number"], it["name"]) for it in renamed["columns"]] == [
        (1, "id"),
        (2, "n"),
        (3, "title"),
    ]
    assert (created["command"], created["table"]) == ("CREATE TABLE", "dropped")
    assert (dropped["command"], dropped["columns"]) == ("DROP TABLE", None)
    assert not execute(server.dsn, "SELECT FROM pg_event_trigger")


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
            request = walrow.load_requests.request(log, None)
            time.sleep(3)
        deadline = time.monotonic() + 60
        while walrow.load_requests.result_of(log, request) is None:
            assert time.monotonic() < deadline, receiver.states[-3:]
            time.sleep(0.1)
    receive_rest(server, log, slot)
    check_log(server.dsn, log, Load.TABLES)
    assert [each["snapshot"] for each in transactions(log)].count(True) == 2


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
        request = walrow.load_requests.request(log, None)
        for _ in range(4):
            execute(server.dsn, end_all)
            time.sleep(0.25)
        deadline = time.monotonic() + 60
        while walrow.load_requests.result_of(log, request) is None:
            assert time.monotonic() < deadline, receiver.states[-3:]
            time.sleep(0.1)
    receive_rest(server, log, slot)
    check_log(server.dsn, log, Load.TABLES)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_million_rows_take_constant_memory(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    execute(
        server.dsn,
        "DROP TABLE IF EXISTS big",
        "CREATE TABLE big (id bigint PRIMARY KEY, n int, note text)",
        "INSERT INTO big SELECT g, g % 1000, 'note ' || g"
        " FROM generate_series(1, 10000000) g",
        "ALTER PUBLICATION p ADD TABLE big",
    )
    with ReceiverProcess(server.dsn, log, *FIRST, slot=slot) as receiver:
        receiver.until(is_loaded, timeout=300)
        execute(server.dsn, "DELETE FROM big WHERE id % 10 = 0")
        receiver.until_streaming(after=end_of_wal(server.dsn), timeout=300)
        status = Path(f"/proc/{receiver.process.pid}/status").read_text("utf-8")
        (peak,) = re.findall(r"VmHWM:\s*(\d+) kB", status)
        assert int(peak) < 400_000
        receiver.stop()
    with walrow.Log(log).state("public.big") as state:
        count = total = 0
        for batch in state:
            ids = pa.record_batch(batch).column("id")
            count, total = count + len(ids), total + pc.sum(ids).as_py()
    ((rows, ids_total),) = execute(server.dsn, "SELECT count(*), sum(id) FROM big")
    assert (count, total) == (rows, int(ids_total))
    execute(server.dsn, "DROP TABLE big")


@contextlib.contextmanager
def receiving(
    server: EmbeddedServer, log: Path, slot: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A receiver in a thread, which looks often at what is published."""
    monkeypatch.setattr("walrow.completeness._LOOK_SECONDS", 0.2)
    stop = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            walrow.receive(
                server.dsn,
                log=log,
                slot=slot,
                publications="p",
                create=True,
                snapshot=True,
                age=0.2,
                stop=stop,
            )
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
        assert not failures, failures


def until(is_so: Callable[[], bool]) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def needs_of(log: Path, name: str) -> str | None:
    """Why a table needs a load, by the receiver's record."""
    found = json.loads((log / "_load-needed").read_text("utf-8"))
    reasons = [
        mark["reason"]
        for marks in found["incomplete"].values()
        for mark in marks
        if mark["until"] is None
    ]
    return next((it for it in reasons if name in it), None)


@pytest.mark.parametrize(
    "change",
    [
        (
            [
                "ALTER PUBLICATION p DROP TABLE item",
                "INSERT INTO item VALUES (500, 1)",
                "ALTER PUBLICATION p ADD TABLE item",
            ],
            "for a while",
        ),
        (
            [
                "BEGIN; ALTER TABLE item ADD x int NOT NULL DEFAULT 7;"
                " ALTER TABLE item ALTER x DROP DEFAULT; COMMIT"
            ],
            "column x was added with a value",
        ),
        (["ALTER TABLE item RENAME label TO title"], "label was renamed to title"),
    ],
)
def test_what_makes_a_table_incomplete_is_noticed(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: tuple[list[str], str],
) -> None:
    log, (statements, reason) = tmp_path / "log", change
    with receiving(server, log, slot, monkeypatch):
        until((log / "_load-needed").exists)
        until(lambda: (log / "_open").exists() and bool(walrow.Log(log).tables()))
        execute(server.dsn, *statements, "UPDATE item SET n = 5 WHERE id = 1")
        until(lambda: needs_of(log, reason) is not None)
        walrow.load("public.item", log=log, timeout=60)
        assert needs_of(log, reason) is None
    found = walrow.Log(log)
    ((load,),) = (set(loads(log).values()) - {min(filter(None, loads(log).values()))},)
    assert load is not None
    # Before the load, the table was not whole, and it still is not.
    with pytest.raises(walrow.LogError, match="load the table again") as caught:
        found.state("public.item", as_of=load - 1)
    assert caught.value.code == "incomplete"
    assert found.state("public.item", as_of=load).to_pyarrow().num_rows >= 30
    check_log(server.dsn, log, Load.TABLES)


def test_partitions_and_tables_that_are_created_are_whole(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = tmp_path / "log"
    execute(
        server.dsn,
        "DROP TABLE IF EXISTS tree, other",
        "CREATE TABLE tree (id int, part int, PRIMARY KEY (id, part)) PARTITION BY LIST (part)",
        "CREATE TABLE tree_1 PARTITION OF tree FOR VALUES IN (1)",
        "CREATE TABLE other (id int, part int NOT NULL, PRIMARY KEY (id, part))",
        "INSERT INTO tree VALUES (1, 1)",
        "INSERT INTO other VALUES (2, 2)",
        "ALTER PUBLICATION p SET (publish_via_partition_root = true)",
        "ALTER PUBLICATION p ADD TABLE tree",
    )
    with receiving(server, log, slot, monkeypatch):
        until((log / "_load-needed").exists)
        before = (log / "_load-needed").read_text("utf-8")
        execute(
            server.dsn,
            "CREATE TABLE tree_3 PARTITION OF tree FOR VALUES IN (3)",
            "INSERT INTO tree VALUES (3, 3)",
        )
        until(lambda: (log / "_load-needed").read_text("utf-8") != before)
        time.sleep(1)
        assert needs_of(log, "") is None
        execute(server.dsn, "ALTER TABLE tree ATTACH PARTITION other FOR VALUES IN (2)")
        until(lambda: needs_of(log, "attached") is not None)
        walrow.load("public.tree", log=log, timeout=60)
        assert needs_of(log, "") is None
    check_log(server.dsn, log, ["tree"])
    execute(server.dsn, "DROP TABLE tree")


def test_two_requests_have_two_results(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = tmp_path / "log"
    with receiving(server, log, slot, monkeypatch):
        until(lambda: (log / "_open").exists() and bool(walrow.Log(log).tables()))
        # What is damaged ends nothing.
        (log / "_load-requested").write_text("", encoding="utf-8")
        until(lambda: not (log / "_load-requested").exists())
        until(lambda: not (log / "_load-taken").exists())
        failures: list[str] = []

        def fail() -> None:
            try:
                walrow.load("public.nobody", log=log, timeout=60)
            except walrow.LogError as error:
                failures.append(str(error))

        failing = threading.Thread(target=fail)
        failing.start()
        until(lambda: (log / "_load-taken").exists() or not failing.is_alive())
        walrow.load("public.item", log=log, timeout=60)
        failing.join()
        assert "no table public.nobody" in failures[0]
    assert not list(log.glob("_load-re*"))


def test_a_load_that_waits_for_a_transaction_lets_the_log_go_on(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("walrow.receiver_loads._PAUSE_SECONDS", 1.0)
    log = tmp_path / "log"
    with receiving(server, log, slot, monkeypatch):
        until(lambda: (log / "_open").exists() and bool(walrow.Log(log).tables()))
        with psycopg.connect(server.dsn) as idle:
            idle.execute("INSERT INTO audit (what) VALUES ('waits')")
            request = walrow.load_requests.request(log, ["public.item"])
            time.sleep(0.5)
            execute(server.dsn, "INSERT INTO item VALUES (900, 1)")
            end = walrow.Lsn(end_of_wal(server.dsn))
            until(lambda: walrow.Log(log).end >= end)
            assert walrow.load_requests.result_of(log, request) is None
        until(lambda: walrow.load_requests.result_of(log, request) is not None)
        found = walrow.load_requests.result_of(log, request)
        assert found is not None
        assert found.failure is None
    check_log(server.dsn, log, Load.TABLES)


def test_a_table_that_is_locked_for_long_ends_only_the_load(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("walrow.receiver_loads._ATTEMPTS", 2)
    log = tmp_path / "log"
    with receiving(server, log, slot, monkeypatch):
        until(lambda: (log / "_open").exists() and bool(walrow.Log(log).tables()))
        with psycopg.connect(server.dsn) as other:
            other.execute("LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(walrow.LogError, match="lock timeout"):
                walrow.load("public.item", log=log, timeout=60)
        walrow.load("public.item", log=log, timeout=60)
    check_log(server.dsn, log, Load.TABLES)


def test_a_partition_is_loaded_once_as_its_root(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    execute(
        server.dsn,
        "DROP TABLE IF EXISTS tree",
        "DROP PUBLICATION IF EXISTS p2",
        "CREATE TABLE tree (id int, part int, PRIMARY KEY (id, part)) PARTITION BY LIST (part)",
        "CREATE TABLE tree_1 PARTITION OF tree FOR VALUES IN (1)",
        "INSERT INTO tree VALUES (1, 1)",
        "CREATE PUBLICATION p2 FOR TABLE tree WITH (publish_via_partition_root)",
        "ALTER PUBLICATION p ADD TABLE tree_1",
    )
    with ReceiverProcess(
        server.dsn, log, *FIRST, "--publication", "p2", slot=slot
    ) as receiver:
        receiver.until(is_loaded)
        execute(server.dsn, "DELETE FROM tree", "INSERT INTO tree VALUES (3, 1)")
    receive_rest(server, log, slot, *QUICK, "--publication", "p2")
    check_log(server.dsn, log, ["tree"])
    assert "public.tree_1" not in loads(log)
    execute(server.dsn, "DROP PUBLICATION p2", "DROP TABLE tree")
