"""Copies a base backup to where a server may change it, and never changes the backup itself.

```text
DIR: PG_VERSION, base/, … (plain)       scratch/data/           the data directory
DIR: base.tar, 16400.tar, … (tar)   ─►  scratch/tablespaces/    one directory for each tablespace
```

No file of the copy is shared with the backup, and no link of it leaves the scratch directory: a
server writes to its tablespaces wherever they are.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tarfile
import zlib
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["Archives", "Origin", "archives_of", "copy_backup", "read_origin"]


class Archives(NamedTuple):
    """The archives of a backup in the format tar.

    Attributes:
        base: The archive of the data directory.
        wal: The archive of WAL alone. None if WAL is in the first archive, or elsewhere.
        tablespaces: The archives of tablespaces, by OID.
    """

    base: Path
    wal: Path | None
    tablespaces: dict[str, Path]


class Origin(NamedTuple):
    """The server that a backup was taken from.

    Attributes:
        major: Its major version.
        is_standby: Whether it was a standby. Then no record need come after the backup's end.
    """

    major: str
    is_standby: bool


def archives_of(backup: Path) -> Archives | None:
    """The archives of a backup. None if it is a data directory.

    Raises:
        BackupError: It is compressed in a way that cannot be read here.
        OSError: The directory cannot be read.
    """
    names = sorted(os.listdir(backup))  # noqa: PTH208 - names, as they are
    found: dict[str, Path] = {}
    for name in names:
        if shape := _ARCHIVE.fullmatch(name):
            if shape[2] not in _READABLE:
                text = f"{name} is compressed: decompress the archives first, to .tar or .tar.gz"
                raise BackupError(text, code="not_a_backup", path=str(backup))
            found[shape[1]] = backup / name
    base = found.pop("base", None)
    if base is None:
        return None
    return Archives(base, found.pop("pg_wal", None), found)


def read_origin(backup: Path) -> Origin:
    """The server that a base backup was taken from, as PG_VERSION and backup_label say.

    Args:
        backup: The backup, of either format.

    Raises:
        BackupError: It is not a data directory, no server made it as a backup, a server was
            started in it, or it is incremental.
        OSError: It cannot be read.
    """
    archives = archives_of(backup)
    if archives is None:
        version, label = (_small(backup / name) for name in _FIRST)
    else:
        with _opened(archives.base) as (tar, _):
            version, label = _members(tar, _FIRST)
    if version is None:
        text = f"{backup} is no base backup: it has neither PG_VERSION nor base.tar"
        raise BackupError(text, code="not_a_backup", path=str(backup))
    if label is None:
        text = (
            f"{backup} has no backup_label: it is not a base backup, or a server was started "
            "in it, which changes it; take another backup"
        )
        raise BackupError(text, code="not_a_backup", path=str(backup))
    if re.search("^INCREMENTAL FROM LSN:", label, re.MULTILINE):
        text = f"{backup} is incremental: make a whole one of it with pg_combinebackup"
        raise BackupError(text, code="incremental", path=str(backup))
    from_standby = re.search("^BACKUP FROM: standby", label, re.MULTILINE) is not None
    return Origin(version.strip(), from_standby)


def _small(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return None


def _members(tar: tarfile.TarFile, names: tuple[str, ...]) -> list[str | None]:
    """The contents of small files of an archive. It ends where all were found."""
    found: dict[str, str] = {}
    for member in tar:
        name = member.name.removeprefix("./")
        if name in names and (file := tar.extractfile(member)) is not None:
            found[name] = file.read(_BLOCK_BYTES).decode(errors="replace")
        if len(found) == len(names):
            break
    return [found.get(name) for name in names]


@contextlib.contextmanager
def _opened(archive: Path) -> Iterator[tuple[tarfile.TarFile, BinaryIO]]:
    """Opens an archive.

    Raises:
        BackupError: It is damaged.
    """
    try:
        with archive.open("rb") as file, tarfile.open(fileobj=file) as tar:
            yield tar, file
    except (tarfile.TarError, EOFError, zlib.error, ValueError) as error:
        text = f"{archive} cannot be extracted: {type(error).__name__}; take another backup"
        raise BackupError(text, code="damaged", path=str(archive)) from None


def copy_backup(
    backup: Path,
    scratch: Path,
    *,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Path:
    """Copies a backup of either format into a directory, ready for a recovery.

    Args:
        backup: The backup.
        scratch: An empty directory.
        progress: Is called with the bytes that are copied, and with all bytes.

    Returns:
        The data directory.

    Raises:
        BackupError: An archive is damaged.
        OSError: A file cannot be read or written.
    """
    archives = archives_of(backup)
    data = scratch / "data"
    data.mkdir(mode=0o700)
    spaces = scratch / "tablespaces"
    spaces.mkdir(mode=0o700)
    if archives is not None:
        _extract(archives, data, spaces, progress)
    else:
        _copy(backup, data, spaces, progress)
    for name in _NOT_COPIED:
        with contextlib.suppress(FileNotFoundError):
            (data / name).unlink()
    # A server refuses another mode.
    data.chmod(0o700)
    return data


def _copy(
    backup: Path, data: Path, spaces: Path, progress: Callable[[int, int], None]
) -> None:
    parts = [(backup, data)]
    if (wal := backup / "pg_wal").is_symlink():
        parts.append((wal, data / "pg_wal"))
    for link in _links(backup / "pg_tblspc"):
        parts.append((link, spaces / link.name))
        (data / "pg_tblspc").mkdir(exist_ok=True)
        (data / "pg_tblspc" / link.name).symlink_to(spaces / link.name)
    files = [pair for source, target in parts for pair in _files(source, target)]
    total, done = sum(source.stat().st_size for source, _ in files), 0
    for source, target in files:
        _copy_file(source, target)
        done += target.stat().st_size
        progress(done, total)


def _links(directory: Path) -> list[Path]:
    if not directory.is_dir():
        return []
    return sorted(it for it in directory.iterdir() if it.is_symlink())


def _files(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """The files below a directory. Makes the directories of the target.

    Links are not followed, and not copied: a server's own backups have links only
    for tablespaces and WAL.
    """
    target.mkdir(mode=0o700, exist_ok=True)
    for path in sorted(source.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path, target / path.name)
        elif path.is_file() and not (path.parent == source and path.name in _NOT_READ):
            yield path, target / path.name


def _copy_file(source: Path, target: Path) -> None:
    """Copies a file, without its blocks if the file system can share them."""
    with source.open("rb") as read, target.open("xb") as written:
        os.fchmod(written.fileno(), 0o600)
        if not _clone(read.fileno(), written.fileno()):
            shutil.copyfileobj(read, written, _BLOCK_BYTES)


def _clone(source: int, target: int) -> bool:
    try:
        import fcntl
    except ModuleNotFoundError:
        return False
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def _extract(
    archives: Archives, data: Path, spaces: Path, progress: Callable[[int, int], None]
) -> None:
    parts = [(archives.base, data)]
    if archives.wal is not None:
        parts.append((archives.wal, data / "pg_wal"))
    parts += [(path, spaces / oid) for oid, path in archives.tablespaces.items()]
    total, before = sum(path.stat().st_size for path, _ in parts), 0
    for archive, target in parts:
        target.mkdir(mode=0o700, exist_ok=True)
        with _opened(archive) as (tar, file):
            for member in tar:
                tar.extract(member, target, filter=_filtered)
                progress(before + file.tell(), total)
        before += archive.stat().st_size
    # Instead of the links, a server in the format tar writes this file. Its paths lead to
    # the server's tablespaces.
    (data / "tablespace_map").unlink(missing_ok=True)
    (data / "pg_tblspc").mkdir(mode=0o700, exist_ok=True)
    for oid in archives.tablespaces:
        (data / "pg_tblspc" / oid).symlink_to(spaces / oid)


def _filtered(member: tarfile.TarInfo, target: str) -> tarfile.TarInfo | None:
    """Leaves out links, which lead to the server's tablespaces, and refuses what leaves the target."""
    if member.issym() or member.islnk():
        return None
    return tarfile.data_filter(member, target)


_ARCHIVE = re.compile(r"(base|pg_wal|\d+)\.tar(\.\w+)?")
_READABLE = {None, ".gz"}
_FIRST = ("PG_VERSION", "backup_label")
_BLOCK_BYTES = 1 << 20
#: linux/fs.h
_FICLONE = 0x40049409
#: Files that a server reads before anything else, and that are about another life of it.
_NOT_COPIED = (
    *("postgresql.auto.conf", "standby.signal", "recovery.signal"),
    *("postmaster.pid", "postmaster.opts", "backup_manifest"),
)
#: They may be readable by root only, or be gone in the middle.
_NOT_READ = {"postmaster.pid", "postmaster.opts"}
