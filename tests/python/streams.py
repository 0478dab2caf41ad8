"""Streams by hand: one transaction that inserts rows into one table.

What a server would send of types that no server here has, such as those of pgvector and
PostGIS, and of values one at a time. The layout is the manual's, not walrow's.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: A value as text, in which surrogates stand for bytes that are not UTF-8; as binary; or NULL.
Cell = str | bytes | None


@dataclass(frozen=True)
class Column:
    """A column as a Relation message describes it.

    Attributes:
        name: Its name.
        oid: Its type.
        typmod: Its type's modifier.
        type_name: Schema and name, for a Type message before the Relation.
    """

    name: str
    oid: int
    typmod: int = -1
    type_name: tuple[str, str] | None = None


def messages(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> list[bytes]:
    """Bare pgoutput messages, for `framing="message"`."""
    begin = b"B" + struct.pack("!qqI", LSN, TIME, 700)
    commit = b"C" + struct.pack("!bqqq", 0, LSN, LSN + 8, TIME)
    types = [
        b"Y" + struct.pack("!I", column.oid) + _string(schema) + _string(name)
        for column in columns
        if column.type_name
        for schema, name in [column.type_name]
    ]
    return [begin, *types, _relation(columns), *map(_insert, rows), commit]


def wire(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> bytes:
    """The same as a connection's bytes, for `framing="wire"`."""
    frames = [
        b"w" + struct.pack("!qqq", 0, 0, TIME) + each
        for each in messages(columns, rows)
    ]
    return b"".join(
        b"d" + struct.pack("!I", len(frame) + 4) + frame for frame in frames
    )


def _relation(columns: Sequence[Column]) -> bytes:
    head = b"R" + struct.pack("!I", TABLE) + _string("public") + _string("t")
    parts = [
        b"\0" + _string(column.name) + struct.pack("!Ii", column.oid, column.typmod)
        for column in columns
    ]
    return head + b"d" + struct.pack("!H", len(parts)) + b"".join(parts)


def _insert(row: Sequence[Cell]) -> bytes:
    head = b"I" + struct.pack("!I", TABLE) + b"N" + struct.pack("!H", len(row))
    return head + b"".join(map(_cell, row))


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


TABLE = 16400
LSN = 0x1000
#: The beginning of 2024, in microseconds since 2000.
TIME = 757_382_400_000_000
