"""Retention and compaction of a log that a receiver writes, while it is killed now and then."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import (
    Load,
    ReceiverProcess,
    check_log,
    execute,
    receive_all,
    slot_for_load,
)

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.fixture
def slot(server: EmbeddedServer) -> Iterator[str]:
    with slot_for_load(server) as name:
        yield name


@pytest.mark.slow
def test_a_log_is_merged_while_it_is_received(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    merged = 0
    seen: list[int] = []
    stop = threading.Event()

    def follow() -> None:
        with walrow.Log(log).follow(
            table="walrow.transactions", poll_interval=0.3, reader="follower"
        ) as batches:
            for batch in batches:
                seen.extend(pa.record_batch(batch).column("commit_lsn").to_pylist())
                if stop.is_set():
                    return

    follower = threading.Thread(target=follow, daemon=True)
    with Load(server.dsn, seed=5):
        for turn in range(8):
            with ReceiverProcess(
                server.dsn,
                log,
                "--publish-after",
                "0.01",
                "--segment-size",
                "1MiB",
                slot=slot,
            ) as receiver:
                receiver.until_streaming()
                until = time.monotonic() + 1.5
                while time.monotonic() < until:
                    with contextlib.suppress(FileNotFoundError):
                        opened = walrow.Log(log)
                        merged += opened.compact(segment_size=3_000_000).segments
                        if not follower.is_alive():
                            follower.start()
                    time.sleep(0.02)
                assert receiver.process.poll() is None, receiver.wait()
                if turn % 3:
                    receiver.process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    receiver.process.wait(0.1)
        stop.set()
        receive_all(server.dsn, log, slot=slot)
    receive_all(server.dsn, log, slot=slot)
    assert merged > 30
    check_log(server.dsn, log, Load.TABLES)
    walrow.Log(log).compact()
    check_log(server.dsn, log, Load.TABLES)
    walrow.Log(log).verify()
    assert len(walrow.Log(log).segments()) < 40
    follower.join(20)
    assert not follower.is_alive()
    # In order, each once.
    assert seen == sorted(set(seen))
    every = [
        lsn
        for batch in walrow.read(log, table="walrow.transactions")
        for lsn in pa.record_batch(batch).column("commit_lsn").to_pylist()
    ]
    assert seen == every[: len(seen)]
    (reader,) = walrow.Log(log).readers()
    assert reader.position >= seen[0]


def test_a_receiver_keeps_what_is_asked_for(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with Load(server.dsn, seed=6):
        receive_all(server.dsn, log, slot=slot)
        time.sleep(1)
        receive_all(server.dsn, log, slot=slot)
    walrow.Log(log).register("slow", start=walrow.Log(log).segments()[0].end)
    walrow.receive(
        server.dsn,
        log=log,
        slot=slot,
        publications="p",
        until="now",
        retain=walrow.log.Retention(age=0),
    )
    assert walrow.Log(log).start == walrow.Log(log).readers()[0].position > 0
    walrow.Log(log).forget("slow")
    walrow.receive(
        server.dsn,
        log=log,
        slot=slot,
        publications="p",
        until="now",
        retain=walrow.log.Retention(age=0),
    )
    assert len({it.start for it in walrow.Log(log).segments()}) == 1


def test_a_receiver_merges_what_it_published(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    for number in range(4):
        execute(server.dsn, "INSERT INTO item SELECT count(*), 0 FROM item")
        # Each ends with a segment.
        receive_all(server.dsn, log, *["--compact"] * (number == 3), slot=slot)
    # The writer continues at the last segment.
    merged, last = walrow.Log(log).segments()
    assert (merged.part, last.part) == (1_000_000, 0)
    check_log(server.dsn, log, Load.TABLES)
