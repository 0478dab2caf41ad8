"""In executors: the net changes of a table, as rows for a MERGE.

Some tasks read the log, and others join its changes of some keys. Between them, changes
travel as bytes, so Spark shuffles a row for each partition instead of one for each
change:

```text
unit ─► net changes ─► bytes for each partition ─► shuffle ─► joined ─► decoder ─► rows
```

`NetTable` says what a row has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from walrow._apply.items import Op
from walrow._apply.net_table import DATA, GONE, HEAD, OP, UNSENT, NetTable
from walrow._late import pa, types

#: The columns of parts.
PARTS = "label int, number bigint, data binary"


def row_fields(keys: list[Any]) -> list[Any]:
    """The columns that rows have in addition to the table's own, for Spark, by the fields of its key."""
    head = types.StructType(
        [types.StructField(f"k{at}", field.dataType) for at, field in enumerate(keys)]
    )
    kinds = (
        types.ByteType(),
        types.ArrayType(types.StringType()),
        types.BooleanType(),
        head,
        types.BinaryType(),
    )
    names = (OP, UNSENT, GONE, HEAD, DATA)
    return [types.StructField(*it) for it in zip(names, kinds, strict=True)]


# ------------------------------------------------------------------ for `mapInArrow`


def whole(
    table: NetTable, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of all units, and their tally, for one number."""
    for _ in numbers(batches):
        yield from table.rows(table.whole())


def split(
    table: NetTable, partitions: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The changes of units in parts, for their numbers: a row for each partition."""
    labels = partition_labels(partitions)
    for number in numbers(batches):
        with table.errors():
            parts = table.part(*table.units[number]).split(partitions)
        for place, data in parts:
            yield pa.record_batch(
                [
                    pa.array([labels[place]], pa.int32()),
                    pa.array([number], pa.int64()),
                    pa.array([data], pa.binary()),
                ],
                ["label", "number", "data"],
            )


def join(
    table: NetTable, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of a partition, their tally, and changes that are joined later, for its parts."""
    parts = [
        (number, value.as_buffer())
        for batch in batches
        for number, value in zip(
            batch.column(1).to_pylist(), batch.column(2), strict=True
        )
    ]
    if not parts:
        return
    net = table.join(parts)
    del parts
    yield from table.rows(net, net.tally.entangled)
    if (data := net.entangled) is not None:
        yield table.other(Op.ENTANGLED, data)


def entangled(
    table: NetTable, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of entangled changes, and their tally."""
    data = (value.as_buffer() for batch in batches for value in batch.column(0))
    if parts := list(enumerate(data)):
        yield from table.rows(table.join(parts, whole=True))


def loaded(
    table: NetTable, lsn: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of a load, as they are, by its commit LSN and the numbers of units."""
    for number in numbers(batches):
        yield from table.loaded(lsn, *table.units[number])


# ------------------------------------------------------------------------- numbers


def partition_labels(count: int) -> list[int]:
    """For each of Spark's partitions, an integer that `repartition` puts there.

    Spark takes the Murmur hash of a value, so consecutive numbers would leave some partitions
    empty. With a different hash, only the balance of the tasks would change.
    """
    labels: dict[int, int] = {}
    number = 0
    while len(labels) < count:
        labels.setdefault(_murmur(number) % count, number)
        number += 1
    return [labels[place] for place in range(count)]


def _murmur(number: int) -> int:
    """Spark's hash of an integer of 32 bits, with its seed."""
    mask = 0xFFFFFFFF

    def rotated(value: int, by: int) -> int:
        return ((value << by) | (value >> (32 - by))) & mask

    mixed = rotated(number * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    found = (rotated(42 ^ mixed, 13) * 5 + 0xE6546B64) & mask
    found ^= 4
    for by, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = (found ^ (found >> by)) * factor & mask
    found ^= found >> 16
    return found - (1 << 32) if found >> 31 else found


def numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """The numbers that Spark gives to a task."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
