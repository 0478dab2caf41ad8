"""A live database whose changes are taken into a log, step by step."""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import psycopg

import walrow
from servers import EmbeddedServer
from walrow import postgres
from walrow._core import LogWriter


class History:
    """A database of its own with a slot, and the log of its changes."""

    def __init__(self, dsn: str, log: Path, name: str) -> None:
        self.path = log
        self.conn = psycopg.connect(dsn, autocommit=True)
        self.name = name
        self.conn.execute("SET TimeZone = 'UTC'")
        self.sql("CREATE TABLE tick (n int)", "CREATE PUBLICATION p FOR ALL TABLES")
        self.sql(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
        self.writer = self._writer()

    def _writer(self) -> LogWriter:
        return LogWriter(
            self.path,
            segment_bytes=20_000,
            level=1,
            spool_memory=1 << 20,
            framing="message",
            syncs=False,
            system_identifier="7",
            database=self.name,
            slot=self.name,
        )

    def begin_again(self, log: Path) -> None:
        """Creates the slot again, and continues with another log."""
        self.writer.close()
        self.sql(f"SELECT pg_drop_replication_slot('{self.name}')")
        found = self.conn.execute(
            f"SELECT lsn::text FROM pg_create_logical_replication_slot('{self.name}', "
            "'pgoutput')"
        ).fetchone()
        assert found is not None
        self.path = log
        self.writer = self._writer()
        self.writer.set_slot_start(found[0])

    def erase(self, table: str, **key: int) -> None:
        """Erases rows from the log, while nobody writes to it."""
        self.writer.close()
        # A target may lack the erased changes.
        log = walrow.Log(self.path)
        done = log.erase(f"public.{table}", keys=[key], force=True)
        assert done.changes
        self.writer = self._writer()

    def close(self) -> None:
        self.writer.close()
        if self.conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.sql("ROLLBACK")
        self.sql(f"SELECT pg_drop_replication_slot('{self.name}')")
        self.conn.close()

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.conn.execute(statement.encode())

    def transaction(self, *statements: str) -> None:
        self.sql("BEGIN", *statements, "COMMIT")

    def lsn(self) -> walrow.Lsn:
        found = self.conn.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert found is not None
        return walrow.Lsn(found[0])

    def take(self, *, binary: bool = False, publish: bool = True) -> Self:
        """Takes the changes so far into the log."""
        rows = self.conn.execute(
            f"SELECT lsn, xid, data FROM pg_logical_slot_get_binary_changes('{self.name}', "
            "NULL, NULL, 'proto_version', '1', 'publication_names', 'p', 'binary', %s)",
            [str(binary).lower()],
        )
        self.writer.next_session()
        for row in rows:
            self.writer.append(row)  # type: ignore[arg-type]
            if self.writer.is_full:
                self.writer.publish()
        self.writer.sync()
        if publish:
            self.writer.publish()
        return self

    def load(
        self,
        *tables: str,
        binary: bool = False,
        meanwhile: Callable[[walrow.Lsn], None] | None = None,
    ) -> None:
        """Loads tables, as of an LSN. `meanwhile` makes the transactions that come later."""
        self.take(binary=binary, publish=False)
        self.sql("SELECT pg_logical_emit_message(false, '', '')")
        point = self.lsn()
        known = {
            name: (oid, letter)
            for name, oid, letter in self.conn.execute(
                "SELECT relname, oid, relreplident FROM pg_class"
            )
        }
        catalog = postgres.catalog(self.conn)
        chosen = [known[name] for name in tables]
        load = self.writer.begin_load(point, 0, catalog, chosen)
        for place, name in enumerate(tables):
            copy = load.copy(place, binary=binary)
            form = "WITH (FORMAT binary)" if binary else ""
            with self.conn.cursor().copy(f"COPY {name} TO STDOUT {form}") as data:
                for chunk in data:
                    copy.append(bytes(chunk))
        while not self.writer.end_load(load):
            # Its place is known once a later transaction comes.
            if meanwhile is not None:
                meanwhile(point)
            else:
                self.sql("INSERT INTO tick VALUES (1)")
            self.take(binary=binary)
        self.take()

    def rows(self, table: str, columns: str = "*") -> Counter[tuple[Any, ...]]:
        return Counter(self.conn.execute(f"SELECT {columns} FROM {table}").fetchall())

    def texts(self, table: str, columns: list[str]) -> Counter[tuple[Any, ...]]:
        """The rows, as PostgreSQL's text."""
        return self.rows(table, ", ".join(f'"{it}"::text' for it in columns))


@contextlib.contextmanager
def history(server: EmbeddedServer, log: Path) -> Iterator[History]:
    """A database of its own on a server, until the end of a test."""
    with server.database("h") as name:
        made = History(server.dsn_of(name), log, name)
        try:
            yield made
        finally:
            made.close()
