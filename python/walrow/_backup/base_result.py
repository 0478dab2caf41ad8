"""The reports of a base backup: its progress and its result."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from walrow._lsn import Lsn

__all__ = ["BackedUpTablespace", "BackupProgress", "BaseBackup"]


@dataclass(frozen=True, slots=True)
class BackedUpTablespace:
    """A tablespace in a base backup.

    Attributes:
        oid: Its OID.
        location: Its directory on the server.
        path: Its archive, or its directory here.
    """

    oid: int
    location: str
    path: Path


@dataclass(frozen=True, slots=True)
class BaseBackup:
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

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON has it: paths and LSNs are texts."""
        found: dict[str, Any] = _plain(asdict(self))
        return found | {"start_lsn": str(self.start_lsn), "end_lsn": str(self.end_lsn)}


@dataclass(frozen=True, slots=True)
class BackupProgress:
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


def _plain(value: Any) -> Any:
    """A value of JSON."""
    if isinstance(value, dict):
        return {key: _plain(it) for key, it in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(it) for it in value]
    return str(value) if isinstance(value, Path) else value
