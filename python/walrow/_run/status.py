"""The status of a log: its readers and targets, and the status records of its receiver and applier."""

from __future__ import annotations

import datetime as dt
import os
import shlex
from collections.abc import Collection
from pathlib import Path

from walrow._log.items import LogTable, Segment, SourceIdentity
from walrow._log.left import Left, Ruling
from walrow._log.marks import is_unsure
from walrow._log.requests import failures as failures_of_loads
from walrow._log.retention import holds
from walrow._log.status_record import (
    FOLDER,
    Life,
    Part,
    PhaseName,
    StatusRecord,
    TargetFacts,
    read_status,
)
from walrow._log.stopped import read_stopped
from walrow._lsn import Lsn
from walrow._results import Result, result
from walrow._run.facts import requested_in
from walrow._run.records import Recorded, read_targets
from walrow.errors import LogError
from walrow.log import Log


@result
class PartStatus(Result):
    """A receiver or an applier: whether it lives, its record, and why a person must look."""

    life: Life
    record: StatusRecord | None
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


@result
class ReaderStatus(Result):
    """A registered reader.

    Attributes:
        position: Up to where it has everything.
        used: When it was last used.
        bytes: The bytes of segments after its position.
    """

    name: str
    position: Lsn
    used: dt.datetime
    bytes: int


@result
class NeedsLoad(Result):
    """A table that needs a load.

    Attributes:
        reasons: Why it needs one.
        since: The first of them was noticed after this LSN.
        is_requested: Whether a load of it was requested, and the receiver has not taken it yet.
    """

    table: str
    reasons: str
    codes: tuple[str, ...]
    since: Lsn
    is_requested: bool


@result
class MarkStatus(Result):
    """Why a table is or was not whole.

    Attributes:
        since: Where the log ended when the receiver had looked last. It happened later.
        until: The end of the load that made the table whole again. None before.
        accepted: When it was accepted. None if it was not.
    """

    table: str
    code: str
    since: Lsn
    until: Lsn | None
    accepted: dt.datetime | None
    reason: str


@result
class TargetStatus(Result):
    """A target.

    Attributes:
        engine: The engine that wrote it last.
        end: Up to where it has all changes at least. None before the first commit.
        is_current: Whether it has all that the server has committed, as far as the receiver knows.
        has_all: Whether it has all of the log, and its table did not leave.
        in_file: Whether the file still has it.
        has_left: Whether its table left.
        error: Its last error, if it is not over.
        committed: When the running applier has committed to it last.
        since: When it had that error first.
    """

    table: str
    target: str
    engine: str
    mode: str
    end: Lsn | None
    is_current: bool
    has_all: bool
    in_file: bool
    committed: dt.datetime | None = None
    error: str | None = None
    since: dt.datetime | None = None
    has_left: bool = False


@result
class Status(Result):
    """The status of a log.

    Attributes:
        receiver: The receiver, from its status record.
        applier: The applier, from its status record.
        last_commit: The latest commit time in it.
        held: The reader or the load that keeps segments from being removed. None without one.
        marks: Why tables are or were not whole.
        left: The tables that are not published any more.
        reasons: The reasons why you must do something. Empty if all is well.
    """

    location: str
    receiver: PartStatus
    applier: PartStatus
    source: SourceIdentity
    start: Lsn
    end: Lsn
    last_commit: dt.datetime | None
    segments: int
    bytes: int
    readers: tuple[ReaderStatus, ...]
    held: str | None
    needs_load: tuple[NeedsLoad, ...]
    marks: tuple[MarkStatus, ...]
    left: tuple[Left, ...]
    targets: tuple[TargetStatus, ...]
    reasons: tuple[str, ...]


def status_of(path: str | os.PathLike[str], *, allow_stopped: bool = False) -> Status:
    """Looks at a log. It changes nothing.

    Unless `allow_stopped`, a receiver and an applier must run if the log has targets.

    Raises:
        LogError: The directory is not a log, or the log is damaged.
        OSError: It cannot be read.
    """
    try:
        log = Log(path)
    except LogError as error:
        if error.code != "not_a_log" or not (Path(path) / FOLDER).is_dir():
            raise
        # No server was reached yet.
        parts = [part_of(path, it, is_wanted=not allow_stopped) for it in Part]
        reasons = [reason for part in parts for reason in part.reasons]
        text = "; ".join([f"{path} is not a log yet", *reasons])
        raise LogError(text, code="not_a_log") from None
    segments, tables, record = log.segments(), log.tables(), log._record()
    forgotten = {
        oid for oid, it in record.left.items() if it.ruling is Ruling.FORGOTTEN
    }
    recorded = [it for it in read_targets(log.read_object) if it.oid not in forgotten]
    directory = log.path if log._store is None else None
    is_wanted = any(it.in_file for it in recorded) and not allow_stopped
    parts = [part_of(directory, it, is_wanted=is_wanted) for it in Part]
    receiver, applier = parts
    requested: frozenset[str] | None = frozenset()
    given_up: dict[str, str] = {}
    reasons = []
    if directory is not None:
        requested, given_up = requested_in(log), failures_of_loads(log.path)
        if (stopped := read_stopped(log.path)) is not None:
            reasons.append(
                f"the log must not go on: {stopped.reason} (at {stopped.time}). If this was "
                f"the wrong server: walrow log resume {log.location}"
            )
    reasons += [*receiver.reasons, *applier.reasons]
    needs = []
    wanted = {it.oid: it.load for it in recorded if it.in_file}
    for table in tables:
        reasons += [f"{table.name}: {it}" for it in table.undecided(log.location)]
        marks = [it for it in table.marks if it.is_open and it.code.needs_load]
        if not marks or table.left is not None:
            continue
        is_requested = requested is None or table.name in requested
        needs.append(
            NeedsLoad(
                table=table.name,
                reasons=table.needs_load or "",
                codes=tuple(dict.fromkeys(it.code.value for it in marks)),
                since=min(it.since for it in marks),
                is_requested=is_requested,
            )
        )
        # Without targets, the log is for somebody else's readers.
        is_auto = wanted.get(table.oid, "auto") == "auto" and not is_unsure(marks)
        is_tended = applier.life is Life.ALIVE and (is_auto or not recorded)
        is_needed = table.oid in wanted or not recorded
        failed = given_up.get(table.name)
        if failed is not None or (is_needed and not is_requested and not is_tended):
            command = shlex.join(["walrow", "load", log.location, table.name])
            why = "" if failed is None else f"; {failed}. Then"
            reasons.append(
                f"{table.name} needs a load, because {table.needs_load}{why}: {command}"
            )
    published = () if applier.record is None else applier.record.targets
    facts = {(it.oid, it.place): it for it in published}
    known = {(it.oid, it.place) for it in recorded}
    # Targets that have never worked.
    recorded += [
        Recorded(it.oid, it.table, it.place, engine="", mode="")
        for key, it in facts.items()
        if it.problem is not None and key not in known and it.oid not in forgotten
    ]
    named = {it.oid: it for it in tables}
    doubted = {it.table for it in needs} if receiver.is_healthy else None
    targets = tuple(
        _target(it, facts.get((it.oid, it.place)), named.get(it.oid), doubted)
        for it in recorded
    )
    reasons += [
        f"{it.table}: {it.error} (since {it.since.isoformat(timespec='seconds')})"
        for it in targets
        if it.error is not None and it.since is not None
    ]
    times = [it.commit_times[1] for it in segments if it.commit_times]
    return Status(
        location=log.location,
        receiver=receiver,
        applier=applier,
        source=log.source,
        start=log.start,
        end=log.end,
        last_commit=max(times, default=None),
        segments=len(segments),
        bytes=sum(it.bytes for it in segments),
        readers=tuple(_readers(log, segments)),
        held=_held(log, segments),
        needs_load=tuple(needs),
        marks=tuple(
            MarkStatus(
                *(table.name, it.code.value, it.since),
                *(it.until, it.accepted, it.reason),
            )
            for table in tables
            for it in table.marks
        ),
        left=tuple(it.left for it in tables if it.left is not None),
        targets=targets,
        reasons=tuple(reasons),
    )


def _target(
    target: Recorded,
    fact: TargetFacts | None,
    table: LogTable | None,
    doubted: Collection[str] | None,
) -> TargetStatus:
    """The status of a target. Those of the tables in `doubted` are not current. None: no target is."""
    fact = fact or TargetFacts(target.oid, target.table, target.place)
    end = max((it for it in (target.end, fact.end) if it is not None), default=None)
    has_left = table is not None and table.left is not None
    has_all = fact.problem is None and not has_left and end is not None
    if table is not None and end is not None:
        has_all &= end >= table.last
    name = target.table if table is None else table.name
    return TargetStatus(
        table=name,
        target=target.place,
        engine=target.engine,
        mode=target.mode,
        end=end,
        is_current=has_all and doubted is not None and name not in doubted,
        has_all=has_all,
        in_file=target.in_file,
        committed=fact.committed,
        error=fact.problem,
        since=fact.since,
        has_left=has_left,
    )


def _held(log: Log, segments: list[Segment]) -> str | None:
    """The reader or the load that keeps segments from being removed."""
    hold = next(iter(() if log._store is not None else holds(log._log)), None)
    is_last = hold is None or not segments or hold.position >= segments[-1].start
    return None if is_last else str(hold)


def _readers(log: Log, segments: list[Segment]) -> list[ReaderStatus]:
    return [
        ReaderStatus(
            name=it.name,
            position=it.position,
            used=it.used,
            # The parts of a transaction end where they start, except for the last one.
            bytes=sum(
                each.bytes
                for each in segments
                if each.end > it.position
                or (each.continues and each.start >= it.position)
            ),
        )
        for it in log.readers()
    ]


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
    part: Part, life: Life, record: StatusRecord | None, *, is_wanted: bool
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
