"""The model of transactions: on captures of one history in several protocol versions."""

import struct
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))

from reference import committed, history  # noqa: E402
from reference.transactions import Transaction  # noqa: E402

DATA = TESTS / "data"
PAIRS = [
    path
    for path in sorted(DATA.glob("[0-9]*/*.text.wire"))
    if path.with_name(path.name.replace(".text.", ".v1.")).exists()
]
BINARY = sorted(DATA.glob("[0-9]*/*.binary.wire"))


def identify(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.wire')}"


def rows(transactions: list[Transaction], *, values: bool = True) -> list[Any]:
    """All that protocol versions have in common, of transactions that have changes."""
    return [
        (
            each.xid,
            each.commit_lsn,
            each.end_lsn,
            each.commit_time,
            [
                (c.seq, c.kind, c.relation, c.old_kind, c.options)
                + ((c.old, c.new) if values else ())
                for c in each.changes
            ],
        )
        for each in transactions
        if each.changes
    ]


def frame(message: bytes) -> bytes:
    body = b"w" + bytes(24) + message
    return b"d" + struct.pack("!I", len(body) + 4) + body


def wire(*messages: bytes) -> bytes:
    return b"".join(frame(message) for message in messages)


def test_there_are_histories_of_several_versions() -> None:
    forms: set[str] = set()
    for path in PAIRS:
        forms |= set(history(path.read_bytes()).forms)
    assert len(PAIRS) > 15
    assert forms == {
        "aborted",
        "discarded",
        "plain",
        "prepared",
        "rolled back",
        "streamed",
        "streamed and prepared",
    }


@pytest.mark.parametrize("path", PAIRS, ids=identify)
def test_every_version_gives_the_transactions_of_version_1(path: Path) -> None:
    plain = history(path.with_name(path.name.replace(".text.", ".v1.")).read_bytes())
    later = history(path.read_bytes())
    assert set(plain.forms) <= {"plain"}
    assert rows(plain.transactions) == rows(later.transactions)
    assert plain.messages == later.messages


@pytest.mark.parametrize("path", BINARY, ids=identify)
def test_binary_gives_the_transactions_of_text(path: Path) -> None:
    text = path.with_name(path.name.replace(".binary.", ".text."))
    if not text.exists():
        pytest.skip("only recorded in binary, since it shows an error of binary")
    assert rows(committed(path.read_bytes()), values=False) == rows(
        committed(text.read_bytes()), values=False
    )


def test_seq_counts_changes_and_a_truncate_once() -> None:
    path = DATA / "18" / "rows.text.wire"
    for transaction in committed(path.read_bytes()):
        numbers = [change.seq for change in transaction.changes]
        assert sorted(set(numbers)) == list(range(len(set(numbers))))
        assert numbers == sorted(numbers)


RELATION = b"R" + struct.pack("!I", 7) + b"\0t\0d" + struct.pack("!H", 0)
BEGIN = b"B" + struct.pack("!QqI", 20, 0, 1)
COMMIT = b"C" + struct.pack("!BQQq", 0, 20, 30, 0)
INSERT = b"I" + struct.pack("!I", 7) + b"N\0\0"


def test_a_session_that_ends_takes_open_transactions_with_it() -> None:
    session = b"W" + struct.pack("!IBH", 7, 0, 0)
    cut = session + wire(BEGIN, RELATION, INSERT)
    whole = session + wire(BEGIN, RELATION, INSERT, COMMIT)
    assert committed(cut) == []
    assert [t.commit_lsn for t in committed(cut + whole)] == [20]


@pytest.mark.parametrize(
    "data",
    [
        wire(BEGIN, BEGIN),
        wire(COMMIT),
        wire(BEGIN, INSERT),
        wire(RELATION, INSERT),
        wire(BEGIN, b"C" + struct.pack("!BQQq", 0, 21, 30, 0)),
        wire(b"S" + struct.pack("!IB", 5, 0)),
        wire(b"c" + struct.pack("!IBQQq", 5, 0, 1, 2, 0)),
        wire(b"K" + struct.pack("!BQQqI", 0, 1, 2, 0, 5) + b"gid\0"),
    ],
    ids=[
        "begin-in-transaction",
        "commit-of-nothing",
        "unknown-relation",
        "change-outside",
        "another-commit-lsn",
        "later-chunk-of-nothing",
        "stream-commit-of-nothing",
        "unknown-gid",
    ],
)
def test_what_no_server_sends_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"does not send|not defined|not prepared"):
        committed(data)
