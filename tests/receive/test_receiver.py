"""`walrow receive` on real servers: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from reference.transactions import Transaction, committed
from servers.receiving import (
    Feed,
    Load,
    drop_if_there,
    plain_stream,
)
from servers.recording import create_slot, record

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(3600 if os.environ.get("WALROW_SLOW") else 600),
]

#: For each server. make test has one of them.
KILLS = 400 if os.environ.get("WALROW_SLOW") else 16


@pytest.fixture
def audit(feed: Feed) -> Iterator[str]:
    """A slot with the same history, which only the test reads."""
    name = f"{feed.slot}_audit"
    create_slot(feed.dsn, name)
    yield name
    drop_if_there(feed.dsn, name)


def test_kills_lose_nothing_and_repeat_nothing(feed: Feed, audit: str) -> None:
    seed = int(os.environ.get("WALROW_KILL_SEED", time.time()))
    print(f"WALROW_KILL_SEED={seed}")  # noqa: T201
    random_ = random.Random(seed)  # noqa: S311
    killed = 0
    with Load(feed.dsn, seed) as load:
        for turn in range(KILLS):
            # First at each operation in turn, then at any.
            crash_at = turn + 1 if turn < 25 else random_.randint(1, 120)
            age = "0.01" if turn % 3 == 0 else "0.2"
            arguments = ("--publish-after", age, "--segment-size", "1MiB")
            if turn % 2:
                crash_at_, seconds = None, random_.uniform(0.3, 1.0)
            else:
                crash_at_, seconds = crash_at, 2.0
            with feed.receiver(*arguments, crash_at=crash_at_) as receiver:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    receiver.process.wait(seconds)
                killed += receiver.process.poll() in {None, -signal.SIGKILL}
                assert receiver.process.poll() in {None, -signal.SIGKILL}, (
                    receiver.wait(),
                    feed.server.log.read_text(errors="replace")[-2000:],
                )
    assert killed == KILLS
    assert load.transactions > 100
    feed.check_rest()
    # Every value of every change too, and not only the last one.
    expected = with_changes(record(feed.server, None, publication="p", slot=audit))
    assert with_changes(plain_stream(feed.log)) == expected
    assert len(expected) > 100


def with_changes(stream: bytes) -> list[Transaction]:
    """The transactions of a stream. Version 14 sends empty ones, too."""
    return [each for each in committed(stream) if each.changes]
