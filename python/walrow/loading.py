"""Loads tables into a log, in a snapshot, while the stream goes on.

```text
locks ─► slot ─► snapshot ─► connections that share it ─► COPY ─► LogLoad ─► place in the log
         its consistent point is the load's place
```
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg

    from walrow._core import Catalog, LogLoad
    from walrow.landing import Landing
    from walrow.postgres.copying import Piece, PublishedTable
    from walrow.postgres.waiting import Waiting

__all__ = ["LoadProgress", "TableLoad"]


class LoadProgress(NamedTuple):
    """How far a load is.

    Attributes:
        tables: How many tables it has.
        rows: Rows that were copied.
        bytes: Bytes of these rows.
        pieces: How many parts of tables were copied.
        pieces_in_all: How many there are.
        held_bytes: Bytes of the stream that came since, which readers see after the load.
    """

    tables: int
    rows: int
    bytes: int
    pieces: int
    pieces_in_all: int
    held_bytes: int


class TableLoad:
    """A load of tables in the snapshot of a slot.

    Attributes:
        tables: What it loads. Empty before it has begun.
        load: Its place in the log. None before it has begun.
        failure: What has broken it.
    """

    def __init__(
        self,
        given: dict[str, Any],
        *,
        publications: Sequence[str],
        names: Sequence[str] | None,
        binary: bool,
        jobs: int,
        wake: Callable[[], None],
    ) -> None:
        """Does nothing yet.

        Args:
            given: The connection parameters.
            publications: The publications, which say what of a table is loaded.
            names: The tables, as `schema.name`. None for all that are published.
            binary: Whether values come in binary.
            jobs: The number of connections that copy.
            wake: Is called at the end.
        """
        self._given = given
        self._publications = tuple(publications)
        self._names = names
        self._binary = binary
        self._jobs = jobs
        self._wake = wake
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._guard: psycopg.Connection[Any] | None = None
        self._connections: list[psycopg.Connection[Any]] = []
        self._pieces: deque[Piece] = deque()
        self._threads: list[threading.Thread] = []
        self._rows = self._bytes = self._done = self._all = 0
        self.tables: list[PublishedTable] = []
        self.load: LogLoad | None = None
        self.failure: BaseException | None = None

    @property
    def is_copied(self) -> bool:
        """Whether all rows are copied."""
        return self.load is not None and self._done == self._all

    def progress(self, held: int) -> LoadProgress:
        """How far it is, while so many bytes of the stream are held."""
        return LoadProgress(
            len(self.tables), self._rows, self._bytes, self._done, self._all, held
        )

    def begin(
        self,
        conn: psycopg.Connection[Any],
        slot: str,
        landing: Landing,
        *,
        waiting: Callable[[Waiting], None],
        **slot_options: Any,
    ) -> None:
        """Creates a slot, and begins to copy what the tables have at its start.

        Args:
            conn: A replication connection. Its next command may come afterwards.
            slot: The slot's name.
            landing: Where the stream lands. Until the slot exists, nothing of the stream is
                appended: its place in it is not known yet.
            waiting: As for `create_slot`.
            **slot_options: Those of `create_slot`.
        """
        from walrow.postgres.commands import create_slot

        try:
            self._protect()
            with landing.paused():
                created = create_slot(
                    conn, slot, snapshot="export", waiting=waiting, **slot_options
                )
                micros, catalog = self._share(created.snapshot or "")
                identities = [(table.oid, table.identity) for table in self.tables]
                self.load = landing.begin_load(
                    created.consistent_point, micros, catalog, identities
                )
        except BaseException:
            self.stop()
            raise
        for conn_ in self._connections:
            thread = threading.Thread(
                target=self._work, args=(conn_,), name="walrow-load", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        if not self._connections:
            self._wake()

    def stop(self) -> None:
        """Stops it, and closes its connections."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        for conn in (*self._connections, *filter(None, [self._guard])):
            with contextlib.suppress(Exception):
                conn.close()

    def _protect(self) -> None:
        """Locks the tables, before there is a snapshot."""
        from walrow.postgres.connecting import connect
        from walrow.postgres.copying import check_named, lock

        self._guard = connect(self._given, replication=False)
        self._guard.execute("BEGIN")
        tables = self._published(self._guard)
        if self._names is not None:
            check_named(tables, self._names)
        lock(self._guard, tables)

    def _published(self, conn: psycopg.Connection[Any]) -> list[PublishedTable]:
        from walrow.postgres.copying import published_tables

        tables = published_tables(conn, self._publications)
        names = self._names
        return [it for it in tables if names is None or it.name in names]

    def _share(self, snapshot: str) -> tuple[int, Catalog]:
        """Opens the connections that copy. Returns the time, and the tables' definitions."""
        from walrow.postgres.catalog import catalog
        from walrow.postgres.copying import pieces_of

        first = self._in_snapshot(snapshot)
        self.tables = self._published(first)
        self._pieces.extend(pieces_of(self.tables))
        self._all = len(self._pieces)
        for _ in range(1, min(self._jobs, self._all)):
            self._in_snapshot(snapshot)
        row = first.execute(_NOW).fetchone()
        micros = 0 if row is None else int(row[0])
        return micros, catalog(first, publications=self._publications)

    def _in_snapshot(self, snapshot: str) -> psycopg.Connection[Any]:
        from walrow.postgres.connecting import connect
        from walrow.postgres.running import literal

        conn = connect(self._given, replication=False)
        self._connections.append(conn)
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        conn.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot)}".encode())
        # Policies would leave rows out in silence: with this, they are an error.
        conn.execute("SET LOCAL row_security = off")
        conn.execute("SET LOCAL statement_timeout = 0")
        conn.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        return conn

    def _work(self, conn: psycopg.Connection[Any]) -> None:
        from walrow.postgres.copying import Stopped

        try:
            while (piece := self._next()) is not None:
                self._copy(conn, piece)
        except Stopped:
            pass
        except BaseException as error:
            with self._lock:
                self.failure = self.failure or error
            self._stopped.set()
        finally:
            with contextlib.suppress(Exception):
                conn.close()
            if self.is_copied and self._guard is not None:
                with contextlib.suppress(Exception):
                    self._guard.close()
            self._wake()

    def _next(self) -> Piece | None:
        with self._lock:
            is_over = self._stopped.is_set() or not self._pieces
            return None if is_over else self._pieces.popleft()

    def _copy(self, conn: psycopg.Connection[Any], piece: Piece) -> None:
        from walrow.postgres.copying import copy

        load = self.load
        if load is None:
            return
        rows = load.copy(piece.table, binary=self._binary)

        def take(block: bytes) -> None:
            count = rows.append(block)
            with self._lock:
                self._rows += count
                self._bytes += len(block)

        copy(
            conn, piece, binary=self._binary, take=take, is_stopped=self._stopped.is_set
        )
        with self._lock:
            self._done += 1


_NOW = "SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint"
