"""Types for annotations, such as the options of each function.

```python
def read_orders(source: Source, **options: Unpack[Options]) -> walrow.Reader:
    return walrow.read(source, table="public.orders", **options)
```

`help(walrow.read)` describes the options. Their defaults are in the Rust core.
"""

from __future__ import annotations

import datetime as dt  # noqa: TC003 - get_type_hints looks it up
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, Literal, Protocol, TypeAlias, TypedDict

from walrow._core import Catalog  # noqa: TC001 - get_type_hints looks it up

__all__ = [
    "Absence",
    "ArrowSchemaExportable",
    "BatchOptions",
    "BinaryFile",
    "Buffer",
    "ChangesOptions",
    "Framing",
    "LiveSchemaOptions",
    "Options",
    "Policy",
    "Profile",
    "ProfileOptions",
    "SchemaOptions",
    "Source",
    "SparkOptions",
    "SparkSchemaOptions",
    "StateOptions",
    "TableName",
    "TableOptions",
]


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
Framing: TypeAlias = Literal["wire", "copydata", "message", "recvlogical"]
Policy: TypeAlias = Literal["error", "null", "sentinel"]
Profile: TypeAlias = Literal["arrow", "spark", "text"]
Source: TypeAlias = (
    str | os.PathLike[str] | BinaryFile | IO[bytes] | Buffer | Iterable[Any]
)
TableName: TypeAlias = str | tuple[str, str] | int


class LiveSchemaOptions(TypedDict, total=False):
    """The options that determine the columns and the range of every stream."""

    columns: Sequence[str] | None
    types: Mapping[str, ArrowSchemaExportable | str] | None
    unrepresentable: Policy | Mapping[str, Policy]
    catalog: Catalog | str | os.PathLike[str] | None
    metadata: Sequence[str] | None
    metadata_prefix: str
    envelope: bool
    start: int | str | None
    end: int | str | dt.datetime | None
    spool_memory: int
    spool_directory: str | os.PathLike[str] | None
    message_limit: int | None


class SparkSchemaOptions(LiveSchemaOptions, total=False):
    """The options that determine the columns of batches, in Spark too."""

    session: Mapping[str, str] | None
    late_start: bool
    unfinished: Absence


class ProfileOptions(TypedDict, total=False):
    """The options that Spark's functions determine themselves."""

    schema: ArrowSchemaExportable | None
    profile: Profile


class SchemaOptions(SparkSchemaOptions, ProfileOptions, total=False):
    """The options of `walrow.schema`."""

    framing: Framing | None


class BatchOptions(TypedDict, total=False):
    """The options that determine the rows of batches."""

    trim_bpchar: bool
    batch_rows: int
    batch_bytes: int
    batch_memory: int
    missing_table: Absence
    tables: Sequence[TableName] | None


class SparkOptions(SparkSchemaOptions, BatchOptions, total=False):
    """The options of `walrow.spark.decode`, besides its parameters."""


class TableOptions(TypedDict, total=False):
    """The options that choose the tables."""

    table: TableName | None
    side_tables: Sequence[str]


class Options(SchemaOptions, SparkOptions, TableOptions, total=False):
    """The options of `walrow.read` and `walrow.Decoder`."""


class StateOptions(ProfileOptions, total=False):
    """The options of `walrow.Log.state`, besides its parameters."""

    columns: Sequence[str] | None
    types: Mapping[str, ArrowSchemaExportable | str] | None
    unrepresentable: Policy | Mapping[str, Policy]
    catalog: Catalog | str | os.PathLike[str] | None
    session: Mapping[str, str] | None
    trim_bpchar: bool
    batch_rows: int
    batch_bytes: int
    batch_memory: int
    spool_memory: int
    spool_directory: str | os.PathLike[str] | None
    message_limit: int | None


class ChangesOptions(
    LiveSchemaOptions, ProfileOptions, BatchOptions, TableOptions, total=False
):
    """The options of `walrow.postgres.changes`, besides its parameters."""
