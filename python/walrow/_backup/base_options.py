"""The options of a base backup, and where its files come: decided before it begins."""

from __future__ import annotations

import os
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from walrow.errors import BackupError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "BackupOptions",
    "Format",
    "Wal",
    "check_options",
    "check_places",
    "gzip_level",
    "partial_name",
    "places_of",
]

Format = Literal["tar", "plain"]
Wal = Literal["stream", "fetch", "none"]
WithManifest = Literal["yes", "no", "force-encode"]


@dataclass(frozen=True, slots=True)
class BackupOptions:
    """The backup to take, as `walrow.backup.base_backup` describes it."""

    to: Path
    format: Format
    label: str
    checkpoint: Literal["fast", "spread"]
    max_rate: int | None
    wal: Wal
    incremental: Path | None
    tablespaces: Mapping[str, str]
    manifest: WithManifest
    manifest_checksums: str | None
    verify_checksums: bool
    compress: str | None


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


def check_options(options: BackupOptions) -> None:
    """Refuses options that contradict each other, without a look at anything.

    Raises:
        OptionError: They do.
    """
    for name, value, words in (
        ("format", options.format, ("tar", "plain")),
        ("checkpoint", options.checkpoint, ("fast", "spread")),
        ("wal", options.wal, ("stream", "fetch", "none")),
        ("manifest", options.manifest, ("yes", "no", "force-encode")),
    ):
        if value not in words:
            _refuse(f"{name} is one of {', '.join(words)}, not {value!r}")
    if options.format == "plain" and not hasattr(tarfile, "data_filter"):
        _refuse(
            "this Python has no filter 'data' in tarfile, without which nothing is unpacked: use"
            " Python 3.11.4 or later, or format tar"
        )
    if options.format == "tar" and options.tablespaces:
        _refuse(
            "tablespaces are mapped in format plain only: a tar has their own places"
        )
    if options.manifest == "no" and options.manifest_checksums is not None:
        _refuse("manifest_checksums needs a manifest")
    if options.max_rate is not None and not 0 < options.max_rate < 1 << 31:
        # The server's own limits are known only with its command.
        _refuse("max_rate is a number of kilobytes per second, from 32 to 1048576")
    if not options.label.isascii() and options.label != _printed(options.label):
        _refuse("label is not UTF-8")
    if "\n" in options.label:
        # A server writes it into backup_label as it is, where it would be another entry.
        _refuse("label is one line")
    gzip_level(options.compress)
    _check_mapping(options.to, options.tablespaces)


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


def directory_of(to: Any) -> Path:
    """The directory of a backup.

    Raises:
        TypeError: It is no path.
        OptionError: It is empty.
    """
    if not isinstance(to, str | os.PathLike):
        text = f"to must be the path of a directory, not {type(to).__name__}"
        raise TypeError(text)
    if not os.fsdecode(to):
        _refuse("to is empty: name a directory")
    return Path(os.path.abspath(os.fsdecode(to)))  # noqa: PTH100 - links stay


def _refuse(reason: str) -> NoReturn:
    raise OptionError(reason)


_GZIP = re.compile("gzip(?::([1-9]))?")
