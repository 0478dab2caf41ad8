"""What executors compute for `apply_changes`, without Spark: rows before, and changes, give rows after.

A seed determines random transactions on a live server. `WALROW_SEED=NUMBER` sets another one.
"""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

import itertools
import os
import random
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streams
import walrow
from servers import EmbeddedServer
from servers.churn import KEYS, TABLES, Churn
from servers.live_log import History, history
from walrow._apply.items import Deletes, Op
from walrow._apply.net_table import (
    DATA,
    GONE,
    HEAD,
    OP,
    UNSENT,
    NetTable,
    Tally,
)
from walrow._apply.options import ApplyOptions
from walrow._apply.tables import AppliedTable
from walrow._apply.units import plan, stretches
from walrow._core import LogWriter
from walrow.spark.apply_failures import from_executor, report
from walrow.spark.net_rows import (
    entangled,
    join,
    partition_labels,
    split,
    whole,
)

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

SEEDS = [1, 2, 3, int(os.environ.get("WALROW_SEED") or 4)]
MARK = "_deleted"
Rows = dict[tuple[Any, ...], dict[str, Any]]


def rules(deletes: Deletes) -> ApplyOptions:
    return ApplyOptions(
        table="t", target="delta:/t", deletes=deletes, deleted_column=MARK
    )


def net_of(table: NetTable, partitions: int, choices: random.Random) -> list[Any]:
    """The rows of one task, or of several, between which Spark shuffles."""
    units = [pa.record_batch({"id": [it]}) for it in range(len(table.units))]
    if partitions == 1:
        return list(whole(table, iter(units[:1])))
    parts = [
        row
        for unit in units
        for batch in split(table, partitions, iter([unit]))
        for row in (batch.slice(at, 1) for at in range(batch.num_rows))
    ]
    choices.shuffle(parts)
    labels = {row["label"][0].as_py() for row in parts}
    assert labels <= set(partition_labels(partitions))
    found: list[Any] = []
    for label in labels:
        rows = [row for row in parts if row["label"][0].as_py() == label]
        found += join(table, iter(rows))
    later = [
        row[DATA]
        for batch in found
        for row in batch.select([OP, DATA]).to_pylist()
        if row[OP] == Op.ENTANGLED
    ]
    choices.shuffle(later)
    return found + list(entangled(table, iter([pa.record_batch({"data": later})])))


def after(
    log: walrow.Log,
    name: str,
    before: Rows,
    start: Any,
    end: Any,
    *,
    chosen: list[str],
    deletes: Deletes = "apply",
) -> Rows:
    """The rows of a table after the changes between two LSNs, as the executors fold them.

    Rows that deletes only mark have a value for `MARK`.
    """
    found = next(it for it in log.tables() if it.name == f"public.{name}")
    options: dict[str, Any] = {"types": {"timestamptz": "string", "float8": "string"}}
    applied = AppliedTable.of(log, found, chosen, options)
    batch = plan(
        log,
        stretches(log),
        found,
        start,
        end,
        truncates="apply",
        unit_size=5000,
        least_units=3,
    )
    rows = {} if batch.barrier is not None else dict(before)
    if not batch.units:
        return rows
    table = applied.net_table(batch, rules(deletes))
    choices = random.Random(int(end))  # noqa: S311
    net = [
        row
        for each in net_of(table, choices.choice([1, 2, 5]), choices)
        for row in each.to_pylist()
    ]
    tally = Tally()
    for row in net:
        if row[OP] == Op.TALLY:
            tally = tally.plus(Tally.from_json(row[DATA]))
    net = [row for row in net if row[OP] >= Op.INSERT]
    assert tally.rows == len(net)
    assert tally.heads == sum(row[HEAD] is not None for row in net)
    heads = dict(rows)
    seen = set()
    for row in net:
        key = tuple(row[it] for it in chosen)
        assert key not in seen, "two net changes of one key"
        seen.add(key)
        if row[OP] == Op.DELETE:
            if deletes != "ignore":
                rows.pop(key, None)
            continue
        head = key if row[HEAD] is None else tuple(row[HEAD].values())
        if row[OP] == Op.UPDATE and row[GONE] and head not in heads:
            # What only marks a row is not inserted.
            continue
        old = {} if row[OP] == Op.INSERT else heads[head]
        rows[key] = {
            it: old.get(it) if it in (row[UNSENT] or ()) else row[it]
            for it in applied.columns
        }
        if row[GONE]:
            rows[key][MARK] = True
    return rows


def other_identities(source: History, churn: Churn) -> None:
    """Old images get more or fewer columns. For a while, two rows of `pair` have one id."""
    for name in ("key", "pair", "chosen"):
        identity = churn.random.choice(["FULL", TABLES[name][1]])
        source.sql(f"ALTER TABLE {name} REPLICA IDENTITY {identity}")
    pair = churn.some("pair", 1)
    row = source.conn.execute(f"SELECT id, k FROM pair WHERE {pair}".encode())
    if (found := row.fetchone()) is None:
        return
    old, new = (f"id = {found[0]} AND k {it} {found[1]}" for it in ("=", ">"))
    others = "id, t, a, b, f, big, big2"
    removed = churn.random.choice([old, new])
    source.transaction(
        f"INSERT INTO pair (k, {others}) SELECT k + 100, {others} FROM pair WHERE {old}",
        f"UPDATE pair SET a = a + 1 WHERE {old}",
        f"UPDATE pair SET b = 'new' WHERE {new}",
        f"DELETE FROM pair WHERE {removed}",
        f"UPDATE pair SET f = 7 WHERE id = {found[0]}",
    )
    if churn.random.random() < 0.5:
        source.sql(f"UPDATE pair SET id = -id WHERE id = {found[0]}")


@pytest.mark.parametrize("deletes", ["apply", "soft"])
@pytest.mark.parametrize(
    "seed",
    [pytest.param(s, marks=[] if s < 3 else pytest.mark.slow) for s in SEEDS],
)
def test_changes_give_the_rows_of_the_server(
    server: EmbeddedServer, tmp_path: Path, seed: int, deletes: Deletes
) -> None:
    with history(server, tmp_path / "log") as source:
        churn = Churn(source, seed)
        choices = random.Random(seed)  # noqa: S311
        source.load(*TABLES)
        points: list[tuple[Any, dict[str, Any]]] = []
        columns: dict[str, list[str]] = {}
        for step in range(12):
            churn.run(choices.randint(1, 8))
            if step > 1:
                other_identities(source, churn)
                churn.run(choices.randint(1, 6))
            if step == 6:
                source.load("key", "late")
            source.take(binary=choices.random() < 0.5)
            for name in TABLES:
                cursor = source.conn.execute(f"SELECT * FROM {name} LIMIT 0".encode())
                columns[name] = [it.name for it in cursor.description or ()]
            expected = {name: source.texts(name, columns[name]) for name in TABLES}
            points.append((source.lsn(), expected))
            log = walrow.Log(source.path)
        for name, keys in [*KEYS.items(), ("pair", ["id"])]:
            rows: Rows = {}
            start = walrow.Lsn(0)
            compared = 0
            for end, tables in points:
                rows = after(log, name, rows, start, end, chosen=keys, deletes=deletes)
                found = {
                    tuple(
                        None if row.get(it) is None else str(row[it])
                        for it in columns[name]
                    )
                    for row in rows.values()
                    if MARK not in row
                }
                width = len(next(iter(tables[name]), ()))
                expected_rows = {
                    (*row, *[None] * (len(columns[name]) - width))
                    for row in tables[name]
                }
                assert len(tables[name]) == sum(tables[name].values())
                assert found == expected_rows, (name, keys, end)
                compared += len(found)
                start = end
            assert compared > 20, name


@pytest.mark.parametrize("deletes", ["apply", "soft"])
@pytest.mark.parametrize("identity", ["FULL", "DEFAULT"])
def test_old_images_with_some_columns(
    server: EmbeddedServer, tmp_path: Path, identity: str, deletes: Deletes
) -> None:
    """One version has whole images, and the others those of the key; or of more than the key."""
    other = {"FULL": "DEFAULT", "DEFAULT": "FULL"}[identity]
    with history(server, tmp_path / "log") as source:
        for name, key in {"one": "id", "more": "tenant, id"}.items():
            source.sql(
                f"CREATE TABLE {name} (tenant int, id int, v text, PRIMARY KEY ({key}))",
                f"ALTER TABLE {name} REPLICA IDENTITY {other}",
                f"INSERT INTO {name} VALUES (1, 5, 'five'), (1, 6, 'six'), (1, 8, 'eight')",
                f"ALTER TABLE {name} REPLICA IDENTITY {identity}",
            )
        points = [source.take().lsn()]
        for name in ("one", "more"):
            source.transaction(
                f"INSERT INTO {name} VALUES (1, 7, 'zombie')",
                f"DELETE FROM {name} WHERE id = 7",
            )
            source.sql(
                f"INSERT INTO {name} VALUES (1, 1, 'moved')",
                f"UPDATE {name} SET tenant = 2 WHERE id = 1",
                f"UPDATE {name} SET id = 3 WHERE id = 1",
            )
        # The row before has the same key for a while.
        source.transaction(
            "INSERT INTO more VALUES (2, 5, 'zombie')",
            "UPDATE more SET v = 'FIVE' WHERE tenant = 1 AND id = 5",
            "DELETE FROM more WHERE tenant = 2 AND id = 5",
            "INSERT INTO more VALUES (2, 6, 'SIX')",
            "DELETE FROM more WHERE tenant = 1 AND id = 6",
        )
        source.transaction(
            "INSERT INTO more VALUES (3, 8, 'zombie')",
            "DELETE FROM more WHERE tenant = 3 AND id = 8",
        )
        points.append(source.take().lsn())
        log = walrow.Log(source.path)
        for name in ("one", "more"):
            rows: Rows = {}
            for start, end in zip([walrow.Lsn(0), *points], points, strict=False):
                rows = after(
                    log, name, rows, start, end, chosen=["id"], deletes=deletes
                )
            found = {tuple(row.values()) for row in rows.values() if MARK not in row}
            assert found == set(source.rows(name)), name


@pytest.mark.parametrize("identity", ["FULL", "DEFAULT"])
def test_a_key_has_other_rows_where_deletes_do_nothing(
    server: EmbeddedServer, tmp_path: Path, identity: str
) -> None:
    with history(server, tmp_path / "log") as source:
        source.sql(
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            f"ALTER TABLE t REPLICA IDENTITY {identity}",
            "INSERT INTO t VALUES (1, 'a'), (3, 'c')",
        )
        first = source.take().lsn()
        source.sql(
            "UPDATE t SET id = 2 WHERE id = 1",
            "DELETE FROM t WHERE id = 2",
            "UPDATE t SET id = 2 WHERE id = 3",
            "UPDATE t SET id = 4 WHERE id = 2",
            "INSERT INTO t VALUES (2, 'b')",
            "DELETE FROM t WHERE id = 2",
        )
        last = source.take().lsn()
        log = walrow.Log(source.path)
        rows = after(
            log, "t", {}, walrow.Lsn(0), first, chosen=["id"], deletes="ignore"
        )
        rows = after(log, "t", rows, first, last, chosen=["id"], deletes="ignore")
    found = {tuple(row.values()) for row in rows.values()}
    assert found == {(1, "a"), (2, "b"), (3, "c"), (4, "c")}


# ------------------------------------------------------------------- by hand

Event = tuple[str, int, str]


def folded(
    path: Path,
    *transactions: list[Event],
    size: int = 100,
    deletes: Deletes = "apply",
    is_full: bool = False,
) -> list[Any]:
    """The net changes of transactions: op, key, value, unsent columns, and whether it is gone.

    `size` is the number of transactions in a unit. An empty value stands for one that was not sent,
    as a row filter can do to inserts.
    """
    writer = LogWriter(
        path, segment_bytes=1, level=1, spool_memory=1 << 20, framing="message"
    )
    columns = [
        streams.Column(name, oid, is_key=is_full or name == "id")
        for name, oid in (("id", 23), ("v", 25))
    ]
    ends = [0]
    for number, events in enumerate(transactions, 1):
        ends.append(0x1000 * number + 8)
        writer.append(streams.begin(lsn=0x1000 * number))
        writer.append(streams.relation(columns, identity="f" if is_full else "d"))
        for kind, key, value in events:
            row = [str(key), value or streams.UNSENT]
            writer.append(
                streams.insert(row)
                if kind == IN
                else streams.update(row, key=[str(key), OLD[key]], is_whole=True)
                if kind == UP and is_full
                else streams.update(row)
                if kind == UP
                else streams.delete([str(key), value or None], is_whole=is_full)
            )
        writer.append(streams.commit(lsn=0x1000 * number))
        writer.publish()
    writer.close()
    log = walrow.Log(path)
    (found,) = log.tables()
    applied = AppliedTable.of(log, found, ["id"], {})
    batch = plan(
        log,
        stretches(log),
        found,
        walrow.Lsn(0),
        log.end,
        truncates="apply",
        unit_size=1,
        least_units=1,
    )
    cuts = [*ends[:-1:size], ends[-1]]
    batch = batch._replace(units=list(itertools.pairwise(cuts)))
    table = applied.net_table(batch, rules(deletes))
    partitions = 1 if len(batch.units) == 1 else 2
    return sorted(
        (row[OP], row["id"], row["v"], row[UNSENT], bool(row[GONE]))
        for each in net_of(table, partitions, random.Random(1))  # noqa: S311
        for row in each.to_pylist()
        if row[OP] >= Op.INSERT
    )


IN, UP, OUT = "insert", "update", "delete"
OLD: dict[int, str] = {}


@pytest.mark.parametrize("size", [1, 2, 100])
def test_values_do_not_outlive_a_delete(tmp_path: Path, size: int) -> None:
    for number, (events, expected) in enumerate(
        {
            ((IN, 1, "a"), (OUT, 1, ""), (IN, 1, "")): (Op.INSERT, 1, None, ["v"]),
            ((UP, 1, "a"), (IN, 1, "")): (Op.INSERT, 1, None, ["v"]),
            ((IN, 1, "a"), (UP, 1, "")): (Op.INSERT, 1, "a", None),
            ((UP, 1, "a"), (UP, 1, "")): (Op.UPDATE, 1, "a", None),
            ((UP, 1, ""), (UP, 1, "")): (Op.UPDATE, 1, None, ["v"]),
            ((UP, 1, ""), (OUT, 1, "")): (Op.DELETE, 1, None, None),
        }.items()
    ):
        one_by_one = [[event] for event in events]
        found = folded(tmp_path / f"{number}", *one_by_one, size=size)
        assert [row[:4] for row in found] == [expected]


def test_a_key_with_very_many_changes_is_folded_in_between(tmp_path: Path) -> None:
    events = [(IN, 1, "a"), *[(UP, 1, "")] * 40, (UP, 2, "x"), *[(UP, 2, "")] * 40]
    found = folded(tmp_path / "log", *[[event] for event in events], size=2)
    assert [row[:4] for row in found] == [
        (Op.INSERT, 1, "a", None),
        (Op.UPDATE, 2, "x", None),
    ]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_deletes_that_mark_keep_values(tmp_path: Path, size: int) -> None:
    events = [
        (UP, 1, "a"),
        (OUT, 1, ""),
        (IN, 2, "b"),
        (OUT, 2, ""),
        (OUT, 3, ""),
        (IN, 3, "c"),
        (UP, 4, ""),
        (OUT, 4, ""),
    ]
    found = folded(
        tmp_path / "log", *[[event] for event in events], size=size, deletes="soft"
    )
    rows = {row[1]: row[2:] for row in found}
    assert rows == {
        1: ("a", None, True),
        2: ("b", None, True),
        3: ("c", None, False),
        4: (None, ["v"], True),
    }


@pytest.mark.parametrize("size", [1, 2])
def test_a_row_may_come_before_the_one_that_it_replaces(
    tmp_path: Path, size: int
) -> None:
    brief = [(IN, 1, "new"), (OUT, 1, "old")]
    found = folded(tmp_path / "key", brief, [(UP, 2, "x")], size=size)
    assert [row[:3] for row in found] == [(Op.UPDATE, 2, "x"), (Op.DELETE, 1, None)]
    # Whole images say which of both rows goes.
    OLD[2] = "y"
    found = folded(tmp_path / "full", brief, [(UP, 2, "x")], size=size, is_full=True)
    assert [row[:3] for row in found] == [(Op.INSERT, 1, "new"), (Op.UPDATE, 2, "x")]


@pytest.mark.parametrize("notes", [[], ["in another file"]])
def test_errors_of_executors_are_whole_in_the_driver(notes: list[str]) -> None:
    remedies = (
        walrow.errors.Remedy("types", "total", "string"),
        walrow.errors.Remedy("columns", value=("id", 'a "b"\n')),
    )
    error = walrow.errors.UnrepresentableError(
        "public.t: a value\nof two lines",
        lsn=walrow.Lsn("1/2"),
        table="public.t",
        place="at 1/2",
        remedies=remedies,
    )
    for note in notes:
        error.add_note(note)
    text = "".join(traceback.format_exception(error))
    report(error)
    found = from_executor(RuntimeError("".join(traceback.format_exception(error))))
    assert type(found) is walrow.errors.UnrepresentableError
    assert found.__dict__ | {"__notes__": notes} == error.__dict__ | {
        "__notes__": notes
    }
    assert (found.remedies, str(found.lsn)) == (remedies, "1/2")
    # Outside of the functions for executors, as when they are unpickled.
    plain = from_executor(RuntimeError(text.replace("\nof two lines", "")))
    assert type(plain) is walrow.errors.UnrepresentableError
    assert from_executor(RuntimeError("walrow.errors.Remedy: text")) is None
    assert from_executor(RuntimeError("something else")) is None
    assert from_executor(RuntimeError('a value\nfor the driver: {"kind": 1}')) is None
