"""One pass over a log for many tables: their changes are decoded and folded together.

For a table with few changes, Spark's jobs cost more than the rows. So the segments of all such
tables are decoded once, by one job, and folded by its second stage. The net changes come to
the driver, a bounded number of bytes at a time, and are the source of each table's MERGE.

```text
units ─► events of all tables, as Arrow bytes ─► by table: net changes, as Arrow bytes ─► driver
```

A table that cannot be done this way has no result. It is then applied alone, and that says why.
"""

from __future__ import annotations

import itertools
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow.errors import Error
from walrow.spark.change_rows import METADATA, PREFIX
from walrow.spark.packing import tallied

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    import walrow
    from walrow.spark.apply_items import Rules
    from walrow.spark.apply_tables import AppliedTable
    from walrow.spark.apply_units import Batch
    from walrow.spark.change_rows import Events
    from walrow.spark.folding import Fold

__all__ = ["Share", "stage", "waves"]


class Share(NamedTuple):
    """A table that takes part in a pass.

    Attributes:
        applied: The table. All have the same log and the same options.
        batch: What is read of the log.
        rules: What happens to the target.
    """

    applied: AppliedTable
    batch: Batch
    rules: Rules


def waves(shares: Mapping[Any, Share]) -> list[list[Any]]:
    """Divides tables into passes whose net changes fit into the driver.

    Left out are tables that are too large for that, those that cannot share a reader, since
    their versions need a schema, and a table that is named again.
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
    """Decodes and folds the changes of tables, in one job.

    Args:
        session: Spark's session.
        wave: The tables.
        tasks: The number of tasks, at most.

    Returns:
        Their net changes and the tally, by OID, without tables that must be applied alone.
    """
    import pyarrow as pa

    decode = _decoding(wave)
    folds = {
        applied.table.oid: (applied.fold(rules), applied.nullable)
        for applied, _, rules in wave
    }
    count = min(len(decode.units), tasks)
    rows = (
        session.range(0, len(decode.units), 1, count)
        .mapInArrow(decode, _COLUMNS)
        .repartition(min(len(wave), tasks), "oid")
        .sortWithinPartitions("oid", "unit")
        .mapInArrow(_Folds(folds), _COLUMNS)
        .collect()
    )
    return {
        row.oid: pa.ipc.open_stream(row.data).read_all()
        for row in rows
        if row.data is not None
    }


def _decoding(wave: list[Share]) -> _Decode:
    """The ranges of LSNs, each with all tables that have changes in it."""
    units: dict[tuple[int, int], list[int]] = {}
    for applied, batch, _ in wave:
        for start, end, _ in batch.pieces:
            units.setdefault((start, end), []).append(applied.table.oid)
    first = wave[0].applied
    return _Decode(
        first.log,
        sorted(units.items()),
        {it.applied.table.oid: it.applied.events(it.batch, it.rules) for it in wave},
        dict(first.options),
    )


class _Decode(NamedTuple):
    """A function for `mapInArrow` over numbers of units: the events of their tables out.

    Attributes:
        log: The log, which each task opens again.
        units: Ranges of LSNs, and the OIDs of the tables that have changes in them.
        tables: How the changes of each table become events.
        options: Other options of `walrow.read`.
    """

    log: walrow.Log
    units: list[tuple[tuple[int, int], list[int]]]
    tables: Mapping[int, Events]
    options: dict[str, Any]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns a row for each table of each unit."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                place, oids = self.units[number]
                found = self._unit(place, oids)
                yield _rows([(oid, number, data) for oid, data in found])

    def _unit(
        self, place: tuple[int, int], oids: list[int]
    ) -> list[tuple[int, bytes | None]]:
        try:
            return self._events(place, oids)
        except Error:
            # One of them is to blame, and the others must not wait for it.
            if len(oids) == 1:
                return [(oids[0], None)]
            half = len(oids) // 2
            return [
                *self._unit(place, oids[:half]),
                *self._unit(place, oids[half:]),
            ]

    def _events(
        self, place: tuple[int, int], oids: list[int]
    ) -> list[tuple[int, bytes | None]]:
        import pyarrow as pa

        found: dict[int, list[pa.RecordBatch] | None] = {}
        reader = self.log.read(
            tables=oids,
            profile="spark",
            metadata=METADATA,
            metadata_prefix=PREFIX,
            start=place[0],
            end=place[1],
            missing_table="ignore",
            **self.options,
        )
        for batch in reader:
            records, oid = pa.record_batch(batch), batch.relation_oid
            events = found.setdefault(oid, [])
            if not records.schema.equals(self.tables[oid].schema):
                # Another version.
                found[oid] = None
            elif events is not None:
                events.extend(self.tables[oid].of(records))
        return [
            (oid, _packed(events))
            for oid, events in found.items()
            if events is None or events
        ]


class _Folds(NamedTuple):
    """A function for `mapInArrow` over rows of tables, each table's in the order of its units.

    Attributes:
        tables: How the events of each table are folded, and which columns may be NULL without
            having been sent.
    """

    tables: Mapping[int, tuple[Fold, tuple[str, ...]]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns a row for each table."""
        rows = (
            row
            for batch in batches
            for row in zip(*batch.to_pydict().values(), strict=True)
        )
        for oid, group in itertools.groupby(rows, key=itemgetter(0)):
            data = [data for *_, data in group]
            yield _rows([(oid, 0, None if None in data else self._folded(oid, data))])

    def _folded(self, oid: int, parts: list[bytes]) -> bytes | None:
        import pyarrow as pa

        fold, nullable = self.tables[oid]
        events = [batch for data in parts for batch in pa.ipc.open_stream(data)]
        try:
            count = sum(it.num_rows for it in events)
            return _packed(list(tallied(fold, events, count, nullable)))
        except (Error, pa.ArrowException):
            return None


def _packed(batches: list[pa.RecordBatch] | None) -> bytes | None:
    import pyarrow as pa

    if not batches:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _rows(rows: list[tuple[int, int, bytes | None]]) -> pa.RecordBatch:
    import pyarrow as pa

    columns = zip(*rows, strict=True) if rows else ((), (), ())
    types = (pa.int64(), pa.int64(), pa.binary())
    arrays = [
        pa.array(values, kind) for values, kind in zip(columns, types, strict=True)
    ]
    return pa.record_batch(arrays, ["oid", "unit", "data"])


#: The bytes of a table in a unit. NULL if the table must be applied alone.
_COLUMNS = "oid bigint, unit bigint, data binary"
#: Of the stream. Beyond it, a table has jobs of its own.
_TABLE_BYTES = 4 << 20
_WAVE_BYTES = 64 << 20
