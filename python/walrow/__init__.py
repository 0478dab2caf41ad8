"""PostgreSQL's logical replication stream as typed Arrow, losing nothing.

>>> import walrow
>>> for batch in walrow.read("tests/data/18/rows.text.wire"):
...     print(batch.table, batch.num_rows)
public.item 10
public.stock 7

- `read` turns a capture into batches, `Decoder` a stream as it comes in.
- `messages` shows every frame and message of a stream as it is.
- `Catalog` holds what a stream does not say of types and tables, `schema` gives a table's
  schema from it; `walrow.postgres` reads one from a server.
- All errors are `walrow.Error`s: see `walrow.errors`.

Batches and readers are handed over through the Arrow PyCapsule interface, so pyarrow,
polars, DuckDB and others take them as they are; none of them is needed or imported.
"""

from __future__ import annotations

from walrow._core import (
    UNCHANGED,
    Batch,
    Catalog,
    Decoder,
    Frame,
    Message,
    Reader,
    Schema,
    __version__,
)
from walrow.errors import (
    DecodeError,
    Error,
    LogError,
    OptionError,
    ReplicationError,
    SchemaError,
    SettingError,
    SpoolError,
    UnrepresentableError,
)
from walrow.reading import messages, read, schema

__all__ = [
    "UNCHANGED",
    "Batch",
    "Catalog",
    "DecodeError",
    "Decoder",
    "Error",
    "Frame",
    "LogError",
    "Message",
    "OptionError",
    "Reader",
    "ReplicationError",
    "Schema",
    "SchemaError",
    "SettingError",
    "SpoolError",
    "UnrepresentableError",
    "__version__",
    "messages",
    "read",
    "schema",
]
