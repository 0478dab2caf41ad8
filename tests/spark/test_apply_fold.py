"""What executors compute for `apply_changes`, without Spark: rows before, and changes, give rows after.

A seed determines random transactions on a live server. `WALROW_SEED=NUMBER` sets another one.
"""

# ruff: noqa: S608  (statements are put together here, from parts of its own)

from __future__ import annotations

import os
import random
import traceback
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")
pytest.importorskip("psycopg")

import walrow  # noqa: E402
from servers.churn import KEYS, TABLES, Churn  # noqa: E402
from servers.live_log import history  # noqa: E402
from walrow.spark.apply_failures import from_executor, report  # noqa: E402
from walrow.spark.apply_tables import find_table, keys_of  # noqa: E402
from walrow.spark.apply_units import plan, stretches  # noqa: E402
from walrow.spark.change_rows import (  # noqa: E402
    EVENT_COLUMNS,
    METADATA,
    PREFIX,
    Events,
    Kind,
)
from walrow.spark.folding import RAW, Fold  # noqa: E402
from walrow.spark.key_changes import (  # noqa: E402
    COMPONENT,
    KeyChanges,
    components,
    identity_of,
)
from walrow.spark.key_hashes import partition_labels  # noqa: E402
from walrow.spark.packing import FoldHere, Pack, Tally, Unpack  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import EmbeddedServer
    from servers.live_log import History
    from walrow.spark.apply_items import Deletes
    from walrow.spark.apply_units import Batch

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

SEEDS = [1, 2, 3, int(os.environ.get("WALROW_SEED") or 4)]
KIND, LSN, SEQ, UNSENT, FROM = EVENT_COLUMNS
GONE = "_deleted"
Rows = dict[tuple[Any, ...], dict[str, Any]]


def numbers(batch: Batch) -> Iterator[Any]:
    """The numbers of all units, as Spark gives them to a task."""
    return iter(
        [pa.record_batch({"id": pa.array(range(len(batch.units)), pa.int64())})]
    )


def net_of(events: Events, fold: Fold, choices: random.Random) -> list[Any]:
    """What one task folds, or several, between which Spark shuffles."""
    partitions = choices.choice([1, 2, 5])
    units = [pa.record_batch({"id": [it]}) for it in range(len(events.units))]
    if partitions == 1:
        return list(FoldHere(events, fold, ())(iter(units)))
    packed = [
        row
        for unit in units
        for batch in Pack(events, fold, partitions)(iter([unit]))
        for row in (batch.slice(at, 1) for at in range(batch.num_rows))
    ]
    choices.shuffle(packed)
    labels = {row["label"][0].as_py() for row in packed}
    assert labels <= set(partition_labels(partitions).tolist())
    found: list[Any] = []
    for label in labels:
        rows = [row for row in packed if row["label"][0].as_py() == label]
        found += Unpack(fold, ())(iter(rows))
    return found


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

    Rows that deletes only mark have a value for `GONE`.
    """
    table = find_table(log.tables(), f"public.{name}")
    keys = keys_of(log, table, chosen)
    is_soft = deletes == "soft"
    identities = [{it.name for it in each.columns if it.key} for each in table.versions]
    whole_images = any(set(keys) < it for it in identities)
    identity = identity_of(table.versions) if whole_images else None
    options: dict[str, Any] = {"types": {"timestamptz": "string", "float8": "string"}}
    schema = pa.schema(
        walrow.schema(
            log,
            table.oid,
            profile="spark",
            metadata=METADATA,
            metadata_prefix=PREFIX,
            **options,
        )
    )
    columns = schema.names[: -len(METADATA)]
    batch = plan(
        log,
        stretches(log),
        table,
        start,
        end,
        truncates="apply",
        unit_bytes=5000,
        least_units=3,
    )
    rows = {} if batch.barrier is not None else dict(before)

    def events(*, with_old_images: bool = False) -> Any:
        return Events(
            log,
            table.oid,
            name,
            schema,
            options,
            batch.units,
            keys,
            batch.barrier,
            deletes,
            with_old_images,
        )

    fold = Fold(keys, marks=is_soft, whole_images=whole_images)
    choices = random.Random(int(end))  # noqa: S311
    found = net_of(events(), fold, choices)
    if not found:
        return rows
    net = pa.Table.from_batches(found)
    tally = Tally.from_rows(row for row in net.to_pylist() if row[KIND] < 0)
    net = net.filter(pa.compute.greater_equal(net[KIND], Kind.INSERT))
    raw = net.filter(net[RAW]).drop_columns([RAW])
    net = net.filter(pa.compute.invert(net[RAW])).drop_columns([RAW])
    assert (tally.net, tally.raw) == (net.num_rows, raw.num_rows)
    assert tally.events == sum(it.num_rows for it in events()(numbers(batch)))
    heads = dict(rows)
    if raw.num_rows:
        if whole_images:
            wanted = {tuple(it[key] for key in keys) for it in raw.to_pylist()}
            every = pa.Table.from_batches(
                list(events(with_old_images=True)(numbers(batch)))
            )
            raw = every.filter(
                pa.array(
                    tuple(it[key] for key in keys) in wanted for it in every.to_pylist()
                )
            )
        # Spark shuffles them, so the two images of an update can come in any order.
        raw = raw.take(choices.sample(range(raw.num_rows), raw.num_rows))
        resolved = KeyChanges(name, keys, deletes, identity)(
            raw.append_column(COMPONENT, pa.array([0] * raw.num_rows))
        )
        assert resolved.schema.equals(raw.schema)
        net = pa.concat_tables([net, resolved])
    seen = set()
    for row in net.to_pylist():
        key = tuple(row[it] for it in keys)
        assert key not in seen, "two net changes of one key"
        seen.add(key)
        if row[KIND] == Kind.DELETE:
            if deletes != "ignore":
                rows.pop(key, None)
            continue
        origin = row[FROM]
        head = key if origin is None else tuple(origin.values())
        if row[KIND] == Kind.UPDATE_GONE and head not in heads:
            # What only marks a row is not inserted.
            continue
        old = {} if row[KIND] in (Kind.INSERT, Kind.INSERT_GONE) else heads[head]
        rows[key] = {
            it: old.get(it) if it in (row[UNSENT] or ()) else row[it] for it in columns
        }
        if row[KIND] in (Kind.INSERT_GONE, Kind.UPDATE_GONE):
            rows[key][GONE] = True
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
    server: EmbeddedServer,
    tmp_path: Path,
    seed: int,
    deletes: Deletes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Keys have events in many parts of a unit.
    monkeypatch.setattr("walrow.spark.packing._PART_BYTES", 400 * seed)
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
                    if GONE not in row
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
            found = {tuple(row.values()) for row in rows.values() if GONE not in row}
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


def test_connected_keys_have_one_number() -> None:
    found = components([(1, 2), (3, 4), (2, 3), (7, 8)])
    assert len({found[it] for it in (1, 2, 3, 4)}) == 1
    assert found[7] == found[8] != found[1]


# ------------------------------------------------------------------- by hand

ORIGIN = pa.struct([("k0", pa.int32())])


def folded(
    *events: tuple[Any, ...],
    size: int = 100,
    marks: bool = False,
    whole_images: bool = False,
) -> list[Any]:
    """The net changes of events: kind, key, value, the columns that were not sent."""
    columns = {
        "id": pa.array([event[1] for event in events], pa.int32()),
        "v": pa.array([event[2] for event in events], pa.string()),
        KIND: pa.array([event[0] for event in events], pa.int8()),
        LSN: pa.array([1] * len(events), pa.int64()),
        SEQ: pa.array(range(len(events)), pa.int64()),
        UNSENT: pa.array(
            [None if event[2] else ["v"] for event in events], pa.list_(pa.string())
        ),
        FROM: pa.nulls(len(events), ORIGIN),
    }
    fold = Fold(("id",), marks=marks, whole_images=whole_images)
    # In parts, and then what they give.
    parts = []
    for batch in pa.table(columns).to_batches(size):
        part = fold.of(pa.Table.from_batches([batch]))
        assert part.net_hashes.tolist() == sorted(part.net_hashes)
        parts += [part.net, part.raw]
    return sorted(
        (
            (row[KIND], row["id"], row["v"], row[UNSENT])
            for batch in fold(parts)
            for row in batch.to_pylist()
        ),
        key=lambda row: row[1],
    )


IN, UP, OUT = Kind.INSERT, Kind.UPDATE, Kind.DELETE


@pytest.mark.parametrize("size", [1, 2, 100])
def test_values_do_not_outlive_a_delete(size: int) -> None:
    # An empty value stands for one that was not sent, as a row filter can do to inserts.
    assert folded((IN, 1, "a"), (OUT, 1, "a"), (IN, 1, ""), size=size) == [
        (IN, 1, None, ["v"])
    ]
    assert folded((UP, 1, "a"), (IN, 1, ""), size=size) == [(IN, 1, None, ["v"])]
    assert folded((UP, 1, "a"), (OUT, 1, "b"), (UP, 1, ""), size=size) == [
        (IN, 1, None, ["v"])
    ]
    assert folded((IN, 1, "a"), (UP, 1, ""), size=size) == [(IN, 1, "a", None)]
    assert folded((UP, 1, "a"), (UP, 1, ""), size=size) == [(UP, 1, "a", None)]
    assert folded((UP, 1, ""), (UP, 2, ""), size=size) == [
        (UP, 1, None, ["v"]),
        (UP, 2, None, ["v"]),
    ]


def test_a_key_with_very_many_changes_is_folded_in_between() -> None:
    events = [(IN, 1, "a"), *[(UP, 1, "")] * 40, (UP, 2, "x"), *[(UP, 2, "")] * 40]
    assert folded(*events, size=2) == [(IN, 1, "a", None), (UP, 2, "x", None)]


def test_deletes_that_mark_keep_values() -> None:
    events = [
        (UP, 1, "a"),
        (OUT, 1, ""),
        (IN, 2, "b"),
        (OUT, 2, ""),
        (OUT, 3, ""),
        (IN, 3, "c"),
    ]
    assert folded(*events, marks=True) == [
        (Kind.UPDATE_GONE, 1, "a", None),
        (Kind.INSERT_GONE, 2, "b", None),
        (IN, 3, "c", None),
    ]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_row_may_come_before_the_one_that_it_replaces(size: int) -> None:
    events = [(IN, 1, "new"), (OUT, 1, "old"), (UP, 2, "x")]
    assert folded(*events, size=size) == [(OUT, 1, "old", None), (UP, 2, "x", None)]
    # Then images decide, so the events stay as they are.
    found = folded(*events, size=size, whole_images=True)
    assert found == [(IN, 1, "new", None), (OUT, 1, "old", None), (UP, 2, "x", None)]
    # A part of the batch has the delete as a row that is marked.
    found = folded(
        (IN, 1, "new"),
        (UP, 3, "x"),
        (UP, 1, "old"),
        (OUT, 1, "old"),
        size=size,
        marks=True,
        whole_images=True,
    )
    assert len([row for row in found if row[1] == 1]) > 1


def test_different_keys_may_have_one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    def hashes_of(columns: list[Any]) -> Any:
        return np.asarray(columns[0]).astype(np.uint64) % 2

    monkeypatch.setattr("walrow.spark.folding.hashes_of", hashes_of)
    events = [(UP, 1, "a"), (UP, 3, "b"), (UP, 2, "c"), (UP, 1, ""), (UP, 3, "d")]
    expected = [(UP, 1, "a", None), (UP, 2, "c", None), (UP, 3, "d", None)]
    for size in (1, 2, 3, 100):
        assert folded(*events, size=size) == expected


@pytest.mark.parametrize("notes", [[], ["in another file"]])
def test_errors_of_executors_are_whole_in_the_driver(notes: list[str]) -> None:
    remedies = (
        walrow.Remedy("types", "total", "string"),
        walrow.Remedy("columns", value=("id", 'a "b"\n')),
    )
    error = walrow.UnrepresentableError(
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
    assert type(found) is walrow.UnrepresentableError
    assert found.__dict__ | {"__notes__": notes} == error.__dict__ | {
        "__notes__": notes
    }
    assert (found.remedies, str(found.lsn)) == (remedies, "1/2")
    # Outside of the functions for executors, as when they are unpickled.
    plain = from_executor(RuntimeError(text.replace("\nof two lines", "")))
    assert type(plain) is walrow.UnrepresentableError
    assert from_executor(RuntimeError("walrow.errors.Remedy: text")) is None
    assert from_executor(RuntimeError("something else")) is None
    assert from_executor(RuntimeError('a value\nfor the driver: {"kind": 1}')) is None
