"""The parts of a log: segments, tables, and the source of its changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from walrow._log.left import Left, split
from walrow._log.marks import Mark, unless_emptied
from walrow._lsn import Lsn
from walrow._results import Result, result
from walrow.typing import Truncates


@result
class SourceIdentity(Result):
    """The server, database and slot that the changes of a log come from.

    Attributes:
        system_identifier: The system identifier of the cluster. None for a capture, which
            does not contain it.
        database: The database.
        slot: The replication slot.
    """

    system_identifier: str | None
    database: str | None
    slot: str | None

    @property
    def words(self) -> str:
        """The source in a message."""
        if self.system_identifier is None:
            return "a capture"
        return f"slot {self.slot} of database {self.database} of system {self.system_identifier}"


@result
class LogColumn(Result):
    """A column of a version of a table.

    Attributes:
        name: Its name.
        type_oid: The OID of its type.
        type_modifier: Its type modifier, or -1.
        key: Whether it is part of the replica identity.
    """

    name: str
    type_oid: int
    type_modifier: int
    key: bool


@result
class LogVersion(Result):
    """A table with one set of columns.

    Attributes:
        name: The table, as `schema.name`.
        columns: Its columns.
        replica_identity: `"default"`, `"nothing"`, `"full"` or `"index"`.
        rows: The number of rows that were inserted, updated or deleted.
        truncates: The number of TRUNCATEs. A load has one, too: it replaces all rows.
        bytes: Bytes of these messages.
        schema: Its schema.
    """

    name: str
    columns: tuple[LogColumn, ...]
    replica_identity: str
    rows: int
    truncates: int
    bytes: int
    schema: str | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """The schema, and the name in it."""
        return split(self.name, self.schema)


@result
class LogTable(Result):
    """A table of a log.

    Attributes:
        oid: Its OID.
        versions: Its versions, in the order of their last changes. Empty for a table that
            needs a load and has no changes yet, or whose changes were removed.
        last: Where the last transaction with changes of it ends. 0/0 without one.
        loaded: The LSN where its last load ends. None if it was never loaded: then the
            log lacks the rows from before.
        needs_load: Why the rows differ from the server's table until it is loaded
            again (see `walrow.load`), as far as the receiver has noticed: the reasons of all
            open marks. None if it is whole.
        marks: When and why it was not whole, as far as the receiver has noticed.
        name: Its name now, as `schema.name`. The receiver's last look knows it, unless the
            table has changed since then.
        schema: Its schema.
        left: Since when it is not published any more, and why. None if it is, as far as the
            receiver knows.
    """

    oid: int
    versions: tuple[LogVersion, ...]
    last: Lsn
    loaded: Lsn | None
    needs_load: str | None
    marks: tuple[Mark, ...]
    name: str
    schema: str | None = None
    left: Left | None = None

    def for_target(self, truncates: Truncates, start: Lsn) -> LogTable:
        """The table with the marks that concern a target with this policy and position."""
        if truncates == "apply":
            return self
        marks = unless_emptied(self.marks, start, self.loaded)
        return replace(self, marks=tuple(marks))

    def undecided(self, location: str) -> Iterator[str]:
        """The decisions that a user has to make about the table, because no load makes it whole."""
        if (left := self.left) is not None:
            if left.needs_ruling:
                yield f"{left}: {left.remedy(location)}"
            return
        for mark in self.marks:
            if mark.is_open and not mark.code.needs_load:
                yield f"{mark.reason}: {mark.remedy(location, self.name)}"

    @property
    def pair(self) -> tuple[str, str]:
        """The schema, and the name in it."""
        return split(self.name, self.schema)

    def _row(self) -> dict[str, Any]:
        """The cells of this table in a notebook."""
        return {
            "table": self.name,
            "versions": len(self.versions),
            "rows changed": self.rows,
            "truncates": self.truncates,
            "loaded": self.loaded,
            "needs a load": self.needs_load,
            "left": None if self.left is None else str(self.left),
        }

    @property
    def rows(self) -> int:
        """The number of rows that were inserted, updated or deleted."""
        return sum(version.rows for version in self.versions)

    @property
    def truncates(self) -> int:
        """The number of TRUNCATEs."""
        return sum(version.truncates for version in self.versions)


@result
class Segment(Result):
    """A segment of a log.

    Attributes:
        path: Its file. Of a log at a URL, fsspec's path of it: `bucket/log/…` for `s3://`.
        start: Where the segment before it ends.
        part: The number of earlier segments that begin there: parts of one transaction.
            From 1,000,000 on, the segment is merged from others.
        end: The LSN where its last transaction ends.
        continues: Whether its last transaction continues in the next segment.
        transactions: The number of transactions. A part counts as one.
        rows: The number of rows that were inserted, updated or deleted.
        commit_times: The least and the greatest commit time, which are not in the order of
            the segments. None without transactions, or if Python has no such time.
        stream_bytes: Bytes of the stream.
        bytes: Bytes of its frames, compressed or not.
    """

    path: Path
    start: Lsn
    part: int
    end: Lsn
    continues: bool
    transactions: int
    rows: int
    commit_times: tuple[dt.datetime, dt.datetime] | None
    stream_bytes: int
    bytes: int

    @classmethod
    def of(cls, path: Path, found: dict[str, Any]) -> Self:
        """The segment that a log describes."""
        return cls(
            path=path,
            start=found["start"],
            part=found["part"],
            end=found["end"],
            continues=found["continues"],
            transactions=found["transactions"],
            rows=sum(table[1] for table in found["tables"]),
            commit_times=_times(found["commit_times"]),
            stream_bytes=found["stream_bytes"],
            bytes=found["bytes"],
        )


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _times(
    micros: tuple[int | None, int | None] | None,
) -> tuple[dt.datetime, dt.datetime] | None:
    try:
        least, greatest = (
            _EPOCH + dt.timedelta(microseconds=each)
            for each in micros or ()
            if each is not None
        )
    except (OverflowError, ValueError):
        return None
    return least, greatest
