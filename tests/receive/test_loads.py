"""First loads: the rows that tables have when their log begins."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from psycopg.conninfo import make_conninfo

import walrow
from servers.loads import (
    FIRST,
    is_loaded,
    loads,
    receiving,
    stopped,
    transactions,
    until_copying,
    until_loaded,
)
from servers.receiving import (
    QUICK,
    Disk,
    Feed,
    Load,
    until,
)
from walrow._core import LogObjects
from walrow._postgres import copying
from walrow._postgres.published import PublishedTable
from walrow._receive.connector import Connector
from walrow._receive.loading import TableLoad

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.mark.parametrize("binary", [False, True])
def test_a_log_begins_with_the_rows_of_its_tables(
    filled: Feed, *, binary: bool
) -> None:
    arguments = (*FIRST, "--binary") if binary else FIRST
    with (
        filled.receiver(*arguments) as receiver,
        Load(filled.dsn, seed=3),
    ):
        receiver.until_streaming()
        time.sleep(2)
        receiver.until(is_loaded)
    filled.receive_all(*arguments)
    if not binary:
        # The other decoder compares texts.
        filled.check()
    # All of them at one place: before it, there is nothing.
    (point,) = set(loads(filled.log).values())
    assert point is not None
    first, *rest = transactions(filled.log)
    assert first["snapshot"]
    assert first["commit_lsn"] == point - 1
    assert first["end_lsn"] == point
    assert int(str(first["changes"])) > 20_000
    assert not any(each["snapshot"] for each in rest)
    (audit,) = [
        it for it in walrow.Log(filled.log).tables() if it.name == "public.audit"
    ]
    assert audit.truncates == 1


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, marks=[] if step % 21 == 6 else pytest.mark.slow)
        for step in range(1, 76)
    ],
)
def test_a_first_load_that_is_killed_at_a_step_begins_again(
    filled: Feed, step: int
) -> None:
    with filled.receiver(*FIRST, crash_at=step) as receiver:
        try:
            receiver.until(is_loaded)
        except AssertionError:
            assert receiver.process.poll() is not None
    filled.execute("DELETE FROM item WHERE id < 10")
    filled.check_rest(*FIRST)
    assert None not in loads(filled.log).values()


def test_a_load_has_what_the_publication_has(filled: Feed) -> None:
    filled.execute(
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
    new = int(filled.server.version.partition(".")[0]) >= 15
    filled.execute(
        "CREATE PUBLICATION p FOR TABLE tree, "
        + ("twin (id) WHERE (id > 5)" if new else "twin")
        + " WITH (publish_via_partition_root)"
    )
    with filled.receiver(*FIRST) as receiver:
        receiver.until(is_loaded)
        filled.execute("UPDATE tree SET note = 'new' WHERE id = 4")
    filled.receive_all()
    filled.check(["tree"])
    assert set(loads(filled.log)) == {"public.tree", "public.twin"}
    twin = pa.table(walrow.read(filled.log, table="public.twin"))
    if new:
        assert "secret" not in twin.column_names
        assert "twice" not in twin.column_names
        assert sorted(filter(None, twin["id"].to_pylist())) == [6, 7, 8, 9]
    else:
        assert twin.num_rows == 10
    filled.execute("DROP PUBLICATION p", "DROP TABLE tree, twin")


def test_a_large_table_comes_in_ranges_over_several_connections(
    filled: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrow._postgres.copying._PIECE_PAGES", 16)
    pieces: list[copying.Piece] = []

    def pieces_of(tables: Sequence[PublishedTable]) -> list[copying.Piece]:
        pieces.extend(found := cut(tables))
        return found

    cut = copying.pieces_of
    monkeypatch.setattr("walrow._receive.loading.pieces_of", pieces_of)
    filled.receive(
        create=True, snapshot=True, jobs=3, segment_size=1 << 20, until="now"
    )
    filled.check()
    assert len(pieces) >= 8
    segments = walrow.Log(filled.log).segments()
    assert sum(each.continues for each in segments) >= 1


def test_a_publication_may_have_no_tables(filled: Feed) -> None:
    filled.execute("DROP PUBLICATION p", "CREATE PUBLICATION p")
    with filled.receiver(*FIRST) as receiver:
        receiver.until(is_loaded)
        filled.execute(
            "ALTER PUBLICATION p ADD TABLE item", "INSERT INTO item VALUES (200, 1)"
        )
        walrow.load("public.item", log=filled.log, timeout=60)
    filled.check(["item"])


def test_a_slot_that_exists_gets_a_load_too(filled: Feed) -> None:
    filled.execute(
        f"SELECT pg_create_logical_replication_slot('{filled.slot}', 'pgoutput')",
        "INSERT INTO item SELECT g, g FROM generate_series(100, 103) g",
    )
    filled.check_rest(*FIRST)
    inserted, load, *_ = transactions(filled.log)
    assert (inserted["snapshot"], inserted["changes"]) == (False, 4)
    assert load["snapshot"]


def test_a_first_load_that_was_broken_off_is_not_forgotten(filled: Feed) -> None:
    with filled.receiver(*FIRST, crash_at=20) as receiver:
        receiver.wait()
    assert b'"place"' in (filled.log / "_loaded-and-removed").read_bytes()
    # Without the option, the log would lack the rows.
    with filled.receiver(*QUICK) as receiver:
        code, text = receiver.wait()
    assert code != 0
    assert "first load" in text
    filled.check_rest(*FIRST)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_million_rows_take_constant_memory(filled: Feed) -> None:
    filled.execute(
        "DROP TABLE IF EXISTS big",
        "CREATE TABLE big (id bigint PRIMARY KEY, n int, note text)",
        "INSERT INTO big SELECT g, g % 1000, 'note ' || g"
        " FROM generate_series(1, 10000000) g",
        "ALTER PUBLICATION p ADD TABLE big",
    )
    with filled.receiver(*FIRST) as receiver:
        receiver.until(is_loaded, timeout=300)
        filled.execute("DELETE FROM big WHERE id % 10 = 0")
        filled.until_all(receiver, timeout=300)
        status = Path(f"/proc/{receiver.process.pid}/status").read_text("utf-8")
        (peak,) = re.findall(r"VmHWM:\s*(\d+) kB", status)
        assert int(peak) < 400_000
        receiver.stop()
    with walrow.Log(filled.log).state("public.big") as state:
        count = total = 0
        for batch in state:
            ids = pa.record_batch(batch).column("id")
            count, total = count + len(ids), total + pc.sum(ids).as_py()
    ((rows, ids_total),) = filled.execute("SELECT count(*), sum(id) FROM big")
    assert (count, total) == (rows, int(ids_total))
    filled.execute("DROP TABLE big")


def test_a_partition_is_loaded_once_as_its_root(filled: Feed) -> None:
    filled.execute(
        "DROP TABLE IF EXISTS tree",
        "DROP PUBLICATION IF EXISTS p2",
        "CREATE TABLE tree (id int, part int, PRIMARY KEY (id, part)) PARTITION BY LIST (part)",
        "CREATE TABLE tree_1 PARTITION OF tree FOR VALUES IN (1)",
        "INSERT INTO tree VALUES (1, 1)",
        "CREATE PUBLICATION p2 FOR TABLE tree WITH (publish_via_partition_root)",
        "ALTER PUBLICATION p ADD TABLE tree_1",
    )
    with filled.receiver(*FIRST, "--publication", "p2") as receiver:
        receiver.until(is_loaded)
        filled.execute("DELETE FROM tree", "INSERT INTO tree VALUES (3, 1)")
    filled.receive_all("--publication", "p2")
    filled.check(["tree"])
    assert "public.tree_1" not in loads(filled.log)
    filled.execute("DROP PUBLICATION p2", "DROP TABLE tree")


def test_a_first_load_that_is_refused_leaves_no_slot(filled: Feed) -> None:
    filled.execute(
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN REPLICATION",
        "GRANT SELECT ON item, audit, wide TO reader",
        # Without an error, the load would lack the rows that the role must not see.
        *(f"ALTER TABLE {it} ENABLE ROW LEVEL SECURITY" for it in Load.TABLES),
    )
    dsn = make_conninfo(filled.dsn, user="reader")
    with filled.receiver(*FIRST, dsn=dsn) as receiver:
        code, text = receiver.wait()
    assert code != 0
    assert "row-level security" in text
    assert not filled.execute(f"{SLOTS} WHERE slot_name = '{filled.slot}'")
    filled.execute(
        *(f"ALTER TABLE {it} DISABLE ROW LEVEL SECURITY" for it in Load.TABLES)
    )
    filled.check_rest(*FIRST)
    filled.execute("DROP OWNED BY reader", "DROP ROLE reader")


def test_the_error_of_a_load_has_no_value_of_a_row(
    filled: Feed, tmp_path: Path
) -> None:
    """A row filter may fail on a row, and the server's message then has its value."""
    if int(filled.server.version.partition(".")[0]) < 15:
        pytest.skip("row filters come with PostgreSQL 15")
    filled.receive_all(*FIRST)
    filled.execute(
        "INSERT INTO audit (what) VALUES ('s3cret word')",
        "ALTER PUBLICATION p SET TABLE item,"
        " audit WHERE (date_part(what, timestamp '2020-01-01') > 0)",
    )
    options = {"slot": f"{filled.slot}_2", "log": tmp_path / "first"}
    with filled.receiver("--until", "now", *FIRST, **options) as receiver:
        code, text = receiver.wait()
        assert code != 0
        assert "cannot copy a table: SQLSTATE 22023 (invalid_parameter_value)" in text
        assert "s3cret" not in receiver.output + text
    with filled.receiver(*QUICK) as receiver:
        receiver.until_streaming()
        request = walrow._log.requests.request(
            filled.log, ["public.audit"], is_awaited=True
        )
        until(
            lambda: (
                walrow._log.requests.result_of(LogObjects(filled.log), request)
                is not None
            )
        )
        receiver.stop()
        # It is what `walrow.load` raises, and a file of the log.
        result = walrow._log.requests.result_of(LogObjects(filled.log), request)
        assert "SQLSTATE 22023" in str(result)
        assert "s3cret" not in f"{result}{receiver.output}{receiver.errors}"


SLOTS = "SELECT slot_name FROM pg_replication_slots"


@pytest.mark.slow
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_first_load_that_breaks_while_the_disk_stalls_begins_again(
    filled: Feed, *, is_stopped: bool
) -> None:
    """The attempt that broke has the log until its fsync returns."""
    filled.execute(
        "DROP TABLE IF EXISTS big",
        "CREATE TABLE big AS SELECT g, repeat('x', 1500) t FROM generate_series(1, 20000) g",
        "ALTER PUBLICATION p ADD TABLE big",
    )
    disk = Disk(filled.log)
    # Parts of this size are not synced before the load is broken.
    arguments = ("--publish-after", "0.3", "--create", "--snapshot", "--jobs", "1")
    with filled.receiver(*arguments, disk=disk) as receiver:
        with stopped(until_copying(filled.server, "big")) as copying:
            receiver.until_streaming()
            with disk.has("stalled"):
                filled.execute("INSERT INTO audit (what) VALUES ('x')")
                time.sleep(0.5)
                filled.execute(f"SELECT pg_terminate_backend({copying})")
                os.kill(copying, signal.SIGCONT)
                state = receiver.until(lambda it: it["state"] == "degraded")
                assert "has not finished a write" in state["note"]
                time.sleep(1)
                assert receiver.process.poll() is None
                if is_stopped:
                    assert receiver.stop() < 2
        if not is_stopped:
            receiver.until(is_loaded)
            receiver.stop()
    filled.check_rest(*arguments)
    assert None not in loads(filled.log).values()
    filled.execute("DROP TABLE big")


def test_a_first_load_of_an_attempt_that_was_left_does_not_go_on(
    filled: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is silent for too long, and answers while the next attempt loads."""
    share, leave = TableLoad._share, Connector.leave
    next_loads = threading.Event()
    #: The loads, and the thread of the attempt that each belongs to.
    begun: list[tuple[TableLoad, threading.Thread]] = []

    def slow_at_first(load: TableLoad, snapshot: str) -> Any:
        begun.append((load, threading.current_thread()))
        if len(begun) == 1:
            monkeypatch.setattr("walrow._receive.link.ANSWER_SECONDS", 0.5)
            assert next_loads.wait(60)
        else:
            next_loads.set()
        return share(load, snapshot)

    def left(connector: Connector) -> None:
        # The next attempt has the usual time: the machine may be busy.
        monkeypatch.setattr("walrow._receive.link.ANSWER_SECONDS", 90)
        leave(connector)

    monkeypatch.setattr(TableLoad, "_share", slow_at_first)
    monkeypatch.setattr(Connector, "leave", left)
    with Load(filled.dsn, seed=9), receiving(filled, monkeypatch):
        until_loaded(filled.log)
        first, attempt = begun[0]
        until(lambda: first.load is None and first._stopped.is_set())
    # If a table is locked or truncated meanwhile, the next attempt begins a second load. The first
    # attempt never does.
    attempts = [each for _, each in begun]
    assert attempts.count(attempt) == 1
    assert len(set(attempts)) == 2
    filled.check_rest(*FIRST)
