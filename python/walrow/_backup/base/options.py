"""The options of a base backup."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Literal, NoReturn

from walrow._options import (
    FLAG,
    FOLDER,
    NUMBER,
    TEXT,
    Kind,
    Option,
    called,
    choice,
    options,
)
from walrow._secrets import brief
from walrow.errors import OptionError

Checksums = Literal["CRC32C", "SHA224", "SHA256", "SHA384", "SHA512"]
Progress = Callable[[int, int | None], None]

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

    conninfo: Option[str, str] = Option(
        "A connection string. The role needs the attribute REPLICATION, and a line of pg_hba.conf "
        "for the database.",
        TEXT,
        default="",
    )
    _: KW_ONLY
    checkpoint: Option[Literal["fast", "spread"], Literal["fast", "spread"]] = Option(
        "`fast` begins at once, and costs the server a burst of writes. `spread` may wait for "
        "minutes.",
        choice(Literal["fast", "spread"]),
        default="spread",
    )
    max_rate: Option[int | None, int | None] = Option(
        "The maximum number of kilobytes per second, at least 32. 0 sets no limit.",
        NUMBER,
        default=None,
        least=0,
        most=1 << 20,
    )
    wal: Option[Literal["fetch", "none"], Literal["fetch", "none"]] = Option(
        "`fetch` takes the WAL that the backup needs at its end. A temporary slot keeps it on the "
        "server until then. `none` leaves it out: then it must come from elsewhere.",
        choice(Literal["fetch", "none"]),
        default="fetch",
        more="A server that has an archive ends such a backup only when the WAL is there.",
    )
    incremental: Option[str | os.PathLike[str] | None, Path | None] = Option(
        "The manifest of an earlier backup, or the directory with it: only blocks that changed since "
        "are sent. From server 17, with summarize_wal = on.",
        FOLDER,
        default=None,
    )
    compress: Option[str | None, str | None] = Option(
        "`gzip` or `gzip:1` to `gzip:9`: the server compresses. From server 15.",
        Kind("str", _compression, metavar="GZIP"),
        default=None,
    )
    manifest_checksums: Option[Checksums, Checksums] = Option(
        "The checksum of each file, which the server computes and walrow checks.",
        choice(Checksums),
        default="CRC32C",
    )
    verify_checksums: Option[bool, bool] = Option(
        "The server checks the checksums of pages.", FLAG, default=True
    )
    progress: Option[Progress | None, Progress | None] = Option(
        "Is called often, with the bytes that have arrived and the server's estimate of all.",
        called("Callable[[int, int | None], None]"),
        default=None,
    )


@options
class BackupOptions(StreamOptions):
    """The options of `walrow.backup.base_backup`."""

    _: KW_ONLY
    to: Option[str | os.PathLike[str], Path] = Option(
        "A directory that is empty, or does not exist yet.",
        # Links stay.
        FOLDER._replace(
            parse=lambda value, name: Path(os.path.abspath(FOLDER.parse(value, name)))  # noqa: PTH100
        ),
    )
    format: Option[Literal["tar", "plain"], Literal["tar", "plain"]] = Option(
        "`tar` writes an archive for each tablespace. `plain` writes a data directory: a server can "
        "start from it.",
        choice(Literal["tar", "plain"]),
        default="tar",
    )
    tablespaces: Option[Mapping[str, str] | None, Mapping[str, str]] = Option(
        "With format plain, a new directory for each tablespace's directory on the server.",
        Kind("Mapping[str, str]", lambda value, _: dict(value or ())),
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
