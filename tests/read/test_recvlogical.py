"""Files of real `pg_recvlogical`: every protocol, and reconnects anywhere.

Two slots have the same history. `pg_recvlogical` reads one, the other is read as a
connection's bytes: their rows are the same.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

import walrow
from rows import outcome
from servers import (
    EmbeddedServer,
    Reading,
    Recvlogical,
    create_slot,
    drop_slot,
    record,
    wal_end,
)
from streams import format_lsn

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

TWO_PHASE, PARALLEL = 15, 16

PLAIN = Reading("recvlogical", messages=True)
READINGS = {
    "v1": PLAIN,
    "v1-binary": replace(PLAIN, binary=True),
    "v2-streaming": replace(PLAIN, proto_version=2, streaming="on"),
    "v3-two-phase": replace(
        PLAIN, proto_version=3, streaming="on", two_phase=True, binary=True
    ),
    "v4-parallel": replace(
        PLAIN, proto_version=4, streaming="parallel", two_phase=True
    ),
}

SETUP = """
DROP TABLE IF EXISTS item, other;
CREATE TABLE item (id int PRIMARY KEY, note text, data bytea, price numeric(12, 2));
CREATE TABLE other (id int PRIMARY KEY, note text);
ALTER TABLE item ALTER note SET STORAGE EXTERNAL;
ALTER TABLE other REPLICA IDENTITY FULL;
DROP PUBLICATION IF EXISTS recvlogical;
CREATE PUBLICATION recvlogical FOR TABLE item, other;
"""


class Slots:
    """A fresh pair of slots, and the connection that makes the history."""

    def __init__(
        self, server: EmbeddedServer, reading: Reading, directory: Path
    ) -> None:
        if server.major < TWO_PHASE and reading.two_phase:
            pytest.skip("two-phase comes with 15")
        if server.major < PARALLEL and reading.streaming == "parallel":
            pytest.skip("parallel comes with 16")
        self.server, self.reading = server, reading
        self.path = directory / "file"
        self.connection = psycopg.connect(server.dsn, autocommit=True)
        self.connection.execute(SETUP)
        for slot in ("of_file", "of_wire"):
            create_slot(server.dsn, slot, two_phase=reading.two_phase)

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.connection.execute(statement.encode())

    def receive(self, **options: Any) -> Recvlogical:
        return Recvlogical(self.server, "of_file", self.reading, self.path, **options)

    def wire(self) -> bytes:
        return record(self.server, None, slot="of_wire", **vars(self.reading))

    def close(self) -> None:
        self.run("ROLLBACK")
        prepared = "SELECT gid FROM pg_prepared_xacts"
        for (gid,) in self.connection.execute(prepared).fetchall():
            self.run(f"ROLLBACK PREPARED '{gid}'")
        for slot in ("of_file", "of_wire"):
            drop_slot(self.server.dsn, slot)
        self.connection.close()


@pytest.fixture
def slots(
    server: EmbeddedServer, tmp_path: Path
) -> Iterator[Callable[[Reading], Slots]]:
    made: list[Slots] = []

    def make(reading: Reading) -> Slots:
        made.append(Slots(server, reading, tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.close()


TABLES = (
    "item",
    "other",
    "walrow.transactions",
    "walrow.messages",
    "walrow.truncates",
)


def contents(source: Any) -> tuple[dict[str, Any], walrow.Reader]:
    """All rows by table, and the reader after them."""
    reader = walrow.read(source, tables=TABLES)
    result = outcome(reader)
    assert result.error is None
    assert not reader.unfinished
    return result.tables(), reader


def history(slots: Slots) -> None:
    """All kinds of messages, with newlines in names and values."""
    slots.run(
        "INSERT INTO item VALUES (1, E'a\\nb\\n', '\\x0a0a0a', 1.50), (2, '', '', NULL)",
        r"INSERT INTO item SELECT 3, repeat(E'\n', 300000), decode(repeat('0a', 9000),"
        " 'hex'), -1",
        "UPDATE item SET price = 10 WHERE id = 3",
        "UPDATE item SET id = 10 WHERE id = 1",
        "INSERT INTO other VALUES (1, E'\\n'), (10, NULL)",
        "UPDATE other SET note = E'x\\n' WHERE id = 1",
        "DELETE FROM other WHERE id = 10",
        "SELECT pg_logical_emit_message(false, E'out\\n', E'\\n\\n')",
        "SELECT pg_logical_emit_message(true, E'in\\n', E'\\n\\n')",
        "ALTER TABLE other ADD \"new\nline\" text DEFAULT ''",
        "INSERT INTO other SELECT n, E'\\n', n FROM generate_series(100, 3000) n",
    )
    with slots.connection.transaction():
        slots.run("INSERT INTO item SELECT n, 'x' FROM generate_series(20, 4000) n")
        with slots.connection.transaction(force_rollback=True):
            slots.run("INSERT INTO item SELECT n FROM generate_series(5000, 9000) n")
        slots.run(
            "UPDATE other SET note = id || E'\\n'", "DELETE FROM item WHERE id < 5"
        )
    slots.run("TRUNCATE item, other RESTART IDENTITY")
    for gid, end in (("k\n", "COMMIT"), ("r", "ROLLBACK")):
        slots.run(
            "BEGIN",
            "INSERT INTO item SELECT n, E'\\n' FROM generate_series(1, 3000) n",
            "UPDATE item SET note = E'\\n\\n'",
            f"PREPARE TRANSACTION '{gid}'",
            "INSERT INTO other VALUES (-1, 'between')",
            f"{end} PREPARED '{gid}'",
            "DELETE FROM other",
            "DELETE FROM item",
        )


@pytest.mark.parametrize("name", READINGS)
def test_file_has_what_the_connection_has(
    slots: Callable[[Reading], Slots], name: str
) -> None:
    pair = slots(READINGS[name])
    history(pair)
    end = format_lsn(wal_end(pair.server.dsn))
    pair.run("INSERT INTO item VALUES (0)")
    with pair.receive(until_lsn=end) as running:
        running.wait()
    # The program stops before the first record past the end.
    found, reader = contents(pair.path)
    wire, _ = contents(pair.wire())
    expected = {
        table: [row for row in rows if row.get("id") != 0]
        for table, rows in wire.items()
    }
    expected["walrow.transactions"] = wire["walrow.transactions"][:-1]
    assert found == expected
    assert len(found) == 5
    assert reader.repeated_transactions == 0
    # Frame by frame, and byte for byte.
    data = pair.path.read_bytes()
    frames = walrow.frames(pair.path)
    assert b"".join(frame.to_bytes() for frame in frames) == data
    for size in (1, 1000):
        chunks = [data[at : at + size] for at in range(0, 200_000, size)]
        whole, cut = (
            outcome(walrow.read(source)) for source in (data[:200_000], chunks)
        )
        assert whole.tables() == cut.tables()


def big(number: int, rows: int = 60_000) -> str:
    text = r"repeat(E'\n', 100)"
    first, last = number * rows, (number + 1) * rows - 1
    series = f"generate_series({first}, {last}) n"
    return f"INSERT INTO item SELECT n, {text} || n FROM {series}"  # noqa: S608


def wait_for_size(path: Path, size: int) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() or path.stat().st_size < size:
        assert time.monotonic() < deadline, "pg_recvlogical writes nothing"
        time.sleep(0.002)


def wait_for_row(path: Path, marker: str) -> None:
    """Waits until the file has a transaction with this text."""
    deadline = time.monotonic() + 60
    while marker.encode() not in path.read_bytes():
        assert time.monotonic() < deadline, f"{marker} does not come"
        time.sleep(0.05)
    reader = walrow.read(path)
    while list(reader) is None or reader.unfinished:
        assert time.monotonic() < deadline, f"{marker} is not committed"
        reader = walrow.read(path)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "v4-parallel" else pytest.mark.slow)
        for name in READINGS
    ],
)
def test_reconnects_repeat_and_lose_nothing(
    slots: Callable[[Reading], Slots], name: str
) -> None:
    pair = slots(READINGS[name])
    with pair.receive(status_seconds=1000) as running:
        running.wait_until_connected()
        for number in range(5):
            pair.run(f"INSERT INTO item VALUES ({-1 - number}, 'small')")  # noqa: S608
        pair.run(
            "SELECT pg_logical_emit_message(false, 'note', 'outside')",
            "BEGIN",
            "INSERT INTO other SELECT n FROM generate_series(1, 3000) n",
            "PREPARE TRANSACTION 'held'",
            "INSERT INTO item VALUES (-10, 'before the break')",
        )
        wait_for_row(pair.path, "before the break")
        # Between transactions.
        running.break_connection()
        size = pair.path.stat().st_size
        # Inside one.
        pair.run(big(1))
        wait_for_size(pair.path, size + 2_000_000)
        running.break_connection()
        pair.run("COMMIT PREPARED 'held'", "INSERT INTO item VALUES (-11, 'again')")
        wait_for_row(pair.path, "again")
        # While the transaction runs. It is streamed if the mode allows it.
        size = pair.path.stat().st_size
        with pair.connection.transaction():
            pair.run(big(2, 20_000))
            if pair.reading.streaming != "off":
                wait_for_size(pair.path, size + 1_000_000)
            running.break_connection()
            pair.run("SELECT pg_logical_emit_message(false, 'note', 'inside')")
        pair.run("INSERT INTO item VALUES (-12, 'the end')")
        wait_for_row(pair.path, "the end")
    found, reader = contents(pair.path)
    expected, _ = contents(pair.wire())
    assert found == expected
    assert len(found["public.item"]) == 80_008
    assert reader.repeated_transactions > 0
    # The connection broke inside the large transaction.
    begins = Counter(
        frame.message.xid
        for frame in walrow.frames(pair.path)
        if frame.message
        and (
            frame.message.kind == "B"
            or (frame.message.kind == "S" and frame.message.first)
        )
    )
    ends = Counter(
        frame.message.kind
        for frame in walrow.frames(pair.path)
        if frame.message and frame.message.kind in "CcPpK"
    )
    assert begins.total() > ends["C"] + ends["c"] + ends["p"]
    assert pair.reading.two_phase == bool(ends["K"])
