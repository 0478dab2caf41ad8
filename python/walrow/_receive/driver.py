"""Carries out what `Core` decides: it waits, reads the stream, and passes on what happens. It decides nothing.

```text
stream ─► Arrived ─┐                      ┌─► log thread ──► Did, Refused
answers ─► queue ──┼─► Core.on ─► actions ┼─► connector, askers, files ─► answers
stop, deadline ────┘                      └─► copies ─► Copied, Broken
```
"""

from __future__ import annotations

import contextlib
import queue
import secrets
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, assert_never

import psycopg

from walrow._core import Catalog, LogWriter
from walrow._log import requests as load_requests
from walrow._log.retention import Keeper
from walrow._log.stopped import refuse_stopped, stop, way_out
from walrow._lsn import Lsn
from walrow._postgres.commands import CreatedSlot, drop_slot
from walrow._postgres.connecting import connect, connect_to_ask, parameters_of
from walrow._postgres.copying import was_busy
from walrow._postgres.open_connections import OpenConnections
from walrow._postgres.preflight.hosts import look_at_hosts
from walrow._postgres.shutdown import STOPPING, ShutdownWatch
from walrow._postgres.slot_positions import end_of_wal
from walrow._postgres.stream_options import is_streamed
from walrow._receive import events, load
from walrow._receive.askers import Asker, read_catalog
from walrow._receive.completeness import Completeness
from walrow._receive.connector import Connector, Server, prefix_of_loads, slot_now
from walrow._receive.core import Core, Limits, Over
from walrow._receive.disk_states import (
    Arrived,
    CatalogRead,
    ReadCatalog,
)
from walrow._receive.events import Action, Event
from walrow._receive.goal import Goal
from walrow._receive.link import Link
from walrow._receive.link_states import Want, Wishes
from walrow._receive.loading import TableLoad
from walrow._receive.log_thread import LogThread
from walrow._receive.options import ReceiveOptions
from walrow._receive.publishing import Publisher, may_pass
from walrow._receive.reports import Reports, Seen
from walrow._receive.status import PendingLoad, Received, State
from walrow._receive.upkeep import Upkeep
from walrow._receive.watch import TimelineWatch, Watch
from walrow._results import counted
from walrow._waiting import StopEvent, Waiter
from walrow._workers import Repeated, Worker, in_background
from walrow.errors import ConnectionLostError, Error, LogError


class Driver:
    """A receiver that runs once. `receive` makes one."""

    def __init__(self, options: ReceiveOptions) -> None:
        """Takes the options, which are checked."""
        self._options = options
        self._given = given = parameters_of(options.conninfo)
        self._log, self._slot = options.log, options.slot
        self._server = Server(
            given,
            options.slot,
            tuple(options.publications),
            options.tables,
            options.failover,
            options.two_phase,
            options.binary,
        )
        wanted = {
            Want.CREATE: options.create,
            Want.FAILOVER: options.failover,
            Want.SNAPSHOT: options.snapshot,
            Want.GOAL: options.until == "now",
            Want.CROSS_GAP: options.cross_gap,
            Want.STREAMING: is_streamed(
                streaming=options.streaming, messages=options.messages
            ),
        }
        wishes = Wishes(
            options.slot,
            self._server.publications,
            options.tables,
            options.stream(),
            way_out(self._log),
            frozenset(it for it, is_so in wanted.items() if is_so),
        )
        limits = Limits(options.publish_after, GIVE_UP_SECONDS, options.start_seconds)
        now = time.monotonic()
        self._core = Core(
            Link(wishes, limits.give_up_after, limits.start_within, now),
            load.LoadDecisions(
                load_requests.LoadRequest("", None),
                may_pass,
                was_busy,
            ),
            limits,
            now,
        )
        self._stop = options.stop or StopEvent()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        #: Actions that are to be done. After an interruption, the rest is still done.
        self._due: deque[Action] = deque()
        self._waiter = Waiter()
        self._connections = OpenConnections()
        #: The thread that touches the log's files beside its writer.
        self._files = Worker("walrow-files")
        self._asker = Asker(self._connect_to_ask, "walrow-asker")
        self._log_thread = LogThread(self._tell)
        self._connector: Connector | None = None
        self._load: TableLoad | None = None
        #: By table, why a load was given up that no process waits for.
        self._failed: dict[str, str] = {}
        self._requests = load_requests.Requests(self._log)
        segment_size = options.segment_size if options.compact else None
        keeper = None
        if options.retain is not None or segment_size is not None:
            keeper = Keeper(self._log, options.retain, segment_size)
        self._upkeep = Upkeep(keeper, Worker("walrow-upkeep"))
        watch = Watch(self._asker, self._slot)
        look = partial(look_at_hosts, given, self._slot)
        begin = lambda: in_background("walrow-hosts", look)  # noqa: E731
        self._hosts = Repeated(begin, _HOSTS_SECONDS)
        self._publisher = Publisher(self._log, watch)
        self._reports = Reports(
            options.progress, watch, self._publisher, _REPORT_SECONDS
        )
        self._goal = Goal(given, self._server.publications, self._asker)
        self._shutdown_watch: ShutdownWatch | None = None
        self._timeline_watch = TimelineWatch(given, self._slot, self._waiter.wake)
        self._completeness = Completeness(
            given,
            asker=self._asker,
            log=self._log,
            publications=self._server.publications,
            note=self._reports.add,
            aged=lambda: self._tell(events.CatalogAged()),
            trigger=lambda is_there: self._tell(events.TriggerSeen(is_there)),
            is_other=lambda: self._core.link.has_other_positions,
        )

    def run(self) -> Received:
        """Receives until it is stopped. Leaves no thread and no connection."""
        failure: BaseException | None = None
        with self._connections.collecting(), self._woken_by_stop():
            try:
                refuse_stopped(self._log, self._slot)
                self._run()
                return self._received()
            except BaseException as error:
                failure = error
                raise
            finally:
                self._publisher.end(failure)
                self._upkeep.finish(self._is_stopped)
                self._stop_copies()
                if self._connector is not None:
                    self._connector.leave()
                for each in (self._files, self._asker, self._timeline_watch):
                    each.close()
                self._log_thread.close()
                now = time.monotonic()
                self._connections.end(self._core.allowed(_END_SECONDS, now))
                self._waiter.close()

    def _run(self) -> None:
        try:
            self._until_over()
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt):
                # The status function, for example: it is not called any more.
                self._reports.end()
            self._on(events.StopWanted(_STOP_SECONDS))
            self._until_over()
            raise
        phase = self._core.phase
        if isinstance(phase, Over) and phase.error is not None:
            raise phase.error

    def _until_over(self) -> None:
        self._on(events.Ticked())
        while not isinstance(self._core.phase, Over):
            self._wait()
            self._take_events()

    def _take_events(self) -> None:
        self._is_stopped()
        with contextlib.suppress(queue.Empty):
            while True:
                self._on(self._events.get_nowait())
        if time.monotonic() >= self._core.deadline:
            self._on(events.Ticked())
        self._tend()

    def _is_stopped(self) -> bool:
        """Whether the caller or an interruption wants the end. The caller's event is never set here."""
        if self._stop.is_set() and not self._core.is_stopped:
            self._on(events.StopWanted(_STOP_SECONDS))
        return self._core.is_stopped

    def _woken_by_stop(self) -> AbstractContextManager[None]:
        if isinstance(self._stop, StopEvent):
            return self._stop.waking(self._waiter)
        return contextlib.nullcontext()

    def _wait(self) -> None:
        """Waits until something happens, or is due. Takes blocks of the stream."""
        core, now = self._core, time.monotonic()
        # A plain event does not wake the waiter.
        is_waking = isinstance(self._stop, StopEvent)
        look_within = _REPORT_SECONDS if is_waking else _LOOK_SECONDS
        until = min(core.deadline, now + look_within)
        if core.reads:
            self._receive(max(0.0, until - now))
            # The event that has woken it is in the queue.
            self._waiter.drain()
            return
        if core.waits_for_room and self._connector is not None:
            # Questions of the server are not read meanwhile, so answer without a question.
            self._perform(events.Confirm(core.confirmable))
            until = min(until, now + _ANSWER_SECONDS)
        self._waiter.wait(until)

    def _receive(self, seconds: float) -> None:
        connector, number = self._connector, self._core.link.number
        if connector is None:
            return
        try:
            block = connector.stream.receive(seconds)
        except Error as error:
            self._on(events.Failed(number, error))
            return
        if block is None:
            text = "the server has ended the stream"
            self._on(events.Failed(number, ConnectionLostError(text)))
        elif block:
            self._on(Arrived(block, connector.stream.server_lsn))

    def _tend(self) -> None:
        """Asks questions and reports, if that is due."""
        core = self._core
        self._upkeep.tend()
        watch = self._shutdown_watch if core.is_receiving else None
        if watch is not None and watch.is_stopping(core.stuck_since):
            error = ConnectionLostError(STOPPING)
            self._on(events.Failed(core.link.number, error))
        if core.is_receiving:
            self._tell_timeline(self._timeline_watch.look())
            if (found := self._hosts.look()) is not None:
                self._publisher.hosts = tuple(it.text for it in found)
            if core.disk is not None and core.disk.is_compared:
                times = core.disk.definitions.times
                self._completeness.look(core.disk.ends, times)
        connector = self._connector if core.is_streaming else None
        self._publisher.turn(
            core,
            None if connector is None else connector.stream,
            () if self._load is None else tuple(it.name for it in self._load.tables),
        )
        if core.word is not None:
            self._report(*core.word)

    def _tell_timeline(self, timeline: int | None) -> None:
        if timeline is not None and timeline != self._core.link.timeline:
            self._tell(events.TimelineSeen(timeline))

    # Events and answers.

    def _tell(self, event: Event) -> None:
        """Passes an event on, from any thread."""
        self._events.put(event)
        self._waiter.wake()

    def _on(self, event: Event) -> None:
        self._due.extend(self._core.on(event, time.monotonic()))
        while self._due:
            self._perform(self._due.popleft())

    def _answer(
        self,
        answer: Future[Any],
        told: Callable[[Any], Event],
        failed: Callable[[BaseException], Event],
    ) -> None:
        """Passes an answer on when it comes. A thread that has ended does not answer."""

        def done(it: Future[Any]) -> None:
            if not it.cancelled():
                error = it.exception()
                self._tell(told(it.result()) if error is None else failed(error))

        answer.add_done_callback(done)

    def _step(self, number: int, step: Callable[..., Any], *arguments: Any) -> None:
        """Begins a step of the connection."""
        if self._connector is not None:
            answer = self._connector.do(step, *arguments)
            self._answer(answer, lambda it: it, partial(events.Failed, number))

    # Actions.

    def _perform(self, action: Action) -> None:  # noqa: PLR0912 -- a case for each kind
        connector = self._connector
        match action:
            case events.Connect(number):
                connector = Connector(self._server, self._waiter.descriptor, self._tell)
                self._connector = connector
                # If there are several hosts, another may be right for questions then.
                self._step(number, connector.connect, number, self._asker.renew)
            case events.OpenLog(number, system):
                make = partial(
                    LogWriter,
                    self._log,
                    system_identifier=system.system_identifier,
                    database=system.database,
                    slot=self._slot,
                    **self._options.writer(),
                )
                self._log_thread.open(number, make, self._read_catalog)
            case events.HangUp():
                if connector is not None:
                    connector.stream.close(
                        self._core.allowed(_CLOSE_SECONDS, time.monotonic())
                    )
                    connector.leave()
            case events.Leave():
                if connector is not None:
                    connector.leave()
            case events.LookAtTimeline():
                seconds = self._core.allowed(_TIMELINE_SECONDS, time.monotonic())
                found = self._timeline_watch.look_now(seconds)
                self._tell(events.TimelineSeen(found))
            case events.Judge():
                asked = self._asker.ask(partial(slot_now, slot=self._slot))
                self._answer(asked, events.Judged, _judged)
            case events.RecordStop(reason):
                recorded = self._files.do(partial(stop, self._log, reason))
                self._answer(recorded, events.StopRecorded, _not_recorded)
            case events.DropSlot():
                dropper = Worker("walrow-connect")
                dropped = dropper.do(self._drop_slot)
                dropper.close()
                self._answer(dropped, events.SlotDropped, events.SlotDropped)
            case events.AskEnd():
                end = self._asker.ask(end_of_wal)
                no_end = events.EndSeen(Lsn(0))
                self._answer(end, lambda it: events.EndSeen(*it), lambda _: no_end)
            case events.LookLast() | events.AskLast():
                self._ask_last(action)
            case events.Say(word, note):
                if note is not None and word != "stopping":
                    self._publisher.fail(self._core, word, note)
                self._report(word, note, now=True)
            case ReadCatalog():
                self._answer(self._read_catalog(), CatalogRead, CatalogRead)
            case _:
                if isinstance(action, load.Action):
                    self._do_load(action)
                elif not isinstance(action, events.Use):
                    self._log_thread.do(action)
                elif connector is not None:
                    self._use(connector, action)

    def _use(self, connector: Connector, action: events.Use) -> None:
        match action:
            case events.Inspect(number, system, last):
                known = (self._completeness.files, self._completeness.has_begun)
                self._step(number, connector.inspect, number, system, last, *known)
            case events.Make(number, parts):
                self._step(number, connector.make, number, parts, self._slot_began)
            case events.Check(number):
                facts = self._completeness
                record = (facts.begin_with_slot, facts.cross)
                self._step(number, connector.check, action, self._goal, *record)
            case events.StartStream(number, start, options):
                self._step(number, connector.start, number, start, options)
            case events.WatchServer():
                self._timeline_watch.begin(connector.stream.connection)
                self._shutdown_watch = ShutdownWatch(connector.stream.connection)
            case events.Confirm(position, reply):
                with contextlib.suppress(Error):
                    connector.stream.confirm(position, reply=reply)
            case _:
                assert_never(action)

    def _do_load(self, action: load.Action) -> None:
        current = self._load
        match action:
            case load.Note(text):
                self._reports.add(text)
            case load.LookForRequest():
                self._tell(load.Found(self._take_request()))
            case load.LookIfWanted(request):
                is_wanted = load_requests.is_wanted(self._log, request)
                self._tell(load.StillWanted() if is_wanted else load.Unwanted())
            case load.OpenCopies(number, request):
                self._load = TableLoad(
                    number,
                    self._given,
                    publications=self._server.publications,
                    names=None if isinstance(request, load.First) else request.tables,
                    apart=request.apart if isinstance(request, load.First) else None,
                    binary=self._server.binary,
                    jobs=self._options.jobs,
                    tell=self._tell,
                    note=partial(self._note_for, request),
                )
                self._load.open()
            case load.MakeSlot(_, request):
                if current is not None and isinstance(request, load.First):
                    self._make_first(current)
                elif current is not None:
                    slot = prefix_of_loads(self._slot) + secrets.token_hex(4)
                    current.make(slot, self._load_waits, longest_pause=_PAUSE_SECONDS)
            case load.StartCopies(number):
                if current is not None:
                    current.start(self._log_thread.loads[number])
            case load.StopCopies():
                self._stop_copies()
            case load.Record(request, failure, _, culprits):
                done = current if failure is None else None
                record = partial(self._record, done, request, failure, culprits)
                self._answer(
                    self._files.do(record),
                    lambda _: load.Recorded(),
                    load.NotRecorded,
                )
            case _:
                assert_never(action)

    def _make_first(self, current: TableLoad) -> None:
        if self._connector is not None:
            self._connector.use(
                partial(
                    current.make_on,
                    self._slot,
                    self._connector.waiting,
                    self._completeness.begin_without,
                ),
                **self._server.slot_options,
            )

    # Parts of the actions.

    def _read_catalog(self) -> Future[Catalog]:
        return self._asker.ask(
            partial(read_catalog, publications=self._server.publications)
        )

    def _ask_last(self, action: events.LookLast | events.AskLast) -> None:
        core = self._core
        if isinstance(action, events.LookLast):
            if core.disk is not None:
                looked = self._completeness.look_last(core.disk.ends)
                self._answer(looked, events.Looked, events.Looked)
            return
        left = self._goal.find_left()

        def settle() -> None:
            # The log is closed, so readers see all of it.
            self._completeness.settle(core.durable, core.counts.last_message)
            if left is not None:
                left.exception()

        settled = self._files.do(settle)
        self._answer(settled, lambda _: events.LastAnswered(), events.LastAnswered)

    def _connect_to_ask(self) -> psycopg.Connection[Any]:
        return connect_to_ask(self._server.asked, f"(questions for slot {self._slot})")

    def _slot_began(self, created: CreatedSlot | None) -> None:
        if self._core.durable:
            # Behind a gap, no table is whole anyway.
            return
        if created is None:
            self._completeness.begin_unknown()
        elif created.snapshot is not None:
            self._completeness.begin(created.snapshot, created.consistent_point)

    def _drop_slot(self) -> None:
        with connect(self._server.asked) as conn:
            drop_slot(conn, self._slot, wait=True)

    def _take_request(self) -> load_requests.LoadRequest | None:
        try:
            return self._requests.take()
        except LogError as error:
            self._reports.add(str(error))
            return None

    def _note_for(
        self, request: load.First | load_requests.LoadRequest, text: str
    ) -> None:
        if isinstance(request, load_requests.LoadRequest) and request.is_awaited:
            load_requests.note(self._log, request, text)

    def _load_waits(self, waits: object) -> None:
        self._reports.add(f"a load: {waits}")

    def _stop_copies(self) -> None:
        current, self._load = self._load, None
        if current is not None:
            current.stop()

    def _record(
        self,
        done: TableLoad | None,
        request: load_requests.LoadRequest | load.First,
        failure: str | None,
        culprits: load.Culprits,
    ) -> None:
        """Records an outcome. The disk may refuse it, or stall."""
        if done is not None and done.load is not None:
            try:
                self._completeness.loaded(done.tables, done.load.point, done.names)
            except LogError as error:
                if error.code != "damaged":
                    # The disk refuses it for now.
                    raise
                self._reports.add(f"the tables are loaded, but: {error}")
        if isinstance(request, load.First) and request.apart:
            # Like tables that were requested.
            failure, culprits = "it is left out", load.Culprits(request.apart, ())
            key = secrets.token_hex(8)
            request = load_requests.LoadRequest(key, sorted(request.apart))
        for table in () if done is None else done.tables:
            self._failed.pop(table.name, None)
        if not isinstance(request, load.First) and request.key:
            names = request.tables or ["all tables"]
            if failure is not None and not request.is_awaited:
                self._failed |= culprits.refused or (
                    {names[0]: failure} if len(names) == 1 else {}
                )
            refused, others, _ = culprits
            load_requests.complete(self._log, request, failure, refused, others)
        elif culprits.others and not isinstance(request, load.First):
            load_requests.request(self._log, culprits.others)
        if done is not None:
            loaded = done.progress(0)
            rows = counted(loaded.rows, "row")
            tables = counted(loaded.tables, "table")
            if loaded.tables == 1:
                (tables,) = (table.name for table in done.tables)
            self._reports.add(f"loaded {tables} with {rows}")

    def _received(self) -> Received:
        core = self._core
        counts = core.counts
        left = [] if core.pending is None else [core.pending]
        left += [PendingLoad((it,), (), why) for it, why in self._failed.items()]
        return Received(
            core.durable,
            counts.transactions,
            counts.rows,
            counts.bytes,
            counts.segments,
            (*left, *self._goal.left(self._reports.add)),
        )

    def _report(
        self, word: State, note: str | None = None, *, now: bool = False
    ) -> None:
        core, disk = self._core, self._core.disk
        trouble, progress = self._upkeep.note, None
        if disk is not None:
            trouble = disk.trouble or disk.definitions.trouble or trouble
            if self._load is not None:
                progress = self._load.progress(disk.held_bytes)
        is_end_known = not core.link.has_other_positions
        seen = Seen(core.durable, core.counts, progress, trouble, is_end_known)
        self._reports.report(word, seen, note, now=now)


def _judged(error: BaseException) -> events.Judged:
    return events.Judged(error if isinstance(error, Error) else ConnectionLostError())


def _not_recorded(error: BaseException) -> events.StopRecorded:
    return events.StopRecorded(f"that cannot be recorded in the log: {error}")


#: A stop takes about a second at most. Its waits take this time together, and then the least time
#: for each wait that is left. A busy machine delays the end of the process.
#: For how long a file system may refuse writes, as a full disk does. Until then, the receiver stays
#: connected and tries again: an hour is enough to add space, and the service that restarts the
#: receiver learns of a disk that stays full.
GIVE_UP_SECONDS = 3_600.0
_STOP_SECONDS = 0.7
#: Open questions to the server are cancelled at the end. This is their time to close connections.
_END_SECONDS = 1.0
_CLOSE_SECONDS = 1.0
#: For a standby only.
_TIMELINE_SECONDS = 0.3
_REPORT_SECONDS = 1.0
_LOOK_SECONDS = 0.25
_HOSTS_SECONDS = 30.0
_ANSWER_SECONDS = 0.4
#: The stream waits so long for the slot of a load.
_PAUSE_SECONDS = 5.0
