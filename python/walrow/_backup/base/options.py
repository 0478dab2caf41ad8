"""The options of a base backup."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Literal, NoReturn

from walrow._options import FOLDER, Kind, Option, Value, options
from walrow._secrets import brief
from walrow.errors import OptionError

_GZIP = re.compile("gzip(?::[1-9])?")


def refuse(reason: str) -> NoReturn:
    """Refuses options."""
    raise OptionError(reason)


def _compression(value: object, name: str) -> object:
    if not isinstance(value, str) or not _GZIP.fullmatch(value):
        refuse(f"{name} is {brief(value)}: it must be gzip, or gzip:1 to gzip:9")
    return value


@options
class StreamOptions:
    """The options of `walrow.backup.stream_base_backup`."""

    conninfo: Value[str] = Option(
        "A connection string. The role needs the attribute REPLICATION, and a line of pg_hba.conf "
        "for the database.",
        default="",
    )
    _: KW_ONLY
    checkpoint: Value[Literal["fast", "spread"]] = Option(
        "`fast` begins at once, and costs the server a burst of writes. `spread` may wait for "
        "minutes.",
        default="spread",
    )
    max_rate: Value[int | None] = Option(
        "The maximum number of kilobytes per second, at least 32. 0 sets no limit.",
        default=None,
        least=0,
        most=1 << 20,
    )
    wal: Value[Literal["fetch", "none"]] = Option(
        "`fetch` takes the WAL that the backup needs at its end. A temporary slot keeps it on the "
        "server until then. `none` leaves it out: then it must come from elsewhere.",
        default="fetch",
        more="A server that has an archive ends such a backup only when the WAL is there.",
    )
    incremental: Option[str | os.PathLike[str] | None, Path | None] = Option(
        "The manifest of an earlier backup, or the directory with it: only blocks that changed since "
        "are sent. From server 17, with summarize_wal = on.",
        default=None,
    )
    compress: Value[str | None] = Option(
        "`gzip` or `gzip:1` to `gzip:9`: the server compresses. From server 15.",
        Kind("compression", _compression, metavar="GZIP"),
        default=None,
    )
    manifest_checksums: Value[
        Literal["CRC32C", "SHA224", "SHA256", "SHA384", "SHA512"]
    ] = Option(
        "The checksum of each file, which the server computes and walrow checks.",
        default="CRC32C",
    )
    verify_checksums: Value[bool] = Option(
        "The server checks the checksums of pages.", default=True
    )
    progress: Value[Callable[[int, int | None], None] | None] = Option(
        "Is called often, with the bytes that have arrived and the server's estimate of all.",
        default=None,
    )


@options
class BackupOptions(StreamOptions):
    """The options of `walrow.backup.base_backup`."""

    _: KW_ONLY
    to: Option[str | os.PathLike[str], Path] = Option(
        "A directory that is empty, or does not exist yet.",
        # Links stay.
        Kind(
            FOLDER.name,
            lambda value, name: Path(os.path.abspath(FOLDER.parse(value, name))),  # noqa: PTH100
        ),
    )
    format: Value[Literal["tar", "plain"]] = Option(
        "`tar` writes an archive for each tablespace. `plain` writes a data directory: a server can "
        "start from it.",
        default="tar",
    )
    tablespaces: Option[Mapping[str, str] | None, Mapping[str, str]] = Option(
        "With format plain, a new directory for each tablespace's directory on the server.",
        Kind("moves", lambda value, _: dict(value or ())),
        default=(),
    )

    def __post_init__(self) -> None:
        """Refuses options that contradict each other, before anything is read or written."""
        if self.format == "tar" and self.tablespaces:
            refuse(
                "tablespaces are mapped in format plain only: a tar has their own places"
            )
        places = [self.to]
        for old, new in self.tablespaces.items():
            if not (Path(old).is_absolute() and Path(new).is_absolute()):
                refuse(f"the paths of tablespace {old}={new} must be absolute")
            path = Path(os.path.normpath(new))
            for other in places:
                if path.is_relative_to(other) or other.is_relative_to(path):
                    refuse(f"{path} and {other} must not be inside each other")
            places.append(path)
