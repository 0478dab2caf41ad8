"""Questions to a log about one table: its TRUNCATEs, and its first row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walrow._log.young_tables import FirstRow
from walrow._lsn import Lsn
from walrow._read.reading import frames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walrow._core import LogDirectory


def truncates(log: LogDirectory, oid: int, since: Lsn) -> list[tuple[int, Lsn]]:
    """The transactions with a TRUNCATE of a table that were committed after an LSN.

    Their IDs and the LSNs of their commits, in the order of these. Only segments that have a
    TRUNCATE are read.
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


def versions_between(
    log: LogDirectory, since: Lsn, until: Lsn
) -> list[tuple[int, Lsn, list[str]]]:
    """The definitions of tables between two LSNs: the OID, the LSN of the last use, the columns.

    The index lists them, with the last transaction of each segment that used them.
    """
    return [
        (oid, end, [column[0] for column in columns])
        for (oid, _, _, columns, _), end in uses(log, since)
        if since < end <= until
    ]


def uses(log: LogDirectory, since: Lsn) -> Iterator[tuple[Any, Lsn]]:
    """The definitions of tables in segments that end after an LSN, with the LSN of the last use."""
    versions = log.versions()
    for place in reversed(range(len(log))):
        segment = log.segment(place)
        if segment is None or segment["end"] <= since:
            break
        for number, _, _, _, end, _ in segment["tables"]:
            yield versions[number], end


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


def first_row(log: LogDirectory, oid: int) -> FirstRow | None:
    """The first transaction in the log that has a row of a table."""
    xid, commit, columns = 0, Lsn(0), 0
    with log.open(tables=[oid]) as file:
        for frame in frames(file):
            message = frame.message
            if message is None:
                continue
            if message.name == "Begin":
                xid, commit = int(message.xid), message.final_lsn
            elif message.name == "Relation" and message.fields["oid"] == oid:
                columns = len(message.fields["columns"])
            elif message.name in _ROWS and message.relation == oid:
                return FirstRow(xid, commit, columns)
    return None


_ROWS = frozenset({"Insert", "Update", "Delete"})
