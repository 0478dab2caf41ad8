"""The reports of a base backup: its progress and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from walrow._results import Result, result

if TYPE_CHECKING:
    from pathlib import Path

    from walrow._lsn import Lsn

__all__ = ["BackedUpTablespace", "BackupProgress", "BaseBackup"]


@result
class BackedUpTablespace(Result):
    """A tablespace in a base backup.

    Attributes:
        oid: Its OID.
        location: Its directory on the server.
        path: Its archive, or its directory here.
    """

    oid: int
    location: str
    path: Path


@result
class BaseBackup(Result):
    """A base backup that is done: the result of `base_backup`.

    Attributes:
        path: Its directory.
        format: `tar` or `plain`.
        system_identifier: The server's.
        start_lsn: The LSN where recovery begins.
        start_timeline: The timeline of that.
        end_lsn: From here on, the backup is consistent.
        end_timeline: The timeline of that.
        files: The number of files.
        bytes: Their size.
        tablespaces: The tablespaces.
        manifest: The manifest. None without one.
        verified: Whether each file was read again, and is as in the manifest.
        wal: `complete` if all WAL from the start to the end is in the backup. `missing` if
            it was left out: the backup cannot be recovered without it.
        parent: The manifest of the backup that an incremental one needs.
    """

    path: Path
    format: Literal["tar", "plain"]
    system_identifier: str
    start_lsn: Lsn
    start_timeline: int
    end_lsn: Lsn
    end_timeline: int
    files: int
    bytes: int
    tablespaces: tuple[BackedUpTablespace, ...]
    manifest: Path | None
    verified: bool
    wal: Literal["complete", "missing"]
    parent: Path | None


@result
class BackupProgress(Result):
    """How far a base backup is.

    Attributes:
        step: `starting` until the server's checkpoint is done, then `receiving`, then
            `verifying`.
        bytes_done: The bytes of this step.
        bytes_total: How many there may be. None if that is not known.
    """

    step: Literal["starting", "receiving", "verifying"]
    bytes_done: int = 0
    bytes_total: int | None = None
