"""Streamed WAL as a base backup has it: whole files, in pg_wal or in an archive."""

from __future__ import annotations

import tarfile
import time
from typing import TYPE_CHECKING

from walrow._backup.base_disk import make_directory, write_file
from walrow._backup.wal_files import LOCK
from walrow._backup.wal_names import PARTIAL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["complete_files", "pack_files"]


def complete_files(directory: Path) -> None:
    """Gives all files of a directory of WAL their names. Nobody must write there any more.

    The last segment is filled up with zeros already. `archive_status` says of each file
    that it is archived, so that a server that starts from the backup does not do so again.
    They are durable after `sync_tree`.
    """
    (directory / LOCK).unlink()
    status = directory / "archive_status"
    if not status.is_dir():
        make_directory(status)
    for path in sorted(directory.iterdir()):
        if path.is_file():
            name = path.name.removesuffix(PARTIAL)
            path.rename(path.with_name(name))
            write_file(status / f"{name}.done", ())


def pack_files(directory: Path) -> None:
    """Moves a directory of WAL into an archive beside it, one file after the other."""
    write_file(directory.with_name(f"{directory.name}.tar"), _moved(directory))
    for path in [*(it for it in directory.iterdir()), directory]:
        path.rmdir()


def _moved(directory: Path) -> Iterator[bytes]:
    for path in sorted(it for it in directory.rglob("*") if it.is_file()):
        member = tarfile.TarInfo(path.relative_to(directory).as_posix())
        member.size = path.stat().st_size
        member.mode = 0o600
        member.mtime = int(time.time())
        # As in PostgreSQL's archives: who unpacks it may be root, but not the server.
        member.uname = member.gname = "postgres"
        yield member.tobuf(tarfile.USTAR_FORMAT)
        with path.open("rb", buffering=0) as file:
            while block := file.read(_BLOCK_BYTES):
                yield block
        yield bytes(-member.size % tarfile.BLOCKSIZE)
        # No room is needed for a second copy of all.
        path.unlink()
    yield bytes(2 * tarfile.BLOCKSIZE)


_BLOCK_BYTES = 1 << 20
