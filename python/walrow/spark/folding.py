"""In executors: events of keys become one net change for each key.

All events of a table are folded at once: a net change has, for each column, the last value that
was sent since the last insert or delete. Keys that take part in key changes need each other:
their events are returned as they are, with `_walrow_raw`, and `key_changes` folds them.

A fold of net changes and later events gives what a fold of all events gives. So parts of a
batch are folded where they are decoded, and their net changes again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walrow.spark.change_rows import EVENT_COLUMNS, PREFIX, Kind, lists_of
from walrow.spark.key_changes import plain_tuples
from walrow.spark.key_hashes import hashes_of, is_same

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

__all__ = ["RAW", "Fold", "Folded", "unsent_rows"]

RAW = f"{PREFIX}raw"
_KIND, _LSN, _SEQ, _UNSENT, _FROM = EVENT_COLUMNS


class Folded(NamedTuple):
    """Net changes, and the events of other keys, both in the order of the hashes of their keys.

    Attributes:
        net: Net changes.
        net_hashes: The hashes of their keys.
        raw: Events that are left as they are.
        raw_hashes: The hashes of their keys.
    """

    net: pa.RecordBatch
    net_hashes: Any
    raw: pa.RecordBatch
    raw_hashes: Any


class Fold(NamedTuple):
    """A function over events, those of each key in their order: net changes out.

    Attributes:
        keys: The columns of the key.
        marks: Whether deletes mark rows, and keep their values.
        whole_images: Whether old images may be whole rows. Then a key may have two rows
            until the end of a transaction, as deferrable constraints allow.
    """

    keys: tuple[str, ...]
    marks: bool
    whole_images: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Folds all events, and says of each row whether it is left as it is."""
        import pyarrow as pa

        events = list(batches)
        if not events:
            return
        folded = self.of(pa.Table.from_batches(events))
        for rows, is_raw in ((folded.net, False), (folded.raw, True)):
            flags = pa.array([is_raw]).take(pa.array([0] * rows.num_rows, pa.int8()))
            yield rows.append_column(RAW, flags)

    def of(self, table: pa.Table) -> Folded:
        """Folds all events of a table, which has some."""
        import numpy as np
        import pyarrow as pa

        (events,) = table.combine_chunks().to_batches()
        hashes = hashes_of([events.column(key) for key in self.keys])
        order, begins = self._grouped(events, hashes)
        hashes = hashes[order]
        kind = np.asarray(events.column(_KIND))[order]
        (first,) = np.nonzero(begins)
        last = np.append(first[1:], len(begins)) - 1
        entangled = self._entangled(events, order, kind, first[np.cumsum(begins) - 1])
        is_raw = np.maximum.reduceat(entangled, first)
        rows = np.zeros(0, np.int64)
        if is_raw.any():
            (rows,) = np.nonzero(is_raw[np.cumsum(begins) - 1])
            first, last = first[~is_raw], last[~is_raw]
        raw = events.take(pa.array(order[rows]))
        net = self._net(events, order, kind, (first, last))
        return Folded(net, hashes[last], raw, hashes[rows])

    def _grouped(self, events: pa.RecordBatch, hashes: Any) -> tuple[Any, Any]:
        """An order in which keys are together, and whether each event is the first one of its key."""
        import numpy as np
        import pyarrow as pa

        order = np.argsort(hashes, kind="stable")
        begins = np.ones(len(order), bool)
        begins[1:] = hashes[order[1:]] != hashes[order[:-1]]
        (again,) = np.nonzero(~begins)
        one, other = pa.array(order[again]), pa.array(order[again - 1])
        columns = [events.column(key) for key in self.keys]
        if all(is_same(it.take(one), it.take(other)).all() for it in columns):
            return order, begins
        # Different keys with one hash.
        numbers: dict[Any, int] = {}
        codes = [numbers.setdefault(it, len(numbers)) for it in plain_tuples(columns)]
        order = np.lexsort((codes, hashes))
        begins[1:] = np.diff(np.asarray(codes)[order]) != 0
        return order, begins

    def _net(
        self, events: pa.RecordBatch, order: Any, kind: Any, ends: tuple[Any, Any]
    ) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        first, last = ends
        # Where the row that a key has at the end began: before it, nothing counts.
        resets = [Kind.INSERT, Kind.INSERT_GONE]
        if not self.marks:
            resets.append(Kind.DELETE)
        numbers = np.arange(len(kind))
        places = np.where(np.isin(kind, resets), numbers, -1)
        reset = np.maximum.accumulate(places)[last]
        is_whole = reset >= first
        since = np.where(is_whole, reset, first)
        if not self.marks:
            # A delete itself gives no values to what comes after it.
            since = since + ((kind[since] == Kind.DELETE) & (since < last))
        columns, missing = self._values(events, order, since, last)
        net = np.where(is_whole, Kind.INSERT, Kind.UPDATE)
        if self.marks:
            gone = (Kind.DELETE, Kind.INSERT_GONE, Kind.UPDATE_GONE)
            net = np.where(np.isin(kind[last], gone), net + Kind.INSERT_GONE, net)
        else:
            net = np.where(kind[last] == Kind.DELETE, Kind.DELETE, net)
        rows = pa.array(order[last])
        columns[_KIND] = pa.array(net.astype(np.int8))
        columns[_UNSENT] = missing
        for name in (_LSN, _SEQ, _FROM):
            columns[name] = events.column(name).take(rows)
        names = events.schema.names
        return pa.RecordBatch.from_arrays([columns[name] for name in names], names)

    def _entangled(
        self, events: pa.RecordBatch, order: Any, kind: Any, first: Any
    ) -> Any:
        """Whether an event needs those of other keys, or a comparison of images."""
        import numpy as np

        entangled = np.isin(kind, (Kind.LEAVE, Kind.ARRIVE))
        if self.whole_images:
            # The delete may be that of the row before, whose successor came first.
            lsn = np.asarray(events.column(_LSN))[order]
            numbers = np.arange(len(kind))
            inserted = np.maximum.accumulate(np.where(kind == Kind.INSERT, numbers, -1))
            own = (inserted >= first) & (lsn[inserted] == lsn)
            entangled |= np.isin(kind, (Kind.DELETE, Kind.UPDATE_GONE)) & own
        return entangled

    def _values(
        self, events: pa.RecordBatch, order: Any, since: Any, last: Any
    ) -> tuple[dict[str, pa.Array], pa.Array]:
        """The last value of each column that was sent since then, and the columns without one."""
        import numpy as np
        import pyarrow as pa

        unsent = unsent_rows(events.column(_UNSENT))
        ends = pa.array(order[last])
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
            latest = np.maximum.accumulate(np.where(sent[order], numbers, -1))[last]
            absent = latest < since
            if absent.any():
                missing[name] = absent
            rows = pa.array(order[latest], mask=absent)
            columns[name] = events.column(name).take(rows)
        kind = events.schema.field(_UNSENT).type
        if not missing:
            return columns, pa.nulls(len(last), kind)
        flags = np.stack(list(missing.values()), axis=1)
        return columns, lists_of(list(missing), flags).cast(kind)


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
