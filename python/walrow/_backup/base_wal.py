"""The WAL that a base backup needs: whether all its segments are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from walrow._backup.wal_names import Segment
from walrow._backup.wal_page import HEADER_BYTES, FirstPage, parse_first_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from walrow._backup.base_manifest import WalRange
    from walrow._lsn import Lsn

__all__ = ["ReceivesWal", "SegmentFile", "wal_problems"]


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


class SegmentFile(NamedTuple):
    """The file of a segment of WAL.

    Attributes:
        size: Its size.
        head: Its first `HEADER_BYTES` bytes.
    """

    size: int
    head: bytes


def wal_problems(
    segments: Mapping[str, SegmentFile],
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
    pages = {name: _page(name, each) for name, each in segments.items()}
    sizes = {it.segment_size for it in pages.values() if isinstance(it, FirstPage)}
    if not wanted:
        return []
    if not sizes:
        bad = [f"segment {name} {it}" for name, it in pages.items()]
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
            names = [Segment(timeline, number).name(size) for timeline in later]
            there = next((name for name in names if name in segments), None)
            if there is None:
                problems.append(f"segment {names[0]} is missing")
                continue
            found = pages[there]
            problem = _problem(found, segments[there], number, size)
            if (
                problem is None
                and isinstance(found, FirstPage)
                and system_identifier not in (None, found.system_identifier)
            ):
                problem = "is of another server"
            if problem is not None:
                problems.append(f"segment {there} {problem}")
    return problems


def _numbers(wanted: WalRange, size: int) -> range:
    """The segments of a range. Its end is the first byte that is not needed."""
    last = max(wanted.start, wanted.end - 1)
    return range(wanted.start // size, last // size + 1)


def _problem(
    page: FirstPage | str, segment: SegmentFile, number: int, size: int
) -> str | None:
    if isinstance(page, str):
        return page
    if segment.size != size:
        return f"has {segment.size} bytes instead of {size}"
    if page.address != number * size:
        return f"has the WAL of {page.address}"
    return None


def _page(name: str, segment: SegmentFile) -> FirstPage | str:
    if len(segment.head) < HEADER_BYTES:
        return f"has {segment.size} bytes"
    page = parse_first_page(segment.head)
    if page is None or not _is_size(page.segment_size):
        return "does not begin with WAL"
    if page.timeline > int(name[:8], 16):
        return f"is of timeline {page.timeline}"
    return page


def _is_size(size: int) -> bool:
    """Whether a server can have segments of this size."""
    return _SMALLEST <= size <= _LARGEST and size & (size - 1) == 0


_SMALLEST, _LARGEST = 1 << 20, 1 << 30
