"""Files and directories that outlive a power loss."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = [
    "make_directory",
    "remove_trees",
    "sync_directories",
    "sync_directory",
    "write_file",
]


def make_directory(path: Path) -> None:
    """Makes a directory that only its owner can read, in a directory that exists."""
    path.mkdir(mode=0o700)


def write_file(path: Path, blocks: Iterable[bytes]) -> int:
    """Writes a new file that only its owner can read, and syncs it. Returns its size."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    size = 0
    with os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0) as file:
        for block in blocks:
            rest = memoryview(block)
            while rest:
                rest = rest[file.write(rest) :]
            size += len(block)
        os.fsync(file.fileno())
    return size


def sync_directory(path: Path) -> None:
    """Syncs the names in a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directories(path: Path) -> None:
    """Syncs the names in a directory, and in all below it."""
    for place, directories, _ in os.walk(path, topdown=False, onerror=_raise):
        del directories
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_trees(paths: Iterable[Path]) -> list[Path]:
    """Removes directories. Returns those of which something is left."""
    for path in paths:
        with contextlib.suppress(OSError):
            shutil.rmtree(path)
    return [path for path in paths if os.path.lexists(path)]


def _raise(error: OSError) -> None:
    raise error
