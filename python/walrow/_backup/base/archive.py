"""The tar archives of a base backup, which are checked as they arrive.

Only what PostgreSQL writes is accepted (`tarCreateHeader` in its `port/tar.c`): files,
directories and links of tablespaces, in the format ustar, with names of at most 100 bytes.
Nothing is allocated for a size that a header claims.
"""

from __future__ import annotations

import hashlib
import sys
import tarfile
import zlib
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import NoReturn

from walrow._backup.base.manifest import MANIFEST, ManifestFile, is_inside
from walrow._core import crc32c
from walrow.errors import BackupError


class _Crc32c:
    """CRC-32C in the way of hashlib."""

    def __init__(self) -> None:
        self._crc = 0

    def update(self, data: bytes) -> None:
        self._crc = crc32c(data, self._crc)

    def digest(self) -> bytes:
        """The four bytes in the order of a manifest: the lowest one first."""
        return self._crc.to_bytes(4, "little")


class Contents:
    """The files of a backup that have arrived, to compare with its manifest."""

    def __init__(self, algorithm: str, links: set[str]) -> None:
        """The server sends these links of tablespaces, and no others."""
        self.files = self.bytes = 0
        self._algorithm = algorithm
        is_crc = algorithm == "CRC32C"
        #: Begins the checksum of a file.
        self.hash = _Crc32c if is_crc else partial(hashlib.new, algorithm.lower())
        self._links, self._linked = links, set[str]()
        self._directories: set[str] = set()
        #: Files that the manifest has not listed yet, with sizes and checksums.
        self._unlisted: dict[str, tuple[int, bytes]] = {}

    def add_link(self, path: str) -> bool:
        """Adds a link. Returns whether it belongs to a tablespace, and is new."""
        is_one = path in self._links - self._linked
        self._linked.add(path)
        return is_one

    def add_directory(self, path: str, root: str) -> None:
        """Adds a directory, even one that the archive repeats. A root has no parent."""
        self._check_place(path, root)
        self._directories.add(path)
        self._check_number()

    def check_new(self, path: str, root: str) -> None:
        """Refuses a file whose path has arrived already, or its directory has not."""
        self._check_place(path, root)
        if path in self._directories:
            refuse(f"{path!r} twice")

    def add_file(self, path: str, size: int, checksum: bytes) -> None:
        """Adds a file that has arrived, with its path below the data directory."""
        self.files, self.bytes = self.files + 1, self.bytes + size
        self._unlisted[path] = (size, checksum)
        self._check_number()

    def compare(self, listed: ManifestFile) -> None:
        """Refuses a file of the manifest that is missing, or has another size or checksum."""
        path = listed.path
        if path.startswith(_WAL):
            return
        found = self._unlisted.pop(path, None)
        if found is None:
            _differ(path, "is missing, or twice in the manifest")
        if found[0] != listed.size:
            _differ(path, f"has {found[0]} bytes instead of {listed.size}")
        if listed.algorithm != self._algorithm:
            _differ(path, f"has no checksum of {self._algorithm} in the manifest")
        if found[1] != listed.checksum:
            _differ(path, "has another checksum")

    def end(self) -> None:
        """Refuses files that are not in the manifest. It does not list WAL."""
        if lacking := self._links - self._linked:
            refuse(f"no link {min(lacking)!r}")
        for path in self._unlisted:
            if not path.startswith(_WAL):
                _differ(path, "is not in the manifest")

    def wal(self) -> dict[str, int]:
        """The sizes of the files of WAL, by name."""
        found = self._unlisted.items()
        return {
            it.removeprefix(_WAL): size
            for it, (size, _) in found
            if it.startswith(_WAL)
        }

    def _check_place(self, path: str, root: str) -> None:
        parent = path.rpartition("/")[0]
        if parent != root and parent not in self._directories:
            refuse(f"{path!r} before its directory")
        if path in self._unlisted or path in self._links or path == MANIFEST:
            refuse(f"{path!r} twice")

    def _check_number(self) -> None:
        if len(self._unlisted) + len(self._directories) > _MOST_MEMBERS:
            refuse(f"more than {_MOST_MEMBERS:,} files")


class Member:
    """A file, a directory or a tablespace's link in an archive.

    Attributes:
        path: Its path below the data directory, such as `base/1/1259`. For a tablespace's
            archive, that begins with `pg_tblspc/16385/`.
        name: Its path in the archive.
        size: A file's size. 0 for others.
        is_file: Whether it is a file.
        is_directory: Whether it is a directory.
        link: Where the link of a tablespace leads on the server. None for others.
        header: Its header in the archive: 512 bytes.
    """

    def __init__(
        self, archive: Archive, header: bytes, name: str, found: tarfile.TarInfo
    ) -> None:
        self.path = f"{archive.below}{name}"
        self.name = name
        self.size = found.size
        self.is_file, self.is_directory = found.isreg(), found.isdir()
        self.link = found.linkname if found.issym() else None
        self.header = header
        self._blocks = archive._content(self) if self.is_file else iter(())

    def blocks(self) -> Iterator[bytes]:
        """The bytes of a file, as they arrive. They can be taken once."""
        return self._blocks

    @property
    def padding(self) -> bytes:
        """The zeros that follow the bytes in an archive."""
        return bytes(-self.size % tarfile.BLOCKSIZE)


class Archive:
    """An archive of a backup: the data directory, or a tablespace.

    Take either its blocks or its members. The rest is read, and checked, when the next
    archive is asked for.

    Attributes:
        name: The name of its file: `base.tar` or `16385.tar`, with `.gz` if it is compressed.
        below: The place of its files below the data directory: empty, or `pg_tblspc/16385/`.
    """

    def __init__(self, name: str, data: Iterator[bytes], contents: Contents) -> None:
        self.name = name
        stem = name.partition(".")[0]
        self.below = "" if stem == "base" else f"pg_tblspc/{stem}/"
        taken = self._taken(data)
        self._data = _inflated(taken) if name.endswith(".gz") else taken
        self._contents = contents
        # The block that is read, and how far.
        self._block, self._at = b"", 0
        # The blocks that `blocks` has not returned yet.
        self._raw: deque[bytes] = deque()
        self._keeps_raw = self._has_end = False
        self._members = self._read_members()

    def members(self) -> Iterator[Member]:
        """The members that were not taken yet. Take the bytes of each before the next one.

        Raises:
            BackupError: The archive has something that PostgreSQL does not write.
        """
        return self._members

    def blocks(self) -> Iterator[bytes]:
        """The archive as a file has it, with the end that servers before 15 leave out.

        Raises:
            BackupError: The archive has something that PostgreSQL does not write.
        """
        self._keeps_raw = True
        for member in self._members:
            for _ in member.blocks():
                yield from self._drained()
            yield from self._drained()
        yield from self._drained()
        if not self._has_end:
            yield bytes(2 * _BLOCK)

    def _drained(self) -> Iterator[bytes]:
        while self._raw:
            yield self._raw.popleft()

    def _taken(self, data: Iterator[bytes]) -> Iterator[bytes]:
        for block in data:
            if self._keeps_raw:
                self._raw.append(block)
            yield block

    def _read(self, size: int) -> bytes:
        """The next bytes: a header, or the padding after a file. Less at the end."""
        found = b""
        while len(found) < size and (block := self._some(size - len(found))):
            found += block
        return found

    def _some(self, most: int) -> bytes:
        """The next bytes, at most so many. Empty at the end."""
        while self._at == len(self._block):
            if (block := next(self._data, None)) is None:
                return b""
            self._block, self._at = block, 0
        found = self._block[self._at : self._at + most]
        self._at += len(found)
        return found

    def _read_members(self) -> Iterator[Member]:
        while header := self._read(_BLOCK):
            if not any(header):
                self._check_end()
                return
            member = self._parse(header)
            if member.is_file:
                self._contents.check_new(member.path, self.below.rstrip("/"))
                yield member
                for _ in member.blocks():
                    pass
                if len(self._read(len(member.padding))) < len(member.padding):
                    self._refuse("is cut", member.name)
            else:
                if member.is_directory:
                    self._contents.add_directory(member.path, self.below.rstrip("/"))
                yield member

    def _content(self, member: Member) -> Iterator[bytes]:
        left, hashed = member.size, self._contents.hash()
        while left:
            block = self._some(min(left, _CONTENT_BYTES))
            if not block:
                self._refuse("is cut", member.name)
            left -= len(block)
            hashed.update(block)
            yield block
        self._contents.add_file(member.path, member.size, hashed.digest())

    def _check_end(self) -> None:
        """An archive ends with zeros: two blocks, and no more than tar itself would write."""
        size = _BLOCK
        while block := self._some(_CONTENT_BYTES):
            size += len(block)
            if any(block) or size > _MOST_END:
                self._refuse("has data after its end", None)
        if size < 2 * _BLOCK:
            self._refuse("is cut", None)
        self._has_end = True

    def _parse(self, header: bytes) -> Member:
        try:
            found = tarfile.TarInfo.frombuf(header, _ENCODING, "surrogateescape")
        except tarfile.HeaderError:
            found = None
        # PostgreSQL does not split names.
        if found is None or header[257:263] != b"ustar\0" or any(header[345:500]):
            self._refuse("is cut, or not a tar archive of PostgreSQL", None)
        name = found.name.removeprefix("./").removesuffix("/")
        is_link = found.issym() and self._contents.add_link(f"{self.below}{name}")
        if not is_link and found.type not in (tarfile.REGTYPE, tarfile.DIRTYPE):
            kind = found.type.decode("latin-1")
            problem = f"has the type {kind!r} of tar: it is not a file or directory"
            self._refuse(problem, name)
        if not is_inside(name):
            self._refuse("is a path that may leave the backup", name)
        if found.size < 0 or (found.size and not found.isreg()):
            self._refuse("has no valid size", name)
        return Member(self, header, name, found)

    def _refuse(self, problem: str, name: str | None) -> NoReturn:
        what = f"archive {self.name}, which" if name is None else f"{name!r}, which"
        where = "" if name is None else f", in {self.name}"
        refuse(f"{what} {problem}{where}")


def _inflated(blocks: Iterator[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(wbits=_GZIP)
    try:
        for block in blocks:
            rest = block
            while rest and not inflater.eof:
                yield inflater.decompress(rest, _CONTENT_BYTES)
                rest = inflater.unconsumed_tail
            if inflater.unused_data or (rest and inflater.eof):
                refuse("an archive with data after the end of gzip")
        yield inflater.flush()
    except zlib.error:
        refuse("an archive that is not gzip")
    if not inflater.eof:
        refuse("an archive of gzip that is cut")


def refuse(what: str) -> NoReturn:
    """Refuses what the server sent."""
    text = f"the server sent {what}; start the backup again"
    raise BackupError(text, code="protocol")


def _differ(path: str, problem: str) -> NoReturn:
    text = (
        f"{path!r} {problem}: this is not the backup of its manifest; take another one"
    )
    raise BackupError(text, code="damaged", path=path)


_BLOCK = tarfile.BLOCKSIZE
_ENCODING = sys.getfilesystemencoding()
#: Two blocks are enough. Programs fill up to 20.
_MOST_END = 20 * _BLOCK
_CONTENT_BYTES = 1 << 20
#: zlib's number for gzip.
_GZIP = 31
#: Each takes some 300 bytes of memory.
_MOST_MEMBERS = 10_000_000
_WAL = "pg_wal/"
