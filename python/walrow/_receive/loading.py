"""Loads tables into a log, in a snapshot, while the stream goes on.

```text
slot ─► snapshot ─► connections that share it, locks ─► COPY ─► LogLoad ─► place in the log
its consistent point is the load's place
```
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import psycopg

from walrow._core import Catalog, LogLoad
from walrow._postgres.catalog import catalog_now
from walrow._postgres.commands import create_slot, drop_slot
from walrow._postgres.connecting import connect
from walrow._postgres.copying import (
    Piece,
    Stopped,
    altered,
    copy,
    lock,
    pieces_of,
    refusals,
    was_busy,
)
from walrow._postgres.failures import SERIALIZATION_FAILURE
from walrow._postgres.hints import Command
from walrow._postgres.locks import READING, locks_on
from walrow._postgres.open_connections import cancel
from walrow._postgres.printed_names import printed_names
from walrow._postgres.published import PublishedTable, entries_of, published_tables
from walrow._postgres.running import literal
from walrow._postgres.server_errors import replication_error
from walrow._postgres.waiting import Waiting
from walrow._receive.load import (
    Blocked,
    Broken,
    Copied,
    Culprits,
    Event,
    Opened,
    Shared,
    Unblocked,
)
from walrow._receive.looks import with_parts
from walrow._receive.orders import BeginLoad
from walrow._receive.status import LoadProgress
from walrow._waiting import Waiter
from walrow._workers import Worker
from walrow.errors import Error, OptionError, ReplicationError

#: Takes all published tables, the OIDs of the tables that the load leaves out, its LSN, and its names.
Lacks = Callable[..., None]


class TableLoad:
    """A load of tables in the snapshot of a slot."""

    def __init__(
        self,
        number: int,
        given: dict[str, Any],
        *,
        publications: Sequence[str],
        names: Sequence[str] | None,
        apart: Collection[str] | None,
        binary: bool,
        jobs: int,
        tell: Callable[[Event], None],
        note: Callable[[str], None],
    ) -> None:
        """Stores the arguments.

        `names` have the form `schema.name`. None means all published tables. A first load leaves out the
        tables in `apart`, which is None for a request. `note` takes what the load waits for, for the
        person who asked for it. A thread calls it, as it may write to a disk.
        """
        self._number = number
        self._given = given
        self._publications = tuple(publications)
        self._names, self._apart = names, apart
        self._binary = binary
        self._jobs = jobs
        self._tell = tell
        # A thread of the load calls it, as it may write to a disk.
        self._note = note
        self._stopped = threading.Event()
        self._lock, self._using = threading.Lock(), threading.Lock()
        self._thread = Worker("walrow-load", at_end=self._close)
        #: The connections that no thread copies over yet.
        self._connections: list[psycopg.Connection[Any]] = []
        #: All that may wait for the server.
        self._waiting: list[psycopg.Connection[Any]] = []
        self._pieces: deque[Piece] = deque()
        self._waiters: list[Waiter] = []
        self._rows = self._bytes = self._done = self._all = 0
        #: The tables that have changed while it began.
        self._moved: dict[str, str] = {}
        self.tables: list[PublishedTable] = []
        #: The names that its rows may contain, as the server printed them before the slot was made.
        self.names: dict[str, dict[str, int]] = {}
        self.load: LogLoad | None = None

    def progress(self, held: int) -> LoadProgress:
        """How far it is, and how many bytes of the stream are held."""
        return LoadProgress(
            len(self.tables), self._rows, self._bytes, self._done, self._all, held
        )

    # Its steps. The answers are events.

    def open(self) -> None:
        """Opens its connections. The answer is `Opened`."""
        self._do(self._open)

    def make(
        self, slot: str, waiting: Callable[[Waiting], None], longest_pause: float
    ) -> None:
        """Creates a temporary slot, and shares its snapshot. The answer is `Shared` or `Blocked`.

        Until then, the stream must wait: the place of the load in it is not known. After the
        `longest_pause`, this waits without it until the transactions have ended that the slot waits for.
        """

        def tick(waits: Waiting) -> None:
            waiting(waits)
            self._note(f"the receiver is {waits}")
            self._check()
            if waits.seconds >= longest_pause:
                raise _WaitsForLongError(waits)

        def do() -> Event:
            # The slot ends with the connection. Then, the snapshot is imported.
            with closing(connect(self._given)) as conn:
                return self._make(conn, slot, tick, temporary=True)

        self._do(do)

    def make_on(
        self,
        slot: str,
        waiting: Callable[[Waiting], None],
        lacks: Lacks,
        conn: psycopg.Connection[Any],
        **slot_options: Any,
    ) -> None:
        """As `make`, a slot that stays, now, over a connection of this thread.

        Before the log has the load, `lacks` records the tables that are left out.
        """

        def tick(waits: Waiting) -> None:
            waiting(waits)
            self._check()

        self._answer(partial(self._make, conn, slot, tick, lacks, **slot_options))

    def start(self, load: LogLoad) -> None:
        """Begins to copy into a load of the log. The answer is `Copied`."""
        self.load = load
        connections, self._connections = self._connections, []
        copies = "the receiver copies the rows, and gives them their place in the log"
        self._thread.do(partial(self._note, copies))
        for conn in connections:
            waiter = Waiter()
            self._waiters.append(waiter)
            worker = Worker("walrow-copy")
            worker.do(partial(self._work, conn, waiter))
            worker.close()
        self._thread.close()
        if not connections:
            self._tell(Copied(self._number))

    def stop(self) -> None:
        """Stops it. Its threads close their connections. Does not wait for them."""
        self._stopped.set()
        for waiter in self._waiters:
            waiter.wake()
        for conn in list(self._waiting):
            if not conn.closed:
                cancel(conn)
        self._thread.close()

    def _do(self, step: Callable[[], Event]) -> None:
        self._thread.do(partial(self._answer, step))

    def _answer(self, step: Callable[[], Event]) -> None:
        try:
            with self._using:
                self._check()
                event = step()
            self._tell(event)
        except Stopped:
            pass
        except _WaitsForLongError as error:
            self._tell(Blocked(self._number, error.waits))
            self._do(partial(self._wait_for, error.waits))
        except psycopg.Error as error:
            failed = "a load cannot begin"
            self._tell(self._busy(replication_error(error, failed, Command.COPY)))
        except BaseException as error:
            self._tell(self._busy(error))

    def _busy(self, error: BaseException) -> Broken:
        """The event of a load that cannot begin, with who has its tables locked."""
        found, self._moved = self._moved, {}
        if was_busy(error) and self._connections:
            names = {it.oid: it.name for it in self.tables}
            names |= {part.oid: it.name for it in self.tables for part in it.parts}
            with contextlib.suppress(psycopg.Error):
                now = self._connections[-1]
                for oid, text in locks_on(now, list(names), READING).items():
                    found[names[oid]] = f"it waits for {text}"
                found = dict.fromkeys(self._altered(now), f"it {_MOVED}") | found
        if not found:
            return Broken(self._number, error)
        return self._broken(
            {it: ReplicationError(text) for it, text in found.items()}, error
        )

    def _close(self) -> None:
        # Another thread may make the slot.
        with self._using:
            for conn in self._connections:
                conn.close()

    def _make(
        self,
        conn: psycopg.Connection[Any],
        slot: str,
        tick: Callable[[Waiting], None],
        lacks: Lacks | None = None,
        *,
        temporary: bool = False,
        **slot_options: Any,
    ) -> Shared:
        self._waiting.append(conn)
        try:
            created = create_slot(
                conn,
                slot,
                temporary=temporary,
                snapshot="export",
                progress=tick,
                **slot_options,
            )
            try:
                everything, micros, catalog = self._share(created.snapshot or "")
                if lacks is not None and self._apart:
                    oids = {it.oid for it in everything if it.name in self._apart}
                    lacks(everything, oids, created.consistent_point, self.names)
                self._check()
            except BaseException:
                # A temporary slot ends with its connection. This slot would keep WAL for nobody. After a
                # stop, the name may belong to the next attempt, which begins with a new slot.
                if not temporary and not self._stopped.is_set():
                    with contextlib.suppress(Error, psycopg.Error):
                        drop_slot(conn, slot)
                raise
        finally:
            self._waiting.remove(conn)
        identities = [(table.oid, table.identity) for table in self.tables]
        point = created.consistent_point
        order = BeginLoad(self._number, point, micros, catalog, identities)
        return Shared(self._number, order)

    def _check(self) -> None:
        if self._stopped.is_set():
            raise Stopped

    def _wait_for(self, waits: Waiting) -> Unblocked:
        """Waits until the transactions have ended, while the stream goes on."""
        now = self._connections[-1]
        xids = [each.xid for each in waits.transactions or ()]
        while not self._stopped.wait(_WAIT_SECONDS):
            found = now.execute(_OPEN, (xids,)).fetchone()
            if found is None or not found[0]:
                return Unblocked(self._number)
        raise Stopped

    def _open(self) -> Opened | Broken:
        """Opens the connections that copy, and a connection that sees the current rows."""
        for _ in range(self._jobs + 1):
            self._check()
            # Policies would leave rows out in silence: with this, they are an error.
            pins = {"row_security": "off", "lock_timeout": _LOCK_TIMEOUT}
            conn = connect(self._given, replication=None, **pins)
            self._connections.append(conn)
            self._waiting.append(conn)
        conn = self._connections[-1]
        self._choose(conn)
        types = with_parts(it for table in self.tables for it in table.names)
        self.names = printed_names(conn, types)
        text = "in the publication: add it with ALTER PUBLICATION, or name another one as schema.name"
        there = {table.name for table in self.tables}
        refused: dict[str, Error] = {
            name: OptionError(f"there is no such table {text}")
            for name in self._names or ()
            if name not in there
        }
        if len(self.tables) > 1:
            # Before the slot, and all at once: each of them would break the load of the others.
            found = refusals(conn, self.tables)
            # The slot of a first load waits until no transaction has a table locked.
            is_first = self._apart is not None
            refused |= {
                name: error
                for name, error in found.items()
                if not (is_first and was_busy(error))
            }
        return self._broken(refused) if refused else Opened(self._number)

    def _broken(
        self, refused: Mapping[str, Error], error: BaseException | None = None
    ) -> Broken:
        """The event of a load that is broken, at least by these tables."""
        names = self._names or [table.name for table in self.tables]
        others = [name for name in names if name not in refused]
        texts = {name: str(error) for name, error in refused.items()}
        error = error or next(iter(refused.values()))
        there = {table.name for table in self.tables}
        gone = [name for name in names if name not in there]
        return Broken(self._number, error, Culprits(texts, others, gone))

    def _choose(self, conn: psycopg.Connection[Any]) -> list[PublishedTable]:
        """Chooses the tables. Returns all published tables."""
        everything = published_tables(conn, self._publications)
        apart, names = self._apart or (), self._names
        self.tables = [
            it
            for it in everything
            if it.name not in apart and (names is None or it.name in names)
        ]
        return everything

    def _altered(self, now: psycopg.Connection[Any]) -> list[str]:
        """The tables that have changed since they were chosen, by a connection that sees the current rows."""
        return list(altered(self.tables, published_tables(now, self._publications)))

    def _share(self, snapshot: str) -> tuple[list[PublishedTable], int, Catalog]:
        """Gives the snapshot to the connections. Returns all published tables, its time, and definitions."""
        *copying, now = self._connections
        for conn in copying:
            conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            conn.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot)}".encode())
        # Not before the slot: its creation waits for transactions, and they for the locks.
        first, entries = copying[0], entries_of(self.tables)
        everything = self._choose(first)
        oids = [it.oid for it in self.tables]
        # Only these are waited for.
        found = published_tables(first, self._publications, for_copy=True, oids=oids)
        self.tables = [it for it in found if it.oid in oids]
        lock(copying, self.tables)
        moved = self._altered(now)
        # A transaction that was open then may have written rows before the entry existed.
        moved += [
            it.name for it in self.tables if not entries.issuperset(it.memberships)
        ]
        if moved:
            self._moved = dict.fromkeys(moved, f"it {_MOVED}")
            text = f"a table {_MOVED}"
            raise ReplicationError(text, sqlstate=SERIALIZATION_FAILURE)
        now.close()
        self._pieces.extend(pieces_of(self.tables))
        self._all = len(self._pieces)
        self._connections = copying
        row = first.execute(_NOW).fetchone()
        micros = 0 if row is None else int(row[0])
        definitions = catalog_now(first, self._publications)
        for conn in copying[self._all :]:
            conn.close()
        self._connections = copying[: self._all]
        return everything, micros, definitions

    def _work(self, conn: psycopg.Connection[Any], waiter: Waiter) -> None:
        event: Event | None = None
        name = ""
        try:
            while (piece := self._next()) is not None:
                name = self.tables[piece.table].name
                self._copy(conn, piece, waiter)
                if self._is_copied():
                    event = Copied(self._number)
        except Stopped:
            pass
        except BaseException as error:
            event = Broken(self._number, error)
            if isinstance(error, ReplicationError) and error.sqlstate is not None:
                event = self._broken({name: error})
            self._stopped.set()
        finally:
            with contextlib.suppress(Exception):
                conn.close()
            waiter.close()
            if event is not None:
                self._tell(event)

    def _is_copied(self) -> bool:
        """Counts a piece. Returns whether it was the last one."""
        with self._lock:
            self._done += 1
            return self._done == self._all

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


_WAIT_SECONDS = 1.0
_OPEN = """
SELECT count(*) FROM pg_catalog.pg_locks
WHERE locktype = 'transactionid' AND granted AND mode = 'ExclusiveLock'
    AND transactionid::text::bigint = ANY (%s::bigint[])
"""
_MOVED = "was altered, truncated, dropped or published while the load began"
_LOCK_TIMEOUT = "2s"
_NOW = "SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint"


class _WaitsForLongError(Exception):
    """The slot waits for transactions, and the stream for the slot."""

    def __init__(self, waits: Waiting) -> None:
        super().__init__()
        self.waits = waits
