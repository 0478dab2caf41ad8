"""The status of a log, its receiver, its readers and its targets, also while nothing runs."""

from __future__ import annotations

import datetime as dt
import os
import shlex
from collections.abc import Sequence

from walrow._log.items import Segment, SourceIdentity
from walrow._log.left import Left, Ruling
from walrow._log.locks import is_locked
from walrow._log.marks import Mark, is_unsure
from walrow._log.requests import failures as failures_of_loads
from walrow._log.retention import holds
from walrow._log.stopped import read_stopped
from walrow._lsn import Lsn
from walrow._results import Result, result
from walrow._run.facts import requested_in
from walrow._run.records import (
    FOLDER,
    Failure,
    Recorded,
    RunFolder,
    read_targets,
)
from walrow.log import Log


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
        is_current: Whether the log has nothing more for it, and its table did not leave.
        in_file: Whether the file still has it.
        has_left: Whether its table left.
        error: Its last error, if it is not over.
        since: Since when it has that error.
    """

    table: str
    target: str
    engine: str
    mode: str
    end: Lsn | None
    is_current: bool
    in_file: bool
    error: str | None = None
    since: str | None = None
    has_left: bool = False


@result
class Status(Result):
    """The status of a log.

    Attributes:
        is_receiving: Whether a process writes to the log now.
        is_running: Whether `walrow run` or `walrow apply --config` uses it now.
        last_commit: The latest commit time in it.
        held: The reader or the load that keeps segments from being removed. None without one.
        marks: Why tables are or were not whole.
        left: The tables that are not published any more.
        parts: The last errors of the receiver and of the applier, if they are not over.
        reasons: The reasons why somebody must do something. Empty if all is well.
    """

    location: str
    is_receiving: bool
    is_running: bool
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
    parts: dict[str, str]
    reasons: tuple[str, ...]


def status_of(path: str | os.PathLike[str]) -> Status:
    """Looks at a log. It changes nothing, and waits for nobody.

    Raises:
        LogError: The directory is not a log, or the log is damaged.
        OSError: It cannot be read.
    """
    log = Log(path)
    segments = log.segments()
    tables = log.tables()
    left = log._record().left
    forgotten = {oid for oid, it in left.items() if it.ruling is Ruling.FORGOTTEN}
    recorded = [it for it in read_targets(log.read_object) if it.oid not in forgotten]
    names = {it.oid: it.name for it in tables}
    failures: dict[str, Failure] = {}
    requested: frozenset[str] | None = frozenset()
    given_up: dict[str, str] = {}
    is_receiving = is_running = False
    reasons = []
    if log._store is None:
        failures = RunFolder(log.path).failures()
        requested = requested_in(log)
        given_up = failures_of_loads(log.path)
        is_receiving = is_locked(log.path / "_open")
        is_running = is_locked(log.path / FOLDER / "_lock")
        if (stopped := read_stopped(log.path)) is not None:
            reasons.append(
                f"the log must not go on: {stopped.reason} (at {stopped.time}). If this was "
                f"the wrong server: walrow log resume {log.location}"
            )
    parts = {it.about: it.text for it in failures.values() if it.place is None}
    reasons += [
        f"{part} has ended: {text}"
        for part, text in parts.items()
        if not (part == "receive" and is_receiving)
    ]
    needs = []
    wanted = {it.oid: it.load for it in recorded if it.in_file}

    def needs_hand(oid: int, marks: Sequence[Mark]) -> bool:
        """Whether no process asks for the load of a table that somebody wants."""
        if recorded:
            is_auto = wanted.get(oid) == "auto" and not is_unsure(marks)
            return oid in wanted and not (is_running and is_auto)
        # Without targets, the log is for somebody else's readers.
        return not is_running

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
        failed = given_up.get(table.name)
        if failed is not None or (not is_requested and needs_hand(table.oid, marks)):
            command = shlex.join(["walrow", "load", log.location, table.name])
            why = "" if failed is None else f"; {failed}. Then"
            reasons.append(
                f"{table.name} needs a load, because {table.needs_load}{why}: {command}"
            )
    last = {it.oid: it.last for it in tables}
    by_table = {
        (it.about, it.place): it for it in failures.values() if it.place is not None
    }
    known = {(it.table, it.place) for it in recorded}
    # These have never worked.
    never = [
        Recorded(oid=0, table=table, place=place, engine="", mode="")
        for table, place in sorted(by_table.keys() - known)
    ]
    targets = []
    for each in (*recorded, *never):
        failure = by_table.get((each.table, each.place))
        is_current = (
            failure is None
            and each.oid not in left
            and each.end is not None
            and each.end >= last.get(each.oid, each.end)
        )
        targets.append(
            TargetStatus(
                table=names.get(each.oid, each.table),
                target=each.place,
                engine=each.engine,
                mode=each.mode,
                end=each.end,
                is_current=is_current,
                in_file=each.in_file,
                error=None if failure is None else failure.text,
                since=None if failure is None else failure.since,
                has_left=each.oid in left,
            )
        )
        if failure is not None:
            reasons.append(f"{each.table}: {failure.text} (since {failure.since})")
    return Status(
        location=log.location,
        is_receiving=is_receiving,
        is_running=is_running,
        source=log.source,
        start=log.start,
        end=log.end,
        last_commit=max(
            (it.commit_times[1] for it in segments if it.commit_times), default=None
        ),
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
        targets=tuple(targets),
        parts=parts,
        reasons=tuple(reasons),
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
