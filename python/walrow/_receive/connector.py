"""A replication connection of a receiver, and its steps, in a separate thread. Nothing is decided here."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from walrow._log.marks import Gap
from walrow._lsn import Lsn
from walrow._postgres.commands import (
    CreatedSlot,
    IdentifySystem,
    alter_slot,
    create_slot,
    drop_slot,
    identify_system,
    timeline_history,
)
from walrow._postgres.connecting import connect_for_sql
from walrow._postgres.ddl_trigger import TRIGGERS
from walrow._postgres.failures import OBJECT_IN_USE, UNDEFINED_OBJECT
from walrow._postgres.hints import Command, hint_for
from walrow._postgres.preflight import preflight
from walrow._postgres.replication import ReplicationStream
from walrow._postgres.server_errors import replication_error
from walrow._postgres.slot_positions import has_other_positions
from walrow._postgres.slots import slots
from walrow._postgres.temporary_publication import create_if_missing, named
from walrow._postgres.waiting import Waiting
from walrow._receive.events import (
    Check,
    Checked,
    Found,
    Heard,
    Linked,
    Made,
    Part,
    Started,
)
from walrow._receive.goal import Goal
from walrow._receive.resuming import SlotFound, SlotStart, XidStatus
from walrow._receive.same_server import Last, full_xid
from walrow._workers import Worker
from walrow.errors import ConnectionLostError, OptionError, ReplicationError
from walrow.typing import TableName


class Server(NamedTuple):
    """The options about a receiver's server."""

    given: dict[str, Any]
    slot: str
    publications: tuple[str, ...]
    tables: Sequence[TableName] | None
    failover: bool
    two_phase: bool
    binary: bool

    @property
    def asked(self) -> dict[str, Any]:
        """The parameters of connections for questions."""
        return {**self.given, "connect_timeout": 5}

    @property
    def slot_options(self) -> dict[str, Any]:
        """The options of a slot that is created."""
        return {"two_phase": self.two_phase, "failover": self.failover}


class Connector:
    """One connection. Its thread closes it, so nobody waits for the end."""

    def __init__(
        self, server: Server, wakeup: int, heard: Callable[[Heard], None]
    ) -> None:
        """Stores the arguments: `heard` is called when the server has answered in a long step."""
        self._server, self._slot = server, server.slot
        self._wakeup, self._heard = wakeup, heard
        self._thread = Worker("walrow-connect", self._close)
        self._stream: ReplicationStream | None = None
        #: Whether the server's SQL functions return other LSNs than its stream has.
        self._has_other_positions = False

    @property
    def stream(self) -> ReplicationStream:
        """The stream, once it is connected."""
        if self._stream is None:
            raise ConnectionLostError("there is no connection yet")
        return self._stream

    def do(self, step: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Does a step in the thread, after the earlier ones."""
        return self._thread.do(partial(self._do, step, *arguments))

    def use(self, do: Callable[..., None], **options: Any) -> None:
        """Lets somebody use the connection in the thread. Errors are theirs."""
        self._thread.do(lambda: do(self.stream.connection, **options))

    def leave(self) -> None:
        """Closes it, as soon as its thread can."""
        self._thread.close()

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _do(self, step: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return step(*arguments)
        except psycopg.Error as error:
            failed = "the stream cannot be prepared"
            raise replication_error(
                error, failed, Command.QUERY, slot=self._slot
            ) from error

    # The steps.

    def connect(self, number: int, connected: Callable[[], None]) -> Linked:
        """Connects."""
        self._stream = ReplicationStream.connect(
            **self._server.given, wakeup_fd=self._wakeup
        )
        connected()
        return Linked(number, identify_system(self._stream.connection))

    def inspect(
        self,
        number: int,
        system: IdentifySystem,
        last: Last | None,
        files: Callable[[], Iterable[int]],
        has_begun: Callable[[Lsn | None], bool],
    ) -> Found:
        """Reads what shows whether the server and the slot continue a log.

        `files` returns the OIDs of known tables and partitions, and `has_begun` whether the log
        began with a slot at this position.
        """
        conn = self.stream.connection
        history: Any = ()
        if system.timeline > 1:
            try:
                switches = timeline_history(conn, system.timeline).switches
                history = [(it.timeline, it.lsn, it.reason) for it in switches]
            except ReplicationError as error:
                history = error
        row = conn.execute("SELECT pg_catalog.pg_is_in_recovery()").fetchone()
        if number == 1:
            query = sql.SQL(_END_ORPHANS)
            conn.execute(query.format(prefix_of_loads(self._slot), self._slot))
        # A walsender accepts no bound parameters.
        found = conn.execute(sql.SQL(_SLOT).format(self._slot)).fetchone()
        slot = None
        if found is not None:
            confirmed = None if found[2] is None else Lsn(int(found[2]))
            has_sent = found[5] and not has_begun(confirmed)
            slot = SlotFound(
                found[0], found[1], confirmed, found[3], found[4], has_sent=has_sent
            )
        status = _status(conn, system, slot, last)
        oids = "{" + ",".join(map(str, files())) + "}"
        size = conn.execute(sql.SQL(_TABLE_BYTES).format(oids)).fetchone()
        is_standby = row is None or bool(row[0])
        has_trigger = conn.execute(sql.SQL(_TRIGGER).format(*TRIGGERS)).fetchone()
        self._has_other_positions = has_other_positions(conn)
        return Found(
            number,
            system,
            history,
            is_standby,
            slot,
            status,
            self._has_other_positions,
            has_trigger is not None,
            0 if size is None else int(size[0]),
        )

    def make(
        self,
        number: int,
        parts: frozenset[Part],
        began: Callable[[CreatedSlot | None], None],
    ) -> Made:
        """Drops and creates a slot, and creates a publication. Calls `began` before it, and after."""
        conn, server = self.stream.connection, self._server
        if Part.DROP in parts:
            try:
                drop_slot(conn, self._slot, wait=True)
            except ReplicationError as error:
                # A slot that was not ready yet ends with its connection.
                if error.sqlstate != UNDEFINED_OBJECT:
                    raise
        if Part.PUBLICATION in parts and server.tables is not None:
            self._heard(Heard())
            if len(server.publications) != 1:
                raise OptionError("tables creates one publication: name one")
            create_if_missing(server.asked, server.publications[0], server.tables)
            self._heard(Heard())
        self._check_publications(conn)
        if Part.SLOT not in parts:
            return Made(number, None)
        began(None)
        created = create_slot(
            conn,
            self._slot,
            snapshot="export",
            progress=self.waiting,
            **server.slot_options,
        )
        began(created)
        return Made(number, SlotStart(created.consistent_point))

    def check(
        self,
        wanted: Check,
        goal: Goal,
        begins: Callable[[Lsn, int | None], None],
        cross: Callable[[Gap], None],
    ) -> Checked:
        """Checks what would fail later, and finds the goal.

        Before, it calls `cross` with a gap, and `begins` with the position and the `catalog_xmin` of
        a slot that begins a log.
        """
        conn, parts = self.stream.connection, wanted.parts
        if wanted.gap is not None:
            cross(wanted.gap)
        notes, start, findings, position = [], None, None, None
        if Part.FAILOVER in parts and self._copy_to_standbys():
            notes.append(f'slot "{self._slot}" is copied to standbys now')
        if Part.SLOT_START in parts:
            start, xmin = _slot_start(
                conn, self._slot, wanted.confirmed, is_other=self._has_other_positions
            )
            begins(wanted.confirmed, xmin)
        if Part.PREFLIGHT in parts:
            findings = self._preflight()
        if Part.GOAL in parts:
            position = goal.find(is_other=self._has_other_positions)
        return Checked(wanted.number, tuple(notes), start, findings, position)

    def start(self, number: int, start: Lsn, options: dict[str, Any]) -> Started:
        """Starts the stream."""
        try:
            self.stream.start(self._slot, start, **options)
        except ReplicationError as error:
            if error.sqlstate != OBJECT_IN_USE:
                raise
            text = _in_use(self._server.asked, self._slot)
            raise ReplicationError(
                text, sqlstate=OBJECT_IN_USE, slot=self._slot
            ) from error
        return Started(number)

    def _check_publications(self, conn: psycopg.Connection[Any]) -> None:
        """Refuses missing publications before a slot is created, which would be left."""
        for name in self._server.publications:
            query = sql.SQL(_PUBLICATION).format(name)
            if conn.execute(query).fetchone() is None:
                hint = hint_for(Command.PUBLICATION, UNDEFINED_OBJECT, publication=name)
                raise ReplicationError(
                    f"there is no publication {name}; {hint}",
                    sqlstate=UNDEFINED_OBJECT,
                    publication=name,
                    hint=hint,
                )

    def waiting(self, waits: Waiting) -> None:
        """Says what the creation of the slot waits for."""
        self._heard(Heard(str(waits)))

    def _copy_to_standbys(self) -> bool:
        """Makes the server copy the slot to its standbys. Returns whether it did not before."""
        conn = self.stream.connection
        if any(each.name == self._slot and each.failover for each in slots(conn)):
            return False
        alter_slot(conn, self._slot, failover=True)
        return True

    def _preflight(self) -> Any:
        server = self._server
        try:
            with connect_for_sql(server.asked) as conn:
                tables = [named(conn, each) for each in server.tables or ()]
                return tuple(
                    preflight(
                        conn,
                        slot=self._slot,
                        publications=server.publications,
                        tables=tables or None,
                        two_phase=server.two_phase,
                        binary=server.binary,
                    )
                )
        except ReplicationError as error:
            return error


def prefix_of_loads(slot: str) -> str:
    """How the temporary slots of the loads of a receiver begin."""
    return f"walrow_load_{zlib.crc32(slot.encode()):08x}_"


def slot_now(conn: psycopg.Connection[Any], slot: str) -> Lsn | None:
    """Up to where a slot is confirmed. None if it does not exist."""
    found = [each for each in slots(conn) if each.name == slot]
    return Lsn(found[0].confirmed_flush or 0) if found else None


def _status(
    conn: psycopg.Connection[Any],
    system: IdentifySystem,
    slot: SlotFound | None,
    last: Last | None,
) -> XidStatus | None:
    """The status of a transaction that a slot does not send again. A standby may be behind."""
    if last is None or last.xid is None:
        return None
    if slot is not None and (slot.confirmed or 0) <= last.lsn:
        return None
    row = conn.execute(_NEXT_XID).fetchone() if system.xlogpos >= last.lsn else None
    if row is None:
        return None
    next_xid, waits = int(row[0]), bool(row[1])
    query = _XID_STATUS.format(full_xid(last.xid, next_xid)).encode()
    try:
        found = conn.execute(query).fetchone()
    except psycopg.errors.InvalidParameterValue:
        return XidStatus("future", waits)
    return XidStatus(None if found is None else found[0], waits)


def _slot_start(
    conn: psycopg.Connection[Any], slot: str, confirmed: Lsn, *, is_other: bool
) -> tuple[SlotStart, int | None]:
    """Finds what may have been prepared before the position of a slot that exists, and its `catalog_xmin`.

    The server does not send the rows of such a transaction again, only its commit. Up to
    PostgreSQL 17, it sends the same for one without changes.
    """
    found = conn.execute(sql.SQL(_PREPARED).format(slot)).fetchone()
    nothing: Any = (False, None, False, [], None)
    has_two_phase, enabled, is_standby, prepared, xmin = found or nothing
    if not has_two_phase or (enabled is not None and enabled >= confirmed):
        return SlotStart(confirmed), xmin
    if is_standby:
        # It does not show prepared transactions.
        return SlotStart(confirmed, _LAST), xmin
    if is_other:
        return SlotStart(confirmed, _LAST, prepared), xmin
    # After the question: transactions that were decided by then were committed up to
    # here.
    row = conn.execute(_END_OF_WAL).fetchone()
    until = _LAST if row is None else Lsn(int(row[0]))
    return SlotStart(confirmed, until, prepared), xmin


def _in_use(given: dict[str, Any], slot: str) -> str:
    """Says who uses a slot."""
    with connect_for_sql(given) as conn:
        found = next((each for each in slots(conn) if each.name == slot), None)
    if found is None or found.active_pid is None:
        return f'slot "{slot}" was in use until now'
    name = found.active_application
    return (
        f'slot "{slot}" is in use by process {found.active_pid} of the server'
        f"{f' ({name})' if name else ''}: stop that client"
    )


_LAST = Lsn(2**64 - 1)
# The columns depend on the version.
_PREPARED = """
SELECT (to_jsonb(slot) ->> 'two_phase')::boolean,
    (to_jsonb(slot) ->> 'two_phase_at')::pg_lsn - '0/0',
    pg_catalog.pg_is_in_recovery(),
    ARRAY(
        SELECT transaction::text::bigint FROM pg_catalog.pg_prepared_xacts
        WHERE database = pg_catalog.current_database()
    ),
    slot.catalog_xmin::text::bigint
FROM pg_catalog.pg_replication_slots AS slot
WHERE slot_name = {}
"""
_TRIGGER = """
SELECT 1 FROM pg_catalog.pg_event_trigger WHERE evtname IN ({}, {}, {}, {}) LIMIT 1
"""
_NEXT_XID = """
SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint,
    pg_catalog.current_setting('synchronous_standby_names') <> ''
"""
_XID_STATUS = "SELECT pg_catalog.pg_xact_status('{}'::xid8)"
# The walsender of a receiver that was killed may wait for transactions, and not notice. As long as
# another receiver uses the slot, they may be its own.
_END_ORPHANS = """
SELECT pg_catalog.pg_terminate_backend(s.active_pid)
FROM pg_catalog.pg_replication_slots s
JOIN pg_catalog.pg_stat_activity a ON a.pid = s.active_pid AND a.usename = current_user
WHERE s.temporary AND pg_catalog.starts_with(s.slot_name, {})
    AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_replication_slots
        WHERE slot_name = {} AND active_pid IS NOT NULL
    )
"""
_PUBLICATION = "SELECT FROM pg_catalog.pg_publication WHERE pubname = {}"
_END_OF_WAL = "SELECT pg_catalog.pg_current_wal_insert_lsn() - '0/0'"
_SLOT = """
SELECT plugin, database, confirmed_flush_lsn - '0/0', wal_status,
    -- Version 16 does not say why a standby lost it.
    coalesce(pg_catalog.to_jsonb(s) ->> 'invalidation_reason', CASE
        WHEN pg_catalog.pg_is_in_recovery() AND pg_catalog.to_jsonb(s) ->> 'conflicting' = 'true'
        THEN 'conflicting' END),
    COALESCE((pg_catalog.pg_stat_get_replication_slot(slot_name)).total_txns > 0, false)
FROM pg_catalog.pg_replication_slots s
WHERE slot_name = {}
"""
# Without locks, which the sizes of files would need.
_TABLE_BYTES = """
SELECT COALESCE(sum(c.relpages::bigint + COALESCE(t.relpages, 0)), 0)
    * pg_catalog.current_setting('block_size')::bigint
FROM pg_catalog.pg_class AS c
LEFT JOIN pg_catalog.pg_class AS t ON t.oid = c.reltoastrelid
WHERE c.oid = ANY ({})
"""
