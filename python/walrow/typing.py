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
    "ArrowSchemaExportable",
    "At",
    "BatchIterator",
    "BinaryFile",
    "ByTable",
    "ChangesOptions",
    "Column",
    "Commit",
    "Ddl",
    "Deletes",
    "Duration",
    "Frame",
    "Frames",
    "Framing",
    "Message",
    "Mode",
    "NeverSent",
    "Note",
    "Options",
    "Policy",
    "Profile",
    "Results",
    "SchemaOptions",
    "Size",
    "Source",
    "SparkOptions",
    "SparkSchemaOptions",
    "StateOptions",
    "Table",
    "TableName",
    "Tables",
    "Truncates",
    "UnresolvedType",
    "Version",
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


Deletes: TypeAlias = Literal["apply", "soft", "ignore"]
Framing: TypeAlias = Literal["wire", "copydata", "message", "recvlogical"]
#: The kind of a target: rows as they are, all versions of rows, or all changes.
Mode: TypeAlias = Literal["current", "history", "changes"]
NeverSent: TypeAlias = Literal["error", "null"]
Policy: TypeAlias = Literal["error", "null", "sentinel"]
Profile: TypeAlias = Literal["arrow", "spark", "text"]
Source: TypeAlias = (
    str
    | os.PathLike[str]
    | BinaryFile
    | IO[bytes]
    | bytes
    | bytearray
    | memoryview
    | Iterable[Any]
)
TableName: TypeAlias = str | tuple[str, str] | int
Truncates: TypeAlias = Literal["apply", "ignore"]


class _ValueOptions(TypedDict, total=False):
    """The options that determine values, and the memory that they take."""

    columns: Sequence[str] | None
    types: Mapping[str, ArrowSchemaExportable | str] | None
    unrepresentable: Policy | Mapping[str, Policy]
    catalog: Catalog | str | os.PathLike[str] | None
    spool_memory: Size
    spool_directory: str | os.PathLike[str] | None
    message_limit: Size | None


class _ChangeOptions(_ValueOptions, total=False):
    """The options that choose changes and their metadata, too."""

    metadata: Sequence[str] | None
    metadata_prefix: str
    envelope: bool
    start: At | None
    end: At | None


class SparkSchemaOptions(_ChangeOptions, total=False):
    """The options that determine the columns of batches, in Spark too."""

    session: Mapping[str, str] | None
    late_start: bool
    unfinished: Literal["error", "ignore"]


class SchemaOptions(SparkSchemaOptions, total=False):
    """The options of `walrow.schema`."""

    schema: ArrowSchemaExportable | None
    profile: Profile


class SparkOptions(SparkSchemaOptions, total=False):
    """The options of `walrow.spark.decode`, besides its parameters."""

    batch_rows: int
    batch_bytes: Size
    missing_table: Literal["error", "ignore"]
    gaps: Literal["error", "cross"]
    tables: Sequence[TableName] | None


class Options(SchemaOptions, SparkOptions, total=False):
    """The options of `walrow.read`, and of the classes `walrow.Decoder` and `walrow.Reader`.

    The classes take sizes only as numbers of bytes.
    """

    table: TableName | None


class StateOptions(_ValueOptions, total=False):
    """The options of `walrow.Log.state` and `walrow.Log.net`, besides their parameters."""

    session: Mapping[str, str] | None
    schema: ArrowSchemaExportable | None
    profile: Profile
    batch_rows: int
    batch_bytes: Size


class ChangesOptions(_ChangeOptions, total=False):
    """The options of `walrow.postgres.changes`, besides its parameters."""

    table: TableName | None
    tables: Sequence[TableName] | None
    schema: ArrowSchemaExportable | None
    profile: Profile
    missing_table: Literal["error", "ignore"]
    batch_rows: int
    batch_bytes: Size
