"""WAL of real servers as files: compared with pg_receivewal's, and recovered from."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from servers import EmbeddedServer, Standby
from servers.receiving import execute, until
from servers.wal import (
    SEGMENT,
    Recovered,
    SmallSegments,
    WalProcess,
    base_backup,
    check,
    contents,
    durable,
    end_of_wal,
    programs_of,
    receive,
    receiving,
    side_by_side,
    until_reported,
    until_there,
    until_unused,
    waldump,
    whole,
    write,
)
from walrow import backup
from walrow._lsn import Lsn
from walrow._postgres.commands import identify_system
from walrow._postgres.physical import PhysicalStream, TimelineEnd, Wal
from walrow.errors import BackupError, OptionError, ReplicationError

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


def older(*majors: int) -> list[Any]:
    return [pytest.param(it, marks=pytest.mark.slow) for it in majors]


@pytest.mark.parametrize("major", [18, 16, *older(14, 15, 17)])
def test_files_are_those_of_pg_receivewal(tmp_path: Path, major: int) -> None:
    """The files of the same run, byte for byte; in a slot; pg_waldump reads them."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    # One of them has segments of the usual size.
    make, segment = (
        (EmbeddedServer, 16 << 20) if major == 16 else (SmallSegments, SEGMENT)
    )
    with make(major, programs=programs_of(major)) as server:
        with side_by_side(server, ours, theirs) as receiver:
            write(server, 4)
            execute(server.dsn, "SELECT pg_switch_wal()", "CREATE TABLE other ()")
            end = end_of_wal(server)
        assert receiver.result is not None
        assert receiver.result.to_dict()["flushed"] == str(receiver.result.flushed)
        assert durable(receiver.result) >= Lsn(end)
        assert len(whole(ours)) >= 1
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


def test_until_now_and_again(small: EmbeddedServer, tmp_path: Path, kept: str) -> None:
    to = tmp_path / "a" / "wal"
    write(small, 2)
    end = end_of_wal(small)
    result = receive(small, to, slot=kept)
    assert durable(result) >= Lsn(end)
    assert [it[-8:] for it in contents(to)][-1] == ".partial"
    write(small, 1)
    before = contents(to)
    receive(small, to, slot=kept)
    # Whole segments are not written again.
    assert {name: contents(to)[name] for name in whole(to) if name in before} == {
        name: data for name, data in before.items() if not name.endswith(".partial")
    }
    names = sorted(whole(to))
    assert [int(it[16:], 16) for it in names] == [
        int(names[0][16:], 16) + it for it in range(len(names))
    ]
    # An LSN that is there already needs no stream.
    done = backup.receive_wal(small.dsn, to=to, slot=kept, until=str(result.flushed))
    assert done.state == "stopped"
    assert sorted(whole(to)) == names
    with pytest.raises(OptionError, match="the first WAL that comes"):
        backup.receive_wal(small.dsn, to=tmp_path / "b", until="0/1")


@pytest.mark.parametrize("major", [18, *older(14, 15, 16, 17)])
def test_1000_synchronous_commits_survive_a_kill_of_the_server(
    tmp_path: Path, major: int
) -> None:
    """And a server recovers from a base backup and the files to the last commit."""
    base, wal = tmp_path / "base", tmp_path / "wal"
    with SmallSegments(major, programs=programs_of(major)) as server:
        execute(server.dsn, "CREATE TABLE item (id int)")
        named = f"{server.dsn} application_name=keeper"
        with receiving(named, wal, synchronous=True, slot="k", create_slot=True):
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
        with side_by_side(standby, ours, theirs) as receiver:
            write(primary, 2)
            # Only segments whose history is there may be there.
            until(lambda: len(whole(ours)) >= 2)
            execute(standby.dsn, "SELECT pg_promote()")
            write(standby, 2)
        assert receiver.result is not None
        assert receiver.result.timeline == 2
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


def test_a_promoted_server_that_lacks_durable_wal_is_an_error(tmp_path: Path) -> None:
    """Commits waited for these files. Only they have them now."""
    to = tmp_path / "wal"
    with SmallSegments(18) as primary, Standby(primary) as standby:
        execute(primary.dsn, "CREATE TABLE z (i int)")
        hosts = f"{primary.socket_directory},{standby.socket_directory}"
        both = f"host={hosts} user=postgres dbname=postgres"
        with receiving(both, to) as receiver:
            until_reported(primary, "0/0")
            until(
                lambda: (
                    execute(primary.dsn, "SELECT pg_current_wal_lsn()")
                    == execute(standby.dsn, "SELECT pg_last_wal_receive_lsn()")
                )
            )
            standby.shut_down("fast")
            execute(primary.dsn, "INSERT INTO z SELECT generate_series(1, 500)")
            until_reported(primary, end_of_wal(primary))
            primary.shut_down("kill")
            standby.start()
            execute(standby.dsn, "SELECT pg_promote()")
            receiver.wait(60)
        assert isinstance(receiver.failure, BackupError), receiver.failure
        assert receiver.failure.code == "diverged"
        kept = [it for it in contents(to) if it.startswith("00000001")]
        assert kept
        # Somebody has read that: it goes on.
        assert receive(standby, to).timeline == 2
        assert [it for it in contents(to) if it.startswith("00000001")] == kept


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
        assert result.timeline == 2
        history = (to / "00000002.history").read_text()
        assert history.split()[1] == end
        assert [it.name[:8] for it in to.glob("*.partial")] == ["00000002"]


@pytest.mark.slow
def test_two_promotions_are_followed_one_after_the_other(tmp_path: Path) -> None:
    to = tmp_path / "wal"
    with SmallSegments(18) as primary, Standby(primary) as standby:
        create = "SELECT pg_create_physical_replication_slot('kept', true)"
        execute(standby.dsn, create)
        receive(primary, to)
        write(primary, 1)
        until_there(standby, end_of_wal(primary))
        primary.shut_down("kill")
        for _ in range(2):
            execute(standby.dsn, "SELECT pg_promote()")
            write(standby, 2)
            execute(standby.dsn, "CHECKPOINT")
            standby.shut_down()
            (standby.data_directory / "standby.signal").touch()
            standby.start()
        result = receive(standby, to, slot="kept")
        assert result.timeline == 3
        check(standby, to, result)
    names = set(contents(to))
    assert {"00000002.history", "00000003.history"} <= names
    assert {it[:8] for it in names} == {f"0000000{it}" for it in (1, 2, 3)}


def test_a_directory_that_somebody_must_look_at(
    small: EmbeddedServer, tmp_path: Path, kept: str
) -> None:
    to = tmp_path / "wal"
    write(small, 4)
    receive(small, to, slot=kept)
    names = sorted(whole(to))
    middle = to / names[1]
    data = middle.read_bytes()

    def refused() -> BackupError:
        before = contents(to)
        with pytest.raises(BackupError) as caught:
            receive(small, to, slot=kept)
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
    assert refused().code == "foreign"
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
    with receiving(small.dsn, to, slot=kept) as receiver:
        until(lambda: any(it.state == "streaming" for it in receiver.states))
        assert refused_by_lock(small, to)
    with SmallSegments(18) as other:
        with pytest.raises(BackupError, match="system identifier") as caught:
            receive(other, to)
        assert caught.value.code == "other_server"
    receive(small, to, slot=kept)


def refused_by_lock(small: EmbeddedServer, to: Path) -> bool:
    with pytest.raises(BackupError) as caught:
        receive(small, to)
    return caught.value.code == "locked"


def test_wal_that_was_removed_is_a_gap(small: EmbeddedServer, tmp_path: Path) -> None:
    to = tmp_path / "wal"
    receive(small, to)
    for _ in range(3):
        write(small, 4)
        execute(small.dsn, "SELECT pg_switch_wal()", "CHECKPOINT")
    before = contents(to)
    with pytest.raises(ReplicationError) as caught:
        receive(small, to)
    assert caught.value.sqlstate == "58P01"
    text = str(caught.value)
    assert "START_REPLICATION" in text
    assert "new base backup and an empty directory" in text
    assert contents(to) == before
    with pytest.raises(ReplicationError, match="--create-slot") as caught:
        receive(small, tmp_path / "other", slot="missing")
    assert caught.value.sqlstate == "42704"


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


def test_hot_standby_feedback(small: EmbeddedServer) -> None:
    with PhysicalStream.connect(small.dsn) as stream:
        system = identify_system(stream.connection)
        start = system.xlogpos // SEGMENT * SEGMENT
        with pytest.raises(OptionError):
            stream.hot_standby_feedback(700)
        assert stream.start(start, timeline=system.timeline) is None
        ((xid,),) = execute(small.dsn, "SELECT txid_current()")

        def backend_xmin() -> Any:
            stream.receive(0.05)
            query = "SELECT backend_xmin::text FROM pg_stat_replication"
            return execute(small.dsn, query)[0][0]

        stream.hot_standby_feedback(xid, xmin_epoch=0)
        until(lambda: backend_xmin() == str(xid))
        stream.hot_standby_feedback(0)
        until(lambda: backend_xmin() is None)


def test_the_command(small: EmbeddedServer, tmp_path: Path) -> None:
    to = tmp_path / "wal"
    arguments = ("--slot", "made", "--create-slot", "--until", "now")
    with WalProcess(small.dsn, to, *arguments) as process:
        assert process.wait() == (0, "")
        assert process.states[-1]["timeline"] == 1
    with WalProcess(f"{small.dsn} password=sesame", to, "--slot", "none") as process:
        code, text = process.wait()
        assert code == 1
        assert "--create-slot" in text
        assert "sesame" not in text
    with WalProcess(small.dsn, to, "--synchronous", "--slot", "made") as process:
        process.until_flushed()
        assert process.stop(signal.SIGTERM) < 1
    until_unused(small)
    execute(small.dsn, "SELECT pg_drop_replication_slot('made')")
    assert os.listdir(to)  # noqa: PTH208
