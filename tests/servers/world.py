"""A database, and the log of its changes, with a look each time that it is received."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

import walrow
from servers.receiving import end_of_wal

Rows = list[dict[str, Any]]


class World:
    """A database, and the log of its changes."""

    def __init__(self, dsn: str, log: Path, name: str) -> None:
        self.dsn, self.path, self._name = dsn, log, name
        self._conn = psycopg.connect(dsn, autocommit=True)
        #: Positions of the server, with the rows of its tables then, by name.
        self.points: list[tuple[walrow.Lsn, dict[str, Rows]]] = []

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self._conn.execute(statement.encode())

    def make_slot(self) -> None:
        """Creates the slot, as another client does."""
        self.sql(
            f"SELECT pg_create_logical_replication_slot('{self._name}', 'pgoutput')"
        )

    def look(self, **options: Any) -> None:
        """Receives all commits and requested loads, and looks."""
        given: dict[str, Any] = {"publications": "p", "until": "now", "create": True}
        walrow.receive(self.dsn, log=self.path, slot=self._name, **(given | options))

    def take(self, **options: Any) -> None:
        """Receives all commits, and notes the rows of the server."""
        self.look(**options)
        self.points.append((walrow.Lsn(end_of_wal(self.dsn)), self.rows()))

    def load(self, *tables: str) -> None:
        walrow.load(list(tables), log=self.path, wait=False)
        self.take()

    @property
    def log(self) -> walrow.Log:
        return walrow.Log(self.path)

    def rows(self) -> dict[str, Rows]:
        """The rows of the server's tables."""
        query = "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        names = [name for (name,) in self._conn.execute(query).fetchall()]
        return {name: self.rows_of(name) for name in names}

    def rows_of(self, name: str) -> Rows:
        cursor = self._conn.execute(f'TABLE "{name}" ORDER BY 1'.encode())
        names = [it.name for it in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def oid(self, name: str) -> int:
        return self.number(f"SELECT '{name}'::regclass::oid")

    def number(self, query: str) -> int:
        (found,) = self._conn.execute(query.encode()).fetchone() or (0,)
        return int(found)

    def state(self, name: Any, **options: Any) -> Rows:
        found = self.log.state(name, **options).to_pyarrow().to_pylist()
        return sorted(found, key=lambda row: row["id"])

    def net(self, name: Any) -> Rows:
        found = self.log.net(name).to_pyarrow().to_pylist()
        rows = [
            {key: value for key, value in row.items() if not key.startswith("_")}
            for row in found
            if row["id"] is not None
        ]
        return sorted(rows, key=lambda row: row["id"])

    def close(self) -> None:
        """Drops the slot, and ends what a failed test has left."""
        gids = self._conn.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
        )
        self.sql(*(f"ROLLBACK PREPARED '{gid}'" for (gid,) in gids.fetchall()))
        self.sql(f"SELECT pg_drop_replication_slot('{self._name}')")
        self._conn.close()
