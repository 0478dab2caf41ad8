"""Prepared transactions without rows, as each version sends them, and with rows in another session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import walrow
from servers import EmbeddedServer, recording
from streams import format_lsn

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

#: Transactions that change no published row.
EMPTY = [
    "SELECT * FROM t FOR UPDATE",
    "SAVEPOINT a; INSERT INTO t VALUES (9, 'x'); ROLLBACK TO a",
    "SELECT txid_current()",
    "SELECT * FROM t FOR SHARE; SAVEPOINT a; SELECT * FROM t FOR UPDATE",
]
FIRST_TWO_PHASE = 15
#: The first version that sends a Prepare for a transaction without changes.
FIRST_WITH_PREPARE = 18
INSERT = "INSERT INTO t VALUES (2, 'after')"


class Slot:
    """A two-phase slot for a table of one row, and the streams of its sessions."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self.connection = psycopg.connect(server.dsn, autocommit=True)
        self.run("DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v text)")
        self.run("INSERT INTO t VALUES (1, 'a')")
        self.run("DROP PUBLICATION IF EXISTS p; CREATE PUBLICATION p FOR TABLE t")
        recording.create_slot(server.dsn, "prepared", two_phase=True)

    def run(self, sql: str) -> None:
        self.connection.execute(sql)

    def prepare(self, body: str, gid: str) -> None:
        self.run(f"BEGIN; {body}")
        self.run(f"PREPARE TRANSACTION '{gid}'")

    def session(self, **options: Any) -> bytes:
        """The stream of a new session from the slot's position on."""
        return recording.record(
            self.server,
            None,
            publication="p",
            slot="prepared",
            proto_version=3,
            two_phase=True,
            **options,
        )

    def confirm(self, lsn: int) -> None:
        name = format_lsn(lsn)
        self.run(f"SELECT pg_replication_slot_advance('prepared', '{name}')")

    def close(self) -> None:
        rows = self.connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall()
        for (gid,) in rows:
            self.run(f"ROLLBACK PREPARED '{gid}'")
        recording.drop_slot(self.server.dsn, "prepared")
        self.connection.close()


@pytest.fixture
def slot(server: EmbeddedServer) -> Iterator[Slot]:
    if server.major < FIRST_TWO_PHASE:
        pytest.skip("two-phase comes with 15")
    opened = Slot(server)
    yield opened
    opened.close()


def kinds(data: bytes) -> str:
    frames = walrow.frames(data)
    return "".join(frame.message.kind for frame in frames if frame.message)


def rows(data: bytes, **options: Any) -> int:
    return sum(len(batch) for batch in walrow.read(data, **options))


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("streaming", ["off", "on"])
def test_empty_prepared_transactions_are_read(
    slot: Slot, end: str, streaming: Any
) -> None:
    for number, body in enumerate(EMPTY):
        slot.prepare(body, f"g{number}")
        slot.run(f"{end} PREPARED 'g{number}'")
    slot.run(INSERT)
    data = slot.session(streaming=streaming)
    sent = kinds(data)
    ends = sent.count("K" if end == "COMMIT" else "r")
    begun, prepared = sent.count("b"), sent.count("P")
    # The server sends some of them as if they had rows.
    if slot.server.major < FIRST_WITH_PREPARE:
        assert ends > prepared == begun
    else:
        assert ends == prepared > begun
    reader = walrow.read(data)
    assert [batch.num_rows for batch in reader] == [1]
    assert reader.position > 0
    alone = ends - prepared if end == "COMMIT" else 0
    assert reader.unprepared_commits == alone
    transactions = list(walrow.read(data, table="walrow.transactions"))
    assert sum(map(len, transactions)) == 1 + sent.count("K")


def test_rows_of_another_session_are_missing_unless_its_state_is_here(
    slot: Slot,
) -> None:
    slot.prepare("INSERT INTO t VALUES (3, 'prepared')", "with rows")
    first = walrow.Decoder()
    assert not [*first.feed(slot.session()), *first.flush()]
    slot.confirm(recording.wal_end(slot.server.dsn))
    slot.prepare(EMPTY[0], "empty")
    slot.run("COMMIT PREPARED 'empty'")
    slot.run("COMMIT PREPARED 'with rows'")
    slot.run(INSERT)
    data = slot.session()
    assert "b" not in kinds(data)
    start = first.prepared[0]["prepare_end_lsn"]
    with pytest.raises(
        walrow.errors.DecodeError, match="restore the prepared transactions"
    ):
        rows(data, start=start)
    assert rows(data, start=start, late_start=True) == 1
    second = walrow.Decoder(start=start)
    second.restore_prepared(first.save_prepared())
    assert sum(len(batch) for batch in [*second.feed(data), *second.finish()]) == 2
    alone = slot.server.major < FIRST_WITH_PREPARE
    assert second.unprepared_commits == alone
