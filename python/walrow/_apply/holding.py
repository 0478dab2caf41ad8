"""Registers targets that are applied by hand as readers, so that the log keeps the changes they lack."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time

from walrow._lsn import Lsn
from walrow._secrets import without_credentials
from walrow.errors import LogError
from walrow.log import Log


def reader_of(target: str) -> str:
    """The name of a target's reader.

    >>> reader_of("delta:/lake/orders")
    'apply delta:/lake/orders'
    """
    target = without_credentials(target)
    name = f"apply {target}"
    if len(name.encode()) <= _LONGEST and name.isprintable():
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    tail = "".join(it if it.isprintable() else "_" for it in target)[-_TAIL:]
    return f"apply {digest} {tail}".encode()[:_LONGEST].decode(errors="ignore")


def _is_kept(log: Log, target: str) -> bool:
    """Whether `walrow run` keeps a target current: its own reader holds what the target lacks."""
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        found = json.loads(log.read_object("_targets"))["targets"]
        return any(it["place"] == target and it["in_file"] for it in found)
    return False


def hold(log: Log, target: str, end: Lsn, *, is_new: bool) -> None:
    """Registers a target at a position, except in a copy at a URL and a log that cannot be written.

    Without a commit, not `is_new`, the position is noted once a minute.
    """
    key, now = (log.location, target), time.monotonic()
    is_noted = not is_new and now < _NOTED.get(key, 0.0)
    if log._store is not None or is_noted or _is_kept(log, target):
        return
    name = reader_of(target)
    try:
        _, position, _ = log._log.register(name, None)
        if end > position:
            log._log.advance(name, end, rewind=False)
    except LogError as error:
        if error.code not in ("read_only", "store"):
            raise
    _NOTED[key] = now + _NOTED_SECONDS


#: When the end of a target is noted again although it got no change: by log and target.
_NOTED: dict[tuple[str, str], float] = {}
_NOTED_SECONDS = 60.0
#: Bytes of a reader's name.
_LONGEST = 64
_TAIL = 40
