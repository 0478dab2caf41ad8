"""Decides everything that a receiver does: no thread, no I/O, no clock.

```text
event, now ─► Core.on ─► actions           Link: the connection     (link.py)
                                           Disk: the log's thread   (disk.py)
Running ─► Draining ─► Asking ─► Over      Load: the current load   (load.py)
              └──────► Dropping ─┘         Phase: the receiver itself
```
The driver hands in each event with the time, carries out the actions, and calls again at the deadline.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, assert_never

from walrow._lsn import Lsn
from walrow._postgres.failures import UNDEFINED_OBJECT
from walrow._receive import events, load
from walrow._receive.claims import Claims
from walrow._receive.disk import Disk
from walrow._receive.disk_states import (
    Arrived,
    CatalogRead,
    Closed,
    Did,
    Refused,
    is_refusal,
)
from walrow._receive.link import Link
from walrow._receive.link_states import (
    Away,
    Ended,
    LogSeen,
    Opening,
    Stopping,
    Streams,
)
from walrow._receive.orders import BeginLoad, Counts, PlanLoad
from walrow._receive.status import PendingLoad
from walrow._receive.status import State as Word


@dataclass(frozen=True, slots=True)
class Running:
    """It receives, or tries to."""


@dataclass(frozen=True, slots=True)
class Draining:
    """The log is being closed, until then at the latest."""

    until: float
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class Asking:
    """The goal is reached, and the server is asked for open work."""

    until: float


@dataclass(frozen=True, slots=True)
class Dropping:
    """The slot of a first load that has failed is dropped."""

    until: float
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class Over:
    """It has ended."""

    error: BaseException | None


Phase = Running | Draining | Asking | Dropping | Over


class LastLook(enum.Enum):
    """How far the last look at the published tables is, which comes at the goal."""

    DUE = enum.auto()
    ASKED = enum.auto()
    DONE = enum.auto()


class Limits(NamedTuple):
    """The times of a receiver, in seconds."""

    age: float
    #: After this time, a refusal of the file system is final.
    give_up_after: float
    start_within: float


class Core:
    """A receiver."""

    def __init__(
        self, link: Link, loads: load.LoadDecisions, limits: Limits, now: float
    ) -> None:
        """Begins without a connection, a log and a load."""
        self.link, self.loads = link, loads
        #: None while the log is closed.
        self.disk: Disk | None = None
        self.phase: Phase = Running()
        self.pending: PendingLoad | None = None
        self._limits, self._now = limits, now
        #: The log as it was when it was closed last.
        self._seen, self._counts = LogSeen(), Counts()
        #: Since when it is being closed, while the receiver goes on.
        self._closing_since = math.inf
        #: When everything that is left must end, after a stop.
        self._must_end = math.inf
        self._last_look = LastLook.DUE
        self._claims = Claims()
        #: The last position that was confirmed over this connection.
        self._confirmed = Lsn(0)
        #: When the server was asked last for its position, and heard last.
        self._asked = self._heard = -math.inf

    # The facts for the driver.

    @property
    def deadline(self) -> float:
        """When a tick has something to do, if nothing happens before."""
        disk = math.inf if self.disk is None else self.disk.deadline
        match self.phase:
            case Running():
                is_ready = self._is_compared
                loads = (
                    self.loads.due(is_compared=is_ready) if self._is_open else math.inf
                )
                link = self.link.deadline
                if isinstance(self.link.state, Away) and not self._is_free:
                    link = math.inf
                said = self._closing_since + _CLOSE_SECONDS
                said = said if self._now < said else math.inf
                claims = self._claims.due if self.is_streaming else math.inf
                return min(disk, loads, link, self._ask_due, said, claims)
            case Draining(until) | Asking(until) | Dropping(until):
                return min(disk, until)
            case Over():
                return math.inf
            case _:
                assert_never(self.phase)

    @property
    def reads(self) -> bool:
        """Whether there is a stream, and room for its blocks."""
        return self.is_receiving and self.disk is not None and not self.disk.is_full

    @property
    def is_streaming(self) -> bool:
        """Whether there is a stream."""
        return isinstance(self.link.state, Streams)

    @property
    def is_receiving(self) -> bool:
        """Whether there is a stream, and nobody wants the end."""
        return self.is_streaming and isinstance(self.phase, Running)

    @property
    def waits_for_room(self) -> bool:
        """Whether there is a stream, and no room for its blocks."""
        return self.is_receiving and not self.reads

    @property
    def stuck_since(self) -> float:
        """Since when the log takes nothing of the stream. Infinite if it does, or without a stream."""
        return self.disk.stuck_since if self.disk and self.is_receiving else math.inf

    @property
    def confirmable(self) -> Lsn:
        """Up to where the server may forget the changes that it has sent."""
        return Lsn(0) if self.disk is None else self.disk.confirmable

    @property
    def is_stopped(self) -> bool:
        """Whether somebody wants the end."""
        return self._must_end < math.inf

    @property
    def durable(self) -> Lsn:
        """Up to where everything is durable."""
        return self._seen.durable if self.disk is None else self.disk.durable

    @property
    def heard(self) -> float:
        """When the server was heard last. While a log is being opened, it is not asked."""
        return self._now if isinstance(self.link.state, Opening) else self._heard

    @property
    def counts(self) -> Counts:
        """Counts of the landed changes."""
        return self._counts if self.disk is None else self.disk.counts

    @property
    def left(self) -> PendingLoad | None:
        """The load that waits for transactions of others, and may do so for ever."""
        match self.loads.state:
            case load.Beginning(attempt, _, waits) if waits is not None:
                request = attempt.request
                names = None if isinstance(request, load.First) else request.tables
                tables = None if names is None else tuple(names)
                return PendingLoad(tables, tuple(waits.transactions or ()))
            case _:
                return None

    @property
    def word(self) -> tuple[Word, str | None] | None:
        """Its state for people, and a note. None while it only waits for the next attempt."""
        if not isinstance(self.phase, Running):
            return None
        match self.link.state:
            case Streams():
                trouble = None if self.disk is None else self.disk.trouble
                return "streaming" if trouble is None else "degraded", None
            case Opening():
                return "connecting", "the log is being opened"
            case Away():
                if self._is_free or self._now < self._closing_since + _CLOSE_SECONDS:
                    return None
                return "degraded", _STILL_WRITING
            case _:
                return "connecting", None

    def allowed(self, seconds: float, now: float) -> float:
        """Caps a wait to what a stop leaves of its time."""
        left = self._must_end - now
        return min(seconds, max(left, _LEAST_SECONDS))

    # The events.

    def on(self, event: events.Event, now: float) -> list[events.Action]:
        """Notes an event. Returns the actions that are due."""
        self._now = now
        if isinstance(event, _ANSWERS):
            self._heard = now
        if isinstance(event, events.Linked):
            self._claims.begin(event.system.xlogpos)
        elif isinstance(event, events.Made) and event.start is not None:
            self._claims.learn(event.start.lsn)
        elif isinstance(event, events.Found) and event.slot is not None:
            self._claims.learn(event.slot.confirmed or Lsn(0))
        actions = self._note(event, now)
        if self.disk is not None:
            actions += self.disk.advance(now)
        before: object = None
        while (states := self._states) != before:
            before = states
            actions += self._follow(now)
        if self.disk is not None:
            actions += self.disk.advance(now)
        return actions

    @property
    def _states(self) -> tuple[object, ...]:
        return self.phase, self.link.state, self.loads.state

    def _note(self, event: events.Event, now: float) -> list[events.Action]:  # noqa: PLR0911, PLR0912 -- a case for each kind
        match event:
            case Arrived(_, claimed):
                if not self.link.has_other_positions:
                    event = replace(event, server_lsn=self._claims.believed(claimed))
                self.link.sent(event.server_lsn)
                return self._of_disk(event, now)
            case events.EndSeen():
                return self._end_seen(event, now)
            case Did() | Refused() | CatalogRead():
                return self._of_disk(event, now)
            case events.Ticked():
                return []
            case events.StopWanted(seconds):
                self._must_end = min(self._must_end, now + seconds)
                return self._stop(now)
            case events.CatalogAged():
                if self.disk is not None:
                    self.disk.definitions.ask()
                return []
            case events.Looked(position):
                return self._looked(position, now)
            case events.LastAnswered(error):
                if isinstance(self.phase, Asking):
                    return self._over(error)
                return []
            case events.SlotDropped(error):
                if isinstance(self.phase, Dropping):
                    return self._dropped(error, self.phase.error)
                return []
            case events.LogOpened():
                self.disk = Disk(
                    event.log,
                    event.known,
                    age=self._limits.age,
                    give_up_after=self._limits.give_up_after,
                    found=event.found,
                    catalog_failure=event.failure,
                    earlier=self._counts,
                    now=now,
                )
                return self._of_link(self.link.on(event, self._log, now), now)
            case events.TimelineSeen() if isinstance(self.phase, Draining):
                promoted = self._of_link(self.link.promoted(event.timeline), now)
                self._finish(now)
                return promoted
            case _:
                if isinstance(event, load.Event):
                    return self._of_load(self.loads.on(event, now), now)
                if not isinstance(self.phase, Running):
                    return []
                return self._of_link(self.link.on(event, self._log, now), now)

    def _of_disk(
        self, event: Arrived | Did | Refused | CatalogRead, now: float
    ) -> list[events.Action]:
        disk = self.disk
        if disk is None:
            return []
        actions: list[events.Action] = [*disk.on(event, now)]
        match event:
            case Did(PlanLoad()) if self.link.is_making:
                actions += self._of_load(self.loads.begin_first(now), now)
            case Refused(PlanLoad(), error) if self.link.is_making:
                actions += self._lose(error, now)
            case Did(BeginLoad(number)):
                reserved = load.Reserved(number)
                actions += self._of_load(self.loads.on(reserved, now), now)
                if self.loads.is_first:
                    actions += self._of_link(self.link.first_began(now), now)
            case Refused(BeginLoad(number), error):
                broken = load.Broken(number, error)
                actions += self._of_load(self.loads.on(broken, now), now)
            case _:
                pass
        return actions

    def _of_link(
        self, wanted: Sequence[events.Action | events.Wish], now: float
    ) -> list[events.Action]:
        """Does what the link wants of the log and the loads. Returns the other actions."""
        actions: list[events.Action] = []
        for each in wanted:
            match each:
                case events.BeginSession(session):
                    self._confirmed, self._asked = Lsn(0), now
                    if self.disk is not None:
                        self.disk.begin_session(session)
                case events.Promote(timeline):
                    if self.disk is not None:
                        self.disk.promote(timeline)
                case events.AbandonLog():
                    actions += self._abandon(now)
                case events.BeginFirst():
                    if self.disk is not None:
                        self.disk.ask(PlanLoad())
                case events.RequestAll():
                    self.loads.request_all()
                case events.HangUp():
                    if self.disk is not None:
                        actions.append(events.Confirm(self.disk.confirmable))
                    actions.append(each)
                case _:
                    actions.append(each)
        return actions

    def _of_load(
        self, wanted: Sequence[load.Action | load.Wish], now: float
    ) -> list[events.Action]:
        """Does what a load wants of the log and the link. Returns the other actions."""
        actions: list[events.Action] = []
        disk = self.disk
        for each in wanted:
            match each:
                case load.Reserve(order):
                    if disk is not None:
                        self._order = order
                        disk.ask(order)
                case load.EndLoad():
                    if disk is not None:
                        disk.end_load()
                case load.GiveUp(number):
                    if disk is not None:
                        self._give_up(disk, number, now)
                case load.Fail(error):
                    actions += self._first_failed(error, now)
                case _:
                    actions.append(each)
        if disk is not None and self.loads.holds_log != disk.is_held:
            (disk.pause if self.loads.holds_log else disk.resume)()
        return actions

    _order: BeginLoad | None = None

    def _give_up(self, disk: Disk, number: int, now: float) -> None:
        order = self._order
        if order is not None and order.number == number:
            disk.withdraw(order, now)

    def _first_failed(self, error: BaseException, now: float) -> list[events.Action]:
        """The load that the log begins with has failed."""
        if self._order is not None:
            # Its slot was made.
            self.link.useless_slot = self.link.slot
        # Opening the log again empties it.
        return [*self._lose(error, now), *self._abandon(now)]

    def _lose(self, error: BaseException, now: float) -> list[events.Action]:
        return self._of_link(self.link.lose(error, self._log, now), now)

    # The next actions.

    def _follow(self, now: float) -> list[events.Action]:
        match self.phase:
            case Running():
                return self._go_on(now)
            case Draining(until, error):
                if self.disk is None or self._is_closed or now >= until:
                    return self._drained(error, now)
            case Asking(until):
                if now >= until:
                    return self._over(None)
            case Dropping(until, error):
                if now >= until:
                    return self._dropped(None, error, has_answered=False)
            case Over():
                pass
            case _:
                assert_never(self.phase)
        return []

    def _go_on(self, now: float) -> list[events.Action]:  # noqa: PLR0911 -- the most urgent is first
        disk = self.disk
        if disk is not None and self._closing_since < math.inf:
            if self._is_closed:
                self._keep(disk)
        elif disk is not None and (failure := disk.failure) is not None:
            if isinstance(self.link.state, (Ended, Stopping)):
                return self._abandon(now)
            left = self._of_link(self.link.refuse_log(failure, self._log, now), now)
            return [*left, *self._abandon(now)]
        if isinstance(self.link.state, Ended):
            return self._end(self.link.state.error, now)
        if not self.link.is_steady and (
            actions := self._of_link(self.link.tick(self._log, now), now)
        ):
            return actions
        if self._is_open and (actions := self._tend_loads(now)):
            return actions
        if self._is_goal_reached and self._last_look is LastLook.DUE:
            self._last_look = LastLook.ASKED
            return [events.LookLast()]
        if self._is_goal_reached and self._last_look is LastLook.DONE:
            self.pending = self.left
            return self._end(None, now)
        return self._confirm(now)

    def _end_seen(self, seen: events.EndSeen, now: float) -> list[events.Action]:
        believed = self._claims.answer(seen.end, is_last=seen.is_primary)
        if not self.is_receiving:
            return []
        if believed is None:
            wanted = self.link.refuse_position(seen.end, self._log)
            return self._of_link(wanted, now)
        return self._of_disk(Arrived(b"", believed), now)

    def _looked(self, position: Lsn | BaseException, now: float) -> list[events.Action]:
        """Moves the goal behind the last look, so that the log explains what the look has seen."""
        if not isinstance(self.phase, Running):
            return []
        if isinstance(position, BaseException):
            self._last_look = LastLook.DUE
            return self._lose(position, now)
        self._last_look = LastLook.DONE
        if isinstance(self.loads.state, load.Nothing):
            # The look may have requested one.
            self.loads.state = load.Unsure()
        self.link.goal = max(self.link.goal or position, position)
        return []

    def _tend_loads(self, now: float) -> list[events.Action]:
        disk = self.disk
        if disk is None:
            return []
        seen = load.Ticked(
            int(disk.load is not None),
            self._is_compared,
            disk.is_paused,
        )
        return self._of_load(self.loads.on(seen, now), now)

    @property
    def _is_compared(self) -> bool:
        """Whether the log takes what the server sends."""
        return self.is_streaming and self.disk is not None and self.disk.is_compared

    @property
    def _ask_due(self) -> float:
        is_waiting = (
            isinstance(self.loads.state, load.Placing)
            or self._last_look is LastLook.DONE
            or (self.disk is not None and not self.disk.is_compared)
        )
        if not self.is_streaming:
            return math.inf
        if is_waiting:
            return self._asked + _ASK_SECONDS
        return max(self._asked, self._heard) + _SILENT_SECONDS

    def _confirm(self, now: float) -> list[events.Action]:
        disk = self.disk
        if disk is None or not self.is_streaming:
            return []
        if now >= self._claims.due:
            self._claims.ask(now)
            return [events.AskEnd()]
        if now >= self._ask_due:
            # An idle server would be silent for long.
            self._asked, self._confirmed = now, disk.confirmable
            return [events.Confirm(disk.confirmable, reply=True)]
        if disk.confirmable > self._confirmed:
            self._confirmed = disk.confirmable
            return [events.Confirm(disk.confirmable)]
        return []

    @property
    def _is_goal_reached(self) -> bool:
        """Whether everything is in the log, and no load goes on that does not wait for others."""
        goal, disk = self.link.goal, self.disk
        if goal is None or disk is None or not self.is_streaming or disk.durable < goal:
            return False
        if not disk.is_compared and disk.durable == goal:
            # A standby that is behind does not show yet that it is the same.
            return False
        return self.left is not None or isinstance(self.loads.state, load.Nothing)

    # The log.

    @property
    def _log(self) -> LogSeen:
        disk = self.disk
        if disk is None:
            return self._seen
        return LogSeen(
            disk.durable,
            disk.last,
            disk.log.gap_end or Lsn(0),
            disk.log.open_commit,
            disk.asked,
            is_open=self._closing_since == math.inf,
            is_free=self._is_free,
            is_settled=disk.is_settled,
            is_compared=disk.is_compared,
            lacks_first_load=disk.lacks_first_load and not self.loads.is_first,
            is_pending=not isinstance(self.loads.state, load.Nothing),
            has_load=disk.load is not None,
            has_given_up=disk.has_given_up,
        )

    @property
    def _is_open(self) -> bool:
        return self.disk is not None and self._closing_since == math.inf

    @property
    def _is_free(self) -> bool:
        return self._closing_since == math.inf

    @property
    def _is_closed(self) -> bool:
        return self.disk is not None and isinstance(self.disk.state, Closed)

    def _abandon(self, now: float) -> list[events.Action]:
        """Closes the log, to open it again later."""
        stopped = self._of_load(self.loads.on(load.Stopped(), now), now)
        if self.disk is not None and self._closing_since == math.inf:
            self._closing_since = now
            self.disk.finish(now + self.allowed(_FINISH_SECONDS, now) / 2)
        return stopped

    def _keep(self, disk: Disk) -> None:
        """Remembers how far the log was that is closed."""
        self._counts = disk.counts
        self._seen = LogSeen(disk.durable, has_given_up=disk.has_given_up)
        self.disk, self._closing_since = None, math.inf

    # The end.

    def _stop(self, now: float) -> list[events.Action]:
        match self.phase:
            case Running():
                return self._end(None, now)
            case Draining(until, error) if until == math.inf:
                self.phase = Draining(now + self.allowed(_FINISH_SECONDS, now), error)
                self._finish(now)
            case Asking():
                return self._over(None)
            case Dropping(_, error):
                return self._dropped(None, error, has_answered=False)
            case _:
                pass
        return []

    def _end(self, error: BaseException | None, now: float) -> list[events.Action]:
        """Begins the end: queued blocks are published, as far as the time allows."""
        actions = self._of_load(self.loads.on(load.Stopped(), now), now)
        if self.disk is not None:
            actions.append(events.Say("stopping"))
        waits = self.is_streaming and not self.is_stopped
        # A caller that waits for a position reads the log then.
        until = math.inf if waits else now + self.allowed(_FINISH_SECONDS, now)
        self.phase = Draining(until, error)
        if self.is_streaming:
            # The received changes are of the new timeline, if there is one.
            return [*actions, events.LookAtTimeline()]
        actions += self._of_link(self.link.leave(self._log), now)
        self._finish(now)
        return actions

    def _finish(self, now: float) -> None:
        if self.disk is not None and isinstance(self.phase, Draining):
            self.disk.finish(now + (self.phase.until - now) / 2)

    def _drained(self, error: BaseException | None, now: float) -> list[events.Action]:
        actions = self._of_link(self.link.leave(self._log), now)
        disk = self.disk
        failure = None if disk is None else disk.failure
        if disk is not None and self._is_closed:
            self._keep(disk)
        if error is not None:
            return [*actions, *self._ended(error, now)]
        if failure is not None and not self.is_stopped:
            # Maybe another attempt helps.
            self.phase = Running()
            return [
                *actions,
                *self._of_link(self.link.refuse_log(failure, self._log, now), now),
            ]
        if failure is not None:
            is_other = getattr(failure, "code", "") == "other_server"
            if not is_refusal(failure) and not is_other:
                return [*actions, *self._over(failure)]
            # The durable changes are published at the next start.
            actions.append(events.Say("stopping", str(failure)))
        if self.link.goal is None or self.is_stopped:
            return [*actions, *self._over(None)]
        self.phase = Asking(now + _LAST_SECONDS)
        return [*actions, events.AskLast()]

    def _ended(self, error: BaseException, now: float) -> list[events.Action]:
        if self.link.useless_slot is not None and not self.is_stopped:
            # It would keep WAL for nobody.
            self.phase = Dropping(now + _DROP_SECONDS, error)
            return [events.DropSlot()]
        return self._over(error)

    def _dropped(
        self,
        failure: BaseException | None,
        error: BaseException | None,
        *,
        has_answered: bool = True,
    ) -> list[events.Action]:
        is_gone = getattr(failure, "sqlstate", None) == UNDEFINED_OBJECT
        if has_answered and (failure is None or is_gone):
            return self._over(error)
        slot = self.link.slot
        text = (
            f'slot "{slot}" was not dropped yet, and may keep WAL: '
            f"walrow slot drop {slot}"
        )
        return [events.Say("stopping", text), *self._over(error)]

    def _over(self, error: BaseException | None) -> list[events.Action]:
        self.phase = Over(error)
        if error is not None and self.link.attempts.is_late:
            text = f"no server was reached within {self._limits.start_within:g} s"
            return [events.Say("stopping", text)]
        if self.link.goal is not None and not self.is_stopped and error is None:
            return [events.Say("stopping")]
        return []


_ANSWERS = (Arrived, *events.ANSWERS)
_STILL_WRITING = (
    "the disk has not finished a write of the attempt before: waiting for it"
)
#: Closing takes less, if the disk does not stall.
_CLOSE_SECONDS = 1.0
_FINISH_SECONDS = 0.6
#: For each wait after a stop that comes later.
_LEAST_SECONDS = 0.1
_ASK_SECONDS = 1.0
#: A server that is silent for so long is asked for a keepalive.
_SILENT_SECONDS = 20.0
#: Another process may use the slot, and does not have to let go of it.
_DROP_SECONDS = 30.0
#: The last questions have their own limits at the server.
_LAST_SECONDS = 90.0
