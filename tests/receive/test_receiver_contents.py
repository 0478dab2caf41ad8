"""`walrow receive`: what a log has of DDL, types, options and large transactions."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import (
    QUICK,
    Feed,
    ReceiverProcess,
    execute,
    plain_stream,
    receive_all,
)
from walrow.errors import ReplicationError

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

#: Bytes of a frame before a message: CopyData and XLogData.
_XLOGDATA = 5 + 25


def test_ddl_and_a_new_connection_between(feed: Feed) -> None:
    steps = [
        "INSERT INTO item VALUES (1, 1, 'one'), (2, 2, 'two')",
        "ALTER TABLE item ADD extra numeric(5, 2) DEFAULT 1.5",
        "UPDATE item SET n = 3 WHERE id = 1",
        "ALTER TABLE item DROP COLUMN label",
        "ALTER TABLE item REPLICA IDENTITY FULL",
        "UPDATE item SET id = 4 WHERE id = 2",
        "ALTER TABLE item ALTER n TYPE text",
        "INSERT INTO item VALUES (5, 'five')",
        "ALTER TABLE item REPLICA IDENTITY NOTHING",
        "INSERT INTO item VALUES (6, 'six')",
        "ALTER TABLE item REPLICA IDENTITY DEFAULT",
        "DELETE FROM item WHERE id = 5",
        "TRUNCATE audit, wide",
        "INSERT INTO audit (what) VALUES ('after')",
        "ALTER TABLE item RENAME n TO m",
        "INSERT INTO item VALUES (7, 'seven')",
    ]
    second = f"{feed.slot}_2"
    feed.execute(f"SELECT pg_create_logical_replication_slot('{second}', 'pgoutput')")
    with feed.receiver(*QUICK) as receiver:
        receiver.until_streaming()
        for step in steps:
            feed.execute(step)
            if step.startswith("ALTER"):
                terminate(feed.server, feed.slot)
        feed.finish(receiver)
    versions = {table.name: table.versions for table in walrow.Log(feed.log).tables()}
    assert len(versions["public.item"]) >= 5
    # The server's own changes, under protocol 1, from a slot of the same age.
    sent = feed.execute(
        "SELECT data FROM pg_logical_slot_get_binary_changes("  # noqa: S608
        f"'{second}', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')"
    )
    feed.execute(f"SELECT pg_drop_replication_slot('{second}')")
    rows = [bytes(message) for (message,) in sent if message[:1] in b"IUDT"]
    assert changes(feed.log) == rows
    assert len(rows) == 10


def test_types_that_are_created_while_it_runs(feed: Feed) -> None:
    """Their values are in the log as what they are, without a server."""
    feed.execute(
        "DROP TABLE IF EXISTS moods",
        "DROP TYPE IF EXISTS mood, pair",
        "DROP DOMAIN IF EXISTS positive",
    )
    with feed.receiver(*QUICK) as receiver:
        receiver.until_streaming()
        feed.execute(
            "CREATE TYPE mood AS ENUM ('sad', 'ok')",
            "CREATE TYPE pair AS (a int, b mood)",
            "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
            "CREATE TABLE moods (id int PRIMARY KEY, m mood, p pair, d positive, l mood[])",
            "ALTER PUBLICATION p ADD TABLE moods",
            "INSERT INTO moods VALUES (1, 'sad', '(1,ok)', 3, '{ok,sad}')",
        )
        feed.until_all(receiver)
        time.sleep(1)
        receiver.stop()
    with psycopg.connect(feed.dsn, options=walrow.postgres.options()) as connection:
        expected = walrow.postgres.catalog(connection, publications="p")
    found = pa.schema(walrow.Log(feed.log).schema("public.moods"))
    with walrow.read(
        plain_stream(feed.log), catalog=expected, tables=["public.moods"]
    ) as reader:
        rows = [pa.record_batch(batch) for batch in reader]
    with walrow.read(feed.log, tables=["public.moods"]) as reader:
        mine = [pa.record_batch(batch) for batch in reader]
    assert [each.to_pylist() for each in mine] == [each.to_pylist() for each in rows]
    names = [name for name in found.names if not name.startswith("_")]
    for name in names:
        assert found.field(name).type == rows[0].schema.field(name).type, name
    feed.execute("DROP TABLE moods", "DROP TYPE pair, mood", "DROP DOMAIN positive")


@pytest.mark.parametrize(
    "is_known", [pytest.param(True, marks=pytest.mark.slow), False]
)
def test_a_table_whose_types_stay_is_described_again(
    feed: Feed, *, is_known: bool
) -> None:
    """Relation messages have names and keys, and only the catalog has what else is new."""
    with feed.receiver(*QUICK) as receiver:
        receiver.until_streaming()
        if is_known:
            feed.execute("INSERT INTO item VALUES (1, 1, 'one')")
            feed.until_all(receiver)
        execute(
            feed.dsn,
            # In one transaction, as the catalog may be read at any time.
            "ALTER TABLE item RENAME label TO title; "
            "ALTER TABLE item ALTER title SET NOT NULL, ALTER title SET DEFAULT 'none'",
            "INSERT INTO item VALUES (2, 2, 'two')",
        )
        feed.until_all(receiver)
        # Without another change: until then, nothing else wakes it.
        deadline = time.monotonic() + 40
        while (title := described(feed.log, "item")[-1])["name"] != "title":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        receiver.stop()
    assert title["not_null"]
    assert title["default"] == "'none'::text"


def described(log: Path, table: str) -> list[dict[str, Any]]:
    """The columns of a table in the catalog of a log that is being written."""
    # After the head of its only block.
    catalog = json.loads((log / "_catalog").read_bytes()[8:])
    (found,) = [it for it in catalog["tables"] if it["name"] == table]
    return list(found["columns"])


def test_partitions_that_are_published_as_their_root(feed: Feed) -> None:
    feed.execute(
        "DROP TABLE IF EXISTS root",
        "CREATE TABLE root (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF root FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF root FOR VALUES FROM (10) TO (20)",
        "ALTER PUBLICATION p ADD TABLE root",
        "ALTER PUBLICATION p SET (publish_via_partition_root = true)",
        # The slot of the fixture is older than that.
        f"SELECT pg_drop_replication_slot('{feed.slot}')",
    )
    feed.receive_all("--create")
    feed.execute(
        "INSERT INTO root SELECT g, 'v' FROM generate_series(0, 19) g",
        "UPDATE root SET id = 15 + id WHERE id = 0 AND false",
        "DELETE FROM root WHERE id = 12",
        "UPDATE root SET id = 12 WHERE id = 3",
    )
    feed.receive_all()
    assert [table.name for table in walrow.Log(feed.log).tables()] == ["public.root"]
    feed.check(["root"])
    feed.execute("DROP TABLE root")


@pytest.mark.parametrize("streaming", ["--streaming", "--no-streaming"])
def test_large_transaction_in_constant_memory(feed: Feed, streaming: str) -> None:
    """In parts, while the receiver has less memory than the transaction has bytes."""
    megabytes = 1000 if os.environ.get("WALROW_SLOW") else 150
    with feed.receiver(
        *("--segment-size", "16MiB", streaming),
        # Otherwise libc keeps as much again for threads that may need it later.
        environment={"MALLOC_ARENA_MAX": "1"},
    ) as receiver:
        receiver.until_streaming()
        before = peak_memory(receiver)
        feed.execute(
            "INSERT INTO audit (item, what) SELECT g, repeat('x', 1000) "  # noqa: S608
            f"FROM generate_series(1, {megabytes * 1000}) g"
        )
        feed.until_all(receiver, timeout=120)
        added = peak_memory(receiver) - before
        receiver.stop()
    # 64 MiB wait in the queue at most, and 64 MiB of streamed transactions are in memory.
    assert added < 220 << 20
    assert added < megabytes << 20 or streaming == "--streaming"
    segments = walrow.Log(feed.log).segments()
    assert len(segments) >= megabytes // 20
    assert (
        sum(table.rows for table in walrow.Log(feed.log).tables()) == megabytes * 1000
    )
    walrow.Log(feed.log).verify()


def test_messages(feed: Feed) -> None:
    """A user's message with walrow's prefix stays data, whatever it contains."""
    contents = ["", "x", '{"Position":{"lsn":1}}', "walrow 1 "]
    for each in contents:
        for transactional in ("true", "false"):
            feed.execute(
                f"SELECT pg_logical_emit_message({transactional}, 'walrow', '{each}'::bytea)"
            )
    facts = "SELECT pg_logical_emit_message(true, 'other', 'x')"
    feed.execute(facts, "INSERT INTO item VALUES (1, 1)")
    feed.receive_all("--messages")
    found = [
        (record["prefix"], record["content"])
        for batch in walrow.read(feed.log, table="walrow.messages")
        for record in pa.record_batch(batch).to_pylist()
    ]
    expected = [("walrow", each.encode()) for each in contents for _ in range(2)]
    assert [(p, bytes(c)) for p, c in found] == [*expected, ("other", b"x")]
    feed.check(["item"])


def test_messages_turn_streaming_off_unless_both_are_named(feed: Feed) -> None:
    many = (
        "INSERT INTO audit (what) "
        "SELECT repeat('x', 100) FROM generate_series(1, 20000)"
    )
    with psycopg.connect(feed.dsn) as connection:
        connection.execute(many)
        feed.execute("INSERT INTO item VALUES (1, 1)")
        with feed.receiver("--messages") as receiver:
            state = receiver.until(lambda state: state["transactions"] == 1)
            receiver.stop()
        assert state["bytes"] < 100_000
        with feed.receiver("--messages", "--streaming") as receiver:
            receiver.until_streaming()
            connection.execute(many)
            receiver.until(lambda state: state["bytes"] > 1_000_000)
            receiver.stop()
        connection.rollback()
    feed.check(["item", "audit"])


@pytest.mark.parametrize("is_prepared", [False, True], ids=["plain", "prepared"])
def test_messages_of_rolled_back_savepoints_are_undecidable(
    feed: Feed, *, is_prepared: bool
) -> None:
    """Also of a transaction that was prepared in an earlier connection."""
    name, asked = feed.slot, ["--messages", "--streaming"]
    end = ["COMMIT"]
    if is_prepared:
        name, asked = f"{feed.slot}_2", [*asked, "--two-phase"]
        end = [f"PREPARE TRANSACTION '{feed.slot}'"]
        feed.execute(
            f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput', "
            "false, true)"
        )
    feed.execute(
        "BEGIN",
        "SELECT pg_logical_emit_message(true, 'a', 'committed')",
        "SAVEPOINT s",
        "SELECT pg_logical_emit_message(true, 'b', 'rolled back')",
        "INSERT INTO audit (what) "
        "SELECT repeat('x', 100) FROM generate_series(1, 20000)",
        "ROLLBACK TO s",
        "SELECT pg_logical_emit_message(true, 'c', 'committed')",
        "INSERT INTO item VALUES (1, 1)",
        *end,
    )
    # An undecided transaction is left, and said.
    receive_all(feed.dsn, feed.log, *asked, slot=name, code=5 if is_prepared else 0)
    if is_prepared:
        feed.execute(f"COMMIT PREPARED '{feed.slot}'")
        receive_all(feed.dsn, feed.log, *asked, slot=name)
        feed.execute(f"SELECT pg_drop_replication_slot('{name}')")
    found = pa.table(walrow.read(feed.log, table="walrow.messages")).to_pylist()
    expected = [("a", True), ("b", True), ("c", False)]
    assert [(row["prefix"], row["undecidable"]) for row in found] == expected
    feed.check(["item", "audit"])


def test_binary_equals_text(feed: Feed, tmp_path: Path) -> None:
    text, binary = tmp_path / "text", tmp_path / "binary"
    feed.execute(
        "DROP TABLE IF EXISTS kinds",
        "CREATE TABLE kinds (id int PRIMARY KEY, n numeric, d date, t timestamptz, "
        "u uuid, b bytea, a int[], i interval, f float8, j jsonb)",
        "ALTER PUBLICATION p ADD TABLE kinds",
    )
    second = f"{feed.slot}_2"
    feed.execute(f"SELECT pg_create_logical_replication_slot('{second}', 'pgoutput')")
    feed.execute(
        "INSERT INTO kinds SELECT g, g / 7.0, date '2000-01-01' + g, now(), "
        "gen_random_uuid(), decode('00ff', 'hex'), ARRAY[g, NULL], "
        "make_interval(days => g), g / 3.0, '{\"a\": [1, null]}' "
        "FROM generate_series(1, 100) g"
    )
    receive_all(feed.dsn, text, slot=feed.slot)
    receive_all(feed.dsn, binary, "--binary", slot=second)
    rows = [
        [
            row
            for batch in walrow.read(log, tables=["public.kinds"])
            for row in pa.record_batch(batch).to_pylist()
        ]
        for log in (text, binary)
    ]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 100
    assert plain_stream(text) != plain_stream(binary)
    feed.execute("DROP TABLE kinds", f"SELECT pg_drop_replication_slot('{second}')")


def test_binary_is_refused_for_a_type_without_send_function(feed: Feed) -> None:
    feed.execute(
        "DROP TABLE IF EXISTS acls",
        "CREATE TABLE acls (id int PRIMARY KEY, a aclitem[])",
        "ALTER PUBLICATION p ADD TABLE acls",
    )
    with pytest.raises(ReplicationError, match=r"public.acls.a.*\[binary-type\]"):
        feed.receive(binary=True)
    feed.receive_all()
    feed.execute("DROP TABLE acls")


def test_origin_none(feed: Feed) -> None:
    origin = f"origin_{feed.slot}"
    feed.execute(f"SELECT pg_replication_origin_create('{origin}')")
    feed.execute(
        f"SELECT pg_replication_origin_session_setup('{origin}')",
        "INSERT INTO item VALUES (1, 1)",
        "SELECT pg_replication_origin_session_reset()",
        "INSERT INTO item VALUES (2, 2)",
    )
    if feed.server.major < 16:
        with pytest.raises(walrow.errors.OptionError, match="origin"):
            feed.receive_now(origin="none")
    else:
        feed.receive_now(origin="none")
        assert [table.rows for table in walrow.Log(feed.log).tables()] == [1]
    feed.execute(f"SELECT pg_replication_origin_drop('{origin}')")


def test_warnings_of_the_preflight_are_said_once(feed: Feed) -> None:
    feed.execute("ALTER PUBLICATION p SET TABLE audit")
    with feed.receiver() as receiver:
        receiver.until_streaming()
        terminate(feed.server, feed.slot)
        receiver.until(lambda state: state["state"] == "connecting")
        receiver.until_streaming()
        receiver.stop()
        notes = [state["note"] for state in receiver.states if state["note"]]
    identity = [note for note in notes if "[no-replica-identity]" in note]
    assert len(identity) == 1
    assert identity[0].startswith("warning: ")
    assert "ALTER TABLE public.audit REPLICA IDENTITY FULL;" in identity[0]


def changes(log: Path) -> list[bytes]:
    """The messages about rows in a log, as they are."""
    return [
        frame.to_bytes()[_XLOGDATA:]
        for frame in walrow.frames(plain_stream(log))
        if frame.message is not None and frame.message.kind in "IUDT"
    ]


def terminate(server: EmbeddedServer, slot: str) -> None:
    """Ends the connection of a slot, as an administrator does."""
    execute(
        server.dsn,
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "  # noqa: S608
        f"WHERE slot_name = '{slot}' AND active",
    )


def peak_memory(receiver: ReceiverProcess) -> int:
    """The greatest resident size of its process so far, in bytes."""
    for line in Path(f"/proc/{receiver.process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise AssertionError
