"""Decides what a log's thread does next: no thread, no file, no clock.

```text
Idle ── order ──► Working ── done ──► Idle
                   │    ▲
       refused for now  │ a second later
                   ▼    │
                   Stuck        Closed: after the last order, Close
```
Its owner hands in events with the time, and carries out the actions that it returns: one order at a
time, and questions for the catalog.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from walrow._lsn import Lsn
from walrow._receive.backlog import Backlog
from walrow._receive.definitions import Definitions
from walrow._receive.disk_states import (
    Arrived,
    CatalogRead,
    Closed,
    Did,
    Ending,
    Ends,
    Finishing,
    GivingUp,
    Idle,
    LandingEvent,
    Last,
    Load,
    Loading,
    LogEnds,
    ReadCatalog,
    Refused,
    State,
    Stuck,
    Trouble,
    Working,
    may_pass,
)
from walrow._receive.orders import (
    Append,
    BeginLoad,
    Close,
    Counts,
    EndLoad,
    ExtendCatalog,
    Fill,
    GiveUpLoad,
    LogState,
    NewSession,
    Order,
    PlanLoad,
    Publish,
    Session,
    SetTimeline,
    Sync,
)
from walrow._receive.progress import Progress
from walrow._receive.same_server import Comparison
from walrow.errors import Error

if TYPE_CHECKING:
    from walrow._core import Catalog


class Disk:
    """The log of a receiver, its queue, and the work that is to be done with it."""

    def __init__(
        self,
        log: LogState,
        known: Catalog,
        *,
        age: float,
        give_up_after: float,
        found: Catalog | None,
        catalog_failure: Error | None,
        earlier: Counts,
        now: float,
    ) -> None:
        """Begins with an open log, and the definitions that were found at the start.

        Transactions are published after `age` seconds. After `give_up_after` seconds, a refusal of
        the file system is final.
        """
        self.state: State = Idle()
        self.durable, self.last, self.asked = log.position, log.last, log.asked
        self._confirmable = Lsn(0)
        #: The end of what readers see. None before it is known.
        self.visible = None if log.has_changes else log.position
        self.failure: BaseException | None = None
        #: For how many seconds the file system has refused an order.
        self._refused_for = 0.0
        self.load: Load | None = None
        #: The load that was given up last. It may be beginning.
        self._unwanted = 0
        self.definitions = Definitions(known, catalog_failure, now)
        self._log = log
        self._age, self._give_up_after = age, give_up_after
        self._earlier = earlier
        #: Sessions that came, and the last one whose server was compared with the log's.
        self._sessions = self._compared = 0
        self._session: NewSession | None = None
        self._queue = Backlog(age)
        self._progress = Progress(now)
        #: How many have paused it.
        self._pauses = 0
        #: How it ends, and when at the latest.
        self._ends: Ends = None
        self._latest = math.inf
        self._asked: deque[PlanLoad | BeginLoad] = deque()
        self._first = found
        self._extensions: deque[Catalog] = deque()
        #: After how many moves of the log it was tried last to end the load.
        self._tried = -1
        #: When there is something to do, if nothing happens before.
        self.deadline = now

    # The state that others see.

    @property
    def is_full(self) -> bool:
        """Whether the queue has no room."""
        return self._queue.is_full

    @property
    def is_compared(self) -> bool:
        """Whether the server of the session has sent everything up to the log's end, and is the same."""
        return self._compared == self._sessions

    @property
    def confirmable(self) -> Lsn:
        """Up to where the server may forget the changes that it has sent.

        That is 0/0 until the stream has passed the log's end: the server may differ from the log's,
        and earlier prepared transactions may not be saved.
        """
        return self._confirmable if self.is_compared else Lsn(0)

    @property
    def ends(self) -> LogEnds:
        """The ends of the log."""
        is_all = self.load is None and not self._log.has_changes
        # Readers see a prepared transaction when it is committed.
        is_known = self.last is not None and not self.last.is_prepare
        last = self.last.lsn if self.last is not None and is_known else Lsn(0)
        readable = self.durable if is_all else Lsn(0)
        return LogEnds(self.durable, readable, last, self.counts.last_message)

    @property
    def trouble(self) -> str | None:
        """The file system's refusal, while the operation is tried again."""
        match self.state:
            case Working(_, Trouble() as trouble) | Stuck(trouble):
                return str(trouble.error)
            case _:
                return None

    @property
    def stuck_since(self) -> float:
        """Since when an order has not ended, or is refused. Infinite if there is none."""
        match self.state:
            case Working(since=since) | Stuck(Trouble(since=since)):
                return since
            case _:
                return math.inf

    @property
    def has_given_up(self) -> bool:
        """Whether the file system has refused something for too long."""
        return self._refused_for >= self._give_up_after

    @property
    def counts(self) -> Counts:
        """Counts of the landed changes."""
        return self._log.counts._replace(bytes=self._progress.bytes).after(
            self._earlier
        )

    @property
    def log(self) -> LogState:
        """The log, as its writer knows it."""
        return self._log

    @property
    def lacks_first_load(self) -> bool:
        """Whether the log lacks the load that it begins with."""
        return self._log.lacks_first_load

    @property
    def held_bytes(self) -> int:
        """Bytes of the stream since a load began, which readers see after it."""
        return 0 if self.load is None else self._progress.bytes - self.load.began

    @property
    def is_settled(self) -> bool:
        """Whether everything that is queued is durable."""
        is_idle = isinstance(self.state, (Idle, Closed))
        return is_idle and self._queue.is_empty and self._progress.is_durable

    @property
    def is_held(self) -> bool:
        """Whether somebody wants all appends to wait."""
        return self._pauses > 0

    @property
    def is_paused(self) -> bool:
        """Whether all appends wait now."""
        match self.state:
            case Working(Append() | NewSession() | SetTimeline(), _):
                return False
            case Stuck() | Working(_, Trouble()):
                # An order that is begun now would wait for the disk.
                return False
            case _:
                return self._pauses > 0

    # The requests of others.

    def begin_session(self, session: Session) -> None:
        """Begins a session of the server, at the durable position by then."""
        self._sessions += 1
        self._queue.add(NewSession(self._sessions, session))

    def promote(self, timeline: int) -> None:
        """Notes that the server of the session was promoted.

        The changes that came before the notice are of this timeline, too.
        """
        self._queue.add(SetTimeline(timeline))

    def pause(self) -> None:
        """Appends nothing until `resume`. Several may pause it at the same time."""
        self._pauses += 1

    def resume(self) -> None:
        """Goes on, unless somebody else has paused it, too."""
        self._pauses -= 1

    def ask(self, order: PlanLoad | BeginLoad) -> None:
        """Has something done between two blocks."""
        self._asked.append(order)

    def withdraw(self, order: PlanLoad | BeginLoad, now: float) -> None:
        """Takes an order back. A load that has begun is given up."""
        if order in self._asked:
            self._asked.remove(order)
        elif isinstance(order, BeginLoad):
            self.give_up_load(order.number, now)

    def end_load(self) -> None:
        """Gives the load its place, as soon as everything before it has landed."""
        if isinstance(self.load, Loading):
            self.load = Ending(self.load.number, self.load.began)
            self._tried = -1

    def give_up_load(self, number: int, now: float) -> None:
        """Gives a load up, as soon as possible: on a full disk, it may be what fills it."""
        self._unwanted = number
        if self.load is not None and self.load.number == number:
            self.load = GivingUp(number, self.load.began)
        if isinstance(self.state, Stuck):
            self.state = replace(self.state, retry=now)

    def finish(self, deadline: float) -> None:
        """Closes the log after the queue is published, or at the deadline."""
        ends, self._latest = self._ends, deadline
        self._ends = Finishing() if ends is None else ends

    def on(self, event: LandingEvent, now: float) -> list[Order | ReadCatalog]:
        """Notes an event. Returns the actions that are due."""
        match event:
            case Arrived():
                self._queue.arrive(event, now)
            case Did():
                self._did(event, now)
            case Refused():
                self._refused(event, now)
            case CatalogRead(found):
                self._read(found, now)
            case _:
                assert_never(event)
        return self.advance(now)

    def advance(self, now: float) -> list[Order | ReadCatalog]:
        """The actions that are due now. Call it when something is wanted, and at the deadline."""
        actions: list[Order | ReadCatalog] = []
        is_described = self._log.is_compared and self.failure is None
        is_ending = self._ends is not None
        if is_described and self.definitions.begins(now, is_ending=is_ending):
            actions.append(ReadCatalog())
        self.deadline = (
            self.definitions.due(is_ending=is_ending) if is_described else math.inf
        )
        match self.state:
            case Idle():
                order = self._next(now)
                if order is not None:
                    self.state = Working(order, None, now)
                    actions.append(order)
            case Stuck(trouble, retry):
                order, due = self._again(trouble), min(retry, self._latest)
                if now < due:
                    self._later(due)
                elif not (isinstance(order, Publish) and self._awaits_catalog(now)):
                    self.state = Working(order, trouble, trouble.since)
                    actions.append(order)
            case Working() | Closed():
                pass
            case _:
                assert_never(self.state)
        return actions

    def _later(self, due: float) -> None:
        self.deadline = min(self.deadline, due)

    def _next(self, now: float) -> Order | None:  # noqa: PLR0911 -- a line for each kind
        """The next order, which is the most urgent. Without an order, the deadline is set."""
        if isinstance(self._ends, Last) and self._ends.failure is not None:
            return self._take_last(self._ends)
        if isinstance(self.load, GivingUp):
            return GiveUpLoad(self.load.number)
        if self._asked:
            return self._asked.popleft()
        if self._is_sync_due(now):
            return Sync()
        if (
            self._first is not None
            and self._session is not None
            and self._log.is_compared
        ):
            return ExtendCatalog(self._first)
        if self._extensions:
            return ExtendCatalog(self._extensions[0])
        if isinstance(self.load, Ending) and self._tried != self._progress.moves:
            self._tried = self._progress.moves
            return EndLoad(self.load.number)
        if isinstance(self._ends, Last):
            return self._next_last(self._ends, now)
        if self._is_publish_due(now):
            return None if self._awaits_catalog(now) else Publish()
        is_idle = self._pauses > 0 or self._queue.is_empty
        if isinstance(self._ends, Finishing) and (is_idle or now >= self._latest):
            self._ends = Last((Sync(), Publish(), Close()))
            return self._next_last(self._ends, now)
        self._later(self._latest)
        if not self._progress.is_filled and not self.definitions.is_awaited:
            return Fill()
        return None if is_idle else self._next_item(now)

    def _is_sync_due(self, now: float) -> bool:
        is_idle = self._pauses > 0 or self._queue.is_empty
        due = self._progress.sync_due(is_idle=is_idle)
        if now < due:
            self._later(due)
        return now >= due

    def _is_publish_due(self, now: float) -> bool:
        due = self._progress.publish_due(self._age)
        if self._log.is_full or now >= due:
            return True
        self._later(due)
        return False

    def _awaits_catalog(self, now: float) -> bool:
        """Waits for definitions, but not for long: then they come before their first rows."""
        # Nobody waits for an end that was not asked for by a stop.
        seconds = (
            math.inf if self._latest == math.inf and self._ends else _DEFINITION_SECONDS
        )
        until = min(self.definitions.awaited_until(seconds), self._latest)
        if now < until:
            self._later(until)
            return True
        return False

    def _next_item(self, now: float) -> Order | None:
        """The order for the first item in the queue."""
        if self._queue.has_session and not self._progress.is_just_synced:
            return Sync()
        if self._ends is None and now < self._queue.gathered:
            self._later(self._queue.gathered)
            return None
        return self._queue.take(now)

    def _next_last(self, ends: Last, now: float) -> Order | None:
        if isinstance(ends.orders[0], Publish) and self._awaits_catalog(now):
            return None
        is_whole = not self._log.lacks_first_load
        if isinstance(ends.orders[0], Close) and self.load is not None and is_whole:
            return GiveUpLoad(self.load.number)
        return self._take_last(ends)

    def _take_last(self, ends: Last) -> Order:
        order, *rest = ends.orders
        self._ends = replace(ends, orders=tuple(rest))
        return order

    def _again(self, trouble: Trouble) -> Order:
        """Another attempt. A load that was given up goes before: it may make room."""
        if isinstance(self.load, GivingUp):
            return GiveUpLoad(self.load.number)
        if isinstance(trouble.order, Append):
            # The writer has the block.
            return replace(trouble.order, block=b"")
        if isinstance(trouble.order, Publish) and self._extensions:
            return ExtendCatalog(self._extensions[0])
        return trouble.order

    def _did(self, did: Did, now: float) -> None:  # noqa: PLR0912 -- a case for each kind
        order, log = did.order, did.log
        trouble = self.state.trouble if isinstance(self.state, Working) else None
        self.state = Idle()
        if isinstance(order, (GiveUpLoad, ExtendCatalog)) and trouble is not None:
            # A load that was given up gets no place any more.
            is_over = isinstance(trouble.order, (type(order), EndLoad))
            self.state = Idle() if is_over else Stuck(trouble, now)
        self._log = log
        if self.load is None and not log.has_changes:
            self.visible = log.position
        self._progress.did(order, log, now)
        match order:
            case NewSession():
                self._session = order
            case Sync():
                self._did_sync(log)
            case ExtendCatalog(catalog):
                if catalog is self._first:
                    self._first = None
                    self.definitions.know(did.answer, times=0)
                else:
                    self._extensions.popleft()
                    self.definitions.know(did.answer)
            case BeginLoad(number):
                self.definitions.outdate()
                if self._first is not None or self._extensions:
                    # The load has brought newer ones.
                    self._first = None
                    self._extensions.clear()
                    self.definitions.ask()
                began = GivingUp if number == self._unwanted else Loading
                self.load = began(number, self._progress.bytes)
            case EndLoad():
                if did.answer:
                    self.load = None
            case GiveUpLoad():
                self.load = None
            case Close():
                self.state = Closed()
            case Append() | SetTimeline() | Fill() | Publish() | PlanLoad():
                pass
            case _:
                assert_never(order)
        self.definitions.see(log.relations, now)
        session = self._session
        if session is not None and log.is_compared:
            self._compared = session.number

    def _did_sync(self, log: LogState) -> None:
        session = self._session
        if session is None or session.session.comparison is Comparison.ONLY:
            return
        if log.is_compared:
            self.last, self.asked = log.last, log.asked
            self.durable = self._confirmable = log.position

    def _refused(self, refused: Refused, now: float) -> None:
        order, error = refused.order, refused.error
        trouble = self.state.trouble if isinstance(self.state, Working) else None
        self.state = Idle()
        if isinstance(order, Close):
            self.state = Closed()
        elif isinstance(order, (PlanLoad, BeginLoad)) or self.failure is not None:
            # The caller that asked for it learns that.
            pass
        elif not may_pass(order, error):
            self._fail(error)
        else:
            if trouble is None:
                trouble = Trouble(order, error, now)
            self._refused_for = now - trouble.since
            if self.has_given_up or now >= self._latest:
                self._fail(error)
            else:
                again = now + _RETRY_SECONDS
                self.state = Stuck(replace(trouble, error=error), again)

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        # Earlier changes stay readable: no other start publishes them.
        is_other = getattr(error, "code", None) == "other_server"
        orders = (Publish(), Close()) if is_other else (Close(),)
        self._ends = Last(orders, error)

    def _read(self, found: Catalog | BaseException, now: float) -> None:
        if isinstance(found, BaseException) and not isinstance(found, Error):
            if self.failure is None:
                self._fail(found)
            return
        catalog = self.definitions.take(found, now)
        self._extensions.extend([] if catalog is None else [catalog])


_RETRY_SECONDS = 1.0
#: A segment waits this long for the definitions of its relations.
_DEFINITION_SECONDS = 1.0
