"""A base backup as one stream, which is checked as it arrives.

Before server 15, each archive is a separate COPY. From 15 on, one COPY has everything,
and each of its messages begins with its kind.
"""

from __future__ import annotations

import contextlib
import secrets
import tarfile
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

import psycopg
from psycopg import errors, pq

from walrow import _core
from walrow._backup.base.archive import Archive, Contents, refuse
from walrow._backup.base.manifest import MANIFEST, ManifestReader, check_wal
from walrow._backup.base.options import StreamOptions
from walrow._backup.store import named
from walrow._lsn import Lsn
from walrow._options import takes
from walrow._postgres.commands import create_physical_slot, identify_system
from walrow._postgres.connecting import connect, parameters_of
from walrow._postgres.hints import Command
from walrow._postgres.running import major_version, row_of
from walrow._postgres.server_errors import replication_error
from walrow._postgres.session import encoding_of
from walrow._postgres.show import wal_segment_size
from walrow._waiting import READ, WRITE, Waiter
from walrow.errors import (
    BackupError,
    ConnectionLostError,
    OptionError,
    ReplicationError,
)


class Tablespace(NamedTuple):
    """A tablespace of a backup. The one without OID and location is the data directory."""

    oid: int | None
    location: bytes | None
    size_kb: int | None


@takes(StreamOptions)
def stream_base_backup(options: StreamOptions) -> BackupStream:
    """Begins a base backup, and returns it as a stream: for a pipe, or for your own files.

    It waits for the server's checkpoint. Everything is checked as it arrives, and the last
    call raises an error if the backup is not complete, or not what its manifest says.

    ```python
    with walrow.backup.stream_base_backup("dbname=shop") as backup:
        for block in backup.tar():
            sys.stdout.buffer.write(block)
    ```

    Args:
        options: As in the signature.

    Raises:
        ReplicationError: The server refused it, or the connection broke.
        OptionError: The server's version lacks an option.
    """
    conn = connect(parameters_of(options.conninfo))
    return BackupStream(conn, options, with_links=False)


class BackupStream:
    """A base backup that the server sends. A context manager, which ends it on both sides.

    Take its archives, then its manifest, or both as one archive with `tar`.

    Attributes:
        system_identifier: The server's.
        start_lsn: The LSN where recovery begins.
        start_timeline: The timeline of that.
        end_lsn: From here on, the backup is consistent. None until everything has arrived.
        end_timeline: The timeline of that.
        tablespaces: The tablespaces. The one without OID is the data directory.
        contents: The files that have arrived.
        notices: The notices and warnings of the server so far, for example about a page whose
            checksum is wrong.
    """

    def __init__(
        self,
        conn: psycopg.Connection[Any],
        options: StreamOptions,
        *,
        with_links: bool,
    ) -> None:
        """Begins it, with links of tablespaces, or a file `tablespace_map` instead."""
        self.end_lsn: Lsn | None = None
        self.end_timeline: int | None = None
        self.notices: list[str] = []
        conn.add_notice_handler(self._take_notice)
        self._conn = conn
        self._pgconn = conn.pgconn
        self._options = options
        #: The command that runs.
        self._command = ""
        self._waiter = Waiter()
        self._next: tuple[Any, ...] | None = None
        self._counts_itself = True
        self._done = 0
        try:
            self._major = major_version(conn)
            command = self._written(with_links=with_links)
            self.system_identifier = identify_system(conn).system_identifier
            self._segment_bytes = wal_segment_size(conn)
            if options.wal == "fetch":
                self._reserve_wal()
            if options.incremental is not None:
                self._upload(_manifest_of(options.incremental))
            self._start(command, with_links=with_links)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the backup, and the connection. A second call does nothing."""
        self._waiter.close()
        if self._conn.closed:
            return
        if self.end_lsn is None:
            # Closing alone would be noticed by the server only when it sends.
            with contextlib.suppress(psycopg.Error):
                self._conn.cancel_safe(timeout=_CANCEL_SECONDS)
        self._conn.close()

    def archives(self) -> Iterator[Archive]:
        """The archives that have not been taken yet, as they arrive.

        Raises:
            ReplicationError: The server reports an error, or the connection broke.
            BackupError: The server sends something else than a backup.
        """
        return self._archives

    def manifest(self) -> Iterator[bytes]:
        """The manifest, after all archives. Each file is compared with it.

        At its end, the backup is complete, and has the WAL that it needs.

        Raises:
            ReplicationError: The server reports an error, or the connection broke.
            BackupError: The backup is not what the manifest says, or lacks WAL.
        """
        return self._manifest

    def tar(self) -> Iterator[bytes]:
        """The backup as one archive, with the manifest as its last file.

        Only a complete backup has the end of an archive.

        Raises:
            OptionError: There are tablespaces, or the server compresses.
            ReplicationError: The server reports an error, or the connection broke.
            BackupError: See `archives` and `manifest`.
        """
        if len(self.tablespaces) > 1:
            text = "one tar cannot have tablespaces: take the backup into a directory"
            raise OptionError(text)
        if self._options.compress is not None:
            text = "compress needs a directory: leave it out, and compress the tar"
            raise OptionError(text)
        for archive in self.archives():
            for member in archive.members():
                yield member.header
                yield from member.blocks()
                yield member.padding
        with tempfile.SpooledTemporaryFile(_BLOCK_BYTES) as spool:
            for block in self.manifest():
                spool.write(block)
            size = spool.tell()
            yield _header(MANIFEST, size)
            spool.seek(0)
            while block := spool.read(_BLOCK_BYTES):
                yield block
        yield bytes(-size % tarfile.BLOCKSIZE + 2 * tarfile.BLOCKSIZE)

    def _take_notice(self, found: psycopg.errors.Diagnostic) -> None:
        parts = found.message_primary, found.message_detail, found.message_hint
        self.notices.append(f"{found.severity}: {'; '.join(filter(None, parts))}")

    def _written(self, *, with_links: bool) -> str:
        """The command of a server of this version."""
        options = self._options
        return _core.base_backup_command(
            self._major,
            label="walrow",
            progress=options.progress is not None,
            checkpoint=options.checkpoint,
            wal=options.wal == "fetch",
            # A backup without WAL needs the archive's. A server without an archive does not wait.
            wait=options.wal == "none",
            max_rate=options.max_rate,
            tablespace_map=not with_links,
            verify_checksums=options.verify_checksums,
            manifest="yes",
            manifest_checksums=options.manifest_checksums,
            compression="gzip" if options.compress else None,
            compression_detail=(options.compress or "").partition(":")[2] or None,
            target=None,
            target_detail=None,
            incremental=options.incremental is not None,
        )

    def _reserve_wal(self) -> None:
        """Makes the server keep WAL until the end: the slot ends with the connection."""
        name = f"walrow_base_{secrets.token_hex(8)}"
        try:
            create_physical_slot(self._conn, name, temporary=True, reserve_wal=True)
        except ReplicationError as error:
            error.add_note("wal='none', or --wal none, needs no slot")
            raise

    def _upload(self, blocks: Iterable[bytes]) -> None:
        """Sends the manifest of the backup that this one is incremental to."""
        with self._broken():
            self._send(_core.upload_manifest_command(self._major))
            self._expect(pq.ExecStatus.COPY_IN)
            for block in blocks:
                while not self._pgconn.put_copy_data(block):
                    self._wait(READ | WRITE)
                self._flush()
            while not self._pgconn.put_copy_end():
                self._wait(READ | WRITE)
            self._flush()
            self._until_end()

    def _start(self, command: str, *, with_links: bool) -> None:
        """Begins the backup: it waits for the checkpoint."""
        with self._broken():
            self._send(command)
            self.start_lsn, self.start_timeline = self._position()
            result = self._expect(pq.ExecStatus.TUPLES_OK)
        columns = range(result.nfields)
        rows = (
            [result.get_value(at, it) for it in columns] for at in range(result.ntuples)
        )
        self.tablespaces = tuple(
            Tablespace(*_core.parse_tablespace(row)) for row in rows
        )
        sizes = [it.size_kb for it in self.tablespaces if it.size_kb is not None]
        self._total = sum(sizes) * 1024 if sizes else None
        names = [it.oid for it in self.tablespaces]
        suffix = ".tar.gz" if self._options.compress else ".tar"
        #: The names of archives that have not come yet.
        self._expected = {f"{'base' if it is None else it}{suffix}" for it in names}
        links = {f"pg_tblspc/{it}" for it in names if it is not None and with_links}
        self.contents = Contents(self._options.manifest_checksums, links)
        self._events = self._read_events()
        self._archives, self._manifest = self._read_archives(), self._read_manifest()
        self._advance(0)

    def _read_events(self) -> Iterator[tuple[Any, ...]]:
        """The messages of all versions as those of 15: their kinds, and their parts. Then the end."""
        if self._major < _ONE_COPY_SINCE:
            for each in self.tablespaces:
                yield "n", "base.tar" if each.oid is None else f"{each.oid}.tar"
                yield from (("d", it) for it in self._copy())
            yield ("m",)
            yield from (("d", it) for it in self._copy())
        else:
            for payload in self._copy():
                event = _core.parse_backup_data(payload)
                if event[0] == "n":
                    # It is compared with the names that were announced.
                    event = ("n", event[1].decode("ascii", "backslashreplace"))
                yield event
        # An error in the middle is raised here, before an archive seems to be cut.
        position = self._position()
        self._until_end()
        yield "end", *position

    def _take(self) -> tuple[Any, ...] | None:
        """The next event other than progress. None at the end."""
        event, self._next = self._next, None
        while event is None or event[0] == "p":
            if event is not None:
                self._counts_itself = False
                self._advance(event[1])
            with self._broken():
                event = next(self._events, None)
            if event is None:
                return None
        if event[0] == "d" and self._counts_itself:
            self._advance(self._done + len(event[1]))
        return event

    def _data(self) -> Iterator[bytes]:
        """The data until another part begins."""
        while (event := self._take()) is not None and event[0] == "d":
            yield event[1]
        self._next = event

    def _read_archives(self) -> Iterator[Archive]:
        while (event := self._take()) is not None and event[0] == "n":
            name = event[1]
            if name not in self._expected:
                refuse(f"an archive with the name {name!r}, which it did not announce")
            self._expected.remove(name)
            archive = Archive(name, self._data(), self.contents)
            yield archive
            for member in archive.members():
                for _ in member.blocks():
                    pass
            if any(self._data()):
                refuse(f"archive {name}, which has data after its end")
        self._next = event

    def _read_manifest(self) -> Iterator[bytes]:
        for _ in self.archives():
            pass
        if self._expected:
            refuse(f"no archive {min(self._expected)}")
        if (self._take() or ())[:1] != ("m",):
            refuse("no manifest after the archives")
        reader = ManifestReader()
        blocks: deque[bytes] = deque()
        for file in reader.files(_kept(self._data(), blocks)):
            self.contents.compare(file)
            while blocks:
                yield blocks.popleft()
        yield from blocks
        kind, *position = self._take() or ("nothing",)
        if kind != "end":
            refuse("more after the manifest")
        end_lsn, end_timeline = position
        self.contents.end()
        ranges = reader.ranges
        first, last = min(ranges), max(ranges)
        start = self.start_timeline, self.start_lsn
        if (first[:2], last.timeline, last.end) != (start, end_timeline, end_lsn):
            text = "the manifest is about other WAL than the backup; take another one"
            raise BackupError(text, code="manifest")
        if reader.system_identifier not in (None, self.system_identifier):
            text = "the manifest is of another server; take another backup"
            raise BackupError(text, code="manifest")
        if self._options.wal == "fetch":
            check_wal(self.contents.wal(), ranges, self._segment_bytes)
        self.end_lsn, self.end_timeline = end_lsn, end_timeline

    def _advance(self, done: int) -> None:
        self._done = done
        if self._options.progress is not None:
            self._options.progress(done, self._total)

    def _copy(self) -> Iterator[bytes]:
        """The messages of one COPY."""
        self._expect(pq.ExecStatus.COPY_OUT)
        while True:
            size, payload = self._pgconn.get_copy_data(1)
            if size > 0:
                # A view of memory of libpq's in some builds of psycopg.
                yield bytes(payload)
            elif size < 0:
                return
            else:
                self._wait(READ)

    def _position(self) -> tuple[Lsn, int]:
        row = row_of(self._expect(pq.ExecStatus.TUPLES_OK))
        lsn, timeline = _core.parse_backup_position(row)
        return Lsn(lsn), timeline

    def _until_end(self) -> None:
        ends = {pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK}
        while (result := self._result()) is not None:
            if result.status not in ends:
                self._unexpected(result)

    def _expect(self, status: pq.ExecStatus) -> Any:
        """The next result, which has this status."""
        result = self._result()
        if result is None or result.status != status:
            self._unexpected(result)
        return result

    def _unexpected(self, result: Any) -> NoReturn:
        status = "nothing" if result is None else f"a result of status {result.status}"
        text = (
            f"the server answered {self._command} with {status}: it may be a proxy that"
            " does not know it"
        )
        raise BackupError(text, code="protocol")

    def _result(self) -> Any:
        while self._pgconn.is_busy():
            self._wait(READ)
        result = self._pgconn.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            sqlstate = result.error_field(pq.DiagnosticField.SQLSTATE)
            if self._pgconn.status == pq.ConnStatus.BAD and not sqlstate:
                raise ConnectionLostError(_LOST)
            refusal = errors.error_from_result(result, encoding_of(self._conn))
            raise self._refused(refusal) from refusal
        return result

    def _refused(self, refusal: psycopg.Error) -> ReplicationError:
        return replication_error(refusal, f"{self._command} failed", Command.BACKUP)

    def _send(self, command: str) -> None:
        self._command = command.partition(" ")[0]
        self._pgconn.send_query(command.encode(encoding_of(self._conn)))
        self._pgconn.nonblocking = 1
        self._flush()

    def _flush(self) -> None:
        while self._pgconn.flush():
            self._wait(READ | WRITE)

    def _wait(self, events: int) -> None:
        """Waits for the socket. A signal ends it."""
        self._waiter.watch(self._pgconn.socket, events)
        self._waiter.wait(time.monotonic() + _POLL_SECONDS)
        self._pgconn.consume_input()

    @contextlib.contextmanager
    def _broken(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise ConnectionLostError(_LOST) from error


def _kept(blocks: Iterator[bytes], into: deque[bytes]) -> Iterator[bytes]:
    """Keeps the blocks that are taken."""
    for block in blocks:
        into.append(block)
        yield block


def _manifest_of(parent: Path) -> Iterator[bytes]:
    """The manifest of a backup: the file itself, or the one in a directory."""
    path = parent / MANIFEST if parent.is_dir() else parent
    remedy = "name a backup with its manifest"
    with named(path, remedy), path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _header(name: str, size: int) -> bytes:
    """The header of a file in an archive."""
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size, 0o600, int(time.time())
    # As in PostgreSQL's archives: the user who unpacks it may be root, but not the server.
    member.uname = member.gname = "postgres"
    return member.tobuf(tarfile.USTAR_FORMAT)


_LOST = "the connection broke in the middle of the base backup; start it again"
_ONE_COPY_SINCE = 15
_BLOCK_BYTES = 1 << 20
_POLL_SECONDS = 0.5
#: With the time to remove files, Ctrl-C ends within a second.
_CANCEL_SECONDS = 0.5
