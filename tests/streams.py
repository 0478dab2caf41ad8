"""Streams written by hand, for tests and benches: frames of a server, and messages of pgoutput.

They contain types that no server here has, such as PostGIS's, and single values. The layout
follows PostgreSQL's manual, not walrow's code. With `xid`, a message is one of a chunk of a streamed
transaction.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TABLE = 16400
#: The beginning of 2024, in microseconds since 2000.
TIME = 757_382_400_000_000
#: 2000-01-01, where PostgreSQL begins to count, in microseconds since 1970.
EPOCH = 946_684_800_000_000


class _Unsent:
    pass


#: An unchanged TOAST value, which is not sent.
UNSENT = _Unsent()
#: A value as text, with surrogates for bytes that are not UTF-8; as binary; NULL; or not sent.
Cell = str | bytes | _Unsent | None


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
    """A transaction of one table, as bare messages."""
    types = [
        b"Y" + struct.pack("!I", column.oid) + _string(schema) + _string(name)
        for column in columns
        if column.type_name
        for schema, name in [column.type_name]
    ]
    return [begin(), *types, relation(columns), *map(insert, rows), commit()]


def wire(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> bytes:
    """The same transaction as a connection's bytes."""
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


def keepalive(end: int, clock: int = 0) -> bytes:
    """A keepalive that asks for no reply."""
    return backend(b"d", b"k" + struct.pack("!Qq?", end, clock, False))


#: The beginning of a session: CopyBothResponse.
SESSION = b"W\0\0\0\x07\0\0\0"


def begin(xid: int = 700, lsn: int = 0x1000, time: int | None = None) -> bytes:
    """A Begin; `lsn` is the LSN of the commit record, `time` the commit time."""
    return b"B" + struct.pack("!QqI", lsn, TIME if time is None else time, xid)


def commit(lsn: int = 0x1000, end: int | None = None, time: int | None = None) -> bytes:
    """The Commit of a transaction that began with the same LSN."""
    end = lsn + 8 if end is None else end
    return b"C\0" + struct.pack("!QQq", lsn, end, TIME if time is None else time)


def relation(
    columns: Sequence[Column],
    oid: int = TABLE,
    name: str = "t",
    schema: str = "public",
    xid: int | None = None,
    *,
    identity: str = "d",
) -> bytes:
    """A Relation, with the letter of its replica identity."""
    parts = [
        bytes([column.is_key])
        + _string(column.name)
        + struct.pack("!Ii", column.oid, column.typmod)
        for column in columns
    ]
    head = _head(b"R", xid, oid) + _string(schema) + _string(name)
    return head + identity.encode() + struct.pack("!H", len(parts)) + b"".join(parts)


def insert(row: Sequence[Cell], oid: int = TABLE, xid: int | None = None) -> bytes:
    """An Insert into a table."""
    return _head(b"I", xid, oid) + b"N" + _tuple(row)


def update(
    row: Sequence[Cell],
    oid: int = TABLE,
    key: Sequence[Cell] | None = None,
    *,
    is_whole: bool = False,
) -> bytes:
    """An Update of a table, with the old key if it has changed, or the whole old row."""
    before = b"" if key is None else _old(key, is_whole=is_whole)
    return _head(b"U", None, oid) + before + b"N" + _tuple(row)


def delete(key: Sequence[Cell], oid: int = TABLE, *, is_whole: bool = False) -> bytes:
    """A Delete with the key of the row, or the whole row."""
    return _head(b"D", None, oid) + _old(key, is_whole=is_whole)


def _old(row: Sequence[Cell], *, is_whole: bool) -> bytes:
    return (b"O" if is_whole else b"K") + _tuple(row)


def truncate(*oids: int) -> bytes:
    """A Truncate of tables."""
    return b"T" + struct.pack(f"!IB{len(oids)}I", len(oids), 0, *oids)


def message(
    prefix: str, content: bytes, lsn: int = 0x1000, *, transactional: bool = True
) -> bytes:
    """A logical message."""
    head = b"M" + struct.pack("!?Q", transactional, lsn) + _string(prefix)
    return head + struct.pack("!I", len(content)) + content


def stream_start(xid: int = 700, *, first: bool = False) -> bytes:
    """A Stream Start: the next chunk of a streamed transaction, or its first one."""
    return b"S" + struct.pack("!I?", xid, first)


STREAM_STOP = b"E"


def stream_commit(xid: int = 700, lsn: int = 0x1000) -> bytes:
    """The Stream Commit of a transaction."""
    return b"c" + struct.pack("!IBQQq", xid, 0, lsn, lsn + 8, TIME)


def stream_abort(xid: int, subxid: int) -> bytes:
    """A Stream Abort of a subtransaction."""
    return b"A" + struct.pack("!II", xid, subxid)


def renamed(frame: bytes, old: bytes, new: bytes) -> bytes:
    """A frame with some bytes replaced, and its new length."""
    return backend(frame[:1], frame[5:].replace(old, new))


def format_lsn(lsn: int) -> str:
    """An LSN as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFF_FFFF:X}"


def _head(kind: bytes, xid: int | None, oid: int) -> bytes:
    return kind + b"".join(struct.pack("!I", it) for it in (xid, oid) if it is not None)


def _tuple(row: Sequence[Cell]) -> bytes:
    return struct.pack("!H", len(row)) + b"".join(map(_cell, row))


def _cell(cell: Cell) -> bytes:
    if cell is None:
        return b"n"
    if isinstance(cell, _Unsent):
        return b"u"
    if isinstance(cell, str):
        kind, data = b"t", cell.encode(errors="surrogateescape")
    else:
        kind, data = b"b", cell
    return kind + struct.pack("!I", len(data)) + data


def _string(text: str) -> bytes:
    return text.encode(errors="surrogateescape") + b"\0"
