"""Transactions of every protocol version: the same rows, resumed, prepared, in files."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import walrow
from captures import Capture, capture, captures, with_sides
from streams import Column, format_lsn, wire

pa = pytest.importorskip("pyarrow")

TWO_PHASE = capture("two-phase")
STREAMED = [
    each
    for each in captures("text", "binary")
    if each.name.startswith(("streaming", "two-phase"))
]


def table(source: Any, name: str, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(
        walrow.read(source, table=name, **options)
    ).to_pylist()
    return rows


def changes(source: Any, **options: Any) -> list[tuple[int, int, str, str]]:
    """Commit LSN, seq, table and change type of all rows, in order."""
    found = []
    for batch in walrow.read(source, **options):
        records = pa.record_batch(batch)
        for row in records.to_pylist():
            key = row["_commit_lsn"], row["_seq"], batch.table, row["_change_type"]
            found.append(key)
    return sorted(found)


# The same rows for every way to send them


@pytest.mark.parametrize("capture", STREAMED, ids=str)
def test_streamed_and_prepared_rows_are_the_plain_ones(capture: Capture) -> None:
    names = ["xid", "commit_lsn", "end_lsn", "commit_timestamp", "changes"]
    plain, other = (
        pa.table(walrow.read(each.path, table="walrow.transactions")).select(names)
        for each in (capture.beside("v1"), capture)
    )
    # A transaction without rows is only sent if it is prepared.
    actual = [row for row in other.to_pylist() if row["changes"]]
    assert actual == [row for row in plain.to_pylist() if row["changes"]]
    assert actual
    assert changes(capture.path) == changes(capture.beside("v1").path)


# Side tables


def test_transactions_are_a_table() -> None:
    rows = table(TWO_PHASE.path, "walrow.transactions")
    # The transactions that COMMIT made visible, in the order of the workload.
    assert [(row["gid"], row["changes"]) for row in rows] == [
        (None, 1),
        ("one", 1),
        ("one", 0),
        ("one", 1),
        (None, 1),
    ]
    for row in rows:
        assert row["commit_lsn"] < row["end_lsn"]
        assert row["origins"] is None
        assert row["snapshot"] is False
        if row["gid"]:
            assert row["prepare_lsn"] < row["commit_lsn"]
            assert row["prepare_timestamp"] <= row["commit_timestamp"]
        else:
            assert row["prepare_lsn"] is row["prepare_timestamp"] is None
    assert rows[0]["commit_timestamp"] > datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("major", [16, 18])
def test_origins_are_kept_with_their_lsn(major: int) -> None:
    rows = table(capture("origin", major=major).path, "walrow.transactions")
    origins = [row["origins"] for row in rows]
    assert [None if it is None else len(it) for it in origins] == [None, 1, 1, 1, None]
    (upstream,), (unset,), (far,) = origins[1:4]
    assert upstream["name"].startswith("upstream-")
    assert upstream["lsn"] == 0xABCDEF
    assert unset["name"] == upstream["name"]
    assert far["name"].startswith("größe ")
    assert far["lsn"] == 0xFFFF_FFFF_FFFF_FF00


def test_messages_are_a_table() -> None:
    rows = table(capture("messages").path, "walrow.messages")
    actual = [
        (row["transactional"], row["prefix"], row["content"], row["seq"])
        for row in rows
    ]
    assert actual == [
        (False, "outside", b"at once", None),
        (True, "alone", b"a transaction of its own", 0),
        (False, "inside", b"sent before its transaction", None),
        (True, "inside", b"between rows", 1),
        (False, "rolled back", b"seen all the same", None),
        (False, "", b"", None),
        (True, "bytes", b"\x00\xff\x80\xfe\n\x00", 0),
        (True, "walrow", b"a user may take any prefix", 0),
        (False, "naïve 💾", b"prefix beyond ASCII", None),
    ]
    for row in rows:
        assert (row["xid"] is not None) == row["transactional"]
        assert (row["commit_lsn"] is not None) == row["transactional"]
    assert [row["lsn"] for row in rows if not row["transactional"]] == sorted(
        row["lsn"] for row in rows if not row["transactional"]
    )


def test_messages_that_may_be_rolled_back_are_undecidable(tmp_path: Path) -> None:
    """All before the rollback of a savepoint, which the stream does not tell apart."""
    path = capture("streaming-messages").path
    expected = [
        ("a", True),
        ("b", True),
        ("c", False),
        ("f", False),
        ("d", False),
        ("e", False),
    ]
    rows = table(path, "walrow.messages")
    assert sorted((row["prefix"], row["undecidable"]) for row in rows) == sorted(
        expected
    )
    walrow.seal(path, log=tmp_path / "log")
    sealed = table(tmp_path / "log", "walrow.messages")
    assert sealed == rows
    assert not any(
        row["undecidable"] for row in table(capture("messages").path, "walrow.messages")
    )


def test_truncates_are_a_table_with_their_options() -> None:
    rows = table(capture("truncate").path, "walrow.truncates")
    actual = [
        (
            sorted(each["table_name"] for each in row["tables"]),
            row["cascade"],
            row["restart_identity"],
            row["seq"],
        )
        for row in rows
    ]
    assert actual == [
        (["child"], False, False, 0),
        (["child", "other", "parent"], True, True, 0),
        (["untouched"], False, False, 0),
        (["other"], False, False, 3),
        (["child"], False, True, 5),
    ]


def test_relations_are_a_table_of_versions() -> None:
    path = capture("alter-columns").path
    rows = table(path, "walrow.relations")
    assert len(rows) > 3
    versions = {
        (batch.table, tuple(batch.column_names[:-7])) for batch in walrow.read(path)
    }
    actual = {
        (
            f"{row['schema_name']}.{row['table_name']}",
            tuple(column["name"] for column in row["columns"]),
        )
        for row in rows
    }
    assert versions <= actual
    first = rows[0]
    assert first["replica_identity"] == "default"
    assert first["seq"] == 0
    (key,) = (column for column in first["columns"] if column["key"])
    assert (key["type_oid"], key["type_modifier"], key["type_name"]) == (23, -1, None)


def test_relations_have_the_names_of_user_types() -> None:
    rows = table(capture("types-user").path, "walrow.relations")
    names = {
        column["type_name"]
        for row in rows
        for column in row["columns"]
        if column["type_name"]
    }
    assert any(name.startswith("public.") for name in names)


def test_side_tables_come_along() -> None:
    path = capture("truncate").path
    tables = with_sides(path, "transactions", "truncates")
    batches = list(walrow.read(path, tables=tables, batch_rows=3))
    names = {batch.table for batch in batches}
    assert {"walrow.transactions", "walrow.truncates", "public.child"} <= names
    rows = [
        row
        for batch in batches
        if batch.table == "walrow.truncates"
        for row in pa.record_batch(batch).to_pylist()
    ]
    assert rows == table(path, "walrow.truncates")
    alone = [batch.table for batch in walrow.read(path, table="walrow.truncates")]
    assert alone == ["walrow.truncates"]


def test_spark_has_no_unsigned_numbers() -> None:
    for name in ("transactions", "messages", "relations", "truncates"):
        reader = walrow.read(b"", table=("walrow", name), profile="spark")
        schema = pa.schema(reader.schema)
        assert "uint" not in str(schema)
        assert pa.table(reader).num_rows == 0
        unsigned = pa.schema(walrow.read(b"", table=f"walrow.{name}").schema)
        assert schema.names == unsigned.names


@pytest.mark.parametrize(
    "options",
    [
        {"tables": ["walrow.messages", "walrow.messages"]},
        {"table": "walrow.messages", "tables": ["walrow.messages"]},
        {"table": "walrow.messages", "schema": pa.schema([])},
        {"table": "walrow.messages", "envelope": True},
        {"envelope": True, "types": {"a": "int64"}},
        {"message_limit": 0},
        {"spool_memory": -1},
        {"start": "a place"},
    ],
)
def test_impossible_combinations_of_options_are_refused(
    options: dict[str, Any],
) -> None:
    with pytest.raises(walrow.errors.OptionError):
        walrow.read(b"", **options)


# Position


@pytest.mark.parametrize(
    "capture",
    [capture("rows"), capture("messages"), TWO_PHASE, capture("streaming-interleaved")],
    ids=str,
)
def test_start_leaves_out_what_was_delivered(capture: Capture) -> None:
    whole = table(capture.path, "walrow.transactions")
    messages = table(capture.path, "walrow.messages")
    for end in [row["end_lsn"] for row in whole]:
        rest = [row for row in whole if row["end_lsn"] > end]
        assert table(capture.path, "walrow.transactions", start=end) == rest
        text = format_lsn(end)
        commits = {row["commit_lsn"] for row in rest}
        expected = [row for row in changes(capture.path) if row[0] in commits]
        assert changes(capture.path, start=text) == expected
        actual = table(capture.path, "walrow.messages", start=end)
        assert actual == [
            row
            for row in messages
            if (row["commit_lsn"] in commits if row["transactional"] else False)
            or (not row["transactional"] and row["lsn"] > end)
        ]


@pytest.mark.parametrize("name", ["rows", "messages", "two-phase", "streaming"])
def test_two_captures_that_overlap_give_nothing_twice(name: str) -> None:
    data = capture(name).data
    frames = list(walrow.frames(data))
    options: Any = {
        "tables": with_sides(data, "transactions", "messages"),
        "missing_table": "ignore",
    }
    expected = rows_of(walrow.read(data, **options))
    for frame in frames[:: max(len(frames) // 40, 1)]:
        first = walrow.Decoder(**options)
        batches = list(first.feed(data[: frame.offset]))
        batches += first.flush()
        second = walrow.Decoder(start=first.position, **options)
        second.restore_prepared(first.save_prepared())
        # The server sends from the start again, as it does after a reconnect.
        batches += second.feed(data)
        batches += second.finish()
        assert rows_of(batches) == expected
        assert second.position >= first.position


def rows_of(batches: Any) -> list[tuple[str, str]]:
    """Each row as text with its table, sorted."""
    return sorted(
        (batch.table, repr(row))
        for batch in batches
        for row in pa.record_batch(batch).to_pylist()
    )


def test_position_counts_messages_only_if_they_are_read() -> None:
    path = capture("messages").path
    rows, messages = walrow.read(path), walrow.read(path, table="walrow.messages")
    list(rows)
    list(messages)
    last = table(path, "walrow.transactions")[-1]["end_lsn"]
    assert rows.position == last
    lsns = [row["lsn"] for row in table(path, "walrow.messages")]
    assert messages.position == max(lsns) > last


def test_position_begins_at_start() -> None:
    assert walrow.Decoder(start="0/1A2B").position == 0x1A2B


# Prepared transactions


def test_prepared_transactions_end_in_another_decoder() -> None:
    data = TWO_PHASE.data
    frames = list(walrow.frames(data))
    (prepare,) = (
        frame
        for frame in frames
        if frame.message and frame.message.kind == "P" and "two" in frame.message.gid
    )
    cut = prepare.offset + prepare.size
    expected = rows_of(walrow.read(data))

    first = walrow.Decoder()
    batches = [*first.feed(data[:cut]), *first.flush()]
    held = first.prepared
    assert [(each["gid"], each["xid"] > 0) for each in held] == [
        ("one", True),
        ("two 'quoted' é", True),
    ]
    assert all(each["prepare_lsn"] < each["prepare_end_lsn"] for each in held)
    state = first.save_prepared()

    second = walrow.Decoder(start=first.position)
    second.restore_prepared(state)
    assert second.prepared == held
    assert second.save_prepared() == state
    # A new session sends the relations again, before their first use.
    relation = next(it for it in frames if it.message and it.message.kind == "R")
    assert frames[0].kind == "W"
    session = frames[0].to_bytes() + relation.to_bytes()
    batches += [*second.feed(session + data[cut:]), *second.finish()]
    assert rows_of(batches) == expected
    assert second.prepared == []

    # Without the state, the rows of the commit are missing.
    third = walrow.Decoder(start=first.position)
    with pytest.raises(walrow.errors.DecodeError, match="late_start") as caught:
        list(third.feed(session + data[cut:]))
    assert caught.value.message == "Commit Prepared"
    late = walrow.Decoder(start=first.position, late_start=True)
    assert len([*late.feed(session + data[cut:]), *late.finish()]) > 0


def test_state_belongs_to_a_position() -> None:
    decoder = walrow.Decoder()
    decoder.feed(capture("rows").data)
    with pytest.raises(RuntimeError, match="take all batches"):
        decoder.save_prepared()
    list(decoder.feed(b""))
    with pytest.raises(walrow.errors.OptionError, match="flush"):
        decoder.save_prepared()
    list(decoder.flush())
    none = decoder.save_prepared()
    walrow.Decoder().restore_prepared(none)
    for cut in (0, len(none) // 2, len(none) - 1):
        with pytest.raises(walrow.errors.DecodeError, match="not a complete state"):
            decoder.restore_prepared(none[:cut])
    with pytest.raises(walrow.errors.DecodeError, match="not a complete state"):
        decoder.restore_prepared(capture("rows").data)


def test_no_state_is_given_after_a_failure() -> None:
    # The transaction that failed may have been a prepared one, and its rows are gone.
    decoder = walrow.Decoder(message_limit=30)
    with pytest.raises(walrow.errors.DecodeError):
        list(decoder.feed(TWO_PHASE.data))
    with pytest.raises(walrow.errors.DecodeError, match="message_limit"):
        decoder.save_prepared()


# The envelope


@pytest.mark.parametrize(
    "capture",
    [
        *(capture(name) for name in ("rows", "truncate", "columns-800")),
        *(capture(name) for name in ("update-toast", "update-toast-full")),
        capture("update-toast-key"),
        TWO_PHASE,
    ],
    ids=str,
)
def test_the_envelope_holds_what_the_tables_hold(capture: Capture) -> None:
    reader = walrow.read(capture.path, envelope=True, batch_rows=5)
    actual = []
    for row in pa.table(reader).to_pylist():
        data = None if row["data"] is None else dict(row["data"])
        key = f"{row['schema_name']}.{row['table_name']}"
        actual.append((row["_commit_lsn"], row["_seq"], key, row["_change_type"], data))
    expected = []
    for batch in walrow.read(capture.path, profile="text"):
        for row in pa.record_batch(batch).to_pylist():
            unsent = row["_unsent"] or []
            data = {
                name: value
                for name, value in row.items()
                if not name.startswith("_")
                and name not in unsent
                and (not row["_key_only"] or name in batch.key_columns)
            }
            kind = row["_change_type"]
            expected.append(
                (
                    row["_commit_lsn"],
                    row["_seq"],
                    batch.table,
                    kind,
                    None if kind == "truncate" else data,
                )
            )
    assert sorted(actual, key=repr) == sorted(expected, key=repr)
    # The rows of all tables are in one order.
    assert [row[:2] for row in actual] == sorted(row[:2] for row in actual)


def test_the_envelope_has_keys_and_lists_unsent_columns() -> None:
    path = capture("update-toast").path
    rows = pa.table(walrow.read(path, envelope=True)).to_pylist()
    assert rows
    assert all(dict(row["key"]).keys() == {"id"} for row in rows)
    unsent = [row for row in rows if row["_unsent"]]
    assert unsent
    for row in unsent:
        assert not dict(row["data"]).keys() & set(row["_unsent"])
    names = pa.schema(walrow.read(b"", envelope=True).schema).names
    assert names[:4] == ["schema_name", "table_name", "key", "data"]


# Memory, files, limits


def insert(size: int) -> bytes:
    """A plain transaction with one text of this size."""
    return wire([Column("a", 25)], [["x" * size]])


FULL_DISK = """
import resource, signal, sys
import walrow
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
rows, data = 0, sys.stdin.buffer.read()
pieces = [data[at : at + 1000] for at in range(0, len(data), 1000)]
reader = walrow.read(pieces, spool_memory=1000, spool_directory=sys.argv[1])
try:
    for batch in reader:
        rows += len(batch)
except walrow.errors.SpoolError as error:
    print(rows, error.errno, reader.position)
"""


def test_a_full_disk_is_an_error_after_all_earlier_rows(tmp_path: Path) -> None:
    first = capture("rows")
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        input=first.data + insert(100_000),
        check=True,
        capture_output=True,
    )
    rows, number, position = result.stdout.decode().split()
    assert int(rows) == 17
    assert int(number) == errno.EFBIG
    assert (
        walrow.Lsn(position) == table(first.path, "walrow.transactions")[-1]["end_lsn"]
    )
    assert list(tmp_path.iterdir()) == []


KILLED = """
import sys, time
import walrow
data = sys.stdin.buffer.read()
pieces = [data[at : at + 1000] for at in range(0, len(data) // 2, 1000)]
decoder = walrow.Decoder(spool_memory=1000, spool_directory=sys.argv[1])
for piece in pieces:
    list(decoder.feed(piece))
print("spooled", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_nothing_is_left_of_a_process_that_was_killed(tmp_path: Path) -> None:
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(capture("streaming").data)
            process.stdin.close()
            assert process.stdout.readline() == b"spooled\n"
            files = Path(f"/proc/{process.pid}/fd").iterdir()
            assert any(str(tmp_path) in str(file.readlink()) for file in files)
            assert list(tmp_path.iterdir()) == []
        finally:
            process.kill()
    time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("major", [16, 18])
def test_resuming_without_new_data_is_no_error(major: int) -> None:
    data = capture("rows", major=major).data
    first = walrow.read(data, table="item")
    assert list(first)
    again = walrow.read(data, table="item", start=first.position)
    assert list(again) == []
    # The stream describes the table, although it has no new row.
    again = walrow.read(data, table="item", start=first.position)
    assert again.schema.names == first.schema.names
    never = walrow.read(data, table="never", start=first.position)
    assert list(never) == []
    with pytest.raises(walrow.errors.SchemaError, match="schema="):
        _ = walrow.read(data, table="never", start=first.position).schema


def test_a_fork_does_not_share_the_file(tmp_path: Path) -> None:
    script = tmp_path / "fork.py"
    script.write_text(
        """
import os, sys
import walrow
data = open(sys.argv[1], "rb").read()
decoder = walrow.Decoder(spool_memory=0)
half = len(data) // 2
rows = sum(len(batch) for batch in decoder.feed(data[:half]))
child = os.fork()
if child == 0:
    try:
        list(decoder.feed(data[half:]))
    except walrow.errors.SpoolError as error:
        assert "parent process" in str(error), error
        # One of its own is as good as any.
        own = walrow.Decoder(spool_memory=0)
        found = [*own.feed(data), *own.finish()]
        os._exit(0 if sum(map(len, found)) == int(sys.argv[2]) else 3)
    os._exit(4)
assert os.waitpid(child, 0)[1] == 0
rows += sum(len(batch) for batch in [*decoder.feed(data[half:]), *decoder.finish()])
assert rows == int(sys.argv[2]), rows
"""
    )
    # The middle of the capture is inside a streamed transaction.
    path = capture("streaming").path
    rows = sum(len(batch) for batch in walrow.read(path))
    command = [sys.executable, str(script), str(path), str(rows)]
    subprocess.run(command, check=True, timeout=60)  # noqa: S603
