"""The record of a history, and the versions of its first load, for both engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow._apply.keys import refuse_null_keys
from walrow._apply.modes import named
from walrow._apply.version_parts import loaded_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from walrow._apply.items import Token
    from walrow._apply.tables import AppliedTable
    from walrow._apply.version_parts import LoadPart, TransactionsPart


def dated(token: Token, part: LoadPart | TransactionsPart) -> Token:
    """The record of a part."""
    return token._replace(end=part.end, time=part.time, since=part.since)


def opened_by_load(applied: AppliedTable, part: LoadPart) -> Iterator[pa.RecordBatch]:
    """The versions that a load opens in a history without open versions.

    Raises:
        ApplyError: A key is NULL.
    """
    import pyarrow as pa

    kind = pa.timestamp("us", "UTC")
    since = pa.scalar(part.time, pa.int64()).cast(kind)
    for batch in loaded_rows(applied, part.lsn):
        refuse_null_keys(batch, applied)
        count = len(batch)
        columns = [batch.column(it) for it in applied.columns]
        found = dict(zip(applied.columns, columns, strict=True))
        found["_valid_from"] = pa.repeat(since, count)
        found["_valid_to"] = pa.nulls(count, kind)
        found["_is_current"] = pa.repeat(pa.scalar(True), count)
        found["_commit_lsn"] = batch.column(named("commit_lsn"))
        found["_seq"] = batch.column(named("seq"))
        yield pa.record_batch(found)
