"""The WAL that a base backup needs: whether all its segments have arrived."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, NoReturn

from walrow._backup.wal.segments import FirstPage, Segment, parse_first_page
from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walrow._lsn import Lsn


class WalRange(NamedTuple):
    """WAL that a backup needs, on one timeline. Its end is the first byte that it does not need."""

    timeline: int
    start: Lsn
    end: Lsn


class SegmentFile(NamedTuple):
    """The file of a segment of WAL.

    Attributes:
        size: Its size.
        head: Its first `HEADER_BYTES` bytes.
    """

    size: int
    head: bytes


def check_wal(
    segments: Mapping[str, SegmentFile],
    ranges: Sequence[WalRange],
    system_identifier: str,
) -> None:
    """Refuses segments that lack a byte of a range.

    The WAL in which a timeline ends may be there under a later timeline only.

    Args:
        segments: The segments by their names.
        ranges: The WAL that is needed.
        system_identifier: The server's.

    Raises:
        BackupError: A segment is missing, or has other WAL.
    """
    pages = {name: _page(name, it) for name, it in segments.items()}
    if not pages:
        _refuse(f"there is no WAL, but {ranges[0].start} to {ranges[-1].end} is needed")
    size = next(iter(pages.values())).segment_size
    timelines = sorted({it.timeline for it in ranges})
    for each in ranges:
        later = [it for it in timelines if it >= each.timeline]
        last = max(each.start, each.end - 1)
        for number in range(each.start // size, last // size + 1):
            names = [Segment(timeline, number).name(size) for timeline in later]
            name = next((it for it in names if it in pages), None)
            if name is None:
                _refuse(f"segment {names[0]} is missing")
            page = pages[name]
            if (page.segment_size, segments[name].size) != (size, size):
                _refuse(f"segment {name} has {segments[name].size} bytes, not {size}")
            if page.address != number * size:
                _refuse(f"segment {name} has the WAL of {page.address}")
            if page.system_identifier != system_identifier:
                _refuse(f"segment {name} is of another server")


def _page(name: str, segment: SegmentFile) -> FirstPage:
    page = parse_first_page(segment.head)
    if page is None or page.segment_size not in _SIZES:
        _refuse(f"segment {name} does not begin with WAL")
    if page.timeline > int(name[:8], 16):
        _refuse(f"segment {name} is of timeline {page.timeline}")
    return page


def _refuse(reason: str) -> NoReturn:
    text = f"the backup cannot be recovered: {reason}; take another backup"
    raise BackupError(text, code="wal")


#: The sizes that a server's segments can have.
_SIZES = frozenset(1 << power for power in range(20, 31))
