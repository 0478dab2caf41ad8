"""The comparison of a backup with a log: its pure parts, beside slow ones."""

from __future__ import annotations

import io
import os
import shlex
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walrow import Lsn
from walrow._backup.against_items import ComparedTable, Comparison
from walrow._backup.against_rules import (
    Branch,
    absence,
    columns_of,
    end_of,
    monetary_locale,
    parse_history,
    timeline_problem,
    unknown_tables,
    unpublished,
)
from walrow._backup.base_manifest import Manifest, WalRange
from walrow._backup.comparing import (
    BUCKETS,
    Buckets,
    Found,
    Row,
    Rows,
    chosen_buckets,
    differences,
    hash_and_bucket,
    row_text,
)
from walrow._backup.programs import parse_control
from walrow._backup.scratch_copy import archives_of, copy_backup, read_origin
from walrow._backup.scratch_settings import Recovery, configuration
from walrow._backup.scratch_tables import Column, ScratchTable
from walrow._backup.state_rows import bucket_rows
from walrow.errors import BackupError

CELLS = st.one_of(
    st.none(), st.sampled_from(["", "NULL", "'", "\\", ",", "E'", "a", "b"]), st.text()
)
ROWS = st.lists(st.tuples(st.integers(0, 8).map(str), CELLS, CELLS), max_size=12)
Table = list[tuple[str | None, ...]]


@given(st.lists(CELLS, max_size=4), st.lists(CELLS, max_size=4))
def test_no_two_rows_have_the_same_text(
    one: list[str | None], other: list[str | None]
) -> None:
    # The columns of a table are the same in both.
    if len(one) == len(other):
        assert (row_text(one) == row_text(other)) == (one == other)


def keyed(rows: Table, *, has_key: bool) -> list[tuple[int, int, Any]]:
    """Bucket, hash and key, as both sides have them."""
    found = []
    for row in rows:
        hash_, bucket = hash_and_bucket(row_text(row))
        if has_key:
            _, bucket = hash_and_bucket(row_text(row[:1]))
        found.append((bucket, hash_, row[:1] if has_key else None))
    return found


def sums(rows: list[tuple[int, int, Any]]) -> Buckets:
    found = Buckets()
    for bucket, hash_, _ in rows:
        found.add(bucket, hash_)
    return found


def slowly(one: Table, other: Table, *, has_key: bool) -> list[Found]:
    """The differences, with all rows of both tables."""
    only_one, only_other = Counter(one) - Counter(other), Counter(other) - Counter(one)
    if not has_key:
        counts = {"missing": only_one.total(), "extra": only_other.total()}
        return [Found(kind, None, n) for kind, n in counts.items() if n]  # type: ignore[arg-type]
    mine, theirs = {row[0] for row in only_one}, {row[0] for row in only_other}
    return [
        Found(
            "different"
            if key in mine & theirs
            else "missing"
            if key in mine
            else "extra",
            (key,),
            1,
        )
        for key in sorted(mine | theirs, key=lambda it: (len(it or ""), it or ""))
    ]


@given(one=ROWS, other=ROWS, has_key=st.booleans())
def test_buckets_find_what_a_slow_comparison_finds(
    one: Table, other: Table, *, has_key: bool
) -> None:
    mine, theirs = keyed(one, has_key=has_key), keyed(other, has_key=has_key)
    differing = sums(mine).differing(sums(theirs))
    buckets = chosen_buckets(differing, sums(mine), sums(theirs), 1000)
    assert buckets == differing
    found = differences(
        bucket_rows(iter(mine), set(buckets)), bucket_rows(iter(theirs), set(buckets))
    )
    assert found == slowly(one, other, has_key=has_key)
    assert bool(differing) == (Counter(one) != Counter(other))


@given(ROWS, ROWS, st.integers(0, 10))
def test_some_buckets_find_some_of_it(one: Table, other: Table, most: int) -> None:
    mine, theirs = keyed(one, has_key=True), keyed(other, has_key=True)
    differing = sums(mine).differing(sums(theirs))
    buckets = chosen_buckets(differing, sums(mine), sums(theirs), most)
    assert buckets == differing[: len(buckets)]
    assert bool(buckets) == bool(differing)
    rows = [
        bucket_rows(iter(side), set(buckets)).total()
        for side in (mine, theirs)
        if len(buckets) > 1
    ]
    assert sum(rows) <= most
    found = differences(
        bucket_rows(iter(mine), set(buckets)), bucket_rows(iter(theirs), set(buckets))
    )
    everything = slowly(one, other, has_key=True)
    assert set(found) <= set(everything)
    assert bool(found) == bool(everything)


def test_a_hash_is_of_64_bits_and_a_bucket_of_12() -> None:
    # SHA-256 of "", as FIPS 180-4 gives it: e3b0c44298fc1c14 9afb…
    assert hash_and_bucket("") == (0xE3B0C44298FC1C14 - 2**64, 0x9AFB % BUCKETS)


def test_keys_are_in_the_order_of_numbers() -> None:
    rows = Rows([Row((text,), 1) for text in ("10", "9", "100")])
    assert [it.key for it in differences(rows, Rows())] == [("9",), ("10",), ("100",)]


@pytest.mark.parametrize(
    ("log", "backup", "history", "words"),
    [
        ((None, None), 3, [], None),
        ((1, None), 1, [], None),
        # The server was promoted after the backup, and the log has that.
        ((2, "0/90"), 1, [], None),
        ((2, "0/50"), 1, [], None),
        ((2, "0/40"), 1, [], "the log went on at 0/40 on timeline 2"),
        ((1, None), 2, [(1, "0/30")], "went on at 0/30 on timeline 2, and the log was"),
        ((1, None), 2, [], "went on on timeline 2"),
        ((2, "0/30"), 2, [(1, "0/30")], None),
        ((2, "0/20"), 2, [(1, "0/30")], "timeline 2 began at 0/20 in the log, and at"),
        ((2, None), 2, [(1, "0/30")], None),
    ],
)
def test_histories(
    log: tuple[int | None, str | None],
    backup: int,
    history: list[tuple[int, str]],
    words: str | None,
) -> None:
    timeline, start = log
    branches = [Branch(number, Lsn(end)) for number, end in history]
    began = None if start is None else Lsn(start)
    found = timeline_problem(timeline, began, backup, branches, Lsn("0/50"))
    assert (found is None) == (words is None)
    assert words is None or words in (found or "")


def test_a_history_file() -> None:
    text = "1\t0/3000028\tno recovery target specified\n\n2\t0/5A\tbefore 2026\n"
    assert parse_history(text) == [Branch(1, Lsn("0/3000028")), Branch(2, Lsn("0/5A"))]


def test_the_end_of_a_backup() -> None:
    ranges = (
        WalRange(2, Lsn("0/30"), Lsn("1/9")),
        WalRange(1, Lsn("0/8"), Lsn("0/30")),
    )
    found = end_of(Manifest(1, None, {}, ranges))
    assert (found.timeline, found.lsn) == (2, Lsn("1/9"))
    assert [it.timeline for it in found.ranges] == [1, 2]
    with pytest.raises(BackupError, match="does not say where the backup ends"):
        end_of(Manifest(1, None, {}, ()))


def test_what_is_not_published() -> None:
    whole = {"filters": [], "memberships": [["", "", "iu"], ["", "", "dt"]]}
    assert unpublished(None) is None
    assert unpublished(whole) is None
    assert unpublished({**whole, "filters": ["(id > 5)"]}) is not None
    part = {"filters": [], "memberships": [["", "", "iu"]]}
    words = "the publication does not publish delete and truncate"
    assert unpublished(part) == words


def test_tables_that_a_backup_lacks() -> None:
    not_later = {"is_later": False, "is_replaced": False}
    assert absence(5, {5: {}}, is_later=True, is_replaced=False) == "later"
    assert absence(5, {5: {}}, **not_later) == "missing"
    assert absence(5, {}, **not_later) == "dropped"
    assert absence(5, None, **not_later) == "missing"
    assert absence(5, None, is_later=False, is_replaced=True) == "dropped"


def test_columns_that_are_compared() -> None:
    columns = [
        Column("id", "id", is_generated=False, is_money=False),
        Column("twice", "twice", is_generated=True, is_money=False),
        Column("secret", "secret", is_generated=False, is_money=False),
        Column("price", "price", is_generated=False, is_money=True),
    ]
    found, out = columns_of(["price", "id", "old"], columns, has_money=True)
    assert [it.name for it in found] == ["price", "id"]
    assert {it.column: it.reason for it in out} == {
        "twice": "its values are generated",
        "secret": "the log does not have it",
        "old": "the backup does not have it",
    }
    found, out = columns_of(["price", "id"], columns, has_money=False)
    assert [it.name for it in found] == ["id"]
    assert "price" in {it.column for it in out}


def test_tables_that_a_log_lacks() -> None:
    def table(oid: int, name: str, kind: str = "r", parent: int | None = None) -> Any:
        return ScratchTable(oid, name, name, kind, "p", parent, False)

    tables = [
        table(1, "a"),
        table(2, "b"),
        table(3, "root", "p"),
        table(4, "leaf", "r", 3),
        table(5, "other_root", "p"),
        table(6, "other_leaf", "r", 5),
    ]
    found = unknown_tables({it.oid: it for it in tables}, {1, 3})
    assert found == ["b", "other_leaf"]


def test_the_locale_of_money() -> None:
    assert monetary_locale([]) == "C"
    conf = "#lc_monetary = 'x'\n  LC_Monetary 'de_DE.utf8'  # of initdb\nport = 1\n"
    assert monetary_locale([conf]) == "de_DE.utf8"
    assert monetary_locale([conf, "lc_monetary = C\n"]) == "C"


def test_control_data() -> None:
    text = """\
Database system identifier:           7712662359284178161
Latest checkpoint's TimeLineID:       2
max_connections setting:              50
max_worker_processes setting:         8
max_wal_senders setting:              20
max_prepared_xacts setting:           20
max_locks_per_xact setting:           64
"""
    found = parse_control(text)
    assert (found.system_identifier, found.timeline) == ("7712662359284178161", 2)
    assert found.settings["max_prepared_transactions"] == 20
    with pytest.raises(ValueError, match="max_wal_senders"):
        parse_control(text.replace("max_wal_senders", "other"))


def test_a_path_is_quoted_in_the_restore_command(tmp_path: Path) -> None:
    wal = tmp_path / "a 'b' 100%"
    wal.mkdir()
    (wal / "1").write_text("whole")
    (wal / "2.partial").write_text("partial")
    text = "max_connections setting: 1\n"
    control = parse_control(
        "Database system identifier: 1\nLatest checkpoint's TimeLineID: 1\n"
        + "".join(
            text.replace("connections", it)
            for it in (
                "connections",
                "worker_processes",
                "wal_senders",
                "prepared_xacts",
                "locks_per_xact",
            )
        )
    )
    recovery = Recovery(None, None, wal, Lsn(0))
    command = configuration(control, recovery, tmp_path)["restore_command"]
    for name in ("1", "2"):
        target = tmp_path / f"copy of {name}"
        # As PostgreSQL replaces them.
        run = command.replace("%%", "\0").replace("%f", name)
        run = run.replace("%p", shlex.quote(str(target))).replace("\0", "%")
        assert os.system(run) == 0  # noqa: S605
        assert target.exists()


def a_backup(place: Path) -> Path:
    (place / "base" / "1").mkdir(parents=True)
    for name in ("PG_VERSION", "base/1/1259"):
        (place / name).write_text("18\n")
    (place / "backup_label").write_text("START WAL LOCATION: 0/2000028\n")
    return place


def test_a_copy_shares_nothing_with_a_plain_backup(tmp_path: Path) -> None:
    backup, scratch = a_backup(tmp_path / "backup"), tmp_path / "scratch"
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "PG_18").mkdir(parents=True)
    (elsewhere / "PG_18" / "1").write_text("of a tablespace")
    (backup / "pg_tblspc").mkdir()
    (backup / "pg_tblspc" / "16400").symlink_to(elsewhere)
    (backup / "pg_wal").symlink_to(elsewhere)
    (backup / "link").symlink_to("/etc/passwd")
    for name in ("standby.signal", "postgresql.auto.conf", "postmaster.pid"):
        (backup / name).write_text("primary_conninfo = 'host=primary'")
    scratch.mkdir()
    told: list[tuple[int, int]] = []
    data = copy_backup(backup, scratch, progress=lambda *it: told.append(it))
    assert sorted(it.name for it in data.iterdir()) == [
        *("PG_VERSION", "backup_label", "base", "pg_tblspc", "pg_wal"),
    ]
    assert (data / "pg_tblspc" / "16400").resolve() == scratch / "tablespaces" / "16400"
    assert not (data / "pg_wal").is_symlink()
    for path in (data / "pg_tblspc" / "16400", data / "pg_wal"):
        (path / "PG_18" / "1").write_text("changed")
    (data / "base" / "1" / "1259").write_text("changed")
    assert (elsewhere / "PG_18" / "1").read_text() == "of a tablespace"
    assert (backup / "base" / "1" / "1259").read_text() == "18\n"
    assert told[-1][0] == told[-1][1] > 0
    assert data.stat().st_mode & 0o777 == 0o700


def archive(path: Path, members: dict[str, str], *links: str) -> None:
    with tarfile.open(path, "w") as tar:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
        for name in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, "/srv/tablespace"
            tar.addfile(member)
    # Some servers end an archive without its two blocks of zeros.
    path.write_bytes(path.read_bytes().rstrip(b"\0").ljust(512 * 4, b"\0"))


def test_archives_are_extracted(tmp_path: Path) -> None:
    backup, scratch = tmp_path / "backup", tmp_path / "scratch"
    backup.mkdir()
    scratch.mkdir()
    first = {"PG_VERSION": "16\n", "backup_label": "", "tablespace_map": "16400 /srv"}
    archive(backup / "base.tar", first, "pg_tblspc/16400")
    archive(backup / "16400.tar", {"PG_16/1": "row"})
    archive(backup / "pg_wal.tar", {"000000010000000000000001": "wal"})
    assert read_origin(backup) == ("16", False)
    data = copy_backup(backup, scratch)
    assert (data / "pg_tblspc" / "16400" / "PG_16" / "1").read_text() == "row"
    assert (data / "pg_tblspc" / "16400").resolve() == scratch / "tablespaces" / "16400"
    assert (data / "pg_wal" / "000000010000000000000001").exists()
    assert not (data / "tablespace_map").exists()


@pytest.mark.parametrize("name", ["../outside", "/tmp/outside-of-walrow"])  # noqa: S108
def test_an_archive_that_leaves_its_directory_is_refused(
    tmp_path: Path, name: str
) -> None:
    backup, scratch = tmp_path / "backup", tmp_path / "scratch" / "deep"
    backup.mkdir()
    scratch.mkdir(parents=True)
    archive(backup / "base.tar", {"PG_VERSION": "16", "backup_label": "", name: "x"})
    try:
        copy_backup(backup, scratch)
    except BackupError as error:
        assert error.code == "damaged"  # noqa: PT017
    assert {it.name for it in scratch.parent.iterdir()} == {"deep"}
    assert not Path("/tmp/outside-of-walrow").exists()  # noqa: S108


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(BackupError, match="is no base backup") as caught:
        read_origin(empty)
    assert caught.value.code == "not_a_backup"
    started = a_backup(tmp_path / "started")
    assert read_origin(started) == ("18", False)
    (started / "backup_label").unlink()
    with pytest.raises(BackupError, match="or a server was started in it"):
        read_origin(started)
    (started / "backup_label").write_text("x\nINCREMENTAL FROM LSN: 0/2000028\n")
    with pytest.raises(BackupError, match="pg_combinebackup") as caught:
        read_origin(started)
    assert caught.value.code == "incremental"
    (empty / "base.tar.zst").touch()
    with pytest.raises(BackupError, match="decompress the archives first"):
        archives_of(empty)
    (empty / "base.tar.zst").unlink()
    (empty / "base.tar").write_bytes(b"no archive")
    with pytest.raises(BackupError, match="cannot be extracted: ReadError"):
        read_origin(empty)


def test_nothing_compared_is_not_equal() -> None:
    def comparison(*results: Any, missing: tuple[str, ...] = ()) -> Comparison:
        tables = tuple(ComparedTable("t", 1, result) for result in results)
        where = ("", "", "", "18.4", "1", 1, Lsn(1))
        return Comparison(*where, tables, (), missing, ())

    assert comparison("equal", "not comparable").equal
    assert not comparison().equal
    assert not comparison("not comparable").equal
    assert not comparison("equal", "different").equal
    assert not comparison("equal", "unreadable").equal
    assert not comparison("equal", missing=("t",)).equal
    assert comparison("equal").to_dict()["lsn"] == "0/1"
