"""A load of a history: its rows are compared with the open versions.

Equal rows stay open. Rows with other values are closed and opened at the time of the load, and rows that
the load lacks are closed. Both sides are divided by their keys, so that only one part of them is in memory.

The result is the source of a MERGE, or if that does not fit into the memory, all rows that replace the open ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from walrow._apply.keys import KeyParts, key_values, numbered, places_of
from walrow._apply.modes import (
    IS_CURRENT,
    LSN,
    SEQ,
    VALID_FROM,
    VALID_TO,
    named,
)
from walrow._apply.tables import AppliedTable
from walrow._apply.versions import Source, merge_rows
from walrow._late import pa, pc


def loaded_parts(
    applied: AppliedTable,
    kinds: pa.Schema,
    loaded: Iterable[pa.RecordBatch],
    parts: int,
) -> KeyParts:
    """The rows of a load, as the target has them, divided into parts by their keys. Close it."""
    schema = pa.schema([*kinds, pa.field(LSN, pa.int64()), pa.field(SEQ, pa.int64())])
    new = KeyParts(parts, applied.keys, schema)
    for batch in loaded:
        new.add(_shaped(batch, schema))
    return new


def compared(
    applied: AppliedTable,
    kinds: pa.Schema,
    new: KeyParts,
    old: KeyParts,
    time: int,
    *,
    columns: Sequence[str],
    limit: int,
) -> Source | None:
    """The rows of a MERGE after a load. None if they are larger than the limit.

    Args:
        applied: The table.
        kinds: The types that the target has for the table's columns.
        new: The rows of the load, from `loaded_parts`.
        old: The open versions of the target, with the table's columns.
        time: The valid time of the load, in microseconds since 1970.
        columns: The columns that the load has. Others are not compared.
        limit: The bytes of the result, at most.

    Raises:
        ApplyError: Two rows of the load have one key, or a key is NULL.
    """
    news, olds, size = [], [], 0
    keys = list(applied.keys)
    for at in range(new.count):
        rows = _Rows(applied, columns, new.table(at))
        closed = [
            batch.select(keys).filter(pc.invert(rows.are_in(batch)))
            for batch in old.batches(at)
        ]
        fields = pa.schema([kinds.field(name) for name in keys])
        news.append(rows.others())
        olds.append(pa.Table.from_batches(closed, fields))
        size += news[-1].nbytes + olds[-1].nbytes
        if size > limit:
            return None
    opened, ended = pa.concat_tables(news), pa.concat_tables(olds)
    times = pa.repeat(pa.scalar(time, pa.int64()), len(opened))
    opened = opened.append_column(VALID_FROM, times)
    opened = opened.append_column(VALID_TO, pa.nulls(len(opened), pa.int64()))
    times = pa.repeat(pa.scalar(time, pa.int64()), len(ended))
    ended = ended.append_column(VALID_TO, times)
    return Source(merge_rows(applied.keys, kinds, opened, ended), None, len(opened))


def replaced(
    applied: AppliedTable,
    new: KeyParts,
    old: KeyParts,
    time: int,
    *,
    columns: Sequence[str],
    count: Counter[str],
) -> Iterator[pa.RecordBatch]:
    """The rows that replace others after a load, one batch after the other.

    Args:
        applied: The table.
        new: The rows of the load, from `loaded_parts`.
        old: The rows that they replace, with all columns: all open versions. Others stay as they are.
        time: As in `compared`.
        columns: As in `compared`.
        count: Gets the numbers of versions that are `opened`, `closed`, and `removed` as empty ones.

    Raises:
        ApplyError: As in `compared`.
    """
    moment = pa.scalar(time, pa.int64()).cast(pa.timestamp("us", "UTC"))
    for at in range(new.count):
        rows = _Rows(applied, columns, new.table(at))
        for batch in old.batches(at):
            is_open = pc.fill_null(batch.column(IS_CURRENT), fill_value=False)
            yield batch.filter(pc.invert(is_open))
            opened = batch.filter(is_open)
            is_equal = rows.are_in(opened)
            yield opened.filter(is_equal)
            ended = opened.filter(pc.invert(is_equal))
            is_empty = pc.greater_equal(ended.column(VALID_FROM), moment)
            closed = ended.filter(pc.invert(is_empty))
            count["closed"] += len(closed)
            count["removed"] += len(ended) - len(closed)
            closed = closed.set_column(
                closed.schema.get_field_index(VALID_TO),
                closed.schema.field(VALID_TO),
                pa.repeat(moment, len(closed)),
            )
            yield closed.set_column(
                closed.schema.get_field_index(IS_CURRENT),
                closed.schema.field(IS_CURRENT),
                pa.repeat(pa.scalar(False), len(closed)),
            )
        for batch in rows.others().to_batches():
            count["opened"] += len(batch)
            values = {it: batch.column(it) for it in [*applied.columns, LSN, SEQ]}
            values[VALID_FROM] = pa.repeat(moment, len(batch))
            values[VALID_TO] = pa.nulls(len(batch), moment.type)
            values[IS_CURRENT] = pa.repeat(pa.scalar(True), len(batch))
            yield pa.record_batch(values)


class _Rows:
    """The rows of a part of a load, which versions are looked for in."""

    def __init__(
        self, applied: AppliedTable, columns: Sequence[str], rows: pa.Table
    ) -> None:
        self._keys, self._columns, self._rows = applied.keys, columns, rows
        self._places = places_of(rows, applied)
        self._found = bytearray(len(rows))

    def are_in(self, versions: pa.RecordBatch) -> Any:
        """Says of each version whether it has an equal row."""
        keys = key_values([versions.column(it) for it in self._keys])
        places = [self._places.get(it) for it in keys]
        at = pa.array(places, pa.int64())
        is_equal = pc.is_valid(at)
        for name in self._columns:
            own = self._rows.column(name).take(at)
            is_equal = pc.and_(is_equal, _equal(own, versions.column(name)))
        for place, equal in zip(places, is_equal.to_pylist(), strict=True):
            if equal and place is not None:
                self._found[place] = True
        return is_equal

    def others(self) -> pa.Table:
        """The rows that no version was equal to."""
        return self._rows.filter(pa.array([not it for it in self._found], pa.bool_()))


def _equal(one: Any, other: Any) -> Any:
    """Whether the rows of two columns have the same value. NULL equals NULL, and NaN equals NaN."""
    if isinstance(one, pa.ChunkedArray):
        one = one.combine_chunks()
    if pa.types.is_nested(one.type):
        kind = numbered(one.type)
        pairs = zip(
            one.cast(kind).to_pylist(), other.cast(kind).to_pylist(), strict=True
        )
        # NaN in a list has a text that equals itself.
        return pa.array([a == b or repr(a) == repr(b) for a, b in pairs], pa.bool_())
    found = pc.fill_null(pc.equal(one, other), fill_value=False)
    found = pc.or_(found, pc.and_(pc.is_null(one), pc.is_null(other)))
    if pa.types.is_floating(one.type):
        both = pc.and_(pc.is_nan(one), pc.is_nan(other))
        found = pc.or_(found, pc.fill_null(both, fill_value=False))
    return found


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the names and types of a schema."""
    names = {LSN: named("commit_lsn"), SEQ: named("seq")}
    columns = []
    for field in schema:
        name = field.name
        if name not in batch.schema.names:
            name = names[name]
        column = batch.column(name)
        if not column.type.equals(field.type):
            column = column.cast(field.type, safe=True)
        columns.append(column)
    return pa.record_batch(columns, schema=schema)
