"""A directory of WAL, which one process writes, and the thread that writes it.

The thread writes, syncs and gives names. The connection continues whatever the disk does: it
waits at most for room in the queue.
"""

from __future__ import annotations

import contextlib
import math
import os
import stat
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

from walrow._backup.store import (
    DIRECTORY_MODE,
    FILE_MODE,
    named,
    sync,
    write,
    write_file,
)
from walrow._backup.wal.segments import (
    HEADER_BYTES,
    PARTIAL,
    Entry,
    Segment,
    history_name,
)
from walrow._lsn import Lsn
from walrow._workers import Worker
from walrow.errors import BackupError


class WalDirectory:
    """A directory of WAL, which only this process writes. A context manager."""

    def __init__(self, path: Path) -> None:
        """Makes the directory if necessary, for its owner only, and locks it."""
        # Not on Windows, whose directories cannot be synced either.
        import fcntl

        self.path = path
        with named(self.path):
            missing = [it for it in (self.path, *self.path.parents) if not it.exists()]
            for each in reversed(missing):
                each.mkdir(DIRECTORY_MODE, exist_ok=True)
                each.chmod(DIRECTORY_MODE)
                sync(each.parent)
        with named(self.path / _LOCK):
            self._lock = os.open(self.path / _LOCK, _CREATE, FILE_MODE)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(self._lock)
                if not isinstance(error, BlockingIOError):
                    raise
                text = f"{self.path}: another process receives WAL into this directory"
                raise BackupError(text, code="locked", path=str(self.path)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        os.close(self._lock)

    def hold(self) -> int:
        """A descriptor that keeps the lock until it is closed, too."""
        return os.dup(self._lock)

    def listing(self) -> list[Entry]:
        """The files, with their sizes."""
        found = []
        with named(self.path), os.scandir(self.path) as entries:
            for each in entries:
                about = each.stat(follow_symlinks=False)
                is_plain = stat.S_ISREG(about.st_mode)
                found.append(Entry(each.name, about.st_size if is_plain else None))
        return found

    def head(self, name: str) -> bytes:
        """The beginning of a segment's file, with its first header."""
        with named(self.path / name), (self.path / name).open("rb") as file:
            return file.read(HEADER_BYTES)

    def history(self, timeline: int) -> bytes | None:
        """The history of a timeline. None if it is not there."""
        path = self.path / history_name(timeline)
        with named(path), contextlib.suppress(FileNotFoundError):
            return path.read_bytes()
        return None

    def save_history(self, timeline: int, content: bytes) -> None:
        """Saves the history of a timeline, durably."""
        name = history_name(timeline)
        partial = self.path / f"{name}{PARTIAL}"
        with named(self.path / name):
            partial.unlink(missing_ok=True)
            write_file(partial, [content])
            sync(partial)
            self.rename_whole(name)

    def open_partial(self, name: str, size: int) -> int:
        """Opens the partial file of a segment at its start, with its whole size."""
        file = os.open(self.path / f"{name}{PARTIAL}", _CREATE, FILE_MODE)
        try:
            os.fchmod(file, FILE_MODE)
            os.ftruncate(file, size)
            os.fsync(file)
            sync(self.path)
        except BaseException:
            os.close(file)
            raise
        return file

    def rename_whole(self, name: str) -> None:
        """Gives a whole and durable file its name, durably."""
        (self.path / f"{name}{PARTIAL}").rename(self.path / name)
        sync(self.path)


class WalLanding:
    """Writes the WAL of a timeline in another thread, up to `written`. It is durable up to `flushed`."""

    def __init__(
        self,
        directory: WalDirectory,
        begin: Segment,
        size: int,
        *,
        at_once: bool,
        wake: Callable[[], None],
    ) -> None:
        """Calls `wake` when something was made durable, and after an error.

        WAL becomes durable with each write if `at_once`, otherwise each second.
        """
        self.written = self.flushed = begin.start(size)
        self.failure: BaseException | None = None
        self._directory = directory
        self._segment = begin
        self._size = size
        self._at_once = at_once
        self._wake = wake
        self._file: int | None = None
        # Each is counted by one thread.
        self._put_bytes = self._landed_bytes = 0
        self._synced_at = time.monotonic()
        #: Since when the current step takes. Infinite without one.
        self.stuck_since = math.inf
        self._is_dropped = False
        # A disk that stalls may hold the thread longer than the receiver.
        self._lock = directory.hold()
        self._worker = Worker("walrow-wal-landing", at_end=self._close_all)

    @property
    def is_full(self) -> bool:
        """Whether the queue has no room."""
        return self._put_bytes - self._landed_bytes >= _QUEUE_BYTES

    def put(self, data: bytes) -> None:
        """Queues the next WAL, which follows the earlier calls' without a gap."""
        self._put_bytes += len(data)
        self._worker.do(partial(self._do, partial(self._land, data)))

    def sync(self) -> None:
        """Makes everything durable that was written."""
        if self.written != self.flushed:
            self._worker.do(partial(self._do, self._sync))

    def finish(self) -> None:
        """Ends the thread when everything is durable."""
        self._worker.do(partial(self._do, self._sync))
        self._worker.close()

    def drop(self) -> None:
        """Writes nothing more of the queue: the server sends it again."""
        self._is_dropped = True

    def join(self, seconds: float) -> bool:
        """Waits for the end of the thread, which a disk may hold. Returns whether it has ended."""
        return self._worker.join(seconds)

    def _do(self, step: Callable[[], None]) -> None:
        if self.failure is not None:
            return
        self.stuck_since = time.monotonic()
        try:
            with named(self._directory.path / self._segment.name(self._size)):
                step()
        except BaseException as error:
            self.failure = error
            self._wake()
        self.stuck_since = math.inf

    def _land(self, data: bytes) -> None:
        self._landed_bytes += len(data)
        rest = memoryview(data)
        while rest and not self._is_dropped:
            name = self._segment.name(self._size)
            if self._file is None:
                self._file = self._directory.open_partial(name, self._size)
            room = self._segment.following.start(self._size) - self.written
            part, rest = rest[:room], rest[room:]
            write(self._file, part)
            self.written = Lsn(self.written + len(part))
            if len(part) == room:
                os.fsync(self._file)
                os.close(self._file)
                self._file = None
                self._directory.rename_whole(name)
                self._segment = self._segment.following
                self._note_flushed()
        is_last = self._put_bytes == self._landed_bytes
        if (self._at_once and is_last) or (
            time.monotonic() >= self._synced_at + _SYNC_SECONDS
        ):
            self._sync()

    def _sync(self) -> None:
        if self._file is not None and self.written != self.flushed:
            os.fsync(self._file)
            self._note_flushed()

    def _close_all(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
        os.close(self._lock)

    def _note_flushed(self) -> None:
        self.flushed = self.written
        self._synced_at = time.monotonic()
        self._wake()


#: The file that is locked.
_LOCK = "_lock"
_CREATE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
#: WAL that waits for the disk.
_QUEUE_BYTES = 64 << 20
#: WAL becomes durable after this time.
_SYNC_SECONDS = 1.0
