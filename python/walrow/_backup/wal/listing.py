"""Finds where a directory of WAL is to be continued: a pure function over its listing."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from walrow._backup.wal.segments import PARTIAL, Segment, parse_segment
from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Entry(NamedTuple):
    """A file of a directory.

    Attributes:
        name: Its name.
        size: Its size in bytes. None if it is not a plain file.
    """

    name: str
    size: int | None


class _Found(NamedTuple):
    number: int
    is_partial: bool


def where_to_begin(
    directory: Path, listing: Iterable[Entry], size: int
) -> Segment | None:
    """The segment with which the directory continues, so that no segment is missing.

    That is on the newest timeline, its partial segment, or the one after its last whole
    one. Other files, such as histories, do not matter. None if there is no segment.

    Args:
        directory: The directory.
        listing: Its files, in any order.
        size: The size of the server's segments, in bytes.

    Raises:
        BackupError: A segment is missing, or a file cannot be one.
    """
    timelines: dict[int, list[_Found]] = {}
    for entry in sorted(listing):
        stem = entry.name.removesuffix(PARTIAL)
        if _LIKE_SEGMENT.match(stem):
            segment = _segment(directory, entry, stem, size)
            found = _Found(segment.number, stem != entry.name)
            timelines.setdefault(segment.timeline, []).append(found)
    following: Segment | None = None
    for timeline, segments in sorted(timelines.items()):
        segments.sort()
        for one, other in pairwise(segments):
            if other.number == one.number:
                name = Segment(timeline, one.number).name(size)
                problem = f"there is {name}, too: remove one of them"
                _refuse(directory, name + PARTIAL, "foreign", problem)
            missing = one.number if one.is_partial else one.number + 1
            if one.is_partial or other.number > missing:
                _refuse_gap(directory, Segment(timeline, missing).name(size))
        # A timeline begins in the segment where the earlier one has ended, or after it.
        if following is not None and segments[0].number > following.number:
            _refuse_gap(directory, following.name(size))
        last = segments[-1]
        following = Segment(
            timeline, last.number if last.is_partial else last.number + 1
        )
    return following


def segments_newest_first(listing: Iterable[Entry]) -> list[str]:
    """The names of segments' files, whole or partial, with the newest one first."""
    names = [
        it.name for it in listing if _LIKE_SEGMENT.match(it.name.removesuffix(PARTIAL))
    ]
    return sorted(names, reverse=True)


def _segment(directory: Path, entry: Entry, stem: str, size: int) -> Segment:
    """The segment of a file that is named like one."""
    ending = stem[_NAME_LENGTH:]
    if ending in _COMPRESSED:
        problem = f"it is compressed: decompress it ({_COMPRESSED[ending]})"
        _refuse(directory, entry.name, "compressed", problem)
    if entry.size is None:
        _refuse(directory, entry.name, "foreign", "it is not a plain file")
    is_whole = stem == entry.name
    if entry.size > size or (entry.size < size and is_whole):
        problem = f"it has {entry.size} bytes, and the server's segments have {size}"
        _refuse(directory, entry.name, "size", problem)
    segment = parse_segment(stem, size)
    if segment is None:
        problem = f"its name is not one of segments of {size} bytes"
        _refuse(directory, entry.name, "size", problem)
    return segment


def _refuse_gap(directory: Path, name: str) -> NoReturn:
    _refuse(directory, name, "gap", "it is missing, and a later segment is there")


def _refuse(directory: Path, name: str, code: str, problem: str) -> NoReturn:
    path = str(directory / name)
    text = f"{path}: {problem}; {_REMEDIES[code]}"
    raise BackupError(text, code=code, path=path)


_NAME_LENGTH = 24
_COMPRESSED = {".gz": "gzip -d", ".lz4": "lz4 -d", ".zst": "zstd -d"}
_LIKE_SEGMENT = re.compile(r"[0-9A-F]{24}(\.gz|\.lz4|\.zst)?$")
_REMEDIES = {
    "gap": "put it back, or begin again with a new base backup and an empty directory",
    "size": "put back the whole file, or choose an empty directory",
    "compressed": "or choose an empty directory",
    "foreign": "choose an empty directory",
}
