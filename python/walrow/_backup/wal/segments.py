"""Segments of WAL: the names of their files, and the header of their first page.

A segment's file is named after its timeline and its place, in hexadecimal:
`TTTTTTTTLLLLLLLLSSSSSSSS`. The last part starts again at 0 with each 4 GiB of WAL.
See "WAL Internals" in PostgreSQL's manual, and `XLogLongPageHeaderData` in
`access/xlog_internal.h`.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from walrow._lsn import Lsn


class Segment(NamedTuple):
    """A segment of WAL on a timeline.

    Attributes:
        timeline: The timeline.
        number: The place: a segment's size times this is its first LSN.
    """

    timeline: int
    number: int

    @classmethod
    def at(cls, timeline: int, lsn: int, size: int) -> Segment:
        """The segment that has an LSN, for segments of a size in bytes."""
        return cls(timeline, lsn // size)

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


class FirstPage(NamedTuple):
    """The header of a segment's first page.

    Attributes:
        system_identifier: The server's, as IDENTIFY_SYSTEM returns it.
        address: The segment's first LSN.
        segment_size: The segment's size in bytes.
        timeline: The timeline.
    """

    system_identifier: str
    address: Lsn
    segment_size: int
    timeline: int


def is_segment(name: str) -> bool:
    """Whether a segment of any size may have this name."""
    return _SEGMENT.fullmatch(name) is not None


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


def parse_first_page(page: bytes) -> FirstPage | None:
    """Reads the header, in the byte order of the machine that wrote it.

    None if it is not there, as in a file that was only reserved.
    """
    if len(page) < HEADER_BYTES:
        return None
    for layout in _LAYOUTS:
        magic, flags, timeline, address, identifier, size, block = layout.unpack_from(
            page
        )
        if magic >> 8 == _MAGIC and flags & _IS_LONG and block in _BLOCK_SIZES:
            return FirstPage(str(identifier), Lsn(address), size, timeline)
    return None


#: The end of a file's name until its segment is whole and durable.
PARTIAL = ".partial"
_SPAN = 1 << 32
_SEGMENT = re.compile("([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})")
# magic, flags, timeline, address, (remaining length), identifier, size of segment and page.
_FIELDS = "HHIQ4x4xQII"
_LAYOUTS = (struct.Struct("<" + _FIELDS), struct.Struct(">" + _FIELDS))
HEADER_BYTES = _LAYOUTS[0].size
#: The first byte of every version's number: 0xD10D in version 14, 0xD118 in 18.
_MAGIC = 0xD1
_IS_LONG = 0x0002
_BLOCK_SIZES = frozenset(1 << power for power in range(10, 17))
