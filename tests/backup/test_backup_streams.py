"""Base backups from servers that send something else: refused by name, with nothing left."""

from __future__ import annotations

import os
import struct
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from servers.scripted import (
    SYSTEM,
    Scripted,
    Session,
    manifest,
    member,
    sealed,
    unpacked,
)
from walrow import backup
from walrow._backup.base.manifest import ManifestReader
from walrow._core import crc32c
from walrow.cli.app import cli
from walrow.errors import BackupError, ConnectionLostError, ReplicationError

pytest.importorskip("psycopg")

FILES = {
    "PG_VERSION": b"18\n",
    "base/1/1259": b"x" * 8192,
    "global/pg_control": b"c" * 700,
}
WAL = "pg_wal/000000010000000000000003"
SEGMENT = {WAL: bytes(1 << 20)}
DIRECTORIES = ("base", "base/1", "global", "./pg_wal", "pg_tblspc/")
END = bytes(1024)
ERROR = b"SERROR\0VERROR\0CXX001\0Mdamage\0\0"


def archive(
    before: bytes = b"", after: bytes = b"", *, files: dict[str, bytes] = FILES
) -> bytes:
    """An archive as a server writes it, with more members."""
    made = b"".join(member(it, kind=tarfile.DIRTYPE) for it in DIRECTORIES)
    written = b"".join(member(*it) for it in (files | SEGMENT).items())
    return made + before + written + after + END


def head(
    *tablespaces: tuple[str, str], start: str = "0/300028"
) -> Callable[[Session], None]:
    def send(session: Session) -> None:
        session.rows((start, "1"))
        session.rows(*((*it, None) for it in tablespaces), (None, None, None))
        session.send(b"H", b"\0\0\0")

    return send


def named(name: str) -> Callable[[Session], None]:
    return lambda session: session.data(b"n" + name.encode() + b"\0\0")


def raw(*payloads: bytes) -> Callable[[Session], None]:
    return lambda session: [*map(session.data, payloads)].clear()


def data(content: bytes, size: int = 30_000) -> Callable[[Session], None]:
    blocks = (content[at : at + size] for at in range(0, len(content), size))
    return raw(*(b"d" + it for it in blocks))


def tail(end: str = "0/300100", timeline: str = "1") -> Callable[[Session], None]:
    def send(session: Session) -> None:
        session.send(b"c")
        session.rows((end, timeline))
        session.ready()

    return send


def close(session: Session) -> None:
    session.link.close()


def usual(
    content: bytes | None = None, listed: bytes | None = None, name: str = "base.tar"
) -> list[Callable[[Session], None]]:
    """The parts of an answer to BASE_BACKUP."""
    return [
        head(),
        named(name),
        data(archive() if content is None else content),
        raw(b"m"),
        data(manifest(FILES) if listed is None else listed),
        tail(),
    ]


def served(parts: Iterable[Callable[[Session], None]]) -> Scripted:
    def answer(session: Session) -> None:
        for part in parts:
            part(session)

    return Scripted({"BASE_BACKUP": answer})


def take(
    parts: Iterable[Callable[[Session], None]], to: Path, **options: Any
) -> backup.BaseBackup:
    usual: dict[str, Any] = {"format": "plain", "manifest_checksums": "SHA256"}
    with served(parts) as server:
        return backup.base_backup(server.dsn, to=to, **(usual | options))


def gzipped(content: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=31)
    return deflater.compress(content) + deflater.flush()


def bomb(header: bytes, size: int) -> bytes:
    """A header with so many bytes of zeros, in gzip."""
    deflater = zlib.compressobj(9, wbits=31)
    begun = deflater.compress(header)
    blocks = [deflater.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return begun + b"".join(blocks) + deflater.flush()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        # RFC 3720, B.4.
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"123456789", 0xE3069283),
    ],
)
def test_crc32c_is_that_of_the_standard(content: bytes, expected: int) -> None:
    assert crc32c(content) == crc32c(content[7:], crc32c(content[:7])) == expected


def test_a_result_is_taken_when_it_is_there() -> None:
    """libpq would wait for it with the interpreter lock."""
    from psycopg import pq

    from walrow._postgres.running import _last_result

    done = SimpleNamespace(status=pq.ExecStatus.TUPLES_OK)
    busy, results = iter([True, False, True, False]), iter([done, None])
    pgconn = SimpleNamespace(
        is_busy=lambda: next(busy),
        consume_input=lambda: None,
        get_result=lambda: next(results),
    )
    conn: Any = SimpleNamespace(pgconn=pgconn)
    waits: list[bool] = []
    assert _last_result(conn, lambda: waits.append(True)) is done
    assert (len(waits), [*busy], [*results]) == (2, [], [])


def test_what_arrives_is_what_is_written(tmp_path: Path) -> None:
    done = take(usual(), tmp_path / "plain")
    found = {
        str(it.relative_to(done.path)): it.read_bytes()
        for it in done.path.rglob("*")
        if it.is_file()
    }
    listed = manifest(FILES)
    assert found == {**FILES, **SEGMENT, "backup_manifest": listed}
    assert {it.stat().st_mode & 0o7777 for it in done.path.rglob("*")} == {0o600, 0o700}
    assert (done.files, done.bytes) == (4, sum(map(len, (FILES | SEGMENT).values())))
    assert (done.system_identifier, done.wal) == (SYSTEM, "complete")
    take(usual(), tmp_path / "tar", format="tar")
    assert (tmp_path / "tar/base.tar").read_bytes() == archive()
    assert (tmp_path / "tar/backup_manifest").read_bytes() == listed
    packed = gzipped(archive())
    take(
        usual(packed, name="base.tar.gz"),
        tmp_path / "gz",
        format="tar",
        compress="gzip",
    )
    assert (tmp_path / "gz/base.tar.gz").read_bytes() == packed


@pytest.mark.parametrize("size", [1, 511, 512, 10_000, 1 << 22])
def test_messages_may_be_cut_anywhere(tmp_path: Path, size: int) -> None:
    files = {"PG_VERSION": b"18\n", "base/1/1": b"y" * 513, "base/1/2": b""}
    content = archive(files=files).replace(member(WAL, SEGMENT[WAL]), b"")
    parts = usual(content, manifest(files))
    parts[2], parts[4] = data(content, size), data(manifest(files), size)
    assert take(parts, tmp_path / "b", wal="none").files == 3


def test_one_tar_for_a_pipe() -> None:
    with (
        served(usual()) as server,
        backup.stream_base_backup(server.dsn, manifest_checksums="SHA256") as stream,
    ):
        written = b"".join(stream.tar())
    assert unpacked(written) == {
        **FILES,
        **SEGMENT,
        "backup_manifest": manifest(FILES),
    }
    assert written.endswith(END)
    with (
        served(usual(listed=manifest(FILES | {"PG_VERSION": b"19\n"}))) as server,
        backup.stream_base_backup(server.dsn, manifest_checksums="SHA256") as stream,
    ):
        blocks: list[bytes] = []
        with pytest.raises(BackupError, match="'PG_VERSION' has another checksum"):
            blocks.extend(stream.tar())
    # A reader of the tar notices that, too.
    assert b"backup_manifest" not in b"".join(blocks)


def test_members_are_handed_out_as_they_arrive() -> None:
    with (
        served(usual()) as server,
        backup.stream_base_backup(server.dsn, manifest_checksums="SHA256") as stream,
    ):
        archives = stream.archives()
        base = next(archives)
        found = {it.path: b"".join(it.blocks()) for it in base.members() if it.is_file}
        assert stream.end_lsn is None
        assert b"".join(stream.manifest()) == manifest(FILES)
    assert found == FILES | SEGMENT
    assert (base.name, [*archives]) == ("base.tar", [])
    assert str(stream.end_lsn) == "0/300100"


def resized(size: bytes) -> bytes:
    """A file with another size in its header."""
    header = bytearray(member("base/big", b"x"))
    header[124:136], header[148:156] = size, b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    return bytes(header)


OTHER: dict[str, tuple[bytes, str]] = {
    "above": (member("../evil", b"x"), "'../evil', which is a path that may leave"),
    "above later": (member("base/../../evil", b"x"), "a path that may leave"),
    "absolute": (member("/evil", b"x"), "'/evil', which is a path that may leave"),
    "nothing": (member("", b"x"), "'', which is a path"),
    "two slashes": (member("base//1", b"x"), "a path that may leave"),
    "a link": (member("evil", kind=tarfile.SYMTYPE, linkname="/etc"), "the type '2'"),
    "a tablespace's link": (
        member("pg_tblspc/9", kind=tarfile.SYMTYPE, linkname="/etc"),
        "'pg_tblspc/9', which has the type '2'",
    ),
    **{
        f"type {kind}": (
            member("evil", content, kind.encode(), linkname="PG_VERSION"),
            f"the type '{kind}'",
        )
        for kinds, content in (("13467", b""), ("SL", b"x"), ("xg", b"11 path=../x\n"))
        for kind in kinds
    },
    "a split name": (member(f"{'d' * 90}/{'f' * 90}", b"x"), "not a tar archive"),
    "an old header": (
        tarfile.TarInfo("evil").tobuf(tarfile.GNU_FORMAT),
        "not a tar archive",
    ),
    "a wrong checksum": (member("evil").replace(b"evil", b"evim"), "not a tar archive"),
    "no directory": (member("a/b", b"x"), "'a/b' before its directory"),
    "a file below a file": (member("PG_VERSION/x", b"x"), "before its directory"),
    "a directory with content": (member("d", b"x", tarfile.DIRTYPE), "no valid size"),
    "a directory for a file": (
        member("x", b"x") + member("x", kind=tarfile.DIRTYPE),
        "'x' twice",
    ),
    "a file for a directory": (member("base", b"x"), "'base' twice"),
    "the manifest": (member("backup_manifest", b"{}"), "'backup_manifest' twice"),
    "a file twice": (member("PG_VERSION", b"18\n"), "'PG_VERSION' twice"),
    "a larger size": (resized(b"00077777777\0"), "'base/big', which is cut"),
    "512 TiB": (
        resized(b"\x80" + (1 << 49).to_bytes(11, "big")),
        "'base/big', which is cut",
    ),
    "a size below zero": (resized(b"\xff" * 12), "size"),
    "no number": (resized(b"x" * 12), "not a tar"),
}


@pytest.mark.parametrize("form", ["plain", "tar"])
@pytest.mark.parametrize("name", OTHER)
def test_members_that_postgresql_never_writes(
    tmp_path: Path, name: str, form: str
) -> None:
    content, problem = OTHER[name]
    with pytest.raises(BackupError) as raised:
        take(usual(archive(content)), tmp_path / "b", format=form)
    assert problem in str(raised.value)
    assert "base.tar" in str(raised.value) or "twice" in problem or "before" in problem
    assert raised.value.code == "protocol"
    assert not [*tmp_path.iterdir()]


DAMAGED: dict[str, tuple[list[Callable[[Session], None]], str]] = {
    "cut": (usual(archive()[:-9000]), "protocol: which is cut"),
    "cut in a header": (usual(archive()[:700]), "protocol: which is cut"),
    "cut end": (usual(archive()[:-512]), "protocol: which is cut"),
    "data after the end": (usual(archive() + b"x" * 512), "protocol: after its end"),
    "zeros without end": (usual(archive() + bytes(1 << 20)), "protocol: after its end"),
    "nothing of tar": (usual(os.urandom(5000)), "protocol: not a tar archive"),
    "a changed file": (
        usual(archive(files=FILES | {"base/1/1259": b"y" * 8192})),
        "damaged: 'base/1/1259' has another checksum",
    ),
    "a shorter file": (
        usual(archive(files=FILES | {"base/1/1259": b"y"})),
        "damaged: 'base/1/1259' has 1 bytes instead of 8192",
    ),
    "another file": (
        usual(archive(after=member("more", b"x"))),
        "damaged: 'more' is not in the manifest",
    ),
    "a missing file": (
        usual(listed=manifest(FILES | {"base/1/2": b""})),
        "damaged: 'base/1/2' is missing",
    ),
    "another algorithm": (
        usual(listed=manifest(FILES, algorithm="CRC32C")),
        "damaged: no checksum of SHA256",
    ),
    "another server": (
        usual(listed=manifest(FILES, system="5")),
        "manifest: of another",
    ),
    "other WAL": (
        usual(listed=manifest(FILES, wal=("0/300028", "0/300200"))),
        "manifest: about other WAL",
    ),
    "another timeline": (
        [*usual()[:-1], tail(timeline="2")],
        "manifest: about other WAL",
    ),
    "WAL without end": (
        [
            *usual(listed=manifest(FILES, wal=("0/300028", "FFFFFFFF/FFFFFFFF")))[:-1],
            tail("FFFFFFFF/FFFFFFFF"),
        ],
        "wal: segment 000000010000000000000004 of its WAL is missing",
    ),
    "a short segment": (
        usual(archive().replace(member(WAL, SEGMENT[WAL]), member(WAL))),
        "wal: has not 1048576 bytes",
    ),
    "a name with a path": (
        [head(), named("../base.tar")],
        "protocol: did not announce",
    ),
    "a compressed archive": (
        usual(gzipped(archive()), name="base.tar.gz"),
        "protocol: 'base.tar.gz', which it did not announce",
    ),
    "an archive twice": (
        [*usual()[:3], named("base.tar")],
        "protocol: 'base.tar', which it did not announce",
    ),
    "a tablespace's": ([head(), named("16385.tar")], "protocol: did not announce"),
    "no archive": ([head(), *usual()[3:]], "protocol: no archive base.tar"),
    "no manifest": ([*usual()[:3], tail()], "protocol: no manifest"),
    "two manifests": (
        [*usual()[:5], *usual()[3:]],
        "protocol: more after the manifest",
    ),
    "data without name": ([head(), data(archive()), tail()], "protocol: no archive"),
    "only the start": ([lambda s: s.rows(("0/1", "1")), Session.ready], "protocol: "),
    "no COPY": ([Session.ready], "protocol: it may be a proxy"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_other_answers_are_refused(tmp_path: Path, name: str) -> None:
    parts, expected = DAMAGED[name]
    code, _, problem = expected.partition(": ")
    with pytest.raises(BackupError) as raised:
        take(parts, tmp_path / "b")
    assert raised.value.code == code
    assert problem in str(raised.value)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([head(start="x")], "recptr is not an LSN"),
        (
            [lambda s: s.rows(("0/1", "1"), ("0/1", "1")), Session.ready],
            "2 rows instead of one",
        ),
        ([head(), raw(b"q1")], "kind 0x71"),
        ([head(), raw(b"nbase.tar")], "archive name is not terminated"),
        ([head(), raw(b"p1")], "bytes done needs 8 bytes"),
        (
            [*usual()[:2], data(archive()[:3000]), lambda s: s.send(b"E", ERROR)],
            "damage",
        ),
        ([*usual()[:2], data(archive()[:3000]), close], "the connection broke"),
        (
            [*usual()[:2], lambda s: s.link.sendall(b"d\xff\xff\xff\xff"), close],
            "broke",
        ),
    ],
)
def test_errors_of_the_server_come_first(
    tmp_path: Path, parts: Any, problem: str
) -> None:
    """And not that an archive is cut."""
    with pytest.raises(ReplicationError, match=problem):
        take(parts, tmp_path / "b")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (gzipped(archive())[:-20], "gzip that is cut"),
        (gzipped(archive()) + b"x", "after the end of gzip"),
        (
            gzipped(archive()[:1024]) + gzipped(archive()[1024:]),
            "after the end of gzip",
        ),
        (archive(), "not gzip"),
        # Each of these is some KB, and claims or has much more.
        (bomb(member("x", kind=tarfile.XHDTYPE, size=3 << 30), 1 << 26), "type 'x'"),
        (
            bomb(member("x", kind=tarfile.GNUTYPE_LONGNAME, size=3 << 30), 1 << 26),
            "'L'",
        ),
        (bomb(archive(), 1 << 26), "after its end"),
    ],
    ids=["cut", "more", "twice", "none", "pax", "long name", "zeros"],
)
@pytest.mark.parametrize("form", ["plain", "tar"])
def test_gzip_that_is_none_or_would_not_end(
    tmp_path: Path, content: bytes, problem: str, form: str
) -> None:
    parts = usual(content, name="base.tar.gz")
    with pytest.raises(BackupError, match=problem):
        take(parts, tmp_path / "b", format=form, compress="gzip")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("word", "row", "problem"),
    [
        # It would come again and again.
        ("IDENTIFY_SYSTEM", None, "the server began a COPY"),
        # Following it would leave a gap.
        ("START_REPLICATION", ("2", "0/300001"), "before it only up to 0/300000"),
        ("START_REPLICATION", ("1", "0/300000"), "timeline 1 follows timeline 1"),
        (
            "IDENTIFY_SYSTEM",
            (SYSTEM, "0", "0/300028", "x"),
            "timeline 0, which does not",
        ),
        ("SHOW", ("0",), "wal_segment_size is not a power of 2"),
        ("SHOW", ("3MB",), "wal_segment_size is not a power of 2"),
        ("SHOW", ("2GB",), "wal_segment_size is not a power of 2"),
    ],
)
def test_a_server_whose_wal_cannot_be_followed(
    tmp_path: Path, word: str, row: tuple[str, ...] | None, problem: str
) -> None:
    def answer(session: Session) -> None:
        if row is None:
            session.send(b"H", b"\0\0\0")
        else:
            session.rows(row)
            session.ready()

    with (
        Scripted({word: answer}) as server,
        pytest.raises((BackupError, ReplicationError), match=problem),
    ):
        backup.receive_wal(server.dsn, to=tmp_path / "wal", until="now", start_within=0)
    assert {it.name for it in tmp_path.rglob("*")} == {"wal", "_lock"}


@pytest.mark.parametrize("content", ["", "# 1\n", "1\t0/200000\tx\n2\t0/300000\tx\n"])
def test_a_history_that_does_not_lead_to_its_timeline(
    tmp_path: Path, content: str
) -> None:
    scripts = {
        "IDENTIFY_SYSTEM": (SYSTEM, "2", "0/300028", "x"),
        "TIMELINE_HISTORY": ("00000002.history", content),
    }

    def answer(row: tuple[str, ...]) -> Callable[[Session], None]:
        return lambda session: (session.rows(row), session.ready())[0]  # type: ignore[func-returns-value]

    with (
        Scripted({word: answer(row) for word, row in scripts.items()}) as server,
        pytest.raises(ReplicationError, match=r"history of timeline 2: .* of another"),
    ):
        backup.receive_wal(server.dsn, to=tmp_path / "wal", until="now", start_within=0)
    assert {it.name for it in tmp_path.rglob("*")} == {"wal", "_lock"}


def test_notices_of_the_server_are_shown(tmp_path: Path) -> None:
    def warn(session: Session) -> None:
        text = b"checksum verification failed in file base/1/1259"
        session.send(b"N", b"SWARNING\0VWARNING\0C01000\0M" + text + b"\0Hlook\0\0")

    expected = "WARNING: checksum verification failed in file base/1/1259; look"
    parts = [*usual()[:2], warn, *usual()[2:]]
    assert take(parts, tmp_path / "b").notices == (expected,)
    assert take(usual(), tmp_path / "c").notices == ()
    words = ["backup", "base", "--format", "plain", "--manifest-checksums", "SHA256"]
    with served(parts) as server:
        for quiet, shown in (([], True), (["--quiet"], False)):
            place = str(tmp_path / f"of-cli-{shown}")
            given = [*words, "--dsn", server.dsn, "--to", place, *quiet]
            result = CliRunner().invoke(cli, given)
            assert result.exit_code == 0, result.output
            said = f"walrow: the server says: {expected}\n" in result.stderr
            assert said == shown
            assert bool(result.stderr) == shown


def lines(*changed: tuple[str, str]) -> bytes:
    """A manifest with other text, and the right checksum of that."""
    text = manifest(FILES).decode()
    body = text[: text.index('"Manifest-Checksum"')]
    for old, new in changed:
        assert old in body
        body = body.replace(old, new, 1)
    return sealed(body)


MANIFESTS = {
    "empty": b"",
    "a line": b"\n",
    "cut": manifest(FILES)[:-50],
    "without its last line end": manifest(FILES)[:-1],
    "changed": manifest(FILES).replace(b"01:00:00", b"01:00:01", 1),
    "more": manifest(FILES) + b"\n",
    "version 3": lines(('Version": 2', 'Version": 3')),
    "no system identifier": lines((f'"System-Identifier": {SYSTEM},\n', "")),
    "absolute": lines(('"PG_VERSION"', '"/etc/passwd"')),
    "above": lines(('"PG_VERSION"', '"../x"')),
    "above, written in another way": lines(('"PG_VERSION"', '"\\u002e./x"')),
    "a surrogate": lines(('"PG_VERSION"', '"\\udcff"')),
    "NUL": lines(('"PG_VERSION"', '"\\u0000"')),
    "encoded above": lines(('"Path": "PG_VERSION"', '"Encoded-Path": "2e2e2f78"')),
    "encoded badly": lines(('"Path": "PG_VERSION"', '"Encoded-Path": "6"')),
    "two paths": lines(('"PG_VERSION"', '"PG_VERSION", "Path": "x"')),
    "a size below zero": lines(('"Size": 3', '"Size": -3')),
    "a huge size": lines(('"Size": 3', f'"Size": {10**30}')),
    "no comma": lines((" },\n{", " }\n{")),
    "a comma more": lines((" }\n],", " },\n],")),
    "no list of files": lines(('"Files": [', '"Fils": [')),
    "an object in an object": lines(('"Size": 3', '"Size": {"a": 3}')),
    "a line without end": manifest(FILES)[:200] + b"x" * (8 << 20),
    "timeline 0": lines(('"Timeline": 1', '"Timeline": 0')),
    "a range that ends before it begins": lines(('"0/300100"', '"0/1"')),
    "many ranges": lines(
        (
            '{ "Timeline"',
            '{ "Timeline": 1, "Start-LSN": "0/1", "End-LSN": "0/1" },\n' * 1001
            + '{ "Timeline"',
        )
    ),
    "not UTF-8": manifest(FILES).replace(b"PG_VERSION", b"PG_VERSIO\xff"),
}


def read(listed: bytes, size: int = 100) -> list[str]:
    blocks = (listed[at : at + size] for at in range(0, len(listed), size))
    return [it.path for it in ManifestReader().files(blocks)]


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_that_postgresql_does_not_write(name: str) -> None:
    assert read(lines()) == [*FILES]
    with pytest.raises(BackupError, match="manifest") as raised:
        read(MANIFESTS[name])
    assert raised.value.code == "manifest"


def test_every_changed_or_missing_byte_of_a_manifest_is_noticed(tmp_path: Path) -> None:
    listed = manifest({"PG_VERSION": b"18\n"})
    assert read(listed, 1) == read(listed, 1000) == ["PG_VERSION"]
    for at in range(len(listed)):
        for changed in (
            listed[:at],
            listed[:at] + bytes([listed[at] ^ 1]) + listed[at + 1 :],
        ):
            with pytest.raises(BackupError):
                read(changed)
    with pytest.raises(BackupError, match="may leave the backup"):
        take(usual(listed=MANIFESTS["above"]), tmp_path / "b")
    assert not [*tmp_path.iterdir()]


def test_names_with_any_bytes_and_an_old_manifest(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    listed = manifest({"x": b"1"}, system=None)
    body = listed[: listed.index(b'"Manifest-Checksum"')].decode()
    encoded = body.replace('"Path": "x"', '"Encoded-Path": "636166e9"')
    content = member(name, b"1") + END
    done = take(usual(content, sealed(encoded)), tmp_path / "b", wal="none")
    assert (done.path / name).read_bytes() == b"1"


def test_a_tablespace_goes_to_its_own_directory(tmp_path: Path) -> None:
    link = member("pg_tblspc/16385/", kind=tarfile.SYMTYPE, linkname="/srv/a")
    place = member("PG_18", kind=tarfile.DIRTYPE) + member("PG_18/5", b"five") + END
    listed = manifest(FILES | {"pg_tblspc/16385/PG_18/5": b"five"})
    spaces = head(("16385", "/srv/a"))
    own = [spaces, named("16385.tar"), data(place)]
    new = str(tmp_path / "new")
    parts = [*own, *usual(archive(link), listed)[1:]]
    done = take(parts, tmp_path / "b", tablespaces={"/srv/a/": new})
    assert (done.path / "pg_tblspc/16385").readlink() == tmp_path / "new"
    assert (tmp_path / "new/PG_18/5").read_bytes() == b"five"
    assert done.tablespaces == {"/srv/a": tmp_path / "new"}
    taken = {it.name for it in tmp_path.iterdir()}
    for broken, problem in (
        ([*own, *usual(archive(), listed)[1:]], "no link 'pg_tblspc/16385'"),
        ([*own, *usual(archive(link + link), listed)[1:]], "the type '2'"),
        ([spaces, *usual(archive(link))[1:]], "no archive 16385.tar"),
        # Through the link, it would be written elsewhere.
        (
            [*own, *usual(archive(link + member("pg_tblspc/16385/x", b"x")))[1:]],
            "'pg_tblspc/16385/x' before its directory",
        ),
        (
            [
                *own,
                *usual(archive(member("pg_tblspc/16385", kind=tarfile.DIRTYPE)))[1:],
            ],
            "'pg_tblspc/16385' twice",
        ),
    ):
        with pytest.raises(BackupError, match=problem):
            take(broken, tmp_path / "c", tablespaces={"/srv/a": str(tmp_path / "d")})
        assert {it.name for it in tmp_path.iterdir()} == taken
    # As tar, there is a map in the archive instead of links.
    parts = [*own, *usual(archive(), listed)[1:]]
    done = take(parts, tmp_path / "tar", format="tar")
    assert done.tablespaces == {"/srv/a": tmp_path / "tar/16385.tar"}


def test_progress_is_the_servers_or_counted(tmp_path: Path) -> None:
    found: list[tuple[int, int | None]] = []
    parts = usual()
    parts.insert(3, raw(b"p" + struct.pack(">q", 77)))
    take(parts, tmp_path / "b", progress=lambda *it: found.append(it))
    assert found[0] == (0, None)
    assert found[1] == (30_000, None)
    assert found[-1] == (77, None)


def test_a_claimed_size_takes_no_memory(tmp_path: Path) -> None:
    """A file of 512 TiB is written as it arrives, until the server ends."""
    begun = archive()[: -len(END)] + resized(b"\x80" + (1 << 49).to_bytes(11, "big"))
    more = raw(*[b"d" + bytes(1 << 20)] * 50)
    tracemalloc.start()
    with pytest.raises(ConnectionLostError):
        take([head(), named("base.tar"), data(begun), more, close], tmp_path / "b")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20 << 20
    assert not [*tmp_path.iterdir()]
