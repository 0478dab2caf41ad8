"""The receiver and the applier of a log, from their status records, and the reasons to look at them."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from pathlib import Path

from walrow._log.status_record import (
    Life,
    Part,
    PhaseName,
    Record,
    read_status,
)
from walrow._results import Result, result


@result
class PartStatus(Result):
    """A receiver or an applier: whether it lives, its record, and why a person must look."""

    life: Life
    record: Record | None
    reasons: tuple[str, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether it lives, and its log has what its server has, but for tables that are copied."""
        return (
            self.life is Life.ALIVE
            and self.record is not None
            and self.record.phase.name in (PhaseName.STREAMING, PhaseName.SNAPSHOTTING)
            and not self.reasons
        )


def part_of(
    log: str | os.PathLike[str] | None, part: Part, *, is_wanted: bool
) -> PartStatus:
    """Reads a record. If the part `is_wanted`, it must run. Without a directory, the log is in an object store."""
    if log is None:
        return PartStatus(Life.UNKNOWN, None, ())
    life, record = read_status(Path(log), part)
    found = _reasons(part, life, record, is_wanted=is_wanted)
    return PartStatus(life, record, tuple(found))


def _reasons(
    part: Part, life: Life, record: Record | None, *, is_wanted: bool
) -> Iterator[str]:
    name, who = _NAMES[part], f"the {_NAMES[part]}"
    if record is not None:
        who = f"{who} (process {record.process} on {record.host})"
    match life:
        case Life.STALE:
            since = "" if record is None else f" since {_time(record.time)}"
            yield (
                f"{who} has published nothing{since}: its process is stopped or hangs, or its disk "
                "stalls or is full"
            )
        case Life.NONE if is_wanted:
            yield f"no {name} runs, and a target is configured"
        case Life.ENDED if record is not None:
            yield from _of_ended(part, record, is_wanted=is_wanted)
        case Life.ALIVE if record is not None and part is Part.RECEIVE:
            yield from _of_receiver(who, record)
        case _:
            pass


def _of_ended(part: Part, record: Record, *, is_wanted: bool) -> Iterator[str]:
    name, at = _NAMES[part], _time(record.time)
    match record.phase.name, record.error:
        case PhaseName.STOPPED, None:
            if is_wanted:
                yield f"no {name} runs, and a target is configured: the last one was stopped at {at}"
        case _, str(text):
            yield f"{part} has ended: {text} (at {at})"
        case _:
            yield (
                f"the {name} was killed (process {record.process} on {record.host}, last seen at "
                f"{at}), or this is a copy of its log"
            )


def _of_receiver(who: str, record: Record) -> Iterator[str]:
    match record.phase.name:
        case PhaseName.DEGRADED:
            yield f"{who} is degraded since {_time(record.since)}: {record.phase.text}"
            return
        case PhaseName.WAITING_FOR_PERSON:
            yield f"{who} waits for you: {record.phase.text}"
            return
        case _:
            pass
    heard = None if record.receiver is None else record.receiver.heard
    # By the clock of the receiver.
    silent = record.time - (heard or record.started)
    if silent >= _SILENT:
        yield f"{who} has had no word from the server for {silent.total_seconds():.0f} s"


def _time(time: dt.datetime) -> str:
    return time.isoformat(timespec="seconds")


_NAMES = {Part.RECEIVE: "receiver", Part.APPLY: "applier"}
#: A receiver asks a silent server after a third of it.
_SILENT = dt.timedelta(seconds=60)
