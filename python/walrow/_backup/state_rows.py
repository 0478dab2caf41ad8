"""The digests of a table's rows in a log, as `scratch_tables` has them for a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow._backup.comparing import Buckets, Row, Rows, hash_and_bucket, row_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from walrow._core import Reader

__all__ = ["bucket_rows", "column_names", "state_buckets", "state_rows"]


def column_names(state: Reader) -> list[str]:
    """The columns of a state."""
    import pyarrow as pa

    return list(pa.schema(state.schema).names)


def state_buckets(
    state: Reader | None, columns: Sequence[str], key: Sequence[str]
) -> Buckets:
    """The counts and sums of a state.

    Args:
        state: The rows, as PostgreSQL's text. None without rows.
        columns: The columns.
        key: The key's columns. Empty without a key.
    """
    found = Buckets()
    counts, sums = found.counts, found.sums
    for bucket, hash_, _ in _rows(state, columns, key):
        counts[bucket] += 1
        sums[bucket] += hash_
    return found


def state_rows(
    state: Reader | None,
    columns: Sequence[str],
    key: Sequence[str],
    buckets: Collection[int],
) -> Rows:
    """The rows of some buckets of a state, without their values."""
    return bucket_rows(_rows(state, columns, key), buckets)


def bucket_rows(
    rows: Iterator[tuple[int, int, tuple[str | None, ...] | None]],
    buckets: Collection[int],
) -> Rows:
    """The rows of some buckets."""
    found: Rows = Rows()
    for bucket, hash_, texts in rows:
        if bucket in buckets:
            found[Row(texts, hash_)] += 1
    return found


def _rows(
    state: Reader | None, columns: Sequence[str], key: Sequence[str]
) -> Iterator[tuple[int, int, tuple[str | None, ...] | None]]:
    """The bucket, the hash and the key of each row."""
    import pyarrow as pa

    places = [columns.index(name) for name in key]
    for batch in state or ():
        arrays = pa.record_batch(batch)
        values = [arrays.column(name).to_pylist() for name in columns]
        # Without a column, a row is still a row.
        rows = zip(*values, strict=True) if values else [()] * batch.num_rows
        for row in rows:
            hash_, bucket = hash_and_bucket(row_text(row))
            if not places:
                yield bucket, hash_, None
                continue
            texts = tuple(row[place] for place in places)
            yield hash_and_bucket(row_text(texts))[1], hash_, texts
