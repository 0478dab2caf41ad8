"""`walrow receive --two-phase`: prepared transactions across kills of both ends."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import (
    Feed,
    receive_all,
    slot_for_load,
)

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

QUICK = ("--two-phase", "--publish-after", "0.2", "--segment-size", "1MiB")
#: What is known to the decoder, and has no changes at the end.
EMPTY = (
    "SAVEPOINT a",
    "INSERT INTO item VALUES (-1, 1)",
    "ROLLBACK TO SAVEPOINT a",
    "INSERT INTO elsewhere VALUES (1)",
)
#: The exit code if a prepared transaction is not decided.
LEFT = 5


@pytest.fixture
def feed(own: EmbeddedServer, tmp_path: Path) -> Iterator[Feed]:
    if own.major < 15:
        pytest.skip("from version 15 on")
    with slot_for_load(own, two_phase=True) as slot:
        feed = Feed(own, slot, tmp_path / "log")
        feed.execute(
            "DROP TABLE IF EXISTS elsewhere", "CREATE TABLE elsewhere (id int)"
        )
        yield feed
        for (gid,) in feed.execute("SELECT gid FROM pg_prepared_xacts"):
            feed.execute(f"ROLLBACK PREPARED '{gid}'")


def prepare(feed: Feed, gid: str, *statements: str) -> None:
    feed.execute("BEGIN", *statements, f"PREPARE TRANSACTION '{gid}'")


def test_prepared_transactions_across_kills(feed: Feed) -> None:
    """Small, streamed and empty ones, with the same names again and again."""
    random_ = random.Random(1)  # noqa: S311
    turns = 6
    for turn in range(turns):
        with feed.receiver(*QUICK) as receiver:
            receiver.until_streaming()
            prepare(feed, "small", f"INSERT INTO item VALUES ({turn}, 1)")  # noqa: S608
            prepare(
                feed,
                "large",
                "INSERT INTO audit (item, what) "  # noqa: S608
                f"SELECT {turn}, repeat('x', 50) FROM generate_series(1, 3000) g",
            )
            prepare(feed, "empty", "SELECT FROM item WHERE id = 0 FOR UPDATE", *EMPTY)
            if random_.random() < 0.5:
                feed.until_all(receiver)
            else:
                row = f"({turn}, 'x')"
                feed.execute("INSERT INTO wide VALUES " + row)  # noqa: S608
        if turn % 3 == 1:
            feed.server.restart("kill")
        verbs = ["COMMIT", "ROLLBACK"] if turn % 2 else ["COMMIT", "COMMIT"]
        random_.shuffle(verbs)
        crash_at = random_.randint(1, 40)
        with feed.receiver(*QUICK, crash_at=crash_at) as receiver:
            feed.execute(f"{verbs[0]} PREPARED 'small'")
            feed.execute("INSERT INTO audit (what) VALUES ('between')")
            feed.execute(f"{verbs[1]} PREPARED 'large'")
            feed.execute("COMMIT PREPARED 'empty'")
    feed.check_rest(*QUICK)
    assert not list(feed.log.glob("_prepared-*"))


def test_prepared_transaction_that_outlives_its_receiver(feed: Feed) -> None:
    """It was confirmed as prepared: the server does not send its rows again."""
    prepare(feed, "late", "INSERT INTO item VALUES (1, 1)")
    feed.receive_all(*QUICK, code=LEFT)
    assert len(list(feed.log.glob("_prepared-*"))) == 1
    assert walrow.Log(feed.log).tables() == []
    feed.server.restart("kill")
    feed.execute("INSERT INTO item VALUES (2, 2)")
    feed.receive_all(*QUICK, code=LEFT)
    feed.execute("COMMIT PREPARED 'late'")
    feed.check_rest(*QUICK)
    assert not list(feed.log.glob("_prepared-*"))


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_streamed_transaction_describes_a_table_before_it_is_prepared(
    feed: Feed, end: str
) -> None:
    """From version 19 on, the server does not describe the table again."""
    feed.execute(
        "ALTER TABLE audit RENAME what TO earlier", "ALTER TABLE audit ADD what text"
    )
    rows = "SELECT g, repeat('x', 200) FROM generate_series(1, 3000) g"
    prepare(feed, "large", "INSERT INTO audit (item, what) " + rows)
    feed.execute("INSERT INTO audit (item, what, earlier) VALUES (-7, 'what', 'then')")
    feed.execute(f"{end} PREPARED 'large'")
    feed.receive_all(*QUICK)
    found = [
        (row["item"], row["what"], row["earlier"])
        for batch in walrow.read(feed.log, table="public.audit")
        for row in batch.to_pyarrow().to_pylist()
        if row["item"] == -7
    ]
    assert found == [(-7, "what", "then")]
    feed.execute(
        "ALTER TABLE audit DROP what", "ALTER TABLE audit RENAME earlier TO what"
    )


@pytest.mark.slow
def test_prepared_before_a_new_log_of_the_same_slot(feed: Feed, tmp_path: Path) -> None:
    """Another log has the rows. They do not come again, and are not taken for nothing."""
    one, other, third = (tmp_path / name for name in ("one", "other", "third"))
    prepare(feed, "before", "INSERT INTO item VALUES (1, 1)")
    prepare(feed, "early", "INSERT INTO item VALUES (2, 2)")
    feed.execute("INSERT INTO audit (what) VALUES ('one')")
    with feed.receiver("--until", "now", *QUICK, log=one) as receiver:
        assert receiver.wait()[0] == LEFT
        if feed.server.major >= 18:
            # It is where the slot was created.
            assert "prepared transactions:" not in repr(receiver.states)
    feed.execute("COMMIT PREPARED 'early'")
    failed = "the rows of transaction .* may have been prepared before the slot"
    text = feed.receive_all(*QUICK, log=third, code=1)
    assert re.search(failed, text)
    assert "early" not in text
    # The first log goes on.
    receive_all(feed.dsn, one, *QUICK, slot=feed.slot, code=LEFT)
    with feed.receiver("--until", "now", *QUICK, log=other) as receiver:
        assert receiver.wait()[0] == LEFT
        assert "prepared transactions: 1. The rows" in repr(receiver.states)
    # What is prepared later comes, and may be empty.
    prepare(feed, "later", "INSERT INTO item VALUES (3, 3)")
    prepare(feed, "empty", "SELECT FROM item WHERE id = 0 FOR UPDATE", *EMPTY)
    feed.execute("COMMIT PREPARED 'later'", "COMMIT PREPARED 'empty'")
    receive_all(feed.dsn, other, *QUICK, slot=feed.slot, code=LEFT)
    assert [table.rows for table in walrow.Log(other).tables()] == [1]
    feed.execute("COMMIT PREPARED 'before'")
    text = feed.receive_all(*QUICK, log=other, code=1)
    assert re.search(failed, text)
    assert [table.rows for table in walrow.Log(other).tables()] == [1]
