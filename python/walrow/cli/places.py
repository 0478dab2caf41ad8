"""Times as places in a log. The command line prints both."""

from __future__ import annotations

import datetime as dt
from typing import TypeVar

from walrow._core import LogDirectory
from walrow._lsn import Lsn
from walrow.cli.source import note
from walrow.typing import At

T = TypeVar("T")


def resolved(log: LogDirectory, option: str, at: T, said: Lsn | None = None) -> T | Lsn:
    """The LSN in a log for a time, and both are printed to stderr. Others are as they are.

    Args:
        log: The log.
        option: The option, as the command line has it.
        at: Its value.
        said: The LSN that was printed for it before, and is not printed again.
    """
    if not isinstance(at, dt.datetime):
        return at
    found = log.lsn_of(at, option)
    if found != said:
        say_time(option, at, f", in the log {found}")
    return found


def say_time(option: str, at: At | None, place: str = "") -> None:
    """Prints the time of an option, if it is one, and the place that a source has for it."""
    if isinstance(at, dt.datetime):
        utc = at.astimezone(dt.UTC).replace(tzinfo=None)
        note(f"walrow: {option} is {utc.isoformat(timespec='milliseconds')}Z{place}")
