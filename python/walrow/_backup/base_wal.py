"""The WAL that a base backup needs: whether all its segments are there."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, NamedTuple, Protocol

from walrow._lsn import Lsn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from walrow._backup.base_manifest import WalRange

__all__ = ["HEAD_BYTES", "ReceivesWal", "Segment", "is_segment", "wal_problems"]


class ReceivesWal(Protocol):
    """Receives WAL on a separate connection while a base backup runs."""

    def reserve(self) -> None:
        """Makes the server keep its WAL from now on, until it is received."""

    def begin(self, start: Lsn, timeline: int, directory: Path) -> None:
        """Receives WAL into an empty directory, from the segment of a position on.

        It returns at once.
        """

    def check(self) -> None:
        """Raises the error that has ended it before its time."""

    def finish(self, end: Lsn, timeline: int) -> None:
        """Waits until everything before a position is durable, and ends.

        Then each segment has its name and its full size, the last one with zeros. In
        format tar, they are in an archive beside the directory.
        """

    def abandon(self) -> None:
        """Ends at once. It may have begun or not, or have finished."""


class Segment(NamedTuple):
    """A segment of WAL that was found.

    Attributes:
        size: The size of its file.
        head: Its first `HEAD_BYTES` bytes.
    """

    size: int
    head: bytes


class _Head(NamedTuple):
    """The header of a segment's first page."""

    timeline: int
    address: int
    system_identifier: int
    segment_bytes: int


def is_segment(name: str) -> bool:
    """Whether this is the name of a whole segment."""
    return _NAME.fullmatch(name) is not None


def wal_problems(
    segments: Mapping[str, Segment],
    ranges: Iterable[WalRange],
    system_identifier: str | None = None,
) -> list[str]:
    """Returns the problems of WAL. Empty if it has all bytes of all ranges.

    A range may end on a timeline whose segment begins with the WAL of an earlier one. So
    a segment may also be one of a later timeline of the ranges.

    Args:
        segments: The segments by their names.
        ranges: The WAL that is needed.
        system_identifier: The server's, if it is known.
    """
    wanted = list(ranges)
    heads = {name: _head(name, each) for name, each in segments.items()}
    sizes = {it.segment_bytes for it in heads.values() if isinstance(it, _Head)}
    if not wanted:
        return []
    if not sizes:
        bad = [f"segment {name} {it}" for name, it in heads.items()]
        return bad or [
            f"there is no WAL, but {wanted[0].start} to {wanted[-1].end} is needed"
        ]
    if len(sizes) > 1:
        return ["segments are of different servers: their WAL has different sizes"]
    (size,) = sizes
    timelines = sorted({each.timeline for each in wanted})
    problems = []
    for each in wanted:
        later = [it for it in timelines if it >= each.timeline]
        for number in _numbers(each, size):
            names = [_name(timeline, number, size) for timeline in later]
            there = next((name for name in names if name in segments), None)
            if there is None:
                problems.append(f"segment {names[0]} is missing")
                continue
            problem = _problem(heads[there], segments[there], number, size)
            found = heads[there]
            if (
                problem is None
                and isinstance(found, _Head)
                and system_identifier not in (None, str(found.system_identifier))
            ):
                problem = "is of another server"
            if problem is not None:
                problems.append(f"segment {there} {problem}")
    return problems


def _numbers(wanted: WalRange, size: int) -> range:
    """The segments of a range. Its end is the first byte that is not needed."""
    last = max(wanted.start, wanted.end - 1)
    return range(wanted.start // size, last // size + 1)


def _name(timeline: int, number: int, size: int) -> str:
    each = (1 << 32) // size
    return f"{timeline:08X}{number // each:08X}{number % each:08X}"


def _problem(
    found: _Head | str, segment: Segment, number: int, size: int
) -> str | None:
    if isinstance(found, str):
        return found
    if segment.size != size:
        return f"has {segment.size} bytes instead of {size}"
    if found.address != number * size:
        return f"has the WAL of {Lsn(found.address)}"
    return None


def _head(name: str, segment: Segment) -> _Head | str:
    if len(segment.head) < HEAD_BYTES:
        return f"has {segment.size} bytes"
    _, flags, timeline, address, identifier, size = _HEAD.unpack(
        segment.head[:HEAD_BYTES]
    )
    is_power = size & (size - 1) == 0
    if not flags & _LONG_HEADER or not (_SMALLEST <= size <= _LARGEST and is_power):
        return "does not begin with WAL"
    if timeline > int(name[:8], 16):
        return f"is of timeline {timeline}"
    return _Head(timeline, address, identifier, size)


_NAME = re.compile("[0-9A-F]{24}")
#: XLogLongPageHeaderData, in the byte order of the server's machine: magic, flags, timeline,
#: address, 8 bytes that do not matter, system identifier, segment size.
_HEAD = struct.Struct("=HHIQ8xQI")
HEAD_BYTES = _HEAD.size
_LONG_HEADER = 2
_SMALLEST, _LARGEST = 1 << 20, 1 << 30
