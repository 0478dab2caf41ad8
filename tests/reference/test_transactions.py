"""The model of transactions: on captures of one history in several protocol versions."""

import struct
from pathlib import Path
from typing import Any

import pytest

import streams
from reference import committed, history
from reference.transactions import Transaction

TESTS = Path(__file__).resolve().parent.parent

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
    """The common part of all protocol versions, for transactions that have changes."""
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


RELATION = streams.relation([], oid=7)
BEGIN = streams.begin(1, 20)
COMMIT = streams.commit(20, 30)
INSERT = streams.insert([], oid=7)


def test_a_session_that_ends_takes_open_transactions_with_it() -> None:
    session = streams.SESSION
    cut = session + streams.wired(BEGIN, RELATION, INSERT)
    whole = session + streams.wired(BEGIN, RELATION, INSERT, COMMIT)
    assert committed(cut) == []
    assert [t.commit_lsn for t in committed(cut + whole)] == [20]


@pytest.mark.parametrize(
    "data",
    [
        streams.wired(BEGIN, BEGIN),
        streams.wired(COMMIT),
        streams.wired(BEGIN, INSERT),
        streams.wired(RELATION, INSERT),
        streams.wired(BEGIN, streams.commit(21, 30)),
        streams.wired(streams.stream_start(5)),
        streams.wired(streams.stream_commit(5, 1)),
        streams.wired(b"K" + struct.pack("!BQQqI", 0, 1, 2, 0, 5) + b"gid\0"),
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
def test_impossible_streams_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"does not send|not defined|not prepared"):
        committed(data)
