"""Batches as HTML, for notebooks."""

from __future__ import annotations

import html
import importlib.util
from typing import TYPE_CHECKING, Any

from walrow._late import pa
from walrow._results import counted, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walrow._core import Batch


#: The rows of a batch that are shown, and the characters of a value.
_ROWS = 10
_CHARACTERS = 80


def batch(batch: Batch) -> str:
    """Shows a batch's columns, types and first rows. The rows need pyarrow."""
    types = batch.schema.types
    heads = [
        f"{html.escape(name)}<br><small>{html.escape(kind)}</small>"
        for name, kind in zip(batch.column_names, types, strict=True)
    ]
    rows: list[list[str]] = []
    if importlib.util.find_spec("pyarrow") is not None:
        records = pa.record_batch(batch).slice(0, _ROWS)
        columns = [_values(column) for column in records.columns]
        rows = [list(row) for row in zip(*columns, strict=True)]
    shown = f"first {len(rows)} of " if len(rows) < batch.num_rows else ""
    caption = (
        f"<b>{html.escape(batch.table)}</b>: {shown}{counted(batch.num_rows, 'row')}, "
        f"{counted(batch.num_columns, 'column')}"
    )
    return table(caption, heads, rows)


def _values(column: Any) -> Iterable[str]:
    """Values as text. Some have no Python value, such as a timestamp in the year 30000."""
    for scalar in column:
        if not scalar.is_valid:
            yield "<i>NULL</i>"
            continue
        try:
            text = str(scalar.as_py())
        except (ValueError, OverflowError):
            text = str(scalar.cast("string"))
        if len(text) > _CHARACTERS:
            text = f"{text[: _CHARACTERS - 1]}…"
        yield html.escape(text)
