"""The manifest of a base backup: a list of its files, and of the WAL that it needs.

See "Backup Manifest Format" in PostgreSQL's manual. A manifest may come from anywhere, so
nothing in it is believed: a path never leaves the backup.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from walrow._lsn import Lsn
from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Manifest",
    "ManifestFile",
    "WalRange",
    "is_inside",
    "parse_manifest",
    "without_file",
]


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file of a backup.

    Attributes:
        path: Its path below the data directory.
        size: Its size in bytes.
        algorithm: `CRC32C`, `SHA224` to `SHA512`, or None without a checksum.
        checksum: The checksum.
    """

    path: str
    size: int
    algorithm: str | None
    checksum: bytes | None


@dataclass(frozen=True, slots=True)
class WalRange:
    """WAL that a backup needs, on one timeline."""

    timeline: int
    start: Lsn
    end: Lsn


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest whose own checksum is right.

    Attributes:
        version: 1, or from server 17 on, 2.
        system_identifier: The server's. None in version 1.
        files: The files by their paths.
        wal_ranges: The WAL that the backup needs.
    """

    version: int
    system_identifier: str | None
    files: dict[str, ManifestFile]
    wal_ranges: tuple[WalRange, ...]


def parse_manifest(text: bytes) -> Manifest:
    """Reads a manifest, and checks its checksum.

    Raises:
        BackupError: It is not a manifest, or was changed.
    """
    _check_checksum(text)
    try:
        found = json.loads(text.decode(), object_pairs_hook=_object)
    except (ValueError, RecursionError):
        _refuse("it is not JSON in UTF-8")
    if not isinstance(found, dict):
        _refuse("it is not a JSON object")
    version = _number(found, "PostgreSQL-Backup-Manifest-Version")
    if version not in _VERSIONS:
        _refuse(f"version {version} is not known")
    identifier = str(_number(found, _IDENTIFIER)) if version > 1 else None
    files: dict[str, ManifestFile] = {}
    for each in map(_file, _list(found, "Files")):
        if each.path in files:
            _refuse(f"it lists {each.path!r} twice")
        files[each.path] = each
    ranges = tuple(map(_range, _list(found, "WAL-Ranges")))
    return Manifest(version, identifier, files, ranges)


def without_file(text: bytes, path: str) -> bytes:
    """Returns a manifest without a file, and with the checksum of that.

    Args:
        text: A manifest as a server writes it: with a line for each file.
        path: The file. If the manifest does not list it, nothing changes.

    Raises:
        BackupError: It is not a manifest.
    """
    if path not in parse_manifest(text).files:
        return text
    lines = _body(text).split(b"\n")
    for at, line in enumerate(lines):
        if _path_of_line(line) == path:
            # The last one of the list has no comma.
            if not line.endswith(b","):
                lines[at - 1] = lines[at - 1].removesuffix(b",")
            del lines[at]
            body = b"\n".join(lines)
            checksum = hashlib.sha256(body).hexdigest()
            changed = body + b'"Manifest-Checksum": "' + checksum.encode() + b'"}\n'
            # A manifest that was read in another way than by its lines is refused here.
            if path not in parse_manifest(changed).files:
                return changed
    return _refuse(f"{path!r} has no line of its own")


def is_inside(path: str) -> bool:
    """Whether a relative path stays below where it begins.

    >>> is_inside("base/1/1259"), is_inside("../x"), is_inside("/x"), is_inside("a//b")
    (True, False, False, False)
    """
    parts = path.split("/")
    return "\0" not in path and not {"", ".", ".."} & set(parts)


def _check_checksum(text: bytes) -> None:
    last = text[len(_body(text)) :]
    found = _LAST_LINE.fullmatch(last)
    if found is None:
        _refuse("its last line is not its checksum: it may be cut")
    if hashlib.sha256(_body(text)).digest() != bytes.fromhex(found[1].decode()):
        _refuse("its checksum is wrong: it was changed")


def _body(text: bytes) -> bytes:
    """Everything before the last line."""
    return text[: text.rfind(b"\n", 0, max(len(text) - 1, 0)) + 1]


def _path_of_line(line: bytes) -> str | None:
    try:
        found = json.loads(line.removesuffix(b","))
        return _path(found) if isinstance(found, dict) else None
    except (ValueError, BackupError):
        return None


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        # A reader of JSON would take either.
        text = "a key is there twice"
        raise ValueError(text)
    return found


def _file(found: Any) -> ManifestFile:
    if not isinstance(found, dict):
        _refuse("a file is not a JSON object")
    path = _path(found)
    size = _number(found, "Size")
    algorithm = found.get("Checksum-Algorithm")
    if algorithm is None and "Checksum" not in found:
        return ManifestFile(path, size, None, None)
    if not isinstance(algorithm, str) or algorithm.upper() not in _CHECKSUM_BYTES:
        _refuse(f"the checksum of {path!r} has an unknown algorithm")
    algorithm = algorithm.upper()
    checksum = _hexadecimal(found, "Checksum")
    if len(checksum) != _CHECKSUM_BYTES[algorithm]:
        _refuse(f"the checksum of {path!r} has a wrong length")
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


def _range(found: Any) -> WalRange:
    if not isinstance(found, dict):
        _refuse("a range of WAL is not a JSON object")
    timeline = _number(found, "Timeline")
    try:
        start, end = Lsn(str(found["Start-LSN"])), Lsn(str(found["End-LSN"]))
    except (KeyError, ValueError):
        _refuse("a range of WAL has no LSNs")
    if not 0 < timeline < 1 << 32 or start > end:
        _refuse("a range of WAL is empty, or has no timeline")
    return WalRange(timeline, start, end)


def _list(found: dict[str, Any], name: str) -> list[Any]:
    value = found.get(name)
    if not isinstance(value, list):
        _refuse(f"{name} is not a list")
    return value


def _number(found: dict[str, Any], name: str) -> int:
    value = found.get(name)
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not 0 <= value < 1 << 64
    ):
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
_IDENTIFIER = "System-Identifier"
_HEXADECIMAL = re.compile("(?:[0-9a-fA-F]{2})+")
_LAST_LINE = re.compile(rb'\s*"Manifest-Checksum"\s*:\s*"([0-9a-fA-F]{64})"\s*\}\s*\n')
_CHECKSUM_BYTES = {"CRC32C": 4, "SHA224": 28, "SHA256": 32, "SHA384": 48, "SHA512": 64}
