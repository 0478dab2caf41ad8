"""In executors: events of keys become one net change for each key.

The events of a partition come sorted by key and order. All of them are folded at once: a net
change has, for each column, the last value that was sent since the last insert or delete.
Keys that take part in key changes need each other: their events are returned as they are,
with `_walrow_raw`, and `key_changes` folds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walrow.spark.change_rows import EVENT_COLUMNS, PREFIX, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

__all__ = ["RAW", "Fold", "is_same", "unsent_rows"]

RAW = f"{PREFIX}raw"
_KIND, _LSN, _SEQ, _UNSENT, _FROM = EVENT_COLUMNS


class Fold(NamedTuple):
    """A function for `mapInArrow` over sorted events: net changes out.

    Attributes:
        keys: The columns of the key.
        marks: Whether deletes mark rows, and keep their values.
        whole_images: Whether old images may be whole rows. Then a key may have two rows
            until the end of a transaction, as deferrable constraints allow.
    """

    keys: tuple[str, ...]
    marks: bool
    whole_images: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Folds all keys of a partition."""
        import pyarrow as pa

        rest: list[pa.RecordBatch] = []
        for batch in batches:
            if not batch.num_rows:
                continue
            cut = self._last_key(batch)
            if cut == 0 and rest and self._continues(rest[-1], batch):
                # All of it belongs to the key before: a net change stays short.
                rest.append(batch)
                if len(rest) > _MANY:
                    rest = self._shortened(rest)
                continue
            head = pa.Table.from_batches([*rest, batch.slice(0, cut)])
            if head.num_rows:
                yield from self._folded(head)
            rest = [batch.slice(cut)]
        if rest:
            yield from self._folded(pa.Table.from_batches(rest))

    def _last_key(self, batch: pa.RecordBatch) -> int:
        """Where the events of the last key begin."""
        import numpy as np

        return int(np.nonzero(self._begins(batch))[0][-1])

    def _continues(self, before: pa.RecordBatch, batch: pa.RecordBatch) -> bool:
        import pyarrow as pa

        pair = [before.slice(before.num_rows - 1), batch.slice(0, 1)]
        return not self._begins(pa.Table.from_batches(pair).combine_chunks())[1]

    def _begins(self, events: Any) -> Any:
        """Whether each event is the first one of its key."""
        import numpy as np

        begins = np.zeros(events.num_rows, bool)
        begins[0] = True
        for key in self.keys:
            column = events.column(key)
            if events.num_rows > 1:
                begins[1:] |= ~is_same(
                    column.slice(1), column.slice(0, len(column) - 1)
                )
        return begins

    def _shortened(self, rest: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        import pyarrow as pa

        events = pa.Table.from_batches(rest)
        folded = pa.Table.from_batches(list(self._folded(events)))
        if folded.column(RAW)[0].as_py():
            return [events.combine_chunks().to_batches()[0]]
        return list(folded.drop_columns([RAW]).to_batches())

    def _folded(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa

        (events,) = table.combine_chunks().to_batches()
        begins = self._begins(events)
        (first,) = np.nonzero(begins)
        last = np.append(first[1:], len(begins)) - 1
        kind = np.asarray(events.column(_KIND))
        raw = np.maximum.reduceat(self._entangled(events, begins, first), first)
        if raw.any():
            (rows,) = np.nonzero(raw[np.cumsum(begins) - 1])
            yield _with_raw(events.take(pa.array(rows)), is_raw=True)
            first, last = first[~raw], last[~raw]
        if not len(first):
            return
        # Where the row that a key has at the end began: before it, nothing counts.
        resets = [Kind.INSERT, Kind.INSERT_GONE]
        if not self.marks:
            resets.append(Kind.DELETE)
        numbers = np.arange(len(kind))
        reset = np.maximum.accumulate(np.where(np.isin(kind, resets), numbers, -1))[
            last
        ]
        is_whole = reset >= first
        since = np.where(is_whole, reset, first)
        if not self.marks:
            # A delete itself gives no values to what comes after it.
            since = since + ((kind[since] == Kind.DELETE) & (since < last))
        columns, missing = self._values(events, since, last)
        net = np.where(is_whole, Kind.INSERT, Kind.UPDATE)
        if self.marks:
            gone = np.isin(
                kind[last], (Kind.DELETE, Kind.INSERT_GONE, Kind.UPDATE_GONE)
            )
            net = np.where(gone, net + Kind.INSERT_GONE, net)
        else:
            net = np.where(kind[last] == Kind.DELETE, Kind.DELETE, net)
        ends = pa.array(last)
        columns[_KIND] = pa.array(net.astype(np.int8))
        columns[_UNSENT] = missing
        for name in (_LSN, _SEQ, _FROM):
            columns[name] = events.column(name).take(ends)
        names = events.schema.names
        yield _with_raw(
            pa.RecordBatch.from_arrays([columns[name] for name in names], names),
            is_raw=False,
        )

    def _entangled(self, events: pa.RecordBatch, begins: Any, first: Any) -> Any:
        """Whether an event needs those of other keys, or a comparison of images."""
        import numpy as np

        kind = np.asarray(events.column(_KIND))
        entangled = np.isin(kind, (Kind.LEAVE, Kind.ARRIVE))
        if self.whole_images:
            # The delete may be that of the row before, whose successor came first.
            lsn = np.asarray(events.column(_LSN))
            numbers = np.arange(len(kind))
            inserted = np.maximum.accumulate(np.where(kind == Kind.INSERT, numbers, -1))
            own = inserted >= first[np.cumsum(begins) - 1]
            entangled |= (kind == Kind.DELETE) & own & (lsn[inserted] == lsn)
        return entangled

    def _values(
        self, events: pa.RecordBatch, since: Any, last: Any
    ) -> tuple[dict[str, pa.Array], pa.Array]:
        """The last value of each column that was sent since then, and the columns without one."""
        import numpy as np
        import pyarrow as pa

        unsent = unsent_rows(events.column(_UNSENT))
        ends = pa.array(last)
        numbers = np.arange(events.num_rows)
        columns: dict[str, pa.Array] = {}
        missing: dict[str, Any] = {}
        for name in events.schema.names:
            if name in EVENT_COLUMNS:
                continue
            if name not in unsent:
                columns[name] = events.column(name).take(ends)
                continue
            sent = np.ones(len(numbers), bool)
            sent[unsent[name]] = False
            latest = np.maximum.accumulate(np.where(sent, numbers, -1))[last]
            absent = latest < since
            if absent.any():
                missing[name] = absent
            columns[name] = events.column(name).take(pa.array(latest, mask=absent))
        kind = events.schema.field(_UNSENT).type
        if not missing:
            return columns, pa.nulls(len(last), kind)
        names = np.array(list(missing), object)
        flags = np.stack(list(missing.values()), axis=1)
        counts = flags.sum(axis=1)
        offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
        values = pa.array(names[np.nonzero(flags)[1]], pa.string())
        lists = pa.ListArray.from_arrays(
            pa.array(offsets), values, mask=pa.array(counts == 0)
        )
        return columns, lists.cast(kind)


def is_same(left: Any, right: Any) -> Any:
    """Whether values are equal, as keys: NaN is equal to itself, and no key is NULL."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    same = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        same = pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return np.asarray(same.fill_null(False))


def unsent_rows(unsent: Any) -> dict[str, Any]:
    """The numbers of the rows in which each column was not sent."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if unsent.null_count == len(unsent):
        return {}
    rows = np.asarray(pc.list_parent_indices(unsent))
    values = pc.list_flatten(unsent).dictionary_encode()
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    codes = np.asarray(values.indices)
    names = values.dictionary.to_pylist()
    return {name: rows[codes == code] for code, name in enumerate(names)}


def _with_raw(events: pa.RecordBatch, *, is_raw: bool) -> pa.RecordBatch:
    import pyarrow as pa

    flags = pa.array([is_raw]).take(pa.array([0] * events.num_rows, pa.int8()))
    return events.append_column(RAW, flags)


# Batches of one key that are kept before they are folded.
_MANY = 8
