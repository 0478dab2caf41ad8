"""Types for annotations; nothing that is needed when a program runs."""

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
    """An Arrow schema or type of any library: `pa.schema(...)`, `pa.int64()`."""

    def __arrow_c_schema__(self) -> object:
        """Exports it."""


class BinaryFile(Protocol):
    """What can be read like a binary file."""

    def read(self, size: int, /) -> bytes | None:
        """Gives at most so many bytes, and none at the end."""


Buffer: TypeAlias = bytes | bytearray | memoryview
Framing: TypeAlias = Literal["wire", "copydata", "message"]
Policy: TypeAlias = Literal["error", "null", "sentinel"]
Profile: TypeAlias = Literal["arrow", "spark", "text"]
Source: TypeAlias = (
    str | os.PathLike[str] | BinaryFile | IO[bytes] | Buffer | Iterable[Any]
)
TableName: TypeAlias = str | tuple[str, str]
