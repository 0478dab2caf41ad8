"""Questions to a log about one table: its TRUNCATEs, and its first row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow.reading import frames

if TYPE_CHECKING:
    from walrow._core import LogDirectory
    from walrow.lsn import Lsn

__all__ = ["first_xid", "is_truncated"]


def is_truncated(log: LogDirectory, oid: int, since: Lsn) -> bool:
    """Whether a TRUNCATE of a table was committed after an LSN, and is published.

    It reads at most one segment, which begins before the LSN.
    """
    numbers = {at for at, version in enumerate(log.versions()) if version[0] == oid}
    for place in reversed(range(len(log))):
        segment = log.segment(place)
        if segment is None or segment["end"] <= since:
            break
        if not any(
            number in numbers and truncates
            for number, _, truncates, *_ in segment["tables"]
        ):
            continue
        if segment["start"] >= since or _has_truncate(log, segment["end"], oid, since):
            return True
    return False


def _has_truncate(log: LogDirectory, end: Lsn, oid: int, since: Lsn) -> bool:
    commit = since
    with log.open(start=since, end=end) as file:
        for frame in frames(file):
            message = frame.message
            if message is None:
                continue
            if message.name == "Begin":
                commit = message.final_lsn
            elif (
                message.name == "Truncate"
                and oid in message.relations
                and commit > since
            ):
                return True
    return False


def first_xid(log: LogDirectory, oid: int) -> int | None:
    """The ID of the first transaction in the log that has a row of a table."""
    xid = None
    with log.open(tables=[oid]) as file:
        for frame in frames(file):
            message = frame.message
            if message is None:
                continue
            if message.name == "Begin":
                xid = int(message.xid)
            elif message.name in _ROWS and message.relation == oid:
                return xid
    return None


_ROWS = frozenset({"Insert", "Update", "Delete"})
