"""In executors: the changes of a batch, folded where they are decoded, and once more by key.

Between the two, changes travel as Arrow bytes, so Spark shuffles some rows with many changes
instead of many rows:

```text
unit ─► events ─► net changes of each part ─► a row for each partition ─► shuffle ─► net changes
```

The bytes of a partition have to fit into the memory of a task: `apply_net` chooses how many
partitions there are.
"""

from __future__ import annotations

from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow.spark.change_rows import EVENT_COLUMNS, Events, Kind
from walrow.spark.folding import RAW, Fold, unsent_rows
from walrow.spark.key_hashes import partition_labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

__all__ = ["PACKED", "FoldHere", "Pack", "Tally", "Unpack", "tallied"]

#: The columns of packed changes.
PACKED = "label int, number bigint, events bigint, data binary"

_KIND, _LSN, _SEQ, _UNSENT, _ = EVENT_COLUMNS


class Pack(NamedTuple):
    """A function for `mapInArrow` over numbers of units: packed changes out.

    Attributes:
        events: Gives the events of a unit.
        fold: Folds them.
        partitions: For how many partitions they are packed.
    """

    events: Events
    fold: Fold
    partitions: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns a row for each partition and each part of a unit."""
        labels = partition_labels(self.partitions)
        for unit in _units(batches):
            for number, table in enumerate(_parts(self.events.unit(unit))):
                yield self._packed(table, labels, (unit << _PARTS) + number)

    def _packed(self, table: pa.Table, labels: Any, number: int) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        folded = self.fold.of(table)
        # Both are in the order of their hashes, so each partition has a range of them.
        bounds = np.arange(self.partitions + 1, dtype=np.uint64) << np.uint64(32)
        bounds = -(-bounds // self.partitions)
        cuts = [
            np.searchsorted(hashes >> np.uint64(32), bounds).tolist()
            for hashes in (folded.net_hashes, folded.raw_hashes)
        ]
        used = []
        offsets = [0]
        sink = pa.BufferOutputStream()
        for place, (net, raw) in enumerate(zip(*map(_ranges, cuts), strict=True)):
            parts = [folded.net.slice(*net), folded.raw.slice(*raw)]
            if any(it.num_rows for it in parts):
                with pa.ipc.new_stream(sink, folded.net.schema) as writer:
                    for part in parts:
                        writer.write_batch(part)
                used.append(place)
                offsets.append(sink.tell())
        places = pa.array(offsets, pa.int32()).buffers()[1]
        data = pa.Array.from_buffers(
            pa.binary(), len(used), [None, places, sink.getvalue()]
        )
        # How many events became the net changes of a partition is not known: one has them all.
        counts = [table.num_rows] + [0] * (len(used) - 1)
        return pa.record_batch(
            [
                pa.array(labels[used]),
                pa.array([number] * len(used), pa.int64()),
                pa.array(counts, pa.int64()),
                data,
            ],
            ["label", "number", "events", "data"],
        )


class Unpack(NamedTuple):
    """A function for `mapInArrow` over packed changes of a partition: net changes out.

    Attributes:
        fold: Folds them.
        nullable: Columns that may be NULL without having been sent.
    """

    fold: Fold
    nullable: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns the net changes, raw events, and their tally."""
        import pyarrow as pa

        count = 0
        parts: list[tuple[int, pa.Buffer]] = []
        for batch in batches:
            _, numbers, events, data = batch.columns
            count += sum(events.to_pylist())
            buffers = (value.as_buffer() for value in data)
            parts += zip(numbers.to_pylist(), buffers, strict=True)
        # Shuffled, they come in any order.
        parts.sort(key=itemgetter(0))
        found: list[pa.RecordBatch] = []
        for _, part in parts:
            with pa.ipc.open_stream(part) as reader:
                found.extend(reader)
        yield from tallied(self.fold, found, count, self.nullable)


class FoldHere(NamedTuple):
    """A function for `mapInArrow` over the numbers of all units: net changes out.

    Attributes:
        events: Gives the events of a unit.
        fold: Folds them.
        nullable: Columns that may be NULL without having been sent.
    """

    events: Events
    fold: Fold
    nullable: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns the net changes, raw events, and their tally."""
        events: list[pa.RecordBatch] = []
        count = 0
        for unit in _units(batches):
            for table in _parts(self.events.unit(unit)):
                count += table.num_rows
                folded = self.fold.of(table)
                events += [it for it in (folded.net, folded.raw) if it.num_rows]
        yield from tallied(self.fold, events, count, self.nullable)


class Tally(NamedTuple):
    """What a driver needs to know of net changes before it uses them.

    It comes as two rows after them, whose kinds are negative.

    Attributes:
        events: The number of events before the fold.
        net: The number of net changes.
        raw: The number of events that are left as they are.
        lost: The number of new rows that lack values.
        kept: The columns that some updates keep as they are.
        lacking: The columns without a value in some new rows.
    """

    events: int = 0
    net: int = 0
    raw: int = 0
    lost: int = 0
    kept: frozenset[str] = frozenset()
    lacking: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, net: pa.RecordBatch, *, events: int, raw: int, nullable: Iterable[str]
    ) -> Tally:
        """Counts net changes."""
        import numpy as np

        kind = np.asarray(net.column(_KIND))
        is_update = np.isin(kind, (Kind.UPDATE, Kind.UPDATE_GONE))
        lost = np.zeros(len(kind), bool)
        kept, lacking = set(), set()
        for name, rows in unsent_rows(net.column(_UNSENT)).items():
            updates = is_update[rows]
            if updates.any():
                kept.add(name)
            if not updates.all() and name not in nullable:
                lacking.add(name)
                lost[rows[~updates]] = True
        return cls(
            events, len(kind), raw, int(lost.sum()), frozenset(kept), frozenset(lacking)
        )

    @classmethod
    def from_rows(cls, rows: Iterable[Any]) -> Tally:
        """Adds up the rows of all partitions."""
        found = cls()
        for row in rows:
            names = frozenset(row[_UNSENT])
            if row[_KIND] == _KEPT:
                more = cls(row[_LSN], row[_SEQ], kept=names)
            else:
                more = cls(raw=row[_LSN], lost=row[_SEQ], lacking=names)
            found = cls(
                found.events + more.events,
                found.net + more.net,
                found.raw + more.raw,
                found.lost + more.lost,
                found.kept | more.kept,
                found.lacking | more.lacking,
            )
        return found

    def to_rows(self, schema: pa.Schema) -> pa.RecordBatch:
        """The two rows, with the columns of net changes."""
        import pyarrow as pa

        values = {
            _KIND: [_KEPT, _LOST],
            _LSN: [self.events, self.raw],
            _SEQ: [self.net, self.lost],
            _UNSENT: [sorted(self.kept), sorted(self.lacking)],
            RAW: [False, False],
        }
        columns = [
            pa.array(values.get(field.name, [None, None]), field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema.names)


def tallied(
    fold: Fold, events: list[pa.RecordBatch], count: int, nullable: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Folds events, and adds the tally. `count` is their number before the first fold."""
    if not events:
        return
    net, raw = fold(events)
    for rows in (net, raw):
        for at in range(0, rows.num_rows, _ROWS):
            yield rows.slice(at, _ROWS)
    tally = Tally.of(net, events=count, raw=raw.num_rows, nullable=nullable)
    yield tally.to_rows(net.schema)


def _units(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches together, so that a fold has many events, and not too many."""
    import pyarrow as pa

    found: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        found.append(batch)
        size += batch.nbytes
        if size >= _PART_BYTES:
            yield pa.Table.from_batches(found)
            found, size = [], 0
    if found:
        yield pa.Table.from_batches(found)


def _ranges(cuts: list[int]) -> Iterator[tuple[int, int]]:
    """Each range between two cuts, as its beginning and its length."""
    for start, end in pairwise(cuts):
        yield start, end - start


#: The kinds of the rows of a tally.
_KEPT, _LOST = -1, -2
#: A unit has fewer parts than 2 to the power of this.
_PARTS = 32
_PART_BYTES = 8 << 20
#: Of a batch for Spark.
_ROWS = 1 << 14
