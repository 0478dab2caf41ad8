"""`walrow.postgres.changes` on real servers: what it returns, and what it leaves."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import walrow
from servers import EmbeddedServer, Proxy, create_slot
from servers.receiving import execute
from walrow.errors import (
    ConnectionLostError,
    OptionError,
    ReplicationError,
    SchemaError,
    SettingError,
    UnrepresentableError,
)
from walrow.postgres import Changes, changes

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


@pytest.fixture
def shop(server: EmbeddedServer) -> Iterator[str]:
    """A database with a table `t`, which nothing is left in afterwards."""
    yield from _database(server)


@pytest.fixture(scope="module", params=[16, 18])
def own(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    """A server that tests may stop."""
    settings = {"wal_sender_timeout": "2s"}
    with EmbeddedServer(request.param, settings=settings) as server:
        yield server


@pytest.fixture
def own_shop(own: EmbeddedServer) -> Iterator[str]:
    yield from _database(own)


def _database(server: EmbeddedServer) -> Iterator[str]:
    with server.database("shop") as name:
        dsn = server.dsn_of(name)
        execute(dsn, "CREATE TABLE t (a int PRIMARY KEY, b text)")
        yield dsn
        # A walsender may need a moment to end.
        deadline = time.monotonic() + 10
        while left := leftovers(dsn):
            assert time.monotonic() < deadline, left
            time.sleep(0.05)
        slots = "SELECT slot_name FROM pg_replication_slots WHERE database ="
        for (slot,) in execute(dsn, f"{slots} '{name}'"):
            execute(dsn, f"SELECT pg_drop_replication_slot('{slot}')")


def leftovers(dsn: str) -> list[str]:
    """Publications and slots that `changes` created."""
    publications = execute(dsn, "SELECT pubname FROM pg_publication")
    slots = execute(
        dsn,
        "SELECT slot_name FROM pg_replication_slots"
        " WHERE database = current_database()",
    )
    return [name for (name,) in publications + slots if name.startswith("walrow_")]


def insert(dsn: str, first: int, last: int | None = None) -> None:
    """Inserts rows, each in a transaction of its own."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for row in range(first, (last or first) + 1):
            connection.execute("INSERT INTO t VALUES (%s, 'x')", (row,))


def keys(source: Any) -> list[int]:
    return list(pa.table(source)["a"].to_pylist())


def named_slot(dsn: str) -> str:
    execute(dsn, "CREATE PUBLICATION p FOR TABLE t")
    name = f"named_{uuid.uuid4().hex[:8]}"
    create_slot(dsn, name)
    return name


def confirmed(dsn: str, slot: str) -> int:
    slots = "SELECT slot_name, confirmed_flush_lsn - '0/0' FROM pg_replication_slots"
    return int(dict(execute(dsn, slots))[slot])


def test_it_ends_at_now(shop: str) -> None:
    insert(shop, 1)
    with changes(shop, table="t") as reader:
        insert(shop, 2, 21)
        execute(shop, "UPDATE t SET b = 'y' WHERE a = 2", "DELETE FROM t WHERE a = 3")
        frame = reader.to_polars()
        assert leftovers(shop) == []
        # What comes later is not among them.
        insert(shop, 100)
        assert list(reader) == []
    assert frame["a"].to_list() == [*range(2, 22), 2, 3]
    assert frame["_change_type"].to_list()[-2:] == ["update_postimage", "delete"]


def test_it_ends_at_now_if_nothing_happens(shop: str) -> None:
    with changes(shop, table="t") as reader:
        begun = time.monotonic()
        frame = reader.to_polars()
        assert time.monotonic() - begun < 5
    assert frame.height == 0
    assert frame.columns[:3] == ["a", "b", "_change_type"]
    with changes(shop, tables=["t"]) as reader:
        assert reader.to_polars() == {}


def test_stored_generated_columns_come_from_18_on(shop: str) -> None:
    execute(shop, "ALTER TABLE t ADD twice int GENERATED ALWAYS AS (a * 2) STORED")
    with changes(shop, table="t") as reader:
        execute(shop, "INSERT INTO t VALUES (3, 'x')")
        [row] = reader.to_pyarrow().to_pylist()
    with psycopg.connect(shop) as conn:
        version = conn.info.server_version
    assert row.get("twice") == (6 if version >= 180_000 else None)


def test_commits_that_are_not_flushed_are_before_now(shop: str) -> None:
    with changes(shop, table="t") as reader:
        execute(shop, "SET synchronous_commit = off", "INSERT INTO t VALUES (1)")
        assert keys(reader) == [1]


def test_now_ends_beside_a_busy_server(shop: str) -> None:
    stop = threading.Event()

    def work() -> None:
        with psycopg.connect(shop, autocommit=True) as connection:
            row = 1000
            while not stop.is_set():
                connection.execute("INSERT INTO t VALUES (%s, 'x')", (row,))
                row += 1

    with changes(shop, table="t") as reader:
        insert(shop, 1, 10)
        worker = threading.Thread(target=work)
        worker.start()
        try:
            time.sleep(0.2)
            begun = time.monotonic()
            found = keys(reader)
            assert time.monotonic() - begun < 20
        finally:
            stop.set()
            worker.join()
    assert found[:10] == list(range(1, 11))
    assert found[10:] == list(range(1000, 990 + len(found)))


def test_it_ends_after_seconds_and_batches_come_early(shop: str) -> None:
    with changes(shop, table="t", until=2) as reader:
        writer = threading.Timer(0.5, lambda: insert(shop, 1))
        begun = time.monotonic()
        writer.start()
        times = [time.monotonic() - begun for batch in reader if batch.num_rows]
        assert 1.9 < time.monotonic() - begun < 4
    assert len(times) == 1
    assert 0.4 < times[0] < 1.5


def test_batches_come_in_time_beside_a_steady_writer(shop: str) -> None:
    """The stream never pauses, and the batches are never full."""
    stop = threading.Event()

    def work() -> None:
        row = 0
        with psycopg.connect(shop, autocommit=True) as connection:
            while not stop.wait(0.005):
                row += 1
                connection.execute("INSERT INTO t VALUES (%s, 'x')", (row,))

    worker = threading.Thread(target=work)
    with changes(shop, table="t", until=3) as reader:
        worker.start()
        try:
            assert sum(1 for _ in reader) >= 3
        finally:
            stop.set()
            worker.join()


def test_it_never_ends_and_leaves_nothing(shop: str) -> None:
    reader = changes(shop, tables=["t"], until=None)
    insert(shop, 1)
    batch = next(reader)
    assert (batch.table, keys(batch)) == ("public.t", [1])
    insert(shop, 2)
    assert keys(next(reader)) == [2]
    assert len(leftovers(shop)) == 2
    with pytest.raises(OptionError, match="never end"):
        reader.to_pandas()
    reader.close()
    reader.close()
    assert leftovers(shop)[1:] == []
    with pytest.raises(ValueError, match="closed"):
        next(reader)


def test_nothing_is_left_without_close(shop: str) -> None:
    reader = changes(shop, table="t", until=None)
    insert(shop, 1)
    next(reader)
    del reader


def test_nothing_is_left_after_an_error_in_the_block(shop: str) -> None:
    def block() -> None:
        with changes(shop, table="t"):
            raise KeyError

    with pytest.raises(KeyError):
        block()


def test_nothing_is_left_after_a_value_that_cannot_be(shop: str) -> None:
    execute(shop, "CREATE TABLE d (d date PRIMARY KEY)")
    reader = changes(shop, table="d", until=None)
    execute(shop, "INSERT INTO d VALUES ('2024-01-01')")
    assert next(reader).num_rows == 1
    execute(shop, "INSERT INTO d VALUES ('infinity')")
    with pytest.raises(UnrepresentableError, match=r"public\.d\.d"):
        next(reader)
    # The error closed it.
    assert [name for name in leftovers(shop) if "slot" not in name][1:] == []


def test_nothing_is_left_after_an_error_at_the_beginning(shop: str) -> None:
    with pytest.raises(OptionError, match="batch_rows"):
        changes(shop, table="t", batch_rows=0)
    with pytest.raises(SchemaError, match="no table"):
        changes(shop, tables=["t", "missing"])


def test_ctrl_c_ends_it_at_once(shop: str) -> None:
    def interrupted(reader: Changes) -> None:
        with reader:
            timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
            timer.start()
            list(reader)

    reader = changes(shop, table="t", until=None)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted(reader)
    assert time.monotonic() - begun < 2.5


def run(script: str, dsn: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", script, dsn],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_nothing_is_left_at_the_end_of_the_program(shop: str) -> None:
    script = (
        "import sys, walrow.postgres\n"
        "kept = walrow.postgres.changes(sys.argv[1], table='t')\n"
    )
    out, errors = run(script, shop).communicate(timeout=60)
    assert (out, errors) == ("", "")


def test_kill_9_leaves_the_publication_only(shop: str) -> None:
    script = (
        "import sys, walrow.postgres\n"
        "kept = walrow.postgres.changes(sys.argv[1], table='t', until=None)\n"
        "print(kept.publications[0], flush=True)\n"
        "next(kept)\n"
    )
    process = run(script, shop)
    assert process.stdout is not None
    publication = process.stdout.readline().strip()
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 10
    while leftovers(shop) != [publication]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    execute(shop, f"DROP PUBLICATION {publication}")


def test_ctrl_c_while_the_slot_waits_for_a_transaction(shop: str) -> None:
    script = (
        "import sys, walrow.postgres\n"
        "print('begun', flush=True)\n"
        "walrow.postgres.changes(sys.argv[1], table='t')\n"
    )
    with psycopg.connect(shop) as connection:
        connection.execute("INSERT INTO t VALUES (1)")
        process = run(script, shop)
        assert process.stdout is not None
        process.stdout.readline()
        deadline = time.monotonic() + 20
        while len(leftovers(shop)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert process.stderr is not None
        said = process.stderr.readline()
        assert f"process {connection.info.backend_pid}" in said
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        _, errors = process.communicate(timeout=20)
        assert time.monotonic() - begun < 3
        assert "KeyboardInterrupt" in errors
        connection.rollback()


def test_a_lock_on_the_table_says_who_has_it(
    shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrow._postgres.temporary_publication._LOCK_SECONDS", 1)
    with psycopg.connect(shop, application_name="cleaner") as holder:
        # As a VACUUM does.
        holder.execute("LOCK TABLE t IN SHARE UPDATE EXCLUSIVE MODE")
        pid = holder.info.backend_pid
        text = rf"a lock on public\.t that process {pid} of the server \(cleaner\) has"
        with pytest.raises(ReplicationError, match=text) as caught:
            changes(shop, table="t")
    assert caught.value.sqlstate == "55P03"
    assert leftovers(shop) == []


def test_no_timeout_of_the_server_ends_it(shop: str) -> None:
    dsn = f"{shop} options='-c idle_session_timeout=300ms -c lock_timeout=300ms'"
    with psycopg.connect(shop) as writer:
        writer.execute("INSERT INTO t VALUES (1)")
        threading.Timer(1, writer.commit).start()
        with changes(dsn, table="t") as reader:
            insert(shop, 2)
            time.sleep(0.7)
            assert keys(reader) == [2]


def test_a_named_slot_keeps_what_is_not_confirmed(shop: str) -> None:
    slot = named_slot(shop)
    insert(shop, 1, 3)

    def read(**options: Any) -> Changes:
        return changes(shop, slot=slot, publications="p", table="t", **options)

    before = confirmed(shop, slot)
    for _ in range(2):
        with read() as reader:
            assert keys(reader) == [1, 2, 3]
    with read(peek=True) as reader:
        assert keys(reader) == [1, 2, 3]
        with pytest.raises(OptionError, match="peek"):
            reader.confirm(reader.position)
    assert confirmed(shop, slot) == before
    with read() as reader:
        assert keys(reader) == [1, 2, 3]
        with pytest.raises(OptionError, match="only up to"):
            reader.confirm(reader.position + 1)
        reader.confirm(reader.position)
        assert confirmed(shop, slot) == reader.position
        reader.confirm(reader.position)
    insert(shop, 4)
    with read() as reader:
        assert keys(reader) == [4]


def test_a_position_can_be_confirmed_in_between(shop: str) -> None:
    slot = named_slot(shop)
    insert(shop, 1, 6)
    with changes(
        shop, slot=slot, publications="p", table="t", batch_rows=2, until=None
    ) as reader:
        assert keys(next(reader)) == [1, 2]
        reader.confirm()
    with changes(shop, slot=slot, publications="p", table="t") as reader:
        # A batch may be full before the commit of its last row is read.
        assert keys(reader) in ([2, 3, 4, 5, 6], [3, 4, 5, 6])


@pytest.mark.parametrize("seed", range(3))
def test_what_is_not_confirmed_comes_again(shop: str, seed: int) -> None:
    """Whoever stores before it confirms never misses a row."""
    chance = random.Random(seed)  # noqa: S311
    slot = named_slot(shop)
    execute(shop, "CREATE TABLE quiet (a int PRIMARY KEY)")
    stored: set[int] = set()
    total = 0
    for _ in range(8):
        rows = chance.randrange(20)
        insert(shop, total + 1, total + rows) if rows else None
        total += rows
        execute(shop, "INSERT INTO quiet SELECT count(*) FROM quiet")
        until: Any = chance.choice(["now", 0.7])
        with changes(
            shop, slot=slot, publications="p", table="t", batch_rows=3, until=until
        ) as reader:
            for batch in reader:
                if chance.random() < 0.2:
                    break
                stored.update(keys(batch))
                if chance.random() < 0.6:
                    reader.confirm()
    with changes(shop, slot=slot, publications="p", table="t") as reader:
        stored.update(keys(reader))
    assert stored == set(range(1, total + 1))


def test_a_frame_of_the_rest_is_not_confirmed_by_itself(shop: str) -> None:
    slot = named_slot(shop)
    options: dict[str, Any] = {"slot": slot, "publications": "p", "table": "t"}
    with changes(shop, **options, until=3) as reader:
        insert(shop, 1)
        assert keys(next(reader)) == [1]
        reader.confirm()
        insert(shop, 2)
        assert reader.to_polars()["a"].to_list() == [2]
    with changes(shop, **options) as reader:
        assert keys(reader) == [2]


def test_a_confirmed_slot_follows_the_wal_of_other_tables(shop: str) -> None:
    slot = named_slot(shop)
    insert(shop, 1)
    execute(shop, "CREATE TABLE other (a int)")
    with changes(shop, slot=slot, publications="p", table="t", until=None) as reader:
        next(reader)
        reader.confirm()
        position = reader.position
        threading.Timer(1.5, lambda: insert(shop, 2)).start()
        execute(shop, "INSERT INTO other SELECT generate_series(1, 1000)")
        assert keys(next(reader)) == [2]
        assert confirmed(shop, slot) > position
    with changes(shop, slot=slot, publications="p", table="t") as reader:
        assert keys(reader) == [2]


def test_an_open_transaction_is_not_returned(shop: str) -> None:
    slot = named_slot(shop)
    with psycopg.connect(shop) as connection:
        # Larger than logical_decoding_work_mem, so it is streamed before its commit.
        connection.execute(
            "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 5000) i"
        )
        insert(shop, 9000)
        with changes(shop, slot=slot, publications="p", table="t", until=2) as reader:
            assert keys(reader) == [9000]
            assert len(reader.open_transactions) == 1
            reader.confirm()
        connection.commit()
    with changes(shop, slot=slot, publications="p", table="t") as reader:
        assert keys(reader) == list(range(1, 5001))


def test_a_server_that_restarts_in_between(own: EmbeddedServer, own_shop: str) -> None:
    slot = named_slot(own_shop)
    insert(own_shop, 1, 2)
    reader = changes(own_shop, slot=slot, publications="p", table="t", until=None)
    assert keys(next(reader)) == [1, 2]
    own.restart("immediate")
    with pytest.raises(ReplicationError):
        list(reader)
    insert(own_shop, 3)
    with changes(
        own_shop, slot=slot, publications="p", table="t", start=reader.position
    ) as again:
        assert keys(again) == [3]


def test_a_server_that_shuts_down_says_so(own: EmbeddedServer, own_shop: str) -> None:
    slot = named_slot(own_shop)
    insert(own_shop, 1)
    reader = changes(own_shop, slot=slot, publications="p", table="t", until=None)
    next(reader)
    stopping = threading.Thread(target=own.shut_down)
    stopping.start()
    try:
        with pytest.raises(ConnectionLostError, match="shut down"):
            list(reader)
        stopping.join(20)
        assert not stopping.is_alive()
    finally:
        stopping.join()
        own.start()


def test_a_temporary_slot_ends_with_its_server(
    own: EmbeddedServer, own_shop: str
) -> None:
    reader = changes(own_shop, table="t", until=None)
    insert(own_shop, 1)
    next(reader)
    own.restart("kill")
    with pytest.raises(ReplicationError, match=r"temporary slot ended .* are lost"):
        list(reader)
    with contextlib.suppress(ReplicationError):
        reader.close()
    for name in leftovers(own_shop):
        execute(own_shop, f"DROP PUBLICATION {name}")


def test_a_silent_server_is_lost_and_the_publication_named(
    own: EmbeddedServer, own_shop: str
) -> None:
    database = own_shop.rpartition("=")[2]
    with Proxy(own) as proxy:
        dsn = proxy.dsn.replace("dbname=postgres", f"dbname={database}")
        reader = changes(dsn, table="t", until=None)
        (publication,) = reader.publications
        threading.Timer(0.5, proxy.stall).start()
        begun = time.monotonic()
        with pytest.raises(ConnectionLostError, match="has sent nothing"):
            list(reader)
        assert time.monotonic() - begun < 10
        with pytest.raises(ReplicationError, match=f"DROP PUBLICATION {publication}"):
            reader.close()
    execute(own_shop, f"DROP PUBLICATION {publication}")


def test_several_tables(shop: str) -> None:
    execute(shop, "CREATE TABLE u (a int PRIMARY KEY)", "CREATE SCHEMA other")
    execute(shop, "CREATE TABLE other.v (a int PRIMARY KEY)")
    (oid,) = execute(shop, "SELECT 'u'::regclass::oid::int")[0]
    with changes(shop, tables=["public.t", oid, ("other", "v")]) as reader:
        insert(shop, 1)
        execute(shop, "INSERT INTO u VALUES (2)", "INSERT INTO other.v VALUES (3)")
        frames = reader.to_pandas()
    assert {name: list(frame["a"]) for name, frame in frames.items()} == {
        "public.t": [1],
        "public.u": [2],
        "other.v": [3],
    }


def test_a_publication_and_a_choice_of_its_tables(shop: str) -> None:
    execute(shop, "CREATE TABLE u (a int PRIMARY KEY)")
    execute(shop, "CREATE PUBLICATION both_tables FOR TABLE t, u")
    with changes(shop, publications="both_tables", tables=["u"]) as reader:
        insert(shop, 1)
        execute(shop, "INSERT INTO u VALUES (2)")
        assert list(reader.to_polars()) == ["public.u"]
    with changes(shop, publications=["both_tables"], envelope=True) as reader:
        insert(shop, 2)
        execute(shop, "INSERT INTO u VALUES (3)")
        assert pa.table(reader)["table_name"].to_pylist() == ["t", "u"]
    execute(shop, "DROP PUBLICATION both_tables")


def test_the_options_of_read(shop: str) -> None:
    execute(shop, "CREATE TYPE mood AS ENUM ('sad', 'ok')")
    execute(
        shop, "CREATE TABLE m (a int PRIMARY KEY, m mood, n numeric(6, 2), i jsonb)"
    )
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"binary": True}, ["int32", "string", "decimal128(6, 2)", "string"]),
        ({"profile": "text"}, ["string"] * 4),
        ({"types": {"n": "string"}}, ["int32", "string", "string", "string"]),
        ({"columns": ["a", "n"]}, ["int32", "decimal128(6, 2)"]),
    ]
    for key, (options, expected) in enumerate(cases):
        with changes(shop, table="m", metadata=(), **options) as reader:
            execute(shop, f"INSERT INTO m VALUES ({key}, 'ok', 1.50, '{{}}')")  # noqa: S608
            assert reader.unresolved_types == []
            types = reader.schema.types
            table = reader.to_pyarrow()
        assert len(table) == 1
        assert len(types) == len(expected)
        for found, part in zip(types, expected, strict=True):
            assert part in found


def test_messages_and_transactions(shop: str) -> None:
    chosen: Any = ["t", "walrow.messages", ("walrow", "transactions")]
    with changes(shop, tables=chosen) as reader:
        execute(shop, "SELECT pg_logical_emit_message(true, 'us', 'hello')")
        insert(shop, 1)
        tables = {batch.table for batch in reader}
    assert tables == {"public.t", "walrow.messages", "walrow.transactions"}


def test_rows_of_partitions_are_rows_of_their_root(shop: str) -> None:
    execute(
        shop,
        "CREATE TABLE r (a int PRIMARY KEY) PARTITION BY RANGE (a)",
        "CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10)",
    )
    with changes(shop, table="r") as reader:
        execute(shop, "INSERT INTO r VALUES (1)")
        assert [batch.table for batch in reader] == ["public.r"]


def test_a_table_whose_updates_would_fail_is_refused(shop: str) -> None:
    execute(
        shop,
        "CREATE TABLE bare (a int)",
        "CREATE TABLE r (a int) PARTITION BY RANGE (a)",
        "CREATE TABLE leaf PARTITION OF r FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE full_one (a int)",
        "ALTER TABLE full_one REPLICA IDENTITY FULL",
    )
    for table, named in [("bare", "public.bare"), ("r", "public.leaf")]:
        with pytest.raises(OptionError, match=f"identity, .* of {named} would fail"):
            changes(shop, table=table)
    with changes(shop, table="full_one") as reader:
        execute(shop, "INSERT INTO full_one VALUES (1)", "UPDATE full_one SET a = 2")
        assert keys(reader) == [1, 1, 2]


def test_a_name_that_two_tables_have(shop: str) -> None:
    execute(shop, "CREATE SCHEMA other", "CREATE TABLE other.t (a int PRIMARY KEY)")
    with pytest.raises(SchemaError, match="ambiguous") as caught:
        changes(shop, table="t")
    assert "(other, t) and (public, t)" in str(caught.value)


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({}, OptionError, "choose table="),
        ({"table": "walrow.transactions"}, OptionError, "choose table="),
        ({"table": "t", "slot": "s"}, OptionError, "a slot needs publications="),
        ({"table": "t", "peek": True}, OptionError, "peek=True needs slot="),
        ({"table": "t", "until": "later"}, OptionError, 'it must be "now", a number'),
        ({"table": "t", "until": True}, OptionError, 'it must be "now", a number'),
        ({"table": "t", "framing": "wire"}, TypeError, "framing"),
        ({"publications": "missing"}, OptionError, "no publication missing"),
        ({"table": "missing"}, SchemaError, "no table missing"),
        ({"table": "t", "unrepresentable": "x"}, OptionError, "unrepresentable"),
    ],
)
def test_parameters_that_are_wrong(
    shop: str, parameters: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        changes(shop, **parameters)


def test_a_slot_that_does_not_exist(shop: str) -> None:
    execute(shop, "CREATE PUBLICATION p FOR TABLE t")
    reader = changes(shop, publications="p", slot="missing")
    with pytest.raises(ReplicationError, match="missing") as caught:
        list(reader)
    assert caught.value.sqlstate == "42704"


def test_a_role_without_privileges(shop: str) -> None:
    with contextlib.suppress(psycopg.errors.DuplicateObject):
        execute(shop, "CREATE ROLE reader_only LOGIN REPLICATION")
    dsn = shop.replace("user=postgres", "user=reader_only")
    with pytest.raises(ReplicationError) as caught:
        changes(dsn, table="t")
    assert caught.value.sqlstate == "42501"


def test_a_dictionary_of_parameters(shop: str) -> None:
    parameters = dict(part.split("=", 1) for part in shop.split())
    with changes(parameters, table="t") as reader:
        insert(shop, 1)
        assert keys(reader) == [1]


def test_a_database_without_an_encoding(server: EmbeddedServer) -> None:
    with contextlib.suppress(psycopg.errors.DuplicateDatabase):
        execute(
            server.dsn,
            "CREATE DATABASE bare ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0",
        )
    dsn = server.dsn_of("bare")
    execute(dsn, "DROP TABLE IF EXISTS t", "CREATE TABLE t (a text PRIMARY KEY)")
    with changes(dsn, table="t", types={"a": "binary"}) as reader:
        execute(dsn, r"INSERT INTO t VALUES (E'\351')")
        assert pa.table(reader)["a"].to_pylist() == [b"\xe9"]


def test_a_setting_that_wins(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGTZ", "Asia/Tokyo")
    with pytest.raises(SettingError, match=r"unset .* PGTZ"):
        changes(shop, table="t")


def test_a_password_is_nowhere(shop: str) -> None:
    database = shop.rpartition("=")[2]
    for conninfo in (
        f"host=/nowhere password=hunter2 dbname={database}",
        {"host": "/nowhere", "password": "hunter2"},
        "postgresql://u:hunter2@h:hunter2/shop",
    ):
        with pytest.raises(walrow.Error) as caught:
            changes(conninfo, table="t")
        shown = "".join(traceback.format_exception_only(caught.value))
        assert "hunter2" not in shown + repr(vars(caught.value))
        assert caught.value.__cause__ is caught.value.__context__ is None
    with changes(f"{shop} password=hunter2", table="t") as reader:
        assert "hunter2" not in repr(reader)


def test_it_says_once_to_a_person_where_changes_begin(shop: str) -> None:
    script = (
        "import sys, walrow.postgres\n"
        "sys.stderr.isatty = lambda: True\n"
        "for _ in range(2):\n"
        "    walrow.postgres.changes(sys.argv[1], table='t').close()\n"
    )
    _, errors = run(script, shop).communicate(timeout=60)
    assert errors.count("changes begin at") == 1


def test_psycopg_is_imported_when_it_is_used() -> None:
    script = (
        "import sys, walrow.postgres\n"
        "assert 'psycopg' not in sys.modules\n"
        "sys.modules['psycopg'] = None\n"
        "walrow.postgres.changes(sys.argv[1], table='t')\n"
    )
    _, errors = run(script, "dbname=shop").communicate(timeout=60)
    assert "pip install 'walrow[postgres]'" in errors
