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
- `backup` takes base backups of a server, and receives its WAL.
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

from typing import TYPE_CHECKING

from walrow import errors
from walrow._core import (
    UNCHANGED,
    Batch,
    Catalog,
    Decoder,
    Reader,
    Schema,
    __version__,
)
from walrow._late import late, listed
from walrow._lsn import Lsn
from walrow.errors import Error

if TYPE_CHECKING:
    from walrow import backup, delta, log, postgres, spark, typing
    from walrow._log.requests import load
    from walrow._log.sealing import seal
    from walrow._read.reading import frames, messages, read
    from walrow._read.schemas import schema
    from walrow._read.survey import tables
    from walrow._receive.receiving import receive
    from walrow.log import Log

__all__ = [
    "UNCHANGED",
    "Batch",
    "Catalog",
    "Decoder",
    "Error",
    "Log",
    "Lsn",
    "Reader",
    "Schema",
    "__version__",
    "backup",
    "delta",
    "errors",
    "frames",
    "load",
    "log",
    "messages",
    "postgres",
    "read",
    "receive",
    "schema",
    "seal",
    "spark",
    "tables",
    "typing",
]

# Type checkers see the imports above, so they know which names there are.
if not TYPE_CHECKING:
    __getattr__ = late(
        __name__,
        {
            "walrow._log.requests": ("load",),
            "walrow._log.sealing": ("seal",),
            "walrow._read.reading": ("frames", "messages", "read"),
            "walrow._read.schemas": ("schema",),
            "walrow._read.survey": ("tables",),
            "walrow._receive.receiving": ("receive",),
            "walrow.log": ("Log",),
        },
        modules=("backup", "delta", "log", "postgres", "spark", "typing"),
    )

__dir__ = listed(__all__)
