"""The receiver and the applier of a log, from their status records, and the reasons to look at them."""

from __future__ import annotations

import datetime as dt
import os
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
    reason = _reason(part, life, record, is_wanted=is_wanted)
    return PartStatus(life, record, () if reason is None else (reason,))


def _reason(  # noqa: PLR0911 -- a line for each state
    part: Part, life: Life, record: Record | None, *, is_wanted: bool
) -> str | None:
    name, hangs = (
        _NAMES[part],
        "its process is stopped or hangs, or its disk stalls or is full",
    )
    missing = f"no {name} runs, and a target is configured" if is_wanted else None
    if record is None:
        if life is Life.STALE:
            return f"the {name} has published nothing: {hangs}"
        return missing if life is Life.NONE else None
    process = f"process {record.process} on {record.host}"
    who, at, text = f"the {name} ({process})", _time(record.time), record.phase.text
    match life, record.phase.name:
        case Life.STALE, _:
            return f"{who} has published nothing since {at}: {hangs}"
        case Life.ENDED, PhaseName.STOPPED if text is None:
            return missing and f"{missing}: the last one was stopped at {at}"
        case Life.ENDED, PhaseName.STOPPED | PhaseName.WAITING_FOR_PERSON:
            return f"{part} has ended: {text} (at {at})"
        case Life.ENDED, _:
            return f"the {name} was killed ({process}, last seen at {at}), or this is a copy of its log"
        case Life.ALIVE, phase if part is Part.RECEIVE:
            if phase is PhaseName.DEGRADED:
                return f"{who} is degraded since {_time(record.since)}: {text}"
            if phase is PhaseName.WAITING_FOR_PERSON:
                return f"{who} waits for you: {text}"
            heard = None if record.receiver is None else record.receiver.heard
            # By the clock of the receiver.
            silent = record.time - (heard or record.started)
            if silent >= _SILENT:
                seconds = f"{silent.total_seconds():.0f} s"
                return f"{who} has had no word from the server for {seconds}"
    return None


def _time(time: dt.datetime) -> str:
    return time.isoformat(timespec="seconds")


_NAMES = {Part.RECEIVE: "receiver", Part.APPLY: "applier"}
#: A receiver asks a silent server after a third of it.
_SILENT = dt.timedelta(seconds=60)
