"""Whether an incremental backup can follow another backup."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from walrow._backup.base_manifest import Manifest
    from walrow._lsn import Lsn

__all__ = ["check_parent"]


def check_parent(
    path: Path,
    manifest: Manifest,
    *,
    system_identifier: str,
    timeline: int,
    position: Lsn,
    history: Mapping[int, Lsn],
) -> None:
    """Refuses a parent that is not of this server, or not of its past.

    Args:
        path: The parent's manifest.
        manifest: Its content.
        system_identifier: The server's.
        timeline: The server's.
        position: Where the server's WAL ends.
        history: Where the earlier timelines of the server have ended.

    Raises:
        BackupError: It is refused.
    """
    if manifest.system_identifier is None:
        _refuse(path, "it is of a server before 17, which had no incremental backups")
    if manifest.system_identifier != system_identifier:
        _refuse(
            path,
            f"it is of the server {manifest.system_identifier}, and this is {system_identifier}",
        )
    for each in manifest.wal_ranges:
        if each.timeline == timeline:
            end = position
        elif each.timeline in history:
            end = history[each.timeline]
        else:
            _refuse(
                path,
                f"its timeline {each.timeline} is not in the past of the server's timeline"
                f" {timeline}",
            )
        if each.end > end:
            _refuse(
                path,
                f"it ends at {each.end}, but the server's timeline {each.timeline} at {end}",
            )


def _refuse(path: Path, reason: str) -> NoReturn:
    text = f"{path} cannot be the parent: {reason}; take a full backup"
    raise BackupError(text, code="parent", path=str(path))
