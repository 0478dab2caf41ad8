"""A receiver of WAL: it connects, streams, follows timelines, and connects again."""

from __future__ import annotations

import contextlib
import enum
import time
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import psycopg

from walrow._backup.wal_attempts import Attempts, Failed
from walrow._backup.wal_beginning import begin, save_history
from walrow._backup.wal_landing import Position, WalLanding
from walrow._backup.wal_names import Segment
from walrow._backup.wal_passing import confirm, pass_on
from walrow._backup.wal_status import ReceivedWal, WalStatus
from walrow._lsn import Lsn
from walrow._postgres.interruption import Left, Step
from walrow._postgres.open_connections import OpenConnections
from walrow._postgres.physical import TimelineEnd
from walrow._postgres.server_errors import replication_error
from walrow._waiting import Waiter
from walrow.errors import (
    BackupError,
    ConnectionLostError,
    Error,
    OptionError,
    ReplicationError,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from walrow._backup.wal_beginning import Begun, Source
    from walrow._backup.wal_files import WalDirectory
    from walrow._backup.wal_landing import Syncing
    from walrow._postgres.physical import PhysicalStream

__all__ = ["WalReceiver"]

T = TypeVar("T")


class Ended(enum.Enum):
    """Why a receiver ends in order."""

    STOPPED = "stopped"
    REACHED = "reached"


class _Answer(NamedTuple):
    """The answer to a start: the timeline's end, or None if WAL comes now."""

    end: TimelineEnd | None


class WalReceiver:
    """Receives WAL into a locked directory, until a position or a stop."""

    def __init__(
        self,
        source: Source,
        directory: WalDirectory,
        *,
        until: Literal["now"] | Lsn | None,
        syncing: Syncing,
        start_within: float,
        status: Callable[[WalStatus], None] | None,
        stop: threading.Event,
    ) -> None:
        """Takes what `receive_wal` takes."""
        self._source = source
        self._directory = directory
        self._until = until
        self._target = Position(0, until) if isinstance(until, Lsn) else None
        self._syncing = syncing
        self._status = status
        self._stop = stop
        self._waiter = Waiter()
        self._attempts = Attempts(time.monotonic(), start_within)
        self._begun: Begun | None = None
        self._first: Lsn | None = None
        self._landing: WalLanding | None = None
        self._segments = 0
        #: Up to where the connections so far have made WAL durable.
        self._durable = Position(0, Lsn(0))
        #: The timeline that the stream sends.
        self._timeline = 0
        #: Whether a step was left that uses the stream, and closes it.
        self._has_left = False
        self._reported = (0.0, "", "")
        self._note: str | None = None

    def run(self) -> ReceivedWal:
        """Receives, and connects again after failures that this may fix."""
        connections = OpenConnections()
        try:
            with connections.collecting():
                while self._receive() is None:
                    pass
        finally:
            connections.end(_END_SECONDS)
            self._waiter.close()
        return self._received()

    def _receive(self) -> Ended | None:
        """Receives over one connection. None if a new connection may go on."""
        begun = None
        try:
            begun = self._step(self._connect, lambda it: it.stream.close(0))
            return Ended.STOPPED if begun is None else self._session(begun)
        except Error as error:
            return self._pause(error, has_reached=begun is not None)

    def _pause(self, error: Error, *, has_reached: bool) -> Ended | None:
        landing = self._landing if has_reached else None
        failed = Failed(
            error,
            time.monotonic(),
            has_reached=has_reached,
            has_advanced=landing is not None and landing.has_advanced,
        )
        again = self._attempts.after(failed)
        if again is None:
            raise error
        self._attempts, pause = again
        self._note = str(error)
        self._report("connecting")
        end = time.monotonic() + pause
        while not self._stop.is_set() and (left := end - time.monotonic()) > 0:
            self._stop.wait(min(left, _LOOK_SECONDS))
            self._report("connecting")
        return Ended.STOPPED if self._stop.is_set() else None

    def _connect(self, _step: Step[Begun]) -> Begun:
        known = None if self._begun is None else self._begun.system.system_identifier
        descriptor = self._waiter.descriptor
        try:
            return begin(self._source, self._directory, known, descriptor)
        except psycopg.Error as error:
            failed = "the stream cannot be prepared"
            raise replication_error(error, failed, slot=self._source.slot) from error

    def _session(self, begun: Begun) -> Ended:
        """Streams until the end, over all timelines that follow."""
        stream = begun.stream
        self._has_left = False
        try:
            self._begin(begun)
            landing = self._landing = WalLanding(
                self._directory,
                begun.begin,
                begun.segment_size,
                syncing=self._syncing,
                wake=self._waiter.wake,
            )
            try:
                ended = self._timelines(stream, landing, begun)
            except Error:
                # The received WAL is kept, as far as the disk takes it.
                self._land(landing, _DRAIN_SECONDS)
                raise
            finally:
                self._land(landing, _STOP_WRITING_SECONDS)
                self._segments += landing.segments
                self._durable = max(self._durable, landing.flushed)
            if landing.failure is not None:
                raise landing.failure
            if not self._has_left:
                confirm(stream, landing, self._timeline)
            return ended
        finally:
            if not self._has_left:
                stream.close(_CLOSE_SECONDS)

    def _begin(self, begun: Begun) -> None:
        start = begun.begin.start(begun.segment_size)
        if self._target is not None and begun.is_fresh and self._target.lsn < start:
            text = f"until is {self._target.lsn}, and the first WAL that comes is of {start}"
            raise OptionError(text)
        if self._until == "now" and self._target is None:
            self._target = Position(begun.system.timeline, begun.system.xlogpos)
        self._begun = begun
        if self._first is None:
            self._first = start

    def _timelines(
        self, stream: PhysicalStream, landing: WalLanding, begun: Begun
    ) -> Ended:
        at = begun.begin
        while True:
            if self._has_reached(landing):
                return Ended.REACHED
            answer = self._start(stream, at, begun.segment_size)
            if answer is None:
                answer = self._follow(stream, landing)
            if isinstance(answer, Ended):
                return answer
            if answer.timeline <= at.timeline:
                text = f"timeline {answer.timeline} follows timeline {at.timeline}"
                raise ReplicationError(text, sqlstate=_PROTOCOL_VIOLATION)
            _refuse_loss(max(self._durable, landing.flushed), at.timeline, answer)
            # From a segment's start, as the file of the new timeline must be whole.
            at = Segment.at(answer.timeline, answer.start, begun.segment_size)
            landing.switch(at)

    def _start(
        self, stream: PhysicalStream, at: Segment, size: int
    ) -> TimelineEnd | Ended | None:
        """Starts a timeline. None if WAL comes now."""

        def start(step: Step[_Answer]) -> _Answer:
            with _closed_if_left(step, stream):
                # Before the first segment of its timeline.
                save_history(stream, self._directory, at.timeline)
                slot = self._source.slot
                return _Answer(
                    stream.start(at.start(size), timeline=at.timeline, slot=slot)
                )

        found = self._step(start, lambda _: stream.close(0))
        if found is None:
            return Ended.STOPPED
        self._timeline = at.timeline
        return found.end

    def _follow(
        self, stream: PhysicalStream, landing: WalLanding
    ) -> TimelineEnd | Ended:
        """Receives a timeline until its end."""
        self._note = None
        while True:
            if landing.failure is not None:
                raise landing.failure
            if self._stop.is_set():
                return Ended.STOPPED
            if self._has_reached(landing):
                return Ended.REACHED
            self._report("streaming")
            event = pass_on(
                stream,
                landing,
                self._timeline,
                waiter=self._waiter,
                stop=self._stop,
            )
            if isinstance(event, TimelineEnd):
                return event

    def _has_reached(self, landing: WalLanding) -> bool:
        target, flushed = self._target, landing.flushed
        return (
            target is not None
            and flushed.timeline >= target.timeline
            and flushed.lsn >= target.lsn
        )

    def _land(self, landing: WalLanding, writing: float) -> None:
        """Waits until everything that was written is durable, or for a disk that stalls.

        Another connection must not begin before, as it writes the same file.
        """
        landing.finish(writing)
        stopping = 0.0
        while not landing.join(_LOOK_SECONDS):
            self._report("stopping" if self._stop.is_set() else "streaming")
            if self._stop.is_set():
                landing.finish(0.0)
                stopping += _LOOK_SECONDS
                if stopping > _STALLED_SECONDS:
                    return

    def _step(self, do: Callable[[Step[T]], T], undo: Callable[[T], None]) -> T | None:
        """Does something that waits for the server. None if a stop comes first."""
        step = Step(do, undo, self._waiter.wake)
        try:
            self._await(step)
        except BaseException:
            self._leave(step)
            raise
        if not self._stop.is_set():
            return step.result()
        self._leave(step)
        return None

    def _await(self, step: Step[T]) -> None:
        """Waits for the end of a step, or for a stop."""
        begun = time.monotonic()
        while not step.is_done and not self._stop.is_set():
            if time.monotonic() > begun + _CONNECT_SECONDS:
                text = "the server does not answer while the stream is prepared"
                raise ConnectionLostError(text)
            self._report("connecting")
            self._waiter.wait(time.monotonic() + _LOOK_SECONDS)

    def _leave(self, step: Step[T]) -> None:
        step.leave()
        # If it has ended, it may have failed without closing the stream.
        self._has_left = not step.is_done

    def _report(self, state: Literal["connecting", "streaming", "stopping"]) -> None:
        """Reports the state about once a second, and when it changes."""
        due, last_state, last_note = self._reported
        now = time.monotonic()
        news = (state, self._note or "")
        if self._status is None or (now < due and news == (last_state, last_note)):
            return
        self._reported = (now + _REPORT_SECONDS, *news)
        landing = self._landing
        if landing is None:
            self._status(WalStatus(state, None, None, None, self._note))
            return
        written, flushed = landing.written, landing.flushed
        self._status(
            WalStatus(state, flushed.timeline, written.lsn, flushed.lsn, self._note)
        )

    def _received(self) -> ReceivedWal:
        if self._begun is None or self._landing is None:
            return ReceivedWal(0, None, None, None, None, None)
        flushed = self._landing.flushed
        return ReceivedWal(
            self._segments,
            self._begun.system.system_identifier,
            self._begun.segment_size,
            flushed.timeline,
            self._first,
            flushed.lsn,
        )


def _refuse_loss(durable: Position, timeline: int, end: TimelineEnd) -> None:
    """Refuses a promoted server that lacks WAL which was reported as durable.

    Commits may have waited for that. Their WAL is only in the earlier timeline's last file.
    """
    if durable.timeline == timeline and durable.lsn > end.start:
        text = (
            f"timeline {end.timeline} begins at {end.start}, and timeline {timeline} was"
            f" durable here up to {durable.lsn}: the promoted server lacks that WAL. Keep"
            f" the files of timeline {timeline}, which have it, also the .partial one;"
            " started again, this goes on with the new timeline"
        )
        raise BackupError(text, code="diverged")


@contextlib.contextmanager
def _closed_if_left(step: Step[_Answer], stream: PhysicalStream) -> Iterator[None]:
    """Closes a stream in the thread that uses it, if nobody waits for that any more."""
    try:
        step.check()
        yield
    finally:
        try:
            step.check()
        except Left:
            stream.close(0)
            raise


_PROTOCOL_VIOLATION = "08P01"
#: How often it looks whether it should stop.
_LOOK_SECONDS = 0.1
_REPORT_SECONDS = 1.0
_CONNECT_SECONDS = 60.0
#: After a lost connection, the received WAL is written for so long.
_DRAIN_SECONDS = 60.0
_STOP_WRITING_SECONDS = 0.2
#: A disk that stalls holds a stop no longer.
_STALLED_SECONDS = 0.5
_CLOSE_SECONDS = 0.2
_END_SECONDS = 0.3
