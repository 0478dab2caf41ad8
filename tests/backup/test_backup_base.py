"""Base backups of real servers: taken, verified, started, broken off."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from servers import EmbeddedServer, Proxy, ServerError
from servers.fetched import VERSIONS
from servers.receiving import Disk, execute, run_walrow, until
from servers.restored import Restored
from servers.wal import programs_of
from walrow import Lsn, backup
from walrow._backup.base.manifest import ManifestReader
from walrow.backup import BaseBackup
from walrow.errors import (
    BackupError,
    ConnectionLostError,
    OptionError,
    ReplicationError,
)

pytestmark = pytest.mark.live

#: The last server with a COPY for each tablespace, and the newest one.
BOTH = (14, 18)
slow = pytest.mark.slow
COMMAND = ("backup", "base", "--checkpoint", "fast", "--dsn")


def make_server(major: int) -> EmbeddedServer:
    settings = {"summarize_wal": "on"} if major >= 17 else {}
    # A backup of a standby needs it, since the server's last restart.
    settings["full_page_writes"] = "on"
    try:
        return EmbeddedServer(major, settings=settings, programs=programs_of(major))
    except ServerError as error:
        if os.environ.get("WALROW_SLOW"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def servers() -> Iterator[Callable[[int], EmbeddedServer]]:
    """A server of each version, with rows. Some rows are in a tablespace."""
    with contextlib.ExitStack() as stack:

        @cache
        def server(major: int) -> EmbeddedServer:
            started = stack.enter_context(make_server(major))
            prepare(started)
            return started

        yield server


def versions(*quick: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "major",
        [
            pytest.param(it, marks=() if it in quick else pytest.mark.slow)
            for it in VERSIONS
        ],
    )


@pytest.fixture
def primary(servers: Callable[[int], EmbeddedServer], major: int) -> EmbeddedServer:
    """The server of the test's version."""
    return servers(major)


@pytest.fixture(scope="module")
def newest() -> Iterator[EmbeddedServer]:
    """A server without tablespaces."""
    with make_server(18) as server:
        yield server


def prepare(server: EmbeddedServer) -> None:
    space = space_of(server)
    execute(
        server.dsn,
        # By the server, whose directory it must be.
        f"COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; mkdir {space}'",
        f"CREATE TABLESPACE space LOCATION '{space}'",
        "CREATE TABLE here AS SELECT g AS id, repeat('x', 100) AS t FROM generate_series(1, 5000) g",
        "CREATE TABLE there TABLESPACE space AS SELECT g AS id FROM generate_series(1, 5000) g",
    )


def space_of(server: EmbeddedServer) -> Path:
    return server.socket_directory / "space"


def rows(server: EmbeddedServer) -> list[Any]:
    return execute(
        server.dsn,
        "SELECT (SELECT sum(hashtext(h::text)::bigint) FROM here h),"
        " (SELECT sum(hashtext(t::text)::bigint) FROM there t)",
    )


def take(server: EmbeddedServer, to: Path, **options: Any) -> BaseBackup:
    usual = {"checkpoint": "fast"}
    return backup.base_backup(server.dsn, to=to, **(usual | options))


def base(
    server: EmbeddedServer, to: object, *options: object, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    return run_walrow(*COMMAND, server.dsn, "--to", to, *options, **environment)


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [*map(str, words)], capture_output=True, check=False, text=True, timeout=50
    )


def names(directory: Path) -> set[str]:
    return {each.name for each in directory.iterdir()}


@versions(18)
def test_a_plain_backup_starts_with_the_same_rows(
    primary: EmbeddedServer, tmp_path: Path
) -> None:
    before = rows(primary)
    taken: list[BaseBackup] = []

    def restore(data: Path) -> None:
        space = str(data.parent / "restored_space")
        moved = {str(space_of(primary)): space}
        taken.append(take(primary, data, format="plain", tablespaces=moved))

    with Restored(
        primary.major, restore, programs=programs_of(primary.major)
    ) as server:
        (done,) = taken
        assert rows(server) == before
        ((location, path),) = done.tablespaces.items()
        assert location == str(space_of(primary))
        place = execute(
            server.dsn,
            "SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = 'space'",
        )
        assert place == [(str(path),)] == [(str(done.path.parent / "restored_space"),)]
    assert not (done.path / "tablespace_map").exists()
    assert done.wal == "complete"
    assert done.start_lsn < done.end_lsn
    assert done.to_dict()["start_lsn"] == str(done.start_lsn)
    json.dumps(done.to_dict())
    del tmp_path


@versions(*BOTH)
def test_a_tar_backup_starts_with_the_same_rows(
    primary: EmbeddedServer, tmp_path: Path
) -> None:
    before = rows(primary)
    done = take(primary, tmp_path / "b")
    (space,) = done.tablespaces.values()
    oid = space.stem
    assert names(done.path) == {"base.tar", f"{oid}.tar", "backup_manifest"}
    assert {each.stat().st_mode & 0o777 for each in done.path.iterdir()} == {0o600}
    assert done.path.stat().st_mode & 0o777 == 0o700
    for archive in done.path.glob("*.tar"):
        with tarfile.open(archive) as tar:
            # tablespace_map has been asked for, so there are no links.
            assert all(it.isreg() or it.isdir() for it in tar.getmembers())
            assert archive.stat().st_size - tar.offset == 1024
        assert archive.read_bytes()[-1024:] == bytes(1024)

    def restore(data: Path) -> None:
        data.mkdir(mode=0o700)
        new = data.parent / "restored_space"
        new.mkdir(mode=0o700)
        for archive, place in (
            (done.path / "base.tar", data),
            (space, new),
        ):
            # By another reader of archives than walrow's.
            subprocess.run(["tar", "xf", archive, "-C", place], check=True)  # noqa: S603, S607
        (data / "tablespace_map").write_text(f"{oid} {new}\n")

    with Restored(
        primary.major, restore, programs=programs_of(primary.major)
    ) as server:
        assert rows(server) == before


@versions(18)
@pytest.mark.parametrize(
    "options",
    [
        {"wal": "none", "manifest_checksums": "SHA224"},
        pytest.param({"manifest_checksums": "SHA512", "format": "plain"}, marks=slow),
        pytest.param({"verify_checksums": False, "max_rate": 1048576}, marks=slow),
    ],
    ids=str,
)
def test_options(
    primary: EmbeddedServer, tmp_path: Path, options: dict[str, Any]
) -> None:
    if options.get("format") == "plain":
        moved = {str(space_of(primary)): str(tmp_path / "space")}
        options = options | {"tablespaces": moved}
    steps: list[tuple[int, int | None]] = []
    done = take(
        primary, tmp_path / "b", progress=lambda *it: steps.append(it), **options
    )
    assert done.wal == ("missing" if options.get("wal") == "none" else "complete")
    assert steps[0][0] == 0
    received, total = steps[-1]
    assert received > 20_000_000
    assert 0.5 < received / (total or 1) < 2
    assert not [*tmp_path.glob("*.partial")]
    text = (done.path / "backup_manifest").read_text()
    algorithm = options.get("manifest_checksums", "CRC32C")
    assert f'"Checksum-Algorithm": "{algorithm}"' in text


@versions(18)
@pytest.mark.parametrize("form", ["plain", pytest.param("tar", marks=slow)])
def test_the_server_compresses(
    primary: EmbeddedServer, tmp_path: Path, form: str
) -> None:
    options: dict[str, Any] = {"compress": "gzip:1", "format": form}
    if form == "plain":
        options["tablespaces"] = {str(space_of(primary)): str(tmp_path / "space")}
    if primary.major < 15:
        with pytest.raises(OptionError, match="15"):
            take(primary, tmp_path / "b", **options)
        assert not [*tmp_path.iterdir()]
        return
    done = take(primary, tmp_path / "b", **options)
    zipped = [*done.path.glob("*.gz")]
    assert len(zipped) == (2 if form == "tar" else 0)
    assert all(it.exists() for it in done.tablespaces.values())
    for path in zipped:
        assert run("tar", "tzf", path).returncode == 0


@versions(18)
def test_a_tablespace_without_a_directory_is_refused_first(
    primary: EmbeddedServer, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match=f"--tablespace {space_of(primary)}=NEW"):
        take(primary, tmp_path / "b", format="plain")
    moved = {str(space_of(primary)): str(tmp_path / "space")}
    with pytest.raises(OptionError, match="no tablespace at /nowhere"):
        take(
            primary,
            tmp_path / "b",
            format="plain",
            tablespaces=moved | {"/nowhere": str(tmp_path / "x")},
        )
    (tmp_path / "space").mkdir()
    (tmp_path / "space/file").touch()
    with pytest.raises(OptionError, match="space is not empty"):
        take(primary, tmp_path / "b", format="plain", tablespaces=moved)
    assert names(tmp_path) == {"space"}


def test_only_an_empty_directory_is_replaced(
    newest: EmbeddedServer, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert take(newest, tmp_path / "empty").path == tmp_path / "empty"
    for name in ("empty", "file", "link", "other"):
        path = tmp_path / name
        if name == "file":
            path.touch()
        elif name == "link":
            path.symlink_to(tmp_path)
        elif name == "other":
            path.with_name("other.partial").mkdir()
        with pytest.raises((OptionError, BackupError), match=name):
            take(newest, path)
    with pytest.raises(OptionError, match="mount point"):
        take(newest, Path("/proc"))
    with pytest.raises(BackupError, match="No such file") as raised:
        take(newest, tmp_path / "nowhere/b")
    assert raised.value.code == "store"


def test_the_command(newest: EmbeddedServer, tmp_path: Path) -> None:
    done = base(newest, tmp_path / "b", "--format", "plain", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    record = json.loads(done.stdout)
    assert (record["path"], record["wal"]) == (str(tmp_path / "b"), "complete")
    assert Lsn(record["start_lsn"]) < Lsn(record["end_lsn"])
    for given in (["--json"], ["--format", "plain"]):
        refused = base(newest, tmp_path / "c", *given, "--to", "-")
        assert (refused.returncode, refused.stdout) == (2, "")
    done = base(newest, tmp_path / "c", "--wal", "none")
    assert (done.returncode, "it has no WAL" in done.stderr) == (0, True)
    assert names(tmp_path) == {"b", "c"}


def test_a_pipe_gets_one_tar(newest: EmbeddedServer) -> None:
    """From which a server starts."""
    words = [sys.executable, "-m", "walrow", *COMMAND, newest.dsn, "--to", "-"]
    piped = ("bash", "-o", "pipefail", "-c")
    execute(newest.dsn, "CREATE TABLE piped AS SELECT generate_series(1, 1000) AS id")

    def restore(data: Path) -> None:
        data.mkdir(mode=0o700)
        done = run(*piped, f"{shlex.join(words)} | tar x -C {data}")
        assert (done.returncode, done.stderr) == (0, "")
        assert (data / "backup_manifest").exists()

    with Restored(18, restore) as restored:
        assert execute(restored.dsn, "SELECT count(*) FROM piped") == [(1000,)]
    # A reader that ends early ends the backup, too.
    done = run(*piped, f"{shlex.join(words)} | head -c 100000 > /dev/null")
    assert done.returncode == 128 + signal.SIGPIPE
    until(lambda: not running(newest))


@pytest.mark.parametrize("major", [18, pytest.param(14, marks=slow)])
def test_without_wal_it_ends_when_the_archive_has_it(
    tmp_path: Path, major: int
) -> None:
    settings = {"archive_mode": "on"}
    programs = programs_of(major)
    with EmbeddedServer(major, settings=settings, programs=programs) as server:
        # The server may be another user, who cannot write into the test's directory.
        archive = server.data_directory / "archive"
        command = f"mkdir -p {archive} && sleep 0.5 && cp %p {archive}/%f"
        execute(
            server.dsn,
            f"ALTER SYSTEM SET archive_command = '{command}'",
            "SELECT pg_reload_conf()",
        )
        done = take(server, tmp_path / "b", wal="none")
        assert done.wal == "missing"
        last = f"{done.end_timeline:08X}{0:08X}{(done.end_lsn - 1) // (16 << 20):08X}"
        assert (archive / last).is_file()


def test_no_message_has_a_password(tmp_path: Path) -> None:
    url = "postgresql://me:topsecret@127.0.0.1:1/shop"
    for dsn in (url, "host=127.0.0.1 port=1 password=topsecret", "pasword=topsecret"):
        with pytest.raises((ReplicationError, OptionError)) as raised:
            backup.base_backup(dsn, to=tmp_path / "b")
        assert "topsecret" not in str(raised.value)
    # Also in a wrong place.
    for given in ([str(tmp_path / "b"), "--dsn", url], [url, "--compress", url, url]):
        done = run_walrow("backup", "base", "--to", *given)
        assert done.returncode in (1, 2)
        assert "topsecret" not in done.stderr + done.stdout


def cutting(proxy: Proxy) -> Callable[[int, int | None], None]:
    def progress(done: int, _total: int | None) -> None:
        if done > 5_000_000:
            proxy.cut()

    return progress


@pytest.mark.parametrize("form", ["plain", pytest.param("tar", marks=slow)])
def test_a_cut_connection_leaves_nothing(
    newest: EmbeddedServer, tmp_path: Path, form: Any
) -> None:
    with Proxy(newest) as proxy:
        with pytest.raises(ConnectionLostError, match="start it again"):
            backup.base_backup(
                proxy.dsn,
                to=tmp_path / "b",
                format=form,
                checkpoint="fast",
                progress=cutting(proxy),
            )
        assert not [*tmp_path.iterdir()]
    take(newest, tmp_path / "b", format=form)


def test_a_backup_that_is_terminated_leaves_nothing(
    newest: EmbeddedServer, tmp_path: Path
) -> None:
    def progress(done: int, _total: int | None) -> None:
        if 5_000_000 < done < 6_000_000:
            execute(
                newest.dsn,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_progress_basebackup",
            )

    with pytest.raises(ReplicationError) as raised:
        take(newest, tmp_path / "b", progress=progress, max_rate=20_000)
    assert raised.value.sqlstate in ("57P01", None)
    assert not [*tmp_path.iterdir()]


@contextlib.contextmanager
def slowly(
    server: EmbeddedServer, to: Path, *options: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that takes a backup, and is in the middle of it."""
    arguments = [sys.executable, "-m", "walrow", *COMMAND, server.dsn]
    arguments += ["--to", str(to), "--max-rate", "1024", *options]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE) as process:  # noqa: S603
        partial = to.with_name(f"{to.name}.partial")
        try:
            until(lambda: any(it.is_file() for it in partial.rglob("*")))
            assert process.poll() is None
            yield process
        finally:
            process.kill()


def running(server: EmbeddedServer) -> int:
    return int(
        execute(server.dsn, "SELECT count(*) FROM pg_stat_progress_basebackup")[0][0]
    )


def test_a_killed_backup_has_another_name(
    newest: EmbeddedServer, tmp_path: Path
) -> None:
    with slowly(newest, tmp_path / "b", "--format", "plain") as process:
        process.kill()
        process.wait()
    assert names(tmp_path) == {"b.partial"}
    refused = base(newest, tmp_path / "b")
    assert refused.returncode == 1
    assert (
        f"{tmp_path / 'b.partial'} is of a backup that has not ended" in refused.stderr
    )
    shutil.rmtree(tmp_path / "b.partial")
    assert base(newest, tmp_path / "b").returncode == 0
    assert names(tmp_path) == {"b"}


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=slow)]
)
def test_a_signal_ends_the_backup_on_both_sides(
    newest: EmbeddedServer, tmp_path: Path, number: signal.Signals
) -> None:
    until(lambda: not running(newest))
    with slowly(newest, tmp_path / "b") as process:
        assert running(newest) == 1
        begin = time.monotonic()
        process.send_signal(number)
        assert process.wait(10) == 128 + number
        assert time.monotonic() - begin < 1.5
        until(lambda: not running(newest), 1)
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert not [*tmp_path.iterdir()]


def test_a_signal_ends_a_backup_whose_server_is_silent(
    newest: EmbeddedServer, tmp_path: Path
) -> None:
    with Proxy(newest) as proxy:
        given = ("--dsn", proxy.dsn)
        with slowly(newest, tmp_path / "b", *given) as process:
            proxy.stall()
            time.sleep(0.3)
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 128 + signal.SIGINT
            assert time.monotonic() - begin < 1.5
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("fault", ["full", pytest.param("error", marks=slow)])
def test_a_full_or_broken_disk_leaves_nothing(
    newest: EmbeddedServer, tmp_path: Path, fault: Any
) -> None:
    disk = Disk(tmp_path)
    with disk.has(fault):
        done = base(newest, tmp_path / "b", **disk.environment)
    text = {"full": "No space left", "error": "Input/output error"}[fault]
    assert done.returncode == 1
    assert text in done.stderr
    assert "start the backup again" in done.stderr
    assert not [*tmp_path.iterdir()]


@slow
@pytest.mark.parametrize("at", [*range(1, 40), 200, 500, 900, 1500, 1900, 2000])
def test_a_kill_at_any_call_of_the_disk_leaves_only_partial_names(
    newest: EmbeddedServer, tmp_path: Path, at: int
) -> None:
    disk = Disk(tmp_path)
    environment = disk.environment | {"CRASH_AT": str(at)}
    done = base(newest, tmp_path / "b", "--format", "plain", **environment)
    assert done.returncode in (0, -signal.SIGKILL)
    assert names(tmp_path) in ({"b.partial"}, set(), {"b"})
    if names(tmp_path) == {"b"}:
        # Then it was killed after the name.
        blocks = iter([(tmp_path / "b/backup_manifest").read_bytes()])
        for each in ManifestReader().files(blocks):
            assert (tmp_path / "b" / each.path).stat().st_size == each.size


@pytest.mark.parametrize("compress", [None, pytest.param("gzip:9", marks=slow)])
def test_pg_verifybackup_agrees(tmp_path: Path, compress: str | None) -> None:
    """With its files, its manifest and its WAL. The wheel's program of version 18 crashes."""
    with make_server(16) as server:
        prepare(server)
        moved = {str(space_of(server)): str(tmp_path / "space")}
        options: dict[str, Any] = {"format": "plain", "tablespaces": moved}
        done = take(server, tmp_path / "b", compress=compress, **options)
        verify = server.bin / "pg_verifybackup"
        judged = run(verify, done.path)
        assert "successfully verified" in judged.stdout, judged.stderr
        ((path,),) = execute(server.dsn, "SELECT pg_relation_filepath('here')")
        (done.path / path).write_bytes(b"")
        assert run(verify, done.path).returncode


@slow
def test_a_file_with_any_name_is_in_the_backup(
    newest: EmbeddedServer, tmp_path: Path
) -> None:
    name = r'"$(printf "caf\351.conf")"'
    execute(newest.dsn, f"COPY (SELECT 1) TO PROGRAM 'cat > {name}'")
    for form in ("tar", "plain"):
        take(newest, tmp_path / form, format=form)
    assert (tmp_path / "plain" / os.fsdecode(b"caf\xe9.conf")).read_text() == "1\n"


def change_rows(server: EmbeddedServer) -> None:
    execute(
        server.dsn,
        "UPDATE here SET t = 'changed' WHERE id % 50 = 0",
        "INSERT INTO there SELECT g FROM generate_series(1, 100) g",
        "DELETE FROM here WHERE id % 77 = 0",
    )


def test_an_incremental_chain_becomes_a_whole_backup(tmp_path: Path) -> None:
    with make_server(18) as server:
        prepare(server)
        chain: list[BaseBackup] = []
        for number in range(3):
            # A manifest, or a directory with one.
            parents = [None, *(it.path for it in chain)]
            if number == 2:
                parents.append(chain[-1].path / "backup_manifest")
            done = take(
                server,
                tmp_path / str(number),
                format="plain",
                tablespaces={str(space_of(server)): str(tmp_path / f"space{number}")},
                incremental=parents[-1],
            )
            assert (done.parent is None) == (number == 0)
            chain.append(done)
            before = rows(server)
            change_rows(server)
        assert max(it.bytes for it in chain[1:]) < chain[0].bytes
        assert [*chain[1].path.glob("base/*/INCREMENTAL.*")]
        combine = server.bin / "pg_combinebackup"

        def restore(data: Path) -> None:
            (space,) = chain[-1].tablespaces.values()
            moved = f"{space}={data.parent / 'restored_space'}"
            places = [it.path for it in chain]
            joined = run(combine, *places, "-o", data, "-T", moved, "--no-sync")
            assert joined.returncode == 0, joined.stderr

        with Restored(18, restore) as restored:
            assert rows(restored) == before


def test_a_parent_that_does_not_fit_is_refused(
    newest: EmbeddedServer, tmp_path: Path
) -> None:
    whole = take(newest, tmp_path / "whole")
    with EmbeddedServer(18) as other:
        incremental = take(other, tmp_path / "other").path
        with pytest.raises(ReplicationError, match="summarization"):
            take(other, tmp_path / "b", incremental=incremental)
        with pytest.raises(ReplicationError, match="system identifier"):
            take(other, tmp_path / "b", incremental=whole.path)
    listed = whole.path / "backup_manifest"
    listed.write_bytes(listed.read_bytes().replace(b"base/1/", b"base/2/"))
    with pytest.raises(ReplicationError, match="checksum"):
        take(newest, tmp_path / "b", incremental=whole.path)
    with pytest.raises(BackupError, match="No such file"):
        take(newest, tmp_path / "b", incremental=tmp_path / "nothing")
    assert names(tmp_path) == {"whole", "other"}


@slow
def test_incremental_backups_need_server_17(tmp_path: Path) -> None:
    with EmbeddedServer(16) as server:
        done = take(server, tmp_path / "a")
        with pytest.raises(OptionError, match="17"):
            take(server, tmp_path / "b", incremental=done.path)


@slow
def test_damage_on_the_server_is_found(tmp_path: Path) -> None:
    with make_server(18) as server:
        prepare(server)
        execute(server.dsn, "CHECKPOINT")
        ((path,),) = execute(server.dsn, "SELECT pg_relation_filepath('here')")
        with (server.data_directory / path).open("r+b") as file:
            file.seek(100)
            file.write(b"damaged")
        with pytest.raises(ReplicationError, match="--no-verify-checksums") as raised:
            take(server, tmp_path / "b")
        assert raised.value.sqlstate == "XX001"
        assert not [*tmp_path.iterdir()]
        take(server, tmp_path / "b", verify_checksums=False)


def test_the_result_has_the_positions_of_the_server(
    newest: EmbeddedServer, tmp_path: Path
) -> None:
    with psycopg.connect(newest.dsn, autocommit=True) as conn:
        row = conn.execute("SELECT pg_current_wal_lsn()").fetchone()
        assert row is not None
        done = take(newest, tmp_path / "b", format="plain")
        label = (done.path / "backup_label").read_text()
        assert f"START WAL LOCATION: {done.start_lsn} " in label
        assert f"START TIMELINE: {done.start_timeline}\n" in label
        assert Lsn(row[0]) <= done.start_lsn < done.end_lsn
        row = conn.execute(
            "SELECT system_identifier FROM pg_control_system()"
        ).fetchone()
        assert row is not None
        assert done.system_identifier == str(row[0])
