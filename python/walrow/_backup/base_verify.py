"""Compares the files of a base backup with its manifest."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from walrow._backup.base_contents import MANIFEST, Found, Odd, contents, is_tar
from walrow._backup.base_manifest import Manifest, ManifestFile, parse_manifest
from walrow._backup.base_wal import SegmentFile, wal_problems
from walrow._backup.crc32c import Crc32c
from walrow._backup.wal_names import is_segment
from walrow._backup.wal_page import HEADER_BYTES
from walrow._results import Result, result
from walrow.errors import BackupError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

__all__ = ["VerifiedBackup", "check_contents", "refuse_problems", "verify_manifest"]


@result
class VerifiedBackup(Result):
    """A base backup that is what its manifest says: the result of `verify_manifest`.

    Attributes:
        path: The backup.
        format: `plain` or `tar`.
        files: The number of files.
        bytes: Their size.
        without_checksum: How many of them have only a size in the manifest.
        wal: `complete`, or `not checked`.
    """

    path: Path
    format: str
    files: int
    bytes: int
    without_checksum: int
    wal: str


class Checked(NamedTuple):
    """The contents of a backup, and its problems.

    Attributes:
        files: The number of files.
        bytes: Their size.
        problems: The differences from the manifest.
        segments: The segments of WAL.
    """

    files: int
    bytes: int
    problems: list[str]
    segments: dict[str, SegmentFile]


def verify_manifest(
    directory: str | os.PathLike[str],
    *,
    wal: bool = True,
    progress: Callable[[int], None] | None = None,
) -> VerifiedBackup:
    """Checks that a base backup is what its manifest says, and has the WAL that it needs.

    Like pg_verifybackup, it leaves out files that a server or a tool for recovery writes
    before the first start: postgresql.auto.conf, standby.signal, recovery.signal.

    ```python
    print(walrow.backup.verify_manifest("backups/monday").files)
    ```

    Args:
        directory: The backup, of either format. A plain one may lie beside its tablespaces:
            the links in pg_tblspc are followed.
        wal: Whether WAL must be there. It may be in an archive instead.
        progress: Is called with the bytes that were read since the last call.

    Raises:
        BackupError: Files are missing, changed, not in the manifest, or cannot be read. Or
            there is no manifest, or it was changed.
    """
    place = Path(directory)
    try:
        return _verify(place, wal=wal, progress=progress)
    except OSError as error:
        reason = f"{error.filename or place}: {error.strerror}; it cannot be verified"
        raise BackupError(
            reason, code="store", path=str(place), errno=error.errno
        ) from error


def _verify(
    place: Path, *, wal: bool, progress: Callable[[int], None] | None
) -> VerifiedBackup:
    form = "tar" if is_tar(place) else "plain"
    try:
        text = (place / MANIFEST).read_bytes()
    except FileNotFoundError:
        reason = f"{place} has no {MANIFEST}: nothing can be verified without it"
        raise BackupError(reason, code="manifest", path=str(place)) from None
    except OSError as error:
        error.filename = str(place / MANIFEST)
        raise
    manifest = parse_manifest(text)
    checked = check_contents(contents(place), manifest, progress=progress)
    missing = []
    if wal:
        ranges, identifier = manifest.wal_ranges, manifest.system_identifier
        missing = wal_problems(checked.segments, ranges, identifier)
    refuse_problems(place, checked.problems, missing)
    without = sum(each.algorithm is None for each in manifest.files.values())
    state = "complete" if wal else "not checked"
    return VerifiedBackup(place, form, checked.files, checked.bytes, without, state)


def refuse_problems(place: Path, problems: list[str], missing_wal: list[str]) -> None:
    """Raises an error if a backup has a problem."""
    if problems:
        more = problems + missing_wal
        text = (
            f"{place} is not what its manifest says: {_some(more)}; take another backup"
        )
        raise BackupError(text, code="damaged", path=str(place), problems=tuple(more))
    if missing_wal:
        text = (
            f"{place} cannot be recovered: {_some(missing_wal)}; put the WAL into its pg_wal,"
            " or take another backup"
        )
        raise BackupError(
            text, code="wal", path=str(place), problems=tuple(missing_wal)
        )


def _some(problems: list[str]) -> str:
    """The first problems in words."""
    rest = len(problems) - _SHOWN
    return "; ".join(problems[:_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")


def check_contents(
    files: Iterable[Found | Odd],
    manifest: Manifest | None,
    *,
    progress: Callable[[int], None] | None = None,
) -> Checked:
    """Compares files with a manifest. Without one, it only looks for WAL.

    Args:
        files: The files.
        manifest: The manifest.
        progress: Is called with the bytes that were read since the last call.
    """
    listed = manifest.files if manifest else {}
    number = size = 0
    problems: list[str] = []
    segments: dict[str, SegmentFile] = {}
    seen = set()
    for found in files:
        if isinstance(found, Odd):
            problems.append(f"{found.path!r} {found.what}")
            continue
        number, size = number + 1, size + found.size
        directory, _, name = found.path.rpartition("/")
        if directory == "pg_wal" and is_segment(name):
            head = b"".join(itertools.islice(found.blocks(), 1))[:HEADER_BYTES]
            segments[name] = SegmentFile(found.size, head)
        if manifest is None or _is_left_out(found.path):
            continue
        seen.add(found.path)
        if found.path not in listed:
            problems.append(f"{found.path!r} is not in the manifest")
        elif problem := _problem(found, listed[found.path], manifest, progress):
            problems.append(f"{found.path!r} {problem}")
    missing = (path for path in listed if path not in seen and not _is_left_out(path))
    problems += [f"{path!r} is missing" for path in missing]
    return Checked(number, size, problems, segments)


def _is_left_out(path: str) -> bool:
    return path in _LEFT_OUT or path.startswith("pg_wal/")


def _problem(
    found: Found,
    listed: ManifestFile,
    manifest: Manifest,
    progress: Callable[[int], None] | None,
) -> str | None:
    if found.size != listed.size:
        return f"has {found.size} bytes instead of {listed.size}"
    hashed = _hash(listed.algorithm)
    size, head = 0, b""
    for block in found.blocks():
        hashed.update(block)
        size += len(block)
        head = head or block[:_IDENTIFIER_BYTES]
        if progress is not None:
            progress(len(block))
    if size != listed.size:
        return f"ends after {size} of its {listed.size} bytes"
    if listed.checksum is not None and hashed.digest() != listed.checksum:
        return "has another checksum"
    identifier = manifest.system_identifier
    if found.path == _CONTROL and identifier is not None:
        # In the byte order of the server's machine.
        own = {str(int.from_bytes(head, order)) for order in ("little", "big")}
        if identifier not in own:
            return "is of another server"
    return None


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...

    def digest(self) -> bytes: ...


class _NoHash:
    def update(self, _data: bytes, /) -> None:
        pass

    def digest(self) -> bytes:
        return b""


def _hash(algorithm: str | None) -> _Hash:
    if algorithm is None:
        return _NoHash()
    return Crc32c() if algorithm == "CRC32C" else hashlib.new(algorithm.lower())


#: As in pg_verifybackup.
_LEFT_OUT = {
    MANIFEST,
    "postgresql.auto.conf",
    "recovery.signal",
    "standby.signal",
}
_CONTROL = "global/pg_control"
_IDENTIFIER_BYTES = 8
_SHOWN = 5
