"""What comes before the stream of a receiver: whether its slot continues the log, and a new slot."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from walrow.errors import Error, OptionError, Remedy, ReplicationError
from walrow.lsn import Lsn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import psycopg

    from walrow.completeness import Completeness
    from walrow.interruption import Step
    from walrow.landing import Landing
    from walrow.postgres import Finding, IdentifySystem
    from walrow.postgres.resuming import SlotStart
    from walrow.postgres.waiting import Waiting
    from walrow.receiver_loads import Loads
    from walrow.typing import TableName

__all__ = ["Beginning"]


class Beginning:
    """Checks a server and a slot at each connection, and creates the slot on request.

    Attributes:
        system: The server, once the log is open.
        timeline: The timeline on which it was received last.
        refusal: The last error of a check: no other attempt is made then.
        has_useless_slot: Whether a first load that failed has left a slot.
    """

    def __init__(
        self,
        given: dict[str, Any],
        slot: str,
        *,
        publications: Sequence[str],
        tables: Sequence[TableName] | None,
        create: bool,
        failover: bool,
        snapshot: bool,
        two_phase: bool,
        binary: bool,
        loads: Loads,
        completeness: Completeness,
        answered: Callable[[], None],
        note: Callable[[str], None],
    ) -> None:
        """Stores the arguments.

        Args:
            given: The connection parameters.
            slot: The slot.
            publications: The publications.
            tables: What the publication must have, or gets if it is created.
            create: Whether the slot may be created.
            failover: Whether the server copies it to standbys.
            snapshot: Whether a log begins with a load.
            two_phase: Whether prepared transactions come at PREPARE.
            binary: Whether values come in binary.
            loads: Makes the first load.
            completeness: Learns which tables have rows before the slot.
            answered: Is called when the server has answered in a step that takes long.
            note: Says something to people.
        """
        self._given = {**given, "connect_timeout": 5}
        self._slot = slot
        self._publications = publications
        self._tables = tables
        self._create = create
        self._failover = failover
        # A load has all rows, wherever the slot is.
        self._snapshot = self._knows_beginning = snapshot
        self._two_phase = two_phase
        self._binary = binary
        self._loads = loads
        self._completeness = completeness
        self._answered = answered
        self._note = note
        self._is_checked = False
        #: Up to where the server has sent WAL, on this timeline.
        self._server_lsn = Lsn(0)
        self.system: IdentifySystem | None = None
        self.timeline: int | None = None
        self.refusal: Error | None = None
        self.has_useless_slot = False

    def sent(self, server_lsn: Lsn) -> None:
        """Learns up to where the server has sent WAL."""
        self._server_lsn = max(self._server_lsn, server_lsn)

    def is_promoted(self, timeline: int) -> bool:
        """Whether the server of the stream goes on with a later timeline.

        What has come over the connection is in this server's history, before and after that.
        So it is the new timeline's, although it may be past the old one's end.
        """
        if self.timeline is None or timeline <= self.timeline:
            return False
        self.timeline, self._server_lsn = timeline, Lsn(0)
        return True

    def check_system(self, system: IdentifySystem) -> None:
        """Refuses another server than before."""
        known = self.system
        if known is not None and known.system_identifier != system.system_identifier:
            text = (
                f"the server is another one: system identifier {system.system_identifier}, "
                f"not {known.system_identifier}; use another log for it"
            )
            with self._finally_refusing():
                raise ReplicationError(text, slot=self._slot)

    def check(
        self,
        conn: psycopg.Connection[Any],
        system: IdentifySystem,
        landing: Landing,
        step: Step[Any],
    ) -> SlotStart | None:
        """Checks that the server and the slot continue the log. Creates the slot on request.

        Args:
            conn: The replication connection.
            system: The server.
            landing: The log.
            step: What is left if the receiver is stopped.

        Returns:
            Where the slot is, if the log is empty and does not begin with a load.

        Raises:
            ReplicationError: They do not.
        """
        self._check_history(conn, system, landing)
        return self._check_slot(conn, system, landing, step)

    def preflight(self) -> None:
        """Refuses what would fail later. Warns once."""
        from walrow.postgres import preflight
        from walrow.postgres.connecting import connect_for_sql
        from walrow.postgres.failures import LOCK_NOT_AVAILABLE
        from walrow.postgres.temporary_publication import named

        if self._is_checked:
            return
        try:
            with connect_for_sql(self._given) as conn:
                tables = [named(conn, each) for each in self._tables or ()]
                found = preflight(
                    conn,
                    slot=self._slot,
                    publications=self._publications,
                    tables=tables or None,
                    two_phase=self._two_phase,
                    binary=self._binary,
                )
        except ReplicationError as error:
            if error.sqlstate != LOCK_NOT_AVAILABLE:
                raise
            # The server refuses itself what it cannot send.
            self._note(f"warning: {error}")
            return
        # Its last client may be gone without the server's knowledge: that is tried again.
        errors = [each for each in found.errors if each.code != "slot-active"]
        if errors:
            with self._finally_refusing():
                raise ReplicationError("; ".join(map(_line, errors)), slot=self._slot)
        for each in found:
            if each.severity == "warning":
                self._note(f"warning: {_line(each)}")
        self._is_checked = True

    @contextlib.contextmanager
    def _finally_refusing(self) -> Iterator[None]:
        """Marks errors of walrow's own checks, so that no other attempt is made."""
        try:
            yield
        except ReplicationError as error:
            self.refusal = error
            raise

    def _check_history(
        self, conn: psycopg.Connection[Any], system: IdentifySystem, landing: Landing
    ) -> None:
        """Checks that the server has the WAL that was received."""
        from walrow.postgres import timeline_history
        from walrow.postgres.resuming import check_not_older, check_timeline

        before, now = self.timeline, system.timeline
        if before is not None and before != now:
            history = timeline_history(conn, now)
            with self._finally_refusing():
                # What is still queued has come from the old timeline, too.
                check_timeline(before, now, history, landing.settle(), self._slot)
            self._server_lsn = Lsn(0)
        self.timeline = now
        with self._finally_refusing():
            known = max(landing.durable, self._server_lsn)
            check_not_older(conn, system, known, self._slot)

    def _check_slot(
        self,
        conn: psycopg.Connection[Any],
        system: IdentifySystem,
        landing: Landing,
        step: Step[Any],
    ) -> SlotStart | None:
        from walrow.postgres import drop_slot
        from walrow.postgres.resuming import (
            SlotStart,
            check_slot,
            copy_to_standbys,
            slot_start,
        )

        durable = landing.durable
        warn = None if self._knows_beginning else self._warn_of_beginning
        with self._finally_refusing():
            is_broken = landing.lacks_first_load and not self._loads.is_first
            if is_broken and not self._snapshot:
                text = "the first load of the log was broken off: remove the log and its slot"
                raise ReplicationError(
                    text,
                    slot=self._slot,
                    advice=", or continue with ",
                    remedies=(Remedy("snapshot", None, value=True),),
                )
            confirmed = check_slot(
                conn,
                self._slot,
                system,
                durable,
                create=self._create,
                warn=warn,
            )
            self.has_useless_slot = False
            if confirmed is not None and is_broken:
                # What it has kept is useless without the rows from before.
                drop_slot(conn, self._slot, wait=True)
                confirmed = None
        if confirmed is not None:
            if self._snapshot and not durable and not self._loads.is_pending:
                # Somebody else has created the slot: its snapshot is gone.
                self._loads.request_all()
            if self._failover and copy_to_standbys(conn, self._slot):
                self._note(f'slot "{self._slot}" is copied to standbys now')
            if durable:
                return None
            if self._snapshot:
                return SlotStart(confirmed)
            return slot_start(conn, self._slot, confirmed, warn=warn)
        return self._create_slot(conn, landing, step)

    def _create_slot(
        self, conn: psycopg.Connection[Any], landing: Landing, step: Step[Any]
    ) -> SlotStart | None:
        from walrow.postgres import create_slot
        from walrow.postgres.resuming import SlotStart

        def waiting(waits: Waiting) -> None:
            with step.unless_left():
                self._answered()
                self._note(str(waits))

        if self._tables is not None:
            with step.unless_left():
                self._answered()
            self._create_publication(self._tables)
        step.check()
        slot_options: dict[str, Any] = {
            "two_phase": self._two_phase,
            "failover": self._failover,
        }
        if self._snapshot:
            self._loads.begin_first(
                conn, self._slot, landing, step=step, waiting=waiting, **slot_options
            )
            self._knows_beginning = True
            return None
        created = create_slot(
            conn, self._slot, snapshot="export", waiting=waiting, **slot_options
        )
        self._knows_beginning = True
        if created.snapshot is not None:
            self._completeness.begin(created.snapshot, created.consistent_point)
        return SlotStart(created.consistent_point)

    def _warn_of_beginning(self, text: str) -> None:
        self._knows_beginning = True
        self._note(f"warning: {text}")

    def _create_publication(self, tables: Sequence[TableName]) -> None:
        from walrow.postgres.temporary_publication import create_if_missing

        if len(self._publications) != 1:
            text = "tables creates one publication: name one"
            raise OptionError(text)
        create_if_missing(self._given, self._publications[0], tables)


def _line(finding: Finding) -> str:
    sql = " ".join((finding.sql or "").splitlines())
    text = f"{finding.text} [{finding.code}]"
    return f"{text}: {sql}" if sql else text
