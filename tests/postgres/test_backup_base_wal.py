"""The WAL of base backups, from servers that keep none: a temporary slot keeps it."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest

from servers import EmbeddedServer, Standby
from servers.fetched import VERSIONS
from servers.receiving import execute, until
from servers.restored import Restored
from servers.wal import SEGMENT, SmallSegments, end_of_wal, programs_of
from walrow import Lsn, backup
from walrow.backup import BaseBackup
from walrow.errors import ReplicationError

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]
slow = pytest.mark.slow

SLOTS = "SELECT temporary, wal_status FROM pg_replication_slots"
#: A backup of a standby needs it, since the server's last restart.
WHOLE = {"full_page_writes": "on"}
RELOAD = "SELECT pg_reload_conf()"


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
    server: EmbeddedServer, to: Path, form: Any = "plain", **options: Any
) -> BaseBackup:
    return backup.base_backup(
        server.dsn, to=to, format=form, checkpoint="fast", **options
    )


def once(act: Callable[[], object]) -> Callable[[int, int | None], None]:
    """Does something in the middle of a backup."""
    done: list[Any] = []

    def progress(size: int, _total: int | None) -> None:
        if size and not done:
            done.append(act())

    return progress


def unpack(done: BaseBackup, data: Path) -> None:
    """Restores a backup, by another program than walrow."""
    data.mkdir(mode=0o700)
    source = ["cp", "-a", f"{done.path}/.", str(data)]
    if done.format == "tar":
        source = ["tar", "xf", str(done.path / "base.tar"), "-C", str(data)]
    subprocess.run(source, check=True)  # noqa: S603


@pytest.mark.parametrize(
    "major", [pytest.param(it, marks=() if it == 18 else slow) for it in VERSIONS]
)
@pytest.mark.parametrize("form", ["plain", "tar"])
def test_a_server_that_removes_its_wal_is_restored(
    server: EmbeddedServer, tmp_path: Path, form: str
) -> None:
    slots: list[Any] = []
    query = "SELECT pg_walfile_name(redo_lsn) FROM pg_control_checkpoint()"

    def write_much() -> None:
        slots.append(execute(server.dsn, SLOTS))
        first = execute(server.dsn, query)
        for _ in range(5):
            execute(
                server.dsn,
                "SELECT pg_logical_emit_message(false, '', 'more'), pg_switch_wal()",
                "CHECKPOINT",
            )
        # Nothing else has kept it.
        there = {it.name for it in (server.data_directory / "pg_wal").iterdir()}
        assert first[0][0] in there

    with Writer(server) as writer:
        done = take(server, tmp_path / "b", form, progress=once(write_much))
    assert slots in ([[(True, "reserved")]], [[(True, "extended")]])
    until(lambda: not execute(server.dsn, SLOTS))
    assert done.wal == "complete"
    data = tmp_path / "unpacked"
    unpack(done, data)
    wal = data / "pg_wal"
    files = sorted(it.name for it in wal.iterdir() if it.is_file())
    numbers = [int(it[16:], 16) for it in files]
    first, last = done.start_lsn // SEGMENT, (done.end_lsn - 1) // SEGMENT
    assert numbers == [*range(first, last + 1)]
    assert last - first >= 5
    for name in files:
        assert re.fullmatch("[0-9A-F]{24}", name)
        assert (wal / name).stat().st_size == SEGMENT
    # A server with an archive would archive them again without these.
    status = {it.name for it in (wal / "archive_status").iterdir()}
    assert status == {f"{it}.done" for it in files}
    with Restored(
        server.major,
        lambda to: unpack(done, to),
        programs=programs_of(server.major),
    ) as restored:
        found = {row[0] for row in execute(restored.dsn, "SELECT id FROM item")}
    assert len(writer.before(done.end_lsn)) > 5
    assert writer.before(done.end_lsn) <= found


def test_a_server_without_a_free_slot_names_the_way_out(
    small: SmallSegments, tmp_path: Path
) -> None:
    call = "SELECT pg_{}_replication_slot('other' || g) FROM generate_series(1, 20) g"
    execute(small.dsn, call.format("create_physical"))
    try:
        with pytest.raises(ReplicationError) as raised:
            take(small, tmp_path / "b")
        assert raised.value.sqlstate == "53400"
        assert "--wal none" in raised.value.__notes__[0]
        assert not [*tmp_path.iterdir()]
        assert take(small, tmp_path / "b", wal="none").wal == "missing"
    finally:
        execute(small.dsn, call.format("drop"))


@slow
def test_a_spread_checkpoint_may_take_longer_than_an_idle_session(
    tmp_path: Path,
) -> None:
    settings = {"idle_session_timeout": "200ms", "wal_sender_timeout": "500ms"}
    with SmallSegments(18, settings=settings) as server:
        execute(server.dsn, "ALTER SYSTEM SET checkpoint_timeout = '30s'", RELOAD)
        filled = "CREATE TABLE filled AS SELECT g FROM generate_series(1, 1000) g"
        execute(server.dsn, filled)
        begin = time.monotonic()
        backup.base_backup(server.dsn, to=tmp_path / "b")
        assert time.monotonic() - begin > 1


@slow
@pytest.mark.parametrize("form", ["plain", "tar"])
def test_a_standby_is_restored(tmp_path: Path, form: str) -> None:
    """Also if it follows another timeline meanwhile."""
    with SmallSegments(18, settings=WHOLE) as primary, Standby(primary) as middle:
        execute(primary.dsn, "CREATE TABLE item (id int)")
        until(lambda: Lsn(end_of_wal(middle)) >= Lsn(end_of_wal(primary)))
        with Standby(middle) as last:

            def promote() -> None:
                execute(middle.dsn, "SELECT pg_promote()")
                execute(middle.dsn, "INSERT INTO item VALUES (1)", "CHECKPOINT")
                at = end_of_wal(middle)
                replayed = f"SELECT pg_last_wal_replay_lsn() >= '{at}'"
                until(lambda: execute(last.dsn, replayed) == [(True,)])
                # A standby's backup ends at the position that it needs at least.
                execute(last.dsn, "CHECKPOINT")

            done = take(last, tmp_path / "b", form, progress=once(promote))
            assert (done.start_timeline, done.end_timeline) == (1, 2)

            def restore(data: Path) -> None:
                unpack(done, data)
                # It would follow the servers here.
                (data / "standby.signal").unlink()
                assert (data / "pg_wal/00000002.history").stat().st_size

            with Restored(18, restore) as restored:
                assert execute(restored.dsn, "SELECT id FROM item") == [(1,)]
