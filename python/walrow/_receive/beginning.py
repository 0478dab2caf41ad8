"""Before a receiver's stream: checks that its slot continues the log, or makes a slot."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from walrow._log.stopped import stop, way_out
from walrow._lsn import Lsn
from walrow._postgres.commands import create_slot, drop_slot, timeline_history
from walrow._postgres.connecting import connect_for_sql
from walrow._postgres.failures import LOCK_NOT_AVAILABLE
from walrow._postgres.preflight import preflight
from walrow._postgres.slots import slots
from walrow._postgres.temporary_publication import create_if_missing, named
from walrow._receive.orders import Session
from walrow._receive.resuming import (
    SlotStart,
    check_last_transaction,
    check_not_older,
    check_slot,
    check_timeline,
    copy_to_standbys,
    slot_start,
)
from walrow._receive.same_server import Comparison, began_elsewhere, plan_session
from walrow.errors import (
    ConnectionLostError,
    Error,
    LogError,
    OptionError,
    Remedy,
    ReplicationError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import psycopg

    from walrow._postgres.commands import IdentifySystem
    from walrow._postgres.interruption import Step
    from walrow._postgres.preflight import Finding
    from walrow._postgres.waiting import Waiting
    from walrow._receive.completeness import Completeness
    from walrow._receive.landing import Landing
    from walrow._receive.loads import Loads
    from walrow._receive.same_server import SessionPlan
    from walrow.typing import TableName

__all__ = ["Beginning"]


class Beginning:
    """Checks a server and a slot at each connection, and creates the slot on request.

    Attributes:
        system: The server, once the log is open.
        timeline: The timeline on which it was received last.
        timeline_start: Where the timeline began, if that is known.
        refusal: The last error of a check: no other attempt is made then.
        has_useless_slot: Whether a first load that failed has left a slot.
    """

    def __init__(
        self,
        given: dict[str, Any],
        slot: str,
        *,
        log: Path,
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
            log: The log's directory.
            publications: The publications.
            tables: The tables that the publication must have, or gets if it is created.
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
        self._log = log
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
        self.timeline_start: Lsn | None = None
        #: Up to where the slot was confirmed, at the beginning of the connection.
        self._confirmed = Lsn(0)
        #: Whether the connection before has compared the server, with the log's options.
        self._was_compared = False
        self.refusal: Error | None = None
        self.has_useless_slot = False

    def sent(self, server_lsn: Lsn) -> None:
        """Learns up to where the server has sent WAL."""
        self._server_lsn = max(self._server_lsn, server_lsn)

    def is_promoted(self, timeline: int) -> bool:
        """Whether the server of the stream goes on with a later timeline.

        All bytes of the connection are in this server's history, before and after that.
        So it is the new timeline's, although it may be past the old one's end.
        """
        if self.timeline is None or timeline <= self.timeline:
            return False
        self.timeline, self._server_lsn = timeline, Lsn(0)
        # The next connection asks for it.
        self.timeline_start = None
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
            step: The open transactions that are left if the receiver is stopped.

        Returns:
            Where the slot is, if the log is empty and does not begin with a load.

        Raises:
            ReplicationError: They do not.
        """
        self._check_history(conn, system, landing, step)
        return self._check_slot(conn, system, landing, step)

    def plan(self, landing: Landing, wanted: dict[str, str]) -> SessionPlan:
        """How the connection begins, if these options are given."""
        plan = plan_session(
            durable=landing.durable,
            last=landing.last,
            known=landing.asked,
            wanted=wanted,
            was_compared=self._was_compared,
        )
        self._was_compared = plan.comparison is Comparison.ONLY
        return plan

    def session(
        self, system: IdentifySystem, slot_start: SlotStart | None, plan: SessionPlan
    ) -> Session:
        """The session of the connection."""
        return Session(
            system.timeline,
            self.timeline_start,
            slot_start,
            self._confirmed,
            plan.comparison,
            plan.asked,
        )

    def judged(self, failure: BaseException) -> BaseException:
        """The error of a receiver whose log was not written any more.

        A server that differs from the log's is recorded: the log must not go on.
        """
        if not isinstance(failure, LogError) or failure.code != "other_server":
            return failure
        try:
            with connect_for_sql(self._given) as conn:
                found = [each for each in slots(conn) if each.name == self._slot]
        except Error as error:
            return error
        # This connection has confirmed nothing, but the earlier one may have, until it ended.
        if not found or (found[0].confirmed_flush or 0) > self._confirmed:
            text = f'slot "{self._slot}" was moved while the connection was made'
            return ConnectionLostError(text)
        reason = (
            f"{failure.reason}: it was restored from an older copy, or is another one"
        )
        return self._stopped(ReplicationError(reason, slot=self._slot))

    def preflight(self) -> None:
        """Refuses what would fail later. Warns once."""
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
            # The server itself refuses types that it cannot send.
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

    @contextlib.contextmanager
    def _stopping(self) -> Iterator[None]:
        """Records errors that show another server: the log must not go on, now and later."""
        try:
            yield
        except ReplicationError as error:
            raise self._stopped(error) from error

    def _stopped(self, error: ReplicationError) -> ReplicationError:
        try:
            stop(self._log, error.reason)
        except (Error, OSError) as failed:
            self._note(f"that cannot be recorded in the log: {failed}")
        text = f"{error.reason}. {way_out(self._log)}"
        self.refusal = stopped = ReplicationError(text, slot=self._slot)
        return stopped

    def _history(
        self, conn: psycopg.Connection[Any], now: int
    ) -> list[tuple[int, Lsn, str]]:
        try:
            switches = timeline_history(conn, now).switches
            return [(it.timeline, it.lsn, it.reason) for it in switches]
        except ReplicationError:
            if self.timeline is not None and self.timeline != now:
                raise
            # Its file may be lost: then it is not known where the timeline began.
            return []

    def _check_history(
        self,
        conn: psycopg.Connection[Any],
        system: IdentifySystem,
        landing: Landing,
        step: Step[Any],
    ) -> None:
        """Checks that the server has the WAL that was received."""
        before, now = self.timeline, system.timeline
        history = self._history(conn, now) if now > 1 else []
        if before is not None:
            differs = began_elsewhere(before, self.timeline_start, now, history)
            with self._stopping():
                if differs is not None:
                    text = (
                        f"the server's timeline {before} began at {differs[1]}, and that of the "
                        f"log at {differs[0]}: it is another server, which was promoted, too"
                    )
                    raise ReplicationError(text, slot=self._slot)
                if before != now:
                    # The queued blocks have come from the old timeline, too.
                    durable = landing.settle(step.check)
                    check_timeline(before, now, history, durable, self._slot)
        if before != now:
            self._server_lsn, self.timeline_start = Lsn(0), None
        self.timeline = now
        if history:
            self.timeline_start = Lsn(history[-1][1])
        with self._stopping():
            known = max(landing.durable, self._server_lsn)
            check_not_older(conn, system, known, self._slot)

    def _check_slot(
        self,
        conn: psycopg.Connection[Any],
        system: IdentifySystem,
        landing: Landing,
        step: Step[Any],
    ) -> SlotStart | None:

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
            self._confirmed = confirmed or Lsn(0)
            self.has_useless_slot = False
            if confirmed is not None and is_broken:
                # The WAL that it has kept is useless without the earlier rows.
                drop_slot(conn, self._slot, wait=True)
                confirmed = None
        if confirmed is not None:
            last = landing.last
            if durable and last is not None and confirmed > last.lsn:
                with self._stopping():
                    check_last_transaction(conn, system, last, self._slot)
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

        if len(self._publications) != 1:
            text = "tables creates one publication: name one"
            raise OptionError(text)
        create_if_missing(self._given, self._publications[0], tables)


def _line(finding: Finding) -> str:
    sql = " ".join((finding.sql or "").splitlines())
    text = f"{finding.text} [{finding.code}]"
    return f"{text}: {sql}" if sql else text
