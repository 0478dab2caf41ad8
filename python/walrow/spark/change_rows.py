"""In executors: the changes of a table as events of keys, ready to be folded.

An event is a row of the table with these columns beside it:

| column | contents |
|---|---|
| `_walrow_kind` | what happened, see `Kind` |
| `_walrow_lsn` | the commit LSN |
| `_walrow_seq` | twice the seq, and 1 more for new images: the order in a transaction |
| `_walrow_unsent` | the columns that the server did not send |
| `_walrow_from` | the old key, if the change gave the row another one |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walrow.errors import ApplyError
from walrow.spark.apply_items import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    import walrow
    from walrow.spark.apply_items import Barrier

__all__ = [
    "EVENT_COLUMNS",
    "METADATA",
    "PREFIX",
    "Events",
    "Kind",
    "event_fields",
    "lists_of",
]

#: Before the names of metadata columns, so that tables may have columns such as `_seq`.
PREFIX = "_walrow_"
METADATA = ("change_type", "commit_lsn", "seq", "key_only", "unsent")
EVENT_COLUMNS = tuple(
    PREFIX + name for name in ("kind", "lsn", "seq", "unsent", "from")
)


class Kind:
    """What happened to a key."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    #: The row got another key.
    LEAVE = 3
    #: The row of another key got this one.
    ARRIVE = 4
    #: The old image of an update that keeps the key.
    OLD = 5
    #: What a fold gives if deletes only mark rows: an insert, an update, and a delete after it.
    INSERT_GONE = 6
    UPDATE_GONE = 7


def event_fields(keys: list[Any]) -> list[Any]:
    """The columns of events beside the table's own, for Spark.

    Args:
        keys: The fields of the key.
    """
    from pyspark.sql.types import (
        ArrayType,
        ByteType,
        LongType,
        StringType,
        StructField,
        StructType,
    )

    origin = StructType(
        [StructField(f"k{at}", field.dataType) for at, field in enumerate(keys)]
    )
    types = (ByteType(), LongType(), LongType(), ArrayType(StringType()), origin)
    return [
        StructField(name, kind) for name, kind in zip(EVENT_COLUMNS, types, strict=True)
    ]


class Events(NamedTuple):
    """A function for `mapInArrow` over numbers of units: events out.

    Attributes:
        log: The log, which each task opens again.
        oid: The OID of the table.
        table: Its name, for errors.
        schema: The schema of its changes, with metadata columns.
        options: Other options of `walrow.read`.
        units: The ranges of LSNs.
        keys: The columns of the key.
        barrier: Changes up to here do not count.
        deletes: What deletes do.
        with_old_images: Whether to return the old images of all updates, too, and deletes
            that do nothing: what comes after them is about another row.
    """

    log: walrow.Log
    oid: int
    table: str
    schema: pa.Schema
    options: dict[str, Any]
    units: list[tuple[int, int]]
    keys: tuple[str, ...]
    barrier: Barrier | None
    deletes: str
    with_old_images: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns the events of all units of a task."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.unit(number)

    def unit(self, number: int) -> Iterator[pa.RecordBatch]:
        """Returns the events of a unit, in their order."""
        import pyarrow as pa

        start, end = self.units[number]
        reader = self.log.read(
            table=self.oid,
            schema=self.schema,
            profile="spark",
            metadata=METADATA,
            metadata_prefix=PREFIX,
            start=start,
            end=end,
            missing_table="ignore",
            **self.options,
        )
        for batch in reader:
            yield from self.of(pa.record_batch(batch))

    def of(self, records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The events of one batch, which has both images of each update."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        names = pa.array(_CHANGE_TYPES)
        images = records
        types = records.column(f"{PREFIX}change_type")
        change = np.asarray(pc.index_in(types, value_set=names))
        lsn = np.asarray(records.column(f"{PREFIX}commit_lsn"))
        seq = np.asarray(records.column(f"{PREFIX}seq"))
        kind = _KINDS()[change]
        (old,) = np.nonzero(change == _PREIMAGE)
        moved = old[self._differ(records, old)]
        kind[moved], kind[moved + 1] = Kind.LEAVE, Kind.ARRIVE
        wanted = change != _TRUNCATE
        if not self.with_old_images:
            wanted &= kind != Kind.OLD
        if self.deletes == "ignore" and not self.with_old_images:
            wanted &= kind != Kind.DELETE
        if self.barrier is not None:
            at = self.barrier.lsn
            wanted &= (lsn > at) | ((lsn == at) & (seq > self.barrier.seq))
        (rows,) = np.nonzero(wanted)
        if not len(rows):
            return
        origin = np.full(len(kind), -1)
        origin[moved + 1] = moved
        order = seq * 2 + ~np.isin(kind, (Kind.LEAVE, Kind.OLD))
        width = len(self.schema) - len(METADATA)
        unsent = self._unsent(records, kind)
        records = records.select(records.schema.names[:width])
        records = records.append_column(_UNSENT, unsent)
        if len(rows) < len(kind):
            # Copies are expensive, and most batches need none.
            records = records.take(pa.array(rows))
        self._check_keys(records)
        columns = [
            *records.columns[:width],
            pa.array(kind[rows], pa.int8()),
            pa.array(lsn[rows], pa.int64()),
            pa.array(order[rows], pa.int64()),
            records.column(_UNSENT),
            self._origins(images, origin[rows]),
        ]
        own = self.schema.names[: -len(METADATA)]
        yield pa.RecordBatch.from_arrays(columns, [*own, *EVENT_COLUMNS])

    def _differ(self, records: pa.RecordBatch, old: Any) -> Any:
        """Whether the new image after each old one has another key."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        differ = np.zeros(len(old), bool)
        before, after = pa.array(old), pa.array(old + 1)
        for key in self.keys:
            column = records.column(key)
            unequal = pc.not_equal(column.take(before), column.take(after))
            differ |= np.asarray(unequal.fill_null(True))
        return differ

    def _unsent(self, records: pa.RecordBatch, kind: Any) -> pa.Array:
        """The columns that were not sent: of an image of the identity, all others."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        unsent = records.column(f"{PREFIX}unsent")
        kinds = [Kind.DELETE] if self.deletes == "soft" else []
        if self.with_old_images:
            kinds = [Kind.DELETE, Kind.LEAVE, Kind.OLD]
        key_only = np.asarray(records.column(f"{PREFIX}key_only"))
        names = self.schema.names[: -len(METADATA)]
        names = [name for name in names if name not in self.keys]
        lacking = key_only & np.isin(kind, kinds)
        if not names or not lacking.any():
            return unsent
        # Columns of an identity are never NULL, and all others are in these images.
        nulls = [np.asarray(records.column(name).is_null()) for name in names]
        others = lists_of(names, np.stack(nulls, axis=1) & lacking[:, None])
        return pc.if_else(pa.array(lacking), others.cast(unsent.type), unsent)

    def _origins(self, images: pa.RecordBatch, origin: Any) -> pa.Array:
        """The old keys of rows that got another one."""
        import pyarrow as pa

        names = [f"k{at}" for at in range(len(self.keys))]
        if (origin < 0).all():
            fields = [
                pa.field(name, images.column(key).type)
                for name, key in zip(names, self.keys, strict=True)
            ]
            return pa.nulls(len(origin), pa.struct(fields))
        sources = pa.array(origin, mask=origin < 0)
        parts = [images.column(key).take(sources) for key in self.keys]
        return pa.StructArray.from_arrays(parts, names, mask=sources.is_null())

    def _check_keys(self, records: pa.RecordBatch) -> None:
        for key in self.keys:
            if records.column(key).null_count:
                text = f"{self.table}: column {key} of the key is NULL in a change"
                raise ApplyError(
                    text,
                    code="null_key",
                    table=self.table,
                    column=key,
                    advice="; choose columns that are never NULL with ",
                    remedies=(KEYS,),
                )


def lists_of(names: list[str], flags: Any) -> pa.Array:
    """For each row of flags, the names that have one. NULL if none has."""
    import numpy as np
    import pyarrow as pa

    counts = flags.sum(axis=1)
    offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
    found = np.array(names, object)[np.nonzero(flags)[1]]
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(found, pa.string()), mask=pa.array(counts == 0)
    )


_UNSENT = EVENT_COLUMNS[3]
_CHANGE_TYPES = (
    "insert",
    "update_postimage",
    "delete",
    "update_preimage",
    "truncate",
)
_PREIMAGE, _TRUNCATE = 3, 4


def _KINDS() -> Any:  # noqa: N802 - numpy is imported where it is used
    import numpy as np

    kinds = (Kind.INSERT, Kind.UPDATE, Kind.DELETE, Kind.OLD, Kind.OLD)
    return np.array(kinds, np.int8)
