"""Whether a slot continues where a log ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walrow._lsn import Lsn
from walrow._postgres.failures import UNDEFINED_OBJECT
from walrow._receive.same_server import full_xid, replaced
from walrow.errors import ConnectionLostError, Remedy, ReplicationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import psycopg

    from walrow._postgres.commands import IdentifySystem
    from walrow._receive.same_server import Last

__all__ = [
    "SlotStart",
    "check_last_transaction",
    "check_not_older",
    "check_slot",
    "check_timeline",
    "copy_to_standbys",
    "in_use",
    "slot_start",
]


class SlotStart(NamedTuple):
    """Where a slot is when a log is begun, and what may have been prepared before.

    Attributes:
        lsn: Up to where it was confirmed.
        prepared_until: Transactions that were committed up to here may have been prepared before.
        prepared: So may transactions with these IDs.
    """

    lsn: Lsn
    prepared_until: Lsn = Lsn(0)
    prepared: Sequence[int] = ()


def check_timeline(
    before: int,
    now: int,
    history: Iterable[tuple[int, Lsn, Any]],
    durable: Lsn,
    slot: str,
) -> None:
    """Checks that a server has everything that was received from an earlier timeline.

    Args:
        before: The timeline on which the log was received.
        now: The server's timeline.
        history: The LSN where each earlier timeline ended in it.
        durable: Where the log ends.
        slot: The slot.

    Raises:
        ReplicationError: The log has transactions that the server does not have.
    """
    end = next((lsn for timeline, lsn, _ in history if timeline == before), None)
    if end is not None and end >= durable:
        return
    where = "is not in its history" if end is None else f"ended at {end}"
    text = (
        f"the server is on timeline {now}. Timeline {before}, on which the log was "
        f"received up to {durable}, {where}: the log has transactions that this server "
        "does not have"
    )
    raise ReplicationError(text, slot=slot)


def check_not_older(
    conn: psycopg.Connection[Any], system: IdentifySystem, known: Lsn, slot: str
) -> None:
    """Checks that a server was not set back, on the timeline that is known.

    Its WAL then goes on with other transactions at LSNs that the log has already.

    Args:
        conn: The replication connection.
        system: The server, and the end of its WAL.
        known: Up to where it has sent WAL on this timeline.
        slot: The slot.

    Raises:
        ReplicationError: The server's WAL ends before that.
    """
    if system.xlogpos >= known:
        return
    row = conn.execute("SELECT pg_catalog.pg_is_in_recovery()").fetchone()
    if row is None or row[0]:
        # A standby may be behind the server that has sent it.
        return
    text = (
        f"the server's WAL ends at {system.xlogpos}, but it was received up to {known}: the "
        "server was restored from an older copy, and the log has transactions that it does "
        "not have"
    )
    raise ReplicationError(text, slot=slot)


def check_slot(
    conn: psycopg.Connection[Any],
    slot: str,
    system: IdentifySystem,
    durable: Lsn,
    *,
    create: bool,
    warn: Callable[[str], None] | None,
) -> Lsn | None:
    """Checks that a slot continues where a log ends.

    Args:
        conn: The replication connection.
        slot: The slot.
        system: The server.
        durable: Where the log ends. 0 if it is empty.
        create: Whether the slot may be created.
        warn: Learns what an empty log will lack. None if that is known.

    Returns:
        Up to where it was confirmed. None if it does not exist.

    Raises:
        ReplicationError: It is another slot, or changes are lost.
    """
    from psycopg import sql

    # A walsender accepts no bound parameters.
    row = conn.execute(sql.SQL(_SLOT).format(slot)).fetchone()
    if row is None:
        if create and not durable:
            return None
        raise _missing(slot, durable)
    plugin, database, confirmed, wal_status, invalidation = row
    refusal = None
    if plugin != "pgoutput":
        refusal = f"its plugin is {plugin or 'none'}, not pgoutput: create another slot"
    elif database != system.database:
        refusal = f"it belongs to database {database}: connect to that"
    elif wal_status == "lost":
        refusal = _lost(invalidation)
    elif durable and confirmed is not None and confirmed > durable:
        refusal = (
            f"it was confirmed up to {Lsn(int(confirmed))}, but the log ends at "
            f"{durable}: it was created again, or another client used it, and the changes "
            "between are lost. Begin with a new log, and a new copy of the tables"
        )
    if refusal is not None:
        text = f'slot "{slot}": {refusal}'
        raise ReplicationError(text, slot=slot)
    if not durable and confirmed is not None and warn is not None:
        # The catalog does not say whether that is still where the slot was created.
        warn(
            f'the log is empty, and slot "{slot}" is at {Lsn(int(confirmed))}: what was '
            "committed before is not in this log. That is where the slot was created, unless "
            "another client has used it since"
        )
    return Lsn(int(confirmed or 0))


def check_last_transaction(
    conn: psycopg.Connection[Any],
    system: IdentifySystem,
    last: Last,
    slot: str,
) -> None:
    """Checks that a server has the last transaction of a log, which its slot does not send again.

    Args:
        conn: The replication connection.
        system: The server.
        last: The last transaction or message that the log took.
        slot: The slot.

    Raises:
        ReplicationError: It does not have it: the slot was created again, or advanced, on a server
            that was set back.
        ConnectionLostError: It may not show it yet.
    """
    if last.xid is None or system.xlogpos < last.lsn:
        # A standby that is behind.
        return
    row = conn.execute(_NEXT_XID).fetchone()
    if row is None:
        return
    next_xid, waits = int(row[0]), bool(row[1])
    status = _status_of(conn, full_xid(last.xid, next_xid))
    why = replaced(status, is_prepare=last.is_prepare)
    if why is None:
        return
    if status == "in progress" and waits:
        # It is committed when the standbys have it: the log may have it before.
        text = (
            f"transaction {last.xid}, which the log has, waits for synchronous standbys"
        )
        raise ConnectionLostError(text)
    text = (
        f"the log has transaction {last.xid} at {last.lsn}, and the server {why}: it was "
        f'restored from an older copy, and slot "{slot}" was created again or advanced there'
    )
    raise ReplicationError(text, slot=slot)


def _status_of(
    conn: psycopg.Connection[Any], xid: int
) -> Literal["committed", "aborted", "in progress", "future"] | None:
    import psycopg

    try:
        row = conn.execute(_XID_STATUS.format(xid).encode()).fetchone()
    except psycopg.errors.InvalidParameterValue:
        return "future"
    return None if row is None else row[0]


def copy_to_standbys(conn: psycopg.Connection[Any], slot: str) -> bool:
    """Makes the server copy a slot to its standbys. Returns whether it did not before."""
    from walrow._postgres.commands import alter_slot
    from walrow._postgres.slots import slots

    if any(each.name == slot and each.failover for each in slots(conn)):
        return False
    alter_slot(conn, slot, failover=True)
    return True


def slot_start(
    conn: psycopg.Connection[Any],
    slot: str,
    confirmed: Lsn,
    *,
    warn: Callable[[str], None] | None,
) -> SlotStart:
    """Finds what may have been prepared before the position of a slot that exists.

    The server does not send the rows of such a transaction again, only its commit. Up to
    PostgreSQL 17, it sends the same for one without changes.

    Args:
        conn: The replication connection.
        slot: The slot.
        confirmed: Up to where it was confirmed.
        warn: Learns the prepared transactions.
    """
    from psycopg import sql

    row = conn.execute(sql.SQL(_PREPARED).format(slot)).fetchone()
    has_two_phase, enabled, is_standby, prepared = row or (False, None, False, [])
    if not has_two_phase or (enabled is not None and enabled >= confirmed):
        return SlotStart(confirmed)
    if is_standby:
        # It does not show prepared transactions.
        return SlotStart(confirmed, _LAST)
    # After the question: transactions that were decided by then were committed up to
    # here.
    row = conn.execute(_END_OF_WAL).fetchone()
    if prepared and warn is not None:
        warn(
            f"the database has prepared transactions: {len(prepared)}. The rows of those that "
            f'were prepared before slot "{slot}" was at {confirmed} do not come any more, and the '
            "receiver stops at their COMMIT PREPARED. If there may be such, commit or roll them "
            "back, and then begin with a new slot, a new log, and a new copy of the tables"
        )
    return SlotStart(confirmed, _LAST if row is None else Lsn(int(row[0])), prepared)


def in_use(given: dict[str, Any], slot: str) -> str:
    """Says who uses a slot."""
    from walrow._postgres.connecting import connect_for_sql
    from walrow._postgres.slots import slots

    with connect_for_sql({**given, "connect_timeout": 5}) as conn:
        found = next((each for each in slots(conn) if each.name == slot), None)
    if found is None or found.active_pid is None:
        return f'slot "{slot}" was in use until now'
    name = found.active_application
    return (
        f'slot "{slot}" is in use by process {found.active_pid} of the server'
        f"{f' ({name})' if name else ''}: stop that client"
    )


def _lost(invalidation: str | None) -> str:
    if invalidation in {None, "wal_removed"}:
        reason = "removed WAL that it needs"
    else:
        reason = f"invalidated it ({invalidation})"
    return (
        f"the server has {reason}: changes are lost. Drop the slot, and begin with a new "
        "slot, a new log, and a new copy of the tables"
    )


def _missing(slot: str, durable: Lsn) -> ReplicationError:
    text = f'slot "{slot}" does not exist'
    if not durable:
        return ReplicationError(
            text,
            sqlstate=UNDEFINED_OBJECT,
            slot=slot,
            advice=f"; create it with walrow slot create {slot}, or with ",
            remedies=(Remedy("create", value=True),),
        )
    text += (
        f", and the log ends at {durable}: the changes since then are lost with the slot. "
        "Begin with a new log, and a new copy of the tables"
    )
    return ReplicationError(text, sqlstate=UNDEFINED_OBJECT, slot=slot)


# Servers before 17 do not know the reason of an invalidation.
_LAST = Lsn(2**64 - 1)
# The columns depend on the version.
_PREPARED = """
SELECT (to_jsonb(slot) ->> 'two_phase')::boolean,
    (to_jsonb(slot) ->> 'two_phase_at')::pg_lsn - '0/0',
    pg_catalog.pg_is_in_recovery(),
    ARRAY(
        SELECT transaction::text::bigint FROM pg_catalog.pg_prepared_xacts
        WHERE database = pg_catalog.current_database()
    )
FROM pg_catalog.pg_replication_slots AS slot
WHERE slot_name = {}
"""
_NEXT_XID = """
SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint,
    pg_catalog.current_setting('synchronous_standby_names') <> ''
"""
_XID_STATUS = "SELECT pg_catalog.pg_xact_status('{}'::xid8)"
_END_OF_WAL = "SELECT pg_catalog.pg_current_wal_insert_lsn() - '0/0'"
_SLOT = """
SELECT plugin, database, confirmed_flush_lsn - '0/0', wal_status,
    pg_catalog.to_jsonb(s) ->> 'invalidation_reason'
FROM pg_catalog.pg_replication_slots s
WHERE slot_name = {}
"""
