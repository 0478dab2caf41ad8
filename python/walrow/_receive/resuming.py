"""Whether a server and a slot continue where a log ends: no connection, no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walrow._log.marks import Gap
from walrow._lsn import Lsn
from walrow._postgres.failures import UNDEFINED_OBJECT
from walrow._receive.same_server import replaced
from walrow.errors import ConnectionLostError, Remedy, ReplicationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from walrow._postgres.commands import IdentifySystem
    from walrow._receive.same_server import Last


class SlotFound(NamedTuple):
    """The state of a slot. `wal_status` is whether the server has its WAL, `invalidation` why not.

    As far as the server's statistics show, it `has_sent` transactions, and not to this log alone.
    """

    plugin: str | None
    database: str | None
    confirmed: Lsn | None
    wal_status: str | None
    invalidation: str | None
    has_sent: bool = False


class SlotGap(NamedTuple):
    """Why no slot continues a log that ends at `start`, as a code and in words.

    The slot's changes begin at `end`. None if a slot has to be created.
    """

    cause: str
    text: str
    start: Lsn
    end: Lsn | None = None

    @property
    def known(self) -> Gap | None:
        """The gap, once its end is known."""
        return None if self.end is None else Gap(self.start, self.end, self.cause)


class XidStatus(NamedTuple):
    """The status of a transaction. None if the server does not know it. A commit `waits` for standbys."""

    status: Literal["committed", "aborted", "in progress", "future"] | None
    waits: bool


class SlotStart(NamedTuple):
    """Where a slot is when a log is begun, and what may have been prepared before.

    Those are commits up to `prepared_until`, and transactions with the IDs in `prepared`.
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
    """Refuses a server that lacks something of an earlier timeline on which its log was received.

    `history` has the LSN where each earlier timeline ended.
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
    system: IdentifySystem, known: Lsn, slot: str, *, is_standby: bool
) -> None:
    """Refuses a server that was set back, on the timeline that is known: its WAL ends before `known`.

    Its WAL then goes on with other transactions at LSNs that the log has already. A standby may be
    behind the server that has sent it.
    """
    if system.xlogpos >= known or is_standby:
        return
    text = (
        f"the server's WAL ends at {system.xlogpos}, but it was received up to {known}: the "
        "server was restored from an older copy, and the log has transactions that it does "
        "not have"
    )
    raise ReplicationError(text, slot=slot)


def check_slot(
    found: SlotFound | None,
    slot: str,
    database: str | None,
    durable: Lsn,
    *,
    create: bool,
) -> Lsn | SlotGap | None:
    """Refuses a slot that cannot continue a log: it is another slot.

    Returns the position that it has confirmed. None if it does not exist, and a gap if changes are
    lost.
    """
    if found is None:
        if durable:
            text = f"it does not exist, and the log ends at {durable}: the changes since then are lost"
            return SlotGap("slot_missing", text, durable)
        if create:
            return None
        text = f'slot "{slot}" does not exist'
        raise ReplicationError(
            text,
            sqlstate=UNDEFINED_OBJECT,
            slot=slot,
            advice=f"; create it with walrow slot create {slot}, or with ",
            remedies=(Remedy("create", value=True),),
        )
    confirmed = found.confirmed
    refusal = None
    if found.plugin != "pgoutput":
        refusal = (
            f"its plugin is {found.plugin or 'none'}, not pgoutput: create another slot"
        )
    elif found.database != database:
        refusal = f"it belongs to database {found.database}: connect to that"
    elif found.wal_status == "lost":
        text = f"{_lost(found.invalidation)}: changes are lost"
        if durable:
            return SlotGap("slot_lost", text, durable)
        refusal = f"{text}. Drop the slot, and create it again"
    elif durable and confirmed is not None and confirmed > durable:
        text = (
            f"it was confirmed up to {confirmed}, but the log ends at "
            f"{durable}: it was created again, or another client used it, and the changes "
            "between are lost"
        )
        return SlotGap("slot_moved", text, durable, confirmed)
    elif not durable and found.has_sent:
        text = (
            "it has sent changes before, and the log is empty: what was committed up to "
            f"{confirmed} is not in this log. If the log's volume is not mounted, mount it"
        )
        return SlotGap("slot_used", text, durable, confirmed)
    if refusal is not None:
        raise ReplicationError(f'slot "{slot}": {refusal}', slot=slot)
    return confirmed or Lsn(0)


def gap_error(
    slot: str, error: ReplicationError | SlotGap, size: int
) -> ReplicationError:
    """The error if nobody has asked to cross a gap, with the command and its cost in bytes."""
    crossing = (
        'walrow receive --cross-gap, or on_gap = "snapshot" in the file of walrow run, continues '
        f"behind the lost changes, with a new snapshot of all tables: {size / 1e6:,.1f} MB"
    )
    if isinstance(error, ReplicationError):
        text, code = f"{error.reason}; if it never can, {crossing}", error.sqlstate
        return ReplicationError(text, sqlstate=code, slot=slot, hint=error.hint)
    code = UNDEFINED_OBJECT if error.cause == "slot_missing" else None
    text = f'slot "{slot}": {error.text}; {crossing}'
    return ReplicationError(text, sqlstate=code, slot=slot)


def doubt_of_beginning(slot: str, confirmed: Lsn) -> str:
    """The warning for an empty log whose slot exists.

    The catalog does not say whether that is still where the slot was created.
    """
    return (
        f'the log is empty, and slot "{slot}" is at {confirmed}: what was '
        "committed before is not in this log. That is where the slot was created, unless "
        "another client has used it since"
    )


def doubt_of_prepared(slot: str, start: SlotStart) -> str:
    """The warning for a log whose slot begins among prepared transactions."""
    return (
        f"the database has prepared transactions: {len(start.prepared)}. The rows of those that "
        f'were prepared before slot "{slot}" was at {start.lsn} do not come any more, and the '
        "receiver stops at their COMMIT PREPARED. If there may be such, commit or roll them "
        "back, and then begin with a new slot, a new log, and a new copy of the tables"
    )


def check_last_transaction(status: XidStatus | None, last: Last, slot: str) -> None:
    """Refuses a server without the last transaction of a log, which its slot does not send again.

    The slot was created again then, or advanced, on a server that was set back. It is a
    ConnectionLostError if the server may not show it yet. A status of None does not matter.
    """
    if status is None:
        return
    why = replaced(status.status, is_prepare=last.is_prepare)
    if why is None:
        return
    if status.status == "in progress" and status.waits:
        # It is committed when the standbys have it: the log may have it before.
        raise ConnectionLostError(
            f"transaction {last.xid}, which the log has, waits for synchronous standbys"
        )
    text = (
        f"the log has transaction {last.xid} at {last.lsn}, and the server {why}: it was "
        f'restored from an older copy, and slot "{slot}" was created again or advanced there'
    )
    raise ReplicationError(text, slot=slot)


def _lost(invalidation: str | None) -> str:
    # Servers before 17 do not know the reason.
    if invalidation in {None, "wal_removed"}:
        reason = "removed WAL that it needs"
    else:
        reason = f"invalidated it ({invalidation})"
    return f"the server has {reason}"
