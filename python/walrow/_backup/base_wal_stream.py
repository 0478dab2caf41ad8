"""The thread that streams WAL into an empty directory, until a position or a stop."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

from walrow._backup.wal_beginning import save_history
from walrow._backup.wal_files import WalDirectory
from walrow._backup.wal_landing import Position, Syncing, WalLanding
from walrow._backup.wal_names import Segment
from walrow._backup.wal_passing import pass_on
from walrow._lsn import Lsn
from walrow._postgres.physical import TimelineEnd
from walrow._workers import in_background
from walrow.errors import BackupError

if TYPE_CHECKING:
    from pathlib import Path

    from walrow._postgres.physical import PhysicalStream
    from walrow._waiting import Waiter

__all__ = ["WalStream"]


class WalStream:
    """Streams WAL once, without another connection after a failure.

    Attributes:
        failure: The error that ended it.
    """

    def __init__(
        self,
        stream: PhysicalStream,
        waiter: Waiter,
        path: Path,
        *,
        first: Segment,
        segment_bytes: int,
        slot: str,
    ) -> None:
        """Starts the thread.

        Args:
            stream: The connection. It is closed at the end.
            waiter: Its wake-up descriptor.
            path: An empty directory.
            first: The segment to begin with.
            segment_bytes: The size of segments.
            slot: The slot that keeps WAL until it is durable.
        """
        self.failure: BaseException | None = None
        self._stream = stream
        self._waiter = waiter
        self._path = path
        self._first = first
        self._segment_bytes = segment_bytes
        self._slot = slot
        self._target: Position | None = None
        self._stop, self._ended = threading.Event(), threading.Event()
        in_background("walrow-base-wal", self._run)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, in order or not."""
        return self._ended.is_set()

    def end_at(self, timeline: int, lsn: Lsn) -> None:
        """Ends when everything before a position is durable."""
        self._target = Position(timeline, lsn)
        self._waiter.wake()

    def stop(self) -> None:
        """Ends at once."""
        self._stop.set()
        self._waiter.wake()

    def wait(self, seconds: float) -> bool:
        """Waits for the end. Returns whether it has come."""
        return self._ended.wait(seconds)

    def _run(self) -> None:
        try:
            with WalDirectory(self._path) as directory:
                landing = WalLanding(
                    directory,
                    self._first,
                    self._segment_bytes,
                    syncing=Syncing.RELAXED,
                    wake=self._waiter.wake,
                )
                try:
                    self._timelines(landing, directory)
                    # From here on, the server needs to keep nothing.
                    self._stream.close(0 if self._stop.is_set() else _CLOSE_SECONDS)
                except BaseException:
                    # The received WAL is of no use.
                    self._stop.set()
                    raise
                finally:
                    self._land(landing)
        except BaseException as error:
            self.failure = error
        finally:
            self._stream.close(0)
            self._ended.set()

    def _land(self, landing: WalLanding) -> None:
        """Waits until everything is durable. After a stop, a disk that stalls is left."""
        landing.finish(math.inf)
        while not landing.join(_LOOK_SECONDS):
            if self._stop.is_set():
                landing.finish(0)
                landing.join(_STALLED_SECONDS)
                return
        if landing.failure is not None:
            raise landing.failure

    def _timelines(self, landing: WalLanding, directory: WalDirectory) -> None:
        """Receives until the end, over the timelines that a standby follows."""
        at = self._first
        while True:
            save_history(self._stream, directory, at.timeline)
            start = at.start(self._segment_bytes)
            end = self._stream.start(start, timeline=at.timeline, slot=self._slot)
            end = end or self._follow(landing, Position(at.timeline, start))
            if end is None:
                return
            if end.timeline <= at.timeline:
                text = f"timeline {end.timeline} follows timeline {at.timeline}"
                raise BackupError(text, code="protocol")
            at = Segment.at(end.timeline, end.start, self._segment_bytes)
            landing.switch(at)

    def _follow(self, landing: WalLanding, at: Position) -> TimelineEnd | None:
        """Receives a timeline until its end. None at the end of all, and if it must stop."""
        while not self._stop.is_set() and landing.failure is None:
            target = self._target
            if target and at.timeline >= target.timeline and at.lsn >= target.lsn:
                return None
            event = pass_on(
                self._stream,
                landing,
                at.timeline,
                waiter=self._waiter,
                stop=self._stop,
            )
            if isinstance(event, TimelineEnd):
                return event
            if event is not None and event.data:
                at = at._replace(lsn=Lsn(event.start + len(event.data)))
        return None


#: How often it looks whether it should end.
_LOOK_SECONDS = 0.1
_CLOSE_SECONDS = 1.0
#: A disk that stalls holds a stop no longer.
_STALLED_SECONDS = 0.1
