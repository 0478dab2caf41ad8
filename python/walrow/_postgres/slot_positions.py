"""Positions of a server and of its slots, over ordinary connections."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg

from walrow._lsn import Lsn
from walrow._postgres.commands import identify_system
from walrow._postgres.connecting import connect, connect_for_sql
from walrow._postgres.failures import OBJECT_IN_USE
from walrow._postgres.published import for_version
from walrow._postgres.session import records
from walrow._postgres.waiting import OpenTransaction, time_of
from walrow._waiting import pause
from walrow.errors import ReplicationError


def has_other_positions(conn: psycopg.Connection[Any]) -> bool:
    """Whether SQL functions return other LSNs than a replication connection, or refuse to.

    Some managed servers, whose storage is not PostgreSQL's, do so.
    """
    try:
        before: Any = conn.execute(_FLUSHED).fetchone() or (None,)
        position = identify_system(conn).xlogpos
        after: Any = conn.execute(_FLUSHED).fetchone() or (None,)
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise
        return True
    return before[0] is not None and not before[0] <= position <= after[0]


def end_of_wal(conn: psycopg.Connection[Any]) -> tuple[Lsn, bool]:
    """The end of the WAL that a server may have sent, and whether the server is a primary."""
    end, is_primary = conn.execute(_SENT).fetchone() or (None, False)
    return Lsn(int(end or 0)), is_primary


def position_of_now(given: dict[str, Any], *, is_other: bool) -> Lsn:
    """A position of streams, behind everything that is committed, which the server will reach."""
    with connect_for_sql(given) as conn:
        return position_after(conn, given, is_other=is_other)


def position_after(
    conn: psycopg.Connection[Any], given: dict[str, Any], *, is_other: bool
) -> Lsn:
    """Like `position_of_now`, but behind everything that an ordinary connection has seen.

    Commits that did not wait are flushed a moment later. Other records may wait for the next
    commit, and a walsender waits for their end: so if the flush does not come, this makes a
    commit without changes.
    """
    if is_other:
        conn.execute(_FLUSH)
        with closing(connect(given)) as stream:
            return identify_system(stream).xlogpos
    now = time.monotonic()
    ends, commits = now + _FLUSH_SECONDS, now + _PATIENCE_SECONDS
    while True:
        row = conn.execute(_ENDS_OF_WAL).fetchone()
        written, flushed = row or (0, 0)
        # The end of the written WAL may be a page's header, where no record ends.
        if flushed >= written or time.monotonic() > ends:
            return Lsn(int(min(written, flushed)))
        if time.monotonic() > commits:
            commits = ends
            conn.execute(_COMMIT)
        pause(0.02)


def prepared_transactions(
    conn: psycopg.Connection[Any], publications: Sequence[str]
) -> list[OpenTransaction]:
    """Transactions that were prepared, are not decided, and have written to published tables.

    None on a standby, which does not know them.
    """
    return [
        OpenTransaction(**found | {"since": time_of(found["since"])})
        for found in records(
            conn, for_version(conn, _PREPARED), {"publications": list(publications)}
        )
    ]


def advance(given: dict[str, Any], slot: str, position: Lsn) -> None:
    """Confirms a position when the stream has ended."""
    ends = time.monotonic() + _RELEASE_SECONDS
    while True:
        try:
            with connect_for_sql(given) as conn:
                conn.execute(_ADVANCE, (slot, str(position)))
        except ReplicationError as error:
            # The walsender may need a moment to notice that its client is gone.
            if error.sqlstate != OBJECT_IN_USE or time.monotonic() > ends:
                raise
            pause(0.02)
        else:
            return


# A prepared transaction keeps the locks of the tables that it has written to, and shows only them.
_PREPARED = """
WITH {published}
SELECT jsonb_build_object(
    'xid', p.transaction, 'pid', NULL, 'gid', p.gid, 'application', NULL,
    'user', p.owner, 'database', p.database, 'state', 'with ' || written.locks, 'since', p.prepared
)::text
FROM pg_prepared_xacts p
CROSS JOIN LATERAL (
    SELECT string_agg(
        DISTINCT format('%%s on %%s', held.mode, held.relation::regclass), ', '
    ) AS locks
    FROM pg_locks own
    JOIN pg_locks held ON held.virtualtransaction = own.virtualtransaction
    CROSS JOIN LATERAL (
        SELECT held.relation AS oid
        UNION SELECT relid FROM pg_partition_ancestors(held.relation)
    ) part
    JOIN published t ON t.oid = part.oid
    WHERE own.locktype = 'transactionid' AND own.transactionid = p.transaction
        AND held.locktype = 'relation' AND held.database = (
            SELECT oid FROM pg_database WHERE datname = current_database()
        )
        AND held.mode NOT IN ('AccessShareLock', 'RowShareLock')
) written
WHERE p.database = current_database() AND written.locks IS NOT NULL
ORDER BY p.prepared, p.gid
"""
# NULL on a standby.
_FLUSHED = """
SELECT CASE WHEN NOT pg_catalog.pg_is_in_recovery()
    THEN pg_catalog.pg_current_wal_flush_lsn() - '0/0' END
"""
_SENT_LSN = """CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
        ELSE pg_current_wal_flush_lsn() END - '0/0'"""
_ENDS_OF_WAL = f"""
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
        ELSE pg_current_wal_insert_lsn() END - '0/0',
    {_SENT_LSN}
"""
_SENT = f"SELECT {_SENT_LSN}, NOT pg_is_in_recovery()"
#: An ID makes a commit record. A standby has no such position.
_COMMIT = """
SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_current_xact_id() END
"""
#: The commit waits until it is flushed, and everything before it.
_FLUSH = """
SELECT set_config('synchronous_commit', 'local', true), pg_current_xact_id()
"""
_ADVANCE = """
SELECT pg_replication_slot_advance(slot_name, wanted)
FROM pg_replication_slots, (VALUES (%s::name, %s::pg_lsn)) AS v (name, wanted)
WHERE slot_name = name AND confirmed_flush_lsn < wanted
"""
_RELEASE_SECONDS = 5.0
#: Longer than the WAL writer needs for commits that are not synchronous.
_FLUSH_SECONDS = 1.5
_PATIENCE_SECONDS = 0.3
