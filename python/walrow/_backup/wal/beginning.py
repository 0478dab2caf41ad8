"""The steps before a stream of WAL: which server, which segment, which history."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from walrow._backup.wal.files import WalDirectory
from walrow._backup.wal.options import WalOptions
from walrow._backup.wal.segments import (
    PARTIAL,
    Segment,
    history_name,
    parse_first_page,
    parse_segment,
    segments_newest_first,
    where_to_begin,
)
from walrow._postgres.commands import (
    IdentifySystem,
    create_physical_slot,
    identify_system,
    read_slot,
    timeline_history,
)
from walrow._postgres.connecting import closed_after_error, parameters_of
from walrow._postgres.physical import PhysicalStream, TimelineEnd
from walrow._postgres.show import wal_segment_size
from walrow.errors import BackupError, ReplicationError


class Begun(NamedTuple):
    """A stream that has begun, with the first segment that comes.

    `history` is the file of the segment's timeline, or None if the directory has it. `end` is
    set if the timeline ends where the segment begins.
    """

    stream: PhysicalStream
    system: IdentifySystem
    segment_size: int
    begin: Segment
    is_fresh: bool
    history: bytes | None
    end: TimelineEnd | None


#: The first segment of the next timeline, and the connection to the server that has it.
Following = tuple[Segment, PhysicalStream]


def begin(
    options: WalOptions,
    directory: WalDirectory,
    wakeup_fd: int,
    *,
    known: str | None,
    following: Following | None,
) -> Begun:
    """Connects, compares the server with the directory, and starts the stream.

    The server must have the system identifier that is known. Without a timeline that follows,
    the stream starts where the directory continues.
    """
    if following is None:
        parameters = parameters_of(options.conninfo)
        stream = PhysicalStream.connect(**parameters, wakeup_fd=wakeup_fd)
        first = None
    else:
        first, stream = following
    failed = "the stream cannot be prepared"
    with (
        contextlib.ExitStack() as stack,
        closed_after_error(stream.connection, failed),
    ):
        stack.callback(stream.close)
        system = identify_system(stream.connection)
        _check_server(system, known, "WAL of it was received before")
        size = wal_segment_size(stream.connection)
        listing = directory.listing()
        found = where_to_begin(directory.path, listing, size)
        for name in segments_newest_first(listing):
            if _is_of_server(directory, name, system, size):
                break
        kept = _kept_position(stream, options)
        timeline, lsn = kept or (system.timeline, system.xlogpos)
        begin = first or found or Segment(timeline, lsn // size)
        if begin.timeline > system.timeline:
            path = str(directory.path)
            text = (
                f"{path}: it has WAL of timeline {begin.timeline}, and the server is on timeline"
                f" {system.timeline}: another server was promoted; connect to that one, or choose"
                " an empty directory"
            )
            raise BackupError(text, code="other_server", path=path)
        history = _missing_history(stream, directory, begin.timeline)
        end = stream.start(
            begin.start(size), timeline=begin.timeline, slot=options.slot
        )
        stack.pop_all()
        return Begun(stream, system, size, begin, found is None, history, end)


def _kept_position(
    stream: PhysicalStream, options: WalOptions
) -> tuple[int, int] | None:
    """The timeline and the start of the WAL that the slot keeps. None if that is not known."""
    if options.slot is None:
        return None
    if options.create_slot:
        try:
            create_physical_slot(stream.connection, options.slot, reserve_wal=True)
        except ReplicationError as error:
            if error.sqlstate != _DUPLICATE_OBJECT:
                raise
    if stream.server_version < _READ_SLOT_SINCE:
        return None
    kept = read_slot(stream.connection, options.slot)
    if kept is None or kept.restart_lsn is None or kept.restart_timeline is None:
        return None
    return kept.restart_timeline, kept.restart_lsn


def _missing_history(
    stream: PhysicalStream, directory: WalDirectory, timeline: int
) -> bytes | None:
    """The history of a timeline that the directory lacks. A saved one is compared."""
    if timeline == 1:
        return None
    there = directory.history(timeline)
    try:
        content = timeline_history(stream.connection, timeline).content
    except ReplicationError as error:
        if there is not None and error.sqlstate == _UNDEFINED_FILE:
            # The server may have removed a history that it does not need any more.
            return None
        raise
    if there is None:
        return content
    if there != content:
        path = str(directory.path / history_name(timeline))
        text = (
            f"{path}: the server came to timeline {timeline} in another way, so this is"
            " WAL of another server; choose an empty directory"
        )
        raise BackupError(text, code="other_server", path=path)
    return None


def _is_of_server(
    directory: WalDirectory, name: str, system: IdentifySystem, size: int
) -> bool:
    """Compares a segment with the server. False if the segment is still empty."""
    page = parse_first_page(directory.head(name))
    if page is None and name.endswith(PARTIAL):
        return False
    path = str(directory.path / name)
    segment = parse_segment(name.removesuffix(PARTIAL), size)
    if page is None or segment is None or page[1] != segment.start(size):
        text = f"{path}: its contents are not those of this segment"
        raise BackupError(text, code="foreign", path=path)
    _check_server(system, page[0], "the directory has its WAL", path)
    return True


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


_READ_SLOT_SINCE = 15
_DUPLICATE_OBJECT = "42710"
_UNDEFINED_FILE = "58P01"
