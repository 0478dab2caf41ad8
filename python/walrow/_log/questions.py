"""Questions to a log about one table: its TRUNCATEs, and its first row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from walrow._core import LogDirectory
from walrow._log.young_tables import FirstRow
from walrow._lsn import Lsn
from walrow._read.reading import frames


def truncates(log: LogDirectory, oid: int, since: Lsn) -> list[tuple[int, Lsn]]:
    """The transactions with a TRUNCATE of a table that were committed after an LSN.

    Their IDs and the LSNs of their commits, in the order of these. Only segments that have a
    TRUNCATE are read.
    """
    numbers = {at for at, version in enumerate(log.versions()) if version[0] == oid}
    found: list[tuple[int, Lsn]] = []
    for segment in _segments(log, since):
        if any(it[0] in numbers and it[2] for it in segment["tables"]):
            start, end = max(since, segment["start"]), segment["end"]
            messages = _messages(log, start=start, end=end)
            found[:0] = [
                (xid, commit)
                for xid, commit, message in messages
                if message.name == "Truncate"
                and oid in message.relations
                and start <= commit < end
            ]
    return found


def versions_between(
    log: LogDirectory, since: Lsn, until: Lsn
) -> list[tuple[int, Lsn, dict[str, int]]]:
    """The definitions of tables between two LSNs: the OID, the LSN of the last use, the columns' types.

    The index lists them, with the last transaction of each segment that used them.
    """
    return [
        (oid, end, {column[0]: column[1] for column in columns})
        for (oid, _, _, columns, _), end in uses(log, since)
        if since < end <= until
    ]


def uses(log: LogDirectory, since: Lsn) -> Iterator[tuple[Any, Lsn]]:
    """The definitions of tables in segments that end after an LSN, with the LSN of the last use."""
    versions = log.versions()
    for segment in _segments(log, since):
        for number, _, _, _, end, _ in segment["tables"]:
            yield versions[number], end


def first_row(log: LogDirectory, oid: int) -> FirstRow | None:
    """The first transaction in the log that has a row of a table."""
    columns = 0
    for xid, commit, message in _messages(log, tables=[oid]):
        if message.name == "Relation" and message.fields["oid"] == oid:
            columns = len(message.fields["columns"])
        elif message.name in _ROWS and message.relation == oid:
            return FirstRow(xid, commit, columns)
    return None


def _segments(log: LogDirectory, since: Lsn) -> Iterator[Any]:
    """The segments that end after an LSN, from the last one on."""
    for place in reversed(range(len(log))):
        segment = log.segment(place)
        if segment is None or segment["end"] <= since:
            break
        yield segment


def _messages(log: LogDirectory, **part: Any) -> Iterator[tuple[int, Lsn, Any]]:
    """The messages of a part of a log, each with its transaction and the LSN of the commit."""
    xid, commit = 0, Lsn(0)
    with log.open(**part) as file:
        for message in (frame.message for frame in frames(file)):
            if message is not None and message.name == "Begin":
                xid, commit = int(message.xid), message.final_lsn
            elif message is not None:
                yield xid, commit, message


_ROWS = frozenset({"Insert", "Update", "Delete"})
