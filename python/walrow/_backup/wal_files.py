"""The files of a directory of WAL: locked, written and made durable."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from walrow._backup.wal_listing import Entry
from walrow._backup.wal_names import PARTIAL, history_name
from walrow._backup.wal_page import HEADER_BYTES
from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from walrow._backup.wal_names import Segment

__all__ = ["LOCK", "OpenSegment", "WalDirectory"]


class WalDirectory:
    """A directory of WAL, which this process alone writes. A context manager.

    Attributes:
        path: Its absolute path.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Makes the directory if necessary, for its owner only, and locks it.

        Raises:
            BackupError: Another receiver has it, or the file system refuses it.
        """
        # The process may change its directory.
        self.path = Path(path).absolute()
        with _named(self.path):
            self._make()
        with _named(self.path / LOCK):
            self._lock = os.open(self.path / LOCK, _CREATE, _FILE_MODE)
        try:
            with _named(self.path / LOCK):
                self._take_lock()
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        """Returns the locked directory."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Releases the lock."""
        os.close(self._lock)

    def hold(self) -> int:
        """A descriptor that keeps the lock until it is closed, too."""
        return os.dup(self._lock)

    def listing(self) -> list[Entry]:
        """The files, with their sizes."""
        found = []
        with _named(self.path), os.scandir(self.path) as entries:
            for each in entries:
                about = each.stat(follow_symlinks=False)
                is_plain = stat.S_ISREG(about.st_mode)
                found.append(Entry(each.name, about.st_size if is_plain else None))
        return found

    def head(self, name: str) -> bytes:
        """The beginning of a segment's file, as far as its first header."""
        path = self.path / name
        with _named(path), _opened(path, os.O_RDONLY) as file:
            return os.read(file, HEADER_BYTES)

    def history(self, timeline: int) -> bytes | None:
        """The history of a timeline. None if it is not there."""
        path = self.path / history_name(timeline)
        with _named(path):
            try:
                with _opened(path, os.O_RDONLY) as file:
                    return os.read(file, _MOST_HISTORY_BYTES)
            except FileNotFoundError:
                return None

    def save_history(self, timeline: int, content: bytes) -> None:
        """Saves the history of a timeline, durably."""
        path = self.path / history_name(timeline)
        partial = path.with_name(path.name + PARTIAL)
        with _named(path), _opened(partial, _CREATE | os.O_TRUNC) as file:
            _write(file, content)
            os.fsync(file)
            partial.rename(path)
            self._sync()

    def open_segment(self, segment: Segment, size: int) -> OpenSegment:
        """Opens the partial file of a segment at its start, with its whole size."""
        path = self.path / segment.name(size)
        partial = path.with_name(path.name + PARTIAL)
        with _named(partial):
            file = os.open(partial, _CREATE, _FILE_MODE)
            try:
                os.fchmod(file, _FILE_MODE)
                _reserve(file, size)
                os.fsync(file)
                self._sync()
            except BaseException:
                os.close(file)
                raise
        return OpenSegment(self, file, path, size)

    def rename_whole(self, path: Path) -> None:
        """Gives a whole and durable segment its name, durably."""
        with _named(path):
            path.with_name(path.name + PARTIAL).rename(path)
            self._sync()

    def _make(self) -> None:
        missing = [it for it in (self.path, *self.path.parents) if not it.exists()]
        for each in reversed(missing):
            each.mkdir(_DIRECTORY_MODE, exist_ok=True)
            each.chmod(_DIRECTORY_MODE)
            _sync_directory(each.parent)

    def _take_lock(self) -> None:
        # Not on Windows, whose directories cannot be synced either.
        import fcntl

        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"{self.path}: another process receives WAL into this directory"
            raise BackupError(text, code="locked", path=str(self.path)) from None

    def _sync(self) -> None:
        _sync_directory(self.path)


class OpenSegment:
    """The partial file of a segment.

    Attributes:
        position: How many of its bytes are written.
    """

    def __init__(
        self, directory: WalDirectory, file: int, path: Path, size: int
    ) -> None:
        """Takes the open file. `path` is its name once it is whole."""
        self.position = 0
        self._directory = directory
        self._file = file
        self._path = path
        self._size = size

    @property
    def room(self) -> int:
        """How many bytes are missing."""
        return self._size - self.position

    def write(self, data: memoryview) -> None:
        """Writes what follows. It may be as long as the room."""
        with _named(self._path):
            _write(self._file, data)
        self.position += len(data)

    def sync(self) -> None:
        """Makes everything durable that was written."""
        with _named(self._path):
            os.fsync(self._file)

    def finish(self) -> None:
        """Makes a whole segment durable, and gives it its name."""
        try:
            self.sync()
        finally:
            self.close()
        self._directory.rename_whole(self._path)

    def close(self) -> None:
        """Closes the file. Not whole, it stays partial."""
        os.close(self._file)


def _write(file: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _reserve(file: int, size: int) -> None:
    """Fills a file up with zeros, so that a full disk shows early."""
    if os.fstat(file).st_size >= size:
        return
    try:
        os.posix_fallocate(file, 0, size)
    except AttributeError:
        # macOS does not have it.
        os.ftruncate(file, size)
    except OSError as error:
        if error.errno not in _NOT_RESERVED:
            raise
        os.ftruncate(file, size)


def _sync_directory(path: Path) -> None:
    with _opened(path, os.O_RDONLY | os.O_DIRECTORY) as directory:
        os.fsync(directory)


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE)
    try:
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Names the file in an error of the file system."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        text = f"{path}: {reason}; start again when it is fixed: nothing is lost"
        raise BackupError(
            text, code="store", path=str(path), errno=error.errno
        ) from error


#: The file that is locked.
LOCK = "_lock"
_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700
_CREATE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
#: The errors of file systems that cannot reserve room.
_NOT_RESERVED = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENODEV}
#: A line for each earlier timeline.
_MOST_HISTORY_BYTES = 1 << 20
