"""Segments of WAL: their files' names, their first page, and where a directory continues.

A segment's file is named after its timeline and its place, in hexadecimal:
`TTTTTTTTLLLLLLLLSSSSSSSS`. The last part starts again at 0 with each 4 GiB of WAL.
See "WAL Internals" in PostgreSQL's manual, and `XLogLongPageHeaderData` in
`access/xlog_internal.h`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, NoReturn

from walrow._lsn import Lsn
from walrow.errors import BackupError


class Segment(NamedTuple):
    """A segment of WAL on a timeline. Its size times its number is its first LSN."""

    timeline: int
    number: int

    def start(self, size: int) -> Lsn:
        """Its first LSN."""
        return Lsn(self.number * size)

    def name(self, size: int) -> str:
        """The name of its file.

        >>> Segment(2, 0x105).name(16 << 20)
        '000000020000000100000005'
        """
        high, low = divmod(self.number, _SPAN // size)
        return f"{self.timeline:08X}{high:08X}{low:08X}"

    @property
    def following(self) -> Segment:
        """The next one on the same timeline."""
        return self._replace(number=self.number + 1)


def parse_segment(name: str, size: int) -> Segment | None:
    """The segment of a file's name. None if segments of this size have no such name.

    >>> parse_segment("000000020000000100000005", 16 << 20)
    Segment(timeline=2, number=261)
    """
    found = _SEGMENT.fullmatch(name)
    if found is None:
        return None
    timeline, high, low = (int(part, 16) for part in found.groups())
    if timeline == 0 or low >= _SPAN // size:
        return None
    return Segment(timeline, high * (_SPAN // size) + low)


def history_name(timeline: int) -> str:
    """The name of a timeline's history file.

    >>> history_name(26)
    '0000001A.history'
    """
    return f"{timeline:08X}.history"


def parse_first_page(page: bytes) -> tuple[str, Lsn] | None:
    """Reads the server's system identifier, and the first LSN, from the first page's header.

    It is in the byte order of the machine that wrote it. None if it is not there, as in a file
    that was only reserved.
    """
    if len(page) < HEADER_BYTES:
        return None
    for layout in _LAYOUTS:
        magic, flags, address, identifier, block = layout.unpack_from(page)
        if magic >> 8 == _MAGIC and flags & _IS_LONG and block in _BLOCK_SIZES:
            return str(identifier), Lsn(address)
    return None


class Entry(NamedTuple):
    """A file of a directory, and its size. None if it is not a plain file."""

    name: str
    size: int | None


def where_to_begin(
    directory: Path, listing: Iterable[Entry], size: int
) -> Segment | None:
    """Finds the next segment to receive: the first missing one. None for an empty directory.

    On the newest timeline, this is the partial segment, or else the successor of the last whole segment.
    Other files, such as histories, are ignored.
    """
    found: list[tuple[Segment, bool]] = []
    for entry in sorted(listing):
        stem = entry.name.removesuffix(PARTIAL)
        if _LIKE_SEGMENT.match(stem):
            segment = _segment(directory, entry, stem, size)
            found.append((segment, stem != entry.name))
    following: Segment | None = None
    # A timeline begins in the segment where the earlier one has ended, or after it.
    for segment, is_partial in sorted(found):
        if following is not None:
            if segment.number > following.number:
                problem = "it is missing, and a later segment is there"
                _refuse(directory, following.name(size), "gap", problem)
            if segment.timeline == following.timeline and segment != following:
                name = segment.name(size)
                problem = f"there is {name}, too: remove one of them"
                _refuse(directory, name + PARTIAL, "foreign", problem)
        following = segment if is_partial else segment.following
    return following


def segments_newest_first(listing: Iterable[Entry]) -> list[str]:
    """The names of segments' files, whole or partial, with the newest one first."""
    names = [
        it.name for it in listing if _LIKE_SEGMENT.match(it.name.removesuffix(PARTIAL))
    ]
    return sorted(names, reverse=True)


def _segment(directory: Path, entry: Entry, stem: str, size: int) -> Segment:
    """The segment of a file that is named like one."""
    segment = parse_segment(stem, size)
    if segment is None or entry.size is None:
        # One may be compressed.
        problem = f"it is not a plain file of a segment of {size} bytes"
        _refuse(directory, entry.name, "foreign", problem)
    is_whole = stem == entry.name
    if entry.size > size or (entry.size < size and is_whole):
        problem = f"it has {entry.size} bytes, and the server's segments have {size}"
        _refuse(directory, entry.name, "size", problem)
    return segment


def _refuse(directory: Path, name: str, code: str, problem: str) -> NoReturn:
    path = str(directory / name)
    raise BackupError(f"{path}: {problem}; {_REMEDIES[code]}", code=code, path=path)


#: The end of a file's name until its segment is whole and durable.
PARTIAL = ".partial"
_SPAN = 1 << 32
_SEGMENT = re.compile("([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})")
# magic, flags, (timeline), address, (remaining length), identifier, (segment's size), page's size.
_FIELDS = "HH4xQ4x4xQ4xI"
_LAYOUTS = (struct.Struct("<" + _FIELDS), struct.Struct(">" + _FIELDS))
HEADER_BYTES = _LAYOUTS[0].size
#: The first byte of every version's number: 0xD10D in version 14, 0xD118 in 18.
_MAGIC = 0xD1
_IS_LONG = 0x0002
_BLOCK_SIZES = frozenset(1 << power for power in range(10, 17))
_LIKE_SEGMENT = re.compile(r"[0-9A-F]{24}(\.gz|\.lz4|\.zst)?$")
_REMEDIES = {
    "gap": "put it back, or begin again with a new base backup and an empty directory",
    "size": "put back the whole file, or choose an empty directory",
    "foreign": "put back the file of the segment, or choose an empty directory",
}
