"""What executors compute for `apply_changes`, without Spark: rows before, and changes, give rows after.

A seed determines random transactions on a live server. `WALROW_SEED=NUMBER` sets another one.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("psycopg")

import walrow  # noqa: E402
from spark.churn import KEYS, TABLES, Churn  # noqa: E402
from spark.histories import history  # noqa: E402
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
from walrow.spark.key_changes import COMPONENT, KeyChanges, components  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from servers import EmbeddedServer

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

SEEDS = [1, 2, 3, int(os.environ.get("WALROW_SEED") or 4)]
KIND, LSN, SEQ, UNSENT, FROM = EVENT_COLUMNS
Rows = dict[tuple[Any, ...], dict[str, Any]]


def after(log: walrow.Log, name: str, before: Rows, start: Any, end: Any) -> Rows:
    """The rows of a table after the changes between two LSNs, as the executors fold them."""
    table = find_table(log, f"public.{name}")
    # Only a receiver records the primary key.
    keys = keys_of(log, table, ["id"] if name == "late" else None)
    assert list(keys) == KEYS[name]
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
        numbers = pa.record_batch({"id": pa.array(range(len(batch.units)), pa.int64())})
        function = Events(
            str(log.path),
            table.oid,
            name,
            schema,
            options,
            batch.units,
            keys,
            batch.barrier,
            "apply",
            with_old_images,
        )
        return list(function(iter([numbers])))

    found = events()
    if not found:
        return rows
    order = [(it, "ascending") for it in (*keys, LSN, SEQ)]
    ordered = pa.Table.from_batches(found).sort_by(order).combine_chunks()
    size = random.Random(int(end)).choice([1, 2, 3, 7, 1000])  # noqa: S311
    fold = Fold(keys, marks=False, whole_images=name == "late")
    net = pa.Table.from_batches(list(fold(iter(ordered.to_batches(size)))))
    raw = net.filter(net[RAW]).drop_columns([RAW])
    net = net.filter(pa.compute.invert(net[RAW])).drop_columns([RAW])
    heads = dict(rows)
    if raw.num_rows:
        if name == "late":
            wanted = {tuple(it[key] for key in keys) for it in raw.to_pylist()}
            every = pa.Table.from_batches(events(with_old_images=True))
            raw = every.filter(
                pa.array(
                    tuple(it[key] for key in keys) in wanted for it in every.to_pylist()
                )
            )
        resolved = KeyChanges(name, keys, marks=False, whole_images=name == "late")(
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
            rows.pop(key, None)
            continue
        origin = row[FROM]
        head = key if origin is None else tuple(origin.values())
        old = {} if row[KIND] == Kind.INSERT else heads[head]
        rows[key] = {
            it: old.get(it) if it in (row[UNSENT] or ()) else row[it] for it in columns
        }
    return rows


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_give_the_rows_of_the_server(
    server: EmbeddedServer, tmp_path: Path, seed: int
) -> None:
    with history(server, tmp_path / "log") as source:
        churn = Churn(source, seed)
        choices = random.Random(seed)  # noqa: S311
        source.load(*TABLES)
        points: list[tuple[Any, dict[str, Any]]] = []
        columns: dict[str, list[str]] = {}
        for step in range(12):
            churn.run(choices.randint(1, 12))
            if step == 6:
                source.load("key", "late")
            source.take(binary=choices.random() < 0.5)
            for name in TABLES:
                cursor = source.conn.execute(f"SELECT * FROM {name} LIMIT 0".encode())  # noqa: S608
                columns[name] = [it.name for it in cursor.description or ()]
            expected = {name: source.texts(name, columns[name]) for name in TABLES}
            points.append((source.lsn(), expected))
            log = walrow.Log(source.path)
        for name in TABLES:
            rows: Rows = {}
            start = walrow.Lsn(0)
            compared = 0
            for end, tables in points:
                rows = after(log, name, rows, start, end)
                found = {
                    tuple(
                        None if row.get(it) is None else str(row[it])
                        for it in columns[name]
                    )
                    for row in rows.values()
                }
                width = len(next(iter(tables[name]), ()))
                expected_rows = {
                    (*row, *[None] * (len(columns[name]) - width))
                    for row in tables[name]
                }
                assert len(tables[name]) == sum(tables[name].values())
                assert found == expected_rows, (name, end)
                compared += len(found)
                start = end
            assert compared > 20, name


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
    batches = pa.table(columns).combine_chunks().to_batches(size)
    fold = Fold(("id",), marks=marks, whole_images=whole_images)
    return [
        (row[KIND], row["id"], row["v"], row[UNSENT])
        for batch in fold(iter(batches))
        for row in batch.to_pylist()
    ]


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


def test_a_row_may_come_before_the_one_that_it_replaces() -> None:
    events = [(IN, 1, "new"), (OUT, 1, "old"), (UP, 2, "x")]
    assert folded(*events) == [(OUT, 1, "old", None), (UP, 2, "x", None)]
    # Then images decide, so the events stay as they are.
    found = folded(*events, whole_images=True)
    assert found == [(IN, 1, "new", None), (OUT, 1, "old", None), (UP, 2, "x", None)]
