"""Writes a stream of WAL to files: a thread that writes, syncs and gives names.

The connection goes on whatever the disk does: it waits at most for room in the queue.
"""

from __future__ import annotations

import contextlib
import enum
import math
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from walrow._lsn import Lsn

if TYPE_CHECKING:
    from collections.abc import Callable

    from walrow._backup.wal_files import OpenSegment, WalDirectory
    from walrow._backup.wal_names import Segment

__all__ = ["Position", "Syncing", "WalLanding"]


class Syncing(enum.Enum):
    """When written WAL is made durable."""

    #: As soon as it is written: somebody waits for its commits.
    AT_ONCE = 0.0
    #: After a moment without new WAL, each second, and with each segment.
    RELAXED = 1.0


class Position(NamedTuple):
    """A place in the WAL. Positions of one server compare in their order.

    Attributes:
        timeline: The timeline.
        lsn: The LSN.
    """

    timeline: int
    lsn: Lsn


class WalLanding:
    """The thread that writes segments.

    Attributes:
        written: Up to where everything is written.
        flushed: Up to where everything is durable.
        segments: How many segments are whole.
        failure: The error that ended the thread.
    """

    def __init__(
        self,
        directory: WalDirectory,
        begin: Segment,
        size: int,
        *,
        syncing: Syncing,
        wake: Callable[[], None],
    ) -> None:
        """Starts the thread.

        Args:
            directory: Where the files are.
            begin: The first segment.
            size: The size of segments, in bytes.
            syncing: When WAL is made durable.
            wake: Is called when something was made durable, and at the end.
        """
        self._begin = Position(begin.timeline, begin.start(size))
        self.written = self.flushed = self._begin
        self.segments = 0
        self.failure: BaseException | None = None
        self._directory = directory
        # A disk that stalls may hold the thread longer than the receiver.
        self._lock = directory.hold()
        self._segment = begin
        self._size = size
        self._syncing = syncing
        self._wake = wake
        self._file: OpenSegment | None = None
        self._queue: deque[bytes | Segment] = deque()
        self._queued = 0
        self._changed = threading.Condition()
        self._deadline: float | None = None
        self._thread = threading.Thread(
            target=self._run, name="walrow-wal-landing", daemon=True
        )
        self._thread.start()

    @property
    def has_advanced(self) -> bool:
        """Whether anything became durable."""
        return self.flushed > self._begin

    @property
    def is_full(self) -> bool:
        """Whether the queue has no room."""
        return self._queued >= _QUEUE_BYTES

    def put(self, data: bytes) -> None:
        """Queues the next WAL, which follows the earlier calls' without a gap."""
        with self._changed:
            self._queue.append(data)
            self._queued += len(data)
            self._changed.notify_all()

    def switch(self, begin: Segment) -> None:
        """Goes on at the start of a segment of the next timeline.

        The last segment of the timeline before stays partial.
        """
        with self._changed:
            self._queue.append(begin)
            self._changed.notify_all()

    def wait_for_room(self, seconds: float, stop: threading.Event) -> None:
        """Waits until the queue has room again, at most so long or until a stop."""
        end = time.monotonic() + seconds
        with self._changed:
            while self.is_full and self.failure is None and not stop.is_set():
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(left, _STOP_SECONDS))

    def finish(self, writing: float) -> None:
        """Begins to end the thread. All written WAL is durable at its end.

        Args:
            writing: After so many seconds, the rest of the queue is dropped: the server
                sends it again.
        """
        with self._changed:
            self._deadline = time.monotonic() + writing
            self._changed.notify_all()

    def join(self, seconds: float) -> bool:
        """Waits for the end of the thread. Returns whether it has ended.

        A disk that stalls may hold it.
        """
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._land()
            self._sync()
        except BaseException as error:
            self.failure = error
        finally:
            if self._file is not None:
                with contextlib.suppress(OSError):
                    self._file.close()
            os.close(self._lock)
            with self._changed:
                self._changed.notify_all()
            self._wake()

    def _land(self) -> None:
        dirty_since = math.inf
        while (items := self._next(dirty_since)) is not None:
            for each in items:
                if isinstance(each, bytes):
                    self._write(each)
                else:
                    self._switch(each)
            now = time.monotonic()
            if self.written == self.flushed:
                dirty_since = math.inf
            elif not items or now >= min(dirty_since, now) + self._syncing.value:
                self._sync()
                dirty_since = math.inf
            else:
                dirty_since = min(dirty_since, now)

    def _next(self, dirty_since: float) -> list[bytes | Segment] | None:
        """Takes the queue. Empty if it is time to sync, None at the end."""
        with self._changed:
            if not self._queue and self._deadline is None:
                pause = None if dirty_since == math.inf else _IDLE_SECONDS
                self._changed.wait(pause)
            if self._deadline is not None and (
                not self._queue or time.monotonic() >= self._deadline
            ):
                return None
            items: list[bytes | Segment] = []
            size = 0
            while self._queue and size < _TAKEN_BYTES:
                item = self._queue.popleft()
                items.append(item)
                size += len(item) if isinstance(item, bytes) else 0
            self._queued -= size
            self._changed.notify_all()
            return items

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            if self._file is None:
                self._file = self._directory.open_segment(self._segment, self._size)
            part, rest = rest[: self._file.room], rest[self._file.room :]
            self._file.write(part)
            timeline, lsn = self.written
            self.written = Position(timeline, Lsn(lsn + len(part)))
            if not self._file.room:
                self._finish_segment(self._file)

    def _finish_segment(self, file: OpenSegment) -> None:
        # It closes the file, also if it fails.
        self._file = None
        file.finish()
        self._segment = self._segment.following
        self.segments += 1
        self._note_flushed()

    def _switch(self, begin: Segment) -> None:
        self._sync()
        if self._file is not None:
            file, self._file = self._file, None
            file.close()
        self._segment = begin
        self.written = Position(begin.timeline, begin.start(self._size))
        self._note_flushed()

    def _sync(self) -> None:
        if self._file is not None and self.written != self.flushed:
            self._file.sync()
            self._note_flushed()

    def _note_flushed(self) -> None:
        self.flushed = self.written
        self._wake()


#: WAL that waits for the disk.
_QUEUE_BYTES = 64 << 20
#: WAL that is written between two looks at the clock.
_TAKEN_BYTES = 4 << 20
#: Without more WAL, the written WAL becomes durable after this time.
_IDLE_SECONDS = 0.05
_STOP_SECONDS = 0.1
