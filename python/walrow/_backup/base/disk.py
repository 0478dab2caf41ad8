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


def make_directory(path: Path) -> None:
    """Makes a directory that only its owner can read, in a directory that exists."""
    path.mkdir(mode=0o700)


def write_file(path: Path, blocks: Iterable[bytes]) -> None:
    """Writes a new file that only its owner can read.

    It is durable after `sync_tree`. Most of a large file is durable before.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0) as file:
        for block in blocks:
            rest = memoryview(block)
            while rest:
                rest = rest[file.write(rest) :]
        if file.tell() >= _LARGE_BYTES:
            os.fsync(file.fileno())


def sync_tree(path: Path) -> None:
    """Syncs all files below a directory, and then all names.

    A file that was written long ago costs little. Several threads at once cost the file
    system fewer commits: for a thousand new files 0.3 seconds instead of 2.
    """
    with ThreadPoolExecutor(_THREADS) as executor:
        for place, _, names in os.walk(path, topdown=False, onerror=_raise):
            # An error of a thread is raised here.
            for _ in executor.map(sync, [f"{place}/{name}" for name in names]):
                pass
            sync(place)


def sync(path: str) -> None:
    """Syncs a file, or the names in a directory. Links and others have nothing to sync."""
    if not (stat.S_ISREG(mode := os.lstat(path).st_mode) or stat.S_ISDIR(mode)):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # The error does not have the file's name.
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(descriptor)


def remove_trees(paths: Iterable[Path]) -> list[Path]:
    """Removes directories. Returns the directories that are still there."""
    for path in paths:
        with contextlib.suppress(OSError):
            shutil.rmtree(path)
    return [path for path in paths if os.path.lexists(path)]


def _raise(error: OSError) -> None:
    raise error


_THREADS = 16
_LARGE_BYTES = 16 << 20
