"""A receiver: it connects, checks, streams, and connects again."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import psycopg

from walrow._core import LogWriter
from walrow._log.stopped import refuse_stopped
from walrow._lsn import Lsn
from walrow._postgres.commands import drop_slot, identify_system
from walrow._postgres.connecting import connect, connect_to_ask, parameters_of
from walrow._postgres.failures import OBJECT_IN_USE, UNDEFINED_OBJECT
from walrow._postgres.open_connections import OpenConnections
from walrow._postgres.replication import ReplicationStream
from walrow._postgres.server_errors import replication_error
from walrow._postgres.slot_positions import position_of_now, prepared_transactions
from walrow._postgres.stream_options import is_streamed
from walrow._receive.askers import Asker, first_catalog, read_catalog
from walrow._receive.beginning import Beginning
from walrow._receive.completeness import Completeness
from walrow._receive.disk_states import is_refusal
from walrow._receive.interruption import Step
from walrow._receive.landing import Landing
from walrow._receive.loads import Loads
from walrow._receive.orders import Counts
from walrow._receive.reconnecting import Attempts, Streaming
from walrow._receive.resuming import in_use
from walrow._receive.same_server import Comparison, asked_options, stream_arguments
from walrow._receive.status import Received, Status, lag_seconds
from walrow._receive.stopping import Stop
from walrow._receive.watch import TimelineWatch, Watch
from walrow._waiting import Waiter
from walrow._workers import Worker, answered
from walrow.errors import (
    ConnectionLostError,
    Error,
    OptionError,
    Remedy,
    ReplicationError,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from walrow._core import Catalog
    from walrow._log.retention import Retainer
    from walrow._postgres.commands import IdentifySystem
    from walrow._postgres.waiting import OpenTransaction
    from walrow._receive.status import PendingLoad, State
    from walrow.typing import TableName

__all__ = ["Receiver"]


class Receiver:
    """A receiver that runs once. `receive` makes one."""

    def __init__(
        self,
        conninfo: str,
        *,
        log: str | os.PathLike[str],
        slot: str,
        publications: Sequence[str],
        create: bool,
        tables: Sequence[TableName] | None,
        until: Literal["now"] | None,
        failover: bool,
        snapshot: bool,
        jobs: int,
        max_hold: int | None,
        stream_options: dict[str, Any],
        writer_options: dict[str, Any],
        age: float,
        give_up_after: float,
        start_within: float,
        retainer: Retainer | None,
        status: Callable[[Status], None] | None,
        stop: threading.Event,
    ) -> None:
        """Checks the options."""
        self._given = parameters_of(conninfo)
        if not publications:
            text = "publications is missing: name at least one"
            raise OptionError(text)
        if not create:
            _check_without_create(tables, snapshot=snapshot)
        if jobs < 1:
            text = "jobs must be at least 1"
            raise OptionError(text)
        self._log = os.fspath(log)
        self._slot = slot
        self._publications = tuple(publications)
        self._until = until
        self._target: Lsn | None = None
        #: The transactions that are prepared at the start.
        self._prepared: set[int] = set()
        self._stream_options = stream_options
        self._writer_options = writer_options
        self._age = age
        self._give_up_after = give_up_after
        self._start_within = start_within
        self._attempts = Attempts(give_up_after, start_within)
        self._streaming = Streaming()
        self._has_streamed = False
        self._status = status
        self._stop = Stop(stop, _STOP_SECONDS)
        self._retainer = retainer
        self._retained: Future[None] | None = None
        self._retain_due = time.monotonic() + _RETAIN_SECONDS
        #: What touches the log's files beside its writer.
        self._files = Worker("walrow-files")
        self._landing: Landing | None = None
        #: Was left before its end: its disk stalls, and it still has the log.
        self._unended: Landing | None = None
        self._earlier = Counts()
        self._position = Lsn(0)
        self._connections = OpenConnections()
        self._waiter = Waiter()
        self._asker = Asker(self._connect_to_ask, "walrow-asker")
        self._watch = Watch(self._asker, slot)
        self._timeline_watch = TimelineWatch(self._given, slot)
        self._reported = 0.0
        self._notes: deque[str] = deque()
        self._left: list[PendingLoad | OpenTransaction] = []
        self._has_given_up = self._only_compares = False
        self._answered = 0.0
        self._asked = 0.0
        self._completeness = Completeness(
            self._given,
            asker=self._asker,
            log=Path(self._log),
            publications=self._publications,
            note=self._notes.append,
        )
        self._loads = Loads(
            self._given,
            log=Path(self._log),
            publications=self._publications,
            binary=bool(stream_options["binary"]),
            jobs=jobs,
            max_hold=max_hold,
            wake=self._waiter.wake,
            note=self._notes.append,
            completeness=self._completeness,
            files=self._files,
        )
        self._beginning = Beginning(
            self._given,
            slot,
            log=Path(self._log),
            publications=self._publications,
            tables=tables,
            create=create,
            failover=failover,
            snapshot=snapshot,
            two_phase=bool(stream_options["two_phase"]),
            binary=bool(stream_options["binary"]),
            loads=self._loads,
            completeness=self._completeness,
            answered=self._answer,
            note=self._notes.append,
        )

    def run(self) -> Received:
        """Receives until it is stopped. Leaves no thread and no connection."""
        with self._connections.collecting():
            try:
                return self._run()
            finally:
                try:
                    # Only after an interruption: otherwise it is closed.
                    self._abandon()
                finally:
                    self._retain_last()
                    self._files.close()
                    self._asker.close()
                    self._timeline_watch.close()
                    self._connections.end(self._stop.allowed(_END_SECONDS))
                    self._waiter.close()

    def _retain(self) -> None:
        """Removes old segments now and then."""
        retainer, now = self._retainer, time.monotonic()
        is_due = now >= self._retain_due
        if is_due and retainer is not None:
            if self._retained is None or self._retained.done():
                self._retained = self._files.do(retainer.apply)
            self._retain_due = now + _RETAIN_SECONDS

    def _retain_last(self) -> None:
        """Removes old segments at the end, as far as a stop leaves time for that."""
        if self._retainer is not None:
            last = self._files.do(self._retainer.apply)
            answered(last, math.inf, self._stop.is_set)
            answered(last, _RETAIN_LAST_SECONDS)

    def _run(self) -> Received:
        refuse_stopped(self._log, self._slot)
        try:
            while self._may_begin():
                self._report("connecting", force=True)
                began, durable = time.monotonic(), self._durable
                self._has_streamed = False
                try:
                    self._receive()
                    break
                except Error as error:
                    attempt = self._attempts.after(
                        error,
                        lasted=time.monotonic() - began,
                        has_streamed=self._has_streamed,
                        has_advanced=self._durable > durable,
                        is_known=self._beginning.system is not None,
                        is_final=error is self._beginning.refusal,
                        has_given_up=self._has_given_up,
                    )
                    if attempt is None:
                        self._end()
                        if self._attempts.is_late:
                            text = (
                                f"no server was reached within {self._start_within:g} s"
                            )
                            self._report("stopping", note=text, force=True)
                        raise
                    note = attempt.note
                    if self._streams() and self._streaming.fail(error):
                        note = f"{note}. {_WITHOUT_STREAMING}"
                    self._report(attempt.state, note=note, force=True)
                    self._pause(attempt.pause)
        except KeyboardInterrupt:
            self._stop.set()
            self._finish(None)
            raise
        self._finish(None)
        return self._received()

    def _pause(self, seconds: float) -> None:
        """Waits for a stop, at most so long. The log goes on."""
        end = time.monotonic() + seconds
        while not self._stop.is_set() and time.monotonic() < end:
            self._wait(end)

    def _wait(self, until: float) -> None:
        """Waits until something happens, but shortly. The log goes on."""
        landing, end = self._landing, min(until, time.monotonic() + _LOOK_SECONDS)
        self._waiter.wait(end if landing is None else min(end, landing.deadline))
        if landing is not None:
            landing.tick()

    def _streams(self) -> bool:
        """Whether large transactions come before their commit, as far as the options say it."""
        given = self._stream_options
        return is_streamed(streaming=given["streaming"], messages=given["messages"])

    def _may_begin(self) -> bool:
        """Waits until an earlier attempt no longer writes to the log. False after a stop."""
        text = "the disk has not finished a write of the attempt before: waiting for it"
        while (earlier := self._unended) is not None and not self._stop.is_set():
            if earlier.wait(_REPORT_SECONDS, self._stop.is_set):
                self._unended = None
                self._position, self._earlier = earlier.durable, earlier.counts
            else:
                self._report("degraded", note=text, landing=earlier)
        return not self._stop.is_set()

    @property
    def _durable(self) -> Lsn:
        return self._position if self._landing is None else self._landing.durable

    def _end(self) -> None:
        """Publishes what there is, after an error that another attempt does not fix."""
        with contextlib.suppress(Error):
            self._finish(None)
        if self._beginning.has_useless_slot:
            self._drop_slot()

    def _drop_slot(self) -> None:
        """Drops a slot that the first load has left, as it would keep WAL for nobody."""

        def drop(_step: Step[None]) -> None:
            with connect({**self._given, "connect_timeout": 5}) as conn:
                drop_slot(conn, self._slot, wait=True)

        step = Step(drop, lambda _: None, self._waiter.wake)
        end = time.monotonic() + _DROP_SECONDS
        while not step.is_done and not self._stop.is_set() and time.monotonic() < end:
            self._wait(end)
        try:
            if step.is_done:
                step.result()
                return
        except Error as error:
            if getattr(error, "sqlstate", None) == UNDEFINED_OBJECT:
                return
        text = (
            f'slot "{self._slot}" was not dropped yet, and may keep WAL: '
            f"walrow slot drop {self._slot}"
        )
        self._report("stopping", note=text, force=True)

    def _receive(self) -> None:
        """Connects, and receives until the connection ends."""
        while self._receive_once():
            # The server was compared, with the options of the log. The given options come now.
            pass

    def _receive_once(self) -> bool:
        """As `_receive`. Returns whether the connection was only for a comparison, and it is made."""
        started = self._started()
        if started is None:
            return False
        stream, landing = started
        self._has_streamed = True
        try:
            try:
                self._pump(stream, landing)
                if self._only_compares and landing.is_compared:
                    return not self._stop.is_set()
            except KeyboardInterrupt:
                self._stop.set()
                self._finish(stream)
                raise
            self._finish(stream)
        finally:
            stream.close(self._stop.allowed(_CLOSE_SECONDS))
        if self._target is not None and not self._stop.is_set():
            # A caller that waits for a position asks the log for states then.
            self._note_prepared()
            self._completeness.compare_now(self._position, self._stop.is_set)
            self._report("stopping", force=True)
        return False

    def _started(self) -> tuple[ReplicationStream, Landing] | None:
        """The stream and where it lands. None if it is stopped before."""
        self._answered = time.monotonic()
        step = Step(
            self._start,
            lambda started: started[0].close(self._stop.allowed(_CLOSE_SECONDS)),
            self._waiter.wake,
        )
        try:
            while not step.is_done:
                if self._stop.is_set():
                    return None
                if time.monotonic() >= self._answered + _CONNECT_SECONDS:
                    step.leave()
                    landing = self._landing
                    is_new = not self._loads.is_first
                    if landing is not None and landing.lacks_first_load and is_new:
                        # Otherwise this step might go on with a load, beside the next one's.
                        self._abandon()
                    text = "the server does not answer while the stream is prepared"
                    raise ConnectionLostError(text)
                is_opening = self._answered == math.inf
                note = "the log is being opened" if is_opening else None
                self._report("connecting", note=note)
                self._wait(math.inf)
            return step.result()
        finally:
            if not step.is_done:
                step.leave()

    def _start(
        self, step: Step[tuple[ReplicationStream, Landing]]
    ) -> tuple[ReplicationStream, Landing]:

        try:
            return self._connect(step)
        except psycopg.Error as error:
            failed = "the stream cannot be prepared"
            raise replication_error(error, failed, slot=self._slot) from error

    def _connect(
        self, step: Step[tuple[ReplicationStream, Landing]]
    ) -> tuple[ReplicationStream, Landing]:

        with contextlib.ExitStack() as stack:
            stream = ReplicationStream.connect(
                **self._given, wakeup_fd=self._waiter.descriptor
            )
            stack.callback(stream.close)
            # If there are several hosts, another may be right now.
            self._asker.renew()
            system = identify_system(stream.connection)
            self._beginning.check_system(system)
            landing = self._landing or self._open(system, step)
            with step.unless_left():
                self._beginning.system = system
            slot_start = self._beginning.check(stream.connection, system, landing, step)
            self._beginning.preflight()
            if self._until == "now" and self._target is None:
                # In this order: a transaction that is prepared after the end is not left by it.
                self._prepared = self._prepared_now()
                self._target = position_of_now(self._given)
            with step.unless_left():
                wanted = asked_options(self._publications, self._stream_options)
                plan = self._beginning.plan(landing, wanted)
                self._only_compares = plan.comparison is Comparison.ONLY
                session = self._beginning.session(system, slot_start, plan)
                landing.begin_session(session)
            asked = stream_arguments(plan.asked, self._stream_options)
            if not self._streaming.may_stream(system.xlogpos, landing.durable):
                asked["streaming"] = False
            try:
                stream.start(self._slot, plan.start, **asked)
            except ReplicationError as error:
                if error.sqlstate != OBJECT_IN_USE:
                    raise
                text = in_use(self._given, self._slot)
                raise ReplicationError(
                    text, sqlstate=OBJECT_IN_USE, slot=self._slot
                ) from error
            with step.unless_left():
                self._timeline_watch.begin(stream.connection)
            stack.pop_all()
            return stream, landing

    def _pump(self, stream: ReplicationStream, landing: Landing) -> None:
        while not self._stop.is_set():
            if landing.failure is not None:
                self._abandon()
                raise self._beginning.judged(landing.failure)
            if self._only_compares and landing.is_compared:
                return
            self._tend_loads(stream, landing)
            if self._has_new_timeline(self._timeline_watch.look(), landing):
                text = (
                    f"the server is on timeline {self._beginning.timeline} now: it was promoted, or "
                    "follows a server that was"
                )
                raise ConnectionLostError(text)
            if (
                self._target is not None
                and landing.durable >= self._target
                # A standby that is behind does not show yet that it is the same.
                and (landing.is_compared or landing.durable > self._target)
                and self._may_end()
            ):
                return
            self._report("streaming" if landing.trouble is None else "degraded")
            if landing.is_full:
                # Questions of the server are not read meanwhile, so answer without a
                # question.
                stream.confirm(landing.confirmable)
                landing.wait_for_room(_ANSWER_SECONDS, self._stop.is_set)
                continue
            left = landing.deadline - time.monotonic()
            block = stream.receive(max(0.0, min(left, _LOOK_SECONDS)))
            landing.tick()
            self._waiter.drain()
            if block is None:
                text = "the server has ended the stream"
                raise ConnectionLostError(text)
            if block:
                landing.put(block, stream.server_lsn)
                self._beginning.sent(stream.server_lsn)
            if landing.confirmable > stream.flushed:
                stream.confirm(landing.confirmable)

    def _may_end(self) -> bool:
        """Whether no load goes on. A load that waits for others may do so for ever: it is left."""
        load = self._loads.left
        if load is not None:
            self._left = [load]
        return load is not None or not self._loads.is_pending

    def _note_prepared(self) -> None:
        """Finds the transactions that were prepared before the end, and are not decided."""

        def ask(conn: psycopg.Connection[Any]) -> list[OpenTransaction]:
            found = prepared_transactions(conn, self._publications)
            return [each for each in found if each.xid in self._prepared]

        if not self._prepared:
            return
        answer = self._asker.ask(ask)
        if answered(answer, math.inf, self._stop.is_set):
            try:
                self._left += answer.result()
            except Error as error:
                self._notes.append(
                    f"it is not known which prepared transactions are left: {error}"
                )

    def _has_new_timeline(self, now: int | None, landing: Landing) -> bool:
        if now is None or not self._beginning.is_promoted(now):
            return False
        # At once: the next connection may take long.
        landing.promote(now)
        return True

    def _tend_loads(self, stream: ReplicationStream, landing: Landing) -> None:
        is_compared = landing.is_compared
        if is_compared:
            self._completeness.look(landing.durable, landing.catalog_times)
        if self._completeness.is_catalog_old:
            self._completeness.is_catalog_old = False
            landing.ask_for_catalog()
        is_first = self._loads.is_first
        try:
            self._loads.tend(landing)
        except BaseException:
            # Opening the log again empties it.
            self._abandon()
            self._beginning.has_useless_slot = is_first
            raise
        now = time.monotonic()
        is_waiting = self._loads.waits_for_position or not is_compared
        if is_waiting and now >= self._asked + _REPORT_SECONDS:
            # An idle server would be silent for long.
            self._asked = now
            stream.confirm(landing.confirmable, reply=True)

    def _open(
        self,
        system: IdentifySystem,
        step: Step[tuple[ReplicationStream, Landing]],
    ) -> Landing:
        """Opens the log, the first time and after a failure of the file system."""
        found, failure = first_catalog(self._read_catalog)
        with step.unless_left():
            # A large log takes long, and the server is not asked meanwhile.
            self._answered = math.inf
        writer = LogWriter(
            self._log,
            system_identifier=system.system_identifier,
            database=system.database,
            slot=self._slot,
            **self._writer_options,
        )
        try:
            timeline = writer.source["timeline"]
            timeline_start = writer.source["timeline_start"]
            if found is not None and not writer.position:
                writer.extend_catalog(found)
                found = None
            with step.unless_left():
                landing = self._landing = Landing(
                    writer,
                    age=self._age,
                    give_up_after=self._give_up_after,
                    read_catalog=self._read_catalog,
                    found=found,
                    catalog_failure=failure,
                    wake=self._waiter.wake,
                    earlier=self._earlier,
                )
                self._beginning.timeline = timeline
                self._beginning.timeline_start = timeline_start
                self._answered = time.monotonic()
        except BaseException:
            writer.close()
            raise
        return landing

    def _read_catalog(self) -> Future[Catalog]:
        return self._asker.ask(
            partial(read_catalog, given=self._given, publications=self._publications)
        )

    def _connect_to_ask(self) -> psycopg.Connection[Any]:

        given = {**self._given, "connect_timeout": 5}
        return connect_to_ask(given, f"(questions for slot {self._slot})")

    def _prepared_now(self) -> set[int]:

        found = self._asker.ask(
            partial(prepared_transactions, publications=self._publications)
        )
        return {each.xid for each in found.result()}

    def _answer(self) -> None:
        self._answered = time.monotonic()

    def _finish(self, stream: ReplicationStream | None) -> None:
        """Publishes and confirms the durable changes, and closes the log."""
        landing, self._landing = self._landing, None
        try:
            self._loads.stop()
            if landing is None:
                return
            self._earlier = landing.counts
            self._report("stopping", force=True, landing=landing)
            if stream is not None:
                now = self._timeline_watch.look_now(
                    self._stop.allowed(_TIMELINE_SECONDS)
                )
                self._has_new_timeline(now, landing)
            if stream is not None and not self._stop.is_set():
                # A caller that waits for a position reads the log then.
                landing.finish(math.inf, self._stop.is_set)
        finally:
            # The status function may raise. The thread would keep the log for ever.
            if landing is not None:
                self._close(landing)
        if stream is not None:
            with contextlib.suppress(Error):
                stream.confirm(landing.confirmable)
        failure = landing.failure
        if failure is None:
            return
        if not self._stop.is_set():
            raise self._beginning.judged(failure)
        if not is_refusal(failure) and getattr(failure, "code", "") != "other_server":
            raise failure
        # The durable changes are published at the next start.
        self._report("stopping", note=str(failure), force=True, landing=landing)

    def _abandon(self) -> None:
        """Closes the log without another try."""
        landing, self._landing = self._landing, None
        try:
            self._loads.stop()
        finally:
            if landing is not None:
                self._close(landing)

    def _close(self, landing: Landing) -> None:
        if not landing.finish(self._stop.allowed(_FINISH_SECONDS)):
            self._unended = landing
        self._position = landing.durable
        self._has_given_up = landing.has_given_up
        self._earlier = landing.counts

    def _received(self) -> Received:
        counts = self._earlier
        return Received(
            self._position,
            counts.transactions,
            counts.rows,
            counts.bytes,
            counts.segments,
            tuple(self._left),
        )

    def _report(
        self,
        state: State,
        *,
        note: str | None = None,
        force: bool = False,
        landing: Landing | None = None,
    ) -> None:
        self._retain()
        now = time.monotonic()
        if self._status is None or (not force and now < self._reported):
            return
        self._reported = now + _REPORT_SECONDS
        landing = landing or self._landing
        while self._notes:
            self._say(state, landing, self._notes.popleft())
        self._say(state, landing, note)

    def _say(
        self,
        state: State,
        landing: Landing | None,
        note: str | None,
    ) -> None:
        counts = self._earlier if landing is None else landing.counts
        durable = self._position if landing is None else landing.durable
        if landing is not None:
            note = note or landing.trouble or landing.catalog_trouble
        if note is None and self._retainer is not None:
            note = self._retainer.note
        end, kept = self._watch.look()
        lag = None if end is None or not durable else max(0, end - durable)
        if self._status is not None:
            self._status(
                Status(
                    state,
                    durable,
                    counts.transactions,
                    counts.rows,
                    counts.bytes,
                    counts.segments,
                    lag,
                    lag_seconds(counts.last_commit_time, lag),
                    kept,
                    None
                    if landing is None
                    else self._loads.progress(landing.held_bytes),
                    note,
                )
            )


def _check_without_create(
    tables: Sequence[TableName] | None, *, snapshot: bool
) -> None:
    if tables is not None:
        text = "a publication that exists has its own tables"
        raise OptionError(text, remedies=_CREATE)
    if snapshot:
        text = "the first load begins with a slot that is created"
        raise OptionError(text, remedies=_CREATE)


#: Connecting, questions and the stream's start take less than this together.
_CONNECT_SECONDS = 90.0
#: A stop takes less than two seconds. Its waits take this time together, and then the least seconds
#: for each wait that is left. A busy machine delays the end of the process.
_STOP_SECONDS = 1.0
#: How often the stop is looked at. A signal sets it without waking anybody.
_LOOK_SECONDS = 0.1
_RETAIN_SECONDS = 60.0
#: The last time, after a stop.
_RETAIN_LAST_SECONDS = 0.3
#: Open questions to the server are cancelled at the end. This is their time to close connections.
_END_SECONDS = 1.0
_LEAST_SECONDS = 0.1
_FINISH_SECONDS = 0.9
_CLOSE_SECONDS = 1.0
#: For a standby only.
_TIMELINE_SECONDS = 0.3
#: Another process may use the slot, and does not have to let go of it.
_DROP_SECONDS = 30.0
_REPORT_SECONDS = 1.0
_ANSWER_SECONDS = 0.4
_WITHOUT_STREAMING = (
    "Until the log has passed this place, large transactions come at their commit"
)
_CREATE = (Remedy("create", None, value=True),)
