"""`walrow receive` while the server, the connection or the disk fails."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from servers import EmbeddedServer, Proxy
from servers.loads import stopped, until, until_copying
from servers.receiving import (
    Disk,
    Load,
    ReceiverProcess,
    check_log,
    end_of_wal,
    execute,
    receive_all,
    slot_for_load,
)
from walrow._core import LogObjects
from walrow._log import requests as load_requests

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

QUICK = ("--publish-after", "0.3", "--segment-size", "1MiB")


@pytest.fixture
def slot(own: EmbeddedServer) -> Iterator[str]:
    with slot_for_load(own) as name:
        yield name


def test_server_that_is_killed_under_load(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot) as receiver:
        with Load(own.dsn, seed=1) as load:
            receiver.until_streaming()
            for _ in range(2):
                time.sleep(1)
                own.restart("kill")
        # The receiver itself has noticed, and goes on.
        receiver.until_streaming(after=end_of_wal(own.dsn))
        receiver.stop()
    assert load.transactions > 20
    receive_all(own.dsn, log, slot=slot)
    check_log(own.dsn, log, Load.TABLES)


def test_confirmed_position_that_went_back(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """The server writes a slot's position to disk at a checkpoint only."""
    log = tmp_path / "log"
    execute(own.dsn, "CHECKPOINT")
    with Load(own.dsn, seed=2):
        time.sleep(1)
    receive_all(own.dsn, log, slot=slot)
    own.restart("kill")
    receive_all(own.dsn, log, slot=slot)
    check_log(own.dsn, log, Load.TABLES)


def test_shutdown_waits_for_the_receiver_only_shortly(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot) as receiver:
        with Load(own.dsn, seed=3):
            receiver.until_streaming()
            time.sleep(1)
            begin = time.monotonic()
            own.shut_down("fast")
            assert time.monotonic() - begin < 5
            state = receiver.until(lambda state: state["state"] == "connecting")
            assert state["note"] is None or "password" not in state["note"]
            own.start()
        receiver.until_streaming(after=end_of_wal(own.dsn))
        receiver.stop()
    check_log(own.dsn, log, Load.TABLES)


@pytest.mark.slow
def test_connection_lives_while_the_disk_stalls(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """Four times as long as the server's wal_sender_timeout, with a full queue."""
    log = tmp_path / "log"
    disk = Disk(log)
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot, disk=disk) as receiver:
        receiver.until_streaming()
        pid = walsender(own, slot)
        with disk.has("stalled"), Load(own.dsn, seed=4):
            execute(
                own.dsn,
                "INSERT INTO audit (what) "
                "SELECT repeat('x', 1000000) FROM generate_series(1, 90)",
            )
            time.sleep(8)
            assert walsender(own, slot) == pid
        receiver.until_streaming(after=end_of_wal(own.dsn))
        assert walsender(own, slot) == pid
        receiver.stop()
    check_log(own.dsn, log, Load.TABLES)


def test_stop_while_the_disk_stalls(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    disk = Disk(log)
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot, disk=disk) as receiver:
        receiver.until_streaming()
        with disk.has("stalled"), Load(own.dsn, seed=5):
            time.sleep(1)
            assert receiver.stop() < 2.5
    receive_all(own.dsn, log, slot=slot)
    check_log(own.dsn, log, Load.TABLES)


def test_stop_while_the_disk_and_the_server_stall(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """What the one takes from the two seconds is not there for the other one."""
    log = tmp_path / "log"
    disk = Disk(log)
    with (
        Proxy(own) as proxy,
        ReceiverProcess(proxy.dsn, log, *QUICK, slot=slot, disk=disk) as receiver,
    ):
        receiver.until_streaming()
        with disk.has("stalled"), Load(own.dsn, seed=11):
            time.sleep(1)
            proxy.stall()
            assert receiver.stop() < 2
    receive_all(own.dsn, log, slot=slot)
    check_log(own.dsn, log, Load.TABLES)


def test_connections_that_are_cut_and_stalled_anywhere(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    random_ = random.Random(6)  # noqa: S311
    with (
        Proxy(own) as proxy,
        ReceiverProcess(proxy.dsn, log, *QUICK, slot=slot) as receiver,
    ):
        with Load(own.dsn, seed=6):
            receiver.until_streaming()
            for _ in range(12):
                time.sleep(random_.uniform(0, 0.7))
                proxy.stall()
                time.sleep(random_.uniform(0, 0.2))
                proxy.cut()
            receiver.until_streaming()
            proxy.stall()
            # The ping, half of wal_sender_timeout, is not answered.
            receiver.until(lambda state: "has sent nothing" in (state["note"] or ""))
            proxy.cut()
        receiver.until_streaming(after=end_of_wal(own.dsn))
        receiver.stop()
    check_log(own.dsn, log, Load.TABLES)


def test_full_disk(own: EmbeddedServer, slot: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    disk = Disk(log)
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot, disk=disk) as receiver:
        receiver.until_streaming()
        pid = walsender(own, slot)
        with Load(own.dsn, seed=7):
            with disk.has("full"):
                state = receiver.until(lambda state: state["state"] == "degraded")
                assert "No space left" in state["note"]
                time.sleep(4)
                assert walsender(own, slot) == pid
            receiver.until_streaming()
        receiver.until_streaming(after=end_of_wal(own.dsn))
        assert walsender(own, slot) == pid
        receiver.stop()
    check_log(own.dsn, log, Load.TABLES)


def test_disk_that_is_full_for_too_long(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    disk = Disk(log)
    with ReceiverProcess(
        own.dsn, log, *QUICK, slot=slot, disk=disk, give_up_seconds=2
    ) as receiver:
        receiver.until_streaming()
        with disk.has("full"), Load(own.dsn, seed=8):
            begin = time.monotonic()
            code, text = receiver.wait()
            assert 2 <= time.monotonic() - begin < 8
    assert code == 1
    assert "No space left" in text
    receive_all(own.dsn, log, slot=slot)
    check_log(own.dsn, log, Load.TABLES)


@pytest.mark.parametrize(
    "gives_up", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_fsync_that_fails(
    own: EmbeddedServer, slot: str, tmp_path: Path, *, gives_up: bool
) -> None:
    log = tmp_path / "log"
    disk = Disk(log)
    seconds = 2 if gives_up else None
    with ReceiverProcess(
        own.dsn, log, *QUICK, slot=slot, disk=disk, give_up_seconds=seconds
    ) as receiver:
        receiver.until_streaming()
        with Load(own.dsn, seed=9), disk.has("error"):
            state = receiver.until(lambda state: state["state"] == "degraded")
            assert "could not be made durable" in state["note"]
            time.sleep(3)
            if gives_up:
                code, text = receiver.wait()
                assert (code, "Input/output error" in text) == (1, True)
        if not gives_up:
            receiver.until_streaming(after=end_of_wal(own.dsn))
            receiver.stop()
    receive_all(own.dsn, log, slot=slot)
    check_log(own.dsn, log, Load.TABLES)


def test_stop_while_the_disk_is_full(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    disk = Disk(log)
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot, disk=disk) as receiver:
        receiver.until_streaming()
        with disk.has("full"), Load(own.dsn, seed=10):
            receiver.until(lambda state: state["state"] == "degraded")
            assert receiver.stop() < 2.5
        assert "No space left" in receiver.states[-1]["note"]
    receive_all(own.dsn, log, slot=slot)
    check_log(own.dsn, log, Load.TABLES)


@pytest.mark.slow
@pytest.mark.parametrize("is_stopped", [True, False])
def test_load_that_is_given_up_while_the_disk_is_full(
    own: EmbeddedServer, slot: str, tmp_path: Path, *, is_stopped: bool
) -> None:
    """The thread that waits for the disk gives it up, and the server is answered meanwhile."""
    log = tmp_path / "log"
    execute(
        own.dsn,
        "DROP TABLE IF EXISTS big",
        "CREATE TABLE big AS SELECT g, repeat('x', 1500) t FROM generate_series(1, 20000) g",
        "ALTER PUBLICATION p ADD TABLE big",
    )
    disk = Disk(log)
    arguments = ("--publish-after", "0.3", "--jobs", "1")
    with ReceiverProcess(own.dsn, log, *arguments, slot=slot, disk=disk) as receiver:
        receiver.until_streaming()
        pid = walsender(own, slot)
        request = load_requests.request(log, ["public.big"], is_awaited=True)
        with stopped(until_copying(own, "big")) as copying:
            execute(own.dsn, "INSERT INTO audit (what) VALUES (repeat('x', 900000))")
            receiver.until_streaming(after=end_of_wal(own.dsn))
            with disk.has("full"):
                execute(own.dsn, "INSERT INTO audit (what) VALUES ('x')")
                receiver.until(lambda state: state["state"] == "degraded")
                execute(own.dsn, f"SELECT pg_terminate_backend({copying})")
                os.kill(copying, signal.SIGCONT)
                until(lambda: has_said(receiver, "a load was broken off"))
                # Twice as long as the server's wal_sender_timeout.
                time.sleep(4)
                state = receiver.until(lambda state: state["state"] == "degraded")
                assert "No space left" in state["note"]
                assert walsender(own, slot) == pid
                assert load_requests.result_of(LogObjects(log), request) is None
                if is_stopped:
                    assert receiver.stop() < 2
        if not is_stopped:
            until(lambda: load_requests.result_of(LogObjects(log), request) is not None)
            assert walsender(own, slot) == pid
            receiver.stop()
    receive_all(own.dsn, log, *arguments, slot=slot)
    result = load_requests.result_of(LogObjects(log), request)
    assert result is not None
    assert result.failure is None
    check_log(own.dsn, log, [*Load.TABLES, "big"])
    execute(own.dsn, "DROP TABLE big")


def has_said(receiver: ReceiverProcess, words: str) -> bool:
    return any(words in (state["note"] or "") for state in receiver.states)


def walsender(server: EmbeddedServer, slot: str) -> int | None:
    """The process that serves a slot."""
    query = f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot}'"  # noqa: S608
    ((pid,),) = execute(server.dsn, query)
    return None if pid is None else int(pid)


def test_full_spool(own: EmbeddedServer, slot: str, tmp_path: Path) -> None:
    """A large open transaction has no room. The others go on, and it comes later."""
    log, spool = tmp_path / "log", tmp_path / "spool"
    spool.mkdir()
    disk = Disk(spool)
    arguments = (*QUICK, "--spool-directory", str(spool), "--spool-memory", "1MiB")
    with (
        ReceiverProcess(own.dsn, log, *arguments, slot=slot, disk=disk) as receiver,
        psycopg.connect(own.dsn) as connection,
    ):
        receiver.until_streaming()
        with disk.has("full"):
            connection.execute(
                "INSERT INTO audit (what) "
                "SELECT repeat('x', 1000) FROM generate_series(1, 5000)"
            )
            state = receiver.until(lambda state: state["state"] == "degraded")
            assert "No space left" in state["note"]
            time.sleep(2)
            assert receiver.process.poll() is None
        execute(own.dsn, "INSERT INTO item VALUES (1, 1)")
        connection.commit()
        receiver.until_streaming(after=end_of_wal(own.dsn))
        receiver.stop()
    check_log(own.dsn, log, Load.TABLES)


@pytest.mark.slow
def test_spool_that_is_full_for_too_long(
    own: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log, spool = tmp_path / "log", tmp_path / "spool"
    spool.mkdir()
    disk = Disk(spool)
    arguments = (*QUICK, "--spool-directory", str(spool), "--spool-memory", "1MiB")
    with (
        ReceiverProcess(
            own.dsn, log, *arguments, slot=slot, disk=disk, give_up_seconds=2
        ) as receiver,
        psycopg.connect(own.dsn) as connection,
        disk.has("full"),
    ):
        receiver.until_streaming()
        connection.execute(
            "INSERT INTO audit (what) "
            "SELECT repeat('x', 1000) FROM generate_series(1, 5000)"
        )
        code, text = receiver.wait()
        assert (code, "No space left" in text) == (1, True)
        connection.commit()
    receive_all(own.dsn, log, slot=slot)
    check_log(own.dsn, log, Load.TABLES)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system with little room."""
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(directory)]
    mounted = subprocess.run(mount, capture_output=True, text=True)  # noqa: S603, PLW1510
    if mounted.returncode != 0:
        pytest.skip(f"only root can mount a tmpfs: {mounted.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)  # noqa: S603, S607


def fill(directory: Path, left: int) -> Path:
    """Takes all room of a file system, except these bytes."""
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(file.tell() - left, 0))
    return ballast


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 300 << 10])
def test_room_that_comes_back(
    own: EmbeddedServer, slot: str, small: Path, left: int
) -> None:
    log = small / "log"
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot) as receiver:
        receiver.until_streaming()
        for seed in (21, 22):
            ballast = fill(small, left)
            with Load(own.dsn, seed=seed):
                state = receiver.until(lambda state: state["state"] == "degraded")
                assert "No space left" in state["note"]
                time.sleep(1)
                ballast.unlink()
                receiver.until_streaming()
        receiver.until_streaming(after=end_of_wal(own.dsn))
        receiver.stop()
    check_log(own.dsn, log, Load.TABLES)


@pytest.mark.slow
def test_kill_while_there_is_no_room(
    own: EmbeddedServer, slot: str, small: Path
) -> None:
    log = small / "log"
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot) as receiver:
        receiver.until_streaming()
        with Load(own.dsn, seed=23):
            time.sleep(1)
            ballast = fill(small, 64 << 10)
            receiver.until(lambda state: state["state"] == "degraded")
            receiver.kill()
    # There is no room to begin, either.
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot) as receiver:
        receiver.until(lambda state: "No space left" in (state["note"] or ""))
        ballast.unlink()
        receiver.until_streaming(after=end_of_wal(own.dsn))
    receive_all(own.dsn, log, slot=slot)
    check_log(own.dsn, log, Load.TABLES)
