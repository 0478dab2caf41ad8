"""How deltalake writes files."""

from __future__ import annotations

from typing import Any

from walrow._late import pa


def writer_properties(schema: pa.Schema) -> Any:
    """The settings for files with these columns: floats have no statistics there.

    The least and the greatest value leave out NaN. Spark reads them in files, whatever the table's log
    says, and does not find rows with NaN. In a table with column mapping, files have
    other names, and then no column has statistics.

    Args:
        schema: The columns.

    Returns:
        The settings. None for deltalake's own.
    """
    from deltalake import ColumnProperties, WriterProperties

    if not any(_has_floats(it.type) for it in schema):
        return None
    found = ColumnProperties(statistics_enabled="PAGE")
    plain = [
        it.name
        for it in schema
        if not (_has_floats(it.type) or pa.types.is_nested(it.type))
    ]
    return WriterProperties(
        # Without this line, files are not compressed.
        compression="SNAPPY",
        default_column_properties=ColumnProperties(statistics_enabled="NONE"),
        column_properties=dict.fromkeys(plain, found),
    )


def _has_floats(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind)) or any(
        _has_floats(kind.field(at).type) for at in range(kind.num_fields)
    )
