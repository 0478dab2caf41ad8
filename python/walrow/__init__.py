"""PostgreSQL's logical replication stream as typed Arrow, losing nothing.

>>> import walrow
>>> for batch in walrow.read("tests/data/18/rows.text.wire"):
...     print(batch.table, batch.num_rows)
public.item 10
public.stock 7

- `read` converts a capture to batches; `Decoder` converts a stream as it arrives.
- `messages` returns every message of a stream unchanged; `frames` also returns the frames.
- `tables` lists the tables of a stream, with their changes.
- `receive` writes the changes of a live server into a log, and `seal` those of captures.
- `load` asks the receiver for the rows that tables have, at their place in the log.
- `Log` is a directory of committed transactions, for any number of readers.
- `Catalog` holds the definitions of user-defined types and of tables, which a stream
  lacks. `schema` returns a table's schema from it; `walrow.postgres` reads one from a
  server.
- `Lsn` is an int that prints as PostgreSQL prints an LSN.
- walrow's own errors are subclasses of `walrow.Error`: see `walrow.errors`.

Batches and readers implement the Arrow PyCapsule interface, so pyarrow, polars, DuckDB
and others read them directly. walrow neither requires nor imports any of these
libraries.
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
    ApplyError,
    ConnectionLostError,
    DecodeError,
    Error,
    LogError,
    OptionError,
    Remedy,
    ReplicationError,
    SchemaError,
    SettingError,
    SpoolError,
    UnfinishedError,
    UnrepresentableError,
)
from walrow.load_requests import cancel_load, load
from walrow.log import Log
from walrow.lsn import Lsn
from walrow.reading import frames, messages, read
from walrow.receiving import receive
from walrow.schemas import schema
from walrow.sealing import seal
from walrow.survey import tables
from walrow.unresolved import UnresolvedType

__all__ = [
    "UNCHANGED",
    "ApplyError",
    "Batch",
    "Catalog",
    "ConnectionLostError",
    "DecodeError",
    "Decoder",
    "Error",
    "Frame",
    "Log",
    "LogError",
    "Lsn",
    "Message",
    "OptionError",
    "Reader",
    "Remedy",
    "ReplicationError",
    "Schema",
    "SchemaError",
    "SettingError",
    "SpoolError",
    "UnfinishedError",
    "UnrepresentableError",
    "UnresolvedType",
    "__version__",
    "cancel_load",
    "frames",
    "load",
    "messages",
    "read",
    "receive",
    "schema",
    "seal",
    "tables",
]
