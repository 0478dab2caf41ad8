"""Types for annotations. Programs do not need them at run time."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO, Any, Literal, Protocol, TypeAlias

__all__ = [
    "ArrowSchemaExportable",
    "BinaryFile",
    "Buffer",
    "Framing",
    "Policy",
    "Profile",
    "Source",
    "TableName",
]


class ArrowSchemaExportable(Protocol):
    """An Arrow schema or type from any library: `pa.schema(...)`, `pa.int64()`."""

    def __arrow_c_schema__(self) -> object:
        """Exports the schema or type."""


class BinaryFile(Protocol):
    """An object that can be read like a binary file."""

    def read(self, size: int, /) -> bytes | None:
        """Returns at most `size` bytes, and no bytes at the end."""


Buffer: TypeAlias = bytes | bytearray | memoryview
Framing: TypeAlias = Literal["wire", "copydata", "message"]
Policy: TypeAlias = Literal["error", "null", "sentinel"]
Profile: TypeAlias = Literal["arrow", "spark", "text"]
Source: TypeAlias = (
    str | os.PathLike[str] | BinaryFile | IO[bytes] | Buffer | Iterable[Any]
)
TableName: TypeAlias = str | tuple[str, str]
