"""Questions to a log about one table: its TRUNCATEs, and its first row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow._read.reading import frames

if TYPE_CHECKING:
    from walrow._core import LogDirectory
    from walrow._lsn import Lsn


def truncates(log: LogDirectory, oid: int, since: Lsn) -> list[tuple[int, Lsn]]:
    """The transactions with a TRUNCATE of a table that were committed after an LSN.

    Their IDs and the LSNs of their commits, in the order of these. Only segments that have a TRUNCATE are read.
    """
    numbers = {at for at, version in enumerate(log.versions()) if version[0] == oid}
    found: list[tuple[int, Lsn]] = []
    for place in reversed(range(len(log))):
        segment = log.segment(place)
        if segment is None or segment["end"] <= since:
            break
        if any(
            number in numbers and truncates
            for number, _, truncates, *_ in segment["tables"]
        ):
            start = max(since, segment["start"])
            found = [*_truncates(log, oid, start, segment["end"]), *found]
    return found


def _truncates(
    log: LogDirectory, oid: int, since: Lsn, end: Lsn
) -> list[tuple[int, Lsn]]:
    found, commit, xid = [], since, 0
    with log.open(start=since, end=end) as file:
        for frame in frames(file):
            message = frame.message
            if message is None:
                continue
            if message.name == "Begin":
                commit, xid = message.final_lsn, int(message.xid)
            elif (
                message.name == "Truncate"
                and oid in message.relations
                and since <= commit < end
            ):
                found.append((xid, commit))
    return found


def first_row(log: LogDirectory, oid: int) -> tuple[int, Lsn] | None:
    """The first transaction in the log that has a row of a table: its ID, and its commit's LSN."""
    found = None
    with log.open(tables=[oid]) as file:
        for frame in frames(file):
            message = frame.message
            if message is None:
                continue
            if message.name == "Begin":
                found = int(message.xid), message.final_lsn
            elif message.name in _ROWS and message.relation == oid:
                return found
    return None


_ROWS = frozenset({"Insert", "Update", "Delete"})
