"""Why a log must not go on, until somebody says that it may: its server is not the same any more."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import NamedTuple

from walrow._core import LogObjects
from walrow.errors import Error, LogError, ReplicationError


class Stopped(NamedTuple):
    """Why a receiver must not continue a log: the difference that one found, and when, in UTC."""

    reason: str
    time: str


def read_stopped(log: str | os.PathLike[str]) -> Stopped | None:
    """Why a log must not go on. None if it may."""
    try:
        found = json.loads(LogObjects(log).read(_STOPPED)[0])
        return Stopped(str(found["reason"]), str(found["time"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (Error, OSError, ValueError, KeyError, TypeError, RecursionError):
        # It must not go on either.
        return Stopped("the record of the reason cannot be read", "an unknown time")


def stop(log: str | os.PathLike[str], reason: str) -> None:
    """Records that a log must not go on. The first reason stays."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    record = json.dumps(Stopped(reason, now)._asdict())
    LogObjects(log).create(_STOPPED, record.encode())


def resume(log: str | os.PathLike[str]) -> Stopped | None:
    """Lets a log go on. The next connection is checked again. Returns why it must not."""
    found = read_stopped(log)
    try:
        LogObjects(log).remove(_STOPPED)
    except OSError as error:
        text = f"the record of the reason cannot be removed: {error.strerror}"
        raise LogError(text, code="store", errno=error.errno, file=_STOPPED) from error
    return found


def refuse_stopped(log: str | os.PathLike[str], slot: str) -> None:
    """Refuses a log that must not go on."""
    found = read_stopped(log)
    if found is None:
        return
    text = (
        f"the log must not go on, as a receiver found at {found.time}: {found.reason}. "
        f"{way_out(log)}"
    )
    raise ReplicationError(text, slot=slot)


def way_out(log: str | os.PathLike[str]) -> str:
    """Advice for a log whose server has changed."""
    return (
        "Begin with a new slot, a new log, and a new copy of the tables. Or, if this was the "
        f"wrong server: walrow log resume {Path(log)}, and connect to the right one"
    )


_STOPPED = "_stopped"
