"""Up to which LSN a log has everything, also if its database is quiet.

A segment ends with a transaction. What the server has decoded since, without a transaction for the
log, is known only to the journal `_open` of the receiver: positions. A state as of such a position
is the state at the end of the segments.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._lsn import Lsn
from walrow._read.reading import frames
from walrow.errors import DecodeError, LogError, UnfinishedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walrow._core import Message

__all__ = ["Quiet", "quiet_of", "reached"]


class Quiet(NamedTuple):
    """What a journal says.

    Attributes:
        begin: The end of the last segment before it.
        position: Up to where the server has sent everything, and no transaction came after the
            segment.
        has_more: Whether transactions came, which are not published yet.
        timeline: The timeline of what came last, and where that began, as far as it says so.
    """

    begin: Lsn
    position: Lsn
    has_more: bool
    timeline: tuple[int, Lsn | None] | None = None


def reached(end: Lsn, read: Callable[[str], bytes]) -> Quiet:
    """Up to where a log has everything.

    Args:
        end: The end of its segments.
        read: Reads an object of the log, as `Log.read_object`.
    """
    try:
        found = quiet_of(read("_open"))
    except (OSError, LogError):
        # A copy has no journal.
        found = None
    # A position before the last segment says nothing.
    if found is None or found.begin < end:
        return Quiet(end, end, has_more=False)
    return found


def quiet_of(journal: bytes) -> Quiet | None:
    """What the bytes of a journal say. None if it is empty, or its head is not whole.

    A block that is not whole is the end: the receiver writes it at the moment.
    """
    blocks = _blocks(journal)
    try:
        head = json.loads(next(blocks))
        found = Quiet(Lsn(head["begin"]), Lsn(head["begin"]), has_more=False)
    except (StopIteration, ValueError, KeyError, TypeError):
        return None
    try:
        for block in blocks:
            for frame in frames(block, framing="wire"):
                if frame.message is not None:
                    fact = _fact(frame.message)
                    if fact is None:
                        return found._replace(has_more=True)
                    found = _learned(found, fact)
    except (DecodeError, UnfinishedError, ValueError, KeyError, TypeError):
        return found._replace(has_more=True)
    return found


def _fact(message: Message) -> dict[str, Any] | None:
    """The fact of a message. None if it is not walrow's own."""
    fields = message.fields
    # No server sends this LSN.
    if message.name != "Message" or fields["prefix"] != "walrow" or fields["lsn"]:
        return None
    fact: dict[str, Any] = json.loads(bytes(fields["content"]))
    return fact


def _learned(found: Quiet, fact: dict[str, Any]) -> Quiet:
    if fact["fact"] == "position":
        return found._replace(position=max(found.position, Lsn(fact["lsn"])))
    if fact["fact"] == "timeline":
        start = fact.get("start")
        began = None if start is None else Lsn(start)
        return found._replace(timeline=(int(fact["timeline"]), began))
    return found


def _blocks(journal: bytes) -> Iterator[bytes]:
    """The contents of blocks that follow each other: see crates/walrow-log/src/format/journal.rs."""
    at, expected, last_mark = 0, 0, 0
    while len(journal) >= at + _HEAD.size:
        size, _, number, _, before, mark = _HEAD.unpack_from(journal, at)
        start, end = at + _HEAD.size, at + _HEAD.size + (size & ~_BETWEEN)
        if number != expected or before != last_mark or len(journal) < end:
            return
        yield journal[start:end]
        at, expected, last_mark = end, number + 1, mark


_HEAD = struct.Struct("<IIIIII")
_BETWEEN = 1 << 31
