"""A base backup in its directories, which have other names until it is done."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from walrow._backup.base_contents import MANIFEST, contents
from walrow._backup.base_disk import (
    make_directory,
    remove_trees,
    sync_directory,
    sync_tree,
)
from walrow._backup.base_manifest import Manifest, WalRange, parse_manifest
from walrow._backup.base_options import BackupOptions, partial_name, places_of
from walrow._backup.base_result import BackedUpTablespace, BackupProgress, BaseBackup
from walrow._backup.base_stream import (
    BytesDone,
    Data,
    Ended,
    NewArchive,
    NewManifest,
    Started,
)
from walrow._backup.base_verify import check_contents, refuse_problems
from walrow._backup.base_wal import wal_problems
from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from walrow._backup.base_options import Place
    from walrow._backup.base_stream import Event
    from walrow._backup.base_target import Target
    from walrow._backup.base_wal import ReceivesWal
    from walrow._postgres.commands import IdentifySystem

__all__ = ["Taking", "fail"]


class Taking:
    """A backup in its directories, which have other names until it is done."""

    def __init__(
        self,
        options: BackupOptions,
        places: Sequence[Place],
        tell: Callable[[BackupProgress], None],
        receiver: ReceivesWal | None = None,
    ) -> None:
        self._receiver = receiver
        self.directory = partial_name(options.to)
        self._options = options
        self._places = places
        self._tell = tell
        self._started: Started | None = None
        self._ended: Ended | None = None
        self._next: Event | None = None
        self._total: int | None = None
        self._done = 0
        self._made: list[Path] = []

    @contextlib.contextmanager
    def only_if_done(self) -> Iterator[None]:
        """Makes the directories, and removes them after any error."""
        try:
            for path in (
                self.directory,
                *(partial_name(it.path) for it in self._places),
            ):
                make_directory(path)
                self._made.append(path)
            yield
        except BaseException as error:
            try:
                if self._receiver is not None:
                    self._receiver.abandon()
            finally:
                left = remove_trees(self._made)
            if left:
                names = ", ".join(map(str, left))
                error.add_note(f"remove what is left of the backup: {names}")
            if isinstance(error, OSError) and error.errno is not None:
                fail(self._options.to, error)
            raise

    def reserve_wal(self) -> None:
        """Makes the server keep WAL, if it is received meanwhile. Call it before the backup."""
        if self._receiver is not None:
            self._receiver.reserve()

    def check_wal(self) -> None:
        """Raises the error that has ended the receiver of WAL."""
        if self._receiver is not None:
            self._receiver.check()

    def receive(self, events: Iterator[Event], target: Target) -> None:
        """Writes everything that comes."""
        while (event := self._take(events)) is not None:
            match event:
                case Started():
                    self._start(event)
                case NewArchive(name):
                    self._give(events, partial(target.archive, name))
                case NewManifest():
                    self._give(events, target.manifest)
                case Ended(lsn, timeline):
                    self._ended = event
                    if self._receiver is not None:
                        self._receiver.finish(lsn, timeline)
                case BytesDone(size):
                    self._advance(size)
                case Data():
                    text = "the server sent data before the name of its archive"
                    raise BackupError(text, code="protocol")
        target.end()

    def _take(self, events: Iterator[Event]) -> Event | None:
        event, self._next = self._next, None
        return next(events, None) if event is None else event

    def _give(
        self, events: Iterator[Event], take: Callable[[Iterator[bytes]], None]
    ) -> None:
        blocks = self._blocks(events)
        take(blocks)
        # After the end of a tar archive, there is more.
        for _ in blocks:
            pass

    def _blocks(self, events: Iterator[Event]) -> Iterator[bytes]:
        """The data until another part begins."""
        counts = False
        for event in events:
            if isinstance(event, Data):
                if not counts:
                    self._advance(self._done + len(event.bytes))
                yield event.bytes
            elif isinstance(event, BytesDone):
                counts = True
                self._advance(event.size)
            else:
                self._next = event
                return

    def _advance(self, done: int) -> None:
        self._done = done
        self._tell(BackupProgress("receiving", done, self._total))

    def _start(self, event: Started) -> None:
        self._started = event
        sizes = [it.size_kb for it in event.tablespaces if it.size_kb is not None]
        self._total = sum(sizes) * 1024 if sizes else None
        if self._options.format == "plain":
            # One may have been created since the look at the catalog.
            found = {
                each.oid: os.fsdecode(each.location or b"")
                for each in event.tablespaces
                if each.oid is not None
            }
            places_of(found, self._options.tablespaces)
        if self._receiver is not None:
            wal = self.directory / "pg_wal"
            make_directory(wal)
            self._receiver.begin(event.lsn, event.timeline, wal)
        self._advance(0)

    def finish(self, system: IdentifySystem) -> BaseBackup:
        """Checks the backup, and gives the directories their names."""
        options, started, ended = self._options, self._started, self._ended
        if started is None or ended is None:
            text = "the server ended the backup without its positions"
            raise BackupError(text, code="protocol")
        manifest = None
        if options.manifest != "no":
            manifest = parse_manifest((self.directory / MANIFEST).read_bytes())
        checked = check_contents(
            contents(
                self.directory,
                {str(it.oid): partial_name(it.path) for it in self._places},
            ),
            manifest,
            progress=self._verified(0),
        )
        missing = []
        if options.wal != "none":
            ranges = _ranges(manifest, started, ended)
            missing = wal_problems(checked.segments, ranges, system.system_identifier)
        refuse_problems(options.to, checked.problems, missing)
        self._name()
        return BaseBackup(
            path=options.to,
            format=options.format,
            system_identifier=system.system_identifier,
            start_lsn=started.lsn,
            start_timeline=started.timeline,
            end_lsn=ended.lsn,
            end_timeline=ended.timeline,
            files=checked.files,
            bytes=checked.bytes,
            tablespaces=self._tablespaces(started),
            manifest=options.to / MANIFEST if manifest else None,
            verified=manifest is not None,
            wal="missing" if options.wal == "none" else "complete",
            parent=options.incremental,
        )

    def _verified(self, done: int) -> Callable[[int], None]:
        def advance(count: int) -> None:
            nonlocal done
            done += count
            self._tell(BackupProgress("verifying", done, self._total))

        return advance

    def _tablespaces(self, started: Started) -> tuple[BackedUpTablespace, ...]:
        places = {each.oid: each.path for each in self._places}
        suffix = ".tar.gz" if self._options.compress else ".tar"
        return tuple(
            BackedUpTablespace(
                each.oid,
                os.fsdecode(each.location or b""),
                places.get(each.oid, self._options.to / f"{each.oid}{suffix}"),
            )
            for each in started.tablespaces
            if each.oid is not None
        )

    def _name(self) -> None:
        """Makes everything durable, the tablespaces first: their names alone are no backup."""
        for path in self._made:
            sync_tree(path)
        for path in [each.path for each in self._places] + [self._options.to]:
            temporary = partial_name(path)
            # An empty directory is replaced.
            temporary.rename(path)
            self._made[self._made.index(temporary)] = path
            sync_directory(path.parent)


def _ranges(
    manifest: Manifest | None, started: Started, ended: Ended
) -> Sequence[WalRange]:
    """The WAL that must be there: as the server's positions say, and the manifest."""
    own = WalRange(started.timeline, started.lsn, ended.lsn)
    if manifest is None:
        # Its position is on another timeline if that has changed meanwhile.
        return [own, WalRange(ended.timeline, ended.lsn, ended.lsn)]
    ranges = manifest.wal_ranges
    if (
        not ranges
        or min(it.start for it in ranges) != started.lsn
        or max(it.end for it in ranges) != ended.lsn
    ):
        text = "the manifest is about other WAL than the backup"
        raise BackupError(text, code="manifest")
    return ranges


def fail(path: Path, error: OSError) -> NoReturn:
    text = (
        f"{error.filename or path}: {error.strerror}; make room or mend it, and start the"
        " backup again"
    )
    failure = BackupError(text, code="store", path=str(path), errno=error.errno)
    for note in getattr(error, "__notes__", ()):
        failure.add_note(note)
    raise failure from error
