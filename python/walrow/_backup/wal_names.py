"""Names of files of WAL, and sizes of segments: pure functions.

A segment's file is named after its timeline and its place, in hexadecimal:
`TTTTTTTTLLLLLLLLSSSSSSSS`. The last part starts again at 0 with each 4 GiB of WAL.
See "Write-Ahead Log (WAL)", "WAL Internals" in PostgreSQL's manual.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from walrow._lsn import Lsn

__all__ = ["PARTIAL", "Segment", "history_name", "is_segment", "parse_segment"]


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


#: The end of a file's name until its segment is whole and durable.
PARTIAL = ".partial"
_SPAN = 1 << 32
_SEGMENT = re.compile("([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})")
