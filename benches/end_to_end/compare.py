"""The final rows of the server, and of a Delta table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from workload import SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

KEY = SCHEMA.names[0]


def server_rows(dsn: str) -> pa.Table:
    """All rows of the table on the server, by their keys."""
    names = ", ".join(SCHEMA.names)
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(f"SELECT {names} FROM orders".encode()).fetchall()  # noqa: S608
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(column, it.type) for column, it in zip(columns, SCHEMA, strict=True)
    ]
    return pa.table(arrays, schema=SCHEMA).sort_by(KEY)


def delta_rows(path: Path) -> pa.Table:
    """All rows of a Delta table, by their keys, as the server's types."""
    table = DeltaTable(path).to_pyarrow_table(columns=SCHEMA.names)
    return table.cast(SCHEMA).sort_by(KEY)


def difference(server: pa.Table, table: pa.Table) -> str | None:
    """Says which columns differ, without values. None if all rows are the same."""
    if len(server) != len(table):
        return f"{len(table):,} rows in place of {len(server):,}"
    bad = [it for it in SCHEMA.names if not server[it].equals(table[it])]
    return f"other values in {', '.join(bad)}" if bad else None


def has_row(path: Path, key: int) -> bool:
    """Whether a Delta table has the row of a key."""
    found = DeltaTable(path).to_pyarrow_dataset()
    return bool(found.count_rows(filter=ds.field(KEY) == key))
