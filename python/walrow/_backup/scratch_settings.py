"""The configuration of a server that only recovers a backup, without the backup's settings."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from walrow._backup.programs import Control
    from walrow._lsn import Lsn

__all__ = ["PORT", "Recovery", "config_file", "configuration"]

#: A part of the socket's name.
PORT = 5432


class Recovery(NamedTuple):
    """How far a server recovers a backup.

    Attributes:
        target: The LSN. None for the end of the backup.
        timeline: The timeline of the target. None for the backup's own.
        wal: A directory of WAL. None if the backup has it all.
        least: The LSN that it must reach.
        may_wait: Whether it waits for WAL where there is no more, as a standby, and does not end.
    """

    target: Lsn | None
    timeline: int | None
    wal: Path | None
    least: Lsn
    may_wait: bool = False


def configuration(
    control: Control, recovery: Recovery, sockets: Path
) -> dict[str, str]:
    """All settings of a server that only recovers a backup, and answers on one socket."""
    target = (
        {"recovery_target": "immediate"}
        if recovery.target is None
        else {"recovery_target_lsn": str(recovery.target)}
    )
    timeline = "current" if recovery.timeline is None else str(recovery.timeline)
    # A recovery needs one, and one that fails says that there is no more WAL.
    restore = "false" if recovery.wal is None else _copying(recovery.wal)
    return {
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": str(sockets),
        "unix_socket_permissions": "0700",
        "hot_standby": "on",
        "recovery_target_action": "pause",
        "wal_retrieve_retry_interval": "100ms",
        "recovery_target_timeline": timeline,
        **target,
        "restore_command": restore,
        # A standby must not have lower ones than its primary.
        **{name: str(value) for name, value in control.settings.items()},
        # Nobody cancels a question because of a record that is replayed.
        "max_standby_archive_delay": "-1",
        "max_standby_streaming_delay": "-1",
        # If its recovery ends, it connects to no other server, and changes nothing.
        "max_logical_replication_workers": "0",
        "autovacuum": "off",
        "restart_after_crash": "off",
        # The copy is removed anyway.
        "fsync": "off",
        "full_page_writes": "off",
        "lc_messages": "C",
        "log_timezone": "UTC",
        "timezone": "UTC",
        # Its log has no statement, and no row.
        "log_min_messages": "warning",
        "log_min_error_statement": "panic",
        "log_line_prefix": "",
        "huge_pages": "off",
        "jit": "off",
    }


def config_file(settings: Mapping[str, str]) -> str:
    """The contents of a configuration file."""
    return "".join(_line(name, value) for name, value in settings.items())


def _copying(wal: Path) -> str:
    """The restore command. A segment that is not complete yet has another name.

    >>> from pathlib import Path
    >>> _copying(Path("/wal"))
    'cp /wal/%f %p 2>/dev/null || cp /wal/%f.partial %p'
    """
    quoted = shlex.quote(str(wal)).replace("%", "%%")
    return f"cp {quoted}/%f %p 2>/dev/null || cp {quoted}/%f.partial %p"


def _line(name: str, value: str) -> str:
    quoted = value.replace("\\", "\\\\").replace("'", "''")
    return f"{name} = '{quoted}'\n"
