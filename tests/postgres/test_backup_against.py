"""`walrow.backup.verify_against`: base backups of real servers beside logs of the same servers."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import Load, ReceiverProcess, drop_if_there, execute, server_rows
from walrow import backup as backups
from walrow.errors import (
    BackupError,
    LogError,
    OptionError,
    ReplicationError,
    SchemaError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walrow.backup import ComparedTable, Comparison

pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

#: Root's servers run as somebody else.
RUN_AS = "nobody" if os.geteuid() == 0 else None


class Place(NamedTuple):
    """A server, and a directory that it can reach."""

    server: EmbeddedServer
    directory: Path

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def back_up(self, name: str, *options: str) -> Path:
        """Takes a base backup, as PostgreSQL's own program does."""
        to = self.directory / name
        server = self.server
        where: list[str | Path] = [
            "-d",
            server.dsn,
            "-D",
            to,
            "-c",
            "fast",
            "--no-sync",
            *options,
        ]
        subprocess.run([server.bin / "pg_basebackup", *where], check=True)  # noqa: S603
        return to

    def receive(self, dsn: str | None = None, **options: Any) -> Path:
        """Receives all that is committed. By default, into the log."""
        wanted: dict[str, Any] = {"log": self.log, "slot": "s", "publications": "p"}
        wanted |= options
        walrow.receive(dsn or self.server.dsn, until="now", **wanted)
        return Path(wanted["log"])

    def verify(
        self, backup: Path, log: Path | None = None, **options: Any
    ) -> Comparison:
        """Compares them, and checks that this leaves no files behind, and changes nothing."""
        before = contents(backup)
        wanted: dict[str, Any] = {"bin_dir": self.server.bin, "run_as": RUN_AS}
        wanted |= options
        try:
            return backups.verify_against(backup, log or self.log, **wanted)
        finally:
            assert not list(self.directory.glob(".walrow-verify*"))
            assert contents(backup) == before


def contents(directory: Path) -> dict[Path, tuple[int, int, int]]:
    """The files of a directory, and when they were changed."""
    stats = {path: path.lstat() for path in directory.rglob("*")}
    return {path: (it.st_mtime_ns, it.st_size, it.st_ino) for path, it in stats.items()}


@contextlib.contextmanager
def place_of(server: EmbeddedServer) -> Iterator[Place]:
    # Not below pytest's directory, which is only its user's.
    directory = Path(tempfile.mkdtemp(prefix="walrow-against-", dir="/tmp"))
    directory.chmod(0o755)
    try:
        yield Place(server, directory)
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="module", params=[pytest.param(16, marks=pytest.mark.slow), 18])
def busy(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A server that has changes before, while and after backups are taken, and their log."""
    # Otherwise, no backup of its standby can be taken.
    settings = {"full_page_writes": "on"}
    with (
        EmbeddedServer(request.param, settings=settings) as server,
        place_of(server) as place,
    ):
        execute(
            server.dsn,
            Load.SETUP,
            "INSERT INTO item SELECT g, g, 'before ' || g FROM generate_series(1, 500) g",
            "INSERT INTO audit SELECT now(), g, E'a\\tb\\nc\\\\N' FROM generate_series(1, 500) g",
            "CREATE PUBLICATION p FOR TABLE item, audit, wide",
        )
        place.receive(create=True, snapshot=True)
        with (
            ReceiverProcess(
                server.dsn, place.log, "--publish-after", "0.2"
            ) as receiver,
            Load(server.dsn, 7, pause=0.002) as load,
        ):
            receiver.until_streaming()
            place.back_up("plain")
            place.back_up("tar", "-Ft")
            least = load.transactions + 30
            while load.transactions < least:
                time.sleep(0.01)
            receiver.stop()
        execute(server.dsn, "SELECT pg_switch_wal()")
        place.receive()
        # Before another checkpoint removes some of it.
        copied = place.directory / "wal"
        shutil.copytree(server.data_directory / "pg_wal", copied)
        for path in (copied, *copied.iterdir()):
            path.chmod(0o755)
        yield place
        drop_if_there(server.dsn, "s")


def by_name(found: Comparison) -> dict[str, ComparedTable]:
    return {table.name: table for table in found.tables}


@pytest.mark.parametrize("form", ["plain", "tar"])
def test_a_backup_beside_changes_equals_the_log_at_its_end(
    busy: Place, form: str
) -> None:
    steps: list[Any] = []
    found = busy.verify(busy.directory / form, progress=steps.append)
    assert found.equal
    tables = by_name(found)
    assert set(tables) == {f"public.{name}" for name in Load.TABLES}
    assert {it.result for it in tables.values()} == {"equal"}
    assert tables["public.item"].key == ("id",)
    assert tables["public.audit"].key == ()
    log = walrow.Log(busy.log)
    assert found.lsn < log.end
    assert found.system_identifier == log.source.system_identifier
    assert found.server_version.startswith(f"{busy.server.major}.")
    # At another LSN, the tables are others: the comparison is not one with the end of the log.
    now = server_rows(busy.server.dsn, Load.TABLES)
    for name, table in tables.items():
        assert table.backup_rows == table.log_rows
        at_end = log.state(name).to_pyarrow().num_rows
        assert at_end == len(now[name.removeprefix("public.")])
    rows = {name: log.state(name, profile="text").to_pyarrow() for name in tables}
    then = {
        name: log.state(name, profile="text", as_of=found.lsn).to_pyarrow()
        for name in tables
    }
    assert rows != then
    assert next(it.step for it in steps if it.step != "copy") == "recovery"
    assert steps[-1] == backups.AgainstProgress("compare", 3, 3, None)


@pytest.mark.slow
def test_a_backup_that_is_recovered_further_equals_a_later_state(busy: Place) -> None:
    target = max(table.last for table in walrow.Log(busy.log).tables())
    wal = busy.directory / "wal"
    found = busy.verify(busy.directory / "tar", wal=wal, end_lsn=target)
    assert found.equal
    assert target <= found.lsn <= walrow.Log(busy.log).end
    with pytest.raises(BackupError, match="ended before configured recovery target"):
        busy.verify(busy.directory / "tar", end_lsn=target)


class Kinds(NamedTuple):
    """A backup with tables of many kinds, and the result of its comparison."""

    place: Place
    backup: Path
    found: Comparison

    @property
    def tables(self) -> dict[str, ComparedTable]:
        return by_name(self.found)


TYPES = (
    "CREATE TYPE mood AS ENUM ('good', 'so so')",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE DOMAIN positive AS numeric CHECK (VALUE > 0)",
    """CREATE TABLE typed (
        id int, part text, b bool, c char(5), y bytea, n numeric, d positive, f float8, j jsonb,
        m money, t timestamptz, i interval, e mood, p pair, a text[], r int4range, x inet,
        v varchar(3), "odd ""name" text, PRIMARY KEY (part, id))""",
    """INSERT INTO typed SELECT g, E'a''b\\\\' || g, g % 2 = 0, 'x', '\\x00ff', 1.50, 2.0, 0.1 * g,
        '{"a": [1, null]}', 12.5, 'epoch', '1 day 2 h', 'so so', ROW(NULL, NULL)::pair,
        ARRAY['a,b', NULL, '"'], '[1,5)', '10.0.0.1/24', '', 'é' || g
        FROM generate_series(1, 50) g""",
    "INSERT INTO typed (id, part) SELECT g, 'NULL' FROM generate_series(1, 5) g",
)
TABLES = (
    "CREATE TABLE keyed (id int PRIMARY KEY, v text)",
    "INSERT INTO keyed SELECT g, 'value ' || g FROM generate_series(1, 500) g",
    "CREATE TABLE unkeyed (v text, n int)",
    "ALTER TABLE unkeyed REPLICA IDENTITY FULL",
    "INSERT INTO unkeyed VALUES ('twice', 1), ('twice', 1), (NULL, 2), ('hidden', 3)",
    "CREATE TABLE filtered (id int PRIMARY KEY)",
    "CREATE TABLE listed (id int PRIMARY KEY, secret text, shown text)",
    "INSERT INTO listed VALUES (1, 'hidden', 'a')",
    "CREATE TABLE made (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)",
    "INSERT INTO made VALUES (1), (2)",
    "CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (100) TO (200)",
    "INSERT INTO parts SELECT g, 'v' FROM generate_series(50, 150) g",
    "CREATE TABLE mother (id int PRIMARY KEY)",
    "CREATE TABLE child () INHERITS (mother)",
    "INSERT INTO mother VALUES (1)",
    "INSERT INTO child VALUES (2)",
    "CREATE TABLE nothing ()",
    "INSERT INTO nothing DEFAULT VALUES",
    "CREATE TABLE volatile (id int PRIMARY KEY)",
    "INSERT INTO volatile VALUES (1)",
    "CREATE TABLE dropped (id int PRIMARY KEY)",
    "INSERT INTO dropped VALUES (1)",
    "CREATE TABLE before (id int PRIMARY KEY)",
    "INSERT INTO before VALUES (1)",
    "CREATE TABLE silent (id int PRIMARY KEY)",
    "CREATE SCHEMA more",
    "CREATE TABLE more.private (id int)",
    """CREATE PUBLICATION p FOR TABLE keyed, unkeyed, filtered WHERE (id > 5), listed (id, shown),
        made, parts, ONLY mother, typed, volatile, dropped, before, silent, nothing
        WITH (publish_via_partition_root)""",
)


@pytest.fixture(scope="module", params=[pytest.param(16, marks=pytest.mark.slow), 18])
def kinds(request: pytest.FixtureRequest) -> Iterator[Kinds]:
    with EmbeddedServer(request.param) as server, place_of(server) as place:
        dsn = server.dsn
        execute(dsn, *TYPES, *TABLES)
        place.receive(create=True, snapshot=True, origin="none")
        execute(
            dsn,
            "UPDATE typed SET n = n + 1 WHERE id < 20",
            "ALTER TABLE before RENAME TO after",
            "INSERT INTO after VALUES (2)",
            "SELECT pg_replication_origin_create('elsewhere')",
            "SELECT pg_replication_origin_session_setup('elsewhere')",
            # Changes that the log never gets.
            "UPDATE keyed SET v = 'hidden' WHERE id = 7",
            "INSERT INTO keyed VALUES (1001, 'hidden')",
            "DELETE FROM keyed WHERE id = 9",
            "DELETE FROM unkeyed WHERE v = 'hidden'",
            "INSERT INTO unkeyed VALUES ('twice', 1), ('hidden too', 1)",
        )
        execute(
            dsn,
            "DROP TABLE dropped",
            "ALTER PUBLICATION p DROP TABLE volatile",
            "ALTER TABLE volatile SET UNLOGGED",
        )
        backup = place.back_up("backup", "--no-manifest", "-R")
        execute(
            dsn,
            "CREATE TABLE later (id int PRIMARY KEY)",
            "ALTER PUBLICATION p ADD TABLE later",
            "INSERT INTO later VALUES (1)",
            "UPDATE keyed SET v = 'after the backup' WHERE id < 100",
        )
        place.receive(origin="none")
        yield Kinds(place, backup, place.verify(backup))
        drop_if_there(dsn, "s")


def differences(table: ComparedTable) -> list[tuple[str, dict[str, Any] | None, int]]:
    return [(it.kind, it.key, it.rows) for it in table.differences]


def test_rows_that_the_log_never_got_are_named_by_their_keys(kinds: Kinds) -> None:
    keyed = kinds.tables["public.keyed"]
    assert not kinds.found.equal
    assert keyed.result == "different"
    assert differences(keyed) == [
        ("different", {"id": "7"}, 1),
        ("missing", {"id": "9"}, 1),
        ("extra", {"id": "1001"}, 1),
    ]
    assert not keyed.has_more
    unkeyed = kinds.tables["public.unkeyed"]
    assert differences(unkeyed) == [("missing", None, 1), ("extra", None, 2)]
    assert (unkeyed.log_rows, unkeyed.backup_rows) == (4, 5)
    assert "hidden" not in json.dumps(kinds.found.to_dict())
    assert "hidden" not in repr(kinds.found)


def test_tables_of_many_kinds(kinds: Kinds) -> None:
    results = {name: it.result for name, it in kinds.tables.items()}
    assert results == {
        "public.keyed": "different",
        "public.unkeyed": "different",
        "public.filtered": "not comparable",
        "public.volatile": "not comparable",
        **dict.fromkeys(
            [
                *("public.listed", "public.made", "public.parts", "public.mother"),
                *("public.typed", "public.after", "public.silent", "public.nothing"),
            ],
            "equal",
        ),
    }
    assert "row filter" in (kinds.tables["public.filtered"].reason or "")
    assert kinds.tables["public.typed"].key == ("part", "id")
    assert kinds.tables["public.typed"].backup_rows == 55
    assert kinds.tables["public.parts"].backup_rows == 101
    assert kinds.tables["public.mother"].backup_rows == 1
    assert kinds.tables["public.nothing"].backup_rows == 1
    assert set(kinds.found.not_in_log) == {"public.child", "more.private"}
    assert kinds.found.dropped == ("public.dropped",)
    assert kinds.found.not_in_backup == ()
    left_out = {
        (name, it.column): it.reason
        for name, table in kinds.tables.items()
        for it in table.left_out
    }
    assert left_out == {
        ("public.listed", "secret"): "the log does not have it",
        ("public.made", "twice"): "its values are generated",
    }


def walrow_verify(
    place: Place, backup: Path, *arguments: str | Path, log: Path | None = None
) -> list[str]:
    """The command line of `walrow backup verify`."""
    command = [sys.executable, "-m", "walrow", "backup", "verify", str(backup)]
    command += ["--against", str(log or place.log), "--bin-dir", str(place.server.bin)]
    command += [] if RUN_AS is None else ["--run-as", RUN_AS]
    return [*command, *map(str, arguments)]


def test_the_command_prints_keys_and_ends_with_1(kinds: Kinds) -> None:
    command = walrow_verify(kinds.place, kinds.backup, "--table", "keyed")
    done = subprocess.run(command, capture_output=True, check=False, text=True)  # noqa: S603
    assert done.returncode == 1
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1] == ["public.keyed", "different", "500", "500"]
    assert lines[4:7] == [
        ["public.keyed", "id=7", "different", "1"],
        ["public.keyed", "id=9", "missing", "1"],
        ["public.keyed", "id=1001", "extra", "1"],
    ]
    assert "hidden" not in done.stdout + done.stderr
    words = f"the backup and the log are not equal as of {kinds.found.lsn}\n"
    assert done.stderr == f"walrow: {words}"


@pytest.mark.slow
def test_the_command_ends_with_0_if_they_are_equal(kinds: Kinds) -> None:
    tables = ("--table", "public.typed", "--table", "listed", "--json")
    command = walrow_verify(kinds.place, kinds.backup, *tables)
    done = subprocess.run(command, capture_output=True, check=False, text=True)  # noqa: S603
    assert (done.returncode, done.stderr) == (0, "")
    record = json.loads(done.stdout)
    assert record["equal"]
    assert [it["name"] for it in record["tables"]] == ["public.listed", "public.typed"]
    assert record["lsn"] == str(kinds.found.lsn)


@pytest.mark.slow
def test_nothing_to_compare_is_no_success(kinds: Kinds) -> None:
    command = walrow_verify(kinds.place, kinds.backup, "--table", "filtered")
    done = subprocess.run(command, capture_output=True, check=False, text=True)  # noqa: S603
    assert done.returncode == 1
    assert "no table could be compared" in done.stderr


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, marks=pytest.mark.slow),
    ],
)
def test_nothing_stays_behind_after_a_signal(
    kinds: Kinds, number: signal.Signals
) -> None:
    place = kinds.place
    process = subprocess.Popen(  # noqa: S603
        walrow_verify(place, kinds.backup),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    server = 0
    deadline = time.monotonic() + 30
    while not server and time.monotonic() < deadline:
        for file in place.directory.glob(".walrow-verify*/data/postmaster.pid"):
            with contextlib.suppress(ValueError, IndexError, FileNotFoundError):
                server = int(file.read_text().splitlines()[0])
    process.send_signal(number)
    _, text = process.communicate(timeout=30)
    assert process.returncode in (128 + number, -number)
    assert "Traceback" not in text
    while time.monotonic() < deadline and (
        Path(f"/proc/{server}").exists()
        or list(place.directory.glob(".walrow-verify*"))
    ):
        time.sleep(0.02)
    assert server
    assert not Path(f"/proc/{server}").exists()
    assert not list(place.directory.glob(".walrow-verify*"))


def test_what_cannot_be_compared_is_refused_before_a_copy(busy: Place) -> None:
    plain = busy.directory / "plain"
    other = 34 - busy.server.major
    from servers.embedded import wheel_programs

    with pytest.raises(BackupError) as caught:
        busy.verify(plain, bin_dir=wheel_programs(other))
    major = busy.server.major
    assert f"is of PostgreSQL {major}, and there is only {other}." in str(caught.value)
    assert caught.value.code == "programs"
    with pytest.raises(BackupError, match="there is no server in /nowhere"):
        busy.verify(plain, bin_dir="/nowhere")
    with pytest.raises(LogError, match="let its receiver go on") as short:
        busy.verify(plain, end_lsn="FF/0")
    assert (short.value.code, short.value.lsn) == ("past_end", walrow.Log(busy.log).end)
    with pytest.raises(OptionError, match="the backup is complete only at 0/"):
        busy.verify(plain, end_lsn="0/8")
    with pytest.raises(SchemaError, match="has no table 'none'"):
        busy.verify(plain, tables=["none"])
    with pytest.raises(OptionError, match="not a directory of WAL"):
        busy.verify(plain, wal=busy.directory / "none")
    with pytest.raises(OptionError, match="there is no user no one"):
        busy.verify(plain, run_as="no one")
    with pytest.raises(BackupError, match="is no base backup"):
        busy.verify(busy.log)
    if RUN_AS is not None:
        with pytest.raises(BackupError, match=r'does not run as root.*run_as="postg'):
            busy.verify(plain, run_as=None)
        with pytest.raises(OptionError, match="must be another user"):
            busy.verify(plain, run_as="root")
        with tempfile.TemporaryDirectory() as hidden:
            # Only root can reach it.
            with pytest.raises(BackupError, match="nobody cannot read") as unread:
                busy.verify(plain, scratch=hidden)
            assert unread.value.code == "user"
            assert not list(Path(hidden).iterdir())


@pytest.mark.slow
def test_a_superuser_and_a_database_must_exist(busy: Place) -> None:
    plain = busy.directory / "plain"
    wrong: list[dict[str, Any]] = [{"user": "no one"}, {"database": "none"}]
    for options in wrong:
        with pytest.raises(ReplicationError, match="does not exist; name a superuser"):
            busy.verify(plain, **options)


@pytest.mark.slow
def test_a_log_of_another_server_is_refused(busy: Place, kinds: Kinds) -> None:
    log = walrow.Log(kinds.place.log)
    text = f"and the log of {log.source.system_identifier}"
    with pytest.raises(BackupError, match=text) as caught:
        busy.verify(busy.directory / "plain", log=kinds.place.log)
    assert caught.value.code == "other_server"


@contextlib.contextmanager
def own_log(
    place: Place, *statements: str, options: str = "", **received: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """A separate database, and how its log is received."""
    with place.server.database("against", options) as name:
        dsn = place.server.dsn_of(name)
        execute(dsn, *statements, "CREATE PUBLICATION own FOR ALL TABLES")
        where = {"slot": name, "publications": "own", "log": place.directory / name}
        place.receive(dsn, create=True, snapshot=True, **where, **received)
        try:
            yield dsn, where | received
        finally:
            drop_if_there(dsn, name)


KEYED = (
    "CREATE TABLE keyed (id int PRIMARY KEY, v text)",
    "INSERT INTO keyed SELECT g, 'value ' || g FROM generate_series(1, 50) g",
)


@pytest.mark.slow
def test_wal_comes_from_its_own_directory(busy: Place) -> None:
    with own_log(busy, *KEYED) as (dsn, where):
        backup = busy.back_up("without wal", "-X", "none")
        try:
            wal = busy.directory / "wal of it"
            shutil.copytree(busy.server.data_directory / "pg_wal", wal)
            for path in (wal, *wal.iterdir()):
                path.chmod(0o755)
            log = busy.receive(dsn, **where)
            with pytest.raises(
                BackupError, match=r"cannot be recovered.*FATAL: "
            ) as caught:
                busy.verify(backup, log)
            assert caught.value.code == "recovery"
            found = busy.verify(backup, log, wal=wal)
        finally:
            shutil.rmtree(backup)
        assert found.equal
        assert found.tables[0].backup_rows == 50


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plain", "tar"])
def test_backups_and_wal_of_walrow(busy: Place, form: Literal["plain", "tar"]) -> None:
    with own_log(busy, *KEYED) as (dsn, where):
        to, wal = busy.directory / f"own {form}", busy.directory / f"own wal {form}"
        backups.receive_wal(dsn, to=wal, until="now")
        backups.base_backup(dsn, to=to, format=form, checkpoint="fast", wal="none")
        execute(dsn, "UPDATE keyed SET v = 'new' WHERE id < 5")
        target = execute(dsn, "SELECT pg_current_wal_insert_lsn()::text")[0][0]
        # The recovery ends after the first record of this, and before its commit.
        execute(dsn, "INSERT INTO keyed VALUES (0)")
        log = busy.receive(dsn, **where)
        backups.receive_wal(dsn, to=wal, until="now")
        for path in (wal, *wal.iterdir()):
            path.chmod(0o755)
        assert busy.verify(to, log, wal=wal).equal
        further = busy.verify(to, log, wal=wal, end_lsn=target)
        assert further.equal
        assert further.lsn > walrow.Lsn(target)
        assert further.tables[0].backup_rows == 50


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["LATIN1", "UTF8"])
def test_encodings_and_binary_values(busy: Place, encoding: str) -> None:
    names = [*TYPES, "ALTER TABLE typed REPLICA IDENTITY FULL"]
    options = f"ENCODING '{encoding}'"
    with own_log(busy, *names, options=options, binary=True) as (dsn, where):
        execute(dsn, "UPDATE typed SET f = f / 3, t = t + i WHERE id > 10")
        backup = busy.back_up(f"of {encoding}", "-Ft", "-z")
        log = busy.receive(dsn, **where)
        found = busy.verify(backup, log)
        assert found.equal, found.tables[0].reason
        assert found.tables[0].backup_rows == 55
        # Its binary form does not say how many decimals it has.
        assert [it.column for it in found.tables[0].left_out] == ["m"]


@pytest.mark.slow
def test_a_transaction_with_many_savepoints(busy: Place) -> None:
    """A standby does not know its parts, so it takes no connections. Its recovery ends instead."""
    import psycopg

    with (
        own_log(busy, *KEYED) as (dsn, where),
        psycopg.connect(dsn) as conn,
    ):
        for number in range(100, 200):
            conn.execute("SAVEPOINT a")
            conn.execute("INSERT INTO keyed VALUES (%s, 'open')", [number])
        backup = busy.back_up("with savepoints")
        conn.rollback()
        log = busy.receive(dsn, **where)
        found = busy.verify(backup, log)
        assert found.equal
        assert found.tables[0].backup_rows == 50


@pytest.mark.slow
@pytest.mark.parametrize("form", ["plain", "tar"])
def test_tablespaces(busy: Place, form: str) -> None:
    spaces = busy.server.socket_directory / f"spaces {form}"
    moved = busy.directory / f"moved {form}"
    spaces.mkdir()
    owner = busy.server.data_directory.stat()
    os.chown(spaces, owner.st_uid, owner.st_gid)
    with own_log(busy, *KEYED) as (dsn, where):
        execute(dsn, f"CREATE TABLESPACE space LOCATION '{spaces}'")
        execute(
            dsn,
            "CREATE TABLE there (id int PRIMARY KEY) TABLESPACE space",
            "INSERT INTO there VALUES (1), (2)",
        )
        mapping = ["-T", f"{spaces}={moved}"] if form == "plain" else ["-Ft"]
        backup = busy.back_up(f"spaces {form}", *mapping)
        before = contents(spaces), contents(moved)
        execute(dsn, "DELETE FROM there WHERE id = 1", "CHECKPOINT")
        log = busy.receive(dsn, **where)
        now = contents(spaces)
        found = busy.verify(backup, log)
        assert found.equal
        assert {it.name: it.backup_rows for it in found.tables} == {
            "public.keyed": 50,
            "public.there": 2,
        }
        # The server's tablespace and the backup's are both as they were.
        assert contents(spaces) == now
        assert contents(moved) == before[1]
        execute(dsn, "DROP TABLE there")
        execute(dsn, "DROP TABLESPACE space")


@pytest.mark.slow
def test_a_tablespace_that_is_new_in_the_wal_is_refused(busy: Place) -> None:
    spaces = busy.server.socket_directory / "new spaces"
    spaces.mkdir()
    owner = busy.server.data_directory.stat()
    os.chown(spaces, owner.st_uid, owner.st_gid)
    with own_log(busy, *KEYED) as (dsn, where):
        backup = busy.back_up("before the space")
        execute(dsn, f"CREATE TABLESPACE space LOCATION '{spaces}'")
        target = execute(dsn, "SELECT pg_current_wal_insert_lsn()::text")[0][0]
        execute(dsn, "INSERT INTO keyed VALUES (0)", "SELECT pg_switch_wal()")
        wal = busy.directory / "wal with a space"
        shutil.copytree(busy.server.data_directory / "pg_wal", wal)
        for path in (wal, *wal.iterdir()):
            path.chmod(0o755)
        log = busy.receive(dsn, **where)
        assert busy.verify(backup, log).equal
        with pytest.raises(BackupError, match="a tablespace was created") as caught:
            busy.verify(backup, log, wal=wal, end_lsn=target)
        assert caught.value.problems == (str(spaces),)
        execute(dsn, "DROP TABLESPACE space")


def test_damage_that_nobody_else_sees(busy: Place) -> None:
    """A value in a file of the backup is changed: only its rows show it."""
    [(checksums,)] = execute(busy.server.dsn, "SHOW data_checksums")
    with own_log(busy, *KEYED) as (dsn, where):
        [(file,)] = execute(dsn, "SELECT pg_relation_filepath('keyed')")
        backup = busy.back_up("damaged")
        path = backup / file
        text = path.read_bytes()
        assert text.count(b"value 17") == 1
        path.write_bytes(text.replace(b"value 17", b"value 71"))
        log = busy.receive(dsn, **where)
        (table,) = busy.verify(backup, log).tables
    if checksums == "on":
        assert table.result == "unreadable"
        assert table.reason == "the server cannot read it: XX001 (DataCorrupted)"
    else:
        assert differences(table) == [("different", {"id": "17"}, 1)]


@pytest.mark.slow
def test_another_timeline_is_refused(busy: Place) -> None:
    """A copy of the server lives its own life: its identifier is the same."""
    from servers.embedded import Standby

    with (
        own_log(busy, *KEYED) as (dsn, where),
        Standby(busy.server) as standby,
        place_of(standby) as place,
    ):
        early = place.back_up("of the standby")
        # The log goes on on the first timeline.
        execute(standby.dsn, "SELECT pg_promote()")
        backup = place.back_up("promoted")
        execute(dsn, "SELECT pg_switch_wal()", "SELECT pg_switch_wal()")
        execute(dsn, "INSERT INTO keyed VALUES (0)")
        execute(dsn, *["SELECT pg_switch_wal()", "CHECKPOINT"] * 3)
        log = busy.receive(dsn, **where)
        with pytest.raises(BackupError, match="on timeline 2, and the log") as caught:
            place.verify(backup, log)
        assert caught.value.code == "timeline"
        assert place.verify(early, log).equal
    execute(busy.server.dsn, "SELECT pg_drop_replication_slot('standby')")


DEBIAN = Path("/usr/lib/postgresql/15/bin")


@pytest.mark.slow
@pytest.mark.skipif(not DEBIAN.exists(), reason="needs Debian's postgresql-15")
def test_server_15() -> None:
    with (
        EmbeddedServer(15, programs=DEBIAN) as server,
        place_of(server) as place,
        own_log(place, *TYPES, *KEYED) as (dsn, where),
    ):
        execute(dsn, "UPDATE keyed SET v = 'new' WHERE id = 7")
        backup = place.back_up("backup")
        execute(dsn, "UPDATE keyed SET v = 'newer' WHERE id = 7")
        found = place.verify(backup, place.receive(dsn, **where))
    assert found.equal
    assert found.server_version.startswith("15.")
