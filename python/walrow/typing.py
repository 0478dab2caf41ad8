"""Types for annotations, such as the options of each function, and what some of them return.

```python
def read_orders(source: Source, **options: Unpack[Options]) -> walrow.Reader:
    return walrow.read(source, table="public.orders", **options)
```

`help(walrow.read)` describes the options. Their defaults are in the Rust core.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import (
    IO,
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    TypeAlias,
    TypedDict,
)

from walrow._by_table import ByTable
from walrow._core import BatchIterator, Catalog, Frame, Frames, Message
from walrow._late import late, listed
from walrow._results import Results
from walrow._unresolved import UnresolvedType

if TYPE_CHECKING:
    from walrow._read.survey.items import (
        Column,
        Commit,
        Ddl,
        Note,
        Table,
        Tables,
        Version,
    )

__all__ = [
    "Absence",
    "ArrowSchemaExportable",
    "At",
    "BatchIterator",
    "BatchOptions",
    "BinaryFile",
    "Buffer",
    "ByTable",
    "ChangeColumnOptions",
    "ChangesOptions",
    "Column",
    "Commit",
    "DataSourceOptions",
    "Ddl",
    "Deletes",
    "Duration",
    "Engine",
    "Frame",
    "Frames",
    "Framing",
    "LiveSchemaOptions",
    "MemoryOptions",
    "Message",
    "Mode",
    "NetOptions",
    "NeverSent",
    "Note",
    "Options",
    "Policy",
    "Profile",
    "ProfileOptions",
    "Results",
    "SchemaOptions",
    "SessionOptions",
    "Size",
    "SizeOptions",
    "Source",
    "SparkOptions",
    "SparkSchemaOptions",
    "StateOptions",
    "Table",
    "TableName",
    "TableOptions",
    "Tables",
    "Truncates",
    "UnresolvedType",
    "ValueOptions",
    "Version",
    "Versions",
]

# Type checkers see the imports above, so they know which names there are.
if not TYPE_CHECKING:
    __getattr__ = late(
        __name__,
        {
            "walrow._read.survey.items": (
                "Column",
                "Commit",
                "Ddl",
                "Note",
                "Table",
                "Tables",
                "Version",
            ),
        },
    )

__dir__ = listed(__all__)


#: An LSN, a datetime with a time zone, a text of either, `"-1h"`, `"1h ago"` or `"today"`.
At: TypeAlias = int | str | dt.datetime
#: Seconds, a timedelta, or a text such as `"12h"` or `"7d"`.
Duration: TypeAlias = float | str | dt.timedelta
#: Bytes, or a text such as `"64MiB"` or `"50GB"`.
Size: TypeAlias = int | str


class ArrowSchemaExportable(Protocol):
    """An Arrow schema or type from any library: `pa.schema(...)`, `pa.int64()`."""

    def __arrow_c_schema__(self) -> object:
        """Exports the schema or type."""


class BinaryFile(Protocol):
    """An object that can be read like a binary file."""

    def read(self, size: int, /) -> bytes | None:
        """Returns at most `size` bytes, and no bytes at the end."""


Absence: TypeAlias = Literal["error", "ignore"]
Buffer: TypeAlias = bytes | bytearray | memoryview
Deletes: TypeAlias = Literal["apply", "soft", "ignore"]
#: The engine that writes a target.
Engine: TypeAlias = Literal["spark", "delta"]
Framing: TypeAlias = Literal["wire", "copydata", "message", "recvlogical"]
#: The kind of a target: rows as they are, all versions of rows, or all changes.
Mode: TypeAlias = Literal["current", "history", "changes"]
NeverSent: TypeAlias = Literal["error", "null"]
Policy: TypeAlias = Literal["error", "null", "sentinel"]
Profile: TypeAlias = Literal["arrow", "spark", "text"]
Source: TypeAlias = (
    str | os.PathLike[str] | BinaryFile | IO[bytes] | Buffer | Iterable[Any]
)
TableName: TypeAlias = str | tuple[str, str] | int
Truncates: TypeAlias = Literal["apply", "ignore"]
Versions: TypeAlias = Literal["one", "union"]


class ValueOptions(TypedDict, total=False):
    """The options that choose columns, and determine how their values are read."""

    columns: Sequence[str] | None
    types: Mapping[str, ArrowSchemaExportable | str] | None
    unrepresentable: Policy | Mapping[str, Policy]
    catalog: Catalog | str | os.PathLike[str] | None


class SessionOptions(TypedDict, total=False):
    """The options of a stream that was written under other settings."""

    session: Mapping[str, str] | None


class SizeOptions(TypedDict, total=False):
    """The options that determine how large batches are."""

    batch_rows: int
    batch_bytes: Size


class MemoryOptions(TypedDict, total=False):
    """The options that limit what waits in memory."""

    spool_memory: Size
    spool_directory: str | os.PathLike[str] | None
    message_limit: Size | None


class ChangeColumnOptions(ValueOptions, total=False):
    """The options that determine the columns of changes."""

    metadata: Sequence[str] | None
    metadata_prefix: str
    envelope: bool


class LiveSchemaOptions(ChangeColumnOptions, MemoryOptions, total=False):
    """The options that determine the columns and the range of every stream."""

    start: At | None
    end: At | None


class SparkSchemaOptions(LiveSchemaOptions, SessionOptions, total=False):
    """The options that determine the columns of batches, in Spark too."""

    late_start: bool
    unfinished: Absence


class ProfileOptions(TypedDict, total=False):
    """The options that Spark's functions determine themselves."""

    schema: ArrowSchemaExportable | None
    profile: Profile


class SchemaOptions(SparkSchemaOptions, ProfileOptions, total=False):
    """The options of `walrow.schema`."""


class BatchOptions(SizeOptions, total=False):
    """The options that determine the rows of batches."""

    missing_table: Absence
    tables: Sequence[TableName] | None


class SparkOptions(SparkSchemaOptions, BatchOptions, total=False):
    """The options of `walrow.spark.decode`, besides its parameters."""


class TableOptions(TypedDict, total=False):
    """The options that choose the tables."""

    table: TableName | None


class Options(SchemaOptions, SparkOptions, TableOptions, total=False):
    """The options of `walrow.read`, and of the classes `walrow.Decoder` and `walrow.Reader`.

    The classes take sizes only as numbers of bytes.
    """


class StateOptions(
    ValueOptions,
    SessionOptions,
    SizeOptions,
    MemoryOptions,
    ProfileOptions,
    total=False,
):
    """The options of `walrow.Log.state`, besides its parameters."""


class NetOptions(StateOptions, total=False):
    """The options of `walrow.Log.net`, besides its parameters."""

    metadata_prefix: str


class DataSourceOptions(ChangeColumnOptions, SizeOptions, MemoryOptions, total=False):
    """The options of `walrow.read` that Spark's data source has, besides its own."""


class ChangesOptions(
    LiveSchemaOptions, ProfileOptions, BatchOptions, TableOptions, total=False
):
    """The options of `walrow.postgres.changes`, besides its parameters."""
