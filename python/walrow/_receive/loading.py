"""Loads tables into a log, in a snapshot, while the stream goes on.

```text
slot ─► snapshot ─► connections that share it, locks ─► COPY ─► LogLoad ─► place in the log
its consistent point is the load's place
```
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from walrow._postgres.catalog import catalog
from walrow._postgres.commands import create_slot
from walrow._postgres.connecting import connect
from walrow._postgres.copying import Stopped, copy, is_same, lock, pieces_of
from walrow._postgres.open_connections import cancel
from walrow._postgres.published import check_named, published_tables
from walrow._postgres.running import literal
from walrow._postgres.server_errors import replication_error
from walrow._results import Result, result
from walrow._waiting import Waiter
from walrow._workers import Worker
from walrow.errors import ReplicationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from walrow._core import Catalog, LogLoad
    from walrow._postgres.copying import Piece
    from walrow._postgres.published import PublishedTable
    from walrow._postgres.waiting import Waiting
    from walrow._receive.landing import Landing

__all__ = ["LoadProgress", "TableLoad", "was_busy"]


@result
class LoadProgress(Result):
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
        names: The tables that were asked for, as `schema.name`. None for all.
        tables: The tables that it loads. Empty before it has begun.
        load: Its place in the log. None before it has begun.
        failure: The error that has broken it.
        waits_for: The transactions that its slot waits for, while the stream goes on without it.
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
        """Stores the arguments.

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
        self.names = names
        self._binary = binary
        self._jobs = jobs
        self._wake = wake
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._connections: list[psycopg.Connection[Any]] = []
        #: The connection that creates the slot, until it exists.
        self._creating: psycopg.Connection[Any] | None = None
        self._pieces: deque[Piece] = deque()
        self._workers: list[Worker] = []
        self._waiters: list[Waiter] = []
        self._rows = self._bytes = self._done = self._all = 0
        self.tables: list[PublishedTable] = []
        self.load: LogLoad | None = None
        self.failure: BaseException | None = None
        self.waits_for: Waiting | None = None

    @property
    def is_copied(self) -> bool:
        """Whether all rows are copied."""
        return self.load is not None and self._done == self._all

    def progress(self, held: int) -> LoadProgress:
        """How far it is, and how many bytes of the stream are held."""
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
        longest_pause: float | None = None,
        **slot_options: Any,
    ) -> None:
        """Creates a slot, and begins to copy what the tables have at its start.

        Args:
            conn: A replication connection. Its next command may come afterwards.
            slot: The slot's name.
            landing: Where the stream lands. Until the slot exists, nothing of the stream is
                appended: its place in it is not known yet.
            waiting: As for `create_slot`.
            longest_pause: The seconds that the stream may wait for the slot. After them, it
                goes on until the transactions have ended that the slot waits for.
            **slot_options: Those of `create_slot`.
        """
        try:
            self._open()
            while not self._create(
                conn,
                slot,
                landing,
                waiting=waiting,
                longest_pause=longest_pause,
                **slot_options,
            ):
                pass
        except BaseException as error:
            self._stopped.set()
            for each in self._connections:
                each.close()
            if isinstance(error, psycopg.Error):
                failed = "a load cannot begin"
                raise replication_error(error, failed) from None
            raise
        for each in self._connections[: self._all]:
            waiter = Waiter()
            self._waiters.append(waiter)
            worker = Worker("walrow-load")
            worker.do(partial(self._work, each, waiter))
            worker.close()
            self._workers.append(worker)
        if not self._workers:
            self._wake()

    def _create(
        self,
        conn: psycopg.Connection[Any],
        slot: str,
        landing: Landing,
        *,
        waiting: Callable[[Waiting], None],
        longest_pause: float | None,
        **slot_options: Any,
    ) -> bool:
        """Creates the slot. Returns false if it waits for too long."""
        blocking: list[Waiting] = []

        def tick(waits: Waiting) -> None:
            waiting(waits)
            self._check()
            if longest_pause is not None and waits.seconds >= longest_pause:
                blocking.append(waits)
                raise _WaitsForLong

        self._creating = conn
        try:
            with landing.paused(self._check):
                created = create_slot(
                    conn, slot, snapshot="export", waiting=tick, **slot_options
                )
                micros, catalog = self._share(created.snapshot or "")
                identities = [(table.oid, table.identity) for table in self.tables]
                self.load = landing.begin_load(
                    created.consistent_point,
                    micros,
                    catalog,
                    identities,
                    self._check,
                )
        except _WaitsForLong:
            self._wait_for(blocking[-1])
            return False
        finally:
            self._creating = None
        return True

    def _check(self) -> None:

        if self._stopped.is_set():
            raise Stopped

    def _wait_for(self, waits: Waiting) -> None:
        """Waits until the transactions have ended, while the stream goes on."""
        now = self._connections[-1]
        xids = [each.xid for each in waits.transactions or ()]
        self.waits_for = waits
        self._wake()
        while not self._stopped.wait(_WAIT_SECONDS):
            found = now.execute(_OPEN, (xids,)).fetchone()
            if found is None or not found[0]:
                self.waits_for = None
                return
        raise Stopped

    def stop(self) -> None:
        """Stops it. Its threads close their connections. Does not wait for a disk that stalls."""
        self._stopped.set()
        for waiter in self._waiters:
            waiter.wake()
        for conn in filter(None, [*self._connections, self._creating]):
            if not conn.closed:
                cancel(conn)
        end = time.monotonic() + _STOP_SECONDS
        for worker in self._workers:
            worker.join(end - time.monotonic())

    def _open(self) -> None:
        """Opens the connections that copy, and a connection that sees the current rows."""
        for _ in range(self._jobs + 1):
            conn = connect(self._given, replication=False)
            self._connections.append(conn)
            # Policies would leave rows out in silence: with this, they are an error.
            conn.execute("SET row_security = off")
            conn.execute("SET statement_timeout = 0")
            conn.execute("SET idle_in_transaction_session_timeout = 0")
            conn.execute("SET idle_session_timeout = 0")
            if conn.info.server_version >= _TRANSACTION_TIMEOUT:
                conn.execute("SET transaction_timeout = 0")
            conn.execute(_LOCK_TIMEOUT)
        if self.names is not None:
            tables = self._published(self._connections[-1], sized=False)
            check_named(tables, self.names)

    def _published(
        self, conn: psycopg.Connection[Any], *, sized: bool
    ) -> list[PublishedTable]:

        tables = published_tables(conn, self._publications, sized=sized)
        names = self.names
        return [it for it in tables if names is None or it.name in names]

    def _share(self, snapshot: str) -> tuple[int, Catalog]:
        """Gives the snapshot to the connections. Returns its time, and the definitions."""
        *copying, now = self._connections
        for conn in copying:
            conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            conn.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot)}".encode())
        # Not before the slot: its creation waits for transactions, and they for the locks.
        first = copying[0]
        self.tables = self._published(first, sized=True)
        lock(copying, self.tables)
        if not is_same(self.tables, self._published(now, sized=False)):
            text = "a table was altered or truncated while the load began"
            raise ReplicationError(text, sqlstate=SERIALIZATION_FAILURE)
        now.close()
        self._pieces.extend(pieces_of(self.tables))
        self._all = len(self._pieces)
        self._connections = copying
        row = first.execute(_NOW).fetchone()
        micros = 0 if row is None else int(row[0])
        definitions = catalog(first, publications=self._publications)
        for conn in copying[self._all :]:
            conn.close()
        return micros, definitions

    def _work(self, conn: psycopg.Connection[Any], waiter: Waiter) -> None:

        try:
            while (piece := self._next()) is not None:
                self._copy(conn, piece, waiter)
        except Stopped:
            pass
        except BaseException as error:
            with self._lock:
                self.failure = self.failure or error
            self._stopped.set()
        finally:
            with contextlib.suppress(Exception):
                conn.close()
            waiter.close()
            self._wake()

    def _next(self) -> Piece | None:
        with self._lock:
            is_over = self._stopped.is_set() or not self._pieces
            return None if is_over else self._pieces.popleft()

    def _copy(
        self, conn: psycopg.Connection[Any], piece: Piece, waiter: Waiter
    ) -> None:

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
            conn,
            piece,
            binary=self._binary,
            take=take,
            waiter=waiter,
            is_stopped=self._stopped.is_set,
        )
        with self._lock:
            self._done += 1


#: Retried: somebody else had a table locked, or has changed it.
SERIALIZATION_FAILURE = "40001"
#: The first version that has it.
_TRANSACTION_TIMEOUT = 170_000
_STOP_SECONDS = 0.2
_WAIT_SECONDS = 1.0
_OPEN = """
SELECT count(*) FROM pg_catalog.pg_locks
WHERE locktype = 'transactionid' AND granted AND mode = 'ExclusiveLock'
    AND transactionid::text::bigint = ANY (%s::bigint[])
"""
_LOCK_TIMEOUT = "SET lock_timeout = '2s'"
_NOW = "SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint"


class _WaitsForLong(Exception):  # noqa: N818
    """The slot waits for transactions, and the stream for the slot."""


def was_busy(failure: BaseException) -> bool:
    """Whether a table was locked by somebody else, or changed while the load began."""
    found = getattr(failure, "sqlstate", None)
    return found in {"55P03", "40P01", SERIALIZATION_FAILURE}
