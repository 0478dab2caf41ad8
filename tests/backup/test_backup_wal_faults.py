"""Receivers of WAL whose disks, servers and connections fail, or which are killed."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from servers import EmbeddedServer, Proxy, Standby
from servers.receiving import Disk, execute, until
from servers.wal import (
    SEGMENT,
    Recovered,
    SmallSegments,
    WalProcess,
    base_backup,
    check,
    contents,
    end_of_wal,
    receive,
    receiving,
    until_reported,
    until_there,
    whole,
    write,
)
from walrow import backup
from walrow.errors import ReplicationError

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


def test_a_disk_that_stalls_does_not_end_the_connection(
    small: EmbeddedServer, tmp_path: Path, kept: str
) -> None:
    """The server is impatient: it waits for an answer for a second."""
    to = tmp_path / "wal"
    disk = Disk(to)
    with WalProcess(small.dsn, to, "--slot", kept, disk=disk) as process:
        until_reported(small, end_of_wal(small))
        pid = execute(small.dsn, "SELECT pid FROM pg_stat_replication")
        # It keeps WAL, and no rows.
        query = "SELECT backend_xmin FROM pg_stat_replication"
        assert execute(small.dsn, query) == [(None,)]
        query = "SELECT xmin, catalog_xmin FROM pg_replication_slots"
        assert execute(small.dsn, query) == [(None, None)]
        with disk.has("stalled"):
            write(small, 2)
            end = end_of_wal(small)
            time.sleep(1.5)
            query = "SELECT pid, flush_lsn < %s FROM pg_stat_replication"
            found = execute(small.dsn, query.replace("%s", f"'{end}'"))
            assert found == [(*pid[0], True)]
        until_reported(small, end)
        assert process.stop(signal.SIGINT) < 1
        assert not any(it["note"] for it in process.states)


def test_a_server_shuts_down_while_the_disk_stalls(tmp_path: Path) -> None:
    """The server waits for what it has sent, and sends that again to the next connection."""
    to = tmp_path / "wal"
    disk = Disk(to)
    with SmallSegments(18) as server:
        arguments = "--slot", "kept", "--create-slot"
        with WalProcess(server.dsn, to, *arguments, disk=disk) as process:
            process.until_flushed()
            with disk.has("stalled"):
                execute(server.dsn, "CREATE TABLE t ()")
                begin = time.monotonic()
                server.shut_down("fast")
                assert time.monotonic() - begin < 10
                until(lambda: "the server is stopping" in process.output)
            server.start()
            until_reported(server, end_of_wal(server))
            process.stop(signal.SIGINT)
        check(server, to, receive(server, to, slot="kept"))


def test_a_full_disk_is_an_error_that_names_the_file(
    small: EmbeddedServer, tmp_path: Path, kept: str
) -> None:
    to = tmp_path / "wal"
    disk = Disk(to)
    with WalProcess(small.dsn, to, "--slot", kept, disk=disk) as process:
        process.until_flushed()
        with disk.has("full"):
            write(small, 2)
            code, text = process.wait()
        assert code == 1
        assert "No space left on device; start again" in text
        assert str(to / "00000001") in text
    check(small, to, receive(small, to, slot=kept))


def test_a_lost_connection_is_made_again(
    small: EmbeddedServer, tmp_path: Path, kept: str
) -> None:
    to = tmp_path / "wal"
    with Proxy(small) as proxy, receiving(proxy.dsn, to, slot=kept) as receiver:
        for _ in range(3):
            until_reported(small, end_of_wal(small))
            proxy.cut()
            # Whole, or partial.
            assert all(len(it) == SEGMENT for it in contents(to).values())
            write(small, 1)
        until_reported(small, end_of_wal(small))
        assert any(it.note for it in receiver.states)
        assert receiver.states[-1].note is None
        execute(small.dsn, _TERMINATE)
        until_reported(small, end_of_wal(small))
        assert receiver.stop() < 1
    assert receiver.failure is None
    check(small, to, receiver.result)


_TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_replication"


def test_a_server_shuts_down_while_it_is_received(tmp_path: Path) -> None:
    """A server waits until its WAL is durable everywhere."""
    to = tmp_path / "wal"
    with SmallSegments(18) as server:
        with receiving(server.dsn, to) as receiver:
            until_reported(server, "0/0")
            write(server, 1)
            begin = time.monotonic()
            server.shut_down("fast")
            assert time.monotonic() - begin < 5
            until(lambda: receiver.states[-1].state == "connecting")
            server.start()
            until_reported(server, end_of_wal(server))
            assert receiver.stop() < 1
        check(server, to, receiver.result)


def test_a_stop_while_no_server_is_there(tmp_path: Path) -> None:
    dsn = f"host={tmp_path} user=postgres password=sesame"
    with receiving(dsn, tmp_path / "wal") as receiver:
        until(lambda: receiver.states and receiver.states[-1].note)
        assert receiver.stop() < 1
    assert receiver.result is not None
    assert receiver.result.flushed is None
    assert "sesame" not in str(receiver.states)
    with pytest.raises(ReplicationError) as caught:
        backup.receive_wal(dsn, to=tmp_path / "wal", until="now", start_within=0.1)
    assert "sesame" not in str(caught.value)


def test_an_idle_stream_stays(small: EmbeddedServer, tmp_path: Path) -> None:
    """Keepalives are no WAL, and show that the server is there."""
    with receiving(small.dsn, tmp_path / "wal") as receiver:
        until_reported(small, end_of_wal(small))
        pid = execute(small.dsn, "SELECT pid FROM pg_stat_replication")
        time.sleep(1.3)
        assert execute(small.dsn, "SELECT pid FROM pg_stat_replication") == pid
        assert not any(it.note for it in receiver.states)


@pytest.mark.parametrize(
    "crash_at",
    [
        it if it in {9, 14, 17, 19} else pytest.param(it, marks=pytest.mark.slow)
        for it in range(1, 60)
    ],
)
def test_a_receiver_that_is_killed_goes_on(
    small: EmbeddedServer, tmp_path: Path, kept: str, crash_at: int
) -> None:
    """At an operation on a file: a write, a sync, a new name."""
    to = tmp_path / "wal"
    write(small, 2)
    arguments = ("--slot", kept, "--until", "now")
    with WalProcess(small.dsn, to, *arguments, crash_at=crash_at) as process:
        process.process.wait(30)
        assert process.process.returncode in {0, -signal.SIGKILL}
    for name, data in whole(to).items() if to.exists() else ():
        assert len(data) == SEGMENT, name
        source = small.data_directory / "pg_wal" / name
        assert not source.exists() or data == source.read_bytes()
    write(small, 1)
    check(small, to, receive(small, to, slot=kept))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_campaign_of_kills_over_a_promotion(tmp_path: Path) -> None:
    """A server recovers from the files to the last commit, whatever was killed and when."""
    base, wal = tmp_path / "base", tmp_path / "wal"
    draw = random.Random(7)  # noqa: S311
    with SmallSegments(18) as primary, Standby(primary) as standby:
        execute(primary.dsn, "CREATE TABLE item (id int)")
        base_backup(primary, base)
        hosts = f"{primary.socket_directory},{standby.socket_directory}"
        dsn = f"host={hosts} user=postgres dbname=postgres"
        create = "SELECT pg_create_physical_replication_slot('kept', true)"
        execute(primary.dsn, create)
        writer: EmbeddedServer = primary
        count = 0
        for round_number in range(40):
            arguments = ("--slot", "kept", *draw.choice([(), ("--synchronous",)]))
            with WalProcess(dsn, wal, *arguments) as process:
                seconds = draw.uniform(0.3, 1.5)
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    count += 1
                    execute(writer.dsn, f"INSERT INTO item VALUES ({count})")  # noqa: S608
                    if not count % 7:
                        write(writer, 1)
                process.kill()
            if round_number == 20:
                execute(standby.dsn, create)
                until_there(standby, end_of_wal(primary))
                primary.shut_down("kill")
                execute(standby.dsn, "SELECT pg_promote()")
                writer = standby
        result = backup.receive_wal(dsn, to=wal, slot="kept", until="now")
        check(standby, wal, result)
        rows = execute(standby.dsn, "SELECT count(*), max(id) FROM item")
    assert rows == [(count, count)]
    with Recovered(base, wal, 18) as recovered:
        assert execute(recovered.dsn, "SELECT count(*), max(id) FROM item") == rows


@pytest.mark.slow
def test_a_queue_that_is_full_holds_the_connection(
    small: EmbeddedServer, tmp_path: Path, kept: str
) -> None:
    to = tmp_path / "wal"
    disk = Disk(to)
    with WalProcess(small.dsn, to, "--slot", kept, disk=disk):
        until_reported(small, end_of_wal(small))
        pid = execute(small.dsn, "SELECT pid FROM pg_stat_replication")
        with disk.has("stalled"):
            write(small, 90)
            time.sleep(3)
            assert execute(small.dsn, "SELECT pid FROM pg_stat_replication") == pid
        until_reported(small, end_of_wal(small))
        assert execute(small.dsn, "SELECT pid FROM pg_stat_replication") == pid
