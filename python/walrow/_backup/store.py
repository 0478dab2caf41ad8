"""Files of backups: for their owner only, durable, and named in errors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from walrow.errors import BackupError

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700


@contextlib.contextmanager
def named(
    path: Path, remedy: str = "start again when it is fixed: nothing is lost"
) -> Iterator[None]:
    """Names the file in an error of the file system, with a remedy."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        text = f"{error.filename or path}: {reason}; {remedy}"
        raise BackupError(
            text, code="store", path=str(path), errno=error.errno
        ) from error


def write(file: int, data: bytes | memoryview) -> None:
    """Writes all of it."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def write_file(path: Path, blocks: Iterable[bytes]) -> None:
    """Writes a new file. It is durable after `sync`, and mostly before if it is large."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    file = os.open(path, flags, FILE_MODE)
    try:
        for block in blocks:
            write(file, block)
        if os.fstat(file).st_size >= _LARGE_BYTES:
            os.fsync(file)
    finally:
        os.close(file)


def sync(path: str | os.PathLike[str]) -> None:
    """Makes a file durable, or the names in a directory."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        # It does not have the file's name.
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(file)


_LARGE_BYTES = 16 << 20
