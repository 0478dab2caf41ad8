"""`walrow receive`: what a log has of DDL, types, options and large transactions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import (
    ReceiverProcess,
    check_log,
    end_of_wal,
    execute,
    plain_stream,
    receive_all,
    slot_for_load,
)
from walrow.errors import ReplicationError

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

#: Bytes of a frame before a message: CopyData and XLogData.
_XLOGDATA = 5 + 25
QUICK = ("--publish-after", "0.3", "--segment-size", "1MiB")


@pytest.fixture
def slot(server: EmbeddedServer) -> Iterator[str]:
    with slot_for_load(server) as name:
        yield name


def test_ddl_and_a_new_connection_between(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
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
    second = f"{slot}_2"
    execute(
        server.dsn, f"SELECT pg_create_logical_replication_slot('{second}', 'pgoutput')"
    )
    with ReceiverProcess(server.dsn, log, *QUICK, slot=slot) as receiver:
        receiver.until_streaming()
        for step in steps:
            execute(server.dsn, step)
            if step.startswith("ALTER"):
                terminate(server, slot)
        receiver.until_streaming(after=end_of_wal(server.dsn))
        receiver.stop()
    versions = {table.name: table.versions for table in walrow.Log(log).tables()}
    assert len(versions["public.item"]) >= 5
    # The server's own changes, under protocol 1, from a slot of the same age.
    sent = execute(
        server.dsn,
        "SELECT data FROM pg_logical_slot_get_binary_changes("  # noqa: S608
        f"'{second}', NULL, NULL, 'proto_version', '1', 'publication_names', 'p')",
    )
    execute(server.dsn, f"SELECT pg_drop_replication_slot('{second}')")
    rows = [bytes(message) for (message,) in sent if message[:1] in b"IUDT"]
    assert changes(log) == rows
    assert len(rows) == 10


def test_types_that_are_created_while_it_runs(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """Their values are in the log as what they are, without a server."""
    log = tmp_path / "log"
    execute(
        server.dsn,
        "DROP TABLE IF EXISTS moods",
        "DROP TYPE IF EXISTS mood, pair",
        "DROP DOMAIN IF EXISTS positive",
    )
    with ReceiverProcess(server.dsn, log, *QUICK, slot=slot) as receiver:
        receiver.until_streaming()
        execute(
            server.dsn,
            "CREATE TYPE mood AS ENUM ('sad', 'ok')",
            "CREATE TYPE pair AS (a int, b mood)",
            "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
            "CREATE TABLE moods (id int PRIMARY KEY, m mood, p pair, d positive, l mood[])",
            "ALTER PUBLICATION p ADD TABLE moods",
            "INSERT INTO moods VALUES (1, 'sad', '(1,ok)', 3, '{ok,sad}')",
        )
        receiver.until_streaming(after=end_of_wal(server.dsn))
        time.sleep(1)
        receiver.stop()
    with psycopg.connect(server.dsn, options=walrow.postgres.options()) as connection:
        expected = walrow.postgres.catalog(connection, publications="p")
    found = pa.schema(walrow.Log(log).schema("public.moods"))
    with walrow.read(
        plain_stream(log), catalog=expected, tables=["public.moods"]
    ) as reader:
        rows = [pa.record_batch(batch) for batch in reader]
    with walrow.read(log, tables=["public.moods"]) as reader:
        mine = [pa.record_batch(batch) for batch in reader]
    assert [each.to_pylist() for each in mine] == [each.to_pylist() for each in rows]
    names = [name for name in found.names if not name.startswith("_")]
    for name in names:
        assert found.field(name).type == rows[0].schema.field(name).type, name
    execute(
        server.dsn, "DROP TABLE moods", "DROP TYPE pair, mood", "DROP DOMAIN positive"
    )


@pytest.mark.parametrize(
    "is_known", [pytest.param(True, marks=pytest.mark.slow), False]
)
def test_a_table_whose_types_stay_is_described_again(
    server: EmbeddedServer, slot: str, tmp_path: Path, *, is_known: bool
) -> None:
    """Relation messages have names and keys, and only the catalog has what else is new."""
    log = tmp_path / "log"
    with ReceiverProcess(server.dsn, log, *QUICK, slot=slot) as receiver:
        receiver.until_streaming()
        if is_known:
            execute(server.dsn, "INSERT INTO item VALUES (1, 1, 'one')")
            receiver.until_streaming(after=end_of_wal(server.dsn))
        execute(
            server.dsn,
            # In one transaction, as the catalog may be read at any time.
            "ALTER TABLE item RENAME label TO title; "
            "ALTER TABLE item ALTER title SET NOT NULL, ALTER title SET DEFAULT 'none'",
            "INSERT INTO item VALUES (2, 2, 'two')",
        )
        receiver.until_streaming(after=end_of_wal(server.dsn))
        # Without another change: until then, nothing else wakes it.
        deadline = time.monotonic() + 40
        while (title := described(log, "item")[-1])["name"] != "title":
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


def test_names_that_are_no_text_are_named(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    with server.database("ascii", "ENCODING 'SQL_ASCII'") as name:
        dsn = server.dsn_of(name)
        with psycopg.connect(dsn, client_encoding="SQL_ASCII") as connection:
            connection.execute("CREATE TYPE mood AS ENUM ('génial')".encode("latin-1"))
            connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
        with pytest.raises(walrow.errors.SchemaError) as caught:
            walrow.receive(
                dsn, log=tmp_path / "log", slot="ascii", publications="p", create=True
            )
    assert "a label of an enum or a default is not in utf-8" in str(caught.value)
    assert "rename it" in str(caught.value)


def test_partitions_that_are_published_as_their_root(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    execute(
        server.dsn,
        "DROP TABLE IF EXISTS root",
        "CREATE TABLE root (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF root FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF root FOR VALUES FROM (10) TO (20)",
        "ALTER PUBLICATION p ADD TABLE root",
        "ALTER PUBLICATION p SET (publish_via_partition_root = true)",
    )
    execute(
        server.dsn,
        "INSERT INTO root SELECT g, 'v' FROM generate_series(0, 19) g",
        "UPDATE root SET id = 15 + id WHERE id = 0 AND false",
        "DELETE FROM root WHERE id = 12",
        "UPDATE root SET id = 12 WHERE id = 3",
    )
    receive_all(server.dsn, log, slot=slot)
    assert [table.name for table in walrow.Log(log).tables()] == ["public.root"]
    check_log(server.dsn, log, ["root"])
    execute(server.dsn, "DROP TABLE root")


@pytest.mark.parametrize("streaming", ["--streaming", "--no-streaming"])
def test_large_transaction_in_constant_memory(
    server: EmbeddedServer, slot: str, tmp_path: Path, streaming: str
) -> None:
    """In parts, while the receiver has less memory than the transaction has bytes."""
    log = tmp_path / "log"
    megabytes = 1000 if os.environ.get("WALROW_SLOW") else 150
    with ReceiverProcess(
        server.dsn,
        log,
        *("--segment-size", "16MiB", streaming),
        slot=slot,
        # Otherwise libc keeps as much again for threads that may need it later.
        environment={"MALLOC_ARENA_MAX": "1"},
    ) as receiver:
        receiver.until_streaming()
        before = peak_memory(receiver)
        execute(
            server.dsn,
            "INSERT INTO audit (item, what) SELECT g, repeat('x', 1000) "  # noqa: S608
            f"FROM generate_series(1, {megabytes * 1000}) g",
        )
        receiver.until_streaming(after=end_of_wal(server.dsn), timeout=120)
        added = peak_memory(receiver) - before
        receiver.stop()
    # 64 MiB wait in the queue at most, and 64 MiB of streamed transactions are in memory.
    assert added < 220 << 20
    assert added < megabytes << 20 or streaming == "--streaming"
    segments = walrow.Log(log).segments()
    assert len(segments) >= megabytes // 20
    assert sum(table.rows for table in walrow.Log(log).tables()) == megabytes * 1000
    walrow.Log(log).verify()


def test_messages(server: EmbeddedServer, slot: str, tmp_path: Path) -> None:
    """A user's message with walrow's prefix stays data, whatever it contains."""
    log = tmp_path / "log"
    contents = ["", "x", '{"Position":{"lsn":1}}', "walrow 1 "]
    for each in contents:
        for transactional in ("true", "false"):
            execute(
                server.dsn,
                f"SELECT pg_logical_emit_message({transactional}, 'walrow', '{each}'::bytea)",
            )
    facts = "SELECT pg_logical_emit_message(true, 'other', 'x')"
    execute(server.dsn, facts, "INSERT INTO item VALUES (1, 1)")
    receive_all(server.dsn, log, "--messages", slot=slot)
    found = [
        (record["prefix"], record["content"])
        for batch in walrow.read(log, table="walrow.messages")
        for record in pa.record_batch(batch).to_pylist()
    ]
    expected = [("walrow", each.encode()) for each in contents for _ in range(2)]
    assert [(p, bytes(c)) for p, c in found] == [*expected, ("other", b"x")]
    check_log(server.dsn, log, ["item"])


def test_messages_turn_streaming_off_unless_both_are_named(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    many = (
        "INSERT INTO audit (what) "
        "SELECT repeat('x', 100) FROM generate_series(1, 20000)"
    )
    with psycopg.connect(server.dsn) as connection:
        connection.execute(many)
        execute(server.dsn, "INSERT INTO item VALUES (1, 1)")
        with ReceiverProcess(server.dsn, log, "--messages", slot=slot) as receiver:
            state = receiver.until(lambda state: state["transactions"] == 1)
            receiver.stop()
        assert state["bytes"] < 100_000
        with ReceiverProcess(
            server.dsn, log, "--messages", "--streaming", slot=slot
        ) as receiver:
            receiver.until_streaming()
            connection.execute(many)
            receiver.until(lambda state: state["bytes"] > 1_000_000)
            receiver.stop()
        connection.rollback()
    check_log(server.dsn, log, ["item", "audit"])


@pytest.mark.parametrize("is_prepared", [False, True], ids=["plain", "prepared"])
def test_messages_of_rolled_back_savepoints_are_undecidable(
    server: EmbeddedServer, slot: str, tmp_path: Path, *, is_prepared: bool
) -> None:
    """Also of a transaction that was prepared in an earlier connection."""
    log, name, asked = tmp_path / "log", slot, ["--messages", "--streaming"]
    end = ["COMMIT"]
    if is_prepared:
        name, asked = f"{slot}_2", [*asked, "--two-phase"]
        end = [f"PREPARE TRANSACTION '{slot}'"]
        execute(
            server.dsn,
            f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput', "
            "false, true)",
        )
    execute(
        server.dsn,
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
    receive_all(server.dsn, log, *asked, slot=name, code=5 if is_prepared else 0)
    if is_prepared:
        execute(server.dsn, f"COMMIT PREPARED '{slot}'")
        receive_all(server.dsn, log, *asked, slot=name)
        execute(server.dsn, f"SELECT pg_drop_replication_slot('{name}')")
    found = pa.table(walrow.read(log, table="walrow.messages")).to_pylist()
    expected = [("a", True), ("b", True), ("c", False)]
    assert [(row["prefix"], row["undecidable"]) for row in found] == expected
    check_log(server.dsn, log, ["item", "audit"])


def test_binary_equals_text(server: EmbeddedServer, slot: str, tmp_path: Path) -> None:
    text, binary = tmp_path / "text", tmp_path / "binary"
    execute(
        server.dsn,
        "DROP TABLE IF EXISTS kinds",
        "CREATE TABLE kinds (id int PRIMARY KEY, n numeric, d date, t timestamptz, "
        "u uuid, b bytea, a int[], i interval, f float8, j jsonb)",
        "ALTER PUBLICATION p ADD TABLE kinds",
    )
    second = f"{slot}_2"
    execute(
        server.dsn, f"SELECT pg_create_logical_replication_slot('{second}', 'pgoutput')"
    )
    execute(
        server.dsn,
        "INSERT INTO kinds SELECT g, g / 7.0, date '2000-01-01' + g, now(), "
        "gen_random_uuid(), decode('00ff', 'hex'), ARRAY[g, NULL], "
        "make_interval(days => g), g / 3.0, '{\"a\": [1, null]}' "
        "FROM generate_series(1, 100) g",
    )
    receive_all(server.dsn, text, slot=slot)
    receive_all(server.dsn, binary, "--binary", slot=second)
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
    execute(
        server.dsn, "DROP TABLE kinds", f"SELECT pg_drop_replication_slot('{second}')"
    )


def test_binary_is_refused_for_a_type_without_send_function(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    execute(
        server.dsn,
        "DROP TABLE IF EXISTS acls",
        "CREATE TABLE acls (id int PRIMARY KEY, a aclitem[])",
        "ALTER PUBLICATION p ADD TABLE acls",
    )
    with pytest.raises(ReplicationError, match=r"public.acls.a.*\[binary-type\]"):
        walrow.receive(
            server.dsn, log=tmp_path / "log", slot=slot, publications="p", binary=True
        )
    receive_all(server.dsn, tmp_path / "log", slot=slot)
    execute(server.dsn, "DROP TABLE acls")


def test_origin_none(server: EmbeddedServer, slot: str, tmp_path: Path) -> None:
    origin = f"origin_{slot}"
    execute(server.dsn, f"SELECT pg_replication_origin_create('{origin}')")
    execute(
        server.dsn,
        f"SELECT pg_replication_origin_session_setup('{origin}')",
        "INSERT INTO item VALUES (1, 1)",
        "SELECT pg_replication_origin_session_reset()",
        "INSERT INTO item VALUES (2, 2)",
    )
    log = tmp_path / "log"
    if server.major < 16:
        with pytest.raises(walrow.errors.OptionError, match="origin"):
            receive(server, log, slot, origin="none")
    else:
        receive(server, log, slot, origin="none")
        assert [table.rows for table in walrow.Log(log).tables()] == [1]
    execute(server.dsn, f"SELECT pg_replication_origin_drop('{origin}')")


def test_warnings_of_the_preflight_are_said_once(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    execute(server.dsn, "ALTER PUBLICATION p SET TABLE audit")
    with ReceiverProcess(server.dsn, tmp_path / "log", slot=slot) as receiver:
        receiver.until_streaming()
        terminate(server, slot)
        receiver.until(lambda state: state["state"] == "connecting")
        receiver.until_streaming()
        receiver.stop()
        notes = [state["note"] for state in receiver.states if state["note"]]
    identity = [note for note in notes if "[no-replica-identity]" in note]
    assert len(identity) == 1
    assert identity[0].startswith("warning: ")
    assert "ALTER TABLE public.audit REPLICA IDENTITY FULL;" in identity[0]


def receive(server: EmbeddedServer, log: Path, slot: str, **options: Any) -> None:
    walrow.receive(
        server.dsn, log=log, slot=slot, publications="p", until="now", **options
    )


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
