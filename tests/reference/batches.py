"""walrow's rows of a recording, in the form of the model's `change_rows`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import walrow


def batch_rows(data: bytes) -> list[dict[str, Any]]:
    """Returns the rows of all batches, as text; those of one table are in order."""
    rows = []
    for batch in walrow.read(data, profile="text", unfinished="ignore"):
        records = pa.record_batch(batch)
        values = records.select(records.schema.names[:-_METADATA]).to_pylist()
        metadata = records.select(records.schema.names[-_METADATA:]).to_pylist()
        times = records["_commit_timestamp"].cast(pa.int64()).to_pylist()
        for value, facts, time in zip(values, metadata, times, strict=True):
            rows.append(
                {
                    "table": batch.table,
                    "oid": batch.relation_oid,
                    **{name.removeprefix("_"): fact for name, fact in facts.items()},
                    "commit_timestamp": time - _EPOCH,
                    "values": value,
                }
            )
    return rows


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorts rows by commit and change, because each batch has rows of one table."""
    return sorted(rows, key=lambda row: (row["commit_lsn"], row["seq"], row["oid"]))


_METADATA = 7
#: The beginning of 2000 in microseconds since 1970.
_EPOCH = 946_684_800_000_000
