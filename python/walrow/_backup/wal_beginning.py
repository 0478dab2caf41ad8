"""The steps before a stream of WAL: which server, which segment, which history."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._backup.wal_listing import Empty, GoOn, Refused, where_to_begin
from walrow._backup.wal_names import PARTIAL, Segment, history_name, parse_segment
from walrow._backup.wal_page import parse_first_page
from walrow._postgres.commands import (
    create_physical_slot,
    identify_system,
    read_slot,
    timeline_history,
)
from walrow._postgres.physical import PhysicalStream
from walrow._postgres.show import show_amount
from walrow.errors import BackupError, ReplicationError

if TYPE_CHECKING:
    from walrow._backup.wal_files import WalDirectory
    from walrow._lsn import Lsn
    from walrow._postgres.commands import IdentifySystem, PhysicalSlot

__all__ = ["Begun", "Source", "begin", "save_history"]


@dataclass(frozen=True)
class Source:
    """The source of WAL.

    Attributes:
        parameters: The connection's parameters.
        slot: The physical slot, or None.
        create_slot: Whether the slot is created if it does not exist.
    """

    parameters: dict[str, Any]
    slot: str | None
    create_slot: bool

    def __repr__(self) -> str:
        """Names the slot, and no parameter: one may be a password."""
        return f"Source(slot={self.slot!r})"


class Begun(NamedTuple):
    """A connection that is ready to stream.

    Attributes:
        stream: The connection.
        system: The server.
        segment_size: The size of its segments in bytes.
        begin: The segment to begin with.
        is_fresh: Whether the directory had no segment.
    """

    stream: PhysicalStream
    system: IdentifySystem
    segment_size: int
    begin: Segment
    is_fresh: bool


def begin(
    source: Source, directory: WalDirectory, known: str | None, wakeup_fd: int
) -> Begun:
    """Connects, compares the server with the directory, and finds where to begin.

    Args:
        source: The source of WAL.
        directory: The directory.
        known: The system identifier of an earlier connection.
        wakeup_fd: As for `PhysicalStream.connect`.

    Raises:
        BackupError: The directory does not fit to the server, or somebody must look at it.
        ReplicationError: The connection failed, or the server refused a command.
    """
    with contextlib.ExitStack() as stack:
        stream = PhysicalStream.connect(**source.parameters, wakeup_fd=wakeup_fd)
        stack.callback(stream.close)
        conn = stream.connection
        system = identify_system(conn)
        _check_server(system, known, "WAL of it was received before")
        size = show_amount(conn, "wal_segment_size")
        decision = where_to_begin(directory.listing(), size)
        if isinstance(decision, Refused):
            path = str(directory.path / decision.file)
            text = f"{path}: {decision.reason}; {_REMEDIES[decision.code]}"
            raise BackupError(text, code=decision.code, path=path)
        if isinstance(decision, GoOn):
            _check_files(decision, directory, system, size)
        kept = _kept_by_slot(source, stream)
        if isinstance(decision, Empty):
            timeline, lsn = first_position(system, kept)
            first = Segment.at(timeline, lsn, size)
        else:
            first = decision.begin
            _check_timeline(system, first.timeline, directory)
        stack.pop_all()
        return Begun(stream, system, size, first, isinstance(decision, Empty))


def first_position(
    system: IdentifySystem, kept: PhysicalSlot | None
) -> tuple[int, Lsn]:
    """The first position of an empty directory: the slot's, or else the server's current one."""
    if kept is None or kept.restart_lsn is None:
        return system.timeline, system.xlogpos
    return kept.restart_timeline or system.timeline, kept.restart_lsn


def save_history(
    stream: PhysicalStream, directory: WalDirectory, timeline: int
) -> None:
    """Makes the history of a timeline durable, or compares it with the saved one.

    Raises:
        BackupError: The directory has a different history: two servers were promoted to the
            same timeline.
        ReplicationError: The server does not have it.
    """
    if timeline == 1:
        return
    there = directory.history(timeline)
    try:
        content = timeline_history(stream.connection, timeline).content
    except ReplicationError as error:
        if there is not None and error.sqlstate == _UNDEFINED_FILE:
            # The server may have removed a history that it needs no more.
            return
        raise
    if there is None:
        directory.save_history(timeline, content)
    elif there != content:
        path = str(directory.path / history_name(timeline))
        text = (
            f"{path}: the server came to timeline {timeline} in another way, so this is"
            " WAL of another server; choose an empty directory"
        )
        raise BackupError(text, code="other_server", path=path)


def _kept_by_slot(source: Source, stream: PhysicalStream) -> PhysicalSlot | None:
    if source.slot is None:
        return None
    conn = stream.connection
    if source.create_slot:
        try:
            create_physical_slot(conn, source.slot, reserve_wal=True)
        except ReplicationError as error:
            if error.sqlstate != _DUPLICATE_OBJECT:
                raise
    if stream.server_version < _READ_SLOT_SINCE:
        return None
    return read_slot(conn, source.slot)


def _check_files(
    decision: GoOn, directory: WalDirectory, system: IdentifySystem, size: int
) -> None:
    """Compares the newest segment that has a header with the server."""
    for name in decision.newest_first:
        page = parse_first_page(directory.head(name))
        if page is None and name.endswith(PARTIAL):
            # Nothing was written to it yet.
            continue
        path = str(directory.path / name)
        segment = parse_segment(name.removesuffix(PARTIAL), size)
        if page is None or segment is None or page.address != segment.start(size):
            text = f"{path}: its contents are not those of this segment"
            raise BackupError(text, code="foreign", path=path)
        _check_server(system, page.system_identifier, "the directory has its WAL", path)
        return


def _check_timeline(
    system: IdentifySystem, timeline: int, directory: WalDirectory
) -> None:
    """Refuses a server that was primary before the one whose WAL is there."""
    if timeline > system.timeline:
        text = (
            f"{directory.path}: it has WAL of timeline {timeline}, and the server is on"
            f" timeline {system.timeline}: another server was promoted; connect to that"
            " one, or choose an empty directory"
        )
        path = str(directory.path)
        raise BackupError(text, code="other_server", path=path)


def _check_server(
    system: IdentifySystem, expected: str | None, why: str, path: str | None = None
) -> None:
    if expected in {None, system.system_identifier}:
        return
    place = "" if path is None else f"{path}: "
    text = (
        f"{place}the server's system identifier is {system.system_identifier} instead of"
        f" {expected}: {why}; connect to that server, or choose an empty directory"
    )
    raise BackupError(text, code="other_server", path=path)


_REMEDIES = {
    "gap": "put it back, or begin again with a new base backup and an empty directory",
    "size": "put back the whole file, or choose an empty directory",
    "compressed": "or choose an empty directory",
    "foreign": "choose an empty directory",
}
_READ_SLOT_SINCE = 15
_DUPLICATE_OBJECT = "42710"
_UNDEFINED_FILE = "58P01"
