"""A log of one table, whose transactions a test writes out."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streams
import walrow
import walrow.delta
from walrow._core import LogWriter

#: Microseconds.
SECOND = 1_000_000

#: The types of columns, by their names in SQL.
TYPES = {
    "int": 23,
    "bigint": 20,
    "text": 25,
    "bool": 16,
    "float": 701,
    "bytea": 17,
    "date": 1082,
    "timestamp": 1114,
    "timestamptz": 1184,
    "numeric": 1700,
    "int[]": 1007,
    "text[]": 1009,
    "json": 114,
    "uuid": 2950,
    "smallint": 21,
    "real": 700,
    "interval": 1186,
    "time": 1083,
}


class WrittenLog:
    """A log of a table `public.t`. The first column is its key.

    Attributes:
        path: The log.
        key_columns: So many columns are the key, instead of one.
        identity: The replica identity: `"d"`, or `"f"` or `"n"`, which have no key.
    """

    key_columns = 1

    def __init__(self, folder: Path, identity: str = "d", **columns: str) -> None:
        """Creates it."""
        self.identity = identity
        self.path = folder / "log"
        self.target = f"delta:{folder}/t"
        self.lsn = 0x1000
        self.columns = columns
        #: The commit time of the next transactions, in microseconds since 2000.
        self.time = streams.TIME
        self.writer = self._writer()

    def _writer(self) -> LogWriter:
        return LogWriter(
            self.path,
            segment_bytes=1 << 20,
            level=1,
            spool_memory=1 << 20,
            framing="message",
            syncs=False,
            system_identifier="7",
            database="written",
            slot="written",
        )

    def take(self, *messages: bytes) -> None:
        """Takes a transaction, and publishes it."""
        self.append(*messages)
        self.publish()

    def append(self, *messages: bytes) -> None:
        """Takes a transaction."""
        self.lsn += 0x100
        described = [
            streams.Column(name, *_type(kind), is_key=self._is_key(at))
            for at, (name, kind) in enumerate(self.columns.items())
        ]
        for message in (
            streams.begin(xid=self.lsn, lsn=self.lsn, time=self.time),
            streams.relation(described, identity=self.identity),
            *messages,
            streams.commit(lsn=self.lsn, time=self.time),
        ):
            self.writer.append(message)

    def _is_key(self, at: int) -> bool:
        return self.identity == "f" or (self.identity == "d" and at < self.key_columns)

    def load(self, *rows: Sequence[str]) -> None:
        """Loads rows, as COPY writes their values, at the time `time`."""
        columns = [
            {
                "name": name,
                "type": oid,
                "type_modifier": modifier,
                "key": self._is_key(at),
            }
            for at, (name, (oid, modifier)) in enumerate(
                (name, _type(kind)) for name, kind in self.columns.items()
            )
        ]
        table = {"schema": "public", "name": "t", "oid": streams.TABLE}
        catalog = json.dumps({"types": [], "tables": [{**table, "columns": columns}]})
        self.lsn += 0x100
        load = self.writer.begin_load(
            self.lsn,
            streams.EPOCH + self.time,
            walrow.Catalog.from_json(catalog),
            [(streams.TABLE, self.identity)],
        )
        lines = "".join("\t".join(row) + "\n" for row in rows)
        load.copy(0, binary=False).append(lines.encode())
        self.lsn += 0x100
        self.writer.advance(self.lsn)
        self.writer.sync()
        assert self.writer.end_load(load)
        self.writer.publish()

    def erase(self, **what: Any) -> None:
        """Erases rows or columns from the log, while nobody writes to it."""
        self.writer.close()
        # A target may lack the erased changes.
        walrow.Log(self.path).erase("public.t", force=True, **what)
        self.writer = self._writer()
        self.writer.next_session()

    def publish(self) -> None:
        """Makes it readable."""
        self.writer.sync()
        self.writer.publish()

    def insert(self, *rows: Sequence[streams.Cell]) -> None:
        """Inserts rows."""
        self.take(*(streams.insert(row) for row in rows))

    def update(self, *rows: Sequence[streams.Cell]) -> None:
        """Updates rows, found by their first value."""
        self.take(*(streams.update(row) for row in rows))

    def move(self, key: str, row: Sequence[streams.Cell]) -> None:
        """Gives a row another key."""
        old = [key, *[None] * (len(self.columns) - 1)]
        self.take(streams.update(row, key=old))

    def delete(self, *keys: str) -> None:
        """Deletes rows."""
        rest = [None] * (len(self.columns) - 1)
        self.take(*(streams.delete([key, *rest]) for key in keys))

    def truncate(self) -> None:
        """Removes all rows."""
        self.take(streams.truncate(streams.TABLE))

    def apply(self, **options: Any) -> Any:
        """Applies it without Spark."""
        given = {"table": "public.t", "target": self.target} | options
        return walrow.delta.apply_changes(self.path, **given)

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """The rows of the target, in the order of the key."""
        import deltalake
        import pyarrow as pa

        table = deltalake.DeltaTable(self.target.partition(":")[2])
        found = pa.table(table.scan())
        chosen = list(columns) or found.column_names
        return sorted(
            (tuple(row[name] for name in chosen) for row in found.to_pylist()),
            key=repr,
        )


def _type(kind: str) -> tuple[int, int]:
    """The OID and the modifier of a type such as `numeric(20,2)`."""
    name, _, more = kind.partition("(")
    if not more:
        return TYPES[name], -1
    precision, scale = map(int, more.rstrip(")").split(","))
    return TYPES[name], ((precision << 16) | scale) + 4


class Told(WrittenLog):
    """A log whose transactions have the given second, and its target's history."""

    def at(self, second: float) -> Told:
        self.time = streams.TIME + int(second * SECOND)
        return self

    def apply(self, **options: Any) -> Any:
        return super().apply(**{"mode": "history"} | options)

    def versions(self) -> list[tuple[Any, ...]]:
        """The versions: values, and seconds."""
        names = list(self.columns)
        rows = self.rows(*names, "_valid_from", "_valid_to", "_is_current")
        found = []
        for *values, since, until, is_current in rows:
            assert is_current == (until is None)
            found.append((*values, second(since), second(until)))
        return sorted(found, key=repr)

    def commits(self) -> int:
        import deltalake

        return int(deltalake.DeltaTable(self.target.partition(":")[2]).version())


def second(time: dt.datetime | None) -> float | None:
    if time is None:
        return None
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    return (time - start).total_seconds()
