"""A receiver of a standby, which is promoted while it streams."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from servers import EmbeddedServer, Standby
from servers.receiving import Feed, execute
from walrow.log import Status

pytestmark = pytest.mark.timeout(120)


@pytest.mark.live
@pytest.mark.parametrize(
    ("interval", "is_changed"),
    [
        pytest.param(0.5, True, id="noticed"),
        pytest.param(0.5, False, marks=pytest.mark.slow, id="noticed without a change"),
        pytest.param(60.0, True, marks=pytest.mark.slow, id="stopped at once"),
    ],
)
def test_a_standby_that_is_promoted_while_it_streams(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    interval: float,
    *,
    is_changed: bool,
) -> None:
    """Its walsender goes on. The log must not have the new timeline's changes as the old one's."""
    monkeypatch.setattr("walrow._receive.watch._TIMELINE_SECONDS", interval)
    with EmbeddedServer(18) as primary, Standby(primary) as standby:
        execute(
            primary.dsn,
            "CREATE TABLE item (id int PRIMARY KEY)",
            "CREATE PUBLICATION p FOR TABLE item",
        )
        feed = Feed(standby, "s", tmp_path / "log")
        with feed.receiving(create=True) as receiver:
            states = receiver.states
            until(lambda: is_streaming(states), primary)
            execute(primary.dsn, "INSERT INTO item VALUES (1)")
            until(lambda: states[-1].transactions == 1)
            execute(standby.dsn, "SELECT pg_promote()")
            if is_changed:
                execute(standby.dsn, "INSERT INTO item VALUES (2)")
                until(lambda: states[-1].transactions == 2)
            if interval < 1:
                until(lambda: any("timeline 2" in (it.note or "") for it in states))
                until(lambda: is_streaming(states))
            else:
                assert not any("timeline 2" in (it.note or "") for it in states)
        assert receiver.failure is None, receiver.failure
        feed.receive_now()
        execute(standby.dsn, "INSERT INTO item VALUES (3)")
        feed.receive_now()
        feed.check(["item"])


def is_streaming(states: list[Status]) -> bool:
    return bool(states) and states[-1].state == "streaming"


def until(is_so: Callable[[], bool], primary: EmbeddedServer | None = None) -> None:
    """Waits until something is so. A slot of a standby needs what the primary logs."""
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        if primary is not None:
            execute(primary.dsn, "SELECT pg_log_standby_snapshot()")
        time.sleep(0.1)
