"""`walrow receive` while the server, the connection or the disk fails."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import psycopg
import pytest

from servers import EmbeddedServer, Proxy
from servers.loads import stopped, until_copying
from servers.receiving import (
    QUICK,
    Disk,
    Feed,
    Load,
    ReceiverProcess,
    execute,
    slot_for_load,
    until,
)
from walrow._core import LogObjects
from walrow._log import requests as load_requests

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


@pytest.fixture
def feed(own: EmbeddedServer, tmp_path: Path) -> Iterator[Feed]:
    with slot_for_load(own) as slot:
        yield Feed(own, slot, tmp_path / "log")


def test_server_that_is_killed_under_load(feed: Feed) -> None:
    with feed.receiver(*QUICK) as receiver:
        with Load(feed.dsn, seed=1) as load:
            receiver.until_streaming()
            for _ in range(2):
                time.sleep(1)
                feed.server.restart("kill")
        # The receiver itself has noticed, and goes on.
        feed.finish(receiver)
    assert load.transactions > 20
    feed.check_rest()


def test_confirmed_position_that_went_back(feed: Feed) -> None:
    """The server writes a slot's position to disk at a checkpoint only."""
    feed.execute("CHECKPOINT")
    with Load(feed.dsn, seed=2):
        time.sleep(1)
    feed.receive_all()
    feed.server.restart("kill")
    feed.check_rest()


def test_shutdown_waits_for_the_receiver_only_shortly(feed: Feed) -> None:
    with feed.receiver(*QUICK) as receiver:
        with Load(feed.dsn, seed=3):
            receiver.until_streaming()
            time.sleep(1)
            begin = time.monotonic()
            feed.server.shut_down("fast")
            assert time.monotonic() - begin < 5
            state = receiver.until(lambda state: state["state"] == "connecting")
            assert state["note"] is None or "password" not in state["note"]
            feed.server.start()
        feed.finish(receiver)
    feed.check()


@pytest.mark.parametrize(
    ("fault", "rows"),
    [
        ("full", 1),
        *(
            pytest.param(*it, marks=pytest.mark.slow)
            for it in (("full", 30_000), ("stalled", 1), ("stalled", 30_000))
        ),
    ],
)
def test_shutdown_while_the_disk_takes_nothing(
    feed: Feed, fault: Literal["full", "stalled"], rows: int
) -> None:
    """The server waits for what it has sent. It sends that again to the next connection."""
    disk = Disk(feed.log)
    with feed.receiver(*QUICK, disk=disk) as receiver:
        receiver.until_streaming()
        with disk.has(fault):
            feed.execute(
                "INSERT INTO audit (what) SELECT repeat(md5(g::text), 30) "  # noqa: S608
                f"FROM generate_series(1, {rows}) g"
            )
            time.sleep(1)
            begin = time.monotonic()
            feed.server.shut_down("fast")
            assert time.monotonic() - begin < 10
            assert "the server is stopping" in receiver.output
            feed.server.start()
            receiver.until(lambda state: state["state"] != "connecting")
        feed.finish(receiver)
    feed.check()


@pytest.mark.slow
def test_shutdown_while_a_load_waits_for_a_lock(feed: Feed) -> None:
    with feed.receiver(*QUICK) as receiver:
        receiver.until_streaming()
        # It is not committed: the server ends it.
        with contextlib.closing(psycopg.connect(feed.dsn)) as other:
            other.execute("LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
            load_requests.request(feed.log, ["public.item"])
            receiver.until(lambda state: state["load"] is not None)
            feed.execute("INSERT INTO audit (what) VALUES ('x')")
            begin = time.monotonic()
            feed.server.shut_down("fast")
            assert time.monotonic() - begin < 10
        feed.server.start()
        feed.finish(receiver)
    feed.check()


@pytest.mark.slow
def test_connection_lives_while_the_disk_stalls(feed: Feed) -> None:
    """Four times as long as the server's wal_sender_timeout, with a full queue."""
    disk = Disk(feed.log)
    with feed.receiver(*QUICK, disk=disk) as receiver:
        receiver.until_streaming()
        pid = walsender(feed.server, feed.slot)
        with disk.has("stalled"), Load(feed.dsn, seed=4):
            feed.execute(
                "INSERT INTO audit (what) "
                "SELECT repeat('x', 1000000) FROM generate_series(1, 90)"
            )
            time.sleep(8)
            assert walsender(feed.server, feed.slot) == pid
        feed.until_all(receiver)
        assert walsender(feed.server, feed.slot) == pid
        receiver.stop()
    feed.check()


def test_stop_while_the_disk_stalls(feed: Feed) -> None:
    disk = Disk(feed.log)
    with feed.receiver(*QUICK, disk=disk) as receiver:
        receiver.until_streaming()
        with disk.has("stalled"), Load(feed.dsn, seed=5):
            time.sleep(1)
            assert receiver.stop() < 2.5
    feed.check_rest()


def test_stop_while_the_disk_and_the_server_stall(feed: Feed) -> None:
    """What the one takes from the two seconds is not there for the other one."""
    disk = Disk(feed.log)
    with (
        Proxy(feed.server) as proxy,
        feed.receiver(*QUICK, disk=disk, dsn=proxy.dsn) as receiver,
    ):
        receiver.until_streaming()
        with disk.has("stalled"), Load(feed.dsn, seed=11):
            time.sleep(1)
            proxy.stall()
            assert receiver.stop() < 2
    feed.check_rest()


def test_connections_that_are_cut_and_stalled_anywhere(feed: Feed) -> None:
    random_ = random.Random(6)  # noqa: S311
    with (
        Proxy(feed.server) as proxy,
        feed.receiver(*QUICK, dsn=proxy.dsn) as receiver,
    ):
        with Load(feed.dsn, seed=6):
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
        feed.finish(receiver)
    feed.check()


def test_full_disk(feed: Feed) -> None:
    disk = Disk(feed.log)
    with feed.receiver(*QUICK, disk=disk) as receiver:
        receiver.until_streaming()
        pid = walsender(feed.server, feed.slot)
        with Load(feed.dsn, seed=7):
            with disk.has("full"):
                state = receiver.until(lambda state: state["state"] == "degraded")
                assert "No space left" in state["note"]
                time.sleep(4)
                assert walsender(feed.server, feed.slot) == pid
            receiver.until_streaming()
        feed.until_all(receiver)
        assert walsender(feed.server, feed.slot) == pid
        receiver.stop()
    feed.check()


def test_disk_that_is_full_for_too_long(feed: Feed) -> None:
    disk = Disk(feed.log)
    with feed.receiver(*QUICK, disk=disk, give_up_seconds=2) as receiver:
        receiver.until_streaming()
        with disk.has("full"), Load(feed.dsn, seed=8):
            begin = time.monotonic()
            code, text = receiver.wait()
            assert 2 <= time.monotonic() - begin < 8
    assert code == 1
    assert "No space left" in text
    feed.check_rest()


@pytest.mark.parametrize(
    "gives_up", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_fsync_that_fails(feed: Feed, *, gives_up: bool) -> None:
    disk = Disk(feed.log)
    seconds = 2 if gives_up else None
    with feed.receiver(*QUICK, disk=disk, give_up_seconds=seconds) as receiver:
        receiver.until_streaming()
        with Load(feed.dsn, seed=9), disk.has("error"):
            state = receiver.until(lambda state: state["state"] == "degraded")
            assert "could not be made durable" in state["note"]
            time.sleep(3)
            if gives_up:
                code, text = receiver.wait()
                assert (code, "Input/output error" in text) == (1, True)
        if not gives_up:
            feed.finish(receiver)
    feed.check_rest()


def test_stop_while_the_disk_is_full(feed: Feed) -> None:
    disk = Disk(feed.log)
    with feed.receiver(*QUICK, disk=disk) as receiver:
        receiver.until_streaming()
        with disk.has("full"), Load(feed.dsn, seed=10):
            receiver.until(lambda state: state["state"] == "degraded")
            assert receiver.stop() < 2.5
        assert "No space left" in receiver.states[-1]["note"]
    feed.check_rest()


@pytest.mark.slow
@pytest.mark.parametrize("is_stopped", [True, False])
def test_load_that_is_given_up_while_the_disk_is_full(
    feed: Feed, *, is_stopped: bool
) -> None:
    """The thread that waits for the disk gives it up, and the server is answered meanwhile."""
    feed.execute(
        "DROP TABLE IF EXISTS big",
        "CREATE TABLE big AS SELECT g, repeat('x', 1500) t FROM generate_series(1, 20000) g",
        "ALTER PUBLICATION p ADD TABLE big",
    )
    disk = Disk(feed.log)
    arguments = ("--publish-after", "0.3", "--jobs", "1")
    with feed.receiver(*arguments, disk=disk) as receiver:
        receiver.until_streaming()
        pid = walsender(feed.server, feed.slot)
        request = load_requests.request(feed.log, ["public.big"], is_awaited=True)
        with stopped(until_copying(feed.server, "big")) as copying:
            feed.execute("INSERT INTO audit (what) VALUES (repeat('x', 900000))")
            feed.until_all(receiver)
            with disk.has("full"):
                feed.execute("INSERT INTO audit (what) VALUES ('x')")
                receiver.until(lambda state: state["state"] == "degraded")
                feed.execute(f"SELECT pg_terminate_backend({copying})")
                os.kill(copying, signal.SIGCONT)
                until(lambda: has_said(receiver, "a load was broken off"))
                # Twice as long as the server's wal_sender_timeout.
                time.sleep(4)
                state = receiver.until(lambda state: state["state"] == "degraded")
                assert "No space left" in state["note"]
                assert walsender(feed.server, feed.slot) == pid
                assert load_requests.result_of(LogObjects(feed.log), request) is None
                if is_stopped:
                    assert receiver.stop() < 2
        if not is_stopped:
            until(
                lambda: (
                    load_requests.result_of(LogObjects(feed.log), request) is not None
                )
            )
            assert walsender(feed.server, feed.slot) == pid
            receiver.stop()
    feed.receive_all(*arguments)
    result = load_requests.result_of(LogObjects(feed.log), request)
    assert result is not None
    assert result.failure is None
    feed.check([*Load.TABLES, "big"])
    feed.execute("DROP TABLE big")


def has_said(receiver: ReceiverProcess, words: str) -> bool:
    return any(words in (state["note"] or "") for state in receiver.states)


def walsender(server: EmbeddedServer, slot: str) -> int | None:
    """The process that serves a slot."""
    query = f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot}'"  # noqa: S608
    ((pid,),) = execute(server.dsn, query)
    return None if pid is None else int(pid)


def test_full_spool(feed: Feed, tmp_path: Path) -> None:
    """A large open transaction has no room. The others go on, and it comes later."""
    spool = tmp_path / "spool"
    spool.mkdir()
    disk = Disk(spool)
    arguments = (*QUICK, "--spool-directory", str(spool), "--spool-memory", "1MiB")
    with (
        feed.receiver(*arguments, disk=disk) as receiver,
        psycopg.connect(feed.dsn) as connection,
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
        feed.execute("INSERT INTO item VALUES (1, 1)")
        connection.commit()
        feed.finish(receiver)
    feed.check()


@pytest.mark.slow
def test_spool_that_is_full_for_too_long(feed: Feed, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    disk = Disk(spool)
    arguments = (*QUICK, "--spool-directory", str(spool), "--spool-memory", "1MiB")
    with (
        feed.receiver(*arguments, disk=disk, give_up_seconds=2) as receiver,
        psycopg.connect(feed.dsn) as connection,
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
    feed.check_rest()


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system with little room."""
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(directory)]
    mounted = subprocess.run(mount, capture_output=True, text=True)  # noqa: PLW1510, S603
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
def test_room_that_comes_back(feed: Feed, small: Path, left: int) -> None:
    feed = replace(feed, log=small / "log")
    with feed.receiver(*QUICK) as receiver:
        receiver.until_streaming()
        for seed in (21, 22):
            ballast = fill(small, left)
            with Load(feed.dsn, seed=seed):
                state = receiver.until(lambda state: state["state"] == "degraded")
                assert "No space left" in state["note"]
                time.sleep(1)
                ballast.unlink()
                receiver.until_streaming()
        feed.finish(receiver)
    feed.check()


@pytest.mark.slow
def test_kill_while_there_is_no_room(feed: Feed, small: Path) -> None:
    feed = replace(feed, log=small / "log")
    with feed.receiver(*QUICK) as receiver:
        receiver.until_streaming()
        with Load(feed.dsn, seed=23):
            time.sleep(1)
            ballast = fill(small, 64 << 10)
            receiver.until(lambda state: state["state"] == "degraded")
            receiver.kill()
    # There is no room to begin, either.
    with feed.receiver(*QUICK) as receiver:
        receiver.until(lambda state: "No space left" in (state["note"] or ""))
        ballast.unlink()
        feed.until_all(receiver)
    feed.check_rest()
