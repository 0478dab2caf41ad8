"""Small files of Python in a log's directory: written as a whole, for whom the log is."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["alone", "replace_json", "sync_directory", "write_json"]


def write_json(path: Path, value: Any, *, log: Path | None = None) -> None:
    """Writes a new file, and makes it durable. Its mode is that of the log's other files.

    Args:
        path: The file, which must have a temporary name: give it its own name afterwards.
        value: The contents.
        log: The log's directory, if the file is in a directory below it.

    Raises:
        OSError: It cannot be written.
    """
    try:
        # Of the log's writer: the directory may have been there before.
        for_group = ((log or path.parent) / "_open").stat().st_mode & stat.S_IRGRP
    except FileNotFoundError:
        for_group = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        # Whatever the umask is.
        os.fchmod(descriptor, 0o640 if for_group else 0o600)
        json.dump(value, file)
        file.flush()
        os.fsync(descriptor)


def replace_json(path: Path, value: Any) -> None:
    """Replaces a file, and makes the new one durable.

    A reader finds one of them, whole.

    Args:
        path: The file. Only one process at a time may write it: see `alone`.
        value: The contents.

    Raises:
        OSError: It cannot be written.
    """
    temporary = path.with_name(f".walrow-{path.name}")
    write_json(temporary, value)
    temporary.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable.

    Raises:
        OSError: The disk has failed.
    """
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Waits until no other process is in such a block for the directory.

    The log's writer does not wait: no other process writes its files.

    Raises:
        OSError: The file system has no locks.
    """
    import fcntl

    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
