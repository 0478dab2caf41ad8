"""Takes a base backup of a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from walrow._backup.base_contents import MANIFEST
from walrow._backup.base_manifest import parse_manifest
from walrow._backup.base_options import (
    BackupOptions,
    check_options,
    check_places,
    directory_of,
    gzip_level,
    places_of,
)
from walrow._backup.base_parent import check_parent
from walrow._backup.base_result import BackupProgress
from walrow._backup.base_stream import BackupStream
from walrow._backup.base_streaming import StreamedWal, beside
from walrow._backup.base_taking import Taking, fail
from walrow._backup.base_target import PlainTarget, TarTarget
from walrow._calls import explained
from walrow._core import base_backup_command, upload_manifest_command
from walrow._postgres.commands import identify_system, timeline_history
from walrow._postgres.connecting import connect, parameters_of
from walrow._postgres.running import major_version, run
from walrow._postgres.show import show
from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psycopg

    from walrow._backup.base_options import Place
    from walrow._backup.base_result import BaseBackup
    from walrow._backup.base_target import Target
    from walrow._backup.base_wal import ReceivesWal
    from walrow._postgres.commands import IdentifySystem

__all__ = ["base_backup", "take"]


@explained
def base_backup(
    conninfo: str = "",
    *,
    to: str | os.PathLike[str],
    format: Literal["tar", "plain"] = "tar",  # noqa: A002
    label: str = "walrow",
    checkpoint: Literal["fast", "spread"] = "spread",
    max_rate: int | None = None,
    wal: Literal["stream", "fetch", "none"] = "stream",
    incremental: str | os.PathLike[str] | None = None,
    tablespaces: Mapping[str, str] | None = None,
    manifest: Literal["yes", "no", "force-encode"] = "yes",
    manifest_checksums: str | None = None,
    verify_checksums: bool = True,
    compress: str | None = None,
    progress: Callable[[BackupProgress], None] | None = None,
) -> BaseBackup:
    """Takes a base backup of a server, and checks that it is complete.

    Until it is done, its directory is called `DIR.partial`. Then it has all files of its
    manifest, with their checksums, and all WAL that it needs, and is on disk.

    ```python
    done = walrow.backup.base_backup("dbname=shop", to="backups/monday")
    print(done.start_lsn, done.end_lsn)
    ```

    Args:
        conninfo: A connection string. The role needs the attribute REPLICATION, and a line
            of pg_hba.conf for the database.
        to: A directory that is empty, or does not exist yet.
        format: `tar` writes an archive for each tablespace. `plain` writes a data
            directory: a server can start from it.
        label: A name for the backup, of one line, in the server's log and in backup_label.
        checkpoint: `fast` begins at once, and costs the server a burst of writes. `spread`
            may wait for minutes.
        max_rate: The most kilobytes per second: 32 to 1048576.
        wal: `stream` receives the WAL over a second connection while the backup runs, so that
            the server keeps it no longer. `fetch` takes it at the end. `none` leaves it out:
            then it must come from an archive, and a server that has one ends the backup only
            when the WAL is there.
        incremental: The manifest of an earlier backup, or the directory with it: only
            blocks that changed since are sent. From server 17, with `summarize_wal = on`.
        tablespaces: With format plain, a new directory for each tablespace's directory on
            the server.
        manifest: Whether there is a manifest. `force-encode` writes all names as
            hexadecimal digits.
        manifest_checksums: `NONE`, `CRC32C` (the server's default), `SHA224`, `SHA256`,
            `SHA384` or `SHA512`.
        verify_checksums: Whether the server checks the checksums of pages.
        compress: `gzip` or `gzip:1` to `gzip:9`: the server compresses. From server 15.
        progress: Is called often, with how far it is.

    Raises:
        ReplicationError: The server refused it, or the connection broke.
        BackupError: It is not complete, or cannot be written.
        OptionError: Options contradict each other, or a directory is not empty.
    """
    options = BackupOptions(
        to=directory_of(to),
        format=format,
        label=label,
        checkpoint=checkpoint,
        max_rate=max_rate,
        wal=wal,
        incremental=_manifest_at(incremental),
        tablespaces=dict(tablespaces or {}),
        manifest=manifest,
        manifest_checksums=manifest_checksums,
        verify_checksums=verify_checksums,
        compress=compress,
    )
    check_options(options)
    return take(conninfo, options, progress)


def take(
    conninfo: str,
    options: BackupOptions,
    progress: Callable[[BackupProgress], None] | None,
    receiver: ReceivesWal | None = None,
) -> BaseBackup:
    """Takes a base backup with options that are checked.

    Args:
        conninfo: As in `base_backup`.
        options: The options.
        progress: As in `base_backup`.
        receiver: Receives WAL meanwhile. Default: a streaming one, if the options say so.
    """
    check_places([options.to])
    parameters = parameters_of(conninfo)
    tell = progress or (lambda _: None)
    tell(BackupProgress("starting"))
    conn = connect(parameters)
    try:
        return _take(
            conn,
            parameters,
            options,
            tell,
            with_sizes=progress is not None,
            receiver=receiver,
        )
    finally:
        conn.close()


def _manifest_at(path: str | os.PathLike[str] | None) -> Path | None:
    if path is None:
        return None
    found = Path(path)
    return found / MANIFEST if found.is_dir() else found


def _take(
    conn: psycopg.Connection[Any],
    parameters: dict[str, Any],
    options: BackupOptions,
    tell: Callable[[BackupProgress], None],
    *,
    with_sizes: bool,
    receiver: ReceivesWal | None,
) -> BaseBackup:
    major = major_version(conn)
    command = _command(major, options, with_sizes=with_sizes)
    locations = _locations(conn)
    places: list[Place] = []
    if options.format == "plain":
        places = places_of(locations, options.tablespaces)
        check_places(each.path for each in places)
    system = identify_system(conn)
    parent = _parent(conn, options.incremental, system)
    if receiver is None and options.wal == "stream":
        receiver = StreamedWal(
            beside(conn, parameters),
            system.system_identifier,
            as_archive=options.format == "tar",
        )
    taking = Taking(options, places, tell, receiver)
    with taking.only_if_done():
        taking.reserve_wal()
        with BackupStream(conn, major, taking.check_wal) as stream:
            if parent is not None:
                stream.upload(upload_manifest_command(major), parent)
            target: Target
            if options.format == "tar":
                target = TarTarget(taking.directory, adds_end=major < _ENDS_SINCE)
            else:
                target = PlainTarget(taking.directory, places)
            events = stream.events(command, manifest=options.manifest != "no")
            taking.receive(events, target)
        return taking.finish(system)


def _command(major: int, options: BackupOptions, *, with_sizes: bool) -> str:
    return base_backup_command(
        major,
        label=options.label,
        progress=with_sizes,
        checkpoint=options.checkpoint,
        wal=options.wal == "fetch",
        # A backup without WAL needs the archive's. A server without an archive does not wait.
        wait=options.wal == "none",
        max_rate=options.max_rate,
        tablespace_map=True,
        verify_checksums=options.verify_checksums,
        manifest=options.manifest,
        manifest_checksums=options.manifest_checksums or "CRC32C",
        compression="gzip" if options.compress else None,
        compression_detail=gzip_level(options.compress),
        target=None,
        target_detail=None,
        incremental=options.incremental is not None,
    )


def _locations(conn: psycopg.Connection[Any]) -> dict[int, str]:
    result = run(conn, _LOCATIONS, "cannot list the tablespaces")
    found = {}
    for row in range(result.ntuples):
        oid, location = result.get_value(row, 0), result.get_value(row, 1)
        if oid is not None and location is not None:
            found[int(oid)] = os.fsdecode(location)
    return found


def _parent(
    conn: psycopg.Connection[Any], path: Path | None, system: IdentifySystem
) -> bytes | None:
    """The manifest of the parent, after everything that can be checked before."""
    if path is None:
        return None
    try:
        text = path.read_bytes()
    except OSError as error:
        fail(path, error)
    manifest = parse_manifest(text)
    if show(conn, "summarize_wal") != "on":
        reason = (
            "an incremental backup needs summarize_wal = on, since before its parent: ALTER SYSTEM"
            " SET summarize_wal = on, SELECT pg_reload_conf(), and take a full backup"
        )
        raise BackupError(reason, code="parent", path=str(path))
    switches = timeline_history(conn, system.timeline).switches
    check_parent(
        path,
        manifest,
        system_identifier=system.system_identifier,
        timeline=system.timeline,
        position=system.xlogpos,
        history={it.timeline: it.lsn for it in switches},
    )
    return text


#: From this version on, the server writes the end of an archive.
_ENDS_SINCE = 15
_LOCATIONS = """
SELECT oid, pg_catalog.pg_tablespace_location(oid)
FROM pg_catalog.pg_tablespace
WHERE spcname NOT IN ('pg_default', 'pg_global')
"""
