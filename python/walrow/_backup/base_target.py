"""Writes the archives of a base backup: as they are, or unpacked."""

from __future__ import annotations

import tarfile
import zlib
from typing import TYPE_CHECKING, NoReturn, Protocol

from walrow._backup.base_contents import MANIFEST, is_archive, member_path
from walrow._backup.base_disk import make_directory, write_file
from walrow._backup.base_manifest import is_inside, without_file
from walrow._backup.base_options import partial_name
from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import IO

    from walrow._backup.base_options import Place

__all__ = ["PlainTarget", "TarTarget", "Target"]


class Target(Protocol):
    """Takes the parts of a backup, in the order of their arrival."""

    def archive(self, name: str, blocks: Iterator[bytes]) -> None:
        """Writes an archive."""

    def manifest(self, blocks: Iterator[bytes]) -> None:
        """Writes the manifest."""

    def end(self) -> None:
        """Writes the rest, after all parts."""


class TarTarget:
    """Keeps the archives."""

    def __init__(self, directory: Path, *, adds_end: bool) -> None:
        """Writes into an empty directory.

        Args:
            directory: The directory.
            adds_end: Whether the server leaves out the end of an archive: two blocks of
                zeros. Servers before 15 do.
        """
        self._directory = directory
        self._adds_end = adds_end

    def archive(self, name: str, blocks: Iterator[bytes]) -> None:
        """Writes an archive under its name."""
        _check_name(name)
        write_file(self._directory / name, self._ended(blocks))

    def _ended(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        yield from blocks
        if self._adds_end:
            yield bytes(2 * tarfile.BLOCKSIZE)

    def manifest(self, blocks: Iterator[bytes]) -> None:
        """Writes the manifest beside the archives."""
        write_file(self._directory / MANIFEST, blocks)

    def end(self) -> None:
        """Everything is there."""


class PlainTarget:
    """Unpacks the archives into a data directory, and the tablespaces beside it."""

    def __init__(self, directory: Path, places: Sequence[Place]) -> None:
        """Writes into an empty directory.

        Args:
            directory: The directory.
            places: Where the tablespaces come.
        """
        self._directory = directory
        self._places = places
        self._roots = {str(each.oid): partial_name(each.path) for each in places}

    def archive(self, name: str, blocks: Iterator[bytes]) -> None:
        """Unpacks an archive."""
        _check_name(name)
        stem = name.partition(".")[0]
        root = self._directory if stem == "base" else self._roots.get(stem)
        if root is None:
            _refuse(f"archive {name}, which is of no tablespace")
        source = _Source(_inflated(blocks) if name.endswith(".gz") else blocks)
        try:
            with tarfile.open(  # type: ignore[call-overload]
                mode="r|",
                fileobj=source,
                bufsize=_BLOCK_BYTES,
            ) as archive:
                while (member := archive.next()) is not None:
                    # It keeps them all, which takes much memory for many files.
                    archive.members = []
                    self._unpack(root, archive, member)
        except (tarfile.TarError, zlib.error):
            _refuse(f"archive {name}, which is cut or not a tar archive")

    def _unpack(
        self, root: Path, archive: tarfile.TarFile, member: tarfile.TarInfo
    ) -> None:
        name = member_path(member.name)
        if not is_inside(name):
            _refuse(f"the path {name!r}")
        try:
            tarfile.data_filter(member, str(root))
        except tarfile.FilterError:
            _refuse(f"the path {name!r}")
        path = root / name
        if member.isdir():
            # Some directories come again, for their contents.
            if not path.is_dir():
                make_directory(path)
        elif not member.isreg() or member.issparse():
            _refuse(f"{name!r}, which is neither a file nor a directory")
        elif not self._is_map(root, name):
            file = archive.extractfile(member)
            size = write_file(path, _blocks(file) if file else ())
            if size != member.size:
                _refuse(f"{name!r}, which is cut")

    def _is_map(self, root: Path, name: str) -> bool:
        """Whether this is the file that a server makes its own links from.

        It has the directories of the server that is saved. The links are made in `end`.
        """
        return bool(self._places) and root == self._directory and name == _MAP

    def manifest(self, blocks: Iterator[bytes]) -> None:
        """Writes the manifest, without the file that is not there."""
        text = b"".join(blocks)
        if self._places:
            text = without_file(text, _MAP)
        write_file(self._directory / MANIFEST, [text])

    def end(self) -> None:
        """Makes the links to the tablespaces."""
        for each in self._places:
            link = self._directory / "pg_tblspc" / str(each.oid)
            link.symlink_to(each.path)


class _Source:
    """Blocks as a file that tarfile reads."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks

    def read(self, _size: int = -1) -> bytes:
        # tarfile goes on until it has enough, or gets nothing.
        return next(filter(None, self._blocks), b"")


def _inflated(blocks: Iterator[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(wbits=_GZIP)
    for block in blocks:
        rest = block
        while rest:
            yield inflater.decompress(rest, _BLOCK_BYTES)
            rest = inflater.unconsumed_tail
    yield inflater.flush()
    if not inflater.eof:
        text = "the archive is cut"
        raise tarfile.ReadError(text)


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block


def _check_name(name: str) -> None:
    if not is_archive(name) or name.startswith("pg_wal"):
        _refuse(f"an archive with the name {name!r}")


def _refuse(what: str) -> NoReturn:
    text = f"the server sent {what}: nothing of it is kept; start the backup again"
    raise BackupError(text, code="protocol")


_MAP = "tablespace_map"
_BLOCK_BYTES = 1 << 20
#: zlib's number for gzip.
_GZIP = 31
