"""A receiver: it connects, checks, streams, and connects again."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from walrow._log.retention import Retainer
from walrow._log.stopped import refuse_stopped
from walrow._postgres.commands import drop_slot
from walrow._postgres.connecting import connect, connect_to_ask, parameters_of
from walrow._postgres.failures import UNDEFINED_OBJECT
from walrow._postgres.interruption import Step
from walrow._postgres.open_connections import OpenConnections
from walrow._postgres.stream_options import is_streamed
from walrow._receive.askers import Asker, read_catalog
from walrow._receive.beginning import Beginning
from walrow._receive.completeness import Completeness
from walrow._receive.disk_states import is_refusal
from walrow._receive.goal import Goal
from walrow._receive.link import Away, Link, Opening
from walrow._receive.loads import Loads
from walrow._receive.open_log import OpenLog
from walrow._receive.reports import Reports, Seen
from walrow._receive.starting import Started, Starting
from walrow._receive.status import Received
from walrow._receive.stopping import Stop
from walrow._receive.upkeep import Upkeep
from walrow._receive.watch import TimelineWatch, Watch
from walrow._waiting import Waiter
from walrow._workers import Worker
from walrow.errors import (
    ConnectionLostError,
    Error,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    import psycopg

    from walrow._core import Catalog
    from walrow._postgres.replication import ReplicationStream
    from walrow._receive.landing import Landing
    from walrow._receive.options import ReceiveOptions
    from walrow._receive.status import State

__all__ = ["Receiver"]


class Receiver:
    """A receiver that runs once. `receive` makes one."""

    def __init__(self, options: ReceiveOptions) -> None:
        """Takes the options, which are checked."""
        self._given = parameters_of(options.conninfo)
        self._log = os.fspath(options.log)
        self._slot = slot = options.slot
        self._publications = options.publications
        self._start_within = options.start_seconds
        self._link = Link(
            options.give_up_after,
            self._start_within,
            time.monotonic(),
            streams=is_streamed(streaming=options.streaming, messages=options.messages),
        )
        self._stop = Stop(options.stop or threading.Event(), _STOP_SECONDS)
        #: The thread that touches the log's files beside its writer.
        self._files = Worker("walrow-files")
        self._upkeep = Upkeep(
            None if options.retain is None else Retainer(options.log, options.retain),
            self._files,
        )
        self._connections = OpenConnections()
        self._waiter = Waiter()
        self._asker = Asker(self._connect_to_ask, "walrow-asker")
        self._reports = Reports(
            options.status, Watch(self._asker, slot), _REPORT_SECONDS
        )
        self._goal = Goal(self._given, self._publications, self._asker)
        self._timeline_watch = TimelineWatch(self._given, slot)
        self._open_log = OpenLog(
            self._log,
            slot,
            options=options.writer(),
            age=options.publish_after,
            give_up_after=options.give_up_after,
            read_catalog=self._read_catalog,
            wake=self._waiter.wake,
        )
        self._asked = 0.0
        self._completeness = Completeness(
            self._given,
            asker=self._asker,
            log=options.log,
            publications=self._publications,
            note=self._reports.add,
        )
        self._loads = Loads(
            self._given,
            log=options.log,
            publications=self._publications,
            binary=options.binary,
            jobs=options.jobs,
            max_hold=options.max_hold,
            wake=self._waiter.wake,
            note=self._reports.add,
            completeness=self._completeness,
            files=self._files,
        )
        self._beginning = Beginning(
            self._given,
            slot,
            log=options.log,
            publications=self._publications,
            tables=options.tables,
            create=options.create,
            failover=options.failover,
            snapshot=options.snapshot,
            two_phase=options.two_phase,
            binary=options.binary,
            loads=self._loads,
            completeness=self._completeness,
            answered=self._answer,
            note=self._reports.add,
        )
        self._starting = Starting(
            self._given,
            slot,
            publications=self._publications,
            stream_options=options.stream(),
            goal=self._goal if options.until == "now" else None,
            link=self._link,
            log=self._open_log,
            beginning=self._beginning,
            asker=self._asker,
            timeline_watch=self._timeline_watch,
            waiter=self._waiter,
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
                    self._upkeep.finish(self._stop)
                    self._files.close()
                    self._asker.close()
                    self._timeline_watch.close()
                    self._connections.end(self._stop.allowed(_END_SECONDS))
                    self._waiter.close()

    def _run(self) -> Received:
        refuse_stopped(self._log, self._slot)
        try:
            while self._may_begin():
                self._report("connecting", force=True)
                self._link.begin(self._open_log.durable, time.monotonic())
                try:
                    self._receive()
                    break
                except Error as error:
                    attempt = self._link.lose(
                        error,
                        self._open_log.durable,
                        time.monotonic(),
                        is_known=self._beginning.system is not None,
                        is_final=error is self._beginning.refusal,
                        has_given_up=self._open_log.has_given_up,
                    )
                    if attempt is None:
                        self._end()
                        if self._link.attempts.is_late:
                            text = (
                                f"no server was reached within {self._start_within:g} s"
                            )
                            self._report("stopping", note=text, force=True)
                        raise
                    self._report(attempt.state, note=attempt.note, force=True)
                    self._pause()
        except KeyboardInterrupt:
            self._stop.set()
            self._finish(None)
            raise
        self._finish(None)
        return self._received()

    def _pause(self) -> None:
        """Waits for the next attempt, or a stop. The log goes on."""
        link = self._link.state
        until = link.until if isinstance(link, Away) else 0.0
        while not self._stop.is_set() and time.monotonic() < until:
            self._wait(until)

    def _wait(self, until: float) -> None:
        """Waits until something happens, but shortly. The log goes on."""
        landing, end = (
            self._open_log.landing,
            min(until, time.monotonic() + _LOOK_SECONDS),
        )
        self._waiter.wait(end if landing is None else min(end, landing.deadline))
        if landing is not None:
            landing.tick()

    def _may_begin(self) -> bool:
        """Waits until an earlier attempt no longer writes to the log. False after a stop."""
        log, is_stopped = self._open_log, self._stop.is_set
        text = "the disk has not finished a write of the attempt before: waiting for it"
        while not is_stopped() and not log.is_free(_REPORT_SECONDS, is_stopped):
            self._report("degraded", note=text, landing=log.unended)
        return not is_stopped()

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
        stream, landing, purpose = started
        self._link.stream(purpose, time.monotonic())
        try:
            try:
                self._pump(stream, landing)
                if self._link.only_compares and landing.is_compared:
                    return not self._stop.is_set()
            except KeyboardInterrupt:
                self._stop.set()
                self._finish(stream)
                raise
            self._finish(stream)
        finally:
            stream.close(self._stop.allowed(_CLOSE_SECONDS))
        if self._goal.position is not None and not self._stop.is_set():
            # A caller that waits for a position asks the log for states then.
            self._goal.note_prepared(self._stop.is_set, self._reports.add)
            self._completeness.compare_now(self._open_log.durable, self._stop.is_set)
            self._report("stopping", force=True)
        return False

    def _started(self) -> Started | None:
        """The stream and where it lands. None if it is stopped before."""
        self._answer()
        step = Step(
            self._starting.start,
            lambda started: started[0].close(self._stop.allowed(_CLOSE_SECONDS)),
            self._waiter.wake,
        )
        try:
            while not step.is_done:
                if self._stop.is_set():
                    return None
                if time.monotonic() >= self._link.unanswered_until:
                    step.leave()
                    landing = self._open_log.landing
                    is_new = not self._loads.is_first
                    if landing is not None and landing.lacks_first_load and is_new:
                        # Otherwise this step might go on with a load, beside the next one's.
                        self._abandon()
                    text = "the server does not answer while the stream is prepared"
                    raise ConnectionLostError(text)
                is_opening = isinstance(self._link.state, Opening)
                note = "the log is being opened" if is_opening else None
                self._report("connecting", note=note)
                self._wait(math.inf)
            return step.result()
        finally:
            if not step.is_done:
                step.leave()

    def _pump(self, stream: ReplicationStream, landing: Landing) -> None:
        while not self._stop.is_set():
            if landing.failure is not None:
                self._abandon()
                raise self._beginning.judged(landing.failure)
            if self._link.only_compares and landing.is_compared:
                return
            self._tend_loads(stream, landing)
            if self._has_new_timeline(self._timeline_watch.look(), landing):
                text = (
                    f"the server is on timeline {self._beginning.timeline} now: it was promoted, or "
                    "follows a server that was"
                )
                raise ConnectionLostError(text)
            if self._goal.is_reached(landing, self._loads):
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

    def _read_catalog(self) -> Future[Catalog]:
        return self._asker.ask(
            partial(read_catalog, given=self._given, publications=self._publications)
        )

    def _connect_to_ask(self) -> psycopg.Connection[Any]:

        given = {**self._given, "connect_timeout": 5}
        return connect_to_ask(given, f"(questions for slot {self._slot})")

    def _answer(self) -> None:
        self._link.answer(time.monotonic())

    def _finish(self, stream: ReplicationStream | None) -> None:
        """Publishes and confirms the durable changes, and closes the log."""
        landing = self._open_log.take()
        try:
            self._loads.stop()
            if landing is None:
                return
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
                self._open_log.close(landing, self._stop.allowed(_FINISH_SECONDS))
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
        landing = self._open_log.take()
        try:
            self._loads.stop()
        finally:
            if landing is not None:
                self._open_log.close(landing, self._stop.allowed(_FINISH_SECONDS))

    def _received(self) -> Received:
        counts = self._open_log.counts
        return Received(
            self._open_log.durable,
            counts.transactions,
            counts.rows,
            counts.bytes,
            counts.segments,
            tuple(self._goal.left),
        )

    def _report(
        self,
        state: State,
        *,
        note: str | None = None,
        force: bool = False,
        landing: Landing | None = None,
    ) -> None:
        self._upkeep.tend()
        landing = landing or self._open_log.landing
        trouble, load = self._upkeep.note, None
        if landing is not None:
            trouble = landing.trouble or landing.catalog_trouble or trouble
            load = self._loads.progress(landing.held_bytes)
        log = self._open_log if landing is None else landing
        seen = Seen(log.durable, log.counts, load, trouble)
        self._reports.report(state, seen, note, now=force)


#: A stop takes about a second at most. Its waits take this time together, and then the least time
#: for each wait that is left. A busy machine delays the end of the process.
_STOP_SECONDS = 0.7
#: How often the stop is looked at. A signal sets it without waking anybody.
_LOOK_SECONDS = 0.1
#: Open questions to the server are cancelled at the end. This is their time to close connections.
_END_SECONDS = 1.0
_FINISH_SECONDS = 0.6
_CLOSE_SECONDS = 1.0
#: For a standby only.
_TIMELINE_SECONDS = 0.3
#: Another process may use the slot, and does not have to let go of it.
_DROP_SECONDS = 30.0
_REPORT_SECONDS = 1.0
_ANSWER_SECONDS = 0.4
