"""The steps before a stream of WAL: which server, which segment, which history."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from walrow._backup.wal.listing import segments_newest_first, where_to_begin
from walrow._backup.wal.segments import (
    PARTIAL,
    Segment,
    history_name,
    parse_first_page,
    parse_segment,
)
from walrow._postgres.commands import (
    create_physical_slot,
    identify_system,
    read_slot,
    timeline_history,
)
from walrow._postgres.physical import PhysicalStream
from walrow._postgres.server_errors import replication_error
from walrow._postgres.show import show_amount
from walrow.errors import BackupError, ReplicationError

if TYPE_CHECKING:
    from walrow._backup.wal.files import WalDirectory
    from walrow._postgres.commands import IdentifySystem
    from walrow._postgres.physical import TimelineEnd


class Begun(NamedTuple):
    """A stream that has begun.

    Attributes:
        stream: The connection.
        system: The server.
        segment_size: The size of its segments in bytes.
        begin: The segment that comes first.
        is_fresh: Whether the directory had no segment.
        history: The history of the timeline, if the directory does not have it.
        end: The next timeline, if this one ends where the segment begins.
    """

    stream: PhysicalStream
    system: IdentifySystem
    segment_size: int
    begin: Segment
    is_fresh: bool
    history: bytes | None
    end: TimelineEnd | None


class Source(NamedTuple):
    """The source of WAL, and its destination.

    Attributes:
        parameters: The connection's parameters.
        slot: The physical slot, or None.
        create_slot: Whether the slot is created if it does not exist.
        directory: The directory.
        wakeup_fd: As for `PhysicalStream.connect`.
    """

    parameters: dict[str, Any]
    slot: str | None
    create_slot: bool
    directory: WalDirectory
    wakeup_fd: int

    def begin(self, known: str | None, first: Segment | None) -> Begun:
        """Connects, compares the server with the directory, and starts the stream.

        Args:
            known: The system identifier of an earlier connection.
            first: The segment to begin with. Default: where the directory continues.

        Raises:
            BackupError: The directory does not fit to the server, or has a gap.
            ReplicationError: The connection failed, or the server refused a command.
        """
        with contextlib.ExitStack() as stack:
            stream = PhysicalStream.connect(**self.parameters, wakeup_fd=self.wakeup_fd)
            stack.callback(stream.close)
            try:
                begun = self._begin(stream, known, first)
            except psycopg.Error as error:
                failed = "the stream cannot be prepared"
                raise replication_error(error, failed, slot=self.slot) from error
            stack.pop_all()
            return begun

    def _begin(
        self, stream: PhysicalStream, known: str | None, first: Segment | None
    ) -> Begun:
        system = identify_system(stream.connection)
        _check_server(system, known, "WAL of it was received before")
        size = show_amount(stream.connection, "wal_segment_size")
        listing = self.directory.listing()
        found = where_to_begin(self.directory.path, listing, size)
        for name in segments_newest_first(listing):
            if self._check_file(name, system, size):
                break
        own = self._slot_position(stream, system)
        begin = first or found or Segment.at(*own, size)
        if begin.timeline > system.timeline:
            path = str(self.directory.path)
            text = (
                f"{path}: it has WAL of timeline {begin.timeline}, and the server is on timeline"
                f" {system.timeline}: another server was promoted; connect to that one, or choose"
                " an empty directory"
            )
            raise BackupError(text, code="other_server", path=path)
        history = self._missing_history(stream, begin.timeline)
        end = stream.start(begin.start(size), timeline=begin.timeline, slot=self.slot)
        return Begun(stream, system, size, begin, found is None, history, end)

    def _slot_position(
        self, stream: PhysicalStream, system: IdentifySystem
    ) -> tuple[int, int]:
        """The first position of an empty directory: the slot's, or else the server's."""
        conn = stream.connection
        if self.slot is not None and self.create_slot:
            try:
                create_physical_slot(conn, self.slot, reserve_wal=True)
            except ReplicationError as error:
                if error.sqlstate != _DUPLICATE_OBJECT:
                    raise
        if self.slot is None or stream.server_version < _READ_SLOT_SINCE:
            return system.timeline, system.xlogpos
        kept = read_slot(conn, self.slot)
        if kept is None or kept.restart_lsn is None:
            return system.timeline, system.xlogpos
        return kept.restart_timeline or system.timeline, kept.restart_lsn

    def _missing_history(self, stream: PhysicalStream, timeline: int) -> bytes | None:
        """The history of a timeline that the directory lacks. A saved one is compared."""
        if timeline == 1:
            return None
        there = self.directory.history(timeline)
        try:
            content = timeline_history(stream.connection, timeline).content
        except ReplicationError as error:
            if there is not None and error.sqlstate == _UNDEFINED_FILE:
                # The server may have removed a history that it does not need any more.
                return None
            raise
        if there not in (None, content):
            path = str(self.directory.path / history_name(timeline))
            text = (
                f"{path}: the server came to timeline {timeline} in another way, so this is"
                " WAL of another server; choose an empty directory"
            )
            raise BackupError(text, code="other_server", path=path)
        return content if there is None else None

    def _check_file(self, name: str, system: IdentifySystem, size: int) -> bool:
        """Compares a segment with the server. False if nothing was written to it yet."""
        page = parse_first_page(self.directory.head(name))
        if page is None and name.endswith(PARTIAL):
            return False
        path = str(self.directory.path / name)
        segment = parse_segment(name.removesuffix(PARTIAL), size)
        if page is None or segment is None or page.address != segment.start(size):
            text = f"{path}: its contents are not those of this segment"
            raise BackupError(text, code="foreign", path=path)
        _check_server(system, page.system_identifier, "the directory has its WAL", path)
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
