"""Replication slots of a server, and the WAL that they keep."""

from __future__ import annotations

import datetime as dt
from typing import Any

import psycopg

from walrow._lsn import Lsn
from walrow._postgres.session import records
from walrow._postgres.waiting import time_of
from walrow._results import Result, Results, result


@result
class Slot(Result):
    """A replication slot.

    A field that the server's version does not have is None.

    Attributes:
        name: Its name.
        kind: `logical` or `physical`.
        plugin: The output plugin. None for a physical slot.
        database: Its database. None for a physical slot.
        active_pid: The server process that uses it now.
        active_application: The application_name of that process.
        temporary: Whether it ends with the connection that created it.
        two_phase: Whether prepared transactions are sent at PREPARE.
        failover: Whether it is copied to standbys. From server 17.
        synced: Whether a standby has copied it from its primary. From server 17.
        restart_lsn: The oldest WAL that it keeps. None if it keeps none.
        confirmed_flush: The position that its client has confirmed.
        kept_bytes: The size of the WAL that it keeps, if the server's SQL functions return the LSNs
            of its stream. None if it keeps none.
        wal_status: `reserved` or `extended` if the WAL is there, `unreserved` if it
            will be removed soon, `lost` if some is gone and the slot is useless.
        safe_wal_size: The bytes of WAL that can be written before the slot may be lost.
            None without `max_slot_wal_keep_size`, or if it is lost.
        inactive_since: When it was last used. From server 17.
        invalidation_reason: Why it is lost. From server 17.
        conflict: Whether a standby had to invalidate it. From server 16, where it is
            also true of a slot that is lost for another reason.
    """

    name: str
    kind: str
    plugin: str | None
    database: str | None
    active_pid: int | None
    active_application: str | None
    temporary: bool
    two_phase: bool | None
    failover: bool | None
    synced: bool | None
    restart_lsn: Lsn | None
    confirmed_flush: Lsn | None
    kept_bytes: int | None
    wal_status: str | None
    safe_wal_size: int | None
    inactive_since: dt.datetime | None
    invalidation_reason: str | None
    conflict: bool | None


def slots(conn: psycopg.Connection[Any]) -> Results[Slot]:
    """Lists the replication slots of a server, in all databases, by name.

    ```python
    with psycopg.connect("dbname=shop") as conn:
        for slot in walrow.postgres.slots(conn):
            print(slot.name, slot.wal_status, slot.kept_bytes)
    ```

    Any role may read them. The state of the connection does not change, as in
    `catalog`.

    Args:
        conn: A psycopg connection.

    Raises:
        OptionError: The connection cannot be used.
        psycopg.Error: The query failed.
    """
    return Results(map(_slot, records(conn, _SLOTS)), "slot")


def _slot(row: dict[str, Any]) -> Slot:
    fields: dict[str, Any] = {name: row.get(name) for name in Slot.__annotations__}
    return Slot(
        **fields
        | {
            "restart_lsn": _lsn(row["restart_lsn"]),
            "confirmed_flush": _lsn(row["confirmed_flush_lsn"]),
            "inactive_since": time_of(row.get("inactive_since")),
        }
    )


def _lsn(text: str | None) -> Lsn | None:
    return None if text is None else Lsn(text)


# The columns depend on the version, so they are read by name.
_SLOTS = """
SELECT (to_jsonb(s) || jsonb_build_object(
    'name', s.slot_name, 'kind', s.slot_type, 'conflict', to_jsonb(s) -> 'conflicting',
    'active_application', nullif(a.application_name, ''),
    -- Before the slot: such a position is of no use.
    'kept_bytes', CASE WHEN e.wal >= s.restart_lsn THEN e.wal - s.restart_lsn END
))::text
FROM pg_replication_slots s
CROSS JOIN (
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
        ELSE pg_current_wal_lsn() END
) e (wal)
LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid
ORDER BY s.slot_name
"""
