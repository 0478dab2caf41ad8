"""Takes a base backup of a server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from walrow._backup.base_contents import MANIFEST
from walrow._backup.base_manifest import parse_manifest
from walrow._backup.base_options import (
    BackupOptions,
    check_places,
    gzip_level,
    places_of,
)
from walrow._backup.base_parent import check_parent
from walrow._backup.base_result import BackupProgress
from walrow._backup.base_stream import BackupStream
from walrow._backup.base_streaming import StreamedWal, beside
from walrow._backup.base_taking import Taking, fail
from walrow._backup.base_target import PlainTarget, TarTarget
from walrow._core import base_backup_command, upload_manifest_command
from walrow._options import takes
from walrow._postgres.commands import identify_system, timeline_history
from walrow._postgres.connecting import connect, parameters_of
from walrow._postgres.running import major_version, run
from walrow._postgres.show import show
from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psycopg

    from walrow._backup.base_options import Place
    from walrow._backup.base_result import BaseBackup
    from walrow._backup.base_target import Target
    from walrow._backup.base_wal import ReceivesWal
    from walrow._postgres.commands import IdentifySystem

__all__ = ["base_backup", "take"]


@takes(BackupOptions)
def base_backup(options: BackupOptions) -> BaseBackup:
    """Takes a base backup of a server, and checks that it is complete.

    Until it is done, its directory is called `DIR.partial`. Then it has all files of its
    manifest, with their checksums, and all WAL that it needs, and is on disk.

    ```python
    done = walrow.backup.base_backup("dbname=shop", to="backups/monday")
    print(done.start_lsn, done.end_lsn)
    ```

    Args:
        options: As in the signature.

    Raises:
        ReplicationError: The server refused it, or the connection broke.
        BackupError: It is not complete, or cannot be written.
        OptionError: Options contradict each other, or a directory is not empty.
    """
    return take(options)


def take(options: BackupOptions, receiver: ReceivesWal | None = None) -> BaseBackup:
    """Takes a base backup.

    Args:
        options: The options.
        receiver: Receives WAL meanwhile. Default: a streaming one, if the options say so.
    """
    check_places([options.to])
    parameters = parameters_of(options.conninfo)
    tell = options.progress or (lambda _: None)
    tell(BackupProgress("starting"))
    conn = connect(parameters)
    try:
        return _take(conn, parameters, options, tell, receiver)
    finally:
        conn.close()


def _take(
    conn: psycopg.Connection[Any],
    parameters: dict[str, Any],
    options: BackupOptions,
    tell: Callable[[BackupProgress], None],
    receiver: ReceivesWal | None,
) -> BaseBackup:
    major = major_version(conn)
    command = _command(major, options)
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


def _command(major: int, options: BackupOptions) -> str:
    return base_backup_command(
        major,
        label=options.label,
        progress=options.progress is not None,
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
    if path.is_dir():
        path /= MANIFEST
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
