"""`Log.net`: what changed between two LSNs, for targets of any kind. Expectations are by hand."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from logs import (
    COLUMNS,
    Publisher,
    change,
    loaded,
    published,
    sealed,
    transaction,
    transactions,
)
from streams import UNSENT, Column, delete, insert, truncate, update
from walrow._log.marks import Mark, Why
from walrow._log.needs import write_published
from walrow._log.net import Net
from walrow._log.published import Published
from walrow._lsn import Lsn

pa = pytest.importorskip("pyarrow")

TABLE, OTHER = streams.TABLE, 16500
#: A target has the changes up to here. Later ones are about rows that it may have.
START = 0x1000
KINDS = {
    "insert": "I",
    "update_postimage": "U",
    "update_preimage": "head",
    "delete": "D",
    "truncate": "T",
}


def rows_of(net: Net) -> list[tuple[Any, ...]]:
    """The rows: what to do, and the table's columns, with ... for values that were not sent."""
    columns = net.columns
    found = []
    for row in net.to_pyarrow().to_pylist():
        unsent = row["_unsent"] or ()
        assert all(row[name] is None for name in unsent)
        values = [... if name in unsent else row[name] for name in columns]
        if row["_key_only"] or row["_change_type"] == "truncate":
            assert values[1:] == [None] * (len(values) - 1)
            del values[1:]
        found.append((KINDS[row["_change_type"]], *values))
    return found


def log_of(folder: Path, *later: bytes | list[bytes]) -> walrow.Log:
    """A log with a row up to `START`, and then transactions of these messages."""
    begun = change(START, insert(("1", "a")))
    changes = [
        change(START + 0x1000 * number, *([it] if isinstance(it, bytes) else it))
        for number, it in enumerate(later, 1)
    ]
    return published(folder, [begun, *changes])


def key(row: int) -> list[str | None]:
    """An old image with the key only."""
    return [str(row), None]


#: Transactions after `START`, and the rows of their net in any order.
CASES: dict[str, tuple[list[Any], list[Any]]] = {
    "an insert": ([insert(("2", "b"))], [("I", 2, "b")]),
    "NULL is sent": ([insert(("2", None))], [("I", 2, None)]),
    "the last of several": (
        [insert(("2", "b")), update(("2", "c")), update(("2", "d"))],
        [("I", 2, "d")],
    ),
    "a value that only the target has": (
        [update(("2", UNSENT))],
        [("U", 2, ...)],
    ),
    "a value that was sent before it": (
        [update(("2", "b")), update(("2", UNSENT))],
        [("U", 2, "b")],
    ),
    "a value of an insert before it": (
        [insert(("2", "b")), update(("2", UNSENT))],
        [("I", 2, "b")],
    ),
    "a delete": ([delete(key(2))], [("D", 2)]),
    "it comes and goes": ([insert(("2", "b")), delete(key(2))], [("D", 2)]),
    "it goes and comes again": (
        [delete(key(2)), insert(("2", "b"))],
        [("I", 2, "b")],
    ),
    "a delete ends what was kept": (
        [update(("2", UNSENT)), delete(key(2)), insert(("2", None))],
        [("I", 2, None)],
    ),
    "another key": (
        [update(("3", "b"), key=key(2))],
        [("D", 2), ("I", 3, "b")],
    ),
    "another key, and a value that only the target has": (
        [update(("3", UNSENT), key=key(2))],
        [("D", 2), ("head", 2), ("U", 3, ...)],
    ),
    "another key of a row that is new": (
        [insert(("2", "b")), update(("3", UNSENT), key=key(2))],
        [("D", 2), ("I", 3, "b")],
    ),
    "a key there and back": (
        [update(("3", UNSENT), key=key(2)), update(("2", UNSENT), key=key(3))],
        [("U", 2, ...), ("D", 3)],
    ),
    "a chain of keys": (
        [
            update(("9", UNSENT), key=key(4)),
            update(("4", UNSENT), key=key(3)),
            update(("3", UNSENT), key=key(2)),
        ],
        [
            *[("head", 4), ("U", 9, ...)],
            *[("head", 3), ("U", 4, ...)],
            *[("head", 2), ("U", 3, ...)],
            ("D", 2),
        ],
    ),
    "two rows that swap their keys": (
        [
            [
                update(("-1", UNSENT), key=key(2)),
                update(("2", UNSENT), key=key(3)),
                update(("3", UNSENT), key=key(-1)),
            ]
        ],
        [("head", 3), ("U", 2, ...), ("head", 2), ("U", 3, ...), ("D", -1)],
    ),
    "a row that moves, and goes": (
        [update(("3", UNSENT), key=key(2)), delete(key(3))],
        [("D", 2), ("D", 3)],
    ),
    "a truncate": (
        [update(("2", UNSENT)), truncate(TABLE), insert(("3", "c"))],
        [("T", None), ("I", 3, "c")],
    ),
    "a truncate, and nothing after it": ([truncate(TABLE)], [("T", None)]),
    "a truncate of another table": (
        [[streams.relation(COLUMNS, OTHER, "u"), truncate(OTHER)]],
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_row_for_each_key(name: str, tmp_path: Path) -> None:
    later, expected = CASES[name]
    log = log_of(tmp_path / "log", *later)
    found = rows_of(log.net("t", start=START))
    assert pairs(found) == pairs(expected)
    assert found[:1] == expected[:1] or ("T", None) not in expected
    # The same again, in the same order.
    assert rows_of(log.net("t", start=START, spool_memory=0)) == found


def pairs(rows: list[tuple[Any, ...]]) -> set[Any]:
    """The rows in any order, but each head with the row after it."""
    found: set[Any] = set()
    head = None
    for row in rows:
        assert (head, row) not in found
        if row[0] == "head":
            assert head is None
            head = row
        else:
            found.add((head, row))
            head = None
    assert head is None, "a head without its row"
    return found


def test_the_two_rows_of_a_head_have_one_seq(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", update(("3", UNSENT), key=key(2)), delete(key(5)))
    for batch in log.net("t", start=START, batch_rows=1):
        rows = batch.to_pyarrow().to_pylist()
        if rows[0]["_change_type"] == "update_preimage":
            assert [row["_change_type"] for row in rows] == [
                "update_preimage",
                "update_postimage",
            ]
            assert rows[0]["_seq"] == rows[1]["_seq"]
            break
    else:
        pytest.fail("there is no head")


# --------------------------------------------------------------------- the tally


def test_what_the_rows_are_is_known_before_them(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log",
        [insert(("2", "b")), update(("2", "c"))],
        update(("3", UNSENT), key=key(1)),
        update(("5", UNSENT)),
    )
    net = log.net("t", start=START)
    assert (net.table, net.oid, net.keys) == ("public.t", TABLE, ("id",))
    assert (net.start, net.end) == (START, log.end)
    assert isinstance(net.end, Lsn)
    assert net.bytes_read == 0
    assert (net.events, net.rows, net.heads) == (4, 4, 1)
    assert (net.kept, net.partial) == (("v",), ())
    assert (net.never_sent, net.lacking) == (0, ())
    assert (net.barrier, net.clears) == (None, False)
    assert net.columns == ["id", "v"]
    assert net.bytes_read == net.bytes_total
    assert sum(len(batch) for batch in net) == 5


def test_a_barrier_is_the_last_truncate(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log",
        truncate(TABLE),
        [insert(("2", "b")), truncate(TABLE), insert(("3", "c"))],
        delete(key(3)),
    )
    net = log.net("t", start=START)
    assert net.barrier is not None
    assert astuple(net.barrier) == (0x2FF8, 1, False)
    assert (net.barrier.lsn, net.clears) == (0x2FF8, True)
    # Before the truncate, it is not in the range.
    assert log.net("t", start=START, end=0x1FFF).barrier is None
    assert log.net("t", start=0x3000).barrier is None


def test_a_load_replaces_the_rows(tmp_path: Path) -> None:
    with Publisher(tmp_path / "log") as publisher:
        publisher.publish(change(START, insert(("1", "a"))))
        publisher.publish(change(0x2000, update(("1", UNSENT))))
        loaded(publisher, 0x3000, 1, 2)
        publisher.publish(change(0x4000, update(("2", UNSENT)), insert(("5", "e"))))
    log = walrow.Log(tmp_path / "log")
    net = log.net("t", start=START)
    assert net.barrier is not None
    assert (net.barrier.is_load, net.clears, net.kept) == (True, True, ())
    found = rows_of(net)
    assert found[0] == ("T", None)
    assert pairs(found[1:]) == pairs(
        [("I", 1, "loaded"), ("I", 2, "loaded"), ("I", 5, "e")]
    )
    # After it, and before it.
    later = rows_of(log.net("t", start=0x3000))
    assert pairs(later) == pairs([("U", 2, ...), ("I", 5, "e")])
    assert rows_of(log.net("t", start=START, end=0x2000)) == [("U", 1, ...)]
    # A load adds rows if deletes are ignored.
    ignored = log.net("t", start=START, deletes="ignore")
    assert (ignored.barrier is not None, ignored.clears) == (True, False)
    assert rows_of(ignored) == found[1:]


def test_a_range_without_changes_has_the_columns(tmp_path: Path) -> None:
    begun = change(START, insert(("1", "a")))
    other = transaction(0x2000, ("1", "x"), oid=OTHER)
    log = published(tmp_path / "log", [begun, other])
    for start, end in ((START, None), (START, START), (log.end, None), (0, 0x800)):
        net = log.net("t", start=start, end=end)
        assert (net.events, net.rows, net.columns) == (0, 0, ["id", "v"])
        assert net.end == (end or log.end)
        assert rows_of(net) == []


def test_parts_of_a_range_follow_each_other(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(5, 1))
    found = []
    start = Lsn(0)
    for end in ("0/1800", 0x3000, Lsn(0x3000), None):
        net = log.net("t", start=start, end=end)
        found += [row[1] for row in rows_of(net)]
        start = net.end
    assert found == [100, 200, 300, 400, 500]
    assert start == log.end
    # The end of the log is where it was when it was opened.
    assert log.net("t", start=0x5000, end="F/0").end == 0x5000


# ----------------------------------------------------------------------- modes


def test_soft_deletes_keep_values(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log",
        [insert(("2", "b")), update(("3", "c")), update(("4", UNSENT))],
        [delete(key(1)), delete(key(2)), delete(key(3)), delete(key(4))],
        [insert(("4", "again"))],
    )
    net = log.net("t", start=START, deletes="soft")
    found = rows_of(net)
    assert pairs(found) == pairs(
        [("D", 1, ...), ("D", 2, "b"), ("D", 3, "c"), ("I", 4, "again")]
    )
    assert net.kept == ("v",)


def test_ignored_deletes_leave_rows(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log",
        [delete(key(1)), insert(("2", "b")), delete(key(2))],
        [update(("3", "c")), delete(key(3))],
    )
    found = rows_of(log.net("t", start=START, deletes="ignore"))
    assert not any(kind in ("D", "T") for kind, *_ in found)
    assert ("I", 2, "b") in found
    assert not any(row[1] == 1 for row in found)


def test_truncates_that_are_ignored(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log", update(("1", UNSENT)), truncate(TABLE), insert(("3", "c"))
    )
    net = log.net("t", start=START, truncates="ignore")
    assert (net.barrier, net.clears) == (None, False)
    assert pairs(rows_of(net)) == pairs([("U", 1, ...), ("I", 3, "c")])


# --------------------------------------------------------------------- columns

WIDER = [*COLUMNS, Column("w", 25)]
NARROW = COLUMNS[:1]


def test_a_column_that_was_added(tmp_path: Path) -> None:
    log = published(
        tmp_path / "log",
        [
            change(0x1000, insert(("1", "a"))),
            change(0x2000, insert(("2", "b")), update(("3", "c"))),
            change(0x3000, insert(("4", "d", "e")), columns=WIDER),
        ],
    )
    net = log.net("t", start=START)
    assert (net.columns, net.partial) == (["id", "v", "w"], ("w",))
    assert len(net.versions) == 2
    assert pairs(rows_of(net)) == pairs(
        [("I", 2, "b", None), ("U", 3, "c", ...), ("I", 4, "d", "e")]
    )
    # Before it came, the table did not have it.
    assert log.net("t", start=START, end=0x2000).columns == ["id", "v"]


def test_a_column_that_was_dropped(tmp_path: Path) -> None:
    log = published(
        tmp_path / "log",
        [
            change(0x1000, insert(("1", "a"))),
            change(0x2000, insert(("2", "b"))),
            change(0x3000, insert(("3",)), update(("1",)), columns=NARROW),
        ],
    )
    net = log.net("t", start=START)
    assert (net.columns, net.partial) == (["id"], ("v",))
    assert {row[1] for row in rows_of(net)} == {1, 2, 3}
    for metadata in (None, walrow._log.net.METADATA):
        schema = walrow.schema(log, "t", metadata=metadata)
        found = rows_of(log.net("t", start=START, schema=schema))
        assert pairs(found) == pairs([("I", 2, "b"), ("I", 3, None), ("U", 1, ...)])
    # A version in the range need not have the column: only the target has its values.
    net = log.net("t", start=0x2000, schema=walrow.schema(log, "t"))
    assert (net.columns, net.kept) == (["id", "v"], ("v",))
    assert pairs(rows_of(net)) == pairs([("I", 3, None), ("U", 1, ...)])
    with pytest.raises(
        walrow.errors.OptionError, match="lacks the column _change_type"
    ):
        log.net("t", schema=walrow.schema(log, "t", metadata=()))


def test_columns_are_those_of_the_targets_rows(tmp_path: Path) -> None:
    base = change(START, insert(("1", "a")), insert(("2", "b")))
    renamed = [COLUMNS[0], Column("w", 25)]
    retyped = [COLUMNS[0], Column("v", 23)]
    for name, columns in (("renamed", renamed), ("retyped", retyped)):
        later = change(0x2000, insert(("3", "5")), columns=columns)
        log = published(tmp_path / name, [base, later])
        # Whether the cut is before the change or there.
        for start in (0, START):
            net = log.net("t", start=start)
            with pytest.raises(walrow.errors.ApplyError) as raised:
                list(net)
            assert (raised.value.code, raised.value.lsn) == ("incomplete", 0x1FF8)
        assert log.net("t", start=0x2000).rows == 0
    # The net names what came and went, also at the cut.
    for name, columns, row in (
        ("narrow", NARROW, ("3",)),
        ("wide", WIDER, ("3", "c", "d")),
    ):
        later = change(0x2000, insert(row), columns=columns)
        log = published(tmp_path / name, [base, later])
        net = log.net("t", start=START)
        assert net.partial == (("v",) if name == "narrow" else ("w",))
        assert net.rows == 1


def test_columns_that_a_caller_has_altered_are_as_they_are(tmp_path: Path) -> None:
    renamed = [COLUMNS[0], Column("w", 25)]
    log = published(
        tmp_path / "log",
        [
            change(START, insert(("1", "a"))),
            change(0x2000, insert(("2", "b")), columns=renamed),
        ],
    )
    net = log.net("t", start=START, allow=["column_renamed"])
    assert rows_of(net) == [("I", 2, "b")]
    # As somebody has accepted for everybody.
    marked(log, Mark(Why.RENAMED, "v was renamed", Lsn(START)))
    assert refused(lambda: log.net("t", start=START))[0] == "incomplete"
    log.accept(TABLE, reason="column_renamed")
    assert rows_of(log.net("t", start=START)) == [("I", 2, "b")]


def test_a_column_that_comes_back_lacks_the_values_from_before(tmp_path: Path) -> None:
    log = published(
        tmp_path / "log",
        [
            change(START, insert(("1", "a")), insert(("2", "b"))),
            change(0x2000, insert(("3",)), update(("1",)), columns=NARROW),
            change(0x3000, insert(("4", None))),
        ],
    )
    with pytest.raises(walrow.errors.ApplyError, match="dropped and added") as raised:
        list(log.net("t", start=START))
    error = raised.value
    assert (error.code, error.column, error.lsn) == ("incomplete", "v", 0x2FF8)
    assert rows_of(log.net("t", start=0x2000)) == [("I", 4, None)]


def test_chosen_columns(tmp_path: Path) -> None:
    wide = change(
        0x2000, update(("1", UNSENT, "w")), update(("2", "b", UNSENT)), columns=WIDER
    )
    log = published(tmp_path / "log", [change(START, insert(("1", "a"))), wide])
    for names in (["id", "w"], ["t.id", "public.t.w"]):
        net = log.net("t", start=START, columns=names)
        assert (net.columns, net.kept) == (["id", "w"], ("w",))
        assert pairs(rows_of(net)) == pairs([("U", 1, "w"), ("U", 2, ...)])
    with pytest.raises(walrow.errors.SchemaError, match="key is not among the columns"):
        log.net("t", columns=["w"])
    # A value that nobody wants may be one that was never sent.
    log = log_of(tmp_path / "second", insert(("2", UNSENT)))
    assert rows_of(log.net("t", start=START, columns=["id"])) == [("I", 2)]


# ------------------------------------------------------------------------ keys


def test_keys_are_compared_as_the_target_compares_them(tmp_path: Path) -> None:
    columns = [Column("k", 1700, is_key=True), Column("v", 25)]
    number = 10 << 16 | (2 + 4)
    exact = [Column("k", 1700, number, is_key=True), Column("v", 25)]
    for name, of, one in (("text", columns, 2), ("number", exact, 1)):
        log = published(
            tmp_path / name,
            [
                change(
                    START,
                    insert(("1.0", "a")),
                    update(("1.00", "b"), key=["1.0", None]),
                    columns=of,
                )
            ],
        )
        net = log.net("t")
        assert net.rows == one, name
        # With numbers as texts, the old text goes.
        assert log.net("t", profile="text").rows == 2


def test_keys_have_the_types_of_a_declared_schema(tmp_path: Path) -> None:
    exact = [Column("k", 1700, 10 << 16 | (2 + 4), is_key=True), Column("v", 25)]
    log = published(
        tmp_path / "log",
        [
            change(START, insert(("1.0", "a")), columns=exact),
            change(0x2000, update(("1.00", UNSENT), key=["1.0", None]), columns=exact),
        ],
    )
    texts = walrow.schema(log, "t", profile="text")
    for options in ({"schema": texts}, {"schema": texts, "profile": "text"}):
        rows = rows_of(log.net("t", start=START, **options))
        assert rows == [("head", "1.0"), ("U", "1.00", ...), ("D", "1.0")]
    numbers = walrow.schema(log, "t")
    assert log.net("t", start=START, schema=numbers).rows == 1


def test_other_keys(tmp_path: Path) -> None:
    full = [Column("id", 23, is_key=True), Column("v", 25, is_key=True)]
    changes = [
        insert(("1", "a")),
        streams.update(("2", "a"), key=["1", "a"]),
        insert(("3", "c")),
    ]
    log = published(tmp_path / "log", [change(START, *changes, columns=full)])
    assert log.net("t").keys == ("id", "v")
    net = log.net("t", keys=["v"])
    assert net.keys == ("v",)
    assert pairs(rows_of(net)) == pairs([("I", 2, "a"), ("I", 3, "c")])
    for keys, text in (
        (["nope"], "has a column nope"),
        ([], "no columns"),
    ):
        with pytest.raises(walrow.errors.SchemaError, match=text):
            log.net("t", keys=keys)
    with pytest.raises(walrow.errors.SchemaError, match="old images lack the key"):
        log_of(tmp_path / "second").net("t", keys=["v"])


def test_whole_old_images(tmp_path: Path) -> None:
    """Under REPLICA IDENTITY FULL, two rows may have one key until the end of a transaction."""
    full = [Column("id", 23, is_key=True), Column("v", 25, is_key=True)]
    late = [
        update(("2", "a"), key=("1", "a"), is_whole=True),
        delete(("2", "b"), is_whole=True),
        update(("4", UNSENT), key=("3", "c"), is_whole=True),
    ]
    begun = change(START, insert(("1", "a")), insert(("2", "b")), columns=full)
    log = published(tmp_path / "log", [begun, change(0x2000, *late, columns=full)])
    net = log.net("t", start=START, keys=["id"])
    # The old image has the value that the new one lacks.
    assert (net.heads, net.kept) == (0, ())
    assert pairs(rows_of(net)) == pairs(
        [("D", 1), ("I", 2, "a"), ("D", 3), ("I", 4, "c")]
    )


def test_keys_that_are_null_or_not_unique(tmp_path: Path) -> None:
    full = [Column("id", 23, is_key=True), Column("v", 25, is_key=True)]
    for name, changes in {
        "null_key": [insert(("1", None))],
        "duplicate_key": [insert(("1", "a")), insert(("2", "a"))],
    }.items():
        log = published(tmp_path / name, [change(START, *changes, columns=full)])
        with pytest.raises(walrow.errors.ApplyError, match="keys=") as raised:
            list(log.net("t", keys=["v"]))
        assert (raised.value.code, raised.value.table) == (name, "public.t")
        assert "'a'" not in str(raised.value)


def test_a_table_without_a_key(tmp_path: Path) -> None:
    log = published(
        tmp_path / "log",
        [
            change(
                START, insert(("1", "a")), columns=[Column("id", 23), Column("v", 25)]
            )
        ],
    )
    with pytest.raises(walrow.errors.SchemaError, match="no replica identity"):
        log.net("t")


# -------------------------------------------------------------------- refusals


def refused(call: Callable[[], object]) -> tuple[str | None, str]:
    """The code of an error before the first row, and its text."""
    with pytest.raises(walrow.errors.ApplyError) as raised:
        call()
    assert raised.value.table in (None, "public.t")
    return raised.value.code, str(raised.value)


def marked(log: walrow.Log, *marks: Mark) -> None:
    """Writes a receiver's record with marks."""
    write_published(
        log.path, Published({}, log.end, None, {TABLE: list(marks)}, {}, {})
    )


def test_open_marks_are_refused_by_name(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", insert(("2", "b")), insert(("3", "c")))
    marked(
        log,
        Mark(Why.RETYPED, "column v has another type", Lsn(0x2800)),
        Mark(Why.FILTER, "it got a row filter", Lsn(0x2800)),
        Mark(Why.RENAMED, "it was renamed", Lsn(0x1800), Lsn(0x2000)),
    )
    assert log.net("t", start=START, end=0x27FF).rows == 1
    code, text = refused(lambda: log.net("t", start=START))
    assert code == "incomplete"
    assert "column v has another type: walrow load " in text
    assert text.endswith('allow=["column_type"]')
    code, text = refused(lambda: log.net("t", start=START, allow=["column_type"]))
    assert text.endswith('allow=["column_type", "row_filter"]')
    net = log.net("t", start=START, allow=["column_type", "row_filter"])
    assert net.rows == 2
    # Between a change and the load after it, it is not known either.
    assert refused(lambda: log.net("t", end=0x1FFF))[0] == "incomplete"


def test_a_truncate_ends_no_mark_for_a_target_that_ignores_it(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", insert(("2", "b")), truncate(TABLE))
    marked(log, Mark(Why.REWRITTEN, "it was rewritten", Lsn(0x1800), Lsn(0x3000)))
    assert rows_of(log.net("t", start=START)) == [("T", None)]
    code, _ = refused(lambda: log.net("t", start=START, truncates="ignore"))
    assert code == "incomplete"
    assert log.net("t", start=0x3000, truncates="ignore").rows == 0


def test_rows_from_before_the_log_are_those_of_the_target(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", update(("7", UNSENT)))
    marked(log, Mark(Why.HAD_ROWS, "it had rows", Lsn(0x800)))
    assert refused(lambda: log.net("t"))[0] == "incomplete"
    assert rows_of(log.net("t", start=START)) == [("U", 7, ...)]


def test_erased_changes_are_refused(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log", insert(("2", "b")), delete(key(1)), insert(("4", "d"))
    )
    assert log.erase("t", keys=[{"id": "1"}]).changes
    code, text = refused(lambda: log.net("t", start=START))
    assert code == "erased"
    assert "delete the erased rows in the target, too" in text
    assert text.endswith('allow=["erased"]')
    found = rows_of(log.net("t", start=START, allow=["erased"]))
    assert pairs(found) == pairs([("I", 2, "b"), ("I", 4, "d")])
    # An empty target, and one that has the delete.
    assert log.net("t").rows == 2
    assert rows_of(log.net("t", start=0x3000)) == [("I", 4, "d")]


def test_a_truncate_makes_erased_changes_harmless(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", delete(key(1)), truncate(TABLE))
    assert log.erase("t", keys=[{"id": "1"}]).changes
    assert rows_of(log.net("t", start=START)) == [("T", None)]
    assert refused(lambda: log.net("t", start=START, truncates="ignore"))[0] == "erased"


def test_what_is_erased_while_it_is_read_is_refused(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", insert(("2", "b")))
    net = log.net("t")
    walrow.Log(log.path).erase("t", keys=[{"id": "2"}])
    for _ in range(2):
        assert refused(lambda: next(net))[0] == "conflict"
        assert refused(lambda: net.rows)[0] == "conflict"


def test_a_log_that_begins_after_the_target(tmp_path: Path) -> None:
    with Publisher(tmp_path / "log") as publisher:
        publisher.writer.set_slot_start(0x800)
        publisher.publish(change(START, insert(("1", "a"))))
        publisher.publish(change(0x2000, truncate(TABLE)))
    log = walrow.Log(tmp_path / "log")
    code, text = refused(lambda: log.net("t", start=0x7FF, end=START))
    assert code == "not_received"
    assert text.endswith('allow=["not_received"]')
    allowed = log.net("t", start=0x7FF, end=START, allow=["not_received"])
    assert allowed.rows == 1
    assert log.net("t", start=0x800).rows == log.net("t", start=0x7FF).rows == 0


def test_a_name_of_two_tables(tmp_path: Path) -> None:
    second = change(0x3000, insert(("3", "x"), OTHER), oid=OTHER)
    more = change(0x4000, insert(("4", "x"), OTHER), oid=OTHER)
    for segment in (1, 1 << 20):
        source = streams.SESSION + b"".join(
            [
                transaction(0x1000, ("1", "x")),
                transaction(0x2000, ("2", "x")),
                second,
                more,
            ]
        )
        log = sealed(tmp_path / str(segment), source, segment_size=segment)
        for name in ("t", "public.t", ("public", "t")):
            code, text = refused(partial(log.net, name, start=0x2000))
            assert code == "other_table"
            assert f"OID {TABLE} at 0/2000" in text
        # The earlier table, the later one, and the later one for an empty target.
        assert rows_of(log.net("t", start=0x1000, end=0x2000)) == [("I", 2, "x")]
        assert rows_of(log.net("t", start=0x3000)) == [("I", 4, "x")]
        assert {row[1] for row in rows_of(log.net("t"))} == {3, 4}
        assert {row[1] for row in rows_of(log.net(TABLE))} == {1, 2}
        allowed = log.net("t", start=0x2000, allow=["other_table"])
        assert (allowed.oid, allowed.rows) == (OTHER, 2)
        assert log.net(OTHER, start=0x2000).rows == 2


def test_a_name_that_a_table_has_again_is_its_name(tmp_path: Path) -> None:
    def a(lsn: int, row: int, name: str) -> bytes:
        return change(lsn, insert((str(row), "a")), name=name)

    def b(lsn: int, row: int, name: str) -> bytes:
        return change(lsn, insert((str(row), "b"), OTHER), oid=OTHER, name=name)

    stream = [
        *(a(0x1000, 1, "t"), b(0x2000, 7, "u")),
        *(a(0x3000, 2, "u"), b(0x4000, 8, "t")),
        *(a(0x5000, 3, "t"), b(0x6000, 9, "u")),
    ]
    for segment in (1, 1 << 20):
        source = streams.SESSION + b"".join(stream)
        log = sealed(tmp_path / str(segment), source, segment_size=segment)
        names = {table.oid: table.name for table in log.tables()}
        assert names == {TABLE: "public.t", OTHER: "public.u"}
        assert (log.net("t").oid, log.net("u").oid) == (TABLE, OTHER)
        assert log.net("t", start=0x5000).oid == TABLE
        assert log.net("t", start=0x4000, end=0x4000).oid == OTHER
        assert {row["id"] for row in log.state("t").to_pyarrow().to_pylist()} == {
            1,
            2,
            3,
        }
        found = {table.oid: table.name for table in walrow.tables(log)}
        assert found == names


def test_a_replica_identity_that_a_table_has_again(tmp_path: Path) -> None:
    log = published(
        tmp_path / "log",
        [
            transaction(0x1000, ("1", "a")),
            change(0x2000, insert(("2", "b")), identity="n"),
            transaction(0x3000, ("3", "c")),
        ],
    )
    [table] = log.tables()
    assert table.versions[-1].replica_identity == "default"
    assert log.net("t").keys == ("id",)


def test_a_renamed_table_is_the_same_one(tmp_path: Path) -> None:
    first = change(START, insert(("1", "x")), name="before")
    log = published(tmp_path / "log", [first, transaction(0x2000, ("2", "x"))])
    assert rows_of(log.net("t", start=START)) == [("I", 2, "x")]
    assert log.net("before", end=START).rows == 1


def test_names_of_no_table_or_two_are_errors(tmp_path: Path) -> None:
    other = change(0x2000, insert(("2", "x"), OTHER), oid=OTHER, schema="other")
    log = published(tmp_path / "log", [*transactions(1), other])
    for name in ("none", 7, ("none", "t")):
        with pytest.raises(walrow.errors.SchemaError, match="no table"):
            log.net(name)
    with pytest.raises(walrow.errors.SchemaError, match="name one with its schema"):
        log.net("t")
    assert log.net(("other", "t")).rows == 1


def test_removed_changes(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(4, 1))
    assert log.prune(0x2000) == 2
    log = walrow.Log(log.path)
    for start in (0, 0x1000):
        with pytest.raises(walrow.errors.LogError, match="walrow load") as raised:
            _ = log.net("t", start=start).rows
        assert raised.value.code == "pruned"
    assert log.net("t", start=0x2000).rows == 2


def test_a_target_that_is_ahead_of_the_log(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log")
    assert refused(lambda: log.net("t", start=log.end + 1))[0] == "older_log"


def test_values_that_were_never_sent(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", insert(("2", UNSENT)), insert(("3", "c")))
    with pytest.raises(walrow.errors.ApplyError, match="ever sent") as raised:
        list(log.net("t", start=START))
    error = raised.value
    assert (error.code, error.table, error.column) == ("never_sent", "public.t", "v")
    net = log.net("t", start=START, never_sent="null")
    assert (net.never_sent, net.lacking, net.kept) == (1, ("v",), ())
    assert pairs(rows_of(net)) == pairs([("I", 2, ...), ("I", 3, "c")])


def test_an_older_version_without_the_column_hides_no_value(tmp_path: Path) -> None:
    log = published(
        tmp_path / "log",
        [
            transaction(0x1000, ("1", "a")),
            change(0x2000, insert(("3", "c", "x")), columns=WIDER),
            change(0x3000, insert(("4", "d", UNSENT)), columns=WIDER),
        ],
    )
    with pytest.raises(walrow.errors.ApplyError) as raised:
        list(log.net("t", start=0x2000))
    assert (raised.value.code, raised.value.column) == ("never_sent", "w")
    net = log.net("t", start=0x1000, never_sent="null")
    assert (net.never_sent, net.lacking) == (1, ("w",))


# ---------------------------------------------------------------- as an object


def test_other_libraries_take_it(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(2, 2))
    names = ["id", "v", "_change_type", "_seq", "_key_only", "_unsent"]
    assert pa.table(log.net("t")).column_names == names
    assert pa.schema(log.net("t")).names == names
    assert log.net("t").to_pyarrow().num_rows == 4
    assert [*log.net("t").to_pandas().columns] == names
    assert log.net("t").to_polars().height == 4
    assert log.net("t").to_duckdb().columns == names
    with pytest.raises(TypeError):
        log.net("t").__array__()
    prefixed = log.net("t", metadata_prefix="w_")
    assert prefixed.columns == ["id", "v"]
    assert prefixed.schema.names[2:] == [
        "w_change_type",
        "w_seq",
        "w_key_only",
        "w_unsent",
    ]


def test_closing(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(3, 5))
    with log.net("t", batch_rows=2) as net:
        assert next(net).num_rows == 2
        assert (net.nulled, net.dropped_lower_bounds, net.unresolved_types) == (
            {},
            {},
            [],
        )
    with pytest.raises(ValueError, match="closed"):
        next(net)
    # The tally stays.
    assert net.rows == 15


def test_it_shows_itself(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(1, 2))
    net = log.net("t")
    assert repr(net) == "<walrow._log.net.Net of public.t, 0/0 to 0/1000: not read>"
    assert net.bytes_read == 0
    assert net.events == 2
    assert (
        repr(net)
        == "<walrow._log.net.Net of public.t, 0/0 to 0/1000: 2 changes, 2 rows>"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"start": 0x1000, "end": 0xFFF}, "end is 0/FFF, before start, 0/1000"),
        ({"deletes": "none"}, "deletes='none' is not one of 'apply', 'soft', 'ignore'"),
        ({"truncates": "error"}, "truncates='error' is not one of 'apply', 'ignore'"),
        ({"never_sent": None}, "never_sent=None is not one of"),
        ({"allow": "erased"}, "allow is a list"),
        ({"allow": ["incomplete"]}, "allow has 'incomplete'; it takes erased"),
        ({"keys": 5}, "keys must be a name or a sequence of names, not int"),
        ({"keys": b""}, "keys must be a name or a sequence of names, not bytes"),
        ({"keys": {"id": 1}}, "keys must be a name or a sequence of names, not dict"),
        ({"keys": [["id"]]}, "keys must be a name or a sequence of names, not list"),
        ({"allow": 5}, "allow is a list of names, such as .*, not 5"),
        (
            {"allow": b""},
            "allow is a list of names, such as .*, not a value of type bytes",
        ),
        (
            {"allow": {}},
            "allow is a list of names, such as .*, not a value of type dict",
        ),
        ({"allow": ["x" * 999]}, r"allow has 'x{50,60}\.\.\.; it takes erased"),
    ],
)
def test_wrong_options(options: dict[str, Any], text: str, tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(1))
    with pytest.raises(walrow.errors.OptionError, match=text):
        log.net("t", **options)


def test_rows_beyond_memory_wait_in_a_file(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(20, 100))
    expected = pa.table(log.net("t"))
    assert expected.num_rows == 2000
    spool = tmp_path / "spool"
    spool.mkdir()
    for memory in (0, 1000):
        small = log.net("t", spool_memory=memory, spool_directory=spool)
        assert pa.table(small).equals(expected)
    gone = log.net("t", spool_memory=0, spool_directory=tmp_path / "none")
    with pytest.raises(walrow.errors.SpoolError):
        list(gone)


def test_damage_is_an_error_each_time(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(3, 500))
    file = log.segments()[1].path
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(data)
    net = log.net("t")
    for _ in range(2):
        with pytest.raises(walrow.errors.LogError) as raised:
            _ = net.rows
        assert (raised.value.code, raised.value.file) == ("damaged", file.name)
    with pytest.raises(walrow.errors.LogError):
        list(net)


def test_a_log_elsewhere_has_the_same_net(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    log = published(tmp_path / "log", transactions(3))
    files = fsspec.filesystem("memory")
    files.put(str(log.path), "/net/log", recursive=True)
    remote = walrow.Log("memory://net/log/")
    assert pa.table(remote.net("t")).equals(pa.table(log.net("t")))


def test_the_end_may_be_a_time(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", insert(("2", "b")))
    # All transactions have this time.
    time = log.segments()[0].commit_times
    assert time is not None
    assert time[0] == time[1]
    net = log.net("t", start=START, end=time[0])
    assert (rows_of(net), net.end) == ([("I", 2, "b")], log.end)
    before = time[0] - dt.timedelta(microseconds=1)
    for end in before, before.isoformat(), "-9999w":
        with pytest.raises(walrow.errors.OptionError, match="before start"):
            log.net("t", start=START, end=end)


def test_a_checkpoint_is_compared(tmp_path: Path) -> None:
    """The next call of a target refuses another log, another table and another key."""
    changes = transactions(4, 1)
    source = {"system_identifier": "7", "database": "shop", "slot": "s"}
    log = published(tmp_path / "log", changes, **source)
    first = log.net("t", end=0x2000)
    then = log.net("t", start=first.checkpoint)
    assert (then.start, then.end, then.rows) == (first.end, log.end, 2)
    assert log.net("t", start=then.checkpoint).rows == 0
    other = published(tmp_path / "other", changes, **(source | {"slot": "other"}))
    assert refused(lambda: other.net("t", start=first.checkpoint))[0] == "other_source"

    def changed(**values: Any) -> str:
        return json.dumps(json.loads(first.checkpoint) | values)

    for start, code in (
        (changed(oid=1), "other_table"),
        (changed(keys=["v"]), "other_keys"),
    ):
        assert refused(partial(log.net, "t", start=start))[0] == code
    for damaged in ("{", changed(oid="x"), changed(source=None), changed(end="x")):
        with pytest.raises(walrow.errors.OptionError, match="not a checkpoint"):
            log.net("t", start=damaged)


def test_a_target_that_has_all_removed_changes(tmp_path: Path) -> None:
    other = change(0x2000, insert(("2", "x"), OTHER), oid=OTHER, schema="other")
    log = published(tmp_path / "log", [transaction(0x1000, ("1", "a")), other])
    before = log.net("t", end=0x1000)
    assert (before.rows, log.prune(0x1000)) == (1, 1)
    # The receiver's look knows the table.
    oid = before.oid
    pictures = {oid: {"name": "public.t", "primary_key": ["id"]}}
    write_published(log.path, Published(pictures, log.end))
    log = walrow.Log(log.path)
    for start in (before.checkpoint, 0x1000):
        net = log.net("public.t", start=start)
        assert (list(net), net.rows, net.keys, net.end) == ([], 0, ("id",), log.end)
        assert (net.columns, net.versions) == ([], ())
    assert log.net(oid, start=0x1000, keys=["v"]).keys == ("v",)
    for lacking in (0, 0xF00):
        with pytest.raises(walrow.errors.LogError, match="walrow load") as raised:
            log.net("public.t", start=lacking)
        assert raised.value.code == "pruned"
