"""Reads `wire` bytes: backend messages, CopyData frames and all pgoutput messages.

Written from PostgreSQL's manual, to be simple instead of fast: it reads fields in the
manual's order, every message must end exactly where its frame ends, and impossible input
is a `ValueError`. It shares no code with walrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Frame:
    """One backend message.

    Attributes:
        kind: The payload's kind (`w`, `k`) of CopyData, else the message's own type.
        offset: Where it begins in the input.
        payload: The bytes after the length; for `w`, the bytes after its header.
        start, end, time: The header of `w`; `k` has no start.
        reply: Whether a `k` asks for a reply.
    """

    kind: str
    offset: int
    payload: bytes
    start: int = 0
    end: int = 0
    time: int = 0
    reply: bool = False


@dataclass(frozen=True)
class Cell:
    """One value of a tuple: `n` null, `u` unchanged, `t` text or `b` binary."""

    kind: str
    data: bytes = b""


Row: TypeAlias = tuple[Cell, ...]


@dataclass(frozen=True)
class Column:
    """One column of a Relation message."""

    key: bool
    name: str
    type_oid: int
    typmod: int


@dataclass(frozen=True)
class Begin:
    final_lsn: int
    commit_time: int
    xid: int


@dataclass(frozen=True)
class Commit:
    flags: int
    commit_lsn: int
    end_lsn: int
    commit_time: int


@dataclass(frozen=True)
class Origin:
    lsn: int
    name: str


@dataclass(frozen=True)
class Relation:
    xid: int | None
    oid: int
    schema: str
    name: str
    replica_identity: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Type:
    xid: int | None
    oid: int
    schema: str
    name: str


@dataclass(frozen=True)
class Insert:
    xid: int | None
    relation: int
    new: Row


@dataclass(frozen=True)
class Update:
    """An update; `old_kind` is `K`, `O`, or None without an old tuple."""

    xid: int | None
    relation: int
    old_kind: str | None
    old: Row
    new: Row


@dataclass(frozen=True)
class Delete:
    xid: int | None
    relation: int
    old_kind: str
    old: Row


@dataclass(frozen=True)
class Truncate:
    xid: int | None
    options: int
    relations: tuple[int, ...]


@dataclass(frozen=True)
class Message:
    xid: int | None
    flags: int
    lsn: int
    prefix: str
    content: bytes


@dataclass(frozen=True)
class StreamStart:
    xid: int
    first: int


@dataclass(frozen=True)
class StreamStop:
    pass


@dataclass(frozen=True)
class StreamCommit:
    xid: int
    flags: int
    commit_lsn: int
    end_lsn: int
    commit_time: int


@dataclass(frozen=True)
class StreamAbort:
    """An abort; LSN and time come with streaming=parallel only."""

    xid: int
    subxid: int
    abort_lsn: int | None
    abort_time: int | None


@dataclass(frozen=True)
class BeginPrepare:
    prepare_lsn: int
    end_lsn: int
    prepare_time: int
    xid: int
    gid: str


@dataclass(frozen=True)
class Prepare:
    flags: int
    prepare_lsn: int
    end_lsn: int
    prepare_time: int
    xid: int
    gid: str


@dataclass(frozen=True)
class CommitPrepared:
    flags: int
    commit_lsn: int
    end_lsn: int
    commit_time: int
    xid: int
    gid: str


@dataclass(frozen=True)
class RollbackPrepared:
    flags: int
    prepare_end_lsn: int
    rollback_end_lsn: int
    prepare_time: int
    rollback_time: int
    xid: int
    gid: str


@dataclass(frozen=True)
class StreamPrepare:
    flags: int
    prepare_lsn: int
    end_lsn: int
    prepare_time: int
    xid: int
    gid: str


class _Bytes:
    """A payload and the current place in it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left():
            msg = f"{size} bytes wanted, {self.left()} left"
            raise ValueError(msg)
        self.at += size
        return self.data[self.at - size : self.at]

    def left(self) -> int:
        return len(self.data) - self.at

    def unsigned(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def signed(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def letter(self) -> str:
        return self.take(1).decode("ascii")

    def string(self) -> str:
        end = self.data.index(b"\0", self.at)
        text = self.take(end - self.at).decode()
        self.take(1)
        return text

    def row(self) -> Row:
        return tuple(self._cell() for _ in range(self.unsigned(2)))

    def _cell(self) -> Cell:
        kind = self.letter()
        if kind in "nu":
            return Cell(kind)
        if kind in "tb":
            return Cell(kind, self.take(self.signed(4)))
        msg = f"unknown kind of cell: {kind!r}"
        raise ValueError(msg)


def frames(data: bytes) -> Iterator[Frame]:
    """Yields every backend message of a recording. The last one may be cut."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at + 1 : at + 5], "big")
        body = data[at + 5 : at + 1 + size]
        if len(data) < at + 5 or len(body) != size - 4:
            msg = f"the message at byte {at} is cut short or impossible"
            raise ValueError(msg)
        yield _frame(chr(data[at]), at, body)
        at += 1 + size


def _frame(kind: str, offset: int, body: bytes) -> Frame:
    if kind != "d":
        return Frame(kind, offset, body)
    fields = _Bytes(body)
    kind = fields.letter()
    if kind == "w":
        start, end, time = (fields.unsigned(8) for _ in range(3))
        return Frame("w", offset, fields.take(fields.left()), start, end, time)
    if kind == "k":
        end, time, reply = fields.unsigned(8), fields.signed(8), fields.unsigned(1)
        if fields.left():
            msg = "a keepalive is too long"
            raise ValueError(msg)
        return Frame("k", offset, b"", 0, end, time, reply == 1)
    msg = f"unknown kind of CopyData: {kind!r}"
    raise ValueError(msg)


def messages(data: bytes) -> Iterator[tuple[Frame, Any]]:
    """Yields every frame with its pgoutput message, or None if it has no message."""
    streaming = False
    for frame in frames(data):
        if frame.kind != "w":
            if frame.kind == "W":
                # A new session drops open stream blocks.
                streaming = False
            yield frame, None
            continue
        fields = _Bytes(frame.payload)
        message = _message(fields, streaming=streaming)
        if fields.left():
            msg = f"{fields.left()} bytes after {message}"
            raise ValueError(msg)
        if isinstance(message, StreamStart | StreamStop):
            started = isinstance(message, StreamStart)
            if started == streaming:
                msg = "chunks of streams do not nest"
                raise ValueError(msg)
            streaming = started
        yield frame, message


def _message(fields: _Bytes, *, streaming: bool) -> Any:  # noqa: PLR0911, PLR0912
    unsigned, signed, string = fields.unsigned, fields.signed, fields.string
    tag = fields.letter()
    xid = unsigned(4) if streaming and tag in "MRYIUDT" else None
    match tag:
        case "B":
            return Begin(unsigned(8), signed(8), unsigned(4))
        case "C":
            return Commit(unsigned(1), unsigned(8), unsigned(8), signed(8))
        case "O":
            return Origin(unsigned(8), string())
        case "R":
            return Relation(
                xid,
                unsigned(4),
                string(),
                string(),
                fields.letter(),
                tuple(
                    Column(unsigned(1) == 1, string(), unsigned(4), signed(4))
                    for _ in range(unsigned(2))
                ),
            )
        case "Y":
            return Type(xid, unsigned(4), string(), string())
        case "I":
            relation = unsigned(4)
            _expect(fields.letter(), "N")
            return Insert(xid, relation, fields.row())
        case "U":
            relation, part = unsigned(4), fields.letter()
            if part == "N":
                return Update(xid, relation, None, (), fields.row())
            _expect(part, "KO")
            old = fields.row()
            _expect(fields.letter(), "N")
            return Update(xid, relation, part, old, fields.row())
        case "D":
            relation, part = unsigned(4), fields.letter()
            _expect(part, "KO")
            return Delete(xid, relation, part, fields.row())
        case "T":
            count, options = unsigned(4), unsigned(1)
            return Truncate(xid, options, tuple(unsigned(4) for _ in range(count)))
        case "M":
            flags, lsn, prefix = unsigned(1), unsigned(8), string()
            return Message(xid, flags, lsn, prefix, fields.take(unsigned(4)))
        case "S":
            return StreamStart(unsigned(4), unsigned(1))
        case "E":
            return StreamStop()
        case "c":
            return StreamCommit(
                unsigned(4), unsigned(1), unsigned(8), unsigned(8), signed(8)
            )
        case "A":
            top, sub = unsigned(4), unsigned(4)
            if not fields.left():
                return StreamAbort(top, sub, None, None)
            return StreamAbort(top, sub, unsigned(8), signed(8))
        case "b":
            return BeginPrepare(
                unsigned(8), unsigned(8), signed(8), unsigned(4), string()
            )
        case "P" | "K" | "p":
            kinds = {"P": Prepare, "K": CommitPrepared, "p": StreamPrepare}
            return kinds[tag](
                unsigned(1),
                unsigned(8),
                unsigned(8),
                signed(8),
                unsigned(4),
                string(),
            )
        case "r":
            return RollbackPrepared(
                unsigned(1),
                unsigned(8),
                unsigned(8),
                signed(8),
                signed(8),
                unsigned(4),
                string(),
            )
        case _:
            msg = f"unknown message: {tag!r}"
            raise ValueError(msg)


def _expect(found: str, wanted: str) -> None:
    if found not in wanted:
        msg = f"{found!r} found, one of {wanted!r} wanted"
        raise ValueError(msg)


def counts(data: bytes, *, physical: bool = False) -> dict[str, Any]:
    """Counts frames, messages and cells by kind; for physical replication, only frames."""
    frame_kinds = Counter(frame.kind for frame in frames(data))
    tags: Counter[str] = Counter()
    cells: Counter[str] = Counter(dict.fromkeys("nutb", 0))
    for frame, message in () if physical else messages(data):
        if message is None:
            continue
        tags[chr(frame.payload[0])] += 1
        for row in (getattr(message, "old", ()), getattr(message, "new", ())):
            cells.update(cell.kind for cell in row)
    return {
        "frames": dict(sorted(frame_kinds.items())),
        "messages": dict(sorted(tags.items())),
        "cells": dict(cells),
        "bytes": len(data),
    }
