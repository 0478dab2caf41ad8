"""Logs made from captures, and what reading them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

import streams
import walrow
from captures import Capture, captures
from walrow._core import LogWriter

pa = pytest.importorskip("pyarrow")


#: Which captures a log takes: several sessions repeat positions, and physical replication has
#: no transactions.
SEALABLE = [
    each for each in captures() if each.record != "physical" and each.name != "sessions"
]


def sampled(values: Iterable[Any], every: int = 3) -> list[Any]:
    """One of so many values, and all of them with the slow tests. They cost much together."""
    return [
        pytest.param(
            *(it if isinstance(it, tuple) else (it,)),
            marks=[pytest.mark.slow] if number % every else [],
        )
        for number, it in enumerate(values)
    ]


#: Columns of the table in `transactions`.
COLUMNS = [streams.Column("id", 23, is_key=True), streams.Column("v", 25)]


def contents(batches: Iterable[Any]) -> list[Any]:
    """All rows of each table with their schemas, and the error after them.

    The division into batches, and offsets in the stream, are left out.
    """
    tables: dict[Any, list[list[Any]]] = {}
    error = None
    try:
        for batch in batches:
            records = pa.record_batch(batch)
            runs = tables.setdefault((batch.relation_oid, batch.table), [])
            if not runs or not runs[-1][0].equals(records.schema, check_metadata=True):
                runs.append([records.schema, []])
            runs[-1][1].append(records)
    except walrow.Error as raised:
        error = (type(raised), str(raised).partition(" (byte")[0])
    found = {
        str(table): [(schema, _joined(schema, run)) for schema, run in runs]
        for table, runs in tables.items()
    }
    return [*sorted(found.items()), error]


def _joined(schema: Any, records: list[Any]) -> bytes:
    """All rows as bytes: NaN is not equal to itself, and Python lacks some dates."""
    (batch,) = pa.Table.from_batches(records, schema).combine_chunks().to_batches()
    return bytes(batch.serialize())


def transaction(
    end: int, *rows: tuple[str, str], time: int = 0, oid: int = streams.TABLE
) -> bytes:
    """A transaction of one table that ends at an LSN."""
    name = "t" if oid == streams.TABLE else f"t{oid}"
    return streams.wired(
        _timed(streams.begin(xid=end, lsn=end - 8), time),
        streams.relation(COLUMNS, oid=oid, name=name),
        *(streams.insert(row, oid) for row in rows),
        _timed(streams.commit(lsn=end - 8, end=end), time),
    )


def _timed(message: bytes, seconds: int) -> bytes:
    """A Begin or Commit that many seconds later."""
    old = streams.TIME.to_bytes(8, "big")
    return message.replace(old, (streams.TIME + seconds * 1_000_000).to_bytes(8, "big"))


def transactions(count: int = 6, rows: int = 3) -> list[bytes]:
    """Transactions that end at 0x1000, 0x2000 and so on."""
    return [
        transaction(
            0x1000 * number, *((str(number * 100 + row), "x") for row in range(rows))
        )
        for number in range(1, count + 1)
    ]


def history(count: int = 6, rows: int = 3) -> bytes:
    """The same as a stream."""
    return streams.SESSION + b"".join(transactions(count, rows))


class Publisher:
    """A writer that publishes each of the transactions as a segment."""

    def __init__(self, directory: Path, **options: Any) -> None:
        options = {
            "segment_bytes": 64 << 20,
            "level": 3,
            "spool_memory": 1 << 20,
        } | options
        self.writer = LogWriter(directory, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.writer.close()

    def publish(self, *transactions: bytes) -> None:
        """Publishes transactions."""
        for each in transactions:
            self.writer.append(each)
            assert self.writer.publish()


def published(
    directory: Path, transactions: Iterable[bytes], **options: Any
) -> walrow.Log:
    """The log that has each of the transactions as a segment."""
    with Publisher(directory, **options) as publisher:
        publisher.publish(*transactions)
    return walrow.Log(directory)


CATALOG = """{"types": [], "tables": [{"schema": "public", "name": "t", "oid": %d,
"columns": [{"name": "id", "type": 23, "type_modifier": -1, "key": true},
            {"name": "v", "type": 25, "type_modifier": -1, "key": false}]}]}"""


def loaded(
    publisher: Publisher, point: int, *rows: int, oid: int = streams.TABLE
) -> None:
    """Loads a table."""
    catalog = walrow.Catalog.from_json(CATALOG % oid)
    load = publisher.writer.begin_load(point, 0, catalog, [(oid, "d")])
    copy = load.copy(0, binary=False)
    copy.append("".join(f"{row}\tloaded\n" for row in rows).encode())
    publisher.writer.advance(point + 1)
    publisher.writer.sync()
    assert publisher.writer.end_load(load)


def change(
    end: int,
    *messages: bytes,
    columns: Sequence[streams.Column] = COLUMNS,
    **table: Any,
) -> bytes:
    """A transaction of other changes, or of another table."""
    begun = streams.begin(xid=end, lsn=end - 8)
    relation = streams.relation(columns, **table)
    return streams.wired(
        begun, relation, *messages, streams.commit(lsn=end - 8, end=end)
    )


def fault(call: Callable[[], object]) -> tuple[str | None, str | None]:
    """The code and the file of the `LogError` that a function raises."""
    with pytest.raises(walrow.errors.LogError) as raised:
        call()
    return raised.value.code, raised.value.file


def sealed(
    directory: Path, source: Any, *, segment_size: int = 1, **options: Any
) -> walrow.Log:
    """The log of a source. By default, each change is a segment."""
    walrow.seal(source, log=directory, segment_size=segment_size, **options)
    return walrow.Log(directory)


def log_of(directory: Path, capture: Capture, segment_size: int) -> walrow.Log:
    """The log of a golden capture, which the server may have ended with an error."""
    return sealed(
        directory, capture.path, segment_size=segment_size, unfinished="ignore"
    )
