"""A receiver of WAL: it connects, streams, follows timelines, and connects again."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import Literal, NamedTuple

from walrow._backup.wal.beginning import Begun, Following, begin
from walrow._backup.wal.files import WalDirectory, WalLanding
from walrow._backup.wal.options import WalOptions, WalStatus
from walrow._backup.wal.segments import Segment
from walrow._lsn import Lsn
from walrow._options import takes
from walrow._postgres.connecting import parameters_of
from walrow._postgres.failures import (
    BUSY_SECONDS,
    OBJECT_IN_USE,
    deserves_reconnect,
    pause_after,
)
from walrow._postgres.open_connections import OpenConnections
from walrow._postgres.physical import PhysicalStream, TimelineEnd
from walrow._postgres.shutdown import STOPPING, ShutdownWatch
from walrow._waiting import Waiter
from walrow._workers import answered, in_background
from walrow.errors import (
    BackupError,
    ConnectionLostError,
    Error,
    OptionError,
    ReplicationError,
)


@takes(WalOptions)
def receive_wal(options: WalOptions) -> WalStatus:
    """Receives WAL into files that are named and sized as the server's.

    A segment's file is `….partial` until it is whole and durable. Start it again after
    a stop or a crash: it continues with the first segment that is not whole. It follows
    promotions, connects again if the connection is lost, and ends with an error that
    another connection would not fix.

    ```python
    walrow.backup.receive_wal("dbname=shop", to="wal/", slot="backup", create_slot=True)
    ```

    Args:
        options: As in the signature.

    Returns:
        The last state. Only with `until` or `stop`.

    Raises:
        OptionError: The options are invalid.
        BackupError: The directory has a gap, WAL of another server or another receiver,
            or cannot be written.
        ReplicationError: The server refused something that another attempt does not
            fix, such as WAL that it has removed.
    """
    # A wrong connection string is refused before a directory is made.
    parameters_of(options.conninfo)
    with WalDirectory(options.to) as locked:
        return WalReceiver(options, locked, options.stop or threading.Event()).run()


class Position(NamedTuple):
    """A place in the WAL. Positions of one server compare in their order."""

    timeline: int
    lsn: Lsn


class WalReceiver:
    """Receives WAL into a locked directory, until a position or a stop."""

    def __init__(
        self, options: WalOptions, directory: WalDirectory, stop: threading.Event
    ) -> None:
        self._options = options
        self._directory = directory
        self._stop = stop
        self._waiter = Waiter()
        until = options.until
        self._target = Position(0, until) if isinstance(until, Lsn) else None
        within = options.start_within
        if within is None:
            within = math.inf if until is None else _START_SECONDS
        self._give_up = time.monotonic() + within
        self._known: str | None = None
        self._following: Following | None = None
        self._landing: WalLanding | None = None
        self._timeline = 0
        #: The end of the WAL that the connections so far have made durable.
        self._durable: Position | None = None
        self._failed = 0
        self._busy_since: float | None = None
        self._note: str | None = None
        self._reported = (0.0, "", "")

    def run(self) -> WalStatus:
        """Receives, and connects again after failures that this may fix."""
        try:
            while not self._receive():
                pass
        finally:
            self._waiter.close()
        timeline, lsn = self._durable or (None, None)
        return WalStatus("stopped", timeline, lsn, lsn, None)

    def _receive(self) -> bool:
        """Receives over one connection. Returns whether that was the last one."""
        connections = OpenConnections()
        begun = None
        try:
            begun = self._connect(connections)
            return begun is None or self._session(begun)
        except Error as error:
            self._pause(error, has_reached=begun is not None)
            return self._stop.is_set()
        finally:
            connections.end(_END_SECONDS)

    def _connect(self, connections: OpenConnections) -> Begun | None:
        """Connects in another thread, which a stop leaves behind. None after a stop."""
        following, self._following = self._following, None
        with connections.collecting():
            answer = in_background(
                "walrow-wal-connect",
                partial(
                    begin,
                    self._options,
                    self._directory,
                    self._waiter.descriptor,
                    known=self._known,
                    following=following,
                ),
            )
        end = time.monotonic() + _CONNECT_SECONDS
        while not self._stop.is_set() and time.monotonic() < end:
            if answered(answer, _LOOK_SECONDS, self._stop.is_set):
                return answer.result()
            self._report("connecting")
        answer.add_done_callback(_close)
        if self._stop.is_set():
            return None
        text = "the server does not answer while the stream is prepared"
        raise ConnectionLostError(text)

    def _session(self, begun: Begun) -> bool:
        """Streams a timeline. Returns whether a stop or the wanted position has come."""
        at = begun.begin
        with contextlib.ExitStack() as stack:
            stack.callback(begun.stream.close, _CLOSE_SECONDS)
            self._note_start(begun)
            if begun.history is not None:
                # Before the first segment of its timeline.
                self._directory.save_history(at.timeline, begun.history)
            end = begun.end or self._follow(begun)
            if end is None or self._stop.is_set():
                return True
            if end.timeline <= at.timeline:
                text = f"timeline {end.timeline} follows timeline {at.timeline}"
                raise ReplicationError(text, sqlstate=_PROTOCOL_VIOLATION)
            _refuse_loss(self._durable, at.timeline, end)
            # From a segment's start, as the file of the new timeline must be whole.
            first = Segment(end.timeline, end.start // begun.segment_size)
            self._following = first, begun.stream
            stack.pop_all()
        return False

    def _note_start(self, begun: Begun) -> None:
        start = begun.begin.start(begun.segment_size)
        if self._target is not None and begun.is_fresh and self._target.lsn < start:
            text = f"until is {self._target.lsn}, and the first WAL that comes is of {start}"
            raise OptionError(text)
        if self._options.until == "now" and self._target is None:
            self._target = Position(begun.system.timeline, begun.system.xlogpos)
        self._known = begun.system.system_identifier
        self._timeline = begun.begin.timeline
        self._give_up = math.inf

    def _follow(self, begun: Begun) -> TimelineEnd | None:
        """Receives a timeline until its end. None after a stop, or the wanted position."""
        landing = self._landing = WalLanding(
            self._directory,
            begun.begin,
            begun.segment_size,
            at_once=self._options.synchronous,
            wake=self._waiter.wake,
        )
        try:
            end = self._pass_on(begun.stream, landing)
        finally:
            # No other connection sends the rest of a timeline that has ended.
            self._land(landing)
            durable = Position(self._timeline, landing.flushed)
            self._durable = max(self._durable or durable, durable)
            if landing.flushed > begun.begin.start(begun.segment_size):
                self._failed = 0
        if landing.failure is not None:
            raise landing.failure
        if end is None:
            _confirm(begun.stream, landing)
        return end

    def _pass_on(
        self, stream: PhysicalStream, landing: WalLanding
    ) -> TimelineEnd | None:
        """Passes WAL on from the stream to its landing, and reports the durable WAL."""
        self._note = None
        watch = ShutdownWatch(stream.connection)
        while landing.failure is None and not self._stop.is_set():
            if self._target is not None and self._target <= Position(
                self._timeline, landing.flushed
            ):
                return None
            if watch.is_stopping(landing.stuck_since):
                # Before the wait for the disk.
                stream.close(_CLOSE_SECONDS)
                self._note = STOPPING
                raise ConnectionLostError(STOPPING)
            self._report("streaming")
            is_full = landing.is_full
            _confirm(stream, landing, always=is_full)
            if is_full:
                # The server's questions are not read meanwhile: it gets reports unasked.
                self._waiter.wait(time.monotonic() + _ANSWER_SECONDS)
                continue
            event = stream.receive(_LOOK_SECONDS)
            self._waiter.drain()
            if isinstance(event, TimelineEnd):
                return event
            if event is None:
                raise ConnectionLostError("the server has ended the stream")
            if event.data:
                landing.put(event.data)
            else:
                landing.sync()
        return None

    def _land(self, landing: WalLanding) -> None:
        """Waits until everything that was received is durable. A stop waits less.

        Another connection must not begin before, because it writes the same file.
        """
        landing.finish()
        stopping = 0.0
        while not landing.join(_LOOK_SECONDS):
            self._report("stopping" if self._stop.is_set() else "streaming")
            if self._stop.is_set():
                stopping += _LOOK_SECONDS
            if stopping > _STOP_WRITING_SECONDS:
                landing.drop()
            if stopping > _STALLED_SECONDS:
                return

    def _pause(self, error: Error, *, has_reached: bool) -> None:
        """Waits before the next connection. Raises an error that none would fix."""
        now = time.monotonic()
        is_busy = getattr(error, "sqlstate", None) == OBJECT_IN_USE
        self._busy_since = (self._busy_since or now) if is_busy else None
        if (
            not deserves_reconnect(error)
            or (not has_reached and now > self._give_up)
            or (self._busy_since is not None and now - self._busy_since > BUSY_SECONDS)
        ):
            raise error
        end = now + pause_after(self._failed)
        self._failed += 1
        self._note = str(error)
        while not self._stop.is_set() and (left := end - time.monotonic()) > 0:
            self._report("connecting")
            self._stop.wait(min(left, _LOOK_SECONDS))

    def _report(self, state: Literal["connecting", "streaming", "stopping"]) -> None:
        """Reports the state about once a second, and when it changes."""
        due, last_state, last_note = self._reported
        now = time.monotonic()
        news = (state, self._note or "")
        status = self._options.progress
        if status is None or (now < due and news == (last_state, last_note)):
            return
        self._reported = (now + _REPORT_SECONDS, *news)
        timeline = flushed = written = None
        if (landing := self._landing) is not None:
            # In this order: WAL is written before it is flushed.
            flushed, written = landing.flushed, landing.written
            timeline = self._timeline
        status(WalStatus(state, timeline, written, flushed, self._note))


def _close(answer: Future[Begun]) -> None:
    """Closes a stream that nothing waits for any more."""
    if not answer.cancelled() and answer.exception() is None:
        answer.result().stream.close(0)


def _confirm(
    stream: PhysicalStream, landing: WalLanding, *, always: bool = False
) -> None:
    """Reports the durable WAL to the server: always, or if there is more."""
    flushed, written = landing.flushed, landing.written
    if always or flushed > stream.flushed:
        stream.confirm(written=written, flushed=flushed)


def _refuse_loss(durable: Position | None, timeline: int, end: TimelineEnd) -> None:
    """Refuses a promoted server that lacks WAL which was reported as durable.

    Commits may have waited for that. Their WAL is only in the earlier timeline's last file.
    """
    if durable and durable.timeline == timeline and durable.lsn > end.start:
        text = (
            f"timeline {end.timeline} begins at {end.start}, and timeline {timeline} was"
            f" durable here up to {durable.lsn}: the promoted server lacks that WAL. Keep"
            f" the files of timeline {timeline}, which have it, also the .partial one;"
            " started again, this continues with the new timeline"
        )
        raise BackupError(text, code="diverged")


_PROTOCOL_VIOLATION = "08P01"
#: How often it looks whether it should stop.
_LOOK_SECONDS = 0.1
#: How long it waits for room in the queue before it reports to the server again.
_ANSWER_SECONDS = 0.5
_REPORT_SECONDS = 1.0
_CONNECT_SECONDS = 60.0
_START_SECONDS = 600.0
_STOP_WRITING_SECONDS = 0.2
#: A disk that stalls does not hold a stop longer.
_STALLED_SECONDS = 0.5
_CLOSE_SECONDS = 0.2
_END_SECONDS = 0.3
