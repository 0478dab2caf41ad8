"""Change rows as a target with `mode="changes"` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow._apply.modes import CHANGE_METADATA, COMMIT_DATE, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from walrow._apply.tables import AppliedTable


def change_rows(
    applied: AppliedTable, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    """The change rows between two LSNs, with the target's names and the day of the commit."""
    import pyarrow as pa

    for batch in applied.changes(start, end):
        times = batch.column(named("commit_timestamp"))
        yield pa.record_batch(
            [*batch.columns, times.cast(pa.date32())],
            [*applied.columns, *(f"_{it}" for it in CHANGE_METADATA), COMMIT_DATE],
        )
