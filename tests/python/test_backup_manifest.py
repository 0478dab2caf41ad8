"""Base backups without a server: manifests, archives, WAL and options, also hostile ones."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from walrow import Lsn, backup
from walrow._backup.base_manifest import WalRange, parse_manifest, without_file
from walrow._backup.base_options import BackupOptions, Place, places_of
from walrow._backup.base_parent import check_parent
from walrow._backup.base_target import PlainTarget, TarTarget
from walrow._backup.base_wal import SegmentFile, wal_problems
from walrow._backup.base_wal_files import complete_files, pack_files
from walrow._backup.crc32c import Crc32c
from walrow._core import crc32c
from walrow.errors import BackupError, OptionError

SYSTEM = 7_300_000_000_000_000_001
SEGMENT = 1 << 20


def slow_crc32c(data: bytes) -> int:
    """As RFC 3720 defines it, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # RFC 3720, B.4.
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"123456789", 0xE3069283),
        (b"", 0),
    ],
)
def test_crc32c_is_that_of_the_standard(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


@pytest.mark.parametrize("size", [1, 255, 256, 1023, 1024, 1025, 5000, 70_001])
def test_crc32c_of_every_length(size: int) -> None:
    data = bytes(it * 31 % 251 for it in range(size))
    assert crc32c(data) == slow_crc32c(data)
    cut = Crc32c()
    for at in range(0, size, 777):
        cut.update(data[at : at + 777])
    assert cut.digest() == slow_crc32c(data).to_bytes(4, "little")


def sealed(body: str) -> bytes:
    """A manifest with its own checksum."""
    checksum = hashlib.sha256(body.encode()).hexdigest()
    return f'{body}"Manifest-Checksum": "{checksum}"}}\n'.encode()


def entry(path: str, data: Any = b"", **changes: Any) -> dict[str, Any]:
    record = {
        "Path": path,
        "Size": len(data),
        "Last-Modified": "2026-11-27 01:00:00 GMT",
        "Checksum-Algorithm": "SHA256",
        "Checksum": hashlib.sha256(data).hexdigest(),
    }
    return {k: v for k, v in (record | changes).items() if v is not None}


RANGE = {"Timeline": 1, "Start-LSN": "0/100028", "End-LSN": "0/100100"}


def manifest(
    *files: dict[str, Any],
    version: Any = 2,
    system: Any = SYSTEM,
    ranges: Any = (RANGE,),
) -> bytes:
    """A manifest as servers write it."""
    listed = ",\n".join(json.dumps(each) for each in files)
    identifier = f'"System-Identifier": {json.dumps(system)},\n' if system else ""
    return sealed(
        f'{{ "PostgreSQL-Backup-Manifest-Version": {json.dumps(version)},\n{identifier}'
        f'"Files": [\n{listed}\n],\n"WAL-Ranges": {json.dumps(list(ranges))},\n'
    )


def test_a_manifest_has_what_it_says() -> None:
    found = parse_manifest(
        manifest(
            entry("PG_VERSION", b"18\n"),
            entry("x", b"", **{"Path": None, "Encoded-Path": b"caf\xe9".hex()}),
            entry("y", b"1", **{"Checksum": None, "Checksum-Algorithm": None}),
            entry("z", **{"Checksum-Algorithm": "CRC32C", "Checksum": "0a0b0c0d"}),
        )
    )
    assert (found.version, found.system_identifier) == (2, str(SYSTEM))
    # A file's name is bytes.
    assert [*found.files] == ["PG_VERSION", os.fsdecode(b"caf\xe9"), "y", "z"]
    assert (found.files["y"].algorithm, found.files["y"].checksum) == (None, None)
    assert found.files["z"].checksum == b"\n\x0b\x0c\r"
    assert found.wal_ranges == (WalRange(1, Lsn("0/100028"), Lsn("0/100100")),)
    assert parse_manifest(manifest(version=1, system=None)).system_identifier is None


HOSTILE = {
    "absolute": manifest(entry("/etc/passwd")),
    "above": manifest(entry("../x")),
    "above later": manifest(entry("base/../../x")),
    "dot": manifest(entry("./x")),
    "nothing": manifest(entry("")),
    "two slashes": manifest(entry("base//x")),
    "a directory": manifest(entry("base/")),
    "NUL": manifest(entry("a\0b")),
    "encoded above": manifest(
        entry("", **{"Path": None, "Encoded-Path": b"../x".hex()})
    ),
    "encoded absolute": manifest(
        entry("", **{"Path": None, "Encoded-Path": b"/x".hex()})
    ),
    "encoded NUL": manifest(entry("", **{"Path": None, "Encoded-Path": "00"})),
    "encoded badly": manifest(entry("", **{"Path": None, "Encoded-Path": "6 1"})),
    "encoded nothing": manifest(entry("", **{"Path": None, "Encoded-Path": ""})),
    "two paths": manifest(entry("x", **{"Encoded-Path": "61"})),
    "no path": manifest(entry("x", Path=None)),
    "a surrogate": manifest(entry("\udcff")),
    "a path of another type": manifest(entry("x", Path=1)),
    "twice": manifest(entry("x"), entry("x")),
    "twice, encoded": manifest(
        entry("a"), entry("", **{"Path": None, "Encoded-Path": "61"})
    ),
    "a negative size": manifest(entry("x", Size=-1)),
    "a size that is no number": manifest(entry("x", Size="1")),
    "a size that is true": manifest(entry("x", Size=True)),
    "a huge size": manifest(entry("x", Size=1 << 64)),
    "an unknown algorithm": manifest(entry("x", **{"Checksum-Algorithm": "MD5"})),
    "a short checksum": manifest(entry("x", Checksum="00")),
    "a checksum without its algorithm": manifest(
        entry("x", **{"Checksum-Algorithm": None})
    ),
    "a file that is no object": manifest("x"),  # type: ignore[arg-type]
    "version 3": manifest(version=3),
    "no version": manifest(version=None),
    "no system identifier": manifest(system=None),
    "a range that ends before it begins": manifest(ranges=[RANGE | {"End-LSN": "0/1"}]),
    "timeline 0": manifest(ranges=[RANGE | {"Timeline": 0}]),
    "a range without LSNs": manifest(ranges=[{"Timeline": 1}]),
    "an LSN that is none": manifest(ranges=[RANGE | {"End-LSN": "x"}]),
    "a key twice": sealed(
        '{"PostgreSQL-Backup-Manifest-Version": 1, "Files": [], "Files": [],'
        ' "WAL-Ranges": [],\n'
    ),
    "deep": sealed('{"Files": ' + "[" * 200_000 + ",\n"),
    "a number without end": sealed('{"Files": ' + "1" * 10_000 + ",\n"),
    "no object": sealed("[1,\n"),
    "empty": b"",
    "a line": b"\n",
    "not UTF-8": b'{"Files": "\xff",\n' + sealed("").removeprefix(b"\n"),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(BackupError, match="manifest") as raised:
        parse_manifest(text)
    assert raised.value.code == "manifest"


def test_every_changed_or_missing_byte_of_a_manifest_is_noticed() -> None:
    text = manifest(entry("PG_VERSION", b"18\n"))
    for at in range(len(text)):
        if text[at : at + 1].isalnum():
            changed = text[:at] + bytes([text[at] ^ 3]) + text[at + 1 :]
            with pytest.raises(BackupError):
                parse_manifest(changed)
        with pytest.raises(BackupError):
            parse_manifest(text[:at])


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_file_is_taken_out_of_a_manifest(at: int) -> None:
    entries = [entry("a", b"1"), entry("b", b"2")]
    entries.insert(at, entry("tablespace_map", b"16385 /x\n"))
    changed = without_file(manifest(*entries), "tablespace_map")
    assert [*parse_manifest(changed).files] == ["a", "b"]
    assert changed == manifest(entry("a", b"1"), entry("b", b"2"))
    assert without_file(changed, "tablespace_map") == changed


def head(number: int, timeline: int = 1, system: int = SYSTEM) -> bytes:
    """The header of a segment's first page."""
    fields = (0xD118, 2, timeline, number * SEGMENT, 0, 0, system, SEGMENT, 8192)
    return struct.pack("=HHIQIIQII", *fields)


def segment(number: int, timeline: int = 1, size: int = SEGMENT) -> SegmentFile:
    return SegmentFile(size, head(number, timeline))


ONE, TWO = "000000010000000000000001", "000000010000000000000002"
SECOND = "000000020000000000000002"


@pytest.mark.parametrize(
    ("segments", "ranges", "problem"),
    [
        ({ONE: segment(1)}, [(1, 1, 2)], None),
        # A range ends before its end.
        ({ONE: segment(1), TWO: segment(2)}, [(1, 1, 2.5)], None),
        ({ONE: segment(1)}, [(1, 1, 2.5)], f"{TWO} is missing"),
        ({TWO: segment(2)}, [(1, 1, 2.5)], f"{ONE} is missing"),
        ({}, [(1, 1, 2)], "there is no WAL"),
        ({}, [], None),
        ({ONE: segment(1, size=8192)}, [(1, 1, 2)], "has 8192 bytes instead of"),
        ({ONE: segment(2)}, [(1, 1, 2)], "has the WAL of 0/200000"),
        (
            {ONE: SegmentFile(SEGMENT, bytes(40)), TWO: segment(2)},
            [(1, 1, 2)],
            "does not begin with WAL",
        ),
        ({ONE: segment(1, timeline=2)}, [(1, 1, 2)], "of timeline 2"),
        (
            {ONE: SegmentFile(SEGMENT, head(1, system=5))},
            [(1, 1, 2)],
            "is of another server",
        ),
        # The segment of the switch may be there under the later timeline only.
        (
            {ONE: segment(1), SECOND: segment(2, 2)},
            [(1, 1, 2.5), (2, 2.5, 2.7)],
            None,
        ),
        (
            {ONE: segment(1), TWO: segment(2)},
            [(1, 1, 2.5), (2, 2.5, 2.7)],
            f"{SECOND} is missing",
        ),
    ],
)
def test_missing_wal_is_found(
    segments: dict[str, SegmentFile],
    ranges: list[tuple[int, float, float]],
    problem: str | None,
) -> None:
    wanted = [
        WalRange(timeline, Lsn(int(start * SEGMENT)), Lsn(int(end * SEGMENT)))
        for timeline, start, end in ranges
    ]
    found = wal_problems(segments, wanted, str(SYSTEM))
    assert found == [] if problem is None else problem in "; ".join(found)


FILES = {
    "PG_VERSION": b"18\n",
    "global/pg_control": SYSTEM.to_bytes(8, sys.byteorder) + bytes(100),
    "base/1/1259": b"x" * 8192,
    "pg_tblspc/16385/PG_18_202506291/5/1": b"in a tablespace",
}
#: Without checksums, as servers and others write them later.
LEFT_OUT = ("postgresql.auto.conf", "standby.signal", "recovery.signal")


def make_backup(place: Path, form: str) -> None:
    """A backup with one segment and one tablespace."""
    checksums = {"Checksum-Algorithm": "CRC32C"}
    entries = [
        entry(
            path,
            data,
            **checksums,
            Checksum=slow_crc32c(data).to_bytes(4, "little").hex(),
        )
        if path == "base/1/1259"
        else entry(path, data)
        for path, data in FILES.items()
    ]
    wal = head(1).ljust(SEGMENT, b"\0")
    contents = FILES | {f"pg_wal/{ONE}": wal}
    place.mkdir()
    (place / "backup_manifest").write_bytes(manifest(*entries))
    if form == "plain":
        for path, data in contents.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(data)
        (place / "pg_tblspc/16385").rename(place.with_name("space"))
        (place / "pg_tblspc/16385").symlink_to(place.with_name("space"))
        return
    for archive, prefix in (("base", ""), ("16385", "pg_tblspc/16385/")):
        with tarfile.open(place / f"{archive}.tar", "w") as tar:
            for path, data in contents.items():
                if path.startswith("pg_tblspc") == bool(prefix):
                    add(tar, path.removeprefix(prefix), data)


def add(tar: tarfile.TarFile, path: str, data: bytes = b"", **fields: Any) -> None:
    member = tarfile.TarInfo(path)
    member.size = len(data)
    for name, value in fields.items():
        setattr(member, name, value)
    tar.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("form", ["plain", "tar"])
def test_a_backup_is_what_its_manifest_says(tmp_path: Path, form: str) -> None:
    place = tmp_path / "b"
    make_backup(place, form)
    counted: list[int] = []
    found = backup.verify_manifest(place, progress=counted.append)
    assert found.to_dict() == {
        "path": str(place),
        "format": form,
        "files": len(FILES) + (2 if form == "plain" else 1),
        "bytes": found.bytes,
        "without_checksum": 0,
        "wal": "complete",
    }
    assert sum(counted) == sum(map(len, FILES.values()))


@pytest.mark.parametrize(
    ("path", "data", "problem"),
    [
        ("base/1/1259", b"x" * 8191 + b"y", "has another checksum"),
        ("PG_VERSION", b"19\n", "has another checksum"),
        ("base/1/1259", b"x" * 8191, "has 8191 bytes instead of 8192"),
        ("base/1/1259", None, "is missing"),
        ("pg_tblspc/16385/PG_18_202506291/5/1", None, "is missing"),
        ("base/1/1260", b"", "is not in the manifest"),
        ("pg_tblspc/16385/x", b"", "is not in the manifest"),
        (f"pg_wal/{ONE}", None, "there is no WAL"),
        *((name, b"x", None) for name in LEFT_OUT),
        ("pg_wal/00000002.history", b"x", None),
    ],
)
@pytest.mark.parametrize("form", ["plain", "tar"])
def test_a_changed_backup_is_refused(
    tmp_path: Path, form: str, path: str, data: bytes | None, problem: str | None
) -> None:
    place = tmp_path / "b"
    make_backup(place, form)
    if form == "plain":
        (place / path).unlink(missing_ok=True)
        if data is not None:
            (place / path).write_bytes(data)
    else:
        replace_in_tar(place, path, data)
    if problem is None:
        backup.verify_manifest(place)
        return
    with pytest.raises(BackupError) as raised:
        backup.verify_manifest(place)
    assert raised.value.code == ("wal" if "WAL" in problem else "damaged")
    assert [problem in each for each in raised.value.problems] == [True]
    assert path in raised.value.problems[0] or "WAL" in problem
    if raised.value.code == "wal":
        assert backup.verify_manifest(place, wal=False).wal == "not checked"


def replace_in_tar(place: Path, path: str, data: bytes | None) -> None:
    name, prefix = "base", ""
    if path.startswith("pg_tblspc/16385/"):
        name, prefix = "16385", "pg_tblspc/16385/"
    archive = place / f"{name}.tar"
    with tarfile.open(archive) as tar:
        kept = {it.name: tar.extractfile(it).read() for it in tar}  # type: ignore[union-attr]
    kept.pop(path.removeprefix(prefix), None)
    if data is not None:
        kept[path.removeprefix(prefix)] = data
    with tarfile.open(archive, "w") as tar:
        for each, contents in kept.items():
            add(tar, each, contents)


def test_other_things_in_a_backup_are_refused(tmp_path: Path) -> None:
    make_backup(tmp_path / "plain", "plain")
    os.mkfifo(tmp_path / "plain/pipe")
    (tmp_path / "plain/loop").symlink_to(tmp_path / "plain")
    (tmp_path / "plain/gone").symlink_to(tmp_path / "nowhere")
    with pytest.raises(BackupError) as raised:
        backup.verify_manifest(tmp_path / "plain")
    assert len(raised.value.problems) == 3
    make_backup(tmp_path / "tar", "tar")
    (tmp_path / "tar/readme").touch()
    with tarfile.open(tmp_path / "tar/base.tar", "a") as tar:
        add(tar, "PG_VERSION", b"18\n")
        add(tar, "link", type=tarfile.SYMTYPE, linkname="/etc/passwd")
    with pytest.raises(BackupError) as raised:
        backup.verify_manifest(tmp_path / "tar")
    assert [it.split("' ")[1] for it in raised.value.problems] == [
        "is twice in base.tar",
        "is neither a file nor a directory",
        "is not an archive of the backup",
    ]


@pytest.mark.parametrize("size", [0, 700, 5000, 20_000])
def test_a_cut_archive_is_refused(tmp_path: Path, size: int) -> None:
    make_backup(tmp_path / "b", "tar")
    os.truncate(tmp_path / "b/base.tar", size)
    with pytest.raises(BackupError) as raised:
        backup.verify_manifest(tmp_path / "b")
    assert raised.value.code == "damaged"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="Linux only")
@pytest.mark.parametrize("path", ["backup_manifest", "base/1/1259", f"pg_wal/{ONE}"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, path: str) -> None:
    make_backup(tmp_path / "b", "plain")
    file = tmp_path / "b" / path
    file.unlink()
    # Its first byte cannot be read: EIO, as from a damaged disk. Its size is 0.
    file.symlink_to("/proc/self/mem")
    if path == "base/1/1259":
        entries = [
            entry(name, data if name != path else b"") for name, data in FILES.items()
        ]
        (tmp_path / "b/backup_manifest").write_bytes(manifest(*entries))
    with pytest.raises(BackupError, match=f"{file}: Input/output error") as raised:
        backup.verify_manifest(tmp_path / "b")
    assert (raised.value.code, raised.value.errno) == ("store", errno.EIO)


def test_streamed_wal_becomes_an_archive(tmp_path: Path) -> None:
    place = tmp_path / "b"
    make_backup(place, "tar")
    replace_in_tar(place, f"pg_wal/{ONE}", None)
    with pytest.raises(BackupError, match="there is no WAL"):
        backup.verify_manifest(place)
    wal = place / "pg_wal"
    wal.mkdir()
    (wal / "_lock").touch()
    (wal / f"{ONE}.partial").write_bytes(head(1).ljust(SEGMENT, b"\0"))
    (wal / "00000002.history").write_bytes(b"1\t0/100\treason\n")
    complete_files(wal)
    pack_files(wal)
    assert not wal.exists()
    listed = subprocess.run(  # noqa: S603
        ["tar", "tvf", str(place / "pg_wal.tar")],  # noqa: S607
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert [
        (it.split()[0], it.split()[2], it.split()[-1]) for it in listed.splitlines()
    ] == [
        ("-rw-------", str(SEGMENT), ONE),
        ("-rw-------", "15", "00000002.history"),
        ("-rw-------", "0", f"archive_status/{ONE}.done"),
        ("-rw-------", "0", "archive_status/00000002.history.done"),
    ]
    assert backup.verify_manifest(place).wal == "complete"
    os.truncate(place / "pg_wal.tar", 100_000)
    with pytest.raises(BackupError, match=r"'pg_wal.tar' is cut"):
        backup.verify_manifest(place)


def test_a_directory_without_a_backup_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="neither PG_VERSION nor base"):
        backup.verify_manifest(tmp_path)
    (tmp_path / "PG_VERSION").touch()
    with pytest.raises(BackupError, match="has no backup_manifest"):
        backup.verify_manifest(tmp_path)


def test_the_system_identifier_of_pg_control_is_compared(tmp_path: Path) -> None:
    make_backup(tmp_path / "b", "plain")
    control = bytes(108)
    (tmp_path / "b/global/pg_control").write_bytes(control)
    entries = [
        entry(path, control if path.startswith("global") else data)
        for path, data in FILES.items()
    ]
    (tmp_path / "b/backup_manifest").write_bytes(manifest(*entries))
    with pytest.raises(BackupError, match="'global/pg_control' is of another server"):
        backup.verify_manifest(tmp_path / "b")


ODD_MEMBERS: dict[str, dict[str, Any]] = {
    "above": {"path": "../evil"},
    "above later": {"path": "base/../../evil"},
    "absolute": {"path": "/evil"},
    "a link": {"path": "evil", "type": tarfile.SYMTYPE, "linkname": "/etc"},
    "a link inside": {"path": "evil", "type": tarfile.SYMTYPE, "linkname": "base"},
    "a hard link": {"path": "evil", "type": tarfile.LNKTYPE, "linkname": "PG_VERSION"},
    "a device": {"path": "evil", "type": tarfile.CHRTYPE},
    "a pipe": {"path": "evil", "type": tarfile.FIFOTYPE},
}


def archive_of(*members: dict[str, Any]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        add(tar, "base", type=tarfile.DIRTYPE)
        add(tar, "PG_VERSION", b"18\n")
        for each in members:
            add(tar, **each)
    return written.getvalue()


@pytest.mark.parametrize("member", ODD_MEMBERS.values(), ids=ODD_MEMBERS)
def test_a_hostile_archive_is_not_unpacked(
    tmp_path: Path, member: dict[str, Any]
) -> None:
    (tmp_path / "b").mkdir()
    target = PlainTarget(tmp_path / "b", [])
    with pytest.raises(BackupError, match="the server sent") as raised:
        target.archive("base.tar", iter([archive_of(member)]))
    assert raised.value.code == "protocol"
    found = {str(it.relative_to(tmp_path)) for it in tmp_path.rglob("*")}
    assert found == {"b", "b/base", "b/PG_VERSION"}


def test_an_archive_with_a_file_twice_or_that_is_cut_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(FileExistsError):
        PlainTarget(tmp_path / "b", []).archive(
            "base.tar", iter([archive_of({"path": "PG_VERSION", "data": b""})])
        )
    (tmp_path / "c").mkdir()
    cut = archive_of({"path": "x", "data": b"1" * 100_000})[:50_000]
    with pytest.raises(BackupError, match="cut"):
        PlainTarget(tmp_path / "c", []).archive("base.tar", iter([cut]))


@pytest.mark.parametrize(
    "name", ["../base.tar", "/base.tar", "x.tar", "base.tar.zst", "0.tar", "pg_wal.tar"]
)
def test_an_archive_with_another_name_is_refused(tmp_path: Path, name: str) -> None:
    for target in (PlainTarget(tmp_path, []), TarTarget(tmp_path, adds_end=False)):
        with pytest.raises(BackupError, match="the name"):
            target.archive(name, iter([archive_of()]))
    with pytest.raises(BackupError, match="of no tablespace"):
        PlainTarget(tmp_path, []).archive("16385.tar", iter([archive_of()]))
    assert not [*tmp_path.iterdir()]


def test_unpacked_files_are_for_their_owner_only(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    member = {"path": "base/open", "data": b"1", "mode": 0o4777}
    # The server writes some names so, and cuts them anywhere.
    dotted = {"path": "./pg_wal/", "type": tarfile.DIRTYPE, "mode": 0o777}
    data = archive_of(member, dotted, dotted)
    cut = (data[at : at + 100] for at in range(0, len(data), 100))
    PlainTarget(tmp_path / "b", []).archive("base.tar", cut)
    modes = {it.name: it.stat().st_mode & 0o7777 for it in tmp_path.rglob("b/**/*")}
    assert modes == {"base": 0o700, "pg_wal": 0o700, "open": 0o600, "PG_VERSION": 0o600}


def options(**changes: Any) -> BackupOptions:
    usual: dict[str, Any] = {"to": "/backups/b", "format": "plain", "wal": "fetch"}
    return BackupOptions(**(usual | changes))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"format": "zip"}, "format is 'zip': it must be 'tar' or 'plain'"),
        ({"checkpoint": "now"}, "checkpoint is 'now'"),
        ({"wal": "all"}, "wal is 'all'"),
        ({"manifest": "maybe"}, "manifest is 'maybe'"),
        ({"compress": "zstd"}, "compress is gzip"),
        ({"compress": "gzip:10"}, "compress is gzip"),
        # A server takes it, and starts from no such backup.
        ({"label": "b\nSTART TIMELINE: 9"}, "label is one line"),
        ({"label": "b\udcff"}, "label is not UTF-8"),
        ({"max_rate": -1}, "max_rate is -1: it must be a number of kilobytes"),
        ({"max_rate": 1 << 40}, "max_rate is 1099511627776: it must be a number"),
        ({"manifest": "no", "manifest_checksums": "SHA256"}, "needs a manifest"),
        ({"format": "tar", "tablespaces": {"/a": "/b"}}, "format plain only"),
        ({"tablespaces": {"a": "/b"}}, "must be absolute"),
        ({"tablespaces": {"/a": "b"}}, "must be absolute"),
        ({"tablespaces": {"/a": "/backups/b/x"}}, "inside each other"),
        ({"tablespaces": {"/a": "/backups/c/../b"}}, "inside each other"),
        ({"tablespaces": {"/a": "/backups"}}, "inside each other"),
        ({"tablespaces": {"/a": "/x", "/b": "/x/y"}}, "inside each other"),
    ],
)
def test_options_that_cannot_be_are_refused(
    changes: dict[str, Any], problem: str
) -> None:
    options()
    with pytest.raises(OptionError, match=problem):
        options(**changes)


def test_a_python_without_the_filter_cannot_unpack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(tarfile, "data_filter")
    options(format="tar")
    with pytest.raises(OptionError, match=r"filter 'data'.* 3\.11\.4"):
        options()


def test_each_tablespace_has_a_directory() -> None:
    locations = {16385: "/srv/a", 16386: "/srv/b"}
    mapped = {"/srv/a/": "/new/a", "/srv/b": "/new/b/"}
    assert places_of(locations, mapped) == [
        Place(16385, "/srv/a", Path("/new/a")),
        Place(16386, "/srv/b", Path("/new/b")),
    ]
    with pytest.raises(OptionError, match="--tablespace /srv/b=NEW"):
        places_of(locations, {"/srv/a": "/new/a"})
    with pytest.raises(OptionError, match="no tablespace at /srv/c"):
        places_of(locations, mapped | {"/srv/c": "/new/c"})
    # As allow_in_place_tablespaces makes them: no directory could be given.
    with pytest.raises(OptionError, match="take the backup in format tar"):
        places_of({16385: "pg_tblspc/16385"}, {})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"timeline": 2, "history": {1: Lsn("0/100100")}}, None),
        ({"system_identifier": "5"}, "is of the server"),
        ({"position": Lsn("0/1000FF")}, "it ends at 0/100100"),
        ({"timeline": 2, "history": {1: Lsn("0/1000FF")}}, "it ends at 0/100100"),
        ({"timeline": 2}, "its timeline 1 is not in the past"),
    ],
)
def test_a_parent_is_of_the_past_of_the_same_server(
    changes: dict[str, Any], problem: str | None
) -> None:
    usual: dict[str, Any] = {
        "system_identifier": str(SYSTEM),
        "timeline": 1,
        "position": Lsn("0/100100"),
        "history": {},
    }
    found = parse_manifest(manifest())
    if problem is None:
        check_parent(Path("m"), found, **(usual | changes))
        return
    with pytest.raises(BackupError, match=problem) as raised:
        check_parent(Path("m"), found, **(usual | changes))
    assert raised.value.code == "parent"
    old = parse_manifest(manifest(version=1, system=None))
    with pytest.raises(BackupError, match="before 17"):
        check_parent(Path("m"), old, **usual)


def test_the_module_imports_nothing_optional() -> None:
    code = (
        "import sys, walrow.backup\n"
        "dir(walrow.backup), walrow.backup.verify_manifest\n"
        "print({'psycopg', 'click', 'rich', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert done.stdout == "set()\n"
