"""A log of many tables with an int key and a number, whose transactions a test writes out."""

from __future__ import annotations

from pathlib import Path

import streams
from walrow._core import LogWriter
from walrow._log.marks import Mark, Why
from walrow._log.needs import read_record, write_published
from walrow._lsn import Lsn

INT = 23


class WrittenTables:
    """A log of tables `sales.t1`, `sales.t2` and so on, whose OIDs are 20001, 20002 and so on.

    Attributes:
        path: The log.
    """

    def __init__(self, path: Path, system: str = "7") -> None:
        """Creates it."""
        self.path = path
        self.lsn = 0x1000
        self.writer = LogWriter(
            self.path,
            segment_bytes=1 << 20,
            level=1,
            spool_memory=1 << 20,
            framing="message",
            syncs=False,
            system_identifier=system,
            database="written",
            slot="written",
        )

    def insert(self, *tables: int, row: tuple[str, str] = ("1", "1")) -> None:
        """Inserts a row into tables, in one transaction, and publishes it."""
        self.lsn += 0x100
        columns = [
            streams.Column("id", INT, is_key=True),
            streams.Column("n", INT),
        ]
        messages = [streams.begin(xid=self.lsn, lsn=self.lsn)]
        for table in tables:
            oid = 20_000 + table
            messages += [
                streams.relation(columns, oid=oid, name=f"t{table}", schema="sales"),
                streams.insert(row, oid=oid),
            ]
        for message in [*messages, streams.commit(lsn=self.lsn)]:
            self.writer.append(message)
        self.writer.sync()
        self.writer.publish()

    def mark(self, table: int, code: Why = Why.NEW) -> None:
        """A receiver notices that a table needs a load."""
        record = read_record(self._read)
        marks = {**record.marks, 20_000 + table: [Mark(code, "it is new", Lsn(1))]}
        picture = {"name": f"sales.t{table}", "columns": []}
        tables = {**(record.tables or {}), 20_000 + table: picture}
        write_published(
            self.path,
            record._replace(marks=marks, tables=tables, position=Lsn(self.lsn)),
        )

    def _read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()
