"""Finds where to go on in a directory of WAL: a pure function over its listing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from walrow._backup.wal_names import PARTIAL, Segment, parse_segment

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Empty", "Entry", "GoOn", "Refused", "where_to_begin"]


class Entry(NamedTuple):
    """A file of a directory.

    Attributes:
        name: Its name.
        size: Its size in bytes. None if it is no plain file.
    """

    name: str
    size: int | None


@dataclass(frozen=True)
class Empty:
    """The directory has no segment: the server says where to begin."""


@dataclass(frozen=True)
class GoOn:
    """The directory has segments.

    Attributes:
        begin: The first segment that is not whole: it is received from its start.
        newest_first: Files of segments, whose first page says which server they are of.
    """

    begin: Segment
    newest_first: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """Somebody must look at the directory first.

    Attributes:
        code: The kind of problem.
        file: The file that is wrong, or the first one that is missing.
        reason: The problem, in words.
    """

    code: Literal["gap", "size", "compressed", "foreign"]
    file: str
    reason: str


class _Found(NamedTuple):
    whole: list[int]
    partial: list[int]


def where_to_begin(listing: Iterable[Entry], size: int) -> Empty | GoOn | Refused:
    """Decides where to go on, so that no segment is missing.

    That is on the newest timeline, at its partial segment, or after its last whole one.
    Other files, such as histories, do not matter.

    Args:
        listing: The files of the directory, in any order.
        size: The size of the server's segments, in bytes.
    """
    timelines: dict[int, _Found] = {}
    for entry in sorted(listing):
        stem = entry.name.removesuffix(PARTIAL)
        is_partial = stem != entry.name
        if not _LIKE_SEGMENT.match(stem):
            continue
        refused = _unfit(entry, stem, is_partial=is_partial, size=size)
        if refused is not None:
            return refused
        segment = parse_segment(stem, size)
        if segment is None:
            reason = f"its name is not one of segments of {size} bytes"
            return Refused("size", entry.name, reason)
        found = timelines.setdefault(segment.timeline, _Found([], []))
        (found.partial if is_partial else found.whole).append(segment.number)
    if not timelines:
        return Empty()
    return _gap(timelines, size) or _go_on(timelines, size)


def _unfit(entry: Entry, stem: str, *, is_partial: bool, size: int) -> Refused | None:
    """Why a file that is named like a segment cannot be one."""
    ending = stem[_NAME_LENGTH:]
    if ending in _COMPRESSED:
        reason = f"it is compressed: decompress it ({_COMPRESSED[ending]})"
        return Refused("compressed", entry.name, reason)
    if entry.size is None:
        return Refused("foreign", entry.name, "it is no plain file")
    if entry.size > size or (entry.size < size and not is_partial):
        reason = f"it has {entry.size} bytes, and the server's segments have {size}"
        return Refused("size", entry.name, reason)
    return None


def _gap(timelines: dict[int, _Found], size: int) -> Refused | None:
    """The first gap: on a timeline, before its partial segment, or between two."""
    for timeline, found in sorted(timelines.items()):
        for it in sorted(set(found.whole) & set(found.partial)):
            name = Segment(timeline, it).name(size)
            reason = f"there is {name}, too: remove one of them"
            return Refused("foreign", name + PARTIAL, reason)
        for one, other in pairwise(sorted([*found.whole, *found.partial])):
            if other != one + 1 or one in found.partial:
                missing = one if one in found.partial else one + 1
                return _missing(
                    Segment(timeline, missing), Segment(timeline, other), size
                )
    for (older, before), (newer, after) in pairwise(sorted(timelines.items())):
        # The newer timeline begins in the segment where the older one ended, or after it.
        reached = max([*(it + 1 for it in before.whole), *before.partial])
        first = min([*after.whole, *after.partial])
        if first > reached:
            return _missing(Segment(older, reached), Segment(newer, first), size)
    return None


def _missing(missing: Segment, found: Segment, size: int) -> Refused:
    reason = f"it is missing, and {found.name(size)} is there"
    return Refused("gap", missing.name(size), reason)


def _go_on(timelines: dict[int, _Found], size: int) -> GoOn:
    newest, found = max(timelines.items())
    number = found.partial[0] if found.partial else max(found.whole) + 1
    names = [
        (Segment(timeline, it), ending)
        for timeline, each in timelines.items()
        for numbers, ending in ((each.whole, ""), (each.partial, PARTIAL))
        for it in numbers
    ]
    return GoOn(
        Segment(newest, number),
        tuple(it.name(size) + ending for it, ending in sorted(names, reverse=True)),
    )


_NAME_LENGTH = 24
_COMPRESSED = {".gz": "gzip -d", ".lz4": "lz4 -d", ".zst": "zstd -d"}
_LIKE_SEGMENT = re.compile(r"[0-9A-F]{24}(\.gz|\.lz4|\.zst)?$")
