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

from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._apply.items import Op
from walrow._apply.net_table import DATA, GONE, HEAD, OP, UNSENT, NetTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


#: The columns of parts.
PARTS = "label int, number bigint, data binary"


def row_fields(keys: list[Any]) -> list[Any]:
    """The columns of rows beside the table's own, for Spark.

    Args:
        keys: The fields of the key.
    """
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        BooleanType,
        ByteType,
        StringType,
        StructField,
        StructType,
    )

    head = StructType(
        [StructField(f"k{at}", field.dataType) for at, field in enumerate(keys)]
    )
    types = (ByteType(), ArrayType(StringType()), BooleanType(), head, BinaryType())
    names = (OP, UNSENT, GONE, HEAD, DATA)
    return [StructField(name, kind) for name, kind in zip(names, types, strict=True)]


class Whole(NamedTuple):
    """A function for `mapInArrow` over one number: the rows of all units out."""

    table: NetTable

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns the rows, and their tally."""
        for _ in numbers(batches):
            yield from self.table.rows(self.table.whole())


class Split(NamedTuple):
    """A function for `mapInArrow` over numbers of units: a row for each partition out."""

    table: NetTable
    partitions: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns the changes of the log, in parts."""
        import pyarrow as pa

        table = self.table
        labels = partition_labels(self.partitions)
        for number in numbers(batches):
            with table.errors():
                parts = table.part(*table.units[number]).split(self.partitions)
            for place, data in parts:
                yield pa.record_batch(
                    [
                        pa.array([labels[place]], pa.int32()),
                        pa.array([number], pa.int64()),
                        pa.array([data], pa.binary()),
                    ],
                    ["label", "number", "data"],
                )


class Join(NamedTuple):
    """A function for `mapInArrow` over the parts of a partition: rows out."""

    table: NetTable

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns the rows, their tally, and changes that are joined later."""
        parts = [
            (number, value.as_buffer())
            for batch in batches
            for number, value in zip(
                batch.column(1).to_pylist(), batch.column(2), strict=True
            )
        ]
        if not parts:
            return
        net = self.table.join(parts)
        del parts
        yield from self.table.rows(net, net.tally.entangled)
        if (entangled := net.entangled) is not None:
            yield self.table.other(Op.ENTANGLED, entangled)


class Entangled(NamedTuple):
    """A function for `mapInArrow` over entangled changes: rows out."""

    table: NetTable

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns the rows, and their tally."""
        data = (value.as_buffer() for batch in batches for value in batch.column(0))
        if parts := list(enumerate(data)):
            yield from self.table.rows(self.table.join(parts, whole=True))


class Load(NamedTuple):
    """A function for `mapInArrow` over numbers of units: the rows of a load out, as they are.

    Attributes:
        table: The table.
        lsn: The commit LSN of the load.
    """

    table: NetTable
    lsn: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns the rows."""
        for number in numbers(batches):
            yield from self.table.loaded(self.lsn, *self.table.units[number])


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
