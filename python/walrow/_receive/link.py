"""Decides about a receiver's connection: its steps, its checks, and the next attempt.

```text
Away ─► Preparing: CONNECTING ─► Opening (the log) ─► INSPECTING ─► MAKING ─► CHECKING ─► STARTING ─► Streams
  ▲                                                      └─► Settling (the queue) ─┘                     │
  └───────────────── lost, refused for now, silent ──────────────────────────────────────────────────────┘
a server that is another one: Stopping (that is recorded) ─► Ended
```
Each connection has a number: answers to an earlier number do not count. Here is no thread, no I/O and no
clock.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, assert_never

from walrow._lsn import Lsn
from walrow._postgres.failures import LOCK_NOT_AVAILABLE, is_of_content
from walrow._receive.attempts import Attempts, Streaming
from walrow._receive.events import (
    AbandonLog,
    BeginFirst,
    BeginSession,
    Check,
    Checked,
    Connect,
    Failed,
    Found,
    HangUp,
    Heard,
    Inspect,
    Judge,
    Judged,
    Leave,
    Linked,
    LinkEvent,
    LogOpened,
    Made,
    Make,
    OpenLog,
    Part,
    Promote,
    RecordStop,
    RequestAll,
    Say,
    Started,
    StartStream,
    StopRecorded,
    TimelineSeen,
    TriggerSeen,
    WatchServer,
)
from walrow._receive.link_states import (
    Away,
    Doubt,
    Ended,
    Judging,
    LogSeen,
    Opening,
    Preparing,
    Settling,
    State,
    Step,
    Stopping,
    Streams,
    Want,
    Wishes,
)
from walrow._receive.load import Note
from walrow._receive.orders import Session
from walrow._receive.resuming import (
    SlotGap,
    SlotStart,
    check_last_transaction,
    check_not_older,
    check_slot,
    check_timeline,
    doubt_of_beginning,
    doubt_of_prepared,
    gap_error,
)
from walrow._receive.same_server import (
    Comparison,
    asked_options,
    began_elsewhere,
    plan_session,
    stream_arguments,
)
from walrow.errors import (
    ConnectionLostError,
    Error,
    LogError,
    Remedy,
    ReplicationError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walrow._postgres.commands import IdentifySystem
    from walrow._postgres.preflight import Finding
    from walrow._receive.events import Action, Wish


class Link:
    """The connection of a receiver.

    Its `system` is known once the log is open, which was last received on `timeline`. The `goal` is
    None while it is unknown, or if the receiver has no end. A first load that failed has left `useless_slot`.
    `found` was inspected last.
    """

    def __init__(
        self, wishes: Wishes, give_up_after: float, start_within: float, now: float
    ) -> None:
        """Begins without one. The seconds are as for `Attempts`."""
        self._wishes, self._slot = wishes, wishes.slot
        self.state: State = Away(now)
        self.attempts = Attempts(give_up_after, start_within, now)
        self.streaming = Streaming()
        self.system: IdentifySystem | None = None
        self.timeline: int | None = None
        self.goal: Lsn | None = None
        self.useless_slot: str | None = None
        self.found: Found | None = None
        self._numbers = 0
        #: When the attempt has begun, and when one has streamed last.
        self._since, self._streamed = now, -math.inf
        #: Where the log ended when the attempt began.
        self._durable = Lsn(0)
        #: Where the timeline began, if that is known.
        self._timeline_start: Lsn | None = None
        #: Up to where the server has sent WAL, on this timeline.
        self._sent = Lsn(0)
        #: Up to where the slot was confirmed when this connection began.
        self._confirmed = Lsn(0)
        self._slot_start: SlotStart | None = None
        #: The gap that this connection crosses. It ends where a slot begins that is being made.
        self._gap: SlotGap | None = None
        #: The error of the transaction behind the log's end that the server cannot decode.
        self._fails: Error | None = None
        #: The purpose of the current connection, and the finished purpose of the connection before.
        self._purpose = self._before = Comparison.FIRST
        is_known = Want.SNAPSHOT in wishes.wanted
        self._doubt = Doubt.NONE if is_known else Doubt.OPEN
        #: Checks that are made once only.
        self._due = {Part.PREFLIGHT}
        if Want.GOAL in wishes.wanted:
            self._due.add(Part.GOAL)

    # The facts for others.

    @property
    def number(self) -> int:
        """The number of the connection. 0 without one."""
        match self.state:
            case (
                Preparing(number) | Opening(number) | Settling(number) | Streams(number)
            ):
                return number
            case _:
                return 0

    @property
    def deadline(self) -> float:
        """When a tick has something to do, if nothing happens before."""
        match self.state:
            case Away(until):
                return until
            case Preparing(_, answered) | Settling(_, answered) | Judging(answered):
                return answered + ANSWER_SECONDS
            case Stopping(since):
                return since + ANSWER_SECONDS
            case Opening() | Streams() | Ended():
                return math.inf
            case _:
                assert_never(self.state)

    @property
    def slot(self) -> str:
        """The slot."""
        return self._wishes.slot

    @property
    def has_other_positions(self) -> bool:
        """Whether the server's SQL functions return other LSNs than its stream has."""
        return self.found is not None and self.found.has_other_positions

    @property
    def _has_trigger(self) -> bool:
        return self.found is not None and self.found.has_trigger

    @property
    def is_steady(self) -> bool:
        """Whether a tick has nothing to do: the stream goes on."""
        state = self.state
        return isinstance(state, Streams) and state.purpose is not Comparison.ONLY

    @property
    def is_making(self) -> bool:
        """Whether the slot is made."""
        state = self.state
        return isinstance(state, Preparing) and state.step is Step.MAKING

    def sent(self, server_lsn: Lsn) -> None:
        """Learns up to where the server has sent WAL."""
        self._sent = max(self._sent, server_lsn)

    # The events.

    def on(self, event: LinkEvent, log: LogSeen, now: float) -> list[Action | Wish]:
        """Notes an event. Returns the actions that are due."""
        if getattr(event, "number", self.number) != self.number:
            # An answer to an earlier connection.
            return []
        try:
            return self._on(event, log, now)
        except Error as error:
            return self.lose(error, log, now)

    def _on(self, event: LinkEvent, log: LogSeen, now: float) -> list[Action | Wish]:  # noqa: PLR0911, PLR0912 -- a case for each kind
        match event:
            case Linked(number, system):
                return self._linked(number, system, log, now)
            case LogOpened():
                if not isinstance(self.state, Opening):
                    return []
                self.timeline = event.timeline
                self._timeline_start = event.timeline_start
                return self._inspect(self.state.number, self.state.system, log, now)
            case Found():
                return self._found(event, log, now)
            case Made(number, slot_start):
                return self._made(number, slot_start, now)
            case Checked():
                return self._checked(event, log, now)
            case Started(number):
                self._streamed = now
                self.state = Streams(number, self._purpose)
                return [WatchServer(number)]
            case Heard(note):
                if isinstance(self.state, Preparing):
                    self.state = replace(self.state, answered=now)
                return [] if note is None else [Note(note)]
            case TriggerSeen(is_there):
                asks_for_all = self._wishes.stream_options.get("messages")
                is_other = is_there != self._has_trigger and not asks_for_all
                # With a goal, the receiver stays with this connection.
                if is_other and self.is_steady and self.goal is None:
                    return [HangUp(self.number), *self._connect(now)]
            case TimelineSeen(timeline):
                return self._new_timeline(timeline, log, now)
            case Judged(confirmed):
                if isinstance(self.state, Judging):
                    return self._judged(confirmed, self.state.failure, log, now)
            case StopRecorded(note):
                if isinstance(self.state, Stopping):
                    self.state = Ended(self.state.error)
                    return [] if note is None else [Note(note)]
            case Failed(_, error):
                return self.lose(error, log, now)
            case _:
                assert_never(event)
        return []

    def tick(self, log: LogSeen, now: float) -> list[Action | Wish]:
        """The actions that are due now."""
        state = self.state
        match state:
            case Away(until):
                if now >= until and log.is_free:
                    self._since, self._durable = now, log.durable
                    return [Say("connecting"), *self._connect(now)]
            case Preparing() | Settling() | Judging() | Stopping():
                if now >= self.deadline:
                    return self._silent(log, now)
                if isinstance(state, Settling) and log.is_settled:
                    return self._settled(state, log, now)
            case Streams(number, Comparison.ONLY):
                if log.is_compared:
                    # The given options come now.
                    return [HangUp(number), *self._connect(now, Comparison.ONLY)]
            case Opening() | Streams() | Ended():
                pass
            case _:
                assert_never(state)
        return []

    def lose(
        self, error: BaseException, log: LogSeen, now: float
    ) -> list[Action | Wish]:
        """The connection is lost, or does not come: another attempt, or the end."""
        was_streaming = isinstance(self.state, Streams)
        left = self.leave(log)
        if not isinstance(error, Error):
            self.state = Ended(error)
            return left
        attempt = self.attempts.after(
            error,
            now,
            lasted=now - self._since,
            has_streamed=self._streamed >= self._since,
            has_advanced=log.durable > self._durable,
            is_known=self.system is not None,
            has_given_up=log.has_given_up,
        )
        if attempt is None and was_streaming and is_of_content(error):
            return [*left, *self._cannot_decode(error, now)]
        if attempt is None:
            self.state = Ended(error)
            return left
        self.state = Away(now + attempt.pause)
        text = attempt.note
        if Want.STREAMING in self._wishes.wanted and self.streaming.fail(error):
            text = f"{text}. {_WITHOUT_STREAMING}"
        return [*left, Say(attempt.state, text)]

    def _cannot_decode(
        self, error: ReplicationError, now: float
    ) -> list[Action | Wish]:
        """Crosses a transaction that the server cannot decode, if somebody has asked for that."""
        if Want.CROSS_GAP not in self._wishes.wanted:
            size = 0 if self.found is None else self.found.table_bytes
            self.state = Ended(gap_error(self._slot, error, size))
            return []
        # Only at its commit, its Begin says where it ends.
        is_streamed = Want.STREAMING in self._wishes.wanted and self.streaming.stop()
        if not is_streamed:
            self._fails = error
        self.state = Away(now + _DECODE_PAUSE)
        return [Say("connecting", error.reason)]

    def _behind_failure(self, found: Found, log: LogSeen) -> SlotGap | None:
        """The gap behind the failed transaction. Without its Begin, it ends where the WAL does."""
        failed, self._fails = self._fails, None
        if failed is None:
            return None
        end = found.system.xlogpos if log.open_commit is None else log.open_commit + 1
        # An attempt that the log has passed must not fail there again.
        end = Lsn(max(end, log.durable + 1))
        return SlotGap("undecodable", failed.reason, log.durable, end)

    def leave(self, log: LogSeen) -> list[Action | Wish]:
        """Leaves the connection, wherever it is."""
        state, self.state = self.state, Away(math.inf)
        match state:
            case Streams(number):
                return [HangUp(number)]
            case Preparing(number) | Opening(number) | Settling(number):
                # A first load that has begun on it must not go on beside the next one's.
                is_broken = log.is_open and log.lacks_first_load
                return [Leave(number), *[AbandonLog()] * is_broken]
            case Away() | Judging() | Stopping() | Ended():
                return []
            case _:
                assert_never(state)

    def refuse_position(self, end: Lsn, log: LogSeen) -> list[Action | Wish]:
        """The server has claimed a position that its WAL does not have, which ends at `end`."""
        text = f"the server sent a position beyond the end of its WAL, which is {end}"
        return self._refuse(text, log)

    def refuse_log(
        self, failure: BaseException, log: LogSeen, now: float
    ) -> list[Action | Wish]:
        """The log has failed. It is opened again with the next connection, if that helps."""
        if not isinstance(failure, LogError) or failure.code != "other_server":
            return self.lose(failure, log, now)
        left = self.leave(log)
        self.state = Judging(now, failure)
        return [*left, Judge()]

    # The steps.

    def _connect(
        self, now: float, before: Comparison = Comparison.FIRST
    ) -> list[Action | Wish]:
        """Connects. The connection before has done that."""
        self._numbers += 1
        self._before, self._purpose = before, Comparison.FIRST
        self._gap = None
        self.state = Preparing(self._numbers, now, Step.CONNECTING)
        return [Connect(self._numbers)]

    def _silent(self, log: LogSeen, now: float) -> list[Action | Wish]:
        text = "the server does not answer while the stream is prepared"
        if isinstance(self.state, Stopping):
            # The disk does not take the record. The error says all the same what to do.
            self.state = Ended(self.state.error)
            return []
        return self.lose(ConnectionLostError(text), log, now)

    def _linked(
        self, number: int, system: IdentifySystem, log: LogSeen, now: float
    ) -> list[Action | Wish]:
        known = self.system
        if known is not None and known.system_identifier != system.system_identifier:
            text = (
                f"the server is another one: system identifier {system.system_identifier}, "
                f"not {known.system_identifier}; use another log for it"
            )
            return self._refuse(text, log)
        if not log.is_open:
            self.state = Opening(number, system)
            return [OpenLog(number, system)]
        return self._inspect(number, system, log, now)

    def _inspect(
        self, number: int, system: IdentifySystem, log: LogSeen, now: float
    ) -> list[Action | Wish]:
        self.system = system
        self.state = Preparing(number, now, Step.INSPECTING)
        return [Inspect(number, system, log.last if log.durable else None)]

    def _found(self, found: Found, log: LogSeen, now: float) -> list[Action | Wish]:
        """Checks that the server has the WAL that was received."""
        is_new = found.has_other_positions and not self.has_other_positions
        self.found = found
        notes: list[Action | Wish] = [Note(_OTHER_POSITIONS)] * is_new
        return [*notes, *self._compare_timeline(found, log, now)]

    def _compare_timeline(
        self, found: Found, log: LogSeen, now: float
    ) -> list[Action | Wish]:
        system, before = found.system, self.timeline
        history: Sequence[Any] = ()
        if not isinstance(found.history, Error):
            history = found.history
        elif before is not None and before != system.timeline:
            # Otherwise its file may be lost: then it is not known where the timeline began.
            raise found.history
        found = replace(found, history=history)
        if before is not None:
            starts = began_elsewhere(
                before, self._timeline_start, system.timeline, history
            )
            if starts is not None:
                text = (
                    f"the server's timeline {before} began at {starts[1]}, and that of the "
                    f"log at {starts[0]}: it is another server, which was promoted, too"
                )
                return self._stop(text, log, now)
            if before != system.timeline:
                # The queued blocks have come from the old timeline, too.
                self.state = Settling(found.number, now, found)
                return []
        return self._compare(found, history, log, now)

    def _settled(
        self, state: Settling, log: LogSeen, now: float
    ) -> list[Action | Wish]:
        found = state.found
        history: Any = found.history
        try:
            check_timeline(
                self.timeline or 0,
                found.system.timeline,
                history,
                log.durable,
                self._slot,
            )
        except ReplicationError as error:
            return self._stop(error.reason, log, now)
        return self._compare(found, history, log, now)

    def _compare(
        self, found: Found, history: Sequence[Any], log: LogSeen, now: float
    ) -> list[Action | Wish]:
        system = found.system
        if self.timeline != system.timeline:
            self._sent, self._timeline_start = Lsn(0), None
        self.timeline = system.timeline
        if history:
            self._timeline_start = Lsn(history[-1][1])
        known = max(log.durable, self._sent)
        try:
            check_not_older(system, known, self._slot, is_standby=found.is_standby)
        except ReplicationError as error:
            return self._stop(error.reason, log, now)
        return self._check_slot(found, log, now)

    def _check_slot(
        self, found: Found, log: LogSeen, now: float
    ) -> list[Action | Wish]:
        number, wanted = found.number, self._wishes.wanted
        durable, is_broken = log.durable, log.lacks_first_load
        if is_broken and Want.SNAPSHOT not in wanted:
            text = (
                "the first load of the log was broken off: remove the log and its slot"
            )
            remedies = (Remedy("snapshot", None, value=True),)
            error = ReplicationError(
                text, slot=self._slot, advice=", or continue with ", remedies=remedies
            )
            return self._finally(error, log)
        try:
            slot = check_slot(
                found.slot,
                self._slot,
                found.system.database,
                durable,
                create=Want.CREATE in wanted,
            )
        except ReplicationError as error:
            return self._finally(error, log)
        if slot is not None and not isinstance(slot, SlotGap):
            slot = self._behind_failure(found, log) or slot
        confirmed = slot.end if isinstance(slot, SlotGap) else slot
        is_past = confirmed is None or (log.last and confirmed > log.last.lsn)
        if durable and log.last is not None and is_past:
            try:
                check_last_transaction(found.status, log.last, self._slot)
            except ConnectionLostError:
                raise
            except ReplicationError as error:
                return self._stop(error.reason, log, now)
        self._gap = slot if isinstance(slot, SlotGap) and not is_broken else None
        if self._gap is not None and (refused := self._refuse_gap(found, log, now)):
            return refused
        self._confirmed = confirmed or Lsn(0)
        self.useless_slot = None
        notes: list[Action | Wish] = []
        if confirmed is None or is_broken:
            # The WAL that a broken load's slot has kept is useless without the earlier rows.
            drops = confirmed is not None or found.slot is not None
            return self._make(number, drops=drops, now=now)
        if not durable and self._doubt is Doubt.OPEN and self._gap is None:
            self._doubt = Doubt.SAID
            text = doubt_of_beginning(self._slot, confirmed)
            notes.append(Note(f"warning: {text}"))
        if Want.SNAPSHOT in wanted and not durable and not log.is_pending:
            # Somebody else has created the slot: its snapshot is gone.
            notes.append(RequestAll())
        parts = {Part.FAILOVER} if Want.FAILOVER in wanted else set()
        start = None
        if not durable and Want.SNAPSHOT in wanted:
            start = SlotStart(confirmed)
        elif not durable:
            parts.add(Part.SLOT_START)
        return [*notes, *self._check(number, parts, start, now)]

    def _refuse_gap(
        self, found: Found, log: LogSeen, now: float
    ) -> list[Action | Wish]:
        """The end if nobody has asked to cross a gap. Empty if the log can cross it now."""
        if self._gap is not None and Want.CROSS_GAP not in self._wishes.wanted:
            error = gap_error(self._slot, self._gap, found.table_bytes)
            return self._finally(error, log)
        if not log.has_load:
            return []
        # The gap may have its place. It begins again behind the gap.
        self.state = Away(now)
        return [Leave(found.number), AbandonLog()]

    def _make(self, number: int, *, drops: bool, now: float) -> list[Action | Wish]:
        self._confirmed = Lsn(0)
        parts = {Part.DROP} if drops else set()
        if self._wishes.tables is not None:
            parts.add(Part.PUBLICATION)
        if Want.SNAPSHOT not in self._wishes.wanted or self._gap is not None:
            parts.add(Part.SLOT)
        self.state = Preparing(number, now, Step.MAKING)
        return [Make(number, frozenset(parts))]

    def _made(
        self, number: int, slot_start: SlotStart | None, now: float
    ) -> list[Action | Wish]:
        if slot_start is None:
            # The slot comes with the load that the log begins with.
            self.state = Preparing(number, now, Step.MAKING)
            return [BeginFirst()]
        self._doubt = Doubt.NONE
        if self._gap is not None:
            self._confirmed = slot_start.lsn
            self._gap = self._gap._replace(end=slot_start.lsn)
        return self._check(number, set(), slot_start, now)

    def first_began(self, now: float) -> list[Action | Wish]:
        """The load that the log begins with copies its tables: its slot exists."""
        if not self.is_making:
            return []
        self._doubt = Doubt.NONE
        return self._check(self.number, set(), None, now)

    def _check(
        self, number: int, parts: set[Part], start: SlotStart | None, now: float
    ) -> list[Action | Wish]:
        self._slot_start = start
        self.state = Preparing(number, now, Step.CHECKING)
        gap = None if self._gap is None else self._gap.known
        return [Check(number, frozenset(parts | self._due), self._confirmed, gap)]

    def _checked(self, found: Checked, log: LogSeen, now: float) -> list[Action | Wish]:
        notes: list[Action | Wish] = [Note(it) for it in found.notes]
        if isinstance(found.findings, Error):
            if getattr(found.findings, "sqlstate", None) != LOCK_NOT_AVAILABLE:
                raise found.findings
            # The server itself refuses types that it cannot send.
            notes.append(Note(f"warning: {found.findings}"))
        elif found.findings is not None:
            # Its last client may be gone without the server's knowledge: that is tried again.
            # Tables whose partitions lack an identity are marked, and do not stop the others.
            errors = [
                _line(it)
                for it in found.findings
                if it.severity == "error"
                and it.code not in {"slot-active", "partition-identity"}
            ]
            if errors:
                return [*notes, *self._refuse("; ".join(errors), log)]
            self._due.discard(Part.PREFLIGHT)
            notes += [
                Note(f"warning: {_line(it)}")
                for it in found.findings
                if it.severity == "warning" or it.code == "partition-identity"
            ]
        if found.goal is not None:
            self._due.discard(Part.GOAL)
            self.goal = found.goal
        if found.slot_start is not None:
            self._slot_start = start = found.slot_start
            if self._doubt is Doubt.SAID and start.prepared:
                text = doubt_of_prepared(self._slot, start)
                notes.append(Note(f"warning: {text}"))
            self._doubt = Doubt.NONE
        return [*notes, *self._start(found.number, log, now)]

    def _start(self, number: int, log: LogSeen, now: float) -> list[Action | Wish]:
        wishes, system = self._wishes, self.system
        if system is None:
            return []
        plan = plan_session(
            durable=log.durable,
            last=log.last,
            known=log.asked,
            wanted=asked_options(
                wishes.publications,
                wishes.stream_options,
                has_trigger=self._has_trigger,
            ),
            was_compared=self._before is Comparison.ONLY,
        )
        self._purpose = plan.comparison
        slot_start = None if log.durable else self._slot_start
        gap = None if self._gap is None else self._gap.known
        # A slot may be confirmed later than the log has crossed a gap.
        behind = max(log.gap_end, gap.end if gap else Lsn(0))
        session = Session(
            system.timeline,
            self._timeline_start,
            slot_start,
            max(self._confirmed, behind),
            plan.comparison,
            plan.asked,
            gap if log.durable else None,
        )
        asked = stream_arguments(plan.asked, wishes.stream_options)
        if not self.streaming.may_stream(system.xlogpos, log.durable):
            asked |= {"streaming": False}
        self.state = Preparing(number, now, Step.STARTING)
        notes: list[Action | Wish] = []
        if gap is not None:
            text = f"the changes between {gap.start} and {gap.end} are lost"
            notes = [Note(f'slot "{self._slot}": {text}; all tables are loaded')]
        start = max(plan.start, behind)
        return [*notes, BeginSession(session), StartStream(number, start, asked)]

    # The ways out.

    def _new_timeline(
        self, timeline: int | None, log: LogSeen, now: float
    ) -> list[Action | Wish]:
        promoted = self.promoted(timeline)
        if not promoted:
            return []
        text = (
            f"the server is on timeline {timeline} now: it was promoted, or "
            "follows a server that was"
        )
        # At once: the next connection may take long.
        return [*promoted, *self.lose(ConnectionLostError(text), log, now)]

    def promoted(self, timeline: int | None) -> list[Action | Wish]:
        """The actions if the server of the stream goes on with a later timeline.

        All bytes of the connection are in this server's history, before and after that.
        So it is the new timeline's, although it may be past the old one's end.
        """
        if timeline is None or self.timeline is None or timeline <= self.timeline:
            return []
        # The next connection asks where it begins.
        self.timeline, self._sent, self._timeline_start = timeline, Lsn(0), None
        return [Promote(timeline)]

    def _judged(
        self, confirmed: Lsn | Error | None, failure: LogError, log: LogSeen, now: float
    ) -> list[Action | Wish]:
        """The log has refused the server, which is another server, unless the slot has moved.

        This connection has confirmed nothing, but the earlier one may have, until it ended.
        """
        if isinstance(confirmed, Error):
            return self.lose(confirmed, log, now)
        if confirmed is None or confirmed > self._confirmed:
            text = f'slot "{self._slot}" was moved while the connection was made'
            return self.lose(ConnectionLostError(text), log, now)
        text = (
            f"{failure.reason}: it was restored from an older copy, or is another one"
        )
        return self._stop(text, log, now)

    def _stop(self, reason: str, log: LogSeen, now: float) -> list[Action | Wish]:
        """This is another server: the log must not go on, now and later."""
        left = self.leave(log)
        text = f"{reason}. {self._wishes.way_out}"
        self.state = Stopping(now, ReplicationError(text, slot=self._slot))
        return [*left, RecordStop(reason)]

    def _refuse(self, reason: str, log: LogSeen) -> list[Action | Wish]:
        return self._finally(ReplicationError(reason, slot=self._slot), log)

    def _finally(self, error: ReplicationError, log: LogSeen) -> list[Action | Wish]:
        """Ends it, as a check has refused to go on."""
        left = self.leave(log)
        self.state = Ended(error)
        return left


def _line(finding: Finding) -> str:
    sql = " ".join((finding.sql or "").splitlines())
    text = f"{finding.text} [{finding.code}]"
    return f"{text}: {sql}" if sql else text


#: Connecting, questions and the stream's start take less than this between two answers.
ANSWER_SECONDS = 90.0
#: The log takes what has come of the transaction meanwhile.
_DECODE_PAUSE = 1.0
_OTHER_POSITIONS = (
    "warning: the server's SQL functions return other LSNs than its stream has, so its lag "
    "and the WAL that the slot keeps are unknown"
)
_WITHOUT_STREAMING = (
    "Until the log has passed this place, large transactions come at their commit"
)
