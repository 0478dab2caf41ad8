"""Where a connection begins, and what shows that a server is not the log's: pure decisions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import walrow
from logs import published, transactions
from walrow import Lsn
from walrow._log.stopped import read_stopped, refuse_stopped, stop
from walrow._receive.same_server import (
    Comparison,
    Last,
    asked_options,
    began_elsewhere,
    full_xid,
    plan_session,
    replaced,
    stream_arguments,
)
from walrow.errors import ReplicationError

GIVEN = {"messages": False, "two_phase": False, "origin": None, "binary": True}
LAST = Last(Lsn(0x4000), Lsn(0x3F00), 700, is_prepare=False)


def test_options_of_a_log_become_arguments() -> None:
    asked = asked_options(["b", "a", "b"], GIVEN)
    assert asked == asked_options(("a", "b"), GIVEN | {"origin": "any"})
    assert asked != asked_options(("a", "b"), GIVEN | {"messages": True})
    given = GIVEN | {"messages": True, "origin": "none", "binary": False}
    arguments = stream_arguments(asked, given)
    assert arguments == GIVEN | {"publications": ["a", "b"], "binary": False}


def test_messages_of_the_event_trigger_leave_streaming_on() -> None:
    asked = asked_options(["p"], GIVEN, has_trigger=True)
    assert json.loads(asked["messages"]) == "walrow.ddl"
    found = stream_arguments(asked, GIVEN | {"streaming": None})
    assert (found["messages"], found["streaming"]) == (True, True)
    assert not stream_arguments(asked, GIVEN | {"streaming": False})["streaming"]
    # With `messages`, all messages come, and large transactions come at their commit.
    given = GIVEN | {"messages": True, "streaming": None}
    asked = asked_options(["p"], given, has_trigger=True)
    found = stream_arguments(asked, given)
    assert (found["messages"], found["streaming"]) == (True, None)


@pytest.mark.parametrize("two_phase", [False, True])
def test_where_a_connection_begins(*, two_phase: bool) -> None:
    wanted = asked_options(["p"], GIVEN | {"two_phase": two_phase})
    known = wanted | {"publications": json.dumps(["q"])}
    arguments: dict[str, Any] = {"durable": Lsn(0x5000), "last": LAST, "wanted": wanted}

    def start(lsn: Lsn) -> Lsn:
        # Transactions that were prepared before are perhaps not saved.
        return Lsn(0) if two_phase else lsn

    for same in (wanted, {}):
        plan = plan_session(**arguments, known=same, was_compared=False)
        assert plan == (start(LAST.resent_from), Comparison.FIRST, wanted)
    plan = plan_session(**arguments, known=known, was_compared=False)
    assert plan == (start(LAST.resent_from), Comparison.ONLY, known)
    plan = plan_session(**arguments, known=known, was_compared=True)
    assert plan == (start(Lsn(0x5000)), Comparison.DONE, wanted)
    empty = arguments | {"durable": Lsn(0), "last": None}
    plan = plan_session(**empty, known=known, was_compared=False)
    assert plan == (Lsn(0), Comparison.FIRST, wanted)


@pytest.mark.parametrize(
    ("xid", "following", "full"),
    [
        (700, 701, 700),
        (701, 701, 701),
        (2**32 - 1, 2**32 + 5, 2**32 - 1),
        (3, 2**32 - 5, 2**32 + 3),
        (2**31 + 10, 2**33 + 9, 2**32 + 2**31 + 10),
        (2**31 + 8, 2**33 + 9, 2**33 + 2**31 + 8),
        (8, 5 * 2**32 + 9, 5 * 2**32 + 8),
    ],
)
def test_ids_of_64_bits(xid: int, following: int, full: int) -> None:
    assert full_xid(xid, following) == full


def test_what_shows_that_a_transaction_is_not_there() -> None:
    for status in ("aborted", "in progress", "future"):
        assert replaced(status, is_prepare=False) is not None
    assert replaced("committed", is_prepare=False) is None
    assert replaced(None, is_prepare=False) is None
    # It may have any end by now.
    assert replaced("aborted", is_prepare=True) is None
    assert replaced("in progress", is_prepare=True) is None
    assert replaced("future", is_prepare=True) is not None


def test_where_timelines_began() -> None:
    history = [(1, Lsn(0x1000), ""), (2, Lsn(0x2000), ""), (4, Lsn(0x3000), "")]
    assert began_elsewhere(5, Lsn(0x3000), 5, history) is None
    assert began_elsewhere(5, Lsn(0x2FF0), 5, history) == (Lsn(0x2FF0), Lsn(0x3000))
    # Promoted again since.
    assert began_elsewhere(2, Lsn(0x1000), 5, history) is None
    assert began_elsewhere(2, Lsn(0x1FF0), 5, history) == (Lsn(0x1FF0), Lsn(0x1000))
    # Not known, or another case.
    assert began_elsewhere(3, Lsn(0x2000), 5, history) is None
    assert began_elsewhere(2, None, 5, history) is None
    assert began_elsewhere(1, None, 1, []) is None
    assert began_elsewhere(2, Lsn(0x1000), 2, []) is None


def test_a_log_that_must_not_go_on(tmp_path: Path) -> None:
    refuse_stopped(tmp_path / "new", "s")
    refuse_stopped(tmp_path, "s")
    stop(tmp_path, "first")
    stop(tmp_path, "second")
    found = read_stopped(tmp_path)
    assert found is not None
    assert found.reason == "first"
    with pytest.raises(ReplicationError, match=r"first.*walrow log resume"):
        refuse_stopped(tmp_path, "s")
    (tmp_path / "_stopped").write_text("{")
    with pytest.raises(ReplicationError, match="must not go on"):
        refuse_stopped(tmp_path, "s")


def test_a_log_goes_on_after_its_stop_is_removed(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(1))
    assert log.resume() is None
    stop(log.path, "it was another server")
    # Its readers go on, and so does maintenance.
    assert walrow.Log(log.path).verify() == []
    assert walrow.Log(log.path).prune(log.end) == 0
    found = walrow.Log(log.path).resume()
    assert found is not None
    assert found.startswith("it was another server (at ")
    refuse_stopped(log.path, "s")
