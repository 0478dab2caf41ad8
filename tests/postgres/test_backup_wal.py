"""WAL of real servers as files: compared with pg_receivewal's, and recovered from."""

from __future__ import annotations

import os
import random
import signal
import stat
import time
from typing import TYPE_CHECKING, Any

import pytest

from servers import EmbeddedServer, Proxy, Standby
from servers.receiving import Disk, execute
from servers.wal import (
    SEGMENT,
    Receiving,
    Recovered,
    SmallSegments,
    WalProcess,
    base_backup,
    contents,
    durable,
    end_of_wal,
    pg_receivewal,
    programs_of,
    until,
    until_reported,
    waldump,
    whole,
    write,
)
from walrow import backup
from walrow._lsn import Lsn
from walrow._postgres.commands import identify_system
from walrow._postgres.physical import PhysicalStream, TimelineEnd, Wal
from walrow.errors import BackupError, Error, OptionError, ReplicationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    """A server with small segments, which is impatient and keeps no old WAL."""
    settings = {
        "wal_sender_timeout": "1s",
        "max_wal_size": "2MB",
        "min_wal_size": "2MB",
    }
    with SmallSegments(18, settings=settings) as running:
        yield running


@pytest.fixture
def slot(server: EmbeddedServer) -> Iterator[str]:
    """A slot that keeps WAL from now on."""
    name = "physical"
    execute(server.dsn, f"SELECT pg_create_physical_replication_slot('{name}', true)")
    yield name
    drop = f"SELECT pg_drop_replication_slot('{name}')"
    until(lambda: not execute(server.dsn, _ACTIVE))
    execute(server.dsn, drop)


_ACTIVE = "SELECT 1 FROM pg_replication_slots WHERE active"


def receive(server: EmbeddedServer, to: Path, **options: Any) -> backup.ReceivedWal:
    return backup.receive_wal(server.dsn, to=to, until="now", **options)


def older(*majors: int) -> list[Any]:
    return [pytest.param(it, marks=pytest.mark.slow) for it in majors]


@pytest.mark.parametrize("major", [18, 16, *older(14, 15, 17)])
def test_files_are_those_of_pg_receivewal(tmp_path: Path, major: int) -> None:
    """Of the same run, byte for byte; in a slot; pg_waldump reads them."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    # One of them has segments of the usual size.
    make, segment = (
        (EmbeddedServer, 16 << 20) if major == 16 else (SmallSegments, SEGMENT)
    )
    with make(major, programs=programs_of(major)) as server:
        create = "SELECT pg_create_physical_replication_slot('{}', true)"
        execute(server.dsn, create.format("ours"), create.format("theirs"))
        with (
            pg_receivewal(server, theirs, "theirs"),
            Receiving(server.dsn, ours, slot="ours") as receiving,
        ):
            until_reported(server, "0/0")
            until_reported(server, "0/0", "pg_receivewal")
            write(server, 4)
            execute(server.dsn, "SELECT pg_switch_wal()", "CREATE TABLE other ()")
            end = end_of_wal(server)
            until_reported(server, end)
            until_reported(server, end, "pg_receivewal")
        assert receiving.failure is None
        assert receiving.result is not None
        assert receiving.result.segment_size == segment
        assert receiving.result.to_dict()["end"] == str(receiving.result.end)
        assert durable(receiving.result) >= Lsn(end)
        assert receiving.result.segments == len(whole(ours)) >= 1
        assert contents(ours) == contents(theirs)
        assert [it for it in contents(ours) if it.endswith(".partial")]
        query = "SELECT restart_lsn >= %s FROM pg_replication_slots WHERE slot_name = 'ours'"
        assert execute(server.dsn, query.replace("%s", f"'{end}'")) == [(True,)]
    if major in {16, 18}:
        assert waldump(ours, major).count("COMMIT") >= 8
    for path in ours.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.stat().st_size in {segment, 0}
    assert stat.S_IMODE(ours.stat().st_mode) == 0o700


def test_until_now_and_again(server: EmbeddedServer, tmp_path: Path, slot: str) -> None:
    to = tmp_path / "a" / "wal"
    write(server, 2)
    end = end_of_wal(server)
    result = receive(server, to, slot=slot)
    assert durable(result) >= Lsn(end)
    assert [it[-8:] for it in contents(to)][-1] == ".partial"
    write(server, 1)
    again = receive(server, to, slot=slot)
    assert again.start == durable(result) // SEGMENT * SEGMENT
    names = sorted(whole(to))
    assert [int(it[16:], 16) for it in names] == [
        int(names[0][16:], 16) + it for it in range(len(names))
    ]
    # An LSN that is there already needs no stream.
    before = backup.receive_wal(server.dsn, to=to, slot=slot, until=str(result.end))
    assert before.segments == 0
    with pytest.raises(OptionError, match="the first WAL that comes"):
        backup.receive_wal(server.dsn, to=tmp_path / "b", until="0/1")


@pytest.mark.parametrize("major", [18, *older(14, 15, 16, 17)])
def test_1000_synchronous_commits_survive_a_kill_of_the_server(
    tmp_path: Path, major: int
) -> None:
    """And a server recovers from a base backup and the files to the last commit."""
    base, wal = tmp_path / "base", tmp_path / "wal"
    with SmallSegments(major, programs=programs_of(major)) as server:
        execute(server.dsn, "CREATE TABLE item (id int)")
        named = f"{server.dsn} application_name=keeper"
        with Receiving(named, wal, synchronous=True, slot="k", create_slot=True):
            until_reported(server, "0/0", "keeper")
            base_backup(server, base)
            execute(
                server.dsn,
                "ALTER SYSTEM SET synchronous_standby_names = 'keeper'",
                "SELECT pg_reload_conf()",
            )
            until(lambda: execute(server.dsn, _SYNCHRONOUS) == [("sync",)])
            do = "DO $$ BEGIN FOR i IN 1..1000 LOOP INSERT INTO item VALUES (i);"
            execute(server.dsn, f"{do} COMMIT; END LOOP; END $$")
            server.shut_down("kill")
        with Recovered(base, wal, major) as recovered:
            query = "SELECT count(*), max(id) FROM item"
            assert execute(recovered.dsn, query) == [(1000, 1000)]


_SYNCHRONOUS = (
    "SELECT sync_state FROM pg_stat_replication WHERE application_name = 'keeper'"
)


@pytest.mark.parametrize("major", [18, *older(16)])
def test_a_promotion_is_followed(tmp_path: Path, major: int) -> None:
    """As pg_receivewal does it, with the same files; then from the switch point itself."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with SmallSegments(major) as primary, Standby(primary) as standby:
        write(primary, 2)
        create = "SELECT pg_create_physical_replication_slot('{}', true)"
        execute(standby.dsn, create.format("ours"), create.format("theirs"))
        with (
            pg_receivewal(standby, theirs, "theirs"),
            Receiving(standby.dsn, ours, slot="ours") as receiving,
        ):
            until_reported(standby, "0/0")
            until_reported(standby, "0/0", "pg_receivewal")
            write(primary, 2)
            # Only what has its history may be there.
            until(lambda: len(whole(ours)) >= 2)
            execute(standby.dsn, "SELECT pg_promote()")
            write(standby, 2)
            end = end_of_wal(standby)
            until_reported(standby, end)
            until_reported(standby, end, "pg_receivewal")
        assert receiving.failure is None
        assert receiving.result is not None
        assert receiving.result.timeline == 2
        found = contents(ours)
        assert found == contents(theirs)
        partial = [it for it in found if it.endswith(".partial")]
        assert [it[:8] for it in partial] == ["00000001", "00000002"]
        history = found["00000002.history"]
        there = standby.data_directory / "pg_wal/00000002.history"
        assert history == there.read_bytes()
        switch = Lsn(history.split()[1].decode())
        with PhysicalStream.connect(standby.dsn) as stream:
            assert stream.start(switch, timeline=1) == TimelineEnd(2, switch)
            # The same connection goes on.
            assert identify_system(stream.connection).timeline == 2
            assert stream.start(switch, timeline=2) is None
            assert isinstance(stream.receive(5), Wal)
        # The restart comes from the new timeline.
        again = receive(standby, ours)
        assert again.timeline == 2
        with pytest.raises(BackupError, match="another server was promoted"):
            receive(primary, ours)
        (ours / "00000002.history").write_bytes(b"1\t0/1\tanother server\n")
        with pytest.raises(BackupError, match="in another way") as refused:
            receive(standby, ours)
        assert refused.value.code == "other_server"


def test_a_directory_that_ends_at_the_switch_point(tmp_path: Path) -> None:
    """Then the server has nothing to send for the old timeline."""
    to = tmp_path / "wal"
    with SmallSegments(18) as primary, Standby(primary) as standby:
        write(primary, 1)
        receive(primary, to)
        execute(primary.dsn, "SELECT pg_switch_wal()")
        end = end_of_wal(primary)
        assert Lsn(end) % SEGMENT == 0
        until(lambda: end_of_wal(standby) == end)
        receive(primary, to)
        primary.shut_down("kill")
        assert not list(to.glob("*.partial"))
        execute(standby.dsn, "SELECT pg_promote()")
        result = receive(standby, to)
        assert (result.timeline, result.start) == (2, Lsn(end))
        history = (to / "00000002.history").read_text()
        assert history.split()[1] == end
        assert [it.name[:8] for it in to.glob("*.partial")] == ["00000002"]


def test_a_directory_that_somebody_must_look_at(
    server: EmbeddedServer, tmp_path: Path, slot: str
) -> None:
    to = tmp_path / "wal"
    write(server, 4)
    receive(server, to, slot=slot)
    names = sorted(whole(to))
    middle = to / names[1]
    data = middle.read_bytes()

    def refused() -> BackupError:
        before = contents(to)
        with pytest.raises(BackupError) as caught:
            receive(server, to, slot=slot)
        assert contents(to) == before
        return caught.value

    middle.unlink()
    error = refused()
    assert (error.code, error.path) == ("gap", str(middle))
    assert "new base backup" in str(error)
    middle.write_bytes(data[:-1])
    assert (refused().code, names[1] in str(refused())) == ("size", True)
    middle.unlink()
    middle.with_name(f"{names[1]}.gz").touch()
    assert refused().code == "compressed"
    middle.with_name(f"{names[1]}.gz").unlink()
    middle.write_bytes(data)
    # Another segment's file under the newest name.
    newest = to / names[-1]
    partial = next(to.glob("*.partial"))
    partial.write_bytes(bytes(SEGMENT))
    good = newest.read_bytes()
    newest.write_bytes(data)
    assert refused().code == "foreign"
    newest.write_bytes(good)
    with Receiving(server.dsn, to, slot=slot) as receiving:
        until(lambda: any(it.state == "streaming" for it in receiving.states))
        assert refused_by_lock(server, to)
    with SmallSegments(18) as other:
        with pytest.raises(BackupError, match="system identifier") as caught:
            receive(other, to)
        assert caught.value.code == "other_server"
    receive(server, to, slot=slot)


def refused_by_lock(server: EmbeddedServer, to: Path) -> bool:
    with pytest.raises(BackupError) as caught:
        receive(server, to)
    return caught.value.code == "locked"


def test_wal_that_was_removed_is_a_gap(server: EmbeddedServer, tmp_path: Path) -> None:
    to = tmp_path / "wal"
    receive(server, to)
    for _ in range(3):
        write(server, 4)
        execute(server.dsn, "SELECT pg_switch_wal()", "CHECKPOINT")
    before = contents(to)
    with pytest.raises(ReplicationError) as caught:
        receive(server, to)
    assert caught.value.sqlstate == "58P01"
    text = str(caught.value)
    assert "START_REPLICATION" in text
    assert "new base backup and an empty directory" in text
    assert contents(to) == before
    with pytest.raises(ReplicationError, match="--create-slot") as caught:
        receive(server, tmp_path / "other", slot="missing")
    assert caught.value.sqlstate == "42704"


def test_a_disk_that_stalls_does_not_end_the_connection(
    server: EmbeddedServer, tmp_path: Path, slot: str
) -> None:
    """The server is impatient: it waits for an answer for a second."""
    to = tmp_path / "wal"
    disk = Disk(to)
    with WalProcess(server.dsn, to, "--slot", slot, disk=disk) as process:
        until_reported(server, end_of_wal(server))
        pid = execute(server.dsn, "SELECT pid FROM pg_stat_replication")
        with disk.has("stalled"):
            write(server, 2)
            end = end_of_wal(server)
            time.sleep(1.5)
            query = "SELECT pid, flush_lsn < %s FROM pg_stat_replication"
            found = execute(server.dsn, query.replace("%s", f"'{end}'"))
            assert found == [(*pid[0], True)]
        until_reported(server, end)
        assert process.stop(signal.SIGINT) < 1
        assert not any(it["note"] for it in process.states)


def test_a_full_disk_is_an_error_that_names_the_file(
    server: EmbeddedServer, tmp_path: Path, slot: str
) -> None:
    to = tmp_path / "wal"
    disk = Disk(to)
    with WalProcess(server.dsn, to, "--slot", slot, disk=disk) as process:
        process.until_flushed()
        with disk.has("full"):
            write(server, 2)
            code, text = process.wait()
        assert code == 1
        assert "No space left on device; start again" in text
        assert str(to / "00000001") in text
    check(server, to, receive(server, to, slot=slot))


def check(server: EmbeddedServer, to: Path, result: backup.ReceivedWal | None) -> None:
    """Compares files with those that the server still has, and refuses gaps."""
    compared = 0
    found = contents(to)
    assert result is not None
    end = durable(result)
    for name, data in found.items():
        source = server.data_directory / "pg_wal" / name.removesuffix(".partial")
        if source.exists() and not name.endswith(".history"):
            assert len(data) == SEGMENT
            used = SEGMENT if source.name == name else end % SEGMENT
            if name[:8] != f"{result.timeline:08X}":
                continue
            assert data[:used] == source.read_bytes()[:used], name
            compared += 1
    assert compared
    # A segment in which a timeline ends is there twice.
    numbers = sorted({int(it[16:24], 16) for it in found if len(it) >= 24})
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_lost_connection_is_made_again(
    server: EmbeddedServer, tmp_path: Path, slot: str
) -> None:
    to = tmp_path / "wal"
    with Proxy(server) as proxy, Receiving(proxy.dsn, to, slot=slot) as receiving:
        for _ in range(3):
            until_reported(server, end_of_wal(server))
            proxy.cut()
            # Whole, or partial.
            assert all(len(it) == SEGMENT for it in contents(to).values())
            write(server, 1)
        until_reported(server, end_of_wal(server))
        assert any(it.note for it in receiving.states)
        assert receiving.states[-1].note is None
        execute(server.dsn, _TERMINATE)
        until_reported(server, end_of_wal(server))
        assert receiving.stop() < 1
    assert receiving.failure is None
    check(server, to, receiving.result)


_TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_replication"


def test_a_server_shuts_down_while_it_is_received(tmp_path: Path) -> None:
    """A server waits until its WAL is durable everywhere."""
    to = tmp_path / "wal"
    with SmallSegments(18) as server:
        with Receiving(server.dsn, to) as receiving:
            until_reported(server, "0/0")
            write(server, 1)
            begin = time.monotonic()
            server.shut_down("fast")
            assert time.monotonic() - begin < 5
            until(lambda: receiving.states[-1].state == "connecting")
            server.start()
            until_reported(server, end_of_wal(server))
            assert receiving.stop() < 1
        check(server, to, receiving.result)


def test_a_stop_while_no_server_is_there(tmp_path: Path) -> None:
    dsn = f"host={tmp_path} user=postgres password=sesame"
    with Receiving(dsn, tmp_path / "wal") as receiving:
        until(lambda: receiving.states and receiving.states[-1].note)
        assert receiving.stop() < 1
    assert receiving.result is not None
    assert receiving.result.end is None
    assert "sesame" not in str(receiving.states)
    with pytest.raises(Error) as caught:
        backup.receive_wal(dsn, to=tmp_path / "wal", until="now", start_within=0.1)
    assert "sesame" not in str(caught.value)


def test_options_are_checked_before_anything_is_made(tmp_path: Path) -> None:
    wrongs: list[dict[str, Any]] = [
        {"to": ""},
        {"to": "postgresql://me:sesame@host/shop"},
        {"until": "yesterday"},
        {"create_slot": True},
    ]
    for wrong in wrongs:
        with pytest.raises(OptionError) as caught:
            backup.receive_wal("", **{"to": tmp_path / "wal", **wrong})
        assert "sesame" not in str(caught.value)
    assert not (tmp_path / "wal").exists()


def test_an_idle_stream_stays(server: EmbeddedServer, tmp_path: Path) -> None:
    """Keepalives are no WAL, and show that the server is there."""
    with Receiving(server.dsn, tmp_path / "wal") as receiving:
        until_reported(server, end_of_wal(server))
        pid = execute(server.dsn, "SELECT pid FROM pg_stat_replication")
        time.sleep(1.3)
        assert execute(server.dsn, "SELECT pid FROM pg_stat_replication") == pid
        assert not any(it.note for it in receiving.states)


def test_hot_standby_feedback(server: EmbeddedServer) -> None:
    with PhysicalStream.connect(server.dsn) as stream:
        system = identify_system(stream.connection)
        start = system.xlogpos // SEGMENT * SEGMENT
        with pytest.raises(OptionError):
            stream.hot_standby_feedback(700)
        assert stream.start(start, timeline=system.timeline) is None
        ((xid,),) = execute(server.dsn, "SELECT txid_current()")

        def backend_xmin() -> Any:
            stream.receive(0.05)
            query = "SELECT backend_xmin::text FROM pg_stat_replication"
            return execute(server.dsn, query)[0][0]

        stream.hot_standby_feedback(xid, xmin_epoch=0)
        until(lambda: backend_xmin() == str(xid))
        stream.hot_standby_feedback(0)
        until(lambda: backend_xmin() is None)


@pytest.mark.parametrize(
    "crash_at",
    [
        it if it in {9, 14, 17, 19} else pytest.param(it, marks=pytest.mark.slow)
        for it in range(1, 60)
    ],
)
def test_a_receiver_that_is_killed_goes_on(
    server: EmbeddedServer, tmp_path: Path, slot: str, crash_at: int
) -> None:
    """At an operation on a file: a write, a sync, a new name."""
    to = tmp_path / "wal"
    write(server, 2)
    arguments = ("--slot", slot, "--until", "now")
    with WalProcess(server.dsn, to, *arguments, crash_at=crash_at) as process:
        process.process.wait(30)
        assert process.process.returncode in {0, -signal.SIGKILL}
    for name, data in whole(to).items() if to.exists() else ():
        assert len(data) == SEGMENT, name
        source = server.data_directory / "pg_wal" / name
        assert not source.exists() or data == source.read_bytes()
    write(server, 1)
    check(server, to, receive(server, to, slot=slot))


def until_there(standby: EmbeddedServer, lsn: str) -> None:
    until(lambda: Lsn(end_of_wal(standby)) >= Lsn(lsn))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_campaign_of_kills_over_a_promotion(tmp_path: Path) -> None:
    """Whatever was killed and when, a server recovers from the files to the last commit."""
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
    server: EmbeddedServer, tmp_path: Path, slot: str
) -> None:
    to = tmp_path / "wal"
    disk = Disk(to)
    with WalProcess(server.dsn, to, "--slot", slot, disk=disk):
        until_reported(server, end_of_wal(server))
        pid = execute(server.dsn, "SELECT pid FROM pg_stat_replication")
        with disk.has("stalled"):
            write(server, 90)
            time.sleep(3)
            assert execute(server.dsn, "SELECT pid FROM pg_stat_replication") == pid
        until_reported(server, end_of_wal(server))
        assert execute(server.dsn, "SELECT pid FROM pg_stat_replication") == pid


def test_the_command(server: EmbeddedServer, tmp_path: Path) -> None:
    to = tmp_path / "wal"
    arguments = ("--slot", "made", "--create-slot", "--until", "now")
    with WalProcess(server.dsn, to, *arguments) as process:
        assert process.wait() == (0, "")
        assert process.states[-1]["timeline"] == 1
    with WalProcess(f"{server.dsn} password=sesame", to, "--slot", "none") as process:
        code, text = process.wait()
        assert code == 1
        assert "--create-slot" in text
        assert "sesame" not in text
    with WalProcess(server.dsn, to, "--synchronous", "--slot", "made") as process:
        process.until_flushed()
        assert process.stop(signal.SIGTERM) < 1
    until(lambda: not execute(server.dsn, _ACTIVE))
    execute(server.dsn, "SELECT pg_drop_replication_slot('made')")
    assert os.listdir(to)  # noqa: PTH208
