"""Small files of Python in a log's directory: written as a whole, for whom the log is."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["write_json"]


def write_json(path: Path, value: Any) -> None:
    """Writes a new file, and makes it durable. Its mode is that of the log's other files.

    Args:
        path: The file, which must have a temporary name: give it its own name afterwards.
        value: What it contains.

    Raises:
        OSError: It cannot be written.
    """
    try:
        # Of the log's writer: the directory may have been there before.
        for_group = (path.parent / "_open").stat().st_mode & stat.S_IRGRP
    except FileNotFoundError:
        for_group = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        # Whatever the umask is.
        os.fchmod(descriptor, 0o640 if for_group else 0o600)
        json.dump(value, file)
        file.flush()
        os.fsync(descriptor)
