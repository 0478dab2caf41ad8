"""Files and directories that outlive a power loss."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = [
    "make_directory",
    "remove_trees",
    "sync_directory",
    "sync_tree",
    "write_file",
]


def make_directory(path: Path) -> None:
    """Makes a directory that only its owner can read, in a directory that exists."""
    path.mkdir(mode=0o700)


def write_file(path: Path, blocks: Iterable[bytes]) -> int:
    """Writes a new file that only its owner can read. Returns its size.

    It is durable after `sync_tree`. Most of a large file is durable before.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    size = 0
    with os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0) as file:
        for block in blocks:
            rest = memoryview(block)
            while rest:
                rest = rest[file.write(rest) :]
            size += len(block)
        if size >= _LARGE_BYTES:
            os.fsync(file.fileno())
    return size


def sync_directory(path: Path) -> None:
    """Syncs the names in a directory."""
    _sync(str(path))


def sync_tree(path: Path) -> None:
    """Syncs all files below a directory, and then all names.

    A file that was written long ago costs little. Several threads at once cost the file
    system fewer commits: for a thousand new files 0.3 seconds instead of 2.
    """
    files, directories = [], []
    for place, _, names in os.walk(path, onerror=_raise):
        directories.append(place)
        paths = [f"{place}/{name}" for name in names]
        files += [each for each in paths if stat.S_ISREG(os.lstat(each).st_mode)]
    executor = ThreadPoolExecutor(_THREADS)
    try:
        for at in range(0, len(files), _WAITING):
            # An error is raised here.
            list(executor.map(_sync, files[at : at + _WAITING]))
    finally:
        executor.shutdown(cancel_futures=True)
    for place in reversed(directories):
        _sync(place)


def remove_trees(paths: Iterable[Path]) -> list[Path]:
    """Removes directories. Returns the directories that are still there."""
    for path in paths:
        with contextlib.suppress(OSError):
            shutil.rmtree(path)
    return [path for path in paths if os.path.lexists(path)]


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # The error does not have the file's name.
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(descriptor)


def _raise(error: OSError) -> None:
    raise error


_THREADS = 16
#: A file that waits takes a kilobyte.
_WAITING = 4096
_LARGE_BYTES = 16 << 20
