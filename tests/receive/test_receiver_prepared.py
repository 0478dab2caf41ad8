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
    ReceiverProcess,
    check_log,
    end_of_wal,
    execute,
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
TABLES = ("item", "audit", "wide")
#: The exit code if a prepared transaction is not decided.
LEFT = 5


@pytest.fixture
def slot(own: EmbeddedServer) -> Iterator[str]:
    if own.major < 15:
        pytest.skip("from version 15 on")
    with slot_for_load(own, two_phase=True) as name:
        execute(
            own.dsn,
            "DROP TABLE IF EXISTS elsewhere",
            "CREATE TABLE elsewhere (id int)",
        )
        yield name
        for (gid,) in execute(own.dsn, "SELECT gid FROM pg_prepared_xacts"):
            execute(own.dsn, f"ROLLBACK PREPARED '{gid}'")


def prepare(server: EmbeddedServer, gid: str, *statements: str) -> None:
    execute(server.dsn, "BEGIN", *statements, f"PREPARE TRANSACTION '{gid}'")


def test_prepared_transactions_across_kills(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """Small, streamed and empty ones, with the same names again and again."""
    log = tmp_path / "log"
    random_ = random.Random(1)  # noqa: S311
    turns = 6
    for turn in range(turns):
        with ReceiverProcess(own.dsn, log, *QUICK, slot=slot) as receiver:
            receiver.until_streaming()
            prepare(own, "small", f"INSERT INTO item VALUES ({turn}, 1)")  # noqa: S608
            prepare(
                own,
                "large",
                "INSERT INTO audit (item, what) "  # noqa: S608
                f"SELECT {turn}, repeat('x', 50) FROM generate_series(1, 3000) g",
            )
            prepare(own, "empty", "SELECT FROM item WHERE id = 0 FOR UPDATE", *EMPTY)
            if random_.random() < 0.5:
                receiver.until_streaming(after=end_of_wal(own.dsn))
            else:
                row = f"({turn}, 'x')"
                execute(own.dsn, "INSERT INTO wide VALUES " + row)  # noqa: S608
        if turn % 3 == 1:
            own.restart("kill")
        verbs = ["COMMIT", "ROLLBACK"] if turn % 2 else ["COMMIT", "COMMIT"]
        random_.shuffle(verbs)
        crash_at = random_.randint(1, 40)
        with ReceiverProcess(
            own.dsn, log, *QUICK, slot=slot, crash_at=crash_at
        ) as receiver:
            execute(own.dsn, f"{verbs[0]} PREPARED 'small'")
            execute(own.dsn, "INSERT INTO audit (what) VALUES ('between')")
            execute(own.dsn, f"{verbs[1]} PREPARED 'large'")
            execute(own.dsn, "COMMIT PREPARED 'empty'")
    receive_all(own.dsn, log, *QUICK, slot=slot)
    check_log(own.dsn, log, TABLES)
    assert not list(log.glob("_prepared-*"))


def test_prepared_transaction_that_outlives_its_receiver(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """It was confirmed as prepared: the server does not send its rows again."""
    log = tmp_path / "log"
    prepare(own, "late", "INSERT INTO item VALUES (1, 1)")
    receive_all(own.dsn, log, *QUICK, slot=slot, code=LEFT)
    assert len(list(log.glob("_prepared-*"))) == 1
    assert walrow.Log(log).tables() == []
    own.restart("kill")
    execute(own.dsn, "INSERT INTO item VALUES (2, 2)")
    receive_all(own.dsn, log, *QUICK, slot=slot, code=LEFT)
    execute(own.dsn, "COMMIT PREPARED 'late'")
    receive_all(own.dsn, log, *QUICK, slot=slot)
    check_log(own.dsn, log, TABLES)
    assert not list(log.glob("_prepared-*"))


@pytest.mark.slow
def test_prepared_before_a_new_log_of_the_same_slot(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """Another log has the rows. They do not come again, and are not taken for nothing."""
    one, other, third = (tmp_path / name for name in ("one", "other", "third"))
    prepare(own, "before", "INSERT INTO item VALUES (1, 1)")
    prepare(own, "early", "INSERT INTO item VALUES (2, 2)")
    execute(own.dsn, "INSERT INTO audit (what) VALUES ('one')")
    with ReceiverProcess(own.dsn, one, "--until", "now", *QUICK, slot=slot) as receiver:
        assert receiver.wait()[0] == LEFT
        if own.major >= 18:
            # It is where the slot was created.
            assert "prepared transactions:" not in repr(receiver.states)
    execute(own.dsn, "COMMIT PREPARED 'early'")
    failed = "the rows of transaction .* may have been prepared before the slot"
    with ReceiverProcess(
        own.dsn, third, "--until", "now", *QUICK, slot=slot
    ) as receiver:
        code, text = receiver.wait()
    assert code == 1
    assert re.search(failed, text)
    assert "early" not in text
    # The first log goes on.
    receive_all(own.dsn, one, *QUICK, slot=slot, code=LEFT)
    with ReceiverProcess(
        own.dsn, other, "--until", "now", *QUICK, slot=slot
    ) as receiver:
        assert receiver.wait()[0] == LEFT
        assert "prepared transactions: 1. The rows" in repr(receiver.states)
    # What is prepared later comes, and may be empty.
    prepare(own, "later", "INSERT INTO item VALUES (3, 3)")
    prepare(own, "empty", "SELECT FROM item WHERE id = 0 FOR UPDATE", *EMPTY)
    execute(own.dsn, "COMMIT PREPARED 'later'", "COMMIT PREPARED 'empty'")
    receive_all(own.dsn, other, *QUICK, slot=slot, code=LEFT)
    assert [table.rows for table in walrow.Log(other).tables()] == [1]
    execute(own.dsn, "COMMIT PREPARED 'before'")
    with ReceiverProcess(
        own.dsn, other, "--until", "now", *QUICK, slot=slot
    ) as receiver:
        code, text = receiver.wait()
    assert code == 1
    assert re.search(failed, text)
    assert [table.rows for table in walrow.Log(other).tables()] == [1]
