"""The options of a base backup, and where its files come: decided before it begins."""

from __future__ import annotations

import os
import re
import tarfile
from dataclasses import KW_ONLY
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn

from walrow._options import FLAG, FOLDER, TEXT, Kind, Option, choice, options
from walrow._secrets import brief
from walrow.errors import BackupError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from walrow._backup.base_result import BackupProgress

__all__ = [
    "BackupOptions",
    "Format",
    "Wal",
    "check_places",
    "gzip_level",
    "partial_name",
    "places_of",
]

Format = Literal["tar", "plain"]
Wal = Literal["stream", "fetch", "none"]
WithManifest = Literal["yes", "no", "force-encode"]


_RATE = re.compile("([0-9]{1,9})(k|M)?")
_GZIP = re.compile("gzip(?::([1-9]))?")


def _refuse(reason: str) -> NoReturn:
    raise OptionError(reason)


def _rate(value: object, name: str) -> int:
    """Reads a rate as pg_basebackup does: kilobytes, or with a suffix k or M."""
    found = _RATE.fullmatch(str(value))
    rate = 0 if found is None else int(found[1]) * (1024 if found[2] == "M" else 1)
    # The server's own limits are known only with its command.
    if not 0 < rate < 1 << 31:
        _refuse(
            f"{name} is {brief(value)}: it must be a number of kilobytes per second, from 32 to 1048576, "
            "or such as '32M'"
        )
    return rate


@options
class BackupOptions:
    """The options of `walrow.backup.base_backup`."""

    conninfo: Option[str, str] = Option(
        "A connection string. The role needs the attribute REPLICATION, and a line of pg_hba.conf "
        "for the database.",
        TEXT,
        default="",
    )
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
    label: Option[str, str] = Option(
        "A name for the backup, of one line, in the server's log and in backup_label.",
        TEXT,
        default="walrow",
    )
    checkpoint: Option[Literal["fast", "spread"], Literal["fast", "spread"]] = Option(
        "`fast` begins at once, and costs the server a burst of writes. `spread` may wait for "
        "minutes.",
        choice(Literal["fast", "spread"]),
        default="spread",
    )
    max_rate: Option[int | str | None, int | None] = Option(
        'The most kilobytes per second, 32 to 1048576, or a text such as `"32M"`.',
        Kind("int | str", _rate, metavar="RATE"),
        default=None,
    )
    wal: Option[Wal, Wal] = Option(
        "`stream` receives the WAL over a second connection while the backup runs, so that the "
        "server keeps it no longer. `fetch` takes it at the end. `none` leaves it out: then it must "
        "come from an archive.",
        choice(Wal),
        default="stream",
        more="A server that has an archive ends such a backup only when the WAL is there.",
    )
    incremental: Option[str | os.PathLike[str] | None, Path | None] = Option(
        "The manifest of an earlier backup, or the directory with it: only blocks that changed since "
        "are sent. From server 17, with summarize_wal = on.",
        FOLDER,
        default=None,
    )
    tablespaces: Option[Mapping[str, str] | None, Mapping[str, str]] = Option(
        "With format plain, a new directory for each tablespace's directory on the server.",
        Kind("Mapping[str, str]", lambda value, _: dict(value or ())),
        default=(),
    )
    manifest: Option[WithManifest, WithManifest] = Option(
        "A backup without a manifest cannot be verified. `force-encode` writes all names as "
        "hexadecimal digits.",
        choice(WithManifest),
        default="yes",
    )
    manifest_checksums: Option[str | None, str | None] = Option(
        "`NONE`, `CRC32C`, `SHA224`, `SHA256`, `SHA384` or `SHA512`. Default: `CRC32C`.",
        TEXT,
        default=None,
    )
    verify_checksums: Option[bool, bool] = Option(
        "The server checks the checksums of pages.", FLAG, default=True
    )
    compress: Option[str | None, str | None] = Option(
        "`gzip` or `gzip:1` to `gzip:9`: the server compresses. From server 15.",
        TEXT,
        default=None,
    )
    progress: Option[
        Callable[[BackupProgress], None] | None, Callable[[BackupProgress], None] | None
    ] = Option(
        "Is called often, with how far it is.",
        Kind("Callable[[BackupProgress], None]"),
        default=None,
    )

    def __post_init__(self) -> None:
        """Refuses options that contradict each other, without a look at anything."""
        if self.format == "plain" and not hasattr(tarfile, "data_filter"):
            _refuse(
                "this Python has no filter 'data' in tarfile, without which nothing is unpacked: use"
                " Python 3.11.4 or later, or format tar"
            )
        if self.format == "tar" and self.tablespaces:
            _refuse(
                "tablespaces are mapped in format plain only: a tar has their own places"
            )
        if self.manifest == "no" and self.manifest_checksums is not None:
            _refuse("manifest_checksums needs a manifest")
        if not self.label.isascii() and self.label != _printed(self.label):
            _refuse("label is not UTF-8")
        if "\n" in self.label:
            # A server writes it into backup_label as it is, where it would be another entry.
            _refuse("label is one line")
        gzip_level(self.compress)
        _check_mapping(self.to, self.tablespaces)


class Place(NamedTuple):
    """Where a tablespace comes in format plain.

    Attributes:
        oid: Its OID.
        location: Its directory on the server.
        path: Its directory here.
    """

    oid: int
    location: str
    path: Path


def gzip_level(compress: str | None) -> str | None:
    """The level of `gzip:level`. None without one.

    Raises:
        OptionError: It is something else.
    """
    if compress is None:
        return None
    found = _GZIP.fullmatch(compress)
    if found is None:
        _refuse("compress is gzip, or gzip:1 to gzip:9")
    return found[1]


def _printed(text: str) -> str:
    """The text without what UTF-8 lacks, such as bytes of a command line in another encoding."""
    return text.encode("utf-8", "ignore").decode()


def _check_mapping(to: Path, tablespaces: Mapping[str, str]) -> None:
    places = [to]
    for old, new in tablespaces.items():
        if not (Path(old).is_absolute() and Path(new).is_absolute()):
            _refuse(f"the paths of tablespace {old}={new} must be absolute")
        path = Path(os.path.normpath(new))
        for other in places:
            if path.is_relative_to(other) or other.is_relative_to(path):
                _refuse(f"{path} and {other} must not be inside each other")
        places.append(path)


def places_of(
    locations: Mapping[int, str], tablespaces: Mapping[str, str]
) -> list[Place]:
    """Where the tablespaces of a server come in format plain.

    Args:
        locations: Their directories on the server, by OID.
        tablespaces: The directories here, by the directory on the server.

    Raises:
        OptionError: A tablespace has no directory here, or there is no such tablespace.
    """
    inside = sorted(it for it in locations.values() if not Path(it).is_absolute())
    if inside:
        _refuse(
            f"the tablespaces {', '.join(inside)} are inside the data directory, as"
            " allow_in_place_tablespaces makes them: take the backup in format tar"
        )
    mapped = {os.path.normpath(old): new for old, new in tablespaces.items()}
    lacking = [it for it in locations.values() if os.path.normpath(it) not in mapped]
    if lacking:
        named = " ".join(f"--tablespace {it}=NEW" for it in lacking)
        _refuse(
            f"the server has tablespaces, and in format plain each needs a directory: {named}"
            " (tablespaces={old: new} in Python)"
        )
    unknown = mapped.keys() - {os.path.normpath(it) for it in locations.values()}
    if unknown:
        _refuse(f"the server has no tablespace at {', '.join(sorted(unknown))}")
    return [
        Place(oid, location, Path(os.path.normpath(mapped[os.path.normpath(location)])))
        for oid, location in locations.items()
    ]


def check_places(paths: Iterable[Path]) -> None:
    """Refuses directories that are not empty, or that another backup writes.

    Raises:
        OptionError: One is not empty, is no directory, or cannot be replaced.
        BackupError: An earlier backup has left its files.
    """
    for path in paths:
        if os.path.ismount(path):
            _refuse(
                f"{path} is a mount point, which cannot be replaced: name one below it"
            )
        if path.is_symlink():
            _refuse(f"{path} is a link: name the directory that it leads to")
        try:
            if any(path.iterdir()):
                _refuse(
                    f"{path} is not empty: a backup needs a new or an empty directory"
                )
        except FileNotFoundError:
            pass
        except NotADirectoryError:
            _refuse(f"{path} is not a directory")
        if os.path.lexists(partial_name(path)):
            text = (
                f"{partial_name(path)} is of a backup that has not ended: if none is running, remove it"
                " and start again"
            )
            raise BackupError(text, code="store", path=str(partial_name(path)))


def partial_name(path: Path) -> Path:
    """The name of a directory until the backup is done.

    >>> print(partial_name(Path("backups/monday")))
    backups/monday.partial
    """
    return path.with_name(f"{path.name}.partial")
