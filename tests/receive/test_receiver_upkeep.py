"""Retention and compaction of a log that a receiver writes, while it is killed now and then."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time

import pyarrow as pa
import pytest

import walrow
from servers.receiving import (
    Feed,
    Load,
)

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.mark.slow
def test_a_log_is_merged_while_it_is_received(feed: Feed) -> None:
    merged = 0
    seen: list[int] = []
    stop = threading.Event()

    def follow() -> None:
        with walrow.Log(feed.log).follow(
            table="walrow.transactions", poll_interval=0.3, reader="follower"
        ) as batches:
            for batch in batches:
                seen.extend(pa.record_batch(batch).column("commit_lsn").to_pylist())
                if stop.is_set():
                    return

    follower = threading.Thread(target=follow, daemon=True)
    with Load(feed.dsn, seed=5):
        for turn in range(8):
            with feed.receiver(
                "--publish-after", "0.01", "--segment-size", "1MiB"
            ) as receiver:
                receiver.until_streaming()
                until = time.monotonic() + 1.5
                while time.monotonic() < until:
                    with contextlib.suppress(FileNotFoundError):
                        opened = walrow.Log(feed.log)
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
        feed.receive_all()
    feed.receive_all()
    assert merged > 30
    feed.check()
    walrow.Log(feed.log).compact()
    feed.check()
    walrow.Log(feed.log).verify()
    assert len(walrow.Log(feed.log).segments()) < 40
    follower.join(20)
    assert not follower.is_alive()
    # In order, each once.
    assert seen == sorted(set(seen))
    every = [
        lsn
        for batch in walrow.read(feed.log, table="walrow.transactions")
        for lsn in pa.record_batch(batch).column("commit_lsn").to_pylist()
    ]
    assert seen == every[: len(seen)]
    (reader,) = walrow.Log(feed.log).readers()
    assert reader.position >= seen[0]


def test_a_receiver_keeps_what_is_asked_for(feed: Feed) -> None:
    with Load(feed.dsn, seed=6):
        feed.receive_all()
        time.sleep(1)
        feed.receive_all()
    walrow.Log(feed.log).register("slow", start=walrow.Log(feed.log).segments()[0].end)
    feed.receive(until="now", retain=walrow.log.Retention(age=0))
    assert walrow.Log(feed.log).start == walrow.Log(feed.log).readers()[0].position > 0
    walrow.Log(feed.log).forget("slow")
    feed.receive(until="now", retain=walrow.log.Retention(age=0))
    assert len({it.start for it in walrow.Log(feed.log).segments()}) == 1


def test_a_receiver_merges_what_it_published(feed: Feed) -> None:
    for number in range(4):
        feed.execute("INSERT INTO item SELECT count(*), 0 FROM item")
        # Each ends with a segment.
        feed.receive_all(*["--compact"] * (number == 3))
    # The writer continues at the last segment.
    merged, last = walrow.Log(feed.log).segments()
    assert (merged.part, last.part) == (1_000_000, 0)
    feed.check()
