"""The manifest of a base backup: a list of its files, and of the WAL that it needs.

See "Backup Manifest Format" in PostgreSQL's manual. PostgreSQL writes a line for each file.
Manifests are read line by line, so their size costs no memory. Nothing in them is believed.
"""

from __future__ import annotations

import enum
import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from walrow._backup.base.wal import WalRange
from walrow._lsn import Lsn
from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


#: The name of the manifest's file.
MANIFEST = "backup_manifest"


class ManifestFile(NamedTuple):
    """A file of a backup.

    Attributes:
        path: Its path below the data directory.
        size: Its size in bytes.
        algorithm: The algorithm of its checksum. None without one.
        checksum: The checksum.
    """

    path: str
    size: int
    algorithm: str | None
    checksum: bytes | None


class _Part(enum.Enum):
    """The next lines of a manifest."""

    VERSION = enum.auto()
    SYSTEM = enum.auto()
    FILES = enum.auto()
    RANGES = enum.auto()
    CHECKSUM = enum.auto()
    END = enum.auto()


class ManifestReader:
    """Reads a manifest as it arrives.

    Attributes:
        system_identifier: The server's. None before server 17.
        ranges: The WAL that the backup needs, up to what was read.
    """

    def __init__(self) -> None:
        """Expects the first line."""
        self.system_identifier: str | None = None
        self.ranges: list[WalRange] = []
        self._part = _Part.VERSION
        self._rest = b""
        self._hash = hashlib.sha256()
        # In a list: whether its head has been read, and whether another item must follow.
        self._in_list = self._more = False

    def feed(self, block: bytes) -> Iterator[ManifestFile]:
        """Reads a block. Yields the files whose lines are complete.

        Raises:
            BackupError: It is not a manifest that PostgreSQL writes.
        """
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            if (file := self._read(line)) is not None:
                yield file
        if len(self._rest) > _LINE_BYTES:
            _refuse("a line is too long")

    def end(self) -> None:
        """Refuses a manifest that is cut."""
        if self._part is not _Part.END or self._rest:
            _refuse("its last line is not its checksum: it may be cut")

    def _read(self, line: bytes) -> ManifestFile | None:
        if len(line) > _LINE_BYTES:
            _refuse("a line is too long")
        if self._part is not _Part.CHECKSUM:
            self._hash.update(line + b"\n")
        match self._part:
            case _Part.VERSION:
                version = int(_matched(_VERSION, line)[1])
                if version not in _VERSIONS:
                    _refuse(f"version {version} is not known")
                self._part = _Part.SYSTEM if version > 1 else _Part.FILES
            case _Part.SYSTEM:
                self.system_identifier = str(int(_matched(_SYSTEM, line)[1]))
                self._part = _Part.FILES
            case _Part.FILES:
                item = self._item(line, b'"Files": [', _Part.RANGES)
                return None if item is None else _file(item)
            case _Part.RANGES:
                item = self._item(line, b'"WAL-Ranges": [', _Part.CHECKSUM)
                if item is not None:
                    self.ranges.append(_range(item))
                if len(self.ranges) > _MOST_RANGES:
                    _refuse("it has too many ranges of WAL")
            case _Part.CHECKSUM:
                found = bytes.fromhex(_matched(_CHECKSUM, line)[1].decode())
                if found != self._hash.digest():
                    _refuse("its checksum is wrong: it was changed")
                self._part = _Part.END
            case _Part.END:
                _refuse("there is more after its checksum")
        return None

    def _item(self, line: bytes, head: bytes, following: _Part) -> Any:
        """The item of a list in a line. None for the list's first and last line."""
        if not self._in_list:
            if line != head:
                _refuse(f"a line is not {head.decode()}")
            self._in_list, self._more = True, False
            return None
        if line == b"],":
            if self._more:
                _refuse("a list ends after a comma")
            self._in_list, self._part = False, following
            return None
        self._more = line.endswith(b",")
        try:
            found = json.loads(
                line.removesuffix(b",").decode(), object_pairs_hook=_object
            )
        except (ValueError, RecursionError):
            _refuse("a line is not JSON in UTF-8")
        if not isinstance(found, dict):
            _refuse("an item of a list is not a JSON object")
        return found


def is_inside(path: str) -> bool:
    """Whether a relative path stays below where it begins.

    >>> is_inside("base/1/1259"), is_inside("../x"), is_inside("/x"), is_inside("a//b")
    (True, False, False, False)
    """
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def _matched(pattern: re.Pattern[bytes], line: bytes) -> re.Match[bytes]:
    found = pattern.fullmatch(line)
    return found or _refuse("a line is not as PostgreSQL writes it")


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        # A reader of JSON would take either.
        text = "a key is there twice"
        raise ValueError(text)
    return found


def _file(found: dict[str, Any]) -> ManifestFile:
    path = _path(found)
    size = _number(found, "Size")
    algorithm = found.get("Checksum-Algorithm")
    if algorithm is None and "Checksum" not in found:
        return ManifestFile(path, size, None, None)
    checksum = _hexadecimal(found, "Checksum")
    if _CHECKSUM_BYTES.get(str(algorithm)) != len(checksum):
        _refuse(f"{path!r} has a checksum of another algorithm")
    return ManifestFile(path, size, algorithm, checksum)


def _path(found: dict[str, Any]) -> str:
    if ("Path" in found) == ("Encoded-Path" in found):
        _refuse("a file has no path, or two")
    if "Path" in found:
        path = found["Path"]
        if not isinstance(path, str):
            _refuse("a path is not a text")
        try:
            path.encode()
        except UnicodeEncodeError:
            _refuse(f"the path {path!r} is not Unicode")
    else:
        # A file's name may have any bytes.
        path = os.fsdecode(_hexadecimal(found, "Encoded-Path"))
    if not is_inside(path):
        _refuse(f"the path {path!r} may leave the backup")
    return path


def _range(found: dict[str, Any]) -> WalRange:
    timeline = _number(found, "Timeline")
    try:
        start, end = Lsn(str(found["Start-LSN"])), Lsn(str(found["End-LSN"]))
    except (KeyError, ValueError):
        _refuse("a range of WAL has no LSNs")
    if not 0 < timeline < 1 << 32 or start > end:
        _refuse("a range of WAL is empty, or has no timeline")
    return WalRange(timeline, start, end)


def _number(found: dict[str, Any], name: str) -> int:
    value = found.get(name)
    if type(value) is not int or not 0 <= value < 1 << 64:
        _refuse(f"{name} is not a number")
    return value


def _hexadecimal(found: dict[str, Any], name: str) -> bytes:
    value = found.get(name)
    # bytes.fromhex takes spaces, too.
    if not isinstance(value, str) or not _HEXADECIMAL.fullmatch(value):
        _refuse(f"{name} is not hexadecimal")
    return bytes.fromhex(value)


def _refuse(reason: str) -> NoReturn:
    text = f"cannot use the manifest: {reason}; take it from the server again"
    raise BackupError(text, code="manifest")


_VERSIONS = (1, 2)
_VERSION = re.compile(rb'\{ "PostgreSQL-Backup-Manifest-Version": ([0-9]{1,9}),')
_SYSTEM = re.compile(rb'"System-Identifier": ([0-9]{1,20}),')
_CHECKSUM = re.compile(rb'"Manifest-Checksum": "([0-9a-f]{64})"\}')
_HEXADECIMAL = re.compile("(?:[0-9a-fA-F]{2})+")
_CHECKSUM_BYTES = {"CRC32C": 4, "SHA224": 28, "SHA256": 32, "SHA384": 48, "SHA512": 64}
#: A path in a tar archive has at most 100 bytes, which JSON may write as 600.
_LINE_BYTES = 4096
#: A backup has a range for each timeline that it has seen.
_MOST_RANGES = 1000
