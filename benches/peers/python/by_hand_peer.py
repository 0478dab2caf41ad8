"""A loop by hand with struct: what one writes who has no library. Text, protocol 1."""

from __future__ import annotations

import struct
from typing import Any

from serve import Counts, payloads, serve

Row = list[str | None]


def parse(message: bytes) -> tuple[Any, ...]:  # noqa: PLR0911
    """A message as a tuple that begins with its tag."""
    tag = message[:1]
    if tag == b"I":
        (oid,) = struct.unpack_from(">I", message, 1)
        return "I", oid, _row(message, 6)[0]
    if tag == b"U":
        (oid,) = struct.unpack_from(">I", message, 1)
        old, at = None, 6
        if message[5:6] != b"N":
            old, at = _row(message, 6)
            at += 1
        return "U", oid, old, _row(message, at)[0]
    if tag == b"D":
        (oid,) = struct.unpack_from(">I", message, 1)
        return "D", oid, _row(message, 6)[0]
    if tag == b"B":
        return "B", *struct.unpack_from(">QqI", message, 1)
    if tag == b"C":
        return "C", *struct.unpack_from(">BQQq", message, 1)
    if tag == b"R":
        return _relation(message)
    if tag == b"T":
        count, options = struct.unpack_from(">IB", message, 1)
        return "T", options, struct.unpack_from(f">{count}I", message, 6)
    return chr(tag[0]), message[1:]


def _row(message: bytes, at: int) -> tuple[Row, int]:
    (count,) = struct.unpack_from(">H", message, at)
    at += 2
    row: Row = []
    for _ in range(count):
        kind = message[at]
        at += 1
        if kind in b"tb":
            (length,) = struct.unpack_from(">I", message, at)
            at += 4
            row.append(message[at : at + length].decode())
            at += length
        else:
            row.append(None)
    return row, at


def _relation(message: bytes) -> tuple[Any, ...]:
    (oid,) = struct.unpack_from(">I", message, 1)
    schema, name, rest = message[5:].split(b"\0", 2)
    identity, count = struct.unpack_from(">cH", rest)
    columns, rest = [], rest[3:]
    for _ in range(count):
        column, rest = rest[1:].split(b"\0", 1)
        columns.append((column.decode(), *struct.unpack_from(">Ii", rest)))
        rest = rest[8:]
    return "R", oid, schema.decode(), name.decode(), identity, columns


class ByHand:
    """The loop behind the protocol."""

    def run(self, capture: bytes) -> int:
        """Parses all messages."""
        items = 0
        for message in payloads(capture):
            parse(message)
            items += 1
        return items

    def count(self, capture: bytes) -> dict[str, Any]:
        """Counts messages and cells."""
        counts = Counts()
        for message in map(parse, payloads(capture)):
            counts.message(message[0])
            if message[0] in "IUD":
                for row in filter(None, message[2:]):
                    for value in row:
                        counts.cell(value)
        return vars(counts)


if __name__ == "__main__":
    serve(ByHand())
