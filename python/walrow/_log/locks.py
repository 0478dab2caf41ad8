"""Locks of files that another process may hold."""

from __future__ import annotations

import os
from pathlib import Path


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file now. It does not wait, and leaves no lock."""
    import fcntl

    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(file)
    return False
