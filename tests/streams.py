"""Streams written by hand: frames of a server, and transactions that insert rows.

They contain types that no server here has, such as PostGIS's, and single values. The layout
follows PostgreSQL's manual, not walrow's code.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TABLE = 16400
#: The beginning of 2024, in microseconds since 2000.
TIME = 757_382_400_000_000

#: A value as text, with surrogates for bytes that are not UTF-8; as binary; or NULL.
Cell = str | bytes | None


@dataclass(frozen=True)
class Column:
    """A column as a Relation message describes it.

    Attributes:
        name: Its name.
        oid: Its type.
        typmod: Its type's modifier.
        type_name: Schema and name, for a Type message before the Relation.
        is_key: Whether it is part of the replica identity.
    """

    name: str
    oid: int
    typmod: int = -1
    type_name: tuple[str, str] | None = None
    is_key: bool = False


def messages(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> list[bytes]:
    """A transaction of one table, as bare messages for `framing="message"`."""
    types = [
        b"Y" + struct.pack("!I", column.oid) + _string(schema) + _string(name)
        for column in columns
        if column.type_name
        for schema, name in [column.type_name]
    ]
    return [begin(), *types, relation(columns), *map(insert, rows), commit()]


def wire(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> bytes:
    """The same transaction as a connection's bytes, for `framing="wire"`."""
    return wired(*messages(columns, rows))


def wired(*messages: bytes) -> bytes:
    """Messages as a connection's bytes."""
    return b"".join(map(data, messages))


def backend(kind: bytes, body: bytes) -> bytes:
    """A message of the connection: its kind, its length and its body."""
    return kind + struct.pack("!I", len(body) + 4) + body


def data(message: bytes, start: int = 0, end: int = 0) -> bytes:
    """A message of pgoutput in XLogData in CopyData."""
    return backend(b"d", b"w" + struct.pack("!QQq", start, end, TIME) + message)


def keepalive(end: int) -> bytes:
    """A keepalive that asks for no reply."""
    return backend(b"d", b"k" + struct.pack("!Qq?", end, 0, False))


#: The beginning of a session: CopyBothResponse.
SESSION = b"W\0\0\0\x07\0\0\0"


def begin(xid: int = 700, lsn: int = 0x1000) -> bytes:
    """A Begin; `lsn` is the LSN of the commit record."""
    return b"B" + struct.pack("!QqI", lsn, TIME, xid)


def commit(lsn: int = 0x1000, end: int | None = None) -> bytes:
    """The Commit of a transaction that began with the same LSN."""
    return b"C\0" + struct.pack("!QQq", lsn, lsn + 8 if end is None else end, TIME)


def relation(
    columns: Sequence[Column],
    oid: int = TABLE,
    name: str = "t",
    schema: str = "public",
) -> bytes:
    """A Relation whose replica identity is the default one."""
    parts = [
        bytes([column.is_key])
        + _string(column.name)
        + struct.pack("!Ii", column.oid, column.typmod)
        for column in columns
    ]
    head = b"R" + struct.pack("!I", oid) + _string(schema) + _string(name)
    return head + b"d" + struct.pack("!H", len(parts)) + b"".join(parts)


def insert(row: Sequence[Cell], oid: int = TABLE) -> bytes:
    """An Insert into a table."""
    head = b"I" + struct.pack("!I", oid) + b"N" + struct.pack("!H", len(row))
    return head + b"".join(map(_cell, row))


def message(prefix: str, content: bytes) -> bytes:
    """A transactional logical message."""
    head = b"M\x01" + struct.pack("!Q", 0x1000) + _string(prefix)
    return head + struct.pack("!I", len(content)) + content


def renamed(frame: bytes, old: bytes, new: bytes) -> bytes:
    """A frame with some bytes replaced, and its new length."""
    return backend(frame[:1], frame[5:].replace(old, new))


def format_lsn(lsn: int) -> str:
    """An LSN as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFF_FFFF:X}"


def _cell(cell: Cell) -> bytes:
    if cell is None:
        return b"n"
    if isinstance(cell, str):
        kind, data = b"t", cell.encode(errors="surrogateescape")
    else:
        kind, data = b"b", cell
    return kind + struct.pack("!I", len(data)) + data


def _string(text: str) -> bytes:
    return text.encode(errors="surrogateescape") + b"\0"
