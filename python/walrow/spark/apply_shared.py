"""One pass over a log for many tables: their changes are decoded and folded together.

For a table with few changes, Spark's jobs cost more than the rows. So the segments of all such
tables are decoded once, by one job, and folded by its second stage. The net changes come to
the driver, a bounded number of bytes at a time, and are the source of each table's MERGE.

```text
units ─► net changes of all tables, as bytes ─► by table: rows, as Arrow bytes ─► driver
```

A table that cannot be done this way has no result. It is then applied alone, and that says why.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from walrow._apply.net_table import NetTable
from walrow._apply.options import ApplyOptions
from walrow._apply.tables import AppliedTable
from walrow._apply.units import Batch
from walrow._core import NetPart
from walrow._late import pa
from walrow.errors import Error
from walrow.spark.net_rows import numbers


class Share(NamedTuple):
    """A table that takes part in a pass.

    Attributes:
        applied: The table. All have the same log and the same options.
        batch: The part of the log to read.
        rules: The caller's options for the target.
    """

    applied: AppliedTable
    batch: Batch
    rules: ApplyOptions


def waves(shares: Mapping[Any, Share]) -> list[list[Any]]:
    """Divides tables into passes whose net changes fit into the driver.

    It leaves out tables that are too large for that, tables that cannot share a reader,
    since their versions need a schema, and a table that is named again.
    """
    found: list[list[Any]] = []
    #: The last wave with some options, and its size.
    last: list[tuple[dict[str, Any], list[Any], int]] = []
    seen: set[int] = set()
    for name, (applied, batch, _) in shares.items():
        size = batch.stream_bytes
        is_shared = 0 < size <= _TABLE_BYTES and len(applied.table.versions) == 1
        if not is_shared or applied.table.oid in seen:
            continue
        seen.add(applied.table.oid)
        place = next(
            (at for at, it in enumerate(last) if it[0] == applied.options), None
        )
        if place is None:
            place = len(last)
            last.append((applied.options, [], _WAVE_BYTES))
        options, wave, total = last[place]
        if total + size > _WAVE_BYTES:
            wave, total = [], 0
            found.append(wave)
        wave.append(name)
        last[place] = options, wave, total + size
    return found


def stage(session: Any, wave: list[Share], tasks: int) -> dict[int, pa.Table]:
    """Reads and folds the changes of tables, in one job with so many tasks at most.

    Returns:
        Their net changes and the tally, by OID, without tables that must be applied alone.
    """
    tables = {
        it.applied.table.oid: it.applied.net_table(it.batch, it.rules) for it in wave
    }
    units = _units(wave)
    count = min(len(units), tasks)
    rows = (
        session.range(0, len(units), 1, count)
        .mapInArrow(partial(_decode, units, tables), _COLUMNS)
        .repartition(min(len(wave), tasks), "oid")
        .sortWithinPartitions("oid", "unit")
        .mapInArrow(partial(_folded, tables), _COLUMNS)
        .collect()
    )
    return {
        row.oid: pa.ipc.open_stream(row.data).read_all()
        for row in rows
        if row.data is not None
    }


def _units(wave: list[Share]) -> list[tuple[tuple[int, int], list[int]]]:
    """The ranges of LSNs, each with all tables that have changes in it."""
    units: dict[tuple[int, int], list[int]] = {}
    for applied, batch, _ in wave:
        for start, end, _ in batch.pieces:
            units.setdefault((start, end), []).append(applied.table.oid)
    return sorted(units.items())


def _decode(
    units: list[tuple[tuple[int, int], list[int]]],
    tables: Mapping[int, NetTable],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """A function for `mapInArrow` over numbers of units: net changes of their tables out."""
    for number in numbers(batches):
        place, oids = units[number]
        given = [(oid, tables[oid].reading(*place)) for oid in oids]
        log = tables[oids[0]].log
        parts = log._log.net_parts(given)
        yield _rows([(oid, number, _data(part)) for oid, part in parts])


def _data(part: NetPart | None) -> bytes | None:
    """The bytes of a table in a unit. None if it fails: the others must not wait for it."""
    if part is None:
        return None
    try:
        return b"".join(data for _, data in part.split(1))
    except Error:
        return None


def _folded(
    tables: Mapping[int, NetTable], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """A function for `mapInArrow` over tables in the order of their units: a row for each out."""
    rows = (
        row
        for batch in batches
        for row in zip(*batch.to_pydict().values(), strict=True)
    )
    for oid, group in itertools.groupby(rows, key=itemgetter(0)):
        parts = [(unit, data) for _, unit, data in group]
        yield _rows([(oid, 0, _joined(tables[oid], parts))])


def _joined(table: NetTable, parts: list[tuple[int, bytes | None]]) -> bytes | None:
    """The rows of a table, as Arrow bytes. None if it must be applied alone."""
    if any(data is None for _, data in parts):
        return None
    sink = pa.BufferOutputStream()
    try:
        net = table.join([it for it in parts if it[1]])
        rows = list(table.rows(net))
        if (entangled := net.entangled) is not None:
            rows += table.rows(table.join([(0, entangled)], whole=True))
        with pa.ipc.new_stream(sink, rows[0].schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
    except (Error, pa.ArrowException):
        return None
    return bytes(sink.getvalue().to_pybytes())


def _rows(rows: list[tuple[int, int, bytes | None]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    types = (pa.int64(), pa.int64(), pa.binary())
    arrays = [
        pa.array(values, kind) for values, kind in zip(columns, types, strict=True)
    ]
    return pa.record_batch(arrays, ["oid", "unit", "data"])


#: The bytes of a table in a unit. NULL if the table must be applied alone.
_COLUMNS = "oid bigint, unit bigint, data binary"
#: Bytes of the stream. A larger table has its own jobs.
_TABLE_BYTES = 4 << 20
_WAVE_BYTES = 64 << 20
