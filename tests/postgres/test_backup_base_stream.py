"""Base backups whose WAL is streamed beside them, from servers that keep none."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from typing import TYPE_CHECKING, Any, Self

import psycopg
import pytest

from servers import EmbeddedServer, Proxy, Standby
from servers.npm import VERSIONS
from servers.receiving import Disk, execute
from servers.restored import Restored
from servers.wal import SEGMENT, SmallSegments, end_of_wal, programs_of, until
from walrow import Lsn, backup
from walrow.errors import BackupError, ConnectionLostError, ReplicationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from walrow.backup import BackupProgress, BaseBackup

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]
slow = pytest.mark.slow

#: So fast does a server of these tests send a backup that is to take a while.
RATE = 4096
WITH_SLOTS = (
    "SELECT temporary, active, wal_status, restart_lsn FROM pg_replication_slots"
)
#: A backup of a standby needs it, since the server's last restart.
WHOLE = {"full_page_writes": "on"}
RELOAD = "SELECT pg_reload_conf()"
STREAMS = "SELECT pid FROM pg_stat_replication WHERE state = 'streaming'"


@pytest.fixture
def server(small: SmallSegments, major: int) -> Iterator[EmbeddedServer]:
    """A server with small segments that keeps no old WAL, and is impatient."""
    if major == 18:
        yield small
        return
    settings = {"max_wal_size": "2MB", "min_wal_size": "2MB"}
    programs = programs_of(major)
    with SmallSegments(major, settings=settings, programs=programs) as running:
        yield running


versions = pytest.mark.parametrize(
    "major",
    [pytest.param(it, marks=() if it == 18 else pytest.mark.slow) for it in VERSIONS],
)


class Writer:
    """Commits rows in a thread, and knows where, as a context manager that ends it."""

    def __init__(self, server: EmbeddedServer) -> None:
        """Starts with a new table."""
        self.commits: list[tuple[int, Lsn]] = []
        self._stop = threading.Event()
        self._server = server
        execute(server.dsn, "DROP TABLE IF EXISTS item", "CREATE TABLE item (id int)")
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with psycopg.connect(self._server.dsn, autocommit=True) as conn:
            number = 0
            while not self._stop.is_set():
                number += 1
                conn.execute("INSERT INTO item VALUES (%s)", [number])
                row = conn.execute("SELECT pg_current_wal_lsn()").fetchone()
                assert row is not None
                self.commits.append((number, Lsn(row[0])))
                time.sleep(0.002)

    def before(self, end: Lsn) -> set[int]:
        """The rows of all commits that had ended before a position."""
        return {number for number, lsn in self.commits if lsn <= end}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        self._thread.join(20)


def take(
    server: EmbeddedServer | Proxy, to: Path, form: Any = "plain", **options: Any
) -> BaseBackup:
    usual: dict[str, Any] = {"checkpoint": "fast", "manifest_checksums": "SHA256"}
    return backup.base_backup(server.dsn, to=to, format=form, **(usual | options))


def segments(server: EmbeddedServer) -> list[str]:
    names = [it.name for it in (server.data_directory / "pg_wal").iterdir()]
    return sorted(it for it in names if len(it) == 24)


def first_segment(server: EmbeddedServer) -> str:
    """The segment with the start of the backup whose checkpoint was the last one."""
    query = "SELECT redo_wal_file FROM pg_control_checkpoint()"
    return str(execute(server.dsn, query)[0][0])


def switch(server: EmbeddedServer) -> None:
    """Ends a segment, and removes segments that nothing needs."""
    execute(
        server.dsn,
        "SELECT pg_logical_emit_message(false, '', 'more'), pg_switch_wal()",
        "CHECKPOINT",
    )


class Removing:
    """Ends segments as soon as the backup has begun, until the first one is gone."""

    def __init__(self, server: EmbeddedServer) -> None:
        """Waits for the backup."""
        self._server = server
        self._done = False
        self.slots: list[Any] = []

    def __call__(self, state: BackupProgress) -> None:
        if state.step != "receiving" or self._done:
            return
        self._done = True
        first = first_segment(self._server)
        until(lambda: execute(self._server.dsn, STREAMS))
        self.slots = execute(self._server.dsn, WITH_SLOTS)

        def is_gone() -> bool:
            switch(self._server)
            return first not in segments(self._server)

        until(is_gone)


def unpack(done: BaseBackup, data: Path) -> None:
    """Restores a backup, by other programs than walrow."""
    if done.format == "plain":
        shutil.copytree(done.path, data)
        return
    data.mkdir(mode=0o700)
    for name, place in (("base", data), ("pg_wal", data / "pg_wal")):
        archive = done.path / f"{name}.tar"
        subprocess.run(["tar", "xf", archive, "-C", place], check=True)  # noqa: S603, S607


def until_without_slots(server: EmbeddedServer) -> None:
    until(lambda: not execute(server.dsn, WITH_SLOTS))


@versions
@pytest.mark.parametrize("form", ["plain", "tar"])
def test_a_server_that_removes_its_wal_is_restored(
    server: EmbeddedServer, tmp_path: Path, form: str
) -> None:
    removing = Removing(server)
    with Writer(server) as writer:
        done = take(server, tmp_path / "b", form, progress=removing)
    # One slot, which is temporary, and keeps the WAL that was not received.
    assert [it[:3] for it in removing.slots] == [(True, True, "reserved")]
    until_without_slots(server)
    assert not [*tmp_path.glob("*.partial")]
    assert done.wal == "complete"
    assert backup.verify_manifest(done.path).files == done.files
    wal = tmp_path / "wal"
    if form == "plain":
        wal = done.path / "pg_wal"
    else:
        wal.mkdir()
        with tarfile.open(done.path / "pg_wal.tar") as tar:
            assert tar.fileobj is not None
            tar.extractall(wal, filter="data")
    check_files(server, done, wal)
    with Restored(
        server.major,
        lambda data: unpack(done, data),
        programs=programs_of(server.major),
    ) as restored:
        found = {row[0] for row in execute(restored.dsn, "SELECT id FROM item")}
    assert len(writer.before(done.end_lsn)) > 5
    assert writer.before(done.end_lsn) <= found


def check_files(server: EmbeddedServer, done: BaseBackup, wal: Path) -> None:
    """All segments are whole, and as on the server, as far as it still has them."""
    files = {it.name: it for it in wal.iterdir() if it.is_file()}
    numbers = [int(it[16:], 16) for it in sorted(files)]
    first, last = done.start_lsn // SEGMENT, (done.end_lsn - 1) // SEGMENT
    assert numbers == [*range(first, numbers[-1] + 1)]
    assert numbers[-1] >= last
    for name, path in files.items():
        assert re.fullmatch("[0-9A-F]{24}", name)
        data, there = path.read_bytes(), server.data_directory / "pg_wal" / name
        assert len(data) == SEGMENT
        if there.exists() and int(name[16:], 16) <= last:
            used = min(SEGMENT, done.end_lsn - int(name[16:], 16) * SEGMENT)
            assert data[:used] == there.read_bytes()[:used]
    # A server with an archive would archive them again without these.
    status = {it.name for it in (wal / "archive_status").iterdir()}
    assert status == {f"{it}.done" for it in files}


def test_fetch_would_have_lost_wal(small: SmallSegments, tmp_path: Path) -> None:
    def remove() -> None:
        first = first_segment(small)
        while first in segments(small):
            switch(small)

    with pytest.raises(ReplicationError, match="take the WAL with stream"):
        take(small, tmp_path / "b", wal="fetch", progress=once(remove))
    assert not [*tmp_path.iterdir()]


def test_the_server_is_answered_while_nothing_else_is_done(
    small: SmallSegments, tmp_path: Path
) -> None:
    """It would end the stream after a second."""
    found: list[Any] = []

    def progress(state: BackupProgress) -> None:
        if state.step == "receiving" and not found:
            until(lambda: execute(small.dsn, STREAMS))
            found.append(execute(small.dsn, STREAMS))
            time.sleep(1.5)
            found.append(execute(small.dsn, STREAMS))

    take(small, tmp_path / "b", progress=progress)
    assert found[0] == found[1]


@contextlib.contextmanager
def slowly(
    server: EmbeddedServer, to: Path, disk: Disk | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that takes a backup, and is in the middle of it."""
    command = [sys.executable, "-m", "walrow", "backup", "base", "--dsn", server.dsn]
    command += ["--to", str(to), "--checkpoint", "fast", "--max-rate", "1M"]
    environment = {**os.environ, **(disk.environment if disk else {})}
    with subprocess.Popen(  # noqa: S603
        command, stderr=subprocess.PIPE, env=environment
    ) as process:
        until(lambda: process.poll() or execute(server.dsn, STREAMS))
        try:
            yield process
        finally:
            process.kill()


def test_a_killed_backup_leaves_no_slot(small: SmallSegments, tmp_path: Path) -> None:
    with slowly(small, tmp_path / "b") as process:
        process.kill()
        process.wait()
        until_without_slots(small)
    assert [it.name for it in tmp_path.iterdir()] == ["b.partial"]


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=slow)]
)
def test_a_signal_ends_both_connections(
    small: SmallSegments, tmp_path: Path, number: signal.Signals
) -> None:
    with slowly(small, tmp_path / "b") as process:
        begin = time.monotonic()
        process.send_signal(number)
        assert process.wait(10) == 128 + number
        assert time.monotonic() - begin < 1.5
        until_without_slots(small)
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert not [*tmp_path.iterdir()]


def running(server: EmbeddedServer) -> list[Any]:
    return execute(server.dsn, "SELECT 1 FROM pg_stat_progress_basebackup")


def once(act: Callable[[], object]) -> Callable[[BackupProgress], None]:
    """Does something in the middle of a backup."""
    done: list[Any] = []

    def progress(state: BackupProgress) -> None:
        if state.step == "receiving" and state.bytes_done and not done:
            done.append(act())

    return progress


def test_a_cut_stream_ends_the_backup(small: SmallSegments, tmp_path: Path) -> None:
    with Proxy(small) as proxy:
        cut = once(lambda: proxy.cut(after=1))
        begin = time.monotonic()
        with pytest.raises(ConnectionLostError, match=r"stream of WAL.*start it again"):
            take(proxy, tmp_path / "b", progress=cut, max_rate=RATE)
        # At once, and not at the end of the backup.
        assert time.monotonic() - begin < 3
    assert not [*tmp_path.iterdir()]
    until(lambda: not running(small))
    until_without_slots(small)


@slow
def test_a_stream_that_is_terminated_ends_the_backup(
    small: SmallSegments, tmp_path: Path
) -> None:
    query = f"SELECT pg_terminate_backend(pid) FROM ({STREAMS})"  # noqa: S608
    end = once(lambda: until(lambda: execute(small.dsn, query)))
    with pytest.raises(ReplicationError) as raised:
        take(small, tmp_path / "b", "tar", progress=end, max_rate=RATE)
    assert raised.value.sqlstate == "57P01"
    assert "stream of WAL" in raised.value.__notes__[0]
    assert not [*tmp_path.iterdir()]
    until_without_slots(small)


@slow
def test_a_failure_after_the_stream_leaves_nothing(
    small: SmallSegments, tmp_path: Path
) -> None:
    def fail(state: BackupProgress) -> None:
        if state.step == "verifying":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take(small, tmp_path / "b", progress=fail)
    assert not [*tmp_path.iterdir()]
    until_without_slots(small)


@pytest.mark.parametrize("fault", [pytest.param("full", marks=slow), "error"])
def test_a_disk_that_fails_for_the_stream(
    small: SmallSegments, tmp_path: Path, fault: Any
) -> None:
    disk = Disk(tmp_path / "b.partial/pg_wal")
    program = [sys.executable, "-m", "walrow", "backup", "base", "--dsn", small.dsn]
    command = [*program, "--to", str(tmp_path / "b"), "--checkpoint", "fast"]
    with disk.has(fault):
        done = subprocess.run(  # noqa: S603
            command,
            env={**os.environ, **disk.environment},
            capture_output=True,
            text=True,
            check=False,
        )
    text = {"full": "No space left", "error": "Input/output error"}[fault]
    assert done.returncode == 1
    assert re.search(f"pg_wal/.*: {text}.*start the backup again", done.stderr)
    assert not [*tmp_path.iterdir()]


@pytest.fixture
def without_slots(small: SmallSegments) -> Iterator[EmbeddedServer]:
    """A server whose slots are all in use."""
    call = "SELECT pg_{}_replication_slot('other' || g) FROM generate_series(1, 20) g"
    execute(small.dsn, call.format("create_physical"))
    yield small
    execute(small.dsn, call.format("drop"))


def test_a_server_without_a_slot_names_fetch(
    without_slots: EmbeddedServer, tmp_path: Path
) -> None:
    with pytest.raises(ReplicationError) as raised:
        take(without_slots, tmp_path / "b")
    assert raised.value.sqlstate == "53400"
    assert "--wal fetch" in raised.value.__notes__[0]
    assert not [*tmp_path.iterdir()]


@slow
def test_a_server_without_a_second_connection_names_fetch(tmp_path: Path) -> None:
    with SmallSegments(18, settings={"max_wal_senders": "1"}) as server:
        with pytest.raises(ReplicationError, match="max_wal_senders") as raised:
            take(server, tmp_path / "b")
        assert "--wal fetch" in raised.value.__notes__[0]
        assert not [*tmp_path.iterdir()]
        senders = "SELECT 1 FROM pg_stat_activity WHERE backend_type = 'walsender'"
        until(lambda: not execute(server.dsn, senders))
        take(server, tmp_path / "b", wal="fetch")


@slow
def test_a_signal_ends_a_stream_whose_disk_stalls(
    small: SmallSegments, tmp_path: Path
) -> None:
    disk = Disk(tmp_path / "b.partial/pg_wal")
    with disk.has("stalled"), slowly(small, tmp_path / "b", disk=disk) as process:
        time.sleep(0.5)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 128 + signal.SIGINT
        assert time.monotonic() - begin < 1.5
        until_without_slots(small)


@slow
def test_a_spread_checkpoint_may_take_longer_than_an_idle_session(
    tmp_path: Path,
) -> None:
    settings = {"idle_session_timeout": "200ms", "wal_sender_timeout": "500ms"}
    with SmallSegments(18, settings=settings) as server:
        execute(server.dsn, "ALTER SYSTEM SET checkpoint_timeout = '30s'")
        execute(server.dsn, RELOAD)
        filled = "CREATE TABLE filled AS SELECT g FROM generate_series(1, 1000) g"
        execute(server.dsn, filled)
        begin = time.monotonic()
        take(server, tmp_path / "b", checkpoint="spread")
        assert time.monotonic() - begin > 1


@slow
def test_another_server_is_refused(small: SmallSegments, tmp_path: Path) -> None:
    """As a proxy may lead to one."""
    with EmbeddedServer(18) as other, Proxy(small) as proxy:
        proxy.next_to(other)
        with pytest.raises(BackupError, match="WAL would come from") as raised:
            take(proxy, tmp_path / "b")
        assert raised.value.code == "other_server"
    assert not [*tmp_path.iterdir()]


@slow
def test_of_several_hosts_one_is_used(small: SmallSegments, tmp_path: Path) -> None:
    nowhere = f"{tmp_path},{small.socket_directory}"
    dsn = f"host={nowhere} user=postgres dbname=postgres load_balance_hosts=random"
    options: dict[str, Any] = {"checkpoint": "fast", "manifest_checksums": "SHA256"}
    done = backup.base_backup(dsn, to=tmp_path / "b", **options)
    assert done.wal == "complete"


@slow
@pytest.mark.parametrize("form", ["plain", "tar"])
def test_a_standby_is_restored(tmp_path: Path, form: str) -> None:
    """It does not end its segment: the last one is filled up with zeros."""
    with SmallSegments(18, settings=WHOLE) as primary, Standby(primary) as standby:
        execute(standby.dsn, "SELECT pg_promote()", "CREATE TABLE item (id int)")
        execute(standby.dsn, "ALTER SYSTEM SET full_page_writes = on", RELOAD)
        execute(standby.dsn, "CHECKPOINT")
        with Standby(standby) as second:
            end = end_of_wal(standby)
            until(lambda: Lsn(end_of_wal(second)) >= Lsn(end))
            execute(standby.dsn, "INSERT INTO item VALUES (1)", "CHECKPOINT")
            done = take(second, tmp_path / "b", form)
            assert done.start_timeline == 2

            def restore(data: Path) -> None:
                unpack(done, data)
                files = [it for it in (data / "pg_wal").iterdir() if it.is_file()]
                assert (data / "pg_wal/00000002.history").stat().st_size
                sizes = {it.stat().st_size for it in files if len(it.name) == 24}
                assert sizes == {SEGMENT}
                assert not [*data.rglob("*.partial")]

            with Restored(18, restore) as restored:
                assert execute(restored.dsn, "SELECT id FROM item") in ([(1,)], [])


@slow
def test_a_standby_follows_another_timeline_meanwhile(tmp_path: Path) -> None:
    with SmallSegments(18, settings=WHOLE) as primary, Standby(primary) as middle:
        execute(primary.dsn, "CREATE TABLE item (id int)")
        end = end_of_wal(primary)
        until(lambda: Lsn(end_of_wal(middle)) >= Lsn(end))
        with Standby(middle) as last:

            def promote() -> None:
                execute(middle.dsn, "SELECT pg_promote()")
                execute(middle.dsn, "INSERT INTO item VALUES (1)", "CHECKPOINT")
                at = end_of_wal(middle)
                replayed = f"SELECT pg_last_wal_replay_lsn() >= '{at}'"
                until(lambda: execute(last.dsn, replayed) == [(True,)])
                # A standby's backup ends at the position that it needs at least.
                execute(last.dsn, "CHECKPOINT")

            done = take(last, tmp_path / "b", "tar", progress=once(promote))
            assert (done.start_timeline, done.end_timeline) == (1, 2)
            backup.verify_manifest(done.path)
            with Restored(18, lambda data: unpack(done, data)) as restored:
                assert execute(restored.dsn, "SELECT id FROM item") == [(1,)]
