"""The keys of rows: equal as a target compares them, unique, and never NULL.

The server keeps the keys of a replica identity unique. Other keys are looked at while rows are read:
rows are divided by the hashes of their keys, into files if there is more than one part, so that only one
part of them is in memory.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from walrow._apply.tables import AppliedTable
from walrow._late import pa
from walrow._log.tables import KEYS
from walrow.errors import ApplyError


def key_values(columns: Sequence[Any]) -> list[Any]:
    """The keys of rows, as values that are equal if the target takes them for equal.

    A key with NULL in it is None.

    >>> import pyarrow as pa
    >>> key_values([pa.array([1, None]), pa.array([-0.0, 0.0])])
    [(1, 0.0), None]
    """
    lists = [_plain(it) for it in columns]
    if len(lists) == 1:
        return lists[0]
    return [None if None in it else it for it in zip(*lists, strict=True)]


def bad_key(applied: AppliedTable, code: str, what: str) -> ApplyError:
    """The error of a key that does not identify a row."""
    name = applied.table.name
    text = f"{name}: the key ({', '.join(applied.keys)}) of a row {what}"
    return ApplyError(
        text,
        code=code,
        table=name,
        advice="; choose columns that are unique and never NULL with ",
        remedies=(KEYS,),
    )


def refuse_null_keys(rows: pa.RecordBatch, applied: AppliedTable) -> None:
    """Refuses rows whose key has NULL in it.

    Raises:
        ApplyError: There is one.
    """
    if any(rows.column(name).null_count for name in applied.keys):
        raise bad_key(applied, "null_key", "is NULL")


def places_of(rows: pa.Table, applied: AppliedTable) -> dict[Any, int]:
    """The place of each key among rows.

    Raises:
        ApplyError: Two rows have one key, or a key is NULL.
    """
    places: dict[Any, int] = {}
    for at, key in enumerate(key_values([rows.column(it) for it in applied.keys])):
        if key is None:
            raise bad_key(applied, "null_key", "is NULL")
        if places.setdefault(key, at) != at:
            raise bad_key(applied, "duplicate_key", "is not unique: two rows have it")
    return places


def with_unique_keys(
    rows: Iterable[pa.RecordBatch], applied: AppliedTable, parts: int
) -> Iterator[pa.RecordBatch]:
    """The rows as they are, in so many parts. The end is an error if two of them have one key.

    Raises:
        ApplyError: Two rows have one key, or a key is NULL.
    """
    names = list(applied.keys)
    schema = pa.schema([(it, applied.own.field(it).type) for it in names])
    with KeyParts(parts, names, schema) as seen:
        for batch in rows:
            refuse_null_keys(batch, applied)
            keys = [batch.column(it) for it in names]
            seen.add(pa.record_batch(keys, schema=schema))
            yield batch
        for at in range(parts):
            places_of(seen.table(at), applied)


def parts_of(stream_bytes: int, limit: int) -> int:
    """Into how many parts rows of so many bytes in the stream are divided: each has about `limit`."""
    return 1 + _GROWTH * stream_bytes // limit


def numbered(kind: pa.DataType) -> pa.DataType:
    """A type with numbers for times and dates: Python has no years before 1 and after 9999.

    >>> import pyarrow as pa
    >>> numbered(pa.list_(pa.field("element", pa.date32())))
    ListType(list<element: int32>)
    """
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", numbered(kind.value_type)))
    if pa.types.is_struct(kind):
        parts = (kind.field(at) for at in range(kind.num_fields))
        return pa.struct([pa.field(it.name, numbered(it.type)) for it in parts])
    if (
        pa.types.is_timestamp(kind)
        or pa.types.is_time64(kind)
        or pa.types.is_duration(kind)
    ):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) else kind


class KeyParts:
    """Rows, divided by the hashes of their keys: in memory, or if there are several parts, in files."""

    def __init__(self, count: int, keys: Sequence[str], schema: pa.Schema) -> None:
        self.count, self._keys, self._schema = count, keys, schema
        self._memory: list[pa.RecordBatch] = []
        self._files: list[Any] = []
        self._open = contextlib.ExitStack()
        if count == 1:
            return
        folder = self._open.enter_context(
            tempfile.TemporaryDirectory(prefix="walrow-", ignore_cleanup_errors=True)
        )
        self._folder = Path(folder)
        self._files = [
            self._open.enter_context(pa.ipc.new_stream(self._place(at), schema))
            for at in range(count)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._open.close()

    def _place(self, at: int) -> str:
        return str(self._folder / str(at))

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""
        if self.count == 1:
            self._memory.append(batch)
            return
        keys = key_values([batch.column(it) for it in self._keys])
        rows: list[list[int]] = [[] for _ in range(self.count)]
        for row, key in enumerate(keys):
            rows[hash(key) % self.count].append(row)
        for file, each in zip(self._files, rows, strict=True):
            if each:
                file.write_batch(batch.take(pa.array(each, pa.int64())))

    def batches(self, at: int) -> Iterator[pa.RecordBatch]:
        """The rows of a part. No more are added then."""
        if self.count == 1:
            yield from self._memory
            return
        for file in self._files:
            file.close()
        with pa.ipc.open_stream(self._place(at)) as reader:
            yield from reader

    def table(self, at: int) -> pa.Table:
        """The rows of a part, as a table."""
        return pa.Table.from_batches(self.batches(at), self._schema).combine_chunks()


def _plain(column: Any) -> list[Any]:
    kind = column.type
    if pa.types.is_floating(kind):
        # NaN equals NaN, and -0.0 is 0.0.
        return [
            None if it is None else it + 0.0 if it == it else "NaN"  # noqa: PLR0124
            for it in column.to_pylist()
        ]
    return list(column.cast(numbered(kind)).to_pylist())


#: The bytes in Arrow of a byte of the stream, at most, about, and of Python's values.
_GROWTH = 8
