"""A load of a history: its rows are compared with the open versions.

Equal rows stay open. Rows with other values are closed and opened at the time of the load, and rows that
the load lacks are closed. Both sides are divided by the hashes of their keys, into files if there is more than
one part, so that only one part of them is in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walrow._apply.keys import KeyParts, bad_key, key_values, numbered
from walrow._apply.modes import LSN, SEQ, named
from walrow._apply.versions import Ended, Opened, Source, merge_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from walrow._apply.tables import AppliedTable

__all__ = ["compared"]


def compared(
    applied: AppliedTable,
    kinds: pa.Schema,
    loaded: Iterable[pa.RecordBatch],
    opened: Iterable[pa.RecordBatch],
    time: int,
    *,
    columns: Sequence[str],
    parts: int,
    limit: int,
) -> Source | None:
    """The rows of a MERGE after a load. None if they are larger than the limit.

    Args:
        applied: The table.
        kinds: The types that the target has for the table's columns.
        loaded: The rows of the load, with the commit LSN and the seq of each.
        opened: The open versions of the target, with the table's columns.
        time: The valid time of the load, in microseconds since 1970.
        columns: The columns that the load has. Others are not compared.
        parts: Into how many parts they are divided.
        limit: The bytes of the result, at most.

    Raises:
        ApplyError: Two rows of the load have one key, or a key is NULL.
    """
    import pyarrow as pa

    news, olds, size = [], [], 0
    new_schema = pa.schema(
        [*kinds, pa.field(LSN, pa.int64()), pa.field(SEQ, pa.int64())]
    )
    with (
        KeyParts(parts, applied.keys, new_schema) as new,
        KeyParts(parts, applied.keys, kinds) as old,
    ):
        for batch in loaded:
            new.add(_shaped(batch, new_schema))
        for batch in opened:
            old.add(_shaped(batch, kinds))
        for at in range(parts):
            rows, keys = _different(applied, columns, new.table(at), old.batches(at))
            news.append(rows)
            olds.append(keys)
            size += rows.nbytes + keys.nbytes
            if size > limit:
                return None
    rows, keys = pa.concat_tables(news), pa.concat_tables(olds)
    opens = Opened(
        rows, [time] * len(rows), [None] * len(rows), rows.select([LSN, SEQ])
    )
    ends = Ended(keys, [time] * len(keys))
    return Source(merge_rows(applied.keys, kinds, opens, ends), None, len(rows))


def _different(
    applied: AppliedTable,
    columns: Sequence[str],
    new: pa.Table,
    old: Iterable[pa.RecordBatch],
) -> tuple[pa.Table, pa.Table]:
    """The rows to open, and the keys to close."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = list(applied.keys)
    places: dict[Any, int] = {}
    for at, key in enumerate(key_values([new.column(it) for it in keys])):
        if key is None:
            raise bad_key(applied, "null_key", "is NULL")
        if places.setdefault(key, at) != at:
            raise bad_key(applied, "duplicate_key", "is not unique: two rows have it")
    stays = bytearray(len(new))
    closed = []
    for batch in old:
        found = [places.get(it) for it in key_values([batch.column(it) for it in keys])]
        at = pa.array(found, pa.int64())
        is_equal = pc.is_valid(at)
        for name in columns:
            is_equal = pc.and_(
                is_equal, _equal(new.column(name).take(at), batch.column(name))
            )
        for place, equal in zip(found, is_equal.to_pylist(), strict=True):
            if equal and place is not None:
                stays[place] = True
        closed.append(batch.select(keys).filter(pc.invert(is_equal)))
    opens = pa.array([not it for it in stays], pa.bool_())
    schema = pa.schema([new.schema.field(name) for name in keys])
    return new.filter(opens), pa.Table.from_batches(closed, schema)


def _equal(one: Any, other: Any) -> Any:
    """Whether the rows of two columns have the same value. NULL equals NULL, and NaN equals NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

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
    import pyarrow as pa

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
