"""The files of a base backup on disk: of a directory, or inside tar archives."""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import tarfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import IO

__all__ = [
    "MANIFEST",
    "Found",
    "Odd",
    "contents",
    "is_archive",
    "is_tar",
    "member_path",
    "path_below",
]

#: The name of the manifest's file.
MANIFEST = "backup_manifest"


class Found(NamedTuple):
    """A file that was found.

    Attributes:
        path: Its path below the data directory.
        size: Its size in bytes.
        blocks: Reads it. It must be called before the next file is asked for.
    """

    path: str
    size: int
    blocks: Callable[[], Iterator[bytes]]


class Odd(NamedTuple):
    """Something that a backup does not have.

    Attributes:
        path: Where it is.
        what: The problem, as in `is a link to a directory`.
    """

    path: str
    what: str


def is_archive(name: str) -> bool:
    """Whether a server names an archive of a backup so.

    >>> is_archive("base.tar"), is_archive("16385.tar.gz"), is_archive("../base.tar")
    (True, True, False)
    """
    return _ARCHIVE.fullmatch(name) is not None


def is_tar(directory: Path) -> bool:
    """Whether a backup has the format tar.

    Raises:
        BackupError: There is no backup.
    """
    if (directory / "PG_VERSION").exists():
        return False
    if any((directory / name).exists() for name in ("base.tar", "base.tar.gz")):
        return True
    text = f"{directory} has no backup: neither PG_VERSION nor base.tar"
    raise BackupError(text, code="damaged", path=str(directory))


def contents(
    directory: Path, tablespaces: Mapping[str, Path] | None = None
) -> Iterator[Found | Odd]:
    """Finds all files of a backup, except the manifest of a tar one.

    Args:
        directory: The backup.
        tablespaces: The tablespaces' places by OID, if they are not where the links lead.
    """
    if is_tar(directory):
        return _in_archives(directory)
    return _in_directory(directory, "", tablespaces or {})


def member_path(name: str) -> str:
    """The name of an archive's member. A server writes some of them in another way.

    >>> member_path("./pg_wal/archive_status"), member_path("base/1/")
    ('pg_wal/archive_status', 'base/1')
    """
    return name.removeprefix("./").rstrip("/")


def path_below(archive: str, name: str) -> str:
    """The path below the data directory of an archive's member.

    >>> path_below("base.tar", "base/1/1259"), path_below("16385.tar.gz", "PG_18/5/1")
    ('base/1/1259', 'pg_tblspc/16385/PG_18/5/1')
    """
    member = member_path(name)
    stem = archive.partition(".")[0]
    if stem == "base":
        return member
    return f"pg_wal/{member}" if stem == "pg_wal" else f"pg_tblspc/{stem}/{member}"


def _in_directory(
    place: Path, below: str, tablespaces: Mapping[str, Path]
) -> Iterator[Found | Odd]:
    with os.scandir(place) as entries:
        for entry in sorted(entries, key=lambda it: it.name):
            path = f"{below}{entry.name}"
            actual = Path(entry.path)
            if entry.is_symlink() and below == _TABLESPACES:
                actual = tablespaces.get(entry.name, actual)
            try:
                found = actual.stat()
            except OSError as error:
                yield Odd(path, f"cannot be read: {error.strerror}")
                continue
            is_directory = stat.S_ISDIR(found.st_mode)
            # Other links may lead anywhere, and back.
            is_expected = below == _TABLESPACES or path == "pg_wal"
            if is_directory and (is_expected or not entry.is_symlink()):
                yield from _in_directory(actual, f"{path}/", tablespaces)
            elif is_directory:
                yield Odd(path, "is a link to a directory")
            elif stat.S_ISREG(found.st_mode):
                yield Found(path, found.st_size, _reads(actual))
            else:
                yield Odd(path, "is neither a file nor a directory")


def _reads(path: Path) -> Callable[[], Iterator[bytes]]:
    def blocks() -> Iterator[bytes]:
        with _named(path), path.open("rb", buffering=0) as file:
            yield from _blocks(file)

    return blocks


def _in_archives(directory: Path) -> Iterator[Found | Odd]:
    for path in sorted(directory.iterdir()):
        if path.name == MANIFEST:
            continue
        if is_archive(path.name) and path.is_file():
            yield from _in_archive(path)
        elif path.name == "pg_wal" and path.is_dir():
            yield from _in_directory(path, "pg_wal/", {})
        else:
            yield Odd(path.name, "is not an archive of the backup")


def _in_archive(path: Path) -> Iterator[Found | Odd]:
    mode = "r|gz" if path.suffix == ".gz" else "r|"
    seen = set()
    try:
        with tarfile.open(path, mode, bufsize=_BLOCK_BYTES) as archive:  # type: ignore[call-overload]
            while (member := archive.next()) is not None:
                # It keeps them all, which takes much memory for many files.
                archive.members = []
                name = path_below(path.name, member.name)
                if member.isdir():
                    continue
                if not member.isreg() or member.issparse():
                    yield Odd(name, "is neither a file nor a directory")
                elif name in seen:
                    yield Odd(name, f"is twice in {path.name}")
                else:
                    seen.add(name)
                    file = archive.extractfile(member) or io.BytesIO()
                    yield Found(name, member.size, partial(_blocks, file))
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            with _named(path):
                raise
        yield Odd(path.name, "is cut, or not a tar archive")


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Names the file in an error of the file system, as reading does not."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    try:
        while block := file.read(_BLOCK_BYTES):
            yield block
    except tarfile.TarError:
        # The archive is cut. So is this file, by its size.
        return


_ARCHIVE = re.compile(r"(?:base|pg_wal|[1-9][0-9]{0,9})\.tar(?:\.gz)?")
_TABLESPACES = "pg_tblspc/"
_BLOCK_BYTES = 1 << 20
