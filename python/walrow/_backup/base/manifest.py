"""The manifest of a base backup: a list of its files, and of the WAL that it needs.

See "Backup Manifest Format" in PostgreSQL's manual. PostgreSQL writes a line for each file.
A manifest is read line by line, so its size costs no memory. Nothing in it is believed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn

from walrow._backup.wal.segments import Segment
from walrow._lsn import Lsn
from walrow.errors import BackupError

#: The name of the manifest's file.
MANIFEST = "backup_manifest"


class ManifestFile(NamedTuple):
    """A file of a backup. Its path is below the data directory."""

    path: str
    size: int
    algorithm: str | None
    checksum: bytes | None


class WalRange(NamedTuple):
    """WAL that a backup needs, on one timeline. Its end is the first byte that it does not need."""

    timeline: int
    start: Lsn
    end: Lsn


class ManifestReader:
    """Reads a manifest as it arrives. `ranges` come after the files: the WAL that the backup needs.

    Servers before 17 send no `system_identifier`.
    """

    def __init__(self) -> None:
        self.system_identifier: str | None = None
        self.ranges: list[WalRange] = []
        self._hash = hashlib.sha256()

    def files(self, blocks: Iterator[bytes]) -> Iterator[ManifestFile]:
        """Reads all blocks, and returns the files. Refuses what PostgreSQL does not write."""
        lines = self._lines(blocks)
        version = int(_matched(_VERSION, next(lines, b""))[1])
        if version not in _VERSIONS:
            _refuse(f"version {version} is not known")
        if version > 1:
            found = _matched(_SYSTEM, next(lines, b""))
            self.system_identifier = str(int(found[1]))
        yield from map(_file, _items(lines, b'"Files": [', _FILE))
        for item in _items(lines, b'"WAL-Ranges": [', _RANGE):
            self.ranges.append(_range(item))
            if len(self.ranges) > _MOST_RANGES:
                _refuse("it has too many ranges of WAL")
        if not self.ranges:
            _refuse("it has no WAL")
        digest = self._hash.hexdigest()
        if _matched(_CHECKSUM, next(lines, b""))[1].decode() != digest:
            _refuse("its checksum is wrong: it was changed")
        if next(lines, None) is not None:
            _refuse("there is more after its checksum")

    def _lines(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        rest = b""
        for block in blocks:
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                self._hash.update(line + b"\n")
                yield line
            if len(rest) > _LINE_BYTES:
                _refuse("a line is too long")
        if rest:
            _refuse("its last line is cut")


def is_inside(path: str) -> bool:
    """Whether a relative path stays below where it begins.

    >>> is_inside("base/1/1259"), is_inside("../x"), is_inside("/x"), is_inside("a//b")
    (True, False, False, False)
    """
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def check_wal(
    segments: Mapping[str, int], ranges: Sequence[WalRange], size: int
) -> None:
    """Refuses segments, with their sizes by name, that lack WAL of the ranges.

    The segment at the end of a timeline may only be there under a later timeline.
    """
    timelines = sorted({it.timeline for it in ranges})
    for each in ranges:
        later = [it for it in timelines if it >= each.timeline]
        last = max(each.start, each.end - 1)
        for number in range(each.start // size, last // size + 1):
            names = [Segment(timeline, number).name(size) for timeline in later]
            if size not in map(segments.get, names):
                text = (
                    f"the backup cannot be recovered: segment {names[0]} of its WAL is missing, or"
                    f" has not {size} bytes; take another backup"
                )
                raise BackupError(text, code="wal")


def _items(
    lines: Iterator[bytes], head: bytes, pattern: re.Pattern[bytes]
) -> Iterator[re.Match[bytes]]:
    """The items of a list, one in each line. All but the last one end with a comma."""
    if next(lines, b"") != head:
        _refuse(f"it has no line {head.decode()}")
    more: bool | None = None
    for line in lines:
        is_end = line == b"],"
        if more is is_end:
            _refuse("a comma is missing, or there is one more")
        if is_end:
            return
        more = line.endswith(b",")
        yield _matched(pattern, line.removesuffix(b","))


def _matched(pattern: re.Pattern[bytes], line: bytes) -> re.Match[bytes]:
    found = pattern.fullmatch(line)
    return found or _refuse("a line is not as PostgreSQL writes it, or is missing")


def _file(found: re.Match[bytes]) -> ManifestFile:
    text, encoded, size, algorithm, checksum = found.groups()
    try:
        if text:
            path = json.loads(text)
            path.encode()
        else:
            # A file's name may have any bytes.
            path = os.fsdecode(bytes.fromhex(encoded.decode()))
        digest = None if checksum is None else bytes.fromhex(checksum.decode())
    except ValueError:
        _refuse("a path or a checksum is not JSON in UTF-8, or not hexadecimal")
    if not is_inside(path):
        _refuse(f"the path {path!r} may leave the backup")
    name = None if algorithm is None else algorithm.decode()
    return ManifestFile(path, int(size), name, digest)


def _range(found: re.Match[bytes]) -> WalRange:
    timeline, start, end = int(found[1]), Lsn(found[2].decode()), Lsn(found[3].decode())
    if not 0 < timeline < 1 << 32 or start > end:
        _refuse("a range of WAL is empty, or has no timeline")
    return WalRange(timeline, start, end)


def _refuse(reason: str) -> NoReturn:
    text = f"cannot use the manifest: {reason}; take it from the server again"
    raise BackupError(text, code="manifest")


_VERSIONS = (1, 2)
_VERSION = re.compile(rb'\{ "PostgreSQL-Backup-Manifest-Version": ([0-9]{1,9}),')
_SYSTEM = re.compile(rb'"System-Identifier": ([0-9]{1,20}),')
_FILE = re.compile(
    rb'\{ (?:"Path": (".*")|"Encoded-Path": "([0-9a-f]+)"), "Size": ([0-9]{1,19}),'
    rb' "Last-Modified": "[^"]*"'
    rb'(?:, "Checksum-Algorithm": "([A-Z0-9]+)", "Checksum": "([0-9a-f]+)")? \}'
)
_LSN = rb'"([0-9A-F]{1,8}/[0-9A-F]{1,8})"'
_RANGE = re.compile(
    rb'\{ "Timeline": ([0-9]{1,10}), "Start-LSN": %b, "End-LSN": %b \}' % (_LSN, _LSN)
)
_CHECKSUM = re.compile(rb'"Manifest-Checksum": "([0-9a-f]{64})"\}')
#: A path in a tar archive has at most 100 bytes, which JSON may write as 600.
_LINE_BYTES = 4096
#: A backup has a range for each timeline that it has seen.
_MOST_RANGES = 1000
